//! Stateless translation between IPv4 and IPv6 (SIIT: RFC 2765, RFC 7915), of one packet at a time
//! and in its own buffer.
//!
//! Which address stands for which in the other version, [`Addresses`] say. Checksums of TCP and UDP are updated, not computed again, so that a packet
//! that was damaged is so afterwards too. ICMP's errors carry the start of a packet, which is
//! translated as well.

mod errors;
mod four_to_six;
mod six_to_four;
#[cfg(test)]
mod tests;

pub use four_to_six::to_v6;
pub use six_to_four::to_v4;

use crate::prelude::*;

/// Which addresses stand for each other.
pub trait Addresses {
    /// What stands for an IPv6 address.
    fn to_v4(&mut self, address: Ipv6Addr) -> Option<Ipv4Addr>;

    /// What stands for an IPv4 address.
    fn to_v6(&mut self, address: Ipv4Addr) -> Option<Ipv6Addr>;
}

/// `a.b.c.d` and the IPv4-mapped IPv6 address `::ffff:a.b.c.d`.
pub struct Mapped;

impl Addresses for Mapped {
    fn to_v4(&mut self, address: Ipv6Addr) -> Option<Ipv4Addr> {
        let address = address.to_ipv4_mapped()?;
        (!address.is_unspecified()).then_some(address)
    }

    fn to_v6(&mut self, address: Ipv4Addr) -> Option<Ipv6Addr> {
        Some(address.to_ipv6_mapped())
    }
}

/// Lengths of headers without options.
const V4: usize = 20;
const V6: usize = 40;
const FRAGMENT: usize = 8;
const ICMP: usize = 8;

/// Two addresses' part of a pseudo header.
fn sum_v4(source: Ipv4Addr, destination: Ipv4Addr) -> Sum {
    Sum::of_array(&source.octets()) + Sum::of_array(&destination.octets())
}

fn sum_v6(source: Ipv6Addr, destination: Ipv6Addr) -> Sum {
    Sum::of_array(&source.octets()) + Sum::of_array(&destination.octets())
}

/// Brings the checksum of a transport header, as far as it is there, up to date with `delta`, the
/// change of the addresses. Lengths and protocols count the same in both pseudo headers.
fn fix_transport(protocol: IpProtocol, transport: &mut [u8], delta: Delta) {
    match protocol {
        IpProtocol::TCP => TcpPacket::new_unchecked(transport).update_checksum(delta),
        IpProtocol::UDP => UdpPacket::new_unchecked(transport).update_checksum(delta),
        _ => {}
    }
}

/// Type and code as the word they are in a header.
fn kind_word(kind: u8, code: u8) -> u16 {
    u16::from_be_bytes([kind, code])
}
