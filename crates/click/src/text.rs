//! Strings of bytes as text, without loss.
//!
//! To Click, a configuration, a handler's value and a message are bytes. Here they are text. A byte
//! that is not part of valid UTF-8 stands as a character of the private use area, U+EF00 plus the
//! byte, as in Python's `surrogateescape`. Bytes are decoded where they come in, and encoded where
//! they go out. Characters U+EF80 to U+EFFF in the input are decoded byte by byte, too, so that
//! [`encode`] undoes [`decode`] for all bytes.
//!
//! Encoding goes character by character, so texts may be joined and cut. A text that was joined
//! may have a character in pieces: bytes, not texts, tell whether two values are equal.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

/// The first character of the range: a byte is added to it.
const BASE: u32 = 0xef00;

/// The character that stands for `byte`, which is not ASCII.
fn escaped(byte: u8) -> char {
    // Above 0x7f, and so never a surrogate.
    char::from_u32(BASE + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The byte that `character` stands for, if it stands for one.
pub(crate) fn byte_of(character: char) -> Option<u8> {
    let byte = u32::from(character).checked_sub(BASE)?;
    u8::try_from(byte).ok().filter(|byte| !byte.is_ascii())
}

fn has_escapes(text: &str) -> bool {
    // The first byte of all of them.
    text.as_bytes().contains(&0xee) && text.chars().any(|c| byte_of(c).is_some())
}

/// Bytes as text.
pub fn decode(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = core::str::from_utf8(bytes)
        && !has_escapes(text)
    {
        return text.into();
    }
    let mut text = String::with_capacity(bytes.len() + bytes.len() / 2);
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match byte_of(character) {
                Some(_) => {
                    let mut utf8 = [0; 4];
                    let utf8 = character.encode_utf8(&mut utf8);
                    text.extend(utf8.bytes().map(escaped));
                }
                None => text.push(character),
            }
        }
        text.extend(chunk.invalid().iter().copied().map(escaped));
    }
    text.into()
}

/// The bytes that a text stands for.
pub fn encode(text: &str) -> Cow<'_, [u8]> {
    if !has_escapes(text) {
        return text.as_bytes().into();
    }
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match byte_of(character) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend(character.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    bytes.into()
}

/// The same, in the text's own memory.
pub fn into_bytes(text: String) -> Vec<u8> {
    if !has_escapes(&text) {
        return text.into_bytes();
    }
    let mut bytes = text.into_bytes();
    let (mut from, mut to) = (0, 0);
    while let Some(&first) = bytes.get(from) {
        let length = match first {
            ..0xc0 => 1,
            0xc0..0xe0 => 2,
            0xe0..0xf0 => 3,
            _ => 4,
        };
        let character = bytes.get(from..from + length);
        let character = character.and_then(|bytes| core::str::from_utf8(bytes).ok());
        let escaped = character
            .and_then(|text| text.chars().next())
            .and_then(byte_of);
        match escaped {
            Some(byte) => {
                bytes[to] = byte;
                to += 1;
            }
            None => {
                bytes.copy_within(from..from + length, to);
                to += length;
            }
        }
        from += length;
    }
    bytes.truncate(to);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_is_not_utf8_is_escaped() {
        assert_eq!(decode(b"a\xe9\xc3\xa9\xff"), "a\u{efe9}é\u{efff}");
        assert_eq!(decode(b"\xe2\x82"), "\u{efe2}\u{ef82}");
        assert_eq!(encode("a\u{efe9}é"), &b"a\xe9\xc3\xa9"[..]);
        assert_eq!(encode("\u{ef7f}\u{f000}").len(), 6);
    }

    #[test]
    fn a_character_that_stands_for_a_byte_is_taken_apart() {
        let text = decode("\u{efe9}".as_bytes());
        assert_eq!(text, "\u{efee}\u{efbf}\u{efa9}");
        assert_eq!(encode(&text), "\u{efe9}".as_bytes());
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let pieces = prop_oneof![
            any::<Vec<u8>>(),
            "[\u{ef7e}-\u{f001}é€a]{0,4}".prop_map(String::into_bytes),
        ];
        proptest::collection::vec(pieces, 0..4).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn encode_undoes_decode(bytes in bytes()) {
            let text = decode(&bytes);
            prop_assert_eq!(&*encode(&text), &*bytes);
            prop_assert_eq!(&into_bytes(text.into_owned()), &bytes);
        }

        #[test]
        fn joined_texts_are_joined_bytes(a in bytes(), b in bytes()) {
            let joined = [decode(&a), decode(&b)].concat();
            prop_assert_eq!(&*encode(&joined), [a, b].concat());
        }

        #[test]
        fn text_is_borrowed(text in "[\u{0}-\u{ef7f}\u{f000}-\u{10ffff}]*") {
            prop_assert!(matches!(decode(text.as_bytes()), Cow::Borrowed(same) if same == text));
            prop_assert!(matches!(encode(&text), Cow::Borrowed(same) if same == text.as_bytes()));
        }
    }
}
