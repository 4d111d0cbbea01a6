//! `sprintf` for scripts, as Click's does it: C's conversions, less those for floating-point numbers
//! and characters, and with some rules of Click's own.
//!
//! `*` is refused. `0` pads in spite of `-` or a precision. A sign is put before unsigned numbers,
//! too. `#` puts a 0 before an octal number unless its second digit is one.

use core::iter::{Copied, Peekable};
use core::slice::Iter;

use click::config;

use super::words::Words;
use crate::prelude::*;

/// Widths and precisions beyond this are cut to it: a script may not fill the memory.
const WIDEST: usize = 4096;
/// The same for the widths of numbers, and for their precisions.
const NUMBER_WIDEST: usize = 128;
const DIGITS_MOST: usize = 124;

/// One conversion: what stands between `%` and its letter.
#[derive(Default)]
struct Conversion {
    left: bool,
    zero: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
    /// `h`: 16 bits count.
    short: bool,
}

fn syntax() -> String {
    "syntax error".to_string()
}

/// Formats the words after the first as the first, unquoted, says.
pub(super) fn sprintf(mut words: Words<'_>) -> Result<String, String> {
    let pattern = config::unquote(words.next());
    let mut result = Vec::new();
    let mut letters = pattern.iter().copied().peekable();
    while let Some(letter) = letters.next() {
        if letter != b'%' {
            result.push(letter);
            continue;
        }
        let conversion = Conversion::parse(&mut letters);
        let letter = letters.next().ok_or_else(syntax)?;
        result.extend(conversion.convert(letter, &mut words)?);
    }
    match words.0 {
        "" => Ok(click::text::decode(&result).into_owned()),
        _ => Err(syntax()),
    }
}

/// The rest of a pattern.
type Letters<'p> = Peekable<Copied<Iter<'p, u8>>>;

/// A number in the pattern, if one stands there.
fn number(letters: &mut Letters<'_>) -> Option<usize> {
    let mut value = None;
    while let Some(digit) = letters.next_if(u8::is_ascii_digit) {
        let more = value.unwrap_or(0usize).saturating_mul(10);
        value = Some(more.saturating_add(usize::from(digit - b'0')));
    }
    value
}

impl Conversion {
    fn parse(letters: &mut Letters<'_>) -> Self {
        let mut conversion = Conversion::default();
        while let Some(flag) = letters.next_if(|letter| b"0#- +".contains(letter)) {
            match flag {
                b'0' => conversion.zero = true,
                b'#' => conversion.alternate = true,
                b'-' => conversion.left = true,
                b' ' => conversion.space = true,
                _ => conversion.plus = true,
            }
        }
        conversion.width = number(letters).unwrap_or(0).min(WIDEST);
        if letters.next_if_eq(&b'.').is_some() {
            conversion.precision = number(letters).map(|most| most.min(WIDEST));
        }
        while let Some(size) = letters.next_if(|letter| b"hlLq".contains(letter)) {
            conversion.short = size == b'h';
        }
        conversion
    }

    fn convert(&self, letter: u8, words: &mut Words<'_>) -> Result<Vec<u8>, String> {
        Ok(match letter {
            b'%' => self.pad(b"%", self.width),
            b's' => {
                let bytes = config::string(words.next()).ok_or_else(syntax)?;
                let most = self.precision.unwrap_or(usize::MAX).min(bytes.len());
                self.pad(&bytes[..most], self.width)
            }
            b'd' | b'i' => {
                let value: i64 = words.parse()?;
                let value = if self.short {
                    (value as i16).into()
                } else {
                    value
                };
                self.number(value < 0, value.unsigned_abs(), letter)
            }
            b'o' | b'x' | b'X' | b'u' => {
                let value: u64 = words.parse()?;
                let value = if self.short { value & 0xffff } else { value };
                self.number(false, value, letter)
            }
            _ => return Err(syntax()),
        })
    }

