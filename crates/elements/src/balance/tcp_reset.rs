use crate::local::segment::{Segment, Style, make_any};
use crate::prelude::*;

/// Answers TCP segments of connections that do not exist with a reset.
///
/// The reset is the one that the receiver of the segment would send (RFC 9293, section 3.10.7.1), so that
/// the sender's connection ends at once. Resets are not answered. The destination annotation is the
/// sender's address. Packets, of IPv4 or IPv6, must have their IP header marked.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> MarkIPHeader(14) -> TCPReset -> IPPrint -> Discard;
/// ```
///
/// # See also
/// TCPReflector, ICMPError
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah")]
#[outputs("resets", "packets that are not TCP segments")]
pub struct TCPReset;

impl Element for TCPReset {
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let Some((segment, _)) = Segment::of_any(packet) else {
            return Verdict::To(1);
        };
        if segment.has(TcpFlags::RST) {
            return Verdict::Drop;
        }
        let (sequence, acknowledgment, flags) = if segment.has(TcpFlags::ACK) {
            (segment.acknowledgment, 0, TcpFlags::RST)
        } else {
            let next = segment.sequence.wrapping_add(segment.sequence_length());
            (0, next, TcpFlags::RST | TcpFlags::ACK)
        };
        let reset = Segment {
            source: segment.destination,
            destination: segment.source,
            flags,
            sequence,
            acknowledgment,
            payload: 0,
        };
        let style = Style {
            window: 0,
            ..Style::CONTROL
        };
        let Some(reset) = make_any(cx, &reset, &style, &[]) else {
            return Verdict::Drop;
        };
        let answered = core::mem::replace(packet, reset);
        cx.kill(answered);
        Verdict::Forward
    }
}
