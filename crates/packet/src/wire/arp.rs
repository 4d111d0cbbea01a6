//! ARP for IPv4 over Ethernet (RFC 826).
//!
//! ```text
//!  0          2          4     5     6      8        14       18       24       28
//! +----------+----------+-----+-----+------+--------+--------+--------+--------+
//! | hardware | protocol | 6   | 4   | op   | sender's addresses | target's       |
//! +----------+----------+-----+-----+------+--------+--------+--------+--------+
//! ```

use super::{EtherAddress, WireError};
use core::net::Ipv4Addr;

/// The packet's fields.
mod field {
    use super::{ArpOperation, EtherAddress, Ipv4Addr};
    use crate::wire::Field;
    /// Hardware type, protocol type, hardware and protocol address length.
    pub const FORMAT: Field<0, [u8; 6]> = Field::NEW;
    pub const OPERATION: Field<6, ArpOperation> = Field::NEW;
    pub const SENDER_HARDWARE: Field<8, EtherAddress> = Field::NEW;
    pub const SENDER: Field<14, Ipv4Addr> = Field::NEW;
    pub const TARGET_HARDWARE: Field<18, EtherAddress> = Field::NEW;
    pub const TARGET: Field<24, Ipv4Addr> = Field::NEW;
}

/// [`field::FORMAT`] of Ethernet (hardware type 1) and IPv4 (protocol 0x0800).
const ETHERNET_IPV4: [u8; 6] = [0, 1, 0x08, 0x00, 6, 4];

numbers! {
    /// The operation of an ARP packet (IANA, "ARP Parameters").
    ArpOperation(u16, 2) {
        /// Asks for the owner of a protocol address.
        REQUEST = 1,
        /// I do.
        REPLY = 2,
        /// Which protocol address has this hardware? (RFC 903)
        REVERSE_REQUEST = 3,
        /// The answer to that.
        REVERSE_REPLY = 4,
        /// Which protocol address is at the other end of this circuit? (RFC 2390)
        INVERSE_REQUEST = 8,
        /// The answer to that.
        INVERSE_REPLY = 9,
    }
}

view! {
    /// A view of an ARP packet about IPv4 addresses on Ethernet.
    ArpPacket, 28
}

impl<T: AsRef<[u8]>> ArpPacket<T> {
    /// A view of `buffer`, the payload of an Ethernet frame of type [`ARP`](super::EtherType::ARP).
    ///
    /// # Errors
    /// [`WireError::Truncated`] under 28 bytes, [`WireError::AddressFormat`] for addresses other
    /// than IPv4 on Ethernet.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, WireError> {
        let Some(header) = buffer.as_ref().first_chunk::<28>() else {
            return Err(WireError::Truncated);
        };
        if field::FORMAT.get(header) != ETHERNET_IPV4 {
            return Err(WireError::AddressFormat);
        }
        Ok(ArpPacket { buffer })
    }

    /// The operation.
    #[inline(always)]
    pub fn operation(&self) -> ArpOperation {
        field::OPERATION.get(self.header())
    }

    /// The sender's Ethernet address.
    #[inline(always)]
    pub fn sender_hardware(&self) -> EtherAddress {
        field::SENDER_HARDWARE.get(self.header())
    }

    /// The sender's IPv4 address.
    #[inline(always)]
    pub fn sender(&self) -> Ipv4Addr {
        field::SENDER.get(self.header())
    }

    /// The target's Ethernet address. Means nothing in a request.
    #[inline(always)]
    pub fn target_hardware(&self) -> EtherAddress {
        field::TARGET_HARDWARE.get(self.header())
    }

    /// The target's IPv4 address.
    #[inline(always)]
    pub fn target(&self) -> Ipv4Addr {
        field::TARGET.get(self.header())
    }
}

/// The values of an ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpMessage {
    /// The operation.
    pub operation: ArpOperation,
    /// The sender's Ethernet address.
    pub sender_hardware: EtherAddress,
    /// The sender's IPv4 address.
    pub sender: Ipv4Addr,
    /// The target's Ethernet address. Means nothing in a request.
    pub target_hardware: EtherAddress,
    /// The target's IPv4 address.
    pub target: Ipv4Addr,
}

impl ArpMessage {
    /// Reads a packet.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(packet: &ArpPacket<T>) -> Self {
        ArpMessage {
            operation: packet.operation(),
            sender_hardware: packet.sender_hardware(),
            sender: packet.sender(),
            target_hardware: packet.target_hardware(),
            target: packet.target(),
        }
    }

    /// Writes a packet.
    #[inline]
    pub fn emit<T: AsMut<[u8]>>(&self, packet: &mut ArpPacket<T>) {
        if let Some(place) = packet.header_mut() {
            *place = self.to_bytes();
        }
    }

    /// The packet as it goes on the wire.
    #[inline]
    pub fn to_bytes(&self) -> [u8; 28] {
        let mut bytes = [0; 28];
        field::FORMAT.set(&mut bytes, ETHERNET_IPV4);
        field::OPERATION.set(&mut bytes, self.operation);
        field::SENDER_HARDWARE.set(&mut bytes, self.sender_hardware);
        field::SENDER.set(&mut bytes, self.sender);
        field::TARGET_HARDWARE.set(&mut bytes, self.target_hardware);
        field::TARGET.set(&mut bytes, self.target);
        bytes
    }

    /// The request for the owner of `target`.
    #[inline]
    pub fn request(
        sender_hardware: EtherAddress,
        sender: Ipv4Addr,
        target: Ipv4Addr,
    ) -> ArpMessage {
        ArpMessage {
            operation: ArpOperation::REQUEST,
            sender_hardware,
            sender,
            target_hardware: EtherAddress::ZERO,
            target,
        }
    }

    /// The answer to this request: its target is at `hardware`.
    #[inline]
    pub fn reply(&self, hardware: EtherAddress) -> ArpMessage {
        ArpMessage {
            operation: ArpOperation::REPLY,
            sender_hardware: hardware,
            sender: self.target,
            target_hardware: self.sender_hardware,
            target: self.sender,
        }
    }
}
