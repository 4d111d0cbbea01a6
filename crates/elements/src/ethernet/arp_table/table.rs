//! The table behind ARPTable, ARPQuerier and IP6NDSolicitor: which Ethernet address an IP address
//! has, and which packets wait to learn it.
//!
//! Entries stand in a list by age, the oldest first; an entry that is learned again moves to its
//! end. Packets that wait hang on their entry, first in, first out. Entries and packets live in
//! two arenas that grow up to their limits and are used again and again.

use hashbrown::HashMap;

pub use super::limits::{Limits, Millis};
use crate::headers::destination::Address;
use crate::prelude::*;

/// Most entries of a table without an entry capacity: a neighbour for each address of a /20, in
/// some hundred KiB of memory. What asks for more is a scan.
pub const ENTRIES_MAX: u32 = 1 << 12;
/// One part in this many of a pool's own buffers may wait: were it all of them, replies could not
/// come in.
const POOL_SHARE: usize = 4;
/// Queries without an answer after which queries become rare.
const QUERIES_FREQUENT: u8 = 10;
/// Between two queries for an address.
const QUERY_INTERVAL: Millis = Millis(100);
/// The same for rare queries.
const RARE_QUERY_INTERVAL: Millis = Millis(2000);

/// Queries without an answer after which a neighbor is taken to be unreachable (RFC 4861, section 10).
const QUERIES_IN_VAIN: u8 = 3;
/// How long it had to answer.
const IN_VAIN: Millis = Millis(3000);

/// No index in an arena.
const NONE: u32 = u32::MAX;

struct Entry<A> {
    ip: A,
    ether: EtherAddress,
    known: bool,
    /// Queries since the last answer.
    polls: u8,
    live_at: Millis,
    polled_at: Millis,
    /// When the first of these queries was sent.
    asked_at: Millis,
    /// The packets that wait.
    first: u32,
    last: u32,
    packets: u32,
    /// Neighbours by age.
    older: u32,
    newer: u32,
}

impl<A> Entry<A> {
    #[inline]
    fn expired(&self, now: Millis, timeout: Millis) -> bool {
        timeout > Millis(0) && self.live_at + timeout < now
    }

    #[inline]
    fn known(&self, now: Millis, timeout: Millis) -> bool {
        self.known && !self.expired(now, timeout)
    }

    /// Whether a query may be sent; takes it for sent then.
    fn poll(&mut self, now: Millis) -> bool {
        let pause = if self.polls >= QUERIES_FREQUENT {
            RARE_QUERY_INTERVAL
        } else {
            QUERY_INTERVAL
        };
        let may = now >= self.polled_at + pause;
        if may {
            if self.polls == 0 {
                self.asked_at = now;
            }
            self.polled_at = now;
            self.polls = self.polls.saturating_add(1);
        }
        may
    }
}

struct Waiting {
    packet: Option<Packet>,
    next: u32,
}

/// What became of a packet given to [`Table::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// It waits, and it is time to send a query.
    AndQuery,
    /// It waits.
    Silently,
    /// There was no room: it was dropped.
    Not,
}

/// See the module.
pub struct Table<A = Ipv4Addr> {
    pub limits: Limits,
    index: HashMap<A, u32>,
    entries: Vec<Entry<A>>,
    free_entries: Vec<u32>,
    oldest: u32,
    newest: u32,
    waiting: Vec<Waiting>,
    free_waiting: Vec<u32>,
    /// The entry found last: packets to one address often come in a row.
    recent: u32,
    packets: u32,
    drops: u64,
}

impl<A> Default for Table<A> {
    fn default() -> Self {
        Table {
            limits: Limits::default(),
            index: HashMap::new(),
            entries: Vec::new(),
            free_entries: Vec::new(),
            oldest: NONE,
            newest: NONE,
            waiting: Vec::new(),
            free_waiting: Vec::new(),
            recent: NONE,
            packets: 0,
            drops: 0,
        }
    }
}

impl<A: Address> Table<A> {
    /// Number of entries.
    pub fn count(&self) -> usize {
        self.index.len()
    }

