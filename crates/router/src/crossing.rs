//! Crossings: how packets get from one thread to another.
//!
//! A push edge between elements of different homes is a ring with one producer and one consumer.
//! When it is nearly full, the sources that found a notifier behind the edge are told so, as by a
//! full queue; and the consumer leaves packets in it as long as the queue behind the edge is full.
//! So what stops at a full queue loses nothing. Packets from others that find no room are dropped
//! and counted.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering, fence};

use packet::{Batch, Packet};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::context::ElementId;
use crate::notifier::{Signal, SignalId};

/// Packets that a ring has room for: as many as the queue behind it, but not fewer than the first
/// and not more than the second number.
const SLOTS: (usize, usize) = (512, 1 << 16);
/// Free slots below which a ring counts as full.
const NEARLY_FULL: usize = 128;
/// Most batches that are taken from a ring in one round.
pub(crate) const BATCHES: usize = 4;

/// The side of a crossing that packets enter by.
pub(crate) struct Entry {
    /// The edge, among the outputs, that leads into it.
    pub edge: u32,
    /// The thread it leads from, and the one it leads to.
    pub from: u16,
    pub to: u16,
    /// Notifiers of the other thread that say on this one whether the ring is full.
    pub signals: Vec<SignalId>,
    /// Packets that found no room.
    pub drops: u64,
    pub full: bool,
    /// Packets entered that the other thread may not have been told of.
    fresh: bool,
    ring: Producer<Packet>,
    waits: Arc<AtomicBool>,
}

/// The side that they leave by.
pub(crate) struct Exit {
    /// The edge, among the outputs of the engine, that leads on.
    pub edge: u32,
    pub from: u16,
    pub to: u16,
    /// Where it leads.
    pub target: ElementId,
    /// Whether there is room behind it.
    pub signal: Signal,
    ring: Consumer<Packet>,
    waits: Arc<AtomicBool>,
}

/// A crossing for packets that leave by output edge `edge`, to an element that has room for
/// `room`; `onward` leads on behind it.
pub(crate) fn crossing(
    edge: u32,
    onward: u32,
    from: u16,
    to: u16,
    target: ElementId,
    room: Option<usize>,
) -> (Entry, Exit) {
    let slots = room.unwrap_or(SLOTS.0).clamp(SLOTS.0, SLOTS.1);
    let (producer, consumer) = RingBuffer::new(slots);
    let waits = Arc::new(AtomicBool::new(false));
    let entry = Entry {
        edge,
        from,
        to,
        signals: Vec::new(),
        drops: 0,
        full: false,
        fresh: false,
        ring: producer,
        waits: Arc::clone(&waits),
    };
    let exit = Exit {
        edge: onward,
        from,
        to,
        target,
        signal: Signal::busy(),
        ring: consumer,
        waits,
    };
    (entry, exit)
}

impl Entry {
    /// Takes packets in, in order, as far as there is room; returns whether the ring has become
    /// full by it.
    pub fn send(&mut self, batch: &mut Batch) -> bool {
        let n = batch.len().min(self.ring.slots());
        if let Ok(chunk) = self.ring.write_chunk_uninit(n)
            && n > 0
        {
            let mut going = Batch::new();
            going.append(batch, n);
            chunk.fill_from_iter(going.drain());
            self.fresh = true;
        }
        self.drops += batch.len() as u64;
        let full = self.ring.slots() < NEARLY_FULL;
        if full {
            self.waits.store(true, Ordering::Relaxed);
        }
        full && !core::mem::replace(&mut self.full, true)
    }

    /// Whether a ring that was full is so no longer.
    pub fn has_relief(&self) -> bool {
        self.full && self.ring.slots() >= self.ring.buffer().capacity() / 2
    }

    /// Lets a ring that was full count so no longer, if it has room again; returns whether it
    /// has.
    pub fn relieved(&mut self) -> bool {
        if !self.has_relief() {
            return false;
        }
        self.waits.store(false, Ordering::Relaxed);
        self.full = false;
        true
    }

    /// Whether the other thread is to be told of packets, if it sleeps.
    pub fn news(&mut self) -> bool {
        core::mem::take(&mut self.fresh)
    }
}

impl Exit {
    /// Packets that wait.
    pub fn waiting(&self) -> usize {
        self.ring.slots()
    }

    /// Fills `batch`, which is empty, with at most `most` packets. Returns whether the other
    /// thread, if it sleeps, is to be told that there is room.
    pub fn receive(&mut self, batch: &mut Batch, most: usize) -> bool {
        let n = most.min(self.ring.slots()).min(batch.room());
        if let Ok(chunk) = self.ring.read_chunk(n) {
            for packet in chunk {
                packet.prefetch();
                // There is room: the chunk is no longer than that.
                let _ = batch.push(packet);
            }
        }
        // Pairs with the fence of a thread that goes to sleep: either it sees the room, or its
        // sleep is seen here.
        fence(Ordering::SeqCst);
        self.waits.load(Ordering::Relaxed) && self.ring.slots() <= self.ring.buffer().capacity() / 2
    }
}
