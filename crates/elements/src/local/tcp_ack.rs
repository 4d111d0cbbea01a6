use super::segment::{Segment, Style, make};
use super::tcp_buffer::Reassembly;
use crate::prelude::*;

/// Acknowledges TCP segments.
///
/// Packets from input 0 are inspected and leave by output 0: with a TCPBuffer downstream of it, the
/// element knows the next sequence number that is missing. That number goes into the outgoing
/// segments, from input 1 to output 1; if there is none for DELAY, a separate acknowledgment leaves
/// by output 2, without addresses and ports, which a TCPConn adds. Segments before the first SYN
/// with ACK, in either direction, are dropped. Packets must have their IP header marked, and
/// checksums are left to SetTCPChecksum.
///
/// # Example
/// ```click
/// ack :: TCPAck;
/// FromDump(in.pcap, FORCE_IP true) -> [0] ack [0] -> TCPBuffer -> Unqueue -> Discard;
/// Idle -> [1] ack [1] -> Discard;
/// ack [2] -> IPPrint -> Discard;
/// ```
///
/// # See also
/// TCPBuffer, TCPConn
#[derive(Element)]
#[element(ports = "2/3", processing = "aa/aah", flow = "xy/xyz")]
#[inputs("incoming segments", "outgoing segments")]
#[outputs("incoming segments", "outgoing segments", "acknowledgments")]
pub struct TCPAck {
    /// How long an acknowledgment may wait.
    #[arg(default = Milliseconds(20), default_text = "20ms")]
    delay: Milliseconds,
    buffer: Option<Link<dyn Reassembly>>,
    /// The next number that is expected, once the connection is known.
    next: Option<u32>,
    /// Whether an acknowledgment waits.
    pending: bool,
    timer: Option<TimerId>,
}

const SYN_ACK: u16 = TcpFlags::SYN.to_bits() | TcpFlags::ACK.to_bits();

impl TCPAck {
    fn incoming(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> Verdict {
        let Some(segment) = Segment::of(packet) else {
            return Verdict::Drop;
        };
        if self.next.is_none() && segment.has(TcpFlags::from_bits(SYN_ACK)) {
            self.next = Some(segment.sequence.wrapping_add(1));
        }
        let Some(next) = self.next else {
            return Verdict::Drop;
        };
        if segment.has_any(TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST) {
            return Verdict::To(0);
        }
        if segment.sequence == next {
            let next = next.wrapping_add(segment.sequence_length());
            let buffer = self.buffer.and_then(|link| cx.view(link));
            let missing = buffer.and_then(|buffer| buffer.next_missing(next));
            self.next = Some(missing.unwrap_or(next));
        } else {
            cx.chatter("seqno < ack_nxt: out of order or retransmitted packet");
        }
        self.pending = true;
        if let Some(timer) = self.timer
            && cx.expires(timer).is_none()
        {
            cx.schedule_after(timer, u64::from(self.delay.0) * 1_000_000);
        }
        Verdict::To(0)
    }

    fn outgoing(&mut self, packet: &mut Packet) -> Verdict {
        let Some(segment) = Segment::of(packet) else {
            return Verdict::Drop;
        };
        if segment.has(TcpFlags::from_bits(SYN_ACK)) {
            self.next = Some(segment.acknowledgment);
        }
        let (Some(next), Some(header)) = (self.next, packet.transport_header_mut()) else {
            return Verdict::Drop;
        };
        self.pending = false;
        TcpPacket::new_unchecked(header).set_acknowledgment(TcpSequence(next));
        Verdict::To(1)
    }

    /// Lets a batch through, on input and output `port`.
    fn pass(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        batch.filter(
            &mut (self, cx),
            |(ack, cx), packet| {
                let verdict = match port {
                    0 => ack.incoming(cx, packet),
                    _ => ack.outgoing(packet),
                };
                (verdict == Verdict::Drop).then_some(())
            },
            |(_, cx), packet, ()| cx.kill(packet),
        );
    }
}

impl Element for TCPAck {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let found = cx.graph().nearest_downstream(cx.id(), 0, "TCPBuffer");
        self.buffer = found.first().and_then(|id| cx.link(*id));
        if self.buffer.is_none() {
            return Err(cx.error("need at least 1 downstream TCPBuffer"));
        }
        self.timer = Some(cx.timer());
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        self.pass(cx, port, batch);
        port
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, _batch: &mut Batch, most: usize) {
        cx.pull_through(port, most);
    }

    fn pulled(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        self.pass(cx, port, batch);
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        let (true, Some(next)) = (self.pending, self.next) else {
            return;
        };
        self.pending = false;
        let nobody = (core::net::Ipv4Addr::UNSPECIFIED, 0);
        let ack = Segment {
            source: nobody,
            destination: nobody,
            flags: TcpFlags::ACK,
            sequence: 0,
            acknowledgment: next,
            payload: 0,
        };
        match make(cx, &ack, &Style::CONTROL, &[]) {
            Some(packet) => cx.emit(2, packet),
            None => cx.chatter("TCPAck: cannot make packet"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tcp_buffer::tests::segment;
    use crate::testing::*;

    const CONFIG: &str = "i :: Inject -> MarkIPHeader -> [0] a :: TCPAck [0] -> TCPBuffer
            -> p :: Puller;
        o :: Inject -> MarkIPHeader -> [1] a [1] -> out :: Collect; a [2] -> acks :: Collect;";

    fn acknowledged(data: &[u8]) -> u32 {
        u32::from_be_bytes(*data[28..].first_chunk().unwrap())
    }

    #[test]
    fn what_came_in_order_is_acknowledged() {
        let mut rig = Rig::new(CONFIG);
        // Before the connection is known, nothing passes.
        rig.push("o", &segment(1, 0x10, &[]));
        rig.push("i", &segment(100, 0x12, &[]));
        for sequence in [111, 101] {
            rig.push("i", &segment(sequence, 0x10, &[7; 10]));
        }
        assert_eq!(rig.printed().len(), 1);
        assert!(rig.data("out").is_empty());
        rig.advance(19_000_000);
        assert!(rig.data("acks").is_empty());
        rig.advance(2_000_000);
        let acks = rig.data("acks");
        assert_eq!(
            (acks.len(), acknowledged(&acks[0]), acks[0][33]),
            (1, 121, 0x10)
        );
        // A segment on its way out takes the next acknowledgment along.
        rig.push("i", &segment(121, 0x10, &[7; 10]));
        rig.push("o", &segment(1, 0x10, &[1]));
        assert_eq!(acknowledged(&rig.data("out")[0]), 131);
        rig.advance(50_000_000);
        assert!(rig.data("acks").is_empty());
        assert_eq!(rig.pull("p", 9).len(), 4);
    }

    #[test]
    fn a_buffer_is_needed() {
        Rig::refuses(
            "Idle -> [0] a :: TCPAck [0] -> Discard;
            Idle -> [1] a [1] -> Discard; a [2] -> Discard;",
            "need at least 1 downstream TCPBuffer",
        );
    }
}
