use crate::prelude::*;

/// Computes the checksum of TCP segments.
///
/// Packets must have their IP header marked; that they are TCP is not checked. Packets with
/// inconsistent lengths are dropped with a message.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> CheckIPHeader(14) -> SetTCPChecksum -> Discard;
/// ```
///
/// # See also
/// CheckTCPHeader, SetIPChecksum, SetUDPChecksum
#[derive(Element)]
#[element(ports = "1/1")]
pub struct SetTCPChecksum {
    /// Whether to correct a TCP header length that is below 20 bytes, or past the end of a packet
    /// that is not a fragment.
    #[arg(positional, name = "FIXOFF")]
    fix_offset: bool,
}

impl SetTCPChecksum {
    /// Computes the checksum; `None` if the lengths do not fit.
    #[inline(always)]
    fn fill(&self, packet: &mut Packet) -> Option<()> {
        let ip = Ipv4Packet::new_quoted(packet.network_header()?).ok()?;
        let length = usize::from(ip.total_len()).checked_sub(ip.header_len())?;
        let (source, destination) = (ip.source(), ip.final_destination());
        let (protocol, fragment) = (ip.protocol().0, ip.is_fragment());
        if length < 20 {
            return None;
        }
        let segment = packet.transport_header_mut()?.get_mut(..length)?;
        let mut tcp = TcpPacket::new_unchecked(segment);
        if self.fix_offset {
            let header_len = match tcp.header_len() {
                0..20 => 20,
                long if long > length && !fragment => length.min(60),
                right => right,
            };
            if let Some(header) = tcp.header_mut() {
                // The reserved bits beside it stay as they are.
                header[12] = (header_len / 4 * 16) as u8 | header[12] & 0x0f;
            }
        }
        tcp.fill_checksum(pseudo_header_v4(
            source,
            destination,
            protocol,
            length as u16,
        ));
        Some(())
    }
}

impl Element for SetTCPChecksum {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if self.fill(packet).is_some() {
            return Verdict::Forward;
        }
        cx.chatter("SetTCPChecksum: bad lengths");
        Verdict::Drop
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn checksums_come_out_right() {
        let mut rig = Rig::new("i :: Inject -> CheckIPHeader -> SetTCPChecksum -> c :: Collect;");
        for length in 0..70 {
            let right = tcp((A, 5), (B, 6), 0x12, &[7; 70][..length]);
            let mut wrong = right.clone();
            wrong[36..38].fill(0x5a);
            rig.push("i", &wrong);
            assert_eq!(rig.data("c"), [right]);
        }
    }

    #[test]
    fn wrong_lengths_are_dropped() {
        let mut rig = Rig::new("i :: Inject -> MarkIPHeader -> SetTCPChecksum -> c :: Collect;");
        let segment = tcp((A, 5), (B, 6), 0x12, &[7]);
        rig.push("i", &segment[..40]);
        let mut short = segment.clone();
        short[3] = 39;
        rig.push("i", &short);
        assert!(rig.data("c").is_empty());
        assert_eq!(rig.printed(), ["SetTCPChecksum: bad lengths"; 2]);
    }

    #[test]
    fn header_lengths_can_be_mended() {
        let config = "i :: Inject -> MarkIPHeader -> SetTCPChecksum(true) -> c :: Collect;";
        let mut rig = Rig::new(config);
        for (given, mended) in [(0x40, 0x50), (0xf0, 0x60), (0x60, 0x60)] {
            let mut segment = tcp((A, 5), (B, 6), 0x12, &[7; 4]);
            segment[32] = given;
            rig.push("i", &segment);
            assert_eq!(rig.data("c")[0][32..34], [mended, 0x12]);
        }
    }
}
