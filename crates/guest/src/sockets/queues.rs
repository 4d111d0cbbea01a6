//! The guest's sides of its queue set, and the chunks that it sends from.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use abi::SharedBytes;
use abi::nqe::Nqe;
use abi::ring::{Consumer, Producer};
use abi::tenant::{CHUNK_BYTES, PayloadFile, QueueFile, SEND_CHUNKS, SLOTS};

use super::Surroundings;

/// Chunks that a guest sends from: 4 MiB of the host's memory, once they were used.
const CHUNKS: usize = 512;
/// No socket.
const NONE: u32 = u32::MAX;

const _: () = assert!(CHUNKS <= SEND_CHUNKS);

/// The rings and the payload.
pub(super) struct Queues {
    submissions: Producer<Nqe>,
    deliveries: Consumer<Nqe>,
    payload: PayloadFile,
    /// Elements in the ring that are not published.
    put: u32,
    /// What did not fit.
    waiting: VecDeque<Nqe>,
    /// Chunks that are free; the last is taken next, as it may still be in the cache.
    free: Vec<u16>,
    /// The socket that each chunk is sent by, or [`NONE`].
    senders: Vec<u32>,
    pub(super) surroundings: Box<dyn Surroundings>,
}

impl Queues {
    /// # Safety
    /// Nothing else in the guest uses the process's sides of queue set 0.
    pub(super) unsafe fn open(
        queues: QueueFile,
        payload: PayloadFile,
        surroundings: Box<dyn Surroundings>,
    ) -> Queues {
        // SAFETY: the caller's promise.
        let (submissions, deliveries) = unsafe { queues.user(0) };
        Queues {
            submissions,
            deliveries,
            payload,
            put: 0,
            waiting: VecDeque::new(),
            free: (0..CHUNKS as u16).rev().collect(),
            senders: vec![NONE; CHUNKS],
            surroundings,
        }
    }

    /// Puts an element behind the others.
    pub(super) fn submit(&mut self, nqe: Nqe) {
        let room = self.submissions.free(self.put + 1).unwrap_or(0) > self.put;
        if room && self.waiting.is_empty() {
            self.submissions.fill(self.put, nqe);
            self.put += 1;
        } else {
            self.waiting.push_back(nqe);
        }
    }

    /// Publishes what was put, and wakes CoreEngine if it sleeps.
    pub(super) fn flush(&mut self) {
        if !self.waiting.is_empty() {
            let room = self.submissions.free(SLOTS).unwrap_or(0);
            let more = room.saturating_sub(self.put) as usize;
            for nqe in self.waiting.drain(..more.min(self.waiting.len())) {
                self.submissions.fill(self.put, nqe);
                self.put += 1;
            }
        }
        if self.put > 0 {
            self.submissions.publish(self.put);
            self.put = 0;
            if self.submissions.take_consumer_sleeper().is_some() {
                self.surroundings.ring();
            }
        }
    }

    /// The next element that was delivered.
    pub(super) fn delivered(&mut self) -> Option<Nqe> {
        if self.deliveries.filled(1).unwrap_or(0) == 0 {
            return None;
        }
        let nqe = self.deliveries.peek(0);
        self.deliveries.release(1);
        Some(nqe)
    }

    /// Has CoreEngine wake the guest for what it delivers, and for room if something waits for it.
    pub(super) fn set_sleeps(&self) {
        self.deliveries.set_sleeps(true);
        if !self.waiting.is_empty() {
            self.submissions.set_sleeps(true);
        }
    }

    /// Whether more can be sent.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.is_empty() && !self.free.is_empty()
    }

    /// The bytes of a payload; `None`: they are not inside one chunk.
    pub(super) fn payload(&self, offset: u64, len: u32) -> Option<SharedBytes> {
        self.payload.bytes(offset, len)
    }

    /// Takes a chunk for a socket to send from: its offset and its bytes.
    pub(super) fn take_chunk(&mut self, socket: u32) -> Option<(u64, SharedBytes)> {
        let chunk = self.free.pop()?;
        let offset = u64::from(chunk) * CHUNK_BYTES as u64;
        self.senders[usize::from(chunk)] = socket;
        Some((offset, self.payload.bytes(offset, CHUNK_BYTES as u32)?))
    }

    /// Takes a chunk back from a socket; `false`: the socket does not have it.
    pub(super) fn free_chunk(&mut self, socket: u32, offset: u64) -> bool {
        let chunk = usize::try_from(offset).unwrap_or(usize::MAX) / CHUNK_BYTES;
        match self.senders.get_mut(chunk) {
            Some(sender) if *sender == socket => {
                *sender = NONE;
                self.free.push(chunk as u16);
                true
            }
            _ => false,
        }
    }

    /// Takes all chunks of a socket back.
    pub(super) fn free_chunks(&mut self, socket: u32) {
        for chunk in 0..self.senders.len() {
            if self.senders[chunk] == socket {
                self.senders[chunk] = NONE;
                self.free.push(chunk as u16);
            }
        }
    }
}
