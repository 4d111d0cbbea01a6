//! Where the frames of a domain with limits go: to one port if its rate and the flow's allow, to all
//! ports of a VLAN.

use std::ops::Range;

use super::super::deliver::Crossing;
use super::super::{Worker, bits, slot, slot_mut};
use super::{Cut, GRANT};
use crate::counters::Reason;
use crate::crossing::Target;
use crate::lookup::{Destination, PortIndex};
use crate::properties::Priority;
use crate::qos::bucket::{Nanos, clock};

impl Worker {
    /// As [`steer`](Self::steer), with limits, flows and VLANs. Stops at the first frame that must
    /// wait.
    #[inline(never)]
    pub(in crate::worker) fn steer_shaped(
        &mut self,
        from: PortIndex,
        domain: u32,
        run: Range<usize>,
    ) {
        let (now, seconds) = (clock(self.now), self.seconds());
        let Some(asked) = slot_mut(&mut self.domains, domain) else {
            return;
        };
        let frames = &self.batch.frames()[run.clone()];
        let to = &mut self.destinations[..frames.len()];
        asked.lookup.steer(from, frames, to, seconds);
        for (i, to) in (run.start as u16..).zip(0..run.len()) {
            match self.destinations[to] {
                Destination::Port(to) => {
                    if !self.pass_to(domain, from, i, to, now) {
                        break;
                    }
                }
                Destination::Drop(reason) => self.counters.port(from).dropped(reason, 1),
                Destination::Flood => self.flood(domain, from, i, now),
            }
        }
        if !self.exits.is_empty() {
            self.tell_news(domain);
        }
    }

    /// Has frame `i` go to one port if it may. Returns whether the frames behind it may go on.
    pub(in crate::worker) fn pass_to(
        &mut self,
        domain: u32,
        from: PortIndex,
        i: u16,
        to: PortIndex,
        now: Nanos,
    ) -> bool {
        let flow = self.flow_of(domain, from, i, Some(to));
        let frame = &self.batch.frames()[usize::from(i)];
        let Some(port) = slot(&self.ports, to.into()) else {
            self.counters.port(from).dropped(Reason::NoDestination, 1);
            return true;
        };
        let shaped = port.shaped.as_deref();
        let access = shaped.map_or(0, |shaped| shaped.shape.vlan);
        if access != 0 && access != frame.vlan() {
            self.counters.port(from).dropped(Reason::Vlan, 1);
            return true;
        }
        let limited = shaped.is_some_and(|shaped| shaped.shape.received.is_some());
        let blocked = limited && self.is_blocked(to, now);
        if blocked && self.shaping.holds {
            let own = slot(&self.ports, from.into()).and_then(|port| port.shaped.as_deref());
            let own = own.map_or(Priority::default(), |own| own.shape.priority);
            let flow = flow.and_then(|flow| self.flow(domain, flow)?.flow.priority);
            self.shaping.cut = Some(Cut {
                at: i,
                on: to,
                priority: flow.unwrap_or(own),
            });
            return false;
        }
        if let Some(flow) = flow
            && !self.pass_flow(domain, flow, from, i, Some(to), now)
        {
            return true;
        }
        if blocked {
            self.store(from, i, to, now);
        } else {
            self.charge(to, i, now);
            self.enqueue(from, i, to);
        }
        true
    }

    /// Whether a limited port can be sent nothing now: its rate is used up, or others wait for it.
    pub(in crate::worker) fn is_blocked(&self, to: PortIndex, now: Nanos) -> bool {
        let shaped = slot(&self.ports, to.into()).and_then(|port| port.shaped.as_deref());
        let Some(shaped) = shaped else {
            return false;
        };
        let Some(limit) = &shaped.shape.received else {
            return false;
        };
        let out_of_turn = match &self.shaping.granted {
            Some(grant) if grant.to == to => grant.sent >= GRANT,
            _ => true,
        };
        !limit.is_ready(now) || (out_of_turn && !shaped.waiters.is_empty())
    }

    /// Takes frame `i` out of a port's rate, if it has one.
    pub(in crate::worker) fn charge(&mut self, to: PortIndex, i: u16, now: Nanos) {
        let shaped = slot(&self.ports, to.into()).and_then(|port| port.shaped.as_deref());
        if let Some(limit) = shaped.and_then(|shaped| shaped.shape.received.as_ref()) {
            let len = self.batch.frames()[usize::from(i)].len() as u64;
            limit.take(len, now);
            if let Some(grant) = self.shaping.granted.as_mut().filter(|grant| grant.to == to) {
                grant.sent += len;
            }
        }
    }

