//! A producer's side of a ring, with what does not fit and the waker of its consumer.

use std::collections::VecDeque;

use abi::nqe::Nqe;
use abi::ring::{Producer, Violation};

use crate::sys::Waker;

/// Most elements that wait beside a full ring before no more are made for its consumer.
const WAITING_MAX: usize = 1 << 16;

/// Elements on their way into a ring.
#[derive(Default)]
pub(crate) struct Outbox {
    /// Filled slots that are not published.
    filled: u32,
    /// Slots known to be free, the filled ones among them.
    free: u32,
    /// What does not fit.
    waiting: VecDeque<Nqe>,
}

impl Outbox {
    /// Puts an element behind the others.
    #[inline]
    pub fn push(&mut self, ring: &mut Producer<Nqe>, nqe: Nqe) {
        if self.waiting.is_empty() && self.room(ring, 1) > 0 {
            self.put(ring, nqe);
        } else {
            self.waiting.push_back(nqe);
        }
    }

    /// Puts an element into the ring, which has [room](Self::room).
    #[inline]
    pub fn put(&mut self, ring: &mut Producer<Nqe>, nqe: Nqe) {
        ring.fill(self.filled, nqe);
        self.filled += 1;
    }

    /// How many more the ring takes. It is looked at only if fewer than `n` are known to fit.
    #[inline]
    pub fn room(&mut self, ring: &mut Producer<Nqe>, n: u32) -> u32 {
        if self.free < self.filled + n {
            // A consumer that lies about its cursor gets nothing more; `flush` tells.
            self.free = ring.free(abi::tenant::SLOTS).unwrap_or(self.filled);
        }
        self.free.saturating_sub(self.filled)
    }

    /// Whether so much waits that the consumer must catch up first.
    pub fn is_full(&self) -> bool {
        self.waiting.len() > WAITING_MAX
    }

    /// Whether something waits for the consumer.
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the ring was full at the last look.
    pub fn is_blocked(&self) -> bool {
        self.waits() || self.free == self.filled
    }

    /// Publishes what was put, and wakes a consumer that sleeps.
    #[inline]
    pub fn flush(&mut self, ring: &mut Producer<Nqe>, waker: &Waker) -> Result<(), Violation> {
        if !self.waiting.is_empty() {
            self.free = ring.free(abi::tenant::SLOTS)?;
            let more = self.free.saturating_sub(self.filled) as usize;
            for nqe in self.waiting.drain(..more.min(self.waiting.len())) {
                ring.fill(self.filled, nqe);
                self.filled += 1;
            }
        }
        if self.filled > 0 {
            ring.publish(self.filled);
            self.free = self.free.saturating_sub(self.filled);
            self.filled = 0;
            if ring.take_consumer_sleeper().is_some() {
                waker.wake();
            }
        }
        Ok(())
    }

    /// What waits of a socket, for another consumer. What is in the ring is published.
    pub fn take_of(
        &mut self,
        ring: &mut Producer<Nqe>,
        waker: &Waker,
        socket: u32,
    ) -> Result<VecDeque<Nqe>, Violation> {
        let all = std::mem::take(&mut self.waiting);
        let (its, others) = all.into_iter().partition(|nqe| nqe.socket == socket);
        self.flush(ring, waker)?;
        self.waiting = others;
        Ok(its)
    }

    /// What waits, for another consumer.
    pub fn take(&mut self) -> VecDeque<Nqe> {
        std::mem::take(&mut self.waiting)
    }
}
