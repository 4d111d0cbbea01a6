use alloc::string::{String, ToString};

use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Ran, Signal, TaskId};

use super::limit::Limit;

/// Pulls packets and pushes them on, as fast as it can.
///
/// # Arguments
/// - `BURST` (integer, 1): most packets each time it is scheduled; no limit if negative.
/// - `ACTIVE` (boolean, true): whether it works.
/// - `LIMIT` (integer, -1): packets after which it stops; no limit if negative.
///
/// # Ports
/// One pull input, one push output.
///
/// # Handlers
/// - `count` (read): packets passed.
/// - `active`, `burst`, `limit` (read, write): the arguments.
/// - `reset`, `reset_counts` (write): sets `count` to 0.
/// - `scheduled`, `tickets`, `home_thread`: the task's.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1000) -> Queue -> Unqueue(BURST 8) -> Discard;
/// ```
///
/// # See also
/// RatedUnqueue, Queue
#[derive(Default)]
pub struct Unqueue {
    burst: i32,
    limit: Limit,
    active: bool,
    count: u64,
    /// Packets left of the burst under way.
    left: u64,
    task: Option<TaskId>,
    signal: Signal,
}

impl Class for Unqueue {
    const NAME: &'static str = "Unqueue";
    const PORTS: &'static str = "1/1";
    const PROCESSING: &'static str = "l/h";
    const SEGMENTS: bool = true;
}

impl Unqueue {
    /// Packets that the limit still allows.
    fn allowed(&self) -> u64 {
        self.limit.left(self.count)
    }

    fn burst(&self) -> u64 {
        u64::try_from(self.burst).unwrap_or(i32::MAX as u64)
    }
}

impl Declared for Unqueue {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        (self.burst, self.limit, self.active) = (1, Limit::NONE, true);
        args.positional("BURST", &mut self.burst)
            .keyword("ACTIVE", &mut self.active)
            .keyword("LIMIT", &mut self.limit)
            .complete()
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.checkbox("active").read("count");
        list.read_write("burst").read_write("limit");
        list.button("reset").button("reset_counts").task(false);
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "active" => Ok(self.active.to_string()),
            "count" => Ok(self.count.to_string()),
            "burst" => Ok(self.burst().to_string()),
            "limit" => Ok(self.limit.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let syntax = "syntax error";
        match name {
            "active" => self.active = cx.names().parse(value).map_err(|_| syntax)?,
            "burst" => self.burst = cx.names().parse(value).map_err(|_| syntax)?,
            "limit" => self.limit = cx.names().parse(value).map_err(|_| syntax)?,
            "reset" | "reset_counts" => self.count = 0,
            _ => return Err(HandlerError::Unknown),
        }
        if let (true, Some(task)) = (self.active && self.allowed() > 0, self.task) {
            cx.schedule(task);
        }
        Ok(())
    }
}

impl Element for Unqueue {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let task = cx.task();
        self.task = Some(task);
        if self.active {
            cx.schedule(task);
        }
        self.signal = cx.upstream_signal(0, Some(task));
        if self.burst == 0 {
            cx.warning("BURST size 0, no packets will be pulled");
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        if self.left == 0 {
            self.left = self.burst().min(self.allowed());
            if !self.active || self.allowed() == 0 {
                self.left = 0;
                return Ran::Nothing;
            }
        }
        let most = (self.left.min(cx.limit() as u64)) as usize;
        let mut batch = cx.batch();
        cx.pull(0, &mut batch, most);
        let pulled = batch.len();
        self.count += pulled as u64;
        self.left -= pulled as u64;
        cx.push(0, batch);
        if pulled == most && self.left > 0 && self.active {
            return Ran::More;
        }
        self.left = 0;
        if pulled == most || cx.is_active(&self.signal) {
            cx.schedule(task);
        }
        Ran::worked(pulled > 0)
    }
}
