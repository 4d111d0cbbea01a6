//! A virtqueue as the device works on it: buffers that the driver made available are taken in
//! order and given back in the same order.
//!
//! The driver's values are checked here and in [`rings`](super::rings): the number of buffers,
//! their heads, chains, addresses and directions. A driver that breaks a rule is [`Broken`].

use std::fs::File;
use std::os::fd::AsFd;

use abi::SharedBytes;

use super::memory::Memory;
use super::rings::packed::START;
use super::rings::table::DescriptorTable;
use super::rings::{Addresses, Broken, Descriptor, Head, Rings, flags};
use crate::sys::ring::ring;

/// What the frontend and the switch agreed on for all queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// The rings are packed, else split.
    pub packed: bool,
    /// Both sides name the buffer at which they want a notification (event index).
    pub by_event: bool,
    /// A descriptor may stand for a table of them.
    pub indirect: bool,
}

/// Where rings begin.
fn start(packed: bool) -> u16 {
    if packed { START } else { 0 }
}

/// A virtqueue, set up as far as the frontend has come with that.
#[derive(Default)]
pub struct Virtqueue {
    pub(super) size: u16,
    pub(super) addresses: Option<Addresses>,
    pub(super) kick: Option<File>,
    pub(super) call: Option<File>,
    /// The frontend said how the driver's notifications come, or that they do not: it may start.
    pub(super) started: bool,
    pub(super) enabled: bool,
    agreed: Agreed,
    rings: Option<Rings>,
    /// The position of the next buffer to take.
    next: u16,
    /// The position of the next buffer to give back.
    given: u16,
    /// The process that worked on the rings before may not have told the driver of all that it gave
    /// back.
    notifies_pending: bool,
}

impl Virtqueue {
    /// Applies the agreed features. Rings of the other layout are forgotten, with their addresses.
    pub fn agree(&mut self, agreed: Agreed) {
        if self.agreed.packed != agreed.packed {
            self.rings = None;
            self.addresses = None;
            self.next = start(agreed.packed);
            self.given = self.next;
        }
        self.agreed = agreed;
    }

    /// Looks the rings up in `memory`, whether for the first time or because that has changed.
    /// Returns whether nothing prevents that.
    pub fn locate(&mut self, memory: &Memory) -> bool {
        let Some(addresses) = self.addresses.filter(|_| !memory.is_empty()) else {
            self.rings = None;
            return true;
        };
        let first = self.rings.is_none();
        let rings = Rings::open(memory, self.size, addresses, self.agreed.packed);
        self.rings = rings.filter(|rings| rings.has(self.next));
        if let Some(given) = self
            .rings
            .as_mut()
            .filter(|_| first)
            .and_then(Rings::resume)
        {
            // What a process before this one took and did not give back is taken again, and what
            // it gave back is not. The frontend may not know how far that one came.
            self.next = given;
            self.given = given;
            self.notifies_pending = given != start(self.agreed.packed);
        }
        self.rings.is_some()
    }

    /// Goes on where the protocol's number says. Returns whether there is such a place.
    ///
    /// It is a position. For a packed ring a second one may follow, up to which buffers were given
    /// back: the same, since nothing is under way then. (DPDK's frontend says 0.)
    pub fn set_base(&mut self, base: u32) -> bool {
        let position = base as u16;
        if !self.agreed.packed && base > u16::MAX.into() {
            return false;
        }
        if self
            .rings
            .as_ref()
            .is_some_and(|rings| !rings.has(position))
        {
            return false;
        }
        self.next = position;
        self.given = position;
        true
    }

    /// Stops, and returns the position to resume from, as [`set_base`](Self::set_base) takes it.
    /// Buffers that were taken and not given back are forgotten.
    pub fn stop(&mut self) -> u32 {
        self.started = false;
        self.notifies_pending = false;
        self.rings = None;
        self.kick = None;
        self.call = None;
        self.next = self.given;
        let position = u32::from(self.given);
        match self.agreed.packed {
            true => position | position << 16,
            false => position,
        }
    }

    /// Interrupts the driver once the queue is ready, if it may not have been when it should.
    pub fn catch_up(&mut self) {
        if self.notifies_pending
            && self.is_ready()
            && let Some(call) = &self.call
        {
            let _ = ring(call.as_fd());
            self.notifies_pending = false;
        }
    }

