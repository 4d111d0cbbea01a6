//! The bytes of a stream socket: copied once, between the application's memory and chunks of the
//! payload file.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use abi::nqe::{MORE, Nqe, operation};
use abi::tenant::{CHUNK_BYTES, RECEIVE_WINDOW, SEND_WINDOW};

use crate::cell::{event, flag, state};
use crate::epoll;
use crate::parts::Parts;
use crate::queues::{self, Urgency};
use crate::socket::Socket;
use crate::sys::{self, Errno, Result};

/// Chunks filled or given back with one publish.
const BATCH: usize = 8;
/// Flags of receiving that a stream has.
const RECEIVES: c_int =
    libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_TRUNC | libc::MSG_NOSIGNAL;

impl Socket {
    /// Receives bytes: how many; 0 at the end.
    pub fn receive_stream(&self, parts: &mut Parts<'_>, flags: c_int) -> Result<usize> {
        if flags & libc::MSG_OOB != 0 {
            return Err(Errno(libc::EINVAL));
        }
        debug_assert!(flags & !RECEIVES & !libc::MSG_CMSG_CLOEXEC >= 0);
        let mut done = 0;
        let mut deadline = None;
        loop {
            match self.take(parts, flags) {
                Ok(None) => {}
                Ok(Some(0)) => return Ok(done),
                Ok(Some(n)) => {
                    done += n;
                    let all = flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_PEEK == 0;
                    if !all || parts.left() == 0 {
                        return Ok(done);
                    }
                    continue;
                }
                Err(_) if done > 0 => return Ok(done),
                Err(error) => return Err(error),
            }
            if self.drain() {
                continue;
            }
            if self.nonblocking(flags) {
                // The application may ask again and again without ever waiting.
                queues::flush(&self.shared, self.set);
                return if done > 0 {
                    Ok(done)
                } else {
                    Err(Errno(libc::EAGAIN))
                };
            }
            let timeout = self.cell.receive_timeout.load(Ordering::Relaxed);
            match self.wait(event::IN, timeout, &mut deadline) {
                Err(_) if done > 0 => return Ok(done),
                waited => waited?,
            }
        }
    }

    /// Copies what has been received. `None`: nothing has, and more may come.
    fn take(&self, parts: &mut Parts<'_>, flags: c_int) -> Result<Option<usize>> {
        let cell = self.cell;
        let _guard = cell.lock.lock();
        let wanted = parts.left();
        if wanted == 0 && !cell.is(state::IDLE) {
            return Ok(Some(0));
        }
        let tail = cell.tail.load(Ordering::Relaxed);
        let mut head = cell.head.load(Ordering::Relaxed);
        let mut offset = cell.offset.load(Ordering::Relaxed);
        let mut done = 0;
        while done < wanted && head != tail {
            let chunk = cell.chunk(head);
            let at = u64::from(chunk.offset) + u64::from(offset);
            let left = chunk.len.saturating_sub(offset);
            let n = match self.shared.payload.bytes(at, left) {
                // On a stream, MSG_TRUNC passes bytes without copying them (tcp(7)).
                Some(_) if flags & libc::MSG_TRUNC != 0 => (left as usize).min(wanted - done),
                Some(bytes) => parts.copy_from(bytes),
                None => left as usize,
            };
            done += n;
            offset += n as u32;
            if offset >= chunk.len {
                head = head.wrapping_add(1);
                offset = 0;
            }
        }
        if done > 0 {
            if flags & libc::MSG_PEEK == 0 {
                cell.head.store(head, Ordering::Release);
                cell.offset.store(offset, Ordering::Relaxed);
                cell.received_bytes
                    .fetch_sub(done as u32, Ordering::Relaxed);
                self.give_back();
            }
            return Ok(Some(done));
        }
        match cell.take_error() {
            0 => {}
            error => return Err(Errno(error as c_int)),
        }
        if cell.has(flag::END | flag::SHUT_READ) {
            return Ok(Some(0));
        }
        match cell.state.load(Ordering::Acquire) {
            state::IDLE | state::LISTENING => Err(Errno(libc::ENOTCONN)),
            state::FREE | state::CLOSING => Err(Errno(libc::EBADF)),
            _ => Ok(None),
        }
    }

