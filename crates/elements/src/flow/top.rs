//! The keys with the highest counts, in constant memory: the space-saving algorithm (Metwally, Agrawal,
//! El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data Streams, 2005).
//!
//! A key that has no counter takes that of the key with the lowest count, and the count with it:
//! this is its error. A count is never below what was counted of its key, and above by the error at
//! most. A key with more than one part in CAPACITY of all has a counter.

use core::hash::Hash;

use hashbrown::HashMap;

use crate::prelude::*;

/// What was counted of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted<K> {
    /// The key.
    pub key: K,
    /// Its count, with the error in it.
    pub count: u64,
    /// How much of the count may be others'.
    pub error: u64,
}

/// Counters of keys.
pub struct Top<K> {
    /// A heap: none has a lower count than the one at half its index.
    heap: Vec<Counted<K>>,
    slots: HashMap<K, usize>,
    capacity: usize,
}

impl<K> Default for Top<K> {
    fn default() -> Top<K> {
        Top {
            heap: Vec::new(),
            slots: HashMap::default(),
            capacity: 0,
        }
    }
}

impl<K: Copy + Ord + Hash> Top<K> {
    /// Allocates counters for so many keys; false if there is no memory.
    pub fn reserve(&mut self, capacity: usize) -> bool {
        self.capacity = capacity;
        // With as much again, removed entries are cleaned up in place.
        self.heap.try_reserve_exact(capacity).is_ok()
            && self.slots.try_reserve(2 * capacity).is_ok()
    }

    /// Adds to the count of a key.
    #[inline]
    pub fn count(&mut self, key: K, count: u64) {
        match self.slots.get(&key) {
            Some(slot) => {
                let slot = *slot;
                if let Some(counted) = self.heap.get_mut(slot) {
                    counted.count += count;
                }
                self.sink(slot);
            }
            None => self.enter(key, count),
        }
    }

    #[cold]
    fn enter(&mut self, key: K, count: u64) {
        let new = Counted {
            key,
            count,
            error: 0,
        };
        if self.heap.len() < self.capacity {
            let slot = self.heap.len();
            self.heap.push(new);
            self.slots.insert(key, slot);
            self.rise(slot);
        } else if let Some(least) = self.heap.first_mut() {
            let former = *least;
            *least = Counted {
                count: former.count + count,
                error: former.count,
                ..new
            };
            self.slots.remove(&former.key);
            self.slots.insert(key, 0);
            self.sink(0);
        }
    }

    fn count_at(&self, slot: usize) -> u64 {
        self.heap
            .get(slot)
            .map_or(u64::MAX, |counted| counted.count)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for slot in [a, b] {
            self.slots.insert(self.heap[slot].key, slot);
        }
    }

    /// Moves a counter down until the counts below it are as high.
    fn sink(&mut self, mut slot: usize) {
        loop {
            let (left, right) = (2 * slot + 1, 2 * slot + 2);
            let least = if self.count_at(right) < self.count_at(left) {
                right
            } else {
                left
            };
            if self.count_at(least) >= self.count_at(slot) {
                return;
            }
            self.swap(slot, least);
            slot = least;
        }
    }

    /// Moves a counter up until the count above it is as low.
    fn rise(&mut self, mut slot: usize) {
        while slot > 0 && self.count_at(slot) < self.count_at((slot - 1) / 2) {
            self.swap(slot, (slot - 1) / 2);
            slot = (slot - 1) / 2;
        }
    }

    /// The keys, from the one with the highest count on.
    pub fn top(&self, most: usize) -> Vec<Counted<K>> {
        let mut all = self.heap.clone();
        all.sort_unstable_by_key(|it| (core::cmp::Reverse(it.count), it.key));
        all.truncate(most);
        all
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.heap.clear();
        self.slots.clear();
    }
}

/// How many keys a handler's parameter asks for: ten, unless it says otherwise.
pub fn how_many(parameter: &str, what: &str) -> Result<usize, String> {
    match parameter.trim() {
        "" => Ok(10),
        most => most
            .parse()
            .map_err(|_| format!("expected how many {what}, not ‘{most}’")),
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
            let mut counters = Top::default();
            prop_assert!(counters.reserve(capacity));
            let mut exact: BTreeMap<Ipv4Addr, u64> = BTreeMap::new();
            for (host, bytes) in packets {
                // Few hosts send most.
                let address = Ipv4Addr::from_bits(0x0a00_0000 + host * host / 60);
                *exact.entry(address).or_default() += bytes;
                counters.count(address, bytes);
            }
            let total: u64 = exact.values().sum();
            let top = counters.top(usize::MAX);
            prop_assert!(top.len() <= capacity);
            prop_assert!(top.is_sorted_by(|a, b| a.count >= b.count));
            prop_assert_eq!(top.iter().map(|talker| talker.count).sum::<u64>(), total);
            for talker in &top {
                let sent = exact[&talker.key];
                prop_assert!(talker.count >= sent && talker.count - talker.error <= sent);
            }
            for (address, sent) in &exact {
                let counted = top.iter().any(|talker| talker.key == *address);
                prop_assert!(counted || sent * capacity as u64 <= total);
            }
        }
    }
}
