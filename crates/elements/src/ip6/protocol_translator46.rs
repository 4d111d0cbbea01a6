use super::translate;
use crate::prelude::*;

/// Translates IPv4 packets to IPv6.
///
/// Packets must start with their IPv4 header. Addresses are translated without state: 10.0.0.1 is
/// `::ffff:10.0.0.1` (AddressTranslator changes them before or after). IPv4 options are removed;
/// fragments get a fragment header; UDP without a checksum gets one. Type of service and hop count
/// do not change. TCP's and UDP's checksums are updated. ICMP echo and errors become those of the
/// other version, and the packet that an error quotes is translated too.
///
/// These packets are dropped: damaged packets, ICMP messages other than echo and errors, fragments
/// of ICMP messages, first fragments of UDP packets without checksum, and packets with an
/// unfinished source route. The result's header is marked, and the destination address annotation
/// set.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1, STOP true)
///     -> UDPIPEncap(10.0.0.1, 1234, 192.0.2.1, 53)
///     -> ProtocolTranslator46 -> IP6Print -> Discard;
/// ```
///
/// # See also
/// ProtocolTranslator64, AddressTranslator
#[derive(Element)]
#[element(ports = "1/1")]
pub struct ProtocolTranslator46 {
    /// Packets that could not be translated.
    #[handler(read)]
    drops: u64,
}

impl Element for ProtocolTranslator46 {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if translate::to_v6(packet, &mut translate::Mapped).is_some() {
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
    fn packets_are_translated_there_and_back_and_others_counted() {
        let mut rig = Rig::new(
            "i :: Inject -> p46 :: ProtocolTranslator46 -> t :: Tee -> c :: Collect;
            t[1] -> p64 :: ProtocolTranslator64 -> back :: Collect;",
        );
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        rig.push("i", &udp((a, 5), (b, 6), &[1]));
        rig.push("i", &[0x45]);
        let six = rig.collected("c");
        let (a6, b6) = (a.to_ipv6_mapped(), b.to_ipv6_mapped());
        assert_eq!(six[0].data(), ip6::udp((a6, 5), (b6, 6), &[1]));
        assert_eq!(six[0].dst_ip6(), b6);
        let four = rig.collected("back");
        assert_eq!(four[0].data()[20..], udp((a, 5), (b, 6), &[1])[20..]);
        assert_eq!(
            (four[0].dst_ip(), four[0].transport_offset()),
            (b, Some(20))
        );
        rig.assert_handlers(&[("p46.drops", "1"), ("p64.drops", "0")]);
    }
}
