//! A virtqueue as the device works on it: buffers that the driver made available are taken in
//! order and given back in the same order.
//!
//! What the driver says is checked here: how many buffers it claims, where they begin, how they go
//! on, what they point at, in which direction. A driver that breaks one of the rules is
//! [`Broken`]; nothing is read or written for it outside of the memory that it handed over.

use std::fs::File;
use std::os::fd::AsFd;

use abi::region::SharedBytes;

use super::memory::Memory;
use super::rings::{Addresses, Descriptor, Rings, flags};
use crate::sys::ring::ring;

/// What a driver did that no honest driver does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It claims more buffers than the ring has.
    Index,
    /// A buffer begins at a descriptor that the table does not have.
    Head,
    /// A buffer goes on for ever, to a descriptor that the table does not have, or by an indirect
    /// table, which was not agreed on.
    Chain,
    /// A buffer is for reading where it is to be written, or the other way round.
    Direction,
    /// A buffer is not in the memory that was handed over.
    Address,
    /// The memory that was handed over has been taken away.
    Memory,
}

/// A buffer's first descriptor and that one's index.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head {
    /// By which the buffer is given back.
    pub index: u16,
    /// Where it begins.
    pub first: Descriptor,
}

/// A virtqueue, set up as far as the frontend has come with that.
#[derive(Default)]
pub struct Queue {
    pub(super) size: u16,
    pub(super) addresses: Option<Addresses>,
    pub(super) kick: Option<File>,
    pub(super) call: Option<File>,
    /// The frontend said how the driver's notifications come, or that they do not: it may start.
    pub(super) started: bool,
    pub(super) enabled: bool,
    pub(super) by_event: bool,
    rings: Option<Rings>,
    /// The next buffer to take, modulo 2¹⁶.
    next: u16,
    /// The next buffer to give back.
    given: u16,
}

impl Queue {
    /// Looks the rings up in `memory`, whether for the first time or because that has changed.
    /// Returns whether there is nothing in the way of that.
    pub fn locate(&mut self, memory: &Memory) -> bool {
        let Some(addresses) = self.addresses.filter(|_| !memory.is_empty()) else {
            self.rings = None;
            return true;
        };
        let first = self.rings.is_none();
        self.rings = Rings::open(memory, self.size, addresses);
        if let Some(rings) = self.rings.as_ref().filter(|_| first) {
            // Buffers that a process before this one took and did not give back are lost, and
            // those that it gave back are not to be taken again.
            let used = rings.used_index();
            if used != self.next {
                self.set_base(used);
            }
        }
        self.rings.is_some()
    }

    /// Goes on with the `base`-th buffer.
    pub fn set_base(&mut self, base: u16) {
        self.next = base;
        self.given = base;
    }

    /// Stops, and says with which buffer to go on. What is taken and not given back is forgotten.
    pub fn stop(&mut self) -> u16 {
        self.started = false;
        self.rings = None;
        self.kick = None;
        self.call = None;
        self.next = self.given;
        self.given
    }

