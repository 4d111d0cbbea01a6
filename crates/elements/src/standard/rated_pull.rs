//! Pulling at a rate: what RatedUnqueue and BandwidthRatedUnqueue share.

use super::rate_bucket::RateBucket;
use crate::prelude::*;

/// A task that pulls what a token bucket allows, and pushes it on. Tokens are packets, or bytes if
/// `BYTES`.
#[derive(Component)]
#[component(handlers, task)]
pub(super) struct RatedPull<const BYTES: bool> {
    #[flatten]
    pub bucket: RateBucket<BYTES>,
    /// Whether it works.
    #[handler(read, write, checkbox, error = "expected boolean", then = wake)]
    #[init(true)]
    active: bool,
    timer: Option<TimerId>,
    signal: Signal,
    /// What came so far in this run, while more is pulled; and how many packets are asked for.
    came: Option<Box<Batch>>,
    asked: usize,
    runs: u64,
    pushes: u64,
    failed_pulls: u64,
    empty_runs: u64,
}

#[handlers]
impl<const BYTES: bool> RatedPull<BYTES> {
    /// Number of runs and their results.
    #[read]
    fn calls(&self) -> String {
        format!(
            "{} calls to run_task()\n{} empty runs\n{} pushes\n{} failed pulls\n",
            self.runs, self.empty_runs, self.pushes, self.failed_pulls
        )
    }
}

impl<const BYTES: bool> RatedPull<BYTES> {
    /// Adds what was pulled to `batch`; returns whether there were as many packets as asked for.
    fn take(&mut self, cx: &mut Cx<'_>, mut pulled: Box<Batch>, batch: &mut Batch) -> bool {
        for packet in pulled.iter() {
            self.bucket.take(packet);
        }
        let all = batch.append(&mut pulled, self.asked) == self.asked;
        cx.done(pulled);
        all
    }

    /// Schedules the task.
    fn wake(&mut self, cx: &mut Cx<'_>) {
        if let Some(task) = self.bucket.task {
            cx.schedule(task);
        }
    }
}

impl<const BYTES: bool> Element for RatedPull<BYTES> {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let task = cx.task();
        cx.schedule(task);
        self.signal = cx.upstream_signal(0, Some(task));
        (self.bucket.task, self.timer) = (Some(task), Some(cx.timer()));
        self.bucket.started = true;
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        let mut more = true;
        let batch = match (cx.pulled(), self.came.take()) {
            (Some(pulled), Some(mut batch)) => {
                more = self.take(cx, pulled, &mut batch);
                batch
            }
            _ => {
                self.runs += 1;
                if !self.active {
                    return Ran::Nothing;
                }
                self.bucket.fill(cx.steady());
                self.asked = 0;
                cx.batch()
            }
        };
        if more && batch.len() < cx.limit() && self.bucket.allows() {
            self.asked = self.bucket.packets().min((cx.limit() - batch.len()) as u64) as usize;
            self.came = Some(batch);
            return Ran::Pull(Pull {
                port: 0,
                most: self.asked as u16,
            });
        }
        let pulled = batch.len();
        cx.push(0, batch);
        if self.asked == 0 {
            self.empty_runs += 1;
            if let (Some(timer), Some(at)) = (self.timer, self.bucket.ready()) {
                cx.schedule_at(timer, at);
            }
            return Ran::Nothing;
        }
        self.pushes += pulled as u64;
        if pulled == 0 {
            self.failed_pulls += 1;
            if !cx.is_active(&self.signal) {
                return Ran::Nothing;
            }
            self.empty_runs += 1;
        }
        cx.schedule(task);
        Ran::worked(pulled > 0)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        self.wake(cx);
    }
}
