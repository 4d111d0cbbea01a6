//! IPv4 (RFC 791).
//!
//! ```text
//!  0     1     2        4    6                   8     9          10         12       16            20
//! +-----+-----+--------+----+-------------------+-----+----------+----------+--------+-------------+---------
//! | v,hl| tos | length | id | flags 3, offset 13| ttl | protocol | checksum | source | destination | options
//! +-----+-----+--------+----+-------------------+-----+----------+----------+--------+-------------+---------
//! ```

mod header;
mod options;

pub use header::Ipv4Header;
pub use options::{
    Ipv4Option, Ipv4OptionKind, Ipv4OptionWalk, Ipv4Options, PointerOption, TimestampFlag,
};

use super::{Ecn, IpProtocol, WireError};
use crate::checksum::{Delta, Sum, pseudo_header_v4};
use core::net::Ipv4Addr;

/// The header's fields.
mod field {
    use super::{IpProtocol, Ipv4Addr};
    use crate::wire::Field;
    /// Version in the high 4 bits, header length in words of 4 bytes in the low.
    pub const VERSION: Field<0, u8> = Field::NEW;
    pub const TOS: Field<1, u8> = Field::NEW;
    pub const LENGTH: Field<2, u16> = Field::NEW;
    pub const IDENT: Field<4, u16> = Field::NEW;
    /// Flags in the high 3 bits, offset in units of 8 bytes in the low 13.
    pub const FRAGMENT: Field<6, u16> = Field::NEW;
    pub const TTL: Field<8, u8> = Field::NEW;
    pub const PROTOCOL: Field<9, IpProtocol> = Field::NEW;
    pub const CHECKSUM: Field<10, u16> = Field::NEW;
    pub const SOURCE: Field<12, Ipv4Addr> = Field::NEW;
    pub const DESTINATION: Field<16, Ipv4Addr> = Field::NEW;
}

/// Flags and mask of the fragment field.
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

view! {
    /// A view of an IPv4 packet.
    Ipv4Packet, 20
}

impl<T: AsRef<[u8]>> Ipv4Packet<T> {
    /// A view of `buffer`, which may go on behind the packet. Does not look at the checksum.
    ///
    /// # Errors
    /// As [`Self::new_quoted`], and [`WireError::Length`] if the total length does not cover the
    /// header or runs past the end of the buffer.
    #[inline(always)]
    pub fn new_checked(buffer: T) -> Result<Self, WireError> {
        let packet = Self::new_quoted(buffer)?;
        let total = usize::from(packet.total_len());
        if total < packet.header_len() || total > packet.bytes().len() {
            return Err(WireError::Length);
        }
        Ok(packet)
    }

    /// A view of a packet whose end may be missing, such as ICMP errors quote.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under 20 bytes, [`WireError::Version`] if it is not 4,
    /// [`WireError::HeaderLength`] if it is below 20 bytes or runs past the end of the buffer.
    #[inline(always)]
    pub fn new_quoted(buffer: T) -> Result<Self, WireError> {
        let packet = Ipv4Packet { buffer };
        let available = packet.bytes().len();
        if available < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        if packet.version() != 4 {
            return Err(WireError::Version);
        }
        let header_len = packet.header_len();
        if header_len < Self::HEADER_LEN || header_len > available {
            return Err(WireError::HeaderLength);
        }
        Ok(packet)
    }

    /// The version, 4.
    #[inline(always)]
    pub fn version(&self) -> u8 {
        field::VERSION.get(self.header()) >> 4
    }

    /// Length of the header with its options, 20 to 60.
    #[inline(always)]
    pub fn header_len(&self) -> usize {
        usize::from(field::VERSION.get(self.header()) & 0x0f) * 4
    }

    /// Type of service: DSCP and ECN.
    #[inline(always)]
    pub fn tos(&self) -> u8 {
        field::TOS.get(self.header())
    }

    /// Differentiated services code point (RFC 2474), 0 to 63.
    #[inline(always)]
    pub fn dscp(&self) -> u8 {
        self.tos() >> 2
    }

    /// Explicit congestion notification.
    #[inline(always)]
    pub fn ecn(&self) -> Ecn {
        Ecn::from_tos(self.tos())
    }

    /// Length of header and payload.
    #[inline(always)]
    pub fn total_len(&self) -> u16 {
        field::LENGTH.get(self.header())
    }

    /// Identification, the same in all fragments of a packet.
    #[inline(always)]
    pub fn ident(&self) -> u16 {
        field::IDENT.get(self.header())
    }

    /// Whether routers must not fragment the packet.
    #[inline(always)]
    pub fn dont_fragment(&self) -> bool {
        field::FRAGMENT.get(self.header()) & DONT_FRAGMENT != 0
    }

    /// Whether more fragments follow behind this one's data.
    #[inline(always)]
    pub fn more_fragments(&self) -> bool {
        field::FRAGMENT.get(self.header()) & MORE_FRAGMENTS != 0
    }

    /// Where this fragment's payload belongs in the whole, in bytes: a multiple of 8.
    #[inline(always)]
    pub fn fragment_offset(&self) -> u16 {
        (field::FRAGMENT.get(self.header()) & OFFSET) * 8
    }

