//! Going on when CoreEngine ends and another takes its place.
//!
//! The NSMs end with CoreEngine, so connections are lost, and fail. All else is brought back by the
//! processes, which know their sockets better than a CoreEngine can that has just begun:
//!
//! - [`hangup`] tells of the end, and wakes a thread that sleeps.
//! - The process returns to the same queue set, in the same files: the node keeps them, and the next
//!   CoreEngine gets them from it, not from a process, so it need not distrust what they are. Nothing that
//!   threads have of the files and of the queue set changes its place.
//! - It announces its sockets: elements with the flag RESTORED have them made, bound and listened with
//!   again, before anything else is submitted. Of a socket that processes share, each announces it, and the
//!   first has it made. [`Cell::engine`](crate::cell::Cell::engine) says which CoreEngine knows a socket.
//! - Shared descriptors get new ends ([`share`]).
//!
//! Meanwhile nothing is submitted. Calls that need CoreEngine wait for it, for [`PATIENCE_NS`] at most;
//! threads that wait for a socket look again every [`RETRY_NS`].
//!
//! The sockets are lost for good if the next CoreEngine has other files, or if for [`PATIENCE_NS`] the path
//! leads to none or to one that does not know the token. All calls that wait for them end with ENETDOWN then.

use core::sync::atomic::{AtomicU64, Ordering};

use abi::nqe::{DATAGRAM_TYPE, GONE, Nqe, RESTORED, STREAM, operation};

use crate::cell::{Cell, flag, state};
use crate::process::{self, Shared};
use crate::sys::{self, Errno, Result};
use crate::table::{self, Entry};
use crate::{dispatch, hangup, options, queues, share, wait};

/// How long a call waits for CoreEngine to come back.
const PATIENCE_NS: u64 = 5_000_000_000;
/// How often is looked whether it has, until [`PATIENCE_NS`] have passed.
pub const RETRY_NS: u64 = 10_000_000;
/// How often then.
const SELDOM_NS: u64 = 500_000_000;

/// When the end of CoreEngine was noticed, by [`sys::now`]; 0: it runs.
static ENDED: AtomicU64 = AtomicU64::new(0);
/// When was looked last whether another has come.
static LOOKED: AtomicU64 = AtomicU64::new(0);

/// Since when the path leads to no CoreEngine that knows the token; 0: it does, or to one that has ended.
static AWAY: AtomicU64 = AtomicU64::new(0);

/// Whether CoreEngine has ended, and no other has taken its place yet.
#[inline]
pub fn is_down() -> bool {
    ENDED.load(Ordering::Relaxed) != 0
}

/// Looks whether CoreEngine has ended, or has come back. The caller holds no lock.
#[inline]
pub fn look(shared: &Shared, set: usize) {
    if hangup::has_ended() || is_down() {
        look_now(shared, set);
    }
}

#[cold]
fn look_now(shared: &Shared, set: usize) {
    if !is_down() {
        return check(shared, set);
    }
    // Of many threads that look, one tries in each period.
    let (now, last) = (sys::now(), LOOKED.load(Ordering::Relaxed));
    let due = now.saturating_sub(last) >= pause().unwrap_or(0);
    let tries = || LOOKED.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed);
    if due && tries().is_ok() {
        try_return(shared, set);
    }
}

/// Looks at the connection.
pub fn check(shared: &Shared, set: usize) {
    if !is_down() && process::has_ended() {
        {
            let Some(_guard) = process::JOINING.try_lock() else {
                // The thread that holds it is at it, or is about to see it.
                return;
            };
            if is_down() || !process::has_ended() {
                return;
            }
            // What stands in the rings is of sockets as they are now.
            let _deliver = queues::finish(shared, set);
            ENDED.store(sys::now(), Ordering::Release);
            let engine = process::engine();
            process::forget_engine();
            outlive(shared, set, |known| known == engine);
        }
        try_return(shared, set);
    }
}

/// How long a thread sleeps before it looks whether CoreEngine has come back; `None`: it is there.
pub fn pause() -> Option<u64> {
    match is_down() {
        false => None,
        true if is_patient() => Some(RETRY_NS),
        true => Some(SELDOM_NS),
    }
}

