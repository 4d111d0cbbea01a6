use alloc::string::{String, ToString};

use packet::{Facts, Packet};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Verdict};

/// Drops packets that came as link-level broadcasts or multicasts.
///
/// IP routers must not forward such packets (RFC 1812, section 5.3.4). How a packet came is noted
/// by the element that received it. The first drop is reported.
///
/// # Arguments
/// None.
///
/// # Ports
/// One input; output 0 of the same kind; output 1, optional, is push: the packets that would be
/// dropped.
///
/// # Handlers
/// - `drops` (read): packets dropped, or sent to output 1.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> DropBroadcasts -> Discard;
/// ```
///
/// # See also
/// FromDevice, HostEtherFilter
#[derive(Default)]
pub struct DropBroadcasts {
    drops: u64,
}

impl Class for DropBroadcasts {
    const NAME: &'static str = "DropBroadcasts";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SEGMENTS: bool = true;
}

impl Declared for DropBroadcasts {
    fn handlers(&self, list: &mut HandlerList) {
        list.read("drops");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }
}

impl Element for DropBroadcasts {
    #[inline]
    fn concerns(&self, packet: &Packet) -> bool {
        packet.packet_type().is_to_many()
    }

    #[inline]
    fn moot(&self) -> Facts {
        Facts::UNICAST
    }

    #[inline]
    fn keeps(&self) -> Facts {
        Facts::ALL
    }

    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if !packet.packet_type().is_to_many() {
            return Verdict::Forward;
        }
        if self.drops == 0 {
            cx.chatter("DropBroadcasts: dropped a packet");
        }
        self.drops += 1;
        Verdict::To(1)
    }
}

#[cfg(test)]
mod tests {
    use packet::PacketType;

    use crate::testing::Rig;

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
            rig.push_with("i", &[i as u8], |packet| packet.set_packet_type(packet_type));
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
}
