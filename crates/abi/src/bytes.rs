//! A byte ring: one writer, one reader, on two sides of a wall. Console text and control messages cross in it.
//!
//! The buffer is a power of two long. Cursors count bytes since the ring was made and never wrap (2^64 bytes),
//! so "empty" and "full" need no spare byte; an index is a cursor under a mask. Each side keeps its own cursor
//! in private memory and publishes it once a call, reads the other side's cursor once a call, and checks that
//! it is possible at all. A peer that writes nonsense into the shared words is noticed ([`Corrupt`]) or makes
//! its own bytes nonsense; it can't make this side touch memory outside the buffer.

use core::mem::{align_of, offset_of, size_of};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};

/// The shared words of a ring. All zero is an empty ring.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Cursors {
    /// Bytes written so far. Only the writer stores here.
    produced: AtomicU64,
    /// Bytes that the writer had to throw away because the ring was full. Only the writer stores here.
    lost: AtomicU64,
    apart: [u64; 6],
    /// Bytes read so far. Only the reader stores here.
    consumed: AtomicU64,
    rest: [u64; 7],
}

const _: () = {
    assert!(size_of::<Cursors>() == 128);
    assert!(align_of::<Cursors>() == 64);
    assert!(offset_of!(Cursors, produced) == 0);
    assert!(offset_of!(Cursors, consumed) == 64);
};

/// The other side's cursor is impossible: more bytes than the ring holds, or fewer than none. The ring is of
/// no use from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

impl core::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the other side of a byte ring wrote an impossible cursor into it")
    }
}

impl core::error::Error for Corrupt {}

/// Where a ring lies in this side's memory: cursors and buffer.
#[derive(Clone, Copy, Debug)]
pub struct ByteRing<'a> {
    cursors: &'a Cursors,
    buffer: NonNull<u8>,
    mask: u64,
}

impl<'a> ByteRing<'a> {
    /// The ring with these cursors and the `capacity` bytes at `buffer`.
    ///
    /// # Safety
    /// The buffer is valid for reads and writes for `'a` and nothing in this program makes a reference into
    /// it. (The other side may write to it at any time: it is only ever copied from and to, never borrowed.)
    ///
    /// # Panics
    /// If `capacity` is not a power of two.
    pub unsafe fn new(cursors: &'a Cursors, buffer: NonNull<u8>, capacity: usize) -> Self {
        assert!(
            capacity.is_power_of_two(),
            "a byte ring's capacity is a power of two"
        );
        Self {
            cursors,
            buffer,
            mask: capacity as u64 - 1,
        }
    }

    /// This side as the writer, going on where the shared cursor stands. Only one may exist at a time.
    pub fn producer(self) -> Producer<'a> {
        Producer {
            head: self.cursors.produced.load(Ordering::Relaxed),
            ring: self,
        }
    }

    /// This side as the reader, going on where the shared cursor stands. Only one may exist at a time.
    pub fn consumer(self) -> Consumer<'a> {
        Consumer {
            tail: self.cursors.consumed.load(Ordering::Relaxed),
            ring: self,
        }
    }

    fn capacity(&self) -> u64 {
        self.mask + 1
    }

    /// The two runs that `length` bytes from `cursor` on occupy: offset and length of the first, length of the
    /// second, which starts at offset 0.
    fn runs(&self, cursor: u64, length: usize) -> (usize, usize, usize) {
        debug_assert!(length as u64 <= self.capacity());
        let start = (cursor & self.mask) as usize;
        let first = length.min(self.capacity() as usize - start);
        (start, first, length - first)
    }

    fn copy_in(&self, cursor: u64, bytes: &[u8]) {
        let (start, first, second) = self.runs(cursor, bytes.len());
        // SAFETY: `runs` keeps both pieces inside the buffer; `bytes` is private to this side, so the two
        // don't overlap.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.buffer.as_ptr().add(start), first);
            ptr::copy_nonoverlapping(bytes.as_ptr().add(first), self.buffer.as_ptr(), second);
        }
    }

    fn copy_out(&self, cursor: u64, into: &mut [u8]) {
        let (start, first, second) = self.runs(cursor, into.len());
        // SAFETY: as in `copy_in`.
        unsafe {
            ptr::copy_nonoverlapping(self.buffer.as_ptr().add(start), into.as_mut_ptr(), first);
            ptr::copy_nonoverlapping(self.buffer.as_ptr(), into.as_mut_ptr().add(first), second);
        }
        // Without this a compiler may serve a later use of the copy from the shared original, which
        // the other side may have changed since.
        compiler_fence(Ordering::SeqCst);
    }
}

/// The writing side of a ring.
#[derive(Debug)]
pub struct Producer<'a> {
    ring: ByteRing<'a>,
    head: u64,
}

