use crate::prelude::*;

/// Computes the checksum of UDP datagrams.
///
/// Packets must have their IP header marked; that they are UDP is not checked, nor is a length that
/// is less than the header's. Fragments and packets that end before the datagram does are dropped,
/// the first with a message.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> CheckIPHeader(14) -> SetUDPChecksum -> Discard;
/// ```
///
/// # See also
/// CheckUDPHeader, SetIPChecksum, SetTCPChecksum
#[derive(Element)]
#[element(ports = "1/1-2", processing = "a/ah")]
#[outputs("datagrams", "fragments and short packets, without a message")]
pub struct SetUDPChecksum {
    warned: bool,
}

/// Computes the checksum; `None` if the datagram is not there whole.
#[inline(always)]
fn fill(packet: &mut Packet) -> Option<()> {
    let ip = Ipv4Packet::new_unchecked(packet.network_header()?);
    if ip.is_fragment() {
        return None;
    }
    let (source, destination) = (ip.source(), ip.final_destination());
    let protocol = ip.protocol().0;
    let bytes = packet.transport_header_mut()?;
    let available = bytes.len();
    let mut udp = UdpPacket::new_unchecked(bytes);
    if available < UdpPacket::<&[u8]>::HEADER_LEN || usize::from(udp.length()) > available {
        return None;
    }
    let pseudo = pseudo_header_v4(source, destination, protocol, udp.length());
    udp.fill_checksum(pseudo);
    Some(())
}

impl Element for SetUDPChecksum {
    #[inline]
    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if fill(packet).is_some() {
            return Verdict::Forward;
        }
        if !self.warned && cx.outputs() == 1 {
            self.warned = true;
            let declaration = cx.declaration();
            cx.chatter(format_args!("{declaration}: fragment or short packet"));
        }
        Verdict::To(1)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn checksums_come_out_right() {
        let mut rig = Rig::new("i :: Inject -> CheckIPHeader -> SetUDPChecksum -> c :: Collect;");
        for length in 0..70 {
            let right = udp((A, 5), (B, 6), &[7; 70][..length]);
            let mut wrong = right.clone();
            wrong[26..28].fill(0x5a);
            rig.push("i", &wrong);
            assert_eq!(rig.data("c"), [right]);
        }
    }

    #[test]
    fn fragments_and_short_packets_are_dropped_with_one_message() {
        let config = "i :: Inject -> MarkIPHeader -> s :: SetUDPChecksum -> c :: Collect;";
        let mut rig = Rig::new(config);
        let packet = udp((A, 5), (B, 6), &[1]);
        let mut fragment = packet.clone();
        fragment[6] = 0x20;
        rig.push_all(
            "i",
            &[
                fragment.clone(),
                packet[..28].to_vec(),
                packet[..27].to_vec(),
            ],
        );
        assert!(rig.data("c").is_empty());
        assert_eq!(
            rig.printed(),
            ["s :: SetUDPChecksum: fragment or short packet"]
        );

        let config =
            "i :: Inject -> MarkIPHeader -> s :: SetUDPChecksum -> Discard; s[1] -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &fragment);
        assert_eq!(rig.data("c"), [fragment]);
        assert!(rig.printed().is_empty());
    }
    #[test]
    fn a_length_below_the_headers_counts_as_it_stands() {
        let mut rig = Rig::new("i :: Inject -> CheckIPHeader -> SetUDPChecksum -> c :: Collect;");
        for length in 0..8 {
            let mut packet = ping(A, B, &[9; 20]);
            packet[24..28].copy_from_slice(&[0, length, 0x5a, 0x5a]);
            rig.push("i", &packet);
            // The pseudo header, and the bytes that the length covers without the checksum.
            let mut covered = packet[12..20].to_vec();
            covered.extend([0, 1, 0, length]);
            packet[26..28].fill(0);
            covered.extend(&packet[20..20 + usize::from(length)]);
            packet[26..28].copy_from_slice(&checksum(&covered).to_be_bytes());
            assert_eq!(rig.data("c"), [packet]);
        }
    }
}
