use crate::prelude::*;
use crate::rewriter::headers;

/// Reverses IP packets: exchanges source and destination.
///
/// Packets must have their IP header marked; others pass unchanged. In TCP and UDP packets, except
/// later fragments, the ports are exchanged too, and TCP's sequence and acknowledgment numbers. The
/// checksums stay valid.
///
/// # Example
/// ```click
/// FromDevice(eth0) -> CheckIPHeader(14) -> IPMirror -> EtherMirror
///     -> Queue -> ToDevice(eth0);
/// ```
///
/// # See also
/// EtherMirror
#[derive(Element)]
#[element(ports = "1/1")]
pub struct IPMirror {
    /// Whether to set the destination address annotation to the new destination.
    #[arg(positional, default = true)]
    dst_anno: bool,
}

impl Element for IPMirror {
    #[inline(always)]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let Some(source) = mirror_datagram(packet).or_else(|| mirror(packet)) else {
            return Verdict::Forward;
        };
        if self.dst_anno {
            packet.set_dst_ip(source);
        }
        Verdict::Forward
    }
}

/// Turns round a UDP packet, if its header is a usual one; returns the source that it had.
#[inline(always)]
fn mirror_datagram(packet: &mut Packet) -> Option<Ipv4Addr> {
    let header = packet.plain_header_mut()?;
    let key = headers::datagram_key(header)?;
    headers::set_key(header, key.reverse());
    Some(key.source())
}

/// Turns round any packet; returns the source that it had.
#[inline(never)]
fn mirror(packet: &mut Packet) -> Option<Ipv4Addr> {
    let header = packet.network_header_mut().unwrap_or_default();
    let mut ip = Ipv4Packet::new_unchecked(header.first_chunk_mut::<20>()?);
    let (source, destination) = (ip.source(), ip.destination());
    ip.set_source(destination);
    ip.set_destination(source);
    let protocol = ip.protocol();
    if matches!(protocol, IpProtocol::TCP | IpProtocol::UDP) && ip.is_first_fragment() {
        swap(packet, protocol == IpProtocol::TCP);
    }
    Some(source)
}

/// Exchanges the ports, and with `tcp` the two numbers behind them.
#[inline(always)]
fn swap(packet: &mut Packet, tcp: bool) {
    let transport = packet.transport_header_mut().unwrap_or_default();
    if let Some(&[a, b, c, d, _, _, _, _]) = transport.first_chunk()
        && let Some(ports) = transport.first_chunk_mut()
    {
        *ports = [c, d, a, b];
    }
    if let Some(header) = transport.first_chunk_mut::<12>().filter(|_| tcp) {
        let (_, numbers) = header.split_at_mut(4);
        let (sequence, acknowledgment) = numbers.split_at_mut(4);
        sequence.swap_with_slice(acknowledgment);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn addresses_ports_and_numbers_change_places() {
        let mut rig = Rig::new("i :: Inject -> CheckIPHeader -> IPMirror -> c :: Collect;");
        let segment = tcp((A, 5), (B, 6), 0x10, &[1, 2]);
        let mut turned = tcp((B, 6), (A, 5), 0x10, &[1, 2]);
        turned[24..32].copy_from_slice(&[0, 0, 0, 2, 0, 0, 0, 1]);
        rig.push_all("i", &[udp((A, 5), (B, 6), &[1]), segment, ping(A, B, &[])]);
        let packets = rig.collected("c");
        assert_eq!(packets[0].data(), udp((B, 6), (A, 5), &[1]));
        assert_eq!(packets[1].data(), turned);
        assert_eq!(packets[2].data(), ping(B, A, &[]));
        assert_eq!(packets[0].dst_ip(), A);
    }

    #[test]
    fn later_fragments_keep_what_would_be_ports() {
        let mut rig = Rig::new("i :: Inject -> CheckIPHeader2 -> IPMirror(false) -> c :: Collect;");
        let mut fragment = udp((A, 5), (B, 6), &[]);
        fragment[7] = 1;
        rig.push("i", &fragment);
        let packets = rig.collected("c");
        assert_eq!(packets[0].data()[12..16], B.octets());
        assert_eq!(packets[0].data()[20..24], [0, 5, 0, 6]);
        assert_eq!(packets[0].dst_ip(), B);
    }

    #[test]
    fn what_is_not_there_is_not_swapped() {
        let mut rig = Rig::new("i :: Inject -> IPMirror -> c :: Collect;");
        let packet = udp((A, 5), (B, 6), &[]);
        rig.push("i", &packet);
        rig.push_with("i", &packet[..19], |packet| {
            packet.set_network_header(0, 20)
        });
        assert_eq!(rig.data("c"), [packet.clone(), packet[..19].to_vec()]);
    }
}
