//! The common parts of sources: the data of their packets; and bursts, limit and end of sources
//! that make packets as fast as they can.

use router::Queues;

use super::limit::Limit;
use crate::prelude::*;

/// What packets hold if DATA is not given: the 69 bytes that Click's sources send, which existing
/// configurations and their tests count on.
pub(super) const DATA: &[u8] =
    b"Random bullshit in a packet, at least 64 bytes long. Well, now it is.";

/// The INTERVAL of a timed source or sink, if not given.
pub(super) const HALF_A_SECOND: Timestamp = Timestamp(500_000_000);

/// An INTERVAL as its handler shows it.
pub(super) fn show_interval(interval: &Timestamp) -> String {
    unparse::interval(*interval)
}

/// Longest packet that LENGTH may ask for: as long as an IP packet can be.
const LENGTH_MAX: i32 = 65535;

/// The data of a source's packets. The element has handlers that write it.
#[derive(Component)]
pub struct SourceData {
    /// The data of each packet; 64 bytes or more if not given.
    #[arg(positional, default = DATA.to_vec(), kind = "bytes", read = click::text::decode, calm)]
    pub data: Vec<u8>,
    /// Length of each packet, in bytes, 65535 at most; DATA is cut or repeated to fit. The length
    /// of DATA if negative.
    #[arg(default = -1, read)]
    pub length: i32,
}

impl SourceData {
    /// Sets the length.
    pub fn set_length(&mut self, length: i32) -> Result<(), &'static str> {
        if length > LENGTH_MAX {
            return Err("length must be at most 65535");
        }
        self.length = length;
        Ok(())
    }

    /// Checks what was configured.
    pub fn check(&mut self, args: &Args<'_>) -> Result<(), Failed> {
        self.set_length(self.length).map_err(|e| args.fail(e))
    }

    /// What a packet holds.
    pub fn bytes(&self) -> Vec<u8> {
        let content = if self.data.is_empty() {
            DATA
        } else {
            &self.data
        };
        match usize::try_from(self.length) {
            Ok(length) => content.iter().copied().cycle().take(length).collect(),
            Err(_) => self.data.clone(),
        }
    }
}

/// When a source makes packets.
#[derive(Component)]
#[component(handlers, task(when = list.pushes))]
pub struct SourcePace {
    /// Packets after which it stops; no limit if negative.
    #[arg(positional, default_text = "-1", read, write, calm, then = wake,
        error = "limit parameter must be integer")]
    limit: Limit,
    /// Packets each time it is scheduled.
    #[arg(positional, default = 1, read, calm)]
    pub burst: i32,
    /// Whether it makes packets.
    #[arg(positional, default = true, read, write, checkbox, then = wake,
        error = "active parameter must be boolean")]
    active: bool,
    /// Whether packets carry the time they were made.
    #[arg(default = true)]
    timestamp: bool,
    /// Stop the driver after LIMIT packets.
    #[arg]
    stop: bool,
    /// A handler that is written after LIMIT packets; not together with STOP.
    #[arg(with = Any, kind = "handler call")]
    end_call: String,
    /// Packets made.
    #[handler(read)]
    count: u64,
    end: Option<Call>,
    /// Whether the limit was reached just now.
    ended: bool,
    /// Packets left of the burst under way.
    left: u64,
    task: Option<TaskId>,
    queues: Queues,
    /// Whether it said that it will soon come to the limit, and call what it is to.
    is_near_end: bool,
    nonfull: Signal,
    nonempty: Option<SignalId>,
}

/// Packets before the end of which all tasks take their turns one by one: more than any takes at once.
const SOON: u64 = 4 * BATCH as u64;

/// Bytes of data in the packets that are made together: they stay in a processor's first cache until they are dealt with.
const NEAR: usize = 24 << 10;

