//! Whether a packet's receiver will take its checksum for right.

use crate::prelude::*;
use crate::rewriter::headers::is_ip6;

use super::upper::Upper;

/// Whether the checksum of a TCP segment or a UDP datagram is right, or left to the sender (see
/// [`Packet::needs_checksum`]); of a datagram, also whether there is none (RFC 768, RFC 6935).
pub fn is_intact(packet: &Packet) -> bool {
    if packet.needs_checksum() {
        return true;
    }
    let header = packet.network_header().unwrap_or_default();
    let Some(upper) = Upper::of(packet) else {
        return false;
    };
    let Upper {
        protocol,
        bytes: first,
        length,
        ..
    } = upper;
    if protocol == IpProtocol::UDP && first.get(6..8) == Some(&[0, 0]) {
        return true;
    }
    let pseudo = match is_ip6(packet) {
        false => match Ipv4Packet::new_quoted(header) {
            Ok(ip) => pseudo_header_v4(
                ip.source(),
                ip.final_destination(),
                protocol.0,
                length as u16,
            ),
            Err(_) => return false,
        },
        true => match Ipv6Packet::new_quoted(header) {
            // The last destination of a routing header counts, which is not known here.
            Ok(ip) if has_routing(&ip) => return true,
            Ok(ip) => ip.pseudo_header(protocol, length as u32),
            Err(_) => return false,
        },
    };
    let (mut sum, mut covered) = (Sum::of(first), first.len());
    for part in packet.parts_data() {
        sum = sum.join(covered, Sum::of(part));
        covered += part.len();
    }
    covered == length && (pseudo + sum).is_valid()
}

fn has_routing(ip: &Ipv6Packet<&[u8]>) -> bool {
    let mut extensions = ip.extensions().flatten();
    extensions.any(|extension| extension.kind == IpProtocol::ROUTING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    #[test]
    fn a_wrong_checksum_is_told() {
        let mut pool = Pool::heap(4);
        let segment = tcp((A, 1), (B, 2), 16, b"odd");
        let mut changed = segment.clone();
        changed[42] ^= 1;
        let datagram = udp((A, 1), (B, 2), b"four");
        let mut bare = datagram.clone();
        bare[26..28].fill(0);
        let mut wrong = datagram.clone();
        wrong[26] ^= 1;
        let padded = [&segment[..], &[0; 6]].concat();
        for (bytes, expected) in [
            (&segment, true),
            (&padded, true),
            (&changed, false),
            (&segment[..41].to_vec(), false),
            (&datagram, true),
            (&bare, true),
            (&wrong, false),
        ] {
            let mut packet = pool.copy(bytes).unwrap();
            packet.set_network_header(0, 20);
            assert_eq!(is_intact(&packet), expected, "{bytes:?}");
            // What a kernel leaves open is right.
            packet.set_offload(Some(Offload {
                checksum_start: 20,
                checksum_offset: 16,
                segments: None,
            }));
            assert!(is_intact(&packet));
        }
    }
}
