//! The ports of a carrier-grade NAT's addresses, in blocks, and the subscribers that have them.
//!
//! A subscriber has blocks of one address (RFC 4787, section 4.1: paired pooling), up to a limit; a
//! block's ports are taken at random (RFC 6056). A block without mappings goes back 120 s after the last one
//! ended (RFC 6888, requirement 8). All memory is allocated at once.

use super::log::Event;
use super::{PROTOCOLS, slot};
use crate::prelude::*;
use crate::rewriter::index::{Index, NoMemory};
use crate::rewriter::key::FlowKey;

const NONE: u32 = u32::MAX;
/// Ports below it are not used.
pub const FIRST_PORT: u16 = 1024;
/// Ports of an address.
pub const PORTS: u32 = 65536 - FIRST_PORT as u32;
/// Ticks that an unused block stays with its subscriber.
pub const HOLD: u32 = 120;

/// How addresses and ports are divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// The first address, and how many there are.
    pub first: u32,
    pub addresses: u32,
    /// Ports of a block.
    pub block: u32,
    /// The first address inside and how many there are, if a subscriber's block follows from
    /// its address (RFC 7422).
    pub fixed: Option<(u32, u32)>,
    /// Most subscribers.
    pub subscribers: u32,
    /// Most blocks of a subscriber.
    pub blocks: u32,
    /// Most mappings of a subscriber.
    pub mappings: u32,
    /// Most new mappings of a subscriber in a second.
    pub rate: u32,
}

impl Shape {
    /// Blocks of an address.
    pub fn per_address(&self) -> u32 {
        PORTS / self.block
    }

    /// The address of a block.
    #[inline]
    pub fn address(&self, block: u32) -> u32 {
        self.first.wrapping_add(block / self.per_address())
    }

    /// Whether an address is one of the pool.
    #[inline]
    pub fn has(&self, address: u32) -> bool {
        address.wrapping_sub(self.first) < self.addresses
    }

    /// The first port of a block.
    fn port(&self, block: u32) -> u16 {
        (u32::from(FIRST_PORT) + block % self.per_address() * self.block) as u16
    }

    fn ports(&self, block: u32) -> (u16, u16) {
        let first = self.port(block);
        (first, first + (self.block - 1) as u16)
    }

    /// The block that an address and a port outside belong to.
    pub fn block_of(&self, address: u32, port: u16) -> Option<u32> {
        let within = u32::from(port.checked_sub(FIRST_PORT)?) / self.block;
        let is_one = self.has(address) && within < self.per_address();
        is_one.then(|| (address - self.first) * self.per_address() + within)
    }

    /// The block of a subscriber, if it follows from its address; and the reverse.
    fn fixed_block(&self, subscriber: u32) -> Option<u32> {
        let (first, count) = self.fixed?;
        let number = subscriber.wrapping_sub(first);
        (number < count).then_some(number)
    }

    pub fn fixed_subscriber(&self, block: u32) -> Option<u32> {
        let (first, count) = self.fixed?;
        (block < count).then(|| first + block)
    }
}

/// Why a subscriber gets no mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// All subscribers are there already, or it is none.
    Subscribers,
    /// It has its most blocks or mappings.
    Limit,
    /// It made its most mappings of this second.
    Rate,
    /// Its address has no block left.
    Blocks,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    subscriber: u32,
    /// The subscriber's next block.
    next: u32,
    used: u32,
    /// The tick at which its last mapping ended.
    since: u32,
    /// Whether it is among the blocks that wait to go back.
    waits: bool,
}

const FREE: Block = Block {
    subscriber: NONE,
    next: NONE,
    used: 0,
    since: 0,
    waits: false,
};

/// A subscriber.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subscriber {
    pub address: u32,
    first: u32,
    pub blocks: u32,
    pub mappings: u32,
    second: u32,
    made: u32,
    /// New mappings that it did not get.
    pub refused: u32,
}

/// All blocks and subscribers.
#[derive(Default)]
pub struct Pool {
    pub shape: Shape,
    blocks: Vec<Block>,
    /// For each block and protocol a bit for each port in use.
    used: Vec<u64>,
    words: usize,
    /// Free blocks of each address.
    free_blocks: Vec<u32>,
    index: Index,
    subscribers: Vec<Subscriber>,
    free: Vec<u32>,
    waiting: VecDeque<u32>,
}

fn reserved<T: Clone>(value: T, count: usize) -> Result<Vec<T>, NoMemory> {
    let mut all = Vec::new();
    all.try_reserve_exact(count).map_err(|_| NoMemory)?;
    all.resize(count, value);
    Ok(all)
}

