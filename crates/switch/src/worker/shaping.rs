//! Limits, protection, flows, VLANs, delay and loss on a lane, for domains in which any port or
//! flow has one of them.
//!
//! A batch of a queue goes on up to the first frame that must wait. The rest stays in the sender's
//! ring; for a link without a ring, the batch is kept. The queue leaves the polling round until the
//! frame is due ([`Due`]). Frames whose sender cannot be held back wait in a delay line.
//!
//! A port's VLAN is a property of its frames while they are inside. Tags are inserted and removed on
//! the way out only, where the receiver's form differs. A frame that goes through a patch into a
//! domain without VLANs bears its tag, as on a trunk between two bridges.

mod admission;
mod egress;
mod flows;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::time::Duration;

use super::table::{QueueState, Table};
use crate::counters::Reason;
use crate::ids::{PortIndex, QueueIndex};
use crate::port::hold::tag;
use crate::port::{BATCH, Batch};
use crate::properties::Priority;
use crate::qos::policy::{PortPolicy, next_look_above_reserve};
use crate::qos::spoof_guard::NeedsWholeFrame;
use crate::qos::timers::{Due, Timers};
use crate::qos::token_bucket::Nanos;

pub(super) use admission::Admission;
pub(super) use egress::{EgressStep, drain};
pub(super) use flows::{Released, release};

/// Bytes that one of several queues that wait for a rate may send at a time.
pub(super) const QUANTUM_BYTES: u64 = 16 << 10;

/// The lane stays awake for work that is due within this time: about the time to sleep and wake.
const SOON: Nanos = 60_000;

/// The first frame of a batch that must wait.
pub(super) struct Cut {
    pub at: u16,
    /// The port whose rate is used up.
    on: PortIndex,
    priority: Priority,
}

/// The quantum of a queue, or of a backlog, with a port's rate.
pub(super) struct Quantum {
    to: PortIndex,
    /// Bytes that were sent in it.
    sent: u64,
    /// Of these, bytes that the queue's virtual time does not count yet.
    uncounted: u64,
    /// Whether the queue goes first, since it has sent less than its share: then it may have the
    /// reserve of the rate.
    first: bool,
}

/// A lane's state for limits and the like.
#[derive(Default)]
pub(super) struct Shaping {
    pub timers: Timers,
    /// Why each frame of the batch must not be sent, as far as that shows before the lookup.
    refusals: Refusals,
    /// The queue whose batch is being resolved, if its frames can be held back.
    serving: Option<QueueIndex>,
    cut: Option<Cut>,
    quantum: Option<Quantum>,
    /// Storage for frames in another form, once any port has a VLAN.
    scratch: Option<Box<Batch>>,
    /// Batches to exchange for ones that are kept. They move by their addresses.
    #[expect(
        clippy::vec_box,
        reason = "a batch is exchanged for another, not copied"
    )]
    spare: Vec<Box<Batch>>,
    /// How many batches are kept.
    kept: usize,
    /// Number of ports and flows with limits and the like.
    subjects: usize,
}

struct Refusals([Option<Reason>; BATCH]);

impl Default for Refusals {
    fn default() -> Refusals {
        Refusals([None; BATCH])
    }
}

impl Shaping {
    /// Whether anything is due.
    #[inline]
    pub fn is_due(&self, now: Nanos) -> bool {
        self.timers.next().is_some_and(|next| next <= now)
    }

    /// Whether anything is due so soon that sleeping until then would take longer.
    #[inline]
    pub fn is_due_soon(&self, now: Nanos) -> bool {
        self.is_due(now + SOON)
    }

    /// How long it is until something is due, if anything is.
    pub fn until_due(&self, now: Nanos) -> Option<Duration> {
        let next = self.timers.next()?;
        Some(Duration::from_nanos(next.saturating_sub(now)))
    }

