//! The state of a socket, in memory that all processes of the tenant share. CoreEngine never reads
//! it. What changes it holds the cell's lock; what only asks whether the socket is ready reads the
//! atomics without.

use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use abi::nqe::Nqe;
use abi::tenant::{RECEIVE_WINDOW, SEND_WINDOW};

use crate::lock::Lock;

/// What a socket is doing.
pub mod state {
    pub const FREE: u32 = 0;
    pub const IDLE: u32 = 1;
    pub const LISTENING: u32 = 2;
    pub const CONNECTING: u32 = 3;
    pub const CONNECTED: u32 = 4;
    pub const CLOSING: u32 = 5;
}

/// Bits of [`Cell::flags`].
pub mod flag {
    /// The peer sends no more, or the connection is broken.
    pub const END: u32 = 1;
    pub const SHUT_READ: u32 = 2;
    pub const SHUT_WRITE: u32 = 4;
    /// O_NONBLOCK, of all the socket's descriptors.
    pub const NONBLOCK: u32 = 8;
    /// The socket's life is that of its kernel descriptor: see [`process`](crate::process).
    pub const SHARED: u32 = 16;
    /// The connection broke by an error.
    pub const FAILED: u32 = 32;
    /// No chunk, or no slot of the ring, was free at the last send.
    pub const STARVED: u32 = 64;
    /// Bound by the application.
    pub const BOUND: u32 = 128;
    /// A connect without waiting has an outcome that connect or SO_ERROR have not told yet.
    pub const CONNECT_OUTCOME: u32 = 256;
}

/// States of the answer to a request.
pub mod answer {
    pub const NONE: u32 = 0;
    pub const PENDING: u32 = 1;
    pub const HERE: u32 = 2;
}

/// Poll and epoll have the same numbers for their events.
pub mod event {
    pub const IN: u32 = 0x1;
    pub const OUT: u32 = 0x4;
    pub const ERR: u32 = 0x8;
    pub const HUP: u32 = 0x10;
    pub const RDNORM: u32 = 0x40;
    pub const WRNORM: u32 = 0x100;
    pub const RDHUP: u32 = 0x2000;
    pub const READ: u32 = IN | RDNORM;
    pub const WRITE: u32 = OUT | WRNORM;
    /// Told though not asked for.
    pub const ALWAYS: u32 = ERR | HUP;
}

/// A socket with fewer chunks than this at the NSM is ready for writing.
pub const WRITABLE: u32 = SEND_WINDOW as u32 * 3 / 4;
/// Options whose values a cell keeps.
const OPTIONS: usize = 16;
const RECEIVED: usize = RECEIVE_WINDOW;

/// An address; all zeros is none.
#[repr(C)]
pub struct SharedAddress {
    data: AtomicU64,
    offset: AtomicU64,
    tail: AtomicU64,
}

impl SharedAddress {
    pub fn set(&self, address: Option<SocketAddr>) {
        let nqe = Nqe::new(0, 0);
        let nqe = address.map_or(nqe, |address| nqe.with_address(address));
        self.data.store(nqe.data, Ordering::Relaxed);
        self.offset.store(nqe.offset, Ordering::Relaxed);
        self.tail.store(
            u64::from(nqe.len) | u64::from(nqe.extra) << 32,
            Ordering::Release,
        );
    }

    pub fn get(&self) -> Option<SocketAddr> {
        let tail = self.tail.load(Ordering::Acquire);
        let nqe = Nqe {
            data: self.data.load(Ordering::Relaxed),
            offset: self.offset.load(Ordering::Relaxed),
            len: tail as u32,
            extra: (tail >> 32) as u32,
            ..Nqe::default()
        };
        nqe.address()
    }
}

/// One socket.
#[repr(C, align(64))]
pub struct Cell {
    pub lock: Lock,
    pub state: AtomicU32,
    /// See [`flag`].
    pub flags: AtomicU32,
    /// The error of SO_ERROR; 0: none.
    pub error: AtomicU32,
    /// Why no NSM has the socket, or has it as it was; 0: one has.
    pub unmade: AtomicU32,
    /// Times that the number has been freed.
    pub generation: AtomicU32,
    /// The queue set that its answers come by, plus one.
    pub owner: AtomicU32,
    /// The CoreEngine that knows it (see [`Welcome`](abi::tenant::Welcome)); 0: none yet.
    pub engine: AtomicU32,
    /// What listen was asked for.
    pub backlog: AtomicU32,
    /// AF_INET or AF_INET6.
    pub domain: AtomicU32,
    /// SOCK_STREAM or SOCK_DGRAM.
    pub kind: AtomicU32,
    pub protocol: AtomicU32,

