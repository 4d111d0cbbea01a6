use super::segment::before;
use crate::prelude::*;

/// Copies the highest TCP sequence number of one path into the segments of another.
///
/// Segments from input 0 pass unchanged; the highest of their sequence numbers is kept. Segments
/// from input 1 get it; before the first from input 0, they pass unchanged. Packets must have their
/// IP header marked. Checksums are left to SetTCPChecksum. Packets too short for a TCP header are
/// left as they are.
///
/// # Example
/// ```click
/// seq :: CopyTCPSeq;
/// FromDump(out.pcap, FORCE_IP true) -> [0] seq [0] -> Discard;
/// FromDump(acks.pcap, FORCE_IP true) -> [1] seq [1] -> SetTCPChecksum -> Discard;
/// ```
///
/// # See also
/// CopyFlowID, TCPAck
#[derive(Element)]
#[element(ports = "2/2", flow = "#/#", handlers)]
#[inputs("segments with the numbers", "segments that get the highest")]
#[outputs("segments from input 0", "segments from input 1")]
pub struct CopyTCPSeq {
    highest: Option<u32>,
}

/// The sequence number of a segment.
fn sequence(packet: &Packet) -> Option<u32> {
    let tcp = TcpPacket::new_checked(packet.transport_header()?).ok()?;
    Some(tcp.sequence().0)
}

fn set_sequence(packet: &mut Packet, number: u32) -> Option<()> {
    let mut tcp = TcpPacket::new_checked(packet.transport_header_mut()?).ok()?;
    tcp.set_sequence(TcpSequence(number));
    Some(())
}

impl CopyTCPSeq {
    fn pass(&mut self, port: usize, batch: &mut Batch) {
        if port == 0 {
            for number in batch.iter().filter_map(sequence) {
                if self.highest.is_none_or(|highest| before(highest, number)) {
                    self.highest = Some(number);
                }
            }
        } else if let Some(highest) = self.highest {
            batch.iter_mut().for_each(|packet| {
                let _ = set_sequence(packet, highest);
            });
        }
    }
}

#[handlers]
impl CopyTCPSeq {
    /// Forgets the number.
    #[write(button)]
    fn reset(&mut self) {
        self.highest = None;
    }
}

impl Element for CopyTCPSeq {
    #[inline]
    fn push(&mut self, _cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        self.pass(port, batch);
        port
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, _batch: &mut Batch, most: usize) {
        cx.pull_through(port, most);
    }

    #[inline]
    fn pulled(&mut self, _cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        self.pass(port, batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn segment(number: u32) -> Vec<u8> {
        let end = (Ipv4Addr::new(1, 0, 0, 1), 5);
        let mut segment = tcp(end, end, 0x10, &[]);
        segment[24..28].copy_from_slice(&number.to_be_bytes());
        segment
    }

    #[test]
    fn the_highest_number_is_copied() {
        let mut rig = Rig::new(
            "i :: Inject -> MarkIPHeader -> [0] s :: CopyTCPSeq [0] -> c :: Collect;
             j :: Inject -> MarkIPHeader -> [1] s [1] -> d :: Collect;",
        );
        rig.push("j", &segment(7));
        assert_eq!(rig.data("d"), [segment(7)]);
        // Numbers wrap around (RFC 9293, section 3.4).
        rig.push_all("i", &[segment(u32::MAX), segment(3), segment(u32::MAX - 5)]);
        rig.push("i", &segment(9)[..30]);
        assert_eq!(rig.data("c").len(), 4);
        rig.push("j", &segment(7));
        assert_eq!(rig.data("d"), [segment(3)]);
        rig.write("s.reset", "");
        rig.push("i", &segment(1));
        rig.push("j", &segment(7));
        assert_eq!(rig.data("d"), [segment(1)]);
    }
}
