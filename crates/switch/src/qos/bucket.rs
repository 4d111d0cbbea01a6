//! Token buckets: how much of a rate has come together and not been used.
//!
//! A bucket is kept as the time at which it will be, or was, empty ("due"): the further that lies
//! back, the more may go. (The generic cell rate algorithm's form, ITU-T I.371 annex A.) So there
//! is nothing to refill, what it has to wait for is a subtraction, and all of it is one word, which
//! the lanes of a switch can share ([`Limit`]).
//!
//! What goes may go as soon as there is anything in the bucket, and may leave it in debt: one
//! frame is never too large for it. So over any stretch of time no more passes than the rate
//! allows, the bucket's depth, and one frame.
//!
//! Where several share a rate, who always has something to send leaves a part of the bucket to
//! those who rarely do ([`Bucket::has_spare`]): these then find something in it when they come.

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

/// How much time's worth a bucket holds at least: a worker that comes this much too late loses
/// nothing of the rate.
const DEPTH: Nanos = 2_000_000;
/// How much time's worth a bucket holds at most, unless it is less than [`DEPTH_BYTES`].
const DEPTH_MAX: Nanos = 20_000_000;
/// Between these two, a bucket holds what is nothing to a receiver: some segments of 64 KB.
const DEPTH_FREE: u64 = 256 << 10;
/// How much of a bucket is left to those who rarely send: a quarter, and in bytes at most this.
const KEPT_BYTES: u64 = 16 << 10;
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

/// A rate, and how much of it may come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Time that one unit takes, in 2⁻³⁰ ns.
    unit: u64,
    /// How far "due" may lie back, in ticks.
    depth: u64,
    /// How much of that is left to those who rarely send.
    kept: u64,
}

impl Rate {
    /// Of bytes.
    pub fn of_bytes(rate: Bandwidth) -> Rate {
        let unit = ((8 * SECOND) << FRACTION_BITS) / u128::from(rate.bits());
        let free = Rate::new(unit, 0, DEPTH_FREE).depth >> TICK_BITS;
        let mut rate = Rate::new(unit, free.clamp(DEPTH, DEPTH_MAX), DEPTH_BYTES);
        rate.kept = rate.ticks(KEPT_BYTES).min(rate.depth / 4);
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
            kept: 0,
        };
        rate.depth = rate.depth.max(rate.ticks(units));
        rate
    }

    /// Time that this many units take, in ticks, rounded up: never more passes than the rate.
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
pub struct Bucket {
    /// When the bucket is empty, or was, in ticks.
    due: u64,
    rate: Rate,
}

impl Bucket {
    /// A full bucket.
    pub fn new(rate: Rate, now: Nanos) -> Bucket {
        let due = (now << TICK_BITS).saturating_sub(rate.depth);
        Bucket { due, rate }
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

    /// Whether something may go, and all that is kept for those who rarely send is there.
    #[inline]
    pub fn has_spare(&self, now: Nanos) -> bool {
        self.spare_at() <= now
    }

    /// When that is so.
    #[inline]
    pub fn spare_at(&self) -> Nanos {
        (self.due + self.rate.kept) >> TICK_BITS
    }

    /// Takes out what went.
    #[inline]
    pub fn take(&mut self, units: u64, now: Nanos) {
        let earliest = (now << TICK_BITS).saturating_sub(self.rate.depth);
        let due = self.due.max(earliest);
        self.due = due.saturating_add(self.rate.ticks(units));
    }

    /// How many units may go now, leaving no debt.
    pub fn left(&self, now: Nanos) -> u64 {
        let time = (now << TICK_BITS).saturating_sub(self.due);
        let time = u128::from(time.min(self.rate.depth));
        let units = (time << (FRACTION_BITS - TICK_BITS)) / u128::from(self.rate.unit);
        u64::try_from(units).unwrap_or(u64::MAX)
    }
}

/// A bucket that lanes share.
#[derive(Debug)]
pub struct Limit {
    due: AtomicU64,
    rate: Rate,
}

impl Limit {
    /// A full one.
    pub fn new(rate: Rate, now: Nanos) -> Limit {
        Limit {
            due: AtomicU64::new(Bucket::new(rate, now).due),
            rate,
        }
    }

    /// The rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The bucket as it is now.
    #[inline]
    pub fn bucket(&self) -> Bucket {
        Bucket {
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

    /// See [`Bucket::has_spare`].
    #[inline]
    pub fn has_spare(&self, now: Nanos) -> bool {
        self.bucket().has_spare(now)
    }

    /// See [`Bucket::spare_at`].
    #[inline]
    pub fn spare_at(&self) -> Nanos {
        self.bucket().spare_at()
    }

    /// Takes out what went.
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

    /// Takes one unit out if something may go; returns whether it did.
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

    /// Bytes that pass in `time` if `frame` bytes are always waiting and somebody looks at the
    /// bucket every `look` nanoseconds.
    fn passed(bits: u64, frame: u64, time: Nanos, look: Nanos) -> u64 {
        let (mut now, mut bytes) = (START, 0);
        let mut bucket = Bucket::new(Rate::of_bytes(rate(bits)), now);
        // What a full bucket holds at first is no part of the rate.
        let burst = bucket.left(now);
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
        let mut bucket = Bucket::new(Rate::of_frames(1000), start);
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
        let limit = Limit::new(Rate::of_bytes(rate(1_000_000_000)), START);
        let depth = limit.bucket().left(START);
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
            let mut bucket = Bucket::new(Rate::of_bytes(rate(bits)), now);
            let depth = bucket.left(now);
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
            let mut bucket = Bucket::new(Rate::of_bytes(rate(bits)), START);
            bucket.take(bucket.left(START), START);
            prop_assert!(bucket.ready_at() <= START);
            let left = bucket.left(START + wait);
            bucket.take(left, START + wait);
            prop_assert!(bucket.is_ready(START + wait));
        }
    }
}
