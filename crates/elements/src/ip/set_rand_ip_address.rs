use alloc::vec::Vec;
use core::net::Ipv4Addr;

use packet::Packet;
use router::args::{Args, Failed, IpPrefixArg, Ipv4Prefix};
use router::{Class, Cx, Declared, Element, Verdict};

/// Most addresses of a list: 256 KiB.
const ADDRESSES_MAX: i32 = 1 << 16;

/// Sets packets' destination address annotation to random addresses.
///
/// # Arguments
/// - `PREFIX` (prefix or IP address): which addresses.
/// - `LIMIT` (integer, -1): most different addresses, at most 65536, chosen when the router starts;
///   no limit if 0 or negative.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 100, STOP true) -> SetRandIPAddress(10.0.0.0/8)
///     -> StoreIPAddress(16) -> Discard;
/// ```
///
/// # See also
/// SetIPAddress, StoreIPAddress, GetIPAddress
pub struct SetRandIPAddress {
    prefix: Ipv4Prefix,
    /// What to choose from; empty: all of the prefix.
    addresses: Vec<Ipv4Addr>,
}

impl Default for SetRandIPAddress {
    fn default() -> Self {
        SetRandIPAddress {
            prefix: Ipv4Prefix::ANY,
            addresses: Vec::new(),
        }
    }
}

impl Class for SetRandIPAddress {
    const NAME: &'static str = "SetRandIPAddress";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

/// A random address of `prefix`.
#[inline(always)]
fn pick(cx: &mut Cx<'_>, prefix: Ipv4Prefix) -> Ipv4Addr {
    let mask = prefix.mask.to_bits();
    Ipv4Addr::from_bits(cx.random().next_u32() & !mask | prefix.address.to_bits() & mask)
}

impl Declared for SetRandIPAddress {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut prefix, mut limit) = (Ipv4Prefix::ANY, -1i32);
        args.mandatory_positional_with("PREFIX", IpPrefixArg::OR_ADDRESS, &mut prefix)
            .positional("LIMIT", &mut limit)
            .complete()?;
        if limit > ADDRESSES_MAX {
            return Err(args.fail(format_args!("LIMIT too large; max {ADDRESSES_MAX}")));
        }
        self.prefix = prefix;
        self.addresses = (0..limit).map(|_| pick(cx, prefix)).collect();
        Ok(())
    }
}

impl Element for SetRandIPAddress {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let chosen = cx.random().below(self.addresses.len() as u32) as usize;
        let address = match self.addresses.get(chosen) {
            Some(address) => *address,
            None => pick(cx, self.prefix),
        };
        packet.set_dst_ip(address);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::{format, vec};
    use core::net::Ipv4Addr;

    use crate::testing::Rig;

    fn addresses(arguments: &str) -> BTreeSet<Ipv4Addr> {
        let mut rig = Rig::new(&format!(
            "i :: Inject -> SetRandIPAddress({arguments}) -> c :: Collect;"
        ));
        rig.push_all("i", &vec![vec![]; 2000]);
        let packets = rig.collected("c");
        packets.iter().map(|packet| packet.dst_ip()).collect()
    }

    #[test]
    fn all_addresses_are_of_the_prefix() {
        let all = addresses("10.1.0.0/16");
        assert!(all.iter().all(|address| address.octets()[..2] == [10, 1]));
        assert!(all.len() > 1500, "{}", all.len());
        assert_eq!(addresses("10.1.2.3").len(), 1);
        let last = addresses("1.2.3.4/255.255.255.252");
        assert!(last.into_iter().map(|a| a.octets()[3]).eq(4..8));
    }

    #[test]
    fn a_limit_bounds_how_many_there_are() {
        let some = addresses("10.0.0.0/8, 5");
        assert!((2..=5).contains(&some.len()), "{}", some.len());
        assert!(addresses("10.0.0.0/8, 0").len() > 1500);
        let errors = Rig::errors("Inject -> SetRandIPAddress(10.0.0.0/8, 65537) -> Collect;");
        assert!(errors.contains("LIMIT too large; max 65536"), "{errors}");
    }
}
