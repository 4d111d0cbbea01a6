//! Echo requests.

use crate::prelude::*;

/// Length of an IP and an ICMP header.
pub const HEADERS: usize = 28;

/// Writes the headers of an echo request into a packet that has its data behind them, and marks them.
pub fn write(
    packet: &mut Packet,
    (source, destination): (Ipv4Addr, Ipv4Addr),
    ident: u16,
    number: u16,
) {
    let ip = Ipv4Header {
        tos: 0,
        total_len: packet.len() as u16,
        ident: number,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 200,
        protocol: IpProtocol::ICMP,
        source,
        destination,
    };
    let ([a, b], [c, d]) = (ident.to_be_bytes(), number.to_be_bytes());
    let echo = Icmpv4Header {
        icmp_type: Icmpv4Type::ECHO,
        code: 0,
        rest: [a, b, c, d],
    };
    if let Some((header, message)) = packet.data_mut().split_first_chunk_mut::<20>() {
        *header = ip.to_bytes();
        let mut icmp = Icmpv4Packet::new_unchecked(message);
        echo.emit(&mut icmp);
        icmp.fill_checksum();
    }
    packet.set_dst_ip(destination);
    packet.set_network_header(0, 20);
}

/// An echo request without data; `None` if there is no buffer.
pub fn packet(
    cx: &mut Cx<'_>,
    addresses: (Ipv4Addr, Ipv4Addr),
    ident: u16,
    number: u16,
) -> Option<Packet> {
    let mut packet = cx.pool().packet(packet::HEADROOM, HEADERS)?;
    write(&mut packet, addresses, ident, number);
    Some(packet)
}

/// As [`packet`], over IPv6.
pub fn packet6(
    cx: &mut Cx<'_>,
    (source, destination): (Ipv6Addr, Ipv6Addr),
    ident: u16,
    number: u16,
) -> Option<Packet> {
    const LENGTH: u16 = 8;
    let mut packet = cx
        .pool()
        .packet(packet::HEADROOM, 40 + usize::from(LENGTH))?;
    let ip = Ipv6Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: LENGTH,
        next_header: IpProtocol::ICMPV6,
        hop_limit: 200,
        source,
        destination,
    };
    let ([a, b], [c, d]) = (ident.to_be_bytes(), number.to_be_bytes());
    let echo = Icmpv6Header {
        icmp_type: Icmpv6Type::ECHO,
        code: 0,
        rest: [a, b, c, d],
    };
    if let Some((header, message)) = packet.data_mut().split_first_chunk_mut::<40>() {
        *header = ip.to_bytes();
        let mut icmp = Icmpv6Packet::new_unchecked(message);
        echo.emit(&mut icmp);
        let protocol = IpProtocol::ICMPV6.0;
        icmp.fill_checksum(pseudo_header_v6(
            source,
            destination,
            protocol,
            LENGTH.into(),
        ));
    }
    packet.set_dst_ip6(destination);
    packet.set_network_header(0, 40);
    Some(packet)
}