    /// Whether buffers may be taken.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.enabled && self.started && self.rings.is_some()
    }

    /// Whether the driver can wake whoever waits for buffers.
    pub fn can_kick(&self) -> bool {
        self.kick.is_some()
    }

    /// How many buffers are available.
    #[inline]
    pub fn available(&self) -> Result<u16, Broken> {
        let Some(rings) = &self.rings else {
            return Ok(0);
        };
        let available = rings.available_index().wrapping_sub(self.next);
        if available > rings.size() {
            return Err(Broken::Index);
        }
        Ok(available)
    }

    /// Reads where the next buffers begin, one for each place in `heads`; there must be so many.
    #[inline]
    pub fn peek(&self, heads: &mut [Head]) -> Result<(), Broken> {
        let Some(rings) = &self.rings else {
            return Err(Broken::Index);
        };
        for (i, head) in (self.next..=u16::MAX).chain(0..).zip(&mut *heads) {
            head.index = rings.available(i);
            if head.index >= rings.size() {
                return Err(Broken::Head);
            }
            rings.prefetch(head.index);
        }
        for head in heads {
            head.first = rings.descriptor(head.index);
        }
        Ok(())
    }

    /// Where the buffer behind the next `skip` begins; there must be so many.
    pub fn peek_at(&self, skip: u16) -> Result<Head, Broken> {
        let rings = self.rings.as_ref().ok_or(Broken::Index)?;
        let index = rings.available(self.next.wrapping_add(skip));
        if index >= rings.size() {
            return Err(Broken::Head);
        }
        Ok(Head {
            index,
            first: rings.descriptor(index),
        })
    }

    /// The second descriptor of a buffer that goes on.
    #[inline]
    pub fn second(&self, head: &Head) -> Option<Descriptor> {
        let rings = self.rings.as_ref()?;
        (head.first.next < rings.size()).then(|| rings.descriptor(head.first.next))
    }

    /// Goes through a buffer and hands out its pieces until `take` has enough and says so by
    /// `false`. All must be in `memory` and to be `written` or not.
    pub fn pieces(
        &self,
        head: &Head,
        memory: &Memory,
        written: bool,
        mut take: impl FnMut(SharedBytes) -> bool,
    ) -> Result<(), Broken> {
        let rings = self.rings.as_ref().ok_or(Broken::Index)?;
        let mut descriptor = head.first;
        for _ in 0..rings.size() {
            let piece = Self::piece(&descriptor, memory, written)?;
            if !take(piece) || descriptor.flags & flags::NEXT == 0 {
                return Ok(());
            }
            if descriptor.next >= rings.size() {
                return Err(Broken::Chain);
            }
            descriptor = rings.descriptor(descriptor.next);
        }
        Err(Broken::Chain)
    }

    /// The bytes that a descriptor names.
    #[inline(always)]
    pub fn piece(
        descriptor: &Descriptor,
        memory: &Memory,
        written: bool,
    ) -> Result<SharedBytes, Broken> {
        if descriptor.flags & flags::INDIRECT != 0 {
            return Err(Broken::Chain);
        }
        if (descriptor.flags & flags::WRITE != 0) != written {
            return Err(Broken::Direction);
        }
        memory
            .at(descriptor.address, descriptor.len as usize)
            .ok_or(Broken::Address)
    }

    /// Takes the next `n` buffers: they have been peeked at.
    #[inline]
    pub fn take(&mut self, n: u16) {
        self.next = self.next.wrapping_add(n);
    }

    /// Leaves the last `n` buffers that were taken for another time.
    pub fn put_back(&mut self, n: u16) {
        self.next = self.next.wrapping_sub(n);
    }

    /// Notes for the `i`-th buffer taken and not given back what [`give_back`](Self::give_back) is
    /// to say: its head, and how much was written into it.
    #[inline(always)]
    pub fn note(&self, i: u16, head: u16, written: u32) {
        if let Some(rings) = &self.rings {
            rings.set_used(self.given.wrapping_add(i), head, written);
        }
    }

    /// Gives back the first `n` buffers that were taken, and interrupts the driver if it wants
    /// that.
    #[inline]
    pub fn give_back(&mut self, n: u16) {
        let Some(rings) = self.rings.as_ref().filter(|_| n > 0) else {
            return;
        };
        let old = self.given;
        self.given = old.wrapping_add(n);
        rings.publish_used(self.given);
        if rings.wants_interrupt(old, self.given, self.by_event)
            && let Some(call) = &self.call
        {
            // A driver that hears nothing because its eventfd is full has enough to hear already.
            let _ = ring(call.as_fd());
        }
    }

    /// Asks the driver to kick when it makes another buffer available, or not to.
    pub fn ask_kick(&self, wanted: bool) {
        if let Some(rings) = &self.rings {
            rings.ask_notify(wanted, self.next, self.by_event);
        }
    }
}
