//! The Internet checksum (RFC 1071): over bytes, over pseudo headers, and updated incrementally
//! (RFC 1624).
//!
//! A checksum is the complement of the one's-complement sum of a packet's big-endian 16-bit words.
//! [`Sum`] is such a sum still open to additions, [`Delta`] the difference that a change of some
//! words makes to it. Checksums themselves are plain `u16`s, as the number in the header field:
//! `0x1234` stands for the bytes `12 34`.
//!
//! The one's-complement sum does not care for byte order (RFC 1071, section 2(B)), so words are
//! added as the machine loads them and swapped once, at the end. Wide words are as good as narrow
//! ones, because 2^16, 2^32 and 2^64 are all congruent to 1 modulo 2^16 - 1.
#![forbid(unsafe_code)]

use core::net::{Ipv4Addr, Ipv6Addr};

use simd::{Kernel, Level, Simd};

/// A one's-complement sum of 16-bit words that more can be added to.
///
/// Held in the machine's byte order and 64 bits wide; every addition wraps the carry around, so no
/// number of additions loses a bit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The sum of no words.
    pub const ZERO: Sum = Sum(0);

    /// The sum over `bytes`. An odd last byte counts as the high half of a word (RFC 1071,
    /// section 1).
    pub fn of(bytes: &[u8]) -> Sum {
        if (8..BLOCK).contains(&bytes.len()) {
            return Sum::of_short(bytes);
        }
        let (long, bytes) = match bytes.len() {
            LONG.. => {
                let (blocks, rest) = bytes.as_chunks();
                (simd::run(Level::detected(), AddLong(blocks)), rest)
            }
            _ => (0, bytes),
        };
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        let mut lanes = [0u64; LANES];
        for block in blocks {
            add_block(&mut lanes, block);
        }
        Sum(long.wrapping_add(sum_lanes(&lanes))).add_short(rest)
    }

    /// As [`of`](Self::of), of eight bytes at least and fewer than a block. Those behind the last whole word are
    /// the end of the last eight bytes.
    #[inline(always)]
    fn of_short(bytes: &[u8]) -> Sum {
        let (words, rest) = bytes.as_chunks::<8>();
        let sum = words
            .iter()
            .fold(Sum::ZERO, |sum, word| sum + Sum(u64::from_ne_bytes(*word)));
        match bytes.last_chunk::<8>() {
            Some(last) if !rest.is_empty() => {
                let end = u64::from_le_bytes(*last) >> (64 - 8 * rest.len());
                sum + Sum(end.to_le())
            }
            _ => sum,
        }
    }

    /// The sum over an array, unrolled: for headers of a known length.
    #[inline(always)]
    pub fn of_array<const N: usize>(bytes: &[u8; N]) -> Sum {
        // Unrolled by hand for common lengths: compilers make a loop where the bytes may alias.
        let word = |at: usize| match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            Some(word) => Sum(u64::from_ne_bytes(*word)),
            None => Sum::ZERO,
        };
        let half = |at: usize| match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            Some(word) => Sum(u64::from(u32::from_ne_bytes(*word))),
            None => Sum::ZERO,
        };
        match N {
            4 => half(0),
            8 => word(0),
            12 => word(0) + half(8),
            16 => word(0) + word(8),
            20 => word(0) + word(8) + half(16),
            _ => Sum::ZERO.add_short(bytes),
        }
    }

    /// The sum over a header's words as they are in memory, two of eight bytes and one of four.
    #[inline(always)]
    pub(crate) fn of_words([first, second, half]: [u64; 3]) -> Sum {
        debug_assert!(half <= u64::from(u32::MAX));
        let (sum, carry) = first.overflowing_add(second);
        // No carry: the sum is at most 2^64 - 2 if there was one.
        let (sum, again) = (sum + u64::from(carry)).overflowing_add(half);
        Sum(sum + u64::from(again))
    }

    /// As [`is_valid`](Self::is_valid), of a sum to which something else than zeros was added: that
    /// its words add up to 2^16 - 1, wrapped around, says that it is a multiple of that.
    #[inline(always)]
    pub(crate) fn is_multiple(self) -> bool {
        self.0.is_multiple_of(0xffff)
    }

    /// Adds the word that `value` is in a header.
    #[inline(always)]
    pub fn add_u16(self, value: u16) -> Sum {
        self + Sum(u64::from(value.to_be()))
    }

    /// Adds the two words that `value` is in a header.
    #[inline(always)]
    pub fn add_u32(self, value: u32) -> Sum {
        self + Sum(u64::from(value.to_be()))
    }

    /// Adds `bytes`, which stand at an even offset.
    #[inline(always)]
    pub fn add_bytes(self, bytes: &[u8]) -> Sum {
        self + Sum::of(bytes)
    }

    /// The sum of a piece of `length` bytes, which `self` is, with the piece `next` right behind it.
    ///
    /// Behind an odd length the next piece's bytes change places within their words.
    #[inline(always)]
    pub fn join(self, length: usize, next: Sum) -> Sum {
        let bits = if length % 2 == 1 { 8 } else { 0 };
        self + Sum(next.0.rotate_left(bits))
    }

    /// The sum as one 16-bit word, not complemented. It is 0 only if nothing but zeros was added.
    #[inline(always)]
    pub fn fold(self) -> u16 {
        // Adding a number to itself with its halves exchanged leaves, in the upper half, the sum of
        // the halves with its carry wrapped around.
        let wide = (self.0.wrapping_add(self.0.rotate_right(32)) >> 32) as u32;
        let narrow = (wide.wrapping_add(wide.rotate_right(16)) >> 16) as u16;
        u16::from_be(narrow)
    }

    /// The checksum: the complement of the folded sum.
    #[inline(always)]
    pub fn checksum(self) -> u16 {
        !self.fold()
    }

    /// Whether this sum, taken over data with its checksum field in place, says the data is intact.
    ///
    /// A sum that is not 0 folds to 0xffff if it is a multiple of that. Multiplying by the inverse
    /// of 0xffff modulo 2^64 gives the quotient of those, and more than any quotient of others
    /// (Granlund and Montgomery, 1994, section 9): half the instructions of folding.
    #[inline(always)]
    pub fn is_valid(self) -> bool {
        const LARGEST: u64 = u64::MAX / 0xffff;
        const INVERSE: u64 = LARGEST.wrapping_neg();
        self.0.wrapping_mul(INVERSE).wrapping_sub(1) < LARGEST
    }

    /// Adds fewer than [`BLOCK`] bytes (or more, slowly).
    #[inline(always)]
    fn add_short(self, bytes: &[u8]) -> Sum {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut sum = self;
        for word in words {
            sum = sum + Sum(u64::from_ne_bytes(*word));
        }
        let mut rest = rest;
        if let Some((word, behind)) = rest.split_first_chunk::<4>() {
            sum = sum + Sum(u64::from(u32::from_ne_bytes(*word)));
            rest = behind;
        }
        if let Some((word, behind)) = rest.split_first_chunk::<2>() {
            sum = sum + Sum(u64::from(u16::from_ne_bytes(*word)));
            rest = behind;
        }
        if let Some(&last) = rest.first() {
            sum = sum + Sum(u64::from(u16::from_ne_bytes([last, 0])));
        }
        sum
    }
}

