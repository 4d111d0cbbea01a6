//! Frames that come from no port: announcements, and late frames that follow a guest from another
//! host.

use super::Worker;
use super::frame::FrameRef;
use crate::ids::PortIndex;
use crate::late::Frames;
use crate::mac::Mac;
use crate::port::offload::VnetHeader;
use crate::qos::threshold::FrameSource;

/// Length of an announcement, in bytes: the shortest frame, without its checksum.
const ANNOUNCEMENT: usize = 60;

/// A RARP request of a host for its own address (RFC 903). A switch that gets it learns the host's
/// port.
pub(crate) fn rarp(mac: Mac) -> [u8; ANNOUNCEMENT] {
    let mut frame = [0; ANNOUNCEMENT];
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&mac.0);
    // The type; Ethernet, IPv4, the lengths of their addresses; a request.
    frame[12..22].copy_from_slice(&[0x80, 0x35, 0, 1, 0x08, 0x00, 6, 4, 0, 3]);
    frame[22..28].copy_from_slice(&mac.0);
    frame[32..38].copy_from_slice(&mac.0);
    frame
}

impl Worker {
    /// Floods a frame to all other ports of a port's domain, as if it came from that port.
    pub(crate) fn flood_from(&mut self, from: PortIndex, frame: &[u8]) {
        let Some(port) = self.table.ports.get(from) else {
            return;
        };
        let (domain, vlan) = (port.domain, port.vlan);
        let batch = &mut self.forwarding.batch;
        batch.clear();
        let write = |room: &mut [u8]| room.copy_from_slice(frame);
        if !batch.put(frame.len(), VnetHeader::default(), vlan, write) {
            return;
        }
        let (table, shaping) = (&mut self.table, &mut self.shaping);
        let frame = FrameRef { i: 0, from, domain };
        self.forwarding
            .flood_on::<true>(table, shaping, &self.clock, frame, 1);
        self.polling.moved = true;
        self.deliver(FrameSource::DelayLines);
    }

    /// Delivers frames by a port of this lane, past its limits.
    pub(crate) fn deliver_late(&mut self, to: PortIndex, frames: &[u8]) {
        let mut frames = Frames(frames).peekable();
        while frames.peek().is_some() {
            let batch = &mut self.forwarding.batch;
            batch.clear();
            while batch.has_room()
                && let Some((vnet, frame)) = frames.next()
            {
                // A frame that contradicts its header is left out.
                batch.put(frame.len(), vnet, 0, |room| room.copy_from_slice(frame));
            }
            self.send_batch(to, 0);
        }
    }
}
