//! The sessions as packets need them: found by number on the way in, and by address on the way out.
//!
//! All memory is allocated at once. A session takes one cache line here, and an entry of the index of
//! addresses.

use super::control::protocol;
use super::frame::{ETHER, HEADER, HEADERS, Header, SESSION, code};
use crate::prelude::*;
use crate::rewriter::index::{Index, NoMemory};
use crate::rewriter::key::FlowKey;

/// Most sessions: their numbers are from 1 to 65534 (RFC 2516, section 4).
pub const CAPACITY_MAX: u32 = 65534;

/// What packets need of a session, and what they count.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct Line {
    pub peer: EtherAddress,
    /// Whether the session exists.
    pub used: bool,
    /// Whether packets may flow.
    pub open: bool,
    /// Whether packets of IPv6 may flow.
    pub open6: bool,
    /// The subscriber's address.
    pub address: u32,
    pub in_packets: u64,
    pub in_bytes: u64,
    pub out_packets: u64,
    pub out_bytes: u64,
    /// Packets with a source that is not the subscriber's.
    pub spoofed: u64,
}

const _: () = assert!(size_of::<Line>() == 64);

/// Counters of packets that found no session, or not the right one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Strays {
    /// Frames of sessions that are not there, or are another host's.
    pub strangers: u64,
    /// Packets whose source is not the subscriber's address.
    pub spoofed: u64,
    /// Packets for addresses that no session has.
    pub unreachable: u64,
}

/// The sessions.
#[derive(Default)]
pub struct Table {
    own: EtherAddress,
    lines: Vec<Line>,
    addresses: Index,
    /// The first session's prefix; the others follow.
    prefixes: u64,
    pub strays: Strays,
}

/// The slot of a session's number.
#[inline]
pub fn slot(session: u16) -> usize {
    usize::from(session).wrapping_sub(1)
}

/// The number of the session in a slot.
pub fn number(slot: usize) -> u16 {
    (slot + 1) as u16
}

fn key(address: u32) -> FlowKey {
    FlowKey {
        addresses: address.into(),
        ports: 0,
    }
}

/// What a frame of a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A packet that goes on, without its headers.
    Packet,
    /// A packet of IPv6, the same.
    Packet6,
    /// A control packet, whose frame stays whole.
    Control,
    Wrong,
}

impl Table {
    pub fn new(
        own: EtherAddress,
        capacity: usize,
        prefixes: u64,
        seeds: [u64; 2],
    ) -> Result<Table, NoMemory> {
        let mut table = Table {
            own,
            prefixes,
            ..Table::default()
        };
        table.addresses.seed(seeds);
        table.addresses.reserve(capacity, |_, _| 0)?;
        let lines = &mut table.lines;
        lines.try_reserve_exact(capacity).map_err(|_| NoMemory)?;
        lines.resize(capacity, Line::default());
        Ok(table)
    }

    pub fn line(&self, slot: usize) -> Option<&Line> {
        self.lines.get(slot)
    }

    /// Begins a session.
    pub fn add(&mut self, slot: usize, peer: EtherAddress) {
        if let Some(line) = self.lines.get_mut(slot) {
            *line = Line {
                peer,
                used: true,
                ..Line::default()
            };
        }
    }

    /// Lets packets flow between a session and an address; false if another session has the address.
    pub fn open(&mut self, slot: usize, address: Ipv4Addr) -> bool {
        let address = address.to_bits();
        if self.find(address).is_some() {
            return false;
        }
        let Some(line) = self.lines.get_mut(slot) else {
            return false;
        };
        *line = Line {
            peer: line.peer,
            used: true,
            open: true,
            address,
            ..Line::default()
        };
        let hash = self.addresses.hash(0, key(address));
        self.addresses.insert(hash, slot as u32);
        true
    }

    /// Lets packets of IPv6 flow between a session and its prefix, or no more.
    pub fn set_open6(&mut self, slot: usize, open: bool) {
        if let Some(line) = self.lines.get_mut(slot) {
            line.open6 = open;
        }
    }

