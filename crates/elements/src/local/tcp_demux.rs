use core::net::Ipv4Addr;

use hashbrown::HashMap;
use packet::Packet;
use router::{Class, Cx, Declared, Element, Verdict};

use super::segment::Segment;

/// Most flows.
const FLOWS: usize = 1 << 16;

/// One side of a TCP flow: address and port; 0 is any.
pub type End = (Ipv4Addr, u16);

const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

/// Lets TCP segments of known flows through.
///
/// TCPConn elements downstream enter the flows, by the two ends as they stand in the packets that
/// go the other way. A segment's flow is looked for first by both ends, then by the local address
/// and port, the port, the address, and last by the entry for all. The others are dropped with a
/// message. Packets must have their IP header marked. There are at most 65536 flows; no more can be
/// entered.
///
/// # Arguments
/// None.
///
/// # Ports
/// One push input, one push output.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// FromHost(fake0, 192.0.2.1/24) -> Strip(14) -> CheckIPHeader -> TCPDemux
///     -> [0] conn :: TCPConn [0] -> Discard;
/// Idle -> [1] conn [1] -> Discard;
/// conn [2] -> Discard;
/// ```
///
/// # See also
/// TCPConn
#[derive(Default)]
pub struct TCPDemux {
    flows: HashMap<(End, End), usize>,
}

impl Class for TCPDemux {
    const NAME: &'static str = "TCPDemux";
    const PORTS: &'static str = "1/1";
    const PROCESSING: &'static str = "h";
}

impl TCPDemux {
    /// Enters a flow from `local` to `remote`, whose packets leave by `port`; false if it is there
    /// already, or there is no room.
    pub fn add(&mut self, local: End, remote: End, port: usize) -> bool {
        if self.flows.contains_key(&(local, remote)) || self.flows.len() >= FLOWS {
            return false;
        }
        self.flows.insert((local, remote), port);
        true
    }

    /// Removes a flow; false if there is none.
    pub fn remove(&mut self, local: End, remote: End) -> bool {
        self.flows.remove(&(local, remote)).is_some()
    }

    fn find(&self, segment: &Segment) -> Option<usize> {
        let (address, port) = segment.destination;
        let keys = [
            ((address, port), segment.source),
            ((address, port), (ANY, 0)),
            ((ANY, port), (ANY, 0)),
            ((address, 0), (ANY, 0)),
            ((ANY, 0), (ANY, 0)),
        ];
        keys.iter().find_map(|key| self.flows.get(key)).copied()
    }
}

impl Declared for TCPDemux {}

impl Element for TCPDemux {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match Segment::of(packet).and_then(|segment| self.find(&segment)) {
            Some(port) => Verdict::To(port),
            None => {
                cx.chatter("reject packet from unknown flow");
                Verdict::Drop
            }
        }
    }
}
