//! Packets: owned handles to buffers.
//!
//! A buffer starts with two cache lines of metadata ([`Meta`]); the rest holds headroom, data and
//! tailroom. A [`Packet`] is the only owner of its buffer: there are no reference counts, so data is
//! always writable, and a clone is a copy. A dropped packet returns its buffer to its pool, from any
//! thread. The data path frees whole batches instead ([`Pool::recycle`](crate::Pool::recycle)).
//!
//! This module and [`pool`](crate::pool) use raw pointers: a packet is eight bytes that move
//! between batches, and the buffer's memory may be a region shared with the switch. Lengths and
//! offsets are checked against the buffer once, when they change.

mod annotations;
mod arrival;
mod headers;
mod meta;

use core::ptr::NonNull;

pub use arrival::ARRIVAL;
pub(crate) use headers::shifted;
pub(crate) use meta::Meta;
pub use meta::PacketType;

use crate::anno::ANNO_BYTES;

/// Bytes of metadata in front of every buffer.
pub const META: usize = 128;
/// Default headroom of a packet: enough for common encapsulations.
pub const HEADROOM: usize = 128;
/// Largest buffer of one packet, in bytes: many times the longest IP packet. The limit keeps a number
/// in a packet or configuration from exhausting the machine's memory.
pub const LARGE_MAX: usize = 1 << 20;

/// The bits of a packet's flow that number it, plus one; 0 for none.
const FLOW_NUMBER: u32 = (1 << 30) - 1;
/// The bit of packets against their flow's direction.
const FLOW_REPLY: u32 = 1 << 30;
/// The bit of errors about their flow.
const FLOW_RELATED: u32 = 1 << 31;

/// A packet, and the only handle to its buffer.
///
/// The buffer is laid out as `metadata | headroom | data | tailroom`.
#[repr(transparent)]
pub struct Packet(NonNull<Meta>);

// SAFETY: a packet is the only handle to its buffer, and giving the buffer back is thread-safe.
unsafe impl Send for Packet {}

impl Packet {
    /// Takes ownership of a buffer whose `owner` and `capacity` are set. The packet has no data,
    /// `headroom` bytes of headroom, and its other metadata are clear.
    ///
    /// # Safety
    /// `buffer` is 64-byte aligned, `capacity` bytes long, has no other user, and lives until it is
    /// returned to `owner`. `META + headroom <= capacity`.
    #[inline]
    pub(crate) unsafe fn start(buffer: NonNull<Meta>, headroom: usize) -> Packet {
        // SAFETY: the buffer is ours alone.
        let meta = unsafe { &mut *buffer.as_ptr() };
        meta.data = (META + headroom) as u32;
        meta.len = 0;
        meta.mac = 0;
        meta.network = 0;
        meta.transport = 0;
        meta.packet_type = PacketType::Host;
        meta.arrival = 0;
        meta.timestamp = 0;
        meta.anno = [0; ANNO_BYTES / 8];
        meta.flow = 0;
        Packet(buffer)
    }

    /// A packet of `len` zero bytes in a heap buffer of its own, for data that no pool buffer holds.
    /// `None` if the allocation fails or is larger than [`LARGE_MAX`].
    pub fn large(headroom: usize, len: usize, tailroom: usize) -> Option<Packet> {
        let capacity = (META + headroom + len + tailroom).next_multiple_of(64);
        if capacity > LARGE_MAX {
            return None;
        }
        let layout = core::alloc::Layout::from_size_align(capacity, 64).ok()?;
        // SAFETY: the size is not zero.
        let buffer = NonNull::new(unsafe { alloc::alloc::alloc_zeroed(layout) })?.cast::<Meta>();
        // SAFETY: zeroed memory is a valid Meta, and it is ours.
        unsafe { (*buffer.as_ptr()).capacity = capacity as u32 };
        // SAFETY: aligned, ours, with a null owner; the headroom fits.
        let mut packet = unsafe { Packet::start(buffer, headroom) };
        packet.meta_mut().len = len as u32;
        Some(packet)
    }

    /// The packet in a buffer.
    ///
    /// # Safety
    /// As for [`start`](Self::start); and its metadata is a packet's.
    #[inline]
    pub(crate) unsafe fn from_raw(buffer: NonNull<Meta>) -> Packet {
        Packet(buffer)
    }

    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<Meta> {
        let raw = self.0;
        core::mem::forget(self);
        raw
    }

    #[inline]
    pub(crate) fn raw(&self) -> NonNull<Meta> {
        self.0
    }

