//! Packets that a user NSM sends to itself.

use std::collections::VecDeque;

use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, TxToken};
use smoltcp::time::Instant;

use super::vnic::Received;

/// Largest packet, in bytes.
pub(super) const MTU: usize = 65_535;
/// Most packets on their way. There are as many more of answers to them.
const PACKETS_MAX: usize = 256;
/// Buffers that are kept for later packets.
const SPARE_MAX: usize = 64;

/// The packets on their way, as smoltcp has them.
#[derive(Default)]
pub(super) struct Looped {
    /// The packet that was taken last.
    packet: Vec<u8>,
    pending: bool,
    way: Sent,
}

#[derive(Default)]
struct Sent {
    packets: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Looped {
    /// Takes the next packet; `false`: there is none.
    pub fn next(&mut self) -> bool {
        let next = self.way.packets.pop_front();
        self.pending = next.is_some();
        if let Some(packet) = next {
            let last = std::mem::replace(&mut self.packet, packet);
            if self.way.spare.len() < SPARE_MAX {
                self.way.spare.push(last);
            }
        }
        self.pending
    }

    /// The packet that was taken last.
    pub fn packet(&self) -> &[u8] {
        &self.packet
    }

    /// Whether packets are on their way.
    pub fn is_busy(&self) -> bool {
        !self.way.packets.is_empty()
    }

    /// Whether there is room for a packet.
    pub fn has_room(&self) -> bool {
        self.way.packets.len() < PACKETS_MAX
    }
}

/// A packet to be sent.
pub(super) struct Send<'a>(&'a mut Sent);

impl TxToken for Send<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = self.0.spare.pop().unwrap_or_default();
        packet.resize(len, 0);
        let result = f(&mut packet);
        if self.0.packets.len() < 2 * PACKETS_MAX {
            self.0.packets.push_back(packet);
        }
        result
    }
}

impl Device for Looped {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Send<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Send<'_>)> {
        let pending = std::mem::take(&mut self.pending);
        pending.then(|| (Received(&self.packet), Send(&mut self.way)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Send<'_>> {
        self.has_room().then_some(Send(&mut self.way))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        // Nothing but this process has the packets.
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }
}
