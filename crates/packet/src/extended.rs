//! Packets that are more than their data.
//!
//! With large-segment offload one packet stands for up to 64 KB of a TCP stream: its data holds the
//! headers and the beginning of the payload, which goes on in further buffers, the *parts*; and
//! what is left to do on it, cutting it into segments and completing their checksums, is done by
//! whoever sends it over a link that cannot do it. Only elements that say so get such packets
//! (`Class::SEGMENTS` in `router`): to all others a packet is its data.
//!
//! The common packet pays nothing for this. That a packet is extended is a bit of the word that
//! says where its buffer belongs, so that the comparison that every packet meets when it is given
//! back finds both out at once.

use core::ptr::{NonNull, null_mut};

use crate::buffer::{Meta, Packet, shifted};
use crate::checksum::Sum;
use crate::pool::{BUFFER, Home, Pool, give_back};

/// In the address of a packet's home: the packet has an extension.
const EXTENDED: usize = 1;

/// Where the data of a part starts in its buffer: behind the first line, in which the parts of a
/// packet are linked.
pub const PART_OFFSET: usize = 64;
/// Most bytes of a part that starts there.
pub const PART_MAX: usize = BUFFER - PART_OFFSET;

const _: () = assert!(align_of::<Home>() > EXTENDED);
const _: () = assert!(core::mem::offset_of!(Meta, anno) + 8 <= PART_OFFSET);

/// What a packet stands for that is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SegmentKind {
    /// TCP segments over IPv4.
    Tcp4,
    /// TCP segments over IPv6.
    Tcp6,
    /// UDP datagrams.
    Udp,
}

/// How a packet is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Into what.
    pub kind: SegmentKind,
    /// Payload bytes of each segment but the last; not 0.
    pub size: u16,
    /// The CWR flag is for the first segment only (RFC 3168).
    pub ecn: bool,
}

/// What is left to do on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// Where the checksum begins, in bytes from the start of the data: at the transport header.
    pub checksum_start: usize,
    /// Where it goes, in bytes from there. The sum of the pseudo header stands there, which is
    /// not complemented and does not cover the ports.
    pub checksum_offset: u16,
    /// The packet stands for several.
    pub segments: Option<Segments>,
}

/// What is behind a packet's data, and left to do on it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Extension {
    /// The parts are linked by their first annotation word. Of their metadata only the first line
    /// counts.
    first: *mut Meta,
    last: *mut Meta,
    /// Bytes of all parts.
    len: u32,
    parts: u16,
    /// In bytes from the buffer's start, as the places of headers; 0: nothing is left to do.
    checksum_start: u16,
    checksum_offset: u16,
    /// 0: the packet stands for itself alone.
    segment_size: u16,
    kind: SegmentKind,
    ecn: bool,
}

impl Extension {
    const NONE: Extension = Extension {
        first: null_mut(),
        last: null_mut(),
        len: 0,
        parts: 0,
        checksum_start: 0,
        checksum_offset: 0,
        segment_size: 0,
        kind: SegmentKind::Tcp4,
        ecn: false,
    };

    /// The data moved.
    pub(crate) fn shift(&mut self, from: usize, to: usize) {
        self.checksum_start = shifted(self.checksum_start, from, to);
    }
}

impl Meta {
    #[inline(always)]
    pub(crate) fn is_extended(&self) -> bool {
        self.home.addr() & EXTENDED != 0
    }

    /// Takes the first part off, whose buffer then is the caller's.
    fn pop_part(&mut self) -> Option<NonNull<Meta>> {
        if !self.is_extended() {
            return None;
        }
        // SAFETY: set, since the packet is extended.
        let extension = unsafe { self.extension.assume_init_mut() };
        let part = NonNull::new(extension.first)?;
        // SAFETY: a part's buffer is the packet's own, and its first line is set.
        let (next, len) = unsafe { ((*part.as_ptr()).anno[0], (*part.as_ptr()).len) };
        extension.first = next as *mut Meta;
        if extension.first.is_null() {
            extension.last = null_mut();
        }
        extension.len -= len;
        extension.parts -= 1;
        Some(part)
    }

    /// Gives back what is behind the data. The packet is an ordinary one afterwards.
    pub(crate) fn drop_extension(&mut self) {
        while let Some(part) = self.pop_part() {
            // SAFETY: the buffer was the packet's own.
            unsafe { give_back(part) };
        }
        self.home = self.home.map_addr(|home| home & !EXTENDED);
    }
}

/// What a packet is besides its data.
impl Packet {
    /// Whether there is more to the packet than its data: parts behind it, or something left to do.
    #[inline(always)]
    pub fn is_extended(&self) -> bool {
        self.meta().is_extended()
    }

