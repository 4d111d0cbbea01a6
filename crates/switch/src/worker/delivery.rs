//! Delivering a batch: each destination gets its frames at once.

use super::Worker;
use super::shaping::EgressStep;
use crate::handoff::Target;
use crate::ids::{LaneIndex, LaneMask, PortIndex};
use crate::port::hold::EACH;
use crate::port::{BATCH, Batch};
use crate::qos::threshold::FrameSource;

impl Worker {
    /// Gives each destination its frames of the batch, and goes on with frames that come out of
    /// patches. Returns the lanes to which frames were handed off.
    pub(super) fn deliver(&mut self, source: FrameSource) -> LaneMask {
        self.forwarding.source = source;
        self.send_all(0);
        while let Some(patches) =
            self.forwarding
                .resolve_hop(&mut self.table, &mut self.shaping, &self.clock)
        {
            self.send_all(patches);
        }
        std::mem::take(&mut self.forwarding.reached)
    }

    /// Delivers the batch of a burst from another lane.
    pub(super) fn deliver_burst(&mut self, targets: &[Target], origin: LaneIndex) {
        self.forwarding.resolve_burst(
            &mut self.table,
            &mut self.shaping,
            &self.clock,
            &self.counters,
            targets,
            origin,
        );
        self.deliver(FrameSource::Lane(origin));
    }

    /// Sends the egress queues of all ports that have frames, which went through so many patches.
    fn send_all(&mut self, patches: u8) {
        while let Some(to) = self.forwarding.touched.pop() {
            let Some(port) = self.table.ports.get(to) else {
                continue;
            };
            let is_patch = port.egress.patch.is_some();
            // Frames through a patch may belong to a VLAN where no port has one.
            if self.table.is_shaped(to) || self.forwarding.batch.says_vlans() {
                let batch = &self.forwarding.batch;
                match self.shaping.egress(&mut self.table, batch, to, patches) {
                    EgressStep::Send => {}
                    EgressStep::SendReformed(mut reformed) => {
                        self.send_each(to, &mut reformed);
                        self.shaping.return_scratch(reformed);
                        continue;
                    }
                    EgressStep::Done => continue,
                }
            }
            if is_patch {
                self.forwarding.pass(&mut self.table, to, patches);
            } else {
                self.send(to, patches);
            }
        }
    }

    /// Sends a port's egress queue.
    #[inline]
    fn send(&mut self, to: PortIndex, patches: u8) {
        let Some(port) = self.table.ports.get_mut(to) else {
            return;
        };
        // Copied out: newcomers that go first may fill the queue again.
        let mut frames = [0; BATCH];
        let count = port.egress_queue.len().min(BATCH);
        frames[..count].copy_from_slice(&port.egress_queue[..count]);
        port.egress_queue.clear();
        let in_pieces = port.connections.is_none();
        let frames = &frames[..count];
        let settled = self.table.settled.as_ref();
        if port.settles && settled.is_some_and(|settled| settled.owes()) {
            self.find_passed(to, frames);
        }
        let forwarding = &mut self.forwarding;
        let reserve = self.table.reserve(to, forwarding.source, count);
        let is_last = forwarding.touched.is_empty() && !forwarding.has_hops();
        if self.round.lets_pass && patches == 0 && is_last && in_pieces {
            self.send_in_pieces(to, frames, reserve);
        } else {
            let (table, batch) = (&mut self.table, &mut forwarding.batch);
            self.polling
                .send(table, &self.clock, batch, to, frames, reserve);
        }
        if !self.forwarding.batch.passed.is_empty() {
            self.keep_untold(to);
        }
    }

    /// Sends all frames of a batch to a port.
    fn send_each(&mut self, to: PortIndex, batch: &mut Batch) {
        let frames = &EACH[..batch.frames().len()];
        let source = self.forwarding.source;
        let reserve = self.table.reserve(to, source, frames.len());
        self.polling
            .send(&mut self.table, &self.clock, batch, to, frames, reserve);
    }

    /// Sends the whole batch, which was under way to a port and went through so many patches.
    pub(super) fn send_batch(&mut self, to: PortIndex, patches: u8) {
        let frames = &EACH[..self.forwarding.batch.frames().len()];
        let Some(port) = self.table.ports.get_mut(to) else {
            return;
        };
        self.polling.moved = true;
        if port.egress.patch.is_some() {
            port.egress_queue.extend(frames);
            self.forwarding.pass(&mut self.table, to, patches);
            self.deliver(FrameSource::DelayLines);
            return;
        }
        self.forwarding.source = FrameSource::DelayLines;
        let reserve = self
            .table
            .reserve(to, FrameSource::DelayLines, frames.len());
        let (table, batch) = (&mut self.table, &mut self.forwarding.batch);
        self.polling
            .send(table, &self.clock, batch, to, frames, reserve);
    }
}
