//! The index of flows: from a key's hash to the flow, in one cache line nearly always.
//!
//! A hash table of lines, each with room for eight entries and one cache line long. An entry goes
//! to the line that its hash names, or to the next one with room; every full line that it passes
//! counts it ([`Line::passed`]), so that a search stops at the first line that nothing passed, and
//! a removal leaves nothing behind. Lines hold 16 bits of each hash and the entry's number; the key
//! itself stands with the flow, which is needed anyway. (The shape is that of Facebook's F14:
//! Bronson and Shi, 2019.)

use super::key::FlowKey;
use crate::prelude::*;

const SLOTS: usize = 8;
/// Entries per line that let the index grow: beyond it, one entry in seven would pass its line.
const LOAD: usize = 5;
const LEAST: usize = 64;

/// Eight entries.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Line {
    /// 16 bits of each entry's hash; 0: no entry.
    tags: [u16; SLOTS],
    entries: [u32; SLOTS],
    /// Entries that stand further on because this line was full.
    passed: u32,
}

const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    /// The entries with this tag.
    #[inline(always)]
    fn candidates(&self, tag: u16) -> impl Iterator<Item = u32> {
        let mut matches = simd::equal(&self.tags, tag);
        core::iter::from_fn(move || {
            if matches == 0 {
                return None;
            }
            let slot = matches.trailing_zeros() as usize;
            matches &= matches - 1;
            Some(self.entries[slot % SLOTS])
        })
    }
}

/// The memory for more entries is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// Entries by hash. An entry is a number below 2³² that means something to the caller.
#[derive(Default)]
pub struct Index {
    lines: Vec<Line>,
    entries: usize,
    seeds: [u64; 2],
}

/// The index, to look for entries in.
#[derive(Clone, Copy)]
pub struct Lines<'i> {
    lines: &'i [Line],
    seeds: [u64; 2],
}

impl Lines<'_> {
    /// The hash of a key in a table.
    ///
    /// Each half is mixed with a secret and the halves multiplied to 128 bits, as in wyhash: two
    /// keys that meet cannot be made without the secrets.
    #[inline(always)]
    pub fn hash(self, table: u16, key: FlowKey) -> u64 {
        let a = key.addresses ^ self.seeds[0];
        let b = (u64::from(table) << 32 | u64::from(key.ports)) ^ self.seeds[1];
        let product = u128::from(a) * u128::from(b);
        (product >> 64) as u64 ^ product as u64
    }

    #[inline(always)]
    fn home(self, hash: u64) -> usize {
        (hash >> 16) as usize & self.lines.len().wrapping_sub(1)
    }

    /// Asks for the line of a hash to be brought into the cache.
    #[inline(always)]
    pub fn prefetch(self, hash: u64) {
        if let Some(line) = self.lines.get(self.home(hash)) {
            packet::prefetch(line);
        }
    }

    /// The first entry that may be the one of this hash; looks at one line only.
    #[inline(always)]
    pub fn guess(self, hash: u64) -> Option<u32> {
        let line = self.lines.get(self.home(hash))?;
        line.candidates(Index::tag(hash)).next()
    }
}

impl Index {
    /// Takes the numbers that make hashes unpredictable. Only while the index is empty.
    pub fn seed(&mut self, seeds: [u64; 2]) {
        if self.entries == 0 {
            self.seeds = seeds;
        }
    }

    /// The hash of a key in a table.
    #[inline(always)]
    pub fn hash(&self, table: u16, key: FlowKey) -> u64 {
        self.lines().hash(table, key)
    }

