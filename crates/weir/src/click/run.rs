//! Running a router until it stops.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use router::{DriverPace, Router, Status, Steady};

use super::driver::Driver;
use super::store::{Connection, PAUSE};
use super::threads::RouterThreads;
use crate::host::{Events, Warp, chatter};

/// Tasks between two looks at the clock, but in Click's order of events.
const TASKS: usize = 128;
/// Rounds of tasks between two looks at descriptors while there is always something to do, as above.
const ROUNDS: u32 = 16;

/// How long a thread of several looks for work before it sleeps. To wake one takes about as long,
/// and threads that hand packets on to each other would sleep after each batch.
const POLL: Duration = Duration::from_micros(50);

/// Runs `router` until it stops or a signal asks it to. Routers that are to take its place do so.
/// If it is the first part of one that other threads have parts of, they go on for a while.
pub fn run(router: &mut Router, driver: &Arc<Driver>, threads: &RouterThreads) -> io::Result<()> {
    let mut events = Events::new(threads.waker())?;
    let requests = driver.store.as_ref();
    let mut store = requests.map(|requests| requests.carry_out(threads.waker()));
    run_with(router, driver, &mut events, store.as_mut(), || {
        driver.take_next()
    })
}

/// Runs a part of a router until that stops.
pub fn run_part(part: &mut Router, driver: &Arc<Driver>, mut events: Events) -> io::Result<()> {
    run_with(part, driver, &mut events, None, || None)
}

fn run_with(
    router: &mut Router,
    driver: &Arc<Driver>,
    events: &mut Events,
    mut store: Option<&mut Connection>,
    next: impl Fn() -> Option<Router>,
) -> io::Result<()> {
    let mut woken = Vec::new();
    let mut rounds = 0;
    let polls = driver.settings.threads > 1;
    // One packet at a time is Click's order of events.
    let stands = driver.clock.warp() == Warp::Simulation;
    let mut pace = (driver.settings.batch == 1).then(|| DriverPace::new(stands));
    let mut idle_since = None;
    loop {
        if events.take_end() {
            router.interrupt();
        }
        let status = match &mut pace {
            None => router.run(TASKS),
            Some(pace) => router.run_at(pace),
        };
        if let Some(next) = next() {
            Router::succeed(router, next);
            continue;
        }
        let mut store = store.as_deref_mut().filter(|store| store.is_used());
        if let Some(store) = &mut store
            && store.has_work()
        {
            store.turn(router);
            continue;
        }
        let wait = match status {
            Status::Stopped => return Ok(()),
            Status::Busy => {
                idle_since = None;
                rounds += 1;
                let turn = pace
                    .as_ref()
                    .map_or(rounds % ROUNDS == 0, DriverPace::descriptors);
                if !turn || router.watches().is_empty() && store.is_none() {
                    continue;
                }
                Some(0)
            }
            Status::Idle(_) if pace.as_ref().is_some_and(|pace| !pace.descriptors()) => continue,
            Status::Idle(_)
                if polls && idle_since.get_or_insert_with(Instant::now).elapsed() < POLL =>
            {
                thread::yield_now();
                continue;
            }
            Status::Idle(next) if router.arm() => until(driver, next),
            Status::Idle(_) => continue,
        };
        let awaited = store.as_ref().map(|store| store.awaits());
        let wait = match awaited {
            // The connection must be made again.
            Some(None) => Some(wait.unwrap_or(u64::MAX).min(PAUSE.as_nanos() as u64)),
            _ => wait,
        };
        events.watch_store(awaited.flatten());
        events.wait(router.watches(), wait, &mut woken)?;
        if let Some(store) = &mut store {
            store.turn(router);
        }
        idle_since = None;
        for ready in woken.drain(..) {
            // One that was ready may have been given up for another's sake meanwhile.
            let watched = router
                .watches()
                .iter()
                .any(|w| w.fd == ready.fd && w.element == ready.element);
            if watched {
                router.selected(ready.element, ready.fd, ready.readable, ready.writable);
            }
        }
    }
}

/// Nanoseconds to sleep until `next`; `None` for ever.
fn until(driver: &Driver, next: Option<Steady>) -> Option<u64> {
    // A timer that waits for an unwarped clock to come to it needs no time at all.
    next.map(|moment| driver.clock.until(moment).unwrap_or(0))
}

/// Ties this thread to a CPU, if one is given, and warns if that cannot be.
pub fn complain_of_pin(cpu: Option<usize>) {
    if let Some(Err(message)) = cpu.map(pin) {
        chatter(&format!("warning: {message}"));
    }
}

/// Ties this thread to a CPU.
fn pin(cpu: usize) -> Result<(), String> {
    let mut set = rustix::thread::CpuSet::new();
    if cpu < rustix::thread::CpuSet::MAX_CPU {
        set.set(cpu);
    }
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|error| format!("CPU {cpu}: {}", super::reason(&error.into())))
}

/// Time that a run took.
pub struct Spent {
    start: Instant,
    user: Duration,
    system: Duration,
}

/// Processor time of this process in user and system mode.
fn used() -> (Duration, Duration) {
    let duration = |time: nix::sys::time::TimeVal| {
        let micros = time.tv_sec() * 1_000_000 + time.tv_usec();
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    };
    match getrusage(UsageWho::RUSAGE_SELF) {
        Ok(usage) => (duration(usage.user_time()), duration(usage.system_time())),
        Err(_) => Default::default(),
    }
}

impl Spent {
    /// Starts now.
    pub fn start() -> Spent {
        let (user, system) = used();
        Spent {
            start: Instant::now(),
            user,
            system,
        }
    }

    /// As `1.234u 0.012s 0:01.30`: user and system time, minutes and seconds.
    pub fn report(&self) -> String {
        let (user, system) = used();
        let user = user.saturating_sub(self.user).as_secs_f64();
        let system = system.saturating_sub(self.system).as_secs_f64();
        let hundredths = (self.start.elapsed().as_secs_f64() * 100.0).round() as u64;
        let (minutes, seconds) = (hundredths / 6000, hundredths / 100 % 60);
        format!(
            "{user:.3}u {system:.3}s {minutes}:{seconds:02}.{:02}",
            hundredths % 100
        )
    }
}