    /// A number: zeros, then what `#` puts before it, then its sign, then spaces.
    fn number(&self, negative: bool, value: u64, letter: u8) -> Vec<u8> {
        let width = self.width.min(NUMBER_WIDEST);
        let sign = match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (.., true) => " ",
            _ => "",
        };
        let hexadecimal = match letter {
            b'x' if self.alternate && value > 0 => "0x",
            b'X' if self.alternate && value > 0 => "0X",
            _ => "",
        };
        let digits = match letter {
            b'o' => format!("{value:o}"),
            b'x' => format!("{value:x}"),
            b'X' => format!("{value:X}"),
            _ => value.to_string(),
        };
        let least = match self.precision {
            Some(precision) => precision.min(DIGITS_MOST),
            None if self.zero => width.saturating_sub(sign.len() + hexadecimal.len()),
            None => 0,
        };
        let digits = format!("{digits:0>least$}");
        let octal = match digits.as_bytes().get(1) {
            Some(b'0') => "",
            _ if self.alternate && letter == b'o' => "0",
            _ => "",
        };
        let text = format!("{sign}{hexadecimal}{octal}{digits}");
        self.pad(text.as_bytes(), width)
    }

    fn pad(&self, text: &[u8], width: usize) -> Vec<u8> {
        let fill = if self.zero && !self.left { b'0' } else { b' ' };
        let padding = alloc::vec![fill; width.saturating_sub(text.len())];
        match self.left {
            true => [text, &padding].concat(),
            false => [&padding, text].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(text: &str) -> Result<String, String> {
        sprintf(Words(text))
    }

    #[test]
    fn conversions_are_as_in_click() {
        for (text, expected) in [
            ("\"%05x\" 127", "0007f"),
            ("\"%d|%i|%u\" -1 2 3", "-1|2|3"),
            ("\"%-5d|%5d|%+d|% d\" 3 4 5 6", "3    |    4|+5| 6"),
            ("\"%#x %#X %#x %o\" 255 255 0 8", "0xff 0XFF 0 10"),
            ("\"%#o %#o %#o %#.3o\" 7 8 0 8", "07 10 00 0010"),
            (
                "\"%08d|%-08d|%-08d\" -42 42 -42",
                "-0000042|00000042|-0000042",
            ),
            ("\"%05.3d|%-05.3d|%#08x\" 7 7 255", "00007|007  |0x0000ff"),
            ("\"%+u|%+x|%+.3d\" 5 5 7", "+5|+5|+007"),
            (
                "\"%5s|%-5s|%05s|%.2s|%.s\" ab cd ab \"e f\" gh",
                "   ab|cd   |000ab|e |gh",
            ),
            (
                "\"%hd %hu %lhd %hld\" 65537 65537 65537 65537",
                "1 1 1 65537",
            ),
            ("\"%lld%%%3%\" 9", "9%  %"),
            (
                "\"%.d|%.0d|%u\" 5 0 18446744073709551615",
                "5|0|18446744073709551615",
            ),
            ("plain", "plain"),
            // Widths and precisions count bytes.
            ("\"é%5s|%.1s\\<ff>\" é é", "é   é|\u{efc3}\u{efff}"),
        ] {
            assert_eq!(format(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_a_syntax_error() {
        for text in [
            "\"%d\"",
            "\"%d\" x",
            "\"%d\" 1 2",
            "\"%u\" -1",
            "\"%x\" -1",
            "\"%*s\" 5 ab",
            "\"%.*d\" 3 7",
            "\"%f\" 1",
            "\"%\"",
            "x y",
        ] {
            assert_eq!(format(text), Err("syntax error".into()), "{text}");
        }
        let length = |text| format(text).map(|text| text.len());
        assert_eq!(length("\"%999999999s\" 1"), Ok(WIDEST));
        assert_eq!(length("\"%999999999d\" 1"), Ok(NUMBER_WIDEST));
        assert_eq!(length("\"%.999999999d\" 1"), Ok(DIGITS_MOST));
    }
}
