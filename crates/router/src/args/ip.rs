//! IPv4 addresses, prefixes and lists of addresses.

use core::fmt;
use core::net::Ipv4Addr;

use super::{Argument, Context, Int, Invalid, Parser};
use crate::prelude::*;

/// `10.0.0.1`, or the name of an address.
impl Argument for Ipv4Addr {
    const KIND: &'static str = "IP address";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        parse_ipv4_literal(text.as_bytes())
            .or_else(|| context.names.ip(text, context.element))
            .ok_or(Invalid::PARSE)
    }
}

/// Addresses separated by spaces.
impl Argument for Vec<Ipv4Addr> {
    const KIND: &'static str = "IP addresses";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        let words = click::config::split_space(text);
        words.iter().map(|word| context.parse(word)).collect()
    }
}

/// A dotted quad. Unlike the standard library's, it may have leading zeros.
pub fn parse_ipv4_literal(text: &[u8]) -> Option<Ipv4Addr> {
    match parse_quad_start(text)? {
        (octets, 4) => Some(octets.into()),
        _ => None,
    }
}

/// The first bytes of a dotted quad, and how many they are (1 to 4).
fn parse_quad_start(text: &[u8]) -> Option<([u8; 4], u8)> {
    let (mut octets, mut count) = ([0; 4], 0);
    let mut octet = None;
    for &byte in text {
        octet = match byte {
            b'0'..=b'9' => Some(
                octet
                    .unwrap_or(0u8)
                    .checked_mul(10)?
                    .checked_add(byte - b'0')?,
            ),
            b'.' => {
                *octets.get_mut(count)? = octet?;
                count += 1;
                None
            }
            _ => return None,
        };
    }
    *octets.get_mut(count)? = octet?;
    Some((octets, count as u8 + 1))
}

/// An IPv4 address and a mask. The address may have bits outside of the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv4Prefix {
    /// The address as given.
    pub address: Ipv4Addr,
    /// The mask; usually, but not always, a prefix mask.
    pub mask: Ipv4Addr,
}

impl Ipv4Prefix {
    /// All addresses.
    pub const ANY: Ipv4Prefix = Ipv4Prefix {
        address: Ipv4Addr::UNSPECIFIED,
        mask: Ipv4Addr::UNSPECIFIED,
    };

    /// The prefix of `length` bits (at most 32) that `address` is in.
    pub fn new(address: Ipv4Addr, length: u8) -> Self {
        assert!(length <= 32, "an IPv4 prefix has at most 32 bits");
        let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        Ipv4Prefix {
            address,
            mask: Ipv4Addr::from_bits(mask),
        }
    }

    /// The address's bits under the mask.
    pub fn network(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() & self.mask.to_bits())
    }

    /// The address with all bits set that the mask leaves out.
    pub fn broadcast(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() | !self.mask.to_bits())
    }

    /// Length of the mask, if it is a prefix mask.
    pub fn length(self) -> Option<u8> {
        let mask = self.mask.to_bits();
        (mask.leading_ones() + mask.trailing_zeros() >= 32).then(|| mask.leading_ones() as u8)
    }

    /// Whether `address` is in it.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        (address.to_bits() ^ self.address.to_bits()) & self.mask.to_bits() == 0
    }
}

/// As Click prints it: `10.0.0.0/8`, or `10.0.0.0/255.0.0.255`.
impl fmt::Display for Ipv4Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length() {
            Some(length) => write!(f, "{}/{length}", self.address),
            None => write!(f, "{}/{}", self.address, self.mask),
        }
    }
}

/// `10.0.0.0/8`, `10/8`, `10.0.0.0/255.0.0.0`, or the name of a prefix.
impl Argument for Ipv4Prefix {
    const KIND: &'static str = "IP prefix";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        IpPrefixArg::default().parse(text, context)
    }
}

/// An IPv4 prefix; if `allow_bare` is set, also an address alone, as its own
/// prefix of 32 bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct IpPrefixArg {
    /// Whether an address alone will do.
    pub allow_bare: bool,
}

impl IpPrefixArg {
    /// Also an address alone.
    pub const OR_ADDRESS: IpPrefixArg = IpPrefixArg { allow_bare: true };
}

impl Parser<Ipv4Prefix> for IpPrefixArg {
    fn parse(&self, text: &str, context: &Context<'_>) -> Result<Ipv4Prefix, Invalid> {
        let with_slash = || prefix_with_slash(text, context);
        let bare = || {
            let address = self.allow_bare.then(|| context.parse(text))?.ok()?;
            Some(Ipv4Prefix::new(address, 32))
        };
        with_slash()
            .or_else(bare)
            .or_else(|| context.names.ip_prefix(text, context.element))
            .ok_or(Invalid::PARSE)
    }
}

fn prefix_with_slash(text: &str, context: &Context<'_>) -> Option<Ipv4Prefix> {
    let (address, mask) = text.rsplit_once('/')?;
    if address.is_empty() {
        return None;
    }
    let (address, given_bytes) = match parse_quad_start(address.as_bytes()) {
        Some((octets, count)) => (Ipv4Addr::from(octets), count),
        None => (context.names.ip(address, context.element)?, 4),
    };
    let length: Option<u8> = Int::base(10).parse(mask, context).ok();
    let prefix = match length.filter(|&length| length <= 32) {
        Some(length) => Ipv4Prefix::new(address, length),
        None => Ipv4Prefix {
            address,
            mask: context.parse(mask).ok()?,
        },
    };
    // A mask must not ask for bits that the address doesn't give: `10.0/24`.
    let given = Ipv4Prefix::new(address, given_bytes * 8);
    (prefix.mask.to_bits() & !given.mask.to_bits() == 0).then_some(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let parse = |text| Context::blank().parse::<Ipv4Addr>(text).ok();
        assert_eq!(parse("18.26.4.9"), Some([18, 26, 4, 9].into()));
        assert_eq!(parse("018.026.0004.9"), Some([18, 26, 4, 9].into()));
        for bad in [
            "",
            "1.2.3",
            "1.2.3.4.5",
            "1.2.3.256",
            "1..2.3",
            "1.2.3.",
            ".1.2.3",
            "1000.2.3.4",
            "+1.2.3.4",
            "a",
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
        let list = Context::blank().parse::<Vec<Ipv4Addr>>("1.0.0.1  1.0.0.2");
        assert_eq!(list.map(|l| l.len()), Ok(2));
    }

    #[test]
    fn prefixes() {
        let parse = |text| {
            let prefix = Context::blank().parse::<Ipv4Prefix>(text).ok()?;
            Some(prefix.to_string())
        };
        assert_eq!(parse("18.26.4/24").as_deref(), Some("18.26.4.0/24"));
        assert_eq!(parse("18.26.4/28"), None);
        assert_eq!(parse("10/8").as_deref(), Some("10.0.0.0/8"));
        assert_eq!(parse("0.0.0.0/0").as_deref(), Some("0.0.0.0/0"));
        assert_eq!(parse("1.2.3.4/255.255.0.0").as_deref(), Some("1.2.3.4/16"));
        assert_eq!(
            parse("1.2.3.4/255.0.0.1").as_deref(),
            Some("1.2.3.4/255.0.0.1")
        );
        for bad in ["", "/8", "1.2.3.4", "1.2.3.4/", "1.2.3.4/33", "1.2.3.4/-1"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
        let bare = IpPrefixArg::OR_ADDRESS.parse("1.2.3.4", &Context::blank());
        assert_eq!(bare.map(|p| p.to_string()).as_deref(), Ok("1.2.3.4/32"));
    }
}
