use crate::prelude::*;

/// Drops Ethernet frames for other hosts, as a network card does.
///
/// The packet type annotation is set from the frame's destination: to this host, broadcast,
/// multicast, or to another host. Packets too short for an Ethernet header are dropped.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> HostEtherFilter(1:1:1:1:1:1) -> Print(mine) -> Discard;
/// ```
///
/// # See also
/// DropBroadcasts, EtherRewrite
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", segments, live)]
#[outputs("frames for this host", "other frames, which are dropped without it")]
pub struct HostEtherFilter {
    /// This host's address.
    #[arg(mandatory, name = "ETHER", read, write, config)]
    address: EtherAddress,
    /// Whether to drop frames from this host.
    #[arg(positional)]
    drop_own: bool,
    /// Whether to drop frames to another host.
    #[arg(positional, default = true)]
    drop_other: bool,
    /// Bytes from the packet's start to the Ethernet header.
    #[arg(default = 0)]
    offset: u32,
}

impl Element for HostEtherFilter {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let header = packet
            .data()
            .get(self.offset as usize..)
            .unwrap_or_default();
        let Ok(frame) = EthernetFrame::new_checked(header) else {
            return Verdict::To(1);
        };
        let destination = frame.destination();
        if self.drop_own && frame.source() == self.address {
            return Verdict::To(1);
        }
        let (kind, drop) = if destination == self.address {
            (PacketType::Host, false)
        } else if destination.is_broadcast() {
            (PacketType::Broadcast, false)
        } else if destination.is_group() {
            (PacketType::Multicast, false)
        } else {
            (PacketType::OtherHost, self.drop_other)
        };
        packet.set_packet_type(kind);
        if drop {
            Verdict::To(1)
        } else {
            Verdict::Forward
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const ME: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 2];
    const GROUP: [u8; 6] = [1, 0, 0, 0, 0, 2];

    fn rig(arguments: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> f :: HostEtherFilter({arguments}) -> c :: Collect;
             f[1] -> other :: Collect;"
        ))
    }

    fn types(rig: &mut Rig, output: &str) -> Vec<PacketType> {
        let packets = rig.collected(output);
        packets.iter().map(|packet| packet.packet_type()).collect()
    }

    #[test]
    fn frames_are_sorted_by_destination() {
        let mut rig = rig("2:0:0:0:0:1");
        let frames = [ME, [255; 6], GROUP, OTHER].map(|to| ether(to, OTHER, 0x0800, &[]));
        rig.push_all("i", &frames);
        rig.push("i", &[2; 13]);
        let kept = [
            PacketType::Host,
            PacketType::Broadcast,
            PacketType::Multicast,
        ];
        assert_eq!(types(&mut rig, "c"), kept);
        let other = [PacketType::OtherHost, PacketType::Host]; // The short one keeps its own.
        assert_eq!(types(&mut rig, "other"), other);
    }

    #[test]
    fn what_is_dropped_can_be_chosen() {
        let mut rig = rig("2:0:0:0:0:1, true, false, OFFSET 1");
        for (to, from) in [(OTHER, OTHER), (OTHER, ME)] {
            rig.push("i", &[&[0][..], &ether(to, from, 0x0800, &[])].concat());
        }
        assert_eq!(types(&mut rig, "c"), [PacketType::OtherHost]);
        assert_eq!(rig.collected("other").len(), 1);
        rig.write("f.ether", "2:0:0:0:0:2");
        assert_eq!(rig.read("f.ether"), "02-00-00-00-00-02");
        assert_eq!(rig.read("f.config"), "2:0:0:0:0:2, true, false, OFFSET 1");
    }
}
