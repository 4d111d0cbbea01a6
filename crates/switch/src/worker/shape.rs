//! Limits, protection, flows, VLANs, delay and loss on a lane: what the worker does for domains in
//! which any port has more than the usual properties. All others never come here.
//!
//! A batch of a queue goes on up to the first frame that may not: the rest stays in the sender's
//! ring, or with a link that has none the batch is kept, and the queue leaves the round until its
//! time has come ([`Due`]). Frames that nobody could hold back wait in a line.

mod flows;
mod steer;
mod waiting;
mod wires;

#[cfg(test)]
mod tests;

use std::ops::Range;

use super::port::State;
use super::{QueueIndex, Worker, slot, slot_mut};
use crate::counters::Reason;
use crate::lookup::PortIndex;
use crate::port::hold::tag;
use crate::port::{BATCH, Batch, Outcome};
use crate::properties::Priority;
use crate::qos::bucket::clock;
use crate::qos::crowd::Source;
use crate::qos::protect::More;
use crate::qos::shape::{Shape, next_look};
use crate::qos::timer::{Due, Timers};

/// Bytes that one of several who wait for a rate is granted at a time.
const GRANT: u64 = 16 << 10;
/// What a worker needs for what is here.
pub(super) struct Shaping {
    pub timers: Timers,
    /// What is wrong with each frame of the batch, as far as that shows before the lookup.
    verdicts: [Option<Reason>; BATCH],
    /// Whether the batch's frames can be held back where they are.
    holds: bool,
    /// The first frame of the batch that must wait.
    cut: Option<Cut>,
    /// Whose batch is under way, if it is a queue's.
    serving: Option<QueueIndex>,
    /// Its turn with a rate.
    granted: Option<Grant>,
    /// For frames in another form.
    scratch: Option<Box<Batch>>,
    /// Batches that were kept and are spent. They go to and fro by their addresses.
    #[expect(
        clippy::vec_box,
        reason = "a batch is exchanged for another, not copied"
    )]
    spare: Vec<Box<Batch>>,
}

/// Whose turn with a rate was laid aside.
pub(super) struct Aside(Option<Grant>);

struct Cut {
    at: u16,
    /// The port whose rate is used up.
    on: PortIndex,
    priority: Priority,
}

struct Grant {
    to: PortIndex,
    /// Bytes of it that were sent.
    sent: u64,
    /// Of these, what the standing of whoever sent it does not tell yet.
    untold: u64,
    /// Whether it was granted out of turn, to one that has had less than its share: then it may
    /// have what is kept of a rate for such.
    first: bool,
}

impl Grant {
    fn new(to: PortIndex, first: bool) -> Grant {
        Grant {
            to,
            sent: 0,
            untold: 0,
            first,
        }
    }
}

impl Shaping {
    pub fn new() -> Shaping {
        Shaping {
            timers: Timers::default(),
            verdicts: [None; BATCH],
            holds: false,
            cut: None,
            serving: None,
            granted: None,
            scratch: None,
            spare: Vec::new(),
        }
    }

    /// Another queue's batch is dealt with, before the one under way goes on, of which nothing is
    /// left to do but to deliver it.
    pub fn lay_aside(&mut self) -> Aside {
        Aside(self.granted.take())
    }

    /// The one that was laid aside goes on.
    pub fn go_on(&mut self, Aside(grant): Aside) {
        self.granted = grant;
    }
}

impl Worker {
    /// Whether a port's domain has ports or flows with limits and the like.
    #[inline]
    pub(super) fn is_shaped(&self, place: PortIndex) -> bool {
        let port = slot(&self.ports, place.into());
        port.and_then(|port| slot(&self.domains, port.domain))
            .is_some_and(|domain| domain.shaped > 0)
    }

