//! The grammar of IP patterns.
//!
//! ```text
//! expr   ::= orexpr | orexpr ? expr : expr
//! orexpr ::= term | orexpr or term          (or ||)
//! term   ::= factor | term and factor       (or &&, or nothing in between)
//! factor ::= not factor | ( expr ) | test   (or !)
//! test   ::= true | false | qualifiers [relation] value
//! ```
//!
//! The parser keeps its own stack and stops at [`MAX_DEPTH`], so that no
//! pattern can exhaust the program's. After an error it continues, to report
//! further errors of the same pattern.

mod values;

use super::expression::{Expression, Joint, Mark};
use super::instruction::Test;
use super::ip_primitive::{Field, HeaderWord, ICMP6, Kind, Primitive, Relation, Reporter, Side};
use super::names::KnownWords;
use crate::prelude::*;

/// How deep parentheses and negations may nest.
const MAX_DEPTH: usize = 512;

pub(super) struct Parser<'a, 'r> {
    pub words: &'a [&'r str],
    pub names: &'a mut KnownWords<'r>,
    pub report: Reporter<'a>,
    pub out: &'a mut Expression,
    previous: Primitive,
}

/// An unfinished rule of the grammar.
struct Frame {
    state: State,
    mark: Mark,
    /// Start of the part being parsed.
    part: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the start of an expression; behind its condition or last branch;
    /// behind a middle branch.
    Expr,
    ExprTail,
    ExprMiddle,
    Or,
    OrTail,
    Term,
    /// Behind a factor that an `and` demanded; behind any other.
    TermDemanded,
    TermTail,
    /// At a factor to be negated or not; behind its operand; behind its
    /// parenthesis.
    Factor(bool),
    FactorNot,
    FactorParen(bool),
}

/// The meaning of a word where a value is expected.
enum Lookup {
    Unknown,
    /// An error was reported.
    Wrong,
    Type(Kind),
    Value(Kind, u32),
}