    /// The prefix of the session in a slot: the upper half of its addresses.
    pub fn prefix(&self, slot: usize) -> u64 {
        self.prefixes.wrapping_add(slot as u64)
    }

    /// The slot of the session of an address by its upper half.
    #[inline]
    fn find6(&self, upper: u64) -> Option<usize> {
        let slot = upper.wrapping_sub(self.prefixes) as usize;
        self.lines.get(slot).filter(|line| line.open6).map(|_| slot)
    }

    /// Lets packets flow no more; the counters stay.
    pub fn close(&mut self, slot: usize) {
        self.set_open6(slot, false);
        if let Some(line) = self.lines.get_mut(slot).filter(|line| line.open) {
            line.open = false;
            let hash = self.addresses.hash(0, key(line.address));
            self.addresses.remove(hash, slot as u32);
        }
    }

    /// Ends a session.
    pub fn remove(&mut self, slot: usize) {
        self.close(slot);
        if let Some(line) = self.lines.get_mut(slot) {
            *line = Line::default();
        }
    }

    /// The slot of the session of an address.
    pub fn find(&self, address: u32) -> Option<usize> {
        let hash = self.addresses.hash(0, key(address));
        self.find_hashed(address, hash)
    }

    #[inline]
    fn find_hashed(&self, address: u32, hash: u64) -> Option<usize> {
        let lines = &self.lines;
        let is_it = |slot: u32| {
            let line = lines.get(slot as usize);
            line.is_some_and(|line| line.address == address)
        };
        self.addresses.find(hash, is_it).map(|slot| slot as usize)
    }

    /// Takes the headers off session frames.
    #[inline]
    pub fn take_off(&mut self, batch: &mut Batch, mut each: impl FnMut(usize, Frame)) {
        for packet in batch.iter() {
            if let Some(session) = packet.data().get(ETHER + 2..).and_then(<[u8]>::first_chunk)
                && let Some(line) = self.lines.get(slot(u16::from_be_bytes(*session)))
            {
                packet::prefetch(line);
            }
        }
        for (number, packet) in batch.iter_mut().enumerate() {
            let frame = self.take_off_one(packet);
            each(number, frame);
        }
    }

    #[inline]
    fn take_off_one(&mut self, packet: &mut Packet) -> Frame {
        let Some((frame, peer)) = look(packet.data()) else {
            self.strays.strangers += 1;
            return Frame::Wrong;
        };
        let session = self.lines.get_mut(slot(frame.session));
        let Some(line) = session.filter(|line| line.used && line.peer == peer) else {
            self.strays.strangers += 1;
            return Frame::Wrong;
        };
        let (right, kind) = match frame.protocol {
            protocol::IPV4 => {
                let source = frame.packet.get(12..).and_then(<[u8]>::first_chunk);
                // Before packets may flow, and after.
                let Some(source) = source.filter(|_| line.open) else {
                    return Frame::Wrong;
                };
                (u32::from_be_bytes(*source) == line.address, Frame::Packet)
            }
            protocol::IPV6 if line.open6 => {
                let source = frame.packet.get(8..).and_then(<[u8]>::first_chunk);
                let Some(source) = source.map(|source| u64::from_be_bytes(*source)) else {
                    return Frame::Wrong;
                };
                if is_local(source) {
                    return Frame::Control;
                }
                let prefix = self.prefixes.wrapping_add(slot(frame.session) as u64);
                (source == prefix, Frame::Packet6)
            }
            _ => return Frame::Control,
        };
        if !right {
            line.spoofed += 1;
            self.strays.spoofed += 1;
            return Frame::Wrong;
        }
        let length = frame.packet.len();
        line.in_packets += 1;
        line.in_bytes += length as u64;
        packet.truncate(HEADERS + length);
        packet.pull(HEADERS);
        kind
    }

