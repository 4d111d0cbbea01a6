//! A guest's port: one interface's packet rings in its data region.
//!
//! Nothing in the region is trusted. `abi` checks cursors, slots and buffer indices at each read.
//! The first bytes of a frame are copied out before they are read, and the copy is delivered. A
//! frame's other bytes are copied once and may be anything. A breach of the rules is a
//! [`Violation`] and is counted; the port is closed when there are too many.
//!
//! A guest that accepts segments ([`accepts::SEGMENTS`]) gets segmented packets over as many slots
//! as they need, and frames with a partial checksum. The port checks what the guest says of its own
//! frames, and stages them, so that they go on like frames of a host link. For all other guests the
//! port segments frames to the MTU and completes their checksums.

use abi::SharedBytes;
use abi::chain::{self, Broken, follow};
use abi::region::{FRAME_MAX, PART_MAX, PART_OFFSET, RECEIVE_OFFSET, accepts};
use abi::ring::{SLOTS_PER_LINE, Slot, Violation, flags};
use abi::settle;
use rustix::thread::futex;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::backend::{Backend, Kind, Outcome};
use super::offload::{
    ETHERNET, Segmenter, VLAN, VnetHeader, checksum_of, is_own_checksum, tags_len,
};
use super::{BATCH, Batch, Body, FRAME_WORK, Frame, HEAD, PassedFrame};
use crate::counters::{PortCounters, Reason};
use crate::memory::SwitchSide;

/// Largest MTU that a guest's buffers allow, in bytes: with an Ethernet header and a VLAN tag a
/// frame fills the room behind the receive offset.
pub const MTU_MAX: u16 = (FRAME_MAX - ETHERNET - VLAN) as u16;

/// Part of a receive ring that is reserved for senders of few frames: one slot in so many.
pub(crate) const RING_RESERVE: u32 = 8;
/// How many frames ahead the lines of long frames are prefetched. (A frame of 1514 bytes out of
/// another processor's cache takes 165 ns to copy if they are all asked for at once, and 150 so.)
const PREFETCH_DISTANCE: usize = 2;
/// Least length of a long frame, in bytes. The processor overlaps the copies of shorter ones by
/// itself.
const LONG: usize = 256;
/// How often all slots of a ring have been moved when the interface is in steady use.
const STEADY: u32 = 64;
/// Slots filled between two publishes of a delivery in pieces, about.
const PUBLISH: u32 = 16;
/// Most frames that are taken at a time on a ring's first lap.
const FIRST_LAP_FRAMES: u32 = 8;
/// Work between two publishes on it, in bytes ([`FRAME_WORK`]): that of a few frames.
const FIRST_LAP_WORK: usize = 2 << 10;
/// Segments cut between two publishes.
const CUT_PUBLISH: u32 = 16;
/// Slots that a sleeping guest is left to sleep on before it is woken, at most: to wake it takes as
/// long as it takes to work off about as many.
const UNSEEN: u32 = 192;

/// How long a sender is held back for a guest whose ring is full: about as long as it takes the
/// sender to find its own ring full and to leave a processor that both share.
const HOLD: Duration = Duration::from_micros(500);

/// The switch's side of one of a guest's interfaces.
pub struct GuestLink {
    side: SwitchSide,
    mtu: u16,
    /// Slots of the transmit ring that the current batch has taken.
    taken: u32,
    /// Slots published since it was last made sure that the guest sees them.
    unseen: u32,
    /// Slots that the next delivery leaves free.
    leaves: u32,
    /// Slots that were filled and not published, in the midst of a delivery.
    filled: u32,
    /// Slots yet to be moved until the interface is said to be in steady use.
    until_busy: u32,
    /// Since when the receive ring has been full, or was, and has not been half empty since.
    full: Option<Instant>,
}

/// What a slot says of a frame whose checksums the switch vouches for.
const VALID: Slot = Slot {
    flags: flags::CHECKSUM_VALID,
    ..Slot::spent(0)
};
/// What a guest may say of a frame of its own.
const KNOWN: u16 = flags::OFFLOADED | flags::CHECKSUM_VALID;

