//! A table of IPv6 routes, found by the longest prefix that an address is in.
//!
//! Prefixes cut the address space into ranges, each of which leads to one hop; the ranges stand in
//! one sorted array. A look-up is a binary search. The look-ups of a batch go in step, so that what
//! they wait for from memory overlaps. A change writes the ranges of its prefix
//! again, and moves the ranges behind it.

use alloc::collections::BTreeMap;

use router::memory::RESERVE;

use crate::ip::route_table::{Order, Slots};
use crate::prelude::*;

/// Most routes of a table: twice those of the whole Internet.
pub const ROUTES_MAX: usize = 1 << 19;

/// Where packets for a prefix go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The router to send to; unspecified: the destination itself.
    pub gateway: Ipv6Addr,
    /// The output; [`NOWHERE`](Hop::NOWHERE)'s if there is no route.
    pub port: u32,
}

impl Hop {
    /// Where packets without a route go.
    pub const NOWHERE: Hop = Hop {
        gateway: Ipv6Addr::UNSPECIFIED,
        port: crate::filters::dispatch::DROP,
    };
}

/// The table has no room for another route, or there is no memory to recompute its ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// First address and length: wider prefixes sort before those in them.
type Key = (u128, u8);

fn key(prefix: Ipv6Prefix) -> Key {
    (prefix.network().to_bits(), prefix.length)
}

/// The last address of a prefix.
fn last((first, length): Key) -> u128 {
    first | u128::MAX.checked_shr(length.into()).unwrap_or(0)
}

/// See the module.
pub struct RouteTable {
    /// The routes in the order in which they are shown.
    slots: Slots<Key>,
    routes: BTreeMap<Key, (Hop, u32)>,
    /// The first address of each range; the first range starts at the first address there is.
    starts: Vec<u128>,
    hops: Vec<Hop>,
}

impl Default for RouteTable {
    fn default() -> Self {
        RouteTable {
            slots: Slots::new(Order::Lowest),
            routes: BTreeMap::new(),
            starts: alloc::vec![0],
            hops: alloc::vec![Hop::NOWHERE],
        }
    }
}

