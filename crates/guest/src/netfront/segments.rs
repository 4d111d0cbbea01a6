//! Frames over several slots, and frames with offloaded work.

use abi::chain::{self, Broken, follow};
use abi::ring::{Slot, flags};
use abi::settle::{self, Settled};
use packet::segmenter::Segmenter;
use packet::{Batch, Drain, HEADROOM, Offload, Packet, Passed, Pool, SegmentKind, Segments};

use super::{Netfront, settled};

/// A frame that is being segmented.
pub(super) struct Segmenting {
    /// In one buffer.
    frame: Packet,
    offload: Offload,
    /// Segments made so far.
    done: usize,
}

/// The result of sending a packet.
enum Sent {
    /// It fills that many slots.
    Slots(u32),
    /// It waits for free slots.
    Waits(Packet),
    /// The interface cannot send it.
    Never(Packet),
}

impl<R: Fn()> Netfront<R> {
    /// Takes what the `at`-th of `filled` slots and those behind it hold, which is no plain frame. Returns the packet, if
    /// the frame is valid, and its number of slots; `None` if the pool has too few buffers to leave in
    /// them.
    #[cold]
    pub(super) fn take_extended(
        &mut self,
        pool: &mut Pool,
        at: u32,
        filled: u32,
        first: Slot,
    ) -> Option<(Option<Packet>, u32)> {
        let Some(passed) = settle::Passed::of_slot(first) else {
            return self.take_frame(pool, at, filled, first);
        };
        // The packet that it is about comes with it.
        if at + 1 == filled {
            return Some((None, 1));
        }
        let slot = self.receive.peek(at + 1);
        let (mut packet, slots) = self.take_frame(pool, at + 1, filled, slot)?;
        if let Some(packet) = &mut packet {
            packet.set_passed(Passed {
                packets: passed.packets,
                length: passed.length,
            });
        }
        Some((packet, 1 + slots))
    }

    /// As [`take_extended`](Self::take_extended), of a frame.
    fn take_frame(
        &mut self,
        pool: &mut Pool,
        at: u32,
        filled: u32,
        first: Slot,
    ) -> Option<(Option<Packet>, u32)> {
        let (mut parts, mut n) = ([Slot::default(); chain::SLOTS as usize], 0);
        let chain = follow(&self.receive, at, filled, first, |slot| {
            if let Some(part) = parts.get_mut(n) {
                *part = slot;
                n += 1;
            }
        });
        let slots = match chain {
            Ok(slots) => slots,
            // The host does not break its own rings. The buffers stay in their slots.
            Err(Broken { slots, .. }) => return Some((None, slots)),
        };
        if pool.available() <= n {
            return None;
        }
        let Some(mut packet) = self.take(pool, at, first)? else {
            return Some((None, slots));
        };
        for (i, slot) in (at + 1..).zip(&parts[..n]) {
            let spare = pool.spare()?;
            // SAFETY: the slot's buffer is replaced before the slot is released.
            let adopted = unsafe {
                pool.adopt_part(
                    &mut packet,
                    slot.buffer,
                    slot.offset.into(),
                    slot.len.into(),
                )
            };
            match adopted {
                true => self.receive.replace(i, spare),
                // SAFETY: `spare` came from the pool and was not used.
                false => unsafe { pool.reclaim(spare) },
            }
        }
        packet.set_offload(offload(first));
        if !self.accepts_segments && !packet.make_whole() {
            // The router that accepted it is gone, and the switch did not know yet.
            self.segmenting = linearized(&packet);
            pool.kill(packet);
            return Some((None, slots));
        }
        Some((Some(packet), slots))
    }

    /// Adds segments of the frame that is being segmented to a batch, until it holds `most` packets.
    #[cold]
    pub(super) fn segment(&mut self, pool: &mut Pool, batch: &mut Batch, most: usize) {
        let Some(mut segmenting) = self.segmenting.take() else {
            return;
        };
        let Ok(mut segments) = Segmenter::new(segmenting.frame.data(), segmenting.offload) else {
            return;
        };
        segments.skip(segmenting.done);
        while batch.len() < most {
            let Some(mut packet) = pool.empty() else {
                break;
            };
            let Some((headers, payload)) = segments.next_segment() else {
                return pool.kill(packet);
            };
            if packet.put(headers.len() + payload.len()) {
                let (first, rest) = packet.data_mut().split_at_mut(headers.len());
                first.copy_from_slice(headers);
                rest.copy_from_slice(payload);
            }
            segmenting.done += 1;
            if let Err(packet) = batch.push(packet) {
                pool.kill(packet);
            }
        }
        self.segmenting = Some(segmenting);
    }

    /// Sends the rest of a batch from the `filled`-th slot on. The next packet needs more than a slot
    /// or is not of the pool. Returns how many slots are filled then. Packets that wait are put
    /// `back`, in order.
    #[cold]
    pub(super) fn fill_others(
        &mut self,
        pool: &mut Pool,
        mut filled: u32,
        packet: Packet,
        others: &mut Drain<'_>,
        back: &mut Batch,
    ) -> u32 {
        for packet in core::iter::once(packet).chain(others) {
            // Packets behind one that waits also wait.
            let settled = if packet.settles() {
                settled(&packet)
            } else {
                None
            };
            let sent = match back.is_empty() {
                true => self.fill_other(pool, filled, packet),
                false => Sent::Waits(packet),
            };
            match sent {
                Sent::Slots(n) => {
                    filled += n;
                    if let Some(settled) = settled {
                        filled += self.fill_message(filled, &settled);
                    }
                }
                // As many as were in the batch that they came from.
                Sent::Waits(packet) => drop(back.push(packet)),
                Sent::Never(packet) => pool.kill(packet),
            }
        }
        filled
    }

