use crate::prelude::*;

/// Cuts TCP segments that are too long into shorter ones.
///
/// Packets must have their IP header marked; others, and those without a TCP header, pass
/// unchanged. The segments are copies of the packet with other lengths, sequence numbers and
/// checksums. Only the last segment has FIN and PSH. Bytes before the IP header are copied too.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> MarkIPHeader(14) -> TCPFragmenter(MTU 576) -> IPPrint -> Discard;
/// ```
///
/// # See also
/// IPFragmenter
#[derive(Element)]
#[element(ports = "1/1", processing = "h/h", live)]
pub struct TCPFragmenter {
    /// Longest packet, in bytes from the start of the IP header; no limit if 0.
    #[arg(default = 0)]
    mtu: u16,
    /// An annotation with a limit for the packet; it applies if it is not 0 and below MTU. One of
    /// the two arguments is mandatory.
    #[arg(name = "MTU_ANNO")]
    anno: Option<AnnoOf<2>>,
    /// Packets received.
    #[handler(read)]
    count: u64,
    /// Packets that were cut.
    #[handler(read, name = "fragmented_count")]
    cut: u64,
    /// Segments made of those.
    #[handler(read)]
    fragments: u64,
}

/// How a packet is cut.
#[derive(Clone, Copy)]
struct Plan {
    /// Length of the IP and the TCP header.
    headers: usize,
    /// Length of the data, and of a piece of it.
    data: usize,
    piece: usize,
}

impl TCPFragmenter {
    fn mtu(&self, packet: &Packet) -> usize {
        let marked = self.anno.and_then(|anno| {
            let bytes = packet.annotations().get(anno.offset()..)?;
            bytes.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
        });
        let limits = [self.mtu, marked.unwrap_or(0)];
        let lowest = limits.into_iter().filter(|mtu| *mtu > 0).min();
        lowest.unwrap_or(0).into()
    }

    /// `None` if the packet is to pass as it is.
    #[inline]
    fn plan(&self, packet: &Packet) -> Option<Plan> {
        let mtu = self.mtu(packet);
        let header = packet.network_header()?;
        if mtu == 0 || header.len() <= mtu {
            return None;
        }
        let ip = Ipv4Packet::new_checked(header).ok()?;
        if ip.protocol() != IpProtocol::TCP || ip.is_fragment() {
            return None;
        }
        let tcp = TcpPacket::new_checked(ip.payload()).ok()?;
        let headers = ip.header_len() + tcp.header_len();
        let data = usize::from(ip.total_len()).checked_sub(headers)?;
        let piece = mtu.checked_sub(headers).filter(|piece| *piece > 0)?;
        (data > piece).then_some(Plan {
            headers,
            data,
            piece,
        })
    }

    /// The segment of the data from `at`; `None` if there is no memory.
    fn segment(cx: &mut Cx<'_>, packet: &Packet, plan: Plan, at: usize) -> Option<Packet> {
        let header = packet.network_header()?;
        // A header that was stripped is not copied.
        let front = packet.len().saturating_sub(header.len());
        let head = packet.data().get(..front + plan.headers)?;
        let end = plan.data.min(at + plan.piece);
        let data = header.get(plan.headers + at..plan.headers + end)?;
        let mut segment = cx.pool().packet(HEADROOM, head.len() + data.len())?;
        let (first, rest) = segment.data_mut().split_at_mut(head.len());
        first.copy_from_slice(head);
        rest.copy_from_slice(data);
        segment.copy_meta(packet);

        let bytes = segment.data_mut().get_mut(front..)?;
        let length = bytes.len();
        let mut ip = Ipv4Packet::new_unchecked(bytes);
        ip.set_total_len(length as u16);
        ip.fill_checksum();
        let pseudo = ip.pseudo_header();
        let mut tcp = TcpPacket::new_unchecked(ip.payload_mut());
        tcp.set_sequence(tcp.sequence() + at as u32);
        if end < plan.data {
            let flags = tcp.flags().to_bits() & !(TcpFlags::FIN | TcpFlags::PSH).to_bits();
            tcp.set_header_len_and_flags(tcp.header_len(), TcpFlags::from_bits(flags));
        }
        tcp.fill_checksum(pseudo);
        Some(segment)
    }

