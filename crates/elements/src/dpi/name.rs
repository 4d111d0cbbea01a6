//! Names of servers, and of protocols in TLS, in constant memory.

use core::fmt;
use core::hash::{Hash, Hasher};

/// Bytes of a name that are kept.
pub const KEPT: usize = 63;

/// The name of a server, in small letters and without a dot at its end: its last [`KEPT`] bytes.
#[derive(Clone, Copy)]
pub struct Name {
    /// Bytes of the whole name, 255 if there are more.
    length: u8,
    bytes: [u8; KEPT],
}

impl Default for Name {
    fn default() -> Name {
        Name {
            length: 0,
            bytes: [0; KEPT],
        }
    }
}

impl Name {
    /// The name that some bytes are; `None` if a byte of them stands in no name.
    pub fn new(text: &[u8]) -> Option<Name> {
        let text = text.strip_suffix(b".").unwrap_or(text);
        // Host names, and addresses: of IPv6 too.
        let is_right = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
        if text.is_empty() || !text.iter().all(is_right) {
            return None;
        }
        let mut name = Name {
            length: text.len().min(255) as u8,
            ..Name::default()
        };
        let end = &text[text.len().saturating_sub(KEPT)..];
        for (to, from) in name.bytes.iter_mut().zip(end) {
            *to = from.to_ascii_lowercase();
        }
        Some(name)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn is_cut(&self) -> bool {
        usize::from(self.length) > KEPT
    }

    /// What is kept of it.
    pub fn as_str(&self) -> &str {
        let length = KEPT.min(self.length.into());
        // The bytes were found to be ASCII.
        core::str::from_utf8(&self.bytes[..length]).unwrap_or_default()
    }

    /// The domains that it is in, from itself on: the name without its first label, and so on.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        // The first label of a name that is cut is not whole.
        let first = self.as_str();
        core::iter::successors(Some(first), |name| {
            name.split_once('.').map(|(_, parent)| parent)
        })
        .skip(usize::from(self.is_cut()))
        .filter(|domain| !domain.is_empty())
    }

    /// Whether it is a domain, or in it.
    pub fn is_in(&self, domain: &str) -> bool {
        self.domains().any(|own| own == domain)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Name) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Name) -> core::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

/// `-` if there is no name; dots before one that is cut.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("-");
        }
        if self.is_cut() {
            f.write_str("...")?;
        }
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The first protocol that a client of TLS offers (ALPN, RFC 7301): its first 11 bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Alpn([u8; 11]);

impl Alpn {
    /// The protocol of this name; none if it is not plain text.
    pub fn new(text: &[u8]) -> Alpn {
        let mut alpn = Alpn::default();
        if text.iter().all(u8::is_ascii_graphic) {
            for (to, from) in alpn.0.iter_mut().zip(text) {
                *to = *from;
            }
        }
        alpn
    }

    /// What is kept of its name.
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0);
        let text = &self.0[..end.unwrap_or(self.0.len())];
        core::str::from_utf8(text).unwrap_or_default()
    }
}

impl fmt::Display for Alpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.as_str() {
            "" => "-",
            text => text,
        })
    }
}

impl fmt::Debug for Alpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    #[test]
    fn names_are_in_their_domains() {
        let name = Name::new(b"WWW.Example.COM.").unwrap();
        assert_eq!(name.as_str(), "www.example.com");
        for (domain, expected) in [
            ("www.example.com", true),
            ("example.com", true),
            ("com", true),
            ("ample.com", false),
            ("a.www.example.com", false),
            ("", false),
        ] {
            assert_eq!(name.is_in(domain), expected, "{domain}");
        }
        assert_eq!(Name::new(b""), None);
        assert_eq!(Name::new(b"a b"), None);
        assert_eq!(Name::new(b"\xff.example"), None);
        assert_eq!(Name::default().to_string(), "-");
        assert!(!Name::default().is_in(""));
    }

    #[test]
    fn the_end_of_a_long_name_is_kept() {
        let text = std::format!("{}.example.com", "a".repeat(60));
        let name = Name::new(text.as_bytes()).unwrap();
        assert!(name.is_in("example.com"));
        // What is left of a label is no domain.
        assert!(!name.is_in(name.as_str()));
        assert!(name.to_string().starts_with("...aaa"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_name_or_none(text in prop::collection::vec(any::<u8>(), 0..300), plain in "[a-zA-Z0-9.-]{1,300}") {
            for text in [&text[..], plain.as_bytes()] {
                if let Some(name) = Name::new(text) {
                    prop_assert!(name.as_str().len() <= KEPT && !name.is_empty());
                    prop_assert!(name.domains().all(|domain| name.is_in(domain)));
                    let lower = std::string::String::from_utf8_lossy(text).to_ascii_lowercase();
                    prop_assert!(lower.trim_end_matches('.').ends_with(name.as_str().trim_end_matches('.')));
                }
                prop_assert!(Alpn::new(text).as_str().len() <= 11);
            }
        }
    }
}
