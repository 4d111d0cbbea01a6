//! Exponentially weighted moving averages of rates, as Click's handlers report them.

use crate::prelude::*;

/// Epochs a second.
const HZ: u64 = 1000;
/// A new epoch counts for one part in 2⁴.
const STABILITY: u32 = 4;
/// Averages carry ten binary digits after the point, where nothing else is said.
const SCALE: u32 = 10;
/// After so many epochs without events the average is 0: rounding would keep it above.
const SILENT: u64 = 100;

/// An average of events for each epoch, with [`SCALE`] binary digits after the point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u64);

impl Level {
    /// The average that `rate` events a second are, rounded down.
    pub fn per_second(rate: u64) -> Level {
        let scaled = (u128::from(rate) << SCALE) / u128::from(HZ);
        Level(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// `factor` times the events a second, as handlers show it.
    pub fn unparse(self, factor: u64) -> String {
        unparse::real2(self.0.saturating_mul(HZ * factor), SCALE)
    }
}

/// A moving average of events a second, over epochs of a millisecond with weight 1/16, with `DIGITS` binary digits
/// after the point.
#[derive(Clone, Debug, Default)]
pub struct Rate<const DIGITS: u32 = SCALE> {
    epoch: u64,
    total: u64,
    scaled: u64,
}

impl<const DIGITS: u32> Rate<DIGITS> {
    /// Counts `events` at `now`.
    #[inline]
    pub fn update(&mut self, now: Steady, events: u64) {
        let epoch = now.0 / (1_000_000_000 / HZ);
        // Who counts may have read the clock before who asked.
        if epoch > self.epoch {
            self.advance(epoch);
        }
        self.total += events;
    }

    /// The average as it is at `now`: it falls while nothing comes.
    pub fn at(&mut self, now: Steady) -> &Rate<DIGITS> {
        self.update(now, 0);
        self
    }

    #[cold]
    fn advance(&mut self, epoch: u64) {
        if self.epoch != 0 {
            // The epoch that ended counts; the ones since then had no events.
            self.average(self.total << DIGITS);
            let silent = epoch - self.epoch - 1;
            if silent >= SILENT {
                self.scaled = 0;
            }
            for _ in 0..silent.min(SILENT) {
                self.average(0);
            }
        }
        self.total = 0;
        self.epoch = epoch;
    }

    fn average(&mut self, sample: u64) {
        let rounding = 1 << (STABILITY - 1);
        if sample >= self.scaled {
            self.scaled += (sample - self.scaled + rounding) >> STABILITY;
        } else {
            self.scaled -= (self.scaled - sample + rounding - 1) >> STABILITY;
        }
    }

    /// Whole events a second.
    pub fn rate(&self) -> u64 {
        self.scaled.saturating_mul(HZ) >> DIGITS
    }

    /// `factor` times the events a second, as handlers show it.
    pub fn unparse(&self, factor: u64) -> String {
        unparse::real2(self.scaled.saturating_mul(HZ * factor), DIGITS)
    }
}

impl Rate {
    /// The average as it is, to be compared with others.
    #[inline]
    pub fn level(&self) -> Level {
        Level(self.scaled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn burst() -> Rate {
        let mut rate = Rate::default();
        rate.update(Steady(1000 * MS), 9);
        rate
    }

    /// Ten packets of 100 bytes a second: what rounding leaves, as in Click.
    #[test]
    fn four_digits_round_to_500() {
        let mut rate = Rate::<4>::default();
        for hundred in 10..40 {
            rate.update(Steady(hundred * 100 * MS), 100);
        }
        assert_eq!(rate.at(Steady(3999 * MS)).unparse(1), "500");
        assert_eq!(rate.at(Steady(3999 * MS)).unparse(8), "4000");
        assert_eq!(rate.at(Steady(4101 * MS)).unparse(1), "0");
    }

    #[test]
    fn an_idle_rate_falls_to_0() {
        let mut rate = burst();
        assert_eq!(rate.at(Steady(1001 * MS)).unparse(1), "562.5");
        assert_eq!(rate.at(Steady(1101 * MS)).unparse(1), "7.8125");
        assert_eq!(rate.at(Steady(1202 * MS)).unparse(1), "0");
        assert_eq!(burst().at(Steady(1300 * MS)).unparse(1), "0");
    }
}