/// One's-complement addition.
impl core::ops::Add for Sum {
    type Output = Sum;

    #[inline(always)]
    fn add(self, other: Sum) -> Sum {
        let (sum, carry) = self.0.overflowing_add(other.0);
        Sum(sum + u64::from(carry))
    }
}

/// Bytes added per iteration, as [`LANES`] words of 32 bits.
///
/// Widening 32-bit words into 64-bit lanes needs no carries and compiles to vector instructions on
/// every x86-64. On a Sapphire Rapids core at 2.1 GHz, built for baseline x86-64, this sums 13 to
/// 48 bytes a nanosecond from 40 to 9000 bytes: as fast as add-with-carry chains on long data, and
/// faster on short. Blocks of 64 lose half a nanosecond on headers.
const BLOCK: usize = 32;
const LANES: usize = BLOCK / 4;

#[inline(always)]
fn add_block(lanes: &mut [u64; LANES], block: &[u8; BLOCK]) {
    let (words, _) = block.as_chunks::<4>();
    for (lane, word) in lanes.iter_mut().zip(words) {
        // No slice has the 2^32 blocks (128 GiB) that it would take to overflow a lane.
        *lane = lane.wrapping_add(u64::from(u32::from_ne_bytes(*word)));
    }
}

/// Bytes from which on wider instructions than the program is built for are worth their choice.
const LONG: usize = 128;

