//! Time from the time stamp counter.

use core::arch::x86_64::_rdtsc;

/// A clock that counts nanoseconds since the guest's start, without leaving the guest.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Counter at the start.
    start: u64,
    /// Nanoseconds in a tick, in units of 2^-32.
    scale: u64,
    /// Nanoseconds from 1970 to the start.
    epoch: u64,
}

impl Clock {
    /// A clock that starts now.
    ///
    /// `khz`: ticks of the counter in a millisecond; `epoch`: nanoseconds since 1970 at this moment.
    pub fn start(khz: u64, epoch: u64) -> Self {
        // A clock of unknown rate still runs, as if at 1 GHz.
        let khz = if khz == 0 { 1_000_000 } else { khz };
        Self {
            start: ticks(),
            scale: ((1_000_000u128 << 32) / u128::from(khz)) as u64,
            epoch,
        }
    }

    /// Nanoseconds since the start.
    #[inline]
    pub fn now(&self) -> u64 {
        self.nanoseconds(ticks().wrapping_sub(self.start))
    }

    /// Nanoseconds since 1970.
    #[inline]
    pub fn unix(&self) -> u64 {
        self.epoch.wrapping_add(self.now())
    }

    #[inline]
    fn nanoseconds(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.scale)) >> 32) as u64
    }
}

#[inline]
fn ticks() -> u64 {
    // SAFETY: the instruction reads a counter and nothing else; every x86-64 has it.
    unsafe { _rdtsc() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds() {
        let clock = Clock {
            start: 0,
            ..Clock::start(2_100_000, 0)
        };
        let second = clock.nanoseconds(2_100_000_000);
        assert!((999_999_000..=1_000_000_000).contains(&second), "{second}");
        let year = 365 * 86_400u64;
        let exact = year * 1_000_000_000;
        let error = exact - clock.nanoseconds(year * 2_100_000_000);
        assert!(error < exact / 1_000_000_000, "{error}");
    }

    #[test]
    fn time_goes_forward() {
        let clock = Clock::start(0, 5);
        let before = clock.now();
        assert!(clock.now() >= before);
        assert!(clock.unix() >= before + 5);
    }
}
