//! Quotation: `"…"` with backslash escapes, `'…'` without, and `\<hex>` data.

use super::scan::{at_angle, at_comment, is_space, line_end, skip_comment};
use super::uncomment;
use crate::text::{decode, encode};
use alloc::string::String;
use alloc::vec::Vec;

/// Removes comments and one level of quoting.
///
/// Inside double quotes, and nowhere else, backslash escapes are expanded: the
/// C escapes `\a \b \f \n \r \t \v`, up to three octal digits, `\x` with any
/// number of hexadecimal digits (the last two count), a backslash before a
/// line end (nothing), and before any other character that character.
/// `\<hex digits>` is data, both inside double quotes and outside of quotes.
pub fn unquote(text: &str) -> Vec<u8> {
    if is_plain(text.as_bytes()) {
        return text
            .trim_matches(|c| u8::try_from(c).is_ok_and(is_space))
            .into();
    }
    let text = uncomment(text);
    let bytes = &*encode(&text);
    let mut result = Vec::with_capacity(bytes.len());
    let mut quote = None;
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        let escape = match quote {
            Some(b'"') => at + 1 < bytes.len(),
            None => at_angle(bytes, at),
            _ => false,
        };
        match byte {
            b'"' | b'\'' if quote.is_none() => quote = Some(byte),
            b'"' | b'\'' if quote == Some(byte) => quote = None,
            b'\\' if escape => {
                at = unescape(bytes, at, &mut result);
                continue;
            }
            _ => result.push(byte),
        }
        at += 1;
    }
    result
}

/// Whether there is nothing in `text` but white space and bytes that stand for themselves.
fn is_plain(text: &[u8]) -> bool {
    text.iter().enumerate().all(|(at, byte)| match byte {
        b'"' | b'\'' | b'\\' => false,
        b'/' => !at_comment(text, at),
        byte => byte.is_ascii(),
    })
}

/// [`unquote`] for where text is wanted.
pub fn unquote_text(text: &str) -> String {
    decode(&unquote(text)).into_owned()
}

/// Expands the escape at `at`, which has at least one byte after its
/// backslash; gives where it ends.
fn unescape(text: &[u8], at: usize, result: &mut Vec<u8>) -> usize {
    let after = at + 2;
    let single = match text[at + 1] {
        b'\r' | b'\n' => return at + 1 + line_end(text, at + 1),
        b'0'..=b'7' => return unescape_octal(text, at + 1, result),
        b'x' => return unescape_hex(text, after, result),
        b'<' => return unescape_data(text, after, result),
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        other => other,
    };
    result.push(single);
    after
}

fn unescape_octal(text: &[u8], mut at: usize, result: &mut Vec<u8>) -> usize {
    let end = (at + 3).min(text.len());
    let mut value = 0u8;
    while at < end && matches!(text[at], b'0'..=b'7') {
        value = value.wrapping_mul(8).wrapping_add(text[at] - b'0');
        at += 1;
    }
    result.push(value);
    at
}

fn unescape_hex(text: &[u8], mut at: usize, result: &mut Vec<u8>) -> usize {
    let mut value = 0u8;
    while let Some(digit) = text.get(at).copied().and_then(hex_digit) {
        value = value.wrapping_mul(16).wrapping_add(digit);
        at += 1;
    }
    result.push(value);
    at
}

/// Data between `\<` and `>`. Everything but digits and comments is skipped,
/// and so is a digit without a second one.
fn unescape_data(text: &[u8], mut at: usize, result: &mut Vec<u8>) -> usize {
    let mut high = None;
    while at < text.len() && text[at] != b'>' {
        if at_comment(text, at) {
            at = skip_comment(text, at);
            continue;
        }
        if let Some(digit) = hex_digit(text[at]) {
            match high.take() {
                None => high = Some(digit),
                Some(first) => result.push(first << 4 | digit),
            }
        }
        at += 1;
    }
    (at + 1).min(text.len())
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// A double-quoted ASCII string that [`unquote`] turns into `data`. Never
/// empty, always on one line.
pub fn quote(data: &[u8]) -> String {
    quote_with(data, false)
}

/// As [`quote`], but line feeds stand for themselves.
pub fn quote_lines(data: &[u8]) -> String {
    quote_with(data, true)
}

fn quote_with(data: &[u8], lines: bool) -> String {
    let mut text = String::with_capacity(data.len() + 2);
    text.push('"');
    for &byte in data {
        match byte {
            b'\\' | b'"' | b'$' => text.extend(['\\', char::from(byte)]),
            b'\t' => text.push_str("\\t"),
            b'\r' => text.push_str("\\r"),
            b'\n' if lines => text.push('\n'),
            b'\n' => text.push_str("\\n"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => push_octal(&mut text, byte),
        }
    }
    text.push('"');
    text
}

/// `data` made fit for a message: control characters as `^X`, bytes from 127
/// on as `\ooo`.
pub fn printable(data: &[u8]) -> String {
    let mut text = String::with_capacity(data.len());
    for &byte in data {
        match byte {
            0..32 => text.extend(['^', char::from(byte + 64)]),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => push_octal(&mut text, byte),
        }
    }
    text
}

fn push_octal(text: &mut String, byte: u8) {
    text.push('\\');
    for shift in [6, 3, 0] {
        text.push(char::from(b'0' + (byte >> shift & 7)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unquotes_as_documented() {
        assert_eq!(
            unquote("\"\\n\" abc /* 123 */ '/* def */'"),
            b"\n abc /* def */"
        );
        assert_eq!(
            unquote("\"\\101\\1019\\x4a4B\\$\\q\""),
            b"AA9KB"[..3]
                .iter()
                .chain(b"K$q")
                .copied()
                .collect::<Vec<_>>()
        );
        assert_eq!(unquote("\\<48656c6C 6f 2 /* And finally */ 1>"), b"Hello!");
        assert_eq!(unquote("\"\\<48 4>x\""), b"Hx");
        assert_eq!(unquote("'\\n'"), b"\\n");
        assert_eq!(unquote("a\\nb"), b"a\\nb");
        assert_eq!(unquote("\"a\\\r\nb\\\nc\""), b"abc");
        assert_eq!(unquote("\"\\"), b"\\");
        assert_eq!(unquote("\"\\é\""), "é".as_bytes());
        assert_eq!(unquote("\"\u{efe9}\\\u{efff}\""), b"\xe9\xff");
        assert_eq!(unquote_text("\\<e9>"), "\u{efe9}");
        assert_eq!(unquote(" \ta 1/2,  b /\x0b"), b"a 1/2,  b /");
        assert_eq!(unquote("a//b"), b"a");
        assert_eq!(unquote(" \n"), b"");
    }

    #[test]
    fn quotes_as_documented() {
        assert_eq!(quote(b""), "\"\"");
        assert_eq!(quote(b"a\\\"$\t\r\n\x01\xff"), r#""a\\\"\$\t\r\n\001\377""#);
        assert_eq!(quote_lines(b"a\nb"), "\"a\nb\"");
        assert_eq!(printable(b"a\x00\x7f\xff"), "a^@\\177\\377");
    }

    proptest! {
        #[test]
        fn unquote_undoes_quote(data: Vec<u8>) {
            prop_assert_eq!(unquote(&quote(&data)), data.clone());
            prop_assert_eq!(unquote(&quote_lines(&data)), data);
        }

        #[test]
        fn unquote_takes_anything(text in r#"(["'\\<>/*$x0-9a-f\r\n é-]|\PC){0,40}"#) {
            unquote(&text);
        }
    }
}
