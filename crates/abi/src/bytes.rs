//! The byte ring: one writer and one reader on two sides of a wall. It carries console text and control
//! messages.
//!
//! The buffer is a power of two long. Cursors count bytes since the ring was made and never wrap (2^64 bytes), so
//! "empty" and "full" need no spare byte; an index is a masked cursor. Each side keeps its own cursor in private
//! memory, and publishes it once per call. It reads the other side's cursor once per call and checks it ([`Corrupt`]).
//! No value that a peer writes into the shared words makes this side access memory outside the buffer.

use core::mem::{align_of, offset_of, size_of};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};

/// The shared words of a ring. All zero is an empty ring.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Cursors {
    /// Bytes written so far. Only the writer stores here.
    produced: AtomicU64,
    /// Bytes that the writer dropped because the ring was full. Only the writer stores here.
    lost: AtomicU64,
    _producer_line: [u64; 6],
    /// Bytes read so far. Only the reader stores here.
    consumed: AtomicU64,
    _consumer_line: [u64; 7],
}

const _: () = {
    assert!(size_of::<Cursors>() == 128);
    assert!(align_of::<Cursors>() == 64);
    assert!(offset_of!(Cursors, produced) == 0);
    assert!(offset_of!(Cursors, consumed) == 64);
};

/// The other side's cursor is impossible: more bytes than the ring holds, or fewer than none. The ring is
/// unusable from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

impl core::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the other side of a byte ring wrote an impossible cursor into it")
    }
}

impl core::error::Error for Corrupt {}

/// A ring in this side's memory: cursors and buffer.
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

    /// This side as the writer, from the shared cursor on. Only one may exist at a time.
    pub fn producer(self) -> Producer<'a> {
        Producer {
            head: self.cursors.produced.load(Ordering::Relaxed),
            ring: self,
        }
    }

    /// This side as the reader, from the shared cursor on. Only one may exist at a time.
    pub fn consumer(self) -> Consumer<'a> {
        Consumer {
            tail: self.cursors.consumed.load(Ordering::Relaxed),
            ring: self,
        }
    }

    /// This side as the writer of a ring that starts over at 0. The other side reads nothing before it has
    /// [started over](Self::restart_consumer), too.
    pub fn restart_producer(self) -> Producer<'a> {
        self.cursors.produced.store(0, Ordering::Relaxed);
        Producer {
            head: 0,
            ring: self,
        }
    }

    /// This side as the reader of a ring that starts over at 0; see [`restart_producer`](Self::restart_producer).
    pub fn restart_consumer(self) -> Consumer<'a> {
        self.cursors.consumed.store(0, Ordering::Relaxed);
        Consumer {
            tail: 0,
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
        // Without this, a compiler may serve a later use of the copy from the shared original, which
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

    /// Writes as many of `bytes` as fit and returns how many. For streams.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Corrupt> {
        let length = self.free()?.min(bytes.len());
        self.put(&[&bytes[..length]]);
        Ok(length)
    }

    /// Writes as many of `bytes` as fit and returns how many; counts the rest as lost. For text.
    pub fn write_lossy(&mut self, bytes: &[u8]) -> Result<usize, Corrupt> {
        let length = self.write(bytes)?;
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

    /// Writes all parts, one behind the other; false, and no change, if they do not fit.
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

    /// Reads up to `into.len()` bytes and returns how many.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, Corrupt> {
        let length = self.available()?.min(into.len());
        self.ring.copy_out(self.tail, &mut into[..length]);
        self.skip(length);
        Ok(length)
    }

    /// Copies `into.len()` bytes behind the next `skip` bytes without consuming them; `false` if there are
    /// fewer.
    pub fn peek(&self, skip: usize, into: &mut [u8]) -> Result<bool, Corrupt> {
        if self.available()? < skip + into.len() {
            return Ok(false);
        }
        self.ring
            .copy_out(self.tail.wrapping_add(skip as u64), into);
        Ok(true)
    }

    /// Consumes `length` bytes, at most [`Self::available`].
    pub fn skip(&mut self, length: usize) {
        self.tail = self.tail.wrapping_add(length as u64);
        self.ring
            .cursors
            .consumed
            .store(self.tail, Ordering::Release);
    }

    /// Bytes that the writer claims to have dropped.
    pub fn lost(&self) -> u64 {
        self.ring.cursors.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