impl<'a, 'r> Parser<'a, 'r> {
    pub(super) fn new(
        words: &'a [&'r str],
        names: &'a mut KnownWords<'r>,
        report: Reporter<'a>,
        out: &'a mut Expression,
    ) -> Parser<'a, 'r> {
        Parser {
            words,
            names,
            report,
            out,
            previous: Primitive::default(),
        }
    }

    fn word(&self, at: usize) -> &'r str {
        self.words.get(at).copied().unwrap_or("")
    }

    fn is(&self, at: usize, spellings: [&str; 2]) -> bool {
        at < self.words.len() && spellings.contains(&self.word(at))
    }

    /// Parses an expression; returns the position behind it.
    pub(super) fn expression(&mut self, mut at: usize) -> usize {
        let mut stack = Vec::new();
        let mut next = Some(State::Expr);
        let mut depth = 0;
        loop {
            if let Some(state) = next {
                depth += usize::from(matches!(state, State::Factor(_)));
                if depth > MAX_DEPTH {
                    let text = format!("expression nests more than {MAX_DEPTH} levels deep");
                    self.report.error(text);
                    return self.words.len();
                }
                let mark = self.out.open();
                stack.push(Frame {
                    state,
                    mark,
                    part: at,
                });
            } else if let Some(done) = stack.pop() {
                let factor = matches!(
                    done.state,
                    State::Factor(_) | State::FactorNot | State::FactorParen(_)
                );
                depth -= usize::from(factor);
            }
            let Some(frame) = stack.last_mut() else {
                return at;
            };
            next = self.step(frame, &mut at);
            frame.part = if next.is_some() { at } else { frame.part };
        }
    }

    /// Advances one frame: returns the state to enter inside it, or `None` when
    /// it is finished.
    fn step(&mut self, frame: &mut Frame, at: &mut usize) -> Option<State> {
        let stuck = *at == frame.part;
        match frame.state {
            State::Expr => {
                frame.state = State::ExprTail;
                Some(State::Or)
            }
            State::ExprTail => {
                if self.is(*at, ["?", "?"]) {
                    *at += 1;
                    frame.state = State::ExprMiddle;
                    return Some(State::Expr);
                }
                self.out.close(frame.mark, Joint::Ternary);
                None
            }
            State::ExprMiddle => {
                if stuck || !self.is(*at, [":", ":"]) {
                    self.report.error("missing ‘:’ in ternary expression");
                    self.out.close(frame.mark, Joint::Ternary);
                    return None;
                }
                *at += 1;
                frame.state = State::ExprTail;
                Some(State::Or)
            }
            State::Or => {
                frame.state = State::OrTail;
                Some(State::Term)
            }
            State::OrTail => {
                if self.is(*at, ["or", "||"]) {
                    *at += 1;
                    return Some(State::Term);
                }
                self.out.close(frame.mark, Joint::Or);
                None
            }
            State::Term => {
                frame.state = State::TermDemanded;
                Some(State::Factor(false))
            }
            State::TermDemanded | State::TermTail => self.term_tail(frame, at, stuck),
            State::Factor(negated) => self.factor(frame, at, negated),
            State::FactorNot => {
                if stuck {
                    let word = self.word(*at - 1);
                    self.report
                        .error(format!("missing expression after ‘{word}’"));
                }
                None
            }
            State::FactorParen(negated) => {
                if stuck {
                    self.report.error("missing expression after ‘(’");
                }
                if self.is(*at, [")", ")"]) {
                    *at += 1;
                } else if !stuck {
                    self.report.error("missing ‘)’");
                }
                if negated {
                    self.out.negate(frame.mark);
                }
                None
            }
        }
    }

    fn term_tail(&mut self, frame: &mut Frame, at: &mut usize, stuck: bool) -> Option<State> {
        if stuck {
            if frame.state == State::TermDemanded {
                self.report.error("missing expression");
            }
            self.out.close(frame.mark, Joint::And);
            return None;
        }
        if self.is(*at, ["and", "&&"]) {
            *at += 1;
            frame.state = State::TermDemanded;
        } else {
            frame.state = State::TermTail;
        }
        Some(State::Factor(false))
    }

    fn factor(&mut self, frame: &mut Frame, at: &mut usize, negated: bool) -> Option<State> {
        if self.is(*at, ["not", "!"]) {
            *at += 1;
            frame.state = State::FactorNot;
            return Some(State::Factor(!negated));
        }
        if self.is(*at, ["(", "("]) {
            *at += 1;
            frame.state = State::FactorParen(negated);
            return Some(State::Expr);
        }
        *at = self.test(*at, negated);
        None
    }

    /// Parses one test; returns the position behind it.
    fn test(&mut self, first: usize, mut negated: bool) -> usize {
        let mark = self.out.open();
        match self.word(first) {
            "" | ")" | "||" | "or" | "?" | ":" => return first,
            constant @ ("true" | "false") => {
                self.out.push_test(Test::ALWAYS);
                if negated != (constant == "false") {
                    self.out.negate(mark);
                }
                return first + 1;
            }
            _ => {}
        }
        let mut primitive = Primitive {
            both: self.names.both,
            ..Primitive::default()
        };
        let mut header = None;
        let mut at = self.qualifiers(first, &mut primitive, &mut header, &mut negated);
        if at != first {
            self.previous = Primitive::default();
        }
        if self.previous.data == Kind::Ether {
            header = Some(HeaderWord::Ether);
        }
        // An operator cannot be the last word.
        let last = self.words.len().saturating_sub(1);
        let operator = |this: &Self, at: usize| if at < last { this.word(at) } else { "" };

        if operator(self, at) == "[" && at > first && primitive.kind == Kind::None {
            at = self.brackets(at, &mut primitive);
        }
        let mut mask = None;
        if operator(self, at) == "&" {
            mask = self.mask(self.word(at + 1), header);
            at += if mask.is_some() { 2 } else { 0 };
            if mask.is_some_and(|m| m.kind != Kind::Ether && m.bytes[..4] == [0; 4]) {
                self.report.error("zero mask ignored");
                mask = None;
            }
        }
        if let Some((relation, turned)) = relation(operator(self, at)) {
            primitive.relation = relation;
            primitive.negated = turned;
            at += 1;
        }
        if at < self.words.len() {
            if self.value(at, &mut primitive, header) {
                at += 1;
                at += self.trailing_mask(at, &mut primitive);
            } else if let Some(why) = primitive.wrong_value(self.word(at)) {
                self.report.error(why);
                return self.words.len();
            }
        }
        if at == first {
            let word = self.word(at);
            self.report.error(format!("empty term near ‘{word}’"));
            return at;
        }
        let checked = primitive.check(&self.previous, header, mask, &mut self.report);
        if checked.is_ok() {
            primitive.compile(self.out);
            if negated {
                self.out.negate(mark);
            }
            self.previous = primitive;
        }
        at
    }

    /// Collects the words in front of a value; returns the position behind.
    fn qualifiers(
        &mut self,
        mut at: usize,
        primitive: &mut Primitive,
        header: &mut Option<HeaderWord>,
        negated: &mut bool,
    ) -> usize {
        while at < self.words.len() {
            let word = self.word(at);
            match self.lookup(word, Kind::None, None, false) {
                Lookup::Type(mut kind) => {
                    let is_icmp6 = primitive.protocol == Some(ICMP6);
                    if kind == Kind::Field(Field::ICMP_TYPE) && is_icmp6 {
                        kind = Kind::Field(Field::ICMP6_TYPE);
                    }
                    primitive.set_kind(kind, &mut self.report);
                    if let Kind::Field(field) = kind
                        && field.protocol != 0
                    {
                        primitive.set_protocol(field.protocol, &mut self.report);
                    }
                }
                Lookup::Value(Kind::Proto, number) => {
                    primitive.set_protocol(number as i32, &mut self.report);
                }
                Lookup::Value(..) | Lookup::Wrong => break,
                Lookup::Unknown => match word {
                    "src" => {
                        let (side, length) = self.source_side(at);
                        primitive.set_side(side, &mut self.report);
                        at += length - 1;
                    }
                    "dst" | "dest" => {
                        primitive.set_side(Side::Destination, &mut self.report);
                    }
                    "ip" if header.is_none() => *header = Some(HeaderWord::Ip),
                    "ether" if header.is_none() => *header = Some(HeaderWord::Ether),
                    "not" | "!" => *negated = !*negated,
                    _ => break,
                },
            }
            at += 1;
        }
        at
    }

    /// `src`, `src and dst` or `src or dst`, and how many words it took.
    fn source_side(&self, at: usize) -> (Side, usize) {
        if self.is(at + 2, ["dst", "dest"]) {
            if self.is(at + 1, ["and", "&&"]) {
                return (Side::Both, 3);
            }
            if self.is(at + 1, ["or", "||"]) {
                return (Side::Either, 3);
            }
        }
        (Side::Source, 1)
    }
}

/// A relation, and whether it is negated.
fn relation(word: &str) -> Option<(Relation, bool)> {
    Some(match word {
        "=" | "==" => (Relation::Equal, false),
        "!=" => (Relation::Equal, true),
        ">" => (Relation::Greater, false),
        "<" => (Relation::Less, false),
        ">=" => (Relation::Less, true),
        "<=" => (Relation::Greater, true),
        _ => return None,
    })
}
