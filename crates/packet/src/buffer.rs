//! Packets: owned handles to buffers.
//!
//! A buffer starts with two cache lines of metadata ([`Meta`]); the rest holds headroom, data and
//! tailroom. A [`Packet`] owns its buffer alone: there are no reference counts and no sharing, so
//! data may always be written, and a clone is a copy. Dropping a packet gives its buffer back to
//! the pool it came from, from any thread; the fast path gives whole batches back instead
//! ([`Pool::recycle`](crate::Pool::recycle)).
//!
//! This module and [`pool`](crate::pool) use raw pointers: a packet is eight bytes that move
//! between batches, and the buffer's memory may be a region shared with the switch. Everything
//! they hand out is bounds-checked against the buffer once, when a length or offset changes.

use core::mem::MaybeUninit;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::ptr::NonNull;

use crate::anno::{ANNO_BYTES, Anno, DST_IP, DST_IP6, FIX_IP_SRC, PAINT};
use crate::extended::Extension;
use crate::pool::Home;

/// Bytes of metadata in front of every buffer.
pub const META: usize = 128;
/// Headroom of a packet made without a wish: room for the usual encapsulations.
pub const HEADROOM: usize = 128;
/// Most bytes that a packet's own buffer takes: many times the longest IP packet, so that a number
/// out of a packet or a configuration cannot take up a machine's memory.
pub const LARGE_MAX: usize = 1 << 20;

/// How a packet came off its link.
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
    /// Sent to another host, and seen all the same.
    OtherHost = 3,
    /// Made by this host.
    Outgoing = 4,
    /// Came over the loopback.
    Loopback = 5,
    /// Routed by a fast path.
    FastRoute = 6,
}

impl PacketType {
    /// Whether it came as a link-level broadcast or multicast.
    #[inline]
    pub const fn is_to_many(self) -> bool {
        matches!(self, PacketType::Broadcast | PacketType::Multicast)
    }
}

/// What travels in front of a packet's data. The first line holds what nearly every element
/// touches.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Meta {
    /// Where the data starts, in bytes from the buffer's start.
    pub(crate) data: u32,
    /// Length of the data.
    pub(crate) len: u32,
    /// Header places, in bytes from the buffer's start; 0: not set.
    mac: u16,
    pub(crate) network: u16,
    pub(crate) transport: u16,
    packet_type: PacketType,
    _reserved: u8,
    /// The pool that the buffer goes back to; null: a buffer of its own from the heap. With
    /// a bit added: there is more to the packet than its data, in `extension`.
    pub(crate) home: *const Home,
    /// Nanoseconds since 1970; 0: not set.
    timestamp: i64,
    pub(crate) anno: [u64; ANNO_BYTES / 8],
    /// Size of the whole buffer, metadata included.
    pub(crate) capacity: u32,
    /// See [`Packet::origin`].
    origin: u32,
    /// Set if `home` says so.
    pub(crate) extension: MaybeUninit<Extension>,
}

const _: () = assert!(size_of::<Meta>() == META);

impl Meta {
    /// Metadata of a packet of `len` bytes behind `headroom`, all else clear.
    pub(crate) const fn new(
        home: *const Home,
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
            _reserved: 0,
            home,
            timestamp: 0,
            anno: [0; ANNO_BYTES / 8],
            capacity: capacity as u32,
            origin: 0,
            extension: MaybeUninit::uninit(),
        }
    }

    /// Marks a network header of `len` bytes, whose destination, as it is in memory, becomes the
    /// annotation. The place and the end are in the buffer.
    #[inline(always)]
    pub(crate) fn mark(&mut self, network: u16, len: u16, destination: u32) {
        self.network = network;
        self.transport = network + len;
        const { assert!(DST_IP.offset == 0) };
        // SAFETY: any bytes are annotations, and these are the first four.
        unsafe { self.anno.as_mut_ptr().cast::<u32>().write(destination) };
    }

    /// Marks the MAC header, whose place is in the buffer.
    #[inline(always)]
    pub(crate) fn mark_mac(&mut self, at: u16) {
        self.mac = at;
    }

    /// 0 if the packet came to this host, and nothing asks for another source address.
    #[inline(always)]
    pub(crate) fn came(&self) -> u8 {
        let fixes = self.anno[FIX_IP_SRC.offset / 8].to_ne_bytes()[FIX_IP_SRC.offset % 8];
        self.packet_type as u8 | fixes
    }

    /// Where the data starts, and in the upper half its length.
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

/// A packet, and the only handle to its buffer.
///
/// The buffer is laid out as `metadata | headroom | data | tailroom`.
#[repr(transparent)]
pub struct Packet(NonNull<Meta>);

// SAFETY: a packet is the only handle to its buffer, and giving the buffer back is thread-safe.
unsafe impl Send for Packet {}

