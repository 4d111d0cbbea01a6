//! Serving a queue: its next batch, from its link to the destinations.

use std::ops::Range;

use super::Worker;
use super::shaping::{Cut, refuses};
use super::table::{PortEntry, QueueState};
use crate::counters::Reason;
use crate::ids::{LaneMask, PortIndex, QueueIndex};
use crate::port::Outcome;
use crate::qos::policy::{PortPolicy, next_look};
use crate::qos::threshold::FrameSource;
use crate::qos::timers::Due;

/// Fewest frames of a batch whose sender may be held back from a guest whose ring is full.
const FRAMES_HELD_BACK: usize = 8;

impl Worker {
    /// Moves one batch of a queue's frames. Returns whether the queue stays in the round.
    #[inline]
    pub(super) fn serve(&mut self, index: QueueIndex) -> bool {
        let Some(queue) = self.table.queues.get_mut(index) else {
            return false;
        };
        let QueueState::Polled { woken } = queue.state else {
            return false;
        };
        let (reached, from, keeps) = (queue.reached, queue.port, queue.kept.is_some());
        if reached != 0 && !self.forwarding.has_room(reached) {
            // Other frames wait where its last frames went, so the next ones wait where they are.
            return self.leave_alone();
        }
        // A batch that was kept may outlast the limit.
        if keeps || self.table.is_shaped(from) {
            return self.serve_shaped(index, woken);
        }
        if self.is_receiver_full(index) {
            return self.leave_alone();
        }
        self.serve_batch::<false>(index, woken)
    }

    /// As [`serve_batch`](Self::serve_batch), in a domain with limits and the like.
    #[inline(never)]
    pub(super) fn serve_shaped(&mut self, index: QueueIndex, woken: bool) -> bool {
        self.serve_batch::<true>(index, woken)
    }

    fn leave_alone(&mut self) -> bool {
        self.counters.held_back();
        self.polling.hold_back();
        true
    }

    /// Whether a queue's last frames all went to a guest that has no room for more. The next ones
    /// stay where they are for a moment.
    #[inline]
    fn is_receiver_full(&mut self, index: QueueIndex) -> bool {
        let queues = &mut self.table.queues;
        let follows = queues.get(index).and_then(|queue| queue.follows);
        let to = follows.and_then(|to| queues.get_mut(to));
        to.is_some_and(|to| to.link.holds_back(self.clock.now))
    }

    /// Moves one batch of a queue's frames, or the frames of it that may go. Returns whether the
    /// queue stays in the round.
    #[inline(always)]
    fn serve_batch<const SHAPED: bool>(&mut self, index: QueueIndex, woken: bool) -> bool {
        let Some(queue) = self.table.queues.get(index) else {
            return false;
        };
        let (port, spreads) = (queue.port, queue.spreads);
        let from = self.table.front_of(port);
        let own = self.table.shaping(from).filter(|_| SHAPED);
        let policy = own.map(|own| own.policy.clone());
        let policy = policy.as_deref();
        if SHAPED && self.waits_for_own_rate(index, policy) {
            return false;
        }
        let outcome = self.receive::<SHAPED>(index);
        let frames = self.forwarding.batch.frames().len();
        let Some(queue) = self.table.queues.get_mut(index) else {
            return false;
        };
        if frames == 0 {
            queue.link.release();
            if !self.forwarding.batch.messages.is_empty() {
                self.settle_flows(port);
            }
            return self.polling.settle(&mut self.table, index, outcome)
                && (outcome.busy || self.polling.rest(&mut self.table, &self.clock, index));
        }
        queue.pace.busy(self.clock.now);
        queue.state = QueueState::Polled { woken: false };
        self.polling.moved = true;
        let holds = SHAPED && queue.link.holds() && spreads == 0;
        if port != from {
            let now = self.clock.nanos();
            if let Some(connections) = self.table.connections(from) {
                connections.see(port, self.forwarding.batch.frames(), now);
            }
        }

        let (gone, cut) = if SHAPED {
            self.resolve_admitted(index, from, policy, spreads, holds)
        } else {
            self.resolve(from, 0..frames, spreads);
            (frames, None)
        };
        let counters = self.table.counters.port(port);
        self.round.picked = self.forwarding.batch.count(gone, counters, woken);
        if gone > 0 {
            self.counters.chain(gone, woken);
        }
        let only = if SHAPED {
            None
        } else {
            self.only_destination(frames)
        };
        let reached = self.deliver(FrameSource::Port(from));
        if !self.forwarding.batch.messages.is_empty() {
            self.settle_flows(port);
        }
        if let Some(queue) = self.table.queues.get_mut(index) {
            queue.reached = reached;
            queue.follows = only;
            if gone == frames {
                queue.link.release();
            }
        }
        if SHAPED {
            self.release_gone(index, gone, frames);
        }
        let is_open = self.polling.settle(&mut self.table, index, outcome);
        if let Some(cut) = cut.filter(|_| SHAPED && is_open) {
            let now = self.clock.nanos();
            self.shaping
                .wait_for_rate(&mut self.table, index, &cut, now);
            return false;
        }
        is_open
    }

