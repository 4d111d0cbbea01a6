use alloc::format;
use alloc::string::{String, ToString};

use packet::Packet;
use packet::wire::{EtherAddress, EtherType, EthernetHeader};
use router::args::{Args, Argument, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList, Verdict};

use super::vlan_tag::{self, TagArgs, Tagging};
use crate::values;

/// Puts an Ethernet header with a VLAN tag (802.1Q) in front of packets.
///
/// The header is marked as the packet's MAC header. Packets of the native VLAN get an Ethernet
/// header without a tag.
///
/// # Arguments
/// - `ETHERTYPE` (integer): what the frames carry, such as 0x0800 for IPv4.
/// - `SRC` (Ethernet address): who they are from.
/// - `DST` (Ethernet address): who they are for.
/// - `VLAN_TCI` (integer or `ANNO`, 0): the tag's control information, 16 bits: priority and VLAN;
///   with `ANNO`, each packet's VLAN_TCI annotation.
/// - `VLAN_PCP` (0 to 7, 0): the tag's priority.
/// - `VLAN_ID` (0 to 4095, 0): the VLAN; instead of `VLAN_TCI`.
/// - `NATIVE_VLAN` (-1 to 4095, 0): the VLAN whose packets get no tag; none if -1.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `ethertype`, `src`, `dst`, `vlan_tci`, `vlan_id`, `vlan_pcp`, `native_vlan` (read, write): the
///   arguments. `vlan_id` and `vlan_pcp` are empty with `ANNO`.
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
pub struct EtherVLANEncap {
    values: EthernetHeader,
    tagging: Tagging,
    /// The header with a tag whose control information is 0.
    header: [u8; 18],
}

impl Default for EtherVLANEncap {
    fn default() -> Self {
        EtherVLANEncap {
            values: EthernetHeader {
                destination: EtherAddress::ZERO,
                source: EtherAddress::ZERO,
                ethertype: EtherType(0),
            },
            tagging: Tagging::default(),
            header: [0; 18],
        }
    }
}

impl Class for EtherVLANEncap {
    const NAME: &'static str = "EtherVLANEncap";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl EtherVLANEncap {
    fn make_header(&mut self) {
        let tagged = EthernetHeader {
            ethertype: EtherType::VLAN,
            ..self.values
        };
        self.header[..14].copy_from_slice(&tagged.to_bytes());
        self.header[16..].copy_from_slice(&self.values.ethertype.0.to_be_bytes());
    }

    fn config(&self) -> String {
        let (EthernetHeader { source, destination, ethertype }, tagging) = (self.values, self.tagging);
        format!("{ethertype}, {source}, {destination}, {}", tagging.config())
    }
}

impl Declared for EtherVLANEncap {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut values, mut tag) = (EtherVLANEncap::default().values, TagArgs::new());
        let read = args
            .mandatory_positional("ETHERTYPE", &mut values.ethertype.0)
            .mandatory_positional("SRC", &mut values.source)
            .mandatory_positional("DST", &mut values.destination);
        tag.read(read).complete()?;
        self.tagging = tag.finish(args)?;
        self.values = values;
        self.make_header();
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.add("config", HandlerFlags::CALM);
        list.read_write("src").read_write("dst").read_write("ethertype");
        Tagging::handlers(list);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "config" => Ok(self.config()),
            "src" => Ok(self.values.source.to_string()),
            "dst" => Ok(self.values.destination.to_string()),
            "ethertype" => Ok(self.values.ethertype.0.to_string()),
            _ => self.tagging.read(name),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let header = &mut self.values;
        match name {
            "src" => header.source = values::parse_with(cx, "SRC", value, Argument::parse)?,
            "dst" => header.destination = values::parse_with(cx, "DST", value, Argument::parse)?,
            "ethertype" => {
                header.ethertype.0 = values::parse_with(cx, "ETHERTYPE", value, Argument::parse)?;
            }
            _ => self.tagging.write(cx, name, value)?,
        }
        self.make_header();
        cx.set_config(self.config());
        Ok(())
    }
}

impl Element for EtherVLANEncap {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let (control, native) = self.tagging.of(packet);
        if !packet.push(if native { 14 } else { 18 }) {
            return Verdict::Drop;
        }
        packet.set_mac_header(0);
        if native {
            if let Some(place) = packet.data_mut().first_chunk_mut::<14>() {
                *place = self.values.to_bytes();
            }
        } else if let Some(place) = packet.data_mut().first_chunk_mut::<18>() {
            *place = self.header;
            [place[14], place[15]] = control.to_be_bytes();
        }
        Verdict::Forward
    }
}

