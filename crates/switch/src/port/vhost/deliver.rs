//! Frames that a driver receives: delivered into its buffers.

use abi::SharedBytes;

use super::device::{Features, HEADER_MAX, PAIRS_MAX};
use super::memory::Memory;
use super::queue::Virtqueue;
use super::rings::{Broken, Head, flags};
use super::{PIECES, Scratch, VhostLink};
use crate::counters::{PortCounters, Reason};
use crate::port::flow_hash::flow_hash;
use crate::port::offload::{Segmenter, VnetHeader, checksum_of};
use crate::port::{BATCH, Batch, Body, HEAD, Outcome};

/// Where a frame is written, piece by piece.
struct Room<'a> {
    pieces: &'a [SharedBytes],
    /// How much of the first piece is written already.
    at: usize,
}

impl Room<'_> {
    /// The room that is left in one piece.
    #[inline(always)]
    fn piece(&mut self) -> Option<SharedBytes> {
        while let Some(piece) = self.pieces.first() {
            if self.at < piece.len() {
                return Some(piece.skip(self.at));
            }
            self.at = 0;
            self.pieces = &self.pieces[1..];
        }
        None
    }

    #[inline(always)]
    fn write(&mut self, mut bytes: &[u8]) {
        while let Some(piece) = self.piece().filter(|_| !bytes.is_empty()) {
            let n = piece.write(bytes);
            self.at += n;
            bytes = &bytes[n..];
        }
    }

    #[inline(always)]
    fn copy(&mut self, mut bytes: SharedBytes) {
        while let Some(piece) = self.piece().filter(|_| !bytes.is_empty()) {
            let n = bytes.copy_to(&piece);
            self.at += n;
            bytes = bytes.skip(n);
        }
    }
}

/// How one delivery to a driver stands.
struct VhostDelivery<'a> {
    queue: &'a mut Virtqueue,
    memory: &'a Memory,
    scratch: &'a mut Scratch,
    counters: &'a PortCounters,
    header_len: usize,
    /// Whether a frame may fill several buffers.
    merge: bool,
    /// Buffers whose heads have been read.
    peeked: usize,
    /// There may be more than those.
    more: bool,
    /// Buffers that are filled, and the position behind them.
    filled: usize,
    end: u16,
    frames: u64,
    bytes: u64,
}

impl VhostLink {
    /// Delivers frames, each flow by the same queue if the driver has several.
    pub(super) fn deliver(
        &mut self,
        batch: &Batch,
        which: &[u16],
        counters: &PortCounters,
    ) -> Outcome {
        let mut ready = [0; PAIRS_MAX];
        let mut queues = 0;
        for index in (0..self.device.queues.len()).step_by(2) {
            if self.device.queues[index].is_ready() {
                ready[queues] = index;
                queues += 1;
            }
        }
        let delivered = match &ready[..queues] {
            _ if self.broken => None,
            [] => None,
            [one] => Some(self.deliver_by(*one, batch, which, counters)),
            several => Some(self.spread(several, batch, which, counters)),
        };
        match delivered {
            None => {
                counters.dropped(Reason::LinkDown, which.len() as u64);
                Outcome::NOTHING
            }
            Some(Ok(())) if !self.device.memory.has_failed() => Outcome::NOTHING,
            Some(_) => {
                counters.dropped(Reason::Violation, 1);
                self.break_off();
                Outcome {
                    violations: 1,
                    ..Outcome::NOTHING
                }
            }
        }
    }

    /// Delivers frames by several queues.
    fn spread(
        &mut self,
        queues: &[usize],
        batch: &Batch,
        which: &[u16],
        counters: &PortCounters,
    ) -> Result<(), Broken> {
        let mut share = std::mem::take(&mut self.scratch.share);
        let mut delivered = Ok(());
        for (i, &index) in queues.iter().enumerate() {
            let mine = |&&frame: &&u16| {
                let head = batch.frames[usize::from(frame)].head();
                flow_hash(head) as usize % queues.len() == i
            };
            share.clear();
            share.extend(which.iter().filter(mine));
            if !share.is_empty() {
                delivered = delivered.and(self.deliver_by(index, batch, &share, counters));
            }
        }
        self.scratch.share = share;
        delivered
    }