impl Packet {
    /// Takes ownership of a buffer whose `home` and `capacity` are set, with no data in it, its
    /// other metadata clear and `headroom` bytes of headroom.
    ///
    /// # Safety
    /// `buffer` is 64-byte aligned, `capacity` bytes long, owned by nobody else, and lives until
    /// it was given back to `home`. `META + headroom <= capacity`.
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
        meta.timestamp = 0;
        meta.anno = [0; ANNO_BYTES / 8];
        Packet(buffer)
    }

    /// A packet in a buffer of its own from the heap, for what fits no pool's buffers: `len`
    /// bytes of zeroes. `None` if the heap has no room, or it would take more than
    /// [`LARGE_MAX`].
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
        // SAFETY: aligned, ours, with a null home; the headroom fits.
        let mut packet = unsafe { Packet::start(buffer, headroom) };
        packet.meta_mut().len = len as u32;
        Some(packet)
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

    /// Length of the data, in bytes. A packet that [goes on](Self::total_len) behind its data is
    /// longer.
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

    /// The data, to be changed.
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

    /// Adds `n` bytes in front, of unspecified content (what stood there before), and returns
    /// whether there was room. Where the headroom is short, the data moves within the buffer or
    /// to a larger one.
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

    /// Adds `n` bytes behind, of unspecified content, and returns whether there was room. To a
    /// packet that goes on behind its data nothing can be added.
    #[inline]
    #[must_use]
    pub fn put(&mut self, n: usize) -> bool {
        if (n > self.tailroom() || self.is_extended()) && !self.make_room(0, n) {
            return false;
        }
        self.meta_mut().len += n as u32;
        true
    }

    /// Makes the data `len` bytes long: those that the caller knows to be inside the buffer.
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
    /// `modulus`, a power of two up to 64; returns whether there was room. Headers that were
    /// stripped go along.
    #[must_use]
    pub fn align(&mut self, modulus: usize, offset: usize) -> bool {
        debug_assert!(modulus.is_power_of_two() && modulus <= 64);
        // Buffers start at multiples of 64: places in them are as good as addresses.
        let by = |packet: &Packet| {
            let place = packet.meta().data as usize;
            offset.wrapping_sub(place) & (modulus - 1)
        };
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
            // Split what is spare evenly, so that the next encapsulation finds room too; headers
            // that were stripped go along where there is room for them.
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

    /// Bytes from the first header that stands before the data up to the data.
    fn stripped(&self) -> usize {
        let meta = self.meta();
        let before = |at: u16| (meta.data as usize).saturating_sub(at as usize);
        let places = [meta.mac, meta.network, meta.transport];
        let marked = places.into_iter().filter(|at| *at != 0);
        marked.map(before).max().unwrap_or(0)
    }

    fn shift_headers(&mut self, from: usize, to: usize) {
        let shift = |at| shifted(at, from, to);
        if self.is_extended() {
            self.extension_mut().shift(from, to);
        }
        let meta = self.meta_mut();
        meta.mac = shift(meta.mac);
        meta.network = shift(meta.network);
        meta.transport = shift(meta.transport);
    }

    /// What the program around the router knows the packet by, kept by its copies and out of reach
    /// of elements; 0 if nothing.
    #[inline]
    pub fn origin(&self) -> u32 {
        self.meta().origin
    }

    /// Sets what the program around the router knows the packet by.
    #[inline]
    pub fn set_origin(&mut self, origin: u32) {
        self.meta_mut().origin = origin;
    }

    /// Takes over annotations, origin, header places, timestamp and type from `other`, whose data this
    /// packet holds a copy of.
    pub fn copy_meta(&mut self, other: &Packet) {
        let from = other.meta();
        let (start, to) = (from.data as usize, self.meta().data as usize);
        let meta = self.meta_mut();
        meta.mac = from.mac;
        meta.network = from.network;
        meta.transport = from.transport;
        meta.packet_type = from.packet_type;
        meta.timestamp = from.timestamp;
        meta.anno = from.anno;
        meta.origin = from.origin;
        self.shift_headers(start, to);
        self.check_headers();
    }

    fn check_headers(&mut self) {
        let meta = self.meta_mut();
        let capacity = meta.capacity as usize;
        for at in [&mut meta.mac, &mut meta.network, &mut meta.transport] {
            if *at as usize > capacity {
                *at = 0;
            }
        }
    }

    #[cold]
    fn place(&self, at: usize) -> u16 {
        let at = self.meta().data as usize + at;
        if at > self.meta().capacity as usize {
            return 0;
        }
        u16::try_from(at).unwrap_or(0)
    }

    /// From the header at absolute place `at` to the end of the data.
    #[inline]
    fn bytes_at(&self, at: u16) -> Option<&[u8]> {
        let meta = self.meta();
        let (at, end) = (at as usize, (meta.data + meta.len) as usize);
        if at == 0 || at > end {
            return None;
        }
        // SAFETY: META <= at <= end <= capacity.
        Some(unsafe { core::slice::from_raw_parts(self.byte(at), end - at) })
    }

    #[inline]
    fn bytes_at_mut(&mut self, at: u16) -> Option<&mut [u8]> {
        let meta = self.meta();
        let (at, end) = (at as usize, (meta.data + meta.len) as usize);
        if at == 0 || at > end {
            return None;
        }
        // SAFETY: META <= at <= end <= capacity, and `self` is borrowed exclusively.
        Some(unsafe { core::slice::from_raw_parts_mut(self.byte(at), end - at) })
    }

    /// From the MAC header to the end of the data. The header may stand before the data, when it
    /// was stripped.
    #[inline]
    pub fn mac_header(&self) -> Option<&[u8]> {
        self.bytes_at(self.meta().mac)
    }

    /// As [`mac_header`](Self::mac_header), to be changed.
    #[inline]
    pub fn mac_header_mut(&mut self) -> Option<&mut [u8]> {
        self.bytes_at_mut(self.meta().mac)
    }

    /// Says that the MAC header starts `at` bytes into the data.
    #[inline]
    pub fn set_mac_header(&mut self, at: usize) {
        let start = self.meta().data as usize + at;
        // Inside the data, so inside the buffer: its capacity is on another cache line.
        let place = match at <= self.len() && start <= usize::from(u16::MAX) {
            true => start as u16,
            false => self.place(at),
        };
        self.meta_mut().mac = place;
    }

    /// From the network header to the end of the data.
    #[inline]
    pub fn network_header(&self) -> Option<&[u8]> {
        self.bytes_at(self.meta().network)
    }

    /// As [`network_header`](Self::network_header), to be changed.
    #[inline]
    pub fn network_header_mut(&mut self) -> Option<&mut [u8]> {
        self.bytes_at_mut(self.meta().network)
    }

    /// From the transport header to the end of the data.
    #[inline]
    pub fn transport_header(&self) -> Option<&[u8]> {
        self.bytes_at(self.meta().transport)
    }

    /// As [`transport_header`](Self::transport_header), to be changed.
    #[inline]
    pub fn transport_header_mut(&mut self) -> Option<&mut [u8]> {
        self.bytes_at_mut(self.meta().transport)
    }

    /// Says that the network header starts `at` bytes into the data and is `len` bytes long: the
    /// transport header follows it.
    #[inline]
    pub fn set_network_header(&mut self, at: usize, len: usize) {
        let (start, end) = (self.meta().data as usize + at, at + len);
        // Inside the data, so inside the buffer: its capacity is on another cache line.
        let near = end <= self.len() && start + len <= usize::from(u16::MAX);
        let (network, transport) = match near {
            true => (start as u16, (start + len) as u16),
            false => (self.place(at), self.place(end)),
        };
        let meta = self.meta_mut();
        meta.network = network;
        meta.transport = transport;
    }

    /// Forgets the network and transport headers' places.
    #[inline]
    pub fn clear_network_header(&mut self) {
        let meta = self.meta_mut();
        meta.network = 0;
        meta.transport = 0;
    }

    /// Forgets the MAC header's place.
    #[inline]
    pub fn clear_mac_header(&mut self) {
        self.meta_mut().mac = 0;
    }

    fn offset_of(&self, at: u16) -> Option<isize> {
        (at != 0).then(|| at as isize - self.meta().data as isize)
    }

    /// Where the MAC header starts, in bytes from the start of the data; negative: before it.
    #[inline]
    pub fn mac_offset(&self) -> Option<isize> {
        self.offset_of(self.meta().mac)
    }

    /// Where the network header starts, in bytes from the start of the data; negative: before it.
    #[inline]
    pub fn network_offset(&self) -> Option<isize> {
        self.offset_of(self.meta().network)
    }

    /// Where the transport header starts, in bytes from the start of the data.
    #[inline]
    pub fn transport_offset(&self) -> Option<isize> {
        self.offset_of(self.meta().transport)
    }

    /// Length of the network header, in bytes; 0 if there is none.
    #[inline]
    pub fn network_header_len(&self) -> usize {
        let meta = self.meta();
        (meta.transport as usize).saturating_sub(meta.network as usize)
    }

    /// How the packet came off its link.
    #[inline]
    pub fn packet_type(&self) -> PacketType {
        self.meta().packet_type
    }

    /// Sets how the packet came off its link.
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

    /// All annotations.
    #[inline]
    pub fn annotations(&self) -> &[u8; ANNO_BYTES] {
        // SAFETY: 48 initialized bytes; bytes have no alignment.
        unsafe { &*self.meta().anno.as_ptr().cast() }
    }

    /// All annotations, to be changed.
    #[inline]
    pub fn annotations_mut(&mut self) -> &mut [u8; ANNO_BYTES] {
        // SAFETY: as above; any bytes are valid.
        unsafe { &mut *self.meta_mut().anno.as_mut_ptr().cast() }
    }

    /// Sets every annotation to zero.
    #[inline]
    pub fn clear_annotations(&mut self) {
        self.meta_mut().anno = [0; ANNO_BYTES / 8];
    }

    /// A four-byte annotation, in native order. A shorter one is widened; of a longer one the
    /// first four bytes count.
    #[inline]
    pub fn anno(&self, anno: Anno) -> u32 {
        let bytes = self.annotations();
        match anno.size {
            1 => bytes[anno.offset] as u32,
            2 => u16::from_ne_bytes([bytes[anno.offset], bytes[anno.offset + 1]]) as u32,
            _ => u32::from_ne_bytes([
                bytes[anno.offset],
                bytes[anno.offset + 1],
                bytes[anno.offset + 2],
                bytes[anno.offset + 3],
            ]),
        }
    }

    /// Sets an annotation of up to four bytes, in native order; a shorter one takes the low bytes.
    #[inline]
    pub fn set_anno(&mut self, anno: Anno, value: u32) {
        let n = anno.size.min(4);
        self.annotations_mut()[anno.offset..anno.offset + n]
            .copy_from_slice(&value.to_ne_bytes()[..n]);
    }

    /// Sets the four bytes of annotation from `offset` on, if there are as many, in native order.
    #[inline]
    pub fn set_anno_word(&mut self, offset: usize, value: u32) {
        let bytes = self.annotations_mut().get_mut(offset..);
        if let Some(place) = bytes.and_then(|bytes| bytes.first_chunk_mut()) {
            *place = value.to_ne_bytes();
        }
    }

    /// An eight-byte annotation, in native order.
    #[inline]
    pub fn anno_u64(&self, anno: Anno) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.annotations()[anno.offset..anno.offset + 8]);
        u64::from_ne_bytes(bytes)
    }

    /// Sets an eight-byte annotation, in native order.
    #[inline]
    pub fn set_anno_u64(&mut self, anno: Anno, value: u64) {
        self.annotations_mut()[anno.offset..anno.offset + 8].copy_from_slice(&value.to_ne_bytes());
    }

    /// The destination IPv4 address annotation.
    #[inline]
    pub fn dst_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.anno(DST_IP).to_ne_bytes())
    }

    /// Sets the destination IPv4 address annotation.
    #[inline]
    pub fn set_dst_ip(&mut self, address: Ipv4Addr) {
        self.set_anno(DST_IP, u32::from_ne_bytes(address.octets()));
    }

    /// The destination IPv6 address annotation.
    #[inline]
    pub fn dst_ip6(&self) -> Ipv6Addr {
        let bytes = self.annotations()[DST_IP6.offset..].first_chunk();
        bytes.map_or(Ipv6Addr::UNSPECIFIED, |bytes| Ipv6Addr::from(*bytes))
    }

    /// Sets the destination IPv6 address annotation.
    #[inline]
    pub fn set_dst_ip6(&mut self, address: Ipv6Addr) {
        if let Some(place) = self.annotations_mut()[DST_IP6.offset..].first_chunk_mut() {
            *place = address.octets();
        }
    }

    /// The paint annotation.
    #[inline]
    pub fn paint(&self) -> u8 {
        self.annotations()[PAINT.offset]
    }

    /// Sets the paint annotation.
    #[inline]
    pub fn set_paint(&mut self, colour: u8) {
        self.annotations_mut()[PAINT.offset] = colour;
    }

    /// Asks for the metadata and the first line of data at the usual headroom to be brought into
    /// the cache.
    #[inline]
    pub fn prefetch(&self) {
        for line in self.lines() {
            prefetch_at(line);
        }
    }

    /// Where these two lines are.
    #[inline]
    pub(crate) fn lines(&self) -> [*const u8; 2] {
        let start = self.0.as_ptr().cast_const().cast::<u8>();
        [start, start.wrapping_add(META + HEADROOM)]
    }
}

/// A header's place after the data moved within its buffer, or to another one.
pub(crate) fn shifted(at: u16, from: usize, to: usize) -> u16 {
    match at {
        0 => 0,
        at => (at as usize + to)
            .checked_sub(from)
            .filter(|at| *at >= META)
            .and_then(|at| u16::try_from(at).ok())
            .unwrap_or(0),
    }
}

/// Asks for the cache line that `value` starts in, which will be read or written soon.
#[inline]
pub fn prefetch<T>(value: &T) {
    prefetch_at(core::ptr::from_ref(value).cast());
}

/// Asks for the cache line at an address, whatever is there.
#[inline(always)]
pub(crate) fn prefetch_at(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and cannot fault.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
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
