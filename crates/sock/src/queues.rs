//! This process's queue set: submitting requests, and dispatching what CoreEngine delivers into the
//! cells of the sockets.
//!
//! Locks are taken in this order: the deliver lock of a queue set, a cell's, the submit lock. No thread
//! sleeps for CoreEngine while it holds one.

use core::cell::{Cell as StdCell, UnsafeCell};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use abi::nqe::{Nqe, operation};
use abi::ring::Producer;

use crate::cell::{Cell, answer, flag, state};
use crate::dispatch::{RESTART, dispatch};
use crate::lock::Guard;
use crate::process::{self, Shared};
use crate::restart;
use crate::sys::{self, Errno, Result, Undisturbed};
use crate::table;
use crate::wait;

/// Slots that sends leave free for other requests.
const RESERVE: u32 = 256;
/// NQEs dispatched before their slots are released.
const BATCH: u32 = 64;
/// Milliseconds within which CoreEngine hears of a socket that another process announces.
const ANNOUNCED: usize = 20;
/// Operation of an element that another process has dispatched.
const DONE: u8 = 0;

struct Submission(UnsafeCell<Option<Producer<Nqe>>>);

// SAFETY: the submit lock of the process's queue set guards it.
unsafe impl Sync for Submission {}

static SUBMISSION: Submission = Submission(UnsafeCell::new(None));
/// Elements were submitted for which CoreEngine was not woken.
static QUIET: AtomicBool = AtomicBool::new(false);
/// Not 0: a thread takes a socket over from another process. No other dispatches meanwhile; that one
/// looks at the ring once more afterwards.
static ADOPTS: AtomicU32 = AtomicU32::new(0);

/// Begins with a queue set that CoreEngine gave to this process for the first time. `announce` comes before
/// everything else.
pub fn open(shared: &Shared, set: usize, announce: &[Nqe]) {
    ADOPTS.store(0, Ordering::Release);
    shared.private.sets[set].submit.reset();
    shared.private.sets[set].deliver.reset();
    reopen(shared, set, announce);
}

/// Begins again with the queue set, which another CoreEngine has emptied.
pub fn reopen(shared: &Shared, set: usize, announce: &[Nqe]) {
    let _guard = shared.private.sets[set].submit.lock();
    // SAFETY: the only producer of a queue set that this process has just been given.
    let (mut producer, _) = unsafe { shared.queues.user(set) };
    let mut rest = announce;
    while !rest.is_empty() {
        let free = producer.free(1).unwrap_or(0) as usize;
        let (now, later) = rest.split_at(free.min(rest.len()));
        for (i, &nqe) in now.iter().enumerate() {
            producer.fill(i as u32, nqe);
        }
        producer.publish(now.len() as u32);
        if producer.take_consumer_sleeper().is_some() {
            process::wake_core();
        }
        rest = later;
        if free == 0 {
            if process::has_ended() {
                // The next CoreEngine is told all of it.
                break;
            }
            sys::pause();
        }
    }
    // SAFETY: under the submit lock.
    unsafe { *SUBMISSION.0.get() = Some(producer) };
}

/// Ends with a queue set whose CoreEngine has ended: what was delivered is dispatched, and nothing is
/// submitted until it is [reopened](reopen). Returns with the deliver lock.
pub fn finish(shared: &Shared, set: usize) -> Guard<'_> {
    let deliver = shared.private.sets[set].deliver.lock();
    while let Some(attached) = dispatch_all(shared, set) {
        dispatch(shared, set, attached);
    }
    let _guard = shared.private.sets[set].submit.lock();
    // SAFETY: under the submit lock.
    unsafe { *SUBMISSION.0.get() = None };
    deliver
}

/// How urgent a submission is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// CoreEngine is woken if it sleeps; slots stay free for other requests.
    Send,
    /// CoreEngine is woken if it sleeps.
    Request,
    /// CoreEngine may learn of it with the next one, or before this process sleeps.
    Quiet,
}

