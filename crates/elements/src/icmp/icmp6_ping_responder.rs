use crate::prelude::*;

/// Answers ICMPv6 echo requests.
///
/// Packets must have their IPv6 header marked. An echo request without extension headers becomes its
/// reply (RFC 4443, section 4.2): the addresses are exchanged and the hop limit is 64. The
/// destination address annotation becomes the new destination, and the paint annotation 0. Requests
/// to a multicast address are not answered.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> CheckIP6Header -> GetIP6Address(24)
///     -> ICMP6PingResponder -> IP6Print -> Discard;
/// ```
///
/// # See also
/// ICMPPingResponder, ICMP6Error
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", segments)]
#[outputs("replies", "packets that are not echo requests")]
pub struct ICMP6PingResponder;

/// ICMPv6's number among protocols.
const ICMP6: IpProtocol = IpProtocol(58);
const REQUEST: u8 = 128;
const REPLY: u8 = 129;
const HOP_LIMIT: u8 = 64;

/// Turns an echo request into its reply; `None` if it is none.
#[inline(always)]
fn answer(packet: &mut Packet) -> Option<()> {
    let mut ip = Ipv6Packet::new_quoted(packet.network_header_mut()?).ok()?;
    let (source, destination) = (ip.source(), ip.destination());
    if ip.next_header() != ICMP6 || destination.is_multicast() {
        return None;
    }
    let at = Ipv6Packet::<&[u8]>::HEADER_LEN;
    let icmp = ip.bytes().get(at..at + 8)?;
    if icmp[..2] != [REQUEST, 0] {
        return None;
    }
    ip.set_source(destination);
    ip.set_destination(source);
    ip.set_hop_limit(HOP_LIMIT);
    let icmp = ip.into_inner().get_mut(at..)?;
    icmp[0] = REPLY;
    let delta = Delta::of_u16(u16::from(REQUEST) << 8, u16::from(REPLY) << 8);
    let sum = icmp.get_mut(2..)?.first_chunk_mut::<2>()?;
    *sum = delta.apply_bytes(*sum);
    packet.set_dst_ip6(source);
    packet.set_paint(0);
    Some(())
}

impl Element for ICMP6PingResponder {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match answer(packet) {
            Some(()) => Verdict::Forward,
            None => Verdict::To(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::ip6::{addr, icmp, upper_checksum};
    use crate::testing::*;

    const CONFIG: &str = "i :: Inject -> CheckIP6Header -> r :: ICMP6PingResponder -> c :: Collect;
         r[1] -> other :: Collect;";

    #[test]
    fn requests_become_replies() {
        let (a, b) = (addr("2001:db8::a"), addr("2001:db8::b"));
        let mut rig = Rig::new(CONFIG);
        rig.push("i", &icmp(a, b, (128, 0, [1, 2, 3, 4]), &[5]));
        let reply = rig.data("c").pop().expect("a reply");
        assert_eq!(reply[7], 64);
        assert_eq!(reply[8..24], b.octets());
        assert_eq!(reply[24..40], a.octets());
        assert_eq!(reply[40], 129);
        assert_eq!(reply[44..], [1, 2, 3, 4, 5]);
        assert_eq!(upper_checksum(58, b, a, &reply[40..]), 0);
    }

    #[test]
    fn what_is_no_request_to_one_host_leaves_apart() {
        let (a, b) = (addr("2001:db8::a"), addr("2001:db8::b"));
        let group = addr("ff02::1");
        let mut rig = Rig::new(CONFIG);
        for packet in [
            icmp(a, b, (129, 0, [0; 4]), &[]),
            icmp(a, b, (128, 1, [0; 4]), &[]),
            ip6::packet(58, a, b, &[128, 0, 0, 0]),
            icmp(a, group, (128, 0, [0; 4]), &[]),
            ip6::udp((a, 1), (b, 2), &[0; 8]),
        ] {
            rig.push("i", &packet);
        }
        assert_eq!((rig.data("c").len(), rig.data("other").len()), (0, 5));
    }
}
