use crate::prelude::*;

/// Reverses IPv6 packets: exchanges source and destination.
///
/// Packets must have their IPv6 header marked; others pass unchanged. In TCP and UDP packets, also
/// after extension headers, the ports are exchanged too, except in later fragments. The checksums
/// stay valid.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> Strip(14) -> CheckIP6Header -> IP6Mirror -> IP6Print -> Discard;
/// ```
///
/// # See also
/// IPMirror, EtherMirror
#[derive(Element)]
#[element(ports = "1/1", segments)]
pub struct IP6Mirror;

/// Where the ports are, in bytes from the start of the header.
#[inline(always)]
fn ports_at<T: AsRef<[u8]>>(ip: &Ipv6Packet<T>) -> Option<usize> {
    let has_ports = |protocol| matches!(protocol, IpProtocol::TCP | IpProtocol::UDP);
    if has_ports(ip.next_header()) {
        return Some(Ipv6Packet::<T>::HEADER_LEN);
    }
    let upper = ip.extensions().upper_layer().ok()?;
    let first = upper.fragment.is_none_or(|fragment| fragment.offset == 0);
    (first && has_ports(upper.protocol)).then_some(upper.at)
}

impl Element for IP6Mirror {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let header = packet.network_header_mut().unwrap_or_default();
        let Ok(mut ip) = Ipv6Packet::new_quoted(header) else {
            return Verdict::Forward;
        };
        let (source, destination) = (ip.source(), ip.destination());
        ip.set_source(destination);
        ip.set_destination(source);
        let ports = ports_at(&ip);
        let bytes = ip.into_inner();
        // Eight bytes must be there, as in a UDP header.
        if let Some(place) = ports.and_then(|at| bytes.get_mut(at..at + 8))
            && let [a, b, c, d, ..] = *place
        {
            place[..4].copy_from_slice(&[c, d, a, b]);
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::ip6::{addr, icmp, packet, tcp, udp};
    use crate::testing::*;

    #[test]
    fn addresses_and_ports_change_places() {
        let mut rig = Rig::new("i :: Inject -> CheckIP6Header -> IP6Mirror -> c :: Collect;");
        let (a, b) = (addr("2001:db8::a"), addr("2001:db8::b"));
        let echo = (128, 0, [0, 1, 0, 2]);
        rig.push_all(
            "i",
            &[
                udp((a, 5), (b, 6), &[1]),
                tcp((a, 5), (b, 6), 2, &[]),
                icmp(a, b, echo, &[3]),
            ],
        );
        let turned = [
            udp((b, 6), (a, 5), &[1]),
            tcp((b, 6), (a, 5), 2, &[]),
            icmp(b, a, echo, &[3]),
        ];
        assert_eq!(rig.data("c"), turned);
    }

    #[test]
    fn ports_are_found_behind_extension_headers_but_not_in_later_fragments() {
        let mut rig = Rig::new("i :: Inject -> CheckIP6Header -> IP6Mirror -> c :: Collect;");
        let (a, b) = (addr("2001:db8::a"), addr("2001:db8::b"));
        let fragment = |offset: u8| {
            let udp = udp((a, 5), (b, 6), &[]);
            let extension = [17, 0, 0, offset, 0, 0, 0, 9];
            packet(44, a, b, &[&extension[..], &udp[40..]].concat())
        };
        rig.push_all("i", &[fragment(1), fragment(8)]);
        let data = rig.data("c");
        assert_eq!(data[0][48..52], [0, 6, 0, 5]);
        assert_eq!(data[1][48..52], [0, 5, 0, 6]);
        // Too short for ports, and for a header.
        rig.push("i", &packet(17, a, b, &[1, 2, 3, 4, 5, 6, 7]));
        assert_eq!(rig.data("c")[0][40..], [1, 2, 3, 4, 5, 6, 7]);
        let mut rig = Rig::new("i :: Inject -> IP6Mirror -> c :: Collect;");
        rig.push_with("i", &[0x60; 39], |packet| packet.set_network_header(0, 40));
        assert_eq!(rig.data("c"), [[0x60; 39]]);
    }
}
