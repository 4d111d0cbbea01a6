use hashbrown::HashMap;

use super::segment::Segment;
use crate::prelude::*;

/// Most flows.
const FLOWS: usize = 1 << 16;

/// One side of a TCP flow: address and port; 0 is any.
pub type End = (Ipv4Addr, u16);

const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

/// An element that passes the segments of the flows that other elements add.
pub trait Flows {
    /// Adds a flow from `local` to `remote`, whose packets leave by `port`; false if it exists
    /// already, or the table is full.
    fn add(&mut self, local: End, remote: End, port: usize) -> bool;

    /// Removes a flow; false if there is none.
    fn remove(&mut self, local: End, remote: End) -> bool;
}

impl Interface for dyn Flows {
    const NAME: &'static str = "TCPDemux";
}

/// Passes TCP segments of known flows.
///
/// TCPConn elements downstream add the flows, by the two ends as in packets of the opposite
/// direction. A segment's flow is looked up first by both ends, then by the local address and port,
/// the port, the address, and last by the entry for all. Other segments are dropped with a message.
/// Packets must have their IP header marked. There are at most 65536 flows.
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
#[derive(Element)]
#[element(ports = "1/1", processing = "h", provides(Flows))]
pub struct TCPDemux {
    flows: HashMap<(End, End), usize>,
}

impl Flows for TCPDemux {
    fn add(&mut self, local: End, remote: End, port: usize) -> bool {
        if self.flows.contains_key(&(local, remote)) || self.flows.len() >= FLOWS {
            return false;
        }
        self.flows.insert((local, remote), port);
        true
    }

    fn remove(&mut self, local: End, remote: End) -> bool {
        self.flows.remove(&(local, remote)).is_some()
    }
}

impl TCPDemux {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::tcp_buffer::tests::{A, B, segment};
    use crate::testing::*;

    #[test]
    fn the_most_specific_flow_counts() {
        let segment = Segment::parse(&segment(1, 0x10, &[])).unwrap();
        let mut demux = TCPDemux::default();
        let flows = [
            ((ANY, 0), (ANY, 0)),
            ((A.0, 0), (ANY, 0)),
            ((ANY, A.1), (ANY, 0)),
            (A, (ANY, 0)),
            (A, B),
        ];
        assert_eq!(demux.find(&segment), None);
        for (port, (local, remote)) in flows.into_iter().enumerate() {
            assert!(demux.add(local, remote, port) && !demux.add(local, remote, 9));
            assert_eq!(demux.find(&segment), Some(port));
        }
        assert!(demux.remove(A, B) && !demux.remove(A, B));
        assert_eq!(demux.find(&segment), Some(3));
    }

    #[test]
    fn segments_of_unknown_flows_are_dropped() {
        let mut rig = Rig::new("i :: Inject -> MarkIPHeader -> TCPDemux -> c :: Collect;");
        rig.push("i", &segment(1, 0x10, &[]));
        assert!(rig.collected("c").is_empty());
        assert_eq!(rig.printed(), ["reject packet from unknown flow"]);
        assert_eq!(rig.outstanding(), 0);
    }
}
