//! What a guest tells the switch of a settled flow: a message in a slot of a transmit ring
//! ([`flags::MESSAGE`](crate::ring::flags::MESSAGE)), behind the packet of which it speaks.
//!
//! A guest settles a flow when all further packets get the same treatment: they arrive by one interface with the same
//! headers, and leave by another one with the same changes. The switch may then pass them on by
//! itself. It believes a guest nothing that the guest could not do with the packets anyway.
//!
//! Now and then a packet of the flow comes to the guest all the same. In front of it, in the receive ring, a slot says how
//! many others were passed on since ([`Passed`]).

use crate::ring::{Slot, flags};

/// Bytes of a message.
pub const BYTES: usize = 64;
const SETTLE: u8 = 1;

/// The headers of a flow's packets on one interface: Ethernet, IPv4, and TCP or UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Side {
    /// Destination and source of the Ethernet header.
    pub macs: [u8; 12],
    /// Source and destination of the IPv4 header.
    pub addresses: [u8; 8],
    /// Source and destination port.
    pub ports: [u8; 4],
}

const SIDE: usize = 24;

/// A settled flow, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Settled {
    /// The number of the interface by which its packets come, in the order of the data region.
    pub interface: u8,
    /// The IP protocol: TCP's or UDP's number.
    pub protocol: u8,
    /// How much smaller the time to live is when they leave.
    pub hops: u8,
    /// Their headers when they come.
    pub before: Side,
    /// Their headers when they leave.
    pub after: Side,
}

impl Settled {
    /// The message.
    pub fn to_bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&[SETTLE, self.interface, self.protocol, self.hops]);
        for (at, side) in [(8, &self.before), (8 + SIDE, &self.after)] {
            bytes[at..at + 12].copy_from_slice(&side.macs);
            bytes[at + 12..at + 20].copy_from_slice(&side.addresses);
            bytes[at + 20..at + SIDE].copy_from_slice(&side.ports);
        }
        bytes
    }

    /// What a message says; `None` if it is none.
    pub fn from_bytes(bytes: &[u8; BYTES]) -> Option<Settled> {
        let [SETTLE, interface, protocol, hops, ..] = *bytes else {
            return None;
        };
        let side = |at: usize| {
            Some(Side {
                macs: bytes[at..].first_chunk().copied()?,
                addresses: bytes[at + 12..].first_chunk().copied()?,
                ports: bytes[at + 20..].first_chunk().copied()?,
            })
        };
        Some(Settled {
            interface,
            protocol,
            hops,
            before: side(8)?,
            after: side(8 + SIDE)?,
        })
    }
}

/// Packets of a flow that the switch passed on since it last told the guest of them: a message in a slot of a receive
/// ring, whose buffer stays where it is, in front of a packet of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// How many.
    pub packets: u32,
    /// Bytes of each, on average.
    pub length: u16,
}

impl Passed {
    /// The slot that says it, and keeps `buffer`.
    pub const fn to_slot(self, buffer: u32) -> Slot {
        Slot {
            flags: flags::MESSAGE,
            checksum_start: self.packets as u16,
            checksum_offset: (self.packets >> 16) as u16,
            segment_size: self.length,
            ..Slot::spent(buffer)
        }
    }

    /// What a slot says; `None` if it is no such message.
    pub const fn of_slot(slot: Slot) -> Option<Passed> {
        if slot.flags != flags::MESSAGE {
            return None;
        }
        Some(Passed {
            packets: slot.checksum_start as u32 | (slot.checksum_offset as u32) << 16,
            length: slot.segment_size,
        })
    }
}

/// TCP's number among IP's protocols.
pub const TCP: u8 = 6;
/// UDP's.
pub const UDP: u8 = 17;

impl Side {
    /// The headers of a frame whose flow can be settled, its protocol and its time to live: IPv4 without options, whole,
    /// and TCP within a connection, or UDP.
    pub fn of(frame: &[u8]) -> Option<(Side, u8, u8)> {
        let (side, protocol) = Side::of_any(frame)?;
        // FIN, SYN, RST: the guest sees the packets that begin or end a connection.
        if protocol == TCP && frame.get(47)? & 7 != 0 {
            return None;
        }
        Some((side, protocol, *frame.get(22)?))
    }

    /// The same with the packets that begin or end a connection, and the protocol.
    #[inline]
    pub fn of_any(frame: &[u8]) -> Option<(Side, u8)> {
        let head: &[u8; 38] = frame.first_chunk()?;
        let fragment = u16::from_be_bytes([head[20], head[21]]) & 0x3fff;
        let is_whole = head[12..15] == [8, 0, 0x45] && fragment == 0;
        let protocol = head[23];
        if !is_whole || !matches!(protocol, TCP | UDP) {
            return None;
        }
        let side = Side {
            macs: *head.first_chunk()?,
            addresses: *head[26..].first_chunk()?,
            ports: *head[34..].first_chunk()?,
        };
        Some((side, protocol))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> [u8; 60] {
        let mut frame = [0; 60];
        for (i, byte) in frame.iter_mut().enumerate() {
            *byte = i as u8;
        }
        frame[12..15].copy_from_slice(&[8, 0, 0x45]);
        frame[20..24].copy_from_slice(&[0x40, 0, 64, TCP]);
        frame[47] = 0x10;
        frame
    }

    #[test]
    fn a_message_says_what_was_meant() {
        let (before, protocol, ttl) = Side::of(&frame()).unwrap();
        assert_eq!((protocol, ttl), (TCP, 64));
        assert_eq!(before.macs[..], frame()[..12]);
        assert_eq!(before.addresses[..], frame()[26..34]);
        assert_eq!(before.ports[..], frame()[34..38]);
        let settled = Settled {
            interface: 3,
            protocol,
            hops: 1,
            before,
            after: Side {
                ports: [1, 2, 3, 4],
                ..before
            },
        };
        assert_eq!(Settled::from_bytes(&settled.to_bytes()), Some(settled));
        assert_eq!(Settled::from_bytes(&[0; BYTES]), None);
    }

    #[test]
    fn a_slot_says_what_passed() {
        let passed = Passed {
            packets: 0x1_0002,
            length: 1450,
        };
        assert_eq!(Passed::of_slot(passed.to_slot(7)), Some(passed));
        assert_eq!(passed.to_slot(7).buffer, 7);
        assert_eq!(Passed::of_slot(Slot::spent(7)), None);
    }

    #[test]
    fn what_is_not_usual_is_not_settled() {
        type Change = fn(&mut [u8; 60]);
        let changes: [Change; 7] = [
            |frame| frame[13] = 6,
            |frame| frame[14] = 0x46,
            |frame| frame[20] = 0x20,
            |frame| frame[21] = 1,
            |frame| frame[23] = 1,
            |frame| frame[47] = 0x12,
            |frame| frame[47] = 0x11,
        ];
        for change in changes {
            let mut changed = frame();
            change(&mut changed);
            assert_eq!(Side::of(&changed), None);
        }
        assert_eq!(Side::of(&frame()[..47]), None);
        assert_eq!(Side::of(&frame()[..37]), None);
        let mut udp = frame();
        udp[23] = UDP;
        udp[47] = 0xff;
        assert!(Side::of(&udp[..42]).is_some());
    }
}
