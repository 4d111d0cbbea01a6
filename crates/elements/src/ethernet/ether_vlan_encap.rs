use super::vlan_tag::Tagging;
use crate::prelude::*;

/// Puts an Ethernet header with a VLAN tag (802.1Q) in front of packets.
///
/// The header is marked as the packet's MAC header. Packets of the native VLAN get an Ethernet
/// header without a tag.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1, STOP true)
///     -> EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, VLAN_ID 7, VLAN_PCP 3)
///     -> Print(tagged) -> Discard;
/// ```
///
/// # See also
/// VLANEncap, StripEtherVLANHeader, SetVLANAnno, EtherEncap, EnsureEther
#[derive(Element)]
#[element(ports = "1/1", segments, live, handlers, alias("EtherVlanEncap"))]
pub struct EtherVLANEncap {
    /// The type of the payload, such as 0x0800 for IPv4.
    #[arg(mandatory, read, write, then = changed)]
    ethertype: u16,
    /// The source address.
    #[arg(mandatory, name = "SRC", read, write, then = changed)]
    source: EtherAddress,
    /// The destination address.
    #[arg(mandatory, name = "DST", read, write, then = changed)]
    destination: EtherAddress,
    #[flatten(then = changed)]
    tagging: Tagging,
    /// The header with a tag whose control information is 0.
    tagged: [u8; 18],
    /// The header without a tag.
    untagged: [u8; 14],
}

impl EtherVLANEncap {
    fn make_headers(&mut self) {
        let header = EthernetHeader {
            destination: self.destination,
            source: self.source,
            ethertype: EtherType(self.ethertype),
        };
        self.untagged = header.to_bytes();
        let ethertype = EtherType::VLAN;
        self.tagged[..14].copy_from_slice(
            &EthernetHeader {
                ethertype,
                ..header
            }
            .to_bytes(),
        );
        self.tagged[16..].copy_from_slice(&self.ethertype.to_be_bytes());
    }

    fn changed(&mut self, cx: &mut Cx<'_>) {
        self.make_headers();
        cx.set_config(self.config());
    }
}

#[handlers]
impl EtherVLANEncap {
    /// The arguments.
    #[read(calm)]
    fn config(&self) -> String {
        let (ethertype, tagging) = (EtherType(self.ethertype), self.tagging.config());
        format!(
            "{ethertype}, {}, {}, {tagging}",
            self.source, self.destination
        )
    }
}

impl Element for EtherVLANEncap {
    fn configured(&mut self, _cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.tagging.tag.configured();
        self.make_headers();
        Ok(())
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let (control, native) = self.tagging.of(packet);
        let len = if native { 14 } else { 18 };
        if !packet.push(len) {
            return Verdict::Drop;
        }
        packet.set_whole_mac_header(len);
        if native {
            if let Some(header) = packet.data_mut().first_chunk_mut::<14>() {
                *header = self.untagged;
            }
        } else if let Some(header) = packet.data_mut().first_chunk_mut::<18>() {
            *header = self.tagged;
            [header[14], header[15]] = control.to_be_bytes();
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::ethernet::vlan_encap::tests::{CASES, PAYLOAD};
    use crate::ethernet::vlan_encap::tests::{annotated, rig, tagged, untagged};

    const HEADER: &str = "EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2";

    #[test]
    fn tags_are_fixed_or_each_packets_own() {
        for (arguments, control) in CASES {
            let mut rig = rig(&format!("{HEADER}, {arguments})"));
            rig.push_with("i", &PAYLOAD, annotated);
            let packets = rig.collected("c");
            let expected = control.map_or(untagged(), |control| tagged(0x8100, control));
            assert_eq!(packets[0].data(), expected, "{arguments}");
            assert_eq!(packets[0].mac_offset(), Some(0));
        }
    }

    #[test]
    fn handlers_change_the_tag_and_the_configuration() {
        let mut rig = rig(&format!("{HEADER}, 5, 3)"));
        assert_eq!(rig.read("e.vlan_tci"), "24581");
        rig.assert_handlers(&[("e.vlan_id", "5"), ("e.vlan_pcp", "3")]);
        rig.write("e.vlan_id", "6");
        rig.write("e.src", "9:9:9:9:9:9");
        rig.write("e.ethertype", "0x86dd");
        let source = "09-09-09-09-09-09, 02-02-02-02-02-02";
        assert_eq!(
            rig.read("e.config"),
            format!("0x86dd, {source}, VLAN_ID 6, VLAN_PCP 3")
        );
        rig.push("i", &[]);
        let mut frame = tagged(0x8100, 0x6006)[..18].to_vec();
        frame[6..12].fill(9);
        frame[16..].copy_from_slice(&[0x86, 0xdd]);
        assert_eq!(rig.data("c"), [frame]);
        rig.write("e.vlan_tci", "ANNO");
        rig.write("e.native_vlan", "-1");
        assert_eq!(rig.read("e.vlan_id"), "");
        assert_eq!(
            rig.read("e.config"),
            format!("0x86dd, {source}, ANNO, NATIVE_VLAN -1")
        );
        let config = rig.read("e.config");
        rig.write("e.config", &config);
        assert_eq!(rig.read("e.config"), config);
    }
}
