//! The data region of a guest: a header, the packet rings of its interfaces, and one buffer pool.
//!
//! ```text
//! 0        header: geometry, wake word, interface descriptors     (one page)
//! 4096     interface 0: receive ring, transmit ring; interface 1: …
//! …        buffers: `buffers` × `BUFFER_STRIDE` bytes, page aligned
//! ```
//!
//! "Receive" and "transmit" are seen from the guest. Sizes follow from the number of ring slots and
//! interfaces alone ([`Geometry`]). Each slot starts with one buffer. The guest has as many buffers
//! again for its queues and batches.
//!
//! The host writes the header before the guest starts and keeps its own copy of the geometry. It
//! trusts no later write of the guest.

mod geometry;

use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub use geometry::{Geometry, GeometryError};

use crate::ring::{Consumer, Producer, Slot, Violation};
use crate::{CPUS_MAX, PAGE, SharedBytes};

/// Bytes from one buffer to the next: 2 KiB and a cache line, so that the first lines of
/// neighbouring buffers fall in different sets of the L1 and L2 caches.
pub const BUFFER_STRIDE: usize = 2048 + 64;
/// Offset of a received frame in a buffer: behind 128 bytes for the guest's packet metadata and 128
/// bytes of headroom for encapsulation.
pub const RECEIVE_OFFSET: usize = 256;
/// Longest frame that fits one buffer from [`RECEIVE_OFFSET`] on, in bytes.
pub const FRAME_MAX: usize = BUFFER_STRIDE - RECEIVE_OFFSET;
/// Offset of a frame's further parts in their buffers: behind a cache line for the guest's use.
pub const PART_OFFSET: usize = 64;
/// Most bytes of a further part, from [`PART_OFFSET`] on.
pub const PART_MAX: usize = BUFFER_STRIDE - PART_OFFSET;
/// Most interfaces of a guest.
pub const INTERFACES_MAX: usize = 32;
/// Longest interface name, in bytes.
pub const NAME_MAX: usize = 31;

const MAGIC: u64 = u64::from_le_bytes(*b"weir-rgn");
const VERSION: u32 = 2;

/// Descriptor of an interface.
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

/// Flags of frames that a guest accepts on an interface, besides whole frames of one slot. A change
/// holds for later frames: the guest also handles frames already under way.
pub mod accepts {
    /// Frames over several slots, segmented frames, and frames with a partial checksum.
    pub const SEGMENTS: u32 = 1 << 0;
}

#[repr(C)]
struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    slots: AtomicU32,
    interfaces: AtomicU32,
    /// A futex word for each CPU of the guest. The switch bumps and wakes it when that CPU sleeps on
    /// a ring. The VMM puts a CPU to sleep on this word and the one in the control region together.
    wake: [AtomicU32; CPUS_MAX],
    /// For each interface a set of [`accepts`], written by the guest.
    accepts: [AtomicU32; INTERFACES_MAX],
    /// In a cell, because the guest may write here while the host holds a reference.
    descriptors: UnsafeCell<[Interface; INTERFACES_MAX]>,
    /// For each interface 1 if the switch settles flows that come by it, else 0; written by the switch.
    settles: [AtomicU32; INTERFACES_MAX],
}

const _: () = assert!(size_of::<Header>() <= PAGE);
const _: () = assert!(size_of::<Interface>() == 40);

/// A mapped data region.
#[derive(Clone, Copy)]
pub struct Region {
    base: NonNull<u8>,
    geometry: Geometry,
}

// SAFETY: a Region is a pointer to shared memory that is accessed through atomics and raw copies
// only; the mapping outlives it (see `Region::format` and `Region::open`).
unsafe impl Send for Region {}