    /// Queues frame `i` to a port, on this lane or another.
    pub(in crate::worker) fn enqueue(&mut self, from: PortIndex, i: u16, to: PortIndex) {
        let counters = self.counters.port(from);
        match slot_mut(&mut self.ports, to.into()) {
            Some(port) if port.ways.has(self.lane) => {
                if port.queue.is_empty() {
                    self.touched.push(to);
                }
                port.queue.push(i);
            }
            Some(port) => {
                let (lane, turn) = (port.ways.home.into(), port.turn);
                let mut crossing = Crossing {
                    entries: &mut self.entries,
                    crossed: &mut self.crossed,
                    batch: &self.batch,
                    counters,
                };
                crossing.put(lane, i, Target::Port { place: to, turn });
            }
            None => counters.dropped(Reason::NoDestination, 1),
        }
    }

    /// Has frame `i` go to all other ports of the domain that are in its VLAN.
    pub(in crate::worker) fn flood(&mut self, domain: u32, from: PortIndex, i: u16, now: Nanos) {
        let own = slot(&self.ports, from.into()).and_then(|port| port.shaped.as_deref());
        let limit = own.and_then(|own| own.shape.flood.as_ref());
        let counters = self.counters.port(from);
        if limit.is_some_and(|limit| !limit.take_if_ready(1, now)) {
            return counters.dropped(Reason::FloodLimit, 1);
        }
        if slot(&self.domains, domain).is_none_or(|domain| domain.ports < 2) {
            return counters.dropped(Reason::NoDestination, 1);
        }
        if let Some(flow) = self.flow_of(domain, from, i, None)
            && !self.pass_flow(domain, flow, from, i, None, now)
        {
            return;
        }
        self.flood_on(domain, from, i, now);
    }

    pub(in crate::worker) fn flood_on(&mut self, domain: u32, from: PortIndex, i: u16, now: Nanos) {
        let Some(members) = slot(&self.domains, domain).map(|domain| domain.members.len()) else {
            return;
        };
        for member in 0..members {
            let to = slot(&self.domains, domain).map(|domain| domain.members[member]);
            if let Some(to) = to.filter(|&to| to != from) {
                self.flood_to(from, i, to, now);
            }
        }
        let Some(flooded) = slot(&self.domains, domain) else {
            return;
        };
        let turn = flooded.turn;
        let mut crossing = Crossing {
            entries: &mut self.entries,
            crossed: &mut self.crossed,
            batch: &self.batch,
            counters: self.counters.port(from),
        };
        for lane in bits(flooded.elsewhere) {
            crossing.put(lane, i, Target::Flood { domain, turn, from });
        }
    }

    /// Queues a flooded frame to one port of this lane's, if it is in the frame's VLAN. For one
    /// copy's sake no sender waits: the copy does, if the port's rate is used up.
    pub(in crate::worker) fn flood_to(
        &mut self,
        from: PortIndex,
        i: u16,
        to: PortIndex,
        now: Nanos,
    ) {
        let Some(port) = slot_mut(&mut self.ports, to.into()) else {
            return;
        };
        if let Some(shaped) = port.shaped.as_deref() {
            let frame = &self.batch.frames()[usize::from(i)];
            if shaped.shape.vlan != 0 && shaped.shape.vlan != frame.vlan() {
                return;
            }
            let limit = shaped.shape.received.as_ref();
            if limit.is_some_and(|limit| !limit.take_if_ready(frame.len() as u64, now)) {
                return self.store(from, i, to, now);
            }
        }
        if port.queue.is_empty() {
            self.touched.push(to);
        }
        port.queue.push(i);
    }

    /// Queues a frame that another lane's port has flooded to the ports that are this lane's to
    /// serve.
    pub(in crate::worker) fn arrive_shaped(
        &mut self,
        domain: u32,
        i: u16,
        from: PortIndex,
        origin: u8,
    ) {
        let now = clock(self.now);
        let members = slot(&self.domains, domain).map_or(0, |domain| domain.members.len());
        for member in 0..members {
            let Some(to) = slot(&self.domains, domain).map(|domain| domain.members[member]) else {
                return;
            };
            let ways = slot(&self.ports, to.into()).map(|port| port.ways);
            let mine = ways.is_some_and(|ways| ways.home == self.lane && !ways.has(origin));
            if mine && to != from {
                self.flood_to(from, i, to, now);
            }
        }
    }
}
