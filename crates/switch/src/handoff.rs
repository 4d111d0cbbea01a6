//! Handoff rings: how frames get from one lane to another.
//!
//! A frame that a lane has picked up for a port of another lane is copied into a [`Burst`]: a batch
//! of its own, with each frame's destination. Bursts travel to the other lane by one ring with one
//! producer and one consumer, and come back empty by another; nothing else is shared. Reports of
//! what a lane's lookup functions learn travel in bursts, too, ahead of the frames.
//!
//! A pair of rings has [`BURSTS`] bursts. When none is free, the other lane does not keep up. Then
//! sources with frames for that lane are not served until a burst is back: their rings fill, and
//! they slow down. Frames that cannot wait (floods, frames out of patches) are dropped and counted
//! at their source.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rtrb::{Consumer, Producer, RingBuffer};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::ids::{DomainIndex, Generation, PortIndex};
use crate::lookup::LearnedEntry;
use crate::port::{BATCH, Batch};

/// Bursts of one pair of rings: 1024 short frames, or some 10 MB of long ones, may be on their way.
const BURSTS: usize = 16;
/// Most reports in one burst.
const REPORTS_MAX: usize = 128;

/// Where a frame of a burst goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// To a port.
    Port {
        port: PortIndex,
        generation: Generation,
    },
    /// To all ports of a domain that the receiving lane sends for and that the sending lane has no
    /// egress queue of, except the port that the frame came from.
    Flood {
        domain: DomainIndex,
        generation: Generation,
        from: PortIndex,
    },
    /// Where the lookup function says, which the receiving lane is to ask: the frame came from this
    /// port.
    Lookup {
        from: PortIndex,
        generation: Generation,
    },
}

/// What a lookup function has learned in a domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub domain: DomainIndex,
    pub generation: Generation,
    pub news: LearnedEntry,
}

/// Frames on their way from one lane to another, and the reports that go with them.
pub(crate) struct Burst {
    pub batch: Box<Batch>,
    /// Where each frame of the batch goes.
    pub targets: Vec<Target>,
    pub reports: Vec<Report>,
}

impl Burst {
    fn new() -> Burst {
        Burst {
            batch: Box::new(Batch::to_carry()),
            targets: Vec::with_capacity(BATCH),
            reports: Vec::with_capacity(REPORTS_MAX),
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

/// Wakes a lane: an eventfd, and two flags that save most writes to it.
pub(crate) struct LaneWaker {
    event: OwnedFd,
    sleeps: AtomicBool,
    has_jobs: AtomicBool,
}

impl LaneWaker {
    pub fn new() -> Result<LaneWaker, Errno> {
        Ok(LaneWaker {
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            sleeps: AtomicBool::new(false),
            has_jobs: AtomicBool::new(false),
        })
    }

    /// Says whether the lane sleeps. After it has said that it does, it looks at its handoff rings
    /// once more.
    pub fn set_sleeps(&self, sleeps: bool) {
        self.sleeps.store(sleeps, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Wakes the lane if it sleeps. The bursts have been published before.
    fn wake_if_asleep(&self) {
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Wakes the lane for a job.
    pub fn wake_for_job(&self) {
        self.has_jobs.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether the lane has jobs to do.
    #[inline]
    pub fn has_jobs(&self) -> bool {
        self.has_jobs.load(Ordering::Relaxed)
    }

    /// Whether the lane had jobs to do. It does them now.
    #[inline]
    pub fn take_jobs(&self) -> bool {
        self.has_jobs() && self.has_jobs.swap(false, Ordering::Acquire)
    }

    /// Wakes the lane.
    pub fn wake(&self) {
        // A write fails only where the counter is full: then the lane is woken anyway.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }
}

impl AsFd for LaneWaker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// The sending end of a pair of handoff rings.
pub(crate) struct HandoffSender {
    /// Empty bursts, the one used last on top.
    empty: Vec<Burst>,
    /// The one being filled.
    open: Option<Burst>,
    full: Producer<Burst>,
    spent: Consumer<Burst>,
    waker: Arc<LaneWaker>,
    /// Whether bursts were sent since the other lane was last woken for some.
    sent: bool,
}

/// The receiving end.
pub(crate) struct HandoffReceiver {
    full: Consumer<Burst>,
    spent: Producer<Burst>,
}

/// A pair of handoff rings to the lane that `waker` wakes.
pub(crate) fn handoff(waker: Arc<LaneWaker>) -> (HandoffSender, HandoffReceiver) {
    let (full_in, full_out) = RingBuffer::new(BURSTS);
    let (spent_in, spent_out) = RingBuffer::new(BURSTS);
    let sender = HandoffSender {
        empty: (0..BURSTS).map(|_| Burst::new()).collect(),
        open: None,
        full: full_in,
        spent: spent_out,
        waker,
        sent: false,
    };
    let receiver = HandoffReceiver {
        full: full_out,
        spent: spent_in,
    };
    (sender, receiver)
}

impl HandoffSender {
    /// Whether a whole batch fits.
    pub fn has_room(&mut self) -> bool {
        self.take_back();
        !self.empty.is_empty()
    }

    /// Takes a copy of frame `i` of a batch. Returns whether it fitted.
    #[must_use]
    pub fn push(&mut self, batch: &Batch, i: u16, target: Target) -> bool {
        for _ in 0..2 {
            if let Some(burst) = self.open()
                && burst.batch.adopt(batch, i)
            {
                burst.targets.push(target);
                return true;
            }
            self.send();
        }
        false
    }

    /// Takes a report if it fits. A report that does not fit is dropped: a later frame repeats it.
    pub fn report(&mut self, report: Report) {
        if let Some(burst) = self.open()
            && burst.reports.len() < REPORTS_MAX
        {
            burst.reports.push(report);
        }
    }

    /// Sends the burst being filled, and wakes the other lane if it sleeps.
    pub fn flush(&mut self) {
        self.send();
        if std::mem::take(&mut self.sent) {
            self.waker.wake_if_asleep();
        }
    }

    fn open(&mut self) -> Option<&mut Burst> {
        if self.open.is_none() {
            self.take_back();
            self.open = self.empty.pop();
        }
        self.open.as_mut()
    }

    fn send(&mut self) {
        if let Some(burst) = self.open.take_if(|burst| !burst.is_empty()) {
            // There are no more bursts than the ring has slots.
            let sent = self.full.push(burst);
            debug_assert!(sent.is_ok());
            self.sent = true;
        }
    }

    fn take_back(&mut self) {
        while let Ok(mut burst) = self.spent.pop() {
            burst.clear();
            self.empty.push(burst);
        }
    }
}

impl HandoffReceiver {
    /// The next burst. It goes back by [`give_back`](Self::give_back).
    pub fn take(&mut self) -> Option<Burst> {
        self.full.pop().ok()
    }

    /// Returns a burst that was delivered.
    pub fn give_back(&mut self, burst: Burst) {
        // There are no more bursts than the ring has slots.
        let given = self.spent.push(burst);
        debug_assert!(given.is_ok());
    }

    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.full.is_empty()
    }
}
