//! Flows: which one a frame belongs to, and what waits for its limit.

use super::super::{Worker, slot, slot_mut};
use crate::counters::Reason;
use crate::lookup::PortIndex;
use crate::port::BATCH;
use crate::port::hold::Form;
use crate::qos::bucket::Nanos;
use crate::qos::classifier::Key;
use crate::qos::crowd::Source;
use crate::qos::headers::Lack;
use crate::qos::line::Way;
use crate::qos::shape::{LaneFlow, backlog, next_look};
use crate::qos::timer::Due;

impl Worker {
    /// The flow that frame `i` belongs to.
    pub(in crate::worker) fn flow_of(
        &mut self,
        domain: u32,
        from: PortIndex,
        i: u16,
        to: Option<PortIndex>,
    ) -> Option<u32> {
        let flows = slot(&self.domains, domain)?.flows.as_deref()?;
        if flows.classifier.is_empty() {
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
        let key = key.ok()??.between(from, to);
        slot(&self.domains, domain)?
            .flows
            .as_deref()?
            .classifier
            .find(&key)
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
            while let Some(first) = line.first()
                && self.batch.has_room()
                && limit.is_none_or(|limit| limit.take_if_ready(first.len as u64, now))
            {
                let (len, vnet, way) = (first.len, first.vnet, first.way);
                let bytes = line.first_bytes();
                let place = self.batch.frames().len();
                if self
                    .batch
                    .put(len, vnet, way.vlan, |room| room.copy_from_slice(bytes))
                {
                    ways[place] = Some(way);
                }
                line.pop();
            }
            if !line.is_empty() {
                flow.timed = true;
                let at = limit.map_or(now, |limit| next_look(limit, now));
                self.shaping.timers.set(at, Due::Flow(domain, number));
            }
        }
        for (i, way) in (0..).zip(ways.into_iter().flatten()) {
            match way.to {
                Some(to) if self.turn_of(to) != Some(way.turn) => {
                    self.counters
                        .port(way.from)
                        .dropped(Reason::NoDestination, 1);
                }
                Some(to) if self.is_blocked(to, now) => self.store(way.from, i, to, now),
                Some(to) => {
                    self.charge(to, i, now);
                    self.enqueue(way.from, i, to);
                }
                None => self.flood_on(domain, way.from, i, now),
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
