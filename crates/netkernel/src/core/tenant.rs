//! A tenant: its files, its processes' queue sets, its sockets.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abi::nqe::{Nqe, operation};
use abi::tenant::{PAYLOAD_FILE_BYTES, QUEUE_FILE_BYTES, SETS, SOCKETS};
use rustix::io::Errno;

use super::limiter::Limiter;
use super::peer::Peer;
use super::trace::Tracing;
use crate::protocol::{Limits, Token};
use crate::sys::{self, Queues};

/// No queue set.
pub(crate) const NO_SET: u8 = u8::MAX;
/// No NSM.
pub(crate) const NO_NSM: u8 = u8::MAX;
/// NSMs that may have a tenant's sockets at a time; each has its share of the receive chunks.
pub(crate) const NSMS_OF_TENANT: usize = 4;

/// A tenant's row of the connection table.
#[derive(Clone, Copy)]
pub(crate) struct Socket {
    /// The NSM; [`NO_NSM`]: the number is free.
    pub nsm: u8,
    /// The queue set that its events go to; [`NO_SET`]: they wait for a process that attaches.
    pub set: u8,
    /// It is being closed: nothing more is taken from the tenant.
    pub closing: bool,
    /// Its NSM is gone, and the connection with it.
    pub failed: bool,
    /// Ends of shared descriptors.
    pub shares: u32,
    /// Its number at the NSM.
    pub number: u32,
    /// Bytes sent and received.
    pub sent: u64,
    pub received: u64,
}

/// Where a socket is, as far as CoreEngine has seen it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Addresses {
    /// Whether it is one of datagrams.
    pub datagrams: bool,
    pub local: Option<SocketAddr>,
    pub peer: Option<SocketAddr>,
}

const FREE: Socket = Socket {
    nsm: NO_NSM,
    set: NO_SET,
    closing: false,
    failed: false,
    shares: 0,
    number: 0,
    sent: 0,
    received: 0,
};

/// The files of a tenant whose processes run.
pub(crate) struct Files {
    pub queue_file: OwnedFd,
    pub queues: Arc<Queues>,
    pub payload_file: OwnedFd,
}

impl Files {
    fn make() -> Result<Files, Errno> {
        let queue_file = sys::memory_file("weir-sock-queues", QUEUE_FILE_BYTES)?;
        let queues = Arc::new(Queues::map(&queue_file, QUEUE_FILE_BYTES)?);
        queues.file().format();
        Ok(Files {
            queue_file,
            queues,
            payload_file: sys::memory_file("weir-sock-payload", PAYLOAD_FILE_BYTES)?,
        })
    }
}

/// The processes that take a listening socket's connections in turn, and how it was made.
#[derive(Default)]
pub(crate) struct Listener {
    pub acceptors: Vec<u8>,
    turn: usize,
    /// What has it listen again at an NSM that is back.
    pub listen: Nqe,
}

pub(crate) struct Tenant {
    pub name: String,
    pub token: Token,
    /// The NSM of new sockets.
    pub nsm: u8,
    pub limits: Limits,
    pub files: Option<Files>,
    pub sets: Vec<Option<Peer>>,
    /// The numbers of the queue sets in use.
    pub live: Vec<u8>,
    sockets: Vec<Socket>,
    /// By the same numbers.
    addresses: Vec<Addresses>,
    /// Sockets in use.
    pub used: usize,
    pub listeners: HashMap<u32, Listener>,
    /// Bound sockets, each with what bound it.
    pub bound: HashMap<u32, Nqe>,
    /// Events of sockets that no process has.
    pub orphans: VecDeque<Nqe>,
    /// The NSMs that know the tenant, by their part of the receive chunks.
    pub parts: [u8; NSMS_OF_TENANT],
    limiter: Limiter,
    pub sent: u64,
    pub received: u64,
    pub connections: u64,
    pub violations: u64,
    /// What it does, while the operator asks.
    pub tracing: Option<Box<Tracing>>,
    /// The operator has removed it: its row is for the sockets that are being closed.
    pub removed: bool,
}

impl Tenant {
    pub fn new(name: String, token: Token, nsm: u8, limits: Limits) -> Tenant {
        Tenant {
            name,
            token,
            nsm,
            limits,
            files: None,
            sets: (0..SETS).map(|_| None).collect(),
            live: Vec::new(),
            sockets: Vec::new(),
            addresses: Vec::new(),
            used: 0,
            listeners: HashMap::new(),
            bound: HashMap::new(),
            orphans: VecDeque::new(),
            parts: [NO_NSM; NSMS_OF_TENANT],
            limiter: Limiter::new(),
            sent: 0,
            received: 0,
            connections: 0,
            violations: 0,
            tracing: None,
            removed: false,
        }
    }

    /// The files; new ones if it has none.
    pub fn files(&mut self) -> Result<&Files, Errno> {
        let files = match self.files.take() {
            Some(files) => files,
            None => Files::make()?,
        };
        Ok(self.files.insert(files))
    }

    /// A socket in use.
    #[inline]
    pub fn socket(&mut self, number: u32) -> Option<&mut Socket> {
        let socket = self.sockets.get_mut(number as usize)?;
        (socket.nsm != NO_NSM).then_some(socket)
    }

    /// A queue set, and all rows of the table; rows that are free have no NSM.
    #[inline]
    pub fn rows(&mut self, set: u8) -> (Option<&mut Peer>, &mut [Socket]) {
        let set = self.sets.get_mut(set as usize).and_then(Option::as_mut);
        (set, &mut self.sockets)
    }

