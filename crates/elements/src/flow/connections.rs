//! The table of connections: each found by two keys, that of its packets in either direction.
//!
//! All memory is allocated at once. A connection is in one list at a time: that of the free ones, or a
//! slot of a wheel where it waits for its time to be up. Then its last packet is looked at, and if that
//! is too recent the connection waits again; so a packet writes a tick, and no list. Connections that
//! are over, and those that nothing has confirmed yet, are in a second list, oldest first: when the
//! table is full, the oldest that is over makes room, or if there is none the oldest unconfirmed one.

use crate::lists::Lists;
use crate::prelude::*;
use crate::rewriter::flow::{Direction, Entry};
use crate::rewriter::index::{Index, NoMemory};
use crate::rewriter::key::FlowKey;

use super::ip6::{Addresses, AnyKey, FlowKey6, Pair};
use super::state::{Claim, State};
use super::windows::{SegmentNumbers, TcpWindows};

/// Slots of the wheel: a connection whose time is further off is looked at once a turn.
const SLOTS: u32 = 256;

/// One connection: a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Connection {
    addresses: [u64; 2],
    ports: [u32; 2],
    /// The tick of its last packet.
    last: u32,
    /// Ticks that it lives after its last packet.
    timeout: u32,
    /// The batch of its last packet.
    batch: u32,
    /// The IP protocol, and [`IP6`].
    kind: u16,
    /// What its packets have shown so far.
    pub state: State,
    is_live: bool,
    /// Of TCP.
    pub windows: TcpWindows,
}

const _: () = assert!(size_of::<Connection>() == 64);

/// What is added to the protocol of a connection over IPv6.
const IP6: u16 = 0x100;

impl Connection {
    /// Its protocol.
    pub fn protocol(&self) -> IpProtocol {
        IpProtocol(self.kind as u8)
    }

    /// Whether it is over IPv6.
    pub fn is_ip6(&self) -> bool {
        self.kind & IP6 != 0
    }

    /// The key of its packets in a direction.
    pub fn key(&self, direction: Direction) -> FlowKey {
        let d = direction as usize;
        FlowKey {
            addresses: self.addresses[d],
            ports: self.ports[d],
        }
    }

    fn set_key(&mut self, direction: Direction, key: FlowKey) {
        let d = direction as usize;
        (self.addresses[d], self.ports[d]) = (key.addresses, key.ports);
    }
}

const FREE: Connection = Connection {
    addresses: [0; 2],
    ports: [0; 2],
    last: 0,
    timeout: 0,
    batch: 0,
    kind: 0,
    state: State::New,
    is_live: false,
    windows: TcpWindows::NEW,
};

/// Connections up to a capacity.
#[derive(Default)]
pub struct Connections {
    index: Index,
    connections: Vec<Connection>,
    /// Those of connections over IPv6.
    pub addresses: Addresses,
    /// Slots of the wheel, and free connections behind them.
    lists: Lists,
    /// Connections that make room for others: those that are over, and those that are not confirmed.
    yielding: Lists,
    count: usize,
    now: u32,
    batch: u32,
}

impl Connections {
    /// A table of so many connections. `seeds` make hashes unpredictable.
    pub fn new(capacity: usize, seeds: [u64; 2]) -> Result<Connections, NoMemory> {
        let mut table = Connections::default();
        table.index.seed(seeds);
        table.index.reserve(2 * capacity, |_, _| 0)?;
        let connections = &mut table.connections;
        connections
            .try_reserve_exact(capacity)
            .map_err(|_| NoMemory)?;
        connections.resize(capacity, FREE);
        table.lists = Lists::new(capacity + SLOTS as usize + 1).map_err(|_| NoMemory)?;
        table.addresses = Addresses::new(capacity)?;
        table.yielding = Lists::new(capacity + 2).map_err(|_| NoMemory)?;
        let free = table.free_list();
        for number in 0..capacity as u32 {
            table.lists.append(free, number);
        }
        Ok(table)
    }

    fn capacity(&self) -> u32 {
        self.connections.len() as u32
    }

    fn free_list(&self) -> u32 {
        self.capacity() + SLOTS
    }

    /// The list of the connections with a claim that make room for others; `None` if they do not.
    fn yielding_list(&self, claim: Claim) -> Option<u32> {
        match claim {
            Claim::Over => Some(self.capacity()),
            Claim::Unconfirmed => Some(self.capacity() + 1),
            Claim::Confirmed => None,
        }
    }

