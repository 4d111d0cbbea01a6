use crate::checksum::{Sum, checksum};
use crate::wire::*;
use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;
use std::{vec, vec::Vec};

/// A packet of 20 + 40 + 8 bytes with these options, padded with END.
fn with_options(options: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 68];
    bytes[0] = 0x4f;
    bytes[3] = 68;
    bytes[16..20].copy_from_slice(&[10, 0, 0, 9]);
    bytes[20..20 + options.len()].copy_from_slice(options);
    bytes
}

#[test]
fn ipv4_says_what_is_wrong_with_a_header() {
    let good = Ipv4Header {
        total_len: 24,
        ..header()
    }
    .to_bytes();
    let check = |at: usize, byte: u8| {
        let mut bytes = [0; 24];
        bytes[..20].copy_from_slice(&good);
        bytes[at] = byte;
        Ipv4Packet::new_checked(bytes).err()
    };
    assert_eq!(check(0, 0x45), None);
    assert_eq!(check(0, 0x46), None);
    assert_eq!(check(0, 0x65), Some(WireError::Version));
    assert_eq!(check(0, 0x44), Some(WireError::HeaderLength));
    assert_eq!(check(0, 0x47), Some(WireError::HeaderLength));
    assert_eq!(check(3, 19), Some(WireError::Length));
    assert_eq!(check(3, 25), Some(WireError::Length));
    assert_eq!(
        Ipv4Packet::new_checked(&good[..19]).err(),
        Some(WireError::Truncated)
    );
    let quoted = Ipv4Packet::new_quoted(good).unwrap();
    assert_eq!((quoted.total_len(), quoted.payload().len()), (24, 0));
}

fn header() -> Ipv4Header {
    Ipv4Header {
        tos: 0,
        total_len: 20,
        ident: 7,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: IpProtocol::UDP,
        source: Ipv4Addr::new(10, 0, 0, 1),
        destination: Ipv4Addr::new(10, 0, 0, 2),
    }
}

#[test]
fn ttl_is_decremented_down_to_one_and_no_further() {
    for ttl in 0..=255 {
        let mut packet =
            Ipv4Packet::new_checked(Ipv4Header { ttl, ..header() }.to_bytes()).unwrap();
        let forward = packet.decrement_ttl();
        assert_eq!(forward, ttl > 1);
        assert_eq!(packet.ttl(), if forward { ttl - 1 } else { ttl });
        assert!(packet.verify_checksum(), "ttl {ttl}");
    }
}

#[test]
fn decrementing_the_ttl_updates_any_checksum_as_rfc_1624_does() {
    let mut packet = Ipv4Packet::new_checked(header().to_bytes()).unwrap();
    for checksum in 0..=0xffff {
        packet.set_ttl(64);
        packet.set_checksum(checksum);
        assert!(packet.decrement_ttl());
        let updated = crate::checksum::Delta::of_u16(64 << 8, 63 << 8).apply(checksum);
        assert_eq!(packet.checksum(), updated, "{checksum:#x}");
    }
}

#[test]
fn options_are_walked_with_their_places() {
    let bytes = with_options(&[1, 7, 7, 4, 0, 0, 0, 0, 1, 148, 4, 0, 0, 0, 7]);
    let packet = Ipv4Packet::new_checked(&bytes).unwrap();
    let seen: Vec<_> = packet
        .options()
        .map(|option| option.map(|option| (option.kind.0, option.at, option.bytes.len())))
        .collect();
    // The last 7 stands behind END.
    assert_eq!(
        seen,
        [
            Ok((1, 20, 1)),
            Ok((7, 21, 7)),
            Ok((1, 28, 1)),
            Ok((148, 29, 4))
        ]
    );
}

#[test]
fn a_bad_option_length_ends_the_walk_and_says_where() {
    for bad in [&[7, 0][..], &[7, 1], &[7, 40, 4]] {
        let mut options = vec![1];
        options.extend(bad);
        let bytes = with_options(&options);
        let packet = Ipv4Packet::new_checked(&bytes).unwrap();
        let seen: Vec<_> = packet.options().skip(1).collect();
        assert_eq!(seen, [Err(WireError::OptionLength { at: 21 })], "{bad:?}");
    }
    // The length itself past the end.
    let seen: Vec<_> = Ipv4Options::new(&[1, 1, 1, 7]).skip(3).collect();
    assert_eq!(seen, [Err(WireError::OptionLength { at: 23 })]);
}

