//! Where the frames of a domain with limits go: to one port if its rate and the flow's allow, to all
//! ports of a VLAN.

use std::ops::Range;

use super::super::deliver::Crossing;
use super::super::{Worker, bits, slot, slot_mut};
use super::{Cut, GRANT, Grant};
use crate::counters::Reason;
use crate::crossing::Target;
use crate::lookup::{Destination, PortIndex};
use crate::properties::Priority;
use crate::qos::bucket::{Nanos, clock};
use crate::qos::classifier::{Classifier, Key};

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
        let mut at = 0;
        while at < run.len() {
            let i = (run.start + at) as u16;
            match self.destinations[at] {
                Destination::Port(to) => {
                    let alike = self.destinations[at..run.len()].iter();
                    let alike = alike.take_while(|other| **other == Destination::Port(to));
                    let frames = alike.count();
                    at += self.pass_run(domain, i, frames, to, now);
                    let i = (run.start + at) as u16;
                    let rest = at < run.len() && self.destinations[at] == Destination::Port(to);
                    if rest && !self.pass_to(domain, from, i, to, now) {
                        break;
                    }
                    at += usize::from(rest);
                    continue;
                }
                Destination::Drop(reason) => self.counters.port(from).dropped(reason, 1),
                Destination::Flood => self.flood(domain, from, i, now),
            }
            at += 1;
        }
        if !self.exits.is_empty() {
            self.tell_news(domain);
        }
    }

    /// Has as many of `frames` frames from `first` on go to one port as may without anything but its
    /// rate being looked at, which is done once for all. Returns how many.
    fn pass_run(
        &mut self,
        domain: u32,
        first: u16,
        frames: usize,
        to: PortIndex,
        now: Nanos,
    ) -> usize {
        let flows = slot(&self.domains, domain).and_then(|domain| domain.flows.as_deref());
        let plain = flows.is_none_or(|flows| flows.classifier.is_empty());
        let Some(port) = slot_mut(&mut self.ports, to.into()) else {
            return 0;
        };
        if !plain || !port.ways.has(self.lane) {
            return 0;
        }
        let mut go = frames;
        if let Some(shaped) = port.shaped.as_deref() {
            if shaped.shape.vlan != 0 {
                return 0;
            }
            if let Some(limit) = &shaped.shape.received {
                let granted = self.shaping.granted.as_mut();
                let mut grant = granted.filter(|grant| grant.to == to);
                let most = match (&grant, shaped.waiters.is_empty()) {
                    (_, true) => u64::MAX,
                    (Some(grant), false) => GRANT.saturating_sub(grant.sent),
                    (None, false) => 0,
                };
                let keeps = grant.as_ref().is_none_or(|grant| !grant.first);
                let (mut trial, mut sent) = (limit.bucket(), 0);
                let run = &self.batch.frames()[usize::from(first)..][..frames];
                let may = run.iter().take_while(|frame| {
                    let ready = match keeps {
                        true => trial.has_spare(now),
                        false => trial.is_ready(now),
                    };
                    let goes = ready && sent < most;
                    if goes {
                        trial.take(frame.len() as u64, now);
                        sent += frame.len() as u64;
                    }
                    goes
                });
                go = may.count();
                if sent > 0 {
                    limit.take(sent, now);
                }
                if let Some(grant) = &mut grant {
                    grant.sent += sent;
                    grant.untold += sent;
                }
            }
        }
        if go > 0 {
            if port.queue.is_empty() {
                self.touched.push(to);
            }
            port.queue.extend(first..first + go as u16);
        }
        go
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
        let flows = self.flows_of(domain, from, i, Some(to));
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
        let mut blocked = limited && self.is_blocked(to, now);
        if blocked && self.shaping.holds {
            let own = slot(&self.ports, from.into()).and_then(|port| port.shaped.as_deref());
            let own = own.map_or(Priority::default(), |own| own.shape.priority);
            let mut flows = flows.into_iter().flatten();
            let flow = flows.find_map(|flow| self.flow(domain, flow)?.flow.priority);
            let priority = flow.unwrap_or(own);
            if !self.goes_first(to, priority, now) {
                let (at, on) = (i, to);
                self.shaping.cut = Some(Cut { at, on, priority });
                return false;
            }
            blocked = false;
        }
        for flow in flows.into_iter().flatten() {
            if !self.pass_flow(domain, flow, from, i, Some(to), now) {
                return true;
            }
        }
        if blocked {
            self.store(from, i, to, now);
        } else {
            self.charge(to, i, now);
            self.enqueue(from, i, to);
        }
        true
    }

    /// Whether the queue whose batch is under way may have a rate before those who wait for it,
    /// since it has had less than its share. What it sends then counts.
    fn goes_first(&mut self, to: PortIndex, priority: Priority, now: Nanos) -> bool {
        let shaped = slot(&self.ports, to.into()).and_then(|port| port.shaped.as_deref());
        let (Some(shaped), Some(queue)) = (shaped, self.shaping.serving) else {
            return false;
        };
        let limit = shaped.shape.received.as_ref();
        let may = self.shaping.granted.is_none()
            && limit.is_none_or(|limit| limit.is_ready(now))
            && shaped.waiters.goes_first(queue, priority);
        if may {
            self.shaping.granted = Some(Grant::new(to, true));
        }
        may
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
        let grant = self.shaping.granted.as_ref().filter(|grant| grant.to == to);
        let out_of_turn = grant.is_none_or(|grant| grant.sent >= GRANT);
        let ready = match grant {
            Some(grant) if grant.first => limit.is_ready(now),
            _ => limit.has_spare(now),
        };
        !ready || (out_of_turn && !shaped.waiters.is_empty())
    }

    /// Takes frame `i` out of a port's rate, if it has one.
    pub(in crate::worker) fn charge(&mut self, to: PortIndex, i: u16, now: Nanos) {
        let shaped = slot(&self.ports, to.into()).and_then(|port| port.shaped.as_deref());
        if let Some(limit) = shaped.and_then(|shaped| shaped.shape.received.as_ref()) {
            let len = self.batch.frames()[usize::from(i)].len() as u64;
            limit.take(len, now);
            if let Some(grant) = self.shaping.granted.as_mut().filter(|grant| grant.to == to) {
                grant.sent += len;
                grant.untold += len;
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
        for flow in self.flows_of(domain, from, i, None).into_iter().flatten() {
            if !self.pass_flow(domain, flow, from, i, None, now) {
                return;
            }
        }
        self.flood_on(domain, from, i, now);
    }

    pub(in crate::worker) fn flood_on(&mut self, domain: u32, from: PortIndex, i: u16, now: Nanos) {
        let Some(members) = slot(&self.domains, domain).map(|domain| domain.members.len()) else {
            return;
        };
        let key = self.key_of(domain, i, Classifier::has_ports);
        let mut reached = false;
        for member in 0..members {
            let to = slot(&self.domains, domain).map(|domain| domain.members[member]);
            if let Some(to) = to.filter(|&to| to != from) {
                reached |= self.flood_to(domain, key, from, i, to, now);
            }
        }
        let Some(flooded) = slot(&self.domains, domain) else {
            return;
        };
        let turn = flooded.turn;
        if !reached && flooded.elsewhere == 0 {
            self.counters.port(from).dropped(Reason::NoDestination, 1);
        }
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

    /// Queues a flooded frame to one port of this lane's, if it is in the frame's VLAN, which is
    /// returned. For one copy's sake no sender waits: the copy does, if the rate of the port or of a
    /// flow of its is used up.
    fn flood_to(
        &mut self,
        domain: u32,
        key: Option<Key>,
        from: PortIndex,
        i: u16,
        to: PortIndex,
        now: Nanos,
    ) -> bool {
        let Some(port) = slot(&self.ports, to.into()) else {
            return false;
        };
        let frame = &self.batch.frames()[usize::from(i)];
        let access = port.shaped.as_ref().map_or(0, |shaped| shaped.shape.vlan);
        if access != 0 && access != frame.vlan() {
            return false;
        }
        if let Some(key) = key
            && !self.passes_receiver(domain, key, from, i, to, now)
        {
            return true;
        }
        let Some(port) = slot_mut(&mut self.ports, to.into()) else {
            return false;
        };
        if let Some(shaped) = port.shaped.as_deref()
            && let Some(limit) = &shaped.shape.received
        {
            if !limit.has_spare(now) {
                self.store(from, i, to, now);
                return true;
            }
            let frame = &self.batch.frames()[usize::from(i)];
            limit.take(frame.len() as u64, now);
        }
        if port.queue.is_empty() {
            self.touched.push(to);
        }
        port.queue.push(i);
        true
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
        let key = self.key_of(domain, i, Classifier::has_ports);
        let members = slot(&self.domains, domain).map_or(0, |domain| domain.members.len());
        for member in 0..members {
            let Some(to) = slot(&self.domains, domain).map(|domain| domain.members[member]) else {
                return;
            };
            let ways = slot(&self.ports, to.into()).map(|port| port.ways);
            let mine = ways.is_some_and(|ways| ways.home == self.lane && !ways.has(origin));
            if mine && to != from {
                self.flood_to(domain, key, from, i, to, now);
            }
        }
    }
}
