//! Delivery to links that accept whole frames only: frames are segmented, and checksums completed.

use super::offload::{ETHERNET, Segmenter, VnetHeader, checksum_of, tags_len};
use super::{Batch, Body, HEAD};
use crate::counters::{PortCounters, Reason};

/// A receiver of whole frames.
pub(super) trait Whole {
    /// Takes a frame of `len` bytes that `write` puts into its room, which may be longer and is
    /// never shorter than [`HEAD`].
    fn put(&mut self, len: usize, write: impl FnOnce(&mut [u8]));

    /// Its counters.
    fn counters(&self) -> &PortCounters;

    /// Counts dropped frames.
    fn dropped(&mut self, reason: Reason, frames: u64) {
        self.counters().dropped(reason, frames);
    }
}

/// Delivers frame `i` of a batch, completing its checksum and cutting it into segments. A frame
/// longer than the MTU, VLAN tags aside, or than `longest` bytes is dropped.
#[inline]
pub(super) fn deliver(batch: &Batch, i: u16, mtu: u16, longest: usize, to: &mut impl Whole) {
    let frame = &batch.frames[usize::from(i)];
    let limit = usize::from(mtu) + ETHERNET + tags_len(&frame.head);
    let limit = limit.min(longest);
    match frame.body {
        Body::Guest(shared) if frame.len() <= limit => to.put(frame.len(), |room| {
            let (head, rest) = room.split_at_mut(HEAD);
            head.copy_from_slice(&frame.head);
            shared.skip(HEAD).read(rest);
        }),
        Body::Guest(_) => to.dropped(Reason::TooLong, 1),
        Body::Staged(cell) => {
            let (bytes, vnet) = batch.stage.frame(cell);
            match vnet.is_segmented() {
                true => deliver_segments(bytes, vnet, limit, to),
                false => deliver_staged(bytes, vnet, limit, to),
            }
        }
    }
}

fn deliver_staged(frame: &[u8], vnet: VnetHeader, limit: usize, to: &mut impl Whole) {
    if frame.len() > limit {
        return to.dropped(Reason::TooLong, 1);
    }
    let checksum = match vnet.needs_checksum().then(|| checksum_of(frame, vnet)) {
        None => None,
        Some(Ok(checksum)) => Some(checksum),
        Some(Err(_)) => return to.dropped(Reason::Offload, 1),
    };
    to.put(frame.len(), |room| {
        room[..frame.len()].copy_from_slice(frame);
        if let Some((at, sum)) = checksum {
            room[at..at + sum.len()].copy_from_slice(&sum);
        }
    });
}

fn deliver_segments(frame: &[u8], vnet: VnetHeader, limit: usize, to: &mut impl Whole) {
    let Ok(mut segments) = Segmenter::new(frame, vnet) else {
        return to.dropped(Reason::Offload, 1);
    };
    if segments.longest() > limit {
        return to.dropped(Reason::TooLong, segments.count() as u64);
    }
    to.counters().cut();
    while let Some((headers, payload)) = segments.next_segment() {
        to.put(headers.len() + payload.len(), |room| {
            let (front, rest) = room.split_at_mut(headers.len());
            front.copy_from_slice(headers);
            rest[..payload.len()].copy_from_slice(payload);
        });
    }
}