/// Adds up words of 32 bits.
struct AddLong<'a>(&'a [[u8; simd::LINE]]);

impl Kernel for AddLong<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> u64 {
        simd.sum_words(self.0)
    }
}

#[inline(always)]
fn sum_lanes(lanes: &[u64; LANES]) -> u64 {
    // 2^61 at most a lane for any slice up to 16 EiB; wrapping keeps the sum free of panics.
    lanes.iter().fold(0, |sum, lane| sum.wrapping_add(*lane))
}

/// The checksum of `bytes`.
#[inline(always)]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::of(bytes).checksum()
}

/// The sum of the IPv4 pseudo header of UDP (RFC 768) and TCP (RFC 9293, section 3.1).
/// `length` is that of the transport header and its data, in bytes.
#[inline(always)]
pub fn pseudo_header_v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, length: u16) -> Sum {
    Sum::of_array(&source.octets())
        + Sum::of_array(&destination.octets())
        + Sum::ZERO.add_u32(u32::from(protocol) + u32::from(length))
}

/// The sum of the IPv6 pseudo header (RFC 8200, section 8.1). `next_header` is the upper layer's
/// protocol, `length` that of its header and data, in bytes.
#[inline(always)]
pub fn pseudo_header_v6(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    next_header: u8,
    length: u32,
) -> Sum {
    Sum::of_array(&source.octets())
        + Sum::of_array(&destination.octets())
        + Sum::ZERO.add_u32(length).add_u32(u32::from(next_header))
}

/// The change of a checksum when some words of the packet are replaced (RFC 1624, equation 3).
///
/// A delta computed once, for example for a flow, applies to any number of packets, and to every
/// checksum that covers the words. Deltas add up.
///
/// Applying a delta never makes a checksum 0xffff. That equals a fresh computation except over data
/// that is all zeros, which no IP header, and nothing with a pseudo header, is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delta(u16);

impl Delta {
    /// The delta of no change.
    pub const NONE: Delta = Delta(0);

    /// `old` became `new`.
    #[inline(always)]
    pub const fn of_u16(old: u16, new: u16) -> Delta {
        Delta(add_u16(!old, new))
    }

    /// Two words in a row, `old`, became `new`.
    #[inline(always)]
    pub const fn of_u32(old: u32, new: u32) -> Delta {
        let (sum, carry) = (!old).overflowing_add(new);
        let sum = sum + carry as u32;
        Delta(add_u16((sum >> 16) as u16, sum as u16))
    }

    /// Data summing up to `old` was replaced by data summing up to `new`.
    #[inline(always)]
    pub fn of_sums(old: Sum, new: Sum) -> Delta {
        Delta::of_u16(old.fold(), new.fold())
    }

    /// The checksum that follows from `checksum`, which held before the change.
    #[inline(always)]
    pub const fn apply(self, checksum: u16) -> u16 {
        // !(!checksum + delta), carry wrapped around, without the complements.
        let (difference, borrow) = checksum.overflowing_sub(self.0);
        difference.wrapping_sub(borrow as u16)
    }

    /// The same for a checksum as stored in a header. If the bytes of both are swapped, the bytes
    /// of the difference are.
    #[inline(always)]
    pub const fn apply_bytes(self, checksum: [u8; 2]) -> [u8; 2] {
        Delta(self.0.to_be())
            .apply(u16::from_ne_bytes(checksum))
            .to_ne_bytes()
    }
}

/// Both changes.
impl core::ops::Add for Delta {
    type Output = Delta;

    #[inline(always)]
    fn add(self, other: Delta) -> Delta {
        Delta(add_u16(self.0, other.0))
    }
}

/// One's-complement addition of words.
#[inline(always)]
const fn add_u16(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16
}

#[cfg(test)]
mod tests;
