//! Frames over several slots, and on which something is left to do: all that is not one buffer
//! with a whole frame.

use abi::chain::{self, Broken, follow};
use abi::ring::{Slot, flags};
use packet::segmenter::Segmenter;
use packet::{Batch, Drain, HEADROOM, Offload, Packet, Pool, SegmentKind, Segments};

use super::Netfront;

/// A frame that is being cut.
pub(super) struct Cutting {
    /// In one piece.
    frame: Packet,
    offload: Offload,
    /// Segments cut so far.
    done: usize,
}

/// What became of a packet that was to be sent.
enum Sent {
    /// It fills so many slots.
    Slots(u32),
    /// It waits for room.
    Waits(Packet),
    /// The interface cannot send it.
    Never(Packet),
}

impl<R: Fn()> Netfront<R> {
    /// Takes a frame out of the `at`-th of `filled` slots and those behind it. Returns the packet,
    /// if it is one, and how many slots it had; `None` if the pool has not buffers enough to leave
    /// in them.
    #[cold]
    pub(super) fn take_extended(
        &mut self,
        pool: &mut Pool,
        at: u32,
        filled: u32,
        first: Slot,
    ) -> Option<(Option<Packet>, u32)> {
        let (mut parts, mut n) = ([Slot::default(); chain::SLOTS as usize], 0);
        let chain = follow(&self.receive, at, filled, first, |slot| {
            if let Some(place) = parts.get_mut(n) {
                *place = slot;
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
            // SAFETY: the slot's buffer is replaced before the slot is handed back.
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
                // SAFETY: `spare` came from the pool and went nowhere.
                false => unsafe { pool.reclaim(spare) },
            }
        }
        packet.set_offload(offload(first));
        if !self.accepts_segments && !packet.make_whole() {
            // The router that took it is gone, and the switch could not know yet.
            self.cutting = in_one_piece(&packet);
            pool.kill(packet);
            return Some((None, slots));
        }
        Some((Some(packet), slots))
    }

    /// Adds segments of the frame that is being cut to a batch, until it holds `most` packets.
    #[cold]
    pub(super) fn cut(&mut self, pool: &mut Pool, batch: &mut Batch, most: usize) {
        let Some(mut cutting) = self.cutting.take() else {
            return;
        };
        let Ok(mut segments) = Segmenter::new(cutting.frame.data(), cutting.offload) else {
            return;
        };
        segments.skip(cutting.done);
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
            cutting.done += 1;
            if let Err(packet) = batch.push(packet) {
                pool.kill(packet);
            }
        }
        self.cutting = Some(cutting);
    }

    /// Sends the rest of a batch, whose next packet takes more than a slot or does not come from
    /// the pool, from the `filled`-th slot on. Returns how many slots are filled then; packets that
    /// have to wait are put `back`, in order.
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
            // What comes behind one that waits, waits with it.
            let sent = match back.is_empty() {
                true => self.fill_other(pool, filled, packet),
                false => Sent::Waits(packet),
            };
            match sent {
                Sent::Slots(n) => filled += n,
                // As many as were in the batch that they came from.
                Sent::Waits(packet) => drop(back.push(packet)),
                Sent::Never(packet) => pool.kill(packet),
            }
        }
        filled
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
        let said = said_of(&packet);
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
            // SAFETY: the slot held this buffer and holds another now, so nobody else has it.
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

/// The packet in a buffer of its own, to be cut; `None` where the heap has no room.
fn in_one_piece(packet: &Packet) -> Option<Cutting> {
    let offload = packet.offload()?;
    let mut frame = Packet::large(HEADROOM, packet.total_len(), 0)?;
    let (first, mut rest) = frame.data_mut().split_at_mut(packet.len());
    first.copy_from_slice(packet.data());
    for part in packet.parts_data() {
        let (place, behind) = rest.split_at_mut(part.len());
        place.copy_from_slice(part);
        rest = behind;
    }
    Some(Cutting {
        frame,
        offload,
        done: 0,
    })
}

/// What a slot says is left to do on its frame.
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

/// What the first slot of a packet says is left to do on it; the slot names no buffer yet.
fn said_of(packet: &Packet) -> Slot {
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
