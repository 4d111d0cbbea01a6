//! Sleeping until a socket of an NSM, or a descriptor of the kernel, is ready.
//!
//! CoreEngine writes to one eventfd for the whole process, so one sleeping thread, the leader, waits on it; each
//! other sleeps on an eventfd of its own. A thread that dispatches an event wakes the threads that
//! registered for the socket. A leader that wakes has another sleeper take over the waker.
//!
//! No wake-up is lost: a thread first says that it sleeps, then registers, then checks its sockets; a
//! dispatcher first changes the socket's cell, then looks for registered threads.

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use crate::cell::flag;
use crate::hangup;
use crate::lock;
use crate::process::{self, Shared};
use crate::queues;
use crate::restart;
use crate::stack::Stack;
use crate::sys::{self, Errno, Result};
use crate::table::{self, Entry};

/// Most threads of a process that sleep for sockets at a time.
const SLEEPERS: usize = 1024;
/// How long a thread sleeps that can't be woken for all that it waits for.
const GLANCE_NS: u64 = 1_000_000;
/// How long a thread sleeps that is not told of the end of CoreEngine.
const UNWATCHED_NS: u64 = 100_000_000;

mod sleep {
    pub const AWAKE: u32 = 0;
    /// On its own eventfd.
    pub const FOLLOWS: u32 = 1;
    /// On the waker.
    pub const LEADS: u32 = 2;
}

struct Sleeper {
    state: AtomicU32,
    /// The thread that sleeps, or slept last.
    thread: AtomicU32,
    /// An eventfd plus one; 0: none was needed yet.
    eventfd: AtomicI32,
}

static SLEEPER: [Sleeper; SLEEPERS] = [const {
    Sleeper {
        state: AtomicU32::new(0),
        thread: AtomicU32::new(0),
        eventfd: AtomicI32::new(0),
    }
}; SLEEPERS];
static FREE: Stack = Stack::new();
static LINKS: [AtomicU32; SLEEPERS] = [const { AtomicU32::new(0) }; SLEEPERS];
/// The leader's number, plus one.
static LEADER: AtomicU32 = AtomicU32::new(0);
/// Threads between saying that they sleep and waking.
static ASLEEP: AtomicU32 = AtomicU32::new(0);

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woke {
    /// What was waited for may have come.
    Ready,
    /// A kernel descriptor is ready: see the `revents`.
    Kernel,
    Timeout,
}

/// What a thread sleeps for besides its sockets.
pub struct Terms<'a> {
    pub deadline: Option<u64>,
    pub mask: Option<*const libc::sigset_t>,
    /// Kernel descriptors, with one more in the end for the library.
    pub fds: &'a mut [libc::pollfd],
    /// Sleep in a way that a signal handler installed with SA_RESTART does not end.
    pub restarts: bool,
    /// A wake-up may be missing: look again soon.
    pub glances: bool,
}

/// Sleeps once, unless `ready` says that there is no need. `register` is passed this thread's bit for
/// the masks of waiters of all that it waits for.
pub fn sleep(
    shared: &Shared,
    set: usize,
    terms: Terms<'_>,
    register: impl Fn(u64),
    mut ready: impl FnMut() -> bool,
) -> Result<Woke> {
    let Some(me) = FREE.pop(&LINKS) else {
        // More threads than that sleep by looking again.
        let _ = sys::ppoll(&mut [], Some(sys::now() + GLANCE_NS), None);
        return Ok(Woke::Ready);
    };
    let sleeper = &SLEEPER[me as usize];
    ASLEEP.fetch_add(1, Ordering::SeqCst);
    let thread = lock::tid();
    sleeper.thread.store(thread, Ordering::SeqCst);
    let leads = LEADER
        .compare_exchange(0, me + 1, Ordering::SeqCst, Ordering::SeqCst)
        .is_ok();
    // A signal handler has interrupted the leader: this thread is the one that can wait on the waker.
    let inherits = !leads && leader_is(thread);
    let fd = if leads || inherits {
        Ok(process::waker())
    } else {
        eventfd(sleeper)
    };
    let woke = fd.and_then(|fd| {
        let state = match leads || inherits {
            true => sleep::LEADS,
            false => sleep::FOLLOWS,
        };
        sleeper.state.store(state, Ordering::SeqCst);
        register(1 << (me % 64));
        queues::set_sleeps(shared, set);
        queues::flush(shared, set);
        let unled = !leads && LEADER.load(Ordering::SeqCst) == 0;
        let ended = hangup::has_ended() && !restart::is_down();
        if unled || ended || queues::pending(shared, set) || ready() {
            return Ok(Woke::Ready);
        }
        in_kernel(fd, terms)
    });
    sleeper.state.store(sleep::AWAKE, Ordering::SeqCst);
    if leads && !hangup::is_watched() {
        restart::check(shared, set);
    }
    ASLEEP.fetch_sub(1, Ordering::SeqCst);
    if leads {
        LEADER.store(0, Ordering::SeqCst);
    }
    if inherits {
        // What rang may have been for what the interrupted leader waits for.
        sys::write_eventfd(process::waker());
    }
    // A thread that was to take over the waker and need not wait any more has another do so.
    if LEADER.load(Ordering::SeqCst) == 0 && ASLEEP.load(Ordering::SeqCst) > 0 {
        wake_one();
    }
    FREE.push(&LINKS, me);
    woke
}

