//! A UDP datagram in IPv4 or IPv6 that becomes its own answer.

use crate::prelude::*;

const TTL: u8 = 64;
const UDP: usize = UdpPacket::<&[u8]>::HEADER_LEN;

/// Where the headers of a datagram are in its packet.
#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    /// The IP header, in bytes from the start of the data.
    network: usize,
    /// The UDP header.
    transport: usize,
    is_ip6: bool,
}

impl Datagram {
    /// The datagram of a packet whose IP header is marked; `None` if it is none, a fragment, or one that has
    /// a wrong checksum. IPv6 extension headers are not passed over.
    pub fn of(packet: &Packet) -> Option<Datagram> {
        let network = usize::try_from(packet.network_offset()?).ok()?;
        let bytes = packet.data().get(network..)?;
        let is_ip6 = bytes.first()? >> 4 == 6;
        let (header_len, udp, pseudo) = if is_ip6 {
            let ip = Ipv6Packet::new_checked(bytes).ok()?;
            let at = Ipv6Packet::<&[u8]>::HEADER_LEN;
            let payload = bytes.get(at..at + usize::from(ip.payload_len()))?;
            let udp = UdpPacket::new_checked(payload).ok()?;
            let is_udp = ip.next_header() == IpProtocol::UDP && udp.checksum() != 0;
            let pseudo = ip.pseudo_header(IpProtocol::UDP, udp.length().into());
            (at, Some(udp).filter(|_| is_udp)?, pseudo)
        } else {
            let ip = Ipv4Packet::new_checked(bytes).ok()?;
            let payload = bytes.get(ip.header_len()..usize::from(ip.total_len()))?;
            let udp = UdpPacket::new_checked(payload).ok()?;
            let is_udp = ip.protocol() == IpProtocol::UDP && !ip.is_fragment();
            let (from, to) = (ip.source(), ip.destination());
            let pseudo = pseudo_header_v4(from, to, IpProtocol::UDP.0, udp.length());
            (ip.header_len(), Some(udp).filter(|_| is_udp)?, pseudo)
        };
        let datagram = Datagram {
            network,
            transport: network + header_len,
            is_ip6,
        };
        udp.verify_checksum(pseudo).then_some(datagram)
    }

    /// The datagram's data.
    pub fn payload<'p>(&self, packet: &'p Packet) -> &'p [u8] {
        let bytes = packet.data().get(self.transport..);
        let udp = bytes.and_then(|bytes| UdpPacket::new_checked(bytes).ok());
        udp.map_or(&[], |udp| {
            let end = self.transport + usize::from(udp.length());
            packet
                .data()
                .get(self.transport + UDP..end)
                .unwrap_or_default()
        })
    }

    /// The address that it is sent to, if it is IPv4.
    pub fn destination_v4(&self, packet: &Packet) -> Option<Ipv4Addr> {
        let ip = Ipv4Packet::new_checked(packet.data().get(self.network..)?).ok()?;
        Some(ip.destination())
    }

    /// Makes the packet the answer with these data: it goes back to the sender, and its annotations say
    /// so. What stands before the IP header stays. `None` if there is no room, or the datagram is to a group.
    pub fn answer(&self, packet: &mut Packet, payload: &[u8]) -> Option<()> {
        let length = self.transport + UDP + payload.len();
        if length > packet.len() && !packet.put(length - packet.len()) {
            return None;
        }
        packet.truncate(length);
        let bytes = packet.data_mut();
        bytes
            .get_mut(self.transport + UDP..)?
            .copy_from_slice(payload);
        let (header, segment) = bytes.split_at_mut_checked(self.transport)?;
        let header = header.get_mut(self.network..)?;
        let udp_len = u16::try_from(segment.len()).ok()?;
        let mut udp = UdpPacket::new_unchecked(segment);
        let (source, destination) = (udp.source(), udp.destination());
        udp.set_source(destination);
        udp.set_destination(source);
        udp.set_length(udp_len);
        if self.is_ip6 {
            let mut ip = Ipv6Packet::new_unchecked(header);
            let (source, destination) = (ip.source(), ip.destination());
            if destination.is_multicast() || source.is_multicast() {
                return None;
            }
            ip.set_source(destination);
            ip.set_destination(source);
            ip.set_payload_len(udp_len);
            ip.set_hop_limit(TTL);
            udp.fill_checksum(ip.pseudo_header(IpProtocol::UDP, udp_len.into()));
            packet.set_dst_ip6(source);
        } else {
            let total_len = u16::try_from(header.len() + usize::from(udp_len)).ok()?;
            let mut ip = Ipv4Packet::new_unchecked(header);
            let (source, destination) = (ip.source(), ip.destination());
            if [source, destination]
                .iter()
                .any(|it| it.is_multicast() || it.is_broadcast())
            {
                return None;
            }
            ip.set_source(destination);
            ip.set_destination(source);
            ip.set_total_len(total_len);
            ip.set_fragment(false, false, 0);
            ip.set_ttl(TTL);
            ip.fill_checksum();
            let pseudo = pseudo_header_v4(destination, source, IpProtocol::UDP.0, udp_len);
            udp.fill_checksum(pseudo);
            packet.set_dst_ip(source);
        }
        Some(())
    }
}
