//! Guests that migrate from another host: the switch announces their addresses, and delivers late frames.

use super::Lanes;
use crate::ids::PortIndex;
use crate::worker::rarp;

impl Lanes {
    /// Tells the other ports of a port's domain that its address is here.
    pub fn announce(&self, port: PortIndex) {
        let Some(member) = self.member(port) else {
            return;
        };
        if let (Some(mac), Some(&lane)) = (member.mac, member.lanes.first()) {
            let frame = rarp(mac);
            self.lanes[usize::from(lane)].call(move |worker| worker.flood_from(port, &frame));
        }
    }

    /// Delivers frames by a port.
    pub(crate) fn deliver(&self, port: PortIndex, frames: Vec<u8>) {
        let lane = self.member(port).and_then(|member| member.lanes.first());
        if let Some(&lane) = lane {
            self.lanes[usize::from(lane)].call(move |worker| worker.deliver_late(port, &frames));
        }
    }
}
