//! The wire protocol, and how domains are named in it.

use std::fmt;

pub use abi::xenstore::{Errno, Header, Kind, PAYLOAD_MAX, first_string};

/// Appends a message.
pub fn append(out: &mut Vec<u8>, header: Header, payload: &[u8]) {
    let len = payload.len() as u32;
    out.extend_from_slice(&Header { len, ..header }.to_bytes());
    out.extend_from_slice(payload);
}

/// A domain: a guest, or the host, which is the [control domain](DomainId::CONTROL).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId(pub u16);

impl DomainId {
    /// The domain that may do everything.
    pub const CONTROL: DomainId = DomainId(0);
    /// The first number with a special meaning.
    const SPECIAL: u16 = 0x7ff0;

    /// The domain of a decimal number.
    pub fn parse(text: &[u8]) -> Option<DomainId> {
        std::str::from_utf8(text).ok()?.parse().ok().map(DomainId)
    }

    /// Whether a guest can have this number.
    pub fn is_guest(self) -> bool {
        (1..DomainId::SPECIAL).contains(&self.0)
    }
}

impl fmt::Display for DomainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The strings of a payload, each of which ends in a zero byte; `None` if the last one does not.
pub fn strings(payload: &[u8]) -> Option<Vec<&[u8]>> {
    let all = payload.strip_suffix(&[0])?;
    Some(all.split(|byte| *byte == 0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_in_zero_bytes() {
        assert_eq!(strings(b"a\0\0bc\0"), Some(vec![&b"a"[..], b"", b"bc"]));
        assert_eq!(strings(b"\0"), Some(vec![&b""[..]]));
        assert_eq!(strings(b"a\0b"), None);
        assert_eq!(strings(b""), None);
    }
}
