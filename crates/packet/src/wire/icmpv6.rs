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

use crate::checksum::Sum;

/// The header's fields that only IPv6's messages have.
mod field {
    use crate::wire::Field;
    pub const MTU_OR_POINTER: Field<4, u32> = Field::NEW;
}

numbers! {
    /// The type of a message (IANA, "ICMPv6 'type' Numbers"). Below 128: an error.
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

icmp! {
    /// A view of an ICMPv6 message. It ends where the buffer ends: ICMPv6 has no length of its own.
    Icmpv6Packet,
    /// The values of an ICMPv6 header, but for the checksum.
    Icmpv6Header,
    Icmpv6Type
}

impl<T: AsRef<[u8]>> Icmpv6Packet<T> {
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

    /// Whether the checksum holds. `pseudo` is the pseudo header's sum.
    #[inline]
    pub fn verify_checksum(&self, pseudo: Sum) -> bool {
        pseudo.add_bytes(self.bytes()).is_valid()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Icmpv6Packet<T> {
    /// Computes the checksum. `pseudo` is the pseudo header's sum.
    #[inline]
    pub fn fill_checksum(&mut self, pseudo: Sum) {
        self.set_checksum(0);
        let checksum = pseudo.add_bytes(self.bytes()).checksum();
        self.set_checksum(checksum);
    }
}
