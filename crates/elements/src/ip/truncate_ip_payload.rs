use crate::prelude::*;

/// Cuts the payload of IP packets off.
///
/// The payload starts after the TCP, UDP or ICMP header; with other protocols, after the IP header.
/// A packet without a marked IP header is all payload. The IP header does not change.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> CheckIPHeader(14) -> TruncateIPPayload(20) -> ToDump(out.pcap);
/// ```
///
/// # See also
/// Truncate, CheckIPHeader
#[derive(Element)]
#[element(ports = "1/1")]
pub struct TruncateIPPayload {
    /// Most bytes of payload that remain, up to 65535.
    #[arg(positional, default = 0)]
    length: u16,
    /// Whether the transport header is kept; if not, it counts as payload.
    #[arg(positional, default = true)]
    transport: bool,
    /// Whether to add the number of bytes cut off to the extra length annotation.
    #[arg(default = true)]
    extra_length: bool,
}

/// Length of the headers of an IP packet, which starts at `bytes`.
#[inline(always)]
fn headers(bytes: &[u8], with_transport: bool) -> usize {
    let ip = Ipv4Packet::new_unchecked(bytes);
    let length = ip.header_len();
    if length < 20 {
        return 20;
    }
    if !with_transport || bytes.len() < 10 {
        return length;
    }
    let transport = bytes.get(length..).unwrap_or_default();
    length
        + match ip.protocol() {
            IpProtocol::TCP => {
                // As far as the length's own byte is there.
                let words = transport.get(12).map_or(5, |byte| byte >> 4);
                usize::from(words.max(5)) * 4
            }
            IpProtocol::UDP => 8,
            IpProtocol::ICMP => match transport.first() {
                Some(13 | 14) if transport.len() >= 8 => 20,
                Some(_) if transport.len() >= 8 => 8,
                _ => 0,
            },
            _ => 0,
        }
}

impl Element for TruncateIPPayload {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let keep = usize::from(self.length);
        let surplus = match packet.network_header() {
            Some(bytes) => bytes
                .len()
                .saturating_sub(headers(bytes, self.transport) + keep),
            None => packet.len().saturating_sub(keep),
        };
        // A header that was stripped is not there to be cut.
        let surplus = surplus.min(packet.len());
        if surplus > 0 {
            packet.take(surplus);
            if self.extra_length {
                let extra = packet.anno(EXTRA_LENGTH).wrapping_add(surplus as u32);
                packet.set_anno(EXTRA_LENGTH, extra);
            }
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    /// What is left of `packet`, and the extra length.
    fn cut(arguments: &str, packet: &[u8]) -> (Vec<u8>, u32) {
        let mut rig = Rig::new(&format!(
            "i :: Inject -> MarkIPHeader(14) -> TruncateIPPayload({arguments}) -> c :: Collect;"
        ));
        rig.push("i", &ether([1; 6], [2; 6], 0x0800, packet));
        let packets = rig.collected("c");
        (
            packets[0].data()[14..].to_vec(),
            packets[0].anno(EXTRA_LENGTH),
        )
    }

    #[test]
    fn payload_starts_behind_the_transport_header() {
        for (packet, headers) in [
            (udp((A, 1), (A, 2), &[7; 9]), 28),
            (tcp((A, 1), (A, 2), 0x10, &[7; 9]), 40),
            (ping(A, A, &[7; 9]), 28),
        ] {
            assert_eq!(cut("4", &packet), (packet[..headers + 4].to_vec(), 5));
            assert_eq!(cut("", &packet), (packet[..headers].to_vec(), 9));
            assert_eq!(cut("9", &packet), (packet.clone(), 0));
            assert_eq!(cut("3, false", &packet).0, packet[..23]);
            assert_eq!(
                cut("EXTRA_LENGTH false", &packet),
                (packet[..headers].to_vec(), 0)
            );
        }
    }

    #[test]
    fn options_belong_to_the_header() {
        let mut packet = tcp((A, 1), (A, 2), 0x10, &[7; 9]);
        packet[32] = 0x60;
        assert_eq!(cut("1", &packet).0, packet[..45]);
        let mut timestamp = ping(A, A, &[7; 20]);
        timestamp[20] = 13;
        assert_eq!(cut("1", &timestamp).0, timestamp[..41]);
        let mut broken = udp((A, 1), (A, 2), &[7; 9]);
        broken[0] = 0x44;
        assert_eq!(cut("1", &broken).0, broken[..21]);
    }

    #[test]
    fn other_packets_are_payload_from_their_start() {
        let mut rig = Rig::new("i :: Inject -> TruncateIPPayload(3) -> c :: Collect;");
        rig.push("i", &[1, 2, 3, 4]);
        rig.push("i", &[1, 2]);
        assert_eq!(rig.data("c"), [&[1, 2, 3][..], &[1, 2]]);
    }
}
