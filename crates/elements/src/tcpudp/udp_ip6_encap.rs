use alloc::string::{String, ToString};
use core::net::Ipv6Addr;

use packet::Packet;
use packet::wire::{IpProtocol, Ipv6Header, Ipv6Packet, UdpHeader, UdpPacket};
use router::args::{Any, Args, Failed, Port, unparse};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Verdict};

use crate::destination::Destination;
use crate::values;

/// Length of both headers.
const HEADERS: usize = 48;

/// Puts fixed UDP and IPv6 headers in front of packets.
///
/// Lengths and checksum are each packet's own: over IPv6, UDP always has a checksum. The IPv6
/// header is marked, and the destination address annotation set to the destination.
///
/// # Arguments
/// - `SRC` (IPv6 address), `SPORT` (port): who they are from.
/// - `DST` (IPv6 address or `DST_ANNO`), `DPORT` (port): who they are for; with `DST_ANNO`, whom
///   their destination address annotation says.
///
/// # Ports
/// One input, one output, agnostic.
///
/// # Handlers
/// - `src`, `sport`, `dst`, `dport` (read, write): the arguments.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1, STOP true)
///     -> UDPIP6Encap(2001:db8::1, 1234, 2001:db8::2, 1234)
///     -> IP6Print -> Discard;
/// ```
///
/// # See also
/// IP6Encap, UDPIPEncap, Strip
pub struct UDPIP6Encap {
    source: Ipv6Addr,
    destination: Destination<Ipv6Addr>,
    ports: (u16, u16),
}

impl Default for UDPIP6Encap {
    fn default() -> Self {
        UDPIP6Encap {
            source: Ipv6Addr::UNSPECIFIED,
            destination: Destination::Annotation,
            ports: (0, 0),
        }
    }
}

impl Class for UDPIP6Encap {
    const NAME: &'static str = "UDPIP6Encap";
    const PORTS: &'static str = "1/1";
}

impl Declared for UDPIP6Encap {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut to = String::new();
        let mut new = UDPIP6Encap::default();
        args.mandatory_positional("SRC", &mut new.source)
            .mandatory_positional_with("SPORT", Port::UDP, &mut new.ports.0)
            .mandatory_positional_with("DST", Any, &mut to)
            .mandatory_positional_with("DPORT", Port::UDP, &mut new.ports.1)
            .complete()?;
        new.destination =
            Destination::parse(&to, &args.context()).ok_or_else(|| args.fail("bad DST"))?;
        *self = new;
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        for name in ["src", "sport", "dst", "dport"] {
            list.read_write(name);
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        Ok(match name {
            "src" => unparse::ip6(self.source),
            "sport" => self.ports.0.to_string(),
            "dst" => self.destination.to_string(),
            "dport" => self.ports.1.to_string(),
            _ => return Err(HandlerError::Unknown),
        })
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let ports = &mut self.ports;
        match name {
            "src" => values::argument(cx, 0, "SRC", value, &mut self.source),
            "sport" => values::argument_with(cx, 1, "SPORT", value, Port::UDP, &mut ports.0),
            "dport" => values::argument_with(cx, 3, "DPORT", value, Port::UDP, &mut ports.1),
            "dst" => {
                let destination =
                    Destination::parse(value.trim(), &cx.names()).ok_or("bad DST")?;
                values::argument_with(cx, 2, "DST", value, Any, &mut String::new())?;
                self.destination = destination;
                Ok(())
            }
            _ => Err(HandlerError::Unknown),
        }
    }
}

impl Element for UDPIP6Encap {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if !packet.push(HEADERS) {
            return Verdict::Drop;
        }
        let destination = self.destination.of(packet);
        let length = (packet.len() - 40) as u16;
        let header = Ipv6Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: length,
            next_header: IpProtocol::UDP,
            hop_limit: 255,
            source: self.source,
            destination,
        };
        let mut ip = Ipv6Packet::new_unchecked(packet.data_mut());
        header.emit(&mut ip);
        let pseudo = ip.pseudo_header(IpProtocol::UDP, length.into());
        let header = UdpHeader {
            source: self.ports.0,
            destination: self.ports.1,
            length,
        };
        let mut udp = UdpPacket::new_unchecked(ip.payload_mut());
        header.emit(&mut udp);
        udp.fill_checksum(pseudo);
        packet.set_network_header(0, 40);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use crate::testing::Rig;
    use crate::testing::ip6::{addr, udp};

    fn rig(args: &str) -> Rig {
        Rig::new(&format!("i :: Inject -> e :: UDPIP6Encap({args}) -> c :: Collect;"))
    }

    #[test]
    fn both_headers_go_in_front() {
        let mut rig = rig("2001:db8::1, 53, 2001:db8::2, 99");
        let (a, b) = (addr("2001:db8::1"), addr("2001:db8::2"));
        for length in 0..40 {
            rig.push("i", &[7; 40][..length]);
            let packets = rig.collected("c");
            let mut expected = udp((a, 53), (b, 99), &[7; 40][..length]);
            expected[7] = 255;
            assert_eq!(packets[0].data(), expected);
            assert_eq!(packets[0].dst_ip6(), b);
            assert_eq!(packets[0].transport_offset(), Some(40));
        }
    }

    #[test]
    fn handlers_change_the_arguments() {
        let mut rig = rig("2001:db8::1, 53, 2001:db8::2, 99");
        rig.write("e.src", "2001:db8::3");
        rig.write("e.sport", "80");
        rig.write("e.dst", "DST_ANNO");
        rig.write("e.dport", "81");
        assert_eq!(rig.read("e.config"), "2001:db8::3, 80, DST_ANNO, 81");
        assert_eq!((rig.read("e.dst"), rig.read("e.dport")), ("DST_ANNO".into(), "81".into()));
        rig.push_with("i", &[], |packet| packet.set_dst_ip6(addr("2001:db8::7")));
        let expected = udp((addr("2001:db8::3"), 80), (addr("2001:db8::7"), 81), &[]);
        assert_eq!(rig.data("c")[0][8..], expected[8..]);
        assert!(rig.try_write("e.dst", "zork").is_err());
        let errors = Rig::errors("Inject -> UDPIP6Encap(::1, 1, zork, 1) -> Collect;");
        assert!(errors.contains("bad DST"), "{errors}");
    }
}
