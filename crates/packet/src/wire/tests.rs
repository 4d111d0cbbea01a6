//! What holds for all views: any bytes are read without a panic and within bounds, and what is
//! written is read back. Each protocol's own behaviour is in a file of its own.

mod ip;
mod link;
mod transport;

use super::*;
use core::fmt::Write;
use proptest::prelude::*;
use std::string::String;
use std::vec::Vec;

/// Bytes of which the length fields are likely to make sense.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let starts = prop_oneof![
        Just(Vec::new()),
        Just([0x45, 0].to_vec()),
        (0x40..0x50u8, 0..2u8).prop_map(|(version, _)| [version, 0, 0].to_vec()),
        (any::<u8>(), 0..64u8).prop_map(|(tos, length)| [0x46, tos, 0, length].to_vec()),
        (prop::sample::select(&[0u8, 43, 44, 51, 60, 6][..]), 0..90u8)
            .prop_map(|(next, length)| [0x60, 0, 0, 0, 0, length, next].to_vec()),
        (0..90u8).prop_map(|length| [0, 1, 0, 2, 0, length].to_vec()),
        Just([0, 1, 8, 0, 6, 4].to_vec()),
    ];
    let small = prop_oneof![3 => 0..9u8, 1 => any::<u8>()];
    let rest = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..120),
        prop::collection::vec(small, 0..120),
    ];
    (starts, rest).prop_map(|(mut start, rest)| {
        start.extend(rest);
        start
    })
}

/// Calls every reader of every view over `bytes`, checked or not; what they give does not matter,
/// but Debug makes sure that it is looked at.
fn read_everything(bytes: &[u8]) -> String {
    let mut out = String::new();
    macro_rules! read {
        ($view:ident, $($reader:ident),*) => {
            let view = $view::new_unchecked(bytes);
            $(write!(out, "{:?}", view.$reader()).unwrap();)*
            if let Ok(view) = $view::new_checked(bytes) {
                $(write!(out, "{:?}", view.$reader()).unwrap();)*
            }
        };
    }
    read!(
        EthernetFrame,
        destination,
        source,
        ethertype,
        payload,
        header
    );
    read!(VlanPacket, control, tag, ethertype, payload);
    read!(
        ArpPacket,
        operation,
        sender_hardware,
        sender,
        target_hardware,
        target
    );
    read!(
        Ipv4Packet,
        version,
        header_len,
        tos,
        dscp,
        ecn,
        total_len,
        ident,
        dont_fragment,
        more_fragments,
        fragment_offset,
        is_fragment,
        is_first_fragment,
        ttl,
        protocol,
        checksum,
        source,
        destination,
        final_destination,
        option_bytes,
        payload,
        verify_checksum,
        pseudo_header
    );
    read!(
        Ipv6Packet,
        version,
        traffic_class,
        dscp,
        ecn,
        flow_label,
        payload_len,
        next_header,
        hop_limit,
        source,
        destination,
        payload
    );
    read!(
        Icmpv4Packet,
        icmp_type,
        code,
        checksum,
        rest,
        ident,
        sequence,
        gateway,
        pointer,
        next_hop_mtu,
        payload,
        verify_checksum
    );
    read!(
        Icmpv6Packet,
        icmp_type,
        code,
        checksum,
        rest,
        ident,
        sequence,
        mtu,
        pointer,
        payload
    );
    read!(UdpPacket, source, destination, length, checksum, payload);
    read!(
        TcpPacket,
        source,
        destination,
        sequence,
        acknowledgment,
        header_len,
        flags,
        window,
        checksum,
        urgent,
        option_bytes,
        payload
    );
    for option in Ipv4Packet::new_unchecked(bytes).options() {
        write!(out, "{option:?}").unwrap();
    }
    for option in Ipv4Options::new(bytes).flatten() {
        write!(out, "{:?}", option.data()).unwrap();
        if let Ok(option) = PointerOption::new_checked(option.bytes) {
            let entry: Option<core::net::Ipv4Addr> = option.entry();
            write!(out, "{:?}", (entry, option.room(), option.flag())).unwrap();
        }
    }
    for option in TcpOptions::new(bytes) {
        write!(out, "{option:?}").unwrap();
    }
    for extension in Ipv6Packet::new_unchecked(bytes).extensions() {
        write!(out, "{extension:?}").unwrap();
    }
    let upper = Extensions::new(IpProtocol::HOP_BY_HOP, bytes).upper_layer();
    write!(out, "{upper:?}{:?}{:?}", skip_tags(bytes), ports(bytes)).unwrap();
    out
}

