use crate::checksum::{Delta, Sum, pseudo_header_v4};
use crate::wire::*;
use core::net::Ipv4Addr;
use proptest::prelude::*;
use std::vec::Vec;

#[test]
fn udp_says_what_is_wrong_with_a_header() {
    let check = |length: u8| UdpPacket::new_checked([0, 1, 0, 2, 0, length, 0, 0, 9, 9]).err();
    assert_eq!(check(7), Some(WireError::Length));
    assert_eq!(check(8), None);
    assert_eq!(check(10), None);
    assert_eq!(check(11), Some(WireError::Length));
    assert_eq!(
        UdpPacket::new_checked([0; 7]).err(),
        Some(WireError::Truncated)
    );
    let padded = UdpPacket::new_checked([0, 1, 0, 2, 0, 9, 0, 0, 9, 7]).unwrap();
    assert_eq!(padded.payload(), [9]);
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_all_ones() {
    // Length 8 and a source port of 0xfff7 sum up to 0xffff.
    let header = UdpHeader {
        source: 0xfff7,
        destination: 0,
        length: 8,
    };
    let mut packet = UdpPacket::new_checked(header.to_bytes()).unwrap();
    packet.fill_checksum(Sum::ZERO);
    assert_eq!(packet.checksum(), 0xffff);
    assert!(packet.verify_checksum(Sum::ZERO));
    // And an update that comes to zero.
    packet.set_source(0xfff6);
    packet.update_checksum(Delta::of_u16(0xfff7, 0xfff6));
    assert!(packet.verify_checksum(Sum::ZERO));
    packet.set_source(0xfff7);
    packet.update_checksum(Delta::of_u16(0xfff6, 0xfff7));
    assert_eq!(packet.checksum(), 0xffff);
}

#[test]
fn no_udp_checksum_stays_none() {
    let mut packet = UdpPacket::new_checked([0, 1, 0, 2, 0, 8, 0, 0]).unwrap();
    packet.update_checksum(Delta::of_u16(1, 2));
    assert_eq!(packet.checksum(), 0);
    assert!(packet.verify_checksum(Sum::ZERO.add_u16(77)));
}

#[test]
fn tcp_says_what_is_wrong_with_a_header() {
    let check = |words: u8| {
        let mut bytes = [0; 24];
        bytes[12] = words << 4;
        TcpPacket::new_checked(bytes).err()
    };
    assert_eq!(check(4), Some(WireError::HeaderLength));
    assert_eq!(check(5), None);
    assert_eq!(check(6), None);
    assert_eq!(check(7), Some(WireError::HeaderLength));
    assert_eq!(
        TcpPacket::new_checked([0x50; 19]).err(),
        Some(WireError::Truncated)
    );
}

#[test]
fn tcp_options_of_a_linux_syn_are_read() {
    let options = [
        2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7,
    ];
    let seen: Vec<_> = TcpOptions::new(&options).map(Result::unwrap).collect();
    assert_eq!(
        seen,
        [
            TcpOption::MaximumSegmentSize(1460),
            TcpOption::SackPermitted,
            TcpOption::Timestamps { value: 1, echo: 2 },
            TcpOption::NoOperation,
            TcpOption::WindowScale(7),
        ]
    );
}

#[test]
fn odd_tcp_options_are_passed_on_and_impossible_ones_are_errors() {
    let mut options = TcpOptions::new(&[30, 4, 1, 2, 2, 3, 9, 5, 2, 0, 99]);
    let other = |kind, data| Some(Ok(TcpOption::Other { kind, data }));
    assert_eq!(options.next(), other(30, &[1, 2]));
    assert_eq!(options.at(), 24);
    assert_eq!(options.next(), other(2, &[9]));
    assert_eq!(options.next(), Some(Ok(TcpOption::Sack(&[]))));
    assert_eq!((options.next(), options.next()), (None, None));
    for bad in [&[1, 2][..], &[1, 2, 0], &[1, 2, 1], &[1, 2, 5, 0, 0]] {
        let seen: Vec<_> = TcpOptions::new(bad).skip(1).collect();
        assert_eq!(seen, [Err(WireError::OptionLength { at: 21 })], "{bad:?}");
    }
}

#[test]
fn sequence_numbers_wrap() {
    let (old, new) = (TcpSequence(0xffff_fff0), TcpSequence(0x10));
    assert!(old.is_before(new) && !new.is_before(old) && !new.is_before(new));
    assert_eq!(new - old, 0x20);
    assert_eq!(old + 0x20, new);
}

#[test]
fn ports_are_the_first_four_bytes() {
    assert_eq!(ports(&[0, 80, 1, 0, 9]), Some((80, 256)));
    assert_eq!(ports(&[0, 80, 1]), None);
    assert!(IpProtocol::SCTP.has_ports() && !IpProtocol::ICMP.has_ports());
}

proptest! {
    #[test]
    fn udp_headers_round_trip_and_checksums_hold(
        source in any::<u16>(), destination in any::<u16>(), payload in prop::collection::vec(any::<u8>(), 0..50),
        a in any::<u32>(), b in any::<u32>(), new in any::<u16>(),
    ) {
        let length = 8 + payload.len() as u16;
        let header = UdpHeader { source, destination, length };
        let mut bytes = [0x5a; 64]; // goes on behind the datagram
        bytes[8..8 + payload.len()].copy_from_slice(&payload);
        header.emit(&mut UdpPacket::new_unchecked(&mut bytes[..]));
        let mut packet = UdpPacket::new_checked(&mut bytes[..]).unwrap();
        prop_assert_eq!(UdpHeader::parse(&packet), header);
        prop_assert_eq!(packet.payload(), &payload[..]);
        prop_assert_eq!(packet.payload_mut(), &payload[..]);
        let pseudo = pseudo_header_v4(a.into(), b.into(), 17, length);
        packet.fill_checksum(pseudo);
        prop_assert!(packet.checksum() != 0 && packet.verify_checksum(pseudo));
        packet.set_destination(new);
        packet.update_checksum(Delta::of_u16(destination, new));
        prop_assert!(packet.checksum() != 0 && packet.verify_checksum(pseudo));
    }

    #[test]
    fn tcp_headers_round_trip_and_checksums_hold(
        ports in any::<[u16; 2]>(), numbers in any::<[u32; 2]>(), flags in 0..512u16,
        window in any::<u16>(), urgent in any::<u16>(), payload in prop::collection::vec(any::<u8>(), 0..50),
    ) {
        let header = TcpHeader {
            source: ports[0], destination: ports[1], sequence: TcpSequence(numbers[0]),
            acknowledgment: TcpSequence(numbers[1]), flags: TcpFlags::from_bits(flags), window, urgent,
        };
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend(&payload);
        let mut packet = TcpPacket::new_checked(&mut bytes[..]).unwrap();
        prop_assert_eq!(TcpHeader::parse(&packet), header);
        prop_assert_eq!(packet.payload(), &payload[..]);
        prop_assert_eq!(packet.flags().contains(TcpFlags::SYN | TcpFlags::ACK), flags & 0x12 == 0x12);
        prop_assert_eq!(packet.flags().intersects(TcpFlags::SYN | TcpFlags::ACK), flags & 0x12 != 0);
        packet.set_source(ports[0]);
        packet.set_sequence(TcpSequence(numbers[0]));
        packet.set_acknowledgment(TcpSequence(numbers[1]));
        packet.set_header_len_and_flags(20, TcpFlags::from_bits(flags));
        packet.set_window(window);
        packet.set_urgent(urgent);
        prop_assert_eq!(TcpHeader::parse(&packet), header);

        let pseudo = pseudo_header_v4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), 6, 20);
        packet.fill_checksum(pseudo);
        prop_assert!(packet.verify_checksum(pseudo));
        packet.set_destination(ports[0]);
        packet.update_checksum(Delta::of_u16(ports[1], ports[0]));
        prop_assert!(packet.verify_checksum(pseudo));
    }
}
