//! The sizes of a region's pieces, and their offsets.

use super::{BUFFER_STRIDE, INTERFACES_MAX};
use crate::PAGE;
use crate::ring::{SLOTS_MAX, SLOTS_MIN, ring_bytes};

/// The numbers from which a region's size follows.
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

    /// The bytes of the buffers that the guest uses first for its own packets. With long rings, it
    /// pays to provide memory for a few in advance; with short rings there are none.
    pub const fn first_buffers(&self) -> core::ops::Range<usize> {
        let start = self.pool() + self.ring_buffers() as usize * BUFFER_STRIDE;
        let count = if self.slots < 256 { 0 } else { self.slots / 16 };
        start..start + count as usize * BUFFER_STRIDE
    }

    /// Offset of interface `i`'s receive ring, in bytes.
    pub const fn receive_ring(&self, i: usize) -> usize {
        PAGE + 2 * i * ring_bytes(self.slots)
    }

    /// Offset of interface `i`'s transmit ring, in bytes.
    pub const fn transmit_ring(&self, i: usize) -> usize {
        self.receive_ring(i) + ring_bytes(self.slots)
    }

    /// Offset of the pool, in bytes; a multiple of the page size.
    pub const fn pool(&self) -> usize {
        self.receive_ring(self.interfaces()).next_multiple_of(PAGE)
    }

    /// Size of the region, in bytes; whole pages.
    pub const fn bytes(&self) -> usize {
        (self.pool() + self.buffers() as usize * BUFFER_STRIDE).next_multiple_of(PAGE)
    }
}
