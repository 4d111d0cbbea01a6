//! A host interface's port by AF_XDP: rings shared with the kernel, a link for each of the
//! interface's queues.
//!
//! The socket carries bytes only: no segments, and no partial checksums. So egress frames are
//! segmented and completed on the way into the UMEM, and ingress frames are checked for partial
//! checksums ([`offload::unfinished`]).

mod open;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::backend::{Attachment, Backend, HostBackend, Kind, Outcome};
use super::offload::{self, ETHERNET};
use super::whole::{self, Whole};
use super::{BATCH, Batch};
use crate::counters::{PortCounters, Reason};
use crate::sys::packet as socket;
use crate::sys::xdp::{self, Kick, XdpQueue};

pub(super) use open::open;
pub use open::{XdpError, XdpMode};

/// Frames for which the kernel is called at once; fewer may wait for others to come, since the call
/// costs as much as several frames do.
const KICK: u32 = 64;

/// The AF_XDP socket of one queue of a host interface (see [`super::links::HostLink`]).
pub struct XdpLink {
    queue: XdpQueue,
    /// What the queues of an interface have in common.
    common: Arc<Common>,
    /// This is the queue that watches the interface for all.
    watches: bool,
    mtu: u16,
    /// The port was woken and nothing was received since: perhaps by the interface going down.
    woken: bool,
    /// The interface went down and no frame has come since.
    down: bool,
}

struct Common {
    /// Tells when the interface goes down or away, and keeps it promiscuous.
    watch: OwnedFd,
    /// Keeps the XDP program attached.
    _program: OwnedFd,
}

impl XdpLink {
    /// A link for each bound socket of an interface, one for each of its queues, whose UMEMs are
    /// the shares of `umem` in the same order; `mtu` is the interface's. `watch` is a socket that
    /// never receives, `program` the XDP program's link.
    pub fn of_queues(
        sockets: Vec<OwnedFd>,
        umem: &OwnedFd,
        watch: OwnedFd,
        program: OwnedFd,
        mtu: u16,
    ) -> Result<Vec<XdpLink>, Errno> {
        let size = rustix::fs::fstat(umem)?.st_size as usize;
        let chunk = size / sockets.len().max(1) / xdp::CHUNKS as usize;
        let common = Arc::new(Common {
            watch,
            _program: program,
        });
        let links = sockets.into_iter().enumerate().map(|(i, socket)| {
            Ok(XdpLink {
                queue: XdpQueue::map(socket, umem.as_fd(), i, chunk)?,
                common: Arc::clone(&common),
                watches: i == 0,
                mtu,
                woken: false,
                down: false,
            })
        });
        links.collect()
    }
}

impl HostBackend for XdpLink {
    type Record = XdpMode;

    /// With the UMEMs' memory file, a packet socket that watches the interface, the XDP program's
    /// link, and the socket of each queue.
    fn attach(_: XdpMode, link: Attachment<'_>) -> Result<Vec<XdpLink>, String> {
        let Attachment { name, mtu, files } = link;
        let mut files = files.into_iter();
        let [Some(umem), Some(watch), Some(program)] = [files.next(), files.next(), files.next()]
        else {
            return Err("an XDP link came without its descriptors".into());
        };
        let links = XdpLink::of_queues(files.collect(), &umem, watch, program, mtu);
        links.map_err(|error| {
            format!(
                "cannot map the rings of ‘{name}’: {error}; this needs Linux 6.4 or later, and unused sockets: attach it by AF_PACKET (mode packet)"
            )
        })
    }
}

impl Kind for XdpLink {
    const UPLINK: bool = true;
    const IN_MEMORY: bool = true;
    const INTERFACE: bool = true;
}

