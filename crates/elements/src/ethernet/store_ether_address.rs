use alloc::string::{String, ToString};

use packet::Packet;
use packet::wire::EtherAddress;
use router::args::{AnnoArg, Annotation, Args, Failed, Flags, Int, Parser, WordArg};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Verdict};

use crate::values;

/// An annotation of six bytes.
const SIX: AnnoArg = AnnoArg(6);

const NO_ANNOTATION: Annotation = Annotation { offset: 0, size: 6 };

/// Where in a packet `text` says that an Ethernet address stands.
fn offset(text: &str, args: &Args<'_>) -> Result<usize, Failed> {
    match text.to_lowercase().as_str() {
        "src" => return Ok(6),
        "dst" => return Ok(0),
        _ => {}
    }
    let offset: Result<u32, _> = Int::ANY.parse(text, &args.context());
    match offset {
        Ok(offset) => Ok(offset as usize),
        Err(_) => Err(args.fail("type mismatch: bad OFFSET")),
    }
}

#[inline(always)]
fn place(packet: &Packet, offset: usize) -> Option<[u8; 6]> {
    packet.data().get(offset..)?.first_chunk().copied()
}

#[inline(always)]
fn in_annotation(packet: &Packet, at: usize) -> Option<[u8; 6]> {
    packet.annotations().get(at..)?.first_chunk().copied()
}

#[inline(always)]
fn annotate(packet: &mut Packet, at: usize, address: [u8; 6]) {
    let place = packet.annotations_mut().get_mut(at..);
    if let Some(place) = place.and_then(|bytes| bytes.first_chunk_mut()) {
        *place = address;
    }
}

/// Writes an Ethernet address into packets.
///
/// Packets that lack the place are dropped.
///
/// # Arguments
/// - `ADDR` (Ethernet address): the address.
/// - `OFFSET` (integer, `src` or `dst`): where to write it: bytes from the packet's start, or a
///   field of the Ethernet header there.
/// - `ANNO` (annotation): the six-byte annotation to take the address from, instead of `ADDR`.
///
/// # Ports
/// One agnostic input. Output 0 is agnostic. Output 1, optional, is push: packets that lack the
/// place.
///
/// # Handlers
/// - `addr` (read, write): the address.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> StoreEtherAddress(1:1:1:1:1:1, src) -> Discard;
/// ```
///
/// # See also
/// GetEtherAddress, SetEtherAddress, EtherRewrite, EtherEncap
#[derive(Default)]
pub struct StoreEtherAddress {
    address: EtherAddress,
    annotation: Option<usize>,
    offset: usize,
}

impl Class for StoreEtherAddress {
    const NAME: &'static str = "StoreEtherAddress";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SEGMENTS: bool = true;
}

impl Declared for StoreEtherAddress {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut address, mut annotation) = (EtherAddress::ZERO, NO_ANNOTATION);
        let (mut addressed, mut annotated) = (false, false);
        let mut at = String::new();
        args.positional("ADDR", &mut address)
            .given(&mut addressed)
            .mandatory_positional_with("OFFSET", WordArg, &mut at)
            .arg("ANNO", Flags::KEYWORD, SIX, &mut annotation)
            .given(&mut annotated)
            .complete()?;
        if addressed == annotated {
            return Err(args.fail("must specify exactly one of ADDR/ANNO"));
        }
        self.offset = offset(&at, args)?;
        self.address = address;
        self.annotation = annotated.then_some(annotation.offset.into());
        Ok(())
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("addr");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "addr" => Ok(self.address.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "addr" => values::argument(cx, 0, "ADDR", value, &mut self.address),
            _ => Err(HandlerError::Unknown),
        }
    }
}

impl Element for StoreEtherAddress {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let address = match self.annotation {
            Some(at) => in_annotation(packet, at).unwrap_or_default(),
            None => self.address.0,
        };
        let place = packet.data_mut().get_mut(self.offset..);
        match place.and_then(|bytes| bytes.first_chunk_mut()) {
            Some(place) => *place = address,
            None => return Verdict::To(1),
        }
        Verdict::Forward
    }
}

/// Copies an Ethernet address out of packets into an annotation.
///
/// Packets that do not have the address are dropped.
///
/// # Arguments
/// - `ANNO` (annotation): the six-byte annotation to set.
/// - `OFFSET` (integer, `src` or `dst`): where the address is: bytes from the packet's start, or a
///   field of the Ethernet header there.
///
/// # Ports
/// One agnostic input. Output 0 is agnostic. Output 1, optional, is push: packets that do not have
/// the address.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> GetEtherAddress(0, src) -> StoreEtherAddress(OFFSET dst, ANNO 0) -> Discard;
/// ```
///
/// # See also
/// StoreEtherAddress, SetEtherAddress
#[derive(Default)]
pub struct GetEtherAddress {
    annotation: usize,
    offset: usize,
}

impl Class for GetEtherAddress {
    const NAME: &'static str = "GetEtherAddress";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
}