/// How one delivery to a guest stands.
struct GuestDelivery<'a> {
    counters: &'a PortCounters,
    /// Whether the guest takes frames over several slots and with work left to do.
    accepts_segments: bool,
    /// Slots that were free after the last publish.
    free: u32,
    /// Slots filled since then.
    filled: u32,
    frames: u32,
    bytes: u64,
    violations: u32,
}

impl GuestLink {
    /// A port on `side`; `mtu` is at most [`MTU_MAX`].
    pub fn new(side: SwitchSide, mtu: u16) -> GuestLink {
        let mut link = GuestLink {
            until_busy: STEADY * side.region.geometry().slots(),
            side,
            mtu: mtu.min(MTU_MAX),
            taken: 0,
            unseen: 0,
            full: None,
            leaves: 0,
            filled: 0,
        };
        link.wake();
        link
    }

    /// The frame that a slot of the transmit ring names, whole as it is.
    #[inline]
    fn check(&self, slot: Slot) -> Result<SharedBytes, Reason> {
        let bytes = self
            .side
            .region
            .frame(slot)
            .map_err(|_| Reason::Violation)?;
        if bytes.len() < ETHERNET {
            return Err(Reason::Runt);
        }
        Ok(bytes)
    }

    /// What a slot says that holds no frame.
    #[cold]
    fn message(&self, slot: Slot) -> Result<[u8; settle::BYTES], Reason> {
        let bytes = self.side.region.frame(slot);
        let bytes = bytes.map_err(|_| Reason::Violation)?;
        bytes.read_array(0).ok_or(Reason::Runt)
    }

    /// Copies a frame over several slots, or on which something is left to do, into cell `cell` of
    /// the stage. `first` is its first slot, the `from`-th of `filled`; `next` becomes the slot
    /// behind its last one.
    #[cold]
    fn stage(
        &self,
        batch: &mut Batch,
        cell: usize,
        first: Slot,
        from: u32,
        filled: u32,
        next: &mut u32,
    ) -> Result<Frame, Reason> {
        let region = &self.side.region;
        let room = batch.stage.room_for_frame(cell);
        let (mut len, mut broken) = (0, false);
        let mut read = |slot: Slot| match region.frame(slot) {
            // The room has `chain::BYTES`, and no chain has more.
            Ok(bytes) => len += bytes.read(&mut room[len..]),
            Err(_) => broken = true,
        };
        read(first);
        match follow(&self.side.transmit, from, filled, first, read) {
            Ok(slots) => *next = from + slots,
            Err(Broken { slots, .. }) => {
                *next = from + slots;
                broken = true;
            }
        }
        match () {
            () if broken => Err(Reason::Violation),
            () if len < ETHERNET => Err(Reason::Runt),
            () if first.flags & !KNOWN != 0 => Err(Reason::Offload),
            () => {
                let vnet = VnetHeader::of_slot(first);
                let frame = batch.stage.take_whole(cell, len, vnet)?;
                let (bytes, vnet) = batch.stage.frame(cell as u16);
                match vnet.is_segmented() || !vnet.needs_checksum() || is_own_checksum(bytes, vnet)
                {
                    true => Ok(frame),
                    false => Err(Reason::Offload),
                }
            }
        }
    }

    /// Wakes a guest that sleeps on a full ring, once that is half empty: else it would wake for
    /// each batch.
    #[inline]
    fn wake_for_room(&mut self) {
        let half = self.side.region.geometry().slots() / 2;
        let left = self.side.transmit.filled(half + 1);
        if left.is_ok_and(|left| left > half) {
            return;
        }
        if let Some(cpu) = self.side.transmit.take_producer_sleeper() {
            self.wake_guest(cpu);
        }
    }

    /// Counts slots that were moved.
    #[inline]
    fn moved(&mut self, slots: u32) {
        if self.until_busy > 0 {
            self.until_busy = self.until_busy.saturating_sub(slots);
            if self.until_busy == 0 {
                self.side.say_busy();
            }
        }
    }

    /// Whether slots are moved for the first time, about. Each page behind them is a page fault then: a whole batch would
    /// keep its first frame back for a tenth of a millisecond.
    #[inline]
    fn is_first_lap(&self) -> bool {
        self.until_busy > (STEADY - 1) * self.side.region.geometry().slots()
    }

    /// Begins behind the first lap.
    #[cfg(test)]
    pub fn behind_first_lap(mut self) -> GuestLink {
        self.until_busy -= self.side.region.geometry().slots();
        self
    }

