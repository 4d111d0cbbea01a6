use crate::headers::destination::Destination;
use crate::prelude::*;

/// Length of both headers.
const HEADERS: usize = 48;

/// Puts fixed UDP and IPv6 headers in front of packets.
///
/// Lengths and checksum are each packet's own: over IPv6, UDP always has a checksum. The IPv6
/// header is marked, and the destination address annotation set to the destination.
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
#[derive(Element)]
#[element(ports = "1/1", live, handlers)]
pub struct UDPIP6Encap {
    /// The source address.
    #[arg(mandatory, name = "SRC", read, write, config)]
    source: Ipv6Addr,
    /// The source port.
    #[arg(mandatory, name = "SPORT", with = Port::UDP, kind = "port", read, write, config)]
    source_port: u16,
    /// The destination address; with `DST_ANNO`, the packet's destination address annotation.
    #[arg(
        mandatory,
        name = "DST",
        with = Any,
        kind = "IPv6 address or DST_ANNO",
        write,
        config,
        then = set_destination
    )]
    destination_text: String,
    /// The destination port.
    #[arg(mandatory, name = "DPORT", with = Port::UDP, kind = "port", read, write, config)]
    destination_port: u16,
    destination: Destination<Ipv6Addr>,
}

#[handlers]
impl UDPIP6Encap {
    /// The argument DST.
    #[read]
    fn dst(&self) -> String {
        self.destination.to_string()
    }

    fn set_destination(&mut self, cx: &mut Cx<'_>) -> Result<(), &'static str> {
        let destination = Destination::parse(&self.destination_text, &cx.names());
        self.destination = destination.ok_or("bad DST")?;
        Ok(())
    }
}

impl Element for UDPIP6Encap {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let destination = Destination::parse(&self.destination_text, &args.context());
        self.destination = destination.ok_or_else(|| args.fail("bad DST"))?;
        Ok(())
    }

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
            source: self.source_port,
            destination: self.destination_port,
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
    use crate::testing::ip6::{addr, udp};
    use crate::testing::*;

    fn rig(args: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> e :: UDPIP6Encap({args}) -> c :: Collect;"
        ))
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
        rig.assert_handlers(&[("e.dst", "DST_ANNO"), ("e.dport", "81")]);
        rig.push_with("i", &[], |packet| packet.set_dst_ip6(addr("2001:db8::7")));
        let expected = udp((addr("2001:db8::3"), 80), (addr("2001:db8::7"), 81), &[]);
        assert_eq!(rig.data("c")[0][8..], expected[8..]);
        assert!(rig.try_write("e.dst", "zork").is_err());
        Rig::refuses(
            "Inject -> UDPIP6Encap(::1, 1, zork, 1) -> Collect;",
            "bad DST",
        );
    }
}