// SAFETY: a producer is the only writer of its side; moving it to another thread moves that role.
unsafe impl Send for Producer<'_> {}

impl Producer<'_> {
    /// Bytes that fit now.
    pub fn free(&self) -> Result<usize, Corrupt> {
        let consumed = self.ring.cursors.consumed.load(Ordering::Acquire);
        let used = self.head.wrapping_sub(consumed);
        if used > self.ring.capacity() {
            return Err(Corrupt);
        }
        Ok((self.ring.capacity() - used) as usize)
    }

    /// Writes as many of `bytes` as fit and says how many; the rest is counted as lost. For text.
    pub fn write_lossy(&mut self, bytes: &[u8]) -> Result<usize, Corrupt> {
        let length = self.free()?.min(bytes.len());
        self.put(&[&bytes[..length]]);
        if length < bytes.len() {
            let lost = self.ring.cursors.lost.load(Ordering::Relaxed);
            let more = (bytes.len() - length) as u64;
            self.ring
                .cursors
                .lost
                .store(lost.wrapping_add(more), Ordering::Relaxed);
        }
        Ok(length)
    }

    /// Writes all parts, one behind the other, or nothing; says which.
    pub fn write_whole(&mut self, parts: &[&[u8]]) -> Result<bool, Corrupt> {
        let length: usize = parts.iter().map(|p| p.len()).sum();
        if length > self.free()? {
            return Ok(false);
        }
        self.put(parts);
        Ok(true)
    }

    /// Copies parts that are known to fit, then publishes them at once.
    fn put(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.ring.copy_in(self.head, part);
            self.head = self.head.wrapping_add(part.len() as u64);
        }
        self.ring
            .cursors
            .produced
            .store(self.head, Ordering::Release);
    }
}

/// The reading side of a ring.
#[derive(Debug)]
pub struct Consumer<'a> {
    ring: ByteRing<'a>,
    tail: u64,
}

// SAFETY: as for `Producer`.
unsafe impl Send for Consumer<'_> {}

