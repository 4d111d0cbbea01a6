//! A tenant: its files, its processes' queue sets, its sockets.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abi::nqe::{DATAGRAM_TYPE, DatagramHead, MORE, Nqe, STREAM, operation};
use abi::tenant::{PAYLOAD_FILE_BYTES, QUEUE_FILE_BYTES, SETS, SOCKETS};
use rustix::io::Errno;

use super::limiter::Limiter;
use super::peer::Peer;
use super::trace::Tracing;
use super::worker::WorkerId;
use crate::protocol::{Limits, Token};
use crate::sys::{self, Queues};

/// No queue set.
pub(crate) const NO_SET: u8 = u8::MAX;
/// No NSM.
pub(crate) const NO_NSM: u8 = u8::MAX;
/// NSMs that may have a tenant's sockets at a time; each has its share of the receive chunks.
pub(crate) const NSMS_OF_TENANT: usize = 4;

/// Within this time, the processes that ran at an earlier CoreEngine return.
const RETURN: Duration = Duration::from_secs(5);

/// A tenant's row of the connection table.
#[derive(Clone, Copy)]
pub(crate) struct Socket {
    /// The NSM; [`NO_NSM`]: the number is free.
    pub nsm: u8,
    /// The NSM's worker.
    pub worker: u8,
    /// The queue set that its events go to; [`NO_SET`]: they wait for a process that attaches.
    pub set: u8,
    /// It is being closed: nothing more is taken from the tenant.
    pub closing: bool,
    /// Its NSM is gone, and the connection with it.
    pub failed: bool,
    /// Ends of shared descriptors.
    pub shares: u32,
    /// Its number at the worker.
    pub number: u32,
    /// Bytes sent and received.
    pub sent: u64,
    pub received: u64,
    /// The next element about payload sent, or received, goes on with a datagram.
    sends_on: bool,
    receives_on: bool,
}

impl Socket {
    /// The bytes of payload of an element that sends: a datagram's first has its head, too.
    #[inline]
    pub fn count_sent(&mut self, nqe: &Nqe) -> u64 {
        let bytes = match nqe.operation {
            operation::SEND_TO => without_head(&mut self.sends_on, nqe),
            _ => nqe.len,
        };
        self.sent += u64::from(bytes);
        bytes.into()
    }

    /// As [`count_sent`](Self::count_sent), of one that was received.
    #[inline]
    pub fn count_received(&mut self, nqe: &Nqe) -> u64 {
        let bytes = match nqe.operation {
            operation::DATAGRAM => without_head(&mut self.receives_on, nqe),
            _ => nqe.len,
        };
        self.received += u64::from(bytes);
        bytes.into()
    }

    /// Who serves it.
    #[inline]
    pub fn at(&self) -> WorkerId {
        WorkerId {
            nsm: self.nsm,
            worker: self.worker,
        }
    }

    /// It has this number at a worker that makes it again.
    pub fn restore(&mut self, worker: u8, number: u32) {
        self.failed = false;
        (self.worker, self.number) = (worker, number);
        (self.sends_on, self.receives_on) = (false, false);
    }
}

fn without_head(goes_on: &mut bool, nqe: &Nqe) -> u32 {
    match std::mem::replace(goes_on, nqe.flags & MORE != 0) {
        true => nqe.len,
        false => nqe.len.saturating_sub(DatagramHead::LEN as u32),
    }
}

/// Where a socket is, as far as CoreEngine has seen it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Addresses {
    pub local: Option<SocketAddr>,
    pub peer: Option<SocketAddr>,
}

const FREE: Socket = Socket {
    nsm: NO_NSM,
    worker: 0,
    set: NO_SET,
    closing: false,
    failed: false,
    shares: 0,
    number: 0,
    sent: 0,
    received: 0,
    sends_on: false,
    receives_on: false,
};

/// The files of a tenant. CoreEngine makes them, and the operator keeps them for the next CoreEngine: a
/// tenant, which may write to them, has no part in which files they are.
pub(crate) struct Files {
    pub queue_file: OwnedFd,
    pub queues: Arc<Queues>,
    pub payload_file: OwnedFd,
    /// A process has used them since they were empty.
    pub used: bool,
    /// When they were inherited: processes that have yet to return may have their sockets in them.
    inherited: Option<Instant>,
    /// The queue sets of these.
    awaited: [bool; SETS],
}

impl Files {
    /// New ones.
    pub fn make() -> Result<Files, Errno> {
        let queue_file = sys::memory_file("weir-sock-queues", QUEUE_FILE_BYTES)?;
        let payload_file = sys::memory_file("weir-sock-payload", PAYLOAD_FILE_BYTES)?;
        Files::open(queue_file, payload_file, None)
    }

