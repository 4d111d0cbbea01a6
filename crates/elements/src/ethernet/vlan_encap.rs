use super::vlan_tag::Tagging;
use crate::prelude::*;

/// Inserts a VLAN tag (802.1Q) into Ethernet frames.
///
/// The frame's start is marked as the packet's MAC header. Frames of the native VLAN get no tag.
/// Packets too short for an Ethernet header pass unchanged.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1, STOP true)
///     -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2)
///     -> VLANEncap(VLAN_ID 7)
///     -> Print(tagged) -> VLANDecap -> Discard;
/// ```
///
/// # See also
/// VLANDecap, EtherVLANEncap, SetVLANAnno
#[derive(Element)]
#[element(ports = "1/1", segments, live, handlers)]
pub struct VLANEncap {
    #[flatten(then = changed)]
    tagging: Tagging,
    /// The EtherType that announces the tag: 0x88a8 for the service tag of 802.1ad, 0x9100 for its
    /// predecessor.
    #[arg(default = EtherType::VLAN.0, default_text = "0x8100", read, write, then = changed)]
    ethertype: u16,
}

impl VLANEncap {
    fn changed(&mut self, cx: &mut Cx<'_>) {
        cx.set_config(self.config());
    }
}

#[handlers]
impl VLANEncap {
    /// The arguments.
    #[read(calm)]
    fn config(&self) -> String {
        let mut text = self.tagging.config();
        let ethertype = EtherType(self.ethertype);
        if ethertype != EtherType::VLAN {
            text += &format!(", ETHERTYPE {ethertype}");
        }
        text
    }
}

impl Element for VLANEncap {
    fn configured(&mut self, _cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.tagging.tag.configured();
        Ok(())
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if packet.len() < 14 {
            return Verdict::Forward;
        }
        let (control, native) = self.tagging.of(packet);
        if !native {
            if !packet.push(4) {
                return Verdict::Drop;
            }
            if let Some(header) = packet.data_mut().first_chunk_mut::<16>() {
                header.copy_within(4.., 0);
                [header[12], header[13]] = self.ethertype.to_be_bytes();
                [header[14], header[15]] = control.to_be_bytes();
            }
        }
        packet.set_mac_header(0);
        Verdict::Forward
    }
}

#[cfg(test)]
pub(super) mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use packet::Packet;

    use crate::ethernet::vlan_tag;
    use crate::testing::{Rig, ether};

    pub const PAYLOAD: [u8; 3] = [7, 8, 9];

    pub fn tagged(ethertype: u16, control: u16) -> Vec<u8> {
        let tag = [control.to_be_bytes(), 0x0800u16.to_be_bytes()].concat();
        ether([2; 6], [1; 6], ethertype, &[&tag[..], &PAYLOAD].concat())
    }

    pub fn untagged() -> Vec<u8> {
        ether([2; 6], [1; 6], 0x0800, &PAYLOAD)
    }

    pub fn rig(element: &str) -> Rig {
        Rig::new(&format!("i :: Inject -> e :: {element} -> c :: Collect;"))
    }

    pub fn annotated(packet: &mut Packet) {
        vlan_tag::set_annotation(packet, 0x6005);
    }

    /// Arguments, and the control information that an [annotated] packet gets with them.
    pub const CASES: [(&str, Option<u16>); 9] = [
        ("5", Some(5)),
        ("5, 3", Some(0x6005)),
        ("VLAN_ID 5, VLAN_PCP 3", Some(0x6005)),
        ("0xe123", Some(0xe123)),
        ("ANNO", Some(0x6005)),
        ("ANNO, NATIVE_VLAN 5", None),
        ("5, NATIVE_VLAN 5", None),
        ("0", None),
        ("0, NATIVE_VLAN -1", Some(0)),
    ];

    #[test]
    fn tags_are_fixed_or_each_packets_own() {
        for (arguments, control) in CASES {
            let mut rig = rig(&format!("VLANEncap({arguments})"));
            rig.push_with("i", &untagged(), annotated);
            let packets = rig.collected("c");
            let expected = control.map_or(untagged(), |control| tagged(0x8100, control));
            assert_eq!(packets[0].data(), expected, "{arguments}");
            assert_eq!(packets[0].mac_offset(), Some(0));
        }
    }

    #[test]
    fn another_ethertype_may_announce_the_tag() {
        let mut rig = rig("VLANEncap(0x1234, ETHERTYPE 0x88a8)");
        rig.push("i", &untagged());
        assert_eq!(rig.data("c"), [tagged(0x88a8, 0x1234)]);
    }

    #[test]
    fn short_packets_pass_unchanged() {
        let mut rig = rig("VLANEncap(7)");
        rig.push("i", &[1; 13]);
        assert_eq!(rig.data("c"), [[1; 13]]);
    }

    #[test]
    fn handlers_change_the_tag_and_the_configuration() {
        let mut rig = rig("VLANEncap(5)");
        rig.write("e.vlan_pcp", "1");
        rig.write("e.ethertype", "0x88a8");
        assert_eq!(
            rig.read("e.config"),
            "VLAN_ID 5, VLAN_PCP 1, ETHERTYPE 0x88a8"
        );
        let error = rig.try_write("e.vlan_id", "4096").unwrap_err();
        assert_eq!(
            error,
            router::HandlerError::failed(
                router::FailureKind::Failed,
                "VLAN_ID: out of range, bound 4095"
            )
        );
    }

    #[test]
    fn wrong_tags_are_refused() {
        for (arguments, error) in [
            ("65536", "VLAN_TCI: out of range, bound 65535"),
            ("zork", "VLAN_TCI: invalid number"),
            ("1, 8", "VLAN_PCP: out of range, bound 7"),
            ("VLAN_ID 4096", "VLAN_ID: out of range, bound 4095"),
            ("NATIVE_VLAN -2", "NATIVE_VLAN: out of range, bound -1"),
        ] {
            Rig::refuses(
                &format!("Inject -> VLANEncap({arguments}) -> Collect;"),
                error,
            );
        }
    }
}
