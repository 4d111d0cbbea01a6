//! The data region of a guest: a header, the packet rings of its interfaces, and one buffer pool.
//!
//! ```text
//! 0        header: geometry, wake word, interface descriptors     (one page)
//! 4096     interface 0: receive ring, transmit ring; interface 1: …
//! …        buffers: `buffers` × `BUFFER_STRIDE` bytes, page aligned
//! ```
//!
//! "Receive" and "transmit" are the guest's. Sizes follow from the number of ring slots and
//! interfaces alone ([`Geometry`]): each ring's slots start with one buffer each, and the guest
//! has as many again of its own for what it holds in queues and batches.
//!
//! The host writes the header before the guest starts and keeps the geometry to itself: nothing
//! the guest writes there later is believed.

use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};

use crate::ring::{Consumer, Producer, SLOTS_MAX, SLOTS_MIN, Slot, Violation, ring_bytes};
use crate::{CACHE_LINE, CPUS_MAX, PAGE};

/// Bytes from one buffer to the next: 2 KiB and a cache line, so that the first lines of
/// neighbouring buffers fall in different sets of the L1 and L2 caches.
pub const BUFFER_STRIDE: usize = 2048 + 64;
/// Where received frames start in a buffer: behind the packet's metadata (128 bytes, the guest's
/// own affair) and 128 bytes of headroom for encapsulation.
pub const RECEIVE_OFFSET: usize = 256;
/// Longest frame that fits one buffer from [`RECEIVE_OFFSET`] on, in bytes.
pub const FRAME_MAX: usize = BUFFER_STRIDE - RECEIVE_OFFSET;
/// Where the further parts of a frame over several slots start in their buffers: behind a line
/// that is the guest's own affair.
pub const PART_OFFSET: usize = 64;
/// Most bytes of a further part, from [`PART_OFFSET`] on.
pub const PART_MAX: usize = BUFFER_STRIDE - PART_OFFSET;
/// Most interfaces of a guest.
pub const INTERFACES_MAX: usize = 32;
/// Longest interface name, in bytes.
pub const NAME_MAX: usize = 31;

const MAGIC: u64 = u64::from_le_bytes(*b"weir-rgn");
const VERSION: u32 = 2;

/// What a region's size follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    slots: u32,
    interfaces: u32,
}

/// Why a geometry or a region is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// Ring slots are not a power of two from 64 to 2048.
    Slots(u32),
    /// More interfaces than [`INTERFACES_MAX`].
    Interfaces(usize),
    /// The memory is not a region of this version and geometry.
    NotARegion,
}

impl core::fmt::Display for GeometryError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            GeometryError::Slots(n) => write!(
                f,
                "{n} ring slots: a ring has a power of two from {SLOTS_MIN} to {SLOTS_MAX} slots"
            ),
            GeometryError::Interfaces(n) => {
                write!(f, "{n} interfaces: a guest has at most {INTERFACES_MAX}")
            }
            GeometryError::NotARegion => {
                f.write_str("the memory file is not a data region of this version")
            }
        }
    }
}

impl core::error::Error for GeometryError {}

impl Geometry {
    /// The geometry of a guest with `interfaces` interfaces and `slots` slots in each ring.
    pub const fn new(slots: u32, interfaces: usize) -> Result<Geometry, GeometryError> {
        if !slots.is_power_of_two() || slots < SLOTS_MIN || slots > SLOTS_MAX {
            return Err(GeometryError::Slots(slots));
        }
        if interfaces > INTERFACES_MAX {
            return Err(GeometryError::Interfaces(interfaces));
        }
        Ok(Geometry {
            slots,
            interfaces: interfaces as u32,
        })
    }

    /// Slots of each ring.
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Number of interfaces.
    pub const fn interfaces(&self) -> usize {
        self.interfaces as usize
    }

    /// Buffers that stand in ring slots at the start: the first ones of the pool.
    pub const fn ring_buffers(&self) -> u32 {
        self.interfaces * 2 * self.slots
    }

