//! `NAME=VALUE` settings that travel with a configuration, on a line of their own in front of it.
//!
//! Where only a text fits, as from a host to a guest, the first line has the settings: a comment to
//! Click's language. Values are in hexadecimal, so that they may have any characters.

use crate::text::{decode, encode};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The start of the line.
const MARK: &str = "//=settings";

/// A configuration with its settings. Without any, it is the configuration alone.
pub fn join<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>, config: &str) -> String {
    let mut line = String::new();
    for (name, value) in settings {
        line += &format!(" {name}=");
        for byte in &*encode(value) {
            line += &format!("{byte:02x}");
        }
    }
    if line.is_empty() {
        return config.into();
    }
    format!("{MARK}{line}\n{config}")
}

/// The line in front of a configuration, with its end; empty if there is none.
pub fn line(text: &[u8]) -> &[u8] {
    if !text.starts_with(MARK.as_bytes()) {
        return &[];
    }
    let end = text.iter().position(|byte| *byte == b'\n');
    &text[..end.map_or(text.len(), |end| end + 1)]
}

/// The settings in front of a configuration, and the configuration. Invalid settings are left out.
pub fn split(text: &[u8]) -> (Vec<(String, String)>, &[u8]) {
    let line = line(text);
    let config = &text[line.len()..];
    let line = core::str::from_utf8(line).unwrap_or_default();
    let words = line.split_ascii_whitespace().skip(1);
    let setting = |word: &str| {
        let (name, value) = word.split_once('=')?;
        let digits = value.as_bytes().chunks(2);
        let byte = |digits: &[u8]| u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok();
        let value = digits.map(byte).collect::<Option<Vec<_>>>()?;
        Some((name.into(), decode(&value).into_owned()))
    };
    (words.filter_map(setting).collect(), config)
}

/// Whether a text can be a setting's name.
pub fn is_name(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty() && text.chars().all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn settings_cross_with_any_characters_and_change_nothing_else() {
        let config = "Idle -> Print($A);\n";
        assert_eq!(join([], config), config);
        let text = join([("A", "1, (\"ä\n\u{efe9}"), ("b_2", "")], config);
        let (settings, rest) = split(text.as_bytes());
        let expected = [("A", "1, (\"ä\n\u{efe9}"), ("b_2", "")];
        assert_eq!(
            settings,
            expected.map(|(name, value)| (name.into(), value.into()))
        );
        assert_eq!(rest, config.as_bytes());
        assert_eq!(split(config.as_bytes()), (vec![], config.as_bytes()));
    }

    #[test]
    fn a_line_of_a_foreign_program_does_no_harm() {
        for text in [
            "//=settings",
            "//=settings A=xyz B =1 C=ff\n",
            "//=settings A=1\n",
            "//=settings \u{e9}=4",
        ] {
            let (settings, rest) = split(text.as_bytes());
            assert!(rest.is_empty(), "{text}");
            assert!(
                settings.iter().all(|(_, value)| value.chars().count() < 2),
                "{settings:?}"
            );
        }
    }
}
