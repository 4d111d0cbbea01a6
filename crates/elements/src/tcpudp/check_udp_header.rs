use crate::headers::transport_check::{Reason, check};
use crate::prelude::*;

/// Looks whether a packet is UDP, whole and intact.
#[inline(always)]
fn look(packet: &Packet) -> Result<(), Reason> {
    let header = packet.network_header().unwrap_or_default();
    let ip = Ipv4Packet::new_quoted(header).map_err(|_| Reason::Protocol)?;
    if ip.protocol() != IpProtocol::UDP {
        return Err(Reason::Protocol);
    }
    let datagram = header.get(ip.header_len()..).unwrap_or_default();
    let udp = UdpPacket::new_checked(datagram).map_err(|_| Reason::Length)?;
    let (source, destination) = (ip.source(), ip.final_destination());
    let pseudo = pseudo_header_v4(source, destination, ip.protocol().0, udp.length());
    if !udp.verify_checksum(pseudo) {
        return Err(Reason::Checksum);
    }
    Ok(())
}

check! {
    /// Checks the length and checksum of UDP datagrams, and drops wrong ones.
    ///
    /// Packets must have their IP header marked. A checksum of 0 means no checksum, and is right.
    /// The first wrong packet draws a message.
    ///
    /// # Example
    /// ```click
    /// FromDump(in.pcap) -> CheckIPHeader(14) -> CheckUDPHeader -> Discard;
    /// ```
    ///
    /// # See also
    /// CheckIPHeader, CheckTCPHeader, CheckICMPHeader, SetUDPChecksum
    CheckUDPHeader, "UDP", look
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn wrong_packets_are_told_apart() {
        let config = "i :: Inject -> MarkIPHeader -> k :: CheckUDPHeader(DETAILS true)
            -> c :: Collect; k[1] -> bad :: Collect;";
        let mut rig = Rig::new(config);
        let right = udp((A, 1), (A, 2), &[1, 2, 3]);
        let mut none = right.clone();
        none[26..28].fill(0);
        rig.push_all("i", &[right.clone(), none.clone()]);
        assert_eq!(rig.data("c"), [right.clone(), none]);
        let mut changed = right.clone();
        changed[30] ^= 1;
        let mut short = right.clone();
        short[25] = 7;
        let wrong = [ping(A, A, &[]), right[..30].to_vec(), short, changed];
        rig.push_all("i", &wrong);
        assert_eq!(rig.data("bad"), wrong);
        let details = "1\tnot UDP\n2\tbad packet length\n1\tbad UDP checksum\n";
        assert_eq!(rig.read("k.drop_details"), details);
        assert_eq!(rig.read("k.drops"), "4");
        assert_eq!(rig.printed(), ["UDP header check failed: not UDP"]);
    }
}
