//! What defines a kind of port: its facts, and the operations that a worker calls on its links.
//!
//! A new kind is a file or a folder with these traits, and a row of the list in
//! [`kinds`](super::kinds).

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::LinkRecord;
use super::batch::Batch;
use crate::counters::PortCounters;

/// What holds for all ports of a kind.
pub trait Kind {
    /// The port leads out of the host, or to another switch: frames that come by it may be from
    /// many senders, and frames left in the port hold none of them back.
    const UPLINK: bool = false;
    /// A look into memory tells whether there are frames: it takes no system call.
    const IN_MEMORY: bool = false;
    /// The host has an interface of its own for the port.
    const INTERFACE: bool = false;
}

impl<T: Kind> Kind for Box<T> {
    const UPLINK: bool = T::UPLINK;
    const IN_MEMORY: bool = T::IN_MEMORY;
    const INTERFACE: bool = T::INTERFACE;
}

/// A port's link: frames come and go by it. A port may have several of a kind, one a queue.
pub(crate) trait Backend: Kind {
    /// Takes up to [`BATCH`](super::BATCH) frames into the empty `batch`.
    fn receive(&mut self, batch: &mut Batch, counters: &PortCounters) -> Outcome;

    /// Delivers the frames `which` of a batch, as many as fit; counts the others with a reason.
    fn send(&mut self, batch: &mut Batch, which: &[u16], counters: &PortCounters) -> Outcome;

    /// Largest IP packet that the link takes, in bytes.
    fn mtu(&self) -> u16;

    /// Sets the link to accept IP packets of up to `mtu` bytes.
    fn set_mtu(&mut self, mtu: u16);

    /// Says whether flows that come to the guest by this port are settled.
    fn set_settles(&mut self, settles: bool) {
        let _ = settles;
    }

    /// The descriptors that are readable when there are frames to receive; none for a guest, which
    /// has a doorbell.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;