impl Region {
    /// Offset of the [wake words](Self::wake_words), in bytes from the region's start.
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
        header.slots.store(geometry.slots(), Ordering::Relaxed);
        header
            .interfaces
            .store(geometry.interfaces() as u32, Ordering::Relaxed);
        region.describe(interfaces);
        let mut next = 0;
        for i in 0..geometry.interfaces() {
            for ring in [geometry.receive_ring(i), geometry.transmit_ring(i)] {
                // SAFETY: the ring lies inside the region; this is the only open handle.
                let mut producer = unsafe { Producer::open(base.add(ring), geometry.slots()) };
                for s in 0..geometry.slots() {
                    producer.fill(s, Slot::spent(next));
                    next += 1;
                }
            }
        }
        header.magic.store(MAGIC, Ordering::Release);
        Ok(region)
    }

    /// Opens a region that the host formatted, and trusts its header: for the guest.
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

    /// Opens a region of a known geometry and trusts nothing in it: for the switch, also after a
    /// restart.
    ///
    /// # Safety
    /// As for [`open`](Self::open), with `geometry.bytes()` bytes mapped.
    pub unsafe fn adopt(base: NonNull<u8>, geometry: Geometry) -> Region {
        Region { base, geometry }
    }

    fn header(&self) -> &Header {
        // SAFETY: mapped for the region's life; atomics, and descriptors that the host wrote
        // before the guest started.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// Sizes and offsets.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Interface `i`'s descriptor: for the guest. The host keeps its own.
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

    /// Sets the flags that the guest [`accepts`] on interface `i`: for the guest.
    pub fn set_accepts(&self, i: usize, accepts: u32) {
        if let Some(word) = self.header().accepts.get(i) {
            word.store(accepts, Ordering::Relaxed);
        }
    }

    /// The flags that the guest claims to [accept](accepts) on interface `i`. The claim affects
    /// only frames for the guest itself.
    #[inline]
    pub fn accepts(&self, i: usize) -> u32 {
        let word = self.header().accepts.get(i);
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Says whether flows that come by interface `i` are settled: for the switch.
    pub fn set_settles(&self, i: usize, settles: bool) {
        if let Some(word) = self.header().settles.get(i) {
            word.store(settles.into(), Ordering::Relaxed);
        }
    }

    /// Whether it is of use to tell the switch that flows which come by interface `i` are [settled](crate::settle).
    #[inline]
    pub fn settles(&self, i: usize) -> bool {
        let word = self.header().settles.get(i);
        word.is_some_and(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Replaces the descriptions of the interfaces: for the host, before a guest runs on the
    /// region.
    pub fn describe(&self, interfaces: &[Interface]) {
        let descriptors = self.header().descriptors.get().cast::<Interface>();
        let interfaces = interfaces.iter().take(self.geometry.interfaces());
        for (i, interface) in interfaces.enumerate() {
            // SAFETY: i < INTERFACES_MAX by the geometry; no guest runs on it.
            unsafe { descriptors.add(i).write(*interface) };
        }
    }

    /// Empties all rings of a copied region whose frames stay with the original: for the host,
    /// before a guest runs on the copy. Rings with invalid cursors are not changed.
    pub fn forget_frames(&self) {
        for i in 0..self.geometry.interfaces() {
            // SAFETY: these are the only open handles of the copy's rings.
            let (mut receive, mut transmit) =
                unsafe { (self.receive_consumer(i), self.transmit_consumer(i)) };
            // The guest may have seen already that there are frames to receive. It drops those without a place.
            receive.forget();
            let forgotten = transmit.forget();
            transmit.release(forgotten);
        }
    }

    /// Slots of interface `i`'s receive ring that the guest has not emptied: for a host that looks on. 0 if the
    /// cursors are invalid.
    pub fn received(&self, i: usize) -> u32 {
        // SAFETY: only read, and dropped here.
        let mut receive = unsafe { self.receive_consumer(i) };
        receive.filled(u32::MAX).unwrap_or(0)
    }

    /// Slots of interface `i`'s transmit ring that the switch has not emptied: for a host that looks on. 0 if the
    /// cursors are invalid.
    pub fn transmitted(&self, i: usize) -> u32 {
        // SAFETY: only read, and dropped here.
        let mut transmit = unsafe { self.transmit_consumer(i) };
        transmit.filled(u32::MAX).unwrap_or(0)
    }

    /// Keeps the first `slots` filled slots of interface `i`'s receive ring, and empties the
    /// others: for the host, before a guest runs on a copy that was made while more frames came.
    pub fn keep_received(&self, i: usize, slots: u32) {
        // SAFETY: this is the only open handle of the copy's rings.
        unsafe { self.receive_consumer(i) }.keep(slots);
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
        unsafe { Producer::open(ring, self.geometry.slots()) }
    }

    /// The consuming side of interface `i`'s receive ring: the guest's.
    ///
    /// # Safety
    /// As for [`receive_producer`](Self::receive_producer).
    pub unsafe fn receive_consumer(&self, i: usize) -> Consumer {
        let ring = self.ring(i, Geometry::receive_ring);
        // SAFETY: a ring of this region; the caller opens this end once.
        unsafe { Consumer::open(ring, self.geometry.slots()) }
    }

    /// The producing side of interface `i`'s transmit ring: the guest's.
    ///
    /// # Safety
    /// As for [`receive_producer`](Self::receive_producer).
    pub unsafe fn transmit_producer(&self, i: usize) -> Producer {
        let ring = self.ring(i, Geometry::transmit_ring);
        // SAFETY: a ring of this region; the caller opens this end once.
        unsafe { Producer::open(ring, self.geometry.slots()) }
    }

    /// The consuming side of interface `i`'s transmit ring: the switch's.
    ///
    /// # Safety
    /// As for [`receive_producer`](Self::receive_producer).
    pub unsafe fn transmit_consumer(&self, i: usize) -> Consumer {
        let ring = self.ring(i, Geometry::transmit_ring);
        // SAFETY: a ring of this region; the caller opens this end once.
        unsafe { Consumer::open(ring, self.geometry.slots()) }
    }

    /// Start of the buffer pool.
    pub fn pool(&self) -> NonNull<u8> {
        // SAFETY: inside the region.
        unsafe { self.base.add(self.geometry.pool()) }
    }

    /// The bytes of a slot, checked against the pool.
    #[inline]
    pub fn frame(&self, slot: Slot) -> Result<SharedBytes, Violation> {
        if slot.buffer >= self.geometry.buffers() {
            return Err(Violation::Buffer);
        }
        if slot.offset as usize + slot.len as usize > BUFFER_STRIDE {
            return Err(Violation::Bounds);
        }
        let at = slot.buffer as usize * BUFFER_STRIDE + slot.offset as usize;
        // SAFETY: checked above to lie inside the pool, which stays mapped.
        Ok(unsafe { SharedBytes::new(self.pool().add(at), slot.len as usize) })
    }

    /// The bytes of `buffer` for a received frame of `len` bytes, at [`RECEIVE_OFFSET`].
    #[inline]
    pub fn receive_buffer(&self, buffer: u32, len: usize) -> Result<SharedBytes, Violation> {
        if len > FRAME_MAX {
            return Err(Violation::Bounds);
        }
        self.frame(Slot {
            offset: RECEIVE_OFFSET as u16,
            len: len as u16,
            ..Slot::spent(buffer)
        })
    }

    /// The bytes of `buffer` for a further part of a frame, of `len` bytes, at [`PART_OFFSET`].
    #[inline]
    pub fn part_buffer(&self, buffer: u32, len: usize) -> Result<SharedBytes, Violation> {
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

#[cfg(test)]
mod tests;
