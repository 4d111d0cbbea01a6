use alloc::string::{String, ToString};
use alloc::vec::Vec;

use packet::Batch;
use router::args::{Any, Args, Failed};
use router::{
    Call, Class, Cx, Element, HandlerError, HandlerList, Notice, Ran, Search, Signal, SignalId,
    TaskId,
};

/// What packets hold if DATA is not given: 69 bytes.
pub(crate) const DATA: &[u8] =
    b"A packet of no particular content, but of sixty-four bytes or more....";

/// Makes packets of the same data as fast as it can.
///
/// # Arguments
/// - `DATA` (bytes): what each packet holds; 64 bytes or more if not given.
/// - `LIMIT` (integer, -1): packets after which it stops; no limit if negative.
/// - `BURST` (integer, 1): packets each time it is scheduled.
/// - `ACTIVE` (boolean, true): whether it makes packets.
/// - `TIMESTAMP` (boolean, true): whether packets carry the time they were made.
/// - `LENGTH` (integer): length of each packet, in bytes; DATA is cut or repeated to fit.
/// - `STOP` (boolean, false): stop the driver after LIMIT packets.
/// - `END_CALL` (handler call): called after LIMIT packets; not together with STOP.
///
/// # Ports
/// No input; one output, agnostic.
///
/// # Handlers
/// - `count` (read): packets made.
/// - `reset` (write): sets `count` to 0.
/// - `data`, `limit`, `burst`, `active`, `length` (read, write): the arguments.
/// - `scheduled`, `tickets`, `home_thread`: the task's; on a push output.
///
/// # Example
/// ```click
/// InfiniteSource(DATA \<0800>, LIMIT 100, STOP true) -> Queue -> Unqueue -> Discard;
/// ```
///
/// # See also
/// RatedSource, TimedSource
#[derive(Default)]
pub struct InfiniteSource {
    data: Vec<u8>,
    length: i32,
    limit: i64,
    burst: i32,
    active: bool,
    timestamp: bool,
    count: u64,
    /// Packets left of the burst under way.
    left: u64,
    template: Vec<u8>,
    end: String,
    end_call: Option<Call>,
    task: Option<TaskId>,
    nonfull: Signal,
    nonempty: Option<SignalId>,
}

impl Class for InfiniteSource {
    const NAME: &'static str = "InfiniteSource";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "a";
}

impl InfiniteSource {
    fn make_template(&mut self) {
        let data = if self.data.is_empty() {
            DATA
        } else {
            &self.data
        };
        self.template = match usize::try_from(self.length) {
            Ok(length) => data.iter().copied().cycle().take(length).collect(),
            Err(_) => self.data.clone(),
        };
    }

    /// Packets that the limit still allows.
    fn allowed(&self) -> u64 {
        match u64::try_from(self.limit) {
            Ok(limit) => limit.saturating_sub(self.count),
            Err(_) => u64::MAX,
        }
    }

    fn fill(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, most: usize) {
        let now = if self.timestamp { cx.wall() } else { 0 };
        let pool = cx.pool();
        for _ in 0..most {
            let Some(mut packet) = pool.copy(&self.template) else {
                break;
            };
            packet.set_timestamp(now);
            if batch.push(packet).is_err() {
                break;
            }
            self.count += 1;
        }
    }

    fn finished(&mut self, cx: &mut Cx<'_>) {
        if self.limit >= 0
            && self.allowed() == 0
            && let Some(call) = self.end_call.clone()
        {
            let _ = call.write(cx);
        }
    }
}

impl Element for InfiniteSource {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        (self.data, self.limit, self.burst, self.length) = (DATA.to_vec(), -1, 1, -1);
        (self.active, self.timestamp) = (true, true);
        let mut stop = false;
        args.positional("DATA", &mut self.data)
            .positional("LIMIT", &mut self.limit)
            .positional("BURST", &mut self.burst)
            .positional("ACTIVE", &mut self.active)
            .keyword("TIMESTAMP", &mut self.timestamp)
            .keyword("LENGTH", &mut self.length)
            .keyword("STOP", &mut stop)
            .keyword_with("END_CALL", Any, &mut self.end)
            .complete()?;
        if self.burst < 1 {
            return Err(args.fail("burst size must be >= 1"));
        }
        if stop && !self.end.is_empty() {
            return Err(args.fail("END_CALL and STOP are mutually exclusive"));
        }
        if stop {
            self.end = "stop".to_string();
        }
        self.make_template();
        self.nonempty.get_or_insert_with(|| cx.signal(true));
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
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

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
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
        self.fill(cx, &mut batch, most);
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

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        let most = (most as u64).min(self.allowed()) as usize;
        if self.active && most > 0 {
            return self.fill(cx, batch, most);
        }
        if self.active {
            self.finished(cx);
        }
        if let Some(signal) = self.nonempty {
            cx.set_signal(signal, false);
        }
    }

    fn notifier(&self, notice: Notice, _port: usize) -> Search {
        match (notice, self.nonempty) {
            (Notice::Empty, Some(signal)) => Search::Stop(signal),
            _ => Search::Pass,
        }
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("data")
            .read_write("limit")
            .read_write("burst");
        list.checkbox("active").read("count").button("reset");
        list.read_write("length");
        if self.task.is_some() {
            list.task(false);
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "data" => Ok(String::from_utf8_lossy(&self.data).into_owned()),
            "limit" => Ok(self.limit.to_string()),
            "burst" => Ok(self.burst.to_string()),
            "active" => Ok(self.active.to_string()),
            "count" => Ok(self.count.to_string()),
            "length" => Ok(self.length.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let names = cx.names();
        match name {
            "data" => self.data = value.as_bytes().to_vec(),
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
            "length" => {
                let length = names.parse(value);
                self.length = length.map_err(|_| "length must be integer")?;
            }
            _ => return Err(HandlerError::Unknown),
        }
        self.make_template();
        if self.active && self.allowed() > 0 {
            if let Some(task) = self.task {
                cx.schedule(task);
            } else if let Some(signal) = self.nonempty {
                cx.set_signal(signal, true);
            }
        }
        Ok(())
    }
}
