//! Reading keys out of packets' headers, and writing a flow's addresses, ports and checksums into
//! them.

use super::checksums::{update_partial, update_sum, update_transport, update_udp_sum};
use super::flow::{Annotations, Direction, Flow};
use super::key::FlowKey;
use super::sequence::Sequences;
use super::table::{BOTH_DONE, DATA, DONE, REPLIED, THREE};
use crate::prelude::*;

/// The IP header and what follows it.
#[inline(always)]
pub fn parts(packet: &Packet) -> Option<(&[u8; 20], &[u8])> {
    let length = packet.network_header_len();
    let (ip, rest) = packet.network_header()?.split_at_checked(length)?;
    Some((ip.first_chunk()?, rest))
}

/// As [`parts`], to be changed.
#[inline(always)]
pub fn parts_mut(packet: &mut Packet) -> Option<(&mut [u8; 20], &mut [u8])> {
    let length = packet.network_header_len();
    let (ip, rest) = packet.network_header_mut()?.split_at_mut_checked(length)?;
    Some((ip.first_chunk_mut()?, rest))
}

/// Whether a packet is IPv6.
#[inline(always)]
pub fn is_ip6(packet: &Packet) -> bool {
    let header = packet.network_header().unwrap_or_default();
    header.first().is_some_and(|first| first >> 4 == 6)
}

/// Whether an IP header is that of a whole packet or of a first fragment.
#[inline(always)]
pub fn is_first(ip: &[u8; 20]) -> bool {
    u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff == 0
}

/// An IP header's protocol.
#[inline(always)]
pub fn protocol(ip: &[u8; 20]) -> IpProtocol {
    IpProtocol(ip[9])
}

