//! The addresses that send most, in constant memory: the space-saving algorithm (Metwally, Agrawal,
//! El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data Streams, 2005).
//!
//! An address that is not counted takes the counter of the address with the fewest bytes, and its
//! bytes with it: these are its error. A count is never below what the address sent, and above by
//! the error at most. An address that sent more than one part in CAPACITY of all is counted.

use hashbrown::HashMap;

use crate::prelude::*;

/// What an address sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Talker {
    /// The address.
    pub address: Ipv4Addr,
    /// Its bytes, and the error in them.
    pub bytes: u64,
    /// How many of the bytes may be others'.
    pub error: u64,
}

/// Counters of addresses.
#[derive(Default)]
pub struct Talkers {
    /// A heap: none has fewer bytes than the one at half its index.
    heap: Vec<Talker>,
    slots: HashMap<Ipv4Addr, usize>,
    capacity: usize,
}

impl Talkers {
    /// Allocates counters for so many addresses; false if there is no memory.
    pub fn reserve(&mut self, capacity: usize) -> bool {
        self.capacity = capacity;
        // With as much again, removed entries are cleaned up in place.
        self.heap.try_reserve_exact(capacity).is_ok()
            && self.slots.try_reserve(2 * capacity).is_ok()
    }

    /// Counts bytes of an address.
    #[inline]
    pub fn count(&mut self, address: Ipv4Addr, bytes: u64) {
        match self.slots.get(&address) {
            Some(slot) => {
                let slot = *slot;
                if let Some(talker) = self.heap.get_mut(slot) {
                    talker.bytes += bytes;
                }
                self.sink(slot);
            }
            None => self.enter(address, bytes),
        }
    }

    #[cold]
    fn enter(&mut self, address: Ipv4Addr, bytes: u64) {
        let new = Talker {
            address,
            bytes,
            error: 0,
        };
        if self.heap.len() < self.capacity {
            let slot = self.heap.len();
            self.heap.push(new);
            self.slots.insert(address, slot);
            self.rise(slot);
        } else if let Some(least) = self.heap.first_mut() {
            let former = *least;
            *least = Talker {
                bytes: former.bytes + bytes,
                error: former.bytes,
                ..new
            };
            self.slots.remove(&former.address);
            self.slots.insert(address, 0);
            self.sink(0);
        }
    }

    fn bytes(&self, slot: usize) -> u64 {
        self.heap.get(slot).map_or(u64::MAX, |talker| talker.bytes)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for slot in [a, b] {
            self.slots.insert(self.heap[slot].address, slot);
        }
    }

    /// Moves a talker down until those below it have as many bytes.
    fn sink(&mut self, mut slot: usize) {
        loop {
            let (left, right) = (2 * slot + 1, 2 * slot + 2);
            let least = if self.bytes(right) < self.bytes(left) {
                right
            } else {
                left
            };
            if self.bytes(least) >= self.bytes(slot) {
                return;
            }
            self.swap(slot, least);
            slot = least;
        }
    }

    /// Moves a talker up until the one above it has as few bytes.
    fn rise(&mut self, mut slot: usize) {
        while slot > 0 && self.bytes(slot) < self.bytes((slot - 1) / 2) {
            self.swap(slot, (slot - 1) / 2);
            slot = (slot - 1) / 2;
        }
    }

    /// The addresses, from the one with the most bytes on.
    pub fn top(&self, most: usize) -> Vec<Talker> {
        let mut talkers = self.heap.clone();
        talkers.sort_unstable_by_key(|talker| (core::cmp::Reverse(talker.bytes), talker.address));
        talkers.truncate(most);
        talkers
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.heap.clear();
        self.slots.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::*;

    proptest! {
        #[test]
        fn counts_are_right_to_within_their_error(
            capacity in 1usize..20,
            packets in prop::collection::vec((0u32..60, 1u64..1500), 1..500),
        ) {
            let mut talkers = Talkers::default();
            prop_assert!(talkers.reserve(capacity));
            let mut exact: BTreeMap<Ipv4Addr, u64> = BTreeMap::new();
            for (host, bytes) in packets {
                // Few hosts send most.
                let address = Ipv4Addr::from_bits(0x0a00_0000 + host * host / 60);
                *exact.entry(address).or_default() += bytes;
                talkers.count(address, bytes);
            }
            let total: u64 = exact.values().sum();
            let top = talkers.top(usize::MAX);
            prop_assert!(top.len() <= capacity);
            prop_assert!(top.is_sorted_by(|a, b| a.bytes >= b.bytes));
            prop_assert_eq!(top.iter().map(|talker| talker.bytes).sum::<u64>(), total);
            for talker in &top {
                let sent = exact[&talker.address];
                prop_assert!(talker.bytes >= sent && talker.bytes - talker.error <= sent);
            }
            for (address, sent) in &exact {
                let counted = top.iter().any(|talker| talker.address == *address);
                prop_assert!(counted || sent * capacity as u64 <= total);
            }
        }
    }
}
