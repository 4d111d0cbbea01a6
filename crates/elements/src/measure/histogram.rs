//! A histogram of times in constant memory.
//!
//! Buckets are log-linear, as HdrHistogram's: below 128 each number has its own, and each further
//! power of two is divided into 64 of equal width. So a bucket's width is at most 1/64 of its values.

use crate::prelude::*;

/// Binary digits that a bucket tells apart, below the first.
const DIGITS: u32 = 6;
const PARTS: u64 = 1 << DIGITS;
/// The largest value; larger ones count as this one.
const MAX: u64 = (1 << 37) - 1;
const BUCKETS: usize = bucket(MAX) + 1;

/// How often values came.
#[derive(Default)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    least: u64,
    most: u64,
}

/// The bucket of a value.
const fn bucket(value: u64) -> usize {
    if value < 2 * PARTS {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - DIGITS;
    ((shift as u64 * PARTS) + (value >> shift)) as usize
}

/// The least and the largest value of a bucket.
fn bounds(bucket: usize) -> (u64, u64) {
    let bucket = bucket as u64;
    if bucket < 2 * PARTS {
        return (bucket, bucket);
    }
    let shift = bucket / PARTS - 1;
    let low = (PARTS + bucket % PARTS) << shift;
    (low, low + (1 << shift) - 1)
}

impl Histogram {
    /// Allocates the buckets; false if there is no memory.
    pub fn reserve(&mut self) -> bool {
        let reserved = self.buckets.try_reserve_exact(BUCKETS).is_ok();
        if reserved {
            self.buckets.resize(BUCKETS, 0);
        }
        reserved
    }

    /// Counts a value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let value = value.min(MAX);
        if let Some(times) = self.buckets.get_mut(bucket(value)) {
            *times += 1;
        }
        self.least = match self.count {
            0 => value,
            _ => self.least.min(value),
        };
        self.most = self.most.max(value);
        self.count += 1;
        self.sum += u128::from(value);
    }

    /// Forgets all values.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        (self.count, self.sum, self.least, self.most) = (0, 0, 0, 0);
    }

    /// The least value; 0 if there is none.
    pub fn least(&self) -> u64 {
        self.least
    }

    /// The largest value; 0 if there is none.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The mean, rounded down; 0 if there is no value.
    pub fn mean(&self) -> u64 {
        (self.sum / u128::from(self.count.max(1))) as u64
    }

    /// The least value that so many of a million values do not exceed, to within the width of a bucket; 0
    /// if there is none.
    pub fn quantile(&self, millionths: u32) -> u64 {
        let rank = u128::from(self.count) * u128::from(millionths);
        let rank = (rank.div_ceil(1_000_000) as u64).max(1);
        let mut below = 0;
        let found = self.buckets.iter().position(|times| {
            below += times;
            below >= rank
        });
        found.map_or(0, |bucket| bounds(bucket).1.min(self.most))
    }

    /// A line for each bucket that has values: the least, the largest, and how many came.
    pub fn lines(&self) -> String {
        let buckets = self.buckets.iter().enumerate();
        let used = buckets.filter(|(_, times)| **times > 0);
        used.map(|(bucket, times)| {
            let (low, high) = bounds(bucket);
            format!("{low} {high} {times}\n")
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    #[test]
    fn buckets_follow_each_other() {
        let mut next = 0;
        for bucket in 0..BUCKETS {
            let (low, high) = bounds(bucket);
            assert_eq!(low, next);
            assert_eq!((super::bucket(low), super::bucket(high)), (bucket, bucket));
            assert!((high - low) * PARTS <= low, "{low} to {high}");
            next = high + 1;
        }
        assert_eq!(next, MAX + 1);
    }

    proptest! {
        #[test]
        fn quantiles_are_right_to_within_a_bucket(
            mut values in prop::collection::vec(prop_oneof![0u64..300, any::<u64>().prop_map(|v| v >> 20)], 1..200),
            millionths in 0u32..=1_000_000,
        ) {
            let mut histogram = Histogram::default();
            prop_assert!(histogram.reserve());
            for value in &mut values {
                histogram.record(*value);
                *value = (*value).min(MAX);
            }
            values.sort_unstable();
            let rank = (values.len() as u64 * u64::from(millionths)).div_ceil(1_000_000).max(1);
            let exact = values[rank as usize - 1];
            let told = histogram.quantile(millionths);
            prop_assert!(told >= exact && (told - exact) * PARTS <= exact, "{told} {exact}");
            let mean = values.iter().map(|value| u128::from(*value)).sum::<u128>() / values.len() as u128;
            prop_assert_eq!(u128::from(histogram.mean()), mean);
            prop_assert_eq!((histogram.least(), histogram.most()), (values[0], values[values.len() - 1]));
            let counted = histogram.lines();
            let counted = counted.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap());
            prop_assert_eq!(counted.sum::<usize>(), values.len());
        }
    }
}
