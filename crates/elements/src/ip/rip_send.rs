use crate::prelude::*;

/// When the first advertisement goes, in nanoseconds.
const FIRST: u64 = 3_000_000_000;
/// Between two advertisements (RFC 2453, section 3.8).
const INTERVAL: u64 = 30_000_000_000;
/// The port that RIP has.
const PORT: u16 = 520;
/// Lengths of the headers and of a response with one route.
const IP: usize = 20;
const UDP: usize = 8;
const RESPONSE: usize = 24;

/// Advertises a route by RIP version 2 (RFC 2453), every thirty seconds.
///
/// The packets have UDP and IP headers, and name their source as next hop. It only sends: it does
/// not listen to other routers.
///
/// # Example
/// ```click
/// RIPSend(18.26.4.24, 18.26.4.255, 10.0.0.0/8, 10)
///     -> EtherEncap(0x0800, 0:0:c0:ae:67:ef, ff:ff:ff:ff:ff:ff)
///     -> Queue -> ToDevice(eth0);
/// ```
///
/// # See also
/// UDPIPEncap, RadixIPLookup
#[derive(Element)]
#[element(ports = "0/1", processing = "h")]
#[outputs("advertisements")]
pub struct RIPSend {
    /// The packets' source address.
    #[arg(mandatory, name = "SRC")]
    source: Ipv4Addr,
    /// The packets' destination address.
    #[arg(mandatory, name = "DST")]
    destination: Ipv4Addr,
    /// The route's destination.
    #[arg(mandatory)]
    #[init(Ipv4Prefix::ANY)]
    prefix: Ipv4Prefix,
    /// Number of hops to the destination, from 1; 16 is unreachable.
    #[arg(mandatory)]
    metric: i32,
}

impl RIPSend {
    /// A response with one route (RFC 2453, section 4).
    fn response(&self) -> [u8; RESPONSE] {
        /// Command 2 is a response, version 2; the address family is IP, the tag 0.
        const FIXED: [u8; 8] = [2, 2, 0, 0, 0, 2, 0, 0];
        let mut bytes = [0; RESPONSE];
        for (place, part) in bytes[8..].chunks_mut(4).zip([
            self.prefix.address.octets(),
            self.prefix.mask.octets(),
            self.source.octets(),
            self.metric.to_be_bytes(),
        ]) {
            place.copy_from_slice(&part);
        }
        bytes[..8].copy_from_slice(&FIXED);
        bytes
    }

    fn make(&self, cx: &mut Cx<'_>) -> Option<Packet> {
        let (source, destination) = (self.source, self.destination);
        let mut packet = cx.pool().packet(packet::HEADROOM, IP + UDP + RESPONSE)?;
        let header = Ipv4Header {
            tos: 0,
            total_len: (IP + UDP + RESPONSE) as u16,
            ident: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 200,
            protocol: IpProtocol::UDP,
            source,
            destination,
        };
        let (ip, datagram) = packet.data_mut().split_first_chunk_mut::<IP>()?;
        *ip = header.to_bytes();
        datagram.get_mut(UDP..)?.copy_from_slice(&self.response());
        let length = (UDP + RESPONSE) as u16;
        let mut udp = UdpPacket::new_unchecked(datagram);
        udp.set_source(PORT);
        udp.set_destination(PORT);
        udp.set_length(length);
        udp.fill_checksum(pseudo_header_v4(
            source,
            destination,
            IpProtocol::UDP.0,
            length,
        ));
        packet.set_network_header(0, IP);
        Some(packet)
    }
}

impl Element for RIPSend {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let timer = cx.timer();
        cx.schedule_after(timer, FIRST);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        if let Some(packet) = self.make(cx) {
            cx.emit(0, packet);
        }
        cx.schedule_after(timer, INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn advertisements_come_every_thirty_seconds() {
        let config = "RIPSend(1.0.0.1, 1.0.0.255, 10.0.0.0/8, 10) -> c :: Collect;";
        let mut rig = Rig::new(config);
        rig.advance(2_999_000_000);
        assert!(rig.data("c").is_empty());
        rig.advance(31_000_000_000);
        let response = [
            2, 2, 0, 0, 0, 2, 0, 0, 10, 0, 0, 0, 255, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 10,
        ];
        let (from, to) = (Ipv4Addr::new(1, 0, 0, 1), Ipv4Addr::new(1, 0, 0, 255));
        let mut expected = udp((from, 520), (to, 520), &response);
        expected[8] = 200;
        expected[10..12].fill(0);
        let sum = checksum(&expected[..20]);
        expected[10..12].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(rig.data("c"), [&expected[..]; 2]);
    }

    #[test]
    fn all_arguments_are_needed() {
        Rig::refuses(
            "RIPSend(1.0.0.1, 1.0.0.255, 10.0.0.0/8) -> Discard;",
            "METRIC: required argument missing",
        );
    }
}
