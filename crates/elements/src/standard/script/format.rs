//! `sprintf` for scripts: C's conversions, less those for floating-point numbers and characters.

use core::iter::Peekable;
use core::str::Chars;

use click::config;

use super::words::Words;
use crate::prelude::*;

/// Widths and precisions beyond this are cut to it: a script may not fill the memory.
const WIDEST: usize = 4096;

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
    let pattern = config::unquote_text(words.next());
    let mut result = String::new();
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            result.push(letter);
            continue;
        }
        let conversion = Conversion::parse(&mut letters, &mut words)?;
        let letter = letters.next().ok_or_else(syntax)?;
        result += &conversion.convert(letter, &mut words)?;
    }
    match words.0 {
        "" => Ok(result),
        _ => Err(syntax()),
    }
}

/// A number in the pattern, or for `*` the next word.
fn number(letters: &mut Peekable<Chars<'_>>, words: &mut Words<'_>) -> Result<i32, String> {
    if letters.next_if_eq(&'*').is_some() {
        return words.parse();
    }
    let mut value = 0i32;
    while let Some(digit) = letters.peek().and_then(|letter| letter.to_digit(10)) {
        value = value.saturating_mul(10).saturating_add(digit as i32);
        letters.next();
    }
    Ok(value)
}

impl Conversion {
    fn parse(letters: &mut Peekable<Chars<'_>>, words: &mut Words<'_>) -> Result<Self, String> {
        let mut conversion = Conversion::default();
        while let Some(flag) = letters.next_if(|letter| "0#- +".contains(*letter)) {
            match flag {
                '0' => conversion.zero = true,
                '#' => conversion.alternate = true,
                '-' => conversion.left = true,
                ' ' => conversion.space = true,
                _ => conversion.plus = true,
            }
        }
        let width = number(letters, words)?;
        conversion.left |= width < 0;
        conversion.width = (width.unsigned_abs() as usize).min(WIDEST);
        if letters.next_if_eq(&'.').is_some() {
            let precision = usize::try_from(number(letters, words)?).map_err(|_| syntax())?;
            conversion.precision = Some(precision.min(WIDEST));
        }
        while let Some(size) = letters.next_if(|letter| "hlLq".contains(*letter)) {
            conversion.short = size == 'h';
        }
        Ok(conversion)
    }

    fn convert(&self, letter: char, words: &mut Words<'_>) -> Result<String, String> {
        Ok(match letter {
            '%' => "%".to_string(),
            's' => {
                let bytes = config::string(words.next()).ok_or_else(syntax)?;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let most = self.precision.unwrap_or(usize::MAX);
                self.pad("", &text.chars().take(most).collect::<String>(), false)
            }
            'd' | 'i' => {
                let value: i64 = words.parse()?;
                let value = if self.short {
                    (value as i16).into()
                } else {
                    value
                };
                let sign = match value {
                    ..0 => "-",
                    _ if self.plus => "+",
                    _ if self.space => " ",
                    _ => "",
                };
                self.integer(sign, value.unsigned_abs().to_string())
            }
            'o' | 'x' | 'X' | 'u' => {
                let value = unsigned(words)?;
                let value = if self.short { value & 0xffff } else { value };
                let prefix = match letter {
                    'x' if self.alternate && value > 0 => "0x",
                    'X' if self.alternate && value > 0 => "0X",
                    'o' if self.alternate => "0",
                    _ => "",
                };
                let digits = match letter {
                    'o' => format!("{value:o}"),
                    'x' => format!("{value:x}"),
                    'X' => format!("{value:X}"),
                    _ => value.to_string(),
                };
                self.integer(prefix, digits)
            }
            _ => return Err(syntax()),
        })
    }

    fn integer(&self, prefix: &str, digits: String) -> String {
        let digits = match self.precision {
            Some(least) => format!("{digits:0>least$}"),
            None => digits,
        };
        self.pad(prefix, &digits, self.zero && self.precision.is_none())
    }

    /// `prefix` and `body`, padded to the width: with zeros between them, or with spaces.
    fn pad(&self, prefix: &str, body: &str, zeros: bool) -> String {
        let width = self.width;
        if zeros && !self.left {
            let rest = width.saturating_sub(prefix.len());
            return format!("{prefix}{body:0>rest$}");
        }
        let text = format!("{prefix}{body}");
        if self.left {
            format!("{text:<width$}")
        } else {
            format!("{text:>width$}")
        }
    }
}

/// The next word as an unsigned number; a negative one counts as C converts it.
fn unsigned(words: &mut Words<'_>) -> Result<u64, String> {
    let word = words.next();
    let context = Context::blank();
    let signed = || context.parse::<i64>(word).map(|value| value as u64);
    let value = context.parse::<u64>(word).or_else(|_| signed());
    value.map_err(|_| syntax())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(text: &str) -> Result<String, String> {
        sprintf(Words(text))
    }

    #[test]
    fn conversions_are_as_in_c() {
        for (text, expected) in [
            ("\"%05x\" 127", "0007f"),
            ("\"%d|%i|%u\" -1 2 3", "-1|2|3"),
            ("\"%-5d|%5d|%+d|% d\" 3 4 5 6", "3    |    4|+5| 6"),
            ("\"%#x %#X %#o %o\" 255 255 8 8", "0xff 0XFF 010 10"),
            ("\"%08d\" -42", "-0000042"),
            ("\"%5s|%-5s|%.2s\" ab cd \"e f\"", "   ab|cd   |e "),
            ("\"%*d|%.*d\" 4 7 3 7", "   7|007"),
            ("\"%hd %hu\" 65537 65537", "1 1"),
            ("\"%lld%%\" 9", "9%"),
            ("plain", "plain"),
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
            "\"%f\" 1",
            "\"%\"",
            "x y",
        ] {
            assert_eq!(format(text), Err("syntax error".into()), "{text}");
        }
        assert_eq!(
            format("\"%999999999d\" 1").map(|text| text.len()),
            Ok(WIDEST)
        );
    }
}