    /// Whether buffers may be taken.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.enabled && self.started && self.rings.is_some()
    }

    /// Whether the driver can wake a port that waits for buffers.
    pub fn can_kick(&self) -> bool {
        self.kick.is_some()
    }

    /// The position of the next buffer to take.
    #[inline]
    pub fn next(&self) -> u16 {
        self.next
    }

    /// Whether the driver has made no buffer available.
    pub fn is_empty(&self) -> Result<bool, Broken> {
        self.peek_at(self.next).map(|head| head.is_none())
    }

    /// Reads where the next buffers begin, as many as are available and have a place in `heads`;
    /// returns how many.
    #[inline]
    pub fn peek(&self, heads: &mut [Head]) -> Result<usize, Broken> {
        let peek = |rings: &Rings| rings.peek(self.given, self.next, heads);
        self.rings.as_ref().map_or(Ok(0), peek)
    }

    /// Where the buffer at a position behind the next begins, if it is available.
    pub fn peek_at(&self, position: u16) -> Result<Option<Head>, Broken> {
        let mut head = [Head::default()];
        let peek = |rings: &Rings| rings.peek(self.given, position, &mut head);
        let found = self.rings.as_ref().map_or(Ok(0), peek)?;
        Ok(head.first().copied().filter(|_| found > 0))
    }

    /// The two descriptors of a buffer that has two: the second may go on.
    #[inline]
    pub fn pair(&self, head: &Head, memory: &Memory) -> Option<[Descriptor; 2]> {
        let rings = self.rings.as_ref()?;
        if head.first.flags & flags::INDIRECT == 0 {
            return Some([head.first, rings.entry(head.first.next)?]);
        }
        let table = self.table(&head.first, memory).ok()?;
        let first = table.entry(0)?;
        Some([first, table.entry(first.next)?])
    }

    /// The table that a descriptor names, if that was agreed on.
    fn table(&self, named: &Descriptor, memory: &Memory) -> Result<DescriptorTable, Broken> {
        match self.agreed.indirect {
            true => DescriptorTable::open(named, memory, self.agreed.packed),
            false => Err(Broken::Chain),
        }
    }

    /// Goes through a buffer and passes its pieces to `take` until `take` has enough and says so by
    /// `false`. All must be in `memory` and to be `written` or not.
    pub fn pieces(
        &self,
        head: &Head,
        memory: &Memory,
        written: bool,
        mut take: impl FnMut(SharedBytes) -> bool,
    ) -> Result<(), Broken> {
        let rings = self.rings.as_ref().ok_or(Broken::Index)?;
        let (mut descriptor, mut table) = (head.first, None);
        let mut left = rings.size();
        while left > 0 {
            if descriptor.flags & flags::INDIRECT != 0 && table.is_none() {
                let opened = self.table(&descriptor, memory)?;
                descriptor = opened.entry(0).ok_or(Broken::Chain)?;
                left = opened.size();
                table = Some(opened);
            }
            let piece = Self::piece(&descriptor, memory, written)?;
            if !take(piece) || descriptor.flags & flags::NEXT == 0 {
                return Ok(());
            }
            let next = match &table {
                Some(table) => table.entry(descriptor.next),
                None => rings.entry(descriptor.next),
            };
            descriptor = next.ok_or(Broken::Chain)?;
            left -= 1;
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

    /// Takes the buffers before a position: they have been peeked at.
    #[inline]
    pub fn take(&mut self, position: u16) {
        self.next = position;
    }

    /// Leaves a buffer that was taken, and those behind it, for another time.
    pub fn put_back(&mut self, from: &Head) {
        self.next = from.at;
    }

    /// Notes what [`give_back`](Self::give_back) is to say of a buffer: how much was written into
    /// it. Each that is given back is noted, in order.
    #[inline(always)]
    pub fn note(&mut self, head: &Head, written: u32) {
        if let Some(rings) = &mut self.rings {
            rings.note(head, written);
        }
    }

    /// Gives back the buffers before a position, and interrupts the driver if it wants that.
    #[inline]
    pub fn give_back(&mut self, position: u16) {
        let Some(rings) = self.rings.as_mut().filter(|_| position != self.given) else {
            return;
        };
        let old = self.given;
        self.given = position;
        rings.publish(position);
        if rings.wants_interrupt(old, position, self.agreed.by_event)
            && let Some(call) = &self.call
        {
            // If the driver's eventfd is full, a notification is pending already.
            let _ = ring(call.as_fd());
        }
    }

    /// Asks the driver to kick when it makes another buffer available, or not to.
    pub fn ask_kick(&self, wanted: bool) {
        if let Some(rings) = &self.rings {
            rings.ask_notify(wanted, self.next, self.agreed.by_event);
        }
    }
}
