use crate::prelude::*;

/// Decrements the hop limit of IPv6 packets, and drops expired packets.
///
/// Packets must have their IPv6 header marked; unmarked packets count as expired.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> CheckIP6Header -> hops :: DecIP6HLIM -> Discard;
/// hops[1] -> ICMP6Error(2001:db8::1, 3, 0) -> IP6Print -> Discard;
/// ```
///
/// # See also
/// ICMP6Error, CheckIP6Header, DecIPTTL
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", segments)]
#[outputs(
    "packets with a hop left",
    "packets whose hop limit was 0 or 1, unchanged"
)]
pub struct DecIP6HLIM {
    /// Packets that had no hop left.
    #[handler(read)]
    drops: u64,
}

impl Element for DecIP6HLIM {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let header = packet.network_header_mut().unwrap_or_default();
        if Ipv6Packet::new_unchecked(header).decrement_hop_limit() {
            return Verdict::Forward;
        }
        self.drops += packet.stands_for() as u64;
        Verdict::To(1)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::ip6::{addr, packet};
    use crate::testing::*;

    #[test]
    fn a_hop_is_taken_off_while_there_is_one() {
        let mut rig = Rig::new(
            "i :: Inject -> MarkIP6Header -> d :: DecIP6HLIM -> c :: Collect;
            d[1] -> old :: Collect;",
        );
        let limits = [0u8, 1, 2, 255];
        let packets: Vec<_> = limits
            .iter()
            .map(|limit| {
                let mut packet = packet(59, addr("::1"), addr("::2"), &[]);
                packet[7] = *limit;
                packet
            })
            .collect();
        rig.push_all("i", &packets);
        let left: Vec<_> = rig.data("c").iter().map(|packet| packet[7]).collect();
        assert_eq!(left, [1, 254]);
        assert_eq!(rig.data("old"), packets[..2]);
        assert_eq!(rig.read("d.drops"), "2");
        // Nothing marked, or less than a header.
        rig.push("i", &[]);
        rig.push("i", &packets[3][..30]);
        assert_eq!(rig.read("d.drops"), "4");
    }
}
