//! Exponentially weighted moving averages of rates, as Click's handlers report them.

use alloc::string::String;
use router::Steady;
use router::args::unparse;

/// Epochs a second.
const HZ: u64 = 1000;
/// A new epoch counts for one part in 2⁴.
const STABILITY: u32 = 4;
/// Averages carry ten binary digits after the point.
const SCALE: u32 = 10;

/// A moving average of events a second, over epochs of a millisecond with weight 1/16.
#[derive(Clone, Debug, Default)]
pub struct Rate {
    epoch: u64,
    total: u64,
    scaled: u64,
}

impl Rate {
    /// Counts `events` at `now`.
    #[inline]
    pub fn update(&mut self, now: Steady, events: u64) {
        let epoch = now.0 / (1_000_000_000 / HZ);
        if epoch != self.epoch {
            self.advance(epoch);
        }
        self.total += events;
    }

    #[cold]
    fn advance(&mut self, epoch: u64) {
        if self.epoch != 0 {
            // The epoch that ended counts; the ones since then had no events.
            self.average(self.total << SCALE);
            let silent = (epoch - self.epoch - 1).min(512);
            for _ in 0..silent {
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
        self.scaled.saturating_mul(HZ) >> SCALE
    }

    /// `factor` times the events a second, as handlers show it.
    pub fn unparse(&self, factor: u64) -> String {
        unparse::real2(self.scaled.saturating_mul(HZ * factor), SCALE)
    }
}
