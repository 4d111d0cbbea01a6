//! ICMP for IPv4 (RFC 792).
//!
//! ```text
//!  0      1      2          4                                          8
//! +------+------+----------+------------------------------------------+----------
//! | type | code | checksum | by type: ident, sequence; pointer; MTU.. | payload
//! +------+------+----------+------------------------------------------+----------
//! ```
//!
//! The payload of an error is the start of the packet that caused it.

use super::WireError;
use crate::checksum::{Delta, Sum};
use core::net::Ipv4Addr;

/// The header's fields.
mod field {
    use super::{Icmpv4Type, Ipv4Addr};
    use crate::wire::Field;
    pub const TYPE: Field<0, Icmpv4Type> = Field::NEW;
    pub const CODE: Field<1, u8> = Field::NEW;
    pub const CHECKSUM: Field<2, u16> = Field::NEW;
    /// What the type makes of it; the fields below are parts.
    pub const REST: Field<4, [u8; 4]> = Field::NEW;
    pub const IDENT: Field<4, u16> = Field::NEW;
    pub const SEQUENCE: Field<6, u16> = Field::NEW;
    pub const GATEWAY: Field<4, Ipv4Addr> = Field::NEW;
    pub const POINTER: Field<4, u8> = Field::NEW;
    pub const NEXT_HOP_MTU: Field<6, u16> = Field::NEW;
}

numbers! {
    /// What a message says (IANA, "ICMP Type Numbers").
    Icmpv4Type(u8, 1) {
        /// Answer to an echo.
        ECHO_REPLY = 0,
        /// Destination unreachable; the code is an [`Icmpv4Unreachable`].
        UNREACHABLE = 3,
        /// Slow down (deprecated by RFC 6633).
        SOURCE_QUENCH = 4,
        /// There is a shorter way.
        REDIRECT = 5,
        /// Echo request.
        ECHO = 8,
        /// Router advertisement (RFC 1256).
        ROUTER_ADVERTISEMENT = 9,
        /// Router solicitation (RFC 1256).
        ROUTER_SOLICITATION = 10,
        /// Time exceeded: code 0 in transit, 1 in reassembly.
        TIME_EXCEEDED = 11,
        /// A header is wrong: code 0 at the pointer, 1 an option is missing, 2 a length.
        PARAMETER_PROBLEM = 12,
        /// Timestamp request.
        TIMESTAMP = 13,
        /// Answer to it.
        TIMESTAMP_REPLY = 14,
        /// Information request (deprecated by RFC 6918).
        INFORMATION = 15,
        /// Answer to it.
        INFORMATION_REPLY = 16,
        /// Address mask request (RFC 950).
        ADDRESS_MASK = 17,
        /// Answer to it.
        ADDRESS_MASK_REPLY = 18,
    }
}

impl Icmpv4Type {
    /// Whether this is an error, about which no error may be sent (RFC 1122, section 3.2.2).
    #[inline(always)]
    pub const fn is_error(self) -> bool {
        matches!(
            self,
            Icmpv4Type::UNREACHABLE
                | Icmpv4Type::SOURCE_QUENCH
                | Icmpv4Type::REDIRECT
                | Icmpv4Type::TIME_EXCEEDED
                | Icmpv4Type::PARAMETER_PROBLEM
        )
    }
}

numbers! {
    /// Why a destination is unreachable (RFC 792; RFC 1122, section 3.2.2.1; RFC 1812, section
    /// 5.2.7.1).
    Icmpv4Unreachable(u8, 1) {
        /// No route to the network.
        NETWORK = 0,
        /// The host does not answer.
        HOST = 1,
        /// The host does not know the protocol.
        PROTOCOL = 2,
        /// Nothing listens on the port.
        PORT = 3,
        /// Too big for the next link, and must not be fragmented (RFC 1191).
        FRAGMENTATION_NEEDED = 4,
        /// The source route failed.
        SOURCE_ROUTE_FAILED = 5,
        /// The network is unknown.
        NETWORK_UNKNOWN = 6,
        /// The host is unknown.
        HOST_UNKNOWN = 7,
        /// The source host is isolated.
        HOST_ISOLATED = 8,
        /// The network is prohibited by an administrator.
        NETWORK_PROHIBITED = 9,
        /// The host is prohibited by an administrator.
        HOST_PROHIBITED = 10,
        /// The network is unreachable for this type of service.
        NETWORK_TOS = 11,
        /// The host is unreachable for this type of service.
        HOST_TOS = 12,
        /// Communication is prohibited by an administrator.
        PROHIBITED = 13,
        /// The host's precedence is violated.
        PRECEDENCE_VIOLATION = 14,
        /// The precedence is below the network's minimum.
        PRECEDENCE_CUTOFF = 15,
    }
}

view! {
    /// A view of an ICMP message. It ends where the buffer ends: ICMP has no length of its own.
    Icmpv4Packet, 8
}

impl<T: AsRef<[u8]>> Icmpv4Packet<T> {
    /// A view of `buffer`, one whole message. Does not look at the checksum.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under 8 bytes.
    #[inline(always)]
    pub fn new_checked(buffer: T) -> Result<Self, WireError> {
        if buffer.as_ref().len() < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        Ok(Icmpv4Packet { buffer })
    }

