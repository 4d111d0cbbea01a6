//! A virtual machine's port by vhost-user: QEMU's or DPDK's virtio-net, its rings in memory that
//! the frontend hands over on a Unix socket.
//!
//! The port is the backend. It listens, or is given a connection; it has one frontend at a time,
//! and waits for the next when that one goes. Messages are taken apart by rust-vmm's `vhost`
//! between two batches, without a thread of their own: everything that the port waits for (the
//! listener, the connection, the driver's kicks) is in one epoll set, which is the port's
//! descriptor. While the port is polled the driver is asked not to kick.
//!
//! Frames come and go with a virtio-net header, so 64 KB segments pass as they are between those
//! that can take them.
//!
//! Nothing that the frontend or its driver says is believed ([`queue`]), and nothing that they do
//! makes the worker wait. Who breaks the rules is disconnected, and that is a violation; the port
//! is closed when there are too many.

pub mod device;
mod early;
mod frames;
pub mod memory;
mod open;
pub mod queue;
pub mod rings;
pub mod sigbus;

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use abi::region::SharedBytes;
use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, SocketFlags};
use serde::{Deserialize, Serialize};
use vhost::vhost_user::{BackendReqHandler, Error};

use super::backend::{Backend, HostBackend, Kind, Opened, Outcome};
use super::{BATCH, Batch};
use crate::counters::{PortCounters, Reason};
use device::{Desk, KICK, PAIRS_MAX, VhostDevice, features};
use frames::Given;
use rings::{Broken, Head};

pub use open::{SOCKET_PATH_MAX, VhostUser, vhost_listener};

/// The listener's number in the port's epoll set.
const LISTENER: u64 = 0;
/// The connection's number there.
const CONNECTION: u64 = 1;
/// Messages carried out between two batches.
const MESSAGES: usize = 16;
/// Most pieces of one frame's room.
const PIECES: usize = 1024;

/// What a vhost-user port's socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connection {
    /// One on which frontends are waited for.
    Listening,
    /// One that is connected to a frontend.
    Connected,
}

/// Where a port's frontends come from.
enum FrontendSource {
    /// They connect to this socket.
    Listener(OwnedFd),
    /// There was one connection, given with the port.
    Given,
}

/// A connected frontend.
struct Frontend {
    handler: BackendReqHandler<Mutex<Desk>>,
    desk: Arc<Mutex<Desk>>,
    socket: UnixStream,
}

/// The switch's side of a vhost-user device.
pub struct VhostLink {
    /// Everything that the port waits for.
    events: Arc<OwnedFd>,
    source: FrontendSource,
    frontend: Option<Frontend>,
    /// Whether the counters say that there is a frontend.
    counted: bool,
    device: VhostDevice,
    mtu: u16,
    /// Something has happened on the listener or the connection, maybe.
    noticed: bool,
    /// The frontend broke the rules while frames of the batch may lie in its memory: it is
    /// disconnected before the next.
    broken: bool,
    /// The queue pair that is served next.
    turn: usize,
    /// The queue that the current batch was taken from, and how many buffers.
    taken: (usize, u16),
    scratch: Box<Scratch>,
}

/// Room for one batch's heads and one frame's pieces.
struct Scratch {
    /// Buffers that were taken and are to be given back.
    heads: [Head; BATCH],
    /// Buffers that are to be filled.
    rooms: [Head; BATCH],
    given: [Given; BATCH],
    /// The buffers that one frame fills, and how much of each.
    filled: Vec<(Head, u32)>,
    pieces: Vec<SharedBytes>,
    /// Frames of a batch that go to one of several queues.
    share: Vec<u16>,
}

impl VhostLink {
    /// A port on a listening, non-blocking Unix stream socket to which frontends connect, one
    /// after the other.
    pub fn listen(listener: OwnedFd, mtu: u16) -> Result<VhostLink, Errno> {
        let mut link = VhostLink::new(FrontendSource::Given, mtu)?;
        let flags = epoll::EventFlags::IN;
        let token = epoll::EventData::new_u64(LISTENER);
        epoll::add(&*link.events, &listener, token, flags)?;
        link.source = FrontendSource::Listener(listener);
        Ok(link)
    }

    /// A port on a Unix stream socket that is connected to a frontend: one that listens itself.
    /// The port is gone with the connection.
    pub fn connected(socket: OwnedFd, mtu: u16) -> Result<VhostLink, Errno> {
        let mut link = VhostLink::new(FrontendSource::Given, mtu)?;
        link.greet(socket)?;
        Ok(link)
    }

    fn new(source: FrontendSource, mtu: u16) -> Result<VhostLink, Errno> {
        let events = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        Ok(VhostLink {
            device: VhostDevice::new(Arc::clone(&events)),
            events,
            source,
            frontend: None,
            counted: false,
            mtu,
            noticed: true,
            broken: false,
            turn: 0,
            taken: (0, 0),
            scratch: Box::new(Scratch {
                heads: [Head::default(); BATCH],
                rooms: [Head::default(); BATCH],
                given: [const { Given::Broken(Broken::Index) }; BATCH],
                filled: Vec::with_capacity(PIECES),
                pieces: Vec::with_capacity(PIECES),
                share: Vec::with_capacity(BATCH),
            }),
        })
    }

    /// Whether a frontend is connected.
    pub fn is_connected(&self) -> bool {
        self.frontend.is_some()
    }