    /// Number of packets that wait.
    pub fn length(&self) -> u32 {
        self.packets
    }

    /// Packets that waited in vain, or found no room to wait.
    pub fn drops(&self) -> u64 {
        self.drops
    }

    /// Takes over all that is in `old`, but not its limits.
    pub fn take_over(&mut self, old: &mut Self) {
        let limits = core::mem::take(&mut self.limits);
        *self = core::mem::take(old);
        old.limits = core::mem::replace(&mut self.limits, limits);
    }

    fn find(&mut self, ip: A) -> Option<u32> {
        if let Some(entry) = self.entries.get(self.recent as usize)
            && entry.ip == ip
        {
            return Some(self.recent);
        }
        let at = *self.index.get(&ip)?;
        self.recent = at;
        Some(at)
    }

    /// The Ethernet address of `ip`, if it is known, and whether it is time to ask again: `poll`
    /// after it was learned (0: never).
    #[inline]
    pub fn lookup(&mut self, ip: A, now: Millis, poll: Millis) -> Option<(EtherAddress, bool)> {
        let at = self.find(ip)?;
        let entry = &mut self.entries[at as usize];
        if !entry.known(now, self.limits.timeout) {
            return None;
        }
        let due = poll > Millis(0) && now >= entry.live_at + poll && entry.poll(now);
        Some((entry.ether, due))
    }

    /// Learns that `ip` is at `ether`; the broadcast address means that it is not known any more.
    pub fn insert(&mut self, pool: &mut Pool, ip: A, ether: EtherAddress, now: Millis) {
        let Some(at) = self.ensure(pool, ip, now) else {
            return;
        };
        self.unlink(at);
        self.link_before(NONE, at);
        let entry = &mut self.entries[at as usize];
        entry.ether = ether;
        entry.known = !ether.is_broadcast();
        entry.live_at = now;
        entry.polled_at = now - Millis::SECOND;
        entry.polls = 0;
    }

    /// Whether `ip`, which is not known, did not answer for long, and if so whether it is time to ask again.
    pub fn asked_in_vain(&mut self, ip: A, now: Millis) -> Option<bool> {
        let at = self.find(ip)?;
        let entry = &mut self.entries[at as usize];
        let is_silent = entry.polls >= QUERIES_IN_VAIN && now >= entry.asked_at + IN_VAIN;
        is_silent.then(|| entry.poll(now))
    }

    /// Takes the first packet that waits for `ip`.
    pub fn next_waiting(&mut self, ip: A) -> Option<Packet> {
        let at = self.find(ip)?;
        self.pop(at)
    }

    /// Lets `packet` wait until `ip`, which is not known, is learned.
    pub fn wait(&mut self, pool: &mut Pool, ip: A, mut packet: Packet, now: Millis) -> Waits {
        let Some(at) = self.ensure(pool, ip, now) else {
            return self.refuse(pool, packet);
        };
        self.keep_alive(at, now);
        if !packet.make_whole() {
            // It would keep many buffers from packets that wait to be received.
            let waits = self.refuse(pool, packet);
            let asks = self.entries[at as usize].poll(now);
            return if asks { Waits::AndQuery } else { waits };
        }
        let most = self.limits.entry_packets;
        let full = most > 0 && self.entries[at as usize].packets >= most;
        if full || !make_room(&mut self.waiting, &mut self.free_waiting) {
            return self.refuse(pool, packet);
        }
        self.packets += 1;
        if self.packets > self.packets_max(pool) {
            self.slim_keeping(pool, now, at);
        }
        self.append(at, packet);
        if self.entries[at as usize].poll(now) {
            Waits::AndQuery
        } else {
            Waits::Silently
        }
    }

    #[cold]
    fn refuse(&mut self, pool: &mut Pool, packet: Packet) -> Waits {
        self.drops += packet.stands_for() as u64;
        pool.kill(packet);
        Waits::Not
    }

