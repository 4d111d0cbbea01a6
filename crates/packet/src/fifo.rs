//! A store of packets in order, between batches.

use alloc::boxed::Box;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::ptr::copy_nonoverlapping;

use crate::{BATCH, Batch, Packet};

/// Packets in order, with whole batches coming and going: a ring of places that batches are copied
/// into and out of. A `VecDeque` takes them one by one, which is three times the time
/// (`cargo bench -p elements --bench router_path`, the line "queue").
#[derive(Default)]
pub struct Fifo {
    /// A power of two of them, or none.
    places: Box<[MaybeUninit<Packet>]>,
    /// Where the first packet is.
    head: usize,
    len: usize,
}

impl Fifo {
    /// A store without room.
    pub fn new() -> Fifo {
        Fifo::default()
    }

    /// Packets stored.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is stored.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Packets that there is room for without memory being taken, stored ones included.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.places.len()
    }

    /// Sees to it that there is room for `more` packets besides those stored.
    pub fn try_reserve(&mut self, more: usize) -> Result<(), TryReserveError> {
        let wanted = self.len.saturating_add(more);
        if wanted <= self.capacity() {
            return Ok(());
        }
        let mut places = Vec::new();
        // What is no number is too much to reserve, too.
        let wanted = wanted.checked_next_power_of_two().unwrap_or(usize::MAX);
        places.try_reserve_exact(wanted)?;
        // SAFETY: there is room for them, and places need no value.
        unsafe { places.set_len(wanted) };
        let (first, second) = self.halves(self.head, self.len);
        // SAFETY: both pieces are initialized and fit in one behind the other; the old places are
        // given up below without their packets being dropped.
        unsafe {
            let to = places.as_mut_ptr();
            copy_nonoverlapping(self.places.as_ptr().add(self.head), to, first);
            copy_nonoverlapping(self.places.as_ptr(), to.add(first), second);
        }
        (self.places, self.head) = (places.into_boxed_slice(), 0);
        Ok(())
    }

    /// How many of `count` places from `start` on lie before the end, and how many at the start.
    #[inline]
    fn halves(&self, start: usize, count: usize) -> (usize, usize) {
        let first = count.min(self.places.len() - start);
        (first, count - first)
    }

    /// The place `ahead` behind the first packet.
    #[inline]
    fn place(&self, ahead: usize) -> usize {
        self.head.wrapping_add(ahead) & self.places.len().wrapping_sub(1)
    }

    /// Takes packets from the front of `batch` to the end, as many as there is room for.
    #[inline]
    pub fn append(&mut self, batch: &mut Batch) {
        let count = batch.len().min(self.capacity() - self.len);
        if count == 0 {
            return;
        }
        let start = self.place(self.len);
        let (first, second) = self.halves(start, count);
        // Places to write: behind the packets that come, and before the end.
        let room = (self.capacity() - self.len).min(self.capacity() - start);
        let places = self.places.as_mut_ptr();
        batch.take_front(count, |packets| {
            // SAFETY: `packets` are `count`, which are ours from now on. The places are free: from
            // `start`, `first` up to the end and `second` from the start are no more than are free.
            unsafe {
                copy_few(packets.cast(), places.add(start), first, room);
                copy_few(packets.add(first).cast(), places, second, 0);
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
        let (places, head) = (self.places.as_ptr(), self.head);
        let readable = (self.capacity() - head).min(batch.room());
        self.head = self.place(count);
        self.len -= count;
        batch.put_behind(count, |room| {
            // SAFETY: `room` is for `count` packets. The places hold as many, which are no longer
            // counted here.
            unsafe {
                copy_few(places.add(head), room.cast(), first, readable);
                copy_few(places, room.add(first).cast(), second, 0);
            }
        });
        count
    }

    /// The packets, from the first on.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        let (first, second) = self.halves(self.head, self.len);
        let pieces = [
            self.places.get(self.head..self.head + first),
            self.places.get(..second),
        ];
        let places = pieces.into_iter().flatten().flatten();
        // SAFETY: the places between head and end are initialized.
        places.map(|place| unsafe { place.assume_init_ref() })
    }

    /// Adds a packet at the end; gives it back if there is no room.
    #[inline]
    pub fn push_back(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.len == self.capacity() {
            return Err(packet);
        }
        let place = self.place(self.len);
        self.places[place].write(packet);
        self.len += 1;
        Ok(())
    }

    /// Adds a packet at the front; gives it back if there is no room.
    #[inline]
    pub fn push_front(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.len == self.capacity() {
            return Err(packet);
        }
        self.head = self.place(usize::MAX);
        self.places[self.head].write(packet);
        self.len += 1;
        Ok(())
    }

    /// Takes the first packet.
    #[inline]
    pub fn pop_front(&mut self) -> Option<Packet> {
        let left = self.len.checked_sub(1)?;
        let place = self.head;
        (self.head, self.len) = (self.place(1), left);
        // SAFETY: the first packet's place was initialized, and no longer counts.
        Some(unsafe { self.places[place].assume_init_read() })
    }

    /// Takes the last packet.
    #[inline]
    pub fn pop_back(&mut self) -> Option<Packet> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: as for the first.
        Some(unsafe { self.places[self.place(self.len)].assume_init_read() })
    }
}

/// Copies `count` packets. There is room for `room`, on both sides; what is behind the packets is
/// nothing yet.
///
/// How many packets there are can often not be predicted: a copy of many more takes less time than
/// to find out.
///
/// # Safety
/// `count` packets are at `from` and free places at `to`; places in both are there for `room`, and
/// those at `to` are free.
#[inline(always)]
unsafe fn copy_few(
    from: *const MaybeUninit<Packet>,
    to: *mut MaybeUninit<Packet>,
    count: usize,
    room: usize,
) {
    const FEW: usize = BATCH / 2;
    type Places<const N: usize> = [MaybeUninit<*mut u8>; N];
    // SAFETY: as the caller says. Places may hold anything, and a packet is a pointer.
    unsafe {
        if count <= FEW && room >= FEW {
            let (from, to) = (from.cast::<Places<FEW>>(), to.cast::<Places<FEW>>());
            simd::copy(&*from, &mut *to);
        } else if count > FEW && room >= BATCH {
            let (from, to) = (from.cast::<Places<BATCH>>(), to.cast::<Places<BATCH>>());
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
