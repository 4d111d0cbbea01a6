use super::receiver::{Receiver, Receives};
use crate::prelude::*;

/// Receives frames from one of the guest's interfaces, or in `weir click` from one of the host's.
///
/// The interface is a pair of rings that the guest shares with the switch. While frames come, the
/// element polls; when a number of polls found nothing, the guest may sleep until the switch
/// wakes it. Each frame's MAC header is marked, and its packet type set by its destination
/// address. In `weir click`, the interface is opened by a packet socket, promiscuously; its offloads are to be off.
///
/// # Example
/// ```click
/// FromNetfront(inside) -> EtherMirror -> ToNetfront(inside);
/// ```
///
/// # See also
/// ToNetfront, FromDevice
#[derive(Element)]
#[element(
    ports = "0/1",
    processing = "/h",
    segments,
    provides(Receives, Addressed, Descriptors)
)]
pub struct FromNetfront {
    /// The interface's name, as the guest was given it; of the host, its own or the one that `--link` gives it.
    #[arg(mandatory)]
    interface: String,
    /// Most frames each time it is scheduled.
    #[arg(positional, default = 64)]
    burst: u32,
    /// Whether frames carry the time at which they were received.
    #[arg]
    timestamp: bool,
    #[delegate(configured = complete)]
    receiver: Receiver,
}

impl FromNetfront {
    fn complete(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.burst == 0 {
            return Err(args.fail("BURST must be at least 1"));
        }
        self.receiver.interface.clone_from(&self.interface);
        (self.receiver.burst, self.receiver.timestamp) = (self.burst, self.timestamp);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    #[test]
    fn frames_are_received_and_marked() {
        let cable = Cable::new(MAC);
        let config = "f :: FromNetfront(a, TIMESTAMP true) -> c :: Collect;";
        let mut rig = Rig::with_cables(config, 64, &[("a", &cable)]);
        for to in [MAC, [0xff; 6], [1, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 9]] {
            cable.arrive(&ether(to, [2; 6], 0x800, &[7; 46]));
        }
        cable.arrive(&[1, 2, 3]);
        rig.run();
        let packets = rig.collected("c");
        let types: std::vec::Vec<_> = packets.iter().map(|p| p.packet_type()).collect();
        assert_eq!(
            types,
            [
                PacketType::Host,
                PacketType::Broadcast,
                PacketType::Multicast,
                PacketType::OtherHost,
                PacketType::Host
            ]
        );
        assert_eq!(packets[0].mac_offset(), Some(0));
        assert_eq!(packets[0].timestamp(), crate::testing::START);
        rig.assert_handlers(&[("f.count", "5"), ("f.byte_count", "243")]);
        assert_eq!(rig.read("f.mac"), "02-00-00-00-00-01");
        rig.write("f.reset_counts", "");
        assert_eq!(rig.read("f.count"), "0");
    }

    #[test]
    fn a_burst_larger_than_a_batch_is_received_in_one_scheduling() {
        let cable = Cable::new(MAC);
        let config = "f :: FromNetfront(a, 100) -> c :: Collect;";
        let mut rig = Rig::with_cables(config, 16, &[("a", &cable)]);
        for _ in 0..150 {
            cable.arrive(&[0; 60]);
        }
        rig.step();
        assert_eq!(rig.read("f.count"), "100");
        rig.step();
        assert_eq!(rig.read("f.count"), "150");
    }

    #[test]
    fn the_router_sleeps_until_a_frame_arrives() {
        let cable = Cable::new(MAC);
        let config = "f :: FromNetfront(a) -> c :: Collect;";
        let mut rig = Rig::with_cables(config, 64, &[("a", &cable)]);
        assert_eq!(rig.run(), router::Status::Idle(None));
        assert!(rig.router.arm());
        cable.arrive(&[0; 60]);
        assert!(
            !rig.router.arm(),
            "a frame that came before the sleep keeps it awake"
        );
        rig.run();
        assert_eq!(rig.collected("c").len(), 1);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        Rig::refuses(
            "FromNetfront(nowhere) -> Discard;",
            "nowhere: no such interface; name one that the guest was given",
        );
        Rig::refuses("FromNetfront(a, 0) -> Discard;", "BURST must be at least 1");
    }
}
