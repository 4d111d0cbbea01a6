//! IPv6 packets to IPv4.

use super::{Addresses, ICMP, V4, V6, errors, fix_transport, kind_word, sum_v4, sum_v6};
use crate::prelude::*;

/// Longest error (RFC 1812, section 4.3.2.3).
const ERROR_MAX: usize = 576;

/// What an IPv6 header becomes, with its extension headers.
struct Translated {
    header: Ipv4Header,
    /// Where the upper layer starts, in bytes from the start of the IPv6 header.
    at: usize,
    /// What the change of addresses means for transport checksums.
    delta: Delta,
    /// The sum of ICMPv6's pseudo header, which ICMP has not.
    pseudo: Sum,
    /// The transport header follows, rather than data from the middle of a packet.
    first: bool,
    fragment: bool,
}

/// `None` if there is no such IPv4 header.
fn header(ip: &Ipv6Packet<&[u8]>, addresses: &mut impl Addresses) -> Option<Translated> {
    let source = addresses.to_v4(ip.source())?;
    let destination = addresses.to_v4(ip.destination())?;
    for extension in ip.extensions() {
        let extension = extension.ok()?;
        match extension.kind {
            IpProtocol::HOP_BY_HOP | IpProtocol::DESTINATION_OPTIONS | IpProtocol::FRAGMENT => {}
            // At its end.
            IpProtocol::ROUTING if extension.bytes.get(3) == Some(&0) => {}
            _ => return None,
        }
    }
    let upper = ip.extensions().upper_layer().ok()?;
    let length = (V6 + usize::from(ip.payload_len())).checked_sub(upper.at)?;
    let protocol = match upper.protocol {
        IpProtocol::ICMPV6 => IpProtocol::ICMP,
        other => other,
    };
    let fragment = upper.fragment;
    let offset = fragment.map_or(0, |fragment| fragment.offset);
    Some(Translated {
        header: Ipv4Header {
            tos: ip.traffic_class(),
            total_len: u16::try_from(V4 + length).ok()?,
            ident: fragment.map_or(0, |fragment| fragment.ident as u16),
            // Who sends over IPv6 learns the path's MTU.
            dont_fragment: fragment.is_none(),
            more_fragments: fragment.is_some_and(|fragment| fragment.more),
            fragment_offset: offset,
            ttl: ip.hop_limit(),
            protocol,
            source,
            destination,
        },
        at: upper.at,
        delta: Delta::of_sums(
            sum_v6(ip.source(), ip.destination()),
            sum_v4(source, destination),
        ),
        pseudo: ip.pseudo_header(IpProtocol::ICMPV6, length as u32),
        first: offset == 0,
        fragment: fragment.is_some(),
    })
}

/// Turns an IPv6 packet, which starts with its header, into an IPv4 packet, and marks its header.
/// `None` if it cannot be translated; the packet may be in pieces then.
#[must_use]
pub fn to_v4(packet: &mut Packet, addresses: &mut impl Addresses) -> Option<()> {
    let ip = Ipv6Packet::new_checked(packet.data()).ok()?;
    let end = V6 + usize::from(ip.payload_len());
    let translated = header(&ip, addresses)?;
    packet.truncate(end);
    let protocol = translated.header.protocol;
    if protocol == IpProtocol::ICMP {
        // A fragment's checksum cannot be known: the pseudo header has the length of the whole.
        let icmp = packet.data().get(translated.at..)?;
        let icmp = Icmpv6Packet::new_checked(icmp).ok()?;
        if translated.fragment {
            return None;
        }
        if icmp.icmp_type().is_error() {
            return error(packet, translated, addresses);
        }
    }
    packet.pull(translated.at);
    let payload = packet.data_mut();
    match protocol {
        IpProtocol::ICMP => question(payload, &translated)?,
        _ if translated.first => fix_transport(protocol, payload, translated.delta),
        _ => {}
    }
    put_in_front(packet, &translated.header.to_bytes())
}

/// Puts headers in front of a packet, IPv4's first, and marks that.
fn put_in_front(packet: &mut Packet, headers: &[u8]) -> Option<()> {
    if !packet.push(headers.len()) {
        return None;
    }
    let front = packet.data_mut().get_mut(..headers.len())?;
    front.copy_from_slice(headers);
    packet.clear_mac_header();
    packet.set_network_header(0, V4);
    let destination = Ipv4Packet::new_unchecked(packet.data()).destination();
    packet.set_dst_ip(destination);
    Some(())
}

/// Questions and answers: echo, for there are no others that both versions know. `icmp` starts with
/// the message, which may end early where an error quotes it.
fn question(icmp: &mut [u8], translated: &Translated) -> Option<()> {
    let mut icmp = Icmpv4Packet::new_checked(icmp).ok()?;
    let (old, code) = (icmp.icmp_type().0, icmp.code());
    let new = match Icmpv6Type(old) {
        Icmpv6Type::ECHO => Icmpv4Type::ECHO,
        Icmpv6Type::ECHO_REPLY => Icmpv4Type::ECHO_REPLY,
        _ => return None,
    };
    icmp.set_icmp_type(new);
    icmp.update_checksum(
        Delta::of_u16(kind_word(old, code), kind_word(new.0, code))
            + Delta::of_sums(translated.pseudo, Sum::ZERO),
    );
    if icmp.checksum() == 0 && icmp.bytes().iter().all(|byte| *byte == 0) {
        // An empty answer to question 0 of nobody.
        icmp.fill_checksum();
    }
    Some(())
}

/// An error, with the packet that it quotes.
fn error(packet: &mut Packet, outer: Translated, addresses: &mut impl Addresses) -> Option<()> {
    let icmp = Icmpv6Packet::new_checked(packet.data().get(outer.at..)?).ok()?;
    if !icmp.verify_checksum(outer.pseudo) {
        return None;
    }
    let quoted = Ipv6Packet::new_quoted(icmp.payload()).ok()?;
    let message = errors::to_v4(&icmp)?;
    let inner = header(&quoted, addresses)?;
    packet.pull(outer.at + ICMP + inner.at);
    let transport = packet.data_mut();
    match inner.header.protocol {
        // Of other messages nothing is known that could be translated.
        IpProtocol::ICMP if inner.first => {
            let _ = question(transport, &inner);
        }
        protocol if inner.first => fix_transport(protocol, transport, inner.delta),
        _ => {}
    }
    packet.truncate(ERROR_MAX - (V4 + ICMP + V4));
    let outer = Ipv4Header {
        total_len: (V4 + ICMP + V4 + packet.len()) as u16,
        ..outer.header
    };
    let mut front = [0; V4 + ICMP + V4];
    front[..V4].copy_from_slice(&outer.to_bytes());
    front[V4..V4 + ICMP].copy_from_slice(&message.to_bytes());
    front[V4 + ICMP..].copy_from_slice(&inner.header.to_bytes());
    put_in_front(packet, &front)?;
    let icmp = packet.data_mut().get_mut(V4..)?;
    Icmpv4Packet::new_unchecked(icmp).fill_checksum();
    Some(())
}
