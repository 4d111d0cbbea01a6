//! The VLAN tag that elements give packets: fixed, or each packet's own.

use alloc::format;
use alloc::string::{String, ToString};

use packet::Packet;
use packet::anno::VLAN_TCI;
use packet::wire::VlanTag;
use router::args::{Args, Bounded, Context, Failed, Invalid, Read, WordArg};
use router::{Cx, HandlerError, HandlerList};

use crate::values;

/// What the notation of a tag's control information is.
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

/// Which packets get which tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tagging {
    /// The tag's control information; `None`: that of each packet's annotation.
    pub control: Option<u16>,
    /// The VLAN whose packets get no tag.
    pub native: Option<u16>,
}

impl Default for Tagging {
    fn default() -> Self {
        Tagging {
            control: Some(0),
            native: Some(0),
        }
    }
}

/// The arguments of a [`Tagging`] as they are read.
pub struct TagArgs {
    control: String,
    priority: i32,
    id: i32,
    native: i32,
}

impl TagArgs {
    /// Nothing given.
    pub fn new() -> TagArgs {
        TagArgs {
            control: String::new(),
            priority: 0,
            id: 0,
            native: 0,
        }
    }

    /// Reads VLAN_TCI and VLAN_PCP, by position too, VLAN_ID and NATIVE_VLAN.
    pub fn read<'a, 'n, 't>(&'t mut self, read: Read<'a, 'n, 't>) -> Read<'a, 'n, 't> {
        read.positional_with("VLAN_TCI", WordArg, &mut self.control)
            .positional_with("VLAN_PCP", PRIORITY, &mut self.priority)
            .keyword_with("VLAN_ID", ID, &mut self.id)
            .keyword_with("NATIVE_VLAN", NATIVE, &mut self.native)
    }

    /// What was read.
    pub fn finish(self, args: &Args<'_>) -> Result<Tagging, Failed> {
        let control = match self.control.as_str() {
            "" => Some(self.id as u16),
            text => control(text, &args.context()).map_err(|invalid| {
                args.invalid("VLAN_TCI", &invalid);
                Failed
            })?,
        };
        Ok(Tagging {
            control: control.map(|control| control | (self.priority as u16) << 13),
            native: u16::try_from(self.native).ok(),
        })
    }
}

/// Reads control information, or `ANNO`.
fn control(text: &str, context: &Context<'_>) -> Result<Option<u16>, Invalid> {
    match text {
        "ANNO" => Ok(None),
        text => context.parse_with(CONTROL, text).map(Some),
    }
}

impl Tagging {
    /// The control information for a packet, and whether it is of the native VLAN: gets no tag.
    #[inline(always)]
    pub fn of(&self, packet: &Packet) -> (u16, bool) {
        let control = self.control.unwrap_or_else(|| annotation(packet));
        (control, self.native == Some(control & 0xfff))
    }

    /// The arguments as a configuration has them.
    pub fn config(&self) -> String {
        let mut text = match self.control.map(VlanTag::from_control) {
            None => "ANNO".to_string(),
            Some(tag) => format!("VLAN_ID {}, VLAN_PCP {}", tag.id, tag.priority),
        };
        if self.native != Some(0) {
            text += &format!(", NATIVE_VLAN {}", self.native_text());
        }
        text
    }

    fn native_text(&self) -> String {
        self.native.map_or("-1".into(), |vlan| vlan.to_string())
    }

    /// Lists the handlers of the arguments.
    pub fn handlers(list: &mut HandlerList) {
        list.read_write("vlan_tci").read_write("vlan_id");
        list.read_write("vlan_pcp").read_write("native_vlan");
    }

    /// Reads one of the handlers. Parts of a tag that is each packet's own are empty.
    pub fn read(&self, name: &str) -> Result<String, HandlerError> {
        let tag = self.control.map(VlanTag::from_control);
        match name {
            "vlan_tci" => Ok(self.control.map_or("ANNO".into(), |tci| tci.to_string())),
            "vlan_id" => Ok(tag.map_or(String::new(), |tag| tag.id.to_string())),
            "vlan_pcp" => Ok(tag.map_or(String::new(), |tag| tag.priority.to_string())),
            "native_vlan" => Ok(self.native_text()),
            _ => Err(HandlerError::Unknown),
        }
    }

    /// Writes one of the handlers.
    pub fn write(&mut self, cx: &Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let tag = VlanTag::from_control(self.control.unwrap_or(0));
        match name {
            "vlan_tci" => self.control = values::parse_with(cx, "VLAN_TCI", value, control)?,
            "vlan_id" => {
                let id = values::parse_with(cx, "VLAN_ID", value, ID)?;
                self.control = Some(VlanTag { id, ..tag }.to_control());
            }
            "vlan_pcp" => {
                let priority = values::parse_with(cx, "VLAN_PCP", value, PRIORITY)?;
                self.control = Some(VlanTag { priority, ..tag }.to_control());
            }
            "native_vlan" => {
                let vlan: i32 = values::parse_with(cx, "NATIVE_VLAN", value, NATIVE)?;
                self.native = u16::try_from(vlan).ok();
            }
            _ => return Err(HandlerError::Unknown),
        }
        Ok(())
    }
}
