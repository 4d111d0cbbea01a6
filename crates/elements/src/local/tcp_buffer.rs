use super::segment::{Segment, before};
use crate::prelude::*;

/// Most segments that wait.
const CAPACITY: usize = 4096;

/// An element that puts TCP segments in order.
pub trait Reassembly {
    /// The first sequence number from `from` on that no stored segment has; `None` if no segment
    /// ever came.
    fn next_missing(&self, from: u32) -> Option<u32>;
}

impl Interface for dyn Reassembly {
    const NAME: &'static str = "TCPBuffer";
}

/// Puts TCP segments in order.
///
/// Segments are kept in the order of their sequence numbers until they are pulled. While one is
/// missing, nothing can be pulled, unless SKIP. Segments with a stored or an earlier number are
/// dropped. The first segment pulled sets the start of the order. Packets must have their IP header
/// marked; packets other than TCP are dropped. At most 4096 segments wait; more are dropped.
///
/// # Example
/// ```click
/// FromDump(in.pcap, FORCE_IP true) -> IPClassifier(tcp src port 80) -> TCPBuffer
///     -> Unqueue -> IPPrint -> Discard;
/// ```
///
/// # See also
/// TCPAck, TCPConn
#[derive(Element)]
#[element(ports = "1/1", processing = "h/l", provides(Reassembly))]
pub struct TCPBuffer {
    /// Whether missing segments are skipped.
    #[arg(positional)]
    skip: bool,
    /// By sequence number.
    waiting: VecDeque<(Segment, Packet)>,
    /// The sequence number of the next segment, once a segment was pulled.
    next: Option<u32>,
}

impl Reassembly for TCPBuffer {
    fn next_missing(&self, from: u32) -> Option<u32> {
        let first = self.waiting.front().map(|(segment, _)| segment.sequence);
        let mut expected = self.next.or(first)?;
        for (segment, _) in &self.waiting {
            if segment.sequence != expected {
                if !before(expected, from) {
                    return Some(expected);
                }
                if before(from, segment.sequence) {
                    return Some(from);
                }
            }
            expected = segment.sequence.wrapping_add(segment.sequence_length());
        }
        Some(if before(expected, from) {
            from
        } else {
            expected
        })
    }
}

impl TCPBuffer {
    /// Stores a packet in its order; gives it back if it is not stored.
    fn store(&mut self, packet: Packet) -> Result<(), Packet> {
        let Some(segment) = Segment::of(&packet) else {
            return Err(packet);
        };
        let late = self.next.is_some_and(|next| before(segment.sequence, next));
        if late || self.waiting.len() >= CAPACITY {
            return Err(packet);
        }
        // Most come in order: from the back.
        let earlier = self
            .waiting
            .iter()
            .rposition(|(other, _)| !before(segment.sequence, other.sequence));
        let at = match earlier {
            Some(at) if self.waiting[at].0.sequence == segment.sequence => return Err(packet),
            Some(at) => at + 1,
            None => 0,
        };
        self.waiting.insert(at, (segment, packet));
        Ok(())
    }

    fn take(&mut self) -> Option<Packet> {
        let (segment, _) = self.waiting.front()?;
        if !self.skip && self.next.is_some_and(|next| next != segment.sequence) {
            return None;
        }
        let (segment, packet) = self.waiting.pop_front()?;
        self.next = Some(segment.sequence.wrapping_add(segment.sequence_length()));
        Some(packet)
    }
}

impl Element for TCPBuffer {
    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        for (_, packet) in self.waiting.drain(..) {
            cx.kill(packet);
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        for packet in batch.drain() {
            if let Err(packet) = self.store(packet) {
                cx.kill(packet);
            }
        }
        0
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        for _ in 0..most {
            let Some(packet) = self.take() else {
                break;
            };
            if let Err(packet) = batch.push(packet) {
                cx.kill(packet);
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use core::net::Ipv4Addr;
    use std::vec::Vec;

    use crate::testing::{Rig, tcp};

    pub const A: (Ipv4Addr, u16) = (Ipv4Addr::new(1, 0, 0, 1), 5);
    pub const B: (Ipv4Addr, u16) = (Ipv4Addr::new(2, 0, 0, 2), 80);

    /// A segment of B to A with a sequence number.
    pub fn segment(sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut segment = tcp(B, A, flags, payload);
        segment[24..28].copy_from_slice(&sequence.to_be_bytes());
        segment
    }

    fn pulled(rig: &mut Rig) -> Vec<u32> {
        let word = |data: &[u8]| u32::from_be_bytes(*data[24..].first_chunk().unwrap());
        let packets = rig.pull("p", 99);
        packets.iter().map(|packet| word(packet.data())).collect()
    }

    #[test]
    fn segments_leave_in_order() {
        let config = "i :: Inject -> MarkIPHeader -> TCPBuffer -> p :: Puller;";
        let mut rig = Rig::new(config);
        let start = u32::MAX - 5;
        rig.push("i", &segment(start, 0x12, &[]));
        assert_eq!(pulled(&mut rig), [start]);
        let [a, b, c] = [1, 11, 21].map(|n| start.wrapping_add(n));
        for sequence in [c, b, b] {
            rig.push("i", &segment(sequence, 0x10, &[7; 10]));
        }
        assert!(pulled(&mut rig).is_empty());
        rig.push("i", &segment(a, 0x10, &[7; 10]));
        assert_eq!(pulled(&mut rig), [a, b, c]);
        // Too late.
        rig.push("i", &segment(b, 0x10, &[7; 10]));
        assert_eq!((pulled(&mut rig).len(), rig.outstanding()), (0, 0));
    }

    #[test]
    fn missing_segments_can_be_passed_over() {
        let config = "i :: Inject -> MarkIPHeader -> TCPBuffer(true) -> p :: Puller;";
        let mut rig = Rig::new(config);
        for sequence in [30, 10, 20] {
            rig.push("i", &segment(sequence, 0x10, &[7; 3]));
        }
        rig.push("i", &[0x45; 50]);
        assert_eq!(pulled(&mut rig), [10, 20, 30]);
        assert_eq!(rig.outstanding(), 0);
    }
}
