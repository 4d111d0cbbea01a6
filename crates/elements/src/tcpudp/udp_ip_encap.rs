use crate::headers::destination::Destination;
use crate::prelude::*;

/// Length of both headers.
const HEADERS: usize = 28;

/// Puts fixed UDP and IP headers in front of packets.
///
/// Lengths, identification (which counts up from 0) and checksums are set for each packet. The IP
/// header is marked, and the destination address annotation set to the destination.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1, STOP true)
///     -> UDPIPEncap(1.0.0.1, 1234, 2.0.0.2, 1234)
///     -> IPPrint -> Discard;
/// ```
///
/// # See also
/// IPEncap, Strip
#[derive(Element)]
#[element(ports = "1/1", live, handlers)]
pub struct UDPIPEncap {
    /// The source address.
    #[arg(mandatory, name = "SRC", read, write, config)]
    pub(super) source: Ipv4Addr,
    /// The source port.
    #[arg(mandatory, name = "SPORT", with = Port::UDP, kind = "port", read, write, config)]
    pub(super) source_port: u16,
    /// The destination address; with `DST_ANNO`, the packet's destination address annotation.
    #[arg(
        mandatory,
        name = "DST",
        with = Any,
        kind = "IP address or DST_ANNO",
        write,
        config,
        then = set_destination
    )]
    destination_text: String,
    /// The destination port.
    #[arg(mandatory, name = "DPORT", with = Port::UDP, kind = "port", read, write, config)]
    pub(super) destination_port: u16,
    /// Whether to compute the UDP checksum.
    #[arg(positional, default = true)]
    pub(super) checksum: bool,
    pub(super) destination: Destination<Ipv4Addr>,
    ident: u16,
}

impl UDPIPEncap {
    /// The headers of a packet of `length` bytes, both included, to `destination`. `payload` is the sum over what
    /// follows them, if there is to be a checksum.
    #[inline(always)]
    fn headers(&self, length: u16, destination: Ipv4Addr, payload: Option<Sum>) -> [u8; HEADERS] {
        let ip = Ipv4Header {
            tos: 0,
            total_len: length,
            ident: self.ident,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 250,
            protocol: IpProtocol::UDP,
            source: self.source,
            destination,
        };
        let udp = UdpHeader {
            source: self.source_port,
            destination: self.destination_port,
            length: length.wrapping_sub(Ipv4Packet::<&[u8]>::HEADER_LEN as u16),
        };
        let mut bytes = [0; HEADERS];
        let (first, second) = bytes.split_at_mut(Ipv4Packet::<&[u8]>::HEADER_LEN);
        ip.emit(&mut Ipv4Packet::new_unchecked(first));
        let mut datagram = UdpPacket::new_unchecked(second);
        udp.emit(&mut datagram);
        if let Some(payload) = payload {
            let protocol = IpProtocol::UDP.0;
            let pseudo = pseudo_header_v4(self.source, destination, protocol, udp.length);
            let ports = Sum::ZERO.add_u16(udp.source).add_u16(udp.destination);
            datagram.set_checksum_of(pseudo + ports.add_u16(udp.length) + payload);
        }
        bytes
    }
}

#[handlers]
impl UDPIPEncap {
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

impl Element for UDPIPEncap {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let destination = Destination::parse(&self.destination_text, &args.context());
        self.destination = destination.ok_or_else(|| args.fail("bad DST"))?;
        Ok(())
    }

    #[inline]
    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        // Before the headers are there: bytes that were just written are slow to read.
        let length = (packet.len() + HEADERS) as u16;
        let payload = self.checksum.then(|| {
            let covered = usize::from(length).saturating_sub(HEADERS);
            Sum::of(&packet.data()[..covered.min(packet.len())])
        });
        if !packet.push(HEADERS) {
            return Verdict::Drop;
        }
        let destination = self.destination.of(packet);
        let headers = self.headers(length, destination, payload);
        self.ident = self.ident.wrapping_add(1);
        if let Some(place) = packet.data_mut().first_chunk_mut() {
            *place = headers;
        }
        packet.set_network_header(0, 20);
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn rig(args: &str) -> Rig {
        Rig::new(&format!(
            "i :: Inject -> e :: UDPIPEncap({args}) -> c :: Collect;"
        ))
    }

    #[test]
    fn both_headers_go_in_front() {
        let mut rig = rig("1.0.0.1, 53, 2.0.0.2, 99");
        let (a, b) = (Ipv4Addr::new(1, 0, 0, 1), Ipv4Addr::new(2, 0, 0, 2));
        for length in 0..40 {
            rig.push("i", &[7; 40][..length]);
            let packets = rig.collected("c");
            let expected = udp((a, 53), (b, 99), &[7; 40][..length]);
            let made = packets[0].data();
            assert_eq!(made[20..], expected[20..]);
            assert_eq!(crate::testing::checksum(&made[..20]), 0);
            assert_eq!(
                (made[2..4].to_vec(), made[8]),
                (expected[2..4].to_vec(), 250)
            );
            assert_eq!(made[5], length as u8);
            assert_eq!(packets[0].dst_ip(), b);
            assert_eq!(packets[0].transport_offset(), Some(20));
        }
    }

    #[test]
    fn annotation_and_no_checksum() {
        let mut rig = rig("1.0.0.1, 53, DST_ANNO, 99, false");
        rig.push_with("i", &[1], |packet| {
            packet.set_dst_ip(Ipv4Addr::new(9, 8, 7, 6))
        });
        let packet = rig.data("c").remove(0);
        assert_eq!(packet[16..20], [9, 8, 7, 6]);
        assert_eq!(packet[26..28], [0, 0]);
    }

    #[test]
    fn handlers_change_the_arguments() {
        let mut rig = rig("1.0.0.1, 53, 2.0.0.2, 99");
        rig.write("e.src", "3.0.0.3");
        rig.write("e.sport", "80");
        rig.write("e.dst", "DST_ANNO");
        rig.write("e.dport", "81");
        assert_eq!(rig.read("e.config"), "3.0.0.3, 80, DST_ANNO, 81");
        rig.assert_handlers(&[("e.dst", "DST_ANNO"), ("e.dport", "81")]);
        assert!(rig.try_write("e.dst", "zork").is_err());
        Rig::refuses(
            "Inject -> UDPIPEncap(1.1.1.1, 1, zork, 1) -> Collect;",
            "bad DST",
        );
    }
}
