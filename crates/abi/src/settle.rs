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
pub const BYTES: usize = 104;
const SETTLE: u8 = 1;

/// The headers of a flow's packets on one interface: Ethernet, IPv4 or IPv6, and TCP or UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Side {
    /// Destination and source of the Ethernet header.
    pub macs: [u8; 12],
    /// Source and destination of the IP header; those of IPv4 as mapped addresses (RFC 4291), whose first bytes are
    /// [`MAPPED`].
    pub addresses: [[u8; 16]; 2],
    /// Source and destination port.
    pub ports: [u8; 4],
}

const SIDE: usize = 48;
/// What an IPv4 address begins with.
pub const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// A settled flow, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Settled {
    /// The number of the interface by which its packets come, in the order of the data region.
    pub interface: u8,
    /// The IP protocol: TCP's or UDP's number.
    pub protocol: u8,
    /// How much smaller the time to live, or the hop limit, is when they leave.
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
            bytes[at + 12..at + 44].copy_from_slice(side.addresses.as_flattened());
            bytes[at + 44..at + SIDE].copy_from_slice(&side.ports);
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
                addresses: [
                    bytes[at + 12..].first_chunk().copied()?,
                    bytes[at + 28..].first_chunk().copied()?,
                ],
                ports: bytes[at + 44..].first_chunk().copied()?,
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

/// Where a frame's headers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Of IP.
    pub protocol: u8,
    /// The time to live, or the hop limit.
    pub hops: usize,
    /// TCP's or UDP's header.
    pub transport: usize,
}

/// Length of the Ethernet header.
const ETHERNET: usize = 14;

impl Layout {
    /// `None` if the frame is no whole packet of TCP or UDP, or has other headers.
    #[inline]
    fn of(head: &[u8]) -> Option<Layout> {
        let (protocol, hops, transport) = match *head.get(12..15)? {
            [8, 0, 0x45] => {
                let [high, low] = *head.get(20..)?.first_chunk()?;
                if u16::from_be_bytes([high, low]) & 0x3fff != 0 {
                    return None;
                }
                (*head.get(23)?, 22, ETHERNET + 20)
            }
            [0x86, 0xdd, version] if version >> 4 == 6 => (*head.get(20)?, 21, ETHERNET + 40),
            _ => return None,
        };
        matches!(protocol, TCP | UDP).then_some(Layout {
            protocol,
            hops,
            transport,
        })
    }

    /// TCP's flags that begin or end a connection, FIN, SYN and RST; none of UDP. `None` if the frame is too short.
    #[inline]
    pub fn ends(&self, frame: &[u8]) -> Option<u8> {
        match self.protocol {
            TCP => Some(frame.get(self.transport + 13)? & 7),
            _ => Some(0),
        }
    }
}

impl Side {
    /// The headers of a frame whose flow can be settled, and where they are: IPv4 without options or IPv6 without
    /// extension headers, whole, and TCP within a connection, or UDP.
    pub fn of(frame: &[u8]) -> Option<(Side, Layout)> {
        let (side, layout) = Side::of_any(frame)?;
        // The guest sees the packets that begin or end a connection.
        (layout.ends(frame)? == 0).then_some((side, layout))
    }

    /// The same with the packets that begin or end a connection.
    #[inline]
    pub fn of_any(frame: &[u8]) -> Option<(Side, Layout)> {
        let layout = Layout::of(frame)?;
        let is_ip6 = layout.transport == ETHERNET + 40;
        let addresses = if is_ip6 {
            let both: &[u8; 32] = frame.get(22..)?.first_chunk()?;
            // On no wire (RFC 4291, section 2.5.5.2): they stand for IPv4's here.
            if both.starts_with(&MAPPED) || both[16..].starts_with(&MAPPED) {
                return None;
            }
            [*both.first_chunk()?, *both.last_chunk()?]
        } else {
            let mapped = |at: usize| {
                let mut address = [0; 16];
                address[..12].copy_from_slice(&MAPPED);
                address[12..].copy_from_slice(frame.get(at..at + 4)?);
                Some(address)
            };
            [mapped(26)?, mapped(30)?]
        };
        let side = Side {
            macs: *frame.first_chunk()?,
            addresses,
            ports: *frame.get(layout.transport..)?.first_chunk()?,
        };
        Some((side, layout))
    }

    /// Whether the addresses are IPv4's.
    pub fn is_ip4(&self) -> bool {
        self.addresses
            .iter()
            .all(|address| address.starts_with(&MAPPED))
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

    fn frame6() -> [u8; 80] {
        let mut frame = [0; 80];
        for (i, byte) in frame.iter_mut().enumerate() {
            *byte = i as u8;
        }
        frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        frame[20..22].copy_from_slice(&[TCP, 64]);
        frame[67] = 0x10;
        frame
    }

    #[test]
    fn a_message_says_what_was_meant() {
        let (before, layout) = Side::of(&frame()).unwrap();
        assert_eq!((layout.protocol, frame()[layout.hops]), (TCP, 64));
        assert_eq!(before.macs[..], frame()[..12]);
        assert_eq!(before.addresses[0][..12], MAPPED);
        assert_eq!(before.addresses[0][12..], frame()[26..30]);
        assert_eq!(before.addresses[1][12..], frame()[30..34]);
        assert_eq!(before.ports[..], frame()[34..38]);
        assert!(before.is_ip4());
        let (sixth, layout) = Side::of(&frame6()).unwrap();
        assert_eq!((layout.protocol, frame6()[layout.hops]), (TCP, 64));
        assert_eq!(sixth.addresses.as_flattened(), &frame6()[22..54]);
        assert_eq!(sixth.ports[..], frame6()[54..58]);
        assert!(!sixth.is_ip4());
        for before in [before, sixth] {
            let settled = Settled {
                interface: 3,
                protocol: TCP,
                hops: 1,
                before,
                after: Side {
                    ports: [1, 2, 3, 4],
                    ..before
                },
            };
            assert_eq!(Settled::from_bytes(&settled.to_bytes()), Some(settled));
        }
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
        type Change6 = fn(&mut [u8; 80]);
        let changes: [Change6; 6] = [
            |frame| frame[14] = 0x45,
            // Options, a fragment.
            |frame| frame[20] = 0,
            |frame| frame[20] = 44,
            |frame| frame[22..34].copy_from_slice(&MAPPED),
            |frame| frame[67] = 0x12,
            |frame| frame[67] = 4,
        ];
        for change in changes {
            let mut changed = frame6();
            change(&mut changed);
            assert_eq!(Side::of(&changed), None);
        }
        assert_eq!(Side::of(&frame6()[..67]), None);
        assert_eq!(Side::of(&frame()[..47]), None);
        assert_eq!(Side::of(&frame()[..37]), None);
        let mut udp = frame();
        udp[23] = UDP;
        udp[47] = 0xff;
        assert!(Side::of(&udp[..42]).is_some());
    }
}
