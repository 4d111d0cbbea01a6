//! What waits for a port's rate, and what is done when its time has come.

use std::time::Duration;

use super::super::port::State;
use super::super::{QueueIndex, Worker, slot, slot_mut};
use super::wires::take;
use super::{GRANT, Grant};
use crate::counters::Reason;
use crate::lookup::PortIndex;
use crate::port::hold::Form;
use crate::properties::{Priority, Share};
use crate::qos::bucket::{Nanos, clock};
use crate::qos::crowd::Source;
use crate::qos::line::{Line, Way};
use crate::qos::shape::{backlog, next_spare};
use crate::qos::timer::Due;

/// Most grants in a row, so that the others in the round get their turn.
const GRANTS: usize = 64;
/// What is due within this is waited for awake: about what sleeping and waking take.
const SOON: Nanos = 60_000;
/// Frames that cannot be held back, among those who wait: no queue has this index.
const BACKLOG: QueueIndex = QueueIndex::MAX;

impl Worker {
    /// Whether anything is due.
    #[inline]
    pub(in crate::worker) fn is_due(&self) -> bool {
        let next = self.shaping.timers.next();
        next.is_some_and(|next| next <= clock(self.now))
    }

    /// Whether anything is due so soon that sleeping until then would take longer.
    #[inline]
    pub(in crate::worker) fn is_due_soon(&self) -> bool {
        let next = self.shaping.timers.next();
        next.is_some_and(|next| next <= clock(self.now) + SOON)
    }

    /// How long it is until something is due, if anything is.
    pub(in crate::worker) fn until_due(&self) -> Option<Duration> {
        let next = self.shaping.timers.next()?;
        Some(Duration::from_nanos(next.saturating_sub(clock(self.now))))
    }

    /// Does what is due.
    #[inline(never)]
    pub(in crate::worker) fn do_due(&mut self) {
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
    pub(in crate::worker) fn resume(&mut self, place: QueueIndex) {
        if let Some(queue) = slot_mut(&mut self.queues, place)
            && queue.state == State::Held
        {
            queue.state = State::Polled { woken: false };
            self.active.push(place);
        }
    }

    /// Has frame `i`, whose sender cannot be held back, wait for a port's rate.
    pub(in crate::worker) fn store(&mut self, from: PortIndex, i: u16, to: PortIndex, now: Nanos) {
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
            shaped.waiters.push(BACKLOG, priority);
            self.ask_grant(to, now);
        }
    }

    /// Has a queue wait until a port can be sent to again.
    pub(in crate::worker) fn wait_for(
        &mut self,
        place: QueueIndex,
        on: PortIndex,
        priority: Priority,
        now: Nanos,
    ) {
        let Some(queue) = slot_mut(&mut self.queues, place) else {
            return;
        };
        queue.state = State::Held;
        self.tell_grant(place);
        if let Some(grant) = self.shaping.granted.as_mut().filter(|grant| grant.to == on) {
            // What it was granted is used up, whoever comes next.
            grant.sent = GRANT;
        }
        let port = slot_mut(&mut self.ports, on.into());
        let Some(shaped) = port.and_then(|port| port.shaped.as_deref_mut()) else {
            // It has no limit any more.
            return self.shaping.timers.set(now, Due::Send(place));
        };
        shaped.waiters.push(place, priority);
        self.ask_grant(on, now);
    }

    /// Has what a queue was granted and has sent count in its standing.
    fn tell_grant(&mut self, place: QueueIndex) {
        let share = self.share_of(place);
        let Some(grant) = &mut self.shaping.granted else {
            return;
        };
        let untold = std::mem::take(&mut grant.untold);
        let port = slot_mut(&mut self.ports, grant.to.into());
        if let Some(shaped) = port.and_then(|port| port.shaped.as_deref_mut())
            && untold > 0
        {
            shaped.waiters.served(place, untold, share);
        }
    }

