//! A socket of an NSM in use by a call: making, duplicating, closing. Connections are in
//! [`connection`](crate::connection), its bytes in [`stream`](crate::stream) and
//! [`datagram`](crate::datagram).

use core::ffi::c_int;
use core::net::SocketAddr;
use core::sync::atomic::Ordering;

use abi::nqe::{DATAGRAM_TYPE, Nqe, STREAM, operation};

use crate::address;
use crate::cell::{Cell, event, flag, state};
use crate::process::{self, Shared};
use crate::queues::{self, Urgency};
use crate::sys::{self, Errno, Result};
use crate::table::{self, Entry};
use crate::{dispatch, epoll, restart, wait};

/// A socket, for the length of a call.
#[derive(Clone, Copy)]
pub struct Socket {
    pub shared: Shared,
    pub set: usize,
    pub number: u32,
    pub cell: &'static Cell,
}

/// The socket that a descriptor stands for, ready to be used by this process. `None`: the kernel's.
#[inline]
pub fn of(fd: c_int) -> Option<Result<Socket>> {
    table::socket(fd).map(usable)
}

/// Readies all sockets of this process for use, if it has any and has not joined.
pub fn use_all() {
    if process::set().is_none() {
        table::each(|_, entry| {
            if let Entry::Socket(number) = entry {
                // What fails now fails again when the socket is used.
                let _ = usable(number);
            }
        });
    }
}

fn usable(number: u32) -> Result<Socket> {
    let (shared, set) = process::joined()?;
    let cell = shared.private.cell(number).ok_or(Errno(libc::EBADF))?;
    let socket = Socket {
        shared,
        set,
        number,
        cell,
    };
    if cell.owner.load(Ordering::Acquire) != set as u32 + 1 && !cell.is(state::LISTENING) {
        queues::attach(&shared, set, number, cell)?;
    }
    Ok(socket)
}

/// A number for the socket that a new descriptor is to stand for; without one, it is closed.
pub fn number_for(shared: &Shared, fd: c_int) -> Result<u32> {
    let number = table::fits(fd).then(|| shared.private.take_socket());
    number.flatten().ok_or_else(|| {
        sys::close(fd);
        Errno(libc::ENOBUFS)
    })
}

