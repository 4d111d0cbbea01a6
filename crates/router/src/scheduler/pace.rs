//! The pace of Click's driver: how many tasks run between two looks at timers and descriptors.

/// Tasks of a round. (Click's constant is 128; its loop counts 0, too.)
pub(crate) const TASKS: usize = 129;
/// Most rounds between two looks at timers.
const STRIDE_MAX: u64 = 32;
/// Timers in time after which there is a round more between two looks.
const IN_TIME: u32 = 12;
/// Rounds between two looks at descriptors.
const SELECT: u64 = 2;

/// Where the driver stands, and how often it looks at timers: less often as long as none is late.
pub struct DriverPace {
    round: u64,
    stride: u64,
    in_time: u32,
    /// Nanoseconds after which a timer is late.
    late: u64,
}

impl DriverPace {
    /// That of a router that starts. With a clock that stands still while there is work, each timer is late.
    pub fn new(clock_stands: bool) -> DriverPace {
        DriverPace {
            round: 0,
            stride: STRIDE_MAX,
            in_time: 0,
            late: if clock_stands { 0 } else { 500_000 },
        }
    }

    /// Begins a round.
    pub(crate) fn begin(&mut self) {
        self.round += 1;
    }

    /// Whether timers have their turn in this round. `lateness` is asked for the nanoseconds since the first one
    /// expired.
    pub(crate) fn timers(&mut self, lateness: impl FnOnce() -> Option<u64>) -> bool {
        if !self.round.is_multiple_of(self.stride) {
            return false;
        }
        match lateness() {
            Some(lateness) if lateness >= self.late => {
                self.in_time = 0;
                self.stride = (self.stride * 4 / 5).max(1);
            }
            Some(_) => {
                self.in_time += 1;
                if self.in_time == IN_TIME {
                    self.in_time = 0;
                    self.stride = (self.stride + 1).min(STRIDE_MAX);
                }
            }
            None => {}
        }
        true
    }

    /// Whether descriptors have their turn after this round.
    pub fn descriptors(&self) -> bool {
        self.round.is_multiple_of(SELECT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// The rounds of the first `count` looks at timers, of which the first is `lateness` late each time.
    fn rounds(count: usize, lateness: u64) -> Vec<u64> {
        let mut pace = DriverPace::new(false);
        let mut rounds = Vec::new();
        while rounds.len() < count {
            pace.begin();
            if pace.timers(|| Some(lateness)) {
                rounds.push(pace.round);
            }
        }
        rounds
    }

    #[test]
    fn timers_have_their_turn_more_often_if_they_are_late() {
        assert_eq!(rounds(3, 1), [32, 64, 96]);
        assert_eq!(rounds(6, 500_000), [32, 50, 60, 64, 72, 81]);
    }

    #[test]
    fn timers_in_time_have_their_turn_less_often_again() {
        let mut pace = DriverPace::new(false);
        pace.stride = 1;
        for _ in 0..12 {
            pace.begin();
            assert!(pace.timers(|| Some(0)));
        }
        assert_eq!(pace.stride, 2);
        pace.begin();
        assert!(!pace.timers(|| Some(0)));
    }
}
