//! Packets are built by hand, translated, and compared with what is built by hand in the other
//! version, whose checksums are computed the plain way.

use super::Mapped;
use crate::testing;
use crate::testing::ip6::{addr, icmp, packet, tcp, udp, upper_checksum};
use crate::testing::*;

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 200);

fn six(address: Ipv4Addr) -> Ipv6Addr {
    address.to_ipv6_mapped()
}

fn to_v4(packet: &mut Packet) -> Option<()> {
    super::to_v4(packet, &mut Mapped)
}

fn to_v6(packet: &mut Packet) -> Option<()> {
    super::to_v6(packet, &mut Mapped)
}

/// What `translate` makes of `bytes`.
fn translated(translate: fn(&mut Packet) -> Option<()>, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut pool = Pool::heap(4);
    let mut packet = pool.copy(bytes).unwrap();
    translate(&mut packet)?;
    assert_eq!(packet.network_offset(), Some(0));
    Some(packet.data().to_vec())
}

/// An IPv4 packet as the other direction makes it: "don't fragment" set.
fn unfragmentable(mut packet: Vec<u8>) -> Vec<u8> {
    packet[6] = 0x40;
    header_checksum(packet)
}

fn header_checksum(mut packet: Vec<u8>) -> Vec<u8> {
    packet[10..12].fill(0);
    let sum = checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// An ICMP message over IPv4.
fn icmp4((kind, code, rest): (u8, u8, [u8; 4]), payload: &[u8]) -> Vec<u8> {
    let mut packet = testing::ping(A, B, payload);
    packet[20..24].copy_from_slice(&[kind, code, 0, 0]);
    packet[24..28].copy_from_slice(&rest);
    let sum = checksum(&packet[20..]);
    packet[22..24].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// The same packet in both versions.
fn pairs(ports: (u16, u16), payload: &[u8]) -> [(Vec<u8>, Vec<u8>); 4] {
    let (a, b) = ((A, ports.0), (B, ports.1));
    let (a6, b6) = ((six(A), ports.0), (six(B), ports.1));
    let rest = [ports.0 as u8, 1, ports.1 as u8, 0];
    [
        (testing::udp(a, b, payload), udp(a6, b6, payload)),
        (
            testing::tcp(a, b, 0x12, payload),
            tcp(a6, b6, 0x12, payload),
        ),
        (
            icmp4((8, 0, rest), payload),
            icmp(a6.0, b6.0, (128, 0, rest), payload),
        ),
        (
            icmp4((0, 0, rest), payload),
            icmp(a6.0, b6.0, (129, 0, rest), payload),
        ),
    ]
}

proptest! {
    #[test]
    fn packets_become_what_they_are_in_the_other_version(
        ports: (u16, u16), payload in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        for (four, six) in pairs(ports, &payload) {
            prop_assert_eq!(translated(to_v6, &four), Some(six.clone()));
            prop_assert_eq!(translated(to_v4, &six), Some(unfragmentable(four)));
        }
    }

    #[test]
    fn damage_stays_damage(
        payload in prop::collection::vec(any::<u8>(), 1..60), at: usize, bit in 0u8..8,
    ) {
        for (mut four, mut six) in pairs((1000, 2000), &payload) {
            let at = at % payload.len() + 1;
            for packet in [&mut four, &mut six] {
                let end = packet.len();
                packet[end - at] ^= 1 << bit;
            }
            let made = translated(to_v6, &four).unwrap();
            let protocol = made[6];
            let sum = upper_checksum(protocol, self::six(A), self::six(B), &made[40..]);
            prop_assert_ne!(sum, 0);
            prop_assert_eq!(translated(to_v4, &six), Some(unfragmentable(four)));
        }
    }

    #[test]
    fn quoted_packets_are_translated_with_their_error(
        ports: (u16, u16), payload in prop::collection::vec(any::<u8>(), 0..300), cut in 28usize..200,
    ) {
        for (four, six) in pairs(ports, &payload) {
            // Unreachable port; the transport header whole or its first eight bytes.
            let (four, six) = (unfragmentable(four), six);
            let quoted = cut.min(four.len());
            let four = icmp4((3, 3, [0; 4]), &four[..quoted]);
            let quote = &six[..quoted + 20];
            let six = icmp(self::six(A), self::six(B), (1, 4, [0; 4]), quote);
            // A TCP checksum whose header is cut off right behind it stays as it is.
            prop_assume!(!(38..40).contains(&quoted));
            prop_assert_eq!(translated(to_v6, &four), Some(six.clone()));
            prop_assert_eq!(translated(to_v4, &six), Some(unfragmentable(four)));
        }
    }

    #[test]
    fn any_bytes_are_translated_or_not_without_a_panic(
        start in prop::sample::select(&[0x45u8, 0x46, 0x4f, 0x60][..]),
        rest in prop::collection::vec(any::<u8>(), 0..120),
        kind in prop::sample::select(&[1u8, 3, 4, 11, 12, 58, 6, 17, 44, 0, 43, 60][..]),
        fits: bool,
    ) {
        let mut bytes = [&[start], &rest[..]].concat();
        let length = bytes.len();
        if length >= 48 {
            (bytes[9], bytes[6]) = (1, if start == 0x60 { kind } else { 0 });
            for at in [8, 24] {
                bytes[at..at + 16].copy_from_slice(&six(A).octets());
            }
            if fits {
                let length = if start == 0x60 { length - 40 } else { length };
                let at = if start == 0x60 { 4 } else { 2 };
                bytes[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
            }
        }
        let _ = translated(to_v6, &bytes);
        let _ = translated(to_v4, &bytes);
    }
}

#[test]
fn errors_change_type_and_code_as_click_does() {
    let quoted = unfragmentable(testing::udp((A, 1), (B, 2), &[7; 40]));
    let quoted6 = udp((six(A), 1), (six(B), 2), &[7; 40]);
    let four = |message| icmp4(message, &quoted);
    let six = |message| icmp(six(A), six(B), message, &quoted6);
    let both_ways = [
        ((3, 0, [0; 4]), (1, 0, [0; 4])),
        ((3, 3, [0; 4]), (1, 4, [0; 4])),
        ((3, 5, [0; 4]), (1, 2, [0; 4])),
        ((3, 10, [0; 4]), (1, 1, [0; 4])),
        ((11, 0, [0; 4]), (3, 0, [0; 4])),
        ((11, 1, [0; 4]), (3, 1, [0; 4])),
        ((12, 0, [8, 0, 0, 0]), (4, 0, [0, 0, 0, 7])),
        ((12, 0, [9, 0, 0, 0]), (4, 0, [0, 0, 0, 6])),
        ((12, 0, [12, 0, 0, 0]), (4, 0, [0, 0, 0, 8])),
        ((3, 4, [0, 0, 0x05, 0x78]), (2, 0, [0, 0, 0x05, 0x8c])),
    ];
    for (message4, message6) in both_ways {
        assert_eq!(
            translated(to_v6, &four(message4)),
            Some(six(message6)),
            "{message4:?}"
        );
        let made = translated(to_v4, &six(message6));
        assert_eq!(made, Some(unfragmentable(four(message4))), "{message6:?}");
    }
    let one_way = [
        ((3, 1, [0; 4]), (1, 0, [0; 4])),
        ((3, 9, [0; 4]), (1, 1, [0; 4])),
        ((3, 13, [0; 4]), (1, 1, [0; 4])),
        ((3, 12, [0; 4]), (1, 0, [0; 4])),
        ((12, 0, [20, 0, 0, 0]), (4, 0, [255; 4])),
        // No MTU told for a packet of 68 bytes, and one that IPv6 does not go below.
        ((3, 4, [0; 4]), (2, 0, [0, 0, 5, 0])),
        ((3, 4, [0, 0, 1, 0]), (2, 0, [0, 0, 5, 0])),
    ];
    for (message4, message6) in one_way {
        assert_eq!(
            translated(to_v6, &four(message4)),
            Some(six(message6)),
            "{message4:?}"
        );
    }
    let protocol = translated(to_v6, &four((3, 2, [0; 4])));
    assert_eq!(protocol, Some(six((4, 1, [0, 0, 0, 6]))));
    let back = translated(to_v4, &six((4, 1, [0; 4])));
    assert_eq!(back, Some(unfragmentable(four((3, 2, [0; 4])))));
    let option = translated(to_v4, &six((4, 2, [0; 4])));
    assert_eq!(option, Some(unfragmentable(four((12, 0, [255, 0, 0, 0])))));
    // No such thing in the other version, or damaged.
    for message in [
        (3, 14, [0; 4]),
        (5, 0, [0; 4]),
        (13, 0, [0; 4]),
        (4, 0, [0; 4]),
    ] {
        assert_eq!(translated(to_v6, &four(message)), None, "{message:?}");
    }
    for message in [(5, 0, [0; 4]), (135, 0, [0; 4]), (4, 3, [0; 4])] {
        assert_eq!(translated(to_v4, &six(message)), None, "{message:?}");
    }
    let mut damaged = four((3, 3, [0; 4]));
    damaged[40] ^= 1;
    assert_eq!(translated(to_v6, &damaged), None);
}

#[test]
fn udp_without_a_checksum_gets_one() {
    let mut four = testing::udp((A, 5), (B, 6), &[1, 2, 3]);
    four[26..28].fill(0);
    assert_eq!(
        translated(to_v6, &four),
        Some(udp((six(A), 5), (six(B), 6), &[1, 2, 3]))
    );
    // Unless it is the first fragment of more.
    four[6] = 0x20;
    assert_eq!(translated(to_v6, &header_checksum(four)), None);
}

#[test]
fn fragments_stay_fragments() {
    let mut four = testing::udp((A, 5), (B, 6), &[9; 24]);
    four[4..8].copy_from_slice(&[0x12, 0x34, 0x20, 2]);
    let four = header_checksum(four);
    let payload = [&[17, 0, 0, 17, 0, 0, 0x12, 0x34], &four[20..]].concat();
    let six = packet(44, six(A), six(B), &payload);
    assert_eq!(translated(to_v6, &four), Some(six.clone()));
    assert_eq!(translated(to_v4, &six), Some(four));
    let mut ping = testing::ping(A, B, &[]);
    ping[6] = 0x20;
    assert_eq!(translated(to_v6, &header_checksum(ping)), None);
}

#[test]
fn extension_headers_and_options_are_left_behind() {
    let plain = udp((six(A), 5), (six(B), 6), &[1]);
    let options = [60, 0, 1, 4, 0, 0, 0, 0, 43, 0, 1, 4, 0, 0, 0, 0];
    let mut routing = [17, 0, 0, 0, 0, 0, 0, 0];
    let with = |routing: &[u8]| {
        packet(
            0,
            six(A),
            six(B),
            &[&options, routing, &plain[40..]].concat(),
        )
    };
    let four = unfragmentable(testing::udp((A, 5), (B, 6), &[1]));
    assert_eq!(translated(to_v4, &with(&routing)), Some(four));
    routing[3] = 1;
    assert_eq!(translated(to_v4, &with(&routing)), None);

    let four = testing::udp((A, 5), (B, 6), &[1]);
    let with_option = |option: &[u8; 8]| {
        let mut packet = [&four[..20], &option[..], &four[20..]].concat();
        (packet[0], packet[3]) = (0x47, packet[3] + 8);
        packet
    };
    let nothing = with_option(&[1; 8]);
    assert_eq!(translated(to_v6, &nothing), Some(plain));
    // A source route that is not yet at its end.
    let route = with_option(&[131, 7, 4, 9, 9, 9, 9, 0]);
    assert_eq!(translated(to_v6, &route), None);
}

#[test]
fn addresses_must_stand_for_others() {
    let six = udp((addr("2001:db8::1"), 5), (six(B), 6), &[]);
    assert_eq!(translated(to_v4, &six), None);
    let zero = udp(
        (addr("::ffff:0.0.0.0"), 5),
        (addr("::ffff:1.2.3.4"), 6),
        &[],
    );
    assert_eq!(translated(to_v4, &zero), None);
    // Padding is cut off, and what is short refused.
    let four = testing::udp((A, 5), (B, 6), &[]);
    let padded = translated(to_v6, &[&four[..], &[0; 18]].concat()).unwrap();
    assert_eq!(padded.len(), 48);
    assert_eq!(translated(to_v6, &four[..27]), None);
}
