//! Dynamic polling: how long a quiet queue is polled before it sleeps.
//!
//! A sleeping queue costs nothing but a wake-up when a frame comes: a doorbell, of 10 µs for a process and up to
//! 100 µs for a guest under KVM, which sends nothing meanwhile. So a queue is polled for a while after its last frame
//! (its *idle timeout*), longer than a wake-up takes: else each doorbell's pause would put it to sleep again. The
//! timeout follows from the last sleep: it doubles if the queue was woken again soon, since polling on would have been
//! better, and halves, down to none, if it slept long. (KVM's halt polling does the same for vCPUs.)
//!
//! While the lane has other frames to move, a look at a quiet queue costs next to nothing, and
//! rounds are long. After one look a round, a sender that gets its processor a moment late would
//! always find the queue asleep. So a busy lane looks several times before a queue sleeps.

use std::time::{Duration, Instant};

/// Shortest idle timeout above 0.
const TIMEOUT_MIN: Duration = Duration::from_micros(10);
/// Longest idle timeout: above it, a wake-up is the smaller cost.
const TIMEOUT_MAX: Duration = Duration::from_micros(200);
/// Looks that a quiet queue gets while its lane is at work: 64 take about as long as half a wake-up.
const LOOKS: u32 = 64;

/// The dynamic polling of one queue, or of a lane's handoff rings.
#[derive(Debug)]
pub struct Pace {
    idle_timeout: Duration,
    /// The last time that a frame was there, or the queue woke.
    busy: Instant,
    /// When the queue went to sleep.
    slept: Instant,
    /// Looks that found nothing since there was something.
    looks: u32,
}

impl Pace {
    /// A queue that has just been attached.
    pub fn new(now: Instant) -> Pace {
        Pace {
            idle_timeout: TIMEOUT_MIN,
            busy: now,
            slept: now,
            looks: 0,
        }
    }

    /// Frames were there.
    #[inline]
    pub fn busy(&mut self, now: Instant) {
        self.busy = now;
        self.looks = 0;
    }

    /// Nothing was there: whether the queue may sleep, on a lane that has other frames to move
    /// (`at_work`) or has none.
    #[inline]
    pub fn finds_nothing(&mut self, now: Instant, at_work: bool) -> bool {
        self.looks = self.looks.saturating_add(1);
        (!at_work || self.looks >= LOOKS) && self.may_sleep(now)
    }

    /// Nothing was there: whether the queue has been quiet for long enough to sleep.
    #[inline]
    pub fn may_sleep(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.busy) >= self.idle_timeout
    }

    /// The queue goes to sleep.
    pub fn sleeps(&mut self, now: Instant) {
        self.slept = now;
    }

    /// The queue wakes.
    pub fn wakes(&mut self, now: Instant) {
        self.idle_timeout = if now.saturating_duration_since(self.slept) <= TIMEOUT_MAX {
            (self.idle_timeout * 2).clamp(TIMEOUT_MIN, TIMEOUT_MAX)
        } else if self.idle_timeout > TIMEOUT_MIN {
            self.idle_timeout / 2
        } else {
            Duration::ZERO
        };
        self.busy(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_grows_with_short_sleeps_and_shrinks_with_long_ones() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        assert!(!pace.may_sleep(now));
        assert!(pace.may_sleep(now + TIMEOUT_MIN));
        for _ in 0..5 {
            pace.sleeps(now);
            now += Duration::from_micros(20);
            pace.wakes(now);
        }
        assert!(!pace.may_sleep(now + TIMEOUT_MAX - Duration::from_nanos(1)));
        assert!(pace.may_sleep(now + TIMEOUT_MAX));
        for _ in 0..6 {
            pace.sleeps(now);
            now += Duration::from_millis(5);
            pace.wakes(now);
        }
        assert!(pace.may_sleep(now));
    }

    #[test]
    fn a_lane_at_work_looks_often_before_a_queue_sleeps() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        for _ in 1..LOOKS {
            now += TIMEOUT_MAX;
            assert!(!pace.finds_nothing(now, true));
        }
        assert!(pace.finds_nothing(now, true));
        pace.busy(now);
        now += TIMEOUT_MAX;
        assert!(!pace.finds_nothing(now, true));
        assert!(pace.finds_nothing(now, false));
    }
}
