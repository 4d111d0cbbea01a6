//! Extended packets: packets with parts behind their data, or with offloaded work.
//!
//! With segmentation offload, one packet stands for up to 64 KB of a TCP stream. Its data holds the
//! headers and the first bytes of the payload. The payload continues in further buffers, the
//! *parts*. Segmentation and checksums are left to the sender of a link without such offload. Only
//! elements that declare it get such packets (`Class::SEGMENTS` in `router`): to all others a packet
//! is its data.
//!
//! A packet may also stand for earlier ones of its flow that were passed on elsewhere (see [`Passed`]). Such a packet
//! may come to any element: one that does not count what packets stand for sees an ordinary packet.
//!
//! An ordinary packet pays nothing for this. The extended bit is part of the word that names the
//! buffer's owner, so that the comparison made when a packet is freed tests both.

mod parts;

use core::ptr::{NonNull, null_mut};

use crate::buffer::{Meta, Packet, shifted};
use crate::checksum::Sum;
use crate::pool::{BUFFER, Owner, give_back};

/// A bit in the address of a packet's owner: the packet has an extension.
const EXTENDED: usize = 1;

/// Offset of a part's data in its buffer: behind the first cache line, which links the parts of a
/// packet.
pub const PART_OFFSET: usize = 64;
/// Most bytes of a part that starts there.
pub const PART_MAX: usize = BUFFER - PART_OFFSET;

const _: () = assert!(align_of::<Owner>() > EXTENDED);
const _: () = assert!(core::mem::offset_of!(Meta, anno) + 8 <= PART_OFFSET);

/// The segments that a segmented packet stands for.
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

/// How to segment a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Kind of the segments.
    pub kind: SegmentKind,
    /// Payload bytes of each segment but the last; not 0.
    pub size: u16,
    /// The CWR flag is for the first segment only (RFC 3168).
    pub ecn: bool,
}

/// Offloaded work, which the packet's sender completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// First byte that the checksum covers, in bytes from the start of the data: the transport
    /// header.
    pub checksum_start: usize,
    /// Offset of the checksum field, in bytes from there. It holds the sum of the pseudo header, not
    /// complemented.
    pub checksum_offset: u16,
    /// The segments that the packet stands for, if several.
    pub segments: Option<Segments>,
}

/// The parts behind a packet's data, and its offloaded work.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Extension {
    /// The parts are linked by their first annotation word. Only the first cache line of their
    /// metadata is valid.
    first: *mut Meta,
    last: *mut Meta,
    /// Bytes of all parts.
    len: u32,
    parts: u16,
    /// In bytes from the buffer's start; 0: no work is offloaded.
    checksum_start: u16,
    checksum_offset: u16,
    /// 0: the packet stands for itself alone.
    segment_size: u16,
    kind: SegmentKind,
    ecn: bool,
    /// See [`Passed::length`]. Their number is in the metadata, which has the room.
    passed_length: u16,
}

/// Packets of a flow that were passed on elsewhere since the flow's last packet that came here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// How many.
    pub packets: u32,
    /// Bytes of each, on average.
    pub length: u16,
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
        passed_length: 0,
    };

    /// Adjusts offsets after the data moved.
    pub(crate) fn shift(&mut self, from: usize, to: usize) {
        self.checksum_start = shifted(self.checksum_start, from, to);
    }
}

impl Meta {
    #[inline(always)]
    pub(crate) fn is_extended(&self) -> bool {
        self.owner.addr() & EXTENDED != 0
    }

    /// Removes the first part. Its buffer is then the caller's.
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

    /// Frees the parts and clears the offload. The packet is an ordinary one afterwards.
    pub(crate) fn drop_extension(&mut self) {
        while let Some(part) = self.pop_part() {
            // SAFETY: the buffer was the packet's own.
            unsafe { give_back(part) };
        }
        self.owner = self.owner.map_addr(|owner| owner & !EXTENDED);
    }
}

/// Parts and offload of a packet.
impl Packet {
    /// Whether the packet has parts or offloaded work.
    #[inline(always)]
    pub fn is_extended(&self) -> bool {
        self.meta().is_extended()
    }

    /// Length of the packet, in bytes: of its data and parts.
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

