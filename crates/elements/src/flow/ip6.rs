//! Connections over IPv6.
//!
//! The [key](FlowKey) of an IPv6 packet has a number in the place of each address, made from the address with a
//! secret. Others may have the same number, so addresses are compared too where keys are equal.

use core::fmt;

use router::memory::{RESERVE, spare};

use crate::prelude::*;
use crate::rewriter::flow::Direction;
use crate::rewriter::index::NoMemory;
use crate::rewriter::key::FlowKey;

use super::probe::{Part, Probe, Unknown};
use super::state::are_flags_valid;

/// Source and destination.
pub type Pair = [Ipv6Addr; 2];

/// What tells a flow's packets from others: source and destination, address and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowKey6 {
    /// The addresses.
    pub addresses: Pair,
    /// The source port in the upper half, the destination port in the lower.
    pub ports: u32,
}

impl FlowKey6 {
    /// The key of the packets that answer.
    #[must_use]
    pub fn reverse(self) -> FlowKey6 {
        let [source, destination] = self.addresses;
        FlowKey6 {
            addresses: [destination, source],
            ports: self.ports.rotate_left(16),
        }
    }
}

/// `(2001:db8::1, 1024, 2001:db8::2, 80)`.
impl fmt::Display for FlowKey6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [source, destination] = self.addresses;
        let (from, to) = (self.ports >> 16, self.ports & 0xffff);
        write!(f, "({source}, {from}, {destination}, {to})")
    }
}

/// Connections that get room for their addresses at once: 32 KB.
const CHUNK: usize = 1024;

/// A key of packets of either version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnyKey {
    /// Of IPv4.
    V4(FlowKey),
    /// Of IPv6.
    V6(FlowKey6),
}

impl AnyKey {
    /// The key, if it is of IPv4.
    pub fn v4(self) -> Option<FlowKey> {
        match self {
            AnyKey::V4(key) => Some(key),
            AnyKey::V6(_) => None,
        }
    }

    /// The key of the packets that answer.
    #[must_use]
    pub fn reverse(self) -> AnyKey {
        match self {
            AnyKey::V4(key) => AnyKey::V4(key.reverse()),
            AnyKey::V6(key) => AnyKey::V6(key.reverse()),
        }
    }

    /// With other ports: the source port in the upper half, the destination port in the lower.
    #[must_use]
    pub fn with_ports(self, ports: u32) -> AnyKey {
        match self {
            AnyKey::V4(key) => AnyKey::V4(FlowKey { ports, ..key }),
            AnyKey::V6(key) => AnyKey::V6(FlowKey6 { ports, ..key }),
        }
    }

    /// The ports.
    pub fn ports(self) -> u32 {
        match self {
            AnyKey::V4(key) => key.ports,
            AnyKey::V6(key) => key.ports,
        }
    }

    /// The source, address and port.
    pub fn from(self) -> (IpAddr, u16) {
        (self.source(), (self.ports() >> 16) as u16)
    }

    /// The source address.
    pub fn source(self) -> IpAddr {
        match self {
            AnyKey::V4(key) => key.source().into(),
            AnyKey::V6(key) => key.addresses[0].into(),
        }
    }
}

/// As the key of its version.
impl fmt::Display for AnyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnyKey::V4(key) => key.fmt(f),
            AnyKey::V6(key) => key.fmt(f),
        }
    }
}

/// The addresses of connections by their numbers. Room is made for [some](CHUNK) at a time, when the first
/// connection over IPv6 among them begins.
#[derive(Default)]
pub struct Addresses {
    /// Secrets that make keys unpredictable; set only while there are none.
    pub seeds: [u64; 2],
    /// Source and destination of the packets of the side that opened the connection.
    chunks: Chunks,
    /// Those of the packets that answer, where they are others; there is room for them from the first on.
    replies: Chunks,
}

/// A source and a destination for each connection.
type Chunks = Vec<Vec<[[u8; 16]; 2]>>;

/// What stands for addresses that are not others.
const NO_PAIR: [[u8; 16]; 2] = [[0; 16]; 2];

/// Notes a pair of addresses; false if there is no memory.
fn note(chunks: &mut Chunks, number: u32, pair: Pair) -> bool {
    let number = number as usize;
    let Some(chunk) = chunks.get_mut(number / CHUNK) else {
        return false;
    };
    if chunk.is_empty() {
        let bytes = size_of::<Pair>() * CHUNK;
        if !spare(bytes + RESERVE) || chunk.try_reserve_exact(CHUNK).is_err() {
            return false;
        }
        chunk.resize(CHUNK, NO_PAIR);
    }
    chunk[number % CHUNK] = pair.map(|address| address.octets());
    true
}