    /// Buffers in the pool: those in the slots, and the guest's own, as many as one interface's
    /// rings hold and never fewer than four batches.
    pub const fn buffers(&self) -> u32 {
        let own = if self.slots < 128 {
            256
        } else {
            2 * self.slots
        };
        self.ring_buffers() + own
    }

    /// Where the buffers lie that the guest takes first for packets of its own, in bytes, so far as
    /// it pays to provide them ahead: a batch of them with long rings, none with short ones.
    pub const fn first_buffers(&self) -> core::ops::Range<usize> {
        let start = self.pool() + self.ring_buffers() as usize * BUFFER_STRIDE;
        let count = if self.slots < 256 { 0 } else { self.slots / 16 };
        start..start + count as usize * BUFFER_STRIDE
    }

    /// Where interface `i`'s receive ring starts, in bytes.
    pub const fn receive_ring(&self, i: usize) -> usize {
        PAGE + 2 * i * ring_bytes(self.slots)
    }

    /// Where interface `i`'s transmit ring starts, in bytes.
    pub const fn transmit_ring(&self, i: usize) -> usize {
        self.receive_ring(i) + ring_bytes(self.slots)
    }

    /// Where the pool starts, in bytes; a page's start.
    pub const fn pool(&self) -> usize {
        self.receive_ring(self.interfaces()).next_multiple_of(PAGE)
    }

    /// Size of the region, in bytes; whole pages.
    pub const fn bytes(&self) -> usize {
        (self.pool() + self.buffers() as usize * BUFFER_STRIDE).next_multiple_of(PAGE)
    }
}

/// What the guest needs to know of one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Interface {
    /// Ethernet address.
    pub mac: [u8; 6],
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    name: [u8; NAME_MAX + 1],
}

impl Interface {
    /// An interface; `None` if the name is empty or longer than [`NAME_MAX`].
    pub fn new(name: &str, mac: [u8; 6], mtu: u16) -> Option<Interface> {
        let mut bytes = [0; NAME_MAX + 1];
        if name.is_empty() || name.len() > NAME_MAX || name.bytes().any(|b| b == 0) {
            return None;
        }
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Some(Interface {
            mac,
            mtu,
            name: bytes,
        })
    }

    /// The name by which the configuration knows the interface.
    pub fn name(&self) -> &str {
        let end = self.name.iter().position(|&b| b == 0).unwrap_or(0);
        core::str::from_utf8(&self.name[..end]).unwrap_or("")
    }
}

/// What a guest may say that it takes on an interface, besides whole frames of one slot. It says so
/// for the frames to come, and has to bear those under way when it takes its word back.
pub mod takes {
    /// Frames over several slots, that stand for several, and whose checksum is to be completed.
    pub const SEGMENTS: u32 = 1 << 0;
}

#[repr(C)]
struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    slots: AtomicU32,
    interfaces: AtomicU32,
    /// A word for each CPU of the guest, bumped, then woken as a futex, by the switch when that CPU
    /// sleeps on a ring. Whoever keeps a CPU asleep waits on its word here and that in the control
    /// region together.
    wake: [AtomicU32; CPUS_MAX],
    /// For each interface what its guest takes, as [`takes`] says; written by the guest.
    takes: [AtomicU32; INTERFACES_MAX],
    /// In a cell, because the guest may write here while the host holds a reference.
    descriptors: UnsafeCell<[Interface; INTERFACES_MAX]>,
}

const _: () = assert!(size_of::<Header>() <= PAGE);
const _: () = assert!(size_of::<Interface>() == 40);

/// A mapped data region.
#[derive(Clone, Copy)]
pub struct Region {
    base: NonNull<u8>,
    geometry: Geometry,
}

// SAFETY: a Region is a pointer to shared memory that is reached through atomics and raw copies
// only; the mapping outlives it (see `Region::format` and `Region::open`).
unsafe impl Send for Region {}

