//! Frames of neighbor discovery.

use crate::prelude::*;

/// Proves that no router forwarded the packet (RFC 4861, section 11.2).
const HOP_LIMIT: u8 = 255;

/// A frame's sources and destinations.
pub struct Ends {
    pub ether: (EtherAddress, EtherAddress),
    pub ip: (Ipv6Addr, Ipv6Addr),
}

/// A frame with `message`; `None` if there is no memory.
pub fn frame(cx: &mut Cx<'_>, ends: &Ends, message: &NeighborMessage) -> Option<Packet> {
    let length = message.length();
    let mut packet = cx.pool().packet(HEADROOM, 54 + length)?;
    let mut frame = EthernetFrame::new_unchecked(packet.data_mut());
    let ethernet = EthernetHeader {
        source: ends.ether.0,
        destination: ends.ether.1,
        ethertype: EtherType::IPV6,
    };
    ethernet.emit(&mut frame);
    let header = Ipv6Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: length as u16,
        next_header: IpProtocol::ICMPV6,
        hop_limit: HOP_LIMIT,
        source: ends.ip.0,
        destination: ends.ip.1,
    };
    let mut ip = Ipv6Packet::new_unchecked(frame.payload_mut());
    header.emit(&mut ip);
    let pseudo = ip.pseudo_header(IpProtocol::ICMPV6, length as u32);
    message.emit(ip.payload_mut());
    Icmpv6Packet::new_unchecked(ip.payload_mut()).fill_checksum(pseudo);
    packet.set_mac_header(0);
    packet.set_network_header(14, 40);
    Some(packet)
}

/// The message in a frame, and its ends; `None` if it is none, damaged, or from beyond the link.
pub fn read(packet: &Packet) -> Option<(Ends, NeighborMessage)> {
    let frame = EthernetFrame::new_checked(packet.data()).ok()?;
    if frame.ethertype() != EtherType::IPV6 {
        return None;
    }
    let ip = Ipv6Packet::new_checked(frame.payload()).ok()?;
    if ip.next_header() != IpProtocol::ICMPV6 || ip.hop_limit() != HOP_LIMIT {
        return None;
    }
    let icmp = Icmpv6Packet::new_checked(ip.payload()).ok()?;
    let pseudo = ip.pseudo_header(IpProtocol::ICMPV6, ip.payload_len().into());
    if !icmp.verify_checksum(pseudo) {
        return None;
    }
    let ends = Ends {
        ether: (frame.source(), frame.destination()),
        ip: (ip.source(), ip.destination()),
    };
    Some((ends, NeighborMessage::parse(ip.payload()).ok()?))
}