/// Submits elements, all or none. False: the ring has too few free slots.
pub fn submit(shared: &Shared, set: usize, nqes: &[Nqe], urgency: Urgency) -> bool {
    let _guard = shared.private.sets[set].submit.lock();
    // SAFETY: under the submit lock.
    let Some(producer) = (unsafe { &mut *SUBMISSION.0.get() }) else {
        return false;
    };
    let n = nqes.len() as u32;
    let wanted = n + if urgency == Urgency::Send { RESERVE } else { 0 };
    if producer.free(wanted).is_ok_and(|free| free >= wanted) {
        for (i, &nqe) in nqes.iter().enumerate() {
            producer.fill(i as u32, nqe);
        }
        producer.publish(n);
        if urgency == Urgency::Quiet {
            QUIET.store(true, Ordering::Relaxed);
        } else if producer.take_consumer_sleeper().is_some() {
            process::wake_core();
        }
        return true;
    }
    if producer.take_consumer_sleeper().is_some() {
        process::wake_core();
    }
    false
}

/// Submits a request, however long it takes. The caller holds no lock.
pub fn submit_all(shared: &Shared, set: usize, nqe: Nqe) {
    submit_as(shared, set, nqe, Urgency::Request);
}

/// As [`submit_all`].
pub fn submit_as(shared: &Shared, set: usize, nqe: Nqe, urgency: Urgency) {
    while !submit(shared, set, &[nqe], urgency) && go_on(shared, set) {}
}

/// Submits a request of a socket and, with it, changes its cell: under the cell's lock, so that both are
/// of one CoreEngine. False, and nothing is submitted: `wanted` says so, or no CoreEngine has come for long.
pub fn submit_with(
    shared: &Shared,
    set: usize,
    cell: &Cell,
    (nqe, urgency): (Nqe, Urgency),
    wanted: impl Fn() -> bool,
    change: impl Fn(),
) -> bool {
    loop {
        let guard = cell.lock.lock();
        if !wanted() {
            return false;
        }
        if submit(shared, set, &[nqe], urgency) {
            change();
            return true;
        }
        drop(guard);
        if !go_on(shared, set) {
            return false;
        }
    }
}

/// After a submission that was not taken: whether it may be now. The ring empties in microseconds, and
/// that it is full is rare enough to be asked about by time.
fn go_on(shared: &Shared, set: usize) -> bool {
    drain(shared, set);
    if restart::ready().is_err() {
        return false;
    }
    sys::pause();
    true
}

/// Has CoreEngine see what was submitted quietly, before a thread sleeps.
pub fn flush(shared: &Shared, set: usize) {
    if QUIET.swap(false, Ordering::Relaxed) {
        let _guard = shared.private.sets[set].submit.lock();
        // SAFETY: under the submit lock.
        let producer = unsafe { &*SUBMISSION.0.get() };
        if producer
            .as_ref()
            .is_some_and(|p| p.take_consumer_sleeper().is_some())
        {
            process::wake_core();
        }
    }
}

/// Whether elements wait in the delivery ring.
fn filled(shared: &Shared, set: usize) -> bool {
    // SAFETY: this consumer only reads the cursors; the one that moves them is under the deliver lock.
    let (_, mut consumer) = unsafe { shared.queues.user(set) };
    consumer.filled(1).is_ok_and(|n| n > 0)
}

/// Whether elements wait in the delivery ring that no thread is dispatching. A thread that is at it looks
/// at the ring once more after it has unlocked.
pub fn pending(shared: &Shared, set: usize) -> bool {
    if !filled(shared, set) || ADOPTS.load(Ordering::SeqCst) != 0 {
        return false;
    }
    fence(Ordering::SeqCst);
    let locks = &shared.private.sets[set];
    !locks.deliver.is_held() || locks.adopting.load(Ordering::SeqCst) != 0
}

