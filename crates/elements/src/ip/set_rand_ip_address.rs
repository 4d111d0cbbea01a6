use crate::prelude::*;

/// Most addresses of a list: 256 KiB.
const ADDRESSES_MAX: i32 = 1 << 16;

/// Sets packets' destination address annotation to random addresses.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 100, STOP true) -> SetRandIPAddress(10.0.0.0/8)
///     -> StoreIPAddress(16) -> Discard;
/// ```
///
/// # See also
/// SetIPAddress, StoreIPAddress, GetIPAddress
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct SetRandIPAddress {
    /// The prefix of the addresses.
    #[arg(mandatory, with = IpPrefixArg::OR_ADDRESS, kind = "IP prefix or address")]
    #[init(Ipv4Prefix::ANY)]
    prefix: Ipv4Prefix,
    /// Most different addresses, at most 65536, chosen when the router starts; no limit if 0 or
    /// negative.
    #[arg(positional, default = -1)]
    limit: i32,
    /// The addresses to choose from; empty: all of the prefix.
    addresses: Vec<Ipv4Addr>,
}

/// A random address of `prefix`.
#[inline(always)]
fn pick(cx: &mut Cx<'_>, prefix: Ipv4Prefix) -> Ipv4Addr {
    let mask = prefix.mask.to_bits();
    Ipv4Addr::from_bits(cx.random().next_u32() & !mask | prefix.address.to_bits() & mask)
}

impl Element for SetRandIPAddress {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.limit > ADDRESSES_MAX {
            return Err(args.fail(format_args!("LIMIT too large; max {ADDRESSES_MAX}")));
        }
        self.addresses = (0..self.limit).map(|_| pick(cx, self.prefix)).collect();
        Ok(())
    }

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

    use crate::testing::*;

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
