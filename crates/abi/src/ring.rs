//! The ring: single producer, single consumer, slots of a few 64-bit words. Packets cross it as
//! [`Slot`]s that swap buffers, socket calls as [`Nqe`](crate::nqe::Nqe)s.
//!
//! A packet's slot always holds a buffer. The producer replaces the spent buffer of a free slot by a filled
//! one and publishes. The consumer replaces the filled buffer by a spent one and releases. So a
//! packet crosses the ring without a copy, no buffer is lost, and no second ring returns buffers.
//! (The idea is netmap's, Rizzo 2012.)
//!
//! Cursors run freely and are masked on use. Each side keeps its own cursor privately and publishes
//! it once per batch. A cursor of the other side that claims more slots than the ring has is a
//! [`Violation::Cursor`]. Each word of a slot is read exactly once.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::CACHE_LINE;

/// Fewest slots of a ring.
pub const SLOTS_MIN: u32 = 64;
/// Most slots of a ring.
pub const SLOTS_MAX: u32 = 2048;

/// Flags of a slot's frame.
pub mod flags {
    /// The frame continues in the next slot: see [`chain`](crate::chain).
    pub const MORE: u16 = 1 << 0;
    /// The checksum from `checksum_start` on is partial: `checksum_offset` holds the sum of the
    /// pseudo header.
    pub const NEEDS_CHECKSUM: u16 = 1 << 1;
    /// The writer of the frame vouches for its checksums.
    pub const CHECKSUM_VALID: u16 = 1 << 2;
    /// The frame needs segmentation as TCP over IPv4, with `segment_size` bytes of payload in each
    /// segment.
    pub const SEGMENT_TCP4: u16 = 1 << 3;
    /// The frame needs segmentation as TCP over IPv6.
    pub const SEGMENT_TCP6: u16 = 1 << 4;
    /// The frame needs segmentation as UDP, over the IP version of its EtherType.
    pub const SEGMENT_UDP: u16 = 1 << 5;
    /// Beside a TCP segmentation: the frame's CWR flag is for its first segment only.
    pub const SEGMENT_ECN: u16 = 1 << 6;
    /// The slot holds no frame but a message of or to the switch: see [`settle`](crate::settle).
    pub const MESSAGE: u16 = 1 << 7;
    /// A frame that stands for several has one of these.
    pub const SEGMENTED: u16 = SEGMENT_TCP4 | SEGMENT_TCP6 | SEGMENT_UDP;
    /// A frame that has none of these is whole, in one slot, and its checksums are complete.
    pub const OFFLOADED: u16 = MORE | NEEDS_CHECKSUM | SEGMENTED | SEGMENT_ECN;
}

/// One slot, by value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Index of the buffer in the region's pool.
    pub buffer: u32,
    /// Offset of the frame in the buffer, in bytes.
    pub offset: u16,
    /// Length of the frame's part in this buffer, in bytes.
    pub len: u16,
    /// See [`flags`]. A frame's further slots have only [`flags::MORE`] and the length.
    pub flags: u16,
    /// First byte that the checksum covers, in bytes from the start of the frame.
    pub checksum_start: u16,
    /// Offset of the checksum field, in bytes from `checksum_start`.
    pub checksum_offset: u16,
    /// Payload bytes of one segment.
    pub segment_size: u16,
}

impl Slot {
    /// A slot that holds a spent buffer.
    pub const fn spent(buffer: u32) -> Slot {
        Slot {
            buffer,
            offset: 0,
            len: 0,
            flags: 0,
            checksum_start: 0,
            checksum_offset: 0,
            segment_size: 0,
        }
    }

    const fn words(self) -> [u64; 2] {
        [
            self.buffer as u64 | (self.offset as u64) << 32 | (self.len as u64) << 48,
            self.flags as u64
                | (self.checksum_start as u64) << 16
                | (self.checksum_offset as u64) << 32
                | (self.segment_size as u64) << 48,
        ]
    }

    const fn from_words([a, b]: [u64; 2]) -> Slot {
        Slot {
            buffer: a as u32,
            offset: (a >> 32) as u16,
            len: (a >> 48) as u16,
            flags: b as u16,
            checksum_start: (b >> 16) as u16,
            checksum_offset: (b >> 32) as u16,
            segment_size: (b >> 48) as u16,
        }
    }
}

/// The content of a ring's slot: a number of 64-bit words.
///
/// # Safety
/// `Shared` consists of [`AtomicU64`]s only: the other side writes it at any time, and any bytes are
/// one.
pub unsafe trait RingSlot: Copy {
    /// The slot in shared memory.
    type Shared;

