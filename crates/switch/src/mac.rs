//! Ethernet addresses.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An Ethernet address in the text form of Linux tools, which commands, records and the API have.
///
/// Written as six pairs of hexadecimal digits with colons between; dashes are read as well. (The
/// text form of the packet crate's address is Click's, and no record can depend on it.)
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac(pub [u8; 6]);

/// A text that is not an Ethernet address.
#[derive(Debug, thiserror::Error)]
#[error(
    "‘{0}’ is not an Ethernet address: write six pairs of hexadecimal digits, as in 02:00:00:00:00:01"
)]
pub struct NoMac(String);

impl Mac {
    /// The address that is none.
    pub const ZERO: Mac = Mac([0; 6]);

    /// Whether it is a multicast or the broadcast address.
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = NoMac;

    fn from_str(text: &str) -> Result<Mac, NoMac> {
        let mut bytes = [0; 6];
        let mut pairs = text.split([':', '-']);
        for byte in &mut bytes {
            let pair = pairs.next().filter(|pair| pair.len() == 2);
            let digits = pair.filter(|pair| pair.bytes().all(|b| b.is_ascii_hexdigit()));
            let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            *byte = value.ok_or_else(|| NoMac(text.into()))?;
        }
        match pairs.next() {
            None => Ok(Mac(bytes)),
            Some(_) => Err(NoMac(text.into())),
        }
    }
}

impl TryFrom<String> for Mac {
    type Error = NoMac;

    fn try_from(text: String) -> Result<Mac, NoMac> {
        text.parse()
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> String {
        mac.to_string()
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