    /// Whether this is not a whole packet.
    #[inline(always)]
    pub fn is_fragment(&self) -> bool {
        field::FRAGMENT.get(self.header()) & (MORE_FRAGMENTS | OFFSET) != 0
    }

    /// Whether the payload starts with the transport header: a whole packet or its first fragment.
    #[inline(always)]
    pub fn is_first_fragment(&self) -> bool {
        field::FRAGMENT.get(self.header()) & OFFSET == 0
    }

    /// Time to live, in hops.
    #[inline(always)]
    pub fn ttl(&self) -> u8 {
        field::TTL.get(self.header())
    }

    /// The protocol of the payload.
    #[inline(always)]
    pub fn protocol(&self) -> IpProtocol {
        field::PROTOCOL.get(self.header())
    }

    /// The header's checksum.
    #[inline(always)]
    pub fn checksum(&self) -> u16 {
        field::CHECKSUM.get(self.header())
    }

    /// The sender.
    #[inline(always)]
    pub fn source(&self) -> Ipv4Addr {
        field::SOURCE.get(self.header())
    }

    /// The receiver, or the next hop of a source route.
    #[inline(always)]
    pub fn destination(&self) -> Ipv4Addr {
        field::DESTINATION.get(self.header())
    }

    /// The receiver at the end of a source route, if there is one to go yet, else the destination.
    /// This is the address in pseudo headers (RFC 1122, section 4.2.3.8; RFC 9293, section 3.1).
    #[inline]
    pub fn final_destination(&self) -> Ipv4Addr {
        if self.header_len() <= Self::HEADER_LEN {
            return self.destination();
        }
        let route = self.options().flatten().find(|option| {
            matches!(
                option.kind,
                Ipv4OptionKind::LOOSE_SOURCE_ROUTE | Ipv4OptionKind::STRICT_SOURCE_ROUTE
            )
        });
        route
            .and_then(|route| PointerOption::new_checked(route.bytes).ok())
            .filter(|route| route.room() >= 4)
            .and_then(|route| route.into_inner().last_chunk().copied())
            .map_or(self.destination(), Ipv4Addr::from_octets)
    }

    /// The header with its options, as far as the buffer goes.
    #[inline(always)]
    fn full_header(&self) -> &[u8] {
        let bytes = self.bytes();
        bytes.get(..self.header_len()).unwrap_or(bytes)
    }

    /// The options with their padding.
    #[inline(always)]
    pub fn option_bytes(&self) -> &[u8] {
        self.full_header()
            .get(Self::HEADER_LEN..)
            .unwrap_or_default()
    }

