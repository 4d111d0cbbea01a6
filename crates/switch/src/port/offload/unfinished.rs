//! Detects partial checksums and joined segments where the link does not report them.
//!
//! A frame that comes by AF_XDP has lost its virtio-net header. Across a veth pair its TCP or UDP
//! checksum may be partial, as the sender's stack leaves it to the "hardware": the folded sum of
//! the pseudo header, not complemented. A field with exactly that value is treated as partial. If
//! it is right by chance (1 in 65536), completing it gives the same value again: with P the pseudo
//! header's sum and S the rest's, a right checksum is ~(P + S); where that is P, ~(P + S) is it.

use std::net::{Ipv4Addr, Ipv6Addr};

use packet::checksum::{pseudo_header_v4, pseudo_header_v6};

use super::{
    TCP, TCP_CHECKSUM, TYPE_IPV4, TYPE_IPV6, UDP, UDP_CHECKSUM, VnetHeader, header_len_v4,
    network_header, transport_of_v4, transport_of_v6, word,
};

/// VXLAN's port (RFC 7348) and its header behind that of UDP, in bytes.
const VXLAN_PORT: u16 = 4789;
const UDP_AND_VXLAN: usize = 8 + 8;

/// The pending work of a frame: a transport checksum to complete, or nothing. Looks into VXLAN too,
/// since the sender leaves the inner checksum partial as well.
#[inline]
pub fn unfinished(frame: &[u8]) -> VnetHeader {
    let found = match checksum_place(frame) {
        Some(Found::Unfinished(start, offset)) => Some((start, offset)),
        Some(Found::Tunnel(at)) => match frame.get(at..).and_then(checksum_place) {
            Some(Found::Unfinished(start, offset)) => Some((at + start, offset)),
            _ => None,
        },
        None => None,
    };
    found.map_or_else(VnetHeader::default, |(start, offset)| VnetHeader {
        flags: VnetHeader::NEEDS_CHECKSUM,
        checksum_start: start as u16,
        checksum_offset: offset,
        ..VnetHeader::default()
    })
}

/// The pending work on a segmented packet, whose segments will be IP packets of at most `mtu`
/// bytes; none if its headers do not say that they are unfinished.
pub fn joined(frame: &[u8], mtu: u16) -> Option<VnetHeader> {
    let Some(Found::Unfinished(start, offset)) = checksum_place(frame) else {
        return None;
    };
    let (kind, l3) = network_header(frame)?;
    let (gso_type, length) = match (kind, offset) {
        (_, UDP_CHECKSUM) => (VnetHeader::GSO_UDP_L4, 8),
        (TYPE_IPV4, _) => (VnetHeader::GSO_TCPV4, tcp_header_len(frame, start)?),
        _ => (VnetHeader::GSO_TCPV6, tcp_header_len(frame, start)?),
    };
    let headers = u16::try_from(start + length - l3).ok()?;
    Some(VnetHeader {
        flags: VnetHeader::NEEDS_CHECKSUM,
        gso_type,
        gso_size: mtu.checked_sub(headers)?,
        checksum_start: start as u16,
        checksum_offset: offset,
        ..VnetHeader::default()
    })
}

fn tcp_header_len(frame: &[u8], start: usize) -> Option<usize> {
    Some(usize::from(frame.get(start + 12)? >> 4) * 4)
}

enum Found {
    /// A checksum to be completed: where the transport header starts, and where in it the field is.
    Unfinished(usize, u16),
    /// A frame inside, from here on.
    Tunnel(usize),
}

fn checksum_place(frame: &[u8]) -> Option<Found> {
    let (kind, l3) = network_header(frame)?;
    let (protocol, l4, sum) = match kind {
        TYPE_IPV4 => {
            let protocol = *frame.get(l3 + 9)?;
            known(protocol)?;
            let total = usize::from(word(frame, l3 + 2)?);
            // Behind padding, nothing says where the sum would end.
            if l3 + total != frame.len() {
                return None;
            }
            let l4 = transport_of_v4(frame, l3, protocol)?;
            let length = total.checked_sub(header_len_v4(*frame.get(l3)?))?;
            let address = |at: usize| {
                frame
                    .get(at..)?
                    .first_chunk::<4>()
                    .map(|a| Ipv4Addr::from(*a))
            };
            let (from, to) = (address(l3 + 12)?, address(l3 + 16)?);
            (
                protocol,
                l4,
                pseudo_header_v4(from, to, protocol, length as u16),
            )
        }
        TYPE_IPV6 => {
            let payload = usize::from(word(frame, l3 + 4)?);
            if l3 + 40 + payload != frame.len() {
                return None;
            }
            let transport = |protocol| Some((protocol, transport_of_v6(frame, l3, protocol)?));
            let (protocol, l4) = transport(TCP).or_else(|| transport(UDP))?;
            let address = |at: usize| {
                frame
                    .get(at..)?
                    .first_chunk::<16>()
                    .map(|a| Ipv6Addr::from(*a))
            };
            let (from, to) = (address(l3 + 8)?, address(l3 + 24)?);
            let length = (frame.len() - l4) as u32;
            (protocol, l4, pseudo_header_v6(from, to, protocol, length))
        }
        _ => return None,
    };
    let offset = known(protocol)?;
    if word(frame, l4 + usize::from(offset))? == sum.fold() {
        return Some(Found::Unfinished(l4, offset));
    }
    let tunnel = protocol == UDP && word(frame, l4 + 2)? == VXLAN_PORT;
    tunnel.then_some(Found::Tunnel(l4 + UDP_AND_VXLAN))
}