/// Makes a socket: socket(2) for an Internet family.
pub fn make(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int> {
    let (shared, set) = process::joined()?;
    restart::ready()?;
    let base = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    let fd = sys::stand_in(kind)?;
    let number = number_for(&shared, fd)?;
    let nonblock = if kind & libc::SOCK_NONBLOCK != 0 {
        flag::NONBLOCK
    } else {
        0
    };
    let protocol = match (protocol, base) {
        (0, libc::SOCK_STREAM) => libc::IPPROTO_TCP,
        (0, _) => libc::IPPROTO_UDP,
        _ => protocol,
    };
    let owner = set as u32 + 1;
    let cell = shared.private.cell(number).ok_or(Errno(libc::ENOBUFS))?;
    cell.start(domain as u32, base as u32, protocol as u32, owner, nonblock);
    stand(fd, number);
    let family = if domain == libc::AF_INET { 4 } else { 6 };
    let of_type = if base == libc::SOCK_STREAM {
        STREAM
    } else {
        DATAGRAM_TYPE
    };
    let nqe = Nqe::new(operation::SOCKET, number)
        .with_data(of_type)
        .with_family(family);
    let known = || cell.engine.store(process::engine(), Ordering::Release);
    queues::submit_with(&shared, set, cell, (nqe, Urgency::Request), || true, known);
    Ok(fd)
}

/// Has `fd` stand for one more descriptor of the socket that `like` stands for.
pub fn duplicate(like: c_int, fd: c_int) {
    match table::lookup(like) {
        Some(Entry::Socket(number)) => stand(fd, number),
        Some(entry @ Entry::Epoll(number)) => {
            epoll::duplicate(number);
            table::set(fd, Some(entry));
        }
        _ => {}
    }
}

/// Has a new descriptor stand for a socket. What it stood for was closed past this library.
pub fn stand(fd: c_int, number: u32) {
    release(table::add_socket(fd, number));
}

/// Before a descriptor is closed or replaced: it stands for nothing any more. False: it is the
/// library's own, and stays open.
pub fn forget(fd: c_int) -> bool {
    match table::lookup(fd) {
        None => true,
        Some(Entry::Owned) => false,
        Some(_) => {
            release(table::set(fd, None));
            true
        }
    }
}

fn release(entry: Option<Entry>) {
    match entry {
        Some(Entry::Epoll(number)) => epoll::close(number),
        Some(Entry::Socket(number)) => {
            let local = table::local(number);
            if local.descriptors.fetch_sub(1, Ordering::AcqRel) == 1 {
                if local.interests.load(Ordering::Acquire) != 0 {
                    epoll::forget(number);
                }
                last_closed(number);
            }
        }
        _ => {}
    }
}

/// The process has closed its last descriptor of a socket.
fn last_closed(number: u32) {
    let Some(shared) = process::mapped() else {
        return;
    };
    let Some(cell) = shared.private.cell(number) else {
        return;
    };
    if cell.has(flag::SHARED) {
        return queues::detach_listener(number);
    }
    let Ok((shared, set)) = process::joined() else {
        return;
    };
    let socket = Socket {
        shared,
        set,
        number,
        cell,
    };
    socket.close();
}

/// How long close waits for the NSM to free an address.
const CLOSE_NS: u64 = 1_000_000_000;

impl Socket {
    /// Closes the socket, whose last descriptor is gone.
    fn close(&self) {
        let cell = self.cell;
        self.drain();
        let connected = cell.is_stream() && cell.is(state::CONNECTED);
        if connected && cell.readable() {
            // Closed with bytes unread, a connection is reset (RFC 2525, 2.17): the peer learns that
            // they were not read. The NSM has read them, so its own stack does not know.
            let linger = [1u32.to_ne_bytes(), [0; 4]].concat();
            let _ = self.pass_option(libc::SOL_SOCKET, libc::SO_LINGER, &linger);
        }
        let generation = {
            let _guard = cell.lock.lock();
            if cell.is(state::FREE) || cell.is(state::CLOSING) {
                return;
            }
            cell.state.store(state::CLOSING, Ordering::Release);
            cell.generation.load(Ordering::Acquire)
        };
        table::local(self.number)
            .attached
            .store(0, Ordering::Release);
        let close = (Nqe::new(operation::CLOSE, self.number), Urgency::Request);
        // If the CoreEngine that knew it has ended, the next need not be told, and the number may be free.
        let taken = || cell.generation.load(Ordering::Acquire) == generation;
        let told = || taken() && cell.engine.load(Ordering::Acquire) == process::engine();
        let told = queues::submit_with(&self.shared, self.set, cell, close, told, || {});
        dispatch::announce(self.number, event::ALWAYS);
        if told && cell.has(flag::BOUND) && !connected {
            // Another socket may be bound to its address once this has returned.
            let deadline = Some(sys::now() + CLOSE_NS);
            let closed = || !taken();
            let _ = wait::for_socket(&self.shared, self.set, self.number, deadline, true, closed);
        }
    }

    /// Whether a call does not wait.
    pub fn nonblocking(&self, flags: c_int) -> bool {
        flags & libc::MSG_DONTWAIT != 0 || self.cell.has(flag::NONBLOCK)
    }

    pub fn readiness(&self) -> u32 {
        self.shared.private.readiness(self.cell)
    }

    /// Dispatches what has been delivered.
    pub fn drain(&self) -> bool {
        queues::drain(&self.shared, self.set)
    }

    /// Waits until the socket is ready for one of these events. `timeout`: of SO_RCVTIMEO or
    /// SO_SNDTIMEO, in microseconds; `deadline` has its end after the first wait.
    pub fn wait(&self, events: u32, timeout: u64, deadline: &mut Option<u64>) -> Result<()> {
        if timeout != 0 && deadline.is_none() {
            *deadline = Some(sys::now() + timeout * 1000);
        }
        let ready = || self.readiness() & (events | event::ALWAYS) != 0;
        wait::for_socket(&self.shared, self.set, self.number, *deadline, true, ready)
    }

    /// Bytes that wait to be read: of a datagram socket, those of the next message.
    pub fn readable_bytes(&self) -> u32 {
        if self.cell.is_stream() {
            return self.cell.received_bytes.load(Ordering::Relaxed);
        }
        let _guard = self.cell.lock.lock();
        let head = self.cell.head.load(Ordering::Relaxed);
        let count = self.cell.datagram_chunks().unwrap_or(0);
        let whole: u32 = (0..count)
            .map(|at| self.cell.chunk(head.wrapping_add(at)).len)
            .sum();
        whole.saturating_sub(abi::nqe::DatagramHead::LEN as u32)
    }

    pub fn request(&self, nqe: Nqe) -> Result<queues::Answer> {
        queues::request(&self.shared, self.set, self.cell, nqe)
    }

    pub fn local_address(&self) -> Result<SocketAddr> {
        let cell = self.cell;
        if let Some(address) = cell.local.get().filter(|address| address.port() != 0) {
            return Ok(cell.seen(address));
        }
        let domain = cell.domain.load(Ordering::Relaxed);
        if cell.is_stream() && cell.is(state::IDLE) && !cell.has(flag::BOUND) {
            return Ok(address::unspecified(domain));
        }
        let answer = self.request(Nqe::new(operation::LOCAL_ADDRESS, self.number))?;
        cell.local.set(answer.address);
        let address = answer.address.map(|address| cell.seen(address));
        Ok(address.unwrap_or_else(|| address::unspecified(domain)))
    }

    pub fn peer_address(&self) -> Result<SocketAddr> {
        // The connection may be known to be broken by what is delivered and not dispatched.
        self.drain();
        let connected = self.cell.is(state::CONNECTED) && !self.cell.has(flag::FAILED);
        self.cell
            .peer
            .get()
            .filter(|_| connected)
            .ok_or(Errno(libc::ENOTCONN))
    }
}
