//! A thread's rounds: bursts from other threads, and to them.

use super::Engine;
use crate::prelude::*;
use crate::threads::ring::{BURSTS, RingSender};
use crate::walk::Pending;
use crate::walk::numbers::EdgeId;

/// A round.
impl Engine {
    /// Begins a round: parks if another thread asks for it, and takes the bursts that came from
    /// other threads. Returns whether there were any; `None` if the router has stopped.
    pub fn begin_round(&mut self) -> Option<bool> {
        let own = self.threads.partition.as_mut()?;
        let group = Arc::clone(&own.group);
        own.wake_up();
        if !group.has_ended() && group.is_requested() {
            self.park();
        }
        if group.has_ended() {
            return None;
        }
        self.release_sources();
        Some(self.receive_bursts())
    }

    /// Ends a round: wakes the threads that packets were sent to, and gives buffers back to the
    /// threads whose packets ended here.
    pub fn end_round(&mut self) {
        self.runtime.pool.return_foreign();
        self.runtime.pool.rebalance();
        if let Some(own) = &mut self.threads.partition {
            own.wake_receivers();
        }
    }

    /// Prepares to sleep; false if there is something to do.
    pub fn prepare_sleep(&mut self) -> bool {
        if self.threads.partition.is_none() {
            return true;
        }
        self.end_round();
        let Some(own) = &mut self.threads.partition else {
            return true;
        };
        let asked = own.fall_asleep();
        let rings = own.receivers.len();
        !asked && (0..rings).all(|ring| self.room_behind(ring) == 0)
    }
}

/// Bursts from other threads.
impl Engine {
    fn rings(&self) -> usize {
        let own = self.threads.partition.as_ref();
        own.map_or(0, |own| own.receivers.len())
    }

    /// Delivers all that is under way between threads, as far as there is room for it. The router is
    /// quiesced here.
    pub fn drain_rings(&mut self) {
        for _ in 0..=self.rings() {
            if !self.receive_bursts() {
                break;
            }
        }
    }

    /// Delivers bursts from other threads; returns whether there were any.
    fn receive_bursts(&mut self) -> bool {
        let mut received = false;
        for ring in 0..self.rings() {
            for _ in 0..BURSTS {
                let base = self.walk.height();
                if !self.receive_burst(ring) {
                    break;
                }
                received = true;
                self.run_stack(base);
            }
        }
        if let Some(own) = &mut self.threads.partition {
            (own.origin, own.current) = (own.me, own.me);
        }
        received
    }

    /// Puts a burst from a ring on the stack, if there are packets and room for them.
    fn receive_burst(&mut self, ring: usize) -> bool {
        let room = self.room_behind(ring).min(self.walk.limit);
        if room == 0 {
            return false;
        }
        let mut batch = self.walk.batch();
        match self.take_burst(ring, &mut batch, room) {
            Some(edge) => {
                self.walk.push(Pending::new(edge, batch));
                true
            }
            None => {
                self.put_back(batch);
                false
            }
        }
    }

    /// Takes at most `most` packets from a ring; returns the edge behind it if there were any.
    fn take_burst(&mut self, ring: usize, batch: &mut Batch, most: usize) -> Option<EdgeId> {
        let own = self.threads.partition.as_mut()?;
        let receiver = own.receivers.get_mut(ring).and_then(Option::as_mut)?;
        (own.origin, own.current) = (receiver.from, receiver.to);
        if receiver.receive(batch, most) {
            own.group.wake(receiver.from);
        }
        (!batch.is_empty()).then_some(receiver.edge)
    }

    /// Packets that can be taken from a ring without finding a full queue; 0 if there are none, or
    /// the thread waits for room itself.
    fn room_behind(&self, ring: usize) -> usize {
        let Some(own) = &self.threads.partition else {
            return 0;
        };
        let Some(receiver) = own.receiver(ring) else {
            return 0;
        };
        if receiver.len() == 0 || own.waits(receiver.to) {
            return 0;
        }
        if receiver.signal.always {
            return usize::MAX;
        }
        if !self.scheduler.signals.any_active(&receiver.signal) {
            return 0;
        }
        match self.elements.get(receiver.target) {
            Some(_) => self.room(receiver.target).unwrap_or(usize::MAX),
            None => 0,
        }
    }
}

/// Bursts to other threads.
impl Engine {
    /// Sends a batch to another thread; packets that find no room stay in it.
    #[cold]
    pub fn hand_off(&mut self, ring: usize, batch: &mut Batch) {
        let Some(own) = &mut self.threads.partition else {
            return;
        };
        let whole = own.whole;
        let Some(sender) = own.sender(ring) else {
            return;
        };
        let before = sender.drops;
        let filled = sender.send(batch);
        let first_drop = before == 0 && sender.drops > 0;
        let (edge, inside) = (sender.edge, sender.from == sender.to);
        own.blocked |= sender.is_blocked() && !whole;
        if filled && !whole {
            self.set_ring_signals(ring);
        }
        if inside {
            // A ring between elements that now run on one thread is used up: for each packet that
            // enters, one leaves, as long as there is room.
            self.receive_burst(ring);
        }
        if first_drop {
            let text = self.overflow(edge);
            self.chatter(&text);
        }
    }

    /// The message of a ring that drops its first packet.
    fn overflow(&self, edge: EdgeId) -> String {
        let info = self.graph.info(self.walk.edges.source(edge));
        format!(
            "{} :: {}: overflow: the thread that gets its packets is behind",
            info.name, info.class.name
        )
    }

    /// Sets the signals on this thread that say whether a ring is full.
    fn set_ring_signals(&mut self, ring: usize) {
        let Some(own) = &self.threads.partition else {
            return;
        };
        for (signal, active) in own.ring_signals(ring) {
            self.scheduler.set_signal(signal, active);
        }
    }

    /// Sets the signals of all rings.
    pub fn refresh_ring_signals(&mut self) {
        (0..self.rings()).for_each(|ring| self.set_ring_signals(ring));
    }

    /// Lets the sources go on that stopped at rings which have drained.
    fn release_sources(&mut self) {
        for ring in 0..self.rings() {
            let own = self.threads.partition.as_mut();
            let sender = own.and_then(|own| own.sender(ring));
            if sender.is_some_and(RingSender::take_drained) {
                self.set_ring_signals(ring);
            }
        }
        if let Some(own) = &mut self.threads.partition {
            own.update_blocked();
        }
    }
}
