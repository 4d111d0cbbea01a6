//! An exponentially weighted moving average with a weight that users set.

use crate::prelude::*;

/// Binary digits after the point.
pub(super) const SCALE: u32 = 10;
/// Observations after which nothing before them counts any more.
const FORGOTTEN: u64 = 100;

/// A moving average in fixed-point arithmetic: an observation counts for one part in
/// 2^stability.
#[derive(Clone, Copy, Debug)]
pub(super) struct Average {
    scaled: u64,
    stability: u32,
}

impl Default for Average {
    fn default() -> Self {
        Average {
            scaled: 0,
            stability: 4,
        }
    }
}

impl Average {
    /// Binary logarithm of the weight's inverse; 0: only the last observation counts.
    pub fn stability(&self) -> u32 {
        self.stability
    }

    /// Sets the weight, and keeps the average.
    pub fn set_stability(&mut self, stability: u32) {
        self.stability = stability;
    }

    /// Takes over the value of `other`, but not its weight.
    pub fn take(&mut self, other: &Average) {
        self.scaled = other.scaled;
    }

    /// Starts again from 0.
    pub fn clear(&mut self) {
        self.scaled = 0;
    }

    /// Takes an observation into account.
    #[inline]
    pub fn update(&mut self, value: u64) {
        // The addend rounds to nearest what the shift would round down.
        let rounding = (1 << self.stability) >> 1;
        let sample = (value << SCALE) + rounding;
        let step = (sample.wrapping_sub(self.scaled) as i64) >> self.stability;
        self.scaled = self.scaled.wrapping_add(step as u64);
    }

    /// Takes `n` observations of 0 into account.
    pub fn update_empty(&mut self, n: u64) {
        if n >= FORGOTTEN {
            self.scaled = 0;
        }
        for _ in 0..n.min(FORGOTTEN) {
            self.update(0);
        }
    }

    /// The average with [`SCALE`] binary digits after the point.
    #[inline]
    pub fn scaled(&self) -> u64 {
        self.scaled
    }

    /// The average, rounded to nearest.
    #[inline]
    pub fn rounded(&self) -> u64 {
        (self.scaled + (1 << (SCALE - 1))) >> SCALE
    }

    /// The average as handlers show it.
    pub fn unparse(&self) -> String {
        unparse::real2(self.scaled, SCALE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_near_what_is_observed() {
        let mut average = Average::default();
        average.update(16);
        assert_eq!((average.scaled(), average.rounded()), (1024, 1));
        assert_eq!(average.unparse(), "1");
        for _ in 0..200 {
            average.update(16);
        }
        assert_eq!(average.rounded(), 16);
        average.update_empty(1);
        assert_eq!(average.rounded(), 15);
        average.update_empty(FORGOTTEN);
        assert_eq!(average.scaled(), 0);
    }

    #[test]
    fn without_stability_the_last_observation_counts() {
        let mut average = Average::default();
        average.set_stability(0);
        average.update(7);
        average.update(9);
        assert_eq!(average.rounded(), 9);
    }
}