    /// Length of the packet, in bytes: of its data, and of what is behind it.
    #[inline(always)]
    pub fn total_len(&self) -> usize {
        if self.is_extended() {
            return self.extended_len();
        }
        self.len()
    }

    #[cold]
    fn extended_len(&self) -> usize {
        self.len() + self.extension().len as usize
    }

    /// Number of parts behind the data.
    #[inline]
    pub fn parts(&self) -> usize {
        match self.is_extended() {
            true => self.extension().parts.into(),
            false => 0,
        }
    }

    /// The parts behind the data, in order.
    pub fn parts_data(&self) -> impl Iterator<Item = &[u8]> {
        let mut next = match self.is_extended() {
            true => self.extension().first,
            false => null_mut(),
        };
        core::iter::from_fn(move || {
            let part = NonNull::new(next)?.as_ptr();
            // SAFETY: a part's buffer is the packet's own; its data lies inside (see `push_part`).
            unsafe {
                next = (*part).anno[0] as *mut Meta;
                let start = part.cast::<u8>().add((*part).data as usize);
                Some(core::slice::from_raw_parts(start, (*part).len as usize))
            }
        })
    }

    /// What is left to do on the packet; `None` if nothing is, or the transport header was
    /// stripped.
    pub fn offload(&self) -> Option<Offload> {
        if !self.needs_checksum() {
            return None;
        }
        let extension = self.extension();
        let start = usize::from(extension.checksum_start);
        let checksum_start = start.checked_sub(self.meta().data as usize)?;
        let segments = (extension.segment_size != 0).then_some(Segments {
            kind: extension.kind,
            size: extension.segment_size,
            ecn: extension.ecn,
        });
        Some(Offload {
            checksum_start,
            checksum_offset: extension.checksum_offset,
            segments,
        })
    }

    /// Says what is left to do on the packet. A place that its buffer does not have is none.
    pub fn set_offload(&mut self, offload: Option<Offload>) {
        if offload.is_none() && self.parts() == 0 {
            return self.meta_mut().drop_extension();
        }
        let place = |at: usize| u16::try_from(self.meta().data as usize + at).unwrap_or(0);
        let start = offload.map_or(0, |offload| place(offload.checksum_start));
        let segments = offload.and_then(|offload| offload.segments);
        let extension = self.extend();
        extension.checksum_start = start;
        extension.checksum_offset = offload.map_or(0, |offload| offload.checksum_offset);
        extension.segment_size = segments.map_or(0, |segments| segments.size);
        extension.kind = segments.map_or(SegmentKind::Tcp4, |segments| segments.kind);
        extension.ecn = segments.is_some_and(|segments| segments.ecn);
    }

    /// Whether the transport checksum is partial: the sum of the pseudo header alone, to be
    /// completed by whoever sends the packet on. Whoever changes addresses has to bring a partial
    /// checksum up to date as such; for all else that changes it is left as it is.
    #[inline(always)]
    pub fn needs_checksum(&self) -> bool {
        self.is_extended() && self.extension().checksum_start != 0
    }

    /// Whether the packet stands for several.
    #[inline(always)]
    pub fn is_segmented(&self) -> bool {
        self.is_extended() && self.extension().segment_size != 0
    }

    /// Length of the longest packet that this one stands for, in bytes from the start of the data:
    /// what an MTU is compared with.
    #[inline(always)]
    pub fn segment_len(&self) -> usize {
        if self.is_extended() {
            return self.longest_segment();
        }
        self.len()
    }

    /// How many packets this one stands for: 1 for most.
    #[inline(always)]
    pub fn stands_for(&self) -> usize {
        if self.is_extended() {
            return self.tally().0;
        }
        1
    }

    /// Bytes of all packets that this one stands for, each with the headers from the start of the
    /// data on.
    #[inline(always)]
    pub fn wire_len(&self) -> usize {
        if self.is_extended() {
            return self.tally().1;
        }
        self.len()
    }

    #[cold]
    pub(crate) fn tally(&self) -> (usize, usize) {
        let total = self.total_len();
        let Some((header, size)) = self.segment_shape() else {
            return (1, total);
        };
        let packets = total.saturating_sub(header).div_ceil(size).max(1);
        (packets, total + (packets - 1) * header)
    }