impl Pool {
    pub fn new(shape: Shape, seeds: [u64; 2]) -> Result<Pool, NoMemory> {
        let blocks = (shape.addresses * shape.per_address()) as usize;
        let subscribers = shape.subscribers as usize;
        let words = shape.block.div_ceil(64) as usize;
        let mut pool = Pool {
            shape,
            blocks: reserved(FREE, blocks)?,
            used: reserved(0, blocks * PROTOCOLS * words)?,
            words,
            free_blocks: reserved(shape.per_address(), shape.addresses as usize)?,
            subscribers: reserved(Subscriber::default(), subscribers)?,
            ..Pool::default()
        };
        pool.index.seed(seeds);
        pool.index.reserve(subscribers, |_, _| 0)?;
        let free = pool.free.try_reserve_exact(subscribers);
        let waiting = pool.waiting.try_reserve_exact(blocks);
        free.and(waiting).map_err(|_| NoMemory)?;
        pool.free.extend((0..subscribers as u32).rev());
        Ok(pool)
    }

    /// Subscribers with mappings or blocks, each with its address outside.
    pub fn subscribers(&self) -> impl Iterator<Item = (&Subscriber, u32)> {
        let all = self.subscribers.iter().filter(|it| it.blocks > 0);
        all.map(|it| (it, self.shape.address(it.first)))
    }

    /// The subscriber that has a block.
    pub fn subscriber_of(&self, block: u32) -> Option<u32> {
        let number = self.blocks.get(block as usize)?.subscriber;
        Some(self.subscribers.get(number as usize)?.address)
    }

    fn hash(&self, address: u32) -> u64 {
        let key = FlowKey {
            addresses: address.into(),
            ports: 0,
        };
        self.index.hash(0, key)
    }

    fn find(&self, address: u32) -> Option<u32> {
        let is_it = |number: u32| {
            let known = self.subscribers.get(number as usize);
            known.is_some_and(|it| it.address == address)
        };
        self.index.find(self.hash(address), is_it)
    }

    /// Takes a port for a subscriber: the block, and the port.
    pub fn take(
        &mut self,
        subscriber: u32,
        protocol: u8,
        now: (u32, i64),
        random: &mut Random,
        events: &mut Vec<Event>,
    ) -> Result<(u32, u16), Refusal> {
        let protocol = slot(protocol).ok_or(Refusal::Subscribers)?;
        let number = match self.find(subscriber) {
            Some(number) => number,
            None => self.subscribe(subscriber, now.1, random, events)?,
        };
        let taken = self.take_port(number, protocol, now, random, events);
        if taken.is_err()
            && let Some(known) = self.subscribers.get_mut(number as usize)
        {
            known.refused = known.refused.saturating_add(1);
        }
        taken
    }

    fn take_port(
        &mut self,
        number: u32,
        protocol: usize,
        (now, time): (u32, i64),
        random: &mut Random,
        events: &mut Vec<Event>,
    ) -> Result<(u32, u16), Refusal> {
        let shape = self.shape;
        let known = &mut self.subscribers[number as usize];
        if known.second != now {
            (known.second, known.made) = (now, 0);
        }
        if known.made >= shape.rate {
            return Err(Refusal::Rate);
        }
        if known.mappings >= shape.mappings {
            return Err(Refusal::Limit);
        }
        let (mut block, blocks) = (known.first, known.blocks);
        let port = loop {
            if let Some(port) = self.take_of(block, protocol, random) {
                break port;
            }
            let next = self.blocks.get(block as usize).map_or(NONE, |it| it.next);
            if next != NONE {
                block = next;
                continue;
            }
            if blocks >= shape.blocks {
                return Err(Refusal::Limit);
            }
            let of = self.subscribers[number as usize].first / shape.per_address();
            let new = self.free_block(of, random).ok_or(Refusal::Blocks)?;
            self.allocate(number, new, time, events);
            self.blocks[block as usize].next = new;
            block = new;
        };
        let known = &mut self.subscribers[number as usize];
        known.mappings += 1;
        known.made += 1;
        self.blocks[block as usize].used += 1;
        Ok((block, shape.port(block) + port))
    }

    /// Begins with a subscriber, who gets a block.
    fn subscribe(
        &mut self,
        address: u32,
        time: i64,
        random: &mut Random,
        events: &mut Vec<Event>,
    ) -> Result<u32, Refusal> {
        let number = *self.free.last().ok_or(Refusal::Subscribers)?;
        let block = match self.shape.fixed {
            Some(_) => self
                .shape
                .fixed_block(address)
                .ok_or(Refusal::Subscribers)?,
            None => {
                let addresses = self.shape.addresses;
                let start = random.below(addresses);
                let mut all = (0..addresses).map(|at| (start + at) % addresses);
                let of = all.find(|at| self.free_blocks[*at as usize] > 0);
                let block = of.and_then(|of| self.free_block(of, random));
                block.ok_or(Refusal::Blocks)?
            }
        };
        self.free.pop();
        self.index.insert(self.hash(address), number);
        self.subscribers[number as usize] = Subscriber {
            address,
            first: block,
            ..Subscriber::default()
        };
        self.allocate(number, block, time, events);
        Ok(number)
    }