    /// Moves one batch of a queue's frames, or as much of it as may go. Returns whether the queue
    /// stays in the round.
    #[inline(never)]
    pub(super) fn serve_shaped(&mut self, place: QueueIndex, woken: bool) -> bool {
        let now = clock(self.now);
        let Some(queue) = slot_mut(&mut self.queues, place) else {
            return false;
        };
        let from = queue.port;
        let shape = slot(&self.ports, from.into()).and_then(|port| port.shaped.as_deref());
        let shape = shape.map(|shaped| shaped.shape.clone());
        if let Some(limit) = shape.as_ref().and_then(|shape| shape.sent.as_ref())
            && !limit.is_ready(now)
        {
            queue.state = State::Held;
            self.shaping
                .timers
                .set(next_look(limit, now), Due::Send(place));
            return false;
        }
        let counters = self.counters.port(from);
        let outcome = match queue.kept.take() {
            Some(kept) => {
                let spent = std::mem::replace(&mut self.batch, kept);
                self.shaping.spare.push(spent);
                Outcome::default()
            }
            None => {
                self.batch.clear();
                self.batch.set_portion(self.portion);
                queue.link.receive(&mut self.batch, counters)
            }
        };
        let frames = self.batch.frames().len();
        if frames == 0 {
            queue.link.release();
            return self.settle(place, outcome) && (outcome.busy || self.rest(place));
        }
        queue.pace.busy(self.now);
        queue.state = State::Polled { woken: false };
        self.shaping.holds = queue.link.holds() && queue.spreads == 0;
        self.shaping.cut = None;
        self.shaping.serving = Some(place);
        let spreads = queue.spreads;
        self.moved = true;

        let mut may_go = frames;
        if let Some(shape) = &shape {
            if let Some(limit) = &shape.sent {
                let mut trial = limit.bucket();
                for (i, frame) in self.batch.frames().iter().enumerate() {
                    if !trial.is_ready(now) {
                        may_go = i;
                        break;
                    }
                    trial.take(frame.len() as u64, now);
                }
            }
            self.look_over(shape, may_go);
        }
        let refuses = shape
            .as_ref()
            .is_some_and(|shape| shape.guard.is_some() || shape.vlan != 0);
        self.steer_runs(from, 0..may_go, refuses, spreads);
        let cut = self.shaping.cut.take();
        // What goes on by patches or has come from another lane is held back by nobody.
        self.shaping.holds = false;
        self.shaping.serving = None;
        self.end_grant(place);
        let gone = cut.as_ref().map_or(may_go, |cut| usize::from(cut.at));

        let bytes = self.batch.bytes_of(gone);
        self.picked = bytes;
        let counters = self.counters.port(from);
        counters.came_in(gone as u64, bytes);
        if gone > 0 {
            counters.chain(gone as u64, woken);
            self.meter.chain(gone, woken);
        }
        if refuses {
            let refused = self.shaping.verdicts[..gone].iter().flatten();
            refused.for_each(|&reason| counters.dropped(reason, 1));
        }
        if let Some(limit) = shape.as_ref().and_then(|shape| shape.sent.as_ref()) {
            limit.take(bytes, now);
        }
        self.source = Source::Port(from);
        self.deliver();
        let crossed = std::mem::take(&mut self.crossed);
        if let Some(queue) = slot_mut(&mut self.queues, place) {
            queue.crosses = crossed;
        }
        self.finish(place, gone, frames);
        let is_open = self.settle(place, outcome);
        match cut {
            Some(cut) if is_open => {
                self.wait_for(place, cut.on, cut.priority, now);
                false
            }
            _ => is_open,
        }
    }

    /// Gives back what has gone, and keeps the rest where it is or as it is.
    fn finish(&mut self, place: QueueIndex, gone: usize, frames: usize) {
        let Some(queue) = slot_mut(&mut self.queues, place) else {
            return;
        };
        for i in 0..frames {
            self.batch.set_vlan(i, 0);
        }
        if gone == frames || queue.link.release_before(&self.batch, gone) {
            return queue.link.release();
        }
        self.batch.keep_from(gone);
        queue.link.release();
        let spare = self.shaping.spare.pop();
        let spare = spare.unwrap_or_else(|| Box::new(Batch::new()));
        queue.kept = Some(std::mem::replace(&mut self.batch, spare));
    }

    /// Finds out which of the batch's first frames must not be sent, and says what VLAN the others
    /// belong to.
    fn look_over(&mut self, shape: &Shape, frames: usize) {
        if shape.guard.is_none() && shape.vlan == 0 {
            return;
        }
        for i in 0..frames {
            let frame = &self.batch.frames()[i];
            let mut verdict = None;
            if shape.vlan != 0 {
                // A tag that tells of priority alone belongs to no VLAN.
                verdict = tag(frame.head())
                    .filter(|&tag| tag != 0)
                    .map(|_| Reason::Vlan);
            }
            if let (Some(guard), None) = (&shape.guard, verdict) {
                verdict = match guard.check(frame.head(), frame.len()) {
                    Ok(verdict) => verdict.err(),
                    Err(More) => {
                        let whole = self.batch.pin(i as u16);
                        // A whole frame is enough, but for one that could not be copied.
                        let checked = guard.check(whole, whole.len());
                        checked.unwrap_or(Err(Reason::Restricted)).err()
                    }
                };
            }
            self.shaping.verdicts[i] = verdict;
            self.batch.set_vlan(i, shape.vlan);
        }
    }

    /// Has the runs of frames that are not refused go on.
    fn steer_runs(&mut self, from: PortIndex, frames: Range<usize>, refuses: bool, spreads: u64) {
        let mut start = frames.start;
        while start < frames.end && self.shaping.cut.is_none() {
            let mut end = frames.end;
            if refuses {
                let verdicts = &self.shaping.verdicts[start..frames.end];
                let refused = verdicts
                    .iter()
                    .take_while(|verdict| verdict.is_some())
                    .count();
                let run = verdicts[refused..]
                    .iter()
                    .take_while(|verdict| verdict.is_none());
                (start, end) = (start + refused, start + refused + run.count());
            }
            if start < end {
                match spreads {
                    0 => self.steer(from, start..end),
                    over => self.spread(from, start..end, over),
                }
            }
            start = end;
        }
    }
}
