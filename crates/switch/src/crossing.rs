//! Crossings: how frames get from one lane to another.
//!
//! A frame that a lane has picked up for a port of another lane's is copied into a [`Parcel`]: a
//! batch of its own with where each frame goes. Parcels travel to the other lane by one ring with
//! one producer and one consumer, and come back spent by another; nothing else is shared. What one
//! lane's lookup functions learn travels in them, too, ahead of the frames.
//!
//! A crossing has [`PARCELS`] parcels. When none is left, the other lane cannot keep up: sources
//! whose frames went that way stay as they are until one is back (their rings fill, and they
//! slow), and what comes all the same (floods, frames out of patches) is dropped and counted at
//! its source.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rtrb::{Consumer, Producer, RingBuffer};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::lookup::{News, PortIndex};
use crate::port::{BATCH, Batch};

/// Parcels of one crossing: 1024 short frames, or some 10 MB of long ones, may be on their way.
const PARCELS: usize = 16;
/// Most news in one parcel.
const NEWS_MAX: usize = 128;

/// Where a frame of a parcel goes. Turns tell ports and domains from those that had the same place
/// before.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// To a port.
    Port { place: PortIndex, turn: u32 },
    /// To all ports of a domain that are the receiving lane's and that the sending lane has no
    /// way to of its own, but not to the port that it came from.
    Flood {
        domain: u32,
        turn: u32,
        from: PortIndex,
    },
    /// Where the lookup function says, which is yet to be asked: it came from this port.
    Steer { from: PortIndex, turn: u32 },
}

/// What a lookup function has learned in a domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub domain: u32,
    pub turn: u32,
    pub news: News,
}

/// Frames on their way from one lane to another, and what goes with them.
pub(crate) struct Parcel {
    pub batch: Box<Batch>,
    /// Where each frame of the batch goes.
    pub targets: Vec<Target>,
    pub reports: Vec<Report>,
}

impl Parcel {
    fn new() -> Parcel {
        Parcel {
            batch: Box::new(Batch::to_carry()),
            targets: Vec::with_capacity(BATCH),
            reports: Vec::with_capacity(NEWS_MAX),
        }
    }

    fn is_empty(&self) -> bool {
        self.targets.is_empty() && self.reports.is_empty()
    }

    fn clear(&mut self) {
        self.batch.clear();
        self.targets.clear();
        self.reports.clear();
    }
}

/// What wakes a lane.
pub(crate) struct Bell {
    event: OwnedFd,
    sleeps: AtomicBool,
    /// It was rung for an order.
    orders: AtomicBool,
}

impl Bell {
    pub fn new() -> Result<Bell, Errno> {
        Ok(Bell {
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            sleeps: AtomicBool::new(false),
            orders: AtomicBool::new(false),
        })
    }

    /// Says whether the lane sleeps. After saying so, it looks at its crossings once more.
    pub fn set_sleeps(&self, sleeps: bool) {
        self.sleeps.store(sleeps, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Wakes the lane if it sleeps. What it is to see was shown to it before.
    fn ring_if_asleep(&self) {
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed) {
            self.ring();
        }
    }

    /// Has the lane look at its orders, of which there is one more.
    pub fn order(&self) {
        self.orders.store(true, Ordering::Release);
        self.ring();
    }

    /// Whether the lane is to look at its orders.
    #[inline]
    pub fn has_orders(&self) -> bool {
        self.orders.load(Ordering::Relaxed)
    }

    /// Whether it was to look at its orders, which it does now.
    #[inline]
    pub fn take_orders(&self) -> bool {
        self.has_orders() && self.orders.swap(false, Ordering::Acquire)
    }

    /// Wakes the lane.
    pub fn ring(&self) {
        // It can only fail by being full: then the lane has enough to be woken by.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// The end of a crossing by which frames enter.
pub(crate) struct Entry {
    /// Parcels to be filled, the one used last on top.
    spare: Vec<Parcel>,
    /// The one being filled.
    open: Option<Parcel>,
    full: Producer<Parcel>,
    spent: Consumer<Parcel>,
    bell: Arc<Bell>,
    /// Parcels were sent since the other lane was last rung for.
    fresh: bool,
}

/// The end by which they leave.
pub(crate) struct Exit {
    full: Consumer<Parcel>,
    spent: Producer<Parcel>,
}

/// A crossing to the lane that `bell` wakes.
pub(crate) fn crossing(bell: Arc<Bell>) -> (Entry, Exit) {
    let (full_in, full_out) = RingBuffer::new(PARCELS);
    let (spent_in, spent_out) = RingBuffer::new(PARCELS);
    let entry = Entry {
        spare: (0..PARCELS).map(|_| Parcel::new()).collect(),
        open: None,
        full: full_in,
        spent: spent_out,
        bell,
        fresh: false,
    };
    let exit = Exit {
        full: full_out,
        spent: spent_in,
    };
    (entry, exit)
}

impl Entry {
    /// Whether a whole batch has room.
    pub fn has_room(&mut self) -> bool {
        self.take_back();
        !self.spare.is_empty()
    }

    /// Takes a copy of frame `i` of a batch. Returns whether there was room.
    #[must_use]
    pub fn put(&mut self, batch: &Batch, i: u16, target: Target) -> bool {
        for _ in 0..2 {
            if let Some(parcel) = self.open()
                && parcel.batch.adopt(batch, i)
            {
                parcel.targets.push(target);
                return true;
            }
            self.send();
        }
        false
    }

    /// Takes up what was learned, if there is room. It is no great loss if not: it will be told
    /// again when it is seen again.
    pub fn report(&mut self, report: Report) {
        if let Some(parcel) = self.open()
            && parcel.reports.len() < NEWS_MAX
        {
            parcel.reports.push(report);
        }
    }

    /// Sends what has come together, and wakes the other lane if it sleeps.
    pub fn flush(&mut self) {
        self.send();
        if std::mem::take(&mut self.fresh) {
            self.bell.ring_if_asleep();
        }
    }

    fn open(&mut self) -> Option<&mut Parcel> {
        if self.open.is_none() {
            self.take_back();
            self.open = self.spare.pop();
        }
        self.open.as_mut()
    }

    fn send(&mut self) {
        if let Some(parcel) = self.open.take_if(|parcel| !parcel.is_empty()) {
            // There are no more parcels than the ring has slots.
            let sent = self.full.push(parcel);
            debug_assert!(sent.is_ok());
            self.fresh = true;
        }
    }

    fn take_back(&mut self) {
        while let Ok(mut parcel) = self.spent.pop() {
            parcel.clear();
            self.spare.push(parcel);
        }
    }
}

impl Exit {
    /// The next parcel. It must be [given back](Self::give_back).
    pub fn take(&mut self) -> Option<Parcel> {
        self.full.pop().ok()
    }

    /// Hands a parcel back that was dealt with.
    pub fn give_back(&mut self, parcel: Parcel) {
        // There are no more parcels than the ring has slots.
        let given = self.spent.push(parcel);
        debug_assert!(given.is_ok());
    }

    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.full.is_empty()
    }
}
