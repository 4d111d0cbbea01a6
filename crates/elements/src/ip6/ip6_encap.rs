use crate::headers::destination::{BAD_DESTINATION, Destination};
use crate::prelude::*;

/// Puts a fixed IPv6 header in front of packets.
///
/// The payload length is set for each packet. The header is marked, and the destination address
/// annotation set to the destination.
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
#[derive(Element)]
#[element(ports = "1/1", live, handlers)]
pub struct IP6Encap {
    /// The protocol of the payload.
    #[arg(mandatory, name = "PROTO", with = NamedInt(Kind::IpProtocol), kind = "IP protocol")]
    protocol: i32,
    /// The source address.
    #[arg(mandatory, name = "SRC", read, write, config, calm)]
    source: Ipv6Addr,
    /// The destination address; with `DST_ANNO`, packets' destination address annotation says it.
    #[arg(mandatory, name = "DST", with = Any, kind = "IPv6 address or DST_ANNO")]
    destination_argument: String,
    /// Hop limit.
    #[arg(name = "HLIM", default = 250)]
    hop_limit: u8,
    /// Traffic class.
    #[arg(name = "CLASS", default = 0)]
    traffic_class: u8,
    destination: Destination<Ipv6Addr>,
}

#[handlers]
impl IP6Encap {
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
        Ok(())
    }
}

impl Element for IP6Encap {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if u8::try_from(self.protocol).is_err() {
            return Err(args.fail("bad IP protocol"));
        }
        self.destination = Destination::parse(&self.destination_argument, &args.context())
            .ok_or_else(|| args.fail(BAD_DESTINATION))?;
        Ok(())
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let length = packet.len() as u16;
        if !packet.push(Ipv6Packet::<&[u8]>::HEADER_LEN) {
            return Verdict::Drop;
        }
        let header = Ipv6Header {
            traffic_class: self.traffic_class,
            flow_label: 0,
            payload_len: length,
            next_header: IpProtocol(self.protocol as u8),
            hop_limit: self.hop_limit,
            source: self.source,
            destination: self.destination.of(packet),
        };
        header.emit(&mut Ipv6Packet::new_unchecked(packet.data_mut()));
        packet.set_network_header(0, 40);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::ip6::{addr, packet};
    use crate::testing::*;

    fn rig(args: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> e :: IP6Encap({args}) -> c :: Collect;"
        ))
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
            (
                "4, ::1, zork",
                "DST argument should be IP address or 'DST_ANNO'",
            ),
            ("4, ::1, ::2, HLIM 256", "HLIM: out of range"),
            ("4, ::1", "DST: required argument missing"),
        ] {
            Rig::refuses(&format!("Inject -> IP6Encap({args}) -> Collect;"), error);
        }
    }
}