#[handlers]
impl SourcePace {
    /// The argument BURST.
    #[write]
    pub fn write_burst(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), &'static str> {
        let burst = cx.names().parse(value).ok().filter(|burst| *burst >= 1);
        self.burst = burst.ok_or("burstsize parameter must be integer >= 1")?;
        self.wake(cx);
        Ok(())
    }

    /// Sets `count` to 0.
    #[write(button)]
    fn reset(&mut self, cx: &mut Cx<'_>) {
        self.count = 0;
        self.wake(cx);
    }
}

impl SourcePace {
    /// Checks what was configured.
    pub fn configured(&mut self, cx: &mut Cx<'_>, args: &Args<'_>) -> Result<(), Failed> {
        Call::check_element(cx, args, "END_CALL", &self.end_call)?;
        if self.burst < 1 {
            return Err(args.fail("burst size must be >= 1"));
        }
        if self.stop && !self.end_call.is_empty() {
            return Err(args.fail("END_CALL and STOP are mutually exclusive"));
        }
        (self.count, self.left) = (0, 0);
        if self.nonempty.is_none() {
            self.nonempty = Some(cx.signal(Notice::Empty, true));
        } else {
            // The router runs.
            self.find_end(cx).map_err(|error| args.fail(error))?;
        }
        Ok(())
    }

    pub fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if cx.output_is_push(0) {
            let task = cx.task();
            self.task = Some(task);
            self.nonfull = cx.downstream_signal(0, Some(task));
            self.queues = cx.queues_behind(0);
            cx.schedule(task);
        }
        self.find_end(cx).map_err(|error| cx.error(error))
    }

    /// Finds the handler that STOP or END_CALL names.
    fn find_end(&mut self, cx: &Cx<'_>) -> Result<(), String> {
        let end = if self.stop { "stop" } else { &self.end_call };
        self.end = match end {
            "" => None,
            end => Some(Call::to_write(cx, end)?),
        };
        Ok(())
    }

    /// Packets that the limit still allows.
    fn allowed(&self) -> u64 {
        self.limit.left(self.count)
    }

    /// Says whether the source will soon come to its limit, if it is to call something then.
    #[inline]
    fn note_end(&mut self, cx: &mut Cx<'_>) {
        let is_near = self.end.is_some() && self.active && (1..=SOON).contains(&self.allowed());
        if is_near != self.is_near_end {
            self.is_near_end = is_near;
            cx.interrupts_soon(is_near);
        }
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

    /// What the element is to call, if the source came to its limit just now.
    #[inline]
    pub fn take_end(&mut self) -> Option<Call> {
        if self.ended { self.end() } else { None }
    }

    #[cold]
    fn end(&mut self) -> Option<Call> {
        self.ended = false;
        self.end.clone()
    }

    /// Runs the source's task. `make` adds at most so many packets, each of so many `bytes`, with a timestamp to a
    /// batch, and says how many.
    pub fn run_task(
        &mut self,
        cx: &mut Cx<'_>,
        task: TaskId,
        bytes: usize,
        make: impl FnOnce(&mut Cx<'_>, &mut Batch, usize, i64) -> usize,
    ) -> Ran {
        if self.left == 0 {
            self.note_end(cx);
            if !self.active || !cx.is_active(&self.nonfull) {
                return Ran::Nothing;
            }
            let burst = self.burst as u64;
            let turns = match self.nonfull.is_busy() || !self.queues.is_empty() {
                true => cx.turns(burst, &self.queues),
                // What tells that it is full tells it between turns.
                false => 1,
            };
            cx.charge_turns(turns);
            self.left = burst.saturating_mul(turns).min(self.allowed());
            if self.left == 0 {
                self.ended = self.allowed() == 0;
                return Ran::Nothing;
            }
        }
        let mut most = self.left.min(cx.limit() as u64) as usize;
        if most * bytes > NEAR {
            most = (NEAR / bytes).max(1);
        }
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
        self.ended = self.active && self.allowed() == 0;
        if let Some(signal) = self.nonempty {
            cx.set_signal(signal, false);
        }
    }

    /// Continues if there is something to make.
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
