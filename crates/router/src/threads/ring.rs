//! Handoff rings: how packets get from one thread to another.
//!
//! A push connection between elements of different threads is a ring with one producer and one
//! consumer. While it is nearly full, the sources that found a notifier behind it see that as a full
//! queue; and the consumer leaves packets in it while the queue behind it is full. So a source that
//! stops at a full queue loses nothing. Packets of other sources that find no room are dropped and
//! counted (the router's `thread_drops` handler), unless they are on their way to a blocking element:
//! then the sending thread keeps them, and does nothing else until the ring has taken them. Packets
//! leave such a ring even if a queue behind it is full, and a ring in a circle of
//! threads does not block, so that no thread waits for itself. The receiving thread is woken at the end
//! of a round, and only if it sleeps.

use alloc::collections::VecDeque;
use core::sync::atomic::{AtomicBool, Ordering, fence};

use rtrb::{Consumer, Producer, RingBuffer};

use crate::prelude::*;
use crate::scheduler::signal::{Signal, SignalId};
use crate::walk::numbers::EdgeId;

/// Capacity of a ring, in packets: that of the queue behind it, but at least the first and at most
/// the second number.
const SLOTS: (usize, usize) = (512, 1 << 16);
/// Free slots below which a ring counts as full.
const NEARLY_FULL: usize = 128;
/// Most packets that wait for room in a ring: the thread stops at the first, but what it is doing
/// then may send more.
const BACKLOG: usize = 1 << 16;
/// Most bursts that are taken from a ring in one round.
pub(crate) const BURSTS: usize = 4;

/// The end of a ring that packets enter by.
pub(crate) struct RingSender {
    /// The output edge that leads into it.
    pub edge: EdgeId,
    /// The thread it leads from, and the one it leads to.
    pub from: u16,
    pub to: u16,
    /// Signals of the other thread that say on this one whether the ring is full.
    pub signals: Vec<SignalId>,
    /// Packets that found no room.
    pub drops: u64,
    pub full: bool,
    /// Whether packets wait for room, up to [`BACKLOG`].
    pub blocking: bool,
    /// Packets that wait.
    backlog: VecDeque<Packet>,
    /// Packets were sent that the other thread may not have noticed.
    sent: bool,
    ring: Producer<Packet>,
    waits: Arc<AtomicBool>,
}

/// The end of a ring that they leave by.
pub(crate) struct RingReceiver {
    /// The edge behind it.
    pub edge: EdgeId,
    pub from: u16,
    pub to: u16,
    /// The element behind it.
    pub target: ElementId,
    /// Whether there is room behind it.
    pub signal: Signal,
    ring: Consumer<Packet>,
    waits: Arc<AtomicBool>,
}

/// A ring from output edge `edge` to `behind`, from one thread to another, whose element `target` has
/// room for `room` packets.
pub(crate) fn ring(
    (edge, behind): (EdgeId, EdgeId),
    (from, to): (u16, u16),
    target: ElementId,
    room: Option<usize>,
) -> (RingSender, RingReceiver) {
    let slots = room.unwrap_or(SLOTS.0).clamp(SLOTS.0, SLOTS.1);
    let (producer, consumer) = RingBuffer::new(slots);
    let waits = Arc::new(AtomicBool::new(false));
    let sender = RingSender {
        edge,
        from,
        to,
        signals: Vec::new(),
        drops: 0,
        full: false,
        blocking: false,
        backlog: VecDeque::new(),
        sent: false,
        ring: producer,
        waits: Arc::clone(&waits),
    };
    let receiver = RingReceiver {
        edge: behind,
        from,
        to,
        target,
        signal: Signal::busy(),
        ring: consumer,
        waits,
    };
    (sender, receiver)
}

impl RingSender {
    /// Sends packets, in order, as far as there is room; the others wait, or stay in the batch and
    /// count as dropped. Returns whether the ring has become full.
    pub fn send(&mut self, batch: &mut Batch) -> bool {
        let room = if self.flush() { 0 } else { self.ring.slots() };
        let n = batch.len().min(room);
        if let Ok(chunk) = self.ring.write_chunk_uninit(n)
            && n > 0
        {
            let mut burst = Batch::new();
            burst.append(batch, n);
            chunk.fill_from_iter(burst.drain());
            self.sent = true;
        }
        if self.blocking && !batch.is_empty() && self.backlog.len() < BACKLOG {
            self.backlog.extend(batch.drain());
        }
        self.drops += batch.len() as u64;
        let full = self.ring.slots() < NEARLY_FULL;
        if full {
            self.waits.store(true, Ordering::Relaxed);
        }
        full && !core::mem::replace(&mut self.full, true)
    }

    /// Sends packets that wait, as far as there is room; returns whether others still wait.
    pub fn flush(&mut self) -> bool {
        let n = self.backlog.len().min(self.ring.slots());
        if let Ok(chunk) = self.ring.write_chunk_uninit(n)
            && n > 0
        {
            chunk.fill_from_iter(self.backlog.drain(..n));
            self.sent = true;
        }
        !self.backlog.is_empty()
    }

    /// Whether packets wait for room.
    pub fn is_blocked(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Whether the ring was full and has drained since.
    pub fn has_drained(&self) -> bool {
        self.full && self.ring.slots() >= self.ring.buffer().capacity() / 2
    }

    /// If the ring was full and has drained, counts it as full no longer; returns whether that is
    /// so.
    pub fn take_drained(&mut self) -> bool {
        if !self.has_drained() {
            return false;
        }
        self.waits.store(false, Ordering::Relaxed);
        self.full = false;
        true
    }

    /// Whether packets were sent since the last call.
    pub fn take_sent(&mut self) -> bool {
        core::mem::take(&mut self.sent)
    }
}

impl RingReceiver {
    /// Whether no packet is in the ring.
    pub fn is_empty(&self) -> bool {
        self.ring.slots() == 0
    }

    /// Fills `batch`, which is empty, with at most `most` packets. Returns whether the sending
    /// thread, if it sleeps, is to be woken because there is room again.
    pub fn receive(&mut self, batch: &mut Batch, most: usize) -> bool {
        let n = most.min(self.ring.slots()).min(batch.room());
        if let Ok(chunk) = self.ring.read_chunk(n) {
            for packet in chunk {
                packet.prefetch();
                // There is room: the chunk is no longer than that.
                let _ = batch.push(packet);
            }
        }
        // Pairs with the fence of a thread that falls asleep: either it sees the room, or its sleep
        // is seen here.
        fence(Ordering::SeqCst);
        self.waits.load(Ordering::Relaxed) && self.ring.slots() <= self.ring.buffer().capacity() / 2
    }
}
