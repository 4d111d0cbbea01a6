use crate::prelude::*;

/// Decrements the time to live of IP packets, and drops expired packets.
///
/// Packets must have their IP header marked; unmarked packets count as expired. The checksum is
/// updated (RFC 1624).
///
/// # Example
/// ```click
/// FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> ttl :: DecIPTTL
///     -> out :: Queue -> ToDevice(eth1);
/// ttl[1] -> ICMPError(18.26.4.24, timeexceeded) -> out;
/// ```
///
/// # See also
/// ICMPError, CheckIPHeader
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", segments)]
#[outputs(
    "packets with a hop left",
    "packets whose time to live was 0 or 1, unchanged"
)]
pub struct DecIPTTL {
    /// Whether packets are changed at all.
    #[arg(default = true, read, write, checkbox, error = "expected boolean")]
    active: bool,
    /// Whether packets to multicast addresses are changed.
    #[arg(default = true)]
    multicast: bool,
    /// Packets that had no hop left.
    #[handler(read)]
    drops: u64,
}

impl DecIPTTL {
    /// Decides on a packet that is not one of the usual, or is expired.
    #[cold]
    fn unusual(&mut self, packet: &mut Packet) -> Verdict {
        if !self.active {
            return Verdict::Forward;
        }
        let header = packet.network_header_mut().unwrap_or_default();
        let mut ip = Ipv4Packet::new_unchecked(header);
        if (!self.multicast && ip.destination().is_multicast()) || ip.decrement_ttl() {
            return Verdict::Forward;
        }
        self.drops += packet.stands_for() as u64;
        Verdict::To(1)
    }
}

impl Element for DecIPTTL {
    #[inline]
    fn effects(&self) -> Effects {
        Effects {
            edit: (self.active && self.multicast).then(Edit::take_hop),
            preserves: Facts::ALL,
            ..Effects::default()
        }
    }

    #[inline(always)]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        // As usual, by straight code; where that does nothing, there is more to be asked.
        let header = packet.network_header_mut().unwrap_or_default();
        if self.active
            && self.multicast
            && let Some(header) = header.first_chunk_mut::<20>()
            && Ipv4Packet::new_unchecked(header).decrement_ttl()
        {
            return Verdict::Forward;
        }
        self.unusual(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn packet(ttl: u8, to: [u8; 4]) -> Vec<u8> {
        let mut packet = udp((Ipv4Addr::new(1, 0, 0, 1), 5), (to.into(), 6), &[]);
        packet[8] = ttl;
        packet[10..12].fill(0);
        let sum = checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    fn rig(args: &str) -> Rig {
        let config = alloc::format!(
            "i :: Inject -> CheckIPHeader -> d :: DecIPTTL({args}) -> CheckIPHeader -> c :: Collect;
             d[1] -> dead :: Collect;"
        );
        Rig::new(&config)
    }

    #[test]
    fn every_ttl_loses_one_and_the_checksum_holds() {
        let mut rig = rig("");
        for ttl in 2..=255 {
            rig.push("i", &packet(ttl, [2, 0, 0, ttl]));
            assert_eq!(rig.data("c"), [packet(ttl - 1, [2, 0, 0, ttl])]);
        }
        assert_eq!(rig.read("d.drops"), "0");
    }

    #[test]
    fn expired_packets_leave_by_output_1_unchanged() {
        let mut rig = rig("");
        let expired = [packet(0, [2; 4]), packet(1, [2; 4])];
        rig.push_all("i", &expired);
        assert_eq!(rig.data("dead"), expired);
        assert_eq!(rig.read("d.drops"), "2");
    }

    #[test]
    fn it_can_be_switched_off() {
        let mut rig = rig("");
        rig.write("d.active", "false");
        rig.push("i", &packet(1, [2; 4]));
        assert_eq!(rig.data("c"), [packet(1, [2; 4])]);
        let error = rig.try_write("d.active", "zork").unwrap_err();
        assert_eq!(error, "expected boolean".into());
    }

    #[test]
    fn multicast_can_be_spared() {
        let mut rig = rig("MULTICAST false");
        rig.push_all("i", &[packet(1, [224, 0, 0, 1]), packet(9, [2; 4])]);
        assert_eq!(
            rig.data("c"),
            [packet(1, [224, 0, 0, 1]), packet(8, [2; 4])]
        );
    }

    #[test]
    fn packets_without_a_header_count_as_expired() {
        let mut rig = Rig::new("i :: Inject -> d :: DecIPTTL -> c :: Collect;");
        rig.push("i", &packet(9, [2; 4]));
        rig.push_with("i", &[0; 19], |packet| packet.set_network_header(0, 20));
        assert!(rig.data("c").is_empty());
        assert_eq!(rig.read("d.drops"), "2");
    }

    #[test]
    fn a_packet_counts_as_its_segments() {
        let mut rig = rig("");
        let mut packet = tcp(([1; 4].into(), 1), ([2; 4].into(), 2), 0, &[7; 250]);
        packet[8] = 1;
        packet[10..12].fill(0);
        let sum = checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        rig.push_with("i", &packet, |packet| {
            packet.set_network_header(0, 20);
            packet.set_offload(Some(Offload {
                checksum_start: 20,
                checksum_offset: 16,
                segments: Some(Segments {
                    kind: SegmentKind::Tcp4,
                    size: 100,
                    ecn: false,
                }),
            }));
        });
        assert_eq!(rig.read("d.drops"), "3");
    }
}
