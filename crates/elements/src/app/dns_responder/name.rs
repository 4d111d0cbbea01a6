//! Domain names as they are on the wire (RFC 1035, section 3.1): labels, each behind its length, and the root's
//! empty label at the end.

use crate::prelude::*;

/// Most bytes of a name.
pub const NAME_MAX: usize = 255;
/// Most bytes of a label.
pub const LABEL_MAX: usize = 63;

/// The name at the start of `bytes`; `None` if it is cut short, too long, or compressed.
pub fn read(bytes: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    loop {
        let length = usize::from(*bytes.get(at)?);
        // The two bits above are a pointer's (section 4.1.4), or undefined.
        if length > LABEL_MAX {
            return None;
        }
        at += 1 + length;
        if at > NAME_MAX {
            return None;
        }
        if length == 0 {
            return bytes.get(..at);
        }
    }
}

/// Bytes of the name at the start of `bytes`, which may end in a pointer. The pointer is not followed.
pub fn skip(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < NAME_MAX {
        let length = usize::from(*bytes.get(at)?);
        match length >> 6 {
            0 if length == 0 => return Some(at + 1),
            0 => at += 1 + length,
            3 => return bytes.get(at + 1).map(|_| at + 2),
            _ => return None,
        }
    }
    None
}

/// The names that a name is in: itself, and what is left after each label, up to the root.
pub fn suffixes(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    core::iter::successors(Some(name), |name| {
        let length = usize::from(*name.first()?);
        name.get(1 + length..).filter(|_| length > 0)
    })
}

/// Labels of a name, without the root's.
pub fn labels(name: &[u8]) -> usize {
    suffixes(name).count().saturating_sub(1)
}

/// The byte that a backslash and what follows stand for (RFC 1035, section 5.1), and the rest.
fn escaped(text: &str) -> Option<(u8, &str)> {
    let digits = text
        .get(..3)
        .filter(|it| it.bytes().all(|byte| byte.is_ascii_digit()));
    if let Some(digits) = digits {
        return Some((digits.parse().ok()?, &text[3..]));
    }
    let first = text.chars().next().filter(char::is_ascii)?;
    Some((first as u8, &text[1..]))
}

/// The bytes of a text with escapes; a dot without a backslash is `None`.
fn bytes(text: &str) -> Option<Vec<Option<u8>>> {
    let (mut rest, mut bytes) = (text, Vec::with_capacity(text.len()));
    while let Some(&first) = rest.as_bytes().first() {
        let (byte, after) = match first {
            b'\\' => escaped(&rest[1..]).map(|(byte, after)| (Some(byte), after))?,
            b'.' => (None, &rest[1..]),
            // A character beyond ASCII is its bytes.
            _ => {
                let length = rest.chars().next().map_or(1, char::len_utf8);
                bytes.extend(rest.as_bytes()[..length - 1].iter().map(|byte| Some(*byte)));
                (Some(rest.as_bytes()[length - 1]), &rest[length..])
            }
        };
        bytes.push(byte);
        rest = after;
    }
    Some(bytes)
}

/// A text's bytes, with its escapes resolved.
pub fn string(text: &str) -> Option<Vec<u8>> {
    let bytes = bytes(text)?;
    Some(bytes.into_iter().map(|byte| byte.unwrap_or(b'.')).collect())
}

/// The name that a text stands for; one without a dot at its end, and `@`, are in `origin`.
pub fn parse(text: &str, origin: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    if text == "." {
        return Some(alloc::vec![0]);
    }
    let mut is_absolute = false;
    if text != "@" {
        let bytes = bytes(text)?;
        let mut labels = bytes.split(Option::is_none).peekable();
        while let Some(label) = labels.next() {
            if label.is_empty() && labels.peek().is_none() && !name.is_empty() {
                is_absolute = true;
                break;
            }
            if !(1..=LABEL_MAX).contains(&label.len()) {
                return None;
            }
            name.push(label.len() as u8);
            name.extend(label.iter().flatten());
        }
    }
    match is_absolute {
        true => name.push(0),
        false => name.extend_from_slice(origin),
    }
    (name.len() <= NAME_MAX).then_some(name)
}

/// The name as texts have it.
pub fn show(name: &[u8]) -> String {
    let mut text = String::new();
    for suffix in suffixes(name) {
        let length = suffix.first().map_or(0, |length| usize::from(*length));
        for byte in suffix.get(1..1 + length).unwrap_or_default() {
            match byte {
                b'.' | b'\\' | b'"' | b';' | b'(' | b')' | b'@' => {
                    text.push('\\');
                    text.push(char::from(*byte));
                }
                b'!'..=b'~' => text.push(char::from(*byte)),
                _ => text.push_str(&format!("\\{byte:03}")),
            }
        }
        if length > 0 || text.is_empty() {
            text.push('.');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    use super::*;

    #[test]
    fn names_are_relative_unless_they_end_in_a_dot() {
        let origin = b"\x07example\x00";
        for (text, name) in [
            ("www", &b"\x03www\x07example\x00"[..]),
            ("@", origin),
            (".", b"\x00"),
            ("a.b.", b"\x01a\x01b\x00"),
            (r"a\.b\255.", b"\x04a.b\xff\x00"),
            ("é.", b"\x02\xc3\xa9\x00"),
        ] {
            assert_eq!(parse(text, origin).as_deref(), Some(name), "{text}");
        }
        let long = "a".repeat(64);
        for text in [
            "",
            "..",
            "a..b",
            ".a",
            r"a\",
            r"\256.",
            &long,
            &"a.".repeat(128),
        ] {
            assert_eq!(parse(text, origin), None, "{text}");
        }
    }

    #[test]
    fn pointers_and_names_cut_short_are_refused() {
        assert_eq!(read(b"\x01a\x00more"), Some(&b"\x01a\x00"[..]));
        for bytes in [
            &b""[..],
            b"\x01",
            b"\x01a",
            b"\x01a\xc0\x00",
            b"\x40a\x00",
            b"\xc0\x00",
        ] {
            assert_eq!(read(bytes), None);
        }
        assert_eq!(read(&b"\x01a".repeat(127)), None);
        let longest = [&b"\x01a".repeat(127)[..], &[0]].concat();
        assert_eq!(read(&longest).map(<[u8]>::len), Some(NAME_MAX));
        assert_eq!(read(&[&[1, 7][..], &longest].concat()), None);
        assert_eq!(skip(b"\x01a\xc0\x0c"), Some(4));
        assert_eq!(skip(b"\xc0"), None);
        assert_eq!(skip(b"\x80\x00"), None);
    }

    proptest! {
        #[test]
        fn a_name_is_shown_as_it_is_parsed(
            labels in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..=LABEL_MAX), 0..4),
        ) {
            let mut name = Vec::new();
            for label in &labels {
                name.push(label.len() as u8);
                name.extend(label);
            }
            name.push(0);
            prop_assume!(name.len() <= NAME_MAX);
            prop_assert_eq!(read(&name), Some(&name[..]));
            prop_assert_eq!(skip(&name), Some(name.len()));
            prop_assert_eq!(super::labels(&name), labels.len());
            prop_assert_eq!(parse(&show(&name), b"\x01x\x00"), Some(name));
        }
    }
}
