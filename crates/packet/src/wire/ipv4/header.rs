//! The IPv4 header as plain values.

use super::{Ipv4Packet, field, fragment_word};
use crate::checksum::Sum;
use crate::wire::IpProtocol;
use core::net::Ipv4Addr;

/// The values of an IPv4 header without options, but for the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Header {
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// Length of header and payload.
    pub total_len: u16,
    /// Identification, the same in all fragments of a packet.
    pub ident: u16,
    /// Whether routers must not fragment the packet.
    pub dont_fragment: bool,
    /// Whether more fragments follow behind this one's data.
    pub more_fragments: bool,
    /// Where this fragment's payload belongs in the whole, in bytes: a multiple of 8.
    pub fragment_offset: u16,
    /// Time to live, in hops.
    pub ttl: u8,
    /// The protocol of the payload.
    pub protocol: IpProtocol,
    /// The sender.
    pub source: Ipv4Addr,
    /// The receiver.
    pub destination: Ipv4Addr,
}

impl Ipv4Header {
    /// Reads a packet's header; passes over options.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(packet: &Ipv4Packet<T>) -> Self {
        Ipv4Header {
            tos: packet.tos(),
            total_len: packet.total_len(),
            ident: packet.ident(),
            dont_fragment: packet.dont_fragment(),
            more_fragments: packet.more_fragments(),
            fragment_offset: packet.fragment_offset(),
            ttl: packet.ttl(),
            protocol: packet.protocol(),
            source: packet.source(),
            destination: packet.destination(),
        }
    }

    /// Writes a packet's header of 20 bytes, with its checksum.
    #[inline]
    pub fn emit<T: AsMut<[u8]>>(&self, packet: &mut Ipv4Packet<T>) {
        if let Some(place) = packet.header_mut() {
            *place = self.to_bytes();
        }
    }

    /// The header as it goes on the wire, with its checksum.
    #[inline]
    pub fn to_bytes(&self) -> [u8; 20] {
        let fragment = fragment_word(
            self.dont_fragment,
            self.more_fragments,
            self.fragment_offset,
        );
        let mut bytes = [0; 20];
        field::VERSION.set(&mut bytes, 0x45);
        field::TOS.set(&mut bytes, self.tos);
        field::LENGTH.set(&mut bytes, self.total_len);
        field::IDENT.set(&mut bytes, self.ident);
        field::FRAGMENT.set(&mut bytes, fragment);
        field::TTL.set(&mut bytes, self.ttl);
        field::PROTOCOL.set(&mut bytes, self.protocol);
        field::SOURCE.set(&mut bytes, self.source);
        field::DESTINATION.set(&mut bytes, self.destination);
        let checksum = Sum::of_array(&bytes).checksum();
        field::CHECKSUM.set(&mut bytes, checksum);
        bytes
    }
}
