use proptest::prelude::*;

use super::*;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// A checksum worked out word by word, as a check on the fast one.
fn plain_sum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A frame that stands for several, and what it was made of.
#[derive(Clone, Debug)]
pub struct Large {
    pub bytes: Vec<u8>,
    pub vnet: VnetHeader,
    l3: usize,
    l4: usize,
    pub payload: usize,
    v6: bool,
    tcp: bool,
}

impl Large {
    /// The pseudo header of a transport segment of `len` bytes.
    fn pseudo(&self, frame: &[u8], len: usize) -> Vec<u8> {
        let addresses = match self.v6 {
            true => &frame[self.l3 + 8..self.l3 + 40],
            false => &frame[self.l3 + 12..self.l3 + 20],
        };
        let mut pseudo = addresses.to_vec();
        pseudo.extend([0, if self.tcp { TCP } else { UDP }]);
        pseudo.extend((len as u16).to_be_bytes());
        pseudo
    }
}

prop_compose! {
    pub fn large()(
        v6 in any::<bool>(), tcp in any::<bool>(), tags in 0usize..3, options in 0usize..6,
        sequence in any::<u32>(), flags in any::<u8>(), id in any::<u16>(),
        payload in proptest::collection::vec(any::<u8>(), 1..6000),
        size in 1u16..1500,
        addresses in any::<[u8; 32]>(),
    ) -> Large {
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for tag in 0..tags {
            bytes.extend(if tag == 0 && tags == 2 { [0x88, 0xa8] } else { [0x81, 0x00] });
            bytes.extend([0x20, 7]);
        }
        bytes.extend(if v6 { [0x86, 0xdd] } else { [0x08, 0x00] });
        let l3 = bytes.len();
        let protocol = if tcp { TCP } else { UDP };
        let transport = if tcp { 20 + 4 * options } else { 8 };
        if v6 {
            bytes.extend([0x60, 0, 0, 0]);
            bytes.extend(((transport + payload.len()) as u16).to_be_bytes());
            bytes.extend([protocol, 64]);
            bytes.extend(addresses);
        } else {
            bytes.extend([0x45, 0]);
            bytes.extend(((20 + transport + payload.len()) as u16).to_be_bytes());
            bytes.extend(id.to_be_bytes());
            bytes.extend([0x40, 0, 64, protocol, 0, 0]);
            bytes.extend(&addresses[..8]);
        }
        let l4 = bytes.len();
        bytes.extend([0x12, 0x34, 0x00, 0x50]);
        if tcp {
            bytes.extend(sequence.to_be_bytes());
            bytes.extend([0, 0, 0, 9, ((5 + options) as u8) << 4, flags, 1, 0, 0, 0, 0, 0]);
            bytes.extend((0..4 * options).map(|_| 1));
        } else {
            bytes.extend(((8 + payload.len()) as u16).to_be_bytes());
            bytes.extend([0, 0]);
        }
        let start = bytes.len();
        bytes.extend(&payload);
        let gso_type = match (tcp, v6) {
            (true, false) => VnetHeader::GSO_TCPV4 | (id as u8 & VnetHeader::GSO_ECN),
            (true, true) => VnetHeader::GSO_TCPV6,
            (false, _) => VnetHeader::GSO_UDP_L4,
        };
        let vnet = VnetHeader {
            flags: VnetHeader::NEEDS_CHECKSUM,
            gso_type,
            header_len: start as u16,
            gso_size: size,
            checksum_start: l4 as u16,
            checksum_offset: if tcp { TCP_CHECKSUM } else { UDP_CHECKSUM },
        };
        let mut large = Large { bytes, vnet, l3, l4, payload: start, v6, tcp };
        // As the kernel leaves it: the pseudo header's sum, not complemented.
        let at = l4 + usize::from(vnet.checksum_offset);
        let pseudo = large.pseudo(&large.bytes, large.bytes.len() - l4);
        large.bytes[at..at + 2].copy_from_slice(&plain_sum(&pseudo).to_be_bytes());
        large
    }
}

proptest! {
    #[test]
    fn a_slot_says_what_a_header_says(large in large(), segmented in any::<bool>()) {
        let mut vnet = large.vnet.with_header_len(0);
        if !segmented {
            (vnet.gso_type, vnet.gso_size) = (0, 0);
        }
        prop_assert_eq!(VnetHeader::of_slot(vnet.to_slot()), vnet);
        prop_assert!(is_own_checksum(&large.bytes, vnet));
        let elsewhere = VnetHeader { checksum_start: vnet.checksum_start + 2, ..vnet };
        prop_assert!(!is_own_checksum(&large.bytes, elsewhere));
        let short = &large.bytes[..usize::from(vnet.checksum_start) + 7];
        prop_assert!(!is_own_checksum(short, vnet));
    }
}

