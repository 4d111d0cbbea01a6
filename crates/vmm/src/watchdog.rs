//! The timer behind the watchdog.
//!
//! Each of a guest's CPUs is a thread with a timer of its own. It counts the CPU time that the thread uses, not
//! time on the wall. So it costs nothing while the guest sleeps, needs no arming when it wakes, and a guest that merely doesn't get its turn on a crowded host
//! isn't taken for one that loops.

use nix::sys::signal::{SigEvent, SigevNotify, Signal};
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;

use crate::error::{Context, Result};
use std::time::Duration;

/// CPU time between two looks at the heartbeat.
const TICK: Duration = Duration::from_millis(100);
/// Looks in a row that may find the heart not beating; the guest is stopped at the last.
pub(crate) const TICKS: u64 = 4;
/// The timer's signal.
pub(crate) const SIGNAL: Signal = Signal::SIGALRM;

/// Starts the timer for this thread, for good.
pub(crate) fn start() -> Result<()> {
    let event = SigEvent::new(SigevNotify::SigevThreadId {
        signal: SIGNAL,
        thread_id: rustix::thread::gettid().as_raw_nonzero().get(),
        si_value: 0,
    });
    let mut timer = Timer::new(ClockId::CLOCK_THREAD_CPUTIME_ID, event).context("a timer")?;
    timer
        .set(
            Expiration::Interval(TICK.into()),
            TimerSetTimeFlags::empty(),
        )
        .context("starting a timer")?;
    // Dropping would delete it.
    std::mem::forget(timer);
    Ok(())
}
