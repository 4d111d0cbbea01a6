//! Rates of packets and bytes.

use super::average::Rate;
use crate::prelude::*;

/// How fast packets and bytes come.
#[derive(Component)]
#[component(handlers)]
pub struct Traffic {
    packets: Rate,
    /// With as many digits as Click's: handlers of slow traffic show what rounding leaves.
    bytes: Rate<4>,
}

impl Traffic {
    /// Counts packets and their bytes at `now`.
    #[inline]
    pub fn update(&mut self, now: Steady, packets: u64, bytes: u64) {
        self.packets.update(now, packets);
        self.bytes.update(now, bytes);
    }

    /// Whole packets a second.
    pub fn packets_a_second(&mut self, cx: &Cx<'_>) -> u64 {
        self.packets.at(cx.steady()).rate()
    }
}

#[handlers]
impl Traffic {
    /// Packets a second.
    #[read]
    fn rate(&mut self, cx: &mut Cx<'_>) -> String {
        self.packets.at(cx.steady()).unparse(1)
    }

    /// Bytes a second.
    #[read]
    fn byte_rate(&mut self, cx: &mut Cx<'_>) -> String {
        self.bytes.at(cx.steady()).unparse(1)
    }

    /// Bits a second.
    #[read]
    fn bit_rate(&mut self, cx: &mut Cx<'_>) -> String {
        self.bytes.at(cx.steady()).unparse(8)
    }
}
