use packet::Packet;
use packet::wire::EtherType;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, Verdict};

use super::vlan_tag;

/// Takes the Ethernet header off packets, with its VLAN tag (802.1Q) if it has one.
///
/// The VLAN_TCI annotation gets the tag's control information, or the native VLAN if there is no
/// tag.
///
/// # Arguments
/// - `NATIVE_VLAN` (integer up to 4095, 0): the VLAN of frames without a tag; if negative, those
///   are dropped.
///
/// # Ports
/// One agnostic input. Output 0 is agnostic. Output 1, optional, is push: frames without a tag, if
/// there is no native VLAN.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> StripEtherVLANHeader -> CheckIPHeader -> Discard;
/// ```
///
/// # See also
/// EtherVLANEncap, VLANDecap, Strip
pub struct StripEtherVLANHeader {
    native: Option<u16>,
}

impl Default for StripEtherVLANHeader {
    fn default() -> Self {
        StripEtherVLANHeader { native: Some(0) }
    }
}

impl Class for StripEtherVLANHeader {
    const NAME: &'static str = "StripEtherVLANHeader";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SEGMENTS: bool = true;
}

impl Declared for StripEtherVLANHeader {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut native = 0i32;
        args.positional("NATIVE_VLAN", &mut native).complete()?;
        if native > 0xfff {
            return Err(args.fail("bad NATIVE_VLAN"));
        }
        self.native = u16::try_from(native).ok();
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }
}

impl Element for StripEtherVLANHeader {
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
        let Some(native) = self.native else {
            return Verdict::To(1);
        };
        vlan_tag::set_annotation(packet, native);
        packet.pull(14);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use crate::ethernet::vlan_tag;
    use crate::testing::{Rig, ether};

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
        let errors = Rig::errors("Inject -> StripEtherVLANHeader(4096) -> Collect;");
        assert!(errors.contains("bad NATIVE_VLAN"), "{errors}");
    }
}