    /// The connection that makes room for another. One that had a packet of this batch does not.
    fn first_to_yield(&self) -> Option<u32> {
        let claims = [Claim::Over, Claim::Unconfirmed];
        let lists = claims.iter().filter_map(|claim| self.yielding_list(*claim));
        let mut oldest = lists.map(|list| self.yielding.next(list));
        oldest.find(|number| {
            let connection = self.connections.get(*number as usize);
            connection.is_some_and(|oldest| oldest.batch != self.batch)
        })
    }

    /// The time in ticks.
    pub fn now(&self) -> u32 {
        self.now
    }

    /// Connections.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Begins a batch of packets: none of its connections makes room for another.
    pub fn begin(&mut self) {
        self.batch = self.batch.wrapping_add(1);
    }

    /// The hash of the key of an IPv4 connection.
    #[inline]
    pub fn hash(&self, protocol: u8, key: FlowKey) -> u64 {
        self.index.hash(protocol.into(), key)
    }

    /// The hash of the key of an IPv6 connection.
    #[inline]
    pub fn hash6(&self, protocol: u8, key: FlowKey) -> u64 {
        self.index.hash(IP6 | u16::from(protocol), key)
    }

    /// Asks for the index's line of a hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.index.lines().prefetch(hash);
    }

    /// Asks for the connection that probably has a hash.
    #[inline]
    pub fn prefetch_connection(&self, hash: u64) {
        let number = self.index.lines().guess(hash);
        let number = number.map(|entry| Entry(entry).flow());
        if let Some(connection) = number.and_then(|n| self.connections.get(n as usize)) {
            packet::prefetch(connection);
        }
    }

    /// The IPv4 connection of a key, and the direction of the key's packets.
    #[inline]
    pub fn find(&self, protocol: u8, key: FlowKey, hash: u64) -> Option<(u32, Direction)> {
        self.find_kind(protocol.into(), key, hash, |_| true)
    }

    /// The IPv6 connection of a key and its addresses, and the direction of the key's packets.
    #[inline]
    pub fn find6(
        &self,
        protocol: u8,
        key: FlowKey,
        hash: u64,
        pair: Pair,
    ) -> Option<(u32, Direction)> {
        self.find_kind(IP6 | u16::from(protocol), key, hash, |entry| {
            self.addresses.get(entry.flow(), entry.direction()) == Some(pair)
        })
    }

    #[inline(always)]
    fn find_kind(
        &self,
        kind: u16,
        key: FlowKey,
        hash: u64,
        has_addresses: impl Fn(Entry) -> bool,
    ) -> Option<(u32, Direction)> {
        let is_it = |entry: u32| {
            let entry = Entry(entry);
            let connection = self.connections.get(entry.flow() as usize);
            connection.is_some_and(|it| it.kind == kind && it.key(entry.direction()) == key)
                && has_addresses(entry)
        };
        let entry = Entry(self.index.find(hash, is_it)?);
        Some((entry.flow(), entry.direction()))
    }

    /// The key of a connection's packets in a direction.
    pub fn key(&self, number: u32, direction: Direction) -> Option<AnyKey> {
        let connection = self.get(number)?;
        let key = connection.key(direction);
        Some(match connection.is_ip6() {
            false => AnyKey::V4(key),
            true => AnyKey::V6(FlowKey6 {
                addresses: self.addresses.get(number, direction)?,
                ports: key.ports,
            }),
        })
    }

    /// A connection by number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&Connection> {
        let connection = self.connections.get(number as usize);
        connection.filter(|connection| connection.is_live)
    }

    /// All connections with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Connection)> {
        let all = (0u32..).zip(&self.connections);
        all.filter(|(_, connection)| connection.is_live)
    }

    /// Ticks until a connection's time is up if no packet comes.
    pub fn left(&self, connection: &Connection) -> u32 {
        let idle = self.now.wrapping_sub(connection.last);
        connection.timeout.saturating_sub(idle)
    }

    /// Notes a packet.
    #[inline]
    pub fn touch(&mut self, number: u32) {
        if let Some(connection) = self.connections.get_mut(number as usize) {
            (connection.last, connection.batch) = (self.now, self.batch);
        }
    }

    /// Notes the numbers of a TCP segment; returns whether its FIN or RST counts.
    #[inline]
    pub fn note(&mut self, number: u32, direction: Direction, segment: &SegmentNumbers) -> bool {
        self.connections
            .get_mut(number as usize)
            .is_none_or(|it| it.windows.note(direction, segment, it.state.is_opening()))
    }

    /// Notes what a TCP segment acknowledges, where the other side's segments are not seen.
    #[inline]
    pub fn note_one_way(&mut self, number: u32, direction: Direction, segment: &SegmentNumbers) {
        if let Some(connection) = self.connections.get_mut(number as usize) {
            connection.windows.note_one_way(direction, segment);
        }
    }

    /// Sets what is known of a TCP connection's windows.
    pub fn set_windows(&mut self, number: u32, windows: TcpWindows) {
        if let Some(connection) = self.connections.get_mut(number as usize) {
            connection.windows = windows;
        }
    }

    /// Adds an IPv4 connection, whose first packet has `key`. If there is no room, the oldest connection that
    /// is over ends, or else the oldest that is not confirmed, unless they had a packet of this batch; its
    /// number goes to `evicted`.
    /// `None` if there is still no room, or another connection has the key of the replies.
    pub fn add(
        &mut self,
        protocol: u8,
        key: FlowKey,
        hash: u64,
        timeout: u32,
        evicted: impl FnOnce(u32),
    ) -> Option<u32> {
        self.add_kind(protocol.into(), key, hash, timeout, evicted)
    }

    /// The same of an IPv6 connection; `None` also if there is no memory for its addresses.
    pub fn add6(
        &mut self,
        protocol: u8,
        key: FlowKey,
        hash: u64,
        pair: Pair,
        timeout: u32,
        evicted: impl FnOnce(u32),
    ) -> Option<u32> {
        let number = self.add_kind(IP6 | u16::from(protocol), key, hash, timeout, evicted)?;
        if !self.addresses.set(number, pair) {
            self.end(number);
            return None;
        }
        Some(number)
    }

    fn add_kind(
        &mut self,
        kind: u16,
        key: FlowKey,
        hash: u64,
        timeout: u32,
        evicted: impl FnOnce(u32),
    ) -> Option<u32> {
        let reply = key.reverse();
        let reply_hash = self.index.hash(kind, reply);
        let mut number = self.lists.next(self.free_list());
        if number == self.free_list() {
            number = self.first_to_yield()?;
            self.end(number);
            evicted(number);
        }
        let connection = self.connections.get_mut(number as usize)?;
        *connection = Connection {
            last: self.now,
            timeout,
            batch: self.batch,
            kind,
            is_live: true,
            ..FREE
        };
        connection.set_key(Direction::Forward, key);
        connection.set_key(Direction::Reply, reply);
        self.index
            .insert(hash, Entry::new(number, Direction::Forward).0);
        self.index
            .insert(reply_hash, Entry::new(number, Direction::Reply).0);
        self.count += 1;
        self.yield_as(number, State::New.claim());
        self.wait(number);
        Some(number)
    }

    /// Sets a connection's state, and how long it lives from now on without packets.
    pub fn set_state(&mut self, number: u32, state: State, timeout: u32) {
        let Some(connection) = self.connections.get_mut(number as usize) else {
            return;
        };
        let before = core::mem::replace(&mut connection.state, state).claim();
        let is_other = core::mem::replace(&mut connection.timeout, timeout) != timeout;
        if before != state.claim() {
            self.yield_as(number, state.claim());
        }
        if is_other {
            self.wait(number);
        }
    }

    /// Has a connection make room for others as its claim says: after those of the same claim.
    fn yield_as(&mut self, number: u32, claim: Claim) {
        self.yielding.unlink(number);
        if let Some(list) = self.yielding_list(claim) {
            self.yielding.append(list, number);
        }
    }

    /// Gives the replies of a connection another key, of its version of IP; false if another connection has it, or
    /// there is no memory.
    pub fn set_reply(&mut self, number: u32, key: AnyKey) -> bool {
        let Some(connection) = self.get(number).copied() else {
            return false;
        };
        let (key, pair) = match key {
            AnyKey::V4(key) => (key, None),
            AnyKey::V6(key) => {
                let short = self.addresses.key(key.addresses, key.ports);
                (short, Some(key.addresses))
            }
        };
        if connection.is_ip6() != pair.is_some() {
            return false;
        }
        let protocol = connection.protocol().0;
        let hash = self.index.hash(connection.kind, key);
        let found = match pair {
            None => self.find(protocol, key, hash),
            Some(pair) => self.find6(protocol, key, hash, pair),
        };
        if found.is_some() {
            return found == Some((number, Direction::Reply));
        }
        if pair.is_some_and(|pair| !self.addresses.set_reply(number, pair)) {
            return false;
        }
        let entry = Entry::new(number, Direction::Reply).0;
        let old = self
            .index
            .hash(connection.kind, connection.key(Direction::Reply));
        self.index.remove(old, entry);
        self.index.insert(hash, entry);
        if let Some(connection) = self.connections.get_mut(number as usize) {
            connection.set_key(Direction::Reply, key);
        }
        true
    }

    /// Takes over the connections of another table, by their numbers; those whose numbers are beyond this
    /// one's capacity end, and those over IPv6 if there is no memory. Only while this one is empty.
    pub fn take_over(&mut self, old: &mut Connections) {
        if self.capacity() == old.capacity() {
            return core::mem::swap(self, old);
        }
        self.addresses.seeds = old.addresses.seeds;
        (self.now, self.batch) = (old.now, old.batch);
        for (number, connection) in old.iter() {
            if number >= self.capacity() {
                break;
            }
            let pair = old.addresses.get(number, Direction::Forward);
            let reply = old.addresses.reply(number);
            let has_place = !connection.is_ip6()
                || pair.is_some_and(|pair| self.addresses.set(number, pair))
                    && reply.is_none_or(|pair| self.addresses.set_reply(number, pair));
            let slot = self.connections.get_mut(number as usize);
            let Some(slot) = slot.filter(|_| has_place) else {
                continue;
            };
            *slot = *connection;
            for direction in [Direction::Forward, Direction::Reply] {
                let hash = self.index.hash(connection.kind, connection.key(direction));
                self.index.insert(hash, Entry::new(number, direction).0);
            }
            self.count += 1;
            self.wait(number);
        }
        for claim in [Claim::Over, Claim::Unconfirmed] {
            let Some(list) = old.yielding_list(claim) else {
                continue;
            };
            let mut number = old.yielding.next(list);
            while number != list {
                if self.get(number).is_some() {
                    self.yield_as(number, claim);
                }
                number = old.yielding.next(number);
            }
        }
    }

    /// Lets a connection wait until its time is up if no packet comes.
    fn wait(&mut self, number: u32) {
        if let Some(connection) = self.connections.get(number as usize) {
            let due = connection.last.wrapping_add(connection.timeout.max(1));
            self.lists.unlink(number);
            self.lists.append(self.capacity() + due % SLOTS, number);
        }
    }

    /// Sets the time in ticks, and ends the connections whose time is up.
    pub fn advance(&mut self, now: u32, mut ended: impl FnMut(u32)) {
        let ticks = now.wrapping_sub(self.now).min(SLOTS);
        self.now = now;
        for back in (0..ticks).rev() {
            let list = self.capacity() + now.wrapping_sub(back) % SLOTS;
            let mut number = self.lists.next(list);
            while let Some(connection) = self.connections.get(number as usize).copied() {
                let next = self.lists.next(number);
                if now.wrapping_sub(connection.last) >= connection.timeout {
                    self.end(number);
                    ended(number);
                } else {
                    let due = connection.last.wrapping_add(connection.timeout);
                    // One that waits for another turn stays where it is.
                    if self.capacity() + due % SLOTS != list {
                        self.wait(number);
                    }
                }
                number = next;
            }
        }
    }

    /// Ends a connection; false if it ended before.
    pub fn end(&mut self, number: u32) -> bool {
        let Some(connection) = self.connections.get_mut(number as usize) else {
            return false;
        };
        if !core::mem::take(&mut connection.is_live) {
            return false;
        }
        let connection = *connection;
        for direction in [Direction::Forward, Direction::Reply] {
            let hash = self.index.hash(connection.kind, connection.key(direction));
            self.index.remove(hash, Entry::new(number, direction).0);
        }
        self.yielding.unlink(number);
        self.lists.unlink(number);
        self.lists.append(self.free_list(), number);
        self.count -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn key(number: u16) -> FlowKey {
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        FlowKey::new((a, number), (b, 53))
    }

    /// What a test knows of a connection.
    #[derive(Clone, Copy)]
    struct Known {
        number: u32,
        last: u32,
        timeout: u32,
        claim: Claim,
        age: u32,
    }

    proptest! {
        /// Whatever packets come, a connection is found in both directions as long as its time is not
        /// up; only those make room that are over or else unconfirmed, oldest first.
        #[test]
        fn connections_live_as_long_as_they_get_packets(
            steps in prop::collection::vec((0u16..12, 0u32..4, 0u8..8), 0..300),
            leap in 1u32..90,
        ) {
            const CAPACITY: usize = 6;
            let mut table = Connections::new(CAPACITY, [1, 2]).unwrap();
            let mut model: HashMap<u16, Known> = HashMap::new();
            let mut now = 0;
            for (age, (port, wait, step)) in (0..).zip(steps) {
                now += wait * leap;
                let mut ended = Vec::new();
                table.advance(now, |number| ended.push(number));
                let mut expected = Vec::new();
                model.retain(|_, it| {
                    let lives = now - it.last < it.timeout;
                    if !lives {
                        expected.push(it.number);
                    }
                    lives
                });
                ended.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(ended, expected);
                table.begin();
                let key = key(port);
                for (key, direction) in [(key, Direction::Forward), (key.reverse(), Direction::Reply)] {
                    let found = table.find(17, key, table.hash(17, key));
                    let known = model.get(&port).map(|it| (it.number, direction));
                    prop_assert_eq!(found, known);
                }
                match model.get_mut(&port) {
                    Some(it) if step == 0 => {
                        prop_assert!(table.end(it.number));
                        prop_assert!(!table.end(it.number));
                        model.remove(&port);
                    }
                    Some(it) if step < 4 => {
                        let state = if step < 3 { State::Replied } else { State::Closed };
                        if it.claim != state.claim() {
                            it.age = age;
                        }
                        (it.timeout, it.last, it.claim) = (300, now, state.claim());
                        table.touch(it.number);
                        table.set_state(it.number, state, 300);
                    }
                    Some(it) => {
                        it.last = now;
                        table.touch(it.number);
                    }
                    None => {
                        let oldest = model.iter().filter(|(_, it)| it.claim != Claim::Confirmed);
                        let oldest = oldest.min_by_key(|(_, it)| (it.claim, it.age));
                        let oldest = oldest.map(|(port, _)| *port);
                        let full = model.len() == CAPACITY;
                        let mut evicted = None;
                        let hash = table.hash(17, key);
                        let added = table.add(17, key, hash, 20, |number| evicted = Some(number));
                        prop_assert_eq!(added.is_some(), !full || oldest.is_some());
                        let gone = oldest.filter(|_| full).and_then(|port| model.remove(&port));
                        prop_assert_eq!(evicted, gone.map(|it| it.number));
                        model.extend(added.map(|number| {
                            (port, Known { number, last: now, timeout: 20, claim: Claim::Unconfirmed, age })
                        }));
                    }
                }
                prop_assert_eq!(table.count(), model.len());
            }
        }
    }

    #[test]
    fn no_connection_of_the_batch_makes_room() {
        let mut table = Connections::new(2, [1, 2]).unwrap();
        table.begin();
        for port in 1..4 {
            let hash = table.hash(17, key(port));
            let added = table.add(17, key(port), hash, 20, |_| panic!("evicted"));
            assert_eq!(added.is_some(), port < 3);
        }
        table.begin();
        let hash = table.hash(17, key(3));
        let mut evicted = None;
        assert!(
            table
                .add(17, key(3), hash, 20, |it| evicted = Some(it))
                .is_some()
        );
        assert_eq!(evicted, Some(0));
    }

    #[test]
    fn replies_can_have_another_key() {
        let mut table = Connections::new(4, [1, 2]).unwrap();
        let hash = table.hash(17, key(1));
        let number = table.add(17, key(1), hash, 20, |_| {}).unwrap();
        let other = key(9).reverse();
        assert!(
            table.set_reply(number, AnyKey::V4(other))
                && table.set_reply(number, AnyKey::V4(other))
        );
        let find = |table: &Connections, key| table.find(17, key, table.hash(17, key));
        assert_eq!(find(&table, key(1).reverse()), None);
        assert_eq!(find(&table, other), Some((number, Direction::Reply)));
        let hash = table.hash(17, key(2));
        let second = table.add(17, key(2), hash, 20, |_| {}).unwrap();
        assert!(!table.set_reply(second, AnyKey::V4(other)));
        table.end(number);
        assert_eq!(find(&table, other), None);
        assert!(table.set_reply(second, AnyKey::V4(other)));
    }
}
