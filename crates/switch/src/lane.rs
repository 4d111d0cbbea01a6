//! A lane: a thread on a CPU with its worker, what it counts, and how it is given orders.
//!
//! Orders are what the control thread has a worker do: they come by a channel, and the worker looks
//! for them when its bell was rung, between two rounds, or two batches of a round that takes long
//! already. So a busy lane takes no lock.

use std::io::Write;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::CpuSet;
use serde::{Deserialize, Serialize};

use crate::crossing::Bell;
use crate::lookup::PortIndex;
use crate::sys;
use crate::worker::{PORTS_MAX, Parts, Worker};

/// A lane's place among those of its switch.
pub type LaneIndex = u8;
/// Most lanes of a switch.
pub const LANES_MAX: usize = 16;

/// Why a lane could not be started.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LaneError {
    /// There cannot be so many, or so few.
    #[error("a switch has 1 to {LANES_MAX} lanes, not {0}")]
    Number(usize),
    /// Its CPU is not there, or not ours.
    #[error("no lane can run on CPU {cpu}: {source}")]
    Cpu {
        /// The CPU.
        cpu: usize,
        /// Why not.
        source: Errno,
    },
    /// The kernel refused.
    #[error("cannot start a lane: {0}")]
    System(#[from] Errno),
}

/// What lanes say of ports to whoever asks.
pub(crate) struct Board {
    closed: Box<[AtomicBool]>,
}

impl Board {
    pub fn new() -> Board {
        Board {
            closed: (0..PORTS_MAX).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// A port was closed.
    pub fn close(&self, place: PortIndex) {
        self.set(place, true);
    }

    /// Another port stands here.
    pub fn reopen(&self, place: PortIndex) {
        self.set(place, false);
    }

    fn set(&self, place: PortIndex, closed: bool) {
        if let Some(state) = self.closed.get(usize::from(place)) {
            state.store(closed, Ordering::Relaxed);
        }
    }

    /// Whether the port was closed.
    pub fn is_closed(&self, place: PortIndex) -> bool {
        let state = self.closed.get(usize::from(place));
        state.is_some_and(|state| state.load(Ordering::Relaxed))
    }
}

/// What a lane has done since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneStats {
    /// Which lane.
    pub lane: LaneIndex,
    /// The CPU that it runs on, if it is bound to one.
    pub cpu: Option<usize>,
    /// Queues that it serves.
    pub queues: u32,
    /// Frames that it picked up.
    pub frames: u64,
    /// Of these, those picked up while their queue was polled.
    pub by_poll: u64,
    /// Of these, those picked up first thing after a wake-up.
    pub by_wakeup: u64,
    /// Chains of fewer than 10 frames picked up at once.
    pub chains_under_10: u64,
    /// Chains of 10 to 50 frames.
    pub chains_10_to_50: u64,
    /// Chains of more than 50 frames.
    pub chains_over_50: u64,
    /// Rounds over the busy queues.
    pub polls: u64,
    /// Times that it slept until something woke it.
    pub wakeups: u64,
    /// Frames that came from other lanes.
    pub crossings: u64,
    /// Frames from other lanes whose port was gone or had moved meanwhile.
    pub crossing_drops: u64,
    /// Times that a queue was left alone because a crossing was full.
    pub held_back: u64,
    /// Nanoseconds of rounds that moved frames.
    pub busy: u64,
    /// Nanoseconds of rounds that found none.
    pub idle: u64,
    /// Nanoseconds asleep.
    pub asleep: u64,
}

/// Where a lane counts. It is the only writer.
#[derive(Default)]
pub(crate) struct Meter {
    by_poll: AtomicU64,
    by_wakeup: AtomicU64,
    chains: [AtomicU64; 3],
    polls: AtomicU64,
    wakeups: AtomicU64,
    crossings: AtomicU64,
    lost: AtomicU64,
    held_back: AtomicU64,
    busy: AtomicU64,
    idle: AtomicU64,
    asleep: AtomicU64,
}

#[inline]
fn add(counter: &AtomicU64, n: u64) {
    let now = counter.load(Ordering::Relaxed);
    counter.store(now.wrapping_add(n), Ordering::Relaxed);
}

impl Meter {
    /// A round is over that took `time` and moved frames or not.
    #[inline]
    pub fn round(&self, time: Duration, moved: bool) {
        add(&self.polls, 1);
        let nanoseconds = u64::from(time.subsec_nanos()) + time.as_secs() * 1_000_000_000;
        add(if moved { &self.busy } else { &self.idle }, nanoseconds);
    }

