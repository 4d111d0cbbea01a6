//! Checksums of transport headers, updated by the difference of what they cover (RFC 1624).

use crate::prelude::*;

/// The Datagram Congestion Control Protocol, whose ports and checksum stand where UDP's do.
pub const DCCP: IpProtocol = IpProtocol(33);

/// Brings a checksum in `header`, `at` bytes in, up to date.
#[inline(always)]
pub fn update_sum(delta: Delta, header: &mut [u8], at: usize) {
    if let Some(place) = header.get_mut(at..).and_then(|h| h.first_chunk_mut()) {
        *place = delta.apply_bytes(*place);
    }
}

/// Brings the checksum of a UDP header up to date, if there is one. (RFC 768: 0 says that there is
/// none; a sum of 0 is sent as 0xffff.)
#[inline(always)]
pub fn update_udp_sum(delta: Delta, header: &mut [u8]) {
    if let Some(place) = header.get_mut(6..).and_then(|h| h.first_chunk_mut())
        && *place != [0; 2]
    {
        *place = match delta.apply_bytes(*place) {
            [0, 0] => [0xff; 2],
            new => new,
        };
    }
}

/// Brings the checksum that covers the addresses up to date in a header of any protocol that has
/// one there; ports are not covered by `delta`, or changed already.
#[inline(always)]
pub fn update_transport(delta: Delta, protocol: IpProtocol, transport: &mut [u8]) {
    match protocol {
        IpProtocol::TCP => update_sum(delta, transport, 16),
        IpProtocol::UDP => update_udp_sum(delta, transport),
        DCCP => update_sum(delta, transport, 6),
        _ => {}
    }
}

/// Brings the partial checksum of a packet up to date that is yet to be completed: the sum of the
/// pseudo header, which is not complemented and covers no ports. `delta` is of the addresses.
#[cold]
pub fn update_partial(delta: Delta, protocol: IpProtocol, transport: &mut [u8]) {
    let at = match protocol {
        IpProtocol::TCP => 16,
        IpProtocol::UDP => 6,
        _ => return,
    };
    if let Some(place) = transport.get_mut(at..).and_then(|h| h.first_chunk_mut()) {
        let complement = !u16::from_be_bytes(*place);
        *place = (!delta.apply(complement)).to_be_bytes();
    }
}