    /// Reads each word once.
    fn load(shared: &Self::Shared) -> Self;

    /// Writes each word once.
    fn store(self, shared: &Self::Shared);
}

// SAFETY: only atomics in it.
unsafe impl RingSlot for Slot {
    type Shared = [AtomicU64; 2];

    #[inline]
    fn load([a, b]: &[AtomicU64; 2]) -> Slot {
        Slot::from_words([a.load(Ordering::Relaxed), b.load(Ordering::Relaxed)])
    }

    #[inline]
    fn store(self, [a, b]: &[AtomicU64; 2]) {
        let words = self.words();
        a.store(words[0], Ordering::Relaxed);
        b.store(words[1], Ordering::Relaxed);
    }
}

/// A peer's breach of the ring's rules. The reader stays safe. The region's owner counts violations
/// and closes the port after too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A cursor claims more slots than the ring has.
    Cursor,
    /// A slot names a buffer that the pool does not have.
    Buffer,
    /// A slot's offset and length reach outside its buffer.
    Bounds,
    /// A frame over several slots has no end, too many slots or too many bytes.
    Chain,
}

impl core::fmt::Display for Violation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Violation::Cursor => "a ring cursor claims more slots than the ring has",
            Violation::Buffer => "a slot names a buffer that the pool does not have",
            Violation::Bounds => "a slot reaches outside its buffer",
            Violation::Chain => "a frame over several slots has no end, or is too long",
        })
    }
}

/// The shared head of a ring. Each side writes one line and reads the other's.
#[repr(C, align(64))]
struct Header {
    producer: Side,
    consumer: Side,
}

/// One side's line.
#[repr(C, align(64))]
struct Side {
    /// Slots passed on since the ring was formatted, modulo 2³².
    cursor: AtomicU32,
    /// The CPU that sleeps until the other side's cursor moves, plus one; 0: none.
    sleeps: AtomicU32,
}

impl Side {
    /// The CPU that sleeps; 0 on a side without CPU numbers. The fence orders the publish before
    /// this read, so that at least one side sees the other.
    #[inline]
    fn sleeper(&self) -> Option<u32> {
        fence(Ordering::SeqCst);
        self.sleeps.load(Ordering::Relaxed).checked_sub(1)
    }

    /// As [`sleeper`](Self::sleeper), and clears it: the caller wakes that CPU.
    #[inline]
    fn take_sleeper(&self) -> Option<u32> {
        self.sleeper()?;
        self.sleeps.swap(0, Ordering::SeqCst).checked_sub(1)
    }