    /// Chunks received: given back below `returned`, read out below `head`, received below `tail`.
    pub returned: AtomicU32,
    pub head: AtomicU32,
    pub tail: AtomicU32,
    /// Bytes read out of the first chunk.
    pub offset: AtomicU32,
    /// Bytes that wait to be read.
    pub received_bytes: AtomicU32,
    /// Chunks with the NSM to be sent.
    pub in_flight: AtomicU32,
    /// The accept queue of a listening socket, by its number plus one.
    pub queue: AtomicU32,
    /// Options sent whose results have not come.
    pub options_pending: AtomicU32,

    /// Held by the thread whose request waits for its answer.
    pub request: Lock,
    /// The operation that is asked for.
    pub asked: AtomicU32,
    /// See [`answer`].
    pub answer: AtomicU32,
    pub answer_error: AtomicU32,
    pub answer_len: AtomicU32,
    pub answer_address: SharedAddress,
    pub local: SharedAddress,
    pub peer: SharedAddress,

    /// SO_RCVTIMEO and SO_SNDTIMEO in microseconds; 0: none.
    pub receive_timeout: AtomicU64,
    pub send_timeout: AtomicU64,
    /// SO_LINGER: seconds plus one; 0: off.
    pub linger: AtomicU32,
    options: [AtomicU64; OPTIONS],
    received: [AtomicU64; RECEIVED],
}

const _: () = assert!(size_of::<Cell>() <= 1024);

/// A chunk of payload received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub offset: u32,
    pub len: u32,
    /// The datagram goes on in the next chunk.
    pub more: bool,
}

/// Of the length of a chunk in its word: the datagram goes on.
const GOES_ON: u32 = 1 << 31;

