//! A host interface's port by AF_XDP: rings shared with the kernel, one set for each of the
//! interface's queues.
//!
//! A socket of this kind knows nothing but bytes: it carries no segments, and completes no
//! checksums. So what leaves here is whole, cut and completed on the way into the UMEM, and what
//! comes is looked over for checksums that its sender left undone ([`offload::unfinished`]).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::offload::{self, ETHERNET, Segmenter, VnetHeader, checksum_of, tags_len};
use super::{BATCH, Batch, Body, HEAD, Outcome};
use crate::counters::{PortCounters, Reason};
use crate::sys::packet as socket;
use crate::sys::xdp::{self, Kick, Queue};

/// AF_XDP sockets on the queues of a host interface (see [`crate::links::HostLink`]).
pub struct XdpLink {
    queues: Vec<Queue>,
    /// Tells when the interface goes down or away, and keeps it promiscuous.
    watch: OwnedFd,
    /// Keeps the XDP program attached.
    _program: OwnedFd,
    mtu: u16,
    /// The queue to receive from next.
    next: usize,
    /// The port was woken and nothing was received since: perhaps by the interface going down.
    woken: bool,
    /// The interface went down and no frame has come since.
    down: bool,
}

impl XdpLink {
    /// A port on bound sockets, one for each of the interface's queues, whose UMEMs are the shares
    /// of `umem` in the same order; `mtu` is the interface's. `watch` is a socket that never
    /// receives, `program` the XDP program's link.
    pub fn new(
        sockets: Vec<OwnedFd>,
        umem: &OwnedFd,
        watch: OwnedFd,
        program: OwnedFd,
        mtu: u16,
    ) -> Result<XdpLink, Errno> {
        let size = rustix::fs::fstat(umem)?.st_size as usize;
        let chunk = size / sockets.len().max(1) / xdp::CHUNKS as usize;
        let queues = sockets.into_iter().enumerate();
        let queues = queues.map(|(i, socket)| Queue::map(socket, umem.as_fd(), i, chunk));
        Ok(XdpLink {
            queues: queues.collect::<Result<Vec<_>, _>>()?,
            watch,
            _program: program,
            mtu,
            next: 0,
            woken: false,
            down: false,
        })
    }

    /// What tells of frames to receive, and of the interface's end.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let queues = self.queues.iter().map(Queue::as_fd);
        queues.chain([self.watch.as_fd()])
    }

    pub(super) fn receive(&mut self, batch: &mut Batch, counters: &PortCounters) -> Outcome {
        let mut outcome = Outcome::NOTHING;
        for _ in 0..self.queues.len() {
            let room = (BATCH - batch.len) as u32;
            if room == 0 {
                break;
            }
            let i = self.next % self.queues.len();
            self.next = i + 1;
            let queue = &mut self.queues[i];
            let n = queue.received(room).min(room);
            for i in 0..n {
                stage(queue.frame(i), batch, counters);
            }
            if n > 0 {
                queue.release(n);
                self.down = false;
                outcome.busy = true;
            } else {
                queue.refill();
            }
            if !self.down && queue.is_behind() {
                let mut delivery = Delivery::new(queue, counters, &mut self.down);
                delivery.flush();
                outcome.gone |= delivery.gone;
                outcome.busy = true;
            }
        }
        if !outcome.busy && std::mem::take(&mut self.woken) {
            self.down |= socket::error(self.watch.as_fd()) == Some(Errno::NETDOWN);
        }
        outcome
    }

    pub(super) fn send(
        &mut self,
        batch: &mut Batch,
        which: &[u16],
        counters: &PortCounters,
    ) -> Outcome {
        let Some(queue) = self.queues.first_mut() else {
            return Outcome::GONE;
        };
        let mut delivery = Delivery::new(queue, counters, &mut self.down);
        if *delivery.down && !delivery.is_up_again() {
            counters.dropped(Reason::LinkDown, which.len() as u64);
            return delivery.outcome();
        }
        delivery.queue.collect();
        for &i in which {
            let frame = &batch.frames[usize::from(i)];
            let limit = usize::from(self.mtu) + ETHERNET + tags_len(&frame.head);
            let limit = limit.min(delivery.queue.room());
            match frame.body {
                Body::Guest(shared) if frame.len() <= limit => delivery.put(frame.len(), |room| {
                    let (head, rest) = room.split_at_mut(HEAD);
                    head.copy_from_slice(&frame.head);
                    shared.skip(HEAD).read(rest);
                }),
                Body::Guest(_) => counters.dropped(Reason::TooLong, 1),
                Body::Staged(cell) => {
                    let (bytes, vnet) = batch.stage.frame(cell);
                    delivery.put_staged(bytes, vnet, limit);
                }
            }
        }
        delivery.flush();
        counters.went_out(delivery.frames, delivery.bytes);
        delivery.outcome()
    }

    /// Whether every queue's frames are with the kernel: those that are not have to be offered
    /// again, unless the interface is down.
    pub(super) fn sleep(&mut self) -> bool {
        self.down || !self.queues.iter_mut().any(Queue::is_behind)
    }

    pub(super) fn mtu(&self) -> u16 {
        self.mtu
    }

    pub(super) fn set_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
    }

    pub(super) fn wake(&mut self) {
        self.woken = true;
    }

    pub(super) fn is_down(&self) -> bool {
        self.down
    }

    pub(super) fn is_gone(&self) -> bool {
        !socket::is_bound(self.watch.as_fd())
    }

    pub(super) fn catch_up(&mut self, counters: &PortCounters) {
        let lost = self.queues.iter_mut().map(Queue::lost).sum();
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
struct Delivery<'a> {
    queue: &'a mut Queue,
    counters: &'a PortCounters,
    down: &'a mut bool,
    gone: bool,
    frames: u64,
    bytes: u64,
}

