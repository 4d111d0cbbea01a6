//! The mappings of a carrier-grade NAT: which port outside stands for which port of a subscriber.
//!
//! A mapping is found by its port inside and by its port outside. All memory is allocated at once:
//! 24 bytes a mapping, and some 34 of the index. A wheel of lists holds each mapping until its time may be
//! up; then its last packet is looked at, and if that is too recent the mapping waits again.

use crate::prelude::*;
use crate::rewriter::flow::{Direction, Entry};
use crate::rewriter::index::{Index, NoMemory};
use crate::rewriter::key::FlowKey;

/// The end of a list.
const NONE: u32 = u32::MAX;
/// Slots of the wheel: a mapping whose time is further off is looked at once a turn.
const SLOTS: u32 = 256;

/// An address and a port, and of which protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub protocol: u8,
    pub port: u16,
    pub address: u32,
}

/// What the packets of a mapping have shown so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Packets from inside alone.
    #[default]
    Opening,
    /// Packets of both sides.
    Open,
    /// TCP: a FIN or a RST.
    Closing,
}

/// A mapping.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mapping {
    pub inside: u32,
    pub inside_port: u16,
    pub outside_port: u16,
    /// The block of the port outside.
    pub block: u32,
    /// The tick of its last packet.
    last: u32,
    next: u32,
    pub protocol: u8,
    pub phase: Phase,
}

const _: () = assert!(size_of::<Mapping>() == 24);

/// How long mappings live without packets, in ticks.
#[derive(Component, Clone)]
pub struct Timeouts {
    /// Seconds that a mapping of TCP lives without packets before a connection is open, and after one
    /// closed.
    #[arg(default = 240)]
    tcp_transitory: u32,
    /// Seconds that a mapping of TCP lives without packets while a connection is open.
    #[arg(default = 7440)]
    tcp: u32,
    /// Seconds that a mapping of UDP lives without packets from inside.
    #[arg(default = 300)]
    udp: u32,
    /// Seconds that a mapping of ICMP queries lives without packets from inside.
    #[arg(default = 60)]
    icmp: u32,
}

impl Timeouts {
    fn of(&self, mapping: &Mapping) -> u32 {
        let timeout = match (IpProtocol(mapping.protocol), mapping.phase) {
            (IpProtocol::TCP, Phase::Open) => self.tcp,
            (IpProtocol::TCP, _) => self.tcp_transitory,
            (IpProtocol::UDP, _) => self.udp,
            _ => self.icmp,
        };
        timeout.max(1)
    }
}

/// All mappings, each with the address of its port outside.
#[derive(Default)]
pub struct Table {
    index: Index,
    mappings: Vec<Mapping>,
    free: u32,
    count: usize,
    wheel: Vec<u32>,
    now: u32,
}

fn key(end: Endpoint, side: Direction) -> (u16, FlowKey) {
    let key = match side {
        Direction::Forward => FlowKey {
            addresses: u64::from(end.address) << 32,
            ports: u32::from(end.port) << 16,
        },
        Direction::Reply => FlowKey {
            addresses: end.address.into(),
            ports: end.port.into(),
        },
    };
    (end.protocol.into(), key)
}

impl Table {
    pub fn new(capacity: usize, now: u32, seeds: [u64; 2]) -> Result<Table, NoMemory> {
        let mut table = Table {
            now,
            free: NONE,
            ..Table::default()
        };
        table.index.seed(seeds);
        table.index.reserve(2 * capacity, |_, _| 0)?;
        let mappings = &mut table.mappings;
        mappings.try_reserve_exact(capacity).map_err(|_| NoMemory)?;
        mappings.resize(capacity, Mapping::default());
        for number in (0..capacity as u32).rev() {
            mappings[number as usize].next = core::mem::replace(&mut table.free, number);
        }
        table.wheel = vec![NONE; SLOTS as usize];
        Ok(table)
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn is_full(&self) -> bool {
        self.free == NONE
    }

    /// The hash of an endpoint: inside (forward) or outside (reply).
    #[inline]
    pub fn hash(&self, end: Endpoint, side: Direction) -> u64 {
        let (table, key) = key(end, side);
        self.index.hash(table, key)
    }

    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.index.lines().prefetch(hash);
    }

    /// Asks for the mapping that probably has a hash.
    #[inline]
    pub fn prefetch_mapping(&self, hash: u64) {
        let number = self.index.lines().guess(hash);
        let number = number.map(|entry| Entry(entry).flow());
        if let Some(mapping) = number.and_then(|number| self.get(number)) {
            packet::prefetch(mapping);
        }
    }

    pub fn get(&self, number: u32) -> Option<&Mapping> {
        self.mappings.get(number as usize)
    }

