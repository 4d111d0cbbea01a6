//! Conditional requests and ranges, answered from a stored object (RFC 9110, sections 13 and 14).

use super::date;
use super::head::Fields;

/// What a request gets of an object that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// The bytes from one to before another.
    Range(u64, u64),
    /// No byte: the client has it.
    NotModified,
    /// No byte: it has none of the range.
    Unsatisfiable,
}

fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Whether the client of a request has an object with some fields.
pub fn is_known(request: &Fields, object: &Fields) -> bool {
    if request.get("if-none-match").is_some() {
        let Some(own) = object.get("etag") else {
            return request.get("if-none-match") == Some(b"*");
        };
        // Weak comparison. A tag may have commas in it, but no quotation marks.
        return request.all("if-none-match").any(|list| {
            list == b"*"
                || list
                    .split(|byte| *byte == b'"')
                    .skip(1)
                    .step_by(2)
                    .any(|tag| {
                        let own = opaque(own).strip_prefix(b"\"");
                        own.and_then(|own| own.strip_suffix(b"\"")) == Some(tag)
                    })
        });
    }
    let time = |fields: &Fields, name| fields.get(name).and_then(date::parse);
    let since = time(request, "if-modified-since");
    let changed = time(object, "last-modified");
    since
        .zip(changed)
        .is_some_and(|(since, changed)| changed <= since)
}

/// What a request gets of an object with some fields and a length; `may_part`: it is a GET, and the object's
/// status is 200.
pub fn part(request: &Fields, object: &Fields, length: u64, may_part: bool) -> Part {
    if is_known(request, object) {
        return Part::NotModified;
    }
    let Some(range) = request.get("range").filter(|_| may_part) else {
        return Part::Whole;
    };
    if let Some(validator) = request.get("if-range") {
        // A strong tag, or the very date.
        let is_tag = validator.starts_with(b"\"") && object.get("etag") == Some(validator);
        let is_date = object.get("last-modified") == Some(validator);
        if !is_tag && !is_date {
            return Part::Whole;
        }
    }
    // Several ranges may be answered with the whole.
    byte_range(range, length).unwrap_or(Part::Whole)
}

/// A range of bytes; `None` if it is no single one.
fn byte_range(range: &[u8], length: u64) -> Option<Part> {
    let range = core::str::from_utf8(range).ok()?.strip_prefix("bytes=")?;
    let (from, to) = range.trim().split_once('-')?;
    let number = |text: &str| {
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|_| is_plain)
    };
    let (from, end) = match (from, to) {
        ("", last) => (length.saturating_sub(number(last)?), length),
        (from, "") => (number(from)?, length),
        (from, to) => {
            let (from, to) = (number(from)?, number(to)?);
            if to < from {
                return None;
            }
            (from, length.min(to.saturating_add(1)))
        }
    };
    Some(match from < end {
        true => Part::Range(from, end),
        false => Part::Unsatisfiable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::head;
    use crate::testing::*;

    fn fields(text: &str) -> Fields {
        let head = std::format!("GET / HTTP/1.1\r\nHost: a\r\n{text}\r\n");
        head::request(head.as_bytes()).unwrap().unwrap().0.fields
    }

    #[test]
    fn requests_get_their_part() {
        let object = fields("ETag: \"a,b\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
        for (request, expected) in [
            ("", Part::Whole),
            ("If-None-Match: \"a,b\"\r\n", Part::NotModified),
            ("If-None-Match: \"x\", W/\"a,b\"\r\n", Part::NotModified),
            ("If-None-Match: *\r\n", Part::NotModified),
            ("If-None-Match: \"a\"\r\n", Part::Whole),
            (
                "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
                Part::NotModified,
            ),
            (
                "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n",
                Part::Whole,
            ),
            (
                "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\nIf-None-Match: \"x\"\r\n",
                Part::Whole,
            ),
            ("Range: bytes=0-9\r\n", Part::Range(0, 10)),
            ("Range: bytes=90-\r\n", Part::Range(90, 100)),
            ("Range: bytes=-5\r\n", Part::Range(95, 100)),
            ("Range: bytes=-500\r\n", Part::Range(0, 100)),
            ("Range: bytes=50-999\r\n", Part::Range(50, 100)),
            ("Range: bytes=100-\r\n", Part::Unsatisfiable),
            ("Range: bytes=-0\r\n", Part::Unsatisfiable),
            ("Range: bytes=9-0\r\n", Part::Whole),
            ("Range: bytes=0-1,5-6\r\n", Part::Whole),
            ("Range: lines=0-1\r\n", Part::Whole),
            (
                "Range: bytes=0-9\r\nIf-Range: \"a,b\"\r\n",
                Part::Range(0, 10),
            ),
            ("Range: bytes=0-9\r\nIf-Range: W/\"a,b\"\r\n", Part::Whole),
        ] {
            assert_eq!(
                part(&fields(request), &object, 100, true),
                expected,
                "{request}"
            );
        }
        assert_eq!(
            part(&fields("Range: bytes=0-9\r\n"), &object, 100, false),
            Part::Whole
        );
    }

    proptest! {
        #[test]
        fn any_range_is_within_the_object(range in "bytes=[0-9]{0,20}-[0-9]{0,20}", length in 0u64..1000) {
            if let Some(Part::Range(from, end)) = byte_range(range.as_bytes(), length) {
                prop_assert!(from < end && end <= length);
            }
        }
    }
}
