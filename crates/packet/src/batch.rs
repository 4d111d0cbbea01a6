//! A batch: up to [`BATCH`] packets that go the same way, worked on in place.

use core::mem::MaybeUninit;

use crate::Packet;

/// Most packets of a batch.
pub const BATCH: usize = 64;

/// Up to [`BATCH`] packets in order.
pub struct Batch {
    len: usize,
    packets: [MaybeUninit<Packet>; BATCH],
}

impl Default for Batch {
    fn default() -> Self {
        Batch::new()
    }
}

impl Batch {
    /// An empty batch.
    pub const fn new() -> Batch {
        Batch {
            len: 0,
            packets: [const { MaybeUninit::uninit() }; BATCH],
        }
    }

    /// Number of packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no packet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether there is no room for another packet.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len == BATCH
    }

    /// Packets that still fit.
    #[inline]
    pub fn room(&self) -> usize {
        BATCH - self.len
    }

    /// Adds a packet at the end; gives it back if the batch is full.
    #[inline]
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.len == BATCH {
            return Err(packet);
        }
        self.packets[self.len].write(packet);
        self.len += 1;
        Ok(())
    }

    /// Takes the last packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: the first `len` packets are initialized; this one no longer counts.
        Some(unsafe { self.packets[self.len].assume_init_read() })
    }

    /// The packets.
    #[inline]
    pub fn as_slice(&self) -> &[Packet] {
        // SAFETY: the first `len` are initialized, and a Packet is laid out as its MaybeUninit.
        unsafe { core::slice::from_raw_parts(self.packets.as_ptr().cast(), self.len) }
    }

    /// The packets, to be changed.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Packet] {
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts_mut(self.packets.as_mut_ptr().cast(), self.len) }
    }

    /// The packets in order.
    #[inline]
    pub fn iter(&self) -> core::slice::Iter<'_, Packet> {
        self.as_slice().iter()
    }

    /// The packets in order, to be changed.
    #[inline]
    pub fn iter_mut(&mut self) -> core::slice::IterMut<'_, Packet> {
        self.as_mut_slice().iter_mut()
    }

    /// Takes all packets out, in order.
    #[inline]
    pub fn drain(&mut self) -> Drain<'_> {
        let end = core::mem::take(&mut self.len);
        Drain {
            batch: self,
            next: 0,
            end,
        }
    }

    /// Looks at each packet in order. Those for which `look` says `None` stay, moved together;
    /// the others are handed to `leave` in order, with what `look` said.
    ///
    /// If a closure panics, the packets not yet looked at are leaked, never freed twice.
    #[inline]
    pub fn filter<S: ?Sized, L>(
        &mut self,
        state: &mut S,
        mut look: impl FnMut(&mut S, &mut Packet) -> Option<L>,
        mut leave: impl FnMut(&mut S, Packet, L),
    ) {
        let end = core::mem::take(&mut self.len);
        let mut kept = 0;
        for i in 0..end {
            // SAFETY: packets before `end` were initialized, and each is read once: `i` only
            // grows, and what is written at `kept <= i` was read before.
            let mut packet = unsafe { self.packets[i].assume_init_read() };
            match look(state, &mut packet) {
                None => {
                    self.packets[kept].write(packet);
                    kept += 1;
                }
                Some(left) => leave(state, packet, left),
            }
        }
        self.len = kept;
    }

    /// Moves the packets with a bit in `picked` (the lowest for the first) to `into`, which is
    /// emptied first, in order; the others stay, moved together. No branch depends on the bits.
    pub fn pick(&mut self, picked: u64, into: &mut Batch) {
        while into.pop().is_some() {}
        let end = core::mem::take(&mut self.len);
        let (mut kept, mut moved) = (0, 0);
        for i in 0..end {
            let wanted = (picked >> i & 1) as usize;
            // SAFETY: both are copies of the same packet's bytes, of which only one will count:
            // that below the length of its batch. `kept` and `moved` are at most `i`, so nothing
            // is overwritten that was not read before.
            let (here, there) = unsafe {
                let packet = &raw const self.packets[i];
                (packet.read(), packet.read())
            };
            self.packets[kept] = here;
            into.packets[moved] = there;
            kept += 1 - wanted;
            moved += wanted;
        }
        self.len = kept;
        into.len = moved;
    }

    /// Moves packets from the front of `from` to the end of this batch, as many as fit and at
    /// most `most`; returns how many.
    pub fn append(&mut self, from: &mut Batch, most: usize) -> usize {
        let n = from.len.min(self.room()).min(most);
        if n == 0 {
            return 0;
        }
        // SAFETY: the first `n` of `from` are initialized and there is room for them here; the
        // rest of `from` moves down; both lengths then count initialized packets only.
        unsafe {
            let source = from.packets.as_mut_ptr();
            core::ptr::copy_nonoverlapping(source, self.packets.as_mut_ptr().add(self.len), n);
            core::ptr::copy(source.add(n), source, from.len - n);
        }
        self.len += n;
        from.len -= n;
        n
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// Packets on their way out of a batch; what is not taken is dropped.
pub struct Drain<'b> {
    batch: &'b mut Batch,
    next: usize,
    end: usize,
}

impl Iterator for Drain<'_> {
    type Item = Packet;

    #[inline]
    fn next(&mut self) -> Option<Packet> {
        if self.next == self.end {
            return None;
        }
        // SAFETY: initialized before the drain began, and read once.
        let packet = unsafe { self.batch.packets[self.next].assume_init_read() };
        self.next += 1;
        Some(packet)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.next, Some(self.end - self.next))
    }
}

impl ExactSizeIterator for Drain<'_> {}

impl Drop for Drain<'_> {
    fn drop(&mut self) {
        for _ in self.by_ref() {}
    }
}
