use super::vlan_tag::{self, Tag};
use crate::prelude::*;

/// Sets packets' VLAN_TCI annotation.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1, STOP true)
///     -> SetVLANAnno(7, 3)
///     -> EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, ANNO)
///     -> Print(tagged) -> Discard;
/// ```
///
/// # See also
/// EtherVLANEncap, VLANEncap, VLANDecap
#[derive(Element)]
#[element(ports = "1/1", segments, live, handlers, alias("SetVlanAnno"))]
pub struct SetVLANAnno {
    #[flatten(then = changed)]
    tag: Tag<false>,
}

impl SetVLANAnno {
    fn changed(&mut self, cx: &mut Cx<'_>) {
        cx.set_config(self.config());
    }
}

#[handlers]
impl SetVLANAnno {
    /// The arguments.
    #[read(calm)]
    fn config(&self) -> String {
        self.tag.config()
    }
}

impl Element for SetVLANAnno {
    fn configured(&mut self, _cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.tag.configured();
        Ok(())
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        vlan_tag::set_annotation(packet, self.tag.control.unwrap_or(0));
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::ethernet::vlan_tag;
    use crate::testing::*;

    #[test]
    fn the_annotation_is_set() {
        for (arguments, control) in [
            ("", 0),
            ("7", 7),
            ("7, 3", 0x6007),
            ("VLAN_ID 7, VLAN_PCP 1", 0x2007),
            ("0xffff", 0xffff),
        ] {
            let mut rig = Rig::new(&format!(
                "i :: Inject -> SetVLANAnno({arguments}) -> c :: Collect;"
            ));
            rig.push("i", &[]);
            let packets = rig.collected("c");
            assert_eq!(vlan_tag::annotation(&packets[0]), control, "{arguments}");
        }
    }

    #[test]
    fn handlers_change_it() {
        let mut rig = Rig::new("i :: Inject -> s :: SetVLANAnno(7, 3) -> c :: Collect;");
        rig.write("s.vlan_id", "9");
        assert_eq!(rig.read("s.vlan_tci"), "24585");
        assert_eq!(rig.read("s.config"), "VLAN_ID 9, VLAN_PCP 3");
        assert!(rig.try_write("s.vlan_tci", "ANNO").is_err());
        // As in Click, the priority is an argument of its own, and no argument has the third bit.
        for (handler, value, control) in [
            ("vlan_tci", "0xffff", 0xffff),
            ("vlan_id", "7", 0xe007),
            ("vlan_tci", "0x1001", 0xf001),
            ("vlan_pcp", "1", 0x2001),
        ] {
            rig.write(&format!("s.{handler}"), value);
            rig.push("i", &[]);
            let packets = rig.collected("c");
            assert_eq!(vlan_tag::annotation(&packets[0]), control, "{value}");
        }
    }

    #[test]
    fn control_information_is_a_number() {
        let errors = Rig::errors("Idle -> SetVLANAnno(1 2) -> Discard;");
        assert!(errors.contains("VLAN_TCI: invalid number"), "{errors}");
        let errors = Rig::errors("Idle -> SetVLANAnno(-1) -> Discard;");
        assert!(errors.contains("out of range, bound 0"), "{errors}");
    }
}
