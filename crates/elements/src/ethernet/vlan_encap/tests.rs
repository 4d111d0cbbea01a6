use alloc::format;
use alloc::vec::Vec;

use packet::Packet;

use super::vlan_tag;
use crate::testing::{Rig, ether};

const PAYLOAD: [u8; 3] = [7, 8, 9];

fn tagged(ethertype: u16, control: u16) -> Vec<u8> {
    let tag = [control.to_be_bytes(), 0x0800u16.to_be_bytes()].concat();
    ether([2; 6], [1; 6], ethertype, &[&tag[..], &PAYLOAD].concat())
}

fn untagged() -> Vec<u8> {
    ether([2; 6], [1; 6], 0x0800, &PAYLOAD)
}

fn rig(element: &str) -> Rig {
    Rig::new(&format!("i :: Inject -> e :: {element} -> c :: Collect;"))
}

fn annotated(packet: &mut Packet) {
    vlan_tag::set_annotation(packet, 0x6005);
}

const HEADER: &str = "EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2";

#[test]
fn tags_are_fixed_or_each_packets_own() {
    for (arguments, expected) in [
        ("5", tagged(0x8100, 5)),
        ("5, 3", tagged(0x8100, 0x6005)),
        ("VLAN_ID 5, VLAN_PCP 3", tagged(0x8100, 0x6005)),
        ("0xe123", tagged(0x8100, 0xe123)),
        ("ANNO", tagged(0x8100, 0x6005)),
        ("ANNO, NATIVE_VLAN 5", untagged()),
        ("5, NATIVE_VLAN 5", untagged()),
        ("0", untagged()),
        ("0, NATIVE_VLAN -1", tagged(0x8100, 0)),
    ] {
        let mut encap = rig(&format!("{HEADER}, {arguments})"));
        encap.push_with("i", &PAYLOAD, annotated);
        let packets = encap.collected("c");
        assert_eq!(packets[0].data(), expected, "EtherVLANEncap {arguments}");
        assert_eq!(packets[0].mac_offset(), Some(0));
        let mut insert = rig(&format!("VLANEncap({arguments})"));
        insert.push_with("i", &untagged(), annotated);
        let packets = insert.collected("c");
        assert_eq!(packets[0].data(), expected, "VLANEncap {arguments}");
        assert_eq!(packets[0].mac_offset(), Some(0));
    }
}

#[test]
fn other_ethertypes_may_announce_the_tag() {
    let mut insert = rig("VLANEncap(0x1234, ETHERTYPE 0x88a8)");
    insert.push("i", &untagged());
    assert_eq!(insert.data("c"), [tagged(0x88a8, 0x1234)]);
    let mut remove = rig("VLANDecap(ETHERTYPE 0x88a8)");
    remove.push("i", &tagged(0x88a8, 0x1234));
    remove.push("i", &tagged(0x8100, 0x1234));
    assert_eq!(remove.data("c"), [untagged(), tagged(0x8100, 0x1234)]);
}

#[test]
fn tags_go_and_leave_their_annotation() {
    let mut remove = rig("VLANDecap");
    remove.push("i", &tagged(0x8100, 0x6005));
    remove.push_with("i", &untagged(), annotated);
    remove.push_with("i", &tagged(0x8100, 9)[..17], annotated);
    let packets = remove.collected("c");
    assert_eq!(packets[0].data(), untagged());
    assert_eq!(packets[0].mac_offset(), Some(0));
    assert_eq!(vlan_tag::annotation(&packets[0]), 0x6005);
    assert_eq!(vlan_tag::annotation(&packets[1]), 0);
    assert_eq!(packets[2].len(), 17);
    let mut silent = rig("VLANDecap(false)");
    silent.push("i", &tagged(0x8100, 7));
    assert_eq!(vlan_tag::annotation(&silent.collected("c")[0]), 0);
}

#[test]
fn short_packets_pass_unchanged() {
    let mut insert = rig("VLANEncap(7)");
    insert.push("i", &[1; 13]);
    assert_eq!(insert.data("c"), [[1; 13]]);
}

#[test]
fn handlers_change_the_tag_and_the_configuration() {
    let mut encap = rig(&format!("{HEADER}, 5, 3)"));
    assert_eq!(encap.read("e.vlan_tci"), "24581");
    assert_eq!((encap.read("e.vlan_id"), encap.read("e.vlan_pcp")), ("5".into(), "3".into()));
    encap.write("e.vlan_id", "6");
    encap.write("e.src", "9:9:9:9:9:9");
    encap.write("e.ethertype", "0x86dd");
    let source = "09-09-09-09-09-09, 02-02-02-02-02-02";
    assert_eq!(encap.read("e.config"), format!("0x86dd, {source}, VLAN_ID 6, VLAN_PCP 3"));
    encap.push("i", &[]);
    let mut frame = tagged(0x8100, 0x6006)[..18].to_vec();
    frame[6..12].fill(9);
    frame[16..].copy_from_slice(&[0x86, 0xdd]);
    assert_eq!(encap.data("c"), [frame]);
    encap.write("e.vlan_tci", "ANNO");
    encap.write("e.native_vlan", "-1");
    assert_eq!(encap.read("e.vlan_id"), "");
    assert_eq!(encap.read("e.config"), format!("0x86dd, {source}, ANNO, NATIVE_VLAN -1"));
    let config = encap.read("e.config");
    encap.write("e.config", &config);
    assert_eq!(encap.read("e.config"), config);

    let mut insert = rig("VLANEncap(5)");
    insert.write("e.vlan_pcp", "1");
    insert.write("e.ethertype", "0x88a8");
    assert_eq!(insert.read("e.config"), "VLAN_ID 5, VLAN_PCP 1, ETHERTYPE 0x88a8");
    let error = insert.try_write("e.vlan_id", "4096").unwrap_err();
    assert_eq!(error, "VLAN_ID: out of range, bound 4095".into());
}

#[test]
fn what_fits_no_tag_is_refused() {
    for (arguments, error) in [
        ("65536", "VLAN_TCI: out of range, bound 65535"),
        ("zork", "VLAN_TCI: invalid number"),
        ("1, 8", "VLAN_PCP: out of range, bound 7"),
        ("VLAN_ID 4096", "VLAN_ID: out of range, bound 4095"),
        ("NATIVE_VLAN -2", "NATIVE_VLAN: out of range, bound -1"),
    ] {
        let errors = Rig::errors(&format!("Inject -> VLANEncap({arguments}) -> Collect;"));
        assert!(errors.contains(error), "{errors}");
    }
}
