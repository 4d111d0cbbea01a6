//! IPv6 addresses and prefixes.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::{Argument, Context, Int, Invalid, Parser, unparse};
use crate::prelude::*;

/// `2001:db8::1`, `::ffff:10.0.0.1`, or the name of an address. The last 32
/// bits may also be the name of an IPv4 address.
impl Argument for Ipv6Addr {
    const KIND: &'static str = "IPv6 address";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        text.parse()
            .ok()
            .or_else(|| with_ipv4_name(text, context))
            .or_else(|| context.names.ip6(text, context.element))
            .ok_or(Invalid::PARSE)
    }
}

/// Addresses separated by spaces.
impl Argument for Vec<Ipv6Addr> {
    const KIND: &'static str = "IPv6 addresses";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        let words = click::config::split_space(text);
        words.iter().map(|word| context.parse(word)).collect()
    }
}

fn with_ipv4_name(text: &str, context: &Context<'_>) -> Option<Ipv6Addr> {
    let (start, name) = text.rsplit_once(':')?;
    let ip: Ipv4Addr = context.parse(name).ok()?;
    format!("{start}:{ip}").parse().ok()
}

/// An IPv6 address and the length of a prefix. The address may have bits
/// outside of the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv6Prefix {
    /// The address as given.
    pub address: Ipv6Addr,
    /// Length of the prefix, 0 to 128.
    pub length: u8,
}

impl Ipv6Prefix {
    /// The mask of `length` one bits.
    pub fn mask(self) -> Ipv6Addr {
        let mask = u128::MAX.checked_shl(128 - u32::from(self.length));
        Ipv6Addr::from_bits(mask.unwrap_or(0))
    }

    /// The address's bits in the prefix.
    pub fn network(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.address.to_bits() & self.mask().to_bits())
    }

    /// Whether `address` is in it.
    pub fn contains(self, address: Ipv6Addr) -> bool {
        (address.to_bits() ^ self.address.to_bits()) & self.mask().to_bits() == 0
    }
}

/// As Click prints it: `2001:db8::/32`.
impl fmt::Display for Ipv6Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", unparse::ip6(self.address), self.length)
    }
}

/// `2001:db8::/32`, `2001:db8::/ffff:ffff::`, or the name of a prefix.
impl Argument for Ipv6Prefix {
    const KIND: &'static str = "IPv6 prefix";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        Ip6PrefixArg::default().parse(text, context)
    }
}

/// An IPv6 prefix; if `allow_bare` is set, also an address alone, as its own
/// prefix of 128 bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ip6PrefixArg {
    /// Whether an address alone will do.
    pub allow_bare: bool,
}

impl Ip6PrefixArg {
    /// Also an address alone.
    pub const OR_ADDRESS: Ip6PrefixArg = Ip6PrefixArg { allow_bare: true };
}

impl Parser<Ipv6Prefix> for Ip6PrefixArg {
    fn parse(&self, text: &str, context: &Context<'_>) -> Result<Ipv6Prefix, Invalid> {
        if let Some((address, length)) = text.rsplit_once('/')
            && let Ok(address) = context.parse(address)
        {
            let length = prefix_length(length, context).ok_or(Invalid::PARSE)?;
            return Ok(Ipv6Prefix { address, length });
        }
        if self.allow_bare
            && let Ok(address) = context.parse(text)
        {
            return Ok(Ipv6Prefix {
                address,
                length: 128,
            });
        }
        let named = context.names.ip6_prefix(text, context.element);
        named.ok_or(Invalid::PARSE)
    }
}

fn prefix_length(text: &str, context: &Context<'_>) -> Option<u8> {
    if let Ok(length) = Int::base(10).parse(text, context)
        && length <= 128
    {
        return Some(length);
    }
    let mask = context.parse::<Ipv6Addr>(text).ok()?.to_bits();
    (mask.leading_ones() + mask.trailing_zeros() >= 128).then(|| mask.leading_ones() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Kind, NameDatabase, NoElements, Value};

    #[test]
    fn addresses_and_names_in_them() {
        let mut names = NameDatabase::new();
        let v4 = Ipv4Addr::new(10, 0, 0, 1);
        names.define(Kind::Ip, "v4", Value::Ip(v4), "");
        let context = Context {
            names: &names,
            elements: &NoElements,
            element: "x",
        };
        let parse = |text| context.parse::<Ipv6Addr>(text).ok();
        assert_eq!(parse("0::ffff:v4"), Some(v4.to_ipv6_mapped()));
        assert_eq!(parse("::13.1.68.3"), "::13.1.68.3".parse().ok());
        assert_eq!(
            parse("1080:0:0:0:8:800:200C:417a"),
            "1080::8:800:200c:417a".parse().ok()
        );
        for bad in ["", ":::", "1:2:3:4:5:6:7:", "v4", "::g"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn prefixes() {
        let parse = |text| {
            let prefix = Context::blank().parse::<Ipv6Prefix>(text).ok()?;
            Some(prefix.to_string())
        };
        assert_eq!(parse("2001:db8::/32").as_deref(), Some("2001:db8::/32"));
        assert_eq!(
            parse("2001:db8::/ffff:ffff::").as_deref(),
            Some("2001:db8::/32")
        );
        for bad in ["2001:db8::/129", "2001:db8::", "2001:db8::/::1", "/8"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
        let any = Ipv6Prefix {
            address: Ipv6Addr::LOCALHOST,
            length: 0,
        };
        assert_eq!(any.network(), Ipv6Addr::UNSPECIFIED);
    }
}
