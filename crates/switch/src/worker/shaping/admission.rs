//! Which frames may go to a port: by its VLAN, its rate, and the flows that they belong to.

use super::{Cut, QUANTUM_BYTES, Quantum, Shaping};
use crate::counters::Reason;
use crate::ids::PortIndex;
use crate::port::Batch;
use crate::port::hold::Form;
use crate::properties::Priority;
use crate::qos::classifier::FrameKey;
use crate::qos::delay_line::Endpoints;
use crate::qos::token_bucket::Nanos;
use crate::worker::frame::FrameRef;
use crate::worker::table::Table;

/// The verdict on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::worker) enum Admission {
    /// It goes to its port.
    Go,
    /// It was dropped, or waits in a delay line.
    Done,
    /// It must wait where it is, and the frames behind it, too.
    Wait,
}

impl Shaping {
    /// How many of `frames` frames from `first` on may go to one port of this lane where only the
    /// port's rate has to be looked at, which is done once for all. They are counted against it.
    pub fn admit_run(
        &mut self,
        table: &Table,
        batch: &Batch,
        first: FrameRef,
        frames: usize,
        to: PortIndex,
        now: Nanos,
    ) -> usize {
        let flows = table.flows(first.domain);
        let has_flows = flows.is_some_and(|flows| !flows.classifier.is_empty());
        let Some(port) = table.ports.get(to) else {
            return 0;
        };
        if has_flows || !port.egress.has(table.lane) {
            return 0;
        }
        let Some(port) = port.shaping.as_deref() else {
            return frames;
        };
        if port.policy.vlan != 0 {
            return 0;
        }
        let Some(limiter) = &port.policy.received else {
            return frames;
        };
        let mut quantum = self.quantum.as_mut().filter(|quantum| quantum.to == to);
        let most = match (&quantum, port.waiters.is_empty()) {
            (_, true) => u64::MAX,
            (Some(quantum), false) => QUANTUM_BYTES.saturating_sub(quantum.sent),
            (None, false) => 0,
        };
        let is_first = quantum.as_ref().is_some_and(|quantum| quantum.first);
        let (mut bucket, mut sent) = (limiter.bucket(), 0);
        let run = &batch.frames()[usize::from(first.i)..][..frames];
        let allowed = run.iter().take_while(|frame| {
            let ready = if is_first {
                bucket.is_ready(now)
            } else {
                bucket.is_above_reserve(now)
            };
            let goes = ready && sent < most;
            if goes {
                bucket.take(frame.len() as u64, now);
                sent += frame.len() as u64;
            }
            goes
        });
        let allowed = allowed.count();
        if sent > 0 {
            limiter.take(sent, now);
        }
        if let Some(quantum) = &mut quantum {
            quantum.count(sent);
        }
        allowed
    }

    /// Whether a frame may go to one port.
    pub fn admit(
        &mut self,
        table: &mut Table,
        batch: &mut Batch,
        frame: FrameRef,
        to: PortIndex,
        now: Nanos,
    ) -> Admission {
        let flows = self.flows_of(table, batch, frame, Some(to));
        let vlan = batch.frames()[usize::from(frame.i)].vlan();
        let counters = table.counters.port(frame.from);
        let Some(port) = table.ports.get(to) else {
            counters.dropped(Reason::NoDestination, 1);
            return Admission::Done;
        };
        let policy = port.shaping.as_ref().map(|shaping| &shaping.policy);
        let access = policy.map_or(0, |policy| policy.vlan);
        if access != 0 && access != vlan {
            counters.dropped(Reason::Vlan, 1);
            return Admission::Done;
        }
        let limited = policy.is_some_and(|policy| policy.received.is_some());
        let mut blocked = limited && self.is_blocked(table, to, now);
        if blocked && self.serving.is_some() {
            let own = table.shaping(frame.from);
            let own = own.map_or(Priority::default(), |own| own.policy.priority);
            let mut flows = flows.into_iter().flatten();
            let flow = flows.find_map(|flow| table.flow_mut(frame.domain, flow)?.shared.priority);
            let priority = flow.unwrap_or(own);
            if !self.goes_first(table, to, priority, now) {
                self.cut = Some(Cut {
                    at: frame.i,
                    on: to,
                    priority,
                });
                return Admission::Wait;
            }
            blocked = false;
        }
        for flow in flows.into_iter().flatten() {
            if !self.admit_by_flow(table, batch, frame, flow, Some(to), now) {
                return Admission::Done;
            }
        }
        if blocked {
            self.hold_back(table, batch, frame, to, now);
            return Admission::Done;
        }
        self.charge(table, batch, frame.i, to, now);
        Admission::Go
    }

    /// Whether the queue whose batch is being resolved may have a rate before the queues that wait
    /// for it, since it has sent less than its share. The bytes that it then sends are counted.
    fn goes_first(&mut self, table: &Table, to: PortIndex, priority: Priority, now: Nanos) -> bool {
        let (Some(port), Some(queue)) = (table.shaping(to), self.serving) else {
            return false;
        };
        let limiter = port.policy.received.as_ref();
        let may = self.quantum.is_none()
            && limiter.is_none_or(|limiter| limiter.is_ready(now))
            && port.waiters.goes_first(queue, priority);
        if may {
            self.begin_quantum(to, true);
        }
        may
    }

