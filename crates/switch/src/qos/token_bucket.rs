//! Token buckets: the part of a rate that has accumulated unused.
//!
//! A bucket is kept as the time at which it is, or was, empty ("due"): the further that time lies
//! back, the more bytes may go. (The form of the generic cell rate algorithm, ITU-T I.371 annex A.)
//! So nothing is refilled, a waiting time is a subtraction, and the state is one word, which the
//! lanes of a switch can share ([`RateLimiter`]).
//!
//! A frame may go as soon as the bucket is not empty, and may leave it in debt: no frame is too
//! large for it. So in any period, no more passes than the rate allows, plus the bucket's depth,
//! plus one frame.
//!
//! Where several senders share a rate, a sender that always has frames leaves a reserve in the
//! bucket to senders of few frames ([`TokenBucket::is_above_reserve`]).

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::properties::Bandwidth;

/// Nanoseconds on a clock that all lanes share.
pub type Nanos = u64;

/// When the clock began: long enough ago for every bucket to have been full.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);
const BEFORE: Nanos = 1 << 36;

/// The time on the shared clock.
#[inline]
pub fn clock(now: Instant) -> Nanos {
    now.saturating_duration_since(*EPOCH).as_nanos() as Nanos + BEFORE
}

/// How much time's worth a bucket holds at least: a worker may be late by this much without losing
/// rate.
const DEPTH: Nanos = 2_000_000;
/// How much time's worth a bucket holds at most, unless it is less than [`DEPTH_BYTES`].
const DEPTH_MAX: Nanos = 20_000_000;
/// Between these two, a bucket holds so many bytes: some segments of 64 KB, little to a receiver.
const DEPTH_FREE: u64 = 256 << 10;
/// The reserve for senders that rarely send: a quarter of a bucket, and at most so many bytes.
const RESERVE_BYTES: u64 = 16 << 10;
/// How many bytes a bucket holds at least: two full Ethernet frames.
const DEPTH_BYTES: u64 = 2 * 1518;
/// Time's worth that a bucket of frames a second holds: a second's frames may come in tenths.
const DEPTH_FRAMES: Nanos = 100_000_000;

/// Time is kept in thirty-seconds of a nanosecond: 18 years' worth, and at 10 Gb/s the smallest
/// frame's time to a thousandth.
const TICK_BITS: u32 = 5;
/// What a unit takes, in 2⁻³⁰ ns.
const FRACTION_BITS: u32 = 30;
const SECOND: u128 = 1_000_000_000;

/// A rate, and how much of it may accumulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Time that one unit takes, in 2⁻³⁰ ns.
    unit: u64,
    /// How far "due" may lie back, in ticks.
    depth: u64,
    /// How much of that is the reserve.
    reserve: u64,
}

impl Rate {
    /// Of bytes.
    pub fn of_bytes(rate: Bandwidth) -> Rate {
        let unit = ((8 * SECOND) << FRACTION_BITS) / u128::from(rate.bits());
        let free = Rate::new(unit, 0, DEPTH_FREE).depth >> TICK_BITS;
        let mut rate = Rate::new(unit, free.clamp(DEPTH, DEPTH_MAX), DEPTH_BYTES);
        rate.reserve = rate.ticks(RESERVE_BYTES).min(rate.depth / 4);
        rate
    }

    /// Of frames.
    pub fn of_frames(a_second: u32) -> Rate {
        let unit = (SECOND << FRACTION_BITS) / u128::from(a_second.max(1));
        Rate::new(unit, DEPTH_FRAMES, 1)
    }

    fn new(unit: u128, time: Nanos, units: u64) -> Rate {
        let mut rate = Rate {
            unit: u64::try_from(unit).unwrap_or(u64::MAX).max(1),
            depth: time << TICK_BITS,
            reserve: 0,
        };
        rate.depth = rate.depth.max(rate.ticks(units));
        rate
    }

    /// Time that this many units take, in ticks, rounded up, so that never more than the rate passes.
    #[inline]
    fn ticks(&self, units: u64) -> u64 {
        const SHIFT: u32 = FRACTION_BITS - TICK_BITS;
        let time = u128::from(self.unit) * u128::from(units);
        ((time + ((1 << SHIFT) - 1)) >> SHIFT) as u64
    }