    /// Those of an earlier CoreEngine.
    pub fn inherit(queue_file: OwnedFd, payload_file: OwnedFd) -> Result<Files, Errno> {
        if !sys::is_memory_file(&payload_file, PAYLOAD_FILE_BYTES) {
            return Err(Errno::INVAL);
        }
        Files::open(queue_file, payload_file, Some(Instant::now()))
    }

    fn open(
        queue_file: OwnedFd,
        payload_file: OwnedFd,
        inherited: Option<Instant>,
    ) -> Result<Files, Errno> {
        let queues = Arc::new(Queues::map(&queue_file, QUEUE_FILE_BYTES)?);
        queues.file().format();
        let mut awaited = [false; SETS];
        if inherited.is_some() {
            awaited = std::array::from_fn(|set| queues.file().is_taken(set));
        }
        Ok(Files {
            queue_file,
            queues,
            payload_file,
            used: false,
            inherited,
            awaited,
        })
    }

    /// Whether a process may be about to return.
    fn await_processes(&self) -> bool {
        let new = self.inherited.is_some_and(|at| at.elapsed() < RETURN);
        new && self.awaited.contains(&true)
    }

    /// Empties them, once no process uses them: pages that were written take no memory any more. Those of
    /// an earlier CoreEngine stay as they are.
    pub fn empty(&mut self) {
        self.used = false;
        if self.inherited.is_some() {
            return;
        }
        let emptied = sys::empty(&self.queue_file, QUEUE_FILE_BYTES)
            .and_then(|()| sys::empty(&self.payload_file, PAYLOAD_FILE_BYTES));
        self.queues.file().format();
        // What could not be emptied is of sockets that are gone; it only takes memory.
        let _ = emptied;
    }
}

/// The processes that take a listening socket's connections in turn, and how it was made.
#[derive(Default)]
pub(crate) struct Listener {
    pub acceptors: Vec<u8>,
    turn: usize,
    /// What has it listen again at an NSM that is back.
    pub listen: Nqe,
    /// At the NSM's other workers: the worker, and its number there.
    pub copies: Vec<(u8, u32)>,
    /// Its close, for its own worker once the copies are closed: the port is free when the tenant hears of it.
    pub close: Option<Nqe>,
}

pub(crate) struct Tenant {
    pub name: String,
    pub token: Token,
    /// The NSM of new sockets.
    pub nsm: u8,
    pub limits: Limits,
    pub files: Files,
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
    /// Datagram sockets, each with what made it, and what set its peer.
    pub datagrams: HashMap<u32, (Nqe, Option<Nqe>)>,
    /// What connects sockets that wait for an NSM.
    pub connecting: HashMap<u32, Nqe>,
    /// Events of sockets that no process has.
    pub orphans: VecDeque<Nqe>,
    /// The NSMs that know the tenant, by their part of the receive chunks.
    pub parts: [u8; NSMS_OF_TENANT],
    limiter: Limiter,
    pub sent: u64,
    pub received: u64,
    pub connections: u64,
    /// Sockets that were refused for a limit.
    pub refused: u64,
    pub violations: u64,
    /// What it does, while the operator asks.
    pub tracing: Option<Box<Tracing>>,
    /// The operator has removed it: its row is for the sockets that are being closed.
    pub removed: bool,
}

impl Tenant {
    pub fn new(name: String, token: Token, nsm: u8, limits: Limits, files: Files) -> Tenant {
        Tenant {
            name,
            token,
            nsm,
            limits,
            files,
            sets: (0..SETS).map(|_| None).collect(),
            live: Vec::new(),
            sockets: Vec::new(),
            addresses: Vec::new(),
            used: 0,
            listeners: HashMap::new(),
            bound: HashMap::new(),
            datagrams: HashMap::new(),
            connecting: HashMap::new(),
            orphans: VecDeque::new(),
            parts: [NO_NSM; NSMS_OF_TENANT],
            limiter: Limiter::new(),
            sent: 0,
            received: 0,
            connections: 0,
            refused: 0,
            violations: 0,
            tracing: None,
            removed: false,
        }
    }

    /// Takes a queue set for a process: that which it had at an earlier CoreEngine, or one that no process
    /// may return to, if there is any.
    pub fn take_set(&mut self, returns_to: Option<u32>) -> Result<usize, Errno> {
        let free = |&set: &usize| self.sets.get(set).is_some_and(Option::is_none);
        let set = match returns_to {
            Some(set) => Some(set as usize).filter(free).ok_or(Errno::BUSY)?,
            None => {
                let mut all = (0..SETS).filter(free);
                let first = all.clone().next();
                let fresh = all.find(|&set| !self.files.awaited[set]);
                fresh.or(first).ok_or(Errno::USERS)?
            }
        };
        self.files.used = true;
        self.files.awaited[set] = false;
        self.files.queues.file().take(set, true);
        Ok(set)
    }

