use crate::prelude::*;

/// Sets packets' destination address annotation to a fixed IPv6 address.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> SetIP6Address(2001:db8::1)
///     -> LookupIP6Route(::/0 0) -> Discard;
/// ```
///
/// # See also
/// GetIP6Address, LookupIP6Route, SetIPAddress
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct SetIP6Address {
    /// The address.
    #[arg(mandatory, name = "IPADDR")]
    address: Ipv6Addr,
}

impl Element for SetIP6Address {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        packet.set_dst_ip6(self.address);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::ip6::addr;
    use crate::testing::*;

    #[test]
    fn the_annotation_is_set() {
        let mut rig = Rig::new("i :: Inject -> SetIP6Address(2001:db8::1) -> c :: Collect;");
        rig.push("i", &[]);
        assert_eq!(rig.collected("c")[0].dst_ip6(), addr("2001:db8::1"));
        Rig::refuses("Inject -> SetIP6Address(1.2.3.4) -> Collect;", "IPADDR");
    }
}
