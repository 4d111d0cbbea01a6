//! ICMP for IPv6 (RFC 4443), neighbor discovery's messages (RFC 4861) among them.
//!
//! ```text
//!  0      1      2          4                                          8
//! +------+------+----------+------------------------------------------+----------
//! | type | code | checksum | by type: ident, sequence; pointer; MTU.. | payload
//! +------+------+----------+------------------------------------------+----------
//! ```
//!
//! RFC 4443 asks for 4 bytes; every message defined has at least the 8 that the view asks for. The
//! payload of an error is the start of the packet that caused it.

use super::WireError;
use crate::checksum::{Delta, Sum};

/// The header's fields.
mod field {
    use super::Icmpv6Type;
    use crate::wire::Field;
    pub const TYPE: Field<0, Icmpv6Type> = Field::NEW;
    pub const CODE: Field<1, u8> = Field::NEW;
    pub const CHECKSUM: Field<2, u16> = Field::NEW;
    /// What the type makes of it; the fields below are parts.
    pub const REST: Field<4, [u8; 4]> = Field::NEW;
    pub const IDENT: Field<4, u16> = Field::NEW;
    pub const SEQUENCE: Field<6, u16> = Field::NEW;
    pub const MTU_OR_POINTER: Field<4, u32> = Field::NEW;
}

numbers! {
    /// What a message says (IANA, "ICMPv6 'type' Numbers"). Below 128: an error.
    Icmpv6Type(u8, 1) {
        /// Destination unreachable: code 0 no route, 1 prohibited, 2 out of scope, 3 address,
        /// 4 port, 5 the source address is refused, 6 the route is.
        UNREACHABLE = 1,
        /// Too big for the next link.
        PACKET_TOO_BIG = 2,
        /// Time exceeded: code 0 in transit, 1 in reassembly.
        TIME_EXCEEDED = 3,
        /// Something is wrong at the pointer: code 0 a field, 1 a next header, 2 an option.
        PARAMETER_PROBLEM = 4,
        /// Echo request.
        ECHO = 128,
        /// Answer to it.
        ECHO_REPLY = 129,
        /// Multicast listener query (RFC 2710).
        LISTENER_QUERY = 130,
        /// Multicast listener report (RFC 2710).
        LISTENER_REPORT = 131,
        /// Multicast listener done (RFC 2710).
        LISTENER_DONE = 132,
        /// Router solicitation.
        ROUTER_SOLICITATION = 133,
        /// Router advertisement.
        ROUTER_ADVERTISEMENT = 134,
        /// Neighbor solicitation.
        NEIGHBOR_SOLICITATION = 135,
        /// Neighbor advertisement.
        NEIGHBOR_ADVERTISEMENT = 136,
        /// Redirect.
        REDIRECT = 137,
        /// Multicast listener report, version 2 (RFC 3810).
        LISTENER_REPORT_V2 = 143,
    }
}

impl Icmpv6Type {
    /// Whether this is an error, about which no error may be sent (RFC 4443, section 2.4).
    #[inline(always)]
    pub const fn is_error(self) -> bool {
        self.0 < 128
    }
}

view! {
    /// A view of an ICMPv6 message. It ends where the buffer ends: ICMPv6 has no length of its own.
    Icmpv6Packet, 8
}

impl<T: AsRef<[u8]>> Icmpv6Packet<T> {
    /// A view of `buffer`, one whole message. Does not look at the checksum.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under 8 bytes.
    #[inline(always)]
    pub fn new_checked(buffer: T) -> Result<Self, WireError> {
        if buffer.as_ref().len() < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        Ok(Icmpv6Packet { buffer })
    }

    /// What the message says.
    #[inline(always)]
    pub fn icmp_type(&self) -> Icmpv6Type {
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

    /// Echo: whose.
    #[inline(always)]
    pub fn ident(&self) -> u16 {
        field::IDENT.get(self.header())
    }

    /// Echo: which.
    #[inline(always)]
    pub fn sequence(&self) -> u16 {
        field::SEQUENCE.get(self.header())
    }

    /// Packet too big: the next link's MTU.
    #[inline(always)]
    pub fn mtu(&self) -> u32 {
        field::MTU_OR_POINTER.get(self.header())
    }

    /// Parameter problem: where, in bytes from the start of the IPv6 header.
    #[inline(always)]
    pub fn pointer(&self) -> u32 {
        field::MTU_OR_POINTER.get(self.header())
    }

    /// What follows the header.
    #[inline(always)]
    pub fn payload(&self) -> &[u8] {
        self.bytes().get(Self::HEADER_LEN..).unwrap_or_default()
    }

    /// Whether the checksum holds. `pseudo` is the pseudo header's sum.
    #[inline]
    pub fn verify_checksum(&self, pseudo: Sum) -> bool {
        pseudo.add_bytes(self.bytes()).is_valid()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Icmpv6Packet<T> {
    /// Sets what the message says.
    #[inline(always)]
    pub fn set_icmp_type(&mut self, icmp_type: Icmpv6Type) {
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

    /// Computes the checksum. `pseudo` is the pseudo header's sum.
    #[inline]
    pub fn fill_checksum(&mut self, pseudo: Sum) {
        self.set_checksum(0);
        let checksum = pseudo.add_bytes(self.bytes()).checksum();
        self.set_checksum(checksum);
    }

    /// Brings the checksum up to date with a change in the message or the pseudo header.
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

/// The values of an ICMPv6 header, but for the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icmpv6Header {
    /// What the message says.
    pub icmp_type: Icmpv6Type,
    /// What in particular.
    pub code: u8,
    /// Bytes 4 to 8, which mean what the type makes of them.
    pub rest: [u8; 4],
}

impl Icmpv6Header {
    /// Reads a message's header.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(packet: &Icmpv6Packet<T>) -> Self {
        Icmpv6Header {
            icmp_type: packet.icmp_type(),
            code: packet.code(),
            rest: packet.rest(),
        }
    }

    /// Writes a message's header, its checksum zero: fill it once the payload is there.
    #[inline]
    pub fn emit<T: AsMut<[u8]>>(&self, packet: &mut Icmpv6Packet<T>) {
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
