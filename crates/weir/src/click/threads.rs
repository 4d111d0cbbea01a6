//! The threads of a router: each runs its part, and sleeps in its own loop of events.

use std::io;
use std::os::fd::OwnedFd;
use std::process;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use router::{Member, Router, Waker};
use rustix::event::{EventfdFlags, eventfd};

use super::driver::Driver;
use super::run::{self, complain_of_pin};
use crate::host::{Events, Warp};

/// Wakes a thread by an eventfd that it sleeps on.
struct EventWaker(Arc<OwnedFd>);

impl Waker for EventWaker {
    fn wake(&self) {
        // It fails only after 2⁶⁴ writes without a read.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    fn pause(&self) {
        thread::yield_now();
    }
}

fn waker() -> io::Result<(Box<dyn Waker>, Arc<OwnedFd>)> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let descriptor = Arc::new(eventfd(0, flags)?);
    Ok((Box::new(EventWaker(Arc::clone(&descriptor))), descriptor))
}

/// Ends the program when its thread panics: the others would wait for it for ever.
struct Alive;

impl Drop for Alive {
    fn drop(&mut self) {
        if thread::panicking() {
            process::exit(101);
        }
    }
}

/// The threads beside the first that run parts of a router.
pub struct RouterThreads {
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// The eventfd that wakes the first thread.
    waker: Option<Arc<OwnedFd>>,
}

impl RouterThreads {
    /// Divides `router` among its threads, and starts all but the first. Thread `t` stays on CPU
    /// `affinity + t`, if that is given. In simulated time one thread does the work of all, so that
    /// events keep their order.
    pub fn start(
        router: &mut Router,
        driver: &Arc<Driver>,
        affinity: Option<usize>,
    ) -> io::Result<RouterThreads> {
        let count = driver.settings.threads;
        if count <= 1 || driver.clock.warp() == Warp::Simulation {
            let threads = Vec::new();
            return Ok(RouterThreads {
                threads,
                waker: None,
            });
        }
        let (first, mine) = waker()?;
        let mut members = Vec::new();
        let mut loops = Vec::new();
        for _ in 1..count {
            let (waker, descriptor) = waker()?;
            let runtime = driver.runtime();
            members.push(Member { runtime, waker });
            loops.push(Events::of_thread(descriptor)?);
        }
        let parts = router.divide(first, members);
        let mut threads = Vec::new();
        for (number, (part, events)) in parts.into_iter().zip(loops).enumerate() {
            let driver = Arc::clone(driver);
            let cpu = affinity.map(|first| first + number + 1);
            let builder = thread::Builder::new().name(format!("router-{}", number + 1));
            threads.push(builder.spawn(move || work(part, &driver, events, cpu))?);
        }
        Ok(RouterThreads {
            threads,
            waker: Some(mine),
        })
    }

    /// What wakes the first thread.
    pub fn waker(&self) -> Option<Arc<OwnedFd>> {
        self.waker.clone()
    }

    /// Stops the other threads, and makes the router one again.
    pub fn end(self, router: &mut Router) -> io::Result<()> {
        router.unite();
        let mut result = Ok(());
        for thread in self.threads {
            // One that panicked has ended the program.
            result = result.and(thread.join().unwrap_or(Ok(())));
        }
        result
    }
}

/// Runs a part of a router until that stops.
fn work(
    mut part: Router,
    driver: &Arc<Driver>,
    events: Events,
    cpu: Option<usize>,
) -> io::Result<()> {
    let _alive = Alive;
    complain_of_pin(cpu);
    let result = run::run_part(&mut part, driver, events);
    if result.is_err() {
        part.stop();
    }
    result
}
