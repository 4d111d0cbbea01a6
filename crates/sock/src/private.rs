//! The layout of the queue file's private memory: what the processes of a tenant share among
//! themselves. Zeros are its first state, so no process formats it.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use abi::nqe::Nqe;
use abi::tenant::{
    ACCEPT_QUEUE, CHUNK_BYTES, PRIVATE_BYTES, SEND_CHUNKS, SEND_WINDOW, SETS, SOCKETS,
};

use crate::cell::{Cell, state};
use crate::lock::Lock;
use crate::stack::Stack;

/// Most listening sockets of a tenant.
pub const LISTENERS: usize = 1024;

/// The locks of a queue set's rings.
#[repr(C, align(64))]
pub struct SetLocks {
    pub submit: Lock,
    pub deliver: Lock,
    /// Not 0: the deliver lock's holder is another process, which leaves other sockets' elements.
    pub adopting: AtomicU32,
}

/// Connections that wait to be accepted; the listening socket's lock guards it.
#[repr(C, align(64))]
pub struct AcceptQueue {
    head: AtomicU32,
    tail: AtomicU32,
    slots: [[AtomicU64; 4]; ACCEPT_QUEUE as usize],
}

impl AcceptQueue {
    pub fn clear(&self) {
        self.head.store(0, Ordering::Relaxed);
        self.tail.store(0, Ordering::Release);
    }

    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) == self.tail.load(Ordering::Acquire)
    }

    /// Adds a connection: INCOMING's `len`, with the peer's address. False: the queue is full.
    pub fn push(&self, incoming: Nqe) -> bool {
        let tail = self.tail.load(Ordering::Relaxed);
        if tail.wrapping_sub(self.head.load(Ordering::Relaxed)) >= ACCEPT_QUEUE {
            return false;
        }
        let slot = &self.slots[(tail % ACCEPT_QUEUE) as usize];
        for (word, value) in slot.iter().zip([
            u64::from(incoming.len),
            incoming.data,
            incoming.offset,
            u64::from(incoming.extra),
        ]) {
            word.store(value, Ordering::Relaxed);
        }
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        true
    }

    /// Takes the first connection; its address stands in the element, with no scope.
    pub fn pop(&self) -> Option<(u32, Nqe)> {
        if self.is_empty() {
            return None;
        }
        let head = self.head.load(Ordering::Relaxed);
        let slot = &self.slots[(head % ACCEPT_QUEUE) as usize];
        let [connection, data, offset, extra] = slot.each_ref().map(|w| w.load(Ordering::Relaxed));
        self.head.store(head.wrapping_add(1), Ordering::Release);
        let address = Nqe {
            data,
            offset,
            extra: extra as u32,
            ..Nqe::default()
        };
        Some((connection as u32, address))
    }
}

/// The private memory.
#[repr(C)]
pub struct Private {
    sockets: Stack,
    chunks: Stack,
    queues: Stack,
    /// Send chunks in use.
    chunks_taken: AtomicU32,
    pub sets: [SetLocks; SETS],
    socket_links: [AtomicU32; SOCKETS],
    chunk_links: [AtomicU32; SEND_CHUNKS],
    queue_links: [AtomicU32; LISTENERS],
    /// The socket that a chunk in use belongs to, plus one.
    chunk_owners: [AtomicU32; SEND_CHUNKS],
    cells: [Cell; SOCKETS],
    accept_queues: [AcceptQueue; LISTENERS],
}

const _: () = assert!(size_of::<Private>() <= PRIVATE_BYTES);

impl Private {
    /// The cell of a socket's number; `None`: there is no such number.
    #[inline]
    pub fn cell(&self, socket: u32) -> Option<&Cell> {
        self.cells.get(socket as usize)
    }

    pub fn take_socket(&self) -> Option<u32> {
        self.sockets.pop(&self.socket_links)
    }

    /// The cells whose numbers have been taken at some time.
    pub fn used_cells(&self) -> impl Iterator<Item = (u32, &Cell)> {
        let used = self.sockets.used() as usize;
        (0..).zip(&self.cells[..used.min(SOCKETS)])
    }

    pub fn free_socket(&self, socket: u32) {
        self.sockets.push(&self.socket_links, socket);
    }

    /// Takes the number of a socket that is closed out of use.
    pub fn retire(&self, socket: u32) {
        self.retire_if(socket, |_| true);
    }

    /// As [`retire`](Self::retire), if something holds of the socket.
    pub fn retire_if(&self, socket: u32, holds: impl Fn(&Cell) -> bool) {
        let Some(cell) = self.cell(socket) else {
            return;
        };
        let queue = {
            let _guard = cell.lock.lock();
            if cell.is(state::FREE) || !holds(cell) {
                return;
            }
            if cell.in_flight.swap(0, Ordering::AcqRel) != 0
                || cell.options_pending.swap(0, Ordering::AcqRel) != 0
            {
                self.free_chunks(socket);
            }
            cell.owner.store(0, Ordering::Release);
            cell.generation.fetch_add(1, Ordering::AcqRel);
            cell.state.store(state::FREE, Ordering::Release);
            cell.queue.swap(0, Ordering::AcqRel)
        };
        self.free_queue(queue);
        self.free_socket(socket);
    }

