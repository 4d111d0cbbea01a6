//! When guests that ended are restarted.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a guest waits that ended for the first time.
const FIRST: Duration = Duration::from_millis(100);
/// The longest that any waits.
const LONGEST: Duration = Duration::from_secs(30);
/// A guest that ran this long is restarted as if it had never ended before.
const STEADY: Duration = Duration::from_secs(10);

/// Guests that ended and were restarted, or wait to be.
#[derive(Default)]
pub struct Restarts {
    guests: HashMap<u64, History>,
}

struct History {
    count: u32,
    delay: Duration,
    last: Instant,
    due: Option<Instant>,
}

impl Restarts {
    /// Notes that a guest has ended and must be restarted: the longer it ran, the sooner.
    pub fn schedule(&mut self, id: u64, now: Instant) -> Duration {
        let history = self.guests.entry(id).or_insert(History {
            count: 0,
            delay: Duration::ZERO,
            last: now,
            due: None,
        });
        let ran = now.saturating_duration_since(history.last);
        history.delay = if history.count > 0 && ran < STEADY + history.delay {
            (history.delay * 2).min(LONGEST)
        } else {
            FIRST
        };
        history.count += 1;
        history.last = now;
        history.due = Some(now + history.delay);
        history.delay
    }

    /// Whether a guest waits to be restarted.
    pub fn is_waiting(&self, id: u64) -> bool {
        self.guests.get(&id).is_some_and(|h| h.due.is_some())
    }

    /// How often a guest was to be restarted.
    pub fn count(&self, id: u64) -> u32 {
        self.guests.get(&id).map_or(0, |history| history.count)
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<Instant> {
        self.guests.values().filter_map(|history| history.due).min()
    }

    /// The guests whose time has come; they wait no more.
    pub fn take_due(&mut self, now: Instant) -> Vec<u64> {
        let due = |history: &&mut History| history.due.is_some_and(|due| due <= now);
        let mut taken = Vec::new();
        for (id, history) in &mut self.guests {
            if due(&history) {
                history.due = None;
                taken.push(*id);
            }
        }
        taken
    }

    /// Forgets a guest.
    pub fn forget(&mut self, id: u64) {
        self.guests.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_ends_again_and_again_waits_longer_and_one_that_ran_long_does_not() {
        let mut restarts = Restarts::default();
        let mut now = Instant::now();
        let mut delays = Vec::new();
        for _ in 0..12 {
            delays.push(restarts.schedule(7, now));
            now = restarts.next().unwrap();
            assert!(restarts.is_waiting(7));
            assert_eq!(restarts.take_due(now), [7]);
            assert!(restarts.take_due(now).is_empty());
        }
        assert_eq!(delays[..3], [FIRST, FIRST * 2, FIRST * 4]);
        assert_eq!(delays[11], LONGEST);
        assert_eq!(restarts.count(7), 12);
        now += STEADY + LONGEST + LONGEST;
        assert_eq!(restarts.schedule(7, now), FIRST);
        restarts.forget(7);
        assert_eq!((restarts.count(7), restarts.next()), (0, None));
    }
}
