use crate::prelude::*;

/// Most bytes of a packet that the error about it carries.
const QUOTE_MAX: usize = 568;
/// A redirect's two addresses, and the header of the option that its quote stands in.
const REDIRECT: usize = 32 + OPTION;
const OPTION: usize = 8;
/// The option's type (RFC 4861, section 4.6.3).
const REDIRECTED_HEADER: u8 = 4;

/// Answers IPv6 packets with ICMPv6 errors or redirects.
///
/// The error is an IPv6 packet to the sender of the packet it is about, of which it carries up to
/// 568 bytes; a redirect has them in an option, as RFC 4861 asks. Its destination address
/// annotation is set, and the annotation that lets FixIPSrc replace the source address.
///
/// As RFC 4443, section 2.4, requires, these packets cause no error: ICMPv6 errors and redirects,
/// packets that arrived by link-level broadcast or multicast, packets to a multicast address, and
/// packets whose source is not a single host. Packets must have their IPv6 header marked; others
/// cause no error. Limit the rate of errors with a RatedSplitter.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> CheckIP6Header -> hops :: DecIP6HLIM -> Discard;
/// hops[1] -> ICMP6Error(2001:db8::1, 3, 0) -> limit :: RatedSplitter(10) -> Discard;
/// limit[1] -> IP6Print -> Discard;
/// ```
///
/// # See also
/// DecIP6HLIM, IP6Fragmenter, ICMPError
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct ICMP6Error {
    /// The errors' source address.
    #[arg(mandatory, name = "SRC")]
    source: Ipv6Addr,
    /// 1 unreachable, 2 packet too big, 3 time exceeded, 4 parameter problem, 137 redirect. A
    /// redirect's target is the packet's destination address annotation.
    #[arg(mandatory, name = "TYPE")]
    kind: i32,
    /// The type's particular case. The pointer of a parameter problem of code 0 is the packet's
    /// ICMP parameter problem annotation.
    #[arg(mandatory)]
    code: i32,
    /// The next link's MTU in a "packet too big" error.
    #[arg(name = "PMTU", default = 1500)]
    path_mtu: u32,
}

/// Whether an error may be sent about a packet (RFC 4443, section 2.4(e)).
fn allowed(ip: &Ipv6Packet<&[u8]>, packet_type: PacketType) -> bool {
    let source = ip.source();
    let link_group = matches!(packet_type, PacketType::Broadcast | PacketType::Multicast);
    let single_host = !source.is_multicast() && !source.is_unspecified() && !source.is_loopback();
    !link_group && single_host && !ip.destination().is_multicast() && !is_error(ip)
}

/// Whether the packet is an ICMPv6 error or redirect, or looks like one as far as it goes.
fn is_error(ip: &Ipv6Packet<&[u8]>) -> bool {
    let Ok(upper) = ip.extensions().upper_layer() else {
        return false;
    };
    // In the middle of a message nobody can tell.
    let later = upper.fragment.is_some_and(|fragment| fragment.offset > 0);
    if upper.protocol != IpProtocol::ICMPV6 || later {
        return false;
    }
    let kind = ip.bytes().get(upper.at).map(|kind| Icmpv6Type(*kind));
    kind.is_none_or(|kind| kind.is_error() || kind == Icmpv6Type::REDIRECT)
}

impl ICMP6Error {
    fn redirects(&self) -> bool {
        self.kind == i32::from(Icmpv6Type::REDIRECT.0)
    }

    /// The error about `packet`; `None` if there is to be none.
    fn answer(&self, cx: &mut Cx<'_>, packet: &Packet) -> Option<Packet> {
        let header = packet.network_header()?;
        let ip = Ipv6Packet::new_quoted(header).ok()?;
        if !allowed(&ip, packet.packet_type()) {
            return None;
        }
        let quote = header.get(..QUOTE_MAX).unwrap_or(header);
        // A redirect's quote is padded to the unit that options' lengths are in.
        let (head, quote_len) = if self.redirects() {
            (48 + REDIRECT, quote.len().next_multiple_of(8))
        } else {
            (48, quote.len())
        };
        let mut error = cx.pool().packet(HEADROOM, head + quote_len)?;
        let bytes = error.data_mut();
        bytes.fill(0);
        bytes[head..head + quote.len()].copy_from_slice(quote);
        if self.redirects() {
            bytes[48..64].copy_from_slice(&packet.dst_ip6().octets());
            bytes[64..80].copy_from_slice(&ip.destination().octets());
            bytes[80] = REDIRECTED_HEADER;
            bytes[81] = ((OPTION + quote_len) / 8) as u8;
        }
        self.write_headers(bytes, ip.source(), self.particulars(packet));
        error.set_network_header(0, 40);
        error.set_dst_ip6(ip.source());
        error.set_anno(FIX_IP_SRC, 1);
        Some(error)
    }

    fn write_headers(&self, bytes: &mut [u8], to: Ipv6Addr, rest: [u8; 4]) {
        let length = bytes.len() - 40;
        let header = Ipv6Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: length as u16,
            next_header: IpProtocol::ICMPV6,
            hop_limit: 255,
            source: self.source,
            destination: to,
        };
        let mut ip = Ipv6Packet::new_unchecked(bytes);
        header.emit(&mut ip);
        let pseudo = ip.pseudo_header(IpProtocol::ICMPV6, length as u32);
        let message = Icmpv6Header {
            icmp_type: Icmpv6Type(self.kind as u8),
            code: self.code as u8,
            rest,
        };
        let mut icmp = Icmpv6Packet::new_unchecked(ip.payload_mut());
        message.emit(&mut icmp);
        icmp.fill_checksum(pseudo);
    }

    /// Bytes 4 to 8 of the ICMPv6 header.
    fn particulars(&self, packet: &Packet) -> [u8; 4] {
        match (Icmpv6Type(self.kind as u8), self.code) {
            (Icmpv6Type::PACKET_TOO_BIG, _) => self.path_mtu.to_be_bytes(),
            (Icmpv6Type::PARAMETER_PROBLEM, 0) => packet.anno(ICMP_PARAMPROB).to_be_bytes(),
            _ => [0; 4],
        }
    }
}

