//! Naming, connecting, listening, accepting, shutting down.

use core::ffi::c_int;
use core::net::SocketAddr;
use core::sync::atomic::Ordering;

use abi::nqe::{Nqe, operation};

use crate::address::Address;
use crate::cell::{event, flag, state};
use crate::queues::{self, Urgency};
use crate::socket::{Socket, number_for, stand};
use crate::sys::{self, Errno, Result};
use crate::{dispatch, process, restart, wait};

impl Socket {
    pub fn bind(&self, address: Address) -> Result<()> {
        let Address::Inet(address) = address else {
            return Err(Errno(libc::EAFNOSUPPORT));
        };
        if self.cell.has(flag::BOUND) {
            return Err(Errno(libc::EINVAL));
        }
        let nqe = Nqe::new(operation::BIND, self.number)
            .with_address(address)
            .with_flags(self.shares_address());
        let answer = self.request(nqe)?;
        self.cell.local.set(answer.address);
        self.cell.set(flag::BOUND);
        Ok(())
    }

    pub fn listen(&self, backlog: c_int) -> Result<()> {
        if !self.cell.is_stream() {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        match self.cell.state.load(Ordering::Acquire) {
            state::IDLE | state::LISTENING => {}
            _ => return Err(Errno(libc::EINVAL)),
        }
        if self.cell.queue.load(Ordering::Acquire) == 0 {
            let queue = self
                .shared
                .private
                .take_queue()
                .ok_or(Errno(libc::ENOBUFS))?;
            self.cell.queue.store(queue, Ordering::Release);
        }
        let backlog = backlog.max(0) as u64;
        let answer = self.request(Nqe::new(operation::LISTEN, self.number).with_data(backlog))?;
        self.cell.local.set(answer.address);
        self.cell.backlog.store(backlog as u32, Ordering::Relaxed);
        self.cell.set(flag::BOUND);
        self.cell.state.store(state::LISTENING, Ordering::Release);
        dispatch::announce(self.number, event::ALWAYS);
        Ok(())
    }

    /// Has a listening socket's connections come to this process: before it waits for them.
    pub fn expect_connections(&self) -> Result<()> {
        if self.cell.is(state::LISTENING) {
            queues::attach_listener(&self.shared, self.set, self.number, self.cell)?;
        }
        Ok(())
    }

    /// Takes a connection: its new descriptor, and the peer's address.
    pub fn accept(&self, flags: c_int) -> Result<(c_int, Option<SocketAddr>)> {
        if !self.cell.is_stream() {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        if !self.cell.is(state::LISTENING)
            || flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0
        {
            return Err(Errno(libc::EINVAL));
        }
        self.expect_connections()?;
        let mut deadline = None;
        let (fd, number, connection, from, engine) = loop {
            self.wait_for_connection(&mut deadline)?;
            // The descriptor and the number first: without them, the connection stays in the queue.
            let fd = sys::stand_in(libc::SOCK_STREAM | flags)?;
            let number = number_for(&self.shared, fd)?;
            let engine = process::engine();
            let (taken, behind) = {
                let _guard = self.cell.lock.lock();
                // Another process may have the connections of a CoreEngine that this one has not joined.
                let behind = self.cell.engine.load(Ordering::Acquire) != engine;
                let queue = self.shared.private.queue(self.cell).filter(|_| !behind);
                (queue.and_then(|queue| queue.pop()), behind)
            };
            if let Some((connection, from)) = taken {
                break (fd, number, connection, from, engine);
            }
            self.shared.private.free_socket(number);
            sys::close(fd);
            if behind {
                restart::check(&self.shared, self.set);
                restart::ready()?;
            }
        };
        let nonblock = if flags & libc::SOCK_NONBLOCK != 0 {
            flag::NONBLOCK
        } else {
            0
        };
        let peer = from.address().map(|address| self.cell.seen(address));
        let cell = self.shared.private.cell(number);
        let cell = cell.ok_or(Errno(libc::ENOBUFS))?;
        let word = |word: &core::sync::atomic::AtomicU32| word.load(Ordering::Relaxed);
        cell.start(
            word(&self.cell.domain),
            word(&self.cell.kind),
            word(&self.cell.protocol),
            self.set as u32 + 1,
            nonblock,
        );
        cell.inherit(self.cell);
        cell.peer.set(peer);
        cell.set(flag::BOUND);
        cell.engine.store(engine, Ordering::Relaxed);
        cell.state.store(state::CONNECTED, Ordering::Release);
        stand(fd, number);
        let nqe = Nqe::new(operation::ACCEPT, number).with_data(u64::from(connection));
        // Nothing comes of it before the application sends or waits.
        let accept = (nqe, Urgency::Quiet);
        // Another CoreEngine has other connections of that name.
        let offered = || engine == process::engine() && !cell.has(flag::FAILED);
        if !queues::submit_with(&self.shared, self.set, cell, accept, offered, || {}) {
            let _guard = cell.lock.lock();
            dispatch::outlive(&self.shared, number, cell);
        }
        Ok((fd, peer))
    }

    fn wait_for_connection(&self, deadline: &mut Option<u64>) -> Result<()> {
        loop {
            let queue = self.shared.private.queue(self.cell);
            if queue.is_some_and(|queue| !queue.is_empty()) {
                return Ok(());
            }
            match self.cell.failure() {
                0 => {}
                error => return Err(Errno(error as c_int)),
            }
            if self.drain() {
                continue;
            }
            if !self.cell.is(state::LISTENING) {
                // Shut down or closed by another thread.
                return Err(Errno(libc::EINVAL));
            }
            if self.nonblocking(0) {
                return Err(Errno(libc::EAGAIN));
            }
            let timeout = self.cell.receive_timeout.load(Ordering::Relaxed);
            self.wait(event::IN, timeout, deadline)?;
        }
    }

    pub fn connect(&self, to: Address) -> Result<()> {
        restart::ready()?;
        if !self.cell.is_stream() {
            return self.connect_datagram(to);
        }
        let Address::Inet(address) = to else {
            return Err(Errno(libc::EAFNOSUPPORT));
        };
        {
            let _guard = self.cell.lock.lock();
            match self.cell.state.load(Ordering::Acquire) {
                state::IDLE if self.cell.has(flag::CONNECT_OUTCOME) => {
                    self.cell.unset(flag::CONNECT_OUTCOME);
                    let error = self.cell.take_error();
                    if error != 0 {
                        return Err(Errno(error as c_int));
                    }
                }
                state::IDLE => {}
                state::CONNECTING if self.nonblocking(0) => return Err(Errno(libc::EALREADY)),
                state::CONNECTING => {}
                state::CONNECTED if self.cell.has(flag::CONNECT_OUTCOME) => {
                    self.cell.unset(flag::CONNECT_OUTCOME);
                    return Ok(());
                }
                _ => return Err(Errno(libc::EISCONN)),
            }
            if self.cell.is(state::IDLE) {
                self.cell.peer.set(Some(self.cell.seen(address)));
                self.cell.state.store(state::CONNECTING, Ordering::Release);
                let nqe = Nqe::new(operation::CONNECT, self.number).with_address(address);
                if !queues::submit(&self.shared, self.set, &[nqe], Urgency::Request) {
                    self.cell.state.store(state::IDLE, Ordering::Release);
                    return Err(Errno(libc::ENOBUFS));
                }
            }
        }
        if self.nonblocking(0) {
            return Err(Errno(libc::EINPROGRESS));
        }
        let timeout = self.cell.send_timeout.load(Ordering::Relaxed);
        let deadline = (timeout != 0).then(|| sys::now() + timeout * 1000);
        let done = || !self.cell.is(state::CONNECTING);
        match wait::for_socket(&self.shared, self.set, self.number, deadline, true, done) {
            Err(Errno(libc::EAGAIN)) => return Err(Errno(libc::EINPROGRESS)),
            waited => waited?,
        }
        self.cell.unset(flag::CONNECT_OUTCOME);
        match self.cell.take_error() {
            0 => Ok(()),
            error => Err(Errno(error as c_int)),
        }
    }

    fn connect_datagram(&self, to: Address) -> Result<()> {
        let nqe = Nqe::new(operation::CONNECT, self.number);
        let (nqe, state, peer) = match to {
            Address::Inet(address) => {
                let peer = Some(self.cell.seen(address));
                (nqe.with_address(address), state::CONNECTED, peer)
            }
            Address::None => (nqe, state::IDLE, None),
        };
        let answer = self.request(nqe)?;
        self.cell.local.set(answer.address);
        self.cell.peer.set(peer);
        self.cell.state.store(state, Ordering::Release);
        Ok(())
    }

    pub fn shutdown(&self, how: c_int) -> Result<()> {
        let flags = match how {
            libc::SHUT_RD => flag::SHUT_READ,
            libc::SHUT_WR => flag::SHUT_WRITE,
            libc::SHUT_RDWR => flag::SHUT_READ | flag::SHUT_WRITE,
            _ => return Err(Errno(libc::EINVAL)),
        };
        match self.cell.state.load(Ordering::Acquire) {
            state::CONNECTED | state::CONNECTING => {}
            // A listening socket stops listening; threads that wait in accept wake.
            state::LISTENING if flags & flag::SHUT_READ != 0 => {
                self.cell.state.store(state::IDLE, Ordering::Release);
            }
            _ => return Err(Errno(libc::ENOTCONN)),
        }
        if self.cell.has(flag::FAILED) {
            return Err(Errno(libc::ENOTCONN));
        }
        {
            let _guard = self.cell.lock.lock();
            self.cell.set(flags);
        }
        let nqe = Nqe::new(operation::SHUTDOWN, self.number).with_data(how as u64);
        queues::submit_all(&self.shared, self.set, nqe);
        dispatch::announce(
            self.number,
            event::READ | event::WRITE | event::RDHUP | event::ALWAYS,
        );
        Ok(())
    }
}
