//! Where packets carry the number that NumberPacket writes.

use crate::prelude::*;

/// Bytes of a number.
const BYTES: usize = 8;

/// Where the number stands, and in which byte order.
#[derive(Component, Clone, Copy)]
pub(super) struct Numbering {
    /// Offset of the number's first byte.
    #[arg(positional, default = 40)]
    pub offset: u32,
    /// Whether the number is in network byte order, and not in the processor's.
    #[arg]
    pub net_order: bool,
}

impl Numbering {
    /// Offset of the first byte behind the number.
    pub fn end(&self) -> usize {
        self.offset as usize + BYTES
    }

    /// The number of a packet; `None` if the packet is too short for it.
    #[inline]
    pub fn read(&self, packet: &Packet) -> Option<u64> {
        let bytes = packet.data().get(self.offset as usize..)?;
        let bytes = *bytes.first_chunk::<BYTES>()?;
        Some(if self.net_order {
            u64::from_be_bytes(bytes)
        } else {
            u64::from_ne_bytes(bytes)
        })
    }

    /// Writes the number of a packet; false if the packet is too short for it.
    #[inline]
    pub fn write(&self, packet: &mut Packet, number: u64) -> bool {
        let bytes = packet.data_mut().get_mut(self.offset as usize..);
        let Some(bytes) = bytes.and_then(|bytes| bytes.first_chunk_mut::<BYTES>()) else {
            return false;
        };
        *bytes = if self.net_order {
            number.to_be_bytes()
        } else {
            number.to_ne_bytes()
        };
        true
    }
}

/// An element that numbers packets.
pub(super) trait Numbers {
    /// Whether its numbers are in network byte order.
    fn net_order(&self) -> bool;
}

impl Interface for dyn Numbers {
    const NAME: &'static str = "NumberPacket";
}
