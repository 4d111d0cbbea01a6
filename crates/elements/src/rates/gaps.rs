//! Evenly spaced events: what shapers and rate-limited elements keep to.
//!
//! In each second of the clock, the `n`-th event is due after `n` gaps. Events that were missed may
//! be caught up on; what is left of a second counts for the next.

use crate::prelude::*;

const SECOND: u64 = 1_000_000_000;

/// Events at a rate, as even as can be.
#[derive(Clone, Debug, Default)]
pub struct GapRate {
    rate: u64,
    /// Most events that may happen at once.
    most: Option<u64>,
    /// The time of the last question, in whose second events are counted; `None` before the first event and
    /// after a reset.
    asked: Option<Steady>,
    /// Events in that second, less the events that were missed before it.
    count: i128,
}

impl GapRate {
    /// Sets the rate, in events a second, from `now` on.
    pub fn set_rate(&mut self, rate: u64, now: Steady) {
        if self.rate != rate {
            self.rate = rate;
            if self.asked.is_some() {
                self.count = self.due(now).0;
            }
        }
    }

    /// Lets at most so many events happen at once: more that were missed are not caught up on. `None`: those of a second.
    pub fn set_most(&mut self, most: Option<u64>) {
        self.most = most;
    }

    /// Forgets what was missed: the next event is due within a gap.
    pub fn reset(&mut self) {
        self.asked = None;
    }

    /// Events due by now in this second of the clock, and the part of a gap since the last, in
    /// parts of 10⁹.
    #[inline]
    fn due(&self, now: Steady) -> (i128, u64) {
        let passed = now.0 % SECOND;
        // A division of 128 bits takes longer than all else here.
        if let Some(scaled) = passed.checked_mul(self.rate) {
            return (i128::from(scaled / SECOND), scaled % SECOND);
        }
        let scaled = u128::from(passed) * u128::from(self.rate);
        let second = u128::from(SECOND);
        ((scaled / second) as i128, (scaled % second) as u64)
    }

    /// Events, of weight 1, that may happen at `now`. A time before the last is taken for that: another thread
    /// may have looked at the clock later.
    #[inline]
    pub fn allowed(&mut self, now: Steady) -> u64 {
        if self.rate == 0 {
            return 0;
        }
        let now = self.asked.map_or(now, |asked| asked.max(now));
        let (due, part) = self.due(now);
        match self.asked {
            None => self.count = due + i128::from(part > SECOND / 2),
            // Only the last second's misses are caught up on.
            Some(before) if now.0 / SECOND > before.0 / SECOND && self.count > 0 => {
                self.count -= i128::from(self.rate);
            }
            Some(_) => {}
        }
        self.asked = Some(now);
        if let Some(most) = self.most {
            self.count = self.count.max(due + 1 - i128::from(most));
        }
        u64::try_from(due + 1 - self.count).unwrap_or(0)
    }

    /// Counts an event of weight `weight`.
    #[inline]
    pub fn count(&mut self, weight: u64) {
        self.count += i128::from(weight);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(rate: u64) -> GapRate {
        let mut gaps = GapRate::default();
        gaps.set_rate(rate, Steady(0));
        gaps
    }

    #[test]
    fn events_are_evenly_spaced() {
        let mut gaps = rate(10);
        let mut at = std::vec::Vec::new();
        for millisecond in 0..1000 {
            let now = Steady(7 * SECOND + millisecond * 1_000_000);
            if gaps.allowed(now) > 0 {
                gaps.count(1);
                at.push(millisecond);
            }
        }
        assert_eq!(at, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
    }

    #[test]
    fn nothing_is_allowed_at_rate_0() {
        assert_eq!(rate(0).allowed(Steady(12345)), 0);
    }

    #[test]
    fn a_reset_forgets_what_was_missed() {
        let mut gaps = rate(100);
        assert_eq!(gaps.allowed(Steady(0)), 1);
        assert_eq!(gaps.allowed(Steady(SECOND / 2)), 51);
        gaps.reset();
        assert_eq!(gaps.allowed(Steady(SECOND / 2)), 1);
    }

    #[test]
    fn what_was_missed_is_caught_up_on_up_to_the_most() {
        let mut gaps = rate(1000);
        gaps.set_most(Some(10));
        assert_eq!(gaps.allowed(Steady(0)), 1);
        gaps.count(1);
        for pause in [SECOND / 2, 5 * SECOND, 7 * SECOND + 3] {
            assert_eq!(gaps.allowed(Steady(pause)), 10);
            gaps.count(10);
            assert_eq!(gaps.allowed(Steady(pause)), 0);
            assert_eq!(gaps.allowed(Steady(pause + 3_000_000)), 3);
            gaps.count(3);
        }
    }

    proptest! {
        #[test]
        fn the_rate_is_held(
            rate in 1u64..100_000_000_000,
            start: u32,
            step in 1_000u64..3_000_000,
            weight in 1u64..2000,
            limits: bool,
        ) {
            let mut gaps = self::rate(rate);
            // No less than the events of a step.
            gaps.set_most(limits.then(|| rate / 100 + 1));
            let start = u64::from(start) * 1000;
            let (mut now, mut total) = (start, 0u64);
            while now < start + 3 * SECOND {
                let allowed = gaps.allowed(Steady(now));
                let events = allowed.div_ceil(weight);
                gaps.count(events * weight);
                total += events * weight;
                now += step;
            }
            let expected = rate * 3;
            let slack = expected / 500 + 2 * weight + 2;
            prop_assert!(total.abs_diff(expected) <= slack, "{total} of {expected}");
        }
    }
}
