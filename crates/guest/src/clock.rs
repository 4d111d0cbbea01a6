//! Time from the time stamp counter.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU64, Ordering};

/// A clock that counts nanoseconds since the guest's start, without leaving the guest.
#[derive(Debug)]
pub struct Clock {
    /// Counter at the start, or where it would have been then.
    start: AtomicU64,
    /// Nanoseconds in a tick, in units of 2^-32.
    scale: AtomicU64,
    /// Nanoseconds from 1970 to the start.
    epoch: u64,
}

impl Clock {
    /// A clock that starts now.
    ///
    /// `khz`: ticks of the counter in a millisecond; `epoch`: nanoseconds since 1970 at this moment.
    pub fn start(khz: u64, epoch: u64) -> Self {
        Self {
            start: ticks().into(),
            scale: scale(khz).into(),
            epoch,
        }
    }

    /// Goes on in a machine whose counter is another one. It does not go back.
    ///
    /// `khz`: as for [`start`](Self::start); `unix`: nanoseconds since 1970 at this moment; `last`: what it showed
    /// before. No other CPU looks at the clock meanwhile.
    pub(crate) fn restart(&self, khz: u64, unix: u64, last: u64) {
        let now = unix.saturating_sub(self.epoch).max(last);
        let scale = scale(khz);
        let ran = (u128::from(now) << 32) / u128::from(scale.max(1));
        self.scale.store(scale, Ordering::Relaxed);
        let start = ticks().wrapping_sub(ran as u64);
        self.start.store(start, Ordering::Relaxed);
    }

    /// Nanoseconds since the start.
    #[inline]
    pub fn now(&self) -> u64 {
        self.nanoseconds(ticks().wrapping_sub(self.start.load(Ordering::Relaxed)))
    }

    /// Nanoseconds since 1970.
    #[inline]
    pub fn unix(&self) -> u64 {
        self.epoch.wrapping_add(self.now())
    }

    #[inline]
    fn nanoseconds(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.scale.load(Ordering::Relaxed))) >> 32) as u64
    }
}

/// Nanoseconds in a tick, in units of 2^-32.
fn scale(khz: u64) -> u64 {
    // A clock of unknown rate still runs, as if at 1 GHz.
    let khz = if khz == 0 { 1_000_000 } else { khz };
    ((1_000_000u128 << 32) / u128::from(khz)) as u64
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
            start: 0.into(),
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
    fn it_goes_on_in_another_machine() {
        let clock = Clock::start(2_000_000, 1_000);
        let last = clock.now();
        clock.restart(3_000_000, 5_000_001_000, last);
        assert!((5_000_000_000..6_000_000_000).contains(&clock.now()));
        let last = clock.now();
        clock.restart(1_000_000, 0, last);
        assert!(clock.now() >= last - 1 && clock.now() < last + 1_000_000_000);
    }

    #[test]
    fn time_goes_forward() {
        let clock = Clock::start(0, 5);
        let before = clock.now();
        assert!(clock.now() >= before);
        assert!(clock.unix() >= before + 5);
    }
}