    /// Puts a message into the `at`-th slot, in the buffer that is there, if the slot is free. Returns how many slots are
    /// filled by it: without room, the switch is not told.
    fn fill_message(&mut self, at: u32, settled: &Settled) -> u32 {
        if self.transmit.free(at + 1).unwrap_or(0) < at + 1 {
            return 0;
        }
        let slot = Slot {
            offset: abi::region::RECEIVE_OFFSET as u16,
            len: settle::BYTES as u16,
            flags: flags::MESSAGE,
            ..Slot::spent(self.transmit.peek(at).buffer)
        };
        let Ok(room) = self.region.frame(slot) else {
            return 0;
        };
        room.write(&settled.to_bytes());
        self.transmit.fill(at, slot);
        1
    }

    fn fill_other(&mut self, pool: &mut Pool, at: u32, mut packet: Packet) -> Sent {
        let parts = packet.parts() as u32;
        if parts >= chain::SLOTS {
            return Sent::Never(packet);
        }
        let needed = 1 + parts;
        if self.transmit.free(at + needed).unwrap_or(0) < at + needed {
            self.wanted = needed;
            return Sent::Waits(packet);
        }
        let said = offload_slot(&packet);
        if packet.needs_checksum() && said.flags & flags::NEEDS_CHECKSUM == 0 {
            return Sent::Never(packet);
        }
        for i in 1..needed {
            let spent = self.transmit.peek(at + i).buffer;
            let Some((buffer, offset, len)) = pool.surrender_part(&mut packet) else {
                // The slots hold other buffers now, and still one each.
                return Sent::Never(packet);
            };
            let more = if i < parts { flags::MORE } else { 0 };
            let slot = Slot {
                offset,
                len,
                flags: more,
                ..Slot::spent(buffer)
            };
            self.transmit.fill(at + i, slot);
            // SAFETY: the slot held this buffer and holds another now, so it has no other user.
            unsafe { pool.reclaim(spent) };
        }
        if packet.is_extended() {
            pool.strip_extension(&mut packet);
        }
        match self.fill(pool, at, packet) {
            Ok(()) => {
                let more = if parts > 0 { flags::MORE } else { 0 };
                let filled = self.transmit.peek(at);
                let slot = Slot {
                    buffer: filled.buffer,
                    offset: filled.offset,
                    len: filled.len,
                    flags: said.flags | more,
                    ..said
                };
                self.transmit.fill(at, slot);
                Sent::Slots(needed)
            }
            Err(packet) => Sent::Never(packet),
        }
    }
}

/// The packet in one buffer, to be segmented; `None` if the allocation fails.
fn linearized(packet: &Packet) -> Option<Segmenting> {
    let offload = packet.offload()?;
    let mut frame = Packet::large(HEADROOM, packet.total_len(), 0)?;
    let (first, mut rest) = frame.data_mut().split_at_mut(packet.len());
    first.copy_from_slice(packet.data());
    for part in packet.parts_data() {
        let (next, behind) = rest.split_at_mut(part.len());
        next.copy_from_slice(part);
        rest = behind;
    }
    Some(Segmenting {
        frame,
        offload,
        done: 0,
    })
}

/// The offload of a slot's frame.
fn offload(slot: Slot) -> Option<Offload> {
    let is = |flag: u16| slot.flags & flag != 0;
    let kinds = [
        (flags::SEGMENT_TCP4, SegmentKind::Tcp4),
        (flags::SEGMENT_TCP6, SegmentKind::Tcp6),
        (flags::SEGMENT_UDP, SegmentKind::Udp),
    ];
    let kind = kinds.into_iter().find(|(flag, _)| is(*flag));
    is(flags::NEEDS_CHECKSUM).then_some(Offload {
        checksum_start: slot.checksum_start.into(),
        checksum_offset: slot.checksum_offset,
        segments: kind.map(|(_, kind)| Segments {
            kind,
            size: slot.segment_size,
            ecn: is(flags::SEGMENT_ECN),
        }),
    })
}

/// A packet's first slot with its offload; the slot has no buffer yet.
fn offload_slot(packet: &Packet) -> Slot {
    let mut slot = Slot::spent(0);
    let Some(offload) = packet.offload() else {
        return slot;
    };
    let Ok(start) = offload.checksum_start.try_into() else {
        return slot;
    };
    slot.checksum_start = start;
    slot.checksum_offset = offload.checksum_offset;
    slot.flags = flags::NEEDS_CHECKSUM;
    if let Some(segments) = offload.segments {
        slot.segment_size = segments.size;
        slot.flags |= match segments.kind {
            SegmentKind::Tcp4 => flags::SEGMENT_TCP4,
            SegmentKind::Tcp6 => flags::SEGMENT_TCP6,
            SegmentKind::Udp => flags::SEGMENT_UDP,
        };
        if segments.ecn {
            slot.flags |= flags::SEGMENT_ECN;
        }
    }
    slot
}

#[cfg(test)]
mod tests;
