//! Compression of TCP and IP headers (RFC 2507).

use crate::prelude::*;

/// An IP header without options, and a TCP header's fixed part.
pub(super) const HEADERS: usize = 40;
pub(super) type Headers = [u8; HEADERS];

/// Flows that have a context: context identifiers 1 to this.
pub(super) const CONTEXTS: usize = 14;

/// What a packet's first byte says of it.
pub(super) const OTHER: u8 = 0;
pub(super) const FULL_HEADER: u8 = 1;
pub(super) const COMPRESSED_TCP: u8 = 2;

/// Which changes a compressed header has, in its third byte.
mod changed {
    pub const URGENT: u8 = 1;
    pub const WINDOW: u8 = 2;
    pub const ACKNOWLEDGMENT: u8 = 4;
    pub const SEQUENCE: u8 = 8;
    /// Not a change: the packet's push flag.
    pub const PUSH: u8 = 0x10;
    pub const IDENT: u8 = 0x20;
}

/// Flags of the TCP header, in byte 33.
const FIN_SYN_RST_ACK: u8 = 0x17;
const ACK: u8 = 0x10;
const PUSH: u8 = 0x08;
const URGENT: u8 = 0x20;

const IDENT: usize = 4;
const SEQUENCE: usize = 24;
const ACKNOWLEDGMENT: usize = 28;
const FLAGS: usize = 33;
const WINDOW: usize = 34;
const CHECKSUM: usize = 36;
const URGENT_POINTER: usize = 38;

/// Longest compressed header: type, context, changes, checksum, and five changes of three bytes.
const COMPRESSED_MAX: usize = 20;

fn word(headers: &Headers, at: usize) -> u16 {
    u16::from_be_bytes([headers[at], headers[at + 1]])
}

fn long(headers: &Headers, at: usize) -> u32 {
    u32::from(word(headers, at)) << 16 | u32::from(word(headers, at + 2))
}

