//! Dividing configuration strings.

use super::scan::{
    at_comment, is_space, skip_comment, skip_comment_space, skip_space, skip_unit, skip_while,
    slice,
};
use super::{is_word, unquote};
use crate::text::decode;
use alloc::string::String;
use alloc::vec::Vec;

/// Divides a configuration string into arguments at unquoted commas. Each
/// argument is as [`uncomment`] gives it. A last argument that is empty is
/// left out; empty arguments before it are kept. Parentheses and brackets do
/// not protect commas.
pub fn split_args(config: &str) -> Vec<String> {
    let mut args = Vec::new();
    let mut at = 0;
    while at < config.len() {
        let (arg, end) = simplify(config, at, true);
        if !arg.is_empty() || end < config.len() {
            args.push(arg);
        }
        at = end + 1;
    }
    args
}

/// Divides an argument into words at unquoted white space and comments.
pub fn split_space(text: &str) -> Vec<String> {
    words(text).map(String::from).collect()
}

/// The words of an argument, as [`split_space`] divides it.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    core::iter::from_fn(move || {
        let (word, after) = shift_space(rest);
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

/// The first word of `text` (empty when there is none) and what follows it,
/// without leading white space and comments.
pub fn shift_space(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let start = skip_comment_space(bytes, 0);
    let end = skip_item(bytes, start);
    let rest = skip_comment_space(bytes, end);
    (slice(text, start, end), slice(text, rest, text.len()))
}

/// Past the unquoted-space separated item at `at`. A comment ends an item.
fn skip_item(text: &[u8], mut at: usize) -> usize {
    while at < text.len() && !is_space(text[at]) && !at_comment(text, at) {
        at = skip_unit(text, at);
    }
    at
}

/// Joins arguments with `, `. What needs quoting must be quoted already.
pub fn join_args<S: AsRef<str>>(args: &[S]) -> String {
    join(args, ", ")
}

/// Joins words with spaces. What needs quoting must be quoted already.
pub fn join_space<S: AsRef<str>>(words: &[S]) -> String {
    join(words, " ")
}

fn join<S: AsRef<str>>(parts: &[S], separator: &str) -> String {
    let mut text = String::new();
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            text.push_str(separator);
        }
        text.push_str(part.as_ref());
    }
    text
}

/// `text` without white space at its ends and with each unquoted comment, and
/// the white space around it, replaced by one space.
pub fn uncomment(text: &str) -> String {
    simplify(text, 0, false).0
}

/// Uncomments `text` from `from` to its end or, if `to_comma`, to the next
/// unquoted comma; also gives where it stopped.
fn simplify(text: &str, from: usize, to_comma: bool) -> (String, usize) {
    let bytes = text.as_bytes();
    let mut at = skip_comment_space(bytes, from);
    let mut result = String::new();
    // The part to append next, and whether a comment follows it.
    let (mut left, mut right, mut closed) = (at, at, false);
    while at < bytes.len() {
        if is_space(bytes[at]) {
            at += 1;
        } else if at_comment(bytes, at) {
            at = skip_comment(bytes, at);
            closed = true;
        } else if bytes[at] == b',' && to_comma {
            break;
        } else {
            if core::mem::take(&mut closed) {
                result.push_str(slice(text, left, right));
                result.push(' ');
                left = at;
            }
            at = skip_unit(bytes, at);
            at = skip_while(bytes, at, |b| b.is_ascii_alphanumeric());
            right = at;
        }
    }
    result.push_str(slice(text, left, right));
    (result, at)
}

/// Reads `text` as one possibly quoted string: not empty as written, and
/// without unquoted white space. Gives the bytes meant.
pub fn string(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() && !is_space(bytes[at]) {
        at = skip_unit(bytes, at);
    }
    (at > 0 && at == bytes.len()).then(|| unquote(text))
}

/// Reads `text` as one possibly quoted [word](is_word).
pub fn word(text: &str) -> Option<String> {
    let word = decode(&string(text)?).into_owned();
    is_word(&word).then_some(word)
}

/// Reads a keyword (letters, digits and `_.:?!`, unquoted) at the start of an
/// argument; gives it and the rest of the argument.
pub fn keyword(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_.:?!".contains(&b);
    let end = skip_while(bytes, 0, allowed);
    let ended = bytes.get(end).is_none_or(|&b| is_space(b));
    (end > 0 && ended).then(|| {
        let rest = skip_space(bytes, end);
        (slice(text, 0, end), slice(text, rest, text.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        assert_eq!(split_args("a, b, c"), ["a", "b", "c"]);
        assert_eq!(split_args("  a /*?*/ b,  c, "), ["a b", "c"]);
        assert_eq!(split_args("\"x, y\" // ?"), ["\"x, y\""]);
        assert_eq!(split_args("a,,b"), ["a", "", "b"]);
        assert_eq!(split_args(", a"), ["", "a"]);
        assert_eq!(split_args("(a, b)"), ["(a", "b)"]);
        assert_eq!(split_args("\\<2c, 2c>, 'a,b'"), ["\\<2c, 2c>", "'a,b'"]);
        assert_eq!(split_args("\\,"), ["\\"]);
        assert!(split_args("").is_empty());
        assert!(split_args("  // x").is_empty());
    }

    #[test]
    fn words() {
        assert_eq!(split_space("a  b, c"), ["a", "b,", "c"]);
        assert_eq!(split_space("  'a /*?*/ b'c"), ["'a /*?*/ b'c"]);
        assert_eq!(split_space("a/**/b a/b"), ["a", "b", "a/b"]);
        assert_eq!(shift_space(" a  b c "), ("a", "b c "));
        assert_eq!(shift_space("  "), ("", ""));
    }

    #[test]
    fn comments_become_one_space() {
        assert_eq!(uncomment("  a   b  "), "a   b");
        assert_eq!(uncomment("  a /* Comment */       b  "), "a b");
        assert_eq!(uncomment("  \" /*???  */ \"  "), "\" /*???  */ \"");
        assert_eq!(uncomment("a // b\r\nc"), "a c");
        assert_eq!(uncomment("/*"), "");
        assert_eq!(uncomment("a/"), "a/");
    }

    #[test]
    fn strings_and_words() {
        assert_eq!(string("\"a b\"").unwrap(), b"a b");
        assert_eq!(string("a b"), None);
        assert_eq!(string(""), None);
        assert_eq!(string("\"\"").unwrap(), b"");
        assert_eq!(word("'ab'").unwrap(), "ab");
        assert_eq!(word("'a b'"), None);
    }

    #[test]
    fn keywords() {
        assert_eq!(keyword("LIMIT 5 6"), Some(("LIMIT", "5 6")));
        assert_eq!(keyword("LIMIT"), Some(("LIMIT", "")));
        assert_eq!(keyword("10.0.0.1"), Some(("10.0.0.1", "")));
        assert_eq!(keyword("a/b c"), None);
        assert_eq!(keyword(" a"), None);
    }
}