/// Puts a VLAN tag (802.1Q) into Ethernet frames.
///
/// The frame's start is marked as the packet's MAC header. Frames of the native VLAN get no tag.
/// Packets too short for an Ethernet header pass unchanged.
///
/// # Arguments
/// - `VLAN_TCI` (integer or `ANNO`, 0): the tag's control information, 16 bits: priority and VLAN;
///   with `ANNO`, each packet's VLAN_TCI annotation.
/// - `VLAN_PCP` (0 to 7, 0): the tag's priority.
/// - `VLAN_ID` (0 to 4095, 0): the VLAN; instead of `VLAN_TCI`.
/// - `NATIVE_VLAN` (-1 to 4095, 0): the VLAN whose frames get no tag; none if -1.
/// - `ETHERTYPE` (integer, 0x8100): the EtherType that announces the tag: 0x88a8 for the service
///   tag of 802.1ad, 0x9100 for what came before it.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `vlan_tci`, `vlan_id`, `vlan_pcp`, `native_vlan`, `ethertype` (read, write): the arguments.
///   `vlan_id` and `vlan_pcp` are empty with `ANNO`.
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
pub struct VLANEncap {
    tagging: Tagging,
    ethertype: EtherType,
}

impl Default for VLANEncap {
    fn default() -> Self {
        VLANEncap {
            tagging: Tagging::default(),
            ethertype: EtherType::VLAN,
        }
    }
}

impl Class for VLANEncap {
    const NAME: &'static str = "VLANEncap";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl VLANEncap {
    fn config(&self) -> String {
        let mut text = self.tagging.config();
        if self.ethertype != EtherType::VLAN {
            text += &format!(", ETHERTYPE {}", self.ethertype);
        }
        text
    }
}

impl Declared for VLANEncap {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut tag, mut ethertype) = (TagArgs::new(), EtherType::VLAN);
        let read = tag.read(args.read());
        read.keyword("ETHERTYPE", &mut ethertype.0).complete()?;
        self.tagging = tag.finish(args)?;
        self.ethertype = ethertype;
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.add("config", HandlerFlags::CALM);
        Tagging::handlers(list);
        list.read_write("ethertype");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "config" => Ok(self.config()),
            "ethertype" => Ok(self.ethertype.0.to_string()),
            _ => self.tagging.read(name),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "ethertype" => {
                self.ethertype.0 = values::parse_with(cx, "ETHERTYPE", value, Argument::parse)?;
            }
            _ => self.tagging.write(cx, name, value)?,
        }
        cx.set_config(self.config());
        Ok(())
    }
}

impl Element for VLANEncap {
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
                [header[12], header[13]] = self.ethertype.0.to_be_bytes();
                [header[14], header[15]] = control.to_be_bytes();
            }
        }
        packet.set_mac_header(0);
        Verdict::Forward
    }
}

/// Takes the VLAN tag (802.1Q) out of Ethernet frames that have one.
///
/// The frame's start is marked as the packet's MAC header.
///
/// # Arguments
/// - `ANNO` (boolean, true): whether to set the VLAN_TCI annotation to the tag's control
///   information, or to 0 if there is no tag.
/// - `ETHERTYPE` (integer, 0x8100): the EtherType that announces the tag.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> VLANDecap -> CheckIPHeader(14) -> Discard;
/// ```
///
/// # See also
/// VLANEncap, StripEtherVLANHeader
pub struct VLANDecap {
    annotate: bool,
    ethertype: EtherType,
}

impl Default for VLANDecap {
    fn default() -> Self {
        VLANDecap {
            annotate: true,
            ethertype: EtherType::VLAN,
        }
    }
}

impl Class for VLANDecap {
    const NAME: &'static str = "VLANDecap";
    const PORTS: &'static str = "1/1";
    const SEGMENTS: bool = true;
}

impl Declared for VLANDecap {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.positional("ANNO", &mut self.annotate)
            .keyword("ETHERTYPE", &mut self.ethertype.0)
            .complete()
    }
}

impl Element for VLANDecap {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let mut control = 0;
        if let Some(header) = packet.data_mut().first_chunk_mut::<18>()
            && self.ethertype.0.to_be_bytes() == [header[12], header[13]]
        {
            control = u16::from_be_bytes([header[14], header[15]]);
            header.copy_within(..12, 4);
            packet.pull(4);
        }
        packet.set_mac_header(0);
        if self.annotate {
            vlan_tag::set_annotation(packet, control);
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests;
