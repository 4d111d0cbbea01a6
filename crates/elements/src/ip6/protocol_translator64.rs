use super::translate;
use crate::prelude::*;

/// Translates IPv6 packets to IPv4.
///
/// Packets must start with their IPv6 header. Addresses are translated without state: 10.0.0.1 is
/// `::ffff:10.0.0.1` (AddressTranslator changes them before or after). Extension headers are
/// removed, except for the data of a fragment header; a packet that is not a fragment gets the
/// "don't fragment" flag. Type of service and hop count do not change. TCP's and UDP's checksums
/// are updated. ICMP echo and errors become those of the other version, and the packet that an
/// error quotes is translated too.
///
/// These packets are dropped: damaged packets, packets of other addresses, ICMPv6 messages other
/// than echo and errors, fragments of ICMPv6 messages, and packets with a routing header that is
/// not at its end. The result's header is marked, and the destination address annotation set.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1, STOP true)
///     -> UDPIP6Encap(::ffff:10.0.0.1, 1234, ::ffff:192.0.2.1, 53)
///     -> ProtocolTranslator64 -> IPPrint -> Discard;
/// ```
///
/// # See also
/// ProtocolTranslator46, AddressTranslator
#[derive(Element)]
#[element(ports = "1/1")]
pub struct ProtocolTranslator64 {
    /// Packets that could not be translated.
    #[handler(read)]
    drops: u64,
}

impl Element for ProtocolTranslator64 {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if translate::to_v4(packet, &mut translate::Mapped).is_some() {
            return Verdict::Forward;
        }
        self.drops += 1;
        Verdict::Drop
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::ip6;
    use crate::testing::*;

    #[test]
    fn packets_are_translated_and_others_counted() {
        let mut rig = Rig::new("i :: Inject -> p :: ProtocolTranslator64 -> c :: Collect;");
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let (a6, b6) = (a.to_ipv6_mapped(), b.to_ipv6_mapped());
        rig.push("i", &ip6::udp((a6, 5), (b6, 6), &[1]));
        rig.push("i", &[0x60]);
        let packets = rig.collected("c");
        assert_eq!(packets[0].data()[20..], udp((a, 5), (b, 6), &[1])[20..]);
        assert_eq!((packets[0].dst_ip(), rig.read("p.drops")), (b, "1".into()));
    }
}
