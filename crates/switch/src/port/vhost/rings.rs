//! A virtqueue's rings in a frontend's memory, in either of their layouts: [`split`] and
//! [`packed`], and the tables of [indirect descriptors](table) that both may name.
//!
//! The driver chooses the layout; QEMU's and DPDK's packed rings are off by default. On one core
//! the two cost the same within 7 % (`benches/vhost_rings.rs`). Where cache lines move between
//! cores, packed rings cost less for short frames, since one line describes four buffers
//! (`benches/vhost.rs`); for long ones the copy dominates.
//!
//! Each shared value is read once, and callers get numbers, never a reference. A driver with
//! impossible numbers is [`Broken`]; nothing is read or written for it outside of the memory that
//! it shared.

pub mod packed;
pub mod split;
pub mod table;
#[cfg(test)]
mod tests;

use super::memory::Memory;
use packed::Packed;
use split::Split;

/// Most descriptors of a virtqueue.
pub const SIZE_MAX: u16 = 32_768;

/// What a driver did that no honest driver does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It claims more buffers than the ring has.
    Index,
    /// A buffer begins at a descriptor that the table does not have.
    Head,
    /// A buffer goes on for ever, to a descriptor that the table does not have, or by an indirect
    /// table that is none or was not agreed on.
    Chain,
    /// A readable buffer where a writable one is due, or the other way round.
    Direction,
    /// A buffer is not in the memory that the frontend shared.
    Address,
}

/// What a descriptor's flags say.
pub mod flags {
    /// The buffer goes on at `next`.
    pub const NEXT: u16 = 1;
    /// The buffer is for the device to write, else to read.
    pub const WRITE: u16 = 2;
    /// The buffer holds descriptors.
    pub const INDIRECT: u16 = 4;
}

/// One entry of a descriptor table or ring, by value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Where the buffer is in the guest.
    pub address: u64,
    /// Its length, in bytes.
    pub len: u32,
    /// See [`flags`].
    pub flags: u16,
    /// The entry where the buffer goes on.
    pub next: u16,
}

/// A buffer that the driver made available.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head {
    /// Its position in the order in which buffers are taken and given back.
    pub at: u16,
    /// The next one's.
    pub after: u16,
    /// By which the driver knows it.
    pub id: u16,
    /// Where it begins.
    pub first: Descriptor,
}

/// Where the parts of a virtqueue are, as addresses of the frontend's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The descriptor table, or ring.
    pub descriptors: u64,
    /// The driver's area.
    pub available: u64,
    /// The device's area.
    pub used: u64,
}

/// The rings of one virtqueue. Buffers are known by their positions: what those are is the
/// layout's own.
pub enum Rings {
    /// A descriptor table and two rings of indices.
    Split(Split),
    /// One ring of descriptors.
    Packed(Packed),
}

impl Rings {
    /// The rings of a virtqueue with `size` entries; `None` if that is not a size for it, or a part of
    /// it is not aligned or not wholly in one region.
    pub fn open(memory: &Memory, size: u16, at: Addresses, packed: bool) -> Option<Rings> {
        match packed {
            true => Packed::open(memory, size, at).map(Rings::Packed),
            false => Split::open(memory, size, at).map(Rings::Split),
        }
    }

    /// Number of entries.
    #[inline(always)]
    pub fn size(&self) -> u16 {
        match self {
            Rings::Split(rings) => rings.size(),
            Rings::Packed(rings) => rings.size(),
        }
    }

    /// Entry `i` of the descriptor table, or ring, if there is one.
    #[inline(always)]
    pub fn entry(&self, i: u16) -> Option<Descriptor> {
        match self {
            Rings::Split(rings) => rings.entry(i),
            Rings::Packed(rings) => rings.entry(i),
        }
    }

    /// Reads where the buffers from position `next` on begin, as many as are available and have a
    /// place in `heads`; returns how many. Those from `given` on have not been given back.
    #[inline(always)]
    pub fn peek(&self, given: u16, next: u16, heads: &mut [Head]) -> Result<usize, Broken> {
        match self {
            Rings::Split(rings) => rings.peek(next, heads),
            Rings::Packed(rings) => rings.peek(given, next, heads),
        }
    }

    /// Notes that a buffer is given back with so many bytes written into it. The driver sees the
    /// noted buffers when they are [published](Self::publish).
    #[inline(always)]
    pub fn note(&mut self, head: &Head, written: u32) {
        match self {
            Rings::Split(rings) => rings.set_used(head.at, head.id, written),
            Rings::Packed(rings) => rings.note(head, written),
        }
    }

    /// Shows the driver the buffers that were noted, up to position `new`.
    #[inline]
    pub fn publish(&mut self, new: u16) {
        match self {
            Rings::Split(rings) => rings.publish_used(new),
            Rings::Packed(rings) => rings.publish(),
        }
    }

    /// Whether the driver wants an interrupt for the buffers given back from position `old` up to
    /// `new`: by an event index if both sides agreed on that, else by its flag.
    #[inline]
    pub fn wants_interrupt(&self, old: u16, new: u16, by_event: bool) -> bool {
        match self {
            Rings::Split(rings) => rings.wants_interrupt(old, new, by_event),
            Rings::Packed(rings) => rings.wants_interrupt(old, new, by_event),
        }
    }

    /// Asks to be told when the driver makes the buffer at position `next` available, or asks not
    /// to be.
    pub fn ask_notify(&self, wanted: bool, next: u16, by_event: bool) {
        match self {
            Rings::Split(rings) => rings.ask_notify(wanted, next, by_event),
            Rings::Packed(rings) => rings.ask_notify(wanted, next, by_event),
        }
    }

    /// Whether there is such a position.
    pub fn has(&self, position: u16) -> bool {
        match self {
            Rings::Split(_) => true,
            Rings::Packed(rings) => rings.has(position),
        }
    }

    /// Up to which position buffers were given back by the process that worked on the rings before;
    /// `None` if the rings do not tell.
    pub fn resume(&mut self) -> Option<u16> {
        match self {
            Rings::Split(rings) => Some(rings.used_index()),
            Rings::Packed(rings) => rings.resume(),
        }
    }
}