    /// A queue's batch is over: what it had out of turn is, too.
    pub(in crate::worker) fn end_grant(&mut self, place: QueueIndex) {
        if self
            .shaping
            .granted
            .as_ref()
            .is_some_and(|grant| grant.first)
        {
            self.tell_grant(place);
            self.shaping.granted = None;
        }
    }

    pub(in crate::worker) fn share_of(&self, place: QueueIndex) -> Share {
        let port = slot(&self.queues, place).and_then(|queue| slot(&self.ports, queue.port.into()));
        let shaped = port.and_then(|port| port.shaped.as_deref());
        shaped.map_or(Share::default(), |shaped| shaped.shape.share)
    }

    /// Sets a timer for those who wait for a port's rate.
    pub(in crate::worker) fn ask_grant(&mut self, to: PortIndex, now: Nanos) {
        let port = slot_mut(&mut self.ports, to.into());
        if let Some(shaped) = port.and_then(|port| port.shaped.as_deref_mut())
            && !std::mem::replace(&mut shaped.grants, true)
        {
            let limit = shaped.shape.received.as_ref();
            let at = limit.map_or(now, |limit| next_spare(limit, now));
            self.shaping.timers.set(at, Due::Grant(to));
        }
    }

    /// Serves those who wait for a port's rate, as far as it goes.
    pub(in crate::worker) fn grant(&mut self, to: PortIndex, now: Nanos) {
        for turn in 0.. {
            let port = slot_mut(&mut self.ports, to.into());
            let Some(shaped) = port.and_then(|port| port.shaped.as_deref_mut()) else {
                return;
            };
            if turn == 0 {
                shaped.grants = false;
            }
            let limit = shaped.shape.received.as_ref();
            if turn == GRANTS || limit.is_some_and(|limit| !limit.has_spare(now)) {
                break;
            }
            let Some(waiter) = shaped.waiters.pop() else {
                return;
            };
            self.shaping.granted = Some(Grant::new(to, false));
            if waiter == BACKLOG {
                self.send_backlog(to, now);
            } else if let Some(queue) = slot_mut(&mut self.queues, waiter)
                && queue.state == State::Held
            {
                queue.state = State::Polled { woken: false };
                if self.serve_shaped(waiter, false) {
                    self.active.push(waiter);
                }
                self.tell_grant(waiter);
            }
            self.shaping.granted = None;
        }
        self.ask_grant(to, now);
    }

    /// Has frames that waited for a port's rate wait for the one that it has now, or go on if it has
    /// none.
    pub(in crate::worker) fn add_backlog(&mut self, to: PortIndex, mut line: Line) {
        let port = slot_mut(&mut self.ports, to.into());
        let shaped = port.and_then(|port| port.shaped.as_deref_mut());
        if let Some(shaped) = shaped
            && let Some(limit) = &shaped.shape.received
        {
            let own = shaped.backlog.get_or_insert_with(|| backlog(limit.rate()));
            let lost = own.take_over(line) as u64;
            if !own.is_empty() {
                shaped.waiters.push(BACKLOG, Priority::default());
            }
            self.counters.port(to).dropped(Reason::OverLimit, lost);
            return self.ask_grant(to, clock(self.now));
        }
        loop {
            self.batch.clear();
            let Some(last) = take(&mut self.batch, &mut line, Nanos::MAX) else {
                return;
            };
            for i in 0..self.batch.frames().len() {
                self.enqueue(last.from, i as u16, to);
            }
            self.source = Source::Lines;
            self.deliver();
            self.crossed = 0;
        }
    }

    /// Has frames out of a port's line go on, as far as its rate and the grant allow.
    pub(in crate::worker) fn send_backlog(&mut self, to: PortIndex, now: Nanos) {
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
                && limit.is_none_or(|limit| limit.has_spare(now))
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
            shaped.waiters.served(BACKLOG, sent, share);
            if !line.is_empty() {
                shaped.waiters.push(BACKLOG, Priority::default());
            }
        }
        for i in 0..self.batch.frames().len() {
            self.enqueue(from, i as u16, to);
        }
        self.source = Source::Lines;
        self.deliver();
        self.crossed = 0;
    }
}