    pub fn get_mut(&mut self, number: u32) -> Option<&mut Mapping> {
        self.mappings.get_mut(number as usize)
    }

    /// All mappings in use.
    pub fn iter(&self) -> impl Iterator<Item = &Mapping> {
        self.mappings.iter().filter(|mapping| mapping.protocol != 0)
    }

    /// The mapping of a port inside.
    #[inline]
    pub fn inside(&self, end: Endpoint, hash: u64) -> Option<u32> {
        let is_it = |entry: u32| {
            let entry = Entry(entry);
            let mapping = self.mappings.get(entry.flow() as usize);
            entry.direction() == Direction::Forward
                && mapping.is_some_and(|it| {
                    (it.inside, it.inside_port, it.protocol)
                        == (end.address, end.port, end.protocol)
                })
        };
        Some(Entry(self.index.find(hash, is_it)?).flow())
    }

    /// The mapping of a port outside; `address` tells the address of a block.
    #[inline]
    pub fn outside(&self, end: Endpoint, hash: u64, address: impl Fn(u32) -> u32) -> Option<u32> {
        let is_it = |entry: u32| {
            let entry = Entry(entry);
            let mapping = self.mappings.get(entry.flow() as usize);
            entry.direction() == Direction::Reply
                && mapping.is_some_and(|it| {
                    (address(it.block), it.outside_port, it.protocol)
                        == (end.address, end.port, end.protocol)
                })
        };
        Some(Entry(self.index.find(hash, is_it)?).flow())
    }

    /// Notes a packet.
    #[inline]
    pub fn touch(&mut self, number: u32) {
        if let Some(mapping) = self.mappings.get_mut(number as usize) {
            mapping.last = self.now;
        }
    }

    /// Adds a mapping; `None` if all are in use.
    pub fn add(
        &mut self,
        inside: Endpoint,
        outside: Endpoint,
        block: u32,
        timeouts: &Timeouts,
    ) -> Option<u32> {
        let number = self.free;
        let mapping = self.mappings.get_mut(number as usize)?;
        self.free = mapping.next;
        *mapping = Mapping {
            inside: inside.address,
            inside_port: inside.port,
            outside_port: outside.port,
            block,
            last: self.now,
            next: NONE,
            protocol: inside.protocol,
            phase: Phase::Opening,
        };
        for (end, side) in [(inside, Direction::Forward), (outside, Direction::Reply)] {
            let hash = self.hash(end, side);
            self.index.insert(hash, Entry::new(number, side).0);
        }
        self.count += 1;
        self.wait(number, timeouts);
        Some(number)
    }

    fn wait(&mut self, number: u32, timeouts: &Timeouts) {
        if let Some(mapping) = self.mappings.get_mut(number as usize) {
            let due = mapping.last.wrapping_add(timeouts.of(mapping)) % SLOTS;
            mapping.next = core::mem::replace(&mut self.wheel[due as usize], number);
        }
    }

    /// Sets the time, and ends the mappings whose time is up.
    pub fn advance(
        &mut self,
        now: u32,
        timeouts: &Timeouts,
        address: impl Fn(u32) -> u32,
        mut ended: impl FnMut(&Mapping),
    ) {
        let ticks = now.wrapping_sub(self.now).min(SLOTS);
        self.now = now;
        for back in (0..ticks).rev() {
            let slot = (now.wrapping_sub(back) % SLOTS) as usize;
            let mut number = core::mem::replace(&mut self.wheel[slot], NONE);
            while let Some(mapping) = self.mappings.get(number as usize).copied() {
                if now.wrapping_sub(mapping.last) >= timeouts.of(&mapping) {
                    self.end(number, address(mapping.block));
                    ended(&mapping);
                } else {
                    self.wait(number, timeouts);
                }
                number = mapping.next;
            }
        }
    }

    /// Ends a mapping that waits in no list.
    fn end(&mut self, number: u32, address: u32) {
        let Some(mapping) = self.mappings.get(number as usize).copied() else {
            return;
        };
        let inside = Endpoint {
            protocol: mapping.protocol,
            port: mapping.inside_port,
            address: mapping.inside,
        };
        let outside = Endpoint {
            protocol: mapping.protocol,
            port: mapping.outside_port,
            address,
        };
        for (end, side) in [(inside, Direction::Forward), (outside, Direction::Reply)] {
            let hash = self.hash(end, side);
            self.index.remove(hash, Entry::new(number, side).0);
        }
        if let Some(mapping) = self.mappings.get_mut(number as usize) {
            *mapping = Mapping {
                next: core::mem::replace(&mut self.free, number),
                ..Mapping::default()
            };
        }
        self.count -= 1;
    }
}
