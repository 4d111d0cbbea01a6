//! A queue of packets, filled and emptied in batches.

use alloc::boxed::Box;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::ptr::copy_nonoverlapping;
use core::slice;

use crate::{BATCH, Batch, Packet};

/// Slots of a line.
const LINE: usize = 8;

/// The slots of a cache line: a copy of a whole batch crosses none.
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "it is used as slots")] [MaybeUninit<Packet>; LINE]);

const _: () = assert!(size_of::<Line>() == 64);

/// A FIFO of packets: a ring of slots into and out of which whole batches are copied. A `VecDeque`
/// moves packets one by one, which takes three times as long
/// (`cargo bench -p elements --bench router_path`, the line "queue").
#[derive(Default)]
pub struct Fifo {
    /// A power of two of slots, or none.
    lines: Box<[Line]>,
    /// The first packet's slot.
    head: usize,
    len: usize,
}

impl Fifo {
    /// An empty queue of capacity 0.
    pub fn new() -> Fifo {
        Fifo::default()
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

    /// Packets that fit without an allocation, stored ones included.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.lines.len() * LINE
    }

    #[inline]
    fn slots(&self) -> &[MaybeUninit<Packet>] {
        // SAFETY: lines are nothing but slots, and as many.
        unsafe { slice::from_raw_parts(self.lines.as_ptr().cast(), self.capacity()) }
    }

    #[inline]
    fn slots_mut(&mut self) -> &mut [MaybeUninit<Packet>] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.capacity()) }
    }

    /// Reserves capacity for `more` packets besides those stored.
    pub fn try_reserve(&mut self, more: usize) -> Result<(), TryReserveError> {
        let wanted = self.len.saturating_add(more);
        if wanted <= self.capacity() {
            return Ok(());
        }
        let mut lines: Vec<Line> = Vec::new();
        // An overflow fails as too large an allocation does.
        let wanted = wanted.div_ceil(LINE).checked_next_power_of_two();
        let wanted = wanted.unwrap_or(usize::MAX);
        lines.try_reserve_exact(wanted)?;
        // SAFETY: they are reserved, and slots need no value.
        unsafe { lines.set_len(wanted) };
        let (first, second) = self.halves(self.head, self.len);
        // SAFETY: both pieces are initialized and fit one behind the other; the old slots are
        // freed below without dropping their packets.
        unsafe {
            let to = lines.as_mut_ptr().cast();
            copy_nonoverlapping(self.slots().as_ptr().add(self.head), to, first);
            copy_nonoverlapping(self.slots().as_ptr(), to.add(first), second);
        }
        (self.lines, self.head) = (lines.into_boxed_slice(), 0);
        Ok(())
    }

    /// How many of `count` slots from `start` on lie before the end, and how many at the start.
    #[inline]
    fn halves(&self, start: usize, count: usize) -> (usize, usize) {
        let first = count.min(self.capacity() - start);
        (first, count - first)
    }

    /// The slot `offset` behind the first packet.
    #[inline]
    fn slot(&self, offset: usize) -> usize {
        self.head.wrapping_add(offset) & self.capacity().wrapping_sub(1)
    }

    /// Moves packets from the front of `batch` to the end of the queue, as many as fit.
    #[inline]
    pub fn append(&mut self, batch: &mut Batch) {
        let count = batch.len().min(self.capacity() - self.len);
        if count == 0 {
            return;
        }
        let start = self.slot(self.len);
        let (first, second) = self.halves(start, count);
        // Free slots from `start` to the end of the ring.
        let room = (self.capacity() - self.len).min(self.capacity() - start);
        let slots = self.slots_mut().as_mut_ptr();
        batch.take_front(count, |packets| {
            // SAFETY: `packets` are `count`, which are ours from now on. The slots are free: from
            // `start`, `first` up to the end and `second` from the start are no more than are free.
            unsafe {
                copy_few(packets.cast(), slots.add(start), first, room);
                copy_few(packets.add(first).cast(), slots, second, 0);
            }
        });
        self.len += count;
    }

    /// Moves packets from the front to the end of `batch`, as many as fit and at most `most`;
    /// returns how many.
    #[inline]
    pub fn take(&mut self, batch: &mut Batch, most: usize) -> usize {
        let count = self.len.min(most).min(batch.room());
        if count == 0 {
            return 0;
        }
        let (first, second) = self.halves(self.head, count);
        let (slots, head) = (self.slots().as_ptr(), self.head);
        let readable = (self.capacity() - head).min(batch.room());
        self.head = self.slot(count);
        self.len -= count;
        batch.put_behind(count, |room| {
            // SAFETY: `room` is for `count` packets. The slots hold as many, which are no longer
            // counted here.
            unsafe {
                copy_few(slots.add(head), room.cast(), first, readable);
                copy_few(slots, room.add(first).cast(), second, 0);
            }
        });
        count
    }

    /// The packets, from the first on.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        let (first, second) = self.halves(self.head, self.len);
        let pieces = [
            self.slots().get(self.head..self.head + first),
            self.slots().get(..second),
        ];
        let slots = pieces.into_iter().flatten().flatten();
        // SAFETY: the slots between head and end are initialized.
        slots.map(|slot| unsafe { slot.assume_init_ref() })
    }

    /// Adds a packet at the end; returns it if there is no free slot.
    #[inline]
    pub fn push_back(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.len == self.capacity() {
            return Err(packet);
        }
        let slot = self.slot(self.len);
        self.slots_mut()[slot].write(packet);
        self.len += 1;
        Ok(())
    }

    /// Adds a packet at the front; returns it if there is no free slot.
    #[inline]
    pub fn push_front(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.len == self.capacity() {
            return Err(packet);
        }
        self.head = self.slot(usize::MAX);
        let head = self.head;
        self.slots_mut()[head].write(packet);
        self.len += 1;
        Ok(())
    }

    /// Removes the first packet.
    #[inline]
    pub fn pop_front(&mut self) -> Option<Packet> {
        let left = self.len.checked_sub(1)?;
        let slot = self.head;
        (self.head, self.len) = (self.slot(1), left);
        // SAFETY: the first packet's slot was initialized, and no longer counts.
        Some(unsafe { self.slots()[slot].assume_init_read() })
    }

    /// Removes the last packet.
    #[inline]
    pub fn pop_back(&mut self) -> Option<Packet> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: as for the first.
        Some(unsafe { self.slots()[self.slot(self.len)].assume_init_read() })
    }
}

