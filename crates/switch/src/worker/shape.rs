//! Limits, protection, flows, VLANs, delay and loss on a lane: what the worker does for domains in
//! which any port has more than the usual properties. All others never come here.
//!
//! A batch of a queue goes on up to the first frame that may not: the rest stays in the sender's
//! ring, or with a link that has none the batch is kept, and the queue leaves the round until its
//! time has come ([`Due`]). Frames that nobody could hold back wait in a line.

use std::ops::Range;
use std::time::Duration;

use super::deliver::Crossing;
use super::port::State;
use super::{QueueIndex, Worker, bits, slot, slot_mut};
use crate::counters::Reason;
use crate::crossing::Target;
use crate::lookup::{Destination, PortIndex};
use crate::port::hold::{EACH, Form, tag};
use crate::port::{BATCH, Batch, Outcome};
use crate::properties::{Priority, Share};
use crate::qos::bucket::{Nanos, clock};
use crate::qos::classifier::Key;
use crate::qos::headers::Lack;
use crate::qos::line::Way;
use crate::qos::protect::More;
use crate::qos::shape::{backlog, next_look};
use crate::qos::timer::{Due, Timers};

/// Bytes that one of several who wait for a rate is granted at a time.
const GRANT: u64 = 16 << 10;
/// Most grants in a row, so that the others in the round get their turn.
const GRANTS: usize = 64;
/// What is due within this is waited for awake: about what sleeping and waking take.
const SOON: Nanos = 60_000;
/// Frames that cannot be held back, among those who wait: no queue has this index.
const BACKLOG: QueueIndex = QueueIndex::MAX;

