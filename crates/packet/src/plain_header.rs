//! Fast access to plain IPv4 headers: those without options, which nearly all packets have.
//!
//! One comparison of the metadata shows that a header is plain and that the first bytes behind it
//! are there. Every field is then at an offset that the compiler knows.

use core::net::Ipv4Addr;

use crate::Packet;
use crate::anno::DST_IP;

/// Bytes of an IPv4 header without options.
const IP: usize = 20;

const _: () = assert!(DST_IP.offset == 0 && DST_IP.size == 4);

/// Bytes of a [plain header](Packet::plain_header): an IPv4 header without options, and the eight
/// bytes of transport header that every protocol with ports has.
pub const PLAIN_HEADER: usize = IP + 8;

impl Packet {
    /// The offset of `N` bytes that begin with a network header of 20 bytes, if they are there.
    #[inline(always)]
    fn plain_start<const N: usize>(&self) -> Option<usize> {
        let meta = self.meta();
        let (start, behind) = (u32::from(meta.network), u32::from(meta.transport));
        let plain = start != 0 && behind == start + IP as u32;
        (plain && start + N as u32 <= meta.data + meta.len).then_some(start as usize)
    }

    /// The first `N` bytes from the network header on, if that is 20 bytes long and they are there.
    #[inline(always)]
    pub fn plain_ip<const N: usize>(&self) -> Option<&[u8; N]> {
        let start = self.plain_start::<N>()?;
        // SAFETY: META <= start, as it is not 0, and start + N <= data + len <= capacity.
        Some(unsafe { &*self.byte(start).cast() })
    }

    /// The network header and the eight bytes behind it, if it is 20 bytes long and they are there.
    #[inline(always)]
    pub fn plain_header(&self) -> Option<&[u8; PLAIN_HEADER]> {
        self.plain_ip()
    }

    /// As [`plain_header`](Self::plain_header), mutable.
    #[inline(always)]
    pub fn plain_header_mut(&mut self) -> Option<&mut [u8; PLAIN_HEADER]> {
        let start = self.plain_start::<PLAIN_HEADER>()?;
        // SAFETY: as above, and `self` is borrowed exclusively.
        Some(unsafe { &mut *self.byte(start).cast() })
    }

    /// The `N` bytes that start `at` bytes into the data, if they are there.
    #[inline(always)]
    pub fn array_at<const N: usize>(&self, at: u32) -> Option<&[u8; N]> {
        let meta = self.meta();
        if u64::from(at) + N as u64 > u64::from(meta.len) {
            return None;
        }
        // SAFETY: data + at + N <= data + len <= capacity.
        Some(unsafe { &*self.byte(meta.data as usize + at as usize).cast() })
    }

    /// Marks an IPv4 header without options that starts `at` bytes into the data, of an IP packet of
    /// `length` bytes: truncates the packet to it, and sets the destination annotation. Returns
    /// false and changes nothing if the data is shorter.
    #[inline(always)]
    #[must_use]
    pub fn mark_plain_ip(&mut self, at: u32, length: u16, destination: Ipv4Addr) -> bool {
        let extended = self.is_extended();
        let meta = self.meta_mut();
        let start = u64::from(meta.data) + u64::from(at);
        let end = u64::from(at) + u64::from(length);
        let behind = start + IP as u64;
        if length < IP as u16 || end > u64::from(meta.len) || behind > u64::from(u16::MAX) {
            return false;
        }
        meta.network = start as u16;
        meta.transport = behind as u16;
        // SAFETY: the annotations are more bytes, and the destination is the first.
        unsafe {
            meta.anno
                .as_mut_ptr()
                .cast::<[u8; 4]>()
                .write(destination.octets())
        };
        if extended {
            self.truncate(end as usize);
        } else {
            meta.len = end as u32;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::{Packet, Pool};

    /// A packet of `len` bytes with `pulled` bytes stripped off.
    fn packet(pool: &mut Pool, len: usize, pulled: usize) -> Packet {
        let data: std::vec::Vec<u8> = (0..len).map(|i| i as u8).collect();
        let mut packet = pool.copy(&data).unwrap();
        packet.pull(pulled);
        packet
    }

    proptest! {
        #[test]
        fn the_plain_header_is_the_network_header(
            len in 0usize..90, pulled in 0usize..30, back: bool,
            at in 0usize..60, header in prop_oneof![Just(20usize), 0usize..64], cut in 0usize..40,
        ) {
            let mut pool = Pool::heap(4);
            let mut packet = packet(&mut pool, len, pulled);
            packet.set_network_header(at, header);
            packet.take(cut);
            if back {
                prop_assert!(packet.push(pulled.min(len)));
            } else {
                packet.pull(pulled);
            }
            let network = packet.network_header().filter(|_| packet.network_header_len() == 20);
            let usual = network.and_then(|network| network.first_chunk()).copied();
            prop_assert_eq!(packet.plain_header().copied(), usual);
            prop_assert_eq!(packet.plain_header_mut().copied(), usual);
        }

        #[test]
        fn arrays_are_those_of_the_data(len in 0usize..60, at in prop_oneof![0u32..70, any::<u32>()]) {
            let mut pool = Pool::heap(4);
            let packet = packet(&mut pool, len, 0);
            let expected = packet.data().get(at as usize..).and_then(|rest| rest.first_chunk());
            prop_assert_eq!(packet.array_at::<20>(at), expected);
        }

        #[test]
        fn marking_at_once_is_marking_bit_by_bit(
            len in 0usize..90, at in 0u32..60, length in 0u16..90, to: [u8; 4],
        ) {
            let mut pool = Pool::heap(4);
            let (mut one, mut other) = (packet(&mut pool, len, 3), packet(&mut pool, len, 3));
            let end = at as usize + usize::from(length);
            let there = length >= 20 && end <= one.len();
            prop_assert_eq!(one.mark_plain_ip(at, length, to.into()), there);
            if there {
                other.set_network_header(at as usize, 20);
                other.truncate(end);
                other.set_dst_ip(to.into());
            }
            prop_assert_eq!(one.data(), other.data());
            prop_assert_eq!(one.annotations(), other.annotations());
            prop_assert_eq!(one.network_offset(), other.network_offset());
            prop_assert_eq!(one.transport_offset(), other.transport_offset());
        }
    }
}