impl Region {
    /// Where the [wake words](Self::wake_words) stand, in bytes from the region's start.
    pub const WAKE_OFFSET: usize = core::mem::offset_of!(Header, wake);

    /// Writes a fresh region: header, descriptors, and rings whose slots hold one buffer each.
    ///
    /// # Safety
    /// `base` is page aligned and starts `geometry.bytes()` bytes, mapped readable and writable
    /// for as long as the region or a copy of it is used. No guest runs on it yet.
    pub unsafe fn format(
        base: NonNull<u8>,
        geometry: Geometry,
        interfaces: &[Interface],
    ) -> Result<Region, GeometryError> {
        if interfaces.len() != geometry.interfaces() {
            return Err(GeometryError::Interfaces(interfaces.len()));
        }
        let region = Region { base, geometry };
        let header = region.header();
        header.version.store(VERSION, Ordering::Relaxed);
        header.slots.store(geometry.slots, Ordering::Relaxed);
        header
            .interfaces
            .store(geometry.interfaces, Ordering::Relaxed);
        let descriptors = header.descriptors.get().cast::<Interface>();
        for (i, interface) in interfaces.iter().enumerate() {
            // SAFETY: i < INTERFACES_MAX by the geometry; nobody else has the memory yet.
            unsafe { descriptors.add(i).write(*interface) };
        }
        let mut next = 0;
        for i in 0..geometry.interfaces() {
            for ring in [geometry.receive_ring(i), geometry.transmit_ring(i)] {
                // SAFETY: the ring lies inside the region; nobody else has it open yet.
                let mut producer = unsafe { Producer::open(base.add(ring), geometry.slots) };
                for s in 0..geometry.slots {
                    producer.fill(s, Slot::spent(next));
                    next += 1;
                }
            }
        }
        header.magic.store(MAGIC, Ordering::Release);
        Ok(region)
    }

    /// Opens a region that the host formatted, believing its header: the guest's way in.
    ///
    /// # Safety
    /// `base` is page aligned and starts `len` bytes, mapped readable and writable for as long as
    /// the region or a copy of it is used.
    pub unsafe fn open(base: NonNull<u8>, len: usize) -> Result<Region, GeometryError> {
        if len < PAGE {
            return Err(GeometryError::NotARegion);
        }
        // SAFETY: at least a page is mapped.
        let header = unsafe { base.cast::<Header>().as_ref() };
        if header.magic.load(Ordering::Acquire) != MAGIC
            || header.version.load(Ordering::Relaxed) != VERSION
        {
            return Err(GeometryError::NotARegion);
        }
        let geometry = Geometry::new(
            header.slots.load(Ordering::Relaxed),
            header.interfaces.load(Ordering::Relaxed) as usize,
        )?;
        if geometry.bytes() > len {
            return Err(GeometryError::NotARegion);
        }
        Ok(Region { base, geometry })
    }

    /// Opens a region by a geometry known beforehand, believing nothing in it: the switch's way
    /// in, and the way to take up a region again after a restart.
    ///
    /// # Safety
    /// As for [`open`](Self::open), with `geometry.bytes()` bytes mapped.
    pub unsafe fn adopt(base: NonNull<u8>, geometry: Geometry) -> Region {
        Region { base, geometry }
    }

