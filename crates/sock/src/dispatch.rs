//! What CoreEngine delivers, brought to the cells of the sockets.

use core::sync::atomic::{Ordering, fence};

use abi::nqe::{GONE, MORE, Nqe, operation};
use abi::tenant::{CHUNK_BYTES, SEND_CHUNKS};

use crate::cell::{Cell, Chunk, WRITABLE, answer, event, flag, state};
use crate::process::{self, Shared};
use crate::queues::{Urgency, submit};
use crate::{epoll, table, wait};

/// Changes the cell of an element's socket, and tells the threads that wait for it.
pub fn dispatch(shared: &Shared, set: usize, nqe: Nqe) {
    let socket = nqe.socket;
    let Some(cell) = shared.private.cell(socket) else {
        return;
    };
    let engine = cell.engine.load(Ordering::Acquire);
    if engine != 0 && engine != process::engine() {
        // It is of a CoreEngine that has ended, and another process has brought the socket to the next.
        return;
    }
    if nqe.operation == operation::CLOSED {
        shared.private.retire(socket);
        return notify(socket, event::ALWAYS);
    }
    let events = {
        let _guard = cell.lock.lock();
        match cell.state.load(Ordering::Relaxed) {
            state::FREE => 0,
            state::CLOSING if nqe.operation != operation::SENT => 0,
            _ => apply(shared, set, cell, nqe),
        }
    };
    notify(socket, events);
}

/// Changes a cell by an element, under its lock; the events that are news.
fn apply(shared: &Shared, set: usize, cell: &Cell, nqe: Nqe) -> u32 {
    let socket = nqe.socket;
    match nqe.operation {
        operation::DATA | operation::DATAGRAM => {
            let chunk = Chunk {
                offset: nqe.offset as u32,
                len: nqe.len,
                more: nqe.operation == operation::DATAGRAM && nqe.flags & MORE != 0,
            };
            let received = nqe.offset >= (SEND_CHUNKS * CHUNK_BYTES) as u64
                && shared.payload.bytes(nqe.offset, nqe.len).is_some();
            if received && cell.receive(chunk) && !chunk.more {
                return event::READ;
            }
            0
        }
        operation::SENT => {
            if !shared.private.free_chunk(socket, nqe.offset) {
                return 0;
            }
            let before = cell.in_flight.fetch_sub(1, Ordering::AcqRel);
            if nqe.error() != 0 && !cell.is_stream() {
                cell.error.store(nqe.error() as u32, Ordering::Release);
                return event::ERR | event::WRITE;
            }
            if before == WRITABLE { event::WRITE } else { 0 }
        }
        operation::END => {
            cell.set(flag::END);
            event::READ | event::RDHUP | event::HUP
        }
        operation::FAILED => {
            if nqe.flags & GONE != 0 {
                lose(shared, socket, cell, nqe.error());
                if cell.is(state::LISTENING) || !cell.is_stream() {
                    // It is what it was when the NSM is back.
                    return event::WRITE | event::ALWAYS;
                }
            }
            fail(cell, nqe.error())
        }
        operation::INCOMING => {
            let queue = shared.private.queue(cell);
            if queue.is_some_and(|queue| queue.push(nqe)) {
                return event::READ;
            }
            refuse(shared, set, nqe.len);
            0
        }
        operation::RESULT => result(shared, cell, nqe),
        _ => 0,
    }
}

/// What a socket has under way is lost, since what served it has ended. No answer comes to what it has
/// asked: `error` takes its place. Under the cell's lock.
fn lose(shared: &Shared, socket: u32, cell: &Cell, error: i32) {
    shared.private.free_chunks(socket);
    cell.in_flight.store(0, Ordering::Release);
    cell.options_pending.store(0, Ordering::Release);
    // The next NSM receives to the same chunks.
    cell.drop_received();
    if let Some(queue) = shared.private.queue(cell) {
        queue.clear();
    }
    if cell.answer.load(Ordering::Relaxed) == answer::PENDING {
        cell.answer_error.store(error as u32, Ordering::Relaxed);
        cell.answer.store(answer::HERE, Ordering::Release);
    }
}

/// CoreEngine has ended, and with it the NSMs: a connection fails, other sockets lose what they have under
/// way. One that is about to connect does so again. Under the cell's lock.
pub fn outlive(shared: &Shared, socket: u32, cell: &Cell) {
    lose(shared, socket, cell, RESTART);
    // The next NSM is asked for it again.
    cell.unmade.store(0, Ordering::Release);
    // A connection that both sides have ended does not fail any more.
    let over = cell.has(flag::END) && cell.has(flag::SHUT_WRITE);
    if cell.is_stream() && cell.is(state::CONNECTED) && !cell.has(flag::FAILED) {
        fail(cell, libc::ECONNRESET);
        if over {
            cell.take_error();
        }
    }
}