    /// Drops entries that have expired or are too many, and packets where too many wait, the
    /// oldest first.
    pub fn slim(&mut self, pool: &mut Pool, now: Millis) {
        self.slim_keeping(pool, now, NONE);
    }

    /// As [`slim`](Self::slim), but keeps the entry at `kept`, to which a packet is to be added.
    fn slim_keeping(&mut self, pool: &mut Pool, now: Millis, kept: u32) {
        self.slim_entries(pool, now, self.entries_max(), kept);
        let most = self.packets_max(pool);
        if self.packets <= most {
            return;
        }
        // One packet at least stays: the one that asked for room is counted, but not here yet.
        let most = (most - most / self.limits.slim_factor).max(1);
        let mut at = self.oldest;
        while self.packets > most
            && let Some(entry) = self.entries.get(at as usize)
        {
            let newer = entry.newer;
            while self.packets > most
                && let Some(packet) = self.pop(at)
            {
                self.drops += packet.stands_for() as u64;
                pool.kill(packet);
            }
            at = newer;
        }
    }

    fn slim_entries(&mut self, pool: &mut Pool, now: Millis, most: usize, kept: u32) {
        while let Some(entry) = self.entries.get(self.oldest as usize) {
            let may_stay = !entry.expired(now, self.limits.timeout) && self.count() <= most;
            if may_stay || self.oldest == kept {
                break;
            }
            self.remove(pool, self.oldest);
        }
    }

    /// Most packets that wait; not 0.
    fn packets_max(&self, pool: &Pool) -> u32 {
        let share = u32::try_from(pool.own() / POOL_SHARE)
            .unwrap_or(u32::MAX)
            .max(1);
        match self.limits.packets {
            0 => share,
            most => most.min(share),
        }
    }

    fn entries_max(&self) -> usize {
        match self.limits.entries {
            0 => ENTRIES_MAX as usize,
            most => most as usize,
        }
    }

    /// Drops all entries and packets.
    pub fn clear(&mut self, pool: &mut Pool) {
        while self.oldest != NONE {
            self.remove(pool, self.oldest);
        }
    }

    /// A line for each entry, the oldest first: IP address, 1 if it is known, Ethernet address,
    /// seconds since it was learned.
    pub fn unparse(&self, now: Millis) -> Result<String, HandlerError> {
        listing(|out| {
            self.iter(now).try_for_each(|(ip, known, ether, age)| {
                let age = Timestamp(age.0.saturating_mul(1_000_000));
                writeln!(out, "{} {} {ether} {age}", ip.text(), u8::from(known))
            })
        })
    }

    /// The entries, the oldest first: address, whether it is known, Ethernet address, and how long
    /// ago it was learned.
    pub fn iter(&self, now: Millis) -> impl Iterator<Item = (A, bool, EtherAddress, Millis)> {
        let mut at = self.oldest;
        core::iter::from_fn(move || {
            let entry = self.entries.get(at as usize)?;
            at = entry.newer;
            let known = entry.known(now, self.limits.timeout);
            Some((entry.ip, known, entry.ether, now - entry.live_at))
        })
    }

    /// Whether there is an entry of `ip`, known or not.
    pub fn contains(&mut self, ip: A) -> bool {
        self.find(ip).is_some()
    }

    /// Makes room for one more entry; where there is no memory, in the place of the oldest ones.
    /// False if there is none even so.
    fn reserve(&mut self, pool: &mut Pool) -> bool {
        while !make_room(&mut self.entries, &mut self.free_entries)
            || self.index.try_reserve(1).is_err()
        {
            if self.oldest == NONE {
                return false;
            }
            self.remove(pool, self.oldest);
        }
        true
    }

