//! Numbers from a seed, the same on every machine.

use std::ops::RangeInclusive;

/// SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in 0..`limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub fn within(&mut self, range: RangeInclusive<usize>) -> usize {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    pub fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    /// True in `percent` of 100 calls.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// One of the alternatives in `text`, which a `|` separates.
    pub fn one<'a>(&mut self, text: &'a str) -> &'a str {
        let alternatives: Vec<&str> = text.split('|').collect();
        alternatives[self.below(alternatives.len())]
    }

    pub fn list<T>(
        &mut self,
        count: RangeInclusive<usize>,
        mut item: impl FnMut(&mut Random) -> T,
    ) -> Vec<T> {
        (0..self.within(count)).map(|_| item(self)).collect()
    }

    pub fn bytes(&mut self, count: RangeInclusive<usize>) -> Vec<u8> {
        self.list(count, Random::byte)
    }
}