/// Copies `count` packets between slices of `room` slots.
///
/// The branch predictor often misses `count`: a copy of many more slots takes less time than a
/// mispredicted loop.
///
/// # Safety
/// `from` starts with `count` packets. Both slices have `room` slots, and those at `to` are free.
#[inline(always)]
unsafe fn copy_few(
    from: *const MaybeUninit<Packet>,
    to: *mut MaybeUninit<Packet>,
    count: usize,
    room: usize,
) {
    const FEW: usize = BATCH / 2;
    type Slots<const N: usize> = [MaybeUninit<*mut u8>; N];
    // SAFETY: as the caller says. Slots may hold anything, and a packet is a pointer.
    unsafe {
        if count <= FEW && room >= FEW {
            let (from, to) = (from.cast::<Slots<FEW>>(), to.cast::<Slots<FEW>>());
            simd::copy(&*from, &mut *to);
        } else if count > FEW && room >= BATCH {
            let (from, to) = (from.cast::<Slots<BATCH>>(), to.cast::<Slots<BATCH>>());
            simd::copy(&*from, &mut *to);
        } else if count > 0 {
            copy_nonoverlapping(from, to, count);
        }
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        while self.pop_front().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::Pool;

    #[derive(Clone, Debug)]
    enum Step {
        Append(usize),
        Take(usize, usize),
        PushBack,
        PushFront,
        PopFront,
        PopBack,
        Reserve(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0usize..=64).prop_map(Step::Append),
            ((0usize..=64), (0usize..80)).prop_map(|(held, most)| Step::Take(held, most)),
            Just(Step::PushBack),
            Just(Step::PushFront),
            Just(Step::PopFront),
            Just(Step::PopBack),
            (0usize..90).prop_map(Step::Reserve),
        ]
    }

    /// Packets that hold numbers.
    struct Numbered(Pool, u32);

    impl Numbered {
        fn next(&mut self) -> (Packet, u32) {
            self.1 += 1;
            (self.0.copy(&self.1.to_ne_bytes()).unwrap(), self.1)
        }

        fn of(packet: &Packet) -> u32 {
            u32::from_ne_bytes(packet.data().try_into().unwrap())
        }
    }

    proptest! {
        #[test]
        fn it_does_as_a_deque_does(steps in proptest::collection::vec(step(), 0..60)) {
            let mut numbers = Numbered(Pool::heap(1 << 12), 0);
            let (mut fifo, mut deque) = (Fifo::new(), VecDeque::new());
            for step in steps {
                let room = fifo.capacity() - fifo.len();
                match step {
                    Step::Append(count) => {
                        let mut batch = Batch::new();
                        for i in 0..count {
                            let (packet, number) = numbers.next();
                            batch.push(packet).unwrap();
                            if i < room {
                                deque.push_back(number);
                            }
                        }
                        fifo.append(&mut batch);
                        prop_assert_eq!(batch.len(), count.saturating_sub(room));
                    }
                    Step::Take(held, most) => {
                        let mut batch = Batch::new();
                        for _ in 0..held {
                            batch.push(numbers.next().0).unwrap();
                        }
                        let taken = fifo.take(&mut batch, most);
                        prop_assert_eq!(taken, most.min(64 - held).min(deque.len()));
                        let got: Vec<u32> = batch.iter().skip(held).map(Numbered::of).collect();
                        prop_assert_eq!(got, deque.drain(..taken).collect::<Vec<_>>());
                    }
                    Step::PushBack => {
                        let (packet, number) = numbers.next();
                        prop_assert_eq!(fifo.push_back(packet).is_ok(), room > 0);
                        if room > 0 {
                            deque.push_back(number);
                        }
                    }
                    Step::PushFront => {
                        let (packet, number) = numbers.next();
                        prop_assert_eq!(fifo.push_front(packet).is_ok(), room > 0);
                        if room > 0 {
                            deque.push_front(number);
                        }
                    }
                    Step::PopFront => {
                        let packet = fifo.pop_front();
                        prop_assert_eq!(packet.as_ref().map(Numbered::of), deque.pop_front());
                    }
                    Step::PopBack => {
                        let packet = fifo.pop_back();
                        prop_assert_eq!(packet.as_ref().map(Numbered::of), deque.pop_back());
                    }
                    Step::Reserve(more) => fifo.try_reserve(more).unwrap(),
                }
                let held: Vec<u32> = fifo.iter().map(Numbered::of).collect();
                prop_assert_eq!(held, Vec::from(deque.clone()));
                prop_assert_eq!(fifo.len(), deque.len());
            }
            drop(fifo);
            prop_assert_eq!(numbers.0.outstanding(), 0);
        }
    }

    #[test]
    fn too_much_is_refused() {
        assert!(Fifo::new().try_reserve(usize::MAX).is_err());
    }
}
