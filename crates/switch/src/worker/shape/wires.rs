//! What happens to frames on their last way to a port: they are lost, delayed, tagged or bared.

use super::super::port::State;
use super::super::{Worker, slot, slot_mut};
use crate::counters::Reason;
use crate::lookup::PortIndex;
use crate::port::hold::{EACH, Form};
use crate::port::{Batch, Outcome};
use crate::qos::bucket::{Nanos, clock};
use crate::qos::crowd::Source;
use crate::qos::line::Way;
use crate::qos::timer::Due;

impl Worker {
    /// Sends a port its share of the batch, if that is lost, delayed or in another form. Returns
    /// whether it was.
    #[inline(never)]
    pub(in crate::worker) fn send_shaped(&mut self, place: PortIndex, patches: u8) -> bool {
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
                self.source = Source::Lines;
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