/// Tells CoreEngine that this process is about to sleep: it wakes the waker at the next delivery.
/// The caller asks for [`pending`] elements afterwards.
pub fn set_sleeps(shared: &Shared, set: usize) {
    // SAFETY: as for `pending`; the flag is an atomic that any thread may set.
    let (_, consumer) = unsafe { shared.queues.user(set) };
    consumer.set_sleeps(true);
}

/// Dispatches what has been delivered. False: there was nothing, or another thread is at it.
pub fn drain(shared: &Shared, set: usize) -> bool {
    restart::look(shared, set);
    let mut any = false;
    while filled(shared, set) && ADOPTS.load(Ordering::SeqCst) == 0 {
        let locks = &shared.private.sets[set];
        let guard = match locks.deliver.try_lock() {
            Some(guard) => guard,
            None if locks.adopting.swap(0, Ordering::SeqCst) != 0 => locks.deliver.lock(),
            None => break,
        };
        any = true;
        if let Some(attached) = dispatch_all(shared, set) {
            ADOPTS.store(1, Ordering::SeqCst);
            drop(guard);
            take_over(shared, set, attached);
            ADOPTS.store(0, Ordering::SeqCst);
        }
    }
    any
}

/// Dispatches what stands in the delivery ring, under the deliver lock, up to the answer to an ATTACH,
/// if one is there: what comes behind it is newer than what the ring before has of the socket.
fn dispatch_all(shared: &Shared, set: usize) -> Option<Nqe> {
    // SAFETY: under the deliver lock, so the only consumer; its cursors are read afresh.
    let (_, mut consumer) = unsafe { shared.queues.user(set) };
    while let Ok(filled @ 1..) = consumer.filled(1) {
        let (mut n, mut attached) = (0, None);
        while n < filled.min(BATCH) && attached.is_none() {
            let nqe = consumer.peek(n);
            if nqe.operation == operation::RESULT && nqe.flags == operation::ATTACH {
                attached = Some(nqe);
            } else {
                dispatch(shared, set, nqe);
            }
            n += 1;
        }
        consumer.release(n);
        if consumer.take_producer_sleeper().is_some() {
            process::wake_core();
        }
        if attached.is_some() {
            return attached;
        }
    }
    None
}

/// This process has a socket's answers from here on.
fn take_over(shared: &Shared, set: usize, attached: Nqe) {
    if let Some(cell) = shared.private.cell(attached.socket)
        && attached.error() == 0
    {
        let before = cell.owner.swap(set as u32 + 1, Ordering::AcqRel);
        if let Some(before) = before.checked_sub(1)
            && before as usize != set
        {
            adopt(shared, set, attached.socket, before as usize);
        }
    }
    dispatch(shared, set, attached);
}

/// Dispatches the elements of one socket that stand in another queue set's delivery ring. That set's
/// process skips them; the others stay its own.
fn adopt(shared: &Shared, mine: usize, socket: u32, set: usize) {
    if set >= shared.queues.sets() {
        return;
    }
    let locks = &shared.private.sets[set];
    locks.adopting.store(1, Ordering::SeqCst);
    let guard = locks.deliver.lock();
    // SAFETY: under the deliver lock, so the only consumer.
    let (_, mut consumer) = unsafe { shared.queues.user(set) };
    for i in 0..consumer.filled(u32::MAX).unwrap_or(0) {
        let nqe = consumer.peek(i);
        if nqe.socket == socket && nqe.operation != DONE {
            dispatch(shared, mine, nqe);
            consumer.overwrite(i, Nqe::new(DONE, socket));
        }
    }
    drop(guard);
    locks.adopting.store(0, Ordering::SeqCst);
}

/// What an answered request brought.
pub struct Answer {
    pub address: Option<core::net::SocketAddr>,
    pub len: u32,
}