    /// The offloaded work; `None` if there is none, or the transport header was stripped.
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

    /// Sets the offloaded work. An offset past 64 KB clears it.
    pub fn set_offload(&mut self, offload: Option<Offload>) {
        if offload.is_none() && self.parts() == 0 && self.passed().packets == 0 {
            return self.meta_mut().drop_extension();
        }
        let buffer_offset = |at: usize| u16::try_from(self.meta().data as usize + at).unwrap_or(0);
        let start = offload.map_or(0, |offload| buffer_offset(offload.checksum_start));
        let segments = offload.and_then(|offload| offload.segments);
        let extension = self.extend();
        extension.checksum_start = start;
        extension.checksum_offset = offload.map_or(0, |offload| offload.checksum_offset);
        extension.segment_size = segments.map_or(0, |segments| segments.size);
        extension.kind = segments.map_or(SegmentKind::Tcp4, |segments| segments.kind);
        extension.ecn = segments.is_some_and(|segments| segments.ecn);
    }

    /// Whether the transport checksum is partial: the sum of the pseudo header alone, which the
    /// sender completes. A change of addresses must update a partial checksum as a sum. Other
    /// changes leave it as it is.
    #[inline(always)]
    pub fn needs_checksum(&self) -> bool {
        self.is_extended() && self.extension().checksum_start != 0
    }

    /// Whether the packet stands for several segments.
    #[inline(always)]
    pub fn is_segmented(&self) -> bool {
        self.is_extended() && self.extension().segment_size != 0
    }

    /// Says that the packet stands for these, too.
    pub fn set_passed(&mut self, passed: Passed) {
        if passed.packets > 0 {
            self.extend().passed_length = passed.length;
            self.meta_mut().passed = passed.packets;
        }
    }

    /// The packets passed on elsewhere that this one stands for.
    pub fn passed(&self) -> Passed {
        match self.is_extended() {
            true => Passed {
                packets: self.meta().passed,
                length: self.extension().passed_length,
            },
            false => Passed::default(),
        }
    }

    /// Length of the longest packet that this one stands for, in bytes from the start of the data,
    /// for comparison with an MTU.
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

    /// Bytes of all packets that this one stands for, each with its copy of the headers.
    #[inline(always)]
    pub fn wire_len(&self) -> usize {
        if self.is_extended() {
            return self.tally().1;
        }
        self.len()
    }

    #[cold]
    pub(crate) fn tally(&self) -> (usize, usize) {
        let passed = self.passed();
        let passed_bytes = passed.packets as usize * usize::from(passed.length);
        let (packets, bytes) = self.tally_here();
        (packets + passed.packets as usize, bytes + passed_bytes)
    }

    /// The same without those that were passed on elsewhere.
    fn tally_here(&self) -> (usize, usize) {
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

    /// Completes the partial checksum of a packet that is not segmented, and clears its offload.
    /// False, and no change, for all others.
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
        let Some(field) = self.data_mut().get_mut(at..at + 2) else {
            return false;
        };
        field.copy_from_slice(&sum.to_be_bytes());
        self.set_offload(None);
        true
    }

    /// Completes the checksum of a packet without parts and segments. Returns whether the packet is
    /// one that any element takes now.
    pub fn make_whole(&mut self) -> bool {
        self.parts() == 0 && (!self.needs_checksum() || self.complete_checksum())
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

    /// The extension, added if there is none.
    fn extend(&mut self) -> &mut Extension {
        let meta = self.meta_mut();
        if !meta.is_extended() {
            meta.owner = meta.owner.map_addr(|owner| owner | EXTENDED);
            meta.extension.write(Extension::NONE);
            meta.passed = 0;
        }
        self.extension_mut()
    }

    /// Moves the extension of `from` to this packet, whose data is a copy of that of `from`.
    pub(crate) fn take_extension(&mut self, from: &mut Packet) {
        let (start, to) = (from.meta().data as usize, self.meta().data as usize);
        *self.extend() = *from.extension();
        self.extension_mut().shift(start, to);
        self.meta_mut().passed = core::mem::take(&mut from.meta_mut().passed);
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

#[cfg(test)]
mod tests;