    /// Takes a queue's next frames into the batch.
    #[inline(always)]
    fn receive<const SHAPED: bool>(&mut self, index: QueueIndex) -> Outcome {
        let Some(queue) = self.table.queues.get_mut(index) else {
            return Outcome::default();
        };
        let batch = &mut self.forwarding.batch;
        if SHAPED && let Some(kept) = queue.kept.take() {
            self.shaping.unkeep(batch, kept);
            return Outcome::default();
        }
        batch.clear();
        batch.set_portion(self.round.portion);
        let counters = self.table.counters.port(queue.port);
        queue.link.receive(batch, counters)
    }

    /// Looks up a run of the batch's frames, here or on the lanes over which the queue's flows are
    /// spread.
    #[inline(always)]
    fn resolve(&mut self, from: PortIndex, run: Range<usize>, spreads: LaneMask) {
        let (table, shaping, clock) = (&mut self.table, &mut self.shaping, &self.clock);
        if spreads == 0 {
            self.forwarding.resolve(table, shaping, clock, from, run);
        } else {
            self.forwarding
                .spread(table, shaping, clock, from, run, spreads);
        }
    }

    /// The queue to which all of the batch's frames go, if there is one, and they are more than a
    /// few: a sender of few frames has a reserve in a full ring, and is not to wait.
    #[inline]
    fn only_destination(&self, frames: usize) -> Option<QueueIndex> {
        match self.forwarding.touched[..] {
            [port] if frames >= FRAMES_HELD_BACK => {
                let port = self.table.ports.get(port);
                let is_it = |port: &&PortEntry| {
                    port.egress_queue.len() == frames && port.connections.is_none()
                };
                let port = port.filter(is_it);
                port.and_then(|port| port.sends_by)
            }
            _ => None,
        }
    }

    /// Whether a queue must wait for its port's own rate. If so, a timer brings it back.
    fn waits_for_own_rate(&mut self, index: QueueIndex, policy: Option<&PortPolicy>) -> bool {
        let now = self.clock.nanos();
        let limiter = policy.and_then(|policy| policy.sent.as_ref());
        let Some(limiter) = limiter.filter(|limiter| !limiter.is_ready(now)) else {
            return false;
        };
        if let Some(queue) = self.table.queues.get_mut(index) {
            queue.state = QueueState::Held;
            let at = next_look(limiter, now);
            self.shaping.timers.set(at, Due::Queue(index));
        }
        true
    }

    /// Resolves the frames of a queue's batch that its port may send, up to the first that must
    /// wait. Returns how many have gone, and why the next one has not if it waits for another port.
    fn resolve_admitted(
        &mut self,
        index: QueueIndex,
        from: PortIndex,
        policy: Option<&PortPolicy>,
        spreads: LaneMask,
        holds: bool,
    ) -> (usize, Option<Cut>) {
        let now = self.clock.nanos();
        let batch = &mut self.forwarding.batch;
        let mut gone = batch.frames().len();
        self.shaping.begin(index, holds);
        if let Some(policy) = policy {
            gone = self.shaping.inspect(policy, batch, now);
        }
        let refuses = policy.is_some_and(refuses);
        let mut start = 0;
        while start < gone && !self.shaping.is_cut() {
            let run = if refuses {
                self.shaping.next_run(start..gone)
            } else {
                start..gone
            };
            start = run.end;
            if !run.is_empty() {
                self.resolve(from, run, spreads);
            }
        }
        let cut = self.shaping.end(&mut self.table, index);
        if let Some(cut) = &cut {
            gone = cut.at.into();
        }
        if refuses {
            let counters = self.table.counters.port(from);
            let refusals = self.shaping.refusals(gone);
            refusals.for_each(|reason| counters.dropped(reason, 1));
        }
        if let Some(limiter) = policy.and_then(|policy| policy.sent.as_ref()) {
            limiter.take(self.forwarding.batch.bytes_of(gone), now);
        }
        (gone, cut)
    }

    /// Gives back the frames of a queue's batch that have gone. The others stay in the link if it
    /// can keep them; else the batch is kept.
    fn release_gone(&mut self, index: QueueIndex, gone: usize, frames: usize) {
        let batch = &mut self.forwarding.batch;
        for i in 0..frames {
            batch.set_vlan(i, 0);
        }
        let Some(queue) = self.table.queues.get_mut(index) else {
            return;
        };
        if gone == frames {
            return;
        }
        if queue.link.release_before(batch, gone) {
            return queue.link.release();
        }
        batch.keep_from(gone);
        queue.link.release();
        queue.kept = self.shaping.keep(batch);
        if queue.kept.is_none() {
            let counters = self.table.counters.port(queue.port);
            counters.dropped(Reason::OverLimit, (frames - gone) as u64);
        }
    }
}
