//! A packed virtqueue: Virtual I/O Device 1.2, section 2.8.
//!
//! One ring of descriptors, in which the driver makes buffers available and the device gives them
//! back, in the same place. Two of a descriptor's flags say which lap it belongs to, so that there
//! are no indices to share, and one line of memory describes four buffers.
//!
//! A position is a descriptor's index, and in bit 15 the wrap counter of its lap: as in the event
//! suppression structures, and in the protocol's messages.
//!
//! **A ring tells the device's position** to the process that replaces a killed device. Of its two
//! flags, the driver changes one (`AVAIL`) and the device the other (`USED`), once a lap each: so
//! `USED` changes at the device's position, and only there. For that the device marks every
//! descriptor of a buffer that it gives back, not only the first, which is the only one that a
//! driver reads. A batch that was noted and not published lacks its first buffer's mark. That
//! buffer's descriptor holds the values to publish by then, and says so (`LEFT`), so the next process can publish it.
//! A mark leaves the rest of a descriptor as it is, but for a buffer's first: of a buffer that was marked in part, the
//! next process takes the marks back.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::{Addresses, Broken, Descriptor, Head, SIZE_MAX, flags};
use crate::port::vhost::memory::{Memory, Region};

/// The position's bit that is the wrap counter.
const WRAP: u16 = 1 << 15;
/// Where a ring begins.
pub const START: u16 = WRAP;

/// In a descriptor's flags: equal to the lap's wrap counter when the driver made it available.
const AVAIL: u16 = 1 << 7;
/// In a descriptor's flags: the same when the device gave it back, and else not.
const USED: u16 = 1 << 15;
/// In the flags of a descriptor that is not given back: it holds what is to be published. The driver reads none of it
/// before that, and no driver sets the bit.
const LEFT: u16 = 1 << 14;

/// What an event suppression structure says in its flags: behind its 16 bits of a position.
mod event {
    /// No notifications.
    pub const DISABLE: u16 = 1;
    /// One for the descriptor at the position.
    pub const POSITION: u16 = 2;
    /// The bits that say that.
    pub const MASK: u16 = 3;
}

/// The ring of one virtqueue. What it lies in stays mapped as long as it is.
pub struct Packed {
    /// 16 bytes each: address; length, buffer id and flags.
    descriptors: NonNull<[AtomicU64; 2]>,
    /// The driver's event suppression: position and flags, 16 bits each.
    driver: NonNull<AtomicU32>,
    /// The device's event suppression, likewise.
    device: NonNull<AtomicU32>,
    size: u16,
    /// The first buffer that was noted. The driver looks for buffers in order, so it sees none of
    /// the others before this one is published.
    first: Option<First>,
    _keep: [Arc<Region>; 3],
}

/// A buffer that was noted and is not published.
#[derive(Clone, Copy)]
struct First {
    /// Its position.
    at: u16,
    /// The next one's.
    after: u16,
    /// The second half of its descriptor, as it will be published.
    rest: u64,
    /// Word of it was left in the ring.
    left: bool,
}

/// The marks of a descriptor at a position that the driver made available.
#[inline(always)]
fn offered(at: u16) -> u16 {
    if at & WRAP != 0 { AVAIL } else { USED }
}

/// The marks of a descriptor at a position that the device gave back.
#[inline(always)]
fn given_back(at: u16) -> u16 {
    if at & WRAP != 0 { AVAIL | USED } else { 0 }
}

/// The second half of a descriptor, with other flags.
#[inline(always)]
fn with_flags(rest: u64, flags: u16) -> u64 {
    rest << 16 >> 16 | u64::from(flags) << 48
}

// SAFETY: pointers to atomics in memory that the ring keeps mapped.
unsafe impl Send for Packed {}

impl Packed {
    /// The ring of a virtqueue with `size` entries; `None` if that is not a size, or a part of it is
    /// not aligned or not wholly in one region.
    pub fn open(memory: &Memory, size: u16, at: Addresses) -> Option<Packed> {
        if size == 0 || size > SIZE_MAX {
            return None;
        }
        let (descriptors, keep) = memory.at_user(at.descriptors, 16 * usize::from(size))?;
        let (driver, keep_driver) = memory.at_user(at.available, 4)?;
        let (device, keep_device) = memory.at_user(at.used, 4)?;
        // The file may be mapped at another distance from a boundary than the frontend has it.
        let aligned = |at: NonNull<u8>, to: usize| at.addr().get().is_multiple_of(to);
        (aligned(descriptors, 16) && aligned(driver, 4) && aligned(device, 4)).then(|| Packed {
            descriptors: descriptors.cast(),
            driver: driver.cast(),
            device: device.cast(),
            size,
            first: None,
            _keep: [keep, keep_driver, keep_device],
        })
    }

    /// Number of entries.
    #[inline(always)]
    pub fn size(&self) -> u16 {
        self.size
    }

