use crate::headers::transport_check::{Reason, check};
use crate::prelude::*;

/// Looks whether a packet is ICMP, long enough for its type, and intact.
#[inline(always)]
fn look(packet: &Packet) -> Result<(), Reason> {
    let header = packet.network_header().unwrap_or_default();
    // Whatever else is wrong with the IP header: CheckIPHeader looks at it.
    if header.get(9) != Some(&IpProtocol::ICMP.0) {
        return Err(Reason::Protocol);
    }
    let message = packet.transport_header().unwrap_or_default();
    let icmp = Icmpv4Packet::new_checked(message).map_err(|_| Reason::Length)?;
    let right = match icmp.icmp_type() {
        // An IP header and the 8 bytes behind it.
        kind if kind.is_error() => message.len() >= 8 + 28,
        Icmpv4Type::TIMESTAMP | Icmpv4Type::TIMESTAMP_REPLY => message.len() == 20,
        Icmpv4Type::INFORMATION | Icmpv4Type::INFORMATION_REPLY => message.len() == 8,
        _ => true,
    };
    if !right {
        return Err(Reason::Length);
    }
    if !icmp.verify_checksum() {
        return Err(Reason::Checksum);
    }
    Ok(())
}

check! {
    /// Checks the length and checksum of ICMP messages, and drops wrong ones.
    ///
    /// Packets must have their IP header marked, and end where the message ends, as CheckIPHeader
    /// leaves them. Errors must quote at least 28 bytes; timestamps and information messages must
    /// have exactly their length. The first wrong packet draws a message.
    ///
    /// # Example
    /// ```click
    /// FromDump(in.pcap) -> CheckIPHeader(14) -> CheckICMPHeader -> ICMPPingResponder -> Discard;
    /// ```
    ///
    /// # See also
    /// CheckIPHeader, CheckTCPHeader, CheckUDPHeader, ICMPPingResponder
    CheckICMPHeader, "ICMP", look
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn message(kind: u8, payload: usize) -> Vec<u8> {
        let mut packet = ping(A, A, &[3; 40][..payload]);
        packet[20] = kind;
        packet[22..24].fill(0);
        let sum = checksum(&packet[20..]);
        packet[22..24].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    #[test]
    fn wrong_packets_are_told_apart() {
        let config = "i :: Inject -> MarkIPHeader -> k :: CheckICMPHeader(DETAILS true)
            -> c :: Collect; k[1] -> bad :: Collect;";
        let mut rig = Rig::new(config);
        let right = [
            (8, 0),
            (0, 5),
            (3, 28),
            (11, 30),
            (13, 12),
            (15, 0),
            (99, 1),
        ];
        let right = right.map(|(kind, payload)| message(kind, payload));
        rig.push_all("i", &right);
        assert_eq!(rig.data("c"), right);
        let mut changed = message(8, 4);
        changed[28] ^= 1;
        let wrong = [
            udp((A, 1), (A, 2), &[]),
            message(8, 0)[..27].to_vec(),
            message(3, 27),
            message(14, 13),
            message(16, 1),
            changed,
        ];
        rig.push_all("i", &wrong);
        assert_eq!(rig.data("bad"), wrong);
        let details = "1\tnot ICMP\n4\tbad packet length\n1\tbad ICMP checksum\n";
        assert_eq!(rig.read("k.drop_details"), details);
    }
}
