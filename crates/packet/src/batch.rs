//! Batches: up to [`BATCH`] packets that move together and are processed in place.

use core::mem::MaybeUninit;
use core::ops::DerefMut;

use simd::Pointers;

use crate::{Facts, Packet, Plan, Prefetcher};

/// Most packets of a batch.
pub const BATCH: usize = 64;

/// Bits for the first `count` packets of a batch, all of them at most.
#[inline]
pub fn first(count: usize) -> u64 {
    u64::MAX.unbounded_shr(BATCH.saturating_sub(count) as u32)
}

/// Up to [`BATCH`] packets in order. They begin at a cache line: vectors of them cross none.
#[repr(C, align(64))]
pub struct Batch {
    packets: [MaybeUninit<Packet>; BATCH],
    len: usize,
    facts: Facts,
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
            facts: Facts::NONE,
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

    /// Whether the batch takes no further packet.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len == BATCH
    }

    /// Packets that still fit.
    #[inline]
    pub fn room(&self) -> usize {
        BATCH - self.len
    }

    /// Adds a packet at the end; returns it if the batch is full.
    #[inline]
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.len == BATCH {
            return Err(packet);
        }
        self.packets[self.len].write(packet);
        self.len += 1;
        self.facts = Facts::NONE;
        Ok(())
    }

    /// Removes the last packet.
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

    /// The facts that hold for all packets.
    #[inline]
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// Adds facts that hold for all packets.
    #[inline]
    pub fn learn(&mut self, facts: Facts) {
        self.facts = self.facts.and(facts);
    }

    /// The packets, mutable. Clears all facts.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Packet] {
        self.facts = Facts::NONE;
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts_mut(self.packets.as_mut_ptr().cast(), self.len) }
    }

    /// The packets in order.
    #[inline]
    pub fn iter(&self) -> core::slice::Iter<'_, Packet> {
        self.as_slice().iter()
    }

    /// The packets in order, mutable. Clears all facts.
    #[inline]
    pub fn iter_mut(&mut self) -> core::slice::IterMut<'_, Packet> {
        self.as_mut_slice().iter_mut()
    }

    /// The packets in order, mutable. The caller's changes preserve `facts`; others are cleared.
    #[inline]
    pub fn iter_mut_keeping(&mut self, facts: Facts) -> core::slice::IterMut<'_, Packet> {
        let kept = self.facts.among(facts);
        // SAFETY: as in `as_slice`, and `self` is borrowed exclusively.
        let packets = unsafe {
            self.facts = kept;
            core::slice::from_raw_parts_mut(self.packets.as_mut_ptr().cast(), self.len)
        };
        packets.iter_mut()
    }

    /// How many packets the batch [stands for](Packet::stands_for), and their
    /// [bytes](Packet::wire_len).
    #[inline]
    pub fn tally(&self) -> (u64, u64) {
        // Testing all is faster than branching after each.
        let (mut bytes, mut extended) = (0, false);
        for packet in self.iter() {
            bytes += packet.len() as u64;
            extended |= packet.is_extended();
        }
        match extended {
            false => (self.len as u64, bytes),
            true => self.tally_extended(),
        }
    }

    #[cold]
    fn tally_extended(&self) -> (u64, u64) {
        let each = self.iter().map(|packet| match packet.is_extended() {
            true => packet.tally(),
            false => (1, packet.len()),
        });
        each.fold((0, 0), |all, (packets, bytes)| {
            (all.0 + packets as u64, all.1 + bytes as u64)
        })
    }

    /// Removes all packets, in order.
    #[inline]
    pub fn drain(&mut self) -> Drain<'_> {
        let end = core::mem::take(&mut self.len);
        Drain {
            batch: self,
            next: 0,
            end,
        }
    }

    /// Calls `look` on each packet in order. Packets for which it returns `None` stay, moved
    /// together. The others are passed to `leave` in order, with the value that `look` returned.
    ///
    /// If a closure panics, the packets that have not left are leaked, never freed twice.
    #[inline]
    pub fn filter<S: ?Sized, L>(
        &mut self,
        state: &mut S,
        look: impl FnMut(&mut S, &mut Packet) -> Option<L>,
        leave: impl FnMut(&mut S, Packet, L),
    ) {
        self.filter_keeping(Facts::NONE, state, look, leave);
    }

    /// As [`filter`](Self::filter), with closures that preserve `facts` of the packets that stay.
    #[inline]
    pub fn filter_keeping<S: ?Sized, L>(
        &mut self,
        facts: Facts,
        state: &mut S,
        mut look: impl FnMut(&mut S, &mut Packet) -> Option<L>,
        mut leave: impl FnMut(&mut S, Packet, L),
    ) {
        self.facts = self.facts.among(facts);
        let end = core::mem::take(&mut self.len).min(BATCH);
        let (mut next, mut kept) = (0, 0);
        while next < end {
            // A loop of its own for packets that stay: nearly always all of them.
            let start = next;
            let mut left = None;
            for slot in &mut self.packets[start..end] {
                // SAFETY: packets before `end` were initialized, and none from `start` on was
                // moved yet.
                left = look(state, unsafe { slot.assume_init_mut() });
                if left.is_some() {
                    break;
                }
                next += 1;
            }
            if kept < start {
                // SAFETY: the packets from `start` to `next` move down, over packets that left or
                // moved before.
                unsafe {
                    let packets = self.packets.as_mut_ptr();
                    core::ptr::copy(packets.add(start), packets.add(kept), next - start);
                }
            }
            kept += next - start;
            if let Some(left) = left {
                // SAFETY: as above; it is read once, as `next` goes on.
                let packet = unsafe { self.packets[next].assume_init_read() };
                next += 1;
                leave(state, packet, left);
            }
        }
        self.len = kept;
    }

    /// Applies `plan` to the packets up to the first that it does not cover. The rest moves to the
    /// empty batch that `spare` returns, keeps its facts, and is returned.
    ///
    /// Edited packets keep the facts among `preserved` and gain those among `learns` that the plan
    /// finds. Packets that come next are prefetched on the way.
    #[inline]
    pub fn edit<B: DerefMut<Target = Batch>>(
        &mut self,
        plan: &Plan,
        preserved: Facts,
        learns: Facts,
        prefetcher: &mut Prefetcher,
        spare: impl FnOnce() -> B,
    ) -> Option<B> {
        let facts = self.facts;
        let (done, found) = plan.run(self.as_mut_slice(), prefetcher);
        let rest = (done < self.len).then(|| {
            let mut rest = spare();
            self.split_off(done, &mut rest);
            rest.facts = facts;
            rest
        });
        self.facts = facts.among(preserved).and(found.among(learns));
        rest
    }

    /// Moves the packets from `at` on to `into`, which is empty.
    #[cold]
    fn split_off(&mut self, at: usize, into: &mut Batch) {
        debug_assert!(into.is_empty());
        let (at, end) = (at.min(self.len), core::mem::replace(&mut self.len, 0));
        // SAFETY: the packets from `at` to `end` are initialized, and `into` has room for them; both
        // lengths then count each packet once.
        unsafe {
            let source = self.packets.as_ptr().add(at);
            core::ptr::copy_nonoverlapping(source, into.packets.as_mut_ptr(), end - at);
        }
        (self.len, into.len) = (at, end - at);
    }

    /// The packets as the pointers that they are.
    #[inline]
    fn pointers(&mut self) -> &mut Pointers {
        const { assert!(simd::WIDTH == BATCH) };
        // SAFETY: a packet is a pointer, and a pointer's slot may hold any or none.
        unsafe { &mut *(&raw mut self.packets).cast() }
    }

    /// Splits the batch by sets of packets; see [`Dispatch`].
    #[inline]
    pub fn dispatch(&mut self) -> Dispatch<'_> {
        let count = core::mem::take(&mut self.len);
        let left = first(count);
        Dispatch { batch: self, left }
    }

    /// Removes the first `count` packets, at most [`len`](Self::len): `take` moves them elsewhere.
    #[inline]
    pub(crate) fn take_front(&mut self, count: usize, take: impl FnOnce(*const Packet)) {
        debug_assert!(count <= self.len);
        let packets = self.packets.as_mut_ptr();
        take(packets.cast());
        if count < self.len {
            // SAFETY: the rest moves down over the packets that were moved away.
            unsafe { core::ptr::copy(packets.add(count), packets, self.len - count) };
        }
        self.len -= count;
    }

    /// Adds `count` packets, at most [`room`](Self::room), at the end: `put` moves them there.
    #[inline]
    pub(crate) fn put_behind(&mut self, count: usize, put: impl FnOnce(*mut Packet)) {
        debug_assert!(count <= self.room());
        self.facts = Facts::NONE;
        put(self.packets[self.len..].as_mut_ptr().cast());
        self.len += count;
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
        self.facts = match self.len {
            0 => from.facts,
            _ => self.facts.among(from.facts),
        };
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

/// A batch that is being taken apart by sets of packets, without a branch on where a packet goes.
///
/// Sets are words with a bit for each packet, the lowest for the first. Packets in no requested set
/// stay in the batch, moved together, when this is dropped.
pub struct Dispatch<'b> {
    batch: &'b mut Batch,
    /// The packets that are still there. The batch's length is 0 meanwhile: packets that are not
    /// moved back are leaked, never freed twice.
    left: u64,
}