    /// Number of slots that may be filled, checked up to `wanted`.
    #[inline]
    fn free(&mut self, wanted: u32) -> Result<u32, Violation> {
        let free = self.side.receive.free(wanted + self.leaves)?;
        Ok(free.saturating_sub(self.leaves))
    }

    /// Asks for the first lines of the rooms of so many frames, and for the next ones' slots.
    #[inline(always)]
    fn prefetch_rooms(&self, frames: u32, free: u32) {
        for i in (frames..free.min(2 * frames)).step_by(SLOTS_PER_LINE as usize) {
            // For the next batch.
            self.side.receive.prefetch(i);
        }
        for i in 0..frames.min(free) {
            let spent = self.side.receive.peek(i);
            if let Ok(room) = self.side.region.receive_buffer(spent.buffer, HEAD) {
                room.prefetch_write();
            }
        }
    }

    /// Source and destination of the copy of a long frame that is delivered [`PREFETCH_DISTANCE`]
    /// frames later.
    #[inline(always)]
    fn later(
        &self,
        delivery: &GuestDelivery<'_>,
        frame: &Frame,
    ) -> Option<(SharedBytes, SharedBytes)> {
        let slot = delivery.filled + PREFETCH_DISTANCE as u32;
        match frame.body {
            Body::Guest(shared) if frame.len() >= LONG && slot < delivery.free => {
                let spent = self.side.receive.peek(slot);
                let room = self
                    .side
                    .region
                    .receive_buffer(spent.buffer, frame.len())
                    .ok()?;
                Some((shared.skip(HEAD), room.skip(HEAD)))
            }
            _ => None,
        }
    }

    /// Longest frame that the guest takes, in bytes: VLAN tags come on top of the MTU.
    #[inline(always)]
    fn limit(&self, head: &[u8]) -> usize {
        (usize::from(self.mtu) + ETHERNET + tags_len(head)).min(FRAME_MAX)
    }

    /// Publishes the filled slots to the guest. A sleeping guest is woken at once after many
    /// frames, else when the lane [notifies](super::Link::notify).
    #[inline]
    fn publish(&mut self, delivery: &mut GuestDelivery<'_>) {
        if delivery.filled > 0 {
            self.side.receive.publish(delivery.filled);
            self.unseen += delivery.filled;
            self.moved(delivery.filled);
            delivery.filled = 0;
            if self.unseen >= UNSEEN {
                self.wake_for_news();
            }
        }
    }

    /// Makes sure that the guest sees delivered frames; wakes it if it sleeps.
    fn wake_for_news(&mut self) {
        self.unseen = 0;
        if let Some(cpu) = self.side.receive.take_consumer_sleeper() {
            self.wake_guest(cpu);
        }
    }

    /// Publishes now and then, and sees what the guest has emptied meanwhile: a batch of frames
    /// to be cut may be many times what the ring holds.
    fn keep_up(&mut self, delivery: &mut GuestDelivery<'_>) {
        if delivery.filled >= CUT_PUBLISH || delivery.filled == delivery.free {
            self.refresh(delivery);
        }
    }

    fn refresh(&mut self, delivery: &mut GuestDelivery<'_>) {
        self.publish(delivery);
        let slots = self.side.region.geometry().slots();
        // A cursor out of bounds is found and counted by the next delivery.
        delivery.free = self.free(slots).unwrap_or(0);
    }

    /// Delivers a staged frame, completing and cutting it as far as the guest leaves that to
    /// the port.
    fn put_staged(&mut self, delivery: &mut GuestDelivery<'_>, frame: &[u8], vnet: VnetHeader) {
        self.keep_up(delivery);
        if vnet.is_segmented() {
            return self.put_segments(delivery, frame, vnet);
        }
        if frame.len() > self.limit(frame) {
            return delivery.counters.dropped(Reason::TooLong, 1);
        }
        if !vnet.needs_checksum() || (delivery.accepts_segments && is_own_checksum(frame, vnet)) {
            return self.put(delivery, frame.len(), vnet.to_slot(), |room| {
                room.write(frame);
            });
        }
        match checksum_of(frame, vnet) {
            Ok((at, sum)) => self.put(delivery, frame.len(), VALID, |room| {
                room.write(frame);
                room.write_array(at, &sum);
            }),
            Err(_) => delivery.counters.dropped(Reason::Offload, 1),
        }
    }

