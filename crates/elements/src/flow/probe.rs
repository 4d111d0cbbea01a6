//! What a packet is to connections: which one it belongs to, and as what.

use super::state::are_flags_valid;
use crate::prelude::*;
use crate::rewriter::headers;
use crate::rewriter::key::FlowKey;
use crate::rewriter::quoted::Quoted;

/// What a packet is, and to what connection it belongs.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// The key's hash, for a table to set.
    pub hash: u64,
    /// Its connection's key; an error's, that of packets that answer the packet that it is about.
    pub key: FlowKey,
    /// Its protocol; an error's, that of that packet.
    pub protocol: u8,
    /// What part it has in its connection.
    pub part: Part,
}

/// What part a packet has in its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A TCP segment with these flags.
    Segment(u8),
    /// A packet that may begin a connection, and may answer.
    Packet,
    /// An ICMP query.
    Query,
    /// The answer to one.
    Answer,
    /// An ICMP error about a packet that the key answers.
    Error,
}

/// Why a packet belongs to no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// A header is cut short, or wrong.
    Invalid,
    /// It is a fragment.
    Fragment,
}

/// What an IPv4 packet is, and its key; the hash is yet to be computed.
#[inline]
pub fn probe(packet: &Packet) -> Result<Probe, Unknown> {
    let (ip, transport) = headers::parts(packet).ok_or(Unknown::Invalid)?;
    if ip[0] >> 4 != 4 {
        return Err(Unknown::Invalid);
    }
    let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff;
    if fragment != 0 {
        return Err(Unknown::Fragment);
    }
    let protocol = headers::protocol(ip);
    let portless = FlowKey {
        addresses: headers::addresses(ip),
        ports: 0,
    };
    let (key, part) = match protocol {
        IpProtocol::TCP => {
            let key = headers::key(ip, transport);
            let header = transport.first_chunk::<20>();
            let flags = header.map_or(0, |header| header[13]);
            let key = key.filter(|_| are_flags_valid(flags));
            (key, Part::Segment(flags))
        }
        IpProtocol::ICMP => icmp(packet, portless, transport),
        protocol if protocol.has_ports() => (headers::key(ip, transport), Part::Packet),
        _ => (Some(portless), Part::Packet),
    };
    Ok(Probe {
        hash: 0,
        key: key.ok_or(Unknown::Invalid)?,
        protocol: match part {
            Part::Error => quoted_protocol(packet),
            _ => protocol.0,
        },
        part,
    })
}

/// The key and part of an ICMP packet.
fn icmp(packet: &Packet, portless: FlowKey, icmp: &[u8]) -> (Option<FlowKey>, Part) {
    let Some(&[kind, _, _, _, high, low, ..]) = icmp.first_chunk::<8>() else {
        return (None, Part::Packet);
    };
    let identifier = u16::from_be_bytes([high, low]);
    // The identifier stands for the port of the side that asks.
    // Echo and timestamp (RFC 792); the other queries are obsolete (RFC 6918).
    match kind {
        8 | 13 => (Some(portless.with_source_port(identifier)), Part::Query),
        0 | 14 => (
            Some(portless.with_destination_port(identifier)),
            Part::Answer,
        ),
        _ => {
            let quoted = Quoted::of(packet);
            let answer = quoted.map(|quoted| match quoted.protocol {
                IpProtocol::ICMP => quoted.answer.with_source_port(0),
                _ => quoted.answer,
            });
            (answer, Part::Error)
        }
    }
}

fn quoted_protocol(packet: &Packet) -> u8 {
    Quoted::of(packet).map_or(0, |quoted| quoted.protocol.0)
}