    /// The lane slept, or might have.
    pub fn slept(&self, time: Duration, soundly: bool) {
        add(&self.asleep, time.as_nanos() as u64);
        add(&self.wakeups, soundly.into());
    }

    /// So many frames were picked up from a queue at once.
    #[inline]
    pub fn chain(&self, frames: usize, by_wakeup: bool) {
        let by = match by_wakeup {
            true => &self.by_wakeup,
            false => &self.by_poll,
        };
        add(by, frames as u64);
        let class = match frames {
            0..10 => 0,
            10..=50 => 1,
            _ => 2,
        };
        add(&self.chains[class], 1);
    }

    /// A queue was left alone since a crossing is full.
    pub fn held_back(&self) {
        add(&self.held_back, 1);
    }

    /// Frames came by a crossing.
    pub fn arrived(&self, frames: usize) {
        add(&self.crossings, frames as u64);
    }

    /// Frames that came by a crossing had nowhere to go.
    pub fn lost(&self, frames: usize) {
        add(&self.lost, frames as u64);
    }

    fn read(&self, lane: &Lane) -> LaneStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (by_poll, by_wakeup) = (get(&self.by_poll), get(&self.by_wakeup));
        LaneStats {
            lane: lane.index,
            cpu: lane.cpu,
            queues: lane.queues,
            frames: by_poll + by_wakeup,
            by_poll,
            by_wakeup,
            chains_under_10: get(&self.chains[0]),
            chains_10_to_50: get(&self.chains[1]),
            chains_over_50: get(&self.chains[2]),
            polls: get(&self.polls),
            wakeups: get(&self.wakeups),
            crossings: get(&self.crossings),
            crossing_drops: get(&self.lost),
            held_back: get(&self.held_back),
            busy: get(&self.busy),
            idle: get(&self.idle),
            asleep: get(&self.asleep),
        }
    }
}

/// The shortest time over which a lane's load is reckoned.
const LOAD_OVER: Duration = Duration::from_millis(50);

/// How busy a lane was when it was last looked at.
struct Load {
    since: Instant,
    /// Nanoseconds that it had been busy since it began.
    busy: u64,
    /// For how many eighths of the time before.
    eighths: u32,
}

impl Load {
    /// A lane that begins now.
    fn new(now: Instant) -> Load {
        Load {
            since: now,
            busy: 0,
            eighths: 0,
        }
    }

    /// The eighths now, where the lane has been busy for so many nanoseconds since it began.
    fn look(&mut self, now: Instant, busy: u64) -> u32 {
        let time = now.saturating_duration_since(self.since);
        if time >= LOAD_OVER {
            let busier = u128::from(busy.wrapping_sub(self.busy));
            *self = Load {
                since: now,
                busy,
                eighths: (busier * 8 / time.as_nanos()).min(8) as u32,
            };
        }
        self.eighths
    }
}

/// What the control thread has a worker do.
type Order = Box<dyn FnOnce(&mut Worker) + Send>;

/// A lane, as the control thread holds it. Dropping it ends the lane.
pub(crate) struct Lane {
    index: LaneIndex,
    pub cpu: Option<usize>,
    /// Queues that it serves.
    pub queues: u32,
    load: Load,
    orders: Option<Sender<Order>>,
    bell: Arc<Bell>,
    meter: Arc<Meter>,
    thread: Option<JoinHandle<()>>,
}

