//! The metadata in front of a packet's data.

use core::mem::MaybeUninit;

use super::META;
use crate::anno::{ANNO_BYTES, DST_IP, FIX_IP_SRC};
use crate::extended::Extension;
use crate::pool::Owner;

/// How a packet arrived on its link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketType {
    /// Sent to this host.
    #[default]
    Host = 0,
    /// Sent to the link's broadcast address.
    Broadcast = 1,
    /// Sent to a link-level multicast address.
    Multicast = 2,
    /// Sent to another host.
    OtherHost = 3,
    /// Sent by this host.
    Outgoing = 4,
    /// Received over the loopback interface.
    Loopback = 5,
    /// Routed by a fast path.
    FastRoute = 6,
}

impl PacketType {
    /// Whether it arrived as a link-level broadcast or multicast.
    #[inline]
    pub const fn is_to_many(self) -> bool {
        matches!(self, PacketType::Broadcast | PacketType::Multicast)
    }
}

/// Metadata of a packet. The first cache line holds the fields that nearly every element touches.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Meta {
    /// Where the data starts, in bytes from the buffer's start.
    pub(crate) data: u32,
    /// Length of the data.
    pub(crate) len: u32,
    /// Header offsets, in bytes from the buffer's start; 0: not set.
    pub(super) mac: u16,
    pub(crate) network: u16,
    pub(crate) transport: u16,
    pub(super) packet_type: PacketType,
    /// See [`Packet::keep_arrival`].
    pub(super) arrival: u8,
    /// The pool that the buffer returns to; null for a heap buffer of its own. The lowest bit says
    /// that `extension` is set.
    pub(crate) owner: *const Owner,
    /// Nanoseconds since 1970; 0: not set.
    pub(super) timestamp: i64,
    pub(crate) anno: [u64; ANNO_BYTES / 8],
    /// Size of the whole buffer, metadata included.
    pub(crate) capacity: u32,
    /// See [`Packet::origin`].
    pub(super) origin: u32,
    /// Set if the lowest bit of `owner` is.
    pub(crate) extension: MaybeUninit<Extension>,
    /// See [`Packet::flow`]; one more, and 0 for none.
    pub(super) flow: u32,
    /// See [`Passed`](crate::Passed). Set if the lowest bit of `owner` is.
    pub(crate) passed: u32,
}

const _: () = assert!(size_of::<Meta>() == META);

impl Meta {
    /// Metadata of a packet of `len` bytes behind `headroom`, all else zero.
    pub(crate) const fn new(
        owner: *const Owner,
        capacity: usize,
        headroom: usize,
        len: usize,
    ) -> Meta {
        Meta {
            data: (META + headroom) as u32,
            len: len as u32,
            mac: 0,
            network: 0,
            transport: 0,
            packet_type: PacketType::Host,
            arrival: 0,
            owner,
            timestamp: 0,
            anno: [0; ANNO_BYTES / 8],
            capacity: capacity as u32,
            origin: 0,
            extension: MaybeUninit::uninit(),
            flow: 0,
            passed: 0,
        }
    }

    /// Marks a network header of `len` bytes, which lies inside the buffer. `destination`, in memory
    /// order, becomes the annotation.
    #[inline(always)]
    pub(crate) fn mark(&mut self, network: u16, len: u16, destination: u32) {
        self.network = network;
        self.transport = network + len;
        const { assert!(DST_IP.offset == 0) };
        // SAFETY: any bytes are annotations, and these are the first four.
        unsafe { self.anno.as_mut_ptr().cast::<u32>().write(destination) };
    }

    /// Marks the MAC header and the network header, which lie inside the buffer. The transport header stays where it is.
    #[inline(always)]
    pub(crate) fn mark_mac(&mut self, at: u16, network: u16) {
        self.mac = at;
        self.network = network;
    }

    /// 0 if the packet was sent to this host and FIX_IP_SRC is not set.
    #[inline(always)]
    pub(crate) fn arrival(&self) -> u8 {
        let fixes = self.anno[FIX_IP_SRC.offset / 8].to_ne_bytes()[FIX_IP_SRC.offset % 8];
        self.packet_type as u8 | fixes
    }

    /// The data's offset in the lower half, and its length in the upper half.
    #[inline(always)]
    pub(crate) fn extent(&self) -> u64 {
        const { assert!(core::mem::offset_of!(Meta, data) == 0) };
        const { assert!(core::mem::offset_of!(Meta, len) == 4) };
        // SAFETY: both lie at the start, which is aligned.
        let word = unsafe { core::ptr::from_ref(self).cast::<u64>().read() };
        if cfg!(target_endian = "big") {
            return word.rotate_left(32);
        }
        word
    }

    /// Sets both.
    #[inline(always)]
    pub(crate) fn set_extent(&mut self, extent: u64) {
        let word = match cfg!(target_endian = "big") {
            true => extent.rotate_left(32),
            false => extent,
        };
        // SAFETY: as above.
        unsafe { core::ptr::from_mut(self).cast::<u64>().write(word) };
    }

    pub(crate) const fn at(mut self, timestamp: i64) -> Meta {
        self.timestamp = timestamp;
        self
    }
}