    /// Delivers a staged frame behind a slot that says how many others of its flow were passed on elsewhere, if there is
    /// room for both.
    #[cold]
    fn put_told(
        &mut self,
        delivery: &mut GuestDelivery<'_>,
        frame: &[u8],
        vnet: VnetHeader,
        told: &mut PassedFrame,
    ) {
        // Nothing may be published between the slot and the frame: without the frame, the slot is taken back.
        let needed = 2 + chain::slots_for(frame.len().min(chain::BYTES));
        let room = delivery.free - delivery.filled;
        if delivery.filled + 1 >= CUT_PUBLISH || room < needed {
            self.refresh(delivery);
        }
        if delivery.free < delivery.filled + needed {
            return self.put_staged(delivery, frame, vnet);
        }
        let (at, frames) = (delivery.filled, delivery.frames);
        let spent = self.side.receive.peek(at);
        self.side
            .receive
            .fill(at, told.passed.to_slot(spent.buffer));
        delivery.filled += 1;
        self.put_staged(delivery, frame, vnet);
        told.told = delivery.frames > frames;
        if !told.told && delivery.filled == at + 1 {
            self.side.receive.fill(at, Slot::spent(spent.buffer));
            delivery.filled = at;
        }
    }

    /// Delivers a frame that stands for several: as it is, if the guest takes it, else cut.
    fn put_segments(&mut self, delivery: &mut GuestDelivery<'_>, frame: &[u8], vnet: VnetHeader) {
        let Ok(mut segments) = Segmenter::new(frame, vnet) else {
            return delivery.counters.dropped(Reason::Offload, 1);
        };
        let count = segments.count() as u64;
        if segments.longest() > self.limit(frame) {
            return delivery.counters.dropped(Reason::TooLong, count);
        }
        if delivery.accepts_segments && frame.len() <= chain::BYTES {
            return self.put_chain(delivery, frame, vnet);
        }
        delivery.counters.cut();
        for cut in 0..count {
            self.keep_up(delivery);
            if delivery.free == 0 {
                return delivery.counters.dropped(Reason::RingFull, count - cut);
            }
            let Some((headers, payload)) = segments.next_segment() else {
                return;
            };
            let len = headers.len() + payload.len();
            self.put(delivery, len, VALID, |room| {
                room.write(headers);
                room.skip(headers.len()).write(payload);
            });
        }
    }

    /// Delivers a frame over as many slots as it needs, all of them or none.
    fn put_chain(&mut self, delivery: &mut GuestDelivery<'_>, frame: &[u8], vnet: VnetHeader) {
        let slots = chain::slots_for(frame.len());
        if delivery.free - delivery.filled < slots {
            self.refresh(delivery);
        }
        if delivery.free < slots + delivery.filled {
            return delivery.counters.dropped(Reason::RingFull, 1);
        }
        let (head, rest) = frame.split_at(frame.len().min(FRAME_MAX));
        let parts = core::iter::once(head).chain(rest.chunks(PART_MAX));
        for (i, part) in (0..slots).zip(parts) {
            let spent = self.side.receive.peek(delivery.filled + i);
            let (room, offset, said) = match i {
                0 => (
                    self.side.region.receive_buffer(spent.buffer, part.len()),
                    RECEIVE_OFFSET,
                    vnet.to_slot(),
                ),
                _ => (
                    self.side.region.part_buffer(spent.buffer, part.len()),
                    PART_OFFSET,
                    Slot::spent(0),
                ),
            };
            let Ok(room) = room else {
                return self.refuse(delivery, i + 1);
            };
            room.write(part);
            let more = if i + 1 < slots { flags::MORE } else { 0 };
            let slot = Slot {
                buffer: spent.buffer,
                offset: offset as u16,
                len: part.len() as u16,
                flags: said.flags | more,
                ..said
            };
            self.side.receive.fill(delivery.filled + i, slot);
        }
        delivery.filled += slots;
        delivery.frames += 1;
        delivery.bytes += frame.len() as u64;
    }

