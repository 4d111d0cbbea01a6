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

use crate::checksum::Sum;
use core::net::Ipv4Addr;

/// The header's fields that only IPv4's messages have.
mod field {
    use super::Ipv4Addr;
    use crate::wire::Field;
    pub const GATEWAY: Field<4, Ipv4Addr> = Field::NEW;
    pub const POINTER: Field<4, u8> = Field::NEW;
    pub const NEXT_HOP_MTU: Field<6, u16> = Field::NEW;
}

numbers! {
    /// The type of a message (IANA, "ICMP Type Numbers").
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

icmp! {
    /// A view of an ICMP message. It ends where the buffer ends: ICMP has no length of its own.
    Icmpv4Packet,
    /// The values of an ICMP header, but for the checksum.
    Icmpv4Header,
    Icmpv4Type
}

impl<T: AsRef<[u8]>> Icmpv4Packet<T> {
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

    /// Whether the checksum, over the whole message, holds.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        Sum::of(self.bytes()).is_valid()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Icmpv4Packet<T> {
    /// Computes the checksum over the whole message.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let checksum = Sum::of(self.bytes()).checksum();
        self.set_checksum(checksum);
    }
}
