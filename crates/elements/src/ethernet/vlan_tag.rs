//! The VLAN tag that elements give packets: fixed, or each packet's own.

use crate::prelude::*;

/// The notation of a tag's control information.
const CONTROL: Bounded = Bounded(0, 0xffff);
const ID: Bounded = Bounded(0, 0xfff);
const PRIORITY: Bounded = Bounded(0, 7);
const NATIVE: Bounded = Bounded(-1, 0xfff);

/// The control information in a packet's VLAN_TCI annotation.
#[inline(always)]
pub fn annotation(packet: &Packet) -> u16 {
    u16::from_be(packet.anno(VLAN_TCI) as u16)
}

/// Sets a packet's VLAN_TCI annotation to control information.
#[inline(always)]
pub fn set_annotation(packet: &mut Packet, control: u16) {
    packet.set_anno(VLAN_TCI, control.to_be().into());
}

/// A tag. With `ANNO`, it may be each packet's own.
#[derive(Clone, Component)]
#[component(handlers)]
pub struct Tag<const ANNO: bool> {
    /// The tag's control information, 16 bits: priority and VLAN. In EtherVLANEncap and VLANEncap,
    /// `ANNO` stands for each packet's VLAN_TCI annotation; the VLAN_ID and VLAN_PCP handlers are
    /// empty then.
    #[arg(positional, write, then = set_control, with = Self::parse_control, kind = "integer",
        default_text = "0")]
    vlan_tci: Option<Option<u16>>,
    /// The tag's priority.
    #[arg(positional, default = 0, write, then = set_priority, with = PRIORITY, kind = "0 to 7")]
    vlan_pcp: i32,
    /// The VLAN; instead of VLAN_TCI.
    #[arg(default = 0, write, then = set_id, with = ID, kind = "0 to 4095")]
    vlan_id: i32,
    /// The tag's control information; `None`: that of each packet's annotation.
    #[init(Some(0))]
    pub control: Option<u16>,
}

#[handlers]
impl<const ANNO: bool> Tag<ANNO> {
    /// The argument VLAN_TCI.
    #[read]
    fn vlan_tci(&self) -> String {
        self.control.map_or("ANNO".into(), |tci| tci.to_string())
    }

    /// The argument VLAN_PCP.
    #[read]
    fn vlan_pcp(&self) -> Option<u8> {
        Some(VlanTag::from_control(self.control?).priority)
    }

    /// The argument VLAN_ID.
    #[read]
    fn vlan_id(&self) -> Option<u16> {
        Some(VlanTag::from_control(self.control?).id)
    }
}

impl<const ANNO: bool> Tag<ANNO> {
    /// Control information, or perhaps `ANNO`.
    fn parse_control(text: &str, context: &Context<'_>) -> Result<Option<Option<u16>>, Invalid> {
        if ANNO && WordArg.parse(text, context)? == "ANNO" {
            return Ok(Some(None));
        }
        let control: i32 = context.parse_with(CONTROL, text)?;
        Ok(Some(Some(control as u16)))
    }

    /// Combines the arguments.
    pub fn configured(&mut self) {
        let control = self.vlan_tci.unwrap_or(Some(self.vlan_id as u16));
        self.control = control.map(|control| control | (self.vlan_pcp as u16) << 13);
    }

    // A handler stands for its argument beside the others as `config` shows them: VLAN and priority.

    fn set_control(&mut self, _cx: &mut Cx<'_>) {
        let priority = self.fixed().priority;
        if let Some(control) = self.vlan_tci {
            self.control = control.map(|control| control | u16::from(priority) << 13);
        }
    }

    fn set_id(&mut self, _cx: &mut Cx<'_>) {
        let priority = self.fixed().priority;
        self.control = Some(self.vlan_id as u16 | u16::from(priority) << 13);
    }

    fn set_priority(&mut self, _cx: &mut Cx<'_>) {
        self.control = Some(self.fixed().id | (self.vlan_pcp as u16) << 13);
    }

    fn fixed(&self) -> VlanTag {
        VlanTag::from_control(self.control.unwrap_or(0))
    }

    /// The arguments as a configuration has them.
    pub fn config(&self) -> String {
        match self.control.map(VlanTag::from_control) {
            None => "ANNO".to_string(),
            Some(tag) => format!("VLAN_ID {}, VLAN_PCP {}", tag.id, tag.priority),
        }
    }
}

/// A tag, and a VLAN whose packets do not get it.
#[derive(Clone, Component)]
pub struct Tagging {
    #[flatten]
    pub tag: Tag<true>,
    /// The VLAN whose packets get no tag; none if -1.
    #[arg(default = 0, read, write, with = NATIVE, kind = "-1 to 4095")]
    native_vlan: i32,
}

impl Tagging {
    /// The control information for a packet, and whether it is of the native VLAN: gets no tag.
    #[inline(always)]
    pub fn of(&self, packet: &Packet) -> (u16, bool) {
        let control = self.tag.control.unwrap_or_else(|| annotation(packet));
        (control, self.native_vlan == i32::from(control & 0xfff))
    }

    /// The arguments as a configuration has them.
    pub fn config(&self) -> String {
        let mut text = self.tag.config();
        if self.native_vlan != 0 {
            text += &format!(", NATIVE_VLAN {}", self.native_vlan);
        }
        text
    }
}