    /// Hands `n` slots back as they came, so that the ring moves on: one of them names no buffer.
    #[cold]
    fn refuse(&mut self, delivery: &mut GuestDelivery<'_>, n: u32) {
        for i in delivery.filled..delivery.filled + n {
            let same = Slot::spent(self.side.receive.peek(i).buffer);
            self.side.receive.fill(i, same);
        }
        delivery.filled += n;
        delivery.violations += 1;
        delivery.counters.dropped(Reason::Violation, 1);
    }

    /// Fills the next free slot with a frame of `len` bytes, described by `said` and written by
    /// `write`. The buffer has at least [`HEAD`] bytes.
    #[inline(always)]
    fn put(
        &mut self,
        delivery: &mut GuestDelivery<'_>,
        len: usize,
        said: Slot,
        write: impl FnOnce(&SharedBytes),
    ) {
        if delivery.filled == delivery.free {
            return delivery.counters.dropped(Reason::RingFull, 1);
        }
        let spent = self.side.receive.peek(delivery.filled);
        let Ok(room) = self.side.region.receive_buffer(spent.buffer, len.max(HEAD)) else {
            return self.refuse(delivery, 1);
        };
        write(&room);
        let slot = Slot {
            offset: RECEIVE_OFFSET as u16,
            len: len as u16,
            buffer: spent.buffer,
            ..said
        };
        self.side.receive.fill(delivery.filled, slot);
        delivery.filled += 1;
        delivery.frames += 1;
        delivery.bytes += len as u64;
    }

    /// Wakes the CPU that the guest names as asleep. A number out of range wakes another CPU.
    fn wake_guest(&self, cpu: u32) {
        let words = self.side.region.wake_words();
        let word = &words[cpu as usize % words.len()];
        word.fetch_add(1, Ordering::SeqCst);
        // One sleeper waits on a CPU's word. It is no error if none was woken.
        let _ = futex::wake(word, futex::Flags::empty(), 1);
    }
}

impl Kind for GuestLink {
    const IN_MEMORY: bool = true;
}

impl Backend for GuestLink {
    fn receive(&mut self, batch: &mut Batch, counters: &PortCounters) -> Outcome {
        let mut outcome = Outcome::NOTHING;
        let portion = batch.portion;
        let Ok(filled) = self.side.transmit.filled(BATCH as u32) else {
            counters.dropped(Reason::Violation, 1);
            outcome.violations = 1;
            return outcome;
        };
        let most = if self.is_first_lap() {
            portion.frames.min(FIRST_LAP_FRAMES)
        } else {
            portion.frames
        };
        let (mut at, mut index, mut work) = (0, 0, 0);
        for _ in 0..filled.min(most) {
            if at == filled || work >= portion.bytes as usize {
                break;
            }
            let slot = self.side.transmit.peek(at);
            let start = at;
            at += 1;
            work += usize::from(slot.len) + FRAME_WORK;
            let frame = if slot.flags & !flags::CHECKSUM_VALID == 0 {
                self.check(slot).map(|bytes| {
                    bytes.prefetch();
                    let frame = &mut batch.frames[index];
                    frame.len = slot.len.into();
                    frame.body = Body::Guest(bytes);
                    frame.slot = start as u16;
                    frame.vlan = 0;
                })
            } else if slot.flags == flags::MESSAGE {
                match self.message(slot) {
                    Ok(message) => {
                        batch.messages.push(message);
                        continue;
                    }
                    Err(reason) => Err(reason),
                }
            } else {
                let staged = self.stage(batch, index, slot, at - 1, filled, &mut at);
                staged.map(|mut frame| {
                    work += frame.len().saturating_sub(slot.len.into());
                    frame.slot = start as u16;
                    batch.frames[index] = frame;
                })
            };
            match frame {
                Ok(()) => index += 1,
                // A violation is handled at the start of a batch, so that it is counted once if the
                // frames before it must wait.
                Err(_) if index > 0 => {
                    at = start;
                    break;
                }
                Err(reason) => {
                    counters.dropped(reason, 1);
                    outcome.violations += u32::from(reason == Reason::Violation);
                }
            }
        }
        batch.len = index;
        for frame in &mut batch.frames[..batch.len] {
            if let Body::Guest(bytes) = frame.body {
                snapshot(&bytes, &mut frame.head);
            }
        }
        // The next batch's slots, as far as they are published, come while this one is dealt with.
        for i in (at..filled.min(2 * at)).step_by(SLOTS_PER_LINE as usize) {
            self.side.transmit.prefetch(i);
        }
        self.taken = at;
        outcome
    }