    /// The descriptors that another switch can go on with; none for links that are opened again.
    fn files(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Whether a sender whose frames all go here is to wait a moment rather than have them dropped.
    #[inline]
    fn holds_back(&mut self, now: Instant) -> bool {
        let _ = now;
        false
    }

    /// Ends a batch: its frames are no longer needed.
    #[inline]
    fn release(&mut self) {}

    /// Limits the end of a batch to the frames before `first`: later frames are received again.
    /// Returns whether the link can do that.
    fn release_before(&mut self, batch: &Batch, first: usize) -> bool {
        let _ = (batch, first);
        false
    }

    /// Whether the link has frames, as far as a look into memory tells.
    #[inline]
    fn has_frames(&mut self) -> bool {
        false
    }

    /// How many slots the receiver's ring has, if so many frames leave few of them free.
    #[inline]
    fn reserve_if_full(&mut self, frames: usize) -> Option<u32> {
        let _ = frames;
        None
    }

    /// Sets how many slots the next frames must leave free.
    fn leave(&mut self, slots: u32) {
        let _ = slots;
    }

    /// As [`send`](Self::send), from the `from`-th of `which` on, and as much as so much `work` is
    /// ([`FRAME_WORK`](super::FRAME_WORK)), or all of them. `from` becomes the next. Before all are
    /// sent, the other side may not see the last ones yet.
    fn send_some(
        &mut self,
        batch: &mut Batch,
        which: &[u16],
        from: &mut usize,
        work: usize,
        counters: &PortCounters,
    ) -> Outcome {
        let _ = work;
        let rest = &which[(*from).min(which.len())..];
        *from = which.len();
        self.send(batch, rest, counters)
    }

    /// Shows the other side what [`send_some`](Self::send_some) has not yet.
    fn flush(&mut self) {}

    /// Makes sure that the other side notices delivered frames.
    #[inline]
    fn notify(&mut self, counters: &PortCounters) -> Outcome {
        let _ = counters;
        Outcome::NOTHING
    }

    /// Asks for a wake-up when frames come. Returns whether it is now safe to sleep: if not,
    /// frames are there already. A link whose descriptors are edge-triggered has nothing to ask
    /// for: after a receive that found nothing, the next frame is an event.
    fn sleep(&mut self) -> bool {
        true
    }

    /// Takes back what [`sleep`](Self::sleep) asked for.
    fn wake(&mut self) {}

    /// The frames that the other side has not read, as [late](crate::late) ones; none for a link whose frames are not in
    /// memory.
    fn unread(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Called when its descriptor becomes readable while it is polled.
    fn notice(&mut self) {}

    /// The port is closed.
    fn close(&mut self) {}

    /// Whether the link's interface went down, so that it may go away without a word.
    fn is_down(&self) -> bool {
        false
    }

    /// Whether the link's interface no longer exists.
    fn is_gone(&self) -> bool {
        false
    }

    /// Another way out by the same link, for another lane to send by; none if the link has only
    /// one.
    fn another_way(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// Changes what the record of an attached link says. The error is the reason, as a sentence.
    fn set_record(&mut self, record: &LinkRecord) -> Result<(), String> {
        Err(format!("a {} link cannot be changed", record.kind().name()))
    }

    /// Brings counters up to date that the kernel keeps.
    fn catch_up(&mut self, counters: &PortCounters) {
        let _ = counters;
    }
}

/// A kind of link whose descriptors the switch's parent opens and attaches.
pub trait HostBackend: Kind + Sized {
    /// What the descriptors do not say; it travels with the request to attach them.
    type Record: Serialize + DeserializeOwned;

    /// Set if the port's interface or socket exists as long as its descriptors are open, in any
    /// process ([`Backend::files`]): the record with which another switch attaches them.
    const KEPT: Option<Self::Record> = None;

    /// The links of a port, one for each of its queues. The error is the reason, as a sentence.
    fn attach(record: Self::Record, link: Attachment<'_>) -> Result<Vec<Self>, String>;
}

impl<T: HostBackend> HostBackend for Box<T> {
    type Record = T::Record;

    const KEPT: Option<T::Record> = T::KEPT;

    fn attach(record: T::Record, link: Attachment<'_>) -> Result<Vec<Self>, String> {
        let links = T::attach(record, link)?;
        Ok(links.into_iter().map(Box::new).collect())
    }
}

/// A host link as it comes to the switch.
pub struct Attachment<'a> {
    /// The port's name.
    pub name: &'a str,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Its descriptors.
    pub files: Vec<OwnedFd>,
}

impl Attachment<'_> {
    /// The descriptors, if there are so many.
    pub fn exactly<const N: usize>(self) -> Result<[OwnedFd; N], String> {
        exactly(self.files)
    }
}

/// The descriptors that a request must come with.
pub fn exactly<const N: usize>(files: Vec<OwnedFd>) -> Result<[OwnedFd; N], String> {
    let found = files.len();
    let wrong = move |_| format!("{found} descriptors came with a request that needs {N}");
    files.try_into().map_err(wrong)
}

/// The result of a call on a link, besides what it counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Violations seen.
    pub violations: u32,
    /// The link no longer exists.
    pub gone: bool,
    /// Something was taken from the link, even if none of it became a frame: there may be more.
    /// Or something is left to be sent, and has to be offered again by polling.
    pub busy: bool,
    /// The other side may not have noticed the delivered frames: [notify](Backend::notify) it soon.
    pub notify: bool,
}

impl Outcome {
    pub(super) const NOTHING: Outcome = Outcome {
        violations: 0,
        gone: false,
        busy: false,
        notify: false,
    };
    pub(super) const BUSY: Outcome = Outcome {
        busy: true,
        ..Outcome::NOTHING
    };
    pub(crate) const GONE: Outcome = Outcome {
        gone: true,
        ..Outcome::NOTHING
    };
}
