//! What happens to frames on their last way to a port: they are lost, delayed, tagged or bared.

use std::time::Instant;

use super::super::port::State;
use super::super::{Worker, slot, slot_mut};
use crate::counters::Reason;
use crate::lookup::PortIndex;
use crate::port::hold::{EACH, Form};
use crate::port::{Batch, Outcome};
use crate::qos::bucket::{Nanos, clock};
use crate::qos::crowd::Source;
use crate::qos::line::{Line, Way};
use crate::qos::timer::Due;

impl Worker {
    /// Sends a port its share of the batch, if that is lost, delayed or in another form. Returns
    /// whether it was.
    #[inline(never)]
    pub(in crate::worker) fn send_shaped(&mut self, place: PortIndex, patches: u8) -> bool {
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
                // Not the round's beginning: it may have been long before the frames came.
                let now = clock(Instant::now());
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
    pub(in crate::worker) fn send_all(&mut self, place: PortIndex, batch: &mut Batch) {
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
            if outcome.owes {
                self.owe(queue);
            }
            self.settle(queue, outcome);
        }
    }

    /// Sets a timer for the next frame to leave a port's line.
    pub(in crate::worker) fn ask_leave(&mut self, place: PortIndex, now: Nanos) {
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
    pub(in crate::worker) fn send_line(&mut self, place: PortIndex, now: Nanos) {
        loop {
            let port = slot_mut(&mut self.ports, place.into());
            let shaped = port.and_then(|port| port.shaped.as_deref_mut());
            let Some(wire) = shaped.and_then(|shaped| shaped.wire.as_mut()) else {
                return;
            };
            wire.leaves = false;
            self.batch.clear();
            let last = wire.line.as_mut();
            let Some(last) = last.and_then(|line| take(&mut self.batch, line, now)) else {
                break;
            };
            self.send_batch(place, last.patches);
        }
        self.ask_leave(place, now);
    }

    /// Has frames that are under way in a line go on in a port's own, or arrive at once if it has
    /// none.
    pub(crate) fn add_line(&mut self, place: PortIndex, mut line: Line) {
        let port = slot_mut(&mut self.ports, place.into());
        let shaped = port.and_then(|port| port.shaped.as_deref_mut());
        let wire = shaped.and_then(|shaped| shaped.wire.as_mut());
        if let Some(own) = wire.and_then(|wire| wire.line.as_mut()) {
            let lost = own.take_over(line) as u64;
            self.counters.port(place).dropped(Reason::LineFull, lost);
            return self.ask_leave(place, clock(self.now));
        }
        loop {
            self.batch.clear();
            let Some(last) = take(&mut self.batch, &mut line, Nanos::MAX) else {
                return;
            };
            self.send_batch(place, last.patches);
        }
    }

    /// Takes what is under way to a port here, for another lane to go on with it.
    pub(crate) fn take_line(&mut self, place: PortIndex) -> Option<Line> {
        let shaped = slot_mut(&mut self.ports, place.into())?
            .shaped
            .as_deref_mut()?;
        let line = shaped.wire.as_mut()?.line.as_mut()?;
        (!line.is_empty()).then(|| line.take())
    }

    /// Sends the batch to a port, at the end of its line, after so many patches.
    fn send_batch(&mut self, place: PortIndex, patches: u8) {
        let Some(port) = slot_mut(&mut self.ports, place.into()) else {
            return;
        };
        self.moved = true;
        if port.ways.patch.is_some() {
            port.queue.extend(&EACH[..self.batch.frames().len()]);
            self.pass(place, patches);
            self.source = Source::Lines;
            self.deliver();
            self.crossed = 0;
            return;
        }
        let spare = self.shaping.spare.pop();
        let spare = spare.unwrap_or_else(|| Box::new(Batch::new()));
        let mut leaving = std::mem::replace(&mut self.batch, spare);
        self.send_all(place, &mut leaving);
        let spare = std::mem::replace(&mut self.batch, leaving);
        self.shaping.spare.push(spare);
    }
}

/// Takes frames out of a line that leave by `until`, as many as the batch has room for. Returns the
/// way of the last, with the most patches of any; `None` if there are none.
pub(super) fn take(batch: &mut Batch, line: &mut Line, until: Nanos) -> Option<Way> {
    let mut last: Option<Way> = None;
    while let Some(first) = line.first()
        && first.release <= until
        && batch.has_room()
    {
        let (len, vnet, mut way) = (first.len, first.vnet, first.way);
        let bytes = line.first_bytes();
        batch.put(len, vnet, way.vlan, |room| room.copy_from_slice(bytes));
        line.pop();
        way.patches = way.patches.max(last.map_or(0, |last| last.patches));
        last = Some(way);
    }
    last
}
