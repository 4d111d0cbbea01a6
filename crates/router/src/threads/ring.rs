//! Handoff rings: how packets get from one thread to another.
//!
//! A push connection between elements of different threads is a ring with one producer and one
//! consumer. While it is nearly full, the sources that found a notifier behind it see that as a full
//! queue; and the consumer leaves packets in it while the queue behind it is full. So a source that
//! stops at a full queue loses nothing. Packets of other sources that find no room are dropped and
//! counted (the router's `thread_drops` handler). A ring on the way to a blocking element counts as full
//! earlier, and the sending thread does nothing while it is full: what the thread sends in the turn
//! that fills the ring still finds room. Packets leave such a ring even if a queue behind it is full,
//! and a ring in a circle of threads does not block, so that no thread waits for itself. The receiving
//! thread is woken at the end of a round, and only if it sleeps.

use core::sync::atomic::{AtomicBool, Ordering, fence};

use rtrb::{Consumer, Producer, RingBuffer};

use crate::prelude::*;
use crate::scheduler::signal::{Signal, SignalId};
use crate::walk::numbers::EdgeId;

/// Capacity of a ring, in packets: that of the queue behind it, but at least the first and at most
/// the second number.
const SLOTS: (usize, usize) = (512, 1 << 16);
/// Least capacity of a ring to a blocking element.
const BLOCKING_SLOTS: usize = 8192;
/// Free slots below which a ring counts as full.
const NEARLY_FULL: usize = 128;
/// The same for a ring that blocks: one turn of a task sends no more as a rule.
const NEARLY_BLOCKED: usize = BLOCKING_SLOTS / 4;
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
    /// Whether the thread waits while the ring is full.
    pub blocking: bool,
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
/// room for `room` packets, and may be `blocking`.
pub(crate) fn ring(
    (edge, behind): (EdgeId, EdgeId),
    (from, to): (u16, u16),
    target: ElementId,
    room: Option<usize>,
    blocking: bool,
) -> (RingSender, RingReceiver) {
    let least = if blocking { BLOCKING_SLOTS } else { SLOTS.0 };
    let slots = room.unwrap_or(least).clamp(least, SLOTS.1);
    let (producer, consumer) = RingBuffer::new(slots);
    let waits = Arc::new(AtomicBool::new(false));
    let sender = RingSender {
        edge,
        from,
        to,
        signals: Vec::new(),
        drops: 0,
        full: false,
        blocking,
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
    /// Sends packets, in order, as far as there is room; the others stay in the batch and count as
    /// dropped. Returns whether the ring has become full.
    pub fn send(&mut self, batch: &mut Batch) -> bool {
        let n = batch.len().min(self.ring.slots());
        if let Ok(chunk) = self.ring.write_chunk_uninit(n)
            && n > 0
        {
            let mut burst = Batch::new();
            burst.append(batch, n);
            chunk.fill_from_iter(burst.drain());
            self.sent = true;
        }
        self.drops += batch.len() as u64;
        let least = if self.blocking {
            NEARLY_BLOCKED
        } else {
            NEARLY_FULL
        };
        let full = self.ring.slots() < least;
        if full {
            self.waits.store(true, Ordering::Relaxed);
        }
        full && !core::mem::replace(&mut self.full, true)
    }

    /// Whether the thread waits for room.
    pub fn is_blocked(&self) -> bool {
        self.blocking && self.full && !self.has_drained()
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
    /// Packets in the ring.
    pub fn len(&self) -> u64 {
        self.ring.slots() as u64
    }

    /// Lets all packets in the ring enter it again, as `admit` returns them, or drop out.
    pub fn pass_again(
        &mut self,
        sender: &mut RingSender,
        mut admit: impl FnMut(Packet) -> Option<Packet>,
    ) {
        for _ in 0..self.len() {
            let packet = self.ring.pop().ok().and_then(&mut admit);
            // Each takes the place that it had.
            _ = packet.map(|packet| sender.ring.push(packet));
        }
    }

    /// Fills `batch`, which is empty, with at most `most` packets. Returns whether the caller must
    /// wake the sending thread if it sleeps, because the ring has free slots again.
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