    /// Takes a number for a socket; `None`: it is in use, or no number of a socket, or there are as
    /// many as the tenant may have.
    pub fn open(&mut self, number: u32, nsm: u8, set: u8, at_nsm: u32) -> Option<()> {
        let at = number as usize;
        let most = self.limits.sockets.map_or(SOCKETS, |n| n as usize);
        if at >= SOCKETS || self.used >= most || self.socket(number).is_some() {
            return None;
        }
        if at >= self.sockets.len() {
            self.sockets.resize(at + 1, FREE);
            self.addresses.resize(at + 1, Addresses::default());
        }
        self.sockets[at] = Socket {
            nsm,
            set,
            number: at_nsm,
            ..FREE
        };
        self.addresses[at] = Addresses::default();
        self.used += 1;
        Some(())
    }

    /// Where a socket is.
    pub fn addresses(&mut self, number: u32) -> Option<&mut Addresses> {
        self.addresses.get_mut(number as usize)
    }

    /// Frees a socket's number.
    pub fn free(&mut self, number: u32) {
        if let Some(socket) = self.socket(number) {
            *socket = FREE;
            self.used -= 1;
            self.listeners.remove(&number);
            self.bound.remove(&number);
        }
    }

    /// The numbers of the sockets for which something holds.
    pub fn sockets_that(&self, holds: impl Fn(&Socket) -> bool) -> Vec<u32> {
        let all = self.sockets.iter().enumerate();
        all.filter(|(_, socket)| socket.nsm != NO_NSM && holds(socket))
            .map(|(number, _)| number as u32)
            .collect()
    }

    /// The sockets whose numbers are not below this.
    pub fn sockets_from(&self, from: u32) -> impl Iterator<Item = (u32, &Socket, &Addresses)> {
        let all = self.sockets.iter().zip(&self.addresses).enumerate();
        all.skip(from as usize)
            .filter(|(_, (socket, _))| socket.nsm != NO_NSM)
            .map(|(number, (socket, addresses))| (number as u32, socket, addresses))
    }

    /// Delivers an element to the process that it is for.
    #[inline]
    pub fn deliver(&mut self, nqe: Nqe) {
        if let Some(tracing) = &mut self.tracing {
            tracing.answer(&nqe);
        }
        let set = self.set_for(&nqe);
        match self.sets.get_mut(set as usize).and_then(Option::as_mut) {
            Some(set) => set.push(nqe),
            None => self.orphans.push_back(nqe),
        }
    }

    /// Delivers an answer to the process that asked, if it is there.
    #[inline]
    pub fn deliver_to(&mut self, set: u8, nqe: Nqe) {
        if let Some(tracing) = &mut self.tracing {
            tracing.answer(&nqe);
        }
        match self.sets.get_mut(set as usize).and_then(Option::as_mut) {
            Some(set) => set.push(nqe),
            None => self.deliver(nqe),
        }
    }

    fn set_for(&mut self, nqe: &Nqe) -> u8 {
        let lives =
            |sets: &[Option<Peer>], set: u8| sets.get(set as usize).is_some_and(Option::is_some);
        let answer = matches!(nqe.operation, operation::RESULT | operation::SENT);
        if answer && lives(&self.sets, nqe.queue_set) {
            return nqe.queue_set;
        }
        if nqe.operation == operation::INCOMING
            && let Some(listener) = self.listeners.get_mut(&nqe.socket)
            && !listener.acceptors.is_empty()
        {
            listener.turn = (listener.turn + 1) % listener.acceptors.len();
            return listener.acceptors[listener.turn];
        }
        match self.socket(nqe.socket).map_or(NO_SET, |socket| socket.set) {
            // What is no socket's any more, but every process's: chunks and numbers.
            NO_SET if nqe.operation == operation::CLOSED && lives(&self.sets, nqe.queue_set) => {
                nqe.queue_set
            }
            NO_SET if answer || nqe.operation == operation::CLOSED => {
                self.live.first().copied().unwrap_or(NO_SET)
            }
            set => set,
        }
    }

    /// A queue set takes over a socket.
    pub fn attach(&mut self, number: u32, set: u8) -> Result<(), Errno> {
        let socket = self.socket(number).ok_or(Errno::BADF)?;
        let before = std::mem::replace(&mut socket.set, set);
        // The process takes over what is in the ring of the one before when it is answered.
        let mut its = match self.sets.get_mut(before as usize).and_then(Option::as_mut) {
            Some(other) if before != set => {
                let ring = &mut other.sides.deliveries;
                // The next flush finds a ring that cannot be believed again, and ends its process.
                let taken = other.outbox.take_of(ring, &other.bell, number);
                taken.unwrap_or_default()
            }
            _ => VecDeque::new(),
        };
        if let Some(listener) = self.listeners.get_mut(&number)
            && !listener.acceptors.contains(&set)
        {
            listener.acceptors.push(set);
        }
        let (orphans, others): (VecDeque<_>, _) = std::mem::take(&mut self.orphans)
            .into_iter()
            .partition(|nqe| nqe.socket == number);
        self.orphans = others;
        its.extend(orphans);
        its.into_iter().for_each(|nqe| self.deliver(nqe));
        Ok(())
    }

    /// Lets bytes count against the limit.
    #[inline]
    pub fn charge(&mut self, bytes: u64) {
        if self.limits.bytes_per_second.is_some() {
            self.limiter.charge(bytes);
        }
    }

    /// Whether a limited tenant has to wait.
    #[inline]
    pub fn overdrawn(&self) -> bool {
        self.limiter.overdrawn()
    }

    /// How long a limited tenant has to wait; `None`: not at all.
    pub fn waits(&mut self, now: Instant) -> Option<Duration> {
        self.limiter.waits(self.limits.bytes_per_second?, now)
    }

    /// Has other limits hold from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.limiter = Limiter::new();
    }
}
