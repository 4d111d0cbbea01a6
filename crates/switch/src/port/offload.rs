//! Pending work of frames from host links (checksum, segmentation), and its completion.
//!
//! With default offloads, Linux passes on frames whose transport checksum covers the pseudo header
//! only, and segmented packets of TCP and UDP of up to 64 KB ("GSO"). A virtio-net header in front
//! says so (Virtual I/O Device 1.2, section 5.1.6). Another host link takes such a frame unchanged;
//! for a guest, [`checksum_of`] completes the checksum and [`Segmenter`] cuts the frame.

use abi::ring::{Slot, flags};
use packet::checksum::Sum;
pub use packet::segmenter::{ETHERNET, Segmenter, Unsupported, VLAN, is_own_checksum, tags_len};
use packet::segmenter::{
    TCP, TCP_CHECKSUM, TYPE_IPV4, TYPE_IPV6, UDP, UDP_CHECKSUM, header_len_v4, network_header,
    transport_checksum, transport_of_v4, transport_of_v6, word,
};
use packet::{Offload, SegmentKind, Segments};

mod unfinished;

pub use unfinished::{joined, unfinished};

/// The header that virtio-net, TAP and AF_PACKET put in front of a frame; in native byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHeader {
    flags: u8,
    gso_type: u8,
    header_len: u16,
    gso_size: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

impl VnetHeader {
    /// Its length, in bytes.
    pub const LEN: usize = 10;
    /// A frame that needs nothing done.
    pub const NONE: [u8; Self::LEN] = [0; Self::LEN];

    const NEEDS_CHECKSUM: u8 = 1;
    const DATA_VALID: u8 = 2;
    const GSO_TCPV4: u8 = 1;
    const GSO_TCPV6: u8 = 4;
    const GSO_UDP_L4: u8 = 5;
    const GSO_ECN: u8 = 0x80;

    /// What a guest's slot says of its frame. Flags that the header has no word for are left out.
    pub fn of_slot(slot: Slot) -> VnetHeader {
        let is = |flag: u16| slot.flags & flag != 0;
        let kinds = [
            (flags::SEGMENT_TCP4, Self::GSO_TCPV4),
            (flags::SEGMENT_TCP6, Self::GSO_TCPV6),
            (flags::SEGMENT_UDP, Self::GSO_UDP_L4),
        ];
        let kind = kinds.into_iter().find(|(flag, _)| is(*flag));
        let or = |said: bool, bit: u8| if said { bit } else { 0 };
        VnetHeader {
            flags: or(is(flags::NEEDS_CHECKSUM), Self::NEEDS_CHECKSUM)
                | or(is(flags::CHECKSUM_VALID), Self::DATA_VALID),
            gso_type: kind.map_or(0, |(_, kind)| {
                kind | or(is(flags::SEGMENT_ECN), Self::GSO_ECN)
            }),
            header_len: 0,
            gso_size: kind.map_or(0, |_| slot.segment_size),
            checksum_start: slot.checksum_start,
            checksum_offset: slot.checksum_offset,
        }
    }

    /// A guest's slot that says the same, of no buffer yet.
    pub fn to_slot(self) -> Slot {
        let kind = match self.gso_type & !Self::GSO_ECN {
            Self::GSO_TCPV4 => flags::SEGMENT_TCP4,
            Self::GSO_TCPV6 => flags::SEGMENT_TCP6,
            Self::GSO_UDP_L4 => flags::SEGMENT_UDP,
            _ => 0,
        };
        let ecn = match self.gso_type & Self::GSO_ECN {
            0 => 0,
            _ => flags::SEGMENT_ECN,
        };
        let mut slot = Slot::spent(0);
        slot.flags = kind | ecn;
        slot.segment_size = self.gso_size;
        if self.needs_checksum() {
            slot.flags |= flags::NEEDS_CHECKSUM;
            slot.checksum_start = self.checksum_start;
            slot.checksum_offset = self.checksum_offset;
        } else if self.is_valid() {
            slot.flags |= flags::CHECKSUM_VALID;
        }
        slot
    }

    /// The same, with the length of the headers in front of the first payload byte.
    pub fn with_header_len(self, len: usize) -> VnetHeader {
        VnetHeader {
            header_len: len as u16,
            ..self
        }
    }