    /// Whether there is something to receive.
    #[inline]
    fn has_frames(&mut self) -> bool {
        self.side.transmit.filled(1) != Ok(0)
    }

    /// Hands the batch's slots back. Their buffers stay where they are: they are spent. A guest
    /// that sleeps on a full ring is woken.
    #[inline]
    fn release(&mut self) {
        if self.taken > 0 {
            self.side.transmit.release(self.taken);
            self.moved(self.taken);
            self.taken = 0;
            self.wake_for_room();
        }
    }

    /// Whether to hold back a sender whose frames are all for this guest: the guest's ring is full,
    /// and has not been full for long. The sender's own ring fills meanwhile, and the sender leaves
    /// the processor that the guest may be waiting for. A guest that stays away holds no sender
    /// back. After a wait for a guest, the next one needs half its ring empty first.
    #[inline]
    fn holds_back(&mut self, now: Instant) -> bool {
        let slots = self.side.region.geometry().slots();
        // Slots that are reserved for light senders are not free for others.
        let (few, half) = (
            (slots / 8).min(BATCH as u32) + slots / RING_RESERVE,
            slots / 2,
        );
        let wanted = if self.full.is_some() { half } else { few };
        let Ok(free) = self.side.receive.free(wanted) else {
            return false;
        };
        if free >= half {
            self.full = None;
        }
        free < few && now.saturating_duration_since(*self.full.get_or_insert(now)) < HOLD
    }

    /// Limits [`release`](Self::release) to the slots before frame `first`.
    fn release_before(&mut self, batch: &Batch, first: usize) -> bool {
        if let Some(frame) = batch.frames().get(first) {
            self.taken = self.taken.min(frame.slot.into());
        }
        true
    }

    fn set_mtu(&mut self, mtu: u16) {
        self.mtu = mtu.min(MTU_MAX);
    }

    fn set_settles(&mut self, settles: bool) {
        self.side.region.set_settles(self.side.interface, settles);
    }

    fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Delivers the frames `which` of a batch.
    #[inline]
    fn send(&mut self, batch: &mut Batch, which: &[u16], counters: &PortCounters) -> Outcome {
        let (mut from, leaves) = (0, self.leaves);
        let mut outcome = self.send_some(batch, which, &mut from, usize::MAX, counters);
        while from < which.len() {
            self.leaves = leaves;
            let next = self.send_some(batch, which, &mut from, usize::MAX, counters);
            outcome.violations += next.violations;
            outcome.notify |= next.notify;
        }
        outcome
    }