/// Submits a request of a socket and waits for the answer. Signal handlers, which may have a request of the same socket,
/// run afterwards.
pub fn request(shared: &Shared, set: usize, cell: &Cell, nqe: Nqe) -> Result<Answer> {
    let _undisturbed = Undisturbed::begin();
    let _guard = cell.request.lock();
    loop {
        let answer = ask(shared, set, cell, nqe)?;
        match cell.answer_error.load(Ordering::Relaxed) as i32 {
            0 => return Ok(answer),
            RESTART if cell.has(flag::FAILED) => return Err(Errno(libc::ECONNRESET)),
            // Its chunk is free.
            RESTART if matches!(nqe.operation, operation::SET_OPTION | operation::GET_OPTION) => {
                return Err(Errno(RESTART));
            }
            RESTART => {}
            error => {
                // A socket that could not be made is none to CoreEngine: why not was told before.
                let before = cell.error.load(Ordering::Acquire) as i32;
                let unknown = error == libc::EBADF && before != 0;
                return Err(Errno(if unknown { before } else { error }));
            }
        }
    }
}

/// Submits a request and waits for the answer, an error among them. Under the request lock.
fn ask(shared: &Shared, set: usize, cell: &Cell, nqe: Nqe) -> Result<Answer> {
    cell.asked
        .store(u32::from(nqe.operation), Ordering::Relaxed);
    let engine = StdCell::new(0);
    let pending = || {
        engine.set(process::engine());
        cell.answer.store(answer::PENDING, Ordering::Release);
    };
    let request = (nqe, Urgency::Request);
    if !submit_with(shared, set, cell, request, || true, pending) {
        return Err(Errno(libc::ENETDOWN));
    }
    // An answer takes microseconds; CoreEngine or the NSM hangs when it takes this long.
    let deadline = sys::now() + 20_000_000_000;
    let here = || cell.answer.load(Ordering::Acquire) == answer::HERE;
    // Another process may have brought the socket back before this one noticed that CoreEngine had ended.
    let lost = || process::engine() != engine.get();
    while !here() && !lost() {
        if sys::now() > deadline {
            cell.answer.store(answer::NONE, Ordering::Release);
            return Err(Errno(libc::ETIMEDOUT));
        }
        let until = Some(deadline + 1_000_000);
        let over = || here() || lost();
        let _ = wait::for_socket(shared, set, nqe.socket, until, false, over);
    }
    if !here() {
        cell.answer_error.store(RESTART as u32, Ordering::Relaxed);
    }
    cell.answer.store(answer::NONE, Ordering::Release);
    Ok(Answer {
        address: cell.answer_address.get(),
        len: cell.answer_len.load(Ordering::Relaxed),
    })
}

/// Has the answers of a socket come to this process.
#[cold]
pub fn attach(shared: &Shared, set: usize, socket: u32, cell: &Cell) -> Result<()> {
    for _ in 0..ANNOUNCED {
        match request(shared, set, cell, Nqe::new(operation::ATTACH, socket)) {
            // Another process may be about to announce it.
            Err(Errno(libc::EBADF)) if !cell.is(state::FREE) && !cell.is(state::CLOSING) => {
                let _ = sys::ppoll(&mut [], Some(sys::now() + 1_000_000), None);
            }
            attached => return attached.map(drop),
        }
    }
    Err(Errno(libc::EBADF))
}

/// Has a listening socket's connections come to this process in turn.
pub fn attach_listener(shared: &Shared, set: usize, socket: u32, cell: &Cell) -> Result<()> {
    let local = table::local(socket);
    if local.attached.load(Ordering::Acquire) == 0 {
        attach(shared, set, socket, cell)?;
        local.attached.store(1, Ordering::Release);
    }
    Ok(())
}

/// Leaves a listening socket's connections to the other processes that have it.
pub fn detach_listener(socket: u32) {
    let local = table::local(socket);
    if local.attached.swap(0, Ordering::AcqRel) != 0
        && let Ok((shared, set)) = process::joined()
    {
        submit_all(&shared, set, Nqe::new(operation::DETACH, socket));
    }
}