impl Declared for GetEtherAddress {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut annotation, mut at) = (NO_ANNOTATION, String::new());
        args.mandatory_positional_with("ANNO", SIX, &mut annotation)
            .mandatory_positional_with("OFFSET", WordArg, &mut at)
            .complete()?;
        self.offset = offset(&at, args)?;
        self.annotation = annotation.offset.into();
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }
}

impl Element for GetEtherAddress {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match place(packet, self.offset) {
            Some(address) => annotate(packet, self.annotation, address),
            None => return Verdict::To(1),
        }
        Verdict::Forward
    }
}

/// Sets an annotation of packets to a fixed Ethernet address.
///
/// # Arguments
/// - `ADDR` (Ethernet address): the address.
/// - `ANNO` (annotation): the six-byte annotation to set.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `addr` (read, write): the address.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> SetEtherAddress(1:1:1:1:1:1, 0) -> StoreEtherAddress(OFFSET dst, ANNO 0)
///     -> Discard;
/// ```
///
/// # See also
/// StoreEtherAddress, GetEtherAddress
#[derive(Default)]
pub struct SetEtherAddress {
    address: EtherAddress,
    annotation: usize,
}

impl Class for SetEtherAddress {
    const NAME: &'static str = "SetEtherAddress";
    const PORTS: &'static str = "1/1";
}

impl Declared for SetEtherAddress {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut annotation = NO_ANNOTATION;
        args.mandatory_positional("ADDR", &mut self.address)
            .mandatory_positional_with("ANNO", SIX, &mut annotation)
            .complete()?;
        self.annotation = annotation.offset.into();
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("addr");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "addr" => Ok(self.address.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "addr" => values::argument(cx, 0, "ADDR", value, &mut self.address),
            _ => Err(HandlerError::Unknown),
        }
    }
}

impl Element for SetEtherAddress {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        annotate(packet, self.annotation, self.address.0);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use crate::testing::{Rig, ether};

    fn rig(elements: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> e :: {elements} -> c :: Collect; e[1] -> short :: Collect;"
        ))
    }

    #[test]
    fn addresses_are_written_where_the_arguments_say() {
        for (arguments, expected) in [
            ("9:9:9:9:9:9, src", ether([1; 6], [9; 6], 0x0800, &[7; 6])),
            ("9:9:9:9:9:9, DST", ether([9; 6], [2; 6], 0x0800, &[7; 6])),
            ("9:9:9:9:9:9, 14", ether([1; 6], [2; 6], 0x0800, &[9; 6])),
        ] {
            let mut rig = rig(&format!("StoreEtherAddress({arguments})"));
            rig.push("i", &ether([1; 6], [2; 6], 0x0800, &[7; 6]));
            assert_eq!(rig.data("c"), [expected], "{arguments}");
        }
        let mut rig = rig("StoreEtherAddress(9:9:9:9:9:9, 14)");
        rig.push("i", &[0; 19]);
        assert_eq!(rig.data("short"), [[0; 19]]);
        rig.write("e.addr", "8:8:8:8:8:8");
        rig.push("i", &[0; 20]);
        assert_eq!(rig.data("c")[0][14..], [8; 6]);
        assert_eq!(rig.read("e.config"), "8:8:8:8:8:8, 14");
    }

    #[test]
    fn annotations_carry_addresses() {
        let mut rig = rig("GetEtherAddress(42, 1) -> StoreEtherAddress(OFFSET 7, ANNO 42)");
        rig.push("i", &[0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0]);
        assert_eq!(rig.data("c"), [[0, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]]);
    }

    #[test]
    fn packets_without_the_address_leave_by_output_1() {
        let mut rig = rig("GetEtherAddress(0, 4294967295)");
        rig.push("i", &[0; 60]);
        assert_eq!(rig.data("short"), [[0; 60]]);
    }

    #[test]
    fn a_fixed_address_can_be_annotated() {
        let config = "i :: Inject -> s :: SetEtherAddress(1:2:3:4:5:6, 8) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.push("i", &[]);
        assert_eq!(rig.collected("c")[0].annotations()[7..15], [0, 1, 2, 3, 4, 5, 6, 0]);
        rig.write("s.addr", "0:0:0:0:0:9");
        assert_eq!(rig.read("s.addr"), "00-00-00-00-00-09");
    }

    #[test]
    fn contradictions_are_refused() {
        for (element, error) in [
            ("StoreEtherAddress(OFFSET src)", "must specify exactly one of ADDR/ANNO"),
            ("StoreEtherAddress(1:1:1:1:1:1, 0, ANNO 0)", "must specify exactly one of ADDR/ANNO"),
            ("StoreEtherAddress(1:1:1:1:1:1, zork)", "type mismatch: bad OFFSET"),
            ("GetEtherAddress(0, -1)", "type mismatch: bad OFFSET"),
            ("GetEtherAddress(43, 0)", "ANNO: parse error"),
            ("SetEtherAddress(1:1:1:1:1:1)", "ANNO: required argument missing"),
        ] {
            let errors = Rig::errors(&format!("Inject -> {element} -> Collect;"));
            assert!(errors.contains(error), "{errors}");
        }
    }
}