    /// Delivers frames of `which` from the `from`-th on, until so much `work` is done
    /// ([`FRAME_WORK`]) or all are; `from` becomes the next.
    #[inline]
    fn send_some(
        &mut self,
        batch: &mut Batch,
        which: &[u16],
        from: &mut usize,
        work: usize,
        counters: &PortCounters,
    ) -> Outcome {
        let first = *from;
        let frames = which.len().saturating_sub(first) as u32;
        // A staged frame may become any number of segments.
        let staged = |&i: &u16| matches!(batch.frames[usize::from(i)].body, Body::Staged(_));
        let wanted = if which.first().is_some_and(staged) {
            self.side.region.geometry().slots()
        } else {
            frames
        };
        let filled = std::mem::take(&mut self.filled);
        let wanted = wanted + filled;
        let mut free = self.free(wanted);
        if first == 0 && free.is_ok_and(|free| free < frames) {
            // The guest may be waiting to be woken, or for this very processor.
            self.wake_for_news();
            std::thread::yield_now();
            free = self.free(wanted);
        }
        let Ok(free) = free else {
            counters.dropped(Reason::Violation, frames.into());
            *from = which.len();
            return Outcome {
                violations: 1,
                ..Outcome::NOTHING
            };
        };
        if first == 0 {
            self.prefetch_rooms(frames, free);
        }
        let takes = self.side.region.accepts(self.side.interface);
        let mut delivery = GuestDelivery {
            counters,
            accepts_segments: takes & accepts::SEGMENTS != 0,
            free,
            filled,
            frames: 0,
            bytes: 0,
            violations: 0,
        };
        let is_first_lap = self.is_first_lap();
        let work = if is_first_lap {
            work.min(FIRST_LAP_WORK)
        } else {
            work
        };
        let end = batch.piece(which, first, work);
        *from = end;
        for (at, &i) in (first..end).zip(&which[first.min(end)..]) {
            let frame = &batch.frames[usize::from(i)];
            match frame.body {
                Body::Guest(shared) if frame.len() <= self.limit(&frame.head) => {
                    let later = match which.get(at + PREFETCH_DISTANCE) {
                        Some(&later) if frame.len() > HEAD => {
                            self.later(&delivery, &batch.frames[usize::from(later)])
                        }
                        _ => None,
                    };
                    self.put(&mut delivery, frame.len(), Slot::spent(0), |room| {
                        room.write_array(0, &frame.head);
                        if frame.len() > HEAD {
                            let (from, into) = (shared.skip(HEAD), room.skip(HEAD));
                            match later {
                                Some(later) => from.copy_to_before(&into, later),
                                None => from.copy_to(&into),
                            };
                        }
                    });
                }
                Body::Guest(_) => counters.dropped(Reason::TooLong, 1),
                Body::Staged(cell) => {
                    let (bytes, vnet) = batch.stage.frame(cell);
                    let mut told = batch.passed.iter_mut().filter(|it| it.frame == i);
                    match told.next() {
                        None => self.put_staged(&mut delivery, bytes, vnet),
                        Some(told) => self.put_told(&mut delivery, bytes, vnet, told),
                    }
                }
            }
        }
        if end < which.len() && delivery.filled < PUBLISH && !is_first_lap {
            self.filled = delivery.filled;
        } else {
            self.publish(&mut delivery);
        }
        self.leaves = 0;
        counters.went_out(delivery.frames.into(), delivery.bytes);
        Outcome {
            violations: delivery.violations,
            notify: self.unseen > 0,
            ..Outcome::NOTHING
        }
    }

    /// How many slots there are if so many frames leave few of them free; for a ring that is read
    /// by the other side's owner.
    #[inline]
    fn reserve_if_full(&mut self, frames: usize) -> Option<u32> {
        let frames = frames as u32;
        let slots = self.side.region.geometry().slots();
        let enough = frames + slots / RING_RESERVE;
        let free = self.side.receive.free(enough);
        free.is_ok_and(|free| free < enough).then_some(slots)
    }

    /// Sets how many slots the next delivery must leave free.
    fn leave(&mut self, slots: u32) {
        self.leaves = slots;
    }

    /// Publishes what a delivery has not yet that is under way.
    fn flush(&mut self) {
        let filled = std::mem::take(&mut self.filled);
        if filled > 0 {
            self.side.receive.publish(filled);
            self.unseen += filled;
            self.moved(filled);
        }
    }

    #[inline]
    fn notify(&mut self, _: &PortCounters) -> Outcome {
        self.wake_for_news();
        Outcome::NOTHING
    }

    fn sleep(&mut self) -> bool {
        self.side.transmit.set_sleeps(true);
        self.side.transmit.filled(1) == Ok(0)
    }

    fn wake(&mut self) {
        self.side.transmit.set_sleeps(false);
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn unread(&self) -> Vec<u8> {
        self.side.unread()
    }
}

/// Takes the first [`HEAD`] bytes of a frame, zeros behind the end of a shorter one.
#[inline(always)]
pub(super) fn snapshot(bytes: &SharedBytes, head: &mut [u8; HEAD]) {
    const HALF: usize = HEAD / 2;
    if let Some(whole) = bytes.read_array(0) {
        *head = whole;
        return;
    }
    *head = [0; HEAD];
    match bytes.read_array::<HALF>(0) {
        // Two wide reads that overlap are cheaper than one of a length that varies. Where they
        // overlap, the second wins.
        Some(first) => {
            head[..HALF].copy_from_slice(&first);
            let at = bytes.len() - HALF;
            if let (Some(last), Some(room)) = (bytes.read_array::<HALF>(at), head.get_mut(at..)) {
                room[..HALF].copy_from_slice(&last);
            }
        }
        None => {
            bytes.read(head);
        }
    }
}

#[cfg(test)]
mod tests;