/// What a worker needs for what is here.
pub(super) struct Shaping {
    pub timers: Timers,
    /// What is wrong with each frame of the batch, as far as that shows before the lookup.
    verdicts: [Option<Reason>; BATCH],
    /// Whether the batch's frames can be held back where they are.
    holds: bool,
    /// The first frame of the batch that must wait.
    cut: Option<Cut>,
    /// Whose turn it is with a rate.
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

struct Cut {
    at: u16,
    /// The port whose rate is used up.
    on: PortIndex,
    priority: Priority,
}

struct Grant {
    to: PortIndex,
    sent: u64,
}

impl Shaping {
    pub fn new() -> Shaping {
        Shaping {
            timers: Timers::default(),
            verdicts: [None; BATCH],
            holds: false,
            cut: None,
            granted: None,
            scratch: None,
            spare: Vec::new(),
        }
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
    fn look_over(&mut self, shape: &crate::qos::shape::Shape, frames: usize) {
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

    /// As [`steer`](Self::steer), with limits, flows and VLANs. Stops at the first frame that must
    /// wait.
    #[inline(never)]
    pub(super) fn steer_shaped(&mut self, from: PortIndex, domain: u32, run: Range<usize>) {
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
    fn pass_to(&mut self, domain: u32, from: PortIndex, i: u16, to: PortIndex, now: Nanos) -> bool {
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
    fn is_blocked(&self, to: PortIndex, now: Nanos) -> bool {
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
    fn charge(&mut self, to: PortIndex, i: u16, now: Nanos) {
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
    fn enqueue(&mut self, from: PortIndex, i: u16, to: PortIndex) {
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
    fn flood(&mut self, domain: u32, from: PortIndex, i: u16, now: Nanos) {
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

    fn flood_on(&mut self, domain: u32, from: PortIndex, i: u16, now: Nanos) {
        let Some(members) = slot(&self.domains, domain).map(|domain| domain.members.len()) else {
            return;
        };
        for member in 0..members {
            let to = slot(&self.domains, domain).map(|domain| domain.members[member]);
            if let Some(to) = to.filter(|&to| to != from) {
                self.flood_to(i, to, now);
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

    /// Queues a flooded frame to one port of this lane's, if it is in the frame's VLAN and has rate
    /// left: for one copy's sake nobody waits.
    pub(super) fn flood_to(&mut self, i: u16, to: PortIndex, now: Nanos) {
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
                return self.counters.port(to).dropped(Reason::OverLimit, 1);
            }
        }
        if port.queue.is_empty() {
            self.touched.push(to);
        }
        port.queue.push(i);
    }

    /// The flow that frame `i` belongs to.
    fn flow_of(
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

    fn flow(&mut self, domain: u32, flow: u32) -> Option<&mut crate::qos::shape::LaneFlow> {
        slot_mut(&mut self.domains, domain)?
            .flows
            .as_deref_mut()?
            .get(flow)
    }

    /// Counts frame `i` of a flow, and has it wait if the flow is over its limit. Returns whether
    /// it may go on now.
    fn pass_flow(
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

    /// Has frame `i`, whose sender cannot be held back, wait for a port's rate.
    fn store(&mut self, from: PortIndex, i: u16, to: PortIndex, now: Nanos) {
        let counters = self.counters.port(to);
        let Some(port) = slot_mut(&mut self.ports, to.into()) else {
            return;
        };
        let turn = port.turn;
        let Some(shaped) = port.shaped.as_deref_mut() else {
            return;
        };
        let Some(limit) = &shaped.shape.received else {
            return;
        };
        let frame = &self.batch.frames()[usize::from(i)];
        let way = Way {
            from,
            to: Some(to),
            turn,
            patches: 0,
            vlan: frame.said_vlan(),
        };
        // Made when first needed: most ports are sent to by those who can be held back.
        let line = shaped.backlog.get_or_insert_with(|| backlog(limit.rate()));
        let first = line.is_empty();
        let batch = &self.batch;
        let vnet = batch.vnet_as(i, Form::AsIs);
        if !line.push(now, way, vnet, frame.len(), |room| {
            batch.write_as(i, Form::AsIs, room);
        }) {
            return counters.dropped(Reason::OverLimit, 1);
        }
        if first {
            let priority = Priority::default();
            let tag = &mut shaped.backlog_tag;
            shaped.waiters.push(to, BACKLOG, priority, tag);
            self.ask_grant(to, now);
        }
    }

    /// Has a queue wait until a port can be sent to again.
    fn wait_for(&mut self, place: QueueIndex, on: PortIndex, priority: Priority, now: Nanos) {
        let share = self.share_of(place);
        let Some(queue) = slot_mut(&mut self.queues, place) else {
            return;
        };
        queue.state = State::Held;
        let shaped =
            slot_mut(&mut self.ports, on.into()).and_then(|port| port.shaped.as_deref_mut());
        let Some(shaped) = shaped else {
            // It has no limit any more.
            return self.shaping.timers.set(now, Due::Send(place));
        };
        if let Some(grant) = self.shaping.granted.as_mut().filter(|grant| grant.to == on) {
            let sent = std::mem::take(&mut grant.sent);
            shaped.waiters.served(&mut queue.tag, sent, share);
            // What it was granted is used up, whoever comes next.
            grant.sent = GRANT;
        }
        shaped.waiters.push(on, place, priority, &mut queue.tag);
        self.ask_grant(on, now);
    }

    fn share_of(&self, place: QueueIndex) -> Share {
        let port = slot(&self.queues, place).and_then(|queue| slot(&self.ports, queue.port.into()));
        let shaped = port.and_then(|port| port.shaped.as_deref());
        shaped.map_or(Share::default(), |shaped| shaped.shape.share)
    }

    /// Sets a timer for those who wait for a port's rate.
    fn ask_grant(&mut self, to: PortIndex, now: Nanos) {
        let port = slot_mut(&mut self.ports, to.into());
        if let Some(shaped) = port.and_then(|port| port.shaped.as_deref_mut())
            && !std::mem::replace(&mut shaped.grants, true)
        {
            let limit = shaped.shape.received.as_ref();
            let at = limit.map_or(now, |limit| next_look(limit, now));
            self.shaping.timers.set(at, Due::Grant(to));
        }
    }

    /// Whether anything is due.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        let next = self.shaping.timers.next();
        next.is_some_and(|next| next <= clock(self.now))
    }

    /// Whether anything is due so soon that sleeping until then would take longer.
    #[inline]
    pub(super) fn is_due_soon(&self) -> bool {
        let next = self.shaping.timers.next();
        next.is_some_and(|next| next <= clock(self.now) + SOON)
    }

    /// How long it is until something is due, if anything is.
    pub(super) fn until_due(&self) -> Option<Duration> {
        let next = self.shaping.timers.next()?;
        Some(Duration::from_nanos(next.saturating_sub(clock(self.now))))
    }

    /// Queues a frame that another lane's port has flooded to the ports that are this lane's to
    /// serve.
    pub(super) fn arrive_shaped(&mut self, domain: u32, i: u16, from: PortIndex, origin: u8) {
        let now = clock(self.now);
        let members = slot(&self.domains, domain).map_or(0, |domain| domain.members.len());
        for member in 0..members {
            let Some(to) = slot(&self.domains, domain).map(|domain| domain.members[member]) else {
                return;
            };
            let ways = slot(&self.ports, to.into()).map(|port| port.ways);
            let mine = ways.is_some_and(|ways| ways.home == self.lane && !ways.has(origin));
            if mine && to != from {
                self.flood_to(i, to, now);
            }
        }
    }

    /// Does what is due.
    #[inline(never)]
    pub(super) fn do_due(&mut self) {
        let now = clock(self.now);
        while let Some(due) = self.shaping.timers.pop(now) {
            match due {
                Due::Send(place) => self.resume(place),
                Due::Grant(to) => self.grant(to, now),
                Due::Leave(to) => self.send_line(to, now),
                Due::Flow(domain, flow) => self.resume_flow(domain, flow, now),
            }
        }
    }

    /// Brings a queue back into the round that had to wait.
    pub(super) fn resume(&mut self, place: QueueIndex) {
        if let Some(queue) = slot_mut(&mut self.queues, place)
            && queue.state == State::Held
        {
            queue.state = State::Polled { woken: false };
            self.active.push(place);
        }
    }

    /// Serves those who wait for a port's rate, as far as it goes.
    fn grant(&mut self, to: PortIndex, now: Nanos) {
        for turn in 0.. {
            let port = slot_mut(&mut self.ports, to.into());
            let Some(shaped) = port.and_then(|port| port.shaped.as_deref_mut()) else {
                return;
            };
            if turn == 0 {
                shaped.grants = false;
            }
            let limit = shaped.shape.received.as_ref();
            if turn == GRANTS || limit.is_some_and(|limit| !limit.is_ready(now)) {
                break;
            }
            let Some(waiter) = shaped.waiters.pop() else {
                return;
            };
            self.shaping.granted = Some(Grant { to, sent: 0 });
            if waiter == BACKLOG {
                self.send_backlog(to, now);
            } else if let Some(queue) = slot_mut(&mut self.queues, waiter)
                && queue.state == State::Held
            {
                queue.state = State::Polled { woken: false };
                if self.serve_shaped(waiter, false) {
                    self.active.push(waiter);
                }
            }
            self.shaping.granted = None;
        }
        self.ask_grant(to, now);
    }

    /// Has frames out of a port's line go on, as far as its rate and the grant allow.
    fn send_backlog(&mut self, to: PortIndex, now: Nanos) {
        self.batch.clear();
        let mut sent = 0;
        let mut from = to;
        let port = slot_mut(&mut self.ports, to.into());
        let Some(shaped) = port.and_then(|port| port.shaped.as_deref_mut()) else {
            return;
        };
        let limit = shaped.shape.received.as_ref();
        if let Some(line) = &mut shaped.backlog {
            while let Some(first) = line.first()
                && self.batch.has_room()
                && sent < GRANT
                && limit.is_none_or(|limit| limit.is_ready(now))
            {
                let (len, vnet, vlan) = (first.len, first.vnet, first.way.vlan);
                from = first.way.from;
                let bytes = line.first_bytes();
                let taken = self
                    .batch
                    .put(len, vnet, vlan, |room| room.copy_from_slice(bytes));
                line.pop();
                if taken {
                    sent += len as u64;
                    if let Some(limit) = limit {
                        limit.take(len as u64, now);
                    }
                }
            }
            let share = Share::default();
            shaped.waiters.served(&mut shaped.backlog_tag, sent, share);
            if !line.is_empty() {
                let tag = &mut shaped.backlog_tag;
                shaped.waiters.push(to, BACKLOG, Priority::default(), tag);
            }
        }
        for i in 0..self.batch.frames().len() {
            self.enqueue(from, i as u16, to);
        }
        self.deliver();
        self.crossed = 0;
    }

    /// Has frames of a flow go on that waited for its limit.
    fn resume_flow(&mut self, domain: u32, number: u32, now: Nanos) {
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
        self.deliver();
        self.crossed = 0;
    }

    fn turn_of(&self, place: PortIndex) -> Option<u32> {
        slot(&self.ports, place.into()).map(|port| port.turn)
    }

    /// Sends a port its share of the batch, if that is lost, delayed or in another form. Returns
    /// whether it was.
    #[inline(never)]
    pub(super) fn send_shaped(&mut self, place: PortIndex, patches: u8) -> bool {
        let now = clock(self.now);
        let Some(port) = slot_mut(&mut self.ports, place.into()) else {
            return false;
        };
        let counters = self.counters.port(place);
        let access = port.shaped.as_ref().map_or(0, |shaped| shaped.shape.vlan);
        let batch = &self.batch;
        let form = |i: u16| Form::of(&batch.frames()[usize::from(i)], access);
        if let Some(wire) = port
            .shaped
            .as_deref_mut()
            .and_then(|shaped| shaped.wire.as_mut())
        {
            let before = port.queue.len();
            port.queue.retain(|_| !wire.loses());
            counters.dropped(Reason::Loss, (before - port.queue.len()) as u64);
            if wire.line.is_some() {
                for i in port.queue.drain(..) {
                    let form = form(i);
                    let len = form.len(&batch.frames()[usize::from(i)]);
                    let arrival = wire.arrival(now);
                    let way = Way {
                        from: place,
                        to: Some(place),
                        turn: port.turn,
                        patches,
                        vlan: 0,
                    };
                    let vnet = batch.vnet_as(i, form);
                    let write = |room: &mut [u8]| batch.write_as(i, form, room);
                    let line = wire.line.as_mut();
                    if !line.is_some_and(|line| line.push(arrival, way, vnet, len, write)) {
                        counters.dropped(Reason::LineFull, 1);
                    }
                }
                self.ask_leave(place, now);
                return true;
            }
        }
        if port.ways.patch.is_some() || port.queue.iter().all(|&i| form(i) == Form::AsIs) {
            return false;
        }
        let mut other = self
            .shaping
            .scratch
            .take()
            .unwrap_or_else(|| Box::new(Batch::new()));
        other.clear();
        for i in port.queue.drain(..) {
            let form = form(i);
            let len = form.len(&batch.frames()[usize::from(i)]);
            let vnet = batch.vnet_as(i, form);
            if !other.put(len, vnet, 0, |room| batch.write_as(i, form, room)) {
                counters.dropped(Reason::TooLong, 1);
            }
        }
        self.send_all(place, &mut other);
        self.shaping.scratch = Some(other);
        true
    }

    /// Sends all frames of a batch to a port of this lane's.
    fn send_all(&mut self, place: PortIndex, batch: &mut Batch) {
        let Some(port) = slot(&self.ports, place.into()) else {
            return;
        };
        let counters = self.counters.port(place);
        let frames = &EACH[..batch.frames().len()];
        let sends = port.sends.filter(|_| !port.closed);
        let queue = sends.and_then(|queue| slot_mut(&mut self.queues, queue));
        let outcome = match queue {
            Some(queue) if queue.state != State::Closed => queue.link.send(batch, frames, counters),
            _ => {
                counters.dropped(Reason::Closed, frames.len() as u64);
                Outcome::default()
            }
        };
        if let Some(queue) = sends {
            self.settle(queue, outcome);
        }
    }

    /// Sets a timer for the next frame to leave a port's line.
    fn ask_leave(&mut self, place: PortIndex, now: Nanos) {
        let port = slot_mut(&mut self.ports, place.into());
        let shaped = port.and_then(|port| port.shaped.as_deref_mut());
        if let Some(wire) = shaped.and_then(|shaped| shaped.wire.as_mut())
            && let Some(first) = wire.line.as_ref().and_then(|line| line.first())
            && !std::mem::replace(&mut wire.leaves, true)
        {
            let at = first.release.max(now);
            self.shaping.timers.set(at, Due::Leave(place));
        }
    }

    /// Sends what has come to the end of a port's line.
    fn send_line(&mut self, place: PortIndex, now: Nanos) {
        loop {
            let Some(port) = slot_mut(&mut self.ports, place.into()) else {
                return;
            };
            let (is_patch, mut patches) = (port.ways.patch.is_some(), 0);
            let shaped = port.shaped.as_deref_mut();
            let Some(wire) = shaped.and_then(|shaped| shaped.wire.as_mut()) else {
                return;
            };
            wire.leaves = false;
            self.batch.clear();
            if let Some(line) = &mut wire.line {
                while let Some(first) = line.first()
                    && first.release <= now
                    && self.batch.has_room()
                {
                    let (len, vnet) = (first.len, first.vnet);
                    patches = patches.max(first.way.patches);
                    let bytes = line.first_bytes();
                    self.batch
                        .put(len, vnet, 0, |room| room.copy_from_slice(bytes));
                    line.pop();
                }
            }
            if self.batch.frames().is_empty() {
                break;
            }
            self.moved = true;
            if is_patch {
                if let Some(port) = slot_mut(&mut self.ports, place.into()) {
                    port.queue.extend(&EACH[..self.batch.frames().len()]);
                }
                self.pass(place, patches);
                self.deliver();
                self.crossed = 0;
                continue;
            }
            let spare = self.shaping.spare.pop();
            let spare = spare.unwrap_or_else(|| Box::new(Batch::new()));
            let mut leaving = std::mem::replace(&mut self.batch, spare);
            self.send_all(place, &mut leaving);
            let spare = std::mem::replace(&mut self.batch, leaving);
            self.shaping.spare.push(spare);
        }
        self.ask_leave(place, now);
    }
}
