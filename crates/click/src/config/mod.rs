//! Configuration strings: how they divide into arguments and words, how
//! quoting works, and how variables are substituted.
//!
//! These are the primitives under argument parsing. All take and give text in
//! the form it has in a configuration; only [`unquote`] and what is made of it
//! give the bytes meant.

mod assign;
mod expand;
mod integer;
mod quoting;
mod scan;
mod split;

pub use assign::assign_arguments;
pub use expand::{Fuel, Lookup, Reference, ReferenceKind, Style, TooLong, expand, expand_with};
pub(crate) use integer::parse_port;
pub use quoting::{printable, quote, quote_lines, unquote, unquote_text};
pub(crate) use scan::{is_variable_byte, is_word_byte, skip_space};
pub use split::{
    join_args, join_space, keyword, shift_space, split_args, split_space, string, uncomment, word,
    words,
};

/// Whether `text` is a word: at least one character, all of them visible ASCII
/// other than quotes, backslash and comma.
pub fn is_word(text: &str) -> bool {
    let ok = |b: u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'\\' | b',');
    !text.is_empty() && text.bytes().all(ok)
}

/// Whether `text` can name an element or a class: letters, digits, `_` and
/// `@`, in one or more parts joined by single slashes.
pub fn is_identifier(text: &str) -> bool {
    text.split('/')
        .all(|part| !part.is_empty() && part.bytes().all(is_word_byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert!(is_word("a/b:c"));
        for bad in ["", "a b", "a,b", "a\"", "\\", "é"] {
            assert!(!is_word(bad), "{bad}");
        }
    }

    #[test]
    fn identifiers() {
        for good in ["a", "Idle@1", "a/b/c", "_x", "12"] {
            assert!(is_identifier(good), "{good}");
        }
        for bad in ["", "/a", "a/", "a//b", "a-b", "é"] {
            assert!(!is_identifier(bad), "{bad}");
        }
    }
}