impl Consumer<'_> {
    /// Bytes that can be read now.
    pub fn available(&self) -> Result<usize, Corrupt> {
        let produced = self.ring.cursors.produced.load(Ordering::Acquire);
        let used = produced.wrapping_sub(self.tail);
        if used > self.ring.capacity() {
            return Err(Corrupt);
        }
        Ok(used as usize)
    }

    /// Reads up to `into.len()` bytes and says how many.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, Corrupt> {
        let length = self.available()?.min(into.len());
        self.ring.copy_out(self.tail, &mut into[..length]);
        self.skip(length);
        Ok(length)
    }

    /// Copies `into.len()` bytes from `skip` bytes ahead without taking them; `false` if not that many are
    /// there.
    pub fn peek(&self, skip: usize, into: &mut [u8]) -> Result<bool, Corrupt> {
        if self.available()? < skip + into.len() {
            return Ok(false);
        }
        self.ring
            .copy_out(self.tail.wrapping_add(skip as u64), into);
        Ok(true)
    }

    /// Takes `length` bytes that [`Self::available`] has shown to be there.
    pub fn skip(&mut self, length: usize) {
        self.tail = self.tail.wrapping_add(length as u64);
        self.ring
            .cursors
            .consumed
            .store(self.tail, Ordering::Release);
    }

    /// Bytes that the writer says it threw away. Its word only.
    pub fn lost(&self) -> u64 {
        self.ring.cursors.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec::Vec;
    use std::{thread, vec};

    const CAPACITY: usize = 64;
    /// Bytes around the buffer that nothing may change.
    const MARGIN: usize = 64;

    struct Memory {
        cursors: Cursors,
        bytes: Vec<u8>,
    }

    impl Memory {
        fn new() -> Self {
            Self {
                cursors: Cursors::default(),
                bytes: vec![0xee; CAPACITY + 2 * MARGIN],
            }
        }

        fn ring(&mut self) -> ByteRing<'_> {
            // SAFETY: the middle of the vector, which nothing else touches while the ring lives.
            unsafe {
                let buffer = NonNull::new_unchecked(self.bytes.as_mut_ptr().add(MARGIN));
                ByteRing::new(&self.cursors, buffer, CAPACITY)
            }
        }

        fn margins_untouched(&self) -> bool {
            self.bytes[..MARGIN]
                .iter()
                .chain(&self.bytes[MARGIN + CAPACITY..])
                .all(|&b| b == 0xee)
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write(Vec<u8>),
        WriteWhole(Vec<u8>),
        Read(usize),
        Produced(u64),
        Consumed(u64),
    }

    fn honest() -> impl Strategy<Value = Step> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..100).prop_map(Step::Write),
            prop::collection::vec(any::<u8>(), 0..100).prop_map(Step::WriteWhole),
            (0usize..100).prop_map(Step::Read),
        ]
    }

    fn hostile() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => honest(),
            1 => prop_oneof![any::<u64>(), 0u64..200].prop_map(Step::Produced),
            1 => prop_oneof![any::<u64>(), 0u64..200].prop_map(Step::Consumed),
        ]
    }

    proptest! {
        #[test]
        fn bytes_come_out_as_they_went_in(steps in prop::collection::vec(honest(), 0..60)) {
            let mut memory = Memory::new();
            let ring = memory.ring();
            let (mut writer, mut reader) = (ring.producer(), ring.consumer());
            let mut model = VecDeque::new();
            for step in steps {
                match step {
                    Step::Write(bytes) => {
                        let wrote = writer.write_lossy(&bytes).unwrap();
                        prop_assert_eq!(wrote, bytes.len().min(CAPACITY - model.len()));
                        model.extend(&bytes[..wrote]);
                    }
                    Step::WriteWhole(bytes) => {
                        let middle = bytes.len() / 2;
                        let fits = bytes.len() <= CAPACITY - model.len();
                        let (a, b) = bytes.split_at(middle);
                        prop_assert_eq!(writer.write_whole(&[a, b]).unwrap(), fits);
                        if fits {
                            model.extend(&bytes);
                        }
                    }
                    Step::Read(length) => {
                        let mut bytes = vec![0; length];
                        let got = reader.read(&mut bytes).unwrap();
                        let expected: Vec<u8> = model.drain(..length.min(model.len())).collect();
                        prop_assert_eq!(&bytes[..got], &expected[..]);
                    }
                    _ => unreachable!(),
                }
            }
            prop_assert!(memory.margins_untouched());
        }

        #[test]
        fn a_hostile_peer_is_contained(steps in prop::collection::vec(hostile(), 0..60)) {
            let mut memory = Memory::new();
            let ring = memory.ring();
            let (mut writer, mut reader) = (ring.producer(), ring.consumer());
            for step in steps {
                match step {
                    Step::Write(bytes) => {
                        let _ = writer.write_lossy(&bytes);
                    }
                    Step::WriteWhole(bytes) => {
                        let _ = writer.write_whole(&[&bytes]);
                    }
                    Step::Read(length) => {
                        let mut bytes = vec![0; length];
                        let _ = reader.read(&mut bytes);
                        let _ = reader.peek(3, &mut bytes);
                    }
                    Step::Produced(value) => ring.cursors.produced.store(value, Ordering::Relaxed),
                    Step::Consumed(value) => ring.cursors.consumed.store(value, Ordering::Relaxed),
                }
            }
            prop_assert!(memory.margins_untouched());
        }
    }

    #[test]
    fn an_impossible_cursor_is_reported() {
        let mut memory = Memory::new();
        let ring = memory.ring();
        ring.cursors
            .produced
            .store(CAPACITY as u64 + 1, Ordering::Relaxed);
        assert_eq!(ring.consumer().available(), Err(Corrupt));
        ring.cursors.produced.store(0, Ordering::Relaxed);
        ring.cursors.consumed.store(1, Ordering::Relaxed);
        assert_eq!(ring.producer().write_lossy(b"x"), Err(Corrupt));
    }

    #[test]
    fn what_is_lost_is_counted() {
        let mut memory = Memory::new();
        let ring = memory.ring();
        let text = [b'a'; CAPACITY + 10];
        assert_eq!(ring.producer().write_lossy(&text), Ok(CAPACITY));
        assert_eq!(ring.consumer().lost(), 10);
    }

    #[test]
    fn two_threads_agree() {
        const TOTAL: usize = 200_000;
        let mut memory = Memory::new();
        let ring = memory.ring();
        let (mut writer, mut reader) = (ring.producer(), ring.consumer());
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut next = 0usize;
                while next < TOTAL {
                    let chunk: Vec<u8> = (next..TOTAL.min(next + 37))
                        .map(|n| (n % 251) as u8)
                        .collect();
                    let free = writer.free().unwrap().min(chunk.len());
                    next += writer.write_lossy(&chunk[..free]).unwrap();
                    if free == 0 {
                        thread::yield_now();
                    }
                }
            });
            let mut seen = 0usize;
            let mut bytes = [0; 41];
            while seen < TOTAL {
                let got = reader.read(&mut bytes).unwrap();
                for &byte in &bytes[..got] {
                    assert_eq!(byte, (seen % 251) as u8);
                    seen += 1;
                }
                if got == 0 {
                    thread::yield_now();
                }
            }
        });
    }
}
