//! A split virtqueue: Virtual I/O Device 1.2, section 2.7.
//!
//! The driver fills a table of descriptors, and tells by one ring which buffers are available; by
//! another the device gives them back. A position is how many buffers came before, modulo 2¹⁶, and
//! the same in both rings: buffers are given back in the order in which they were taken.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use abi::SharedBytes;

use super::{Addresses, Broken, Descriptor, Head, SIZE_MAX};
use crate::port::vhost::memory::{Memory, Region};

/// In `avail.flags`: the driver wants no notifications.
const NO_INTERRUPT: u16 = 1;
/// In `used.flags`: the device wants no notifications.
const NO_NOTIFY: u16 = 1;

/// The rings of one virtqueue. What they lie in stays mapped as long as they are.
pub struct Split {
    /// 16 bytes each: address; length, flags and next.
    descriptors: NonNull<[AtomicU64; 2]>,
    /// Flags, index, the ring, and `used_event`: 16 bits each.
    available: NonNull<AtomicU16>,
    /// Flags and index, 16 bits each; the ring, 64 bits each; `avail_event`.
    used: NonNull<AtomicU32>,
    size: u16,
    _keep: [Arc<Region>; 3],
}

// SAFETY: pointers to atomics in memory that the rings keep mapped.
unsafe impl Send for Split {}

impl Split {
    /// The rings of a virtqueue with `size` entries, a power of two; `None` if a part of it is not
    /// aligned or not wholly in one region.
    pub fn open(memory: &Memory, size: u16, at: Addresses) -> Option<Split> {
        if !size.is_power_of_two() || size > SIZE_MAX {
            return None;
        }
        let entries = usize::from(size);
        let (descriptors, keep) = memory.at_user(at.descriptors, 16 * entries)?;
        let (available, keep_available) = memory.at_user(at.available, 6 + 2 * entries)?;
        let (used, keep_used) = memory.at_user(at.used, 6 + 8 * entries)?;
        // The file may be mapped at another distance from a boundary than the frontend has it.
        let aligned = |at: NonNull<u8>, to: usize| at.addr().get().is_multiple_of(to);
        (aligned(descriptors, 16) && aligned(available, 2) && aligned(used, 4)).then(|| Split {
            descriptors: descriptors.cast(),
            available: available.cast(),
            used: used.cast(),
            size,
            _keep: [keep, keep_available, keep_used],
        })
    }

    /// Number of entries.
    #[inline(always)]
    pub fn size(&self) -> u16 {
        self.size
    }

    fn mask(&self, i: u16) -> usize {
        usize::from(i & (self.size - 1))
    }

    /// The `i`-th 16-bit word of the driver's area.
    #[inline(always)]
    fn available_word(&self, i: usize) -> &AtomicU16 {
        debug_assert!(i < usize::from(self.size) + 3);
        // SAFETY: inside the area, which has three words more than entries; aligned (see `open`).
        unsafe { self.available.add(i).as_ref() }
    }

    /// How many buffers the driver has made available since the ring began, modulo 2¹⁶. The
    /// driver's earlier writes are visible after this.
    #[inline]
    fn available_index(&self) -> u16 {
        u16::from_le(self.available_word(1).load(Ordering::Acquire))
    }

    /// The head of the `i`-th available buffer.
    #[inline(always)]
    fn available(&self, i: u16) -> u16 {
        let word = self.available_word(2 + self.mask(i));
        u16::from_le(word.load(Ordering::Relaxed))
    }

    /// Descriptor `i`, masked.
    #[inline(always)]
    fn descriptor(&self, i: u16) -> Descriptor {
        // SAFETY: masked, so inside the table; aligned (see `open`).
        let words = unsafe { self.descriptors.add(self.mask(i)).as_ref() };
        let address = u64::from_le(words[0].load(Ordering::Relaxed));
        let rest = u64::from_le(words[1].load(Ordering::Relaxed));
        Descriptor {
            address,
            len: rest as u32,
            flags: (rest >> 32) as u16,
            next: (rest >> 48) as u16,
        }
    }