    /// A port or flow gets limits and the like, for which so many timers may be set; `links` queues
    /// of the lane are host links', whose batches may have to be kept.
    pub fn add_subject(&mut self, timers: usize, links: usize) {
        self.subjects += 1;
        self.timers.add_users(timers);
        self.provide(links);
    }

    /// A port or flow has no limits and the like any more.
    pub fn remove_subject(&mut self, timers: usize) {
        self.subjects -= 1;
        self.timers.remove_users(timers);
    }

    /// A queue comes to the lane, `links` of whose queues are host links' then.
    pub fn add_queue(&mut self, is_kept: bool, links: usize) {
        self.timers.add_users(1);
        self.kept += usize::from(is_kept);
        self.provide(links);
    }

    /// A queue leaves the lane.
    pub fn remove_queue(&mut self, is_kept: bool) {
        self.timers.remove_users(1);
        self.kept -= usize::from(is_kept);
    }

    /// Makes the spare batches that may be needed, so that none is made while frames flow.
    fn provide(&mut self, links: usize) {
        while self.subjects > 0 && self.spare.len() + self.kept < links {
            self.spare.push(Box::new(Batch::new()));
        }
    }

    /// Makes the storage for frames in another form.
    pub fn provide_scratch(&mut self) {
        self.scratch.get_or_insert_with(|| Box::new(Batch::new()));
    }

    /// Goes on with a batch that was kept.
    pub fn unkeep(&mut self, batch: &mut Box<Batch>, kept: Box<Batch>) {
        self.spare.push(std::mem::replace(batch, kept));
        self.kept -= 1;
    }

    /// Keeps a batch, and puts a spare one in its place; `None` if there is none.
    pub fn keep(&mut self, batch: &mut Box<Batch>) -> Option<Box<Batch>> {
        let spare = self.spare.pop()?;
        self.kept += 1;
        Some(std::mem::replace(batch, spare))
    }

    /// A queue's batch is about to be resolved; its frames can be held back or not.
    pub fn begin(&mut self, queue: QueueIndex, holds: bool) {
        self.cut = None;
        self.serving = holds.then_some(queue);
    }

    /// The batch of a queue is resolved: the first frame that must wait, if any. Frames that go
    /// through patches after that are held back by nothing.
    pub fn end(&mut self, table: &mut Table, queue: QueueIndex) -> Option<Cut> {
        self.serving = None;
        if self.quantum.as_ref().is_some_and(|quantum| quantum.first) {
            self.end_quantum(table, queue);
        }
        self.cut.take()
    }

    /// How many of the batch's frames the sender's own rate allows. Finds out which of these must
    /// not be sent, and which VLAN the others belong to.
    pub fn inspect(&mut self, policy: &PortPolicy, batch: &mut Batch, now: Nanos) -> usize {
        let mut allowed = batch.frames().len();
        if let Some(limiter) = &policy.sent {
            let mut bucket = limiter.bucket();
            let ready = batch.frames().iter().take_while(|frame| {
                let ready = bucket.is_ready(now);
                bucket.take(frame.len() as u64, now);
                ready
            });
            allowed = ready.count();
        }
        if refuses(policy) {
            for i in 0..allowed {
                self.refusals.0[i] = check(policy, batch, i);
                batch.set_vlan(i, policy.vlan);
            }
        }
        allowed
    }

    /// The next run of frames that are not refused.
    pub fn next_run(&self, frames: Range<usize>) -> Range<usize> {
        let refusals = &self.refusals.0[frames.clone()];
        let refused = refusals.iter().take_while(|refusal| refusal.is_some());
        let refused = refused.count();
        let run = refusals[refused..]
            .iter()
            .take_while(|refusal| refusal.is_none());
        let start = frames.start + refused;
        start..start + run.count()
    }

    /// Why frames of the batch were refused, of the first so many.
    pub fn refusals(&self, frames: usize) -> impl Iterator<Item = Reason> {
        self.refusals.0[..frames].iter().flatten().copied()
    }

