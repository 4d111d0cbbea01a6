//! Token buckets: how much of a rate has come together and not been used.
//!
//! A bucket is kept as the time at which it will be, or was, empty ("due"): the further that lies
//! back, the more may go. (The generic cell rate algorithm's form, ITU-T I.371 annex A.) So there
//! is nothing to refill, and what it has to wait for is a subtraction. Time is exact to
//! 2⁻³⁰ ns a byte, so rates do not drift.
//!
//! What goes may go as soon as there is anything in the bucket, and may leave it in debt: one
//! frame is never too large for it. So over any stretch of time no more passes than the rate
//! allows, the bucket's depth, and one frame.

use crate::properties::Bandwidth;

/// Nanoseconds on a worker's clock.
pub type Nanos = u64;

/// How much time's worth a bucket holds at least: a worker that comes this much too late loses
/// nothing of the rate.
const DEPTH: Nanos = 2_000_000;
/// How many bytes a bucket holds at least: two full Ethernet frames.
const DEPTH_BYTES: u64 = 2 * 1518;
/// Time's worth that a bucket of frames a second holds: a second's frames may come in tenths.
const DEPTH_FRAMES: Nanos = 100_000_000;

const FRACTION_BITS: u32 = 30;
const SECOND: u128 = 1_000_000_000;

/// A rate, and how it has been used so far.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// When the bucket is empty, or was.
    due: Nanos,
    /// What is to be added to that, in 2⁻³⁰ ns.
    fraction: u32,
    /// Time that one unit takes, in 2⁻³⁰ ns.
    unit: u64,
    /// How far `due` may lie back.
    depth: Nanos,
}

impl Bucket {
    /// A full bucket of bytes.
    pub fn of_bytes(rate: Bandwidth, now: Nanos) -> Bucket {
        let unit = ((8 * SECOND) << FRACTION_BITS) / u128::from(rate.bits());
        Bucket::new(unit, DEPTH, DEPTH_BYTES, now)
    }

    /// A full bucket of frames.
    pub fn of_frames(a_second: u32, now: Nanos) -> Bucket {
        let unit = (SECOND << FRACTION_BITS) / u128::from(a_second.max(1));
        Bucket::new(unit, DEPTH_FRAMES, 1, now)
    }

    fn new(unit: u128, depth: Nanos, units: u64, now: Nanos) -> Bucket {
        let unit = u64::try_from(unit).unwrap_or(u64::MAX).max(1);
        let units = (u128::from(unit) * u128::from(units)) >> FRACTION_BITS;
        let mut bucket = Bucket {
            due: 0,
            fraction: 0,
            unit,
            depth: depth.max(units as Nanos),
        };
        bucket.due = now.saturating_sub(bucket.depth);
        bucket
    }

    /// Whether something may go.
    #[inline]
    pub fn is_ready(&self, now: Nanos) -> bool {
        self.due <= now
    }

    /// When something may go.
    #[inline]
    pub fn ready_at(&self) -> Nanos {
        self.due
    }

    /// Takes out what went. `now` does not go back.
    #[inline]
    pub fn take(&mut self, units: u64, now: Nanos) {
        let earliest = now.saturating_sub(self.depth);
        if self.due < earliest {
            self.due = earliest;
            self.fraction = 0;
        }
        let time = u128::from(self.unit) * u128::from(units) + u128::from(self.fraction);
        self.due = self.due.saturating_add((time >> FRACTION_BITS) as Nanos);
        self.fraction = time as u32 & ((1 << FRACTION_BITS) - 1);
    }

    /// How many units may go now, leaving no debt.
    pub fn left(&self, now: Nanos) -> u64 {
        let time = now.saturating_sub(self.due).min(self.depth);
        let units = (u128::from(time) << FRACTION_BITS) / u128::from(self.unit);
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    /// Time that this many units take.
    pub fn time_of(&self, units: u64) -> Nanos {
        ((u128::from(self.unit) * u128::from(units)) >> FRACTION_BITS) as Nanos
    }

    /// Another rate from now on; what there is of debt stays.
    pub fn change(&mut self, to: Bucket, now: Nanos) {
        *self = Bucket {
            due: self.due.max(now.saturating_sub(to.depth)),
            ..to
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(bits: u64) -> Bandwidth {
        Bandwidth::from_bits(bits).unwrap()
    }

    /// Bytes that pass in `time` if `frame` bytes are always waiting and somebody looks at the
    /// bucket every `look` nanoseconds.
    fn passed(bits: u64, frame: u64, time: Nanos, look: Nanos) -> u64 {
        let mut bucket = Bucket::of_bytes(rate(bits), 0);
        let (mut now, mut bytes) = (0, 0);
        // What a full bucket holds at first is no part of the rate.
        let burst = bucket.left(now);
        bucket.take(burst, now);
        while now < time {
            while bucket.is_ready(now) {
                bucket.take(frame, now);
                bytes += frame;
            }
            now = (bucket.ready_at() + look).max(now + 1);
        }
        bytes
    }

    #[test]
    fn rates_hold_within_a_thousandth_from_1_mbit_to_100_gbit() {
        for bits in [
            1_000_000,
            10_000_000,
            100_000_000,
            1_000_000_000,
            10_000_000_000,
            100_000_000_000,
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
        let start = 1_000_000_000;
        let mut bucket = Bucket::of_frames(1000, start);
        let mut passed = 0;
        for now in (start..start + 3_000_000_000).step_by(100_000) {
            while bucket.is_ready(now) {
                bucket.take(1, now);
                passed += 1;
            }
        }
        assert!((3095..=3105).contains(&passed), "{passed}");
    }

    proptest! {
        #[test]
        fn never_more_passes_than_rate_times_time_and_depth_and_a_frame(
            bits in prop_oneof![688u64..10_000_000, 1_000_000u64..=400_000_000_000],
            steps in proptest::collection::vec((0u64..5_000_000, 14u64..65_600), 1..200),
        ) {
            let mut now = 1_000_000_000;
            let mut bucket = Bucket::of_bytes(rate(bits), now);
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
            let mut bucket = Bucket::of_bytes(rate(bits), 0);
            bucket.take(bucket.left(0), 0);
            prop_assert!(bucket.ready_at() <= 1);
            let left = bucket.left(wait);
            bucket.take(left, wait);
            prop_assert!(bucket.is_ready(wait));
        }
    }
}
