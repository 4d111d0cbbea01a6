//! Waiting for descriptors, signals and moments.

use std::io;
use std::io::Read;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use elements::standard::script::takes_signal;
use popol::interest::{NONE, READ, WRITE};
use popol::{Sources, Timeout};
use router::{ElementId, Watch};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The signals that end a run.
const ENDS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// A descriptor that became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken {
    /// The element that watches it.
    pub element: ElementId,
    /// The descriptor.
    pub fd: RawFd,
    /// There is something to read.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Signal,
    Waker,
    Timer,
    Store,
    Watched(ElementId, RawFd),
}

/// The events that a loop around a router waits for.
pub struct Events {
    /// Sources: our own and the `watches`.
    sources: Sources<Key>,
    watches: Vec<Watch>,
    /// The control store's socket, and whether it is to have room.
    store: Option<(RawFd, bool)>,
    ready: Vec<popol::Event<Key>>,
    timer: OwnedFd,
    /// Where signals arrive; `None` in a thread that leaves them to another.
    signal: Option<UnixStream>,
    /// Rung by other threads.
    waker: Option<Arc<OwnedFd>>,
    /// Which of the signals that end a run arrived.
    arrived: [Arc<AtomicBool>; ENDS.len()],
    /// The run is over: signals have their default action.
    over: Arc<AtomicBool>,
}

impl Events {
    /// Begins to take the signals that end a run, until the value is dropped. `waker` is an eventfd
    /// by which other threads wake this one.
    pub fn new(waker: Option<Arc<OwnedFd>>) -> io::Result<Events> {
        let (signal, other) = UnixStream::pair()?;
        signal.set_nonblocking(true)?;
        let mut events = Events::without_signals(waker)?;
        for (number, arrived) in ENDS.into_iter().zip(&events.arrived) {
            let (over, arrived) = (Arc::clone(&events.over), Arc::clone(arrived));
            signal_hook::flag::register_conditional_default(number, over)?;
            signal_hook::flag::register(number, arrived)?;
            signal_hook::low_level::pipe::register(number, other.try_clone()?)?;
        }
        events.sources.register(Key::Signal, &signal, READ);
        events.signal = Some(signal);
        Ok(events)
    }

    /// The events of a further thread of a router, which handles no signals.
    pub fn of_thread(waker: Arc<OwnedFd>) -> io::Result<Events> {
        Events::without_signals(Some(waker))
    }

    fn without_signals(waker: Option<Arc<OwnedFd>>) -> io::Result<Events> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let mut sources = Sources::new();
        sources.register(Key::Timer, &timer, READ);
        if let Some(waker) = &waker {
            sources.register(Key::Waker, &**waker, READ);
        }
        Ok(Events {
            sources,
            watches: Vec::new(),
            store: None,
            ready: Vec::new(),
            timer,
            signal: None,
            waker,
            arrived: Default::default(),
            over: Arc::default(),
        })
    }

    /// Whether a signal asked to end the run since this was asked last. One that a script takes
    /// does not.
    pub fn take_end(&self) -> bool {
        let arrived = ENDS.into_iter().zip(&self.arrived);
        let mut ends = arrived.filter(|(number, arrived)| {
            arrived.load(Ordering::Relaxed)
                && arrived.swap(false, Ordering::Relaxed)
                && !takes_signal(*number)
        });
        ends.next().is_some()
    }

    fn watch(&mut self, watches: &[Watch]) {
        if self.watches == watches {
            return;
        }
        for watch in &self.watches {
            self.sources
                .unregister(&Key::Watched(watch.element, watch.fd));
        }
        for watch in watches {
            let read = if watch.read { READ } else { NONE };
            let write = if watch.write { WRITE } else { NONE };
            let key = Key::Watched(watch.element, watch.fd);
            self.sources.register(key, &watch.fd, read | write);
        }
        self.watches = watches.to_vec();
    }

    /// Makes [`wait`](Self::wait) return when the control store's socket is readable, and also when
    /// it is writable if the flag is set.
    pub fn watch_store(&mut self, store: Option<(RawFd, bool)>) {
        if self.store == store {
            return;
        }
        self.sources.unregister(&Key::Store);
        if let Some((fd, writes)) = store {
            let write = if writes { WRITE } else { NONE };
            self.sources.register(Key::Store, &fd, READ | write);
        }
        self.store = store;
    }

    /// Sleeps until one of `watches` is ready, a signal comes, or `nanoseconds` are over; with
    /// `None`, without a time limit. Adds the ready watches to `woken`.
    pub fn wait(
        &mut self,
        watches: &[Watch],
        nanoseconds: Option<u64>,
        woken: &mut Vec<Woken>,
    ) -> io::Result<()> {
        self.watch(watches);
        let timeout = match nanoseconds {
            Some(0) => Timeout::After(Duration::ZERO),
            _ => Timeout::Never,
        };
        if nanoseconds != Some(0) {
            self.set_timer(nanoseconds)?;
        }
        match self.sources.poll(&mut self.ready, timeout) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            other => {
                other?;
            }
        }
        for event in self.ready.drain(..) {
            match event.key {
                Key::Signal => {
                    if let Some(mut signal) = self.signal.as_ref() {
                        let _ = signal.read(&mut [0; 64]);
                    }
                }
                Key::Waker => {
                    if let Some(waker) = &self.waker {
                        let _ = rustix::io::read(&**waker, &mut [0; 8]);
                    }
                }
                Key::Timer | Key::Store => {}
                Key::Watched(element, fd) => {
                    let events = event.source.raw_events();
                    woken.push(Woken {
                        element,
                        fd,
                        readable: events & !WRITE != 0,
                        writable: events & !READ != 0,
                    });
                }
            }
        }
        Ok(())
    }

    fn set_timer(&self, nanoseconds: Option<u64>) -> io::Result<()> {
        let after = nanoseconds.unwrap_or(0);
        let value = Timespec {
            tv_sec: i64::try_from(after / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (after % 1_000_000_000) as i64,
        };
        let never = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let timer = Itimerspec {
            it_interval: never,
            it_value: value,
        };
        // Setting it also takes back an expiry that was not read. All zero: it does not expire.
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer)?;
        Ok(())
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
