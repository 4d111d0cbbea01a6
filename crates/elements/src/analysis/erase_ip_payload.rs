use crate::prelude::*;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Zeroes the payload of TCP and UDP packets.
///
/// The bytes after the TCP or UDP header become zero, and so does its checksum; lengths stay. ICMP
/// packets pass unchanged. Packets of other protocols, or without an IP header, are dropped.
///
/// # Example
/// ```click
/// FromDump(in.pcap, FORCE_IP true, STOP true) -> EraseIPPayload -> ToDump(out.pcap, ENCAP IP);
/// ```
///
/// # See also
/// AnonymizeIPAddr, TruncateIPPayload
#[derive(Element)]
#[element(ports = "1/1")]
#[inputs("packets with a network header mark")]
pub struct EraseIPPayload;

impl Element for EraseIPPayload {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let protocol = packet.network_header().and_then(|ip| ip.get(9).copied());
        let Some(protocol) = protocol else {
            return Verdict::Drop;
        };
        let transport = packet.transport_header_mut().unwrap_or_default();
        let (header, checksum) = match protocol {
            TCP => match transport.get(12) {
                Some(words) => (usize::from(words >> 4) * 4, 16),
                None => return Verdict::Forward,
            },
            UDP => (8, 6),
            ICMP => return Verdict::Forward,
            _ => return Verdict::Drop,
        };
        if let Some(payload) = transport.get_mut(header..) {
            payload.fill(0);
        }
        if let Some(checksum) = transport.get_mut(checksum..checksum + 2) {
            checksum.fill(0);
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn payloads_become_zeros() {
        let mut rig = Rig::new("i :: Inject -> MarkIPHeader -> EraseIPPayload -> c :: Collect;");
        let (a, b) = (Ipv4Addr::new(1, 0, 0, 1), Ipv4Addr::new(2, 0, 0, 2));
        let segment = tcp((a, 1), (b, 2), 2, &[7; 9]);
        let datagram = udp((a, 1), (b, 2), &[7; 9]);
        let echo = ping(a, b, &[7; 9]);
        let mut other = echo.clone();
        other[9] = 47;
        for packet in [&segment[..], &datagram, &echo, &other, &segment[..30]] {
            rig.push("i", packet);
        }
        let erased = rig.data("c");
        assert_eq!(erased.len(), 4);
        assert_eq!(
            erased[0],
            [&segment[..36], &[0, 0], &segment[38..40], &[0; 9]].concat()
        );
        assert_eq!(erased[1], [&datagram[..26], &[0; 11]].concat());
        assert_eq!(erased[2], echo);
        assert_eq!(erased[3], segment[..30]);
    }
}