    fn deliver_by(
        &mut self,
        index: usize,
        batch: &Batch,
        which: &[u16],
        counters: &PortCounters,
    ) -> Result<(), Broken> {
        let offers = self.device.features;
        let header_len = self.device.header_len();
        let merge = self.device.has(Features::MRG_RXBUF);
        let queue = &mut self.device.queues[index];
        let mut delivery = VhostDelivery {
            end: queue.next(),
            queue,
            memory: &self.device.memory,
            scratch: &mut self.scratch,
            counters,
            header_len,
            merge,
            peeked: 0,
            more: false,
            filled: 0,
            frames: 0,
            bytes: 0,
        };
        delivery.look_ahead(which.len())?;
        let put = delivery.put_all(batch, which, self.mtu, offers);
        delivery.give_back();
        put
    }
}

impl VhostDelivery<'_> {
    /// Reads where the next buffers begin, and has their first lines brought here.
    fn look_ahead(&mut self, frames: usize) -> Result<(), Broken> {
        let heads = &mut self.scratch.rooms[..frames.min(BATCH)];
        self.peeked = self.queue.peek(heads)?;
        self.more = self.peeked == heads.len();
        for head in &heads[..self.peeked] {
            if let Some(room) = self.memory.at(head.first.address, 2 * HEAD) {
                room.prefetch_write();
                room.skip(HEAD).prefetch_write();
            }
        }
        Ok(())
    }

    fn put_all(
        &mut self,
        batch: &Batch,
        which: &[u16],
        mtu: u16,
        offers: Features,
    ) -> Result<(), Broken> {
        for &i in which {
            let frame = &batch.frames[usize::from(i)];
            if !batch.fits(frame, mtu) {
                self.counters.dropped(Reason::TooLong, 1);
                continue;
            }
            match frame.body {
                Body::Guest(shared) => {
                    let len = frame.len();
                    self.put(VnetHeader::NONE, len, |room| {
                        room.write(&frame.head[..len.min(HEAD)]);
                        room.copy(shared.skip(HEAD));
                    })?;
                }
                Body::Staged(cell) => {
                    let (bytes, vnet) = batch.stage.frame(cell);
                    self.put_staged(bytes, vnet, offers)?;
                }
            }
        }
        Ok(())
    }

    /// Delivers a frame with what the driver does not do itself done.
    fn put_staged(
        &mut self,
        bytes: &[u8],
        vnet: VnetHeader,
        offers: Features,
    ) -> Result<(), Broken> {
        let checks = offers.contains(Features::GUEST_CSUM);
        if vnet.is_segmented() && !(checks && cuts(vnet, offers)) {
            return self.put_segments(bytes, vnet);
        }
        if vnet.needs_checksum() && !checks {
            let Ok((at, sum)) = checksum_of(bytes, vnet) else {
                self.counters.dropped(Reason::Offload, 1);
                return Ok(());
            };
            return self.put(VnetHeader::NONE, bytes.len(), |room| {
                room.write(&bytes[..at]);
                room.write(&sum);
                room.write(&bytes[at + 2..]);
            });
        }
        let header = if checks {
            vnet.to_bytes()
        } else {
            VnetHeader::NONE
        };
        self.put(header, bytes.len(), |room| room.write(bytes))
    }

    fn put_segments(&mut self, bytes: &[u8], vnet: VnetHeader) -> Result<(), Broken> {
        let Ok(mut segments) = Segmenter::new(bytes, vnet) else {
            self.counters.dropped(Reason::Offload, 1);
            return Ok(());
        };
        while let Some((headers, payload)) = segments.next_segment() {
            self.put(VnetHeader::NONE, headers.len() + payload.len(), |room| {
                room.write(headers);
                room.write(payload);
            })?;
        }
        Ok(())
    }

    /// The `i`-th buffer, at the position `at`, if it is available.
    #[inline(always)]
    fn head(&self, i: usize, at: u16) -> Result<Option<Head>, Broken> {
        match self.scratch.rooms.get(i) {
            Some(&head) if i < self.peeked => Ok(Some(head)),
            _ if self.more => self.queue.peek_at(at),
            _ => Ok(None),
        }
    }

    /// Fills the next buffer, or buffers, with a header and the `len` bytes that `write` puts
    /// behind it.
    #[inline(always)]
    fn put(
        &mut self,
        vnet: [u8; VnetHeader::LEN],
        len: usize,
        write: impl FnOnce(&mut Room<'_>),
    ) -> Result<(), Broken> {
        let Some(head) = self.head(self.filled, self.end)? else {
            self.counters.dropped(Reason::RingFull, 1);
            return Ok(());
        };
        let needed = self.header_len + len;
        let mut header = [0; HEADER_MAX];
        header[..VnetHeader::LEN].copy_from_slice(&vnet);
        // num_buffers
        header[VnetHeader::LEN] = 1;
        let whole = head.first.flags & (flags::NEXT | flags::INDIRECT) == 0;
        if whole && head.first.len as usize >= needed {
            let piece = [Virtqueue::piece(&head.first, self.memory, true)?];
            let mut room = Room {
                pieces: &piece,
                at: 0,
            };
            room.write(&header[..self.header_len]);
            write(&mut room);
            self.queue.note(&head, needed as u32);
            self.filled += 1;
            self.end = head.after;
        } else if let Some(buffers) = self.gather(head, needed)? {
            header[VnetHeader::LEN..].copy_from_slice(&buffers.to_le_bytes());
            let mut room = Room {
                pieces: &self.scratch.pieces,
                at: 0,
            };
            room.write(&header[..self.header_len]);
            write(&mut room);
            for (head, written) in &self.scratch.filled {
                self.queue.note(head, *written);
                self.end = head.after;
            }
            self.filled += usize::from(buffers);
        } else {
            return Ok(());
        }
        self.frames += 1;
        self.bytes += len as u64;
        Ok(())
    }

    /// Finds room for `needed` bytes in the next buffers, from `head` on. Returns their number;
    /// `None` if the room is too small, which is counted.
    fn gather(&mut self, mut head: Head, needed: usize) -> Result<Option<u16>, Broken> {
        self.scratch.pieces.clear();
        self.scratch.filled.clear();
        let mut left = needed;
        loop {
            let Scratch { pieces, filled, .. } = &mut *self.scratch;
            let before = left;
            self.queue.pieces(&head, self.memory, true, |piece| {
                left -= left.min(piece.len());
                pieces.push(piece);
                left > 0 && pieces.len() < PIECES
            })?;
            filled.push((head, (before - left) as u32));
            let buffers = filled.len();
            if left == 0 {
                return Ok(Some(buffers as u16));
            }
            let reason = if !self.merge || pieces.len() == PIECES || buffers == PIECES {
                Reason::TooLong
            } else {
                match self.head(self.filled + buffers, head.after)? {
                    Some(next) => {
                        head = next;
                        continue;
                    }
                    None => Reason::RingFull,
                }
            };
            self.counters.dropped(reason, 1);
            return Ok(None);
        }
    }

    /// Publishes the filled buffers to the driver.
    fn give_back(&mut self) {
        self.queue.take(self.end);
        self.queue.give_back(self.end);
        self.counters.went_out(self.frames, self.bytes);
    }
}

/// Whether a driver that accepted these features takes such a frame uncut.
fn cuts(vnet: VnetHeader, offers: Features) -> bool {
    let needed = match vnet.tcp_over() {
        Some(4) => Features::GUEST_TSO4,
        Some(6) => Features::GUEST_TSO6,
        _ => return false,
    };
    let marks = if vnet.has_congestion_marks() {
        Features::GUEST_ECN
    } else {
        Features::empty()
    };
    offers.contains(needed | marks)
}