    /// Gives chunks that were read out back to the NSM. Under the cell's lock.
    pub fn give_back(&self) {
        let cell = self.cell;
        let head = cell.head.load(Ordering::Relaxed);
        loop {
            let returned = cell.returned.load(Ordering::Relaxed);
            let n = (head.wrapping_sub(returned) as usize).min(BATCH);
            if n == 0 {
                return;
            }
            let mut nqes = [Nqe::default(); BATCH];
            for (i, nqe) in nqes[..n].iter_mut().enumerate() {
                let chunk = cell.chunk(returned.wrapping_add(i as u32));
                *nqe = Nqe::new(operation::CONSUMED, self.number)
                    .with_chunk(u64::from(chunk.offset), chunk.len);
            }
            // A receive window that runs out must not wait for a sleeping CoreEngine.
            let held = cell.tail.load(Ordering::Relaxed).wrapping_sub(returned) as usize;
            let urgent = held > RECEIVE_WINDOW / 4;
            let urgency = if urgent {
                Urgency::Request
            } else {
                Urgency::Quiet
            };
            if !queues::submit(&self.shared, self.set, &nqes[..n], urgency) {
                return;
            }
            cell.returned
                .store(returned.wrapping_add(n as u32), Ordering::Relaxed);
        }
    }

    /// Sends bytes: how many.
    pub fn send_stream(&self, parts: &mut Parts<'_>, flags: c_int) -> Result<usize> {
        if flags & libc::MSG_OOB != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let mut done = 0;
        let mut deadline = None;
        // An application that only sends learns here that the connection is broken.
        self.drain();
        loop {
            match self.put(parts, flags) {
                Ok(n) => done += n,
                Err(_) if done > 0 => return Ok(done),
                Err(error) => {
                    if error.0 == libc::EPIPE && flags & libc::MSG_NOSIGNAL == 0 {
                        sys::raise_sigpipe();
                    }
                    return Err(error);
                }
            }
            if parts.left() == 0 {
                return Ok(done);
            }
            if self.drain() {
                continue;
            }
            if self.nonblocking(flags) {
                return if done > 0 {
                    Ok(done)
                } else {
                    Err(Errno(libc::EAGAIN))
                };
            }
            let timeout = self.cell.send_timeout.load(Ordering::Relaxed);
            match self.wait(event::OUT, timeout, &mut deadline) {
                Err(_) if done > 0 => return Ok(done),
                waited => waited?,
            }
        }
    }

    /// Copies into chunks and submits them, as far as the window reaches.
    fn put(&self, parts: &mut Parts<'_>, flags: c_int) -> Result<usize> {
        let mut done = 0;
        loop {
            let n = self.put_batch(parts, flags)?;
            done += n;
            if n < BATCH * CHUNK_BYTES || parts.left() == 0 {
                return Ok(done);
            }
        }
    }

    fn put_batch(&self, parts: &mut Parts<'_>, flags: c_int) -> Result<usize> {
        let cell = self.cell;
        let _guard = cell.lock.lock();
        if cell.has(flag::SHUT_WRITE) {
            return Err(Errno(libc::EPIPE));
        }
        if cell.error.load(Ordering::Relaxed) != 0 {
            return Err(Errno(cell.take_error() as c_int));
        }
        match cell.state.load(Ordering::Acquire) {
            state::CONNECTED if cell.has(flag::FAILED) => return Err(Errno(libc::EPIPE)),
            state::CONNECTED => {}
            state::CONNECTING => return Ok(0),
            state::FREE | state::CLOSING => return Err(Errno(libc::EBADF)),
            _ => return Err(Errno(libc::EPIPE)),
        }
        let private = self.shared.private;
        let in_flight = cell.in_flight.load(Ordering::Relaxed) as usize;
        let full = in_flight >= SEND_WINDOW;
        let room = private.send_window().saturating_sub(in_flight).min(BATCH);
        let mut nqes = [Nqe::default(); BATCH];
        let (mut n, mut done) = (0, 0);
        let before = *parts;
        while n < room && parts.left() > 0 {
            let Some(offset) = private.take_chunk(self.number) else {
                break;
            };
            let wanted = parts.left().min(CHUNK_BYTES);
            let Some(bytes) = self.shared.payload.bytes(offset, wanted as u32) else {
                break;
            };
            let len = parts.copy_to(bytes);
            done += len;
            let more = parts.left() > 0 || flags & libc::MSG_MORE != 0;
            nqes[n] = Nqe::new(operation::SEND, self.number)
                .with_chunk(offset, len as u32)
                .with_flags(if more { MORE } else { 0 });
            n += 1;
        }
        if n > 0 {
            cell.in_flight.fetch_add(n as u32, Ordering::AcqRel);
            if queues::submit(&self.shared, self.set, &nqes[..n], Urgency::Send) {
                if cell.has(flag::STARVED) {
                    cell.unset(flag::STARVED);
                }
                return Ok(done);
            }
            cell.in_flight.fetch_sub(n as u32, Ordering::AcqRel);
            for nqe in &nqes[..n] {
                private.free_chunk(self.number, nqe.offset);
            }
            *parts = before;
        }
        if !full {
            self.starved();
        }
        Ok(0)
    }

    /// No chunk or slot is free: this is found out again by looking.
    pub fn starved(&self) {
        self.cell.set(flag::STARVED);
        epoll::starved(self.number);
    }
}
