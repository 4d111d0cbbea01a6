//! Timers that are due: waiting queues go on, and frames leave backlogs and delay lines.

use super::Worker;
use super::frame::FrameRef;
use super::shaping::{QUANTUM_BYTES, Released, drain, release};
use super::table::QueueState;
use crate::counters::Reason;
use crate::ids::{DomainIndex, PortIndex, QueueIndex};
use crate::port::BATCH;
use crate::properties::Share;
use crate::qos::delay_line::{DelayLine, Endpoints};
use crate::qos::threshold::FrameSource;
use crate::qos::timers::Due;
use crate::qos::token_bucket::Nanos;
use crate::qos::waiters::BACKLOG;

/// Most quanta of a port's rate in a row, so that other queues in the round are served, too.
const QUANTA: usize = 64;
impl Worker {
    /// Serves the timers that are due.
    #[inline(never)]
    pub(super) fn do_due(&mut self) {
        let now = self.clock.nanos();
        while let Some(due) = self.shaping.timers.pop(now) {
            match due {
                Due::Queue(index) => self.polling.resume(&mut self.table, index),
                Due::Rate(to) => self.serve_waiters(to, now),
                Due::DelayLine(to) => self.send_delay_line(to, now),
                Due::Flow(domain, flow) => self.send_flow(domain, flow, now),
            }
        }
    }

    /// Serves the queues that wait for a port's rate, as far as it goes.
    fn serve_waiters(&mut self, to: PortIndex, now: Nanos) {
        for served in 0.. {
            let Some(port) = self.table.shaping_mut(to) else {
                return;
            };
            if served == 0 {
                port.timed = false;
            }
            let limiter = port.policy.received.as_ref();
            let used_up = limiter.is_some_and(|limiter| !limiter.is_above_reserve(now));
            if served == QUANTA || used_up {
                break;
            }
            let Some(waiter) = port.waiters.pop() else {
                return;
            };
            self.shaping.begin_quantum(to, false);
            if waiter == BACKLOG {
                self.send_backlog(to, now);
                self.shaping.end_backlog_quantum();
            } else {
                self.serve_waiter(waiter);
                self.shaping.end_quantum(&mut self.table, waiter);
            }
        }
        self.shaping.look_at_rate_later(&mut self.table, to, now);
    }

    fn serve_waiter(&mut self, index: QueueIndex) {
        let queue = self.table.queues.get_mut(index);
        let Some(queue) = queue.filter(|queue| queue.state == QueueState::Held) else {
            return;
        };
        queue.state = QueueState::Polled { woken: false };
        if self.serve_shaped(index, false) {
            self.polling.active.push(index);
        }
    }

    /// Sends frames of a port's backlog, as far as its rate and the quantum allow.
    fn send_backlog(&mut self, to: PortIndex, now: Nanos) {
        let batch = &mut self.forwarding.batch;
        batch.clear();
        let Some(port) = self.table.shaping_mut(to) else {
            return;
        };
        let (Some(limiter), Some(line)) = (&port.policy.received, &mut port.backlog) else {
            return;
        };
        let (mut sent, mut from) = (0, to);
        while let Some(first) = line.first()
            && batch.has_room()
            && sent < QUANTUM_BYTES
            && limiter.is_above_reserve(now)
        {
            from = first.endpoints.from;
            let len = first.len as u64;
            if line.pop_into(batch) {
                sent += len;
                limiter.take(len, now);
            }
        }
        port.waiters.served(BACKLOG, sent, Share::default());
        if !line.is_empty() {
            port.waiters.push_backlog();
        }
        self.enqueue_batch(from, to);
    }

    /// Delivers the whole batch to a port.
    fn enqueue_batch(&mut self, from: PortIndex, to: PortIndex) {
        for i in 0..self.forwarding.batch.frames().len() {
            self.forwarding.enqueue(&mut self.table, from, i as u16, to);
        }
        self.deliver(FrameSource::DelayLines);
    }

    /// Moves frames that waited for a port's former rate to its present one; without a rate they go
    /// on.
    pub(super) fn move_backlog(&mut self, to: PortIndex, mut line: DelayLine) {
        if let Some(port) = self.table.shaping_mut(to)
            && let Some(own) = &mut port.backlog
        {
            let lost = own.append(line) as u64;
            if !own.is_empty() {
                port.waiters.push_backlog();
            }
            let counters = self.table.counters.port(to);
            counters.dropped(Reason::OverLimit, lost);
            let now = self.clock.nanos();
            return self.shaping.look_at_rate_later(&mut self.table, to, now);
        }
        while let Some(last) = self.drain_into_batch(&mut line) {
            self.enqueue_batch(last.from, to);
        }
    }

