//! The CPUs beside the first: parts of a router, each run in a loop of its own.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering};

use packet::Pool;
use router::{Member, Router, Runtime, Status, Waker};

use crate::router_application::{Surroundings, TASKS};
use crate::{Cpu, Platform};

/// How long a CPU looks for work before it sleeps, in nanoseconds. To wake one takes about as long,
/// and CPUs that hand packets on to each other would sleep after each batch.
const POLL: u64 = 50_000;
/// Pauses of a CPU that waits for others, before it lets the host's other work have its turn.
const PAUSES: u32 = 1 << 10;
/// How long it does so, in nanoseconds.
const NAP: u64 = 20_000;

/// Shares `router` out to all the guest's CPUs. The first keeps its part; the others start on theirs.
pub(crate) fn divide(
    platform: &'static Platform,
    router: &mut Router,
    pools: Vec<Pool>,
    surroundings: &Surroundings,
) {
    let others = || (1..platform.cpus()).map(|number| platform.cpu(number));
    let members = others().zip(pools).map(|(cpu, pool)| Member {
        runtime: Runtime::new(Box::new(surroundings.on(cpu)), pool),
        waker: waker(cpu),
    });
    let parts = router.divide(waker(platform.cpu(0)), members.collect());
    for (cpu, part) in others().zip(parts) {
        cpu.give(move |cpu| work(part, cpu));
    }
}

/// Runs a part of a router until that stops.
fn work(mut part: Router, cpu: Cpu) {
    let platform = cpu.platform();
    let mut patience = Patience::default();
    loop {
        cpu.beat();
        let status = part.run(TASKS);
        if platform.console().take_written() {
            platform.ring_control();
        }
        match status {
            Status::Busy => patience.renew(),
            Status::Idle(_) if patience.lasts(platform) => spin_loop(),
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

/// For how long a CPU with nothing to do has been looking for work.
#[derive(Default)]
pub(crate) struct Patience {
    since: Option<u64>,
}

impl Patience {
    /// There was something to do.
    pub(crate) fn renew(&mut self) {
        self.since = None;
    }

    /// There is nothing to do: whether to look again rather than sleep. After a sleep it begins anew.
    pub(crate) fn lasts(&mut self, platform: &Platform) -> bool {
        let now = platform.clock().now();
        let since = *self.since.get_or_insert(now);
        let lasts = now.saturating_sub(since) < POLL;
        if !lasts {
            self.since = None;
        }
        lasts
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
        // Whom it waits for has a watchdog, too.
        self.cpu.beat();
        if self.pauses.fetch_add(1, Ordering::Relaxed) % PAUSES == PAUSES - 1 {
            let wakes = self.cpu.wakes();
            let until = self.cpu.platform().clock().now() + NAP;
            self.cpu.sleep(wakes, Some(until));
        }
        spin_loop();
    }
}
