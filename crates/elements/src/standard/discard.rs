use alloc::string::{String, ToString};

use packet::Batch;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Ran, Signal, TaskId};

/// Drops every packet, and counts them.
///
/// On a pull input it pulls as fast as it can, BURST packets each time it is scheduled.
///
/// # Arguments
/// - `BURST` (integer, 1): most packets pulled at a time.
/// - `ACTIVE` (boolean, true): whether it pulls.
///
/// # Ports
/// One input, agnostic; no output.
///
/// # Handlers
/// - `count` (read): packets dropped.
/// - `reset_counts` (write): sets `count` to 0.
/// - `active`, `burst` (read, write): the arguments; on a pull input.
/// - `scheduled`, `tickets`, `home_thread`: the task's; on a pull input.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 1000, STOP true) -> Discard;
/// ```
///
/// # See also
/// Idle
#[derive(Default)]
pub struct Discard {
    count: u64,
    burst: u32,
    active: bool,
    pull: Option<(TaskId, Signal)>,
}

impl Class for Discard {
    const NAME: &'static str = "Discard";
    const PORTS: &'static str = "1/0";
    const PROCESSING: &'static str = "a";
    const SEGMENTS: bool = true;
}

impl Declared for Discard {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.burst = 1;
        self.active = true;
        args.keyword("ACTIVE", &mut self.active)
            .keyword("BURST", &mut self.burst)
            .complete()?;
        if self.burst == 0 {
            return Err(args.fail("BURST must be at least 1"));
        }
        Ok(())
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("count").button("reset_counts");
        if self.pull.is_some() {
            list.checkbox("active").read_write("burst").task(true);
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "count" => Ok(self.count.to_string()),
            "active" if self.pull.is_some() => Ok(self.active.to_string()),
            "burst" if self.pull.is_some() => Ok(self.burst.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let task = self.pull.as_ref().map(|(task, _)| *task);
        match (name, task) {
            ("reset_counts", _) => self.count = 0,
            ("active", Some(task)) => {
                self.active = cx.names().parse(value).map_err(|_| "syntax error")?;
                if self.active {
                    cx.schedule(task);
                }
            }
            ("burst", Some(_)) => {
                let burst = cx.names().parse(value).ok().filter(|burst| *burst > 0);
                self.burst = burst.ok_or("‘burst’ takes an integer of 1 or more")?;
            }
            _ => return Err(HandlerError::Unknown),
        }
        Ok(())
    }
}

impl Element for Discard {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if !cx.input_is_push(0) {
            let task = cx.task();
            if self.active {
                cx.schedule(task);
            }
            self.pull = Some((task, cx.upstream_signal(0, Some(task))));
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.count += batch.len() as u64;
        cx.pool().recycle(batch);
        0
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        let Some((_, signal)) = &self.pull else {
            return Ran::Nothing;
        };
        if !self.active {
            return Ran::Nothing;
        }
        let mut left = self.burst as usize;
        let mut batch = cx.batch();
        while left > 0 {
            let most = left.min(packet::BATCH);
            cx.pull(0, &mut batch, most);
            let pulled = batch.len();
            self.count += pulled as u64;
            left -= pulled;
            cx.pool().recycle(&mut batch);
            if pulled < most {
                break;
            }
        }
        cx.done(batch);
        if left == 0 || cx.is_active(signal) {
            cx.schedule(task);
        }
        Ran::worked(left < self.burst as usize)
    }
}
