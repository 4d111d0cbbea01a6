use crate::headers::transport_check::{Reason, check};
use crate::prelude::*;

/// Looks whether a packet is TCP, whole and intact.
#[inline(always)]
fn look(packet: &Packet) -> Result<(), Reason> {
    let header = packet.network_header().unwrap_or_default();
    let ip = Ipv4Packet::new_quoted(header).map_err(|_| Reason::Protocol)?;
    if ip.protocol() != IpProtocol::TCP {
        return Err(Reason::Protocol);
    }
    let segment = header.get(ip.header_len()..usize::from(ip.total_len()));
    let segment = segment.ok_or(Reason::Length)?;
    let tcp = TcpPacket::new_checked(segment).map_err(|_| Reason::Length)?;
    let (source, destination) = (ip.source(), ip.final_destination());
    let length = segment.len() as u16;
    let pseudo = pseudo_header_v4(source, destination, ip.protocol().0, length);
    if !tcp.verify_checksum(pseudo) {
        return Err(Reason::Checksum);
    }
    Ok(())
}

check! {
    /// Checks the lengths and checksum of TCP segments, and drops wrong ones.
    ///
    /// Packets must have their IP header marked. The first wrong packet draws a message.
    ///
    /// # Example
    /// ```click
    /// FromDump(in.pcap) -> CheckIPHeader(14) -> CheckTCPHeader -> Discard;
    /// ```
    ///
    /// # See also
    /// CheckIPHeader, CheckUDPHeader, CheckICMPHeader, SetTCPChecksum
    CheckTCPHeader, "TCP", look
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn wrong_packets_are_told_apart() {
        let config =
            "i :: Inject -> MarkIPHeader -> k :: CheckTCPHeader(DETAILS true, VERBOSE true)
            -> c :: Collect; k[1] -> bad :: Collect;";
        let mut rig = Rig::new(config);
        let right = tcp((A, 1), (A, 2), 2, &[1, 2, 3]);
        let padded = [&right[..], &[0; 6]].concat();
        rig.push_all("i", &[right.clone(), padded.clone()]);
        assert_eq!(rig.data("c"), [right.clone(), padded]);
        let mut changed = right.clone();
        changed[40] ^= 1;
        let (mut low, mut high) = (right.clone(), right.clone());
        (low[32], high[32]) = (0x40, 0x60);
        let wrong = [
            udp((A, 1), (A, 2), &[]),
            right[..42].to_vec(),
            low,
            high,
            changed,
        ];
        rig.push_all("i", &wrong);
        assert_eq!(rig.data("bad"), wrong);
        let details = "1\tnot TCP\n3\tbad packet length\n1\tbad TCP checksum\n";
        assert_eq!(rig.read("k.drop_details"), details);
        assert_eq!(rig.printed().len(), 5);
    }
}
