//! What sources that make packets as fast as they can share: bursts, a limit, an end.

use alloc::string::{String, ToString};

use packet::Batch;
use router::args::Failed;
use router::{Call, Cx, HandlerError, HandlerList, Notice, Ran, Search, Signal, SignalId, TaskId};

use super::limit::Limit;

/// When a source makes packets.
#[derive(Default)]
pub struct Pace {
    pub limit: Limit,
    pub burst: i32,
    pub active: bool,
    pub timestamp: bool,
    pub count: u64,
    /// The handler call at the end.
    pub end: String,
    end_call: Option<Call>,
    /// Packets left of the burst under way.
    left: u64,
    pub task: Option<TaskId>,
    nonfull: Signal,
    nonempty: Option<SignalId>,
}

impl Pace {
    /// A pace of single packets without end.
    pub fn set_defaults(&mut self) {
        (self.limit, self.burst) = (Limit::NONE, 1);
        (self.active, self.timestamp) = (true, true);
        self.end.clear();
    }

    /// Checks what was configured; `stop` asks for the driver to be stopped at the end.
    pub fn check(&mut self, cx: &mut Cx<'_>, stop: bool) -> Result<(), &'static str> {
        if self.burst < 1 {
            return Err("burst size must be >= 1");
        }
        if stop && !self.end.is_empty() {
            return Err("END_CALL and STOP are mutually exclusive");
        }
        if stop {
            self.end = "stop".to_string();
        }
        self.nonempty
            .get_or_insert_with(|| cx.signal(Notice::Empty, true));
        Ok(())
    }

    pub fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if cx.output_is_push(0) {
            let task = cx.task();
            self.task = Some(task);
            self.nonfull = cx.downstream_signal(0, Some(task));
            cx.schedule(task);
        }
        if !self.end.is_empty() {
            self.end_call = Some(Call::to_write(cx, &self.end).map_err(|e| cx.error(e))?);
        }
        Ok(())
    }

    /// Packets that the limit still allows.
    fn allowed(&self) -> u64 {
        self.limit.left(self.count)
    }

    fn fill(
        &mut self,
        cx: &mut Cx<'_>,
        batch: &mut Batch,
        most: usize,
        make: impl FnOnce(&mut Cx<'_>, &mut Batch, usize, i64) -> usize,
    ) {
        let now = if self.timestamp { cx.wall() } else { 0 };
        self.count += make(cx, batch, most, now) as u64;
    }

    fn finished(&mut self, cx: &mut Cx<'_>) {
        if self.allowed() == 0
            && let Some(call) = self.end_call.clone()
        {
            let _ = call.write(cx);
        }
    }

    /// Runs the source's task. `make` adds at most so many packets with a timestamp to a batch, and
    /// says how many.
    pub fn run_task(
        &mut self,
        cx: &mut Cx<'_>,
        task: TaskId,
        make: impl FnOnce(&mut Cx<'_>, &mut Batch, usize, i64) -> usize,
    ) -> Ran {
        if self.left == 0 {
            if !self.active || !cx.is_active(&self.nonfull) {
                return Ran::Nothing;
            }
            self.left = (self.burst as u64).min(self.allowed());
            if self.left == 0 {
                self.finished(cx);
                return Ran::Nothing;
            }
        }
        let most = self.left.min(cx.limit() as u64) as usize;
        let mut batch = cx.batch();
        self.fill(cx, &mut batch, most, make);
        let made = batch.len();
        self.left -= made as u64;
        cx.push(0, batch);
        if made == most && self.left > 0 {
            return Ran::More;
        }
        self.left = 0;
        cx.schedule(task);
        Ran::worked(made > 0)
    }

    /// Answers a pull; `make` as for [`run_task`](Self::run_task).
    pub fn pull(
        &mut self,
        cx: &mut Cx<'_>,
        batch: &mut Batch,
        most: usize,
        make: impl FnOnce(&mut Cx<'_>, &mut Batch, usize, i64) -> usize,
    ) {
        let most = (most as u64).min(self.allowed()) as usize;
        if self.active && most > 0 {
            return self.fill(cx, batch, most, make);
        }
        if self.active {
            self.finished(cx);
        }
        if let Some(signal) = self.nonempty {
            cx.set_signal(signal, false);
        }
    }

    pub fn notifier(&self, notice: Notice) -> Search {
        match (notice, self.nonempty) {
            (Notice::Empty, Some(signal)) => Search::Stop(signal),
            _ => Search::Pass,
        }
    }

    pub fn handlers(&self, list: &mut HandlerList) {
        list.read_write("limit").read_write("burst");
        list.checkbox("active").read("count").button("reset");
        if self.task.is_some() {
            list.task(false);
        }
    }

    pub fn read(&self, name: &str) -> Result<String, HandlerError> {
        match name {
            "limit" => Ok(self.limit.to_string()),
            "burst" => Ok(self.burst.to_string()),
            "active" => Ok(self.active.to_string()),
            "count" => Ok(self.count.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    pub fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let names = cx.names();
        match name {
            "limit" => {
                let limit = names.parse(value);
                self.limit = limit.map_err(|_| "limit parameter must be integer")?;
            }
            "burst" => {
                let burst = names.parse(value).ok().filter(|burst| *burst >= 1);
                self.burst = burst.ok_or("burstsize parameter must be integer >= 1")?;
            }
            "active" => {
                let active = names.parse(value);
                self.active = active.map_err(|_| "active parameter must be boolean")?;
            }
            "reset" => self.count = 0,
            _ => return Err(HandlerError::Unknown),
        }
        self.wake(cx);
        Ok(())
    }

    /// Goes on if there is something to make.
    pub fn wake(&mut self, cx: &mut Cx<'_>) {
        if self.active && self.allowed() > 0 {
            if let Some(task) = self.task {
                cx.schedule(task);
            } else if let Some(signal) = self.nonempty {
                cx.set_signal(signal, true);
            }
        }
    }
}