impl RouteTable {
    /// The routes, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Ipv6Prefix, Hop)> {
        self.slots.iter().filter_map(|key| {
            let (hop, _) = self.routes.get(key)?;
            let (address, length) = (Ipv6Addr::from_bits(key.0), key.1);
            Some((Ipv6Prefix { address, length }, *hop))
        })
    }

    /// Adds a route, in the place of that which its prefix has.
    pub fn add(&mut self, prefix: Ipv6Prefix, hop: Hop) -> Result<(), Full> {
        self.reserve(key(prefix))?;
        self.insert(key(prefix), hop)?;
        self.update(key(prefix));
        Ok(())
    }

    /// Makes sure that there is memory to recompute the ranges of a prefix.
    fn reserve(&mut self, key: Key) -> Result<(), Full> {
        let inside = self.routes.range(key..=(last(key), 128)).count();
        // Two ends each, those of the prefixes around, and of the prefix itself.
        let most = 2 * inside + 2 * 129;
        let run = 2 * most * size_of::<(u128, Hop)>();
        let has_room = self.starts.try_reserve(most).is_ok()
            && self.hops.try_reserve(most).is_ok()
            && spare(run + RESERVE);
        has_room.then_some(()).ok_or(Full)
    }

    /// Adds many routes at the cost of a few.
    pub fn add_all(
        &mut self,
        routes: impl IntoIterator<Item = (Ipv6Prefix, Hop)>,
    ) -> Result<(), Full> {
        for (prefix, hop) in routes {
            self.insert(key(prefix), hop)?;
        }
        self.reserve((0, 0))?;
        self.update((0, 0));
        Ok(())
    }

    /// Removes the route of a prefix; returns whether there was one.
    pub fn remove(&mut self, prefix: Ipv6Prefix) -> Result<bool, Full> {
        self.reserve(key(prefix))?;
        let Some((_, slot)) = self.routes.remove(&key(prefix)) else {
            return Ok(false);
        };
        self.slots.remove(slot);
        self.update(key(prefix));
        Ok(true)
    }

    fn insert(&mut self, key: Key, hop: Hop) -> Result<(), Full> {
        let is_full = self.routes.len() >= ROUTES_MAX && !self.routes.contains_key(&key);
        if is_full || !self.slots.reserve(1) || !spare(RESERVE) {
            return Err(Full);
        }
        if let Some((_, slot)) = self.routes.remove(&key) {
            self.slots.remove(slot);
        }
        let slot = self.slots.insert(key);
        self.routes.insert(key, (hop, slot));
        Ok(())
    }

    /// Recomputes the ranges of the addresses in `changed`.
    fn update(&mut self, changed: Key) {
        let (first, last) = (changed.0, last(changed));
        let mut run = Vec::new();
        self.cut(changed, &mut run);
        // What comes behind leads where it led, whatever range it was in.
        let from = self.starts.partition_point(|start| *start < first);
        let mut to = self.starts.partition_point(|start| *start <= last);
        if let Some(next) = last.checked_add(1) {
            let hop = match self.starts.get(to) {
                Some(start) if *start == next => {
                    to += 1;
                    self.hops[to - 1]
                }
                _ => self.find(next),
            };
            run.push((next, hop));
        }
        // Neighbours that lead the same way are one.
        let mut before = from.checked_sub(1).map(|at| self.hops[at]);
        run.retain(|(_, hop)| before.replace(*hop) != Some(*hop));
        self.starts
            .splice(from..to, run.iter().map(|(start, _)| *start));
        self.hops.splice(from..to, run.iter().map(|(_, hop)| *hop));
    }

    /// Cuts the addresses in `changed` into ranges, in order.
    fn cut(&self, changed: Key, run: &mut Vec<(u128, Hop)>) {
        // The prefixes that the present address is in, widest first: last address and hop.
        let mut around = Vec::with_capacity(129);
        around.push((u128::MAX, Hop::NOWHERE));
        for length in 0..changed.1 {
            let outer = (changed.0 & !last((0, length)), length);
            if let Some((hop, _)) = self.routes.get(&outer) {
                around.push((last(outer), *hop));
            }
        }
        let end = last(changed);
        // Where the next range starts; none behind the last address there is.
        let mut next = Some(changed.0);
        let mut up_to = |last: u128, hop: Hop| {
            if let Some(first) = next.filter(|first| *first <= last) {
                run.push((first, hop));
                next = last.checked_add(1);
            }
        };
        for (&inner, (hop, _)) in self.routes.range(changed..=(end, 128)) {
            while let Some(&(end, outer)) = around.last()
                && end < inner.0
            {
                up_to(end, outer);
                around.pop();
            }
            if let (Some(before), Some((_, outer))) = (inner.0.checked_sub(1), around.last()) {
                up_to(before, *outer);
            }
            around.push((last(inner), *hop));
        }
        while let Some((last, hop)) = around.pop() {
            up_to(last.min(end), hop);
        }
    }

    /// Where packets for `address` go.
    #[inline]
    pub fn find(&self, address: u128) -> Hop {
        let mut found = [Hop::NOWHERE];
        self.find_all(&[address], &mut found);
        found[0]
    }

    /// Where packets for each of several addresses go, as many as both have.
    #[inline]
    pub fn find_all<const N: usize>(&self, addresses: &[u128], found: &mut [Hop; N]) {
        // For each address: a range that starts at it or before. The first always does.
        let mut places = [0u32; N];
        let mut left = self.starts.len();
        while left > 1 {
            let half = left / 2;
            for (place, address) in places.iter_mut().zip(addresses) {
                let middle = *place + half as u32;
                let reached = self
                    .starts
                    .get(middle as usize)
                    .is_some_and(|start| start <= address);
                *place = if reached { middle } else { *place };
            }
            left -= half;
        }
        for ((found, place), _) in found.iter_mut().zip(places).zip(addresses) {
            let hop = self.hops.get(place as usize);
            *found = hop.copied().unwrap_or(Hop::NOWHERE);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Prefixes in a small part of the address space, so that they lie in each other.
    fn prefix() -> impl Strategy<Value = Ipv6Prefix> {
        let address = prop_oneof![
            (0u128..16, 0u128..16).prop_map(|(high, low)| high << 124 | low),
            (0u128..256).prop_map(|byte| byte << 60),
            Just(u128::MAX),
        ];
        let length = prop_oneof![Just(0u8), 0u8..=8, 60u8..=68, 120u8..=128];
        (address, length).prop_map(|(address, length)| Ipv6Prefix {
            address: Ipv6Addr::from_bits(address),
            length,
        })
    }

    #[derive(Clone, Debug)]
    enum Change {
        Add(Ipv6Prefix, u32),
        Remove(Ipv6Prefix),
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            3 => (prefix(), 0u32..4).prop_map(|(prefix, port)| Change::Add(prefix, port)),
            1 => prefix().prop_map(Change::Remove),
        ]
    }

    fn hop(port: u32) -> Hop {
        Hop {
            gateway: Ipv6Addr::from_bits(port.into()),
            port,
        }
    }

    /// Tries every route.
    fn naive(routes: &[(Ipv6Prefix, Hop)], address: u128) -> Hop {
        let address = Ipv6Addr::from_bits(address);
        let inside = routes.iter().filter(|(prefix, _)| prefix.contains(address));
        let longest = inside.max_by_key(|(prefix, _)| prefix.length);
        longest.map_or(Hop::NOWHERE, |(_, hop)| *hop)
    }

    fn check(table: &RouteTable, routes: &[(Ipv6Prefix, Hop)]) {
        let mut addresses = Vec::new();
        for (prefix, _) in routes {
            let (first, last) = (prefix.network().to_bits(), last(key(*prefix)));
            addresses.extend([first, last, first.wrapping_sub(1), last.wrapping_add(1)]);
        }
        addresses.extend([0, 1, u128::MAX, 1 << 127]);
        for chunk in addresses.chunks(8) {
            let mut found = [Hop::NOWHERE; 8];
            table.find_all(chunk, &mut found);
            for (address, found) in chunk.iter().zip(found) {
                assert_eq!(found, naive(routes, *address), "{address:x}");
                assert_eq!(found, table.find(*address));
            }
        }
        // Nothing is cut that need not be.
        assert!(table.starts.is_sorted_by(|a, b| a < b));
        assert!(table.hops.windows(2).all(|pair| pair[0] != pair[1]));
    }

    proptest! {
        #[test]
        fn tables_agree_with_one_that_tries_every_route(
            changes in prop::collection::vec(change(), 0..40),
        ) {
            let mut table = RouteTable::default();
            let mut routes: Vec<(Ipv6Prefix, Hop)> = Vec::new();
            for change in changes {
                let changed = match change {
                    Change::Add(prefix, _) | Change::Remove(prefix) => prefix,
                };
                let there = routes.iter().any(|(prefix, _)| key(*prefix) == key(changed));
                routes.retain(|(prefix, _)| key(*prefix) != key(changed));
                match change {
                    Change::Add(prefix, port) => {
                        table.add(prefix, hop(port)).unwrap();
                        routes.push((prefix, hop(port)));
                    }
                    Change::Remove(prefix) => prop_assert_eq!(table.remove(prefix), Ok(there)),
                }
                check(&table, &routes);
            }
            let mut at_once = RouteTable::default();
            at_once.add_all(routes.iter().copied()).unwrap();
            prop_assert_eq!(&at_once.starts, &table.starts);
            prop_assert_eq!(&at_once.hops, &table.hops);
        }
    }

    #[test]
    fn routes_are_shown_in_the_lowest_free_place() {
        let mut table = RouteTable::default();
        let prefix = |n: u128| Ipv6Prefix {
            address: Ipv6Addr::from_bits(n << 112),
            length: 16,
        };
        for n in 0..4 {
            table.add(prefix(n), hop(0)).unwrap();
        }
        table.remove(prefix(1)).unwrap();
        table.add(prefix(3), hop(1)).unwrap();
        table.add(prefix(9), hop(1)).unwrap();
        let shown: Vec<_> = table
            .iter()
            .map(|(prefix, _)| key(prefix).0 >> 112)
            .collect();
        assert_eq!(shown, [0, 3, 2, 9]);
    }
}
