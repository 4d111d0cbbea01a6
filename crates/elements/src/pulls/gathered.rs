//! A pull in several parts: what came so far, of packets that are asked for one after the other.

use crate::prelude::*;

/// The packets that came so far.
#[derive(Default)]
pub struct Gathered {
    packets: Box<Batch>,
    /// Packets that are still wanted.
    left: usize,
}

impl Gathered {
    /// Begins to gather at most `most` packets.
    #[inline]
    pub fn begin(&mut self, most: usize) {
        self.left = most.min(self.packets.room());
    }

    /// Packets that are still wanted.
    #[inline]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Whether nothing came so far.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Takes packets from the front of a batch, as many as are wanted and at most `most`; returns how
    /// many.
    #[inline]
    pub fn take(&mut self, batch: &mut Batch, most: usize) -> usize {
        let taken = self.packets.append(batch, most.min(self.left));
        self.left -= taken;
        taken
    }

    /// Takes a packet, which is wanted.
    #[inline]
    pub fn push(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        self.left = self.left.saturating_sub(1);
        if let Err(packet) = self.packets.push(packet) {
            cx.kill(packet);
        }
    }

    /// Ends the pull: gives what came to `batch`, which is empty.
    #[inline]
    pub fn give(&mut self, batch: &mut Batch) {
        self.left = 0;
        batch.append(&mut self.packets, packet::BATCH);
    }
}