impl Addresses {
    /// For so many connections.
    pub fn new(capacity: usize) -> Result<Addresses, NoMemory> {
        let mut addresses = Addresses::default();
        let (chunks, count) = (&mut addresses.chunks, capacity.div_ceil(CHUNK));
        chunks.try_reserve_exact(count).map_err(|_| NoMemory)?;
        chunks.resize_with(count, Vec::new);
        Ok(addresses)
    }

    /// The number of an address: two that meet cannot be made without the secrets.
    #[inline(always)]
    fn number(&self, address: Ipv6Addr) -> u32 {
        let bits = address.to_bits();
        let (a, b) = (
            (bits >> 64) as u64 ^ self.seeds[0],
            bits as u64 ^ self.seeds[1],
        );
        let product = u128::from(a) * u128::from(b);
        let folded = (product >> 64) as u64 ^ product as u64;
        (folded >> 32) as u32 ^ folded as u32
    }

    /// The key of packets with a pair of addresses, and ports.
    #[inline]
    pub fn key(&self, [source, destination]: Pair, ports: u32) -> FlowKey {
        let (source, destination) = (self.number(source), self.number(destination));
        FlowKey {
            addresses: u64::from(source) << 32 | u64::from(destination),
            ports,
        }
    }

    /// Notes a new connection's addresses; false if there is no memory.
    pub fn set(&mut self, number: u32, pair: Pair) -> bool {
        let chunk = self.replies.get_mut(number as usize / CHUNK);
        if let Some(reply) = chunk.and_then(|chunk| chunk.get_mut(number as usize % CHUNK)) {
            *reply = NO_PAIR;
        }
        note(&mut self.chunks, number, pair)
    }

    /// Gives the packets that answer other addresses; false if there is no memory.
    pub fn set_reply(&mut self, number: u32, pair: Pair) -> bool {
        let (replies, count) = (&mut self.replies, self.chunks.len());
        if replies.is_empty() {
            if replies.try_reserve_exact(count).is_err() {
                return false;
            }
            replies.resize_with(count, Vec::new);
        }
        note(replies, number, pair)
    }

    /// The addresses of the packets that answer, if they are others.
    #[inline]
    pub fn reply(&self, number: u32) -> Option<Pair> {
        let number = number as usize;
        let pair = self.replies.get(number / CHUNK)?.get(number % CHUNK)?;
        (*pair != NO_PAIR).then(|| pair.map(Ipv6Addr::from_octets))
    }

    /// The addresses of a connection's packets in a direction.
    #[inline]
    pub fn get(&self, number: u32, direction: Direction) -> Option<Pair> {
        if direction == Direction::Reply
            && let Some(pair) = self.reply(number)
        {
            return Some(pair);
        }
        let number = number as usize;
        let pair = self.chunks.get(number / CHUNK)?.get(number % CHUNK)?;
        let [source, destination] = pair.map(Ipv6Addr::from_octets);
        Some(match direction {
            Direction::Forward => [source, destination],
            Direction::Reply => [destination, source],
        })
    }

    /// What an IPv6 packet is, its key, whose hash is yet to be computed, and the addresses in that.
    pub fn probe(&self, packet: &Packet) -> Result<(Probe, Pair), Unknown> {
        let header = packet.network_header().ok_or(Unknown::Invalid)?;
        let (ip, upper) = upper(header)?;
        let pair = [ip.source(), ip.destination()];
        let bytes = ip.payload().get(upper.at - HEADER..).unwrap_or_default();
        let ports = || ports(bytes).ok_or(Unknown::Invalid);
        let (protocol, pair, ports, part) = match upper.protocol {
            IpProtocol::TCP => {
                let flags = bytes.first_chunk::<20>().map_or(0, |header| header[13]);
                if !are_flags_valid(flags) {
                    return Err(Unknown::Invalid);
                }
                (upper.protocol, pair, ports()?, Part::Segment(flags))
            }
            IpProtocol::ICMPV6 => message(pair, bytes)?,
            protocol if protocol.has_ports() => (protocol, pair, ports()?, Part::Packet),
            protocol => (protocol, pair, 0, Part::Packet),
        };
        let probe = Probe {
            hash: 0,
            key: self.key(pair, ports),
            protocol: protocol.0,
            part,
        };
        Ok((probe, pair))
    }
}