    fn fragment(&mut self, cx: &mut Cx<'_>, packet: Packet, plan: Plan) {
        self.cut += 1;
        for at in (0..plan.data).step_by(plan.piece) {
            let Some(segment) = Self::segment(cx, &packet, plan, at) else {
                break;
            };
            self.fragments += 1;
            cx.emit(0, segment);
        }
        cx.kill(packet);
    }
}

impl Element for TCPFragmenter {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.mtu == 0 && self.anno.is_none() {
            return Err(args.fail("At least one of MTU and MTU_ANNO must be set"));
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.count += batch.len() as u64;
        if batch.iter().any(|packet| self.plan(packet).is_some()) {
            // One by one, so that all packets leave in order.
            for packet in batch.drain() {
                match self.plan(&packet) {
                    Some(plan) => self.fragment(cx, packet, plan),
                    None => cx.emit(0, packet),
                }
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const A: (Ipv4Addr, u16) = (Ipv4Addr::new(1, 0, 0, 1), 5);
    const B: (Ipv4Addr, u16) = (Ipv4Addr::new(2, 0, 0, 2), 6);

    fn rig(args: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> MarkIPHeader(14) -> f :: TCPFragmenter({args}) -> c :: Collect;"
        ))
    }

    fn frame(packet: &[u8]) -> Vec<u8> {
        ether([1; 6], [2; 6], 0x0800, packet)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn segments_make_the_data_again(length in 0usize..3000, mtu in 41u16..1600) {
            let data: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let mut rig = rig(&format!("MTU {mtu}"));
            let whole = frame(&tcp(A, B, 0x19, &data));
            rig.push("i", &whole);
            let segments = rig.data("c");
            if 40 + length <= mtu.into() {
                prop_assert_eq!(segments, [whole]);
                return Ok(());
            }
            prop_assert_eq!(rig.read("f.fragments"), format!("{}", segments.len()));
            let mut seen: Vec<u8> = Vec::new();
            for (i, segment) in segments.iter().enumerate() {
                prop_assert!(segment.len() - 14 <= mtu.into());
                let last = i + 1 == segments.len();
                let flags = if last { 0x19 } else { 0x10 };
                let mut expected = tcp(A, B, flags, &segment[54..]);
                // The sequence number goes on from 1, and its checksum follows.
                let sequence = 1 + seen.len() as u32;
                expected[24..28].copy_from_slice(&sequence.to_be_bytes());
                expected[36..38].fill(0);
                let length = (expected.len() - 20) as u16;
                let pseudo = [&expected[12..20], &[0, 6], &length.to_be_bytes(), &expected[20..]];
                let sum = checksum(&pseudo.concat());
                expected[36..38].copy_from_slice(&sum.to_be_bytes());
                prop_assert_eq!(segment, &frame(&expected));
                seen.extend(&segment[54..]);
            }
            prop_assert_eq!(seen, data);
            prop_assert_eq!(rig.outstanding(), 0);
        }
    }

    #[test]
    fn an_annotation_may_say_the_limit() {
        let mut rig = rig("MTU_ANNO 20, MTU 1000");
        let packet = frame(&tcp(A, B, 0x10, &[7; 100]));
        for (limit, segments) in [(0u16, 1), (90, 2), (2000, 1)] {
            rig.push_with("i", &packet, |packet| {
                packet.annotations_mut()[20..22].copy_from_slice(&limit.to_ne_bytes());
            });
            assert_eq!(rig.data("c").len(), segments, "{limit}");
        }
        rig.assert_handlers(&[("f.count", "3"), ("f.fragmented_count", "1")]);
    }

    #[test]
    fn what_is_no_segment_passes() {
        let mut rig = rig("MTU 50");
        let mut fragment = frame(&tcp(A, B, 0x10, &[7; 100]));
        fragment[20] = 0x20;
        let packets = [frame(&udp(A, B, &[7; 100])), fragment, [0x45; 80].to_vec()];
        rig.push_all("i", &packets);
        assert_eq!(rig.data("c"), packets);
        Rig::refuses(
            "Inject -> TCPFragmenter(MTU 0) -> Collect;",
            "At least one of MTU and MTU_ANNO must be set",
        );
    }
}