    fn header(&self) -> &Header {
        // SAFETY: mapped for the region's life; atomics, and descriptors that the host wrote
        // before anyone else came.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// Sizes and places.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Interface `i`'s descriptor, as the host wrote it. For the guest; the host has its own.
    pub fn interface(&self, i: usize) -> Option<Interface> {
        if i >= self.geometry.interfaces() {
            return None;
        }
        // SAFETY: inside the header; copied out, and any bytes are a valid Interface.
        Some(unsafe {
            self.header()
                .descriptors
                .get()
                .cast::<Interface>()
                .add(i)
                .read()
        })
    }

    /// The word that wakes the guest's first CPU when it sleeps on a ring.
    pub fn wake_word(&self) -> &AtomicU32 {
        &self.header().wake[0]
    }

    /// The words that wake the guest's CPUs when they sleep on rings, one each.
    pub fn wake_words(&self) -> &[AtomicU32; CPUS_MAX] {
        &self.header().wake
    }

    /// Says what the guest [`takes`] on interface `i`, from now on: the guest's.
    pub fn set_takes(&self, i: usize, takes: u32) {
        if let Some(word) = self.header().takes.get(i) {
            word.store(takes, Ordering::Relaxed);
        }
    }

    /// What the guest says that it [`takes`] on interface `i`. To be believed no further than for
    /// what to deliver to it.
    #[inline]
    pub fn takes(&self, i: usize) -> u32 {
        let word = self.header().takes.get(i);
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Where one of interface `i`'s rings starts.
    fn ring(&self, i: usize, offset: fn(&Geometry, usize) -> usize) -> NonNull<u8> {
        assert!(i < self.geometry.interfaces());
        // SAFETY: inside the region.
        unsafe { self.base.add(offset(&self.geometry, i)) }
    }

    /// The producing side of interface `i`'s receive ring: the switch's.
    ///
    /// # Safety
    /// `i` is below the number of interfaces and no other such producer is open.
    pub unsafe fn receive_producer(&self, i: usize) -> Producer {
        let ring = self.ring(i, Geometry::receive_ring);
        // SAFETY: a ring of this region; the caller opens this end once.
        unsafe { Producer::open(ring, self.geometry.slots) }
    }

    /// The consuming side of interface `i`'s receive ring: the guest's.
    ///
    /// # Safety
    /// As for [`receive_producer`](Self::receive_producer).
    pub unsafe fn receive_consumer(&self, i: usize) -> Consumer {
        let ring = self.ring(i, Geometry::receive_ring);
        // SAFETY: a ring of this region; the caller opens this end once.
        unsafe { Consumer::open(ring, self.geometry.slots) }
    }

    /// The producing side of interface `i`'s transmit ring: the guest's.
    ///
    /// # Safety
    /// As for [`receive_producer`](Self::receive_producer).
    pub unsafe fn transmit_producer(&self, i: usize) -> Producer {
        let ring = self.ring(i, Geometry::transmit_ring);
        // SAFETY: a ring of this region; the caller opens this end once.
        unsafe { Producer::open(ring, self.geometry.slots) }
    }

    /// The consuming side of interface `i`'s transmit ring: the switch's.
    ///
    /// # Safety
    /// As for [`receive_producer`](Self::receive_producer).
    pub unsafe fn transmit_consumer(&self, i: usize) -> Consumer {
        let ring = self.ring(i, Geometry::transmit_ring);
        // SAFETY: a ring of this region; the caller opens this end once.
        unsafe { Consumer::open(ring, self.geometry.slots) }
    }

    /// Start of the buffer pool.
    pub fn pool(&self) -> NonNull<u8> {
        // SAFETY: inside the region.
        unsafe { self.base.add(self.geometry.pool()) }
    }

    /// The bytes that a slot names, checked against the pool: what a reader of a transmit ring
    /// may copy out.
    #[inline]
    pub fn frame(&self, slot: Slot) -> Result<SharedBytes, Violation> {
        if slot.buffer >= self.geometry.buffers() {
            return Err(Violation::Buffer);
        }
        if slot.offset as usize + slot.len as usize > BUFFER_STRIDE {
            return Err(Violation::Bounds);
        }
        let at = slot.buffer as usize * BUFFER_STRIDE + slot.offset as usize;
        Ok(SharedBytes {
            // SAFETY: checked above to lie inside the pool.
            start: unsafe { self.pool().add(at) },
            len: slot.len as usize,
        })
    }

    /// The room for a received frame of `len` bytes in `buffer`, at [`RECEIVE_OFFSET`].
    #[inline]
    pub fn room(&self, buffer: u32, len: usize) -> Result<SharedBytes, Violation> {
        if len > FRAME_MAX {
            return Err(Violation::Bounds);
        }
        self.frame(Slot {
            offset: RECEIVE_OFFSET as u16,
            len: len as u16,
            ..Slot::spent(buffer)
        })
    }

    /// The room for a further part of a frame, of `len` bytes, in `buffer`, at [`PART_OFFSET`].
    #[inline]
    pub fn part_room(&self, buffer: u32, len: usize) -> Result<SharedBytes, Violation> {
        if len > PART_MAX {
            return Err(Violation::Bounds);
        }
        self.frame(Slot {
            offset: PART_OFFSET as u16,
            len: len as u16,
            ..Slot::spent(buffer)
        })
    }
}

/// Bytes in shared memory that the other side may be writing at the same time. They can only be
/// copied; what was copied is what counts.
#[derive(Clone, Copy)]
pub struct SharedBytes {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: as for `Region`, into whose pool this points.
unsafe impl Send for SharedBytes {}

/// Ends a read of shared memory. Without it a compiler may serve a later use of the copy from the
/// shared original (a copy of a copy is worth one), which the other side may have changed since.
#[inline(always)]
fn keep_snapshot() {
    compiler_fence(Ordering::SeqCst);
}

impl SharedBytes {
    /// Bytes in memory shared in another way than a data region.
    ///
    /// # Safety
    /// `start` begins `len` bytes that stay mapped, readable and writable, while this or a copy
    /// of it is used.
    #[inline]
    pub const unsafe fn new(start: NonNull<u8>, len: usize) -> SharedBytes {
        SharedBytes { start, len }
    }

    /// Number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes from `at` on; none if that is past the end.
    #[inline]
    pub fn skip(self, at: usize) -> SharedBytes {
        let at = at.min(self.len);
        SharedBytes {
            // SAFETY: at most one past the end of the same bytes.
            start: unsafe { self.start.add(at) },
            len: self.len - at,
        }
    }

    /// Copies as many bytes as both have; returns how many.
    #[inline]
    pub fn read(&self, into: &mut [u8]) -> usize {
        let n = self.len.min(into.len());
        // SAFETY: n bytes are inside both; `into` is exclusively ours, so they do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(self.start.as_ptr(), into.as_mut_ptr(), n) };
        keep_snapshot();
        n
    }

    /// Copies as many bytes as both have; returns how many.
    #[inline]
    pub fn write(&self, from: &[u8]) -> usize {
        let n = self.len.min(from.len());
        // SAFETY: n bytes are inside both; a shared slice of ours lies outside the region.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), self.start.as_ptr(), n) };
        n
    }

    /// Copies out the `N` bytes from `at` on, or nothing if there are not so many. The length
    /// being known, this is a few wide loads and no call.
    #[inline(always)]
    pub fn read_array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        if N > self.len || at > self.len - N {
            return None;
        }
        // SAFETY: `at + N` bytes are inside; an array of bytes has no alignment.
        let bytes = unsafe { self.start.add(at).cast::<[u8; N]>().read() };
        keep_snapshot();
        Some(bytes)
    }

    /// Writes all of `from` at `at`; says whether there was room. As few wide stores.
    #[inline(always)]
    pub fn write_array<const N: usize>(&self, at: usize, from: &[u8; N]) -> bool {
        if N > self.len || at > self.len - N {
            return false;
        }
        // SAFETY: `at + N` bytes are inside; an array of bytes has no alignment.
        unsafe { self.start.add(at).cast::<[u8; N]>().write(*from) };
        true
    }

    /// Copies as many bytes as both have from `self` to `into`; returns how many.
    #[inline]
    pub fn copy_to(&self, into: &SharedBytes) -> usize {
        let n = self.len.min(into.len);
        // SAFETY: n bytes are inside both; `copy` allows overlap (a guest's two ports may name
        // the same buffer).
        unsafe { core::ptr::copy(self.start.as_ptr(), into.start.as_ptr(), n) };
        n
    }

    /// As [`copy_to`](Self::copy_to), asking line by line for what is copied later, from where and
    /// to where. (A processor has few misses under way at a time: asked for at once, a long frame's
    /// lines hold up the copy that goes on meanwhile.)
    #[inline]
    pub fn copy_to_before(
        &self,
        into: &SharedBytes,
        (from, to): (SharedBytes, SharedBytes),
    ) -> usize {
        let n = self.len.min(into.len);
        let later = from.len.min(to.len);
        let mut at = 0;
        while n - at >= CACHE_LINE {
            if at < later {
                crate::prefetch_read(from.start.as_ptr().wrapping_add(at));
                crate::prefetch_write(to.start.as_ptr().wrapping_add(at));
            }
            // SAFETY: a line from `at` on is inside both; `copy` allows overlap.
            unsafe {
                let (from, to) = (self.start.add(at), into.start.add(at));
                core::ptr::copy(from.as_ptr(), to.as_ptr(), CACHE_LINE);
            }
            at += CACHE_LINE;
        }
        at + self.skip(at).copy_to(&into.skip(at))
    }

    /// Asks for the first line to be brought into the cache.
    #[inline]
    pub fn prefetch(&self) {
        crate::prefetch_read(self.start.as_ptr());
    }

    /// Asks for the first line to be brought into the cache, to be written.
    #[inline]
    pub fn prefetch_write(&self) {
        crate::prefetch_write(self.start.as_ptr());
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::alloc::{Layout, alloc_zeroed, dealloc};

    use proptest::prelude::*;

    use super::*;

    /// A region in memory of the test's own.
    struct Memory {
        region: Region,
        layout: Layout,
    }

    impl Memory {
        fn new(geometry: Geometry) -> Memory {
            let layout = Layout::from_size_align(geometry.bytes(), PAGE).unwrap();
            // SAFETY: the size is never 0.
            let base = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap();
            let interfaces: std::vec::Vec<Interface> = (0..geometry.interfaces())
                .map(|i| Interface::new(&std::format!("eth{i}"), [2, 0, 0, 0, 0, i as u8], 1500))
                .map(Option::unwrap)
                .collect();
            // SAFETY: aligned, long enough, and freed only in `drop`.
            let region = unsafe { Region::format(base, geometry, &interfaces) }.unwrap();
            Memory { region, layout }
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: allocated with this layout in `new`.
            unsafe { dealloc(self.region.base.as_ptr(), self.layout) };
        }
    }

    #[test]
    fn a_fresh_region_opens_with_its_geometry_and_descriptors() {
        let geometry = Geometry::new(64, 3).unwrap();
        let memory = Memory::new(geometry);
        // SAFETY: the memory outlives the region.
        let region = unsafe { Region::open(memory.region.base, geometry.bytes()) }.unwrap();
        assert_eq!(region.geometry(), geometry);
        let second = region.interface(1).unwrap();
        assert_eq!(second.name(), "eth1");
        assert_eq!(second.mac, [2, 0, 0, 0, 0, 1]);
        assert_eq!(second.mtu, 1500);
        assert!(region.interface(3).is_none());
    }

    #[test]
    fn the_rings_of_a_fresh_region_hold_each_buffer_once() {
        let geometry = Geometry::new(128, 2).unwrap();
        let memory = Memory::new(geometry);
        let mut held = std::vec::Vec::new();
        for i in 0..2 {
            // SAFETY: each side is opened once.
            let (mut rx, mut tx) = unsafe {
                (
                    memory.region.receive_producer(i),
                    memory.region.transmit_producer(i),
                )
            };
            assert_eq!(rx.free(1), Ok(128));
            assert_eq!(tx.free(1), Ok(128));
            held.extend((0..128).flat_map(|s| [rx.peek(s).buffer, tx.peek(s).buffer]));
        }
        held.sort_unstable();
        assert!(held.into_iter().eq(0..geometry.ring_buffers()));
    }

    #[test]
    fn what_a_guest_takes_is_said_for_each_interface() {
        let memory = Memory::new(Geometry::new(64, INTERFACES_MAX).unwrap());
        let region = &memory.region;
        assert!((0..INTERFACES_MAX).all(|i| region.takes(i) == 0));
        region.set_takes(INTERFACES_MAX - 1, takes::SEGMENTS);
        region.set_takes(INTERFACES_MAX, takes::SEGMENTS);
        assert_eq!(region.takes(INTERFACES_MAX - 1), takes::SEGMENTS);
        assert!((0..INTERFACES_MAX - 1).all(|i| region.takes(i) == 0));
        assert_eq!(region.takes(INTERFACES_MAX), 0);
        let last = region.interface(INTERFACES_MAX - 1).unwrap();
        assert_eq!(last.name(), "eth31");
    }

    #[test]
    fn memory_that_is_no_region_is_refused() {
        let geometry = Geometry::new(64, 1).unwrap();
        let memory = Memory::new(geometry);
        let base = memory.region.base;
        // SAFETY: the memory outlives the regions.
        unsafe {
            assert!(Region::open(base, PAGE - 1).is_err());
            assert!(Region::open(base, geometry.bytes() - PAGE).is_err());
            base.cast::<u64>().write(0);
            assert!(Region::open(base, geometry.bytes()).is_err());
        }
    }

    proptest! {
        #[test]
        fn a_slot_names_bytes_inside_the_pool_or_nothing(
            buffer in any::<u32>(), near in 0u32..1024, use_near in any::<bool>(),
            offset in any::<u16>(), len in any::<u16>(),
        ) {
            let geometry = Geometry::new(64, 1).unwrap();
            let memory = Memory::new(geometry);
            let buffer = if use_near { near } else { buffer };
            let slot = Slot { offset, len, ..Slot::spent(buffer) };
            let inside = buffer < geometry.buffers()
                && usize::from(offset) + usize::from(len) <= BUFFER_STRIDE;
            match memory.region.frame(slot) {
                Ok(bytes) => {
                    prop_assert!(inside);
                    let start = bytes.start.as_ptr() as usize - memory.region.base.as_ptr() as usize;
                    prop_assert!(start >= geometry.pool());
                    prop_assert!(start + bytes.len() <= geometry.bytes());
                }
                Err(_) => prop_assert!(!inside),
            }
        }

        #[test]
        fn arrays_are_read_and_written_where_slices_would_be(
            at in 0usize..80, len in 0u16..80, fill in any::<[u8; 16]>(),
        ) {
            let memory = Memory::new(Geometry::new(64, 1).unwrap());
            let slot = Slot { offset: 100, len, ..Slot::spent(7) };
            let bytes = memory.region.frame(slot).unwrap();
            let fits = at + 16 <= usize::from(len);
            prop_assert_eq!(bytes.write_array(at, &fill), fits);
            prop_assert_eq!(bytes.read_array::<16>(at), fits.then_some(fill));
            let mut copy = [0; 16];
            if fits {
                bytes.skip(at).read(&mut copy);
                prop_assert_eq!(copy, fill);
            }
        }

        #[test]
        fn a_copy_is_the_same_whatever_is_asked_for_on_the_way(
            from in 0u16..400, len in 0u16..400, room in 0u16..400, later in 0u16..400,
        ) {
            let memory = Memory::new(Geometry::new(64, 1).unwrap());
            let part = |buffer, offset, len| {
                memory.region.frame(Slot { offset, len, ..Slot::spent(buffer) }).unwrap()
            };
            let all: [u8; 400] = core::array::from_fn(|i| i as u8);
            part(1, from, len).write(&all);
            let copied = (len.min(room)).into();
            let next = (part(3, 0, later), part(4, 1, 300));
            prop_assert_eq!(part(1, from, len).copy_to_before(&part(2, 5, room), next), copied);
            let mut there = [0; 401];
            part(2, 5, 401).read(&mut there);
            prop_assert_eq!(&there[..copied], &all[..copied]);
            prop_assert!(there[copied..].iter().all(|byte| *byte == 0));
        }
    }
}
