//! Ethernet addresses.

use core::fmt;

use super::{Argument, Context, Invalid};

/// An Ethernet address, most significant byte first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherAddress(pub [u8; 6]);

impl EtherAddress {
    /// FF-FF-FF-FF-FF-FF.
    pub const BROADCAST: EtherAddress = EtherAddress([0xFF; 6]);

    /// Whether it is a group address.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// The address in hexadecimal with colons or with hyphens between bytes.
    pub fn from_literal(text: &str) -> Option<Self> {
        let separator = text.chars().find(|c| !c.is_ascii_hexdigit())?;
        if !matches!(separator, ':' | '-') {
            return None;
        }
        let mut bytes = [0; 6];
        let mut parts = text.split(separator);
        for byte in &mut bytes {
            let part = parts.next().filter(|p| matches!(p.len(), 1 | 2))?;
            // Not only digits: `from_str_radix` would take a sign.
            if !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            *byte = u8::from_str_radix(part, 16).ok()?;
        }
        parts.next().is_none().then_some(EtherAddress(bytes))
    }
}

/// As Click prints it: `00-50-BA-85-84-A9`.
impl fmt::Display for EtherAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02X}-{b:02X}-{c:02X}-{d:02X}-{e:02X}-{g:02X}")
    }
}

/// `00:50:BA:85:84:A9`, `0-50-ba-85-84-a9`, or the name of an address.
impl Argument for EtherAddress {
    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        EtherAddress::from_literal(text)
            .or_else(|| context.names.ether(text, context.element))
            .ok_or(Invalid::PARSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn literals() {
        let parse = |text| Context::blank().parse::<EtherAddress>(text).ok();
        let address = EtherAddress([0, 0x50, 0xBA, 0x85, 0x84, 0xA9]);
        assert_eq!(parse("00:50:BA:85:84:A9"), Some(address));
        assert_eq!(parse("0-50-ba-85-84-a9"), Some(address));
        assert_eq!(address.to_string(), "00-50-BA-85-84-A9");
        for bad in [
            "",
            "1:2:3:4:5",
            "1:2:3:4:5:6:7",
            "1:2-3:4:5:6",
            "001:2:3:4:5:6",
            "1:2:3:4:5:",
            "+1:2:3:4:5:6",
            "1:+2:3:4:5:6",
            "123456",
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