/// Checks one segment's headers against the frame it was cut from; returns its payload.
fn check_segment(large: &Large, i: usize, from: usize, last: bool, segment: &[u8]) -> Vec<u8> {
    let Large { l3, l4, bytes, .. } = large;
    let (l3, l4) = (*l3, *l4);
    let get = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let length = segment.len() - l3;
    assert_eq!(segment[..l3], bytes[..l3]);
    if large.v6 {
        assert_eq!(usize::from(get(segment, l3 + 4)), length - 40);
    } else {
        assert_eq!(usize::from(get(segment, l3 + 2)), length);
        let id = get(bytes, l3 + 4).wrapping_add(i as u16);
        assert_eq!(get(segment, l3 + 4), id);
        assert_eq!(plain_sum(&segment[l3..l4]), 0xffff);
    }
    let mut covered = large.pseudo(segment, segment.len() - l4);
    covered.extend(&segment[l4..]);
    assert_eq!(plain_sum(&covered), 0xffff);
    if large.tcp {
        let sequence = |b: &[u8]| u32::from(get(b, l4 + 4)) << 16 | u32::from(get(b, l4 + 6));
        assert_eq!(sequence(segment), sequence(bytes).wrapping_add(from as u32));
        let (was, is) = (bytes[l4 + 13], segment[l4 + 13]);
        let mut expected = was;
        if !last {
            expected &= !(FIN | PSH);
        }
        if i > 0 {
            expected &= !CWR;
        }
        assert_eq!(is, expected);
    } else {
        assert_eq!(usize::from(get(segment, l4 + 4)), segment.len() - l4);
        assert_ne!(get(segment, l4 + 6), 0);
    }
    segment[large.payload..].to_vec()
}

proptest! {
    #[test]
    fn segments_join_to_what_was_cut_and_are_whole_packets(large in large()) {
        let mut segments = Segmenter::new(&large.bytes, large.vnet).unwrap();
        let (count, longest) = (segments.count(), segments.longest());
        let (mut joined, mut lengths) = (Vec::new(), Vec::new());
        let total = large.bytes.len() - large.payload;
        while let Some((headers, payload)) = segments.next_segment() {
            prop_assert!(payload.len() <= usize::from(large.vnet.gso_size));
            let segment = [headers, payload].concat();
            let last = joined.len() + payload.len() == total;
            let from = joined.len();
            joined.extend(check_segment(&large, lengths.len(), from, last, &segment));
            lengths.push(segment.len());
        }
        prop_assert_eq!(&joined, &large.bytes[large.payload..]);
        prop_assert_eq!(lengths.len(), count);
        prop_assert_eq!(lengths.into_iter().max(), Some(longest));
    }

    #[test]
    fn a_completed_checksum_is_right(large in large()) {
        let (at, sum) = checksum_of(&large.bytes, large.vnet).unwrap();
        let mut whole = large.bytes.clone();
        whole[at..at + 2].copy_from_slice(&sum);
        let mut covered = large.pseudo(&whole, whole.len() - large.l4);
        covered.extend(&whole[large.l4..]);
        prop_assert_eq!(plain_sum(&covered), 0xffff);
    }

    #[test]
    fn headers_that_contradict_the_frame_are_refused(large in large(), shift in 1u16..40) {
        let inner = VnetHeader { checksum_start: large.vnet.checksum_start + shift, ..large.vnet };
        prop_assert!(Segmenter::new(&large.bytes, inner).is_err(), "a tunnel's inner header");
        let none = VnetHeader { gso_size: 0, ..large.vnet };
        prop_assert!(Segmenter::new(&large.bytes, none).is_err());
        let headers = &large.bytes[..large.payload];
        prop_assert!(Segmenter::new(headers, large.vnet).is_err(), "nothing to cut");
        let ufo = VnetHeader { gso_type: 3, ..large.vnet };
        prop_assert!(Segmenter::new(&large.bytes, ufo).is_err());
    }

    #[test]
    fn no_bytes_and_no_header_do_harm(
        bytes in proptest::collection::vec(any::<u8>(), 0..300), vnet in any::<[u8; VnetHeader::LEN]>(),
        large in large(), cut in 0usize..200, twist in 0usize..60, by in any::<u8>(),
    ) {
        let vnet = VnetHeader::parse(&vnet);
        prop_assert_eq!(VnetHeader::parse(&vnet.to_bytes()), vnet);
        let mut twisted = large.bytes;
        let at = twist.min(twisted.len() - 1);
        twisted[at] ^= by;
        for (frame, vnet) in [(&bytes, vnet), (&twisted, large.vnet), (&twisted, vnet)] {
            for frame in [&frame[..], &frame[..cut.min(frame.len())]] {
                let _ = (checksum_of(frame, vnet), tags_len(frame));
                if let Ok(mut segments) = Segmenter::new(frame, vnet) {
                    let mut left = segments.count();
                    while segments.next_segment().is_some() {
                        left -= 1;
                    }
                    prop_assert_eq!(left, 0);
                }
            }
        }
    }
}