    /// Starts with a new frontend.
    fn greet(&mut self, socket: OwnedFd) -> Result<(), Errno> {
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

    /// Lets the frontend go, and everything that it handed over.
    fn part(&mut self) {
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
    fn break_off(&mut self) {
        self.broken = true;
        if let Some(frontend) = &self.frontend {
            let _ = rustix::net::shutdown(&frontend.socket, Shutdown::Both);
        }
    }

    /// Sees to what has happened on the listener and the connection. Returns how it went, and
    /// `busy` if there may be more.
    fn attend(&mut self, counters: &PortCounters) -> Outcome {
        self.noticed = false;
        let broken = self.broken || self.device.memory.has_failed();
        if broken {
            // What was broken on delivery is counted already; memory that is gone is not.
            let violations = u32::from(!self.broken);
            counters.dropped(Reason::Violation, violations.into());
            self.part();
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
                    self.part();
                    return self.settled(lied.into());
                }
            }
        }
        self.noticed = true;
        Outcome::BUSY
    }

    /// Tells by the counters whether there is a frontend.
    fn count_frontend(&mut self, counters: &PortCounters) {
        if self.counted != self.is_connected() {
            self.counted = self.is_connected();
            counters.frontend(self.counted);
        }
    }

    /// What to tell after a frontend has gone: that the port has, too, if no other can come.
    fn settled(&self, violations: u32) -> Outcome {
        Outcome {
            violations,
            gone: self.frontend.is_none() && matches!(self.source, FrontendSource::Given),
            owes: false,
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
        // An answer fits then, whatever it is: a socket is writable with three quarters free.
        let mut writable = [PollFd::new(&frontend.socket, PollFlags::OUT)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        if rustix::event::poll(&mut writable, Some(&now)) != Ok(1) {
            return Err(Error::InvalidOperation("it does not read its answers"));
        }
        if !self.device.has(features::PROTOCOL_FEATURES)
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

    /// Takes a batch out of the next transmit queue that has any. Returns whether one had.
    fn take_next(&mut self, batch: &mut Batch, counters: &PortCounters) -> Result<bool, Broken> {
        for _ in 0..PAIRS_MAX {
            let index = 2 * self.turn + 1;
            self.turn = (self.turn + 1) % PAIRS_MAX;
            if self.device.queues[index].is_ready() && self.take(batch, index, counters)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl HostBackend for VhostLink {
    type Record = Connection;

    /// With its socket.
    fn attach(connection: Connection, opened: Opened<'_>) -> Result<Vec<VhostLink>, String> {
        let mtu = opened.mtu;
        let [socket] = opened.exactly()?;
        let link = match connection {
            Connection::Listening => VhostLink::listen(socket, mtu),
            Connection::Connected => VhostLink::connected(socket, mtu),
        };
        let link = link.map_err(|error| format!("cannot watch the vhost-user socket: {error}"))?;
        Ok(vec![link])
    }
}

impl Kind for VhostLink {
    const IN_MEMORY: bool = true;
    const KEPT_BY_FILES: bool = true;
}

impl Backend for VhostLink {
    fn mtu(&self) -> u16 {
        self.mtu
    }

    fn set_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
    }

    /// Its descriptor told of something.
    fn notice(&mut self) {
        self.noticed = true;
    }

    /// The port is closed: whoever is connected shall know.
    fn close(&mut self) {
        self.break_off();
    }

    fn receive(&mut self, batch: &mut Batch, counters: &PortCounters) -> Outcome {
        let mut outcome = Outcome::NOTHING;
        if self.noticed || self.broken || self.device.memory.has_failed() {
            outcome = self.attend(counters);
            self.count_frontend(counters);
            if outcome.gone || outcome.violations > 0 {
                return outcome;
            }
        }
        match self.take_next(batch, counters) {
            Ok(false) => outcome,
            Ok(true) => Outcome::BUSY,
            Err(_) => {
                batch.clear();
                counters.dropped(Reason::Violation, 1);
                self.part();
                self.count_frontend(counters);
                Outcome {
                    busy: true,
                    ..self.settled(1)
                }
            }
        }
    }

    fn send(&mut self, batch: &mut Batch, which: &[u16], counters: &PortCounters) -> Outcome {
        self.deliver(batch, which, counters)
    }

    /// Has the end of the batch give back only the buffers of the frames before `first`.
    fn release_before(&mut self, batch: &Batch, first: usize) -> bool {
        let (index, taken) = self.taken;
        if let Some(frame) = batch.frames().get(first) {
            let kept = taken.min(frame.slot);
            if kept < taken {
                let from = &self.scratch.heads[usize::from(kept)];
                self.device.queues[index].put_back(from);
            }
            self.taken = (index, kept);
        }
        true
    }

    /// Gives the batch's buffers back.
    #[inline]
    fn release(&mut self) {
        let (index, taken) = std::mem::take(&mut self.taken);
        let heads = &self.scratch.heads[..usize::from(taken)];
        if let Some(last) = heads.last() {
            let queue = &mut self.device.queues[index];
            for head in heads {
                queue.note(head, 0);
            }
            queue.give_back(last.after);
        }
    }

    fn sleep(&mut self) -> bool {
        if self.noticed || self.broken {
            return false;
        }
        self.device.queues.iter().skip(1).step_by(2).all(|queue| {
            queue.ask_kick(true);
            !queue.is_ready() || (queue.can_kick() && queue.is_empty() == Ok(true))
        })
    }

    fn wake(&mut self) {
        self.noticed = true;
        for queue in self.device.queues.iter().skip(1).step_by(2) {
            queue.ask_kick(false);
        }
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.events.as_fd()]
    }

    fn files(&self) -> Vec<BorrowedFd<'_>> {
        match &self.source {
            FrontendSource::Listener(listener) => vec![listener.as_fd()],
            FrontendSource::Given => Vec::new(),
        }
    }
}

/// Whether all of a message has arrived on a socket, so that reading it does not wait.
fn is_whole(socket: BorrowedFd<'_>) -> Result<bool, Error> {
    /// Request, flags and size of what follows, 32 bits each.
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