    /// Asks for descriptor `i` to be brought into the cache.
    #[inline(always)]
    fn prefetch(&self, i: u16) {
        // SAFETY: masked, so inside the table.
        let entry = unsafe { SharedBytes::new(self.descriptors.add(self.mask(i)).cast(), 16) };
        entry.prefetch();
    }

    /// Entry `i` of the descriptor table, if there is one.
    #[inline(always)]
    pub fn entry(&self, i: u16) -> Option<Descriptor> {
        (i < self.size).then(|| self.descriptor(i))
    }

    /// Reads where the buffers from position `next` on begin, as many as are available and have a
    /// place in `heads`; returns how many.
    #[inline]
    pub fn peek(&self, next: u16, heads: &mut [Head]) -> Result<usize, Broken> {
        let available = self.available_index().wrapping_sub(next);
        if available > self.size {
            return Err(Broken::Index);
        }
        let n = heads.len().min(usize::from(available));
        let heads = &mut heads[..n];
        for (at, head) in (next..=u16::MAX).chain(0..).zip(&mut *heads) {
            head.at = at;
            head.after = at.wrapping_add(1);
            head.id = self.available(at);
            if head.id >= self.size {
                return Err(Broken::Head);
            }
            self.prefetch(head.id);
        }
        for head in heads {
            head.first = self.descriptor(head.id);
        }
        Ok(n)
    }

    /// The `i`-th 32-bit word of the device's area.
    #[inline(always)]
    fn used_word(&self, i: usize) -> &AtomicU32 {
        debug_assert!(i < 2 * usize::from(self.size) + 1);
        // SAFETY: inside the area, which has a word and two an entry; aligned (see `open`).
        unsafe { self.used.add(i).as_ref() }
    }

    /// Puts a buffer into the `i`-th place of the used ring: its head, and how much was written
    /// into it.
    #[inline(always)]
    pub fn set_used(&self, i: u16, head: u16, written: u32) {
        let at = 1 + 2 * self.mask(i);
        self.used_word(at)
            .store(u32::from(head).to_le(), Ordering::Relaxed);
        self.used_word(at + 1)
            .store(written.to_le(), Ordering::Relaxed);
    }

    /// Flags, or index, of the device's area.
    fn used_half(&self, i: usize) -> &AtomicU16 {
        // SAFETY: the two halves of the area's first word.
        unsafe { self.used.cast::<AtomicU16>().add(i & 1).as_ref() }
    }

    /// The used index: how many buffers were given back since the ring began, modulo 2¹⁶.
    pub fn used_index(&self) -> u16 {
        u16::from_le(self.used_half(1).load(Ordering::Relaxed))
    }

    /// Shows the driver the used ring up to `index`.
    #[inline]
    pub fn publish_used(&self, index: u16) {
        self.used_half(1).store(index.to_le(), Ordering::Release);
    }

    /// Whether the driver wants an interrupt for the used index's step from `old` to `new`: by
    /// `used_event` if both sides agreed on it, else by its flag. (Section 2.7.7.)
    #[inline]
    pub fn wants_interrupt(&self, old: u16, new: u16, by_event: bool) -> bool {
        // The index must be visible before the driver's wish is read.
        fence(Ordering::SeqCst);
        if by_event {
            let word = self.available_word(2 + usize::from(self.size));
            let event = u16::from_le(word.load(Ordering::Relaxed));
            return new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old);
        }
        u16::from_le(self.available_word(0).load(Ordering::Relaxed)) & NO_INTERRUPT == 0
    }

    /// Asks to be told when the driver makes another buffer available after the `next`-th, or asks
    /// not to be.
    pub fn ask_notify(&self, wanted: bool, next: u16, by_event: bool) {
        if !by_event {
            let flags = if wanted { 0 } else { NO_NOTIFY };
            self.used_half(0).store(flags.to_le(), Ordering::Relaxed);
        } else if wanted {
            let at = 2 + 4 * usize::from(self.size);
            // SAFETY: `avail_event` is the area's last 16-bit word, behind flags, index and four
            // an entry.
            let word = unsafe { self.used.cast::<AtomicU16>().add(at).as_ref() };
            word.store(next.to_le(), Ordering::Relaxed);
        }
        // An event index that is not moved on asks for one notification in 2¹⁶.
        fence(Ordering::SeqCst);
    }
}
