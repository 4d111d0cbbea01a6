//! The connection to a frontend: accepts it, carries out its messages, ends it.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, SocketFlags};
use vhost::vhost_user::{BackendReqHandler, Error};

use super::device::{Desk, Features, KICK, PAIRS_MAX, VhostDevice};
use super::{CONNECTION, Frontend, FrontendSource, MESSAGES, VhostLink, early};
use crate::counters::{PortCounters, Reason};
use crate::port::Outcome;

impl VhostLink {
    /// Starts with a new frontend.
    pub(super) fn greet(&mut self, socket: OwnedFd) -> Result<(), Errno> {
        let token = epoll::EventData::new_u64(CONNECTION);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        epoll::add(&*self.events, &socket, token, flags)?;
        let desk = Arc::new(Mutex::new(Desk::default()));
        let ours = rustix::io::fcntl_dupfd_cloexec(&socket, 0)?;
        self.frontend = Some(Frontend {
            handler: BackendReqHandler::from_stream(UnixStream::from(ours), Arc::clone(&desk)),
            desk,
            socket: UnixStream::from(socket),
        });
        Ok(())
    }

    /// Disconnects the frontend and releases everything that it shared.
    pub(super) fn disconnect(&mut self) {
        self.broken = false;
        self.taken = (0, 0);
        self.device.reset();
        if let Some(frontend) = self.frontend.take() {
            // Two descriptors of the socket are open; one close would not take it out of the set.
            let _ = epoll::delete(&*self.events, &frontend.socket);
        }
        // The next one may be waiting already.
        self.noticed = true;
    }

    /// The frontend is not to be dealt with any more. Frames of the current batch may still lie in
    /// its memory, so that is kept until the port is served again, which this brings about.
    pub(super) fn break_off(&mut self) {
        self.broken = true;
        if let Some(frontend) = &self.frontend {
            let _ = rustix::net::shutdown(&frontend.socket, Shutdown::Both);
        }
    }

    /// Handles events of the listener and the connection. Returns the outcome, and `busy` if there
    /// may be more.
    pub(super) fn attend(&mut self, counters: &PortCounters) -> Outcome {
        self.noticed = false;
        let broken = self.broken || self.device.memory.has_failed();
        if broken {
            // A rule broken on delivery is counted already; lost memory is not.
            let violations = u32::from(!self.broken);
            counters.dropped(Reason::Violation, violations.into());
            self.disconnect();
            return self.settled(violations);
        }
        if !self.is_called() {
            return Outcome::NOTHING;
        }
        if self.frontend.is_none() {
            match self.accept() {
                Ok(true) => {}
                Ok(false) | Err(_) => return self.settled(0),
            }
        }
        for _ in 0..MESSAGES {
            match self.message() {
                Ok(true) => {}
                Ok(false) => return Outcome::NOTHING,
                Err(error) => {
                    let lied = !matches!(error, Error::Disconnected | Error::PartialMessage);
                    counters.dropped(Reason::Violation, lied.into());
                    self.disconnect();
                    return self.settled(lied.into());
                }
            }
        }
        self.noticed = true;
        Outcome::BUSY
    }

    /// Tells by the counters whether there is a frontend.
    pub(super) fn count_frontend(&mut self, counters: &PortCounters) {
        if self.counted != self.is_connected() {
            self.counted = self.is_connected();
            counters.frontend(self.counted);
        }
    }

    /// What to tell after a frontend has gone: that the port has, too, if no other can come.
    pub(super) fn settled(&self, violations: u32) -> Outcome {
        Outcome {
            violations,
            gone: self.frontend.is_none() && matches!(self.source, FrontendSource::Given),
            notify: false,
            busy: self.noticed,
        }
    }

    /// Whether the listener or the connection has something: kicks have done all that they were
    /// for.
    fn is_called(&self) -> bool {
        let mut room = [const { MaybeUninit::<epoll::Event>::uninit() }; 2 + 2 * PAIRS_MAX];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        match epoll::wait(&*self.events, &mut room, Some(&now)) {
            Ok((events, _)) => events.iter().any(|event| event.data.u64() < KICK),
            Err(_) => false,
        }
    }

    /// Takes the next frontend. Returns whether there is one.
    fn accept(&mut self) -> Result<bool, Errno> {
        let FrontendSource::Listener(listener) = &self.source else {
            return Ok(false);
        };
        let flags = SocketFlags::CLOEXEC;
        match rustix::net::accept_with(listener, flags) {
            Ok(socket) => self.greet(socket).map(|()| true),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Carries out a message, if all of it is here. Returns whether it was.
    fn message(&mut self) -> Result<bool, Error> {
        let Some(frontend) = &mut self.frontend else {
            return Err(Error::Disconnected);
        };
        if !is_whole(frontend.socket.as_fd())? {
            return Ok(false);
        }
        // Any answer fits then: a socket is writable with three quarters free.
        let mut writable = [PollFd::new(&frontend.socket, PollFlags::OUT)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        if rustix::event::poll(&mut writable, Some(&now)) != Ok(1) {
            return Err(Error::InvalidOperation("it does not read its replies"));
        }
        if !self.device.has(Features::PROTOCOL_FEATURES)
            && early::enable(frontend.socket.as_fd(), &mut self.device)?
        {
            return Ok(true);
        }
        let nothing = VhostDevice::new(Arc::clone(&self.events));
        let device = std::mem::replace(&mut self.device, nothing);
        let lock = |desk: &Mutex<Desk>, device| {
            let mut desk = desk.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut desk.0, device)
        };
        lock(&frontend.desk, Some(device));
        let handled = frontend.handler.handle_request();
        if let Some(device) = lock(&frontend.desk, None) {
            self.device = device;
        }
        handled.map(|()| true)
    }
}

/// Whether all of a message has arrived on a socket, so that reading it does not wait.
fn is_whole(socket: BorrowedFd<'_>) -> Result<bool, Error> {
    /// Request, flags and size of the body, 32 bits each.
    const HEADER: usize = 12;
    let mut header = [0; HEADER];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match rustix::net::recv(socket, &mut header, flags) {
        Ok((0, _)) => return Err(Error::Disconnected),
        Ok((HEADER, _)) => {}
        Ok(_) | Err(Errno::AGAIN | Errno::INTR) => return half(socket),
        Err(_) => return Err(Error::Disconnected),
    }
    let size = u32::from_ne_bytes([header[8], header[9], header[10], header[11]]);
    if size as usize > vhost::vhost_user::message::MAX_MSG_SIZE {
        return Err(Error::OversizedMsg);
    }
    let here = rustix::io::ioctl_fionread(socket).map_err(|_| Error::Disconnected)?;
    if here < HEADER as u64 + u64::from(size) {
        return half(socket);
    }
    Ok(true)
}

/// Part of a message: the rest may come, unless the frontend has hung up.
fn half(socket: BorrowedFd<'_>) -> Result<bool, Error> {
    let mut hung_up = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    match rustix::event::poll(&mut hung_up, Some(&now)) {
        Ok(0) => Ok(false),
        _ => Err(Error::PartialMessage),
    }
}
