//! A count-min sketch (Cormode and Muthukrishnan, 2005) whose counters are leaky buckets.
//!
//! A bucket has the time at which it will be empty: what flows out needs no work. A source's level is that of the
//! lowest of its buckets, and what it adds lifts those that are lower than its new level, and no others.

use core::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::prelude::*;

/// Rows, each with bits of the hash of its own.
pub const ROWS: usize = 4;
const BITS: usize = 64 / ROWS;
/// Most buckets of a row.
pub const BUCKETS_MAX: usize = 1 << BITS;
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// The sketch.
#[derive(Default)]
pub struct Sketch {
    /// For each bucket, when it will be empty, in nanoseconds.
    empty_at: Vec<u64>,
    /// Buckets of a row.
    buckets: usize,
    key: [u64; 2],
    /// Nanoseconds that a packet takes to flow out, and that a full bucket takes.
    packet: u64,
    full: u64,
}

impl Sketch {
    /// A sketch that lets `rate` packets a second pass, and `burst` at once; `None` if there is no memory. `buckets` is a
    /// power of two, [`BUCKETS_MAX`] at most.
    pub fn new(rate: u64, burst: u64, buckets: usize, key: [u64; 2]) -> Option<Sketch> {
        let mut empty_at = Vec::new();
        empty_at.try_reserve_exact(ROWS * buckets).ok()?;
        empty_at.resize(ROWS * buckets, 0);
        let packet = SECOND.div_ceil(rate.max(1));
        Some(Sketch {
            empty_at,
            buckets,
            key,
            packet,
            full: packet * burst.max(1),
        })
    }

    /// The buckets of a source.
    #[inline]
    fn places(&self, source: u64) -> [usize; ROWS] {
        let mut hasher = SipHasher13::new_with_keys(self.key[0], self.key[1]);
        hasher.write_u64(source);
        let hash = hasher.finish();
        core::array::from_fn(|row| {
            let hash = (hash >> (BITS * row)) as usize & ((1 << BITS) - 1);
            row * self.buckets + (hash & (self.buckets - 1))
        })
    }

    /// When the lowest of some buckets will be empty.
    #[inline]
    fn lowest(&self, places: &[usize; ROWS]) -> u64 {
        let times = places.iter().filter_map(|at| self.empty_at.get(*at));
        times.copied().min().unwrap_or(0)
    }

    /// Counts packets of a source, and says whether they are within its limit; if not, they are not counted.
    #[inline]
    pub fn take(&mut self, source: u64, packets: u64, now: Steady) -> bool {
        let places = self.places(source);
        let after = self.lowest(&places).max(now.0) + packets * self.packet;
        if after > now.0 + self.full {
            return false;
        }
        for at in places {
            if let Some(time) = self.empty_at.get_mut(at) {
                *time = (*time).max(after);
            }
        }
        true
    }

    /// Packets in the lowest bucket of a source.
    pub fn level(&self, source: u64, now: Steady) -> u64 {
        let time = self.lowest(&self.places(source)).saturating_sub(now.0);
        time.div_ceil(self.packet.max(1))
    }

    /// The share of buckets that have no room for a packet.
    pub fn load(&self, now: Steady) -> f64 {
        let is_full = |time: &&u64| **time + self.packet > now.0 + self.full;
        let full = self.empty_at.iter().filter(is_full).count();
        full as f64 / self.empty_at.len().max(1) as f64
    }

    /// Goes on with the buckets of another sketch with the same limits.
    pub fn take_over(&mut self, old: &mut Sketch) {
        let shape = |it: &Sketch| (it.buckets, it.packet, it.full);
        if shape(self) == shape(old) {
            core::mem::swap(self, old);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::testing::*;

    proptest! {
        /// No source gets more than its burst and its rate, and one that is alone gets no less.
        #[test]
        fn no_source_gets_more_than_its_limit(
            rate in 1u64..2000,
            burst in 1u64..100,
            steps in prop::collection::vec((0u64..20, 1u64..4, 0u64..20_000_000), 1..400),
            alone: bool,
        ) {
            let mut sketch = Sketch::new(rate, burst, 4, [1, 2]).unwrap();
            let mut now = 0;
            // For each source what it sent, and the bucket that it would have alone.
            let mut sent: HashMap<u64, (u64, f64, u64)> = HashMap::new();
            for (source, packets, wait) in steps {
                now += wait;
                let source = if alone { 7 } else { source };
                let within = sketch.take(source, packets, Steady(now));
                let (count, level, last) = sent.entry(source).or_insert((0, 0.0, now));
                let gone = (now - *last) as f64 * rate as f64 / 1e9;
                *level = (*level - gone).max(0.0);
                *last = now;
                if within {
                    *count += packets;
                    *level += packets as f64;
                    prop_assert!(*level <= burst as f64 * 1.001 + 0.01, "{level} of {burst}");
                } else if alone {
                    prop_assert!(*level + packets as f64 > burst as f64 * 0.999 - 0.01);
                }
                prop_assert!(sketch.level(source, Steady(now)) <= burst);
            }
        }
    }

    #[test]
    fn a_quiet_source_is_hardly_ever_hit_by_loud_ones() {
        let mut sketch = Sketch::new(10, 10, 4096, [3, 4]).unwrap();
        // 400 sources far beyond their limit.
        for source in 0..400 {
            while sketch.take(source, 1, Steady(0)) {}
        }
        let quiet = 1_000_000..1_100_000u64;
        let hit = quiet
            .filter(|source| sketch.level(*source, Steady(0)) >= 10)
            .count();
        // (400 / 4096)^4 of 100 000 are 9.
        assert!(hit < 40, "{hit}");
        assert!(
            (0.05..0.1).contains(&sketch.load(Steady(0))),
            "{}",
            sketch.load(Steady(0))
        );
        assert_eq!(sketch.load(Steady(2_000_000_000)), 0.0);
    }
}