    /// All that it takes to look for entries, in registers.
    #[inline(always)]
    pub fn lines(&self) -> Lines<'_> {
        Lines {
            lines: &self.lines,
            seeds: self.seeds,
        }
    }

    #[inline(always)]
    fn tag(hash: u64) -> u16 {
        hash as u16 | 1
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        self.lines().home(hash)
    }

    /// The entry of this hash for which `is_it` holds.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let tag = Self::tag(hash);
        let mut at = self.home(hash);
        for _ in 0..self.lines.len() {
            let line = &self.lines[at];
            if let Some(entry) = line.candidates(tag).find(|entry| is_it(*entry)) {
                return Some(entry);
            }
            if line.passed == 0 {
                break;
            }
            at = (at + 1) & (self.lines.len() - 1);
        }
        None
    }

    /// Makes sure of room for `more` entries. `hash_of` gives the hash of an entry.
    pub fn reserve(
        &mut self,
        more: usize,
        hash_of: impl Fn(&Index, u32) -> u64,
    ) -> Result<(), NoMemory> {
        let wanted = self.entries.saturating_add(more);
        if wanted <= self.lines.len() * LOAD {
            return Ok(());
        }
        let lines = wanted.div_ceil(LOAD).max(LEAST);
        let lines = lines.checked_next_power_of_two().ok_or(NoMemory)?;
        let mut larger = Index {
            seeds: self.seeds,
            ..Index::default()
        };
        larger
            .lines
            .try_reserve_exact(lines)
            .map_err(|_| NoMemory)?;
        larger.lines.resize(lines, Line::default());
        for line in &self.lines {
            for (tag, entry) in line.tags.iter().zip(line.entries) {
                if *tag != 0 {
                    larger.put(hash_of(self, entry), entry);
                }
            }
        }
        *self = larger;
        Ok(())
    }

    /// Adds an entry that is not there yet; room was [reserved](Self::reserve).
    pub fn insert(&mut self, hash: u64, entry: u32) {
        debug_assert!(self.entries < self.lines.len() * LOAD);
        self.put(hash, entry);
    }

    fn put(&mut self, hash: u64, entry: u32) {
        let mut at = self.home(hash);
        for _ in 0..self.lines.len() {
            let line = &mut self.lines[at];
            if let Some(slot) = line.tags.iter().position(|tag| *tag == 0) {
                line.tags[slot] = Self::tag(hash);
                line.entries[slot] = entry;
                self.entries += 1;
                return;
            }
            line.passed += 1;
            at = (at + 1) & (self.lines.len() - 1);
        }
    }

    /// Puts `new` in the place of `old`, an entry of the same hash.
    pub fn replace(&mut self, hash: u64, old: u32, new: u32) {
        if let Some((at, slot)) = self.locate(hash, old) {
            self.lines[at].entries[slot] = new;
        }
    }

    /// Removes an entry, and says whether it was there.
    pub fn remove(&mut self, hash: u64, entry: u32) -> bool {
        let Some((found, slot)) = self.locate(hash, entry) else {
            return false;
        };
        self.lines[found].tags[slot] = 0;
        self.entries -= 1;
        let mut at = self.home(hash);
        while at != found {
            self.lines[at].passed -= 1;
            at = (at + 1) & (self.lines.len() - 1);
        }
        true
    }

    fn locate(&self, hash: u64, entry: u32) -> Option<(usize, usize)> {
        let tag = Self::tag(hash);
        let mut at = self.home(hash);
        for _ in 0..self.lines.len() {
            let line = &self.lines[at];
            let mut slots = line.tags.iter().zip(line.entries);
            if let Some(slot) = slots.position(|(t, e)| *t == tag && e == entry) {
                return Some((at, slot));
            }
            if line.passed == 0 {
                break;
            }
            at = (at + 1) & (self.lines.len() - 1);
        }
        None
    }

    /// Removes every entry.
    pub fn clear(&mut self) {
        self.lines.fill(Line::default());
        self.entries = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_found_by_tag() {
        let mut line = Line {
            tags: [1, 3, 5, 3, 0, 0xffff, 3, 9],
            entries: [0, 1, 2, 3, 4, 5, 6, 7],
            passed: 0,
        };
        let found = |line: &Line, tag| line.candidates(tag).collect::<Vec<u32>>();
        assert_eq!(found(&line, 3), [1, 3, 6]);
        assert_eq!(found(&line, 0xffff), [5]);
        assert_eq!(found(&line, 9), [7]);
        assert_eq!(found(&line, 11), []);
        // Above a match, one more would be found by its bits alone.
        line.tags = [1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(found(&line, 1), [0]);
    }

    proptest! {
        /// Whatever is added, replaced and removed, the index finds exactly what is in it, even
        /// when all hashes lead to few lines.
        #[test]
        fn the_index_is_a_map(
            narrow in any::<bool>(),
            steps in proptest::collection::vec((0u32..600, 0u8..4), 1..1200),
        ) {
            // Entry 2n and 2n + 1 share the key n; keys meet often if the hash is narrow.
            let hash_of = |key: u32| {
                let hash = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                if narrow { hash & 0x3_0007 } else { hash }
            };
            let mut index = Index::default();
            let mut model: HashMap<u32, u32> = HashMap::new();
            for (key, step) in steps {
                let (hash, entry) = (hash_of(key), 2 * key + u32::from(step == 1));
                match (step, model.get(&key).copied()) {
                    (0 | 1, None) => {
                        index.reserve(1, |_, entry| hash_of(entry / 2)).unwrap();
                        index.insert(hash, entry);
                        model.insert(key, entry);
                    }
                    (0 | 1, Some(old)) => {
                        index.replace(hash, old, entry);
                        model.insert(key, entry);
                    }
                    (_, Some(old)) => {
                        prop_assert!(index.remove(hash, old));
                        model.remove(&key);
                    }
                    (_, None) => prop_assert!(!index.remove(hash, entry)),
                }
            }
            for key in 0..600 {
                let found = index.find(hash_of(key), |entry| entry / 2 == key);
                prop_assert_eq!(found, model.get(&key).copied());
            }
            prop_assert_eq!(index.entries, model.len());
            for (key, entry) in model {
                index.remove(hash_of(key), entry);
            }
            prop_assert!(index.lines.iter().all(|line| line.passed == 0));
        }
    }
}
