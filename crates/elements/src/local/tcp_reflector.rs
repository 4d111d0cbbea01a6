use super::segment::Segment;
use crate::prelude::*;

/// Pretends to be a TCP server: turns each segment into a plausible answer.
///
/// A SYN is answered with a SYN and its acknowledgment, data and FINs are acknowledged, a FIN also
/// with a FIN. Other segments are dropped. There is no state and no limit on clients. Packets must
/// start with their IP header; bytes after the IP packet are cut off.
///
/// # Example
/// ```click
/// tun :: KernelTun(192.0.2.1/24) -> CheckIPHeader -> IPFilter(allow tcp dst port 99, deny all)
///     -> TCPReflector -> tun;
/// ```
///
/// # See also
/// WebGen, StatelessTCPResponder
#[derive(Element)]
#[element(ports = "1/1")]
pub struct TCPReflector;

/// Flags, sequence and acknowledgment number of the answer; `None` if there is to be none.
fn answer(segment: &Segment, cx: &mut Cx<'_>) -> Option<(TcpFlags, u32, u32)> {
    let flags = segment.flags.to_bits() & !TcpFlags::PSH.to_bits();
    if flags == TcpFlags::SYN.to_bits() {
        let own = cx.random().next_u32();
        return Some((
            TcpFlags::SYN | TcpFlags::ACK,
            own,
            segment.sequence.wrapping_add(1),
        ));
    }
    if segment.has(TcpFlags::SYN) || segment.has(TcpFlags::RST) {
        return None;
    }
    let fin = segment.has(TcpFlags::FIN);
    let next = segment.sequence.wrapping_add(segment.sequence_length());
    let flags = if fin {
        TcpFlags::FIN | TcpFlags::ACK
    } else {
        TcpFlags::ACK
    };
    (segment.payload > 0 || fin).then_some((flags, segment.acknowledgment, next))
}

fn reflect(cx: &mut Cx<'_>, packet: &mut Packet) -> Option<()> {
    let segment = Segment::parse(packet.data())?;
    let (flags, sequence, acknowledgment) = answer(&segment, cx)?;
    let ip = Ipv4Packet::new_checked(packet.data()).ok()?;
    let (header_len, total) = (ip.header_len(), ip.total_len());
    packet.truncate(usize::from(total));
    let (from, to) = (segment.destination, segment.source);
    let mut ip = Ipv4Packet::new_unchecked(packet.data_mut());
    ip.set_source(from.0);
    ip.set_destination(to.0);
    ip.set_ttl(250);
    ip.fill_checksum();
    let mut tcp = TcpPacket::new_unchecked(packet.data_mut().get_mut(header_len..)?);
    let length = tcp.header_len();
    tcp.set_source(from.1);
    tcp.set_destination(to.1);
    tcp.set_sequence(TcpSequence(sequence));
    tcp.set_acknowledgment(TcpSequence(acknowledgment));
    tcp.set_header_len_and_flags(length, flags);
    tcp.set_window(60 * 1024);
    let rest = total - header_len as u16;
    tcp.fill_checksum(pseudo_header_v4(from.0, to.0, IpProtocol::TCP.0, rest));
    packet.set_network_header(0, header_len);
    packet.set_dst_ip(to.0);
    Some(())
}

impl Element for TCPReflector {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match reflect(cx, packet) {
            Some(()) => Verdict::Forward,
            None => Verdict::Drop,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const A: (Ipv4Addr, u16) = (Ipv4Addr::new(1, 0, 0, 1), 5);
    const B: (Ipv4Addr, u16) = (Ipv4Addr::new(2, 0, 0, 2), 80);

    /// The answer's flags, sequence and acknowledgment number to a segment 1 that acknowledges 2.
    fn reflected(flags: u8, payload: &[u8]) -> Option<(u8, u32, u32)> {
        let mut rig = Rig::new(
            "i :: Inject -> TCPReflector -> CheckIPHeader
            -> CheckTCPHeader -> c :: Collect;",
        );
        rig.push("i", &[&tcp(A, B, flags, payload)[..], &[0; 6]].concat());
        assert!(rig.printed().is_empty());
        let answer = rig.data("c").pop()?;
        assert_eq!(
            (&answer[12..16], &answer[16..20]),
            (&[2, 0, 0, 2][..], &[1, 0, 0, 1][..])
        );
        assert_eq!(answer[20..24], [0, 80, 0, 5]);
        let word = |at: usize| u32::from_be_bytes(*answer[at..].first_chunk().unwrap());
        Some((answer[33], word(24), word(28)))
    }

    #[test]
    fn segments_are_answered_as_a_server_would() {
        let (flags, _, acknowledged) = reflected(2, &[]).unwrap();
        assert_eq!((flags, acknowledged), (0x12, 2));
        assert_eq!(reflected(0x18, &[7; 10]), Some((0x10, 2, 11)));
        assert_eq!(reflected(0x11, &[7; 10]), Some((0x11, 2, 12)));
        assert_eq!(reflected(0x11, &[]), Some((0x11, 2, 2)));
    }

    #[test]
    fn other_segments_get_no_answer() {
        for flags in [0x10, 0x12, 4, 0x14] {
            assert_eq!(reflected(flags, &[]), None);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(data: std::vec::Vec<u8>) {
            let mut rig = Rig::new("i :: Inject -> TCPReflector -> Discard;");
            rig.push("i", &data);
        }
    }
}
