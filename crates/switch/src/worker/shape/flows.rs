//! Flows: which one a frame belongs to, and what waits for its limit.

use super::super::{Worker, slot, slot_mut};
use crate::counters::Reason;
use crate::lookup::PortIndex;
use crate::port::hold::Form;
use crate::port::{BATCH, Batch};
use crate::qos::bucket::{Nanos, clock};
use crate::qos::classifier::{Classifier, Key};
use crate::qos::crowd::Source;
use crate::qos::headers::Lack;
use crate::qos::line::{Line, Way};
use crate::qos::shape::{LaneFlow, backlog, next_look};
use crate::qos::timer::Due;

impl Worker {
    /// The flows that frame `i` belongs to, its sender's and its receiver's.
    pub(in crate::worker) fn flows_of(
        &mut self,
        domain: u32,
        from: PortIndex,
        i: u16,
        to: Option<PortIndex>,
    ) -> [Option<u32>; 2] {
        let Some(key) = self.key_of(domain, i, |flows| !flows.is_empty()) else {
            return [None; 2];
        };
        let flows = slot(&self.domains, domain).and_then(|domain| domain.flows.as_deref());
        flows.map_or([None; 2], |flows| {
            flows.classifier.find(&key.between(from, to))
        })
    }

    /// What frame `i` is known by, if it is an IP packet and the domain's flows are such that it
    /// matters.
    pub(in crate::worker) fn key_of(
        &mut self,
        domain: u32,
        i: u16,
        matters: impl Fn(&Classifier) -> bool,
    ) -> Option<Key> {
        let flows = slot(&self.domains, domain)?.flows.as_deref()?;
        if !matters(&flows.classifier) {
            return None;
        }
        let frame = &self.batch.frames()[usize::from(i)];
        let key = match Key::of_frame(frame.head(), frame.len()) {
            Err(Lack::More) => {
                let whole = self.batch.pin(i);
                Key::of_frame(whole, whole.len())
            }
            key => key,
        };
        key.ok()?
    }

    /// Whether frame `i` from a port, which is flooded to another, may go there now as far as that
    /// port's flows are concerned.
    pub(in crate::worker) fn passes_receiver(
        &mut self,
        domain: u32,
        key: Key,
        from: PortIndex,
        i: u16,
        to: PortIndex,
        now: Nanos,
    ) -> bool {
        let flows = slot(&self.domains, domain).and_then(|domain| domain.flows.as_deref());
        let key = key.between(from, Some(to));
        let flow = flows.and_then(|flows| flows.classifier.find_receiver(&key));
        flow.is_none_or(|flow| self.pass_flow(domain, flow, from, i, Some(to), now))
    }

    pub(in crate::worker) fn flow(&mut self, domain: u32, flow: u32) -> Option<&mut LaneFlow> {
        slot_mut(&mut self.domains, domain)?
            .flows
            .as_deref_mut()?
            .get(flow)
    }

    /// Counts frame `i` of a flow, and has it wait if the flow is over its limit. Returns whether
    /// it may go on now.
    pub(in crate::worker) fn pass_flow(
        &mut self,
        domain: u32,
        number: u32,
        from: PortIndex,
        i: u16,
        to: Option<PortIndex>,
        now: Nanos,
    ) -> bool {
        let frame = &self.batch.frames()[usize::from(i)];
        let (len, vlan) = (frame.len(), frame.said_vlan());
        let turn = match to {
            Some(to) => slot(&self.ports, to.into()).map(|port| port.turn),
            None => slot(&self.domains, domain).map(|domain| domain.turn),
        };
        let flows = slot_mut(&mut self.domains, domain).and_then(|domain| domain.flows.as_mut());
        let Some(flow) = flows.and_then(|flows| flows.get(number)) else {
            return true;
        };
        flow.flow.counters.came(len as u64);
        let Some(limit) = &flow.flow.limit else {
            return true;
        };
        let waits = flow.line.as_ref().is_some_and(|line| !line.is_empty());
        if !waits && limit.take_if_ready(len as u64, now) {
            return true;
        }
        let way = Way {
            from,
            to,
            turn: turn.unwrap_or(0),
            patches: 0,
            vlan,
        };
        // Made when first needed: most flows stay within their limits.
        let line = flow.line.get_or_insert_with(|| backlog(limit.rate()));
        let batch = &self.batch;
        let vnet = batch.vnet_as(i, Form::AsIs);
        if line.push(now, way, vnet, len, |room| {
            batch.write_as(i, Form::AsIs, room)
        }) {
            flow.flow.counters.held();
            if !flow.timed {
                flow.timed = true;
                let at = next_look(limit, now);
                self.shaping.timers.set(at, Due::Flow(domain, number));
            }
        } else {
            flow.flow.counters.dropped();
            self.counters.port(from).dropped(Reason::OverLimit, 1);
        }
        false
    }