/// The offset of a protocol's checksum in its header.
fn known(protocol: u8) -> Option<u16> {
    match protocol {
        TCP => Some(TCP_CHECKSUM),
        UDP => Some(UDP_CHECKSUM),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::checksum_of;
    use super::*;

    /// An Ethernet frame with an IPv4 packet of TCP and this payload, its checksum unfinished.
    fn tcp(payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        let total = (40 + payload.len()) as u16;
        frame.extend([0x45, 0]);
        frame.extend(total.to_be_bytes());
        frame.extend([0, 1, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([
            0x12, 0x34, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 1, 0, 0, 0, 0, 0,
        ]);
        frame.extend(payload);
        let (from, to) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let sum = pseudo_header_v4(from, to, TCP, total - 20).fold();
        frame[50..52].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    fn finished(mut frame: Vec<u8>) -> Vec<u8> {
        let (at, sum) = checksum_of(&frame, unfinished(&frame)).expect("something to do");
        frame[at..at + 2].copy_from_slice(&sum);
        frame
    }

    proptest! {
        #[test]
        fn an_unfinished_checksum_is_found_and_completed(payload in proptest::collection::vec(any::<u8>(), 0..100)) {
            let frame = tcp(&payload);
            let header = unfinished(&frame);
            prop_assert!(header.needs_checksum());
            let whole = finished(frame.clone());
            // A finished one is left alone, unless it is right by chance: then it stays the same.
            let again = unfinished(&whole);
            if again.needs_checksum() {
                prop_assert_eq!(finished(whole.clone()), whole);
            }
        }

        #[test]
        fn any_bytes_are_looked_at(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let header = unfinished(&bytes);
            if header.needs_checksum() {
                prop_assert!(checksum_of(&bytes, header).is_ok());
            }
        }
    }

    #[test]
    fn a_checksum_that_is_right_by_chance_stays_as_it_is() {
        // A payload word that makes the rest's sum the complement of twice the pseudo header's.
        let (at, sum) = (0..=u16::MAX)
            .map(|word| tcp(&word.to_be_bytes()))
            .find_map(|frame| {
                let (at, sum) = checksum_of(&frame, unfinished(&frame)).ok()?;
                (frame[at..at + 2] == sum).then_some((at, sum))
            })
            .expect("one of all words does it");
        assert_eq!((at, sum.len()), (50, 2));
    }

    #[test]
    fn a_frame_that_stands_for_several_is_cut_as_told() {
        let frame = tcp(&[7; 2500]);
        let header = joined(&frame, 1040).expect("TCP");
        let segments = super::super::Segmenter::new(&frame, header).expect("whole");
        assert_eq!((segments.count(), segments.longest()), (3, 14 + 1040));
        assert_eq!(joined(&finished(frame.clone()), 1040), None);
        assert_eq!(joined(&frame[..2000], 1040), None);
        assert_eq!(joined(&frame, 39), None);
    }

    #[test]
    fn a_frame_in_vxlan_is_finished_and_one_with_padding_is_not() {
        let inner = tcp(b"payload");
        let mut outer = vec![2, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 4, 8, 0, 0x45, 0];
        outer.extend((20 + 16 + inner.len() as u16).to_be_bytes());
        outer.extend([0, 1, 0, 0, 64, UDP, 0, 0, 10, 1, 0, 1, 10, 1, 0, 2]);
        outer.extend([0xc0, 0, 0x12, 0xb5]);
        outer.extend((16 + inner.len() as u16).to_be_bytes());
        outer.extend([0, 0, 8, 0, 0, 0, 0, 0, 42, 0]);
        outer.extend(&inner);
        let whole = finished(outer.clone());
        assert_eq!(whole[50..], finished(inner.clone()));
        let mut padded = inner;
        padded.extend([0; 4]);
        assert!(!unfinished(&padded).needs_checksum());
    }
}
