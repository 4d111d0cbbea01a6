//! IPv6 (RFC 8200).
//!
//! ```text
//!  0                          4        6      7           8        24            40
//! +--------------------------+--------+------+-----------+--------+-------------+------------
//! | v 4, class 8, flow 20 b  | length | next | hop limit | source | destination | extensions
//! +--------------------------+--------+------+-----------+--------+-------------+------------
//! ```

mod extensions;

pub use extensions::{Extension, Extensions, Fragment, MAX_EXTENSIONS, UpperLayer};

use super::{Ecn, IpProtocol, WireError};
use crate::checksum::{Delta, Sum, pseudo_header_v6};
use core::net::Ipv6Addr;

/// The header's fields.
mod field {
    use super::{IpProtocol, Ipv6Addr};
    use crate::wire::Field;
    /// Version in the high 4 bits, traffic class in the next 8, flow label in the low 20.
    pub const VERSION: Field<0, u32> = Field::NEW;
    pub const LENGTH: Field<4, u16> = Field::NEW;
    pub const NEXT_HEADER: Field<6, IpProtocol> = Field::NEW;
    pub const HOP_LIMIT: Field<7, u8> = Field::NEW;
    pub const SOURCE: Field<8, Ipv6Addr> = Field::NEW;
    pub const DESTINATION: Field<24, Ipv6Addr> = Field::NEW;
}

view! {
    /// A view of an IPv6 packet.
    Ipv6Packet, 40
}

impl<T: AsRef<[u8]>> Ipv6Packet<T> {
    /// A view of `buffer`, which may go on behind the packet. Does not look at extension headers.
    ///
    /// A jumbogram (RFC 2675) has the length 0 here and so looks empty.
    ///
    /// # Errors
    /// As [`Self::new_quoted`], and [`WireError::Length`] if the payload length runs past the end
    /// of the buffer.
    #[inline(always)]
    pub fn new_checked(buffer: T) -> Result<Self, WireError> {
        let packet = Self::new_quoted(buffer)?;
        if Self::HEADER_LEN + usize::from(packet.payload_len()) > packet.bytes().len() {
            return Err(WireError::Length);
        }
        Ok(packet)
    }

    /// A view of a packet whose end may be missing, such as ICMP errors quote.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under 40 bytes, [`WireError::Version`] if it is not 6.
    #[inline(always)]
    pub fn new_quoted(buffer: T) -> Result<Self, WireError> {
        let packet = Ipv6Packet { buffer };
        if packet.bytes().len() < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        if packet.version() != 6 {
            return Err(WireError::Version);
        }
        Ok(packet)
    }

    /// The version, 6.
    #[inline(always)]
    pub fn version(&self) -> u8 {
        (field::VERSION.get(self.header()) >> 28) as u8
    }

    /// Traffic class: DSCP and ECN.
    #[inline(always)]
    pub fn traffic_class(&self) -> u8 {
        (field::VERSION.get(self.header()) >> 20) as u8
    }

    /// Differentiated services code point (RFC 2474), 0 to 63.
    #[inline(always)]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Explicit congestion notification.
    #[inline(always)]
    pub fn ecn(&self) -> Ecn {
        Ecn::from_tos(self.traffic_class())
    }

    /// Flow label (RFC 6437), 20 bits.
    #[inline(always)]
    pub fn flow_label(&self) -> u32 {
        field::VERSION.get(self.header()) & 0x000f_ffff
    }

    /// Length of the payload, extensions included.
    #[inline(always)]
    pub fn payload_len(&self) -> u16 {
        field::LENGTH.get(self.header())
    }

    /// The protocol behind the fixed header: an extension or the upper layer.
    #[inline(always)]
    pub fn next_header(&self) -> IpProtocol {
        field::NEXT_HEADER.get(self.header())
    }

    /// How many hops are left.
    #[inline(always)]
    pub fn hop_limit(&self) -> u8 {
        field::HOP_LIMIT.get(self.header())
    }

    /// The sender.
    #[inline(always)]
    pub fn source(&self) -> Ipv6Addr {
        field::SOURCE.get(self.header())
    }

    /// The receiver, or the next hop of a routing header.
    #[inline(always)]
    pub fn destination(&self) -> Ipv6Addr {
        field::DESTINATION.get(self.header())
    }

    /// What follows the fixed header, extensions included, as far as the payload length says and
    /// the buffer goes.
    #[inline(always)]
    pub fn payload(&self) -> &[u8] {
        let rest = self.bytes().get(Self::HEADER_LEN..).unwrap_or_default();
        rest.get(..usize::from(self.payload_len())).unwrap_or(rest)
    }

