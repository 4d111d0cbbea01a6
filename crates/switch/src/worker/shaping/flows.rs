//! Flows: which ones a frame belongs to, and frames that wait for a flow's rate.

use super::Shaping;
use crate::counters::Reason;
use crate::ids::PortIndex;
use crate::port::hold::Form;
use crate::port::{BATCH, Batch};
use crate::qos::classifier::{Classifier, FrameKey};
use crate::qos::delay_line::{DelayLine, Endpoints};
use crate::qos::headers::HeaderError;
use crate::qos::policy::next_look;
use crate::qos::timers::Due;
use crate::qos::token_bucket::Nanos;
use crate::worker::frame::FrameRef;
use crate::worker::table::Table;

/// Where the frames of a batch that waited for a flow's rate come from and go to.
pub(in crate::worker) type Released = [Option<Endpoints>; BATCH];

impl Shaping {
    /// The flows that a frame belongs to, its sender's and its receiver's.
    pub fn flows_of(
        &self,
        table: &Table,
        batch: &mut Batch,
        frame: FrameRef,
        to: Option<PortIndex>,
    ) -> [Option<u32>; 2] {
        let Some(key) = self.key_of(table, batch, frame, |flows| !flows.is_empty()) else {
            return [None; 2];
        };
        let flows = table.flows(frame.domain);
        flows.map_or([None; 2], |flows| {
            flows.classifier.find(&key.between(frame.from, to))
        })
    }

    /// The key of a frame, if it is an IP packet and `matters` says so of the domain's flows.
    pub fn key_of(
        &self,
        table: &Table,
        batch: &mut Batch,
        frame: FrameRef,
        matters: impl Fn(&Classifier) -> bool,
    ) -> Option<FrameKey> {
        let flows = table.flows(frame.domain)?;
        if !matters(&flows.classifier) {
            return None;
        }
        let known = &batch.frames()[usize::from(frame.i)];
        let key = match FrameKey::of_frame(known.head(), known.len()) {
            Err(HeaderError::Incomplete) => {
                let whole = batch.pin(frame.i);
                FrameKey::of_frame(whole, whole.len())
            }
            key => key,
        };
        key.ok()?
    }

    /// Whether a frame that is flooded may go to a port, as far as that port's flows go.
    pub(super) fn admit_by_receiver(
        &mut self,
        table: &mut Table,
        batch: &Batch,
        frame: FrameRef,
        key: FrameKey,
        to: PortIndex,
        now: Nanos,
    ) -> bool {
        let flows = table.flows(frame.domain);
        let key = key.between(frame.from, Some(to));
        let flow = flows.and_then(|flows| flows.classifier.find_receiver(&key));
        flow.is_none_or(|flow| self.admit_by_flow(table, batch, frame, flow, Some(to), now))
    }

    /// Counts a frame of a flow, and puts it into the backlog if the flow is over its rate. Returns
    /// whether it may go.
    pub fn admit_by_flow(
        &mut self,
        table: &mut Table,
        batch: &Batch,
        frame: FrameRef,
        number: u32,
        to: Option<PortIndex>,
        now: Nanos,
    ) -> bool {
        let bytes = &batch.frames()[usize::from(frame.i)];
        let (len, vlan) = (bytes.len() as u64, bytes.said_vlan());
        let generation = match to {
            Some(to) => table.generation(to),
            None => table.domains.get(frame.domain).map(|d| d.generation),
        };
        let counters = table.counters.port(frame.from);
        let flows = table.domains.get_mut(frame.domain);
        let flows = flows.and_then(|domain| domain.flows.as_mut());
        let Some(flow) = flows.and_then(|flows| flows.get(number)) else {
            return true;
        };
        flow.shared.counters.came(len);
        let (Some(limiter), Some(line)) = (&flow.shared.limiter, &mut flow.backlog) else {
            return true;
        };
        if line.is_empty() && limiter.take_if_ready(len, now) {
            return true;
        }
        let endpoints = Endpoints {
            from: frame.from,
            to,
            generation: generation.unwrap_or(0),
            patches: 0,
            vlan,
        };
        if line.push_frame(now, endpoints, batch, frame.i, Form::AsIs) {
            flow.shared.counters.held();
            if !std::mem::replace(&mut flow.timed, true) {
                let at = next_look(limiter, now);
                self.timers.set(at, Due::Flow(frame.domain, number));
            }
        } else {
            flow.shared.counters.dropped();
            counters.dropped(Reason::OverLimit, 1);
        }
        false
    }

    /// Moves frames of a flow into a batch that waited for its rate, as far as that goes.
    pub fn release_flow(
        &mut self,
        table: &mut Table,
        batch: &mut Batch,
        domain: u32,
        number: u32,
        now: Nanos,
    ) -> Released {
        let mut released = [None; BATCH];
        let Some(flow) = table.flow_mut(domain, number) else {
            return released;
        };
        flow.timed = false;
        if let (Some(limiter), Some(line)) = (&flow.shared.limiter, &mut flow.backlog) {
            release(line, batch, &mut released, |len| {
                limiter.take_if_ready(len, now)
            });
            if !line.is_empty() {
                flow.timed = true;
                let at = next_look(limiter, now);
                self.timers.set(at, Due::Flow(domain, number));
            }
        }
        released
    }
}

/// Moves frames out of a line into a batch, as long as `may` says so of the next one's length.
pub(in crate::worker) fn release(
    line: &mut DelayLine,
    batch: &mut Batch,
    released: &mut Released,
    mut may: impl FnMut(u64) -> bool,
) {
    while let Some(first) = line.first()
        && batch.has_room()
        && may(first.len as u64)
    {
        let (at, endpoints) = (batch.frames().len(), first.endpoints);
        if line.pop_into(batch) {
            released[at] = Some(endpoints);
        }
    }
}
