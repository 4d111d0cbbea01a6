//! The timer behind the watchdog.
//!
//! Each of a guest's CPUs is a thread with its own timer of CPU time. The timer costs nothing while the guest
//! sleeps, and needs no arming when it wakes. A guest that waits for a CPU on a crowded host is not taken for one
//! in an endless loop.

use nix::sys::signal::{SigEvent, SigevNotify, Signal};
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;

use crate::error::{Context, Result};
use std::time::Duration;

/// CPU time between two checks of the heartbeat.
const TICK: Duration = Duration::from_millis(100);
/// Checks in a row without a heartbeat, at the last of which the guest is stopped.
pub(crate) const TICKS: u64 = 4;
/// The same of a guest that says that its work may take seconds: it starts, or answers a request.
pub(crate) const LONG_WORK_TICKS: u64 = 100;
/// The timer's signal.
pub(crate) const SIGNAL: Signal = Signal::SIGALRM;

/// Starts the timer for this thread, which is never stopped.
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