    /// Whether a port with a rate can be sent nothing now: its rate is used up, or others wait for
    /// it.
    fn is_blocked(&self, table: &Table, to: PortIndex, now: Nanos) -> bool {
        let Some(port) = table.shaping(to) else {
            return false;
        };
        let Some(limiter) = &port.policy.received else {
            return false;
        };
        let quantum = self.quantum.as_ref().filter(|quantum| quantum.to == to);
        let has_quantum = quantum.is_some_and(|quantum| quantum.sent < QUANTUM_BYTES);
        let ready = match quantum {
            Some(quantum) if quantum.first => limiter.is_ready(now),
            _ => limiter.is_above_reserve(now),
        };
        !ready || (!has_quantum && !port.waiters.is_empty())
    }

    /// Takes frame `i` out of a port's rate, if it has one.
    fn charge(&mut self, table: &Table, batch: &Batch, i: u16, to: PortIndex, now: Nanos) {
        let port = table.shaping(to);
        if let Some(limiter) = port.and_then(|port| port.policy.received.as_ref()) {
            let len = batch.frames()[usize::from(i)].len() as u64;
            limiter.take(len, now);
            if let Some(quantum) = self.quantum.as_mut().filter(|quantum| quantum.to == to) {
                quantum.count(len);
            }
        }
    }

    /// As [`charge`](Self::charge), or puts the frame into the port's backlog. Returns whether it
    /// may go.
    pub fn charge_or_hold_back(
        &mut self,
        table: &mut Table,
        batch: &Batch,
        frame: FrameRef,
        to: PortIndex,
        now: Nanos,
    ) -> bool {
        let blocked = self.is_blocked(table, to, now);
        if blocked {
            self.hold_back(table, batch, frame, to, now);
        } else {
            self.charge(table, batch, frame.i, to, now);
        }
        !blocked
    }

    /// Puts a frame whose sender cannot be held back into a port's backlog.
    fn hold_back(
        &mut self,
        table: &mut Table,
        batch: &Batch,
        frame: FrameRef,
        to: PortIndex,
        now: Nanos,
    ) {
        let Some(port) = table.ports.get_mut(to) else {
            return;
        };
        let generation = port.generation;
        let Some(port) = port.shaping.as_deref_mut() else {
            return;
        };
        let Some(line) = &mut port.backlog else {
            return;
        };
        let endpoints = Endpoints {
            from: frame.from,
            to: Some(to),
            generation,
            patches: 0,
            vlan: batch.frames()[usize::from(frame.i)].said_vlan(),
        };
        let first = line.is_empty();
        if !line.push_frame(now, endpoints, batch, frame.i, Form::AsIs) {
            return table.counters.port(to).dropped(Reason::OverLimit, 1);
        }
        if first {
            port.waiters.push_backlog();
            self.look_at_rate_later(table, to, now);
        }
    }

    /// Whether a port may flood one more frame.
    pub fn may_flood(&self, table: &Table, from: PortIndex, now: Nanos) -> bool {
        let limiter = table
            .shaping(from)
            .and_then(|own| own.policy.flood.as_ref());
        limiter.is_none_or(|limiter| limiter.take_if_ready(1, now))
    }

    /// Whether a frame may be flooded, as far as its sender's flows go.
    pub fn admit_flood(
        &mut self,
        table: &mut Table,
        batch: &mut Batch,
        frame: FrameRef,
        now: Nanos,
    ) -> bool {
        let flows = self.flows_of(table, batch, frame, None);
        let mut flows = flows.into_iter().flatten();
        flows.all(|flow| self.admit_by_flow(table, batch, frame, flow, None, now))
    }

    /// Whether a copy of a flooded frame may go to one port; `None` if the port is not in the
    /// frame's VLAN. For one copy's sake no sender waits: the copy does, if the rate of the port or
    /// of a flow of its is used up.
    pub fn admit_copy(
        &mut self,
        table: &mut Table,
        batch: &Batch,
        frame: FrameRef,
        key: Option<FrameKey>,
        to: PortIndex,
        now: Nanos,
    ) -> Option<Admission> {
        let port = table.ports.get(to)?;
        let bytes = &batch.frames()[usize::from(frame.i)];
        let access = port
            .shaping
            .as_ref()
            .map_or(0, |shaping| shaping.policy.vlan);
        if access != 0 && access != bytes.vlan() {
            return None;
        }
        if let Some(key) = key
            && !self.admit_by_receiver(table, batch, frame, key, to, now)
        {
            return Some(Admission::Done);
        }
        let port = table.shaping(to);
        if let Some(limiter) = port.and_then(|port| port.policy.received.as_ref()) {
            if !limiter.is_above_reserve(now) {
                self.hold_back(table, batch, frame, to, now);
                return Some(Admission::Done);
            }
            limiter.take(bytes.len() as u64, now);
        }
        Some(Admission::Go)
    }
}

impl Quantum {
    /// Counts bytes that were sent in it.
    fn count(&mut self, bytes: u64) {
        self.sent += bytes;
        self.uncounted += bytes;
    }
}