fn add_word(headers: &mut Headers, at: usize, difference: u16) {
    let sum = word(headers, at).wrapping_add(difference);
    headers[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

fn add_long(headers: &mut Headers, at: usize, difference: u16) {
    let sum = long(headers, at).wrapping_add(difference.into());
    headers[at..at + 4].copy_from_slice(&sum.to_be_bytes());
}

/// The IP header's checksum as it would be computed.
pub(super) fn ip_checksum(headers: &Headers) -> u16 {
    let ip = headers.first_chunk::<20>().unwrap_or(&[0; 20]);
    let mut blank = *ip;
    blank[10..12].fill(0);
    Sum::of_array(&blank).checksum()
}

/// The headers of a packet whose later ones can be compressed: IP without options or fragments, TCP
/// that only acknowledges, and nothing that a decompressor would not make the same.
pub(super) fn compressible(data: &[u8]) -> Option<&Headers> {
    let headers = data.first_chunk::<HEADERS>()?;
    let whole = headers[6] & 0x3f == 0 && headers[7] == 0;
    let tcp = headers[0] == 0x45 && headers[9] == 6 && whole;
    let acknowledges = headers[FLAGS] & FIN_SYN_RST_ACK == ACK;
    let length = usize::from(word(headers, 2)) == data.len();
    let good = tcp && acknowledges && length && word(headers, 10) == ip_checksum(headers);
    good.then_some(headers)
}

/// A compressed header at work.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) bytes: [u8; COMPRESSED_MAX],
    pub(super) len: usize,
    flags: u8,
}

impl Changes {
    /// Notes that a field grew by `difference` (RFC 2507, section 7.3).
    fn note(&mut self, flag: u8, difference: u16) {
        let [high, low] = difference.to_be_bytes();
        let bytes: &[u8] = if high == 0 && low != 0 {
            &[low]
        } else {
            &[0, high, low]
        };
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        self.flags |= flag;
    }
}

/// What turned the headers `old` into `new`, as a compressed header of context `id`; `None` if that
/// cannot be said.
pub(super) fn compress(id: u8, old: &Headers, new: &Headers) -> Option<Changes> {
    // Version, length, type of service, fragmentation, time to live; the TCP header's length, and
    // its flags but for two.
    let same = |at: usize| old[at] == new[at];
    let others = (old[FLAGS] ^ new[FLAGS]) & !(PUSH | URGENT) == 0;
    if !([0, 1, 6, 7, 8, 32].into_iter().all(same) && others) {
        return None;
    }
    let word_difference = |at| word(new, at).wrapping_sub(word(old, at));
    let long_difference = |at| u16::try_from(long(new, at).wrapping_sub(long(old, at))).ok();
    let mut changes = Changes {
        len: 5,
        ..Changes::default()
    };
    match (new[FLAGS] & URGENT != 0, word_difference(URGENT_POINTER)) {
        (true, difference) => changes.note(changed::URGENT, difference),
        (false, 0) => {}
        (false, _) => return None,
    }
    for (flag, difference) in [
        (changed::WINDOW, word_difference(WINDOW)),
        (changed::ACKNOWLEDGMENT, long_difference(ACKNOWLEDGMENT)?),
        (changed::SEQUENCE, long_difference(SEQUENCE)?),
    ] {
        if difference != 0 {
            changes.note(flag, difference);
        }
    }
    // The identification is taken to grow by one.
    match word_difference(IDENT) {
        1 => {}
        difference => changes.note(changed::IDENT, difference),
    }
    if new[FLAGS] & PUSH != 0 {
        changes.flags |= changed::PUSH;
    }
    let checksum = [new[CHECKSUM], new[CHECKSUM + 1]];
    let start = [COMPRESSED_TCP, id, changes.flags, checksum[0], checksum[1]];
    changes.bytes[..5].copy_from_slice(&start);
    Some(changes)
}

/// Takes a difference off the front of `bytes`.
fn take(bytes: &mut &[u8]) -> Option<u16> {
    let (difference, rest) = match **bytes {
        [0, high, low, ref rest @ ..] => (u16::from_be_bytes([high, low]), rest),
        [0, ..] | [] => return None,
        [low, ref rest @ ..] => (low.into(), rest),
    };
    *bytes = rest;
    Some(difference)
}

/// Changes `headers` as the compressed packet `data` says, but for lengths and the IP checksum;
/// returns the length of the compressed header. `None` if it is cut off: `headers` are not to be
/// used then.
pub(super) fn decompress(headers: &mut Headers, data: &[u8]) -> Option<usize> {
    let ([_, _, flags, high, low], mut rest) = data.split_first_chunk::<5>()?;
    let set = |flag| flags & flag != 0;
    headers[CHECKSUM] = *high;
    headers[CHECKSUM + 1] = *low;
    headers[FLAGS] &= !(PUSH | URGENT);
    if set(changed::PUSH) {
        headers[FLAGS] |= PUSH;
    }
    if set(changed::URGENT) {
        headers[FLAGS] |= URGENT;
        add_word(headers, URGENT_POINTER, take(&mut rest)?);
    }
    if set(changed::WINDOW) {
        add_word(headers, WINDOW, take(&mut rest)?);
    }
    if set(changed::ACKNOWLEDGMENT) {
        add_long(headers, ACKNOWLEDGMENT, take(&mut rest)?);
    }
    if set(changed::SEQUENCE) {
        add_long(headers, SEQUENCE, take(&mut rest)?);
    }
    let grown = if set(changed::IDENT) {
        take(&mut rest)?
    } else {
        1
    };
    add_word(headers, IDENT, grown);
    Some(data.len() - rest.len())
}

/// Puts `front` in the place of a packet's first `old` bytes; false if there is no room.
pub(super) fn replace(packet: &mut Packet, old: usize, front: &[u8]) -> bool {
    packet.pull(old);
    if !packet.push(front.len()) {
        return false;
    }
    if let Some(place) = packet.data_mut().get_mut(..front.len()) {
        place.copy_from_slice(front);
    }
    true
}

#[cfg(test)]
mod tests;