    /// Time that this many units take.
    pub fn time_of(&self, units: u64) -> Nanos {
        self.ticks(units) >> TICK_BITS
    }
}

/// A rate, and how it has been used so far.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    /// When the bucket is empty, or was, in ticks.
    due: u64,
    rate: Rate,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(rate: Rate, now: Nanos) -> TokenBucket {
        let due = (now << TICK_BITS).saturating_sub(rate.depth);
        TokenBucket { due, rate }
    }

    /// Whether something may go.
    #[inline]
    pub fn is_ready(&self, now: Nanos) -> bool {
        self.due >> TICK_BITS <= now
    }

    /// When something may go.
    #[inline]
    pub fn ready_at(&self) -> Nanos {
        self.due >> TICK_BITS
    }

    /// Whether something may go, and the reserve is full.
    #[inline]
    pub fn is_above_reserve(&self, now: Nanos) -> bool {
        self.above_reserve_at() <= now
    }

    /// When the bucket is above its reserve.
    #[inline]
    pub fn above_reserve_at(&self) -> Nanos {
        (self.due + self.rate.reserve) >> TICK_BITS
    }

    /// Takes tokens for units that went.
    #[inline]
    pub fn take(&mut self, units: u64, now: Nanos) {
        let earliest = (now << TICK_BITS).saturating_sub(self.rate.depth);
        let due = self.due.max(earliest);
        self.due = due.saturating_add(self.rate.ticks(units));
    }

    /// How many units may go now, leaving no debt.
    pub fn tokens(&self, now: Nanos) -> u64 {
        let time = (now << TICK_BITS).saturating_sub(self.due);
        let time = u128::from(time.min(self.rate.depth));
        let units = (time << (FRACTION_BITS - TICK_BITS)) / u128::from(self.rate.unit);
        u64::try_from(units).unwrap_or(u64::MAX)
    }
}

/// A token bucket that lanes share.
#[derive(Debug)]
pub struct RateLimiter {
    due: AtomicU64,
    rate: Rate,
}

impl RateLimiter {
    /// With a full bucket.
    pub fn new(rate: Rate, now: Nanos) -> RateLimiter {
        RateLimiter {
            due: AtomicU64::new(TokenBucket::new(rate, now).due),
            rate,
        }
    }

    /// The rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The bucket as it is now.
    #[inline]
    pub fn bucket(&self) -> TokenBucket {
        TokenBucket {
            due: self.due.load(Ordering::Relaxed),
            rate: self.rate,
        }
    }

    /// Whether something may go.
    #[inline]
    pub fn is_ready(&self, now: Nanos) -> bool {
        self.bucket().is_ready(now)
    }

    /// When something may go.
    #[inline]
    pub fn ready_at(&self) -> Nanos {
        self.bucket().ready_at()
    }

    /// See [`TokenBucket::is_above_reserve`].
    #[inline]
    pub fn is_above_reserve(&self, now: Nanos) -> bool {
        self.bucket().is_above_reserve(now)
    }

    /// See [`TokenBucket::above_reserve_at`].
    #[inline]
    pub fn above_reserve_at(&self) -> Nanos {
        self.bucket().above_reserve_at()
    }

    /// Takes tokens for units that went.
    #[inline]
    pub fn take(&self, units: u64, now: Nanos) {
        let mut bucket = self.bucket();
        loop {
            let before = bucket.due;
            bucket.take(units, now);
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            match self
                .due
                .compare_exchange_weak(before, bucket.due, success, failure)
            {
                Ok(_) => return,
                Err(other) => bucket.due = other,
            }
        }
    }