#[test]
fn record_route_fills_up() {
    let mut option = PointerOption::new_checked([7, 12, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    // 9 bytes of room: two addresses and a byte that no address fits in.
    assert_eq!((option.room(), option.offset()), (9, Some(3)));
    assert!(option.push(Ipv4Addr::new(1, 2, 3, 4)) && option.push(Ipv4Addr::new(5, 6, 7, 8)));
    assert_eq!(option.room(), 1);
    assert!(!option.push(Ipv4Addr::BROADCAST));
    assert_eq!(option.into_inner(), [7, 12, 12, 1, 2, 3, 4, 5, 6, 7, 8, 0]);
}

#[test]
fn pointers_before_the_entries_or_past_the_end_leave_no_room() {
    for (pointer, offset) in [(0, None), (3, None), (8, Some(7)), (255, Some(254))] {
        let mut option = PointerOption::new_checked([7, 7, pointer, 0, 0, 0, 0]).unwrap();
        assert_eq!((option.offset(), option.room()), (offset, 0), "{pointer}");
        assert!(!option.push(0u8) && option.entry::<u8>().is_none());
    }
    let timestamp = PointerOption::new_checked([68, 8, 4, 0, 0, 0, 0, 0]).unwrap();
    assert_eq!((timestamp.offset(), timestamp.entries_at()), (None, 4));
    assert_eq!(
        PointerOption::new_checked([68, 3, 5]),
        Err(WireError::Truncated)
    );
}

#[test]
fn timestamps_count_overflow_up_to_fifteen() {
    let mut option = PointerOption::new_checked([68, 4, 5, 0xe1]).unwrap();
    assert_eq!(
        (option.overflow(), option.flag()),
        (14, TimestampFlag::AddressAndTime)
    );
    assert!(option.count_overflow());
    assert!(!option.count_overflow());
    assert_eq!(option.into_inner(), [68, 4, 5, 0xf1]);
}

#[test]
fn the_final_destination_is_the_end_of_a_source_route_under_way() {
    let final_destination = |pointer| {
        let bytes = with_options(&[1, 131, 11, pointer, 1, 2, 3, 4, 5, 6, 7, 8]);
        Ipv4Packet::new_checked(bytes).unwrap().final_destination()
    };
    assert_eq!(final_destination(4), Ipv4Addr::new(5, 6, 7, 8));
    assert_eq!(final_destination(8), Ipv4Addr::new(5, 6, 7, 8));
    assert_eq!(final_destination(12), Ipv4Addr::new(10, 0, 0, 9));
    let plain = Ipv4Packet::new_checked(header().to_bytes()).unwrap();
    assert_eq!(plain.final_destination(), plain.destination());
}

/// An IPv6 packet with `payload`, its first header a `next`.
fn v6(next: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let header = Ipv6Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: payload.len() as u16,
        next_header: next,
        hop_limit: 64,
        source: Ipv6Addr::LOCALHOST,
        destination: Ipv6Addr::LOCALHOST,
    };
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend(payload);
    bytes
}

fn upper_layer(next: IpProtocol, payload: &[u8]) -> Result<UpperLayer, WireError> {
    let bytes = v6(next, payload);
    let packet = Ipv6Packet::new_checked(&bytes).unwrap();
    packet.extensions().upper_layer()
}

#[test]
fn extension_headers_lead_to_the_upper_layer() {
    let mut payload = vec![44, 1];
    payload.resize(16, 0); // hop-by-hop, 16 bytes
    payload.extend([51, 0, 0, 1, 0, 0, 0, 9]); // fragment, first
    payload.extend([6, 4]);
    payload.resize(24 + 24, 0); // authentication, 24 bytes
    payload.extend([0xaa; 20]);
    let upper = upper_layer(IpProtocol::HOP_BY_HOP, &payload).unwrap();
    let fragment = Fragment {
        offset: 0,
        more: true,
        ident: 9,
    };
    assert_eq!((upper.protocol, upper.at), (IpProtocol::TCP, 88));
    assert_eq!(upper.fragment, Some(fragment));
}

#[test]
fn the_walk_ends_where_headers_cannot_be_told() {
    // Data of a later fragment, which here looks like an extension header.
    let later = upper_layer(IpProtocol::FRAGMENT, &[60, 0, 0, 8, 0, 0, 0, 1, 6, 0, 0]).unwrap();
    assert_eq!((later.protocol.0, later.at), (60, 48));
    assert_eq!(later.fragment.unwrap().offset, 8);
    for end in [IpProtocol::ESP, IpProtocol::NO_NEXT_HEADER, IpProtocol::UDP] {
        let upper = upper_layer(end, &[60, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!((upper.protocol, upper.at), (end, 40));
    }
}

#[test]
fn impossible_extension_headers_are_errors() {
    let hop = IpProtocol::HOP_BY_HOP;
    assert_eq!(upper_layer(hop, &[6, 0, 0]), Err(WireError::Truncated));
    assert_eq!(
        upper_layer(hop, &[6, 1, 0, 0, 0, 0, 0, 0]),
        Err(WireError::OptionLength { at: 40 })
    );
    let chain = |count: usize| [60, 0, 0, 0, 0, 0, 0, 0].repeat(count);
    assert_eq!(
        upper_layer(hop, &chain(MAX_EXTENSIONS + 1)),
        Err(WireError::TooManyExtensions)
    );
    let mut longest = chain(MAX_EXTENSIONS);
    longest[MAX_EXTENSIONS * 8 - 8] = 17;
    assert_eq!(
        upper_layer(hop, &longest).unwrap().protocol,
        IpProtocol::UDP
    );
    // 16 headers of the greatest length, then one too many: the place still fits.
    let mut great = vec![60; MAX_EXTENSIONS * 2048];
    great
        .iter_mut()
        .skip(1)
        .step_by(2048)
        .for_each(|length| *length = 255);
    assert_eq!(
        upper_layer(hop, &great[..great.len() - 1]),
        Err(WireError::OptionLength { at: 40 + 15 * 2048 })
    );
}

#[test]
fn icmp_errors_are_told_from_questions() {
    assert!(Icmpv4Type::UNREACHABLE.is_error() && !Icmpv4Type::ECHO.is_error());
    assert!(Icmpv6Type::PACKET_TOO_BIG.is_error() && !Icmpv6Type::ECHO.is_error());
}

proptest! {
    #[test]
    fn ipv4_headers_round_trip(
        tos in any::<u8>(), payload in 0..40u16, ident in any::<u16>(), flags in any::<[bool; 2]>(),
        offset in 0..8192u16, ttl in any::<u8>(), protocol in any::<u8>(),
        source in any::<u32>(), destination in any::<u32>(), new in any::<u32>(),
    ) {
        let header = Ipv4Header {
            tos, total_len: 20 + payload, ident, dont_fragment: flags[0], more_fragments: flags[1],
            fragment_offset: offset * 8, ttl, protocol: IpProtocol(protocol),
            source: source.into(), destination: destination.into(),
        };
        let mut bytes = [0; 64];
        header.emit(&mut Ipv4Packet::new_unchecked(&mut bytes[..]));
        prop_assert_eq!(checksum(&bytes[..20]), 0);
        let mut packet = Ipv4Packet::new_checked(&mut bytes[..]).unwrap();
        prop_assert_eq!(Ipv4Header::parse(&packet), header);
        prop_assert_eq!(packet.is_fragment(), flags[1] || offset > 0);
        prop_assert_eq!(packet.is_first_fragment(), offset == 0);
        prop_assert_eq!(packet.dscp() << 2 | packet.ecn() as u8, tos);
        prop_assert_eq!(packet.payload().len(), usize::from(payload));
        prop_assert_eq!(packet.payload_mut().len(), usize::from(payload));

        packet.set_tos(tos);
        packet.set_ident(ident);
        packet.set_fragment(flags[0], flags[1], offset * 8);
        packet.set_ttl(ttl);
        packet.set_protocol(IpProtocol(protocol));
        packet.set_source(source.into());
        packet.set_destination(destination.into());
        packet.set_total_len(20 + payload);
        packet.set_header_len(20);
        packet.fill_checksum();
        prop_assert_eq!(packet.header(), &header.to_bytes());

        let before = packet.pseudo_header();
        let delta = packet.rewrite_source(new.into()) + packet.rewrite_destination((!new).into());
        prop_assert_eq!((packet.source(), packet.destination()), (new.into(), (!new).into()));
        prop_assert!(packet.verify_checksum());
        let whole = Sum::ZERO.add_u16(1);
        prop_assert_eq!(
            delta.apply((before + whole).checksum()),
            (packet.pseudo_header() + whole).checksum()
        );
    }

    #[test]
    fn ipv4_checksums_cover_options(options in prop::collection::vec(any::<u8>(), 40)) {
        let mut bytes = with_options(&options);
        let mut packet = Ipv4Packet::new_checked(&mut bytes[..]).unwrap();
        packet.fill_checksum();
        prop_assert!(packet.verify_checksum());
        prop_assert_eq!(checksum(&bytes[..60]), 0);
    }

    #[test]
    fn ipv6_headers_round_trip(
        traffic_class in any::<u8>(), flow_label in 0..1u32 << 20, payload_len in 0..40u16,
        next in any::<u8>(), hop_limit in any::<u8>(), a in any::<u128>(), b in any::<u128>(), new in any::<u128>(),
    ) {
        let header = Ipv6Header {
            traffic_class, flow_label, payload_len, next_header: IpProtocol(next), hop_limit,
            source: a.into(), destination: b.into(),
        };
        let mut bytes = [0; 90];
        header.emit(&mut Ipv6Packet::new_unchecked(&mut bytes[..]));
        let mut packet = Ipv6Packet::new_checked(&mut bytes[..]).unwrap();
        prop_assert_eq!(Ipv6Header::parse(&packet), header);
        prop_assert_eq!(packet.dscp() << 2 | packet.ecn() as u8, traffic_class);
        prop_assert_eq!(packet.payload().len(), usize::from(payload_len));
        prop_assert_eq!(packet.payload_mut().len(), usize::from(payload_len));
        packet.set_class_and_flow(traffic_class, flow_label);
        packet.set_payload_len(payload_len);
        packet.set_next_header(IpProtocol(next));
        packet.set_hop_limit(hop_limit);
        prop_assert_eq!(Ipv6Header::parse(&packet), header);

        prop_assert_eq!(packet.decrement_hop_limit(), hop_limit > 1);
        prop_assert_eq!(packet.hop_limit(), if hop_limit > 1 { hop_limit - 1 } else { hop_limit });
        let before = packet.pseudo_header(IpProtocol::TCP, 20);
        let delta = packet.rewrite_source(new.into()) + packet.rewrite_destination((!new).into());
        let after = packet.pseudo_header(IpProtocol::TCP, 20);
        prop_assert_eq!(delta.apply(before.checksum()), after.checksum());
    }

    #[test]
    fn icmp_headers_round_trip(icmp_type in any::<u8>(), code in any::<u8>(), rest in any::<[u8; 4]>(), new in any::<u16>(), odd in any::<bool>()) {
        let header = Icmpv4Header { icmp_type: icmp_type.into(), code, rest };
        let bytes = [1; 17];
        let length = if odd { 17 } else { 16 };
        let mut buffer = bytes;
        let mut packet = Icmpv4Packet::new_checked(&mut buffer[..length]).unwrap();
        header.emit(&mut packet);
        packet.fill_checksum();
        prop_assert_eq!(Icmpv4Header::parse(&packet), header);
        prop_assert!(packet.verify_checksum());
        packet.update_checksum(crate::checksum::Delta::of_u16(packet.sequence(), new));
        packet.set_sequence(new);
        prop_assert!(packet.verify_checksum());

        let header = Icmpv6Header { icmp_type: icmp_type.into(), code, rest };
        let mut buffer = bytes;
        let mut packet = Icmpv6Packet::new_checked(&mut buffer[..length]).unwrap();
        header.emit(&mut packet);
        let pseudo = Sum::ZERO.add_u16(new);
        packet.fill_checksum(pseudo);
        prop_assert_eq!(Icmpv6Header::parse(&packet), header);
        prop_assert!(packet.verify_checksum(pseudo));
        prop_assert_eq!(packet.mtu(), u32::from_be_bytes(rest));
    }
}