/// Source and destination address of an IP header, as in a [`FlowKey`].
#[inline(always)]
pub fn addresses(ip: &[u8; 20]) -> u64 {
    let [.., a, b, c, d, e, f, g, h] = *ip;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// The key of a packet with ports, if it is one: its protocol is not looked at.
#[inline(always)]
pub fn key(ip: &[u8; 20], transport: &[u8]) -> Option<FlowKey> {
    let ports: &[u8; 8] = transport.first_chunk()?;
    if !is_first(ip) {
        return None;
    }
    let [a, b, c, d, ..] = *ports;
    Some(FlowKey {
        addresses: addresses(ip),
        ports: u32::from_be_bytes([a, b, c, d]),
    })
}

/// The protocol and the key of a packet that may have ports; `None` if it is a later fragment, or
/// too short. Whether the protocol has ports is not looked at.
#[inline(always)]
pub fn flow(packet: &Packet) -> Option<(IpProtocol, FlowKey)> {
    match packet.plain_header() {
        Some(header) => {
            let (ip, transport) = plain_parts(header);
            Some((protocol(ip), key(ip, transport)?))
        }
        None => unusual_flow(packet),
    }
}

/// The same for a packet whose IP header has options.
#[inline(never)]
fn unusual_flow(packet: &Packet) -> Option<(IpProtocol, FlowKey)> {
    let (ip, transport) = parts(packet)?;
    Some((protocol(ip), key(ip, transport)?))
}

/// The IP header in a usual one, and the ports.
#[inline(always)]
fn plain_parts(header: &[u8; PLAIN_HEADER]) -> (&[u8; 20], &[u8; 8]) {
    let (ip, transport) = header.split_first_chunk().unwrap_or((&[0; 20], &[]));
    (ip, transport.first_chunk().unwrap_or(&[0; 8]))
}

/// The key of a UDP packet that can be rewritten by its usual header alone.
#[inline(always)]
pub fn datagram(packet: &Packet) -> Option<FlowKey> {
    let header = packet.plain_header()?;
    if packet.is_extended() {
        return None;
    }
    datagram_key(header)
}

/// The key of a usual header, if it is UDP's.
#[inline(always)]
pub fn datagram_key(header: &[u8; PLAIN_HEADER]) -> Option<FlowKey> {
    let (ip, transport) = plain_parts(header);
    key(ip, transport).filter(|_| protocol(ip) == IpProtocol::UDP)
}

/// Gives a usual header other addresses and ports, and changes no checksum.
#[inline(always)]
pub fn set_key(header: &mut [u8; PLAIN_HEADER], key: FlowKey) {
    header[12..20].copy_from_slice(&key.addresses.to_be_bytes());
    header[20..24].copy_from_slice(&key.ports.to_be_bytes());
}

/// Gives an IP header a flow's addresses.
#[inline(always)]
pub fn rewrite_ip(flow: &Flow, direction: Direction, ip: &mut [u8; 20]) {
    let new = flow.rewritten(direction).addresses.to_be_bytes();
    if let Some(place) = ip.last_chunk_mut() {
        *place = new;
    }
    update_ip_sum(flow.ip_delta(direction), ip);
}

/// Brings the checksum of an IP header up to date.
#[inline(always)]
pub fn update_ip_sum(delta: Delta, ip: &mut [u8; 20]) {
    [ip[10], ip[11]] = delta.apply_bytes([ip[10], ip[11]]);
}

/// Sets the source address, and no checksum.
#[inline(always)]
pub fn set_source(ip: &mut [u8; 20], source: Ipv4Addr) {
    [ip[12], ip[13], ip[14], ip[15]] = source.octets();
}

/// Sets the destination address, and no checksum.
#[inline(always)]
pub fn set_destination(ip: &mut [u8; 20], destination: Ipv4Addr) {
    [ip[16], ip[17], ip[18], ip[19]] = destination.octets();
}

/// Gives a ping another identifier; `delta` is what that does to its checksum.
#[inline(always)]
pub fn set_identifier(delta: Delta, icmp: &mut [u8], identifier: u16) {
    let Some(place) = icmp.get_mut(4..).and_then(|rest| rest.first_chunk_mut()) else {
        return;
    };
    *place = identifier.to_be_bytes();
    update_sum(delta, icmp, 2);
    // The checksum of nothing but zeros is 0xffff, which no delta gives.
    if icmp.iter().all(|byte| *byte == 0) {
        icmp[2..4].fill(0xff);
    }
}

/// Gives a transport header a flow's ports.
#[inline(always)]
pub fn rewrite_ports(flow: &Flow, direction: Direction, transport: &mut [u8]) {
    if let Some(ports) = transport.first_chunk_mut() {
        *ports = flow.rewritten(direction).ports.to_be_bytes();
    }
}

/// Rewrites a packet of a flow of datagrams: addresses, ports and checksums, whatever the protocol.
#[inline(always)]
pub fn apply_datagram(
    flow: &mut Flow,
    direction: Direction,
    annotations: Annotations,
    packet: &mut Packet,
) {
    if !Change::of(flow, direction, annotations).make(packet) {
        return apply_unusual(flow, direction, annotations, packet);
    }
    annotations.set_reply(flow, direction, packet);
    flow.state = after_datagram(flow.state, direction);
}

/// The same for a packet that is not UDP in its usual form.
#[inline(never)]
fn apply_unusual(
    flow: &mut Flow,
    direction: Direction,
    annotations: Annotations,
    packet: &mut Packet,
) {
    let partial = packet.needs_checksum();
    let Some((ip, transport)) = parts_mut(packet) else {
        return;
    };
    rewrite_ip(flow, direction, ip);
    rewrite_ports(flow, direction, transport);
    if partial {
        update_partial(flow.ip_delta(direction), protocol(ip), transport);
    } else {
        update_transport(flow.transport_delta(direction), protocol(ip), transport);
    }
    annotations.set(flow, direction, packet);
    flow.state = after_datagram(flow.state, direction);
}

/// What state a flow of datagrams is in after one more.
#[inline(always)]
fn after_datagram(state: u8, direction: Direction) -> u8 {
    let state = match direction {
        Direction::Forward => state,
        Direction::Reply => state | REPLIED,
    };
    if state < THREE { state + 2 } else { state }
}

/// What a flow changes in the usual headers of its datagrams in one direction.
#[derive(Clone, Copy)]
struct Change {
    key: FlowKey,
    ip: Delta,
    transport: Delta,
    /// Whether the destination annotation is set.
    annotate: bool,
}

impl Change {
    #[inline(always)]
    fn of(flow: &Flow, direction: Direction, annotations: Annotations) -> Change {
        Change {
            key: flow.rewritten(direction),
            ip: flow.ip_delta(direction),
            transport: flow.transport_delta(direction),
            annotate: annotations.destination,
        }
    }

    /// Makes it, if the packet is UDP with a usual header and nothing behind its data.
    #[inline(always)]
    fn make(&self, packet: &mut Packet) -> bool {
        self.make_if(packet, |_| true)
    }

    /// The same, if besides `is_it` says so of the packet's key.
    #[inline(always)]
    fn make_if(&self, packet: &mut Packet, is_it: impl FnOnce(FlowKey) -> bool) -> bool {
        if packet.is_extended() {
            return false;
        }
        let Some(header) = packet.plain_header_mut() else {
            return false;
        };
        if !datagram_key(header).is_some_and(is_it) {
            return false;
        }
        set_key(header, self.key);
        [header[10], header[11]] = self.ip.apply_bytes([header[10], header[11]]);
        update_udp_sum(self.transport, &mut header[20..]);
        if self.annotate {
            packet.set_dst_ip(self.key.destination());
        }
        true
    }
}

/// Rewrites packets from the first on as long as they are datagrams of `key`, which is the flow's
/// in `direction`, with usual headers; returns how many.
#[inline(always)]
pub fn apply_train(
    flow: &mut Flow,
    direction: Direction,
    annotations: Annotations,
    packets: &mut [Packet],
) -> usize {
    let (key, change) = (
        flow.key(direction),
        Change::of(flow, direction, annotations),
    );
    let mut count = 0;
    for packet in packets {
        if !change.make_if(packet, |of| of == key) {
            break;
        }
        annotations.set_reply(flow, direction, packet);
        count += 1;
    }
    // No packet behind the third makes a difference.
    for _ in 0..count.min(3) {
        flow.state = after_datagram(flow.state, direction);
    }
    count
}

/// Rewrites a packet of a TCP connection.
#[inline(always)]
pub fn apply_segment(
    flow: &mut Flow,
    sequences: &mut Sequences,
    direction: Direction,
    annotations: Annotations,
    packet: &mut Packet,
) {
    let partial = packet.needs_checksum();
    let Some((ip, transport)) = parts_mut(packet) else {
        return;
    };
    rewrite_ip(flow, direction, ip);
    let header_len = usize::from(ip[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    if let Some(header) = transport.first_chunk::<18>() {
        let (offset, flags) = (usize::from(header[12] >> 4) * 4, header[13]);
        rewrite_ports(flow, direction, transport);
        if partial {
            update_partial(flow.ip_delta(direction), IpProtocol::TCP, transport);
        } else {
            update_sum(flow.transport_delta(direction), transport, 16);
        }
        flow.state = connection(flow.state, direction, flags, header_len + offset < total);
        if flow.extra != 0 {
            sequences.apply(flow.extra, direction, transport, !partial);
        }
    }
    annotations.set(flow, direction, packet);
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;

/// What state a connection is in after a segment with `flags`, and payload or not.
#[inline(always)]
fn connection(state: u8, direction: Direction, flags: u8, payload: bool) -> u8 {
    let done = DONE << direction as u8;
    let state = if flags & RST != 0 {
        state | BOTH_DONE
    } else if flags & FIN != 0 {
        state | done
    } else if flags & SYN != 0 || payload {
        state & !done
    } else {
        state
    };
    if payload {
        state | DATA << direction as u8
    } else {
        state
    }
}
