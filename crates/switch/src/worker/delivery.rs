//! Delivering a batch: each destination gets its frames at once.

use super::Worker;
use super::shaping::EgressStep;
use crate::handoff::Target;
use crate::ids::{LaneIndex, LaneMask, PortIndex};
use crate::port::hold::EACH;
use crate::qos::threshold::FrameSource;

impl Worker {
    /// Gives each destination its frames of the batch, and goes on with those that come out of
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
            // What came through a patch may belong to a VLAN where no port has one.
            if self.table.is_shaped(to) || self.forwarding.batch.says_vlans() {
                let batch = &self.forwarding.batch;
                match self.shaping.egress(&mut self.table, batch, to, patches) {
                    EgressStep::Send => {}
                    EgressStep::SendReformed(reformed) => {
                        self.send_reformed(to, reformed);
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
        let forwarding = &mut self.forwarding;
        let is_last = forwarding.touched.is_empty() && !forwarding.has_hops();
        let Some(port) = self.table.ports.get_mut(to) else {
            return;
        };
        let mut frames = std::mem::take(&mut port.egress_queue);
        let source = forwarding.source;
        let reserve = self.table.reserve(to, source, frames.len());
        if self.round.lets_pass && patches == 0 && is_last {
            self.send_in_pieces(to, &frames, reserve);
        } else {
            let batch = &mut self.forwarding.batch;
            self.polling
                .send(&mut self.table, &self.clock, batch, to, &frames, reserve);
        }
        frames.clear();
        if let Some(port) = self.table.ports.get_mut(to) {
            port.egress_queue = frames;
        }
    }

    /// Sends a port the frames of its egress queue in another form.
    fn send_reformed(&mut self, to: PortIndex, mut reformed: Box<crate::port::Batch>) {
        let frames = &EACH[..reformed.frames().len()];
        let reserve = self.table.reserve(to, self.forwarding.source, frames.len());
        self.polling.send(
            &mut self.table,
            &self.clock,
            &mut reformed,
            to,
            frames,
            reserve,
        );
        self.shaping.return_scratch(reformed);
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
        let batch = &mut self.forwarding.batch;
        self.polling
            .send(&mut self.table, &self.clock, batch, to, frames, reserve);
    }
}
