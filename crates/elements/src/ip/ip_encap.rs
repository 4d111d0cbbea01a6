use crate::headers::destination::{BAD_DESTINATION, Destination};
use crate::prelude::*;

/// Puts a fixed IP header in front of packets.
///
/// Length, identification (which counts up from 0) and checksum are set for each packet. The header
/// is marked, and the destination address annotation set to the destination.
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
#[derive(Element)]
#[element(ports = "1/1", live, handlers)]
pub struct IPEncap {
    /// The protocol of the payload.
    #[arg(mandatory, name = "PROTO", with = NamedInt(Kind::IpProtocol), kind = "IP protocol")]
    #[init(-1)]
    protocol: i32,
    /// The source address.
    #[arg(mandatory, name = "SRC", read, write, config, calm, then = make_template)]
    source: Ipv4Addr,
    /// The destination address; with `DST_ANNO`, packets' destination address annotation says it.
    #[arg(mandatory, name = "DST", with = Any, kind = "IP address or DST_ANNO")]
    destination_argument: String,
    /// Type of service; excludes DSCP, ECT and CE.
    #[arg(default = -1, default_text = "0")]
    tos: i32,
    /// Time to live.
    #[arg(default = 250)]
    ttl: u8,
    /// Differentiated services code point.
    #[arg(default = -1, default_text = "0")]
    dscp: i32,
    /// Whether the transport supports congestion notification; `2` is code point ECT(0), `true`
    /// ECT(1).
    #[arg(
        default = "false".into(),
        with = KeywordArg,
        kind = "boolean or 2",
        default_text = "false"
    )]
    ect: String,
    /// Whether to set "congestion experienced".
    #[arg]
    ce: bool,
    /// Whether the packets must not be fragmented.
    #[arg(name = "DF")]
    dont_fragment: bool,
    type_of_service: u8,
    destination: Destination<Ipv4Addr>,
    /// The header without length and identification, and its checksum.
    template: [u8; 20],
    ident: u16,
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
    fn make_template(&mut self, _cx: &mut Cx<'_>) {
        let header = Ipv4Header {
            tos: self.type_of_service,
            total_len: 0,
            ident: 0,
            dont_fragment: self.dont_fragment,
            more_fragments: false,
            fragment_offset: 0,
            ttl: self.ttl,
            protocol: IpProtocol(self.protocol as u8),
            source: self.source,
            destination: match self.destination {
                Destination::To(address) => address,
                Destination::Annotation => Ipv4Addr::UNSPECIFIED,
            },
        };
        self.template = header.to_bytes();
    }
}

#[handlers]
impl IPEncap {
    /// The argument DST.
    #[read(calm)]
    fn dst(&self) -> String {
        self.destination.to_string()
    }

    /// The argument DST.
    #[write]
    fn set_dst(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        self.destination = Destination::parse(value.trim(), &cx.names()).ok_or(BAD_DESTINATION)?;
        write_argument(cx, "DST", Some(2), value);
        self.make_template(cx);
        Ok(())
    }
}

impl Element for IPEncap {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if u8::try_from(self.protocol).is_err() {
            return Err(args.fail("bad IP protocol"));
        }
        self.destination = Destination::parse(&self.destination_argument, &args.context())
            .ok_or_else(|| args.fail(BAD_DESTINATION))?;
        let ect = match (args.context().parse::<bool>(&self.ect), self.ect.as_str()) {
            (Ok(ect), _) => u8::from(ect),
            (_, "2") => 2,
            (_, other) => return Err(args.fail(format_args!("bad ECT value '{other}'"))),
        };
        let type_of_service = type_of_service(self.tos, self.dscp, ect, self.ce);
        self.type_of_service = type_of_service.map_err(|error| args.fail(error))?;
        self.make_template(cx);
        Ok(())
    }

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
    use crate::testing::*;

    fn rig(args: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> e :: IPEncap({args}) -> c :: Collect;"
        ))
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
        rig.push_with("i", &[], |packet| {
            packet.set_dst_ip(Ipv4Addr::new(9, 8, 7, 6))
        });
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
            (", 1.0.0.1, 2.0.0.2", "bad IP protocol"),
            (
                "17, 1.0.0.1, zork",
                "DST argument should be IP address or 'DST_ANNO'",
            ),
            (
                "17, 1.0.0.1, 2.0.0.2, TOS 1, DSCP 1",
                "cannot set both TOS and DSCP",
            ),
            (
                "17, 1.0.0.1, 2.0.0.2, TOS 1, CE true",
                "cannot set both TOS and ECN bits",
            ),
            ("17, 1.0.0.1, 2.0.0.2, TOS 256", "TOS too large; max 255"),
            ("17, 1.0.0.1, 2.0.0.2, DSCP 64", "DSCP too large; max 63"),
            (
                "17, 1.0.0.1, 2.0.0.2, CE 1, ECT 1",
                "can set at most one ECN option",
            ),
            ("17, 1.0.0.1, 2.0.0.2, ECT 3", "bad ECT value '3'"),
        ] {
            Rig::refuses(&format!("Inject -> IPEncap({args}) -> Collect;"), error);
        }
    }
}