    /// A free block of an address, by chance.
    fn free_block(&self, address: u32, random: &mut Random) -> Option<u32> {
        let count = self.shape.per_address();
        let start = random.below(count);
        let mut all = (0..count).map(|at| address * count + (start + at) % count);
        all.find(|block| {
            let known = self.blocks.get(*block as usize);
            known.is_some_and(|it| it.subscriber == NONE)
        })
    }

    fn allocate(&mut self, number: u32, block: u32, time: i64, events: &mut Vec<Event>) {
        self.blocks[block as usize] = Block {
            subscriber: number,
            ..FREE
        };
        self.free_blocks[(block / self.shape.per_address()) as usize] -= 1;
        self.subscribers[number as usize].blocks += 1;
        self.log(number, block, time, true, events);
    }

    /// Logs an event, unless what a subscriber has follows from its address.
    fn log(
        &self,
        number: u32,
        block: u32,
        time: i64,
        is_allocation: bool,
        events: &mut Vec<Event>,
    ) {
        if self.shape.fixed.is_none() {
            events.push(Event {
                time,
                is_allocation,
                subscriber: Ipv4Addr::from_bits(self.subscribers[number as usize].address),
                address: Ipv4Addr::from_bits(self.shape.address(block)),
                ports: self.shape.ports(block),
            });
        }
    }

    fn bits(&mut self, block: u32, protocol: usize) -> &mut [u64] {
        let at = (block as usize * PROTOCOLS + protocol) * self.words;
        self.used.get_mut(at..at + self.words).unwrap_or_default()
    }

    /// Takes a free port of a block, by chance: its number in the block.
    fn take_of(&mut self, block: u32, protocol: usize, random: &mut Random) -> Option<u16> {
        let size = self.shape.block;
        let start = random.below(size);
        let words = self.bits(block, protocol);
        let count = words.len() as u32;
        // From the start on to its word's end, the other words, and the word's beginning.
        for step in 0..=count {
            let at = (start / 64 + step) % count;
            let word = words.get_mut(at as usize)?;
            let valid = match size - at * 64 {
                bits if bits < 64 => (1 << bits) - 1,
                _ => u64::MAX,
            };
            let behind = if step == 0 {
                u64::MAX << (start % 64)
            } else {
                u64::MAX
            };
            let free = !*word & valid & behind;
            if free != 0 {
                let bit = free.trailing_zeros();
                *word |= 1 << bit;
                return Some((at * 64 + bit) as u16);
            }
        }
        None
    }

    /// Takes a mapping's port back.
    pub fn give_back(&mut self, block: u32, protocol: u8, port: u16, now: u32) {
        let Some(protocol) = slot(protocol) else {
            return;
        };
        let within = u32::from(port - self.shape.port(block));
        if let Some(word) = self.bits(block, protocol).get_mut((within / 64) as usize) {
            *word &= !(1 << (within % 64));
        }
        let Some(known) = self.blocks.get_mut(block as usize) else {
            return;
        };
        known.used = known.used.saturating_sub(1);
        if known.used == 0 {
            known.since = now;
            if !core::mem::replace(&mut known.waits, true) {
                self.waiting.push_back(block);
            }
        }
        if let Some(subscriber) = self.subscribers.get_mut(known.subscriber as usize) {
            subscriber.mappings = subscriber.mappings.saturating_sub(1);
        }
    }

    /// Takes back the blocks that were unused for long enough, a batch of them at most: each is a packet
    /// of the log.
    pub fn advance(&mut self, (now, time): (u32, i64), events: &mut Vec<Event>) {
        for _ in 0..self.waiting.len() {
            if events.len() >= BATCH {
                return;
            }
            let Some(block) = self.waiting.pop_front() else {
                return;
            };
            let Some(known) = self.blocks.get_mut(block as usize) else {
                continue;
            };
            if known.used > 0 {
                known.waits = false;
            } else if now.wrapping_sub(known.since) < HOLD {
                self.waiting.push_back(block);
            } else {
                self.release(block, time, events);
            }
        }
    }

    fn release(&mut self, block: u32, time: i64, events: &mut Vec<Event>) {
        let Block {
            subscriber: number,
            next,
            ..
        } = self.blocks[block as usize];
        self.log(number, block, time, false, events);
        self.blocks[block as usize] = FREE;
        self.free_blocks[(block / self.shape.per_address()) as usize] += 1;
        let known = &mut self.subscribers[number as usize];
        known.blocks -= 1;
        let address = known.address;
        if known.first == block {
            known.first = next;
        } else {
            let mut before = known.first;
            while let Some(it) = self.blocks.get_mut(before as usize) {
                if it.next == block {
                    it.next = next;
                    break;
                }
                before = it.next;
            }
        }
        if self.subscribers[number as usize].blocks == 0 {
            self.index.remove(self.hash(address), number);
            self.subscribers[number as usize] = Subscriber::default();
            self.free.push(number);
        }
    }
}