    /// The header in these bytes.
    pub fn parse(bytes: &[u8; Self::LEN]) -> VnetHeader {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        VnetHeader {
            flags: bytes[0],
            gso_type: bytes[1],
            header_len: word(2),
            gso_size: word(4),
            checksum_start: word(6),
            checksum_offset: word(8),
        }
    }

    /// The header as bytes.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [self.flags, self.gso_type, 0, 0, 0, 0, 0, 0, 0, 0];
        let words = [
            self.header_len,
            self.gso_size,
            self.checksum_start,
            self.checksum_offset,
        ];
        for (at, word) in (2..).step_by(2).zip(words) {
            bytes[at..at + 2].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// The header of the same frame with a VLAN tag put in.
    pub fn with_tag(self) -> VnetHeader {
        let mut header = self;
        if self.needs_checksum() {
            header.checksum_start = self.checksum_start.saturating_add(VLAN as u16);
        }
        if self.is_segmented() {
            header.header_len = self.header_len.saturating_add(VLAN as u16);
        }
        header
    }

    /// The header of the same frame with its VLAN tag taken out.
    pub fn without_tag(self) -> VnetHeader {
        let mut header = self;
        if self.needs_checksum() {
            header.checksum_start = self.checksum_start.saturating_sub(VLAN as u16);
        }
        if self.is_segmented() {
            header.header_len = self.header_len.saturating_sub(VLAN as u16);
        }
        header
    }

    /// Whether the checksum at `checksum_start + checksum_offset` is partial and must be completed.
    pub fn needs_checksum(self) -> bool {
        self.flags & Self::NEEDS_CHECKSUM != 0
    }

    /// Whether the kernel has checked the checksums.
    pub fn is_valid(self) -> bool {
        self.flags & Self::DATA_VALID != 0
    }

    /// Whether the frame stands for several.
    pub fn is_segmented(self) -> bool {
        self.gso_type != 0
    }

    /// The IP version, if the frame stands for several of TCP.
    pub fn tcp_over(self) -> Option<u8> {
        match self.gso_type & !Self::GSO_ECN {
            Self::GSO_TCPV4 => Some(4),
            Self::GSO_TCPV6 => Some(6),
            _ => None,
        }
    }

    /// Whether the frame is a segmented packet whose first segment bears a congestion mark.
    pub fn has_congestion_marks(self) -> bool {
        self.gso_type & Self::GSO_ECN != 0
    }
}

/// The work that a header says is pending on its frame; none for an unknown kind of segmentation.
impl From<VnetHeader> for Option<Offload> {
    fn from(header: VnetHeader) -> Option<Offload> {
        let kind = match header.gso_type & !VnetHeader::GSO_ECN {
            0 => None,
            VnetHeader::GSO_TCPV4 => Some(SegmentKind::Tcp4),
            VnetHeader::GSO_TCPV6 => Some(SegmentKind::Tcp6),
            VnetHeader::GSO_UDP_L4 => Some(SegmentKind::Udp),
            _ => return None,
        };
        header.needs_checksum().then_some(Offload {
            checksum_start: header.checksum_start.into(),
            checksum_offset: header.checksum_offset,
            segments: kind.map(|kind| Segments {
                kind,
                size: header.gso_size,
                ecn: header.has_congestion_marks(),
            }),
        })
    }
}

/// The offset and the value of the checksum of a frame that needs one.
///
/// The field holds the pseudo header's sum already; the checksum covers everything behind
/// `checksum_start`. SCTP's CRC is not supported: it is no Internet checksum.
pub fn checksum_of(frame: &[u8], header: VnetHeader) -> Result<(usize, [u8; 2]), Unsupported> {
    let start = usize::from(header.checksum_start);
    let at = start + usize::from(header.checksum_offset);
    let known = matches!(header.checksum_offset, UDP_CHECKSUM | TCP_CHECKSUM);
    if !known || start < ETHERNET || at + 2 > frame.len() {
        return Err(Unsupported);
    }
    let sum = Sum::of(&frame[start..]).checksum();
    Ok((at, transport_checksum(sum, header.checksum_offset)))
}

#[cfg(test)]
pub(super) mod tests;
