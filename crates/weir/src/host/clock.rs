//! The host's clocks, and time that runs faster, slower or as it pleases.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use router::Steady;
use rustix::time::{ClockId, clock_gettime};

/// How a router's time goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warp {
    /// As the machine's does, times a speed.
    Linear(f64),
    /// As the machine's does, but without waiting: when there is nothing to do, it jumps to the
    /// next timer.
    NoWait,
    /// Apart from the machine's: it stands still while there is something to do, but for a
    /// nanosecond each time it is read, and jumps to the next timer when there is not.
    Simulation,
}

/// A steady clock and a wall clock. All routers of a process share them.
pub struct Clock {
    /// The clocks are not simply the machine's.
    warped: AtomicBool,
    state: Mutex<State>,
}

/// Warped time is `base + (raw - raw_base) * speed`, in nanoseconds; in simulation just `base`.
struct State {
    warp: Warp,
    steady: Line,
    wall: Line,
}

#[derive(Clone, Copy, Default)]
struct Line {
    raw: i64,
    base: i64,
}

impl Line {
    fn at(self, raw: i64, speed: f64) -> i64 {
        let passed = raw - self.raw;
        if speed == 1.0 {
            return self.base + passed;
        }
        self.base + (passed as f64 * speed) as i64
    }
}

fn machine(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

impl Default for Clock {
    fn default() -> Self {
        Clock {
            warped: AtomicBool::new(false),
            state: Mutex::new(State {
                warp: Warp::Linear(1.0),
                steady: Line::default(),
                wall: Line::default(),
            }),
        }
    }
}

impl Clock {
    /// Simulated time, in which both clocks start at `start`, in nanoseconds.
    pub fn simulated(start: i64) -> Clock {
        let line = Line {
            raw: 0,
            base: start,
        };
        Clock {
            warped: AtomicBool::new(true),
            state: Mutex::new(State {
                warp: Warp::Simulation,
                steady: line,
                wall: line,
            }),
        }
    }

    fn locked<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        // The state is plain numbers: a panic leaves it whole.
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn read(&self, id: ClockId, which: fn(&State) -> Line) -> i64 {
        if !self.warped.load(Ordering::Relaxed) {
            return machine(id);
        }
        self.locked(|state| match state.warp {
            Warp::Linear(speed) => which(state).at(machine(id), speed),
            Warp::NoWait => which(state).at(machine(id), 1.0),
            Warp::Simulation => {
                let now = which(state).base;
                state.steady.base += 1;
                state.wall.base += 1;
                now
            }
        })
    }

    /// The steady clock.
    pub fn steady(&self) -> Steady {
        let now = self.read(ClockId::Monotonic, |state| state.steady);
        Steady(u64::try_from(now).unwrap_or(0))
    }

    /// Wall-clock time in nanoseconds since 1970.
    pub fn wall(&self) -> i64 {
        self.read(ClockId::Realtime, |state| state.wall)
    }

    /// How time goes.
    pub fn warp(&self) -> Warp {
        self.locked(|state| state.warp)
    }

    /// Lets time go otherwise from now on.
    pub fn set_warp(&self, warp: Warp) {
        self.locked(|state| {
            let (steady, wall) = (machine(ClockId::Monotonic), machine(ClockId::Realtime));
            let speed = match state.warp {
                Warp::Linear(speed) => speed,
                _ => 1.0,
            };
            let untouched = !self.warped.load(Ordering::Relaxed);
            let now = |line: Line, raw| match untouched {
                true => raw,
                false => line.at(raw, speed),
            };
            state.steady = Line {
                raw: steady,
                base: now(state.steady, steady),
            };
            state.wall = Line {
                raw: wall,
                base: now(state.wall, wall),
            };
            state.warp = warp;
        });
        self.warped.store(true, Ordering::Relaxed);
    }

    /// Nanoseconds of the machine's time from now until `moment`; `None` if time jumped there.
    pub fn until(&self, moment: Steady) -> Option<u64> {
        let warp = match self.warped.load(Ordering::Relaxed) {
            true => self.warp(),
            false => Warp::Linear(1.0),
        };
        match warp {
            Warp::Linear(speed) => {
                let left = moment.since(self.steady());
                Some((left as f64 / speed).min(i64::MAX as f64) as u64)
            }
            Warp::NoWait | Warp::Simulation => {
                self.jump(moment);
                None
            }
        }
    }

    /// Moves both clocks forward so that the steady one shows `moment`.
    fn jump(&self, moment: Steady) {
        let moment = i64::try_from(moment.0).unwrap_or(i64::MAX);
        self.locked(|state| {
            let now = match state.warp {
                Warp::Simulation => state.steady.base,
                _ => state.steady.at(machine(ClockId::Monotonic), 1.0),
            };
            let ahead = moment.saturating_sub(now).max(0);
            state.steady.base = state.steady.base.saturating_add(ahead);
            state.wall.base = state.wall.base.saturating_add(ahead);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_time_moves_by_reading_and_jumping_only() {
        let clock = Clock::simulated(1_000);
        assert_eq!(clock.steady(), Steady(1_000));
        assert_eq!(clock.wall(), 1_001);
        assert_eq!(clock.until(Steady(5_000)), None);
        assert_eq!(clock.steady(), Steady(5_000));
        // It never goes back.
        assert_eq!(clock.until(Steady(10)), None);
        assert!(clock.steady() > Steady(5_000));
    }

    #[test]
    fn time_without_waiting_jumps() {
        let clock = Clock::default();
        clock.set_warp(Warp::NoWait);
        // In this order, so that a pause between the two does not matter.
        let (wall, steady) = (clock.wall(), clock.steady());
        let hour = 3_600_000_000_000;
        assert_eq!(clock.until(steady.after(hour)), None);
        assert!(clock.steady().since(steady) >= hour);
        assert!(clock.wall() - wall >= hour as i64);
    }

    #[test]
    fn a_speed_stretches_waiting() {
        let clock = Clock::default();
        let before = clock.steady();
        clock.set_warp(Warp::Linear(1000.0));
        assert!(clock.steady() >= before);
        let left = clock.until(clock.steady().after(1_000_000_000));
        assert!(left.is_some_and(|left| left <= 1_000_000), "{left:?}");
    }
}
