//! Frames that go through patches, into other domains.

use super::Forwarding;
use crate::counters::Reason;
use crate::ids::PortIndex;
use crate::port::BATCH;
use crate::worker::Clock;
use crate::worker::shaping::Shaping;
use crate::worker::table::Table;

/// Most patches that a frame goes through.
pub const PATCHES_MAX: u8 = 8;
/// Most times that frames of one batch go through patches: a bound on what a cycle of them costs.
pub(super) const HOPS_MAX: usize = 64;
const _: () = assert!(BATCH <= u64::BITS as usize);

/// Frames of the batch that have come through a patch.
pub(super) struct PatchHop {
    /// The end that they came out of.
    from: PortIndex,
    /// How many patches they have gone through.
    patches: u8,
    /// The frames, one bit each.
    frames: u64,
}

impl Forwarding {
    /// Sends frames of a port's egress queue through its patch.
    pub fn pass(&mut self, table: &mut Table, port: PortIndex, patches: u8) {
        let Some(entry) = table.ports.get_mut(port) else {
            return;
        };
        let counters = table.counters.port(port);
        let frames = entry.egress_queue.len() as u64;
        let Some(other) = entry.egress.patch else {
            return;
        };
        if patches >= PATCHES_MAX || self.hops_done >= HOPS_MAX {
            entry.egress_queue.clear();
            return counters.dropped(Reason::PatchLoop, frames);
        }
        self.hops_done += 1;
        let (mut mask, mut bytes) = (0, 0);
        for i in entry.egress_queue.drain(..) {
            mask |= 1 << i;
            bytes += self.batch.frames()[usize::from(i)].len() as u64;
        }
        counters.went_out(frames, bytes);
        table.counters.port(other).came_in(frames, bytes);
        self.hops.push(PatchHop {
            from: other,
            patches: patches + 1,
            frames: mask,
        });
    }

    /// Whether frames have gone through patches that are yet to be resolved.
    #[inline]
    pub fn has_hops(&self) -> bool {
        !self.hops.is_empty()
    }

    /// Resolves frames that have gone through a patch. Returns how many patches they went through;
    /// `None` if there are none.
    pub fn resolve_hop(
        &mut self,
        table: &mut Table,
        shaping: &mut Shaping,
        clock: &Clock,
    ) -> Option<u8> {
        let Some(mut hop) = self.hops.pop() else {
            self.hops_done = 0;
            return None;
        };
        while hop.frames != 0 {
            let first = hop.frames.trailing_zeros() as usize;
            let run = (hop.frames >> first).trailing_ones() as usize;
            let end = first + run;
            self.resolve(table, shaping, clock, hop.from, first..end);
            hop.frames = if end < 64 {
                hop.frames >> end << end
            } else {
                0
            };
        }
        Some(hop.patches)
    }
}
