//! Buffers that travel between a pool over a region and the region's rings.

use core::ptr::NonNull;

use super::{BUFFER, DATA_MAX, Pool};
use crate::buffer::{META, Meta, Packet};

impl Pool {
    /// Buffer `index` of the region, if it exists.
    pub(crate) fn in_region(&self, index: u32) -> Option<NonNull<Meta>> {
        let base = self.region.filter(|_| (index as usize) < self.total)?;
        // SAFETY: inside the region.
        Some(unsafe { base.add(index as usize * BUFFER) }.cast())
    }

    /// The index of one of the region's buffers.
    pub(crate) fn index_of(&self, buffer: NonNull<Meta>) -> Option<u32> {
        let at = buffer.addr().get() - self.region?.addr().get();
        Some((at / BUFFER) as u32)
    }

    /// Takes buffer `index` of the region out of a ring, as a packet of `len` bytes whose data
    /// starts `offset` bytes into the buffer. `None` if that lies outside the region's buffers.
    ///
    /// # Safety
    /// The pool is over a region. The caller took `index` out of a ring slot and replaces it before
    /// it passes the slot back, so that the buffer has no other user.
    #[inline]
    pub unsafe fn adopt(&mut self, index: u32, offset: usize, len: usize) -> Option<Packet> {
        let base = self.region?;
        if index as usize >= self.total || offset < META || offset + len > BUFFER {
            return None;
        }
        // SAFETY: inside the region, and ours by the caller's promise.
        let buffer = unsafe { base.add(index as usize * BUFFER) }.cast::<Meta>();
        // SAFETY: as above; `start` sets the rest.
        let mut packet = unsafe {
            (*buffer.as_ptr()).owner = self.owner.as_ptr().cast_const();
            (*buffer.as_ptr()).capacity = BUFFER as u32;
            Packet::start(buffer, offset - META)
        };
        packet.set_len(len);
        Some(packet)
    }

    /// Gives a packet's buffer up for a ring slot: its index, the data's offset in it, and length. A
    /// packet of another pool is copied into a buffer of this pool first. Returns the packet
    /// unchanged if it is too long for that, if there is no buffer, or if it is
    /// [extended](Packet::is_extended) and of another pool.
    #[inline]
    pub fn surrender(&mut self, packet: Packet) -> Result<(u32, u16, u16), Packet> {
        let Some(base) = self.region else {
            return Err(packet);
        };
        // SAFETY: the packet owns its buffer.
        if unsafe { (*packet.raw().as_ptr()).owner } != self.owner.as_ptr().cast_const() {
            if packet.len() > DATA_MAX || packet.is_extended() {
                return Err(packet);
            }
            return match self.copy(packet.data()) {
                Some(copy) => self.surrender(copy),
                None => Err(packet),
            };
        }
        let (offset, len) = (META + packet.headroom(), packet.len());
        let at = packet.into_raw().as_ptr() as usize - base.as_ptr() as usize;
        Ok(((at / BUFFER) as u32, offset as u16, len as u16))
    }

    /// Takes a spent buffer back from a ring.
    ///
    /// # Safety
    /// As for [`adopt`](Self::adopt).
    #[inline]
    pub unsafe fn reclaim(&mut self, index: u32) {
        if let Some(base) = self.region
            && (index as usize) < self.total
        {
            // SAFETY: inside the region.
            self.free
                .push(unsafe { base.add(index as usize * BUFFER) }.cast());
        }
    }

    /// Takes a free buffer's index for a ring slot.
    #[inline]
    pub fn spare(&mut self) -> Option<u32> {
        let base = self.region?;
        let buffer = self.buffer()?;
        Some(((buffer.as_ptr() as usize - base.as_ptr() as usize) / BUFFER) as u32)
    }
}
