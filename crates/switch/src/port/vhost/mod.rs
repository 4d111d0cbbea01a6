//! A virtual machine's port by vhost-user: QEMU's or DPDK's virtio-net, its rings in memory that
//! the frontend shares by a Unix socket.
//!
//! The port is the backend. It listens, or is given a connection; it has one frontend at a time,
//! and waits for the next when that one goes. rust-vmm's `vhost` parses messages between two
//! batches, without a thread of their own. All descriptors that the port waits for (the listener,
//! the connection, the driver's kicks) are in one epoll set, which is the port's descriptor. While
//! the port is polled the driver is asked not to kick.
//!
//! Frames come and go with a virtio-net header, so 64 KB segments pass uncut between ports that
//! accept them.
//!
//! Nothing that the frontend or its driver says is trusted ([`queue`]), and nothing that they do
//! makes the worker wait: memory must be a memfd, or a file in /dev/shm or hugetlbfs, where an
//! access waits for no disk and no other process. A frontend that breaks the rules is disconnected,
//! which is a violation; the port is closed when there are too many.
//!
//! A machine goes on with the switch that replaces its own, without setting its device up again
//! ([`rings`]). Frames under way may come twice; the switch loses none. QEMU connects again if its
//! chardev has `reconnect=1`; DPDK's virtio-user, where it connects, does not. There is no live
//! migration. Tried with: DPDK's testpmd and QEMU, virtio 1 and the legacy interface, Linux and iPXE.

mod connection;
mod deliver;
pub mod device;
mod early;
pub mod memory;
mod open;
pub mod queue;
pub mod rings;
pub mod sigbus;
mod take;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use abi::SharedBytes;
use rustix::event::epoll;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use vhost::vhost_user::BackendReqHandler;

use super::backend::{Attachment, Backend, HostBackend, Kind, Outcome};
use super::{BATCH, Batch};
use crate::counters::{PortCounters, Reason};
use device::{Desk, PAIRS_MAX, VhostDevice};
use rings::{Broken, Head};
use take::Given;

pub use open::{SOCKET_PATH_MAX, VhostUser, VhostUserConnected};

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
    /// A socket that is connected to a frontend.
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
    next_pair: usize,
    /// The queue that the current batch was taken from, and how many buffers.
    taken: (usize, u16),
    scratch: Box<Scratch>,
}

/// Room for one batch's heads and one frame's pieces.
struct Scratch {
    /// Buffers that were taken and not yet given back.
    heads: [Head; BATCH],
    /// Buffers to fill.
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

    /// A port on a Unix stream socket that is connected to a listening frontend. The port ends with
    /// the connection.
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
            next_pair: 0,
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

    /// Takes a batch out of the next transmit queue that has any. Returns whether one had.
    fn take_next(&mut self, batch: &mut Batch, counters: &PortCounters) -> Result<bool, Broken> {
        for _ in 0..PAIRS_MAX {
            let index = 2 * self.next_pair + 1;
            self.next_pair = (self.next_pair + 1) % PAIRS_MAX;
            if self.device.queues[index].is_ready() && self.take(batch, index, counters)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl HostBackend for VhostLink {
    type Record = Connection;

    const KEPT: Option<Connection> = Some(Connection::Listening);

    /// With its socket.
    fn attach(connection: Connection, link: Attachment<'_>) -> Result<Vec<VhostLink>, String> {
        let mtu = link.mtu;
        let [socket] = link.exactly()?;
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
}

impl Backend for VhostLink {
    fn mtu(&self) -> u16 {
        self.mtu
    }

    fn set_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
    }

    /// Handles an event of its descriptor.
    fn notice(&mut self) {
        self.noticed = true;
    }

    /// Tells the connected frontend that the port is closed.
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
                self.disconnect();
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

    /// Limits the end of the batch to the buffers of frames before `first`.
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