    /// The entry of `ip`, new if there was none. `None` if there is no memory.
    fn ensure(&mut self, pool: &mut Pool, ip: A, now: Millis) -> Option<u32> {
        if let Some(at) = self.find(ip) {
            return Some(at);
        }
        if self.count() >= self.entries_max() {
            // The new one counts too.
            self.slim_entries(pool, now, self.entries_max() - 1, NONE);
        }
        if !self.reserve(pool) {
            return None;
        }
        let entry = Entry {
            ip,
            ether: EtherAddress::BROADCAST,
            known: false,
            polls: 0,
            live_at: now,
            polled_at: now - Millis::SECOND,
            asked_at: now,
            first: NONE,
            last: NONE,
            packets: 0,
            older: NONE,
            newer: NONE,
        };
        let at = put(&mut self.entries, &mut self.free_entries, entry);
        self.index.insert(ip, at);
        self.link_before(NONE, at);
        self.recent = at;
        Some(at)
    }

    /// Keeps an entry that packets are still sent to just this side of expiring, so that making
    /// room for a packet never takes away the entry it is to wait at.
    fn keep_alive(&mut self, at: u32, now: Millis) {
        let Limits { timeout, .. } = self.limits;
        let least = now - timeout;
        let entry = &mut self.entries[at as usize];
        if timeout == Millis(0) || entry.live_at >= least {
            return;
        }
        entry.live_at = least;
        let next = entry.newer;
        let mut place = next;
        while let Some(entry) = self.entries.get(place as usize)
            && entry.live_at < least
        {
            place = entry.newer;
        }
        if place != next {
            self.unlink(at);
            self.link_before(place, at);
        }
    }

    fn remove(&mut self, pool: &mut Pool, at: u32) {
        while let Some(packet) = self.pop(at) {
            self.drops += packet.stands_for() as u64;
            pool.kill(packet);
        }
        self.unlink(at);
        self.index.remove(&self.entries[at as usize].ip);
        self.recent = NONE;
        self.free_entries.push(at);
    }

    fn append(&mut self, at: u32, packet: Packet) {
        let waiting = Waiting {
            packet: Some(packet),
            next: NONE,
        };
        let new = put(&mut self.waiting, &mut self.free_waiting, waiting);
        let entry = &mut self.entries[at as usize];
        match self.waiting.get_mut(entry.last as usize) {
            Some(last) => last.next = new,
            None => entry.first = new,
        }
        entry.last = new;
        entry.packets += 1;
    }

    fn pop(&mut self, at: u32) -> Option<Packet> {
        let entry = self.entries.get_mut(at as usize)?;
        let first = self.waiting.get_mut(entry.first as usize)?;
        self.free_waiting.push(entry.first);
        entry.first = first.next;
        if entry.first == NONE {
            entry.last = NONE;
        }
        entry.packets -= 1;
        self.packets -= 1;
        first.packet.take()
    }

    /// Takes an entry out of the list by age.
    fn unlink(&mut self, at: u32) {
        let Entry { older, newer, .. } = self.entries[at as usize];
        match self.entries.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.entries.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
    }

    /// Puts an entry into the list by age, before `newer` or at the end.
    fn link_before(&mut self, newer: u32, at: u32) {
        let older = match self.entries.get_mut(newer as usize) {
            Some(newer) => core::mem::replace(&mut newer.older, at),
            None => core::mem::replace(&mut self.newest, at),
        };
        match self.entries.get_mut(older as usize) {
            Some(older) => older.newer = at,
            None => self.oldest = at,
        }
        let entry = &mut self.entries[at as usize];
        (entry.older, entry.newer) = (older, newer);
    }
}

/// Makes room for one more value in an arena, and for every place of it in the list of free ones,
/// so that neither [`put`] nor giving places back needs memory. False if there is none.
fn make_room<T>(arena: &mut Vec<T>, free: &mut Vec<u32>) -> bool {
    !free.is_empty() || (arena.try_reserve(1).is_ok() && free.try_reserve(arena.len() + 1).is_ok())
}

/// Puts `value` into an arena that has room for it.
fn put<T>(arena: &mut Vec<T>, free: &mut Vec<u32>, value: T) -> u32 {
    match free.pop() {
        Some(at) => {
            arena[at as usize] = value;
            at
        }
        None => {
            arena.push(value);
            arena.len() as u32 - 1
        }
    }
}

#[cfg(test)]
mod tests;