    /// Length of the headers of each segment, from the start of the data on, and of its payload.
    fn segment_shape(&self) -> Option<(usize, usize)> {
        let offload = self.offload()?;
        let segments = offload.segments?;
        let header = match segments.kind {
            SegmentKind::Udp => 8,
            SegmentKind::Tcp4 | SegmentKind::Tcp6 => {
                let offset = self.data().get(offload.checksum_start + 12);
                (usize::from(offset.copied().unwrap_or(0) >> 4) * 4).max(20)
            }
        };
        Some((offload.checksum_start + header, usize::from(segments.size)))
    }

    /// Length of the longest IP packet that this one stands for, in bytes; `None` without a network
    /// header.
    #[inline(always)]
    pub fn longest_ip(&self) -> Option<usize> {
        let at = self.network_offset()?;
        self.segment_len().checked_add_signed(-at)
    }

    #[cold]
    fn longest_segment(&self) -> usize {
        let total = self.total_len();
        match self.segment_shape() {
            Some((header, size)) => total.min(header + size),
            None => total,
        }
    }

    /// Completes a partial checksum of a packet that stands for itself alone, after which nothing
    /// is left to do on it. False, and no change, for all others.
    pub fn complete_checksum(&mut self) -> bool {
        let Some(offload) = self.offload().filter(|offload| offload.segments.is_none()) else {
            return false;
        };
        let start = offload.checksum_start;
        let Some(covered) = self.data().get(start..) else {
            return false;
        };
        let (mut sum, mut len) = (Sum::of(covered), covered.len());
        for part in self.parts_data() {
            sum = sum.join(len, Sum::of(part));
            len += part.len();
        }
        // A checksum of 0 says that there is none (RFC 768); for TCP both are the same.
        let sum = match sum.checksum() {
            0 => 0xffff,
            sum => sum,
        };
        let at = start + usize::from(offload.checksum_offset);
        let Some(place) = self.data_mut().get_mut(at..at + 2) else {
            return false;
        };
        place.copy_from_slice(&sum.to_be_bytes());
        self.set_offload(None);
        true
    }

    /// Does what is left to do on a packet that has no parts and stands for itself alone. Returns
    /// whether there is nothing more to the packet than its data.
    pub fn make_whole(&mut self) -> bool {
        !self.is_extended() || (self.parts() == 0 && self.complete_checksum())
    }

    fn extension(&self) -> &Extension {
        debug_assert!(self.is_extended());
        // SAFETY: set, since the packet is extended; callers have made sure.
        unsafe { self.meta().extension.assume_init_ref() }
    }

    pub(crate) fn extension_mut(&mut self) -> &mut Extension {
        debug_assert!(self.is_extended());
        // SAFETY: as above.
        unsafe { self.meta_mut().extension.assume_init_mut() }
    }

    /// The extension, which the packet has from now on.
    fn extend(&mut self) -> &mut Extension {
        let meta = self.meta_mut();
        if !meta.is_extended() {
            meta.home = meta.home.map_addr(|home| home | EXTENDED);
            meta.extension.write(Extension::NONE);
        }
        self.extension_mut()
    }

    /// Hands the extension of `from` on to this packet, whose data is a copy of its.
    pub(crate) fn take_extension(&mut self, from: &mut Packet) {
        let (start, to) = (from.meta().data as usize, self.meta().data as usize);
        *self.extend() = *from.extension();
        self.extension_mut().shift(start, to);
        *from.extension_mut() = Extension::NONE;
    }

    /// Shortens an extended packet to `len` bytes, if it is longer.
    #[cold]
    pub(crate) fn shorten(&mut self, len: usize) {
        let data = self.len().min(len);
        self.set_len(data);
        let mut left = len - data;
        let mut kept = Extension {
            first: null_mut(),
            last: null_mut(),
            len: 0,
            parts: 0,
            ..*self.extension()
        };
        while let Some(part) = self.meta_mut().pop_part() {
            if left == 0 {
                // SAFETY: the buffer was the packet's own.
                unsafe { give_back(part) };
                continue;
            }
            // SAFETY: as above, and its first line is set.
            let n = unsafe {
                let n = (*part.as_ptr()).len.min(left as u32);
                (*part.as_ptr()).len = n;
                n
            };
            left -= n as usize;
            kept.link(part, n);
        }
        *self.extension_mut() = kept;
    }
}

impl Extension {
    /// Adds a part of `len` bytes.
    fn link(&mut self, part: NonNull<Meta>, len: u32) {
        // SAFETY: the part's buffer, and that of the last one, belong to the packet.
        unsafe {
            (*part.as_ptr()).anno[0] = 0;
            if let Some(last) = NonNull::new(self.last) {
                (*last.as_ptr()).anno[0] = part.as_ptr() as u64;
            } else {
                self.first = part.as_ptr();
            }
        }
        self.last = part.as_ptr();
        self.len += len;
        self.parts += 1;
    }
}

