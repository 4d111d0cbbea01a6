//! The other side of a queue set: a process of a tenant, or an NSM.

use std::os::fd::OwnedFd;

use abi::nqe::Nqe;
use abi::ring::Violation;

use crate::outbox::Outbox;
use crate::sys::{CoreSides, Waker};

pub(crate) struct Peer {
    pub sides: CoreSides,
    pub outbox: Outbox,
    pub waker: Waker,
    /// The peer is gone when this ends.
    pub control: OwnedFd,
}

impl Peer {
    pub fn new(sides: CoreSides, waker: Waker, control: OwnedFd) -> Peer {
        Peer {
            sides,
            outbox: Outbox::default(),
            waker,
            control,
        }
    }

    /// How many elements may be [`put`](Self::put) at once. The ring is looked at only if fewer than
    /// `n` are known to fit.
    #[inline]
    pub fn room(&mut self, n: u32) -> u32 {
        if self.outbox.waits() {
            return 0;
        }
        self.outbox.room(&mut self.sides.deliveries, n)
    }

    /// Puts an element where there is room.
    #[inline]
    pub fn put(&mut self, nqe: Nqe) {
        self.outbox.put(&mut self.sides.deliveries, nqe);
    }

    /// Puts an element behind the others, in the ring or beside it.
    #[inline]
    pub fn push(&mut self, nqe: Nqe) {
        self.outbox.push(&mut self.sides.deliveries, nqe);
    }

    /// Publishes what was put, and wakes a peer that sleeps.
    #[inline]
    pub fn flush(&mut self) -> Result<(), Violation> {
        self.outbox.flush(&mut self.sides.deliveries, &self.waker)
    }
}