    /// Gives a queue set back, whose process has ended.
    pub fn free_set(&mut self, set: u8) -> Option<Peer> {
        let peer = self.sets.get_mut(set as usize)?.take()?;
        self.files.queues.file().take(set as usize, false);
        self.live.retain(|&live| live != set);
        for listener in self.listeners.values_mut() {
            listener.acceptors.retain(|&acceptor| acceptor != set);
        }
        Some(peer)
    }

    /// A socket in use.
    #[inline]
    pub fn socket(&mut self, number: u32) -> Option<&mut Socket> {
        let socket = self.sockets.get_mut(number as usize)?;
        (socket.nsm != NO_NSM).then_some(socket)
    }

    /// Whether it has a process or a socket.
    pub fn is_used(&self) -> bool {
        !self.live.is_empty() || self.used > 0 || self.files.await_processes()
    }

    /// A queue set, and all rows of the table; rows that are free have no NSM.
    #[inline]
    pub fn rows(&mut self, set: u8) -> (Option<&mut Peer>, &mut [Socket]) {
        let set = self.sets.get_mut(set as usize).and_then(Option::as_mut);
        (set, &mut self.sockets)
    }

    /// Takes a number for a socket; `None`: it is in use, or no number of a socket, or there are as
    /// many as the tenant may have.
    pub fn open(&mut self, number: u32, at: WorkerId, set: u8, at_worker: u32) -> Option<()> {
        let row = number as usize;
        let most = self.limits.sockets.map_or(SOCKETS, |n| n as usize);
        if row >= SOCKETS || self.used >= most || self.socket(number).is_some() {
            return None;
        }
        if row >= self.sockets.len() {
            self.sockets.resize(row + 1, FREE);
            self.addresses.resize(row + 1, Addresses::default());
        }
        self.sockets[row] = Socket {
            nsm: at.nsm,
            worker: at.worker,
            set,
            number: at_worker,
            ..FREE
        };
        self.addresses[row] = Addresses::default();
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
            self.datagrams.remove(&number);
            self.connecting.remove(&number);
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

    /// Delivers that a socket could not be made, bound or listened with, to all processes that wait for it.
    pub fn deliver_unmade(&mut self, nqe: Nqe) {
        let owner = self.socket(nqe.socket).map_or(NO_SET, |socket| socket.set);
        let listener = self.listeners.get(&nqe.socket);
        let mut sets = listener.map_or(Vec::new(), |listener| listener.acceptors.clone());
        if !sets.contains(&owner) {
            sets.push(owner);
        }
        for queue_set in sets {
            self.deliver_to(queue_set, Nqe { queue_set, ..nqe });
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

    /// Notes a new socket, if it is one of datagrams.
    pub fn note_datagrams(&mut self, made: Nqe) {
        if made.data == DATAGRAM_TYPE {
            self.datagrams.insert(made.socket, (made, None));
        }
    }

    /// Notes the address that a socket has got: a port that the NSM chose is asked for when it is restored.
    pub fn note_address(&mut self, result: Nqe) {
        let bind = self.bound.get(&result.socket).copied();
        match result.address() {
            Some(address) if result.error() == 0 => {
                let bind = bind.unwrap_or(Nqe::new(operation::BIND, result.socket));
                self.bound.insert(result.socket, bind.with_address(address));
            }
            _ if result.error() != 0 && result.flags == operation::BIND => {
                self.bound.remove(&result.socket);
            }
            _ => {}
        }
    }

    /// Whether a socket is bound, or listens.
    pub fn was(&self, operation: u8, socket: u32) -> bool {
        match operation {
            operation::BIND => self.bound.contains_key(&socket),
            _ => self.listeners.contains_key(&socket),
        }
    }

    /// What makes a socket again what it was; `None`: its connection is gone.
    pub fn making(&self, socket: u32) -> Option<Vec<Nqe>> {
        let bind = self.bound.get(&socket).copied();
        if let Some(&(made, peer)) = self.datagrams.get(&socket) {
            return Some([Some(made), bind, peer].into_iter().flatten().collect());
        }
        let connect = self.connecting.get(&socket);
        let last = match connect {
            Some(&connect) => connect,
            None => self.listeners.get(&socket)?.listen,
        };
        let family = bind.map_or(connect.map_or(4, Nqe::family), |bind| bind.family());
        let made = Nqe::new(operation::SOCKET, socket)
            .with_data(STREAM)
            .with_family(family);
        Some(
            [Some(made), bind, Some(last)]
                .into_iter()
                .flatten()
                .collect(),
        )
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
                let taken = other.outbox.take_of(ring, &other.waker, number);
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
