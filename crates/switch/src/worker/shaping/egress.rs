//! Frames that leave by a shaped port: they are dropped by the loss model, delayed, tagged or
//! untagged.

use std::time::Instant;

use super::Shaping;
use crate::counters::Reason;
use crate::ids::PortIndex;
use crate::port::Batch;
use crate::port::hold::Form;
use crate::qos::delay_line::{DelayLine, Endpoints};
use crate::qos::timers::Due;
use crate::qos::token_bucket::{Nanos, clock};
use crate::worker::table::Table;

/// The next step with the frames of a port's egress queue.
pub(in crate::worker) enum EgressStep {
    /// Send the frames as they are.
    Send,
    /// Send the frames of this batch, which have another form. It goes back by
    /// [`Shaping::return_scratch`].
    SendReformed(Box<Batch>),
    /// Nothing: they are on their way in the delay line.
    Done,
}

impl Shaping {
    /// Loses or delays frames of a port's egress queue, or puts them into the form in which they
    /// leave.
    #[inline(never)]
    pub fn egress(
        &mut self,
        table: &mut Table,
        batch: &Batch,
        to: PortIndex,
        patches: u8,
    ) -> EgressStep {
        let Some(port) = table.ports.get_mut(to) else {
            return EgressStep::Send;
        };
        let counters = table.counters.port(to);
        let (generation, is_patch) = (port.generation, port.egress.patch.is_some());
        let queue = &mut port.egress_queue;
        let mut shaping = port.shaping.as_deref_mut();
        let access = shaping.as_ref().map_or(0, |shaping| shaping.policy.vlan);
        let form = |i: u16| Form::of(&batch.frames()[usize::from(i)], access);
        if let Some(wire) = shaping.as_mut().and_then(|shaping| shaping.wire.as_mut()) {
            let before = queue.len();
            queue.retain(|_| !wire.loses());
            counters.dropped(Reason::Loss, (before - queue.len()) as u64);
            if wire.line.is_some() {
                // Not the round's beginning: it may have been long before the frames came.
                let now = clock(Instant::now());
                let endpoints = Endpoints {
                    from: to,
                    to: Some(to),
                    generation,
                    patches,
                    vlan: 0,
                };
                for i in queue.drain(..) {
                    let arrival = wire.arrival(now);
                    let line = wire.line.as_mut();
                    if !line.is_some_and(|l| l.push_frame(arrival, endpoints, batch, i, form(i))) {
                        counters.dropped(Reason::LineFull, 1);
                    }
                }
                self.look_at_line_later(table, to, now);
                return EgressStep::Done;
            }
        }
        if is_patch || queue.iter().all(|&i| form(i) == Form::AsIs) {
            return EgressStep::Send;
        }
        let Some(mut reformed) = self.scratch.take() else {
            return EgressStep::Send;
        };
        reformed.clear();
        for i in queue.drain(..) {
            let form = form(i);
            let len = form.len(&batch.frames()[usize::from(i)]);
            let vnet = batch.vnet_as(i, form);
            if !reformed.put(len, vnet, 0, |room| batch.write_as(i, form, room)) {
                counters.dropped(Reason::TooLong, 1);
            }
        }
        EgressStep::SendReformed(reformed)
    }

    /// Takes the batch of [`EgressStep::SendReformed`] back.
    pub fn return_scratch(&mut self, batch: Box<Batch>) {
        self.scratch = Some(batch);
    }

    /// Sets a timer for the next frame to leave a port's delay line, unless one is set.
    pub fn look_at_line_later(&mut self, table: &mut Table, to: PortIndex, now: Nanos) {
        let port = table.shaping_mut(to);
        if let Some(wire) = port.and_then(|port| port.wire.as_mut())
            && let Some(first) = wire.line.as_ref().and_then(DelayLine::first)
            && !std::mem::replace(&mut wire.timed, true)
        {
            let at = first.release.max(now);
            self.timers.set(at, Due::DelayLine(to));
        }
    }
}

/// Moves frames into a batch that leave a line by `until`, as many as fit. Returns the endpoints of
/// the last, with the most patches of any; `None` if there are none.
pub(in crate::worker) fn drain(
    line: &mut DelayLine,
    batch: &mut Batch,
    until: Nanos,
) -> Option<Endpoints> {
    let mut last: Option<Endpoints> = None;
    while let Some(first) = line.first()
        && first.release <= until
        && batch.has_room()
    {
        let mut endpoints = first.endpoints;
        endpoints.patches = endpoints.patches.max(last.map_or(0, |last| last.patches));
        last = Some(endpoints);
        line.pop_into(batch);
    }
    last
}