/// Calls every writer of every view over `bytes`, which may hold anything.
fn write_everything(bytes: &mut [u8]) {
    let bits = bytes
        .last_chunk::<4>()
        .map_or(0, |last| u32::from_be_bytes(*last));
    let word = bits as u16;
    let delta = crate::checksum::Delta::of_u16(word, !word);
    let pseudo = crate::checksum::Sum::ZERO;
    macro_rules! touch {
        ($slice:expr) => {
            $slice.iter_mut().for_each(|byte| *byte ^= 1)
        };
    }

    let mut frame = EthernetFrame::new_unchecked(&mut *bytes);
    frame.swap_addresses();
    frame.set_ethertype(EtherType(word));
    touch!(frame.payload_mut());
    let mut vlan = VlanPacket::new_unchecked(&mut *bytes);
    vlan.set_tag(VlanTag::from_control(word));
    touch!(vlan.payload_mut());

    let mut v4 = Ipv4Packet::new_unchecked(&mut *bytes);
    let _ = v4.decrement_ttl();
    v4.rewrite_source(bits.into());
    v4.rewrite_destination(bits.into());
    v4.set_header_len(bits as usize);
    v4.set_total_len(word);
    v4.set_fragment(true, false, word);
    touch!(v4.option_bytes_mut());
    touch!(v4.payload_mut());
    v4.fill_checksum();

    let mut v6 = Ipv6Packet::new_unchecked(&mut *bytes);
    let _ = v6.decrement_hop_limit();
    v6.set_class_and_flow(word as u8, bits);
    v6.rewrite_source(u128::from(bits).into());
    v6.set_payload_len(word);
    touch!(v6.payload_mut());

    let mut icmp = Icmpv4Packet::new_unchecked(&mut *bytes);
    icmp.set_sequence(word);
    touch!(icmp.payload_mut());
    icmp.fill_checksum();
    icmp.update_checksum(delta);
    let mut icmp = Icmpv6Packet::new_unchecked(&mut *bytes);
    icmp.set_rest(bits.to_be_bytes());
    touch!(icmp.payload_mut());
    icmp.fill_checksum(pseudo);

    let mut udp = UdpPacket::new_unchecked(&mut *bytes);
    udp.set_length(word);
    touch!(udp.payload_mut());
    udp.fill_checksum(pseudo);
    udp.update_checksum(delta);
    let mut tcp = TcpPacket::new_unchecked(&mut *bytes);
    tcp.set_header_len_and_flags(bits as usize, TcpFlags::from_bits(word));
    touch!(tcp.option_bytes_mut());
    touch!(tcp.payload_mut());
    tcp.fill_checksum(pseudo);
    tcp.update_checksum(delta);

    if let Ok(mut option) = PointerOption::new_checked(&mut *bytes) {
        let _ = option.push(bits) && option.count_overflow();
        option.skip(bits as u8 as usize);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in any_bytes()) {
        prop_assert!(!read_everything(&bytes).is_empty());
    }

    #[test]
    fn any_bytes_are_written_without_a_panic(mut bytes in any_bytes()) {
        write_everything(&mut bytes);
    }
}

#[test]
fn views_shorter_than_their_header_read_zeros_and_write_nothing() {
    let mut bytes = [0xff; 19];
    let mut packet = Ipv4Packet::new_unchecked(&mut bytes[..]);
    assert_eq!(
        (packet.ttl(), packet.header_len(), packet.ident()),
        (0, 0, 0)
    );
    assert!(!packet.decrement_ttl());
    packet.set_ttl(3);
    packet.set_destination(1.into());
    assert_eq!(bytes, [0xff; 19]);
}

#[test]
fn arrays_and_slices_and_vectors_can_be_viewed() {
    let frame = [7; 14];
    assert!(EthernetFrame::new_checked(frame).is_ok());
    assert!(EthernetFrame::new_checked(&frame).is_ok());
    assert!(EthernetFrame::new_checked(&frame[..]).is_ok());
    assert!(EthernetFrame::new_checked(frame.to_vec()).is_ok());
    assert_eq!(
        EthernetFrame::new_checked(&frame[..13]),
        Err(WireError::Truncated)
    );
}