    fn set_sleeper(&self, cpu: Option<u32>) {
        let sleeps = cpu.map_or(0, |cpu| cpu.wrapping_add(1));
        self.sleeps.store(sleeps, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

/// Slots in a cache line.
pub const SLOTS_PER_LINE: u32 = (CACHE_LINE / size_of::<Slot>()) as u32;

const _: () = assert!(size_of::<Header>() == 2 * CACHE_LINE);
const _: () = assert!(size_of::<Slot>() == 16);

/// Bytes that a packet ring of `slots` slots takes.
pub const fn ring_bytes(slots: u32) -> usize {
    ring_bytes_of::<Slot>(slots)
}

/// Bytes that a ring of `slots` slots of this type takes.
pub const fn ring_bytes_of<S: RingSlot>(slots: u32) -> usize {
    size_of::<Header>() + slots as usize * size_of::<S::Shared>()
}

/// One ring in shared memory.
struct Ring<S: RingSlot = Slot> {
    header: NonNull<Header>,
    slots: NonNull<S::Shared>,
    mask: u32,
}

// SAFETY: a Ring only points to atomics in a mapping that outlives it (see `Ring::at`).
unsafe impl<S: RingSlot> Send for Ring<S> {}

impl<S: RingSlot> Ring<S> {
    /// # Safety
    /// `base` is 64-byte aligned and starts [`ring_bytes_of`]`::<S>(slots)` bytes that stay mapped,
    /// readable and writable, while the ring or a copy of it is used. `slots` is a power of two.
    unsafe fn at(base: NonNull<u8>, slots: u32) -> Ring<S> {
        debug_assert!(slots.is_power_of_two());
        Ring {
            header: base.cast(),
            // SAFETY: inside the ring's bytes, by the caller's promise.
            slots: unsafe { base.add(size_of::<Header>()) }.cast(),
            mask: slots - 1,
        }
    }

    fn header(&self) -> &Header {
        // SAFETY: mapped and aligned (see `at`); only atomics inside.
        unsafe { self.header.as_ref() }
    }

    #[inline]
    fn slot(&self, cursor: u32) -> &S::Shared {
        // SAFETY: masked, so inside the ring's slots (see `at`); only atomics inside.
        unsafe { self.slots.add((cursor & self.mask) as usize).as_ref() }
    }

    #[inline]
    fn load(&self, cursor: u32) -> S {
        S::load(self.slot(cursor))
    }

    #[inline]
    fn store(&self, cursor: u32, slot: S) {
        slot.store(self.slot(cursor));
    }
}

/// The producing side of a ring.
pub struct Producer<S: RingSlot = Slot> {
    ring: Ring<S>,
    cursor: u32,
    /// The consumer's cursor as last read.
    seen: u32,
}

/// The consuming side of a ring.
pub struct Consumer<S: RingSlot = Slot> {
    ring: Ring<S>,
    cursor: u32,
    /// The producer's cursor as last read.
    seen: u32,
}

impl<S: RingSlot> Producer<S> {
    /// Opens the producing side at the shared cursors.
    ///
    /// # Safety
    /// As for a ring: `base` is 64-byte aligned and starts [`ring_bytes_of`]`::<S>(slots)` mapped bytes
    /// that outlive the value; `slots` is a power of two. No other producer is open on this ring.
    pub unsafe fn open(base: NonNull<u8>, slots: u32) -> Producer<S> {
        // SAFETY: the caller's promise.
        let ring = unsafe { Ring::at(base, slots) };
        let cursor = ring.header().producer.cursor.load(Ordering::Acquire);
        let seen = ring.header().consumer.cursor.load(Ordering::Acquire);
        Producer { ring, cursor, seen }
    }

    /// How many slots may be filled now. Reads the consumer's cursor only when fewer than
    /// `wanted` are known to be free.
    #[inline]
    pub fn free(&mut self, wanted: u32) -> Result<u32, Violation> {
        let slots = self.ring.mask + 1;
        let mut used = self.cursor.wrapping_sub(self.seen);
        if slots.wrapping_sub(used) < wanted || used > slots {
            self.seen = self.ring.header().consumer.cursor.load(Ordering::Acquire);
            used = self.cursor.wrapping_sub(self.seen);
        }
        if used > slots {
            return Err(Violation::Cursor);
        }
        Ok(slots - used)
    }

    /// The `i`-th free slot: a packet ring's holds a spent buffer.
    #[inline]
    pub fn peek(&self, i: u32) -> S {
        self.ring.load(self.cursor.wrapping_add(i))
    }

    /// Prefetches the cache line of the `i`-th free slot for writing.
    #[inline]
    pub fn prefetch(&self, i: u32) {
        crate::prefetch_write(self.ring.slot(self.cursor.wrapping_add(i)));
    }

    /// Fills the `i`-th free slot. Nothing is visible before [`publish`](Self::publish).
    #[inline]
    pub fn fill(&mut self, i: u32, slot: S) {
        self.ring.store(self.cursor.wrapping_add(i), slot);
    }

    /// Passes the first `n` filled slots to the consumer.
    #[inline]
    pub fn publish(&mut self, n: u32) {
        self.cursor = self.cursor.wrapping_add(n);
        self.ring
            .header()
            .producer
            .cursor
            .store(self.cursor, Ordering::Release);
    }

    /// Whether the consumer sleeps, as of the last publish.
    #[inline]
    pub fn consumer_sleeps(&self) -> bool {
        self.consumer_sleeper().is_some()
    }

    /// The CPU on which the consumer sleeps: any number from an untrusted peer.
    #[inline]
    pub fn consumer_sleeper(&self) -> Option<u32> {
        self.ring.header().consumer.sleeper()
    }

    /// As [`consumer_sleeper`](Self::consumer_sleeper), and clears it: the caller wakes that CPU.
    #[inline]
    pub fn take_consumer_sleeper(&self) -> Option<u32> {
        self.ring.header().consumer.take_sleeper()
    }

    /// Sets whether this side sleeps until slots are free. Check [`free`](Self::free) once more
    /// after setting it, before sleeping.
    pub fn set_sleeps(&self, sleeps: bool) {
        self.set_sleeper(sleeps.then_some(0));
    }

    /// As [`set_sleeps`](Self::set_sleeps), naming the CPU to be woken.
    pub fn set_sleeper(&self, cpu: Option<u32>) {
        self.ring.header().producer.set_sleeper(cpu);
    }
}

impl<S: RingSlot> Consumer<S> {
    /// Opens the consuming side at the shared cursors.
    ///
    /// # Safety
    /// As for [`Producer::open`]; no other consumer is open on this ring.
    pub unsafe fn open(base: NonNull<u8>, slots: u32) -> Consumer<S> {
        // SAFETY: the caller's promise.
        let ring = unsafe { Ring::at(base, slots) };
        let cursor = ring.header().consumer.cursor.load(Ordering::Acquire);
        let seen = ring.header().producer.cursor.load(Ordering::Acquire);
        Consumer { ring, cursor, seen }
    }

    /// How many slots are filled. Reads the producer's cursor only when fewer than `wanted` are
    /// known to be filled.
    #[inline]
    pub fn filled(&mut self, wanted: u32) -> Result<u32, Violation> {
        let slots = self.ring.mask + 1;
        let mut filled = self.seen.wrapping_sub(self.cursor);
        if filled < wanted || filled > slots {
            self.seen = self.ring.header().producer.cursor.load(Ordering::Acquire);
            filled = self.seen.wrapping_sub(self.cursor);
        }
        if filled > slots {
            return Err(Violation::Cursor);
        }
        Ok(filled)
    }

    /// The `i`-th filled slot.
    #[inline]
    pub fn peek(&self, i: u32) -> S {
        self.ring.load(self.cursor.wrapping_add(i))
    }

    /// Prefetches the cache line of the `i`-th filled slot. A slot that is not published yet belongs
    /// to the producer.
    #[inline]
    pub fn prefetch(&self, i: u32) {
        crate::prefetch_read(self.ring.slot(self.cursor.wrapping_add(i)));
    }

    /// Replaces the `i`-th filled slot, which stays filled.
    #[inline]
    pub fn overwrite(&mut self, i: u32, slot: S) {
        self.ring.store(self.cursor.wrapping_add(i), slot);
    }

    /// Returns the first `n` slots to the producer.
    #[inline]
    pub fn release(&mut self, n: u32) {
        self.cursor = self.cursor.wrapping_add(n);
        self.ring
            .header()
            .consumer
            .cursor
            .store(self.cursor, Ordering::Release);
    }

    /// Whether the producer sleeps, as of the last release.
    #[inline]
    pub fn producer_sleeps(&self) -> bool {
        self.producer_sleeper().is_some()
    }

    /// The CPU on which the producer sleeps: any number from an untrusted peer.
    #[inline]
    pub fn producer_sleeper(&self) -> Option<u32> {
        self.ring.header().producer.sleeper()
    }

    /// As [`producer_sleeper`](Self::producer_sleeper), and clears it: the caller wakes that CPU.
    #[inline]
    pub fn take_producer_sleeper(&self) -> Option<u32> {
        self.ring.header().producer.take_sleeper()
    }

    /// Sets whether this side sleeps until slots are filled. Check [`filled`](Self::filled) once
    /// more after setting it, before sleeping.
    pub fn set_sleeps(&self, sleeps: bool) {
        self.set_sleeper(sleeps.then_some(0));
    }

    /// As [`set_sleeps`](Self::set_sleeps), naming the CPU to be woken.
    pub fn set_sleeper(&self, cpu: Option<u32>) {
        self.ring.header().consumer.set_sleeper(cpu);
    }
}

/// A packet ring's.
impl Consumer {
    /// Puts spent buffer `buffer` into the `i`-th filled slot.
    #[inline]
    pub fn replace(&mut self, i: u32, buffer: u32) {
        self.ring
            .store(self.cursor.wrapping_add(i), Slot::spent(buffer));
    }

    /// Keeps the first `n` filled slots, and empties the others: for the host, before a guest runs
    /// on a copy of the ring.
    pub(crate) fn keep(&mut self, n: u32) {
        if self.filled(u32::MAX).is_ok_and(|filled| n < filled) {
            self.seen = self.cursor.wrapping_add(n);
            let producer = &self.ring.header().producer;
            producer.cursor.store(self.seen, Ordering::Release);
        }
    }

    /// Takes the frames out of all filled slots, which stay filled, with spent buffers; how many there are.
    pub(crate) fn forget(&mut self) -> u32 {
        let filled = self.filled(u32::MAX).unwrap_or(0);
        for i in 0..filled {
            self.replace(i, self.peek(i).buffer);
        }
        filled
    }
}

#[cfg(test)]
mod tests;