/// Waits until CoreEngine is there. ENETDOWN: it has not been for long.
#[inline]
pub fn ready() -> Result<()> {
    while is_down() {
        wait_for_it()?;
    }
    Ok(())
}

/// As [`ready`], without waiting: EAGAIN.
pub fn ready_now() -> Result<()> {
    match is_down() {
        false => Ok(()),
        true if is_patient() => Err(Errno(libc::EAGAIN)),
        true => Err(Errno(libc::ENETDOWN)),
    }
}

fn is_patient() -> bool {
    let ended = ENDED.load(Ordering::Relaxed);
    // It may have come back just now.
    let waits = ended == 0 || sys::now().saturating_sub(ended) < PATIENCE_NS;
    waits && !process::is_lost()
}

#[cold]
fn wait_for_it() -> Result<()> {
    let (shared, set) = process::joined()?;
    look(&shared, set);
    match is_down() {
        true if !is_patient() => Err(Errno(libc::ENETDOWN)),
        true => {
            let _ = sys::ppoll(&mut [], Some(sys::now() + RETRY_NS), None);
            Ok(())
        }
        false => Ok(()),
    }
}

/// Whether the error of an attempt to return is one that stays: one that begins is not there, or does not know the
/// token, for a moment.
fn is_gone(error: i32) -> bool {
    if !matches!(error, libc::ENOENT | libc::EACCES) {
        AWAY.store(0, Ordering::Relaxed);
        return false;
    }
    let now = sys::now();
    match AWAY.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => false,
        Err(since) => now.saturating_sub(since) >= PATIENCE_NS,
    }
}

/// Returns to the queue set, if a CoreEngine is there.
fn try_return(shared: &Shared, set: usize) {
    let engine = {
        let Some(_guard) = process::JOINING.try_lock() else {
            return;
        };
        if !is_down() || process::is_lost() {
            return;
        }
        // CoreEngine empties the rings, and other threads look at them.
        let deliver = shared.private.sets[set].deliver.lock();
        if let Err(Errno(error)) = process::rejoin(set) {
            drop(deliver);
            if is_gone(error) {
                process::lose();
            }
            if process::is_lost() {
                abandon(shared, set);
            }
            return;
        }
        let announced = announce(shared, set);
        queues::reopen(shared, set, &announced);
        drop(deliver);
        ENDED.store(0, Ordering::Release);
        AWAY.store(0, Ordering::Relaxed);
        process::engine()
    };
    // What threads have closed or accepted meanwhile.
    outlive(shared, set, |known| known != engine);
    share::renew();
    wait::wake(u64::MAX);
}

/// In a process that has joined for the first time, with sockets that it has from another: what is to be
/// announced of them, if the CoreEngine that knew them has ended. `before`: the one that a parent has joined.
pub fn inherit(shared: &Shared, set: usize, before: u32) -> Vec<Nqe> {
    let engine = process::engine();
    let mut any = before != 0 && before != engine;
    if before == 0 {
        table::each(|_, entry| any |= matches!(entry, Entry::Socket(_)));
    }
    if !any {
        return Vec::new();
    }
    outlive(shared, set, |known| known != engine);
    announce(shared, set)
}

/// Forgets that CoreEngine has ended: in the child of a fork, which joins by itself.
pub fn in_child() {
    ENDED.store(0, Ordering::Relaxed);
    AWAY.store(0, Ordering::Relaxed);
}

/// What this process has of a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Having {
    /// Descriptors.
    Descriptors,
    /// It is being closed: no process has a descriptor of it any more.
    Remains,
    Nothing,
}

fn having(set: usize, number: u32, cell: &Cell) -> Having {
    if table::local(number).descriptors.load(Ordering::Acquire) > 0 {
        return Having::Descriptors;
    }
    let owned = cell.owner.load(Ordering::Acquire) == set as u32 + 1;
    match owned && cell.is(state::CLOSING) {
        true => Having::Remains,
        false => Having::Nothing,
    }
}

