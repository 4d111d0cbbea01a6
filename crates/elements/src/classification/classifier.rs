//! Classifier's patterns: `offset/value%mask` clauses over packet data.

use super::diagnostic::{Compiled, Diagnostics};
use super::expression::{Expression, Joint};
use super::instruction::{Layout, Test};
use super::program::Program;
use super::rules::Rules;
use crate::prelude::*;

/// The largest offset (in bytes) that a clause may reach.
const MAX_OFFSET: u32 = 65_528;

/// Compiles a Classifier: pattern `n` leads to output `n`.
///
/// A pattern is a list of clauses joined by spaces, all of which must match:
/// `offset/value` or `offset/value%mask`, the offset in decimal, value and
/// mask in an even number of hexadecimal digits, `?` being a digit that is
/// not compared; `!` in front negates a clause. `-` matches every packet.
///
/// `align` is the offset of the packet data from a four-byte boundary (0
/// unless AlignmentInfo says otherwise); it only changes how comparisons are
/// grouped in the program's text.
///
/// # Errors
/// Every mistake in every pattern, in order, in Click's words.
pub fn classifier<P: AsRef<str>>(patterns: &[P], align: u8) -> Result<Compiled, Diagnostics> {
    let outputs: Vec<_> = (0..patterns.len() as u32).map(Some).collect();
    classifier_to(patterns, &outputs, align)
}

/// As [`classifier`], with pattern `n` leading to the output in `outputs[n]`, or nowhere.
///
/// # Errors
/// As [`classifier`].
pub fn classifier_to<P: AsRef<str>>(
    patterns: &[P],
    outputs: &[Option<u32>],
    align: u8,
) -> Result<Compiled, Diagnostics> {
    let (rules, expressions) = parse(patterns, outputs, align)?;
    Ok(Program::compile_warning(
        rules,
        &expressions,
        patterns.len(),
    ))
}

/// Parses a Classifier's patterns.
pub(super) fn parse<P: AsRef<str>>(
    patterns: &[P],
    outputs: &[Option<u32>],
    align: u8,
) -> Result<(Rules, Vec<Expression>), Diagnostics> {
    let align = u16::from(align % 4);
    let mut diagnostics = Diagnostics::default();
    let mut rules = Rules::new(Layout::Data { align });
    let mut expressions = Vec::with_capacity(patterns.len());
    for (number, pattern) in patterns.iter().enumerate() {
        let mut reader = PatternReader {
            text: pattern.as_ref().as_bytes(),
            at: 0,
            pattern: number,
            align: u32::from(align),
            expression: Expression::default(),
            diagnostics: &mut diagnostics,
        };
        reader.read();
        rules.push(&reader.expression, outputs.get(number).copied().flatten());
        expressions.push(reader.expression);
    }
    if diagnostics.has_errors() {
        return Err(diagnostics);
    }
    Ok((rules, expressions))
}

struct PatternReader<'a> {
    text: &'a [u8],
    at: usize,
    pattern: usize,
    align: u32,
    expression: Expression,
    diagnostics: &'a mut Diagnostics,
}

impl PatternReader<'_> {
    fn read(&mut self) {
        let mark = self.expression.open();
        if self.text == b"-" {
            self.at = 1;
        }
        loop {
            self.skip_space();
            if self.at == self.text.len() {
                break;
            }
            if let Err(message) = self.clause() {
                self.error(message);
                break;
            }
        }
        self.expression.close_all(mark);
    }

    fn error(&mut self, message: &str) {
        self.diagnostics.error(Some(self.pattern), message);
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self
            .peek()
            .is_some_and(|b| b.is_ascii_whitespace() || b == 11)
        {
            self.at += 1;
        }
    }

    /// Skips hexadecimal digits and `?`, and returns them.
    fn digits(&mut self) -> core::ops::Range<usize> {
        let start = self.at;
        while self
            .peek()
            .is_some_and(|b| b.is_ascii_hexdigit() || b == b'?')
        {
            self.at += 1;
        }
        start..self.at
    }

    /// Reads one clause; an error here ends the pattern.
    fn clause(&mut self) -> Result<(), &'static str> {
        let negated = self.peek() == Some(b'!');
        if negated {
            self.at += 1;
            self.skip_space();
        }
        let offset = self.offset()?;
        if self.peek() != Some(b'/') {
            return Err("expected ‘/’");
        }
        self.at += 1;
        let mut value = self.digits();
        let mut mask = None;
        if self.peek() == Some(b'%') {
            self.at += 1;
            mask = Some(self.digits());
        }
        if value.len() < 2 {
            self.error("value has less than 2 hex digits");
            value.end = value.start;
            mask = mask.map(|mask| mask.start..mask.start);
        }
        if !value.len().is_multiple_of(2) {
            self.error("value has odd number of hex digits");
            value.end -= 1;
            mask = mask.map(|mask| mask.start..mask.end.saturating_sub(1).max(mask.start));
        }
        if let Some(mask) = mask.as_ref().filter(|mask| mask.len() != value.len()) {
            let many = if mask.len() > value.len() {
                "many"
            } else {
                "few"
            };
            self.error(&format!("mask has too {many} hex digits"));
            return Ok(());
        }
        let length = (value.len() / 2) as u32;
        let Some(offset) = offset.filter(|offset| offset + length <= MAX_OFFSET) else {
            self.error(&format!("offset out of range, bound {MAX_OFFSET}"));
            return Ok(());
        };
        self.push_clause(offset, value, mask, negated);
        Ok(())
    }

    /// Reads a decimal offset; `None` when it is beyond [`MAX_OFFSET`].
    fn offset(&mut self) -> Result<Option<u32>, &'static str> {
        if !self.peek().is_some_and(|b| b.is_ascii_digit()) {
            return Err("expected a digit");
        }
        let mut offset = 0u32;
        while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
            offset = offset
                .saturating_mul(10)
                .saturating_add((digit - b'0').into());
            self.at += 1;
        }
        Ok((offset <= MAX_OFFSET).then_some(offset))
    }

    fn push_clause(
        &mut self,
        offset: u32,
        value: core::ops::Range<usize>,
        mask: Option<core::ops::Range<usize>>,
        negated: bool,
    ) {
        let mark = self.expression.open();
        let first = offset + self.align;
        let mut word: Option<Test> = None;
        for i in 0..value.len() / 2 {
            let at = first + i as u32;
            if at.is_multiple_of(4)
                && let Some(done) = word.take()
            {
                self.expression.push_test(done);
            }
            let (v, mut m) = byte(&self.text[value.start + 2 * i..]);
            if let Some(mask) = &mask {
                let (given, compared) = byte(&self.text[mask.start + 2 * i..]);
                m &= given & compared;
            }
            let shift = 24 - 8 * (at % 4);
            let test = word.get_or_insert(Test::new((at / 4 * 4) as u16, 0, 0));
            test.mask |= u32::from(m) << shift;
            test.value |= u32::from(v & m) << shift;
        }
        if let Some(last) = word {
            self.expression.push_test(last);
        }
        self.expression.close(mark, Joint::And);
        if negated {
            self.expression.negate(mark);
        }
    }
}

/// The value and the compared bits of the two digits that `text` begins with.
fn byte(text: &[u8]) -> (u8, u8) {
    let nibble = |digit: u8| match (digit as char).to_digit(16) {
        Some(value) => (value as u8, 0xf),
        None => (0, 0),
    };
    let ((vh, mh), (vl, ml)) = (nibble(text[0]), nibble(text[1]));
    (vh << 4 | vl, mh << 4 | ml)
}