    /// Whether there is such a position.
    pub fn has(&self, position: u16) -> bool {
        position & !WRAP < self.size
    }

    /// The position behind another one.
    #[inline(always)]
    fn after(&self, at: u16) -> u16 {
        match (at & !WRAP) + 1 {
            next if next == self.size => !at & WRAP,
            _ => at + 1,
        }
    }

    /// How many descriptors there are from one position to another, which is up to two laps away.
    fn between(&self, from: u16, to: u16) -> u32 {
        let size = u32::from(self.size);
        let position = |at: u16| u32::from(at & !WRAP) + if at & WRAP == 0 { size } else { 0 };
        let (from, to) = (position(from), position(to));
        match to.checked_sub(from) {
            Some(ahead) => ahead,
            None => to + 2 * size - from,
        }
    }

    #[inline(always)]
    fn words(&self, i: u16) -> &[AtomicU64; 2] {
        debug_assert!(i < self.size);
        let i = if i < self.size { i } else { 0 };
        // SAFETY: inside the ring, as the line before has it; aligned (see `open`).
        unsafe { self.descriptors.add(usize::from(i)).as_ref() }
    }

    /// A descriptor whose second half has been read, and the buffer's id that it has.
    #[inline(always)]
    fn descriptor(&self, i: u16, rest: u64) -> (Descriptor, u16) {
        let address = u64::from_le(self.words(i)[0].load(Ordering::Relaxed));
        let descriptor = Descriptor {
            address,
            len: rest as u32,
            flags: (rest >> 48) as u16 & (flags::NEXT | flags::WRITE | flags::INDIRECT),
            next: if i + 1 < self.size { i + 1 } else { 0 },
        };
        (descriptor, (rest >> 32) as u16)
    }

    /// Entry `i`, if there is one.
    #[inline(always)]
    pub fn entry(&self, i: u16) -> Option<Descriptor> {
        if i >= self.size {
            return None;
        }
        let rest = u64::from_le(self.words(i)[1].load(Ordering::Relaxed));
        Some(self.descriptor(i, rest).0)
    }

    /// The buffer that begins at a position, if the driver has made it available. The driver's
    /// earlier writes are visible after this.
    #[inline(always)]
    fn available(&self, at: u16) -> Option<(Descriptor, u16)> {
        let i = at & !WRAP;
        let rest = u64::from_le(self.words(i)[1].load(Ordering::Acquire));
        ((rest >> 48) as u16 & (AVAIL | USED) == offered(at)).then(|| self.descriptor(i, rest))
    }

    /// Reads where the buffers from position `next` on begin, as many as are available and have a
    /// place in `heads`; returns how many. Those from `given` on have not been given back.
    #[inline]
    pub fn peek(&self, given: u16, next: u16, heads: &mut [Head]) -> Result<usize, Broken> {
        let size = u32::from(self.size);
        // Descriptors that the driver may have filled.
        let mut left = size - self.between(given, next).min(size);
        let mut at = next;
        for (n, head) in heads.iter_mut().enumerate() {
            let Some((first, mut id)) = self.available(at) else {
                return Ok(n);
            };
            left = left.checked_sub(1).ok_or(Broken::Index)?;
            let (mut last, mut after) = (first, self.after(at));
            // The last descriptor of a buffer has its id.
            while last.flags & flags::NEXT != 0 {
                left = left.checked_sub(1).ok_or(Broken::Chain)?;
                let i = after & !WRAP;
                let rest = u64::from_le(self.words(i)[1].load(Ordering::Relaxed));
                (last, id) = self.descriptor(i, rest);
                after = self.after(after);
            }
            *head = Head {
                at,
                after,
                id,
                first,
            };
            at = after;
        }
        Ok(heads.len())
    }

    /// Notes that a buffer is given back with so many bytes written into it.
    #[inline(always)]
    pub fn note(&mut self, head: &Head, written: u32) {
        let write = if written > 0 { flags::WRITE } else { 0 };
        let rest = u64::from(written)
            | u64::from(head.id) << 32
            | u64::from(given_back(head.at) | write) << 48;
        let Some(first) = self.first else {
            self.first = Some(First {
                at: head.at,
                after: head.after,
                rest,
                left: false,
            });
            return;
        };
        self.leave(first);
        self.give_tail(head.at, head.after);
        self.give(head.at & !WRAP, rest);
    }

    /// Leaves word of the first buffer, before marks are made behind it: all that is missing is that it is published.
    #[inline(always)]
    fn leave(&mut self, first: First) {
        if first.left {
            return;
        }
        let more = if first.after == self.after(first.at) {
            0
        } else {
            flags::NEXT
        };
        let flags = (first.rest >> 48) as u16 & !(AVAIL | USED) | offered(first.at) | LEFT | more;
        self.give(first.at & !WRAP, with_flags(first.rest, flags));
        self.give_tail(first.at, first.after);
        self.first = Some(First {
            left: true,
            ..first
        });
    }