    /// Fills the batch from a delay line, also with frames that are not due.
    fn drain_into_batch(&mut self, line: &mut DelayLine) -> Option<Endpoints> {
        let batch = &mut self.forwarding.batch;
        batch.clear();
        drain(line, batch, Nanos::MAX)
    }

    /// Sends the frames that leave a port's delay line by now.
    fn send_delay_line(&mut self, to: PortIndex, now: Nanos) {
        for sent in 0.. {
            let port = self.table.shaping_mut(to);
            let Some(wire) = port.and_then(|port| port.wire.as_mut()) else {
                return;
            };
            // A frame that is sent may return to the line and set the next timer: that timer
            // counts.
            if sent == 0 {
                wire.timed = false;
            }
            let batch = &mut self.forwarding.batch;
            batch.clear();
            let line = wire.line.as_mut();
            let Some(last) = line.and_then(|line| drain(line, batch, now)) else {
                break;
            };
            self.send_batch(to, last.patches);
        }
        self.shaping.look_at_line_later(&mut self.table, to, now);
    }

    /// Moves frames that are under way in a line into a port's own line, or sends them at once if it
    /// has none.
    pub(super) fn move_delay_line(&mut self, to: PortIndex, mut line: DelayLine) {
        let port = self.table.shaping_mut(to);
        let wire = port.and_then(|port| port.wire.as_mut());
        if let Some(own) = wire.and_then(|wire| wire.line.as_mut()) {
            let lost = own.append(line) as u64;
            let counters = self.table.counters.port(to);
            counters.dropped(Reason::LineFull, lost);
            let now = self.clock.nanos();
            return self.shaping.look_at_line_later(&mut self.table, to, now);
        }
        while let Some(last) = self.drain_into_batch(&mut line) {
            self.send_batch(to, last.patches);
        }
    }

    /// Sends frames that waited for a flow's rate.
    fn send_flow(&mut self, domain: DomainIndex, flow: u32, now: Nanos) {
        let batch = &mut self.forwarding.batch;
        batch.clear();
        let table = &mut self.table;
        let released = self.shaping.release_flow(table, batch, domain, flow, now);
        self.readmit(domain, flow, &released, now);
    }

    /// Sends all frames that waited for the rate of a removed flow.
    pub(super) fn send_removed_flow(
        &mut self,
        domain: DomainIndex,
        flow: u32,
        mut line: DelayLine,
    ) {
        let now = self.clock.nanos();
        while !line.is_empty() {
            let batch = &mut self.forwarding.batch;
            batch.clear();
            let mut released = [None; BATCH];
            release(&mut line, batch, &mut released, |_| true);
            self.readmit(domain, flow, &released, now);
        }
    }

    /// Forwards the batch's frames that a flow released.
    fn readmit(&mut self, domain: DomainIndex, flow: u32, released: &Released, now: Nanos) {
        let (table, shaping) = (&mut self.table, &mut self.shaping);
        let forwarding = &mut self.forwarding;
        for (i, endpoints) in (0..).zip(released.iter().flatten()) {
            let from = endpoints.from;
            let frame = FrameRef { i, from, domain };
            let Some(to) = endpoints.to else {
                forwarding.flood_on::<true>(table, shaping, &self.clock, frame, 1);
                continue;
            };
            if table.generation(to) != Some(endpoints.generation) {
                let counters = table.counters.port(from);
                counters.dropped(Reason::NoDestination, 1);
                continue;
            }
            let batch = &mut forwarding.batch;
            // Its sender's flow has released it: its receiver's may have to hold it now.
            if let [Some(first), Some(second)] = shaping.flows_of(table, batch, frame, Some(to))
                && first == flow
                && !shaping.admit_by_flow(table, batch, frame, second, Some(to), now)
            {
                continue;
            }
            if shaping.charge_or_hold_back(table, batch, frame, to, now) {
                forwarding.enqueue(table, from, i, to);
            }
        }
        self.deliver(FrameSource::DelayLines);
    }
}
