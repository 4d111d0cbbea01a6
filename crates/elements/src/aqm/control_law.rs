//! The control law of controlled delay (RFC 8289).

use crate::prelude::*;

/// Delay aimed at, in nanoseconds.
pub(super) const TARGET: Timestamp = Timestamp(5_000_000);
/// Time in which a sender can react, in nanoseconds.
pub(super) const INTERVAL: Timestamp = Timestamp(100_000_000);
/// Largest interval, in nanoseconds: a day.
pub(super) const INTERVAL_MAX: i64 = 86_400_000_000_000;
/// A cycle of drops that ended less than so many intervals ago tells how fast to drop.
const RECENT: i64 = 16;

/// The control law of RFC 8289: which packets to drop so that the least delay within an interval
/// comes down to the target. Times are wall-clock times and differences in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law {
    pub target: i64,
    pub interval: i64,
    /// When the delay will have been above the target for an interval; `None`: it is below.
    first_above: Option<i64>,
    drop_next: i64,
    /// Drops of this cycle, and of the one before when this one began.
    count: u32,
    last_count: u32,
    dropping: bool,
    /// What the packet before means for the next.
    after: After,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// The packet before was let through.
    Passed,
    /// It was the first to be dropped: the next one passes.
    Entered,
    /// It was dropped as one of several.
    Dropped,
}

impl Default for Law {
    fn default() -> Self {
        Law {
            target: TARGET.0,
            interval: INTERVAL.0,
            first_above: None,
            drop_next: 0,
            count: 0,
            last_count: 0,
            dropping: false,
            after: After::Passed,
        }
    }
}

impl Law {
    /// When to drop next after `time`: an interval later, divided by the root of the count.
    fn next_drop(&self, time: i64) -> i64 {
        // The root is taken of the count times 2³², for 16 binary digits after the point.
        let root = (u64::from(self.count.max(1)) << 32).isqrt();
        let wait = (i128::from(self.interval) << 16) / i128::from(root.max(1));
        time.saturating_add(i64::try_from(wait).unwrap_or(i64::MAX))
    }

    /// Whether the delay has been above the target for an interval.
    fn stands(&mut self, now: i64, sojourn: i64, left: usize) -> bool {
        // A queue of one packet cannot be shorter.
        if sojourn < self.target || left == 0 {
            self.first_above = None;
            return false;
        }
        let first_above = *self
            .first_above
            .get_or_insert(now.saturating_add(self.interval));
        now >= first_above
    }

    /// Decides on a packet that was in the queue for `sojourn`, where `left` packets are left.
    #[inline]
    pub fn drops(&mut self, now: i64, sojourn: i64, left: usize) -> bool {
        let stands = self.stands(now, sojourn, left);
        match core::mem::replace(&mut self.after, After::Passed) {
            After::Entered => return false,
            After::Dropped if stands => self.drop_next = self.next_drop(self.drop_next),
            _ => {}
        }
        if !stands {
            self.dropping = false;
            return false;
        }
        if self.dropping {
            if now < self.drop_next {
                return false;
            }
            self.count = self.count.saturating_add(1);
            self.after = After::Dropped;
            return true;
        }
        self.enter(now);
        true
    }

    /// Begins a cycle of drops.
    fn enter(&mut self, now: i64) {
        let recent = now.saturating_sub(self.drop_next) < RECENT.saturating_mul(self.interval);
        let delta = self.count.saturating_sub(self.last_count);
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.next_drop(now);
        self.last_count = self.count;
        self.dropping = true;
        self.after = After::Entered;
    }

    /// The queue is empty, or the packet does not say when it came.
    pub fn rest(&mut self) {
        self.first_above = None;
        self.dropping = false;
        self.after = After::Passed;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn drops_come_at_intervals_over_the_root_of_their_count() {
        // RFC 8289, section 4.4, with an overload that nothing relieves.
        let mut law = Law::default();
        let mut times = Vec::new();
        for now in 0..600_000 {
            // In units of a microsecond.
            if law.drops(now * 1000, 50_000_000, 100) {
                times.push(now / 1000);
                assert!(!law.drops(now * 1000, 50_000_000, 100));
            }
        }
        // The first after an interval; then 100 / √1, √2, √3, … later.
        assert_eq!(times, [100, 200, 270, 328, 378, 423, 463, 501, 537, 570]);
    }

    #[test]
    fn a_cycle_begins_where_the_recent_one_was() {
        let mut law = Law::default();
        let mut now = 0;
        let mut run = |law: &mut Law, until: i64, sojourn: i64| {
            let mut drops = 0;
            while now < until {
                drops += u32::from(law.drops(now, sojourn, 100));
                now += 1_000_000;
            }
            drops
        };
        assert!(run(&mut law, 1_000_000_000, 50_000_000) > 15);
        let count = law.count;
        run(&mut law, 1_010_000_000, 0);
        run(&mut law, 1_111_000_000, 50_000_000);
        assert_eq!((law.count, law.dropping), (count - 1, true));
        run(&mut law, 10_000_000_000, 0);
        run(&mut law, 10_101_000_000, 50_000_000);
        assert_eq!(law.count, 1);
    }

    proptest! {
        #[test]
        fn no_times_make_it_fail(
            times in proptest::collection::vec((any::<i64>(), any::<i64>(), 0usize..3), 0..200),
            target: i64,
            interval in 1..=INTERVAL_MAX,
        ) {
            let mut law = Law { target, interval, ..Law::default() };
            for (now, came, left) in times {
                law.drops(now, now.saturating_sub(came), left);
            }
        }
    }
}
