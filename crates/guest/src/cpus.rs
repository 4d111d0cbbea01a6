//! The guest's further CPUs: each runs a part of the router in its own loop.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering};

use packet::Pool;
use router::{Member, Router, Runtime, Status, Waker};

use crate::router_application::{GuestEmbedding, TASKS};
use crate::{Cpu, Platform, suspension};

/// How long a CPU polls for work before it sleeps, in nanoseconds. A wake-up takes about as long, and
/// CPUs that pass packets to each other would sleep after each batch.
const POLL: u64 = 50_000;
/// Pauses of a CPU that waits for others, before it yields to the host's other work.
const PAUSES: u32 = 1 << 10;
/// How long it yields, in nanoseconds.
const NAP: u64 = 20_000;

/// Divides `router` among the guest's CPUs. The first keeps its part; the others start on theirs.
pub(crate) fn divide(
    platform: &'static Platform,
    router: &mut Router,
    pools: Vec<Pool>,
    embedding: &GuestEmbedding,
) {
    let others = || (1..platform.cpus()).map(|number| platform.cpu(number));
    let members = others().zip(pools).map(|(cpu, pool)| Member {
        runtime: Runtime::new(Box::new(embedding.on(cpu)), pool),
        waker: waker(cpu),
    });
    let parts = router.divide(waker(platform.cpu(0)), members.collect());
    for (cpu, part) in others().zip(parts) {
        cpu.give(move |cpu| work(part, cpu));
    }
}

/// Runs a part of a router until it stops.
fn work(mut part: Router, cpu: Cpu) {
    let platform = cpu.platform();
    let mut polling = IdlePolling::default();
    loop {
        cpu.beat();
        let status = part.run(TASKS);
        if platform.console().take_written() {
            platform.ring_control();
        }
        match status {
            Status::Busy => polling.reset(),
            Status::Idle(_) if polling.continues(platform) => spin_loop(),
            Status::Idle(next) => {
                let seen = cpu.wakes();
                if part.arm() {
                    cpu.sleep(seen, next.map(|at| at.0));
                }
            }
            Status::Stopped => return,
        }
    }
}

/// How long a CPU without work has been polling.
#[derive(Default)]
pub(crate) struct IdlePolling {
    since: Option<u64>,
}

impl IdlePolling {
    /// Notes that there was work.
    pub(crate) fn reset(&mut self) {
        self.since = None;
    }

    /// Notes that there is no work: true to poll again, false to sleep. Polling restarts after a sleep.
    pub(crate) fn continues(&mut self, platform: &Platform) -> bool {
        let now = platform.clock().now();
        let since = *self.since.get_or_insert(now);
        let continues = now.saturating_sub(since) < POLL;
        if !continues {
            self.since = None;
        }
        continues
    }
}

/// Wakes a CPU that runs a part of a router.
struct CpuWaker {
    cpu: Cpu,
    pauses: AtomicU32,
}

fn waker(cpu: Cpu) -> Box<dyn Waker> {
    Box::new(CpuWaker {
        cpu,
        pauses: AtomicU32::new(0),
    })
}

impl Waker for CpuWaker {
    fn wake(&self) {
        self.cpu.wake();
    }

    fn pause(&self) {
        if suspension::is_wanted() && self.cpu.number() > 0 {
            return suspension::stand_by(self.cpu);
        }
        // The CPU that it waits for has a watchdog of its own.
        self.cpu.beat();
        if self.pauses.fetch_add(1, Ordering::Relaxed) % PAUSES == PAUSES - 1 {
            let wakes = self.cpu.wakes();
            let until = self.cpu.platform().clock().now() + NAP;
            self.cpu.sleep(wakes, Some(until));
        }
        spin_loop();
    }
}