    /// The extension headers, one by one.
    #[inline]
    pub fn extensions(&self) -> Extensions<'_> {
        Extensions::new(self.next_header(), self.payload())
    }

    /// The sum of the pseudo header for `protocol`, whose header and data take `length` bytes. The
    /// destination is the header's: right for packets without a routing header, or at its end.
    #[inline(always)]
    pub fn pseudo_header(&self, protocol: IpProtocol, length: u32) -> Sum {
        pseudo_header_v6(self.source(), self.destination(), protocol.0, length)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ipv6Packet<T> {
    /// Sets version 6, the traffic class, and the low 20 bits of the flow label.
    #[inline(always)]
    pub fn set_class_and_flow(&mut self, traffic_class: u8, flow_label: u32) {
        let word = version_word(traffic_class, flow_label);
        field::VERSION.put(self.header_mut(), word);
    }

    /// Sets the length of the payload.
    #[inline(always)]
    pub fn set_payload_len(&mut self, length: u16) {
        field::LENGTH.put(self.header_mut(), length);
    }

    /// Sets the protocol behind the fixed header.
    #[inline(always)]
    pub fn set_next_header(&mut self, protocol: IpProtocol) {
        field::NEXT_HEADER.put(self.header_mut(), protocol);
    }

    /// Sets how many hops are left.
    #[inline(always)]
    pub fn set_hop_limit(&mut self, hop_limit: u8) {
        field::HOP_LIMIT.put(self.header_mut(), hop_limit);
    }

    /// Sets the sender.
    #[inline(always)]
    pub fn set_source(&mut self, address: Ipv6Addr) {
        field::SOURCE.put(self.header_mut(), address);
    }

    /// Sets the receiver.
    #[inline(always)]
    pub fn set_destination(&mut self, address: Ipv6Addr) {
        field::DESTINATION.put(self.header_mut(), address);
    }

    /// Takes one hop off. False, and nothing done, if none or one is left: the packet must go no
    /// further (RFC 8200, section 3).
    #[inline(always)]
    #[must_use = "a packet without hops left must not be forwarded"]
    pub fn decrement_hop_limit(&mut self) -> bool {
        let hop_limit = self.hop_limit();
        if hop_limit <= 1 {
            return false;
        }
        self.set_hop_limit(hop_limit - 1);
        true
    }

    /// Replaces the sender. Returns the change for the upper layer's checksum.
    #[inline(always)]
    pub fn rewrite_source(&mut self, address: Ipv6Addr) -> Delta {
        let delta = address_delta(self.source(), address);
        self.set_source(address);
        delta
    }

    /// Replaces the receiver. Returns the change for the upper layer's checksum.
    #[inline(always)]
    pub fn rewrite_destination(&mut self, address: Ipv6Addr) -> Delta {
        let delta = address_delta(self.destination(), address);
        self.set_destination(address);
        delta
    }

    /// The payload, up to the payload length or the end of the buffer.
    #[inline(always)]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = Self::HEADER_LEN + usize::from(self.payload_len());
        let bytes = self.buffer.as_mut();
        let end = end.min(bytes.len());
        bytes.get_mut(Self::HEADER_LEN..end).unwrap_or_default()
    }
}

#[inline(always)]
fn address_delta(old: Ipv6Addr, new: Ipv6Addr) -> Delta {
    Delta::of_sums(Sum::of_array(&old.octets()), Sum::of_array(&new.octets()))
}

#[inline(always)]
fn version_word(traffic_class: u8, flow_label: u32) -> u32 {
    6 << 28 | u32::from(traffic_class) << 20 | flow_label & 0x000f_ffff
}

/// The values of an IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Header {
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Length of the payload, extensions included.
    pub payload_len: u16,
    /// The protocol behind the fixed header.
    pub next_header: IpProtocol,
    /// How many hops are left.
    pub hop_limit: u8,
    /// The sender.
    pub source: Ipv6Addr,
    /// The receiver.
    pub destination: Ipv6Addr,
}

impl Ipv6Header {
    /// Reads a packet's header.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(packet: &Ipv6Packet<T>) -> Self {
        Ipv6Header {
            traffic_class: packet.traffic_class(),
            flow_label: packet.flow_label(),
            payload_len: packet.payload_len(),
            next_header: packet.next_header(),
            hop_limit: packet.hop_limit(),
            source: packet.source(),
            destination: packet.destination(),
        }
    }

    /// Writes a packet's header.
    #[inline]
    pub fn emit<T: AsMut<[u8]>>(&self, packet: &mut Ipv6Packet<T>) {
        if let Some(place) = packet.header_mut() {
            *place = self.to_bytes();
        }
    }

    /// The header as it goes on the wire.
    #[inline]
    pub fn to_bytes(&self) -> [u8; 40] {
        let mut bytes = [0; 40];
        field::VERSION.set(
            &mut bytes,
            version_word(self.traffic_class, self.flow_label),
        );
        field::LENGTH.set(&mut bytes, self.payload_len);
        field::NEXT_HEADER.set(&mut bytes, self.next_header);
        field::HOP_LIMIT.set(&mut bytes, self.hop_limit);
        field::SOURCE.set(&mut bytes, self.source);
        field::DESTINATION.set(&mut bytes, self.destination);
        bytes
    }
}