    /// Has frames of a flow go on that waited for its limit.
    pub(in crate::worker) fn resume_flow(&mut self, domain: u32, number: u32, now: Nanos) {
        self.batch.clear();
        let mut ways = [None; BATCH];
        let flows = slot_mut(&mut self.domains, domain).and_then(|domain| domain.flows.as_mut());
        let Some(flow) = flows.and_then(|flows| flows.get(number)) else {
            return;
        };
        flow.timed = false;
        let limit = flow.flow.limit.as_ref();
        if let Some(line) = &mut flow.line {
            take_each(&mut self.batch, line, &mut ways, |len| {
                limit.is_none_or(|limit| limit.take_if_ready(len, now))
            });
            if !line.is_empty() {
                flow.timed = true;
                let at = limit.map_or(now, |limit| next_look(limit, now));
                self.shaping.timers.set(at, Due::Flow(domain, number));
            }
        }
        self.go_ways(domain, number, &ways, now);
    }

    /// Has all frames go on that waited for the limit of a flow that is no more.
    pub(in crate::worker) fn let_go(&mut self, domain: u32, number: u32, mut line: Line) {
        let now = clock(self.now);
        while !line.is_empty() {
            self.batch.clear();
            let mut ways = [None; BATCH];
            take_each(&mut self.batch, &mut line, &mut ways, |_| true);
            self.go_ways(domain, number, &ways, now);
        }
    }

    /// Has the batch's frames go their ways, which waited for the limit of this flow.
    fn go_ways(&mut self, domain: u32, number: u32, ways: &[Option<Way>; BATCH], now: Nanos) {
        for (i, way) in (0..).zip(ways.iter().flatten()) {
            let Some(to) = way.to else {
                self.flood_on(domain, way.from, i, now);
                continue;
            };
            if self.turn_of(to) != Some(way.turn) {
                let counters = self.counters.port(way.from);
                counters.dropped(Reason::NoDestination, 1);
                continue;
            }
            // Its sender's let it go: it may be for its receiver's to hold now.
            if let [Some(first), Some(second)] = self.flows_of(domain, way.from, i, Some(to))
                && first == number
                && !self.pass_flow(domain, second, way.from, i, Some(to), now)
            {
                continue;
            }
            if self.is_blocked(to, now) {
                self.store(way.from, i, to, now);
            } else {
                self.charge(to, i, now);
                self.enqueue(way.from, i, to);
            }
        }
        self.source = Source::Lines;
        self.deliver();
        self.crossed = 0;
    }

    pub(in crate::worker) fn turn_of(&self, place: PortIndex) -> Option<u32> {
        slot(&self.ports, place.into()).map(|port| port.turn)
    }
}

/// Takes frames out of a line, with their ways, as long as `may` says so of the next one's length
/// and the batch has room.
fn take_each(
    batch: &mut Batch,
    line: &mut Line,
    ways: &mut [Option<Way>; BATCH],
    may: impl Fn(u64) -> bool,
) {
    while let Some(first) = line.first()
        && batch.has_room()
        && may(first.len as u64)
    {
        let (len, vnet, way) = (first.len, first.vnet, first.way);
        let bytes = line.first_bytes();
        let place = batch.frames().len();
        if batch.put(len, vnet, way.vlan, |room| room.copy_from_slice(bytes)) {
            ways[place] = Some(way);
        }
        line.pop();
    }
}