    /// The options, one by one.
    #[inline]
    pub fn options(&self) -> Ipv4Options<'_> {
        Ipv4Options::new(self.option_bytes())
    }

    /// The payload, up to the total length or the end of the buffer.
    #[inline(always)]
    pub fn payload(&self) -> &[u8] {
        let bytes = self.bytes();
        let end = usize::from(self.total_len()).min(bytes.len());
        bytes.get(self.header_len()..end).unwrap_or_default()
    }

    /// Whether the header's checksum holds.
    #[inline(always)]
    pub fn verify_checksum(&self) -> bool {
        self.header_sum().is_valid()
    }

    #[inline(always)]
    fn header_sum(&self) -> Sum {
        let sum = Sum::of_array(self.header());
        if self.header_len() > Self::HEADER_LEN {
            return sum.add_bytes(self.option_bytes());
        }
        sum
    }

    /// The sum of the pseudo header for the transport protocol in this packet.
    #[inline(always)]
    pub fn pseudo_header(&self) -> Sum {
        let length = self.total_len().saturating_sub(self.header_len() as u16);
        let (source, destination) = (self.source(), self.final_destination());
        pseudo_header_v4(source, destination, self.protocol().0, length)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ipv4Packet<T> {
    /// Sets version 4 and the length of the header, rounded down to a multiple of 4 up to 60.
    #[inline(always)]
    pub fn set_header_len(&mut self, length: usize) {
        let words = (length / 4).min(15) as u8;
        field::VERSION.put(self.header_mut(), 0x40 | words);
    }

    /// Sets the type of service: DSCP and ECN.
    #[inline(always)]
    pub fn set_tos(&mut self, tos: u8) {
        field::TOS.put(self.header_mut(), tos);
    }

    /// Sets the length of header and payload.
    #[inline(always)]
    pub fn set_total_len(&mut self, length: u16) {
        field::LENGTH.put(self.header_mut(), length);
    }

    /// Sets the identification.
    #[inline(always)]
    pub fn set_ident(&mut self, ident: u16) {
        field::IDENT.put(self.header_mut(), ident);
    }

    /// Sets the fragment field: flags, and the payload's place in bytes, rounded down to 8.
    #[inline(always)]
    pub fn set_fragment(&mut self, dont_fragment: bool, more_fragments: bool, offset: u16) {
        let word = fragment_word(dont_fragment, more_fragments, offset);
        field::FRAGMENT.put(self.header_mut(), word);
    }

    /// Sets the time to live, in hops.
    #[inline(always)]
    pub fn set_ttl(&mut self, ttl: u8) {
        field::TTL.put(self.header_mut(), ttl);
    }

    /// Sets the payload's protocol.
    #[inline(always)]
    pub fn set_protocol(&mut self, protocol: IpProtocol) {
        field::PROTOCOL.put(self.header_mut(), protocol);
    }

    /// Sets the checksum field to `checksum` as it is.
    #[inline(always)]
    pub fn set_checksum(&mut self, checksum: u16) {
        field::CHECKSUM.put(self.header_mut(), checksum);
    }

    /// Sets the sender.
    #[inline(always)]
    pub fn set_source(&mut self, address: Ipv4Addr) {
        field::SOURCE.put(self.header_mut(), address);
    }

    /// Sets the receiver.
    #[inline(always)]
    pub fn set_destination(&mut self, address: Ipv4Addr) {
        field::DESTINATION.put(self.header_mut(), address);
    }

    /// Computes the header's checksum.
    #[inline(always)]
    pub fn fill_checksum(&mut self) {
        // The field's value is subtracted from the sum rather than cleared: a read right behind a
        // narrower write takes a dozen cycles. The header's first byte is not 0, so neither is
        // either sum, and the two ways agree on the word that stands for zero.
        let checksum = self.header_sum().add_u16(!self.checksum()).checksum();
        self.set_checksum(checksum);
    }

    /// Brings the header's checksum up to date with a change in the header.
    #[inline(always)]
    pub fn update_checksum(&mut self, delta: Delta) {
        let checksum = delta.apply(self.checksum());
        self.set_checksum(checksum);
    }

    /// Takes one hop off the TTL and updates the checksum. False, and nothing done, if none or one
    /// is left: the packet must go no further (RFC 1812, section 5.3.1).
    #[inline(always)]
    #[must_use = "a packet without hops left must not be forwarded"]
    pub fn decrement_ttl(&mut self) -> bool {
        let Some(header) = self.header_mut() else {
            return false;
        };
        let word = &mut header.as_chunks_mut::<4>().0[2];
        let after = after_hop(u32::from_ne_bytes(*word));
        *word = after.unwrap_or(u32::from_ne_bytes(*word)).to_ne_bytes();
        after.is_some()
    }

    /// Replaces the type of service and updates the header's checksum.
    #[inline(always)]
    pub fn rewrite_tos(&mut self, tos: u8) {
        let delta = Delta::of_u16(self.tos().into(), tos.into());
        self.set_tos(tos);
        self.update_checksum(delta);
    }

    /// Replaces the sender and updates the header's checksum. Returns the change for the checksum
    /// of a transport protocol with a pseudo header.
    #[inline(always)]
    pub fn rewrite_source(&mut self, address: Ipv4Addr) -> Delta {
        let delta = Delta::of_u32(self.source().to_bits(), address.to_bits());
        self.set_source(address);
        self.update_checksum(delta);
        delta
    }

    /// Replaces the receiver and updates the header's checksum. Returns what the change means for
    /// the checksum of a transport protocol with a pseudo header.
    #[inline(always)]
    pub fn rewrite_destination(&mut self, address: Ipv4Addr) -> Delta {
        let delta = Delta::of_u32(self.destination().to_bits(), address.to_bits());
        self.set_destination(address);
        self.update_checksum(delta);
        delta
    }

    /// The options with their padding. Room for them is made by [`Self::set_header_len`].
    #[inline(always)]
    pub fn option_bytes_mut(&mut self) -> &mut [u8] {
        let end = self.header_len();
        let bytes = self.buffer.as_mut();
        let end = end.min(bytes.len());
        bytes.get_mut(Self::HEADER_LEN..end).unwrap_or_default()
    }

    /// The payload, up to the total length or the end of the buffer.
    #[inline(always)]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let (start, end) = (self.header_len(), usize::from(self.total_len()));
        let bytes = self.buffer.as_mut();
        let end = end.min(bytes.len());
        bytes.get_mut(start..end).unwrap_or_default()
    }
}

/// The word of TTL, protocol and checksum, as it is in memory, after a hop; none if one hop or none is left. The TTL is
/// the high byte of its half, so 0x0100 less of that is 0x0100 more of the complement; what would be 0xffff is 0.
#[inline(always)]
pub(crate) fn after_hop(word: u32) -> Option<u32> {
    // In the order of the bytes in memory, in which the checksum is the high half (RFC 1071, section 2(B)).
    let word = u32::from_le(word);
    let carry = u32::from(word >= 0xfffe_0000);
    let after = word.wrapping_add(0x1_0000 - 1).wrapping_add(carry << 16);
    (word as u8 > 1).then_some(after.to_le())
}

#[inline(always)]
fn fragment_word(dont_fragment: bool, more_fragments: bool, offset: u16) -> u16 {
    let flags = if dont_fragment { DONT_FRAGMENT } else { 0 };
    let more = if more_fragments { MORE_FRAGMENTS } else { 0 };
    flags | more | (offset / 8)
}