impl Lane {
    /// Starts a lane. When this returns, its thread has made all the system calls that only a
    /// beginning thread makes.
    pub fn start(parts: Parts, cpu: Option<usize>) -> Result<Lane, LaneError> {
        let (index, bell) = (parts.lane, Arc::clone(&parts.bell));
        let meter = Arc::clone(&parts.meter);
        let (orders, receive) = channel();
        let (ready, is_ready) = channel();
        let thread = std::thread::Builder::new()
            .name(format!("weir-lane{index}"))
            .spawn(move || {
                let worker = begin(parts, cpu);
                let begun = worker.as_ref().map(drop).map_err(LaneError::clone);
                let told = ready.send(begun);
                drop(ready);
                if let (Ok(worker), Ok(())) = (worker, told) {
                    run(worker, receive);
                }
            })
            .map_err(|_| Errno::AGAIN)?;
        is_ready.recv().unwrap_or(Err(Errno::IO.into()))?;
        Ok(Lane {
            index,
            cpu,
            queues: 0,
            load: Load::new(Instant::now()),
            orders: Some(orders),
            bell,
            meter,
            thread: Some(thread),
        })
    }

    /// Has the worker do something, and goes on meanwhile. What it returns can be had from the
    /// receiver.
    pub fn order<R: Send + 'static>(
        &self,
        order: impl FnOnce(&mut Worker) -> R + Send + 'static,
    ) -> Receiver<R> {
        let (send, receive) = channel();
        self.tell(move |worker| {
            // Whoever asked may not want to know.
            let _ = send.send(order(worker));
        });
        receive
    }

    /// Has the worker do something. Whatever it is told later, it does later.
    pub fn tell(&self, order: impl FnOnce(&mut Worker) + Send + 'static) {
        if let Some(orders) = &self.orders {
            let _ = orders.send(Box::new(order) as Order);
        }
        self.bell.order();
    }

    /// Has the worker do something and waits for what it returns.
    pub fn ask<R: Send + 'static>(
        &self,
        order: impl FnOnce(&mut Worker) -> R + Send + 'static,
    ) -> R {
        answer(self.order(order))
    }

    /// For how many eighths of the time it was busy of late.
    pub fn load(&mut self) -> u32 {
        let busy = self.meter.busy.load(Ordering::Relaxed);
        self.load.look(Instant::now(), busy)
    }

    /// What it has done since it began.
    pub fn stats(&self) -> LaneStats {
        self.meter.read(self)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.orders = None;
        self.bell.order();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a worker returned.
pub(crate) fn answer<R>(from: Receiver<R>) -> R {
    from.recv()
        .expect("a lane whose thread ends takes the process with it")
}

/// Sets up a lane's thread.
fn begin(parts: Parts, cpu: Option<usize>) -> Result<Worker, LaneError> {
    if let Some(cpu) = cpu {
        let failed = |source| LaneError::Cpu { cpu, source };
        if cpu >= CpuSet::MAX_CPU {
            return Err(failed(Errno::INVAL));
        }
        let mut cpus = CpuSet::new();
        cpus.set(cpu);
        rustix::thread::sched_setaffinity(None, &cpus).map_err(failed)?;
    }
    // What is due at a time is due then, not up to 50 µs later as the kernel's default has it.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    Ok(Worker::new(parts)?)
}

/// A lane's life: until there is nobody to give orders any more.
fn run(mut worker: Worker, orders: Receiver<Order>) {
    use std::sync::mpsc::TryRecvError;
    let _guard = EndsProcess;
    loop {
        if let Err(error) = worker.run() {
            let _ = writeln!(std::io::stderr(), "switch: a lane cannot go on: {error}");
            sys::process::exit(1);
        }
        loop {
            match orders.try_recv() {
                Ok(order) => order(&mut worker),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
    }
}

/// Ends the process if its thread panics: a switch without one of its lanes is worse than none,
/// since nobody would notice.
struct EndsProcess;

impl Drop for EndsProcess {
    fn drop(&mut self) {
        if std::thread::panicking() {
            sys::process::exit(101);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lanes_load_is_that_of_late() {
        let mut now = Instant::now();
        let mut load = Load::new(now);
        let millisecond = 1_000_000;
        assert_eq!(load.look(now, 0), 0);
        now += Duration::from_millis(100);
        assert_eq!(load.look(now, 50 * millisecond), 4);
        // Too soon after the last look to be told from chance.
        now += Duration::from_millis(10);
        assert_eq!(load.look(now, 60 * millisecond), 4);
        now += Duration::from_millis(190);
        assert_eq!(load.look(now, 60 * millisecond), 0);
        now += Duration::from_millis(100);
        assert_eq!(load.look(now, 160 * millisecond), 8);
    }
}