    /// Whether a frame of the batch must wait.
    pub fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// Begins the quantum of a waiter with a port's rate.
    pub fn begin_quantum(&mut self, to: PortIndex, first: bool) {
        self.quantum = Some(Quantum {
            to,
            sent: 0,
            uncounted: 0,
            first,
        });
    }

    /// Ends the quantum of a queue.
    pub fn end_quantum(&mut self, table: &mut Table, queue: QueueIndex) {
        self.count_quantum(table, queue);
        self.quantum = None;
    }

    /// Ends the quantum of a backlog.
    pub fn end_backlog_quantum(&mut self) {
        self.quantum = None;
    }

    /// Interrupts a quantum, for another queue's batch.
    pub fn suspend_quantum(&mut self) -> Option<Quantum> {
        self.quantum.take()
    }

    /// Continues a quantum.
    pub fn resume_quantum(&mut self, quantum: Option<Quantum>) {
        self.quantum = quantum;
    }

    /// Adds the bytes that a queue has sent in its quantum to its virtual time.
    fn count_quantum(&mut self, table: &mut Table, queue: QueueIndex) {
        let share = table.share_of(queue);
        let Some(quantum) = &mut self.quantum else {
            return;
        };
        let bytes = std::mem::take(&mut quantum.uncounted);
        if let Some(port) = table.shaping_mut(quantum.to).filter(|_| bytes > 0) {
            port.waiters.served(queue, bytes, share);
        }
    }

    /// Makes a queue wait for the port that its batch was cut for, until the port's rate allows
    /// frames again.
    pub fn wait_for_rate(&mut self, table: &mut Table, index: QueueIndex, cut: &Cut, now: Nanos) {
        let Some(queue) = table.queues.get_mut(index) else {
            return;
        };
        queue.state = QueueState::Held;
        self.count_quantum(table, index);
        if let Some(quantum) = self.quantum.as_mut().filter(|quantum| quantum.to == cut.on) {
            // Its quantum is over, also if the queue has more.
            quantum.sent = QUANTUM_BYTES;
        }
        let Some(port) = table.shaping_mut(cut.on) else {
            // The port has no rate any more.
            return self.timers.set(now, Due::Queue(index));
        };
        if port.waiters.push(index, cut.priority) {
            return self.look_at_rate_later(table, cut.on, now);
        }
        let limiter = port.policy.received.as_ref();
        let at = limiter.map_or(now, |limiter| next_look_above_reserve(limiter, now));
        self.timers.set(at, Due::Queue(index));
    }

    /// Sets a timer for the queues that wait for a port's rate, unless one is set.
    pub fn look_at_rate_later(&mut self, table: &mut Table, to: PortIndex, now: Nanos) {
        if let Some(port) = table.shaping_mut(to)
            && !std::mem::replace(&mut port.timed, true)
        {
            let limiter = port.policy.received.as_ref();
            let at = limiter.map_or(now, |limiter| next_look_above_reserve(limiter, now));
            self.timers.set(at, Due::Rate(to));
        }
    }
}

/// Whether a port's frames may be refused before the lookup.
pub(super) fn refuses(policy: &PortPolicy) -> bool {
    policy.guard.is_some() || policy.vlan != 0
}

/// Why frame `i` of a port's batch must not be sent, if it must not.
fn check(policy: &PortPolicy, batch: &mut Batch, i: usize) -> Option<Reason> {
    let frame = &batch.frames()[i];
    // A priority tag belongs to no VLAN.
    if policy.vlan != 0 && tag(frame.head()).is_some_and(|tag| tag != 0) {
        return Some(Reason::Vlan);
    }
    let guard = policy.guard.as_ref()?;
    match guard.check(frame.head(), frame.len()) {
        Ok(verdict) => verdict.err(),
        Err(NeedsWholeFrame) => {
            let whole = batch.pin(i as u16);
            // A whole frame is always enough, unless it could not be copied.
            let checked = guard.check(whole, whole.len());
            checked.unwrap_or(Err(Reason::Restricted)).err()
        }
    }
}