/// Has the sockets of this process outlive the CoreEngine that knows them, if it has ended.
fn outlive(shared: &Shared, set: usize, ended: impl Fn(u32) -> bool) {
    for (number, cell) in shared.private.used_cells() {
        let lost = |cell: &Cell| {
            let engine = cell.engine.load(Ordering::Acquire);
            engine != 0 && ended(engine)
        };
        match having(set, number, cell) {
            Having::Descriptors => {
                let _guard = cell.lock.lock();
                if cell.is(state::FREE) || !lost(cell) {
                    continue;
                }
                dispatch::outlive(shared, number, cell);
            }
            Having::Remains => {
                let closing = |cell: &Cell| cell.is(state::CLOSING) && lost(cell);
                shared.private.retire_if(number, closing);
            }
            Having::Nothing => continue,
        }
        dispatch::announce(number, u32::MAX);
    }
}

/// Has the sockets of this process fail, which no CoreEngine has.
fn abandon(shared: &Shared, set: usize) {
    for (number, cell) in shared.private.used_cells() {
        if having(set, number, cell) != Having::Descriptors {
            continue;
        }
        {
            let _guard = cell.lock.lock();
            if cell.is(state::FREE) || cell.is(state::CLOSING) {
                continue;
            }
            dispatch::abandon(cell, libc::ENETDOWN);
        }
        dispatch::announce(number, u32::MAX);
    }
}

/// What is to be announced of this process's sockets.
fn announce(shared: &Shared, set: usize) -> Vec<Nqe> {
    let mut all = Vec::new();
    let engine = process::engine();
    for (number, cell) in shared.private.used_cells() {
        if having(set, number, cell) != Having::Descriptors {
            continue;
        }
        let _guard = cell.lock.lock();
        let known = cell.engine.load(Ordering::Acquire);
        let listens = cell.is(state::LISTENING);
        // A listening socket is announced by all, as each takes connections.
        if known == 0 || known == engine && !listens || cell.is(state::FREE) {
            continue;
        }
        if known != engine && !listens {
            cell.owner.store(set as u32 + 1, Ordering::Release);
        }
        making(shared, number, cell, known != engine, &mut all);
        cell.engine.store(engine, Ordering::Release);
        if listens && table::local(number).attached.load(Ordering::Acquire) != 0 {
            all.push(Nqe::new(operation::ATTACH, number));
        }
    }
    // They may connect to each other.
    all.sort_by_key(|nqe| nqe.operation == operation::CONNECT);
    all
}

/// The elements that make a socket what it was. Under the cell's lock.
fn making(shared: &Shared, number: u32, cell: &Cell, first: bool, into: &mut Vec<Nqe>) {
    let again = |operation| Nqe::new(operation, number).with_flags(RESTORED);
    let ipv4 = cell.domain.load(Ordering::Relaxed) == libc::AF_INET as u32;
    let made = again(operation::SOCKET)
        .with_data(if cell.is_stream() {
            STREAM
        } else {
            DATAGRAM_TYPE
        })
        .with_family(if ipv4 { 4 } else { 6 });
    if cell.is_stream() && cell.is(state::CONNECTED) {
        return into.push(made.with_flags(RESTORED | GONE));
    }
    into.push(made);
    if first {
        options::restore(shared, number, cell, into);
    }
    let local = cell.local.get();
    match local.filter(|_| cell.has(flag::BOUND)) {
        Some(local) => {
            let flags = RESTORED | options::shares_address(cell);
            into.push(again(operation::BIND).with_address(local).with_flags(flags));
        }
        // The NSM's choice is another now.
        None => cell.local.set(None),
    }
    if cell.is(state::LISTENING) {
        let backlog = cell.backlog.load(Ordering::Relaxed);
        into.push(again(operation::LISTEN).with_data(backlog.into()));
    }
    // Of a stream, the application waits for the result.
    let flags = if cell.is_stream() { 0 } else { RESTORED };
    let connects = cell.is(state::CONNECTED) || cell.is(state::CONNECTING);
    if connects && let Some(peer) = cell.peer.get() {
        into.push(
            again(operation::CONNECT)
                .with_address(peer)
                .with_flags(flags),
        );
    }
}
