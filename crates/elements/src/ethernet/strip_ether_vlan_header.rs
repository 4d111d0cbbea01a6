use super::vlan_tag;
use crate::prelude::*;

/// Strips the Ethernet header of packets, with its VLAN tag (802.1Q) if it has one.
///
/// The VLAN_TCI annotation gets the tag's control information, or the native VLAN if there is no
/// tag.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> StripEtherVLANHeader -> CheckIPHeader -> Discard;
/// ```
///
/// # See also
/// EtherVLANEncap, VLANDecap, Strip
#[derive(Element)]
#[element(
    ports = "1/1-2",
    processing = "a/ah",
    segments,
    live,
    alias("StripEtherVlanHeader")
)]
#[outputs("packets", "frames without a tag, if there is no native VLAN")]
pub struct StripEtherVLANHeader {
    /// The VLAN of frames without a tag, at most 4095; if negative, these are dropped.
    #[arg(positional, default = 0)]
    native_vlan: i32,
}

impl Element for StripEtherVLANHeader {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.native_vlan > 0xfff {
            return Err(args.fail("bad NATIVE_VLAN"));
        }
        Ok(())
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        const TYPE: [u8; 2] = EtherType::VLAN.0.to_be_bytes();
        if let Some(header) = packet.data().first_chunk::<18>()
            && [header[12], header[13]] == TYPE
        {
            let control = u16::from_be_bytes([header[14], header[15]]);
            vlan_tag::set_annotation(packet, control);
            packet.pull(18);
            return Verdict::Forward;
        }
        let Ok(native) = u16::try_from(self.native_vlan) else {
            return Verdict::To(1);
        };
        vlan_tag::set_annotation(packet, native);
        packet.pull(14);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::ethernet::vlan_tag;
    use crate::testing::*;

    fn rig(arguments: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> s :: StripEtherVLANHeader({arguments}) -> c :: Collect;
             s[1] -> other :: Collect;"
        ))
    }

    #[test]
    fn headers_go_with_their_tag() {
        let mut rig = rig("5");
        rig.push("i", &ether([1; 6], [2; 6], 0x8100, &[0x60, 7, 8, 0, 9]));
        rig.push("i", &ether([1; 6], [2; 6], 0x0800, &[9]));
        let packets = rig.collected("c");
        for (packet, control) in packets.iter().zip([0x6007, 5]) {
            assert_eq!(packet.data(), [9]);
            assert_eq!(vlan_tag::annotation(packet), control);
        }
    }

    #[test]
    fn without_a_native_vlan_other_frames_leave_by_output_1() {
        let mut rig = rig("-1");
        let frame = ether([1; 6], [2; 6], 0x0800, &[9]);
        rig.push("i", &frame);
        assert_eq!(rig.data("other"), [frame]);
        Rig::refuses(
            "Inject -> StripEtherVLANHeader(4096) -> Collect;",
            "bad NATIVE_VLAN",
        );
    }
}
