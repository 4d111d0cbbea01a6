//! Token buckets, as Click's elements keep them: tokens come in at a steady rate, as many as the
//! bucket holds, and are taken out by what they allow.
//!
//! A bucket is filled once a tick of a millisecond, and its level is a fraction of its capacity,
//! so that parts of a token count too. What comes in at a tick is rounded down: a bucket of a
//! single token may have to wait for a tick more, and loses what would have come in by then. Larger
//! buckets keep it, and so keep their rate.

use crate::prelude::*;

/// Nanoseconds of a tick.
const TICK: u64 = 1_000_000;
/// Ticks of a second.
const TICKS: u64 = 1_000_000_000 / TICK;
/// The level of a full bucket. Where that would make what comes in at a tick so small that rounding
/// it down shows, levels are finer.
const FULL: u64 = u32::MAX as u64;
const SMALL: u64 = 1 << 12;
const FINER: u32 = 16;

/// A token bucket.
#[derive(Clone, Debug, Default)]
pub struct TokenBucket {
    rate: u64,
    level: u64,
    full: u64,
    /// Level of one token.
    token: u64,
    /// What comes in at a tick; 0 if nothing ever does.
    income: u64,
    /// The tick at which it was filled last.
    filled: Option<u64>,
}

impl TokenBucket {
    /// Sets the rate, in tokens a second, and the capacity, in tokens, of a new bucket, which is
    /// full. A bucket holds what comes in at a tick at least.
    pub fn assign(&mut self, rate: u64, capacity: u64) {
        let least = rate.div_ceil(TICKS);
        let capacity = capacity.max(least).clamp(1, u32::MAX.into());
        self.rate = rate;
        let token = FULL / capacity;
        let income = u128::from(rate) * u128::from(token);
        let bits = match income / u128::from(TICKS) < SMALL.into() {
            true => FINER,
            false => 0,
        };
        self.full = FULL << bits;
        self.token = token << bits;
        let income = (income << bits) / u128::from(TICKS);
        self.income = match rate {
            0 => 0,
            _ => (income.min(self.full.into()) as u64).max(1),
        };
        self.level = match self.filled {
            None => self.full,
            Some(_) => self.level.min(self.full),
        };
    }

    /// As [`assign`](Self::assign), of a bucket in use: it stays as full as it was, as Click's.
    pub fn reassign(&mut self, rate: u64, capacity: u64) {
        let (level, full) = (self.level, self.full);
        self.assign(rate, capacity);
        if full > 0 {
            self.level = (u128::from(level) * u128::from(self.full) / u128::from(full)) as u64;
        }
    }

    /// Sets the number of tokens in the bucket.
    pub fn set(&mut self, tokens: u64) {
        self.level = self.token.saturating_mul(tokens).min(self.full);
    }

    /// Adds what came in until `now`.
    #[inline]
    pub fn fill(&mut self, now: Steady) {
        let tick = now.0 / TICK;
        let ticks = tick.saturating_sub(self.filled.unwrap_or(tick));
        if ticks > 0 {
            let income = ticks.saturating_mul(self.income);
            self.level = self.level.saturating_add(income).min(self.full);
        }
        self.filled = Some(tick);
    }

    /// Tokens in the bucket.
    #[inline]
    pub fn tokens(&self) -> u64 {
        self.level / self.token.max(1)
    }

    /// Takes tokens out, or all there are.
    #[inline]
    pub fn take(&mut self, tokens: u64) {
        self.level = self.level.saturating_sub(self.token.saturating_mul(tokens));
    }

    /// When there will be `tokens` in the bucket, as seen from when it was filled last; `None` if
    /// never.
    pub fn ready(&self, tokens: u64) -> Option<Steady> {
        let wanted = self
            .token
            .checked_mul(tokens)
            .filter(|level| *level <= self.full)?;
        let missing = wanted.saturating_sub(self.level);
        if missing > 0 && self.income == 0 {
            return None;
        }
        let ticks = missing.div_ceil(self.income.max(1));
        let tick = self.filled.unwrap_or(0).saturating_add(ticks);
        Some(Steady(tick.saturating_mul(TICK)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bucket(rate: u64, capacity: u64) -> TokenBucket {
        let mut bucket = TokenBucket::default();
        bucket.assign(rate, capacity);
        bucket
    }

    #[test]
    fn a_new_bucket_is_full_and_never_fuller() {
        let mut bucket = bucket(100, 10);
        assert_eq!(bucket.tokens(), 10);
        bucket.take(4);
        bucket.fill(Steady(0));
        assert_eq!(bucket.tokens(), 6);
        bucket.fill(Steady(21 * TICK));
        assert_eq!(bucket.tokens(), 8);
        bucket.fill(Steady(1000 * TICK));
        assert_eq!(bucket.tokens(), 10);
        bucket.take(11);
        assert_eq!(bucket.tokens(), 0);
    }

    #[test]
    fn without_income_nothing_is_ever_ready() {
        let mut bucket = bucket(0, 5);
        bucket.take(5);
        bucket.fill(Steady(1 << 60));
        assert_eq!((bucket.tokens(), bucket.ready(1)), (0, None));
        let mut bucket = self::bucket(7, 5);
        bucket.fill(Steady(TICK));
        assert_eq!(bucket.ready(6), None);
        assert_eq!(bucket.ready(5), Some(Steady(TICK)));
    }

    #[test]
    fn a_bucket_with_a_new_rate_is_as_full_as_before() {
        let mut bucket = bucket(100, 10);
        bucket.fill(Steady(0));
        bucket.set(5);
        bucket.reassign(1000, 100);
        // What was rounded down on the way may be missing.
        assert!((49..=50).contains(&bucket.tokens()));
        bucket.reassign(10, 2);
        assert!((0..=1).contains(&bucket.tokens()));
    }

    proptest! {
        /// A caller that takes each token as soon as it is ready gets the rate, to within 1 in 1000.
        #[test]
        fn the_rate_is_held(rate in 1u64..3_000_000, spare in 1u64..1000, start: u32) {
            let capacity = rate.div_ceil(50) + spare;
            let mut bucket = bucket(rate, capacity);
            let start = u64::from(start) * 1000;
            bucket.set(0);
            bucket.fill(Steady(start));
            let (mut taken, end) = (0, Steady(start + 10_000 * TICK));
            while let Some(at) = bucket.ready(1).filter(|at| *at <= end) {
                bucket.fill(at);
                prop_assert!(bucket.tokens() >= 1);
                taken += bucket.tokens();
                bucket.take(bucket.tokens());
            }
            let expected = rate * 10;
            prop_assert!(taken.abs_diff(expected) <= 2 + expected / 1000, "{taken}");
        }

        #[test]
        fn no_rate_or_capacity_is_too_much(rate: u64, capacity: u64, takes: u64, time: u64) {
            let mut bucket = bucket(rate, capacity);
            bucket.take(takes);
            bucket.fill(Steady(time));
            let _ = bucket.ready(takes);
            bucket.reassign(takes, rate);
            bucket.fill(Steady(u64::MAX));
            prop_assert!(bucket.level <= bucket.full);
        }
    }
}