impl<'a> Delivery<'a> {
    fn new(queue: &'a mut Queue, counters: &'a PortCounters, down: &'a mut bool) -> Delivery<'a> {
        Delivery {
            queue,
            counters,
            down,
            gone: false,
            frames: 0,
            bytes: 0,
        }
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            gone: self.gone,
            ..Outcome::NOTHING
        }
    }

    /// Asks an interface that was down whether it still is, by what was left in the ring.
    fn is_up_again(&mut self) -> bool {
        *self.down = false;
        self.flush();
        !*self.down && !self.gone
    }

    /// Has the kernel take what is queued.
    fn flush(&mut self) {
        let (kick, dropped) = self.queue.flush();
        if dropped > 0 {
            self.counters.dropped(Reason::LinkDown, dropped);
        }
        match kick {
            Kick::Done | Kick::Full => {}
            Kick::Down => *self.down = true,
            Kick::Gone => self.gone = true,
        }
    }

    /// Queues a frame of a host link, doing what is left to do on it.
    fn put_staged(&mut self, frame: &[u8], vnet: VnetHeader, limit: usize) {
        if vnet.is_segmented() {
            return self.put_segments(frame, vnet, limit);
        }
        if frame.len() > limit {
            return self.counters.dropped(Reason::TooLong, 1);
        }
        let checksum = match vnet.needs_checksum().then(|| checksum_of(frame, vnet)) {
            None => None,
            Some(Ok(checksum)) => Some(checksum),
            Some(Err(_)) => return self.counters.dropped(Reason::Offload, 1),
        };
        self.put(frame.len(), |room| {
            room[..frame.len()].copy_from_slice(frame);
            if let Some((at, sum)) = checksum {
                room[at..at + sum.len()].copy_from_slice(&sum);
            }
        });
    }

    fn put_segments(&mut self, frame: &[u8], vnet: VnetHeader, limit: usize) {
        let Ok(mut segments) = Segmenter::new(frame, vnet) else {
            return self.counters.dropped(Reason::Offload, 1);
        };
        if segments.longest() > limit {
            let count = segments.count() as u64;
            return self.counters.dropped(Reason::TooLong, count);
        }
        while let Some((headers, payload)) = segments.next_segment() {
            self.put(headers.len() + payload.len(), |room| {
                let (front, rest) = room.split_at_mut(headers.len());
                front.copy_from_slice(headers);
                rest[..payload.len()].copy_from_slice(payload);
            });
        }
    }

    /// Queues a frame of `len` bytes that `write` puts into its room.
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
}