    /// Takes a chunk to send from, for a socket; its offset in the payload file.
    pub fn take_chunk(&self, socket: u32) -> Option<u64> {
        let chunk = self.chunks.pop(&self.chunk_links)?;
        self.chunks_taken.fetch_add(1, Ordering::Relaxed);
        self.chunk_owners[chunk as usize].store(socket + 1, Ordering::Relaxed);
        Some(u64::from(chunk) * CHUNK_BYTES as u64)
    }

    /// Frees the chunk at this offset. False, and no change: it is not in use by the socket.
    pub fn free_chunk(&self, socket: u32, offset: u64) -> bool {
        let chunk = (offset / CHUNK_BYTES as u64) as usize;
        let Some(owner) = self.chunk_owners.get(chunk) else {
            return false;
        };
        let mine = owner
            .compare_exchange(socket + 1, 0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        if mine {
            self.chunks_taken.fetch_sub(1, Ordering::Relaxed);
            self.chunks.push(&self.chunk_links, chunk as u32);
        }
        mine
    }

    /// Frees all chunks of a socket.
    pub fn free_chunks(&self, socket: u32) {
        for chunk in 0..self.chunks.used().min(SEND_CHUNKS as u32) {
            if self.chunk_owners[chunk as usize].load(Ordering::Relaxed) == socket + 1 {
                self.free_chunk(socket, u64::from(chunk) * CHUNK_BYTES as u64);
            }
        }
    }

    /// Most chunks that a socket may have with the NSM now. Less of a window when chunks run short, so that
    /// every socket can send something: a program may read of one socket only what it can send on
    /// another.
    pub fn send_window(&self) -> usize {
        match self.chunks_taken.load(Ordering::Relaxed) as usize * 8 / SEND_CHUNKS {
            0..4 => SEND_WINDOW,
            4..6 => 8,
            6 => 2,
            _ => 1,
        }
    }

    pub fn chunks_available(&self) -> bool {
        self.chunks.available(&self.chunk_links)
    }

    /// Takes an accept queue; its number plus one, for [`Cell::queue`].
    pub fn take_queue(&self) -> Option<u32> {
        let queue = self.queues.pop(&self.queue_links)?;
        self.accept_queues[queue as usize].clear();
        Some(queue + 1)
    }

    pub fn free_queue(&self, queue: u32) {
        if (1..=LISTENERS as u32).contains(&queue) {
            self.queues.push(&self.queue_links, queue - 1);
        }
    }

    /// The accept queue of a listening socket.
    pub fn queue(&self, cell: &Cell) -> Option<&AcceptQueue> {
        let queue = cell.queue.load(Ordering::Acquire).checked_sub(1)?;
        self.accept_queues.get(queue as usize)
    }

    /// The events that a socket is ready for.
    #[inline]
    pub fn readiness(&self, cell: &Cell) -> u32 {
        let accepts = self.queue(cell).is_some_and(|queue| !queue.is_empty());
        let in_flight = cell.in_flight.load(Ordering::Relaxed) as usize;
        cell.readiness(
            accepts,
            self.chunks_available() && in_flight < self.send_window(),
        )
    }
}

#[cfg(test)]
mod tests {
    use abi::nqe::operation::INCOMING;

    use super::*;

    fn private() -> Box<Private> {
        // SAFETY: only atomics in it, for which zeros are a value.
        unsafe { Box::new_zeroed().assume_init() }
    }

    #[test]
    fn a_chunk_is_freed_once_and_by_its_socket_only() {
        let private = private();
        let offset = private.take_chunk(7).unwrap();
        assert!(!private.free_chunk(8, offset));
        assert!(private.free_chunk(7, offset));
        assert!(!private.free_chunk(7, offset));
        assert!(!private.free_chunk(7, u64::MAX));
        assert_eq!(private.take_chunk(9), Some(offset));
    }

    #[test]
    fn a_closed_sockets_chunks_are_freed() {
        let private = private();
        let places: Vec<u64> = (0..SEND_CHUNKS)
            .map_while(|_| private.take_chunk(3))
            .collect();
        assert_eq!(places.len(), SEND_CHUNKS);
        assert!(!private.chunks_available());
        private.free_chunks(3);
        assert!(places.iter().all(|&offset| !private.free_chunk(3, offset)));
        assert!(private.chunks_available());
    }

    #[test]
    fn connections_are_accepted_in_the_order_of_their_arrival() {
        let private = private();
        let cell = private.cell(0).unwrap();
        cell.queue
            .store(private.take_queue().unwrap(), Ordering::Relaxed);
        let queue = private.queue(cell).unwrap();
        let address = "10.1.2.3:80".parse().unwrap();
        for connection in 0..ACCEPT_QUEUE {
            let mut incoming = Nqe::new(INCOMING, 0).with_address(address);
            incoming.len = connection;
            assert!(queue.push(incoming));
        }
        assert!(!queue.push(Nqe::new(INCOMING, 0)));
        for connection in 0..ACCEPT_QUEUE {
            let (got, from) = queue.pop().unwrap();
            assert_eq!((got, from.address()), (connection, Some(address)));
        }
        assert!(queue.pop().is_none());
    }
}