impl Dispatch<'_> {
    /// Adds the packets in `set` to `into`, in order, as many as there is room for. What went
    /// elsewhere before is no longer there.
    #[inline]
    pub fn send(&mut self, set: u64, into: &mut Batch) {
        let mut bits = set & self.left;
        let count = bits.count_ones() as usize;
        if count > into.room() {
            return self.send_some(bits, into);
        }
        // Bits stand for packets that are there, and each is moved once: it is no longer in `left`.
        self.left ^= bits;
        if into.is_empty() {
            into.facts = self.batch.facts;
            simd::pick(self.batch.pointers(), bits, into.pointers());
            into.len = count;
            return;
        }
        into.facts = into.facts.among(self.batch.facts);
        while bits != 0 {
            let from = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            // SAFETY: as above; and there is room for them all.
            let packet = unsafe { self.batch.packets[from % BATCH].assume_init_read() };
            into.packets[into.len % BATCH] = MaybeUninit::new(packet);
            into.len += 1;
        }
    }

    #[cold]
    fn send_some(&mut self, set: u64, into: &mut Batch) {
        let mut fit = 0u64;
        let mut rest = set;
        for _ in 0..into.room() {
            fit |= rest & rest.wrapping_neg();
            rest &= rest.wrapping_sub(1);
        }
        self.send(fit, into);
    }
}

impl Drop for Dispatch<'_> {
    #[inline]
    fn drop(&mut self) {
        simd::keep(self.batch.pointers(), self.left);
        self.batch.len = self.left.count_ones() as usize;
    }
}

/// Packets on their way out of a batch; packets that are not taken are dropped.
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
