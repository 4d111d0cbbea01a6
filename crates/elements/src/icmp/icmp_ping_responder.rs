use crate::prelude::*;

/// Answers ICMP echo requests.
///
/// Packets must have their IP header marked. An echo request becomes its reply: the addresses are
/// exchanged, the time to live is 255, and no fragment flag is set. The destination address
/// annotation becomes the new destination, the paint annotation 0, and the timestamp the current
/// time. Source route options are ignored.
///
/// # Example
/// ```click
/// FromDevice(eth0) -> CheckIPHeader(14) -> ICMPPingResponder -> EtherMirror
///     -> Queue -> ToDevice(eth0);
/// ```
///
/// # See also
/// ICMPError, CheckICMPHeader
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah", segments)]
#[outputs("replies", "packets that are not echo requests")]
pub struct ICMPPingResponder {
    /// When the batch at work came, in nanoseconds since 1970.
    now: i64,
}

/// Turns an echo request into its reply; `None` if it is none.
#[inline(always)]
fn answer(packet: &mut Packet) -> Option<()> {
    let icmp = Icmpv4Packet::new_checked(packet.transport_header()?).ok()?;
    let header = packet.network_header().filter(|bytes| bytes.len() >= 20)?;
    let protocol = Ipv4Packet::new_unchecked(header).protocol();
    if protocol != IpProtocol::ICMP || icmp.icmp_type() != Icmpv4Type::ECHO {
        return None;
    }
    let code = icmp.code();
    let mut ip = Ipv4Packet::new_unchecked(packet.network_header_mut()?);
    let (source, destination) = (ip.source(), ip.destination());
    ip.set_source(destination);
    ip.set_destination(source);
    let fragment = Delta::of_u16(fragment_word(ip.header()), 0);
    let ttl = Delta::of_u16(u16::from(ip.ttl()) << 8, 0xff00);
    ip.set_fragment(false, false, 0);
    ip.set_ttl(255);
    ip.update_checksum(fragment + ttl);
    packet.set_dst_ip(source);

    let mut icmp = Icmpv4Packet::new_unchecked(packet.transport_header_mut()?);
    icmp.set_icmp_type(Icmpv4Type::ECHO_REPLY);
    icmp.set_code(0);
    let old = u16::from_be_bytes([Icmpv4Type::ECHO.0, code]);
    icmp.update_checksum(Delta::of_u16(old, 0));
    // The update cannot tell the two zeros apart: over a message of zeros alone the checksum is
    // the other one.
    if icmp.checksum() == 0 && icmp.bytes().iter().all(|byte| *byte == 0) {
        icmp.set_checksum(0xffff);
    }
    Some(())
}

#[inline(always)]
fn fragment_word(header: &[u8; 20]) -> u16 {
    u16::from_be_bytes([header[6], header[7]])
}

impl Element for ICMPPingResponder {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if answer(packet).is_none() {
            return Verdict::To(1);
        }
        // Read at the batch's first request, so that other packets cost no look at the clock.
        if self.now == 0 {
            self.now = cx.wall();
        }
        packet.set_timestamp(self.now);
        packet.set_paint(0);
        Verdict::Forward
    }

    #[inline]
    fn batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        self.now = 0;
        router::filter(self, cx, batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    const CONFIG: &str =
        "i :: Inject -> CheckIPHeader -> r :: ICMPPingResponder -> CheckIPHeader -> c :: Collect;
         r[1] -> other :: Collect;";

    #[test]
    fn requests_become_replies() {
        let mut rig = Rig::new(CONFIG);
        let mut request = ping(A, B, &[1, 2, 3]);
        request[6] = 0x40;
        request[10..12].fill(0);
        let sum = checksum(&request[..20]);
        request[10..12].copy_from_slice(&sum.to_be_bytes());
        rig.push_with("i", &request, |packet| packet.set_paint(7));
        let packets = rig.collected("c");
        let reply = packets[0].data();
        assert_eq!(reply[12..20], [2, 0, 0, 2, 1, 0, 0, 1]);
        assert_eq!(reply[6..9], [0, 0, 255]);
        assert_eq!(reply[20..22], [0, 0]);
        assert_eq!(checksum(&reply[20..]), 0);
        assert_eq!(reply[24..], request[24..]);
        assert_eq!(packets[0].dst_ip(), A);
        assert_eq!(packets[0].paint(), 0);
        assert_eq!(packets[0].timestamp(), START);
    }

    #[test]
    fn other_packets_leave_by_output_1() {
        let mut rig = Rig::new(CONFIG);
        let reply = {
            let mut packet = ping(A, B, &[]);
            packet[20] = 0;
            packet
        };
        let others = [udp((A, 1), (B, 2), &[8; 9]), reply];
        rig.push_all("i", &others);
        assert_eq!(rig.data("other"), others);
    }

    #[test]
    fn a_reply_of_zeros_has_the_other_zero() {
        let mut rig = Rig::new(CONFIG);
        let mut request = ping(A, B, &[0; 4]);
        request[22..28].copy_from_slice(&[0xf7, 0xff, 0, 0, 0, 0]);
        rig.push("i", &request);
        assert_eq!(rig.data("c")[0][20..24], [0, 0, 0xff, 0xff]);
    }
}
