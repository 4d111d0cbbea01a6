use crate::prelude::*;

/// Drops packets that came as link-level broadcasts or multicasts.
///
/// IP routers must not forward them (RFC 1812, section 5.3.4). The receiving element sets the
/// packet type annotation. The first drop is reported.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> DropBroadcasts -> Discard;
/// ```
///
/// # See also
/// FromDevice, HostEtherFilter
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", segments)]
#[outputs(
    "packets to this host",
    "broadcasts and multicasts, which are dropped without it"
)]
pub struct DropBroadcasts {
    /// Packets dropped, or sent to output 1.
    #[handler(read)]
    drops: u64,
}

impl Element for DropBroadcasts {
    #[inline]
    fn affects(&self, packet: &Packet) -> bool {
        packet.packet_type().is_to_many()
    }

    #[inline]
    fn effects(&self) -> Effects {
        Effects {
            no_op: Facts::UNICAST,
            preserves: Facts::ALL,
            ..Effects::default()
        }
    }

    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if !packet.packet_type().is_to_many() {
            return Verdict::Forward;
        }
        if self.drops == 0 {
            cx.chatter("DropBroadcasts: dropped a packet");
        }
        self.drops += packet.stands_for() as u64;
        Verdict::To(1)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const TYPES: [PacketType; 5] = [
        PacketType::Host,
        PacketType::Broadcast,
        PacketType::Multicast,
        PacketType::OtherHost,
        PacketType::Outgoing,
    ];

    #[test]
    fn broadcasts_and_multicasts_are_dropped() {
        let mut rig = Rig::new("i :: Inject -> d :: DropBroadcasts -> c :: Collect;");
        for (i, packet_type) in TYPES.into_iter().enumerate() {
            rig.push_with("i", &[i as u8], |packet| {
                packet.set_packet_type(packet_type)
            });
        }
        assert_eq!(rig.data("c"), [[0], [3], [4]]);
        assert_eq!(rig.read("d.drops"), "2");
        assert_eq!(rig.printed(), ["DropBroadcasts: dropped a packet"]);
        assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn they_leave_by_output_1_if_there_is_one() {
        let config = "i :: Inject -> d :: DropBroadcasts -> c :: Collect; d[1] -> b :: Collect;";
        let mut rig = Rig::new(config);
        rig.push_with("i", &[1], |packet| {
            packet.set_packet_type(PacketType::Broadcast)
        });
        assert_eq!(rig.data("b"), [[1]]);
    }

    #[test]
    fn a_packet_counts_as_its_segments() {
        let mut rig = Rig::new("i :: Inject -> d :: DropBroadcasts -> c :: Collect;");
        rig.push_segments("i", 3, |packet| {
            packet.set_packet_type(PacketType::Multicast)
        });
        assert_eq!((rig.read("d.drops"), rig.outstanding()), ("3".into(), 0));
    }
}
