//! What tenants ask of a kernel NSM.

use std::io;
use std::net::SocketAddr;

use abi::nqe::{DATAGRAM_TYPE, MORE, Nqe, RESTORED, STREAM, operation};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};

use super::socket::{Kind, Local, Socket};
use super::{KernelNsm, REQUESTS, options};
use crate::sockets::Sending;

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
            operation::CONNECT => self.connect(nqe),
            operation::ACCEPT => self.accepted(number),
            operation::SEND | operation::SEND_TO => self.enqueue(nqe),
            operation::CONSUMED => self.consumed(nqe),
            operation::SHUTDOWN => self.shut_down(nqe),
            operation::SET_OPTION => self.set_option(nqe),
            operation::GET_OPTION => self.get_option(nqe),
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

    /// Answers a request, with an address or an error.
    fn answer(&mut self, nqe: Nqe, done: Result<Option<SocketAddr>, Errno>) {
        let result = Nqe::new(operation::RESULT, nqe.socket).with_flags(nqe.operation);
        let result = match done {
            Ok(Some(address)) => result.with_address(address),
            Ok(None) => result,
            Err(error) => result.with_error(error.raw_os_error()),
        };
        self.tell(Nqe {
            queue_set: nqe.queue_set,
            ..result
        });
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
        for later in std::mem::take(&mut socket.later) {
            // Its value was looked at when it was set; what the kernel has against it is not told.
            let value = &later.value[..later.len];
            let _ = crate::sys::set_option(&file, later.level, later.name, value);
        }
        self.watch(&file, number)?;
        if let Some(socket) = self.sockets.get(number) {
            socket.make(file);
        }
        Ok(())
    }

    fn listen(&mut self, nqe: Nqe) {
        let mut listens = None;
        self.call(nqe, |socket| {
            let backlog = nqe.data.clamp(1, 65_535) as u32;
            let offered = match socket.kind {
                Kind::Datagram => return Err(Errno::OPNOTSUPP),
                Kind::Local(_) => return Err(Errno::INVAL),
                Kind::Listening { offered, .. } => offered,
                Kind::Stream { .. } => 0,
            };
            rustix::net::listen(socket.file()?, backlog as i32)?;
            socket.kind = Kind::Listening { offered, backlog };
            socket.readable = true;
            listens = Some(local_address(socket)?);
            Ok(listens)
        });
        if let Some(address) = listens {
            self.listeners.add(address, nqe.socket);
        }
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

    fn enqueue(&mut self, nqe: Nqe) {
        let inside = self
            .service
            .payload(nqe.tenant, nqe.offset, nqe.len)
            .is_some();
        let failed = match self.sockets.get(nqe.socket) {
            Some(socket) if inside && socket.failed.is_none() && !socket.shut => {
                socket.sending.push_back(Sending {
                    offset: nqe.offset,
                    len: nqe.len,
                    done: 0,
                    more: nqe.flags & MORE != 0,
                    set: nqe.queue_set,
                });
                return;
            }
            Some(_) if !inside => Errno::FAULT,
            Some(_) => Errno::PIPE,
            None => Errno::BADF,
        };
        let sent = Nqe::new(operation::SENT, nqe.socket)
            .with_chunk(nqe.offset, 0)
            .with_error(failed.raw_os_error());
        self.tell(Nqe {
            queue_set: nqe.queue_set,
            ..sent
        });
    }

    fn consumed(&mut self, nqe: Nqe) {
        let back = self.service.consumed(nqe.tenant, nqe.socket, nqe.offset);
        if back.is_none() {
            return;
        }
        if let Some(socket) = self.sockets.get(nqe.socket) {
            socket.lent = socket.lent.saturating_sub(1);
            if let Kind::Local(Local {
                peer: Some(peer), ..
            }) = socket.kind
            {
                self.mark(peer);
            }
        }
        self.feed(nqe.tenant);
    }

    /// Chunks of a tenant's are free: sockets that wait for one go on.
    pub(super) fn feed(&mut self, tenant: u8) {
        let starving = self.starving.get_mut(tenant as usize);
        for number in starving.map(std::mem::take).unwrap_or_default() {
            if let Some(socket) = self.sockets.get(number) {
                socket.starved = false;
                self.mark(number);
            }
        }
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
        let (level, name) = ((nqe.data >> 32) as i32, nqe.data as i32);
        let value = self.service.payload(nqe.tenant, nqe.offset, nqe.len);
        let done = match (self.sockets.get(nqe.socket), value) {
            (Some(socket), Some(value)) => options::set(socket, level, name, value),
            (None, _) => Err(Errno::BADF),
            (_, None) => Err(Errno::FAULT),
        };
        self.give_back(nqe, done.map(|()| 0));
    }

    fn get_option(&mut self, nqe: Nqe) {
        let (level, name) = ((nqe.data >> 32) as i32, nqe.data as i32);
        let value = self.service.payload(nqe.tenant, nqe.offset, nqe.len);
        let done = match (self.sockets.get(nqe.socket), value) {
            (Some(socket), Some(value)) => socket
                .file()
                .and_then(|file| options::get(file, level, name, value)),
            (None, _) => Err(Errno::BADF),
            (_, None) => Err(Errno::FAULT),
        };
        self.give_back(nqe, done);
    }

    /// Answers a request about an option, with its chunk.
    fn give_back(&mut self, nqe: Nqe, done: Result<u32, Errno>) {
        let (len, error) = match done {
            Ok(len) => (len, 0),
            Err(error) => (0, error.raw_os_error()),
        };
        let result = Nqe::new(operation::RESULT, nqe.socket)
            .with_flags(nqe.operation)
            .with_chunk(nqe.offset, len)
            .with_error(error);
        self.tell(Nqe {
            queue_set: nqe.queue_set,
            ..result
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
        let Some(socket) = self.sockets.remove(number) else {
            return;
        };
        for sending in &socket.sending {
            let sent = Nqe::new(operation::SENT, number).with_chunk(sending.offset, 0);
            self.tell(Nqe {
                queue_set: sending.set,
                ..sent
            });
        }
        self.part(&socket);
        if socket.lent > 0 {
            self.service.reclaim(socket.tenant, number);
            self.feed(socket.tenant);
        }
        if let Some(listener) = socket.listener {
            self.offered_less(listener);
        }
        if let Kind::Listening { .. } = socket.kind {
            self.listeners.remove(number);
            let offered = self
                .sockets
                .numbers_that(|other| other.listener == Some(number));
            for other in offered {
                if let Some(gone) = self.sockets.remove(other) {
                    self.part(&gone);
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

/// The address that a socket has.
pub(super) fn local_address(socket: &Socket) -> Result<SocketAddr, Errno> {
    SocketAddr::try_from(rustix::net::getsockname(socket.file()?)?)
}