    /// What the message says.
    #[inline(always)]
    pub fn icmp_type(&self) -> Icmpv4Type {
        field::TYPE.get(self.header())
    }

    /// What in particular.
    #[inline(always)]
    pub fn code(&self) -> u8 {
        field::CODE.get(self.header())
    }

    /// The checksum.
    #[inline(always)]
    pub fn checksum(&self) -> u16 {
        field::CHECKSUM.get(self.header())
    }

    /// Bytes 4 to 8, which mean what the type makes of them.
    #[inline(always)]
    pub fn rest(&self) -> [u8; 4] {
        field::REST.get(self.header())
    }

    /// Echo and other questions and answers: whose.
    #[inline(always)]
    pub fn ident(&self) -> u16 {
        field::IDENT.get(self.header())
    }

    /// Echo and other questions and answers: which.
    #[inline(always)]
    pub fn sequence(&self) -> u16 {
        field::SEQUENCE.get(self.header())
    }

    /// Redirect: the gateway to use.
    #[inline(always)]
    pub fn gateway(&self) -> Ipv4Addr {
        field::GATEWAY.get(self.header())
    }

    /// Parameter problem: where, in bytes from the start of the IP header.
    #[inline(always)]
    pub fn pointer(&self) -> u8 {
        field::POINTER.get(self.header())
    }

    /// Fragmentation needed: the next link's MTU (RFC 1191, section 4). 0 if the router does not
    /// say.
    #[inline(always)]
    pub fn next_hop_mtu(&self) -> u16 {
        field::NEXT_HOP_MTU.get(self.header())
    }

    /// What follows the header.
    #[inline(always)]
    pub fn payload(&self) -> &[u8] {
        self.bytes().get(Self::HEADER_LEN..).unwrap_or_default()
    }

    /// Whether the checksum, over the whole message, holds.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        Sum::of(self.bytes()).is_valid()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Icmpv4Packet<T> {
    /// Sets what the message says.
    #[inline(always)]
    pub fn set_icmp_type(&mut self, icmp_type: Icmpv4Type) {
        field::TYPE.put(self.header_mut(), icmp_type);
    }

    /// Sets what in particular.
    #[inline(always)]
    pub fn set_code(&mut self, code: u8) {
        field::CODE.put(self.header_mut(), code);
    }

    /// Sets the checksum field to `checksum` as it is.
    #[inline(always)]
    pub fn set_checksum(&mut self, checksum: u16) {
        field::CHECKSUM.put(self.header_mut(), checksum);
    }

    /// Sets bytes 4 to 8.
    #[inline(always)]
    pub fn set_rest(&mut self, rest: [u8; 4]) {
        field::REST.put(self.header_mut(), rest);
    }

    /// Sets whose question or answer this is.
    #[inline(always)]
    pub fn set_ident(&mut self, ident: u16) {
        field::IDENT.put(self.header_mut(), ident);
    }

    /// Sets which question or answer this is.
    #[inline(always)]
    pub fn set_sequence(&mut self, sequence: u16) {
        field::SEQUENCE.put(self.header_mut(), sequence);
    }

    /// Computes the checksum over the whole message.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let checksum = Sum::of(self.bytes()).checksum();
        self.set_checksum(checksum);
    }

    /// Brings the checksum up to date with a change in the message.
    ///
    /// Exact unless the message became all zeros (an empty echo reply with neither identifier nor
    /// sequence number): then call [`Self::fill_checksum`].
    #[inline(always)]
    pub fn update_checksum(&mut self, delta: Delta) {
        let checksum = delta.apply(self.checksum());
        self.set_checksum(checksum);
    }

    /// What follows the header.
    #[inline(always)]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let bytes = self.buffer.as_mut();
        bytes.get_mut(Self::HEADER_LEN..).unwrap_or_default()
    }
}

/// The values of an ICMP header, but for the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icmpv4Header {
    /// What the message says.
    pub icmp_type: Icmpv4Type,
    /// What in particular.
    pub code: u8,
    /// Bytes 4 to 8, which mean what the type makes of them.
    pub rest: [u8; 4],
}

impl Icmpv4Header {
    /// Reads a message's header.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(packet: &Icmpv4Packet<T>) -> Self {
        Icmpv4Header {
            icmp_type: packet.icmp_type(),
            code: packet.code(),
            rest: packet.rest(),
        }
    }

    /// Writes a message's header, its checksum zero: fill it once the payload is there.
    #[inline]
    pub fn emit<T: AsMut<[u8]>>(&self, packet: &mut Icmpv4Packet<T>) {
        if let Some(place) = packet.header_mut() {
            *place = self.to_bytes();
        }
    }

    /// The header as it goes on the wire, its checksum zero.
    #[inline]
    pub fn to_bytes(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        field::TYPE.set(&mut bytes, self.icmp_type);
        field::CODE.set(&mut bytes, self.code);
        field::REST.set(&mut bytes, self.rest);
        bytes
    }
}
