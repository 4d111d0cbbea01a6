use crate::prelude::*;

/// Computes the checksum of IP headers, and with L4 of the TCP or UDP data behind them.
///
/// Packets must have their IP header marked. The checksums are computed by the processor: no
/// interface is asked to do it. Packets without a whole IP header are dropped, the first with a
/// message. Fragments, and packets too short for their lengths, keep their transport checksum.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> MarkIPHeader(14) -> ResetIPChecksum(L4 true)
///     -> ToDump(out.pcap);
/// ```
///
/// # See also
/// SetIPChecksum, SetTCPChecksum, SetUDPChecksum
#[derive(Element)]
#[element(ports = "1/1")]
pub struct ResetIPChecksum {
    /// Whether the checksums of TCP and UDP are computed too.
    #[arg(positional, name = "L4")]
    transport: bool,
    /// Packets dropped.
    #[handler(read)]
    drops: u64,
}

/// Computes the checksum of the IP header; `None` if it is not there whole.
fn fill_ip(packet: &mut Packet) -> Option<()> {
    let header = packet.network_header_mut()?;
    let available = header.len();
    let mut ip = Ipv4Packet::new_unchecked(header.get_mut(..available)?);
    if available < 20 || !(20..=available).contains(&ip.header_len()) {
        return None;
    }
    ip.fill_checksum();
    Some(())
}

/// Computes the checksum of TCP or UDP, if the data is there whole.
fn fill_transport(packet: &mut Packet) -> Option<()> {
    let ip = Ipv4Packet::new_quoted(packet.network_header()?).ok()?;
    if ip.is_fragment() {
        return None;
    }
    let length = usize::from(ip.total_len()).checked_sub(ip.header_len())?;
    let protocol = ip.protocol();
    let pseudo = |length| pseudo_header_v4(ip.source(), ip.final_destination(), protocol.0, length);
    match protocol {
        IpProtocol::TCP if length >= 20 => {
            let pseudo = pseudo(length as u16);
            let segment = packet.transport_header_mut()?.get_mut(..length)?;
            TcpPacket::new_unchecked(segment).fill_checksum(pseudo);
        }
        IpProtocol::UDP => {
            let header = packet.transport_header()?;
            let pseudo = pseudo(UdpPacket::new_checked(header).ok()?.length());
            let header = packet.transport_header_mut()?;
            UdpPacket::new_checked(header).ok()?.fill_checksum(pseudo);
        }
        _ => {}
    }
    Some(())
}

impl Element for ResetIPChecksum {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if fill_ip(packet).is_none() {
            if self.drops == 0 {
                cx.chatter("ResetIPChecksum: bad input packet");
            }
            self.drops += 1;
            return Verdict::Drop;
        }
        if self.transport {
            // Without whole data, the checksum stays.
            let _ = fill_transport(packet);
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn rig(arguments: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> MarkIPHeader -> r :: ResetIPChecksum({arguments}) -> c :: Collect;"
        ))
    }

    #[test]
    fn checksums_come_out_right() {
        let mut rig = rig("L4 true");
        for (right, at) in [
            (tcp((A, 5), (B, 6), 0x12, &[7, 8, 9]), 36),
            (udp((A, 5), (B, 6), &[7, 8, 9]), 26),
        ] {
            let mut wrong = right.clone();
            wrong[10..12].fill(0x5a);
            wrong[at..at + 2].fill(0x5a);
            rig.push("i", &wrong);
            assert_eq!(rig.data("c"), [right]);
        }
    }

    #[test]
    fn the_transport_checksum_is_left_unless_asked_for() {
        let right = udp((A, 5), (B, 6), &[7, 8, 9]);
        let mut wrong = right.clone();
        wrong[26..28].fill(0x5a);
        let mut rig = rig("");
        rig.push("i", &wrong);
        assert_eq!(rig.data("c"), [wrong]);
    }

    #[test]
    fn fragments_get_the_ip_checksum_only() {
        let mut fragment = udp((A, 5), (B, 6), &[7, 8, 9]);
        fragment[6] = 0x20;
        fragment[26..28].fill(0x5a);
        let mut rig = rig("true");
        rig.push("i", &fragment);
        let out = rig.data("c");
        assert_eq!(checksum(&out[0][..20]), 0);
        assert_eq!(out[0][26..28], [0x5a, 0x5a]);
    }

    #[test]
    fn packets_without_an_ip_header_are_dropped() {
        let mut rig = Rig::new("i :: Inject -> r :: ResetIPChecksum -> c :: Collect;");
        rig.push("i", &[0x45; 30]);
        rig.push_with("i", &[0x46; 22], |packet| packet.set_network_header(0, 22));
        assert!(rig.data("c").is_empty());
        assert_eq!(rig.read("r.drops"), "2");
        assert_eq!(rig.printed(), ["ResetIPChecksum: bad input packet"]);
    }
}
