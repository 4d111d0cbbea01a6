use alloc::string::String;

use packet::Packet;
use router::args::{Args, Bounded, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList, Verdict};

use super::vlan_tag::{self, Tagging};

/// Sets packets' VLAN_TCI annotation.
///
/// # Arguments
/// - `VLAN_TCI` (integer, 0): a VLAN tag's control information, 16 bits: priority and VLAN.
/// - `VLAN_PCP` (0 to 7, 0): the priority.
/// - `VLAN_ID` (0 to 4095, 0): the VLAN; instead of `VLAN_TCI`.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `vlan_tci`, `vlan_id`, `vlan_pcp` (read, write): the arguments.
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
#[derive(Default)]
pub struct SetVLANAnno {
    control: u16,
}

impl Class for SetVLANAnno {
    const NAME: &'static str = "SetVLANAnno";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl SetVLANAnno {
    fn tagging(&self) -> Tagging {
        Tagging {
            control: Some(self.control),
            ..Tagging::default()
        }
    }
}

impl Declared for SetVLANAnno {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut control, mut priority, mut id) = (-1i32, 0i32, 0i32);
        args.positional_with("VLAN_TCI", Bounded(0, 0xffff), &mut control)
            .positional_with("VLAN_PCP", Bounded(0, 7), &mut priority)
            .keyword_with("VLAN_ID", Bounded(0, 0xfff), &mut id)
            .complete()?;
        let control = if control < 0 { id } else { control };
        self.control = control as u16 | (priority as u16) << 13;
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.add("config", HandlerFlags::CALM);
        list.read_write("vlan_tci").read_write("vlan_id");
        list.read_write("vlan_pcp");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "config" => Ok(self.tagging().config()),
            _ => self.tagging().read(name),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let mut tagging = self.tagging();
        tagging.write(cx, name, value)?;
        self.control = tagging.control.ok_or("VLAN_TCI: invalid number")?;
        cx.set_config(tagging.config());
        Ok(())
    }
}

impl Element for SetVLANAnno {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        vlan_tag::set_annotation(packet, self.control);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use crate::ethernet::vlan_tag;
    use crate::testing::Rig;

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
        rig.write("s.vlan_tci", "1");
        rig.push("i", &[]);
        assert_eq!(vlan_tag::annotation(&rig.collected("c")[0]), 1);
    }
}
