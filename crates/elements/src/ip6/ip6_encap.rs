use alloc::string::String;
use core::net::Ipv6Addr;

use packet::Packet;
use packet::wire::{IpProtocol, Ipv6Header, Ipv6Packet};
use router::args::{Any, Args, Failed, Kind, NamedInt, unparse};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList, Verdict};

use crate::destination::Destination;
use crate::values;

/// Puts a fixed IPv6 header in front of packets.
///
/// The payload's length is each packet's own. The header is marked, and the destination address
/// annotation set to the destination.
///
/// # Arguments
/// - `PROTO` (integer or name): what the packets carry.
/// - `SRC` (IPv6 address): who they are from.
/// - `DST` (IPv6 address or `DST_ANNO`): who they are for; with `DST_ANNO`, whom their destination
///   address annotation says.
/// - `HLIM` (integer, 250): hop limit.
/// - `CLASS` (integer, 0): traffic class.
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
///     -> IP6Encap(4, 2001:db8::1, 2001:db8::2, HLIM 20)
///     -> IP6Print -> Discard;
/// ```
///
/// # See also
/// UDPIP6Encap, IPEncap
pub struct IP6Encap {
    header: Ipv6Header,
    destination: Destination<Ipv6Addr>,
}

impl Default for IP6Encap {
    fn default() -> Self {
        IP6Encap {
            header: Ipv6Header {
                traffic_class: 0,
                flow_label: 0,
                payload_len: 0,
                next_header: IpProtocol(0),
                hop_limit: 250,
                source: Ipv6Addr::UNSPECIFIED,
                destination: Ipv6Addr::UNSPECIFIED,
            },
            destination: Destination::Annotation,
        }
    }
}

impl Class for IP6Encap {
    const NAME: &'static str = "IP6Encap";
    const PORTS: &'static str = "1/1";
}

impl Declared for IP6Encap {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut protocol, mut to) = (0i32, String::new());
        let mut header = IP6Encap::default().header;
        args.mandatory_positional_with("PROTO", NamedInt(Kind::IpProtocol), &mut protocol)
            .mandatory_positional("SRC", &mut header.source)
            .mandatory_positional_with("DST", Any, &mut to)
            .keyword("HLIM", &mut header.hop_limit)
            .keyword("CLASS", &mut header.traffic_class)
            .complete()?;
        let protocol = u8::try_from(protocol).map_err(|_| args.fail("bad IP protocol"))?;
        header.next_header = IpProtocol(protocol);
        self.destination = Destination::parse(&to, &args.context())
            .ok_or_else(|| args.fail("DST argument should be IP address or 'DST_ANNO'"))?;
        self.header = header;
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        for name in ["src", "dst"] {
            list.read_write(name).add(name, HandlerFlags::CALM);
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "src" => Ok(unparse::ip6(self.header.source)),
            "dst" => Ok(alloc::format!("{}", self.destination)),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "src" => values::argument(cx, 1, "SRC", value, &mut self.header.source),
            "dst" => {
                let destination = Destination::parse(value.trim(), &cx.names())
                    .ok_or("DST argument should be IP address or 'DST_ANNO'")?;
                values::argument_with(cx, 2, "DST", value, Any, &mut String::new())?;
                self.destination = destination;
                Ok(())
            }
            _ => Err(HandlerError::Unknown),
        }
    }
}

impl Element for IP6Encap {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let length = packet.len() as u16;
        if !packet.push(Ipv6Packet::<&[u8]>::HEADER_LEN) {
            return Verdict::Drop;
        }
        let header = Ipv6Header {
            payload_len: length,
            destination: self.destination.of(packet),
            ..self.header
        };
        header.emit(&mut Ipv6Packet::new_unchecked(packet.data_mut()));
        packet.set_network_header(0, 40);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use crate::testing::Rig;
    use crate::testing::ip6::{addr, packet};

    fn rig(args: &str) -> Rig {
        Rig::new(&format!("i :: Inject -> e :: IP6Encap({args}) -> c :: Collect;"))
    }

    #[test]
    fn the_header_goes_in_front_and_is_marked() {
        let mut rig = rig("udp, 2001:db8::1, 2001:db8::2, HLIM 64, CLASS 0xb8");
        rig.push("i", &[1, 2, 3]);
        let packets = rig.collected("c");
        let mut expected = packet(17, addr("2001:db8::1"), addr("2001:db8::2"), &[1, 2, 3]);
        expected[..2].copy_from_slice(&[0x6b, 0x80]);
        assert_eq!(packets[0].data(), expected);
        assert_eq!(packets[0].dst_ip6(), addr("2001:db8::2"));
        assert_eq!(packets[0].transport_offset(), Some(40));
    }

    #[test]
    fn the_annotation_may_say_where_to() {
        let mut rig = rig("4, ::1, DST_ANNO");
        rig.push_with("i", &[], |packet| packet.set_dst_ip6(addr("::9")));
        let data = rig.data("c");
        assert_eq!(data[0][24..40], addr("::9").octets());
        assert_eq!(data[0][7], 250);
    }

    #[test]
    fn handlers_change_the_addresses() {
        let mut rig = rig("4, 2001:db8::1, DST_ANNO");
        assert_eq!(rig.read("e.dst"), "DST_ANNO");
        rig.write("e.dst", "2001:db8::9");
        rig.write("e.src", "2001:db8::8");
        assert_eq!(rig.read("e.config"), "4, 2001:db8::8, 2001:db8::9");
        rig.push("i", &[]);
        let data = rig.data("c");
        assert_eq!(data[0][8..24], addr("2001:db8::8").octets());
        assert_eq!(data[0][24..], addr("2001:db8::9").octets());
        assert!(rig.try_write("e.dst", "zork").is_err());
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for (args, error) in [
            ("256, ::1, ::2", "bad IP protocol"),
            ("4, ::1, zork", "DST argument should be IP address or 'DST_ANNO'"),
            ("4, ::1, ::2, HLIM 256", "HLIM: out of range"),
            ("4, ::1", "DST: required argument missing"),
        ] {
            let errors = Rig::errors(&format!("Inject -> IP6Encap({args}) -> Collect;"));
            assert!(errors.contains(error), "{errors}");
        }
    }
}
