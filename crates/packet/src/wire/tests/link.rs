use crate::wire::*;
use proptest::prelude::*;
use std::string::ToString;
use std::{format, vec::Vec};

fn address() -> impl Strategy<Value = EtherAddress> {
    any::<[u8; 6]>().prop_map(EtherAddress)
}

#[test]
fn ethernet_addresses_print_as_click_prints_them() {
    let address = EtherAddress([0x00, 0x50, 0xba, 0x85, 0x84, 0xa9]);
    assert_eq!(address.to_string(), "00-50-BA-85-84-A9");
    assert_eq!(format!("{address:#}"), "00:50:ba:85:84:a9");
}

#[test]
fn ethernet_addresses_parse_with_colons_or_dashes() {
    let address = Ok(EtherAddress([0x00, 0x50, 0xba, 0x05, 0x84, 0xa9]));
    for text in [
        "00-50-BA-05-84-A9",
        "00:50:ba:05:84:a9",
        "0:50:bA:5:84:a9",
        "0-50-ba-5-84-a9",
    ] {
        assert_eq!(text.parse(), address, "{text}");
    }
    for text in [
        "",
        ":::::",
        "00:50:ba:05:84",
        "00:50:ba:05:84:",
        "00:50:ba:05:84:a9:",
        "00:50:ba:05:84:a9:01",
        "00:50:ba:05:84-a9",
        "00:50:ba:05:84:0a9",
        "00:50:ba:05:84:ag",
        "00:50:ba:05:84:+9",
        "00:50:ba:05:84:a9 ",
        "0050ba0584a9",
        "00:50:ba:05:84:\u{e9}",
    ] {
        assert_eq!(
            text.parse::<EtherAddress>(),
            Err(ParseEtherAddressError),
            "{text}"
        );
    }
}

#[test]
fn ethernet_addresses_know_what_they_are() {
    let [unicast, group, local]: [EtherAddress; 3] = [
        "00-50-BA-85-84-A9",
        "01-00-5E-00-00-01",
        "02-00-00-00-00-01",
    ]
    .map(|text| text.parse().unwrap());
    assert!(!unicast.is_group() && !unicast.is_local() && !unicast.is_zero());
    assert!(group.is_group() && !group.is_broadcast());
    assert!(local.is_local() && !local.is_group());
    assert!(EtherAddress::BROADCAST.is_broadcast() && EtherAddress::BROADCAST.is_group());
    assert!(EtherAddress::ZERO.is_zero());
}

#[test]
fn an_arp_reply_answers_its_request() {
    let bytes = [
        0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
    ];
    let request = ArpMessage::parse(&ArpPacket::new_checked(bytes).unwrap());
    let asker = EtherAddress([2, 0, 0, 0, 0, 1]);
    let (ip1, ip2) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    assert_eq!(request, ArpMessage::request(asker, ip1, ip2));
    let asked = EtherAddress([2, 0, 0, 0, 0, 2]);
    assert_eq!(
        request.reply(asked).to_bytes(),
        [
            0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1,
        ]
    );
    for at in 0..6 {
        let mut other = bytes;
        other[at] ^= 0x10;
        assert_eq!(
            ArpPacket::new_checked(other).err(),
            Some(WireError::AddressFormat)
        );
    }
}

#[test]
fn tags_are_skipped_up_to_the_limit() {
    let mut frame = Vec::from([0; 12]);
    for _ in 0..MAX_TAGS {
        frame.extend([0x81, 0x00, 0xe0, 0x05]);
    }
    let inside = frame.len() + 2;
    frame.extend([0x08, 0x00]);
    assert_eq!(skip_tags(&frame), Ok((EtherType::IPV4, inside)));
    frame[12..14].copy_from_slice(&[0x88, 0xa8]);
    assert_eq!(skip_tags(&frame), Ok((EtherType::IPV4, inside)));
    frame[inside - 2..].copy_from_slice(&[0x81, 0x00]);
    assert_eq!(skip_tags(&frame), Ok((EtherType::VLAN, inside)));
    assert_eq!(skip_tags(&frame[..inside - 1]), Err(WireError::Truncated));
}

proptest! {
    #[test]
    fn ethernet_addresses_survive_text_and_bits(address in address()) {
        prop_assert_eq!(address.to_string().parse(), Ok(address));
        prop_assert_eq!(format!("{address:#}").parse(), Ok(address));
        prop_assert_eq!(EtherAddress::from_bits(address.to_bits()), address);
    }

    #[test]
    fn no_text_makes_an_address_parser_panic(text in any::<std::string::String>(), hex in "[0-9a-fA-F:-]{0,20}") {
        let _ = text.parse::<EtherAddress>();
        if let Ok(address) = hex.parse::<EtherAddress>() {
            prop_assert_eq!(address.to_string().parse(), Ok(address));
        }
    }

    #[test]
    fn ethernet_headers_round_trip(destination in address(), source in address(), number in any::<u16>(), payload in any::<[u8; 9]>()) {
        let header = EthernetHeader { destination, source, ethertype: EtherType(number) };
        let mut bytes = [0; 23];
        bytes[14..].copy_from_slice(&payload);
        let mut frame = EthernetFrame::new_checked(&mut bytes[..]).unwrap();
        header.emit(&mut frame);
        prop_assert_eq!(EthernetHeader::parse(&frame), header);
        prop_assert_eq!(frame.payload(), payload);
        frame.swap_addresses();
        prop_assert_eq!((frame.destination(), frame.source()), (source, destination));
        frame.set_destination(destination);
        frame.set_source(source);
        frame.set_ethertype(EtherType(number));
        prop_assert_eq!(frame.header(), &header.to_bytes());
    }

    #[test]
    fn vlan_tags_round_trip(priority in 0..8u8, drop_eligible in any::<bool>(), id in 0..4096u16, number in any::<u16>()) {
        let tag = VlanTag { priority, drop_eligible, id };
        let mut packet = VlanPacket::new_checked([0; 4]).unwrap();
        packet.set_tag(tag);
        packet.set_ethertype(EtherType(number));
        prop_assert_eq!(packet.tag(), tag);
        prop_assert_eq!(packet.ethertype(), EtherType(number));
        prop_assert_eq!(VlanTag::from_control(packet.control()), tag);
    }

    #[test]
    fn arp_messages_round_trip(operation in any::<u16>(), a in address(), b in any::<u32>(), c in address(), d in any::<u32>()) {
        let message = ArpMessage {
            operation: ArpOperation(operation),
            sender_hardware: a,
            sender: b.into(),
            target_hardware: c,
            target: d.into(),
        };
        let mut packet = ArpPacket::new_unchecked([0; 28]);
        message.emit(&mut packet);
        let packet = ArpPacket::new_checked(packet.into_inner()).unwrap();
        prop_assert_eq!(ArpMessage::parse(&packet), message);
    }
}
