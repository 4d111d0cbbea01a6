//! IP prefixes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::quantity::{Invalid, Quantity, as_text};

/// A set of IP addresses that begin alike: `10.0.0.0/24`, `fd00::/8`; one address stands for
/// itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IpPrefix {
    address: IpAddr,
    len: u8,
}

impl IpPrefix {
    /// The prefix of `len` bits; `None` if the address has fewer bits or others behind them that
    /// are set.
    pub fn new(address: IpAddr, len: u8) -> Option<IpPrefix> {
        let prefix = IpPrefix { address, len };
        let whole = len <= bits_of(address);
        (whole && prefix.masked(address) == address).then_some(prefix)
    }

    /// The first address.
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// How many bits all addresses share.
    #[expect(
        clippy::len_without_is_empty,
        reason = "the length of a prefix, of no list"
    )]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// Whether `address` is one of them.
    pub fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && self.masked(address) == self.address
    }

    /// The address without the bits behind the prefix.
    fn masked(self, address: IpAddr) -> IpAddr {
        let len = u32::from(self.len);
        match address {
            IpAddr::V4(a) => {
                let mask = u32::MAX.checked_shl(32 - len.min(32)).unwrap_or(0);
                Ipv4Addr::from_bits(a.to_bits() & mask).into()
            }
            IpAddr::V6(a) => {
                let mask = u128::MAX.checked_shl(128 - len.min(128)).unwrap_or(0);
                Ipv6Addr::from_bits(a.to_bits() & mask).into()
            }
        }
    }
}

fn bits_of(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

impl From<IpAddr> for IpPrefix {
    fn from(address: IpAddr) -> IpPrefix {
        let len = bits_of(address);
        IpPrefix { address, len }
    }
}

impl FromStr for IpPrefix {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len)),
            None => (text, None),
        };
        let no = || Invalid::new(Self::MUST);
        let address: IpAddr = address.parse().map_err(|_| no())?;
        let len = match len {
            Some(len) => len.parse().map_err(|_| no())?,
            None => bits_of(address),
        };
        if len > bits_of(address) {
            return Err(no());
        }
        IpPrefix::new(address, len).ok_or_else(|| {
            let first = IpPrefix { address, len }.masked(address);
            Invalid::new(format!(
                "an address has no bits after its prefix: write {first}/{len} for the network or \
                 {address} for the host"
            ))
        })
    }
}

impl fmt::Display for IpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if self.len < bits_of(self.address) {
            write!(f, "/{}", self.len)?;
        }
        Ok(())
    }
}

as_text! {
    IpPrefix: "an address is as in 10.0.0.2, 10.0.0.0/24, fd00::2 or fd00::/8";
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_prefix_with_bits_behind_it_is_told_what_it_could_be() {
        let why = "10.0.0.5/24".parse::<IpPrefix>().unwrap_err().to_string();
        assert!(
            why.contains("10.0.0.0/24") && why.ends_with("10.0.0.5 for the host"),
            "{why}"
        );
        assert!("fd00::/129".parse::<IpPrefix>().is_err());
        assert!(
            "::/0"
                .parse::<IpPrefix>()
                .unwrap()
                .contains("fe80::1".parse().unwrap())
        );
        assert!(
            !"::/0"
                .parse::<IpPrefix>()
                .unwrap()
                .contains("10.0.0.1".parse().unwrap())
        );
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_as_the_same(address in any::<u128>(), len in 0u8..=128) {
            let v6 = IpPrefix { address: Ipv6Addr::from_bits(address).into(), len };
            let v6 = IpPrefix { address: v6.masked(v6.address), ..v6 };
            prop_assert_eq!(v6.to_string().parse(), Ok(v6));
            let v4 = IpPrefix { address: Ipv4Addr::from_bits(address as u32).into(), len: len / 4 };
            let v4 = IpPrefix { address: v4.masked(v4.address), ..v4 };
            prop_assert_eq!(v4.to_string().parse(), Ok(v4));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = text.parse::<IpPrefix>();
        }
    }
}