impl Backend for XdpLink {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let watch = self.watches.then(|| self.common.watch.as_fd());
        [self.queue.as_fd()].into_iter().chain(watch).collect()
    }

    fn receive(&mut self, batch: &mut Batch, counters: &PortCounters) -> Outcome {
        let mut outcome = Outcome::NOTHING;
        let n = self.queue.received(BATCH as u32).min(BATCH as u32);
        for i in 0..n {
            stage(self.queue.frame(i), batch, counters);
        }
        if n > 0 {
            self.queue.release(n);
            self.down = false;
            outcome.busy = true;
        } else {
            self.queue.refill();
        }
        if !self.down && self.queue.is_behind() {
            let mut delivery = XdpDelivery::new(&mut self.queue, counters, &mut self.down);
            delivery.flush();
            outcome.gone |= delivery.gone;
            outcome.busy = true;
        }
        if !outcome.busy && std::mem::take(&mut self.woken) && self.watches {
            self.down |= socket::error(self.common.watch.as_fd()) == Some(Errno::NETDOWN);
        }
        outcome
    }

    fn send(&mut self, batch: &mut Batch, which: &[u16], counters: &PortCounters) -> Outcome {
        let mut delivery = XdpDelivery::new(&mut self.queue, counters, &mut self.down);
        if *delivery.down && !delivery.is_up_again() {
            counters.dropped(Reason::LinkDown, which.len() as u64);
            return delivery.outcome();
        }
        delivery.queue.collect();
        let longest = delivery.queue.room();
        for &i in which {
            whole::deliver(batch, i, self.mtu, longest, &mut delivery);
        }
        if delivery.queue.written() >= KICK {
            delivery.flush();
        }
        counters.went_out(delivery.frames, delivery.bytes);
        delivery.outcome()
    }

    /// Makes the kernel send the waiting frames.
    fn notify(&mut self, counters: &PortCounters) -> Outcome {
        let mut delivery = XdpDelivery::new(&mut self.queue, counters, &mut self.down);
        delivery.flush();
        delivery.outcome()
    }

    /// Whether all frames are with the kernel: the others are offered again, unless
    /// the interface is down.
    fn sleep(&mut self) -> bool {
        self.down || !self.queue.is_behind()
    }

    fn mtu(&self) -> u16 {
        self.mtu
    }

    fn set_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
    }

    fn wake(&mut self) {
        self.woken = true;
    }

    fn is_down(&self) -> bool {
        self.down
    }

    fn is_gone(&self) -> bool {
        !socket::is_bound(self.common.watch.as_fd())
    }

    fn catch_up(&mut self, counters: &PortCounters) {
        let lost = self.queue.lost();
        if lost > 0 {
            counters.dropped(Reason::SocketFull, lost);
        }
    }
}

/// Takes a received frame into the batch.
fn stage(frame: &[u8], batch: &mut Batch, counters: &PortCounters) {
    if frame.len() < ETHERNET {
        return counters.dropped(Reason::Runt, 1);
    }
    let i = batch.len;
    batch.stage.room_for_frame(i)[..frame.len()].copy_from_slice(frame);
    let vnet = offload::unfinished(frame);
    match batch.stage.take_whole(i, frame.len(), vnet) {
        Ok(frame) => batch.push(frame),
        Err(reason) => counters.dropped(reason, 1),
    }
}

/// How one delivery to the interface stands.
struct XdpDelivery<'a> {
    queue: &'a mut XdpQueue,
    counters: &'a PortCounters,
    down: &'a mut bool,
    gone: bool,
    /// The kernel has not taken everything.
    behind: bool,
    frames: u64,
    bytes: u64,
}

impl<'a> XdpDelivery<'a> {
    fn new(
        queue: &'a mut XdpQueue,
        counters: &'a PortCounters,
        down: &'a mut bool,
    ) -> XdpDelivery<'a> {
        XdpDelivery {
            queue,
            counters,
            down,
            gone: false,
            behind: false,
            frames: 0,
            bytes: 0,
        }
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            gone: self.gone,
            // What the kernel has not taken has to be offered again.
            busy: !*self.down && self.behind,
            notify: self.queue.written() > 0,
            ..Outcome::NOTHING
        }
    }

    /// Asks an interface that was down whether it still is, with the frames that are still in the
    /// ring.
    fn is_up_again(&mut self) -> bool {
        *self.down = false;
        self.flush();
        !*self.down && !self.gone
    }

    /// Makes the kernel take the queued frames.
    fn flush(&mut self) {
        let (kick, dropped) = self.queue.flush();
        if dropped > 0 {
            self.counters.dropped(Reason::LinkDown, dropped);
        }
        match kick {
            Kick::Done => self.behind = false,
            Kick::Full => self.behind = true,
            Kick::Down => *self.down = true,
            Kick::Gone => self.gone = true,
        }
    }
}

impl Whole for XdpDelivery<'_> {
    #[inline]
    fn put(&mut self, len: usize, write: impl FnOnce(&mut [u8])) {
        if !self.queue.has_room() {
            // Cut frames may be many times what the ring holds.
            self.flush();
            self.queue.collect();
        }
        let Some((chunk, room)) = self.queue.take() else {
            return self.counters.dropped(Reason::NoBuffer, 1);
        };
        write(room);
        self.queue.push(chunk, len);
        self.frames += 1;
        self.bytes += len as u64;
    }

    fn counters(&self) -> &PortCounters {
        self.counters
    }
}