/// No CoreEngine has the socket: calls that wait for it end. Connections have failed before. Under the cell's lock.
pub fn abandon(cell: &Cell, error: i32) {
    unmade(cell, error as u32);
    if cell.is(state::CONNECTING) {
        fail(cell, error);
    }
}

/// The error in the place of an answer that does not come since CoreEngine has ended: the request is made
/// again.
pub const RESTART: i32 = libc::ERESTART;

/// A connection is broken, or a datagram socket has an error.
fn fail(cell: &Cell, error: i32) -> u32 {
    cell.error.store(error as u32, Ordering::Release);
    if cell.is_stream() && !cell.is(state::LISTENING) {
        if cell.is(state::CONNECTING) {
            cell.state.store(state::IDLE, Ordering::Release);
            cell.set(flag::CONNECT_OUTCOME);
        } else {
            cell.set(flag::END | flag::FAILED);
        }
    }
    event::READ | event::WRITE | event::RDHUP | event::ALWAYS
}

/// Takes a connection for which there is no room, and closes it.
fn refuse(shared: &Shared, set: usize, connection: u32) {
    let Some(socket) = shared.private.take_socket() else {
        return;
    };
    if let Some(cell) = shared.private.cell(socket) {
        cell.start(0, libc::SOCK_STREAM as u32, 0, set as u32 + 1, 0);
        cell.state.store(state::CLOSING, Ordering::Release);
    }
    let accept = Nqe::new(operation::ACCEPT, socket).with_data(u64::from(connection));
    let close = Nqe::new(operation::CLOSE, socket);
    if !submit(shared, set, &[accept, close], Urgency::Request) {
        shared.private.retire(socket);
    }
}

fn result(shared: &Shared, cell: &Cell, nqe: Nqe) -> u32 {
    // CoreEngine does not know a socket that could not be made: the error is why.
    let why = cell.error.load(Ordering::Relaxed) as i32;
    let nqe = match nqe.error() {
        libc::EBADF if why != 0 => nqe.with_error(why),
        _ => nqe,
    };
    let error = match (nqe.error(), cell.unmade.load(Ordering::Relaxed)) {
        // What is asked of a socket that was not made fails by the reason for that.
        (libc::EBADF, why @ 1..) => why,
        (error, _) => error as u32,
    };
    match nqe.flags {
        operation::CONNECT if cell.is_stream() => {
            if error != 0 {
                cell.error.store(error, Ordering::Release);
                cell.state.store(state::IDLE, Ordering::Release);
            } else {
                cell.local.set(nqe.address());
                cell.state.store(state::CONNECTED, Ordering::Release);
            }
            cell.set(flag::CONNECT_OUTCOME);
            event::READ | event::WRITE | event::ALWAYS
        }
        operation::SET_OPTION if cell.options_pending.load(Ordering::Relaxed) > 0 => {
            cell.options_pending.fetch_sub(1, Ordering::Relaxed);
            shared.private.free_chunk(nqe.socket, nqe.offset);
            0
        }
        operation::SOCKET => unmade(cell, error),
        operation::ACCEPT => fail(cell, nqe.error()),
        _ => {
            let asked = cell.asked.load(Ordering::Relaxed) == u32::from(nqe.flags);
            if asked && cell.answer.load(Ordering::Relaxed) == answer::PENDING {
                cell.answer_error.store(error, Ordering::Relaxed);
                cell.answer_len.store(nqe.len, Ordering::Relaxed);
                cell.answer_address.set(nqe.address());
                cell.answer.store(answer::HERE, Ordering::Release);
            } else if error != 0 && matches!(nqe.flags, operation::BIND | operation::LISTEN) {
                // It was restored, and the NSM does not have its address, or another socket has it.
                return unmade(cell, error);
            }
            0
        }
    }
}

/// No NSM has a socket as it was made: calls that wait for it end. Returns the events that are news.
fn unmade(cell: &Cell, error: u32) -> u32 {
    cell.unmade.store(error, Ordering::Release);
    match cell.lost() {
        0 => 0,
        error => fail(cell, error as i32),
    }
}

/// Tells threads and epolls of this process that something about a socket has changed.
#[inline]
fn notify(socket: u32, events: u32) {
    let local = table::local(socket);
    fence(Ordering::SeqCst);
    if events != 0 && local.interests.load(Ordering::Relaxed) != 0 {
        epoll::event(socket, events);
    }
    if local.waiters.load(Ordering::Relaxed) != 0 {
        wait::wake(local.waiters.swap(0, Ordering::SeqCst));
    }
}

/// Tells the threads and epolls of this process what a thread did to a socket itself.
pub fn announce(socket: u32, events: u32) {
    notify(socket, events);
}
