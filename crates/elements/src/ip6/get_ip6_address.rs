use crate::prelude::*;

/// Copies an IPv6 address out of packets into their destination address annotation.
///
/// Packets too short for the address keep their annotation.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> CheckIP6Header -> GetIP6Address(24)
///     -> LookupIP6Route(::/0 0) -> Discard;
/// ```
///
/// # See also
/// IP6NDSolicitor, LookupIP6Route, SetIP6Address, GetIPAddress
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct GetIP6Address {
    /// Where the address is, in bytes from the packet's start: 24 for the destination of a packet
    /// that starts with its IPv6 header.
    #[arg(mandatory)]
    offset: u32,
}

impl Element for GetIP6Address {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let bytes = packet.data().get(self.offset as usize..);
        if let Some(address) = bytes.and_then(|bytes| bytes.first_chunk()) {
            packet.set_dst_ip6(Ipv6Addr::from_octets(*address));
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::ip6::{addr, packet};
    use crate::testing::*;

    #[test]
    fn the_address_is_copied_where_there_is_one() {
        let mut rig = Rig::new("i :: Inject -> GetIP6Address(24) -> c :: Collect;");
        let whole = packet(59, addr("::1"), addr("2001:db8::7"), &[]);
        rig.push("i", &whole);
        rig.push_with("i", &whole[..39], |p| p.set_dst_ip6(addr("::9")));
        let packets = rig.collected("c");
        assert_eq!(packets[0].dst_ip6(), addr("2001:db8::7"));
        assert_eq!(packets[1].dst_ip6(), addr("::9"));
        Rig::refuses(
            "Inject -> GetIP6Address -> Collect;",
            "OFFSET: required argument missing",
        );
    }
}
