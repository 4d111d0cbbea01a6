use abi::settle::Side;

use super::receiver::Settles;
use crate::prelude::*;

/// Tells the switch that the flows of packets are settled, so that their further packets need not come here.
///
/// Put it where nothing is decided any more: right before ToNetfront. The switch may then pass the flow's packets
/// on in the kernel, with the changes that this one had between FromNetfront and here: addresses, ports and a time to
/// live that is one less. A flow whose headers change otherwise is not settled; changes of payload are not seen, and would
/// be lost. It does so between two VNICs with `settle=on` whose links are interfaces of the host. Where it
/// does not, all is as without the element, and it costs next to nothing. The functions `firewall`, `nat44`, `cgnat` and
/// `balancer` have it.
///
/// Settled are flows of TCP and UDP, over IPv4 and, if no address or port changes, over IPv6. Packets that begin or end
/// a connection, fragments, and packets with IP options or extension headers go on coming, and so does one packet of each flow in a second: what keeps a flow's state here sees that the flow
/// lives. A flow whose packets get here no more, since some element drops them, is no longer settled after 3 seconds; after
/// a write to a handler of the guest by its operator, and after a hotswap, no flow is.
///
/// Elements do not see the other packets. So it is not for flows that are limited or inspected. They count them: the
/// packet that comes each second stands for those that passed since the one before.
///
/// # Example
/// ```click
/// FromNetfront(lan) -> Strip(14) -> CheckIPHeader -> IPFilter(allow tcp) -> Unstrip(14) -> SettleFlows -> ToNetfront(wan);
/// ```
///
/// # See also
/// FromNetfront, ToNetfront, IPRewriter, ConnectionTracker
#[derive(Element)]
#[element(ports = "1/1", segments, provides(Settles))]
pub struct SettleFlows {
    /// A flow is settled with its packet of this number.
    #[arg(positional, default = 4)]
    after: u32,
    /// How often the switch was told of a flow.
    #[handler(read)]
    count: u64,
    /// Packets that came here themselves.
    #[handler(read)]
    packets: u64,
    flows: Vec<Recent>,
}

/// Flows that are remembered.
const RECENT: usize = 4096;
const OVER: u32 = u32::MAX;
/// How long the switch is not told of a flow again, in nanoseconds.
const PAUSE: u64 = 200_000_000;

/// A flow of late; a newer one takes its place.
#[derive(Clone, Copy, Default)]
struct Recent {
    tag: u32,
    /// How many came; [`OVER`] when it has ended, and its packets that still come are to come here.
    packets: u32,
    /// When the switch was told of it.
    told: Option<Steady>,
}

impl SettleFlows {
    /// Whether the switch is to be told of the flow with this hash now, by a packet of it.
    fn is_due(&mut self, cx: &Cx<'_>, hash: u64, packet: Place) -> bool {
        let after = self.after;
        // In place: a guest's stack is too short for it.
        self.flows.resize(RECENT, Recent::default());
        let recent = &mut self.flows[hash as usize % RECENT];
        let tag = (hash >> 32) as u32;
        if recent.tag != tag {
            *recent = Recent {
                tag,
                ..Recent::default()
            };
        }
        recent.packets = match packet {
            Place::Begins => 0,
            Place::Ends => OVER,
            Place::Within => recent.packets.saturating_add(1),
        };
        if packet != Place::Within || recent.packets < after || recent.packets == OVER {
            return false;
        }
        let now = cx.steady();
        let is_due = recent.told.is_none_or(|told| now.since(told) >= PAUSE);
        if is_due {
            recent.told = Some(now);
        }
        is_due
    }
}

/// Where in its flow a packet stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Begins,
    Within,
    Ends,
}

/// The hash of a frame's flow, if it can be settled: of its protocol, addresses and ports; and where in it the frame
/// stands.
#[inline]
fn flow(frame: &[u8]) -> Option<(u64, Place)> {
    let (side, layout) = Side::of_any(frame)?;
    let place = match layout.ends(frame)? {
        0 => Place::Within,
        // SYN
        2 => Place::Begins,
        // FIN, RST
        _ => Place::Ends,
    };
    let [from, to] = side.addresses.map(u128::from_ne_bytes);
    let ports = u64::from(u32::from_ne_bytes(side.ports));
    let ends = u64::from(layout.protocol) << 32 | ports;
    let high = mixed((from >> 64) as u64, (to >> 64) as u64);
    let low = mixed(from as u64, to as u64);
    Some((mixed(high ^ ends, low), place))
}

fn mixed(low: u64, high: u64) -> u64 {
    let product =
        u128::from(low ^ 0x9e37_79b9_7f4a_7c15) * u128::from(high ^ 0xe703_7ed1_a0b4_28db);
    product as u64 ^ (product >> 64) as u64
}

impl Settles for SettleFlows {}

impl Element for SettleFlows {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        self.packets += 1;
        if packet.has_arrival()
            && let Some((hash, place)) = flow(packet.data())
            && self.is_due(cx, hash, place)
        {
            packet.settle();
            self.count += 1;
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn a_flow_is_settled_with_its_fourth_packet_and_again_after_a_while() {
        let cable = Cable::new([2, 0, 0, 0, 0, 1]);
        cable.make_room(100);
        let config = "FromNetfront(a) -> s :: SettleFlows -> ToNetfront(a);";
        let mut rig = Rig::with_cables(config, 64, &[("a", &cable)]);
        let frame = |port: u8, flags: u8| {
            let mut frame = ether([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], 0x800, &[0; 46]);
            frame[14] = 0x45;
            frame[23] = 6;
            frame[35] = port;
            frame[47] = flags;
            frame
        };
        let come = |rig: &mut Rig, port, flags, packets| {
            for _ in 0..packets {
                cable.arrive(&frame(port, flags));
            }
            rig.run();
            rig.read("s.count")
        };
        assert_eq!(come(&mut rig, 1, 0x10, 3), "0");
        assert_eq!(come(&mut rig, 2, 0x10, 3), "0");
        assert_eq!(come(&mut rig, 1, 0x12, 3), "0", "a SYN begins it anew");
        assert_eq!(come(&mut rig, 1, 0x10, 3), "0");
        assert_eq!(come(&mut rig, 1, 0x10, 1), "1");
        assert_eq!(come(&mut rig, 1, 0x10, 9), "1");
        assert_eq!(cable.settled(), 1);
        rig.advance(600_000_000);
        assert_eq!(come(&mut rig, 1, 0x10, 9), "2");
        assert_eq!(come(&mut rig, 2, 0x10, 1), "3");
        // A flow that has ended, and a new one with the same ports.
        rig.advance(600_000_000);
        assert_eq!(come(&mut rig, 1, 0x11, 1), "3");
        assert_eq!(come(&mut rig, 1, 0x10, 9), "3");
        assert_eq!(come(&mut rig, 1, 0x02, 1), "3");
        assert_eq!(come(&mut rig, 1, 0x10, 9), "4");
    }

    #[test]
    fn what_did_not_come_by_an_interface_is_not_settled() {
        let cable = Cable::new([2, 0, 0, 0, 0, 1]);
        cable.make_room(100);
        let config = "i :: Inject -> s :: SettleFlows(1) -> ToNetfront(a);";
        let mut rig = Rig::with_cables(config, 64, &[("a", &cable)]);
        let mut frame = ether([2, 0, 0, 0, 0, 1], [2; 6], 0x800, &[0; 46]);
        frame[14] = 0x45;
        frame[23] = 17;
        rig.push("i", &frame);
        assert_eq!(rig.read("s.count"), "0");
    }
}