    /// Puts session headers in front of packets, by their destination address; `each` is told whether a
    /// session has it.
    #[inline]
    pub fn put_on(&mut self, batch: &mut Batch, mut each: impl FnMut(usize, bool)) {
        let mut found = [Found::Nothing; BATCH];
        for (packet, found) in batch.iter().zip(&mut found) {
            *found = destination(packet.data());
            if let Found::Address(address, hash) = found {
                *hash = self.addresses.hash(0, key(*address));
                self.addresses.lines().prefetch(*hash);
            }
        }
        for (number, (packet, found)) in batch.iter_mut().zip(found).enumerate() {
            let (slot, protocol) = match found {
                Found::Nothing => (None, 0),
                Found::Address(address, hash) => (self.find_hashed(address, hash), protocol::IPV4),
                Found::Prefix(upper) => (self.find6(upper), protocol::IPV6),
            };
            let length = packet.len();
            let line = match slot {
                Some(slot) => self.lines.get_mut(slot),
                None => None,
            };
            let (Some(slot), Some(line)) = (slot, line) else {
                self.strays.unreachable += 1;
                each(number, false);
                continue;
            };
            let header = headers(self.own, line.peer, slot, protocol, length);
            let is_written = packet.push(HEADERS) && {
                packet.set_mac_header(0);
                let place = packet.data_mut().first_chunk_mut();
                place.map(|place| *place = header).is_some()
            };
            if is_written {
                line.out_packets += 1;
                line.out_bytes += length as u64;
            }
            each(number, is_written);
        }
    }
}

/// What a session frame carries.
pub struct Look<'d> {
    pub session: u16,
    pub protocol: u16,
    pub packet: &'d [u8],
}

/// Reads a session frame and its sender; `None` if it is none.
#[inline]
pub fn look(data: &[u8]) -> Option<(Look<'_>, EtherAddress)> {
    let (ether, rest) = data.split_first_chunk::<ETHER>()?;
    let ether = EthernetFrame::new_checked(ether).ok()?;
    let (header, payload) = Header::parse(rest)?;
    if ether.ethertype() != SESSION || header.code != code::SESSION {
        return None;
    }
    let (number, packet) = payload.split_first_chunk()?;
    let look = Look {
        session: header.session,
        protocol: u16::from_be_bytes(*number),
        packet,
    };
    Some((look, ether.source()))
}

/// Whether addresses with this upper half are of local scope, or none.
#[inline]
fn is_local(upper: u64) -> bool {
    upper == 0 || upper >> 54 == 0xfe80 >> 6
}

/// What a packet's session is found by.
#[derive(Clone, Copy)]
enum Found {
    Nothing,
    /// The address, and its hash.
    Address(u32, u64),
    /// The upper half of an address of IPv6.
    Prefix(u64),
}

/// What the session of a packet's destination is found by; the hash is not computed.
#[inline]
fn destination(data: &[u8]) -> Found {
    let found = match data.first().map(|byte| byte >> 4) {
        Some(4) => {
            let bytes = data.get(16..).and_then(<[u8]>::first_chunk);
            bytes.map(|bytes| Found::Address(u32::from_be_bytes(*bytes), 0))
        }
        Some(6) => {
            let bytes = data.get(24..).and_then(<[u8]>::first_chunk);
            bytes.map(|bytes| Found::Prefix(u64::from_be_bytes(*bytes)))
        }
        _ => None,
    };
    found.unwrap_or(Found::Nothing)
}

/// A session frame's headers, for a packet of `length` bytes.
#[inline]
pub fn headers(
    own: EtherAddress,
    peer: EtherAddress,
    slot: usize,
    protocol: u16,
    length: usize,
) -> [u8; HEADERS] {
    let ether = EthernetHeader {
        destination: peer,
        source: own,
        ethertype: SESSION,
    };
    let header = Header {
        code: code::SESSION,
        session: number(slot),
        length: (length + 2) as u16,
    };
    let mut bytes = [0; HEADERS];
    bytes[..ETHER].copy_from_slice(&ether.to_bytes());
    bytes[ETHER..ETHER + HEADER].copy_from_slice(&header.to_bytes());
    bytes[ETHER + HEADER..].copy_from_slice(&protocol.to_be_bytes());
    bytes
}