/// What tells the connection of a packet, and the packet's part in it.
type Ends = (IpProtocol, Pair, u32, Part);

/// What an ICMPv6 message between a pair of addresses is.
fn message(pair: Pair, icmp: &[u8]) -> Result<Ends, Unknown> {
    let Some(&[kind, _, _, _, high, low, ..]) = icmp.first_chunk::<8>() else {
        return Err(Unknown::Invalid);
    };
    let identifier = u32::from(u16::from_be_bytes([high, low]));
    let own = IpProtocol::ICMPV6;
    // The identifier stands for the port of the side that asks.
    match kind {
        ECHO => Ok((own, pair, identifier << 16, Part::Query)),
        ECHO_REPLY => Ok((own, pair, identifier, Part::Answer)),
        1..=4 => {
            let quoted = quoted(icmp)?;
            let [source, destination] = quoted.addresses;
            let ports = quoted.ports.rotate_left(16);
            Ok((quoted.protocol, [destination, source], ports, Part::Error))
        }
        _ => Err(Unknown::Invalid),
    }
}

/// Length of the fixed header.
pub const HEADER: usize = Ipv6Packet::<&[u8]>::HEADER_LEN;
/// Types of ICMPv6 (RFC 4443).
const ECHO: u8 = 128;
/// See [`ECHO`].
const ECHO_REPLY: u8 = 129;

/// The ports at the start of an upper layer, which must have 8 bytes.
fn ports(bytes: &[u8]) -> Option<u32> {
    let &[a, b, c, d, ..] = bytes.first_chunk::<8>()?;
    Some(u32::from_be_bytes([a, b, c, d]))
}

/// A packet's header, and where its upper layer is.
pub fn upper(header: &[u8]) -> Result<(Ipv6Packet<&[u8]>, UpperLayer), Unknown> {
    let ip = Ipv6Packet::new_quoted(header).map_err(|_| Unknown::Invalid)?;
    let protocol = ip.next_header();
    if !protocol.is_extension() {
        let upper = UpperLayer {
            protocol,
            at: HEADER,
            fragment: None,
        };
        return Ok((ip, upper));
    }
    let upper = ip.extensions().upper_layer();
    let upper = upper.map_err(|_| Unknown::Invalid)?;
    if is_evasive(&ip) {
        return Err(Unknown::Invalid);
    }
    match upper.fragment {
        // Whole all the same (RFC 6946).
        Some(fragment) if fragment.offset != 0 || fragment.more => Err(Unknown::Fragment),
        _ => Ok((ip, upper)),
    }
}

/// Whether a packet's extension headers hide where it goes, or what it carries: a routing header of type 0, which RFC 5095
/// forbids, with places to go to; a fragment in a fragment.
fn is_evasive(ip: &Ipv6Packet<&[u8]>) -> bool {
    let mut fragments = 0;
    ip.extensions()
        .flatten()
        .any(|extension| match extension.bytes {
            [_, _, 0, left, ..] if extension.kind == IpProtocol::ROUTING => *left > 0,
            _ => {
                fragments += u32::from(extension.kind == IpProtocol::FRAGMENT);
                fragments > 1
            }
        })
}

/// What an ICMPv6 error quotes of a packet.
struct Quoted {
    protocol: IpProtocol,
    addresses: Pair,
    ports: u32,
}

fn quoted(icmp: &[u8]) -> Result<Quoted, Unknown> {
    let (ip, upper) = upper(icmp.get(8..).unwrap_or_default()).map_err(|_| Unknown::Invalid)?;
    let bytes = ip.payload().get(upper.at - HEADER..).unwrap_or_default();
    let ports = match upper.protocol {
        IpProtocol::ICMPV6 => match bytes.first_chunk::<8>() {
            Some(&[ECHO, _, _, _, high, low, ..]) => {
                u32::from(u16::from_be_bytes([high, low])) << 16
            }
            _ => return Err(Unknown::Invalid),
        },
        protocol if protocol.has_ports() => ports(bytes).ok_or(Unknown::Invalid)?,
        _ => 0,
    };
    Ok(Quoted {
        protocol: upper.protocol,
        addresses: [ip.source(), ip.destination()],
        ports,
    })
}
