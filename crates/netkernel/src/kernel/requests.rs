//! What tenants ask of a kernel NSM.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use abi::nqe::{CHOSEN_BY_NSM, DATAGRAM_TYPE, Nqe, RESTORED, STREAM, operation};
use abi::tenant::ACCEPT_QUEUE;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};

use super::options::SocketOption;
use super::socket::{Kind, Socket};
use super::{KernelNsm, REQUESTS, options};
use crate::pairs::Pairs;
use crate::serving::Serving;

impl KernelNsm {
    /// Takes a round's requests; returns how many.
    pub(super) fn take_requests(&mut self) -> io::Result<usize> {
        for taken in 0..REQUESTS {
            let Some(nqe) = self.service.request()? else {
                return Ok(taken);
            };
            self.request(nqe)?;
        }
        Ok(REQUESTS)
    }

    fn request(&mut self, nqe: Nqe) -> io::Result<()> {
        let number = nqe.socket;
        let needs = matches!(
            nqe.operation,
            operation::BIND | operation::LISTEN | operation::GET_OPTION | operation::LOCAL_ADDRESS
        );
        if needs && let Err(error) = self.make(number) {
            self.refuse(nqe, error);
            return Ok(());
        }
        match nqe.operation {
            operation::SOCKET => {
                if !self.service.knows(nqe.tenant) {
                    self.hear()?;
                }
                if let Err(error) = self.open(nqe) {
                    self.answer(nqe, Err(error));
                }
            }
            operation::BIND => self.call(nqe, |socket| {
                let address = nqe.address().ok_or(Errno::AFNOSUPPORT)?;
                if nqe.flags & RESTORED != 0 {
                    options::restore(socket, nqe.flags)?;
                }
                rustix::net::bind(socket.file()?, &address)?;
                local_address(socket).map(Some)
            }),
            operation::LISTEN => self.listen(nqe),
            operation::LISTEN_WITH => self.listen_with(nqe)?,
            operation::CONNECT => self.connect(nqe),
            operation::ACCEPT => self.accepted(number),
            operation::SEND | operation::SEND_TO => self.enqueue(nqe, |_| Ok(())),
            operation::CONSUMED => self.consumed(nqe),
            operation::SHUTDOWN => self.shut_down(nqe),
            operation::SET_OPTION => self.set_option(nqe),
            operation::GET_OPTION => self.option(nqe, |socket, level, name, value| {
                options::get(socket.file()?, level, name, value)
            }),
            operation::LOCAL_ADDRESS => self.call(nqe, |socket| match &socket.kind {
                Kind::Local(local) => Ok(Some(local.address)),
                _ => local_address(socket).map(Some),
            }),
            operation::PEER_ADDRESS => self.call(nqe, |socket| {
                if let Kind::Local(local) = &socket.kind {
                    return Ok(Some(local.peer_address));
                }
                let address = rustix::net::getpeername(socket.file()?)?;
                SocketAddr::try_from(address.ok_or(Errno::NOTCONN)?).map(Some)
            }),
            operation::CLOSE => self.close(nqe),
            _ => {}
        }
        self.mark(number);
        Ok(())
    }

    /// Answers a request with an error, and its chunk if it has one.
    fn refuse(&mut self, nqe: Nqe, error: Errno) {
        match nqe.operation {
            operation::GET_OPTION => self.give_back(nqe, Err(error)),
            _ => self.answer(nqe, Err(error)),
        }
    }

    /// Does a request that is answered at once.
    fn call(
        &mut self,
        nqe: Nqe,
        call: impl FnOnce(&mut Socket) -> Result<Option<SocketAddr>, Errno>,
    ) {
        let done = match self.sockets.get(nqe.socket) {
            Some(socket) => call(socket),
            None => Err(Errno::BADF),
        };
        self.answer(nqe, done);
    }