impl Cell {
    /// Begins a new socket in a free cell.
    pub fn start(&self, domain: u32, kind: u32, protocol: u32, owner: u32, flags: u32) {
        for word in [
            &self.error,
            &self.unmade,
            &self.engine,
            &self.backlog,
            &self.returned,
            &self.head,
            &self.tail,
            &self.offset,
            &self.received_bytes,
            &self.in_flight,
            &self.queue,
            &self.options_pending,
            &self.answer,
            &self.linger,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        self.receive_timeout.store(0, Ordering::Relaxed);
        self.send_timeout.store(0, Ordering::Relaxed);
        self.local.set(None);
        self.peer.set(None);
        for option in &self.options {
            option.store(0, Ordering::Relaxed);
        }
        self.domain.store(domain, Ordering::Relaxed);
        self.kind.store(kind, Ordering::Relaxed);
        self.protocol.store(protocol, Ordering::Relaxed);
        self.owner.store(owner, Ordering::Relaxed);
        self.flags.store(flags, Ordering::Relaxed);
        self.state.store(state::IDLE, Ordering::Release);
    }

    /// Has an accepted connection's options be its listening socket's.
    pub fn inherit(&self, from: &Cell) {
        for (to, from) in [
            (&self.receive_timeout, &from.receive_timeout),
            (&self.send_timeout, &from.send_timeout),
        ]
        .into_iter()
        .chain(self.options.iter().zip(&from.options))
        {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.linger
            .store(from.linger.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub fn is(&self, state: u32) -> bool {
        self.state.load(Ordering::Acquire) == state
    }

    pub fn has(&self, flags: u32) -> bool {
        self.flags.load(Ordering::Acquire) & flags != 0
    }

    pub fn set(&self, flags: u32) {
        self.flags.fetch_or(flags, Ordering::AcqRel);
    }

    pub fn unset(&self, flags: u32) {
        self.flags.fetch_and(!flags, Ordering::AcqRel);
    }

    pub fn is_stream(&self) -> bool {
        self.kind.load(Ordering::Relaxed) == libc::SOCK_STREAM as u32
    }

    /// An address as the application sees it: an IPv4 address of an IPv6 socket is a mapped one.
    pub fn seen(&self, address: SocketAddr) -> SocketAddr {
        match address.ip() {
            IpAddr::V4(ip) if self.domain.load(Ordering::Relaxed) == libc::AF_INET6 as u32 => {
                SocketAddr::new(ip.to_ipv6_mapped().into(), address.port())
            }
            _ => address,
        }
    }

    /// Takes the error that waits, as SO_ERROR does.
    pub fn take_error(&self) -> u32 {
        if self.error.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.error.swap(0, Ordering::AcqRel)
    }

    /// Why a listening or a datagram socket has nothing to wait for any more: the NSM's error; 0: it has.
    pub fn lost(&self) -> u32 {
        match self.is_stream() && !self.is(state::LISTENING) {
            true => 0,
            false => self.unmade.load(Ordering::Acquire),
        }
    }

    /// The error that a call ends with: one that waits, or the one that stays.
    pub fn failure(&self) -> u32 {
        match self.take_error() {
            0 => self.lost(),
            error => error,
        }
    }

    /// Adds a received chunk. False: more than the window.
    pub fn receive(&self, chunk: Chunk) -> bool {
        let tail = self.tail.load(Ordering::Relaxed);
        if tail.wrapping_sub(self.returned.load(Ordering::Relaxed)) as usize >= RECEIVED {
            return false;
        }
        let len = chunk.len | if chunk.more { GOES_ON } else { 0 };
        self.received[tail as usize % RECEIVED].store(
            u64::from(chunk.offset) | u64::from(len) << 32,
            Ordering::Relaxed,
        );
        self.received_bytes.fetch_add(chunk.len, Ordering::Relaxed);
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        true
    }

    /// Drops what was received: its chunks are the NSM's no more.
    pub fn drop_received(&self) {
        let tail = self.tail.load(Ordering::Relaxed);
        self.head.store(tail, Ordering::Release);
        self.returned.store(tail, Ordering::Relaxed);
        self.offset.store(0, Ordering::Relaxed);
        self.received_bytes.store(0, Ordering::Relaxed);
    }

    /// The chunk at a cursor.
    pub fn chunk(&self, at: u32) -> Chunk {
        let word = self.received[at as usize % RECEIVED].load(Ordering::Relaxed);
        Chunk {
            offset: word as u32,
            len: (word >> 32) as u32 & !GOES_ON,
            more: (word >> 32) as u32 & GOES_ON != 0,
        }
    }

    /// How many chunks the next datagram has; none: it is not there, or not all of it.
    pub fn datagram_chunks(&self) -> Option<u32> {
        let head = self.head.load(Ordering::Relaxed);
        let there = self.tail.load(Ordering::Acquire).wrapping_sub(head);
        let last = (0..there).find(|&at| !self.chunk(head.wrapping_add(at)).more)?;
        Some(last + 1)
    }

    /// Whether chunks wait to be read.
    pub fn readable(&self) -> bool {
        self.head.load(Ordering::Relaxed) != self.tail.load(Ordering::Acquire)
    }

    /// The value of an option that was kept.
    pub fn option(&self, level: u32, name: u32) -> Option<u32> {
        let key = option_key(level, name);
        let found = self
            .options
            .iter()
            .find(|slot| (slot.load(Ordering::Relaxed) >> 32) as u32 == key)?;
        Some(found.load(Ordering::Relaxed) as u32)
    }

    /// The options that were kept: level, name and value of each.
    pub fn kept_options(&self) -> impl Iterator<Item = (u32, u32, u32)> {
        let words = self.options.iter().map(|slot| slot.load(Ordering::Relaxed));
        words.filter(|&word| word != 0).map(|word| {
            let key = (word >> 32) as u32;
            (key << 1 >> 17, key & 0xffff, word as u32)
        })
    }

    /// Keeps an option's value. What finds no room is asked of the NSM again.
    pub fn keep_option(&self, level: u32, name: u32, value: u32) {
        let key = option_key(level, name);
        let slot = self.options.iter().find(|slot| {
            let word = slot.load(Ordering::Relaxed);
            word == 0 || (word >> 32) as u32 == key
        });
        if let Some(slot) = slot {
            slot.store(u64::from(key) << 32 | u64::from(value), Ordering::Relaxed);
        }
    }

    /// The events that the socket is ready for. `accepts`: a connection waits in the accept queue;
    /// `sends`: a chunk to send from is free.
    pub fn readiness(&self, accepts: bool, sends: bool) -> u32 {
        if self.lost() != 0 {
            return event::READ | event::WRITE | event::ALWAYS;
        }
        let flags = self.flags.load(Ordering::Acquire);
        let stream = self.is_stream();
        let mut ready = 0;
        if self.error.load(Ordering::Relaxed) != 0 {
            ready |= event::ERR;
        }
        if self.readable() || flags & (flag::END | flag::SHUT_READ) != 0 {
            ready |= event::READ;
        }
        let open = self.in_flight.load(Ordering::Relaxed) < WRITABLE
            && (flags & flag::STARVED == 0 || sends);
        match self.state.load(Ordering::Acquire) {
            state::LISTENING => return if accepts { ready | event::READ } else { ready },
            state::CONNECTING => return ready,
            state::IDLE if stream => ready |= event::WRITE | event::HUP,
            state::FREE | state::CLOSING => ready |= event::HUP | event::ERR,
            _ if open || flags & (flag::SHUT_WRITE | flag::FAILED) != 0 => ready |= event::WRITE,
            _ => {}
        }
        if stream {
            let ended = flags & (flag::END | flag::SHUT_READ) != 0;
            if ended {
                ready |= event::RDHUP;
            }
            if ended && flags & flag::SHUT_WRITE != 0 || flags & flag::FAILED != 0 {
                ready |= event::HUP;
            }
        }
        ready
    }
}

/// One key for level and name, never 0.
fn option_key(level: u32, name: u32) -> u32 {
    level << 16 | name & 0xffff | 1 << 31
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn cell() -> Box<Cell> {
        // SAFETY: only atomics in it, for which zeros are a value.
        let cell: Box<Cell> = unsafe { Box::new_zeroed().assume_init() };
        cell.start(libc::AF_INET as u32, libc::SOCK_STREAM as u32, 0, 1, 0);
        cell
    }

    proptest! {
        /// The ring of received chunks is a queue that holds at most the window, chunks read out and
        /// not given back included.
        #[test]
        fn received_chunks_are_a_queue(steps in proptest::collection::vec(0..4u8, 0..400)) {
            let cell = cell();
            let (mut queue, mut lag, mut next) = (VecDeque::new(), 0usize, 0u32);
            for step in steps {
                match step {
                    0 | 1 => {
                        let chunk = Chunk { offset: next * 8192, len: 1 + next % 8192, more: next % 3 == 0 };
                        let room = queue.len() + lag < RECEIVED;
                        prop_assert_eq!(cell.receive(chunk), room);
                        if room {
                            queue.push_back(chunk);
                        }
                        next += 1;
                    }
                    2 => if let Some(chunk) = queue.pop_front() {
                        let head = cell.head.load(Ordering::Relaxed);
                        prop_assert_eq!(cell.chunk(head), chunk);
                        cell.head.store(head.wrapping_add(1), Ordering::Relaxed);
                        lag += 1;
                    },
                    _ => {
                        cell.returned.store(cell.head.load(Ordering::Relaxed), Ordering::Relaxed);
                        lag = 0;
                    }
                }
                prop_assert_eq!(cell.readable(), !queue.is_empty());
            }
        }

        #[test]
        fn an_option_is_read_as_kept(name in 0..100u32, value: u32, other: u32) {
            let cell = cell();
            prop_assert_eq!(cell.option(1, name), None);
            cell.keep_option(1, name, other);
            cell.keep_option(6, name, other);
            cell.keep_option(1, name, value);
            prop_assert_eq!(cell.option(1, name), Some(value));
            prop_assert_eq!(cell.option(6, name), Some(other));
            let kept: Vec<_> = cell.kept_options().collect();
            prop_assert_eq!(kept, [(1, name, value), (6, name, other)]);
        }
    }

    #[test]
    fn readiness_follows_the_kernels_sockets() {
        let cell = cell();
        assert_eq!(cell.readiness(false, true), event::WRITE | event::HUP);
        cell.state.store(state::CONNECTING, Ordering::Relaxed);
        assert_eq!(cell.readiness(false, true), 0);
        cell.state.store(state::CONNECTED, Ordering::Relaxed);
        assert_eq!(cell.readiness(false, true), event::WRITE);
        cell.in_flight.store(WRITABLE, Ordering::Relaxed);
        assert_eq!(cell.readiness(false, true), 0);
        cell.set(flag::END);
        assert_eq!(cell.readiness(false, true), event::READ | event::RDHUP);
        cell.set(flag::SHUT_WRITE);
        let all = event::READ | event::RDHUP | event::WRITE | event::HUP;
        assert_eq!(cell.readiness(false, true), all);
        cell.state.store(state::LISTENING, Ordering::Relaxed);
        cell.flags.store(0, Ordering::Relaxed);
        assert_eq!(cell.readiness(false, true), 0);
        assert_eq!(cell.readiness(true, true), event::READ);
        cell.unmade.store(libc::ENETDOWN as u32, Ordering::Relaxed);
        let all = event::READ | event::WRITE | event::ALWAYS;
        assert_eq!(cell.readiness(false, true), all);
        assert_eq!([cell.failure(); 2], [libc::ENETDOWN as u32; 2]);
    }

    #[test]
    fn an_address_is_read_as_set() {
        let cell = cell();
        assert_eq!(cell.peer.get(), None);
        let address = "[fe80::1%7]:80".parse().unwrap();
        cell.peer.set(Some(address));
        assert_eq!(cell.peer.get(), Some(address));
    }
}
