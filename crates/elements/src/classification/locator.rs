//! Finds the interval that a value falls into.
//!
//! A trie over the values' bits, from the top: each node is a table of two to
//! four entries per bound below it, so it has few levels (two or three for a
//! thousand addresses) and its size is linear in the bounds. Where eight
//! bounds or fewer remain they are compared all at once, which compiles to
//! vector instructions.

use alloc::vec;
use alloc::vec::Vec;

/// Bounds compared at once.
const BUCKET: usize = 8;

/// An entry: a tag in the lowest two bits, then a row, a bucket or a node.
type Entry = u32;
const ROW: u32 = 0;
const BUCKET_AT: u32 = 1;
const NODE: u32 = 2;
/// A node entry has 20 bits of table index, 5 of shift and 5 of (bits - 1).
const MAX_TABLE: usize = 1 << 20;

/// Maps values to the rows of their intervals.
#[derive(Clone, Debug)]
pub(super) struct Locator {
    root: Entry,
    table: Vec<Entry>,
    /// Where intervals begin, but the first: ascending, biased so that
    /// comparison is signed.
    bounds: Vec<i32>,
    /// The row of each interval.
    rows: Vec<u32>,
}

#[inline(always)]
fn biased(value: u32) -> i32 {
    (value ^ 1 << 31) as i32
}

impl Locator {
    /// Intervals begin at 0 and at each of `bounds` (ascending, not 0);
    /// `rows` has the row of each, so one more. `bits` is the values' width.
    /// `None` when the trie would be too large.
    pub(super) fn new(bounds: &[u32], rows: Vec<u32>, bits: u32) -> Option<Locator> {
        debug_assert_eq!(bounds.len() + 1, rows.len());
        let mut locator = Locator {
            root: 0,
            table: Vec::new(),
            bounds: bounds.iter().map(|&bound| biased(bound)).collect(),
            rows,
        };
        // So that a bucket can be read whole wherever it begins.
        locator.bounds.extend([i32::MAX; BUCKET]);
        if locator.rows.len() > MAX_TABLE {
            return None;
        }
        locator.root = locator.node(bounds, 0, bits)?;
        Some(locator)
    }

    /// Builds the entry for a block of `1 << bits` values whose inner bounds
    /// are `bounds`, `first` of them lying before it.
    fn node(&mut self, bounds: &[u32], first: usize, bits: u32) -> Option<Entry> {
        match bounds.len() {
            0 => return Some(self.rows[first] << 2 | ROW),
            1..=BUCKET => return Some((first as u32) << 2 | BUCKET_AT),
            _ => {}
        }
        let index_bits = (bounds.len().ilog2() + 2).min(bits);
        let shift = bits - index_bits;
        let at = self.table.len();
        if at + (1 << index_bits) > MAX_TABLE {
            return None;
        }
        self.table.extend(vec![0; 1 << index_bits]);
        let index = |bound: u32| (bound >> shift) & ((1 << index_bits) - 1);
        let (mut rest, mut before) = (bounds, first);
        for i in 0..1u32 << index_bits {
            // A bound on the block's very first value lies before the block.
            let on_start = |bound: u32| index(bound) == i && bound & ((1 << shift) - 1) == 0;
            if rest.first().is_some_and(|&bound| on_start(bound)) {
                rest = &rest[1..];
                before += 1;
            }
            let inside = rest.iter().take_while(|&&bound| index(bound) == i).count();
            let (block, after) = rest.split_at(inside);
            self.table[at + i as usize] = self.node(block, before, shift)?;
            rest = after;
            before += inside;
        }
        Some((at as u32) << 12 | shift << 7 | (index_bits - 1) << 2 | NODE)
    }

    /// The row of the interval with `value`.
    #[inline(always)]
    pub(super) fn row(&self, value: u32) -> u32 {
        let mut entry = self.root;
        while entry & 3 == NODE {
            let (at, shift, bits) = (entry >> 12, entry >> 7 & 31, (entry >> 2 & 31) + 1);
            let index = (value >> shift) & ((1u64 << bits) - 1) as u32;
            entry = self.table[(at + index) as usize];
        }
        if entry & 3 == ROW {
            return entry >> 2;
        }
        let first = (entry >> 2) as usize;
        let value = biased(value);
        let bucket: &[i32; BUCKET] = match self.bounds[first..].first_chunk() {
            Some(bucket) => bucket,
            None => return 0,
        };
        let below: i32 = bucket.iter().map(|&bound| i32::from(bound <= value)).sum();
        // The padding compares as below the largest value.
        let interval = (first + below as usize).min(self.rows.len() - 1);
        self.rows[interval]
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        4 * (self.table.len() + self.bounds.len() + self.rows.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_value_finds_its_interval(
            bounds in proptest::collection::btree_set(1u32.., 0..200),
            dense in proptest::collection::btree_set(1u32..5000, 0..200),
            bits in prop_oneof![Just(8u32), Just(16), Just(24), Just(32)],
            probes: Vec<u32>,
        ) {
            let max = u32::MAX >> (32 - bits);
            let mut bounds: Vec<u32> = bounds.iter().chain(&dense).map(|b| b & max).collect();
            bounds.sort_unstable();
            bounds.dedup();
            bounds.retain(|&b| b != 0);
            let locator = Locator::new(&bounds, (0..=bounds.len() as u32).collect(), bits).unwrap();
            let near = bounds.iter().flat_map(|&b| [b - 1, b, b.saturating_add(1)]);
            for probe in probes.iter().copied().chain([0, max]).chain(near) {
                let probe = probe & max;
                let expected = bounds.partition_point(|&b| b <= probe);
                prop_assert_eq!(locator.row(probe), expected as u32);
            }
        }
    }
}