/// Parts of packets.
impl Pool {
    /// Adds a part that holds a copy of `data`, at most [`PART_MAX`] bytes, behind a packet.
    /// Returns whether there was a buffer for it.
    pub fn append(&mut self, packet: &mut Packet, data: &[u8]) -> bool {
        if data.len() > PART_MAX || packet.parts() >= usize::from(u16::MAX) {
            return false;
        }
        let Some(buffer) = self.buffer() else {
            return false;
        };
        // SAFETY: the buffer is ours, and the data fits behind its first line.
        unsafe {
            let start = buffer.as_ptr().cast::<u8>().add(PART_OFFSET);
            core::ptr::copy_nonoverlapping(data.as_ptr(), start, data.len());
            self.link(packet, buffer, PART_OFFSET, data.len());
        }
        true
    }

    /// Adds buffer `index` of the region, taken out of a ring, as a part behind a packet: `len`
    /// bytes that start `offset` bytes into the buffer. Returns whether there is such a place.
    ///
    /// # Safety
    /// As for [`adopt`](Self::adopt).
    pub unsafe fn adopt_part(
        &mut self,
        packet: &mut Packet,
        index: u32,
        offset: usize,
        len: usize,
    ) -> bool {
        let Some(buffer) = self.in_region(index) else {
            return false;
        };
        if offset < PART_OFFSET || offset + len > BUFFER || packet.parts() >= usize::from(u16::MAX)
        {
            return false;
        }
        // SAFETY: the buffer is ours by the caller's promise, and the place is inside.
        unsafe { self.link(packet, buffer, offset, len) };
        true
    }

    /// # Safety
    /// The buffer is the caller's, and `len` bytes from `offset` on lie inside it, behind its first
    /// line. It is the packet's afterwards.
    unsafe fn link(
        &mut self,
        packet: &mut Packet,
        buffer: NonNull<Meta>,
        offset: usize,
        len: usize,
    ) {
        // SAFETY: ours; the first line only, since data may begin right behind it.
        unsafe {
            let meta = buffer.as_ptr();
            (*meta).data = offset as u32;
            (*meta).len = len as u32;
            (*meta).home = self.home();
        }
        packet.extend().link(buffer, len as u32);
    }

    /// Takes the first part off a packet and puts its buffer into a ring: its index, the data's
    /// offset in it and length. A part of another pool is copied into a buffer of this one.
    /// `None` if there is no part, or no buffer for the copy.
    pub fn surrender_part(&mut self, packet: &mut Packet) -> Option<(u32, u16, u16)> {
        let part = packet.meta_mut().pop_part()?;
        // SAFETY: the buffer was the packet's, and its first line is set; its data lies inside.
        unsafe {
            let meta = part.as_ptr();
            let (offset, len) = ((*meta).data as usize, (*meta).len as usize);
            if (*meta).home == self.home() {
                return Some((self.index_of(part)?, offset as u16, len as u16));
            }
            let copy = self.buffer();
            if let Some(copy) = copy {
                let from = meta.cast::<u8>().add(offset);
                let to = copy.as_ptr().cast::<u8>().add(PART_OFFSET);
                core::ptr::copy_nonoverlapping(from, to, len.min(PART_MAX));
            }
            give_back(part);
            Some((self.index_of(copy?)?, PART_OFFSET as u16, len as u16))
        }
    }

    /// Gives the parts of a packet back, and forgets what was left to do on it.
    #[cold]
    pub fn strip_extension(&mut self, packet: &mut Packet) {
        let home = self.home();
        while let Some(part) = packet.meta_mut().pop_part() {
            // SAFETY: the buffer was the packet's, and its first line is set.
            unsafe {
                if (*part.as_ptr()).home == home {
                    self.put_free(part);
                } else {
                    give_back(part);
                }
            }
        }
        packet.meta_mut().drop_extension();
    }

    /// Copies the extension of `from` to `to`, which is a copy of its data. Returns whether there
    /// were buffers enough; `to` may have some of the parts otherwise.
    pub(crate) fn clone_extension(&mut self, from: &Packet, to: &mut Packet) -> bool {
        for part in from.parts_data() {
            if !self.append(to, part) {
                return false;
            }
        }
        let places = (from.meta().data as usize, to.meta().data as usize);
        let own = *to.extend();
        let mut extension = Extension {
            first: own.first,
            last: own.last,
            len: own.len,
            parts: own.parts,
            ..*from.extension()
        };
        extension.shift(places.0, places.1);
        *to.extension_mut() = extension;
        true
    }
}

#[cfg(test)]
mod tests;
