use crate::prelude::*;

/// Bytes of a UDP header, and of the part that all ICMP messages have.
const SHORT: usize = 8;

/// Removes the TCP, UDP or ICMP header of packets, and all bytes before it.
///
/// The header follows the IP header that is marked; the marks stay, so UnstripIPHeader restores
/// both. Packets of other protocols lose what is before the transport header; packets without a
/// marked header pass unchanged.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> MarkIPHeader(14) -> StripTransportHeader -> Print -> UnstripIPHeader
///     -> Discard;
/// ```
///
/// # See also
/// StripIPHeader, UnstripIPHeader
#[derive(Element)]
#[element(ports = "1/1", alias("StripTCPHeader", "StripUDPHeader"))]
pub struct StripTransportHeader;

/// The bytes before a packet's payload.
fn headers(packet: &Packet) -> Option<usize> {
    let protocol = IpProtocol(*packet.network_header()?.get(9)?);
    let length = match protocol {
        IpProtocol::TCP => usize::from(packet.transport_header()?.get(12)? >> 4) * 4,
        IpProtocol::UDP | IpProtocol::ICMP => SHORT,
        _ => 0,
    };
    let offset = packet.transport_offset()?;
    usize::try_from(offset + length as isize).ok()
}

impl Element for StripTransportHeader {
    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        if let Some(bytes) = headers(packet) {
            packet.pull(bytes);
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn payloads(config: &str) {
        let mut rig = Rig::new(config);
        let (from, to) = (([1; 4].into(), 1), ([2; 4].into(), 2));
        let mut options = tcp(from, to, 0, &[1, 1, 1, 1, 5, 6]);
        options[32] = 0x60;
        for packet in [
            tcp(from, to, 0, &[5, 6]),
            options,
            udp(from, to, &[5, 6]),
            ping(from.0, to.0, &[5, 6]),
        ] {
            rig.push("i", &packet);
            assert_eq!(rig.data("c"), [[5, 6]], "{packet:?}");
        }
    }

    #[test]
    fn the_payload_is_left() {
        payloads("i :: Inject -> MarkIPHeader -> StripTransportHeader -> c :: Collect;");
        payloads("i :: Inject -> MarkIPHeader -> StripIPHeader -> StripTCPHeader -> c :: Collect;");
    }

    #[test]
    fn headers_come_back_and_other_packets_pass() {
        let config =
            "i :: Inject -> MarkIPHeader -> StripUDPHeader -> UnstripIPHeader -> c :: Collect;
            j :: Inject -> StripTransportHeader -> c;";
        let mut rig = Rig::new(config);
        let packet = udp(([1; 4].into(), 1), ([2; 4].into(), 2), &[5, 6]);
        rig.push("i", &packet);
        rig.push("j", &packet);
        assert_eq!(rig.data("c"), [&packet[..], &packet]);
    }
}
