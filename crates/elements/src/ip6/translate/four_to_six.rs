//! IPv4 packets to IPv6.

use super::{Addresses, FRAGMENT, ICMP, V6, errors, fix_transport, kind_word, sum_v4, sum_v6};
use crate::prelude::*;

/// Longest error: every link takes it.
const ERROR_MAX: usize = 1280;

/// What an IPv4 header becomes.
struct Translated {
    /// IPv6's header and perhaps a fragment header.
    bytes: [u8; V6 + FRAGMENT],
    len: usize,
    protocol: IpProtocol,
    /// What the change of addresses means for transport checksums.
    delta: Delta,
    /// The transport header follows, rather than data from the middle of a packet.
    first: bool,
}

impl Translated {
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Whether the packet is under way on a source route, which IPv6 has not.
fn has_source_route(ip: &Ipv4Packet<&[u8]>) -> bool {
    ip.options().flatten().any(|option| {
        let route = matches!(
            option.kind,
            Ipv4OptionKind::LOOSE_SOURCE_ROUTE | Ipv4OptionKind::STRICT_SOURCE_ROUTE
        );
        route && PointerOption::new_checked(option.bytes).is_ok_and(|route| route.room() >= 4)
    })
}

/// `None` if there is no such IPv6 header.
fn header(ip: &Ipv4Packet<&[u8]>, addresses: &mut impl Addresses) -> Option<Translated> {
    if ip.header_len() > Ipv4Packet::<&[u8]>::HEADER_LEN && has_source_route(ip) {
        return None;
    }
    let payload = usize::from(ip.total_len()).checked_sub(ip.header_len())?;
    let protocol = match ip.protocol() {
        IpProtocol::ICMP => IpProtocol::ICMPV6,
        other => other,
    };
    let fragment = ip.is_fragment();
    let len = if fragment { V6 + FRAGMENT } else { V6 };
    let (source, destination) = (ip.source(), ip.destination());
    let header = Ipv6Header {
        traffic_class: ip.tos(),
        flow_label: 0,
        payload_len: u16::try_from(payload + len - V6).ok()?,
        next_header: if fragment {
            IpProtocol::FRAGMENT
        } else {
            protocol
        },
        hop_limit: ip.ttl(),
        source: addresses.to_v6(source)?,
        destination: addresses.to_v6(destination)?,
    };
    let mut bytes = [0; V6 + FRAGMENT];
    bytes[..V6].copy_from_slice(&header.to_bytes());
    if fragment {
        let [high, low] = (ip.fragment_offset() | u16::from(ip.more_fragments())).to_be_bytes();
        let [a, b] = ip.ident().to_be_bytes();
        bytes[V6..].copy_from_slice(&[protocol.0, 0, high, low, 0, 0, a, b]);
    }
    Some(Translated {
        bytes,
        len,
        protocol,
        delta: Delta::of_sums(
            sum_v4(source, destination),
            sum_v6(header.source, header.destination),
        ),
        first: ip.fragment_offset() == 0,
    })
}

/// Turns an IPv4 packet, which starts with its header, into an IPv6 packet, and marks its header.
/// `None` if it cannot be translated; the packet may be in pieces then.
#[must_use]
pub fn to_v6(packet: &mut Packet, addresses: &mut impl Addresses) -> Option<()> {
    let ip = Ipv4Packet::new_checked(packet.data()).ok()?;
    let (header_len, total) = (ip.header_len(), usize::from(ip.total_len()));
    let (fragment, translated) = (ip.is_fragment(), header(&ip, addresses)?);
    packet.truncate(total);
    if translated.protocol == IpProtocol::ICMPV6 {
        // A fragment's checksum cannot be known: the pseudo header has the length of the whole.
        let icmp = packet.data().get(header_len..).filter(|_| !fragment)?;
        let icmp = Icmpv4Packet::new_checked(icmp).ok()?;
        if icmp.icmp_type().is_error() {
            return error(packet, header_len, &translated, addresses);
        }
    }
    packet.pull(header_len);
    let payload = packet.data_mut();
    match translated.protocol {
        IpProtocol::ICMPV6 => question(payload, &translated)?,
        IpProtocol::UDP if translated.first => udp(payload, &translated, fragment)?,
        protocol if translated.first => fix_transport(protocol, payload, translated.delta),
        _ => {}
    }
    put_in_front(packet, translated.bytes())
}

/// Puts headers in front of a packet, IPv6's first, and marks that.
fn put_in_front(packet: &mut Packet, headers: &[u8]) -> Option<()> {
    if !packet.push(headers.len()) {
        return None;
    }
    let front = packet.data_mut().get_mut(..headers.len())?;
    front.copy_from_slice(headers);
    packet.clear_mac_header();
    packet.set_network_header(0, V6);
    let destination = Ipv6Packet::new_unchecked(packet.data()).destination();
    packet.set_dst_ip6(destination);
    Some(())
}

fn udp(payload: &mut [u8], translated: &Translated, fragment: bool) -> Option<()> {
    let length = payload.len();
    let mut udp = UdpPacket::new_unchecked(payload);
    if udp.checksum() != 0 || length < UdpPacket::<&[u8]>::HEADER_LEN {
        udp.update_checksum(translated.delta);
        return Some(());
    }
    // IPv6 wants a checksum where IPv4 needs none; a fragment's cannot be computed.
    let whole = !fragment && usize::from(udp.length()) == length;
    let ip = Ipv6Packet::new_unchecked(&translated.bytes);
    udp.fill_checksum(ip.pseudo_header(IpProtocol::UDP, length as u32));
    whole.then_some(())
}

/// Questions and answers: echo, for there are no others that both versions know. `icmp` starts with
/// the message, which may end early where an error quotes it.
fn question(icmp: &mut [u8], translated: &Translated) -> Option<()> {
    let mut icmp = Icmpv6Packet::new_checked(icmp).ok()?;
    let (old, code) = (icmp.icmp_type().0, icmp.code());
    let new = match Icmpv4Type(old) {
        Icmpv4Type::ECHO => Icmpv6Type::ECHO,
        Icmpv4Type::ECHO_REPLY => Icmpv6Type::ECHO_REPLY,
        _ => return None,
    };
    let ip = Ipv6Packet::new_unchecked(&translated.bytes);
    let length = usize::from(ip.payload_len()) + V6 - translated.len;
    let pseudo = ip.pseudo_header(IpProtocol::ICMPV6, length as u32);
    icmp.set_icmp_type(new);
    icmp.update_checksum(
        Delta::of_u16(kind_word(old, code), kind_word(new.0, code))
            + Delta::of_sums(Sum::ZERO, pseudo),
    );
    Some(())
}

/// An error, with the packet that it quotes.
fn error(
    packet: &mut Packet,
    header_len: usize,
    outer: &Translated,
    addresses: &mut impl Addresses,
) -> Option<()> {
    let icmp = Icmpv4Packet::new_checked(packet.data().get(header_len..)?).ok()?;
    if !icmp.verify_checksum() {
        return None;
    }
    let quoted = Ipv4Packet::new_quoted(icmp.payload()).ok()?;
    let message = errors::to_v6(&icmp, quoted.total_len())?;
    let inner = header(&quoted, addresses)?;
    packet.pull(header_len + ICMP + quoted.header_len());
    let transport = packet.data_mut();
    match inner.protocol {
        // Of other messages nothing is known that could be translated.
        IpProtocol::ICMPV6 if inner.first => {
            let _ = question(transport, &inner);
        }
        protocol if inner.first => fix_transport(protocol, transport, inner.delta),
        _ => {}
    }
    let mut front = [0; V6 + ICMP + V6 + FRAGMENT];
    let len = V6 + ICMP + inner.len;
    front[..V6].copy_from_slice(&outer.bytes[..V6]);
    front[V6..V6 + ICMP].copy_from_slice(&message.to_bytes());
    front[V6 + ICMP..len].copy_from_slice(inner.bytes());
    put_in_front(packet, &front[..len])?;
    packet.truncate(ERROR_MAX);
    let length = packet.len() - V6;
    let mut ip = Ipv6Packet::new_unchecked(packet.data_mut());
    ip.set_payload_len(length as u16);
    let pseudo = ip.pseudo_header(IpProtocol::ICMPV6, length as u32);
    Icmpv6Packet::new_unchecked(ip.payload_mut()).fill_checksum(pseudo);
    Some(())
}