/// Whether a thread leads.
fn leader_is(thread: u32) -> bool {
    let leader = LEADER.load(Ordering::SeqCst).checked_sub(1);
    let leader = leader.and_then(|leader| SLEEPER.get(leader as usize));
    leader.is_some_and(|leader| leader.thread.load(Ordering::SeqCst) == thread)
}

fn in_kernel(fd: c_int, terms: Terms<'_>) -> Result<Woke> {
    let (last, fds) = terms.fds.split_last_mut().ok_or(Errno(libc::EINVAL))?;
    let n = fds.len();
    let pause = match restart::pause() {
        _ if terms.glances => Some(GLANCE_NS),
        None if !hangup::is_watched() => Some(UNWATCHED_NS),
        pause => pause,
    };
    let glance = pause.is_some();
    if n == 0 && terms.deadline.is_none() && terms.mask.is_none() && terms.restarts && !glance {
        return sys::read_eventfd(fd).map(|()| Woke::Ready);
    }
    *last = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let soon = pause.map(|pause| sys::now() + pause);
    let deadline = match (terms.deadline, soon) {
        (Some(at), Some(soon)) => Some(at.min(soon)),
        (deadline, soon) => deadline.or(soon),
    };
    let ready = sys::ppoll(terms.fds, deadline, terms.mask)?;
    let rung = terms.fds[n].revents != 0;
    if rung {
        // Only the thread that sleeps on it reads it, so this does not block.
        sys::read_eventfd(fd)?;
    }
    if ready > usize::from(rung) {
        return Ok(Woke::Kernel);
    }
    if ready == 0 && terms.deadline.is_some_and(|at| sys::now() >= at) {
        return Ok(Woke::Timeout);
    }
    Ok(Woke::Ready)
}

fn eventfd(sleeper: &Sleeper) -> Result<c_int> {
    let known = sleeper.eventfd.load(Ordering::Acquire) - 1;
    if known >= 0 {
        return Ok(known);
    }
    let fd = process::own(sys::eventfd()?);
    sleeper.eventfd.store(fd + 1, Ordering::Release);
    Ok(fd)
}

/// Wakes a sleeper. False: it does not sleep, or has been woken.
fn rouse(sleeper: &Sleeper) -> bool {
    match sleeper.state.swap(sleep::AWAKE, Ordering::SeqCst) {
        sleep::LEADS => sys::write_eventfd(process::waker()),
        sleep::FOLLOWS => sys::write_eventfd(sleeper.eventfd.load(Ordering::Acquire) - 1),
        _ => return false,
    }
    true
}

/// Wakes the threads whose bits are set.
pub fn wake(mask: u64) {
    let used = FREE.used() as usize;
    let mut rest = mask;
    while rest != 0 {
        let bit = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        for sleeper in SLEEPER[..used.min(SLEEPERS)].iter().skip(bit).step_by(64) {
            rouse(sleeper);
        }
    }
}

fn wake_one() {
    let used = (FREE.used() as usize).min(SLEEPERS);
    let _ = SLEEPER[..used].iter().any(rouse);
}

/// Waits until `ready`, for one socket. Err(EINTR): a signal handler ran; Err(EAGAIN): the deadline
/// has passed.
pub fn for_socket(
    shared: &Shared,
    set: usize,
    socket: u32,
    deadline: Option<u64>,
    restarts: bool,
    ready: impl Fn() -> bool,
) -> Result<()> {
    let waiters = &table::local(socket).waiters;
    let cell = shared.private.cell(socket);
    loop {
        queues::drain(shared, set);
        if ready() {
            return Ok(());
        }
        let mut last = [NOTHING];
        let glances = cell.is_some_and(|cell| {
            cell.owner.load(Ordering::Relaxed) != set as u32 + 1 || cell.has(flag::STARVED)
        });
        let terms = Terms {
            deadline,
            mask: None,
            fds: &mut last,
            restarts,
            glances,
        };
        let register = |bit| {
            waiters.fetch_or(bit, Ordering::SeqCst);
        };
        if sleep(shared, set, terms, register, &ready)? == Woke::Timeout {
            return Err(Errno(libc::EAGAIN));
        }
    }
}

/// A pollfd of no descriptor.
pub const NOTHING: libc::pollfd = libc::pollfd {
    fd: -1,
    events: 0,
    revents: 0,
};

/// In the child of a fork: no thread sleeps, and the eventfds are the parent's.
pub fn in_child() {
    let used = (FREE.used() as usize).min(SLEEPERS);
    for sleeper in &SLEEPER[..used] {
        sleeper.state.store(sleep::AWAKE, Ordering::Relaxed);
        let fd = sleeper.eventfd.swap(0, Ordering::Relaxed) - 1;
        if fd >= 0 && table::lookup(fd) == Some(Entry::Owned) {
            table::set(fd, None);
            sys::close(fd);
        }
    }
    FREE.reset();
    LEADER.store(0, Ordering::Relaxed);
    ASLEEP.store(0, Ordering::Relaxed);
}