impl Element for ICMP6Error {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if self.source.is_unspecified() || self.kind < 0 || !(0..256).contains(&self.code) {
            return Err(cx.error("not configured -a"));
        }
        if !matches!(self.kind, 1..=4) && !self.redirects() {
            return Err(cx.error(format_args!(
                "ICMP6 type {} is not an error or redirect type",
                self.kind
            )));
        }
        Ok(())
    }

    fn action(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let Some(error) = self.answer(cx, packet) else {
            return Verdict::Drop;
        };
        let old = core::mem::replace(packet, error);
        cx.kill(old);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::ip6::{addr, icmp, packet, udp, upper_checksum};
    use crate::testing::*;

    const CONFIG: &str = "2001:db8::ff, 3, 0";

    fn rig(args: &str) -> Rig {
        let config = format!("i :: Inject -> MarkIP6Header -> ICMP6Error({args}) -> c :: Collect;");
        Rig::new(&config)
    }

    fn ends() -> (Ipv6Addr, Ipv6Addr) {
        (addr("2001:db8::a"), addr("2001:db8::b"))
    }

    fn about(payload: &[u8]) -> Vec<u8> {
        let (a, b) = ends();
        udp((a, 5), (b, 6), payload)
    }

    #[test]
    fn the_error_goes_back_with_the_start_of_the_packet() {
        let (a, _) = ends();
        for length in [0, 5, 520, 521, 1200] {
            let packet = about(&[7; 1200][..length]);
            let mut rig = rig(CONFIG);
            rig.push("i", &packet);
            let errors = rig.collected("c");
            let quote = &packet[..packet.len().min(568)];
            let mut expected = icmp(addr("2001:db8::ff"), a, (3, 0, [0; 4]), quote);
            expected[7] = 255;
            assert_eq!(errors[0].data(), expected);
            assert_eq!(errors[0].dst_ip6(), a);
            assert_eq!(errors[0].anno(FIX_IP_SRC), 1);
            assert_eq!(errors[0].transport_offset(), Some(40));
        }
    }

    #[test]
    fn particulars_of_types() {
        let packet = about(&[]);
        let mut too_big = rig("2001:db8::ff, 2, 0, PMTU 1280");
        too_big.push("i", &packet);
        assert_eq!(too_big.data("c")[0][40..48][4..], [0, 0, 5, 0]);
        let mut problem = rig("2001:db8::ff, 4, 0");
        problem.push_with("i", &packet, |packet| packet.set_anno(ICMP_PARAMPROB, 6));
        assert_eq!(problem.data("c")[0][40..48][4..], [0, 0, 0, 6]);
    }

    #[test]
    fn a_redirect_names_target_and_destination_and_quotes_in_an_option() {
        let (a, b) = ends();
        let packet = about(&[1, 2, 3]);
        let mut rig = rig("2001:db8::ff, 137, 0");
        rig.push_with("i", &packet, |packet| packet.set_dst_ip6(addr("fe80::1")));
        let data = rig.data("c").remove(0);
        assert_eq!(data[48..64], addr("fe80::1").octets());
        assert_eq!(data[64..80], b.octets());
        // 51 bytes of packet in 56 of padding, and 8 of the option's own.
        assert_eq!((data[80], data[81], data.len()), (4, 8, 80 + 64));
        assert_eq!(data[88..139], packet);
        assert_eq!(upper_checksum(58, addr("2001:db8::ff"), a, &data[40..]), 0);
    }

    #[test]
    fn some_packets_are_not_answered() {
        let (a, b) = ends();
        let refused = [
            icmp(a, b, (1, 0, [0; 4]), &[]),
            icmp(a, b, (137, 0, [0; 4]), &[0; 32]),
            packet(58, a, b, &[]),
            packet(
                0,
                a,
                b,
                &[&[58, 0, 1, 4, 0, 0, 0, 0][..], &[3, 0, 0, 0]].concat(),
            ),
            udp((addr("ff02::1"), 5), (b, 6), &[]),
            udp((addr("::"), 5), (b, 6), &[]),
            udp((addr("::1"), 5), (b, 6), &[]),
            udp((a, 5), (addr("ff02::1"), 6), &[]),
            about(&[])[..39].to_vec(),
        ];
        let mut rig = rig(CONFIG);
        rig.push_all("i", &refused);
        for packet_type in [PacketType::Broadcast, PacketType::Multicast] {
            rig.push_with("i", &about(&[]), |packet| {
                packet.set_packet_type(packet_type)
            });
        }
        assert!(rig.data("c").is_empty());
        rig.push("i", &icmp(a, b, (128, 0, [0; 4]), &[]));
        assert_eq!(rig.data("c").len(), 1);
        assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn other_types_are_refused() {
        for (args, error) in [
            (
                "2001:db8::1, 128, 0",
                "ICMP6 type 128 is not an error or redirect type",
            ),
            ("::, 3, 0", "not configured -a"),
            ("2001:db8::1, -3, 0", "not configured -a"),
        ] {
            Rig::refuses(&format!("Inject -> ICMP6Error({args}) -> Collect;"), error);
        }
    }
}