    /// Shows the driver the buffers that were noted.
    #[inline]
    pub fn publish(&mut self) {
        if let Some(first) = self.first {
            if first.after != self.after(first.at) {
                self.leave(first);
            }
            self.first = None;
            self.give(first.at & !WRAP, first.rest);
        }
    }

    /// Marks the descriptors of a buffer behind its first.
    #[inline(always)]
    fn give_tail(&self, at: u16, after: u16) {
        let mut at = self.after(at);
        while at != after {
            self.mark(at, given_back(at));
            at = self.after(at);
        }
    }

    /// Changes the marks of a descriptor, and nothing else of it.
    #[inline(always)]
    fn mark(&self, at: u16, marks: u16) {
        let rest = u64::from_le(self.words(at & !WRAP)[1].load(Ordering::Relaxed));
        let flags = (rest >> 48) as u16 & !(AVAIL | USED) | marks;
        self.give(at & !WRAP, with_flags(rest, flags));
    }

    /// The position up to which the former process gave buffers back, now published; `None` if no
    /// device leaves a ring like this.
    pub fn resume(&mut self) -> Option<u16> {
        let mut left = (0..self.size).filter(|i| self.flags(*i) & LEFT != 0);
        if let (Some(i), None) = (left.next(), left.next()) {
            self.go_on_from(i);
        }
        // Where descriptors that were given back and others meet. In a lap more the flag is the
        // other way round.
        let used = |i: u16| self.flags(i) & USED != 0;
        let before = |i: u16| match i {
            0 => !used(self.size - 1),
            _ => used(i - 1),
        };
        let mut edges = (0..self.size).filter(|&i| used(i) != before(i));
        match (edges.next(), edges.next()) {
            (Some(i), None) if used(i) => Some(i),
            (Some(i), None) => Some(i | WRAP),
            _ => None,
        }
    }

    /// Publishes a buffer of which word was left. Those behind it are given back as a whole, but for the last: its
    /// descriptors behind the first may be marked, and are marked no more.
    fn go_on_from(&self, i: u16) {
        let flags = self.flags(i);
        let at = if flags & AVAIL != 0 { i | WRAP } else { i };
        let after = self.end_of(at);
        self.give_tail(at, after);
        let rest = u64::from_le(self.words(i)[1].load(Ordering::Relaxed));
        self.give(i, with_flags(rest, flags & flags::WRITE | given_back(at)));
        let is_given = |at: u16| self.flags(at & !WRAP) & (AVAIL | USED) == given_back(at);
        let mut end = after;
        for _ in 0..self.size {
            if is_given(end) {
                end = self.after(end);
            }
        }
        let (mut at, behind) = (self.after(end), self.end_of(end));
        while at != behind {
            if is_given(at) {
                self.mark(at, offered(at));
            }
            at = self.after(at);
        }
    }

    /// The position behind the buffer that begins at one.
    fn end_of(&self, mut at: u16) -> u16 {
        for _ in 1..self.size {
            if self.flags(at & !WRAP) & flags::NEXT == 0 {
                break;
            }
            at = self.after(at);
        }
        self.after(at)
    }

    fn flags(&self, i: u16) -> u16 {
        (u64::from_le(self.words(i)[1].load(Ordering::Acquire)) >> 48) as u16
    }

    #[inline(always)]
    fn give(&self, i: u16, rest: u64) {
        #[cfg(test)]
        if !super::tests::lives() {
            return;
        }
        self.words(i)[1].store(rest.to_le(), Ordering::Release);
    }

    /// Whether the driver wants an interrupt for the buffers given back from position `old` up to
    /// `new`. (Section 2.8.10.)
    #[inline]
    pub fn wants_interrupt(&self, old: u16, new: u16, by_event: bool) -> bool {
        // The buffers must be visible before the driver's wish is read.
        fence(Ordering::SeqCst);
        // SAFETY: aligned and in memory that is kept mapped (see `open`).
        let wish = u32::from_le(unsafe { self.driver.as_ref() }.load(Ordering::Relaxed));
        match (wish >> 16) as u16 & event::MASK {
            event::DISABLE => false,
            event::POSITION if by_event && self.has(wish as u16) => {
                self.between(old, wish as u16) < self.between(old, new)
            }
            _ => true,
        }
    }

    /// Asks to be told when the driver makes the buffer at position `next` available, or asks not
    /// to be.
    pub fn ask_notify(&self, wanted: bool, next: u16, by_event: bool) {
        let flags = match (wanted, by_event) {
            (false, _) => event::DISABLE,
            (true, true) => event::POSITION,
            (true, false) => 0,
        };
        let wish = u32::from(next) | u32::from(flags) << 16;
        // SAFETY: aligned and in memory that is kept mapped (see `open`).
        unsafe { self.device.as_ref() }.store(wish.to_le(), Ordering::Relaxed);
        // The wish must be visible before the ring is looked at once more.
        fence(Ordering::SeqCst);
    }
}
