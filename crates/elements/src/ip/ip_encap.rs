use alloc::string::{String, ToString};
use core::net::Ipv4Addr;

use packet::Packet;
use packet::checksum::{Delta, Sum};
use packet::wire::{Ecn, IpProtocol, Ipv4Header, Ipv4Packet};
use router::args::{Any, Args, Failed, KeywordArg, Kind, NamedInt};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList, Verdict};

use crate::destination::Destination;
use crate::values;

/// Puts a fixed IP header in front of packets.
///
/// Length, identification (which counts up from 0) and checksum are each packet's own. The header
/// is marked, and the destination address annotation set to the destination.
///
/// # Arguments
/// - `PROTO` (integer or name): what the packets carry.
/// - `SRC` (IP address): who they are from.
/// - `DST` (IP address or `DST_ANNO`): who they are for; with `DST_ANNO`, whom their destination
///   address annotation says.
/// - `TTL` (integer, 250): time to live.
/// - `TOS` (integer, 0): type of service. Not beside `DSCP`, `ECT` or `CE`.
/// - `DSCP` (integer, 0): differentiated services code point.
/// - `ECT` (boolean or `2`, false): whether the transport knows congestion notification; `2` is
///   code point ECT(0), `true` ECT(1).
/// - `CE` (boolean, false): whether congestion was experienced.
/// - `DF` (boolean, false): whether the packets must not be fragmented.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `src`, `dst` (read, write): the arguments.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1, STOP true)
///     -> IPEncap(ipip, 18.26.4.24, 140.247.60.147)
///     -> IPPrint -> Discard;
/// ```
///
/// # See also
/// UDPIPEncap, StripIPHeader
pub struct IPEncap {
    header: Ipv4Header,
    destination: Destination<Ipv4Addr>,
    /// The header without length and identification, and its checksum.
    template: [u8; 20],
    ident: u16,
}

impl Default for IPEncap {
    fn default() -> Self {
        let address = Ipv4Addr::UNSPECIFIED;
        IPEncap {
            header: Ipv4Header {
                tos: 0,
                total_len: 0,
                ident: 0,
                dont_fragment: false,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 250,
                protocol: IpProtocol(0),
                source: address,
                destination: address,
            },
            destination: Destination::To(address),
            template: [0; 20],
            ident: 0,
        }
    }
}

impl Class for IPEncap {
    const NAME: &'static str = "IPEncap";
    const PORTS: &'static str = "1/1";
}

/// The type of service that `TOS`, or `DSCP`, `ECT` and `CE`, ask for; -1 is not given.
fn type_of_service(tos: i32, dscp: i32, ect: u8, ce: bool) -> Result<u8, &'static str> {
    if tos >= 0 && dscp >= 0 {
        return Err("cannot set both TOS and DSCP");
    }
    if tos >= 0 && (ect > 0 || ce) {
        return Err("cannot set both TOS and ECN bits");
    }
    if !(-1..256).contains(&tos) {
        return Err("TOS too large; max 255");
    }
    if !(-1..64).contains(&dscp) {
        return Err("DSCP too large; max 63");
    }
    let ecn = match (ect, ce) {
        (0, false) => Ecn::NotCapable,
        (0, true) => Ecn::Congested,
        (_, true) => return Err("can set at most one ECN option"),
        (1, false) => Ecn::Capable1,
        (_, false) => Ecn::Capable0,
    };
    Ok(match tos {
        0.. => tos as u8,
        _ => (dscp.max(0) as u8) << 2 | ecn as u8,
    })
}

impl IPEncap {
    fn make_template(&mut self) {
        self.header.destination = match self.destination {
            Destination::To(address) => address,
            Destination::Annotation => Ipv4Addr::UNSPECIFIED,
        };
        self.template = self.header.to_bytes();
    }
}

impl Declared for IPEncap {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut protocol, mut tos, mut dscp) = (0i32, -1i32, -1i32);
        let (mut to, mut ect_text, mut ce) = (String::new(), String::from("false"), false);
        let mut header = IPEncap::default().header;
        args.mandatory_positional_with("PROTO", NamedInt(Kind::IpProtocol), &mut protocol)
            .mandatory_positional("SRC", &mut header.source)
            .mandatory_positional_with("DST", Any, &mut to)
            .keyword("TOS", &mut tos)
            .keyword("TTL", &mut header.ttl)
            .keyword("DSCP", &mut dscp)
            .keyword_with("ECT", KeywordArg, &mut ect_text)
            .keyword("CE", &mut ce)
            .keyword("DF", &mut header.dont_fragment)
            .complete()?;
        let protocol = u8::try_from(protocol).map_err(|_| args.fail("bad IP protocol"))?;
        header.protocol = IpProtocol(protocol);
        let destination = Destination::parse(&to, &args.context())
            .ok_or_else(|| args.fail("DST argument should be IP address or 'DST_ANNO'"))?;
        let ect = match (args.context().parse::<bool>(&ect_text), ect_text.as_str()) {
            (Ok(ect), _) => u8::from(ect),
            (_, "2") => 2,
            _ => return Err(args.fail(format_args!("bad ECT value '{ect_text}'"))),
        };
        header.tos = type_of_service(tos, dscp, ect, ce).map_err(|error| args.fail(error))?;
        (self.header, self.destination) = (header, destination);
        self.make_template();
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("src").add("src", HandlerFlags::CALM);
        list.read_write("dst").add("dst", HandlerFlags::CALM);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "src" => Ok(self.header.source.to_string()),
            "dst" => Ok(self.destination.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "src" => values::argument(cx, 1, "SRC", value, &mut self.header.source)?,
            "dst" => {
                let destination = Destination::parse(value.trim(), &cx.names())
                    .ok_or("DST argument should be IP address or 'DST_ANNO'")?;
                values::argument_with(cx, 2, "DST", value, Any, &mut String::new())?;
                self.destination = destination;
            }
            _ => return Err(HandlerError::Unknown),
        }
        self.make_template();
        Ok(())
    }
}

