//! Changes of a TCP segment's data.

use core::ops::Range;

use super::{checksums, headers};
use crate::prelude::*;

/// Puts `text` in the place of some bytes of a TCP segment, counted from its header's start, and brings
/// lengths and checksums up to date; returns how much longer the packet is. `None`, and nothing
/// changed, if there is no room.
pub fn replace(packet: &mut Packet, place: Range<usize>, text: &[u8]) -> Option<u32> {
    let old = place.len();
    let partial = packet.needs_checksum();
    let (_, segment) = headers::parts(packet)?;
    let before = (Sum::of(segment), segment.len());
    if text.len() > old && !packet.put(text.len() - old) {
        return None;
    }
    let (_, segment) = headers::parts_mut(packet)?;
    segment.copy_within(place.end..before.1, place.start + text.len());
    segment
        .get_mut(place.start..place.start + text.len())?
        .copy_from_slice(text);
    packet.take(old.saturating_sub(text.len()));
    let (ip, segment) = headers::parts_mut(packet)?;
    let by = (text.len() as u32).wrapping_sub(old as u32);
    let total = u16::from_be_bytes([ip[2], ip[3]]);
    let new_total = total.wrapping_add(by as u16);
    [ip[2], ip[3]] = new_total.to_be_bytes();
    let lengths = Delta::of_u16(total, new_total);
    headers::update_ip_sum(lengths, ip);
    if partial {
        checksums::update_partial(lengths, IpProtocol::TCP, segment);
    } else {
        let delta = Delta::of_sums(before.0, Sum::of(segment)) + lengths;
        checksums::update_sum(delta, segment, 16);
    }
    Some(by)
}
