//! Parts of extended packets.

use core::ptr::{NonNull, copy_nonoverlapping};

use super::{Extension, PART_MAX, PART_OFFSET};
use crate::buffer::{Meta, Packet};
use crate::pool::{BUFFER, Pool, give_back};

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
            copy_nonoverlapping(data.as_ptr(), start, data.len());
            self.link(packet, buffer, PART_OFFSET, data.len());
        }
        true
    }

    /// Adds buffer `index` of the region, taken out of a ring, as a part behind a packet: `len`
    /// bytes that start `offset` bytes into the buffer. Returns whether that lies inside a buffer.
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
        // SAFETY: the buffer is ours by the caller's promise, and the part lies inside.
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
            (*meta).owner = self.owner();
        }
        packet.extend().link(buffer, len as u32);
    }

    /// Removes a packet's first part and gives its buffer up for a ring slot: its index, the data's
    /// offset in it, and length. A part of another pool is copied into a buffer of this one.
    /// `None` if there is no part, or no buffer for the copy.
    pub fn surrender_part(&mut self, packet: &mut Packet) -> Option<(u32, u16, u16)> {
        let part = packet.meta_mut().pop_part()?;
        // SAFETY: the buffer was the packet's, and its first line is set; its data lies inside.
        unsafe {
            let meta = part.as_ptr();
            let (offset, len) = ((*meta).data as usize, (*meta).len as usize);
            if (*meta).owner == self.owner() {
                return Some((self.index_of(part)?, offset as u16, len as u16));
            }
            let copy = self.buffer();
            if let Some(copy) = copy {
                let from = meta.cast::<u8>().add(offset);
                let to = copy.as_ptr().cast::<u8>().add(PART_OFFSET);
                copy_nonoverlapping(from, to, len.min(PART_MAX));
            }
            give_back(part);
            Some((self.index_of(copy?)?, PART_OFFSET as u16, len as u16))
        }
    }

    /// Frees the parts of a packet and clears its offload.
    #[cold]
    pub fn strip_extension(&mut self, packet: &mut Packet) {
        let owner = self.owner();
        while let Some(part) = packet.meta_mut().pop_part() {
            // SAFETY: the buffer was the packet's, and its first line is set.
            unsafe {
                if (*part.as_ptr()).owner == owner {
                    self.put_free(part);
                } else {
                    give_back(part);
                }
            }
        }
        packet.meta_mut().drop_extension();
    }

    /// Copies the extension of `from` to `to`, which is a copy of its data. False if buffers run
    /// out: `to` then has some of the parts.
    pub(crate) fn clone_extension(&mut self, from: &Packet, to: &mut Packet) -> bool {
        for part in from.parts_data() {
            if !self.append(to, part) {
                return false;
            }
        }
        let starts = (from.meta().data as usize, to.meta().data as usize);
        let own = *to.extend();
        let mut extension = Extension {
            first: own.first,
            last: own.last,
            len: own.len,
            parts: own.parts,
            ..*from.extension()
        };
        extension.shift(starts.0, starts.1);
        *to.extension_mut() = extension;
        to.meta_mut().passed = from.meta().passed;
        true
    }
}