impl Element for IPEncap {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if !packet.push(self.template.len()) {
            return Verdict::Drop;
        }
        let destination = self.destination.of(packet);
        let (length, ident) = (packet.len() as u16, self.ident);
        self.ident = self.ident.wrapping_add(1);
        let mut ip = Ipv4Packet::new_unchecked(packet.data_mut());
        if let Some(place) = ip.header_mut() {
            *place = self.template;
        }
        let mut new = Sum::ZERO.add_u16(length).add_u16(ident);
        if self.destination == Destination::Annotation {
            ip.set_destination(destination);
            new = new.add_bytes(&destination.octets());
        }
        ip.set_total_len(length);
        ip.set_ident(ident);
        ip.update_checksum(Delta::of_sums(Sum::ZERO, new));
        packet.set_network_header(0, 20);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use core::net::Ipv4Addr;

    use crate::testing::{Rig, checksum};

    fn rig(args: &str) -> Rig {
        Rig::new(&format!("i :: Inject -> e :: IPEncap({args}) -> c :: Collect;"))
    }

    #[test]
    fn the_header_goes_in_front_with_length_ident_and_checksum() {
        let mut rig = rig("ipip, 1.0.0.1, 2.0.0.2, TTL 9, DF true");
        for n in 0..300u16 {
            rig.push("i", &[7; 400][..usize::from(n)]);
            let packets = rig.collected("c");
            let header = &packets[0].data()[..20];
            assert_eq!(checksum(header), 0);
            assert_eq!(header[..2], [0x45, 0]);
            assert_eq!(header[2..4], (20 + n).to_be_bytes());
            assert_eq!(header[4..6], n.to_be_bytes());
            assert_eq!(header[6..10], [0x40, 0, 9, 4]);
            assert_eq!(header[12..], [1, 0, 0, 1, 2, 0, 0, 2]);
            assert_eq!(packets[0].dst_ip(), Ipv4Addr::new(2, 0, 0, 2));
            assert_eq!(packets[0].transport_offset(), Some(20));
        }
    }

    #[test]
    fn the_annotation_can_be_the_destination() {
        let mut rig = rig("17, 1.0.0.1, DST_ANNO");
        assert_eq!(rig.read("e.dst"), "DST_ANNO");
        rig.push_with("i", &[], |packet| packet.set_dst_ip(Ipv4Addr::new(9, 8, 7, 6)));
        let packet = rig.data("c").remove(0);
        assert_eq!(packet[16..20], [9, 8, 7, 6]);
        assert_eq!(checksum(&packet), 0);
    }

    #[test]
    fn services_have_several_spellings() {
        for (args, tos) in [
            ("TOS 17", 17),
            ("DSCP 5", 20),
            ("ECT true", 1),
            ("ECT 2, DSCP 1", 6),
            ("CE yes", 3),
            ("DSCP 63", 252),
        ] {
            let mut rig = rig(&format!("17, 1.0.0.1, 2.0.0.2, {args}"));
            rig.push("i", &[]);
            assert_eq!(rig.data("c")[0][1], tos, "{args}");
        }
    }

    #[test]
    fn handlers_change_the_addresses() {
        let mut rig = rig("17, 1.0.0.1, 2.0.0.2");
        rig.write("e.src", "3.0.0.3");
        rig.write("e.dst", "4.0.0.4");
        assert_eq!(rig.read("e.config"), "17, 3.0.0.3, 4.0.0.4");
        rig.push("i", &[]);
        let packet = rig.data("c").remove(0);
        assert_eq!(packet[12..], [3, 0, 0, 3, 4, 0, 0, 4]);
        assert_eq!(checksum(&packet), 0);
        assert!(rig.try_write("e.dst", "zork").is_err());
    }

    #[test]
    fn contradictions_are_refused() {
        for (args, error) in [
            ("300, 1.0.0.1, 2.0.0.2", "bad IP protocol"),
            ("17, 1.0.0.1, zork", "DST argument should be IP address or 'DST_ANNO'"),
            ("17, 1.0.0.1, 2.0.0.2, TOS 1, DSCP 1", "cannot set both TOS and DSCP"),
            ("17, 1.0.0.1, 2.0.0.2, TOS 1, CE true", "cannot set both TOS and ECN bits"),
            ("17, 1.0.0.1, 2.0.0.2, TOS 256", "TOS too large; max 255"),
            ("17, 1.0.0.1, 2.0.0.2, DSCP 64", "DSCP too large; max 63"),
            ("17, 1.0.0.1, 2.0.0.2, CE 1, ECT 1", "can set at most one ECN option"),
            ("17, 1.0.0.1, 2.0.0.2, ECT 3", "bad ECT value '3'"),
        ] {
            let errors = Rig::errors(&format!("Inject -> IPEncap({args}) -> Collect;"));
            assert!(errors.contains(error), "{errors}");
        }
    }
}