    /// Takes tokens for `units` if something may go. Returns whether it did.
    #[inline]
    pub fn take_if_ready(&self, units: u64, now: Nanos) -> bool {
        let ready = self.is_ready(now);
        if ready {
            self.take(units, now);
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Nanos = BEFORE;

    fn rate(bits: u64) -> Bandwidth {
        Bandwidth::from_bits(bits).unwrap()
    }

    /// Bytes that pass in `time` if `frame` bytes are always waiting and the bucket is checked
    /// every `look` nanoseconds.
    fn passed(bits: u64, frame: u64, time: Nanos, look: Nanos) -> u64 {
        let (mut now, mut bytes) = (START, 0);
        let mut bucket = TokenBucket::new(Rate::of_bytes(rate(bits)), now);
        // The tokens of a full bucket are no part of the rate.
        let burst = bucket.tokens(now);
        bucket.take(burst, now);
        while now < START + time {
            while bucket.is_ready(now) {
                bucket.take(frame, now);
                bytes += frame;
            }
            now = (bucket.ready_at() + look).max(now + 1);
        }
        bytes
    }

    #[test]
    fn rates_hold_within_a_thousandth_from_1_mbit_to_10_gbit() {
        for bits in [
            1_000_000,
            10_000_000,
            100_000_000,
            1_000_000_000,
            10_000_000_000,
        ] {
            for frame in [60, 1514, 65_549] {
                // As long as a thousand of the largest frames take, so that one more or less counts
                // for nothing.
                let time = 1000 * 8 * 65_549 * 1_000_000_000 / bits;
                let time = time.min(20_000_000_000_000 / bits * 100);
                for look in [0, 50_000] {
                    let bytes = passed(bits, frame, time, look);
                    let expected = u128::from(bits) * u128::from(time) / 8 / 1_000_000_000;
                    let off = (bytes as f64 / expected as f64 - 1.0).abs();
                    let most = 0.001
                        + frame as f64 / expected as f64
                        + 1e9 * look as f64 / 1e9 / time as f64;
                    assert!(
                        off <= most,
                        "{bits} b/s, {frame} bytes, {look} ns: off by {off}"
                    );
                }
            }
        }
    }

    #[test]
    fn frames_a_second_are_counted_alike() {
        let start = START;
        let mut bucket = TokenBucket::new(Rate::of_frames(1000), start);
        let mut passed = 0;
        for now in (start..start + 3_000_000_000).step_by(100_000) {
            while bucket.is_ready(now) {
                bucket.take(1, now);
                passed += 1;
            }
        }
        assert!((3095..=3105).contains(&passed), "{passed}");
    }

    #[test]
    fn lanes_that_share_a_limit_get_no_more_than_one_would() {
        let limit = RateLimiter::new(Rate::of_bytes(rate(1_000_000_000)), START);
        let depth = limit.bucket().tokens(START);
        let passed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for now in (START..START + 10_000_000).step_by(1000) {
                        while limit.is_ready(now) {
                            limit.take(1000, now);
                            passed.fetch_add(1000, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        // Each of the two may find the same last byte there.
        let most = 1_250_000 + depth + 2 * 1000;
        let passed = passed.load(Ordering::Relaxed);
        assert!((1_240_000..=most).contains(&passed), "{passed}");
    }

    proptest! {
        #[test]
        fn never_more_passes_than_rate_times_time_and_depth_and_a_frame(
            bits in prop_oneof![688u64..10_000_000, 1_000_000u64..=400_000_000_000],
            steps in proptest::collection::vec((0u64..5_000_000, 14u64..65_600), 1..200),
        ) {
            let mut now = START;
            let mut bucket = TokenBucket::new(Rate::of_bytes(rate(bits)), now);
            let depth = bucket.tokens(now);
            let allowed = |from: Nanos, to: Nanos| {
                u128::from(to - from) * u128::from(bits) / 8_000_000_000 + u128::from(depth) + 2
            };
            let mut sent: Vec<(Nanos, u64)> = Vec::new();
            for (wait, bytes) in steps {
                now += wait;
                if bucket.is_ready(now) {
                    bucket.take(bytes, now);
                    sent.push((now, bytes));
                }
            }
            // Over every stretch of time, not only from the start.
            for (i, &(from, _)) in sent.iter().enumerate() {
                let mut sum = 0;
                for &(to, bytes) in &sent[i..] {
                    prop_assert!(sum <= allowed(from, to), "{sum} in {} ns", to - from);
                    sum += u128::from(bytes);
                }
            }
        }

        #[test]
        fn what_is_left_may_go_at_once(bits in 1_000u64..=400_000_000_000, wait in 0u64..10_000_000) {
            let mut bucket = TokenBucket::new(Rate::of_bytes(rate(bits)), START);
            bucket.take(bucket.tokens(START), START);
            prop_assert!(bucket.ready_at() <= START);
            let left = bucket.tokens(START + wait);
            bucket.take(left, START + wait);
            prop_assert!(bucket.is_ready(START + wait));
        }
    }
}
