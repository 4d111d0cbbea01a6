//! A lane: a thread on a CPU with its worker, as the control thread holds it.
//!
//! The control thread sends *jobs* to a worker by a channel. The worker looks for them when it is
//! woken, between two rounds, and between two batches of a long round; the next round then begins
//! with the queues that were not served. So a busy lane takes no lock, and waits neither for
//! another lane nor for the control thread.

use std::io::Write;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::CpuSet;

use crate::counters::LaneCounters;
use crate::handoff::LaneWaker;
use crate::sys;
use crate::worker::{Parts, Worker};

pub use crate::counters::LaneStats;
pub use crate::ids::{LANES_MAX, LaneIndex};

/// Why a lane could not be started.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LaneError {
    /// Too many, or none.
    #[error("a switch has 1 to {LANES_MAX} lanes, not {0}")]
    Number(usize),
    /// Its CPU does not exist, or must not be used.
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

/// The shortest time over which a lane's load is measured.
const LOAD_OVER: Duration = Duration::from_millis(50);

/// How busy a lane was when that was last looked at.
struct Load {
    since: Instant,
    /// Nanoseconds that it had been busy since it began.
    busy: u64,
    /// Eighths of the time before.
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

/// A closure that the control thread sends to a worker.
type Job = Box<dyn FnOnce(&mut Worker) + Send>;

/// A lane, as the control thread holds it. Dropping it ends the lane.
pub(crate) struct Lane {
    index: LaneIndex,
    pub cpu: Option<usize>,
    /// Queues that it serves.
    pub queues: u32,
    load: Load,
    jobs: Option<Sender<Job>>,
    waker: Arc<LaneWaker>,
    counters: Arc<LaneCounters>,
    thread: Option<JoinHandle<()>>,
}

impl Lane {
    /// Starts a lane. When this returns, its thread has made all the system calls that only a
    /// beginning thread makes.
    pub fn start(parts: Parts, cpu: Option<usize>) -> Result<Lane, LaneError> {
        let (index, waker) = (parts.lane, Arc::clone(&parts.waker));
        let counters = Arc::clone(&parts.counters);
        let (jobs, receive) = channel();
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
            jobs: Some(jobs),
            waker,
            counters,
            thread: Some(thread),
        })
    }

    /// Sends the worker a job. Its result comes by the receiver.
    pub fn submit<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Worker) -> R + Send + 'static,
    ) -> Receiver<R> {
        let (send, receive) = channel();
        self.post(move |worker| {
            // The receiver may be gone.
            let _ = send.send(job(worker));
        });
        receive
    }

    /// Sends the worker a job without a result. The worker does jobs in their order.
    pub fn post(&self, job: impl FnOnce(&mut Worker) + Send + 'static) {
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(Box::new(job) as Job);
        }
        self.waker.wake_for_job();
    }

    /// Sends the worker a job, and waits for its result.
    pub fn call<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Worker) -> R + Send + 'static,
    ) -> R {
        result(self.submit(job))
    }

    /// For how many eighths of the time it was busy lately.
    pub fn load(&mut self) -> u32 {
        self.load.look(Instant::now(), self.counters.busy())
    }

    /// Its statistics since it began.
    pub fn stats(&self) -> LaneStats {
        self.counters.read(self.index, self.cpu, self.queues)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.jobs = None;
        self.waker.wake_for_job();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The result of a job.
pub(crate) fn result<R>(from: Receiver<R>) -> R {
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
    // Timers fire at their time, not up to 50 µs later as by the kernel's default.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    Ok(Worker::new(parts)?)
}

/// Runs a lane until the control thread has dropped it.
fn run(mut worker: Worker, jobs: Receiver<Job>) {
    use std::sync::mpsc::TryRecvError;
    let _guard = EndsProcess;
    loop {
        if let Err(error) = worker.run() {
            let _ = writeln!(std::io::stderr(), "switch: a lane stopped: {error}");
            sys::process::exit(1);
        }
        loop {
            match jobs.try_recv() {
                Ok(job) => job(&mut worker),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
    }
}

/// Ends the process if its thread panics: a switch that lacks a lane would not be noticed.
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
    fn a_lanes_load_is_that_of_the_last_moments() {
        let mut now = Instant::now();
        let mut load = Load::new(now);
        let millisecond = 1_000_000;
        assert_eq!(load.look(now, 0), 0);
        now += Duration::from_millis(100);
        assert_eq!(load.look(now, 50 * millisecond), 4);
        // Too soon after the last look to be measured.
        now += Duration::from_millis(10);
        assert_eq!(load.look(now, 60 * millisecond), 4);
        now += Duration::from_millis(190);
        assert_eq!(load.look(now, 60 * millisecond), 0);
        now += Duration::from_millis(100);
        assert_eq!(load.look(now, 160 * millisecond), 8);
    }
}