    #[inline]
    pub(crate) fn meta(&self) -> &Meta {
        // SAFETY: the buffer is ours for as long as the packet lives.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(crate) fn meta_mut(&mut self) -> &mut Meta {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { self.0.as_mut() }
    }

    #[inline]
    pub(crate) fn byte(&self, at: usize) -> *mut u8 {
        debug_assert!(at <= self.meta().capacity as usize);
        // SAFETY: callers stay inside the buffer: data, len and header offsets are checked
        // against the capacity whenever they are set.
        unsafe { self.0.as_ptr().cast::<u8>().add(at) }
    }

    /// Length of the data, in bytes. A packet with parts is [longer](Self::total_len).
    #[inline]
    pub fn len(&self) -> usize {
        self.meta().len as usize
    }

    /// Whether the packet has no data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The data.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let meta = self.meta();
        // SAFETY: data..data+len lies inside the buffer, which is ours and initialized.
        unsafe { core::slice::from_raw_parts(self.byte(meta.data as usize), meta.len as usize) }
    }

    /// The data, mutable.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let (data, len) = (self.meta().data as usize, self.len());
        // SAFETY: as `data`, and `self` is borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.byte(data), len) }
    }

    /// The data and `front` bytes of headroom before it, or all the headroom there is.
    pub(crate) fn data_from(&self, front: usize) -> &[u8] {
        let meta = self.meta();
        let front = front.min(self.headroom());
        let start = meta.data as usize - front;
        // SAFETY: META <= start, and start..data+len lies inside the buffer.
        unsafe { core::slice::from_raw_parts(self.byte(start), front + meta.len as usize) }
    }

    /// Bytes that can be added in front without moving the data.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.meta().data as usize - META
    }

    /// Bytes that can be added behind without moving the data.
    #[inline]
    pub fn tailroom(&self) -> usize {
        let meta = self.meta();
        (meta.capacity - meta.data - meta.len) as usize
    }

    /// Adds `n` bytes in front, with the content of the headroom, and returns whether there was
    /// room. If the headroom is short, the data moves within the buffer or to a larger one.
    #[inline]
    #[must_use]
    pub fn push(&mut self, n: usize) -> bool {
        if n > self.headroom() && !self.make_room(n, 0) {
            return false;
        }
        let meta = self.meta_mut();
        meta.data -= n as u32;
        meta.len += n as u32;
        true
    }

    /// Removes `n` bytes in front, or all there are.
    #[inline]
    pub fn pull(&mut self, n: usize) {
        let meta = self.meta_mut();
        let n = n.min(meta.len as usize) as u32;
        meta.data += n;
        meta.len -= n;
    }

    /// Adds `n` bytes behind, of unspecified content, and returns whether there was room. A packet
    /// with parts takes no bytes.
    #[inline]
    #[must_use]
    pub fn put(&mut self, n: usize) -> bool {
        if (n > self.tailroom() || self.is_extended()) && !self.make_room(0, n) {
            return false;
        }
        self.meta_mut().len += n as u32;
        true
    }

    /// Sets the data's length. The caller knows that `len` bytes lie inside the buffer.
    #[inline]
    pub(crate) fn set_len(&mut self, len: usize) {
        debug_assert!(self.meta().data as usize + len <= self.meta().capacity as usize);
        self.meta_mut().len = len as u32;
    }

    /// Removes `n` bytes behind, or all there are.
    #[inline]
    pub fn take(&mut self, n: usize) {
        if self.is_extended() {
            return self.shorten(self.total_len().saturating_sub(n));
        }
        let meta = self.meta_mut();
        meta.len -= n.min(meta.len as usize) as u32;
    }

    /// Shortens the packet to `len` bytes, if it is longer.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        if self.is_extended() {
            return self.shorten(len);
        }
        let meta = self.meta_mut();
        meta.len = meta.len.min(len as u32);
    }

    /// Moves the data so that its first byte's address is `offset` more than a multiple of
    /// `modulus`, a power of two up to 64; returns whether there was room. Stripped headers move
    /// along.
    #[must_use]
    pub fn align(&mut self, modulus: usize, offset: usize) -> bool {
        debug_assert!(modulus.is_power_of_two() && modulus <= 64);
        // Buffers start at multiples of 64, so offsets in them align as addresses do.
        let by = |packet: &Packet| offset.wrapping_sub(packet.meta().data as usize) & (modulus - 1);
        if by(self) > self.tailroom() && !self.make_room(0, modulus) {
            return false;
        }
        let (by, front, len) = (by(self), self.stripped().min(self.headroom()), self.len());
        if by > 0 {
            let start = self.meta().data as usize;
            // SAFETY: `front` bytes lie before the data and `by` behind it, all inside the buffer;
            // `copy` allows overlap.
            unsafe {
                core::ptr::copy(
                    self.byte(start - front),
                    self.byte(start - front + by),
                    front + len,
                )
            };
            self.shift_headers(start, start + by);
            self.meta_mut().data += by as u32;
        }
        true
    }

    /// Moves the data so that at least `head` bytes are free in front and `tail` behind.
    #[cold]
    fn make_room(&mut self, head: usize, tail: usize) -> bool {
        let (start, len) = (self.meta().data as usize, self.len());
        let capacity = self.meta().capacity as usize;
        let Some(needed) = META
            .checked_add(head)
            .and_then(|n| n.checked_add(len))
            .and_then(|n| n.checked_add(tail))
        else {
            return false;
        };
        let front = self.stripped();
        if tail > 0 && self.parts() > 0 {
            return false;
        }
        if head <= self.headroom() && tail <= self.tailroom() {
            return true;
        }
        if needed <= capacity {
            // Split the spare bytes evenly, so that the next encapsulation finds room too. Stripped
            // headers move along as far as they fit.
            let even = META + head + (capacity - needed) / 2;
            let data = even.max(META + front).min(capacity - tail - len);
            let front = front.min(data - META);
            // SAFETY: both ranges lie inside the buffer; `copy` allows overlap.
            unsafe {
                core::ptr::copy(
                    self.byte(start - front),
                    self.byte(data - front),
                    front + len,
                )
            };
            self.shift_headers(start, data);
            self.meta_mut().data = data as u32;
            return true;
        }
        let Some(mut larger) = Packet::large(head + HEADROOM, front + len, tail + HEADROOM) else {
            return false;
        };
        larger.data_mut().copy_from_slice(self.data_from(front));
        larger.pull(front);
        larger.copy_meta(self);
        if self.is_extended() {
            larger.take_extension(self);
        }
        *self = larger;
        true
    }

    /// The packet's identity in the program around the router; 0 if none. Copies keep it; elements
    /// cannot read it.
    #[inline]
    pub fn origin(&self) -> u32 {
        self.meta().origin
    }

    /// Sets the packet's identity in the program around the router.
    #[inline]
    pub fn set_origin(&mut self, origin: u32) {
        self.meta_mut().origin = origin;
    }

    /// The index of the packet's flow in the table of the element that found it; `None` if none did.
    /// Copies keep it.
    #[inline]
    pub fn flow(&self) -> Option<u32> {
        (self.meta().flow & FLOW_NUMBER).checked_sub(1)
    }

    /// Sets the index of the packet's flow, which is below 2³⁰ - 1.
    #[inline]
    pub fn set_flow(&mut self, flow: Option<u32>) {
        self.meta_mut().flow = flow.map_or(0, |flow| flow.wrapping_add(1) & FLOW_NUMBER);
    }

    /// Whether the packet goes against the direction of its flow's first packet.
    #[inline]
    pub fn is_reply(&self) -> bool {
        self.meta().flow & FLOW_REPLY != 0
    }

    /// Whether the packet is an ICMP error about a packet of its flow.
    #[inline]
    pub fn is_related(&self) -> bool {
        self.meta().flow & FLOW_RELATED != 0
    }

    /// Sets, of a packet whose flow is set, in which direction of the flow it goes, and whether it is an
    /// error about it.
    #[inline]
    pub fn set_flow_relation(&mut self, reply: bool, related: bool) {
        let relation = (u32::from(reply) * FLOW_REPLY) | (u32::from(related) * FLOW_RELATED);
        let flow = &mut self.meta_mut().flow;
        *flow = *flow & FLOW_NUMBER | relation;
    }

    /// How the packet arrived on its link.
    #[inline]
    pub fn packet_type(&self) -> PacketType {
        self.meta().packet_type
    }

    /// Sets how the packet arrived on its link.
    #[inline]
    pub fn set_packet_type(&mut self, packet_type: PacketType) {
        self.meta_mut().packet_type = packet_type;
    }

    /// Timestamp in nanoseconds since 1970; 0: not set.
    #[inline]
    pub fn timestamp(&self) -> i64 {
        self.meta().timestamp
    }

    /// Sets the timestamp, in nanoseconds since 1970.
    #[inline]
    pub fn set_timestamp(&mut self, nanoseconds: i64) {
        self.meta_mut().timestamp = nanoseconds;
    }
}

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the packet is not used again.
        unsafe { crate::pool::give_back(self.0) }
    }
}

impl core::fmt::Debug for Packet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Packet")
            .field("len", &self.total_len())
            .field("network", &self.network_offset())
            .field("data", &self.data())
            .finish()
    }
}
