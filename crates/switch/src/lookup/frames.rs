//! Frames for tests of lookup functions, in this crate and in crates with a lookup function of
//! their own.

use std::net::IpAddr;

use super::{Destination, Flow, Lookup, PortIndex, Seconds};
use crate::counters::Reason;
use crate::port::{Body, Frame, HEAD};

/// A small world of addresses: frames between hosts 0 to 15, host `h` with the Ethernet address
/// 02:…:h.
pub fn mac(host: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, host]
}

/// The broadcast address.
pub const EVERYONE: [u8; 6] = [0xff; 6];

/// An Ethernet frame of a type.
pub fn ethernet(to: [u8; 6], from: [u8; 6], kind: u16, payload: &[u8]) -> Frame {
    let mut head = [0; HEAD];
    head[..6].copy_from_slice(&to);
    head[6..12].copy_from_slice(&from);
    head[12..14].copy_from_slice(&kind.to_be_bytes());
    let len = payload.len().min(HEAD - 14);
    head[14..14 + len].copy_from_slice(&payload[..len]);
    Frame::new(head, 14 + payload.len().max(46), Body::Staged(0))
}

/// A frame of `len` bytes that begins with `head`.
pub fn long(head: &[u8; HEAD], len: usize) -> Frame {
    Frame::new(*head, len, Body::Staged(0))
}

/// The start of an IP packet of a flow, tagged with a VLAN if there is one.
pub fn packet(to: [u8; 6], from: [u8; 6], flow: Flow, vlan: Option<u16>) -> Frame {
    let (kind, mut bytes) = match (flow.source, flow.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut header = vec![0x45, 0, 0, 46, 0, 0, 0, 0, 64, flow.protocol, 0, 0];
            header.extend(source.octets());
            header.extend(destination.octets());
            let sum = packet::checksum::Sum::of(&header).checksum();
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            (0x0800u16, header)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let mut header = vec![0x60, 0, 0, 0, 0, 8, flow.protocol, 64];
            header.extend(source.octets());
            header.extend(destination.octets());
            (0x86dd, header)
        }
        _ => unreachable!("both of one version"),
    };
    bytes.extend(flow.source_port.to_be_bytes());
    bytes.extend(flow.destination_port.to_be_bytes());
    bytes.resize(bytes.len().max(46), 0);
    match vlan {
        None => ethernet(to, from, kind, &bytes),
        Some(vlan) => {
            let mut tagged = vlan.to_be_bytes().to_vec();
            tagged.extend(kind.to_be_bytes());
            tagged.extend(bytes);
            ethernet(to, from, 0x8100, &tagged)
        }
    }
}

/// A flow between two hosts, of which there are a few for each pair.
pub fn flow(from: u8, to: u8, which: u8) -> Flow {
    let address = |host: u8| match which & 1 {
        0 => IpAddr::from([10, 0, 0, host]),
        _ => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(host)]),
    };
    let protocol = [6, 17, 1, 132][usize::from(which >> 1 & 3)];
    let ports = protocol != 1;
    Flow {
        source: address(from),
        destination: address(to),
        protocol,
        source_port: if ports { 1000 + u16::from(from) } else { 0 },
        destination_port: if ports { 1000 + u16::from(to) } else { 0 },
    }
}

/// Where a function sends one frame.
pub fn steer(
    function: &mut dyn Lookup,
    from: PortIndex,
    frame: Frame,
    now: Seconds,
) -> Destination {
    let mut to = [Destination::Drop(Reason::Closed)];
    function.steer(from, &[frame], &mut to, now);
    to[0]
}
