use super::vlan_tag;
use crate::prelude::*;

/// Removes the VLAN tag (802.1Q) of Ethernet frames that have one.
///
/// The frame's start is marked as the packet's MAC header.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> VLANDecap -> CheckIPHeader(14) -> Discard;
/// ```
///
/// # See also
/// VLANEncap, StripEtherVLANHeader
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct VLANDecap {
    /// Whether to set the VLAN_TCI annotation to the tag's control information, or to 0 if there is
    /// no tag.
    #[arg(positional, name = "ANNO", default = true)]
    annotate: bool,
    /// The EtherType that announces the tag.
    #[arg(default = EtherType::VLAN.0, default_text = "0x8100")]
    ethertype: u16,
}

impl Element for VLANDecap {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let mut control = 0;
        if let Some(header) = packet.data_mut().first_chunk_mut::<18>()
            && self.ethertype.to_be_bytes() == [header[12], header[13]]
        {
            control = u16::from_be_bytes([header[14], header[15]]);
            header.copy_within(..12, 4);
            packet.pull(4);
        }
        packet.set_mac_header(0);
        if packet.len() >= 14 {
            // What follows is the network header; its length is not known.
            packet.set_network_header(14, 0);
        }
        if self.annotate {
            vlan_tag::set_annotation(packet, control);
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::ethernet::vlan_encap::tests::{annotated, rig, tagged, untagged};
    use crate::ethernet::vlan_tag::annotation;

    #[test]
    fn tags_are_removed_and_annotated() {
        let mut remove = rig("VLANDecap");
        remove.push("i", &tagged(0x8100, 0x6005));
        remove.push_with("i", &untagged(), annotated);
        remove.push_with("i", &tagged(0x8100, 9)[..17], annotated);
        let packets = remove.collected("c");
        assert_eq!(packets[0].data(), untagged());
        assert_eq!(packets[0].mac_offset(), Some(0));
        assert_eq!(packets[0].network_offset(), Some(14));
        assert_eq!(annotation(&packets[0]), 0x6005);
        assert_eq!(annotation(&packets[1]), 0);
        assert_eq!(packets[2].len(), 17);
        let mut silent = rig("VLANDecap(false)");
        silent.push("i", &tagged(0x8100, 7));
        assert_eq!(annotation(&silent.collected("c")[0]), 0);
    }

    #[test]
    fn another_ethertype_may_announce_the_tag() {
        let mut rig = rig("VLANDecap(ETHERTYPE 0x88a8)");
        rig.push("i", &tagged(0x88a8, 0x1234));
        rig.push("i", &tagged(0x8100, 0x1234));
        assert_eq!(rig.data("c"), [untagged(), tagged(0x8100, 0x1234)]);
    }
}
