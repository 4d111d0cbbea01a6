//! Pulling at intervals: what TimedUnqueue and Burster share.

use super::burst::Burst;
use crate::prelude::*;

/// Most nanoseconds that are made up for; after longer pauses the intervals start again.
const ARREARS_MAX: u64 = 1_000_000_000;

/// A task that pulls a burst at every interval.
#[derive(Component)]
pub(super) struct TimedPull {
    /// Time between bursts.
    #[arg(mandatory)]
    interval: Nanoseconds,
    burst: u32,
    pulling: Burst,
    /// Whether the burst begins with what was asked for.
    begins: bool,
    /// When the last burst was due; none after there was nothing to pull.
    due: Option<Steady>,
    task: Option<TaskId>,
    timer: Option<TimerId>,
    signal: Signal,
}

impl TimedPull {
    /// Takes most packets at a time, as the argument BURST says it.
    pub fn set_burst(&mut self, args: &Args<'_>, burst: i32) -> Result<(), Failed> {
        self.burst = burst.unsigned_abs();
        if burst > 0 {
            Ok(())
        } else {
            Err(args.fail("bad BURST"))
        }
    }
}

impl Element for TimedPull {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let task = cx.task();
        cx.schedule(task);
        self.signal = cx.upstream_signal(0, Some(task));
        (self.task, self.timer) = (Some(task), Some(cx.timer()));
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        let Some(timer) = self.timer else {
            return Ran::Nothing;
        };
        let Some(batch) = cx.pulled() else {
            self.begins = !self.pulling.is_under_way();
            // Packets may have come, but it is not their time yet.
            let early = self.begins && cx.expires(timer).is_some();
            return self
                .pulling
                .pull(cx, if early { 0 } else { self.burst.into() });
        };
        let pulled = batch.len();
        cx.push(0, batch);
        self.pulling.came(pulled);
        if self.pulling.is_under_way() {
            return Ran::More;
        }
        if pulled == 0 && self.begins && !cx.is_active(&self.signal) {
            self.due = None;
            return Ran::Nothing;
        }
        let now = cx.steady();
        let last = self.due.filter(|due| now.since(*due) <= ARREARS_MAX);
        let next = last.unwrap_or(now).after(self.interval.0);
        self.due = Some(next);
        cx.schedule_at(timer, next);
        Ran::Worked
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        if let Some(task) = self.task {
            cx.schedule(task);
        }
    }
}