    fn open(&mut self, nqe: Nqe) -> Result<(), Errno> {
        let family = match nqe.family() {
            4 => AddressFamily::INET,
            6 => AddressFamily::INET6,
            _ => return Err(Errno::AFNOSUPPORT),
        };
        let (kind, of) = match nqe.data {
            STREAM => (SocketType::STREAM, Kind::Stream { connecting: None }),
            DATAGRAM_TYPE => (SocketType::DGRAM, Kind::Datagram),
            _ => return Err(Errno::PROTONOSUPPORT),
        };
        // The kernel's socket of a stream that may be connected inside is made when it is needed.
        let later = self.local && nqe.data == STREAM && nqe.flags & RESTORED == 0;
        let socket = Socket::new(None, family, nqe.tenant, of);
        self.sockets.put(nqe.socket, socket);
        if later {
            return Ok(());
        }
        let made = self.make_as(nqe.socket, kind);
        match (made, self.sockets.get(nqe.socket)) {
            (Ok(()), Some(socket)) if nqe.flags & RESTORED != 0 => {
                sockopt::set_socket_reuseaddr(socket.file()?, true)
            }
            (Err(error), _) => {
                self.sockets.remove(nqe.socket);
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Makes the kernel's socket of a stream that has none yet.
    fn make(&mut self, number: u32) -> Result<(), Errno> {
        let missing = |socket: &mut Socket| !socket.is_made();
        match self.sockets.get(number).is_some_and(missing) {
            true => self.make_as(number, SocketType::STREAM),
            false => Ok(()),
        }
    }

    fn make_as(&mut self, number: u32, kind: SocketType) -> Result<(), Errno> {
        let Some(socket) = self.sockets.get(number) else {
            return Ok(());
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let file = rustix::net::socket_with(socket.family, kind, flags, None)?;
        for option in &socket.options {
            // Its value was looked at when it was set; what the kernel has against it is not told.
            let _ = option.set(&file);
        }
        self.watch(&file, number)?;
        if let Some(socket) = self.sockets.get(number) {
            socket.make(file);
        }
        Ok(())
    }

    fn listen(&mut self, nqe: Nqe) {
        let mut listens = None;
        let of = (self.service.worker(), nqe.socket);
        let copies = Arc::clone(&self.copies);
        self.call(nqe, |socket| {
            let backlog = nqe.data.clamp(1, 65_535) as u32;
            let offered = match socket.kind {
                Kind::Datagram => return Err(Errno::OPNOTSUPP),
                Kind::Local(_) => return Err(Errno::INVAL),
                Kind::Listening { offered, .. } => offered,
                Kind::Stream { .. } => 0,
            };
            // Of the connections that wait, the kernel has some and the application some: one more than the backlog
            // together, as Linux has it.
            let others = (backlog - offered_max(backlog)) as i32;
            let file = socket.file()?;
            if copies.are_made() {
                sockopt::set_socket_reuseport(file, true)?;
            }
            rustix::net::listen(file, others)?;
            copies.each(of, |copy| rustix::net::listen(copy, others));
            copies.make(of, socket, others);
            socket.kind = Kind::Listening { offered, backlog };
            socket.readable = true;
            listens = Some(local_address(socket)?);
            Ok(listens)
        });
        if let Some(address) = listens {
            self.listeners.add(address, nqe.socket);
        }
    }

    /// Takes connections of a socket that another worker has.
    fn listen_with(&mut self, nqe: Nqe) -> io::Result<()> {
        if !self.service.knows(nqe.tenant) {
            self.hear()?;
        }
        let of = ((nqe.data >> 32) as u8, nqe.data as u32);
        let Some(file) = self.copies.copy_for(self.service.worker(), of) else {
            return Ok(());
        };
        let address = rustix::net::getsockname(&file)?;
        let kind = Kind::Listening {
            offered: 0,
            backlog: nqe.len.clamp(1, 65_535),
        };
        if self.watch(&file, nqe.socket).is_err() {
            // The others take its connections.
            let _ = rustix::net::shutdown(&file, Shutdown::Read);
            return Ok(());
        }
        let family = address.address_family();
        let mut socket = Socket::new(Some(file), family, nqe.tenant, kind);
        socket.readable = true;
        self.sockets.put(nqe.socket, socket);
        if let Ok(address) = SocketAddr::try_from(address) {
            self.listeners.add(address, nqe.socket);
        }
        Ok(())
    }

    fn connect(&mut self, nqe: Nqe) {
        if let Some(to) = nqe.address()
            && let Some(done) = self.connect_locally(nqe, to)
        {
            return self.answer(nqe, done.map(Some));
        }
        if let Err(error) = self.make(nqe.socket) {
            return self.answer(nqe, Err(error));
        }
        let Some(socket) = self.sockets.get(nqe.socket) else {
            return self.answer(nqe, Err(Errno::BADF));
        };
        let file = match socket.file() {
            Ok(file) => file,
            Err(error) => return self.answer(nqe, Err(error)),
        };
        let connect = || match nqe.address() {
            Some(address) => rustix::net::connect(file, &address),
            None => rustix::net::connect_unspec(file),
        };
        // After a connection that failed and whose error was read, Linux says this once.
        let done = match connect() {
            Err(Errno::CONNABORTED) => connect(),
            done => done,
        };
        match done {
            Err(Errno::INPROGRESS) => {
                socket.writable = false;
                socket.kind = Kind::Stream {
                    connecting: Some(nqe.queue_set),
                };
            }
            Ok(()) => {
                let address = local_address(socket).ok();
                self.answer(nqe, Ok(address));
            }
            Err(error) => self.answer(nqe, Err(error)),
        }
    }

    /// An offered connection has its socket at the tenant.
    fn accepted(&mut self, number: u32) {
        let Some(socket) = self.sockets.get(number) else {
            return;
        };
        socket.readable = true;
        let (listener, failed) = (socket.listener.take(), socket.failed);
        if let Kind::Local(local) = &socket.kind {
            let (peer, ended) = (local.peer, socket.ended);
            peer.into_iter().for_each(|peer| self.mark(peer));
            if ended && failed.is_none() {
                self.tell(Nqe::new(operation::END, number));
            }
        }
        if let Some(listener) = listener {
            self.offered_less(listener);
        }
        if let Some(error) = failed {
            let failed = Nqe::new(operation::FAILED, number);
            self.tell(failed.with_error(error.raw_os_error()));
        }
    }

    /// A listening socket has one offered connection less.
    pub(super) fn offered_less(&mut self, listener: u32) {
        if let Some(socket) = self.sockets.get(listener)
            && let Kind::Listening { offered, .. } = &mut socket.kind
        {
            *offered = offered.saturating_sub(1);
            self.mark(listener);
        }
    }

    fn consumed(&mut self, nqe: Nqe) {
        if !self.take_back(nqe) {
            return;
        }
        self.consumed_by(nqe.socket);
        self.feed(nqe.tenant);
    }

    fn shut_down(&mut self, nqe: Nqe) {
        let Some(socket) = self.sockets.get(nqe.socket) else {
            return;
        };
        if nqe.data != 1 {
            // Errors are of sockets that are not connected: nothing to shut.
            let _ = socket
                .file()
                .map(|file| rustix::net::shutdown(file, Shutdown::Read));
            let of = (self.service.worker(), nqe.socket);
            self.copies
                .each(of, |copy| rustix::net::shutdown(copy, Shutdown::Read));
        }
        socket.shut |= nqe.data != 0;
    }

    fn set_option(&mut self, nqe: Nqe) {
        let can_wait = |socket: &mut Socket| options::can_wait(socket, nqe.len as usize);
        if !self.sockets.get(nqe.socket).is_some_and(can_wait)
            && let Err(error) = self.make(nqe.socket)
        {
            return self.give_back(nqe, Err(error));
        }
        let copies = Arc::clone(&self.copies);
        let of = (self.service.worker(), nqe.socket);
        self.option(nqe, |socket, level, name, value| {
            let option = SocketOption::of(level, name, value)?;
            let mut kept = true;
            if let Ok(file) = socket.file() {
                option.set(file)?;
                copies.each(of, |copy| option.set(copy));
                let accepted = nqe.socket & CHOSEN_BY_NSM != 0;
                kept = copies.are_made() && !accepted && !matches!(socket.kind, Kind::Datagram);
            }
            if kept {
                option.keep(socket);
            }
            Ok(0)
        });
    }

    fn close(&mut self, nqe: Nqe) {
        match self.sockets.get(nqe.socket) {
            Some(socket) => socket.closing = Some(nqe.queue_set),
            None => self.tell(Nqe {
                queue_set: nqe.queue_set,
                ..Nqe::new(operation::CLOSED, nqe.socket)
            }),
        }
    }

    /// Ends a socket that is being closed and has sent all.
    pub(super) fn finish(&mut self, number: u32) {
        let Some(socket) = self.sockets.get(number) else {
            return;
        };
        let Some(set) = socket.closing else { return };
        if !socket.sending.is_empty() && socket.failed.is_none() {
            return;
        }
        let Some(mut socket) = self.sockets.remove(number) else {
            return;
        };
        self.unsend(number, std::mem::take(&mut socket.sending), 0);
        self.leave_pair(&socket);
        self.reclaim(number, &socket);
        if let Some(listener) = socket.listener {
            self.offered_less(listener);
        }
        if let Kind::Listening { .. } = socket.kind {
            self.copies.remove((self.service.worker(), number));
            self.listeners.remove(number);
            let offered = self
                .sockets
                .numbers_that(|other| other.listener == Some(number));
            for other in offered {
                if let Some(gone) = self.sockets.remove(other) {
                    self.leave_pair(&gone);
                }
                self.tell(Nqe::new(operation::CLOSED, other));
            }
        }
        self.tell(Nqe {
            queue_set: set,
            ..Nqe::new(operation::CLOSED, number)
        });
    }
}

/// Most connections that are offered to a tenant at a time: a part of the backlog, and no more than the tenant has
/// room for.
pub(super) fn offered_max(backlog: u32) -> u32 {
    backlog.div_ceil(2).min(ACCEPT_QUEUE)
}

/// The address that a socket has.
pub(super) fn local_address(socket: &Socket) -> Result<SocketAddr, Errno> {
    SocketAddr::try_from(rustix::net::getsockname(socket.file()?)?)
}
