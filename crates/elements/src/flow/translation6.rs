//! What a balancer changes in the packets of a connection over IPv6.

use super::ip6::{self, HEADER};
use crate::prelude::*;
use crate::rewriter::checksums::{update_partial, update_sum, update_transport};
use crate::rewriter::flow::Direction;

/// An address and a port.
pub type End = (Ipv6Addr, u16);

/// Where the source and the destination stand in a header.
const SOURCE: usize = 8;
/// See [`SOURCE`].
const DESTINATION: usize = 24;

/// One end of packets in one direction becomes another.
#[derive(Clone, Copy)]
struct Change {
    address: [u8; 16],
    port: u16,
    /// Of what covers the address.
    address_delta: Delta,
    /// Of what covers the address and the port.
    delta: Delta,
}

/// The end to which packets of a connection go, and from which those come that answer, is another one.
#[derive(Clone, Copy)]
pub struct Translation6 {
    /// Of the packets that answer.
    back: Change,
    there: Change,
}

/// Which end of a header.
#[derive(Clone, Copy)]
enum Side {
    Source,
    Destination,
}

impl Change {
    fn new(old: End, new: End) -> Change {
        let [before, after] = [old, new].map(|(address, _)| Sum::of(&address.octets()));
        let change = |is: bool, delta| if is { delta } else { Delta::NONE };
        let address_delta = change(old.0 != new.0, Delta::of_sums(before, after));
        Change {
            address: new.0.octets(),
            port: new.1,
            address_delta,
            delta: address_delta + change(old.1 != new.1, Delta::of_u16(old.1, new.1)),
        }
    }

    /// Changes a header and the upper layer behind it, as far as it is there.
    fn apply(
        &self,
        side: Side,
        (protocol, at): (IpProtocol, usize),
        partial: bool,
        header: &mut [u8],
    ) -> Option<()> {
        let (ip, rest) = header.split_at_mut_checked(HEADER)?;
        let upper = rest.get_mut(at.checked_sub(HEADER)?..)?;
        let (address, port) = match side {
            Side::Source => (SOURCE, 0),
            Side::Destination => (DESTINATION, 2),
        };
        *ip.get_mut(address..)?.first_chunk_mut()? = self.address;
        match protocol {
            IpProtocol::TCP | IpProtocol::UDP => {
                *upper.get_mut(port..)?.first_chunk_mut()? = self.port.to_be_bytes();
                match partial {
                    true => update_partial(self.address_delta, protocol, upper),
                    false => update_transport(self.delta, protocol, upper),
                }
            }
            IpProtocol::ICMPV6 => update_sum(self.address_delta, upper, 2),
            _ => update_transport(self.address_delta, protocol, upper),
        }
        Some(())
    }
}

/// The protocol of an upper layer, and where it begins.
fn upper(header: &[u8]) -> Option<(IpProtocol, usize)> {
    let (_, upper) = ip6::upper(header).ok()?;
    Some((upper.protocol, upper.at))
}

impl Translation6 {
    /// Packets to `old` go to `new`.
    pub fn new(old: End, new: End) -> Translation6 {
        Translation6 {
            back: Change::new(new, old),
            there: Change::new(old, new),
        }
    }

    /// Translates a packet, and sets its destination annotation.
    pub fn apply(&self, direction: Direction, packet: &mut Packet) -> Option<()> {
        let partial = packet.needs_checksum();
        let header = packet.network_header_mut()?;
        let upper = upper(header)?;
        match direction {
            Direction::Forward => self
                .there
                .apply(Side::Destination, upper, partial, header)?,
            Direction::Reply => self.back.apply(Side::Source, upper, partial, header)?,
        }
        annotate(packet)
    }

    /// Translates an ICMPv6 error that goes the way of the packets, about one that they answer.
    pub fn apply_to_error(&self, direction: Direction, packet: &mut Packet) -> Option<()> {
        const FIXED: usize = 8;
        let header = packet.network_header_mut()?;
        let (_, at) = upper(header)?;
        let length = HEADER + usize::from(u16::from_be_bytes([*header.get(4)?, *header.get(5)?]));
        let header = header.get_mut(..length)?;
        let quoted = header.get_mut(at + FIXED..)?;
        let of_quoted = upper(quoted)?;
        // It goes to the service, which the client knows, or comes from the server, which no client knows.
        let (change, side, at_outer, outer) = match direction {
            Direction::Forward => (&self.there, Side::Source, DESTINATION, self.back.address),
            Direction::Reply => (&self.back, Side::Destination, SOURCE, self.there.address),
        };
        change.apply(side, of_quoted, false, quoted)?;
        let outer_address = header.get_mut(at_outer..)?.first_chunk_mut()?;
        if *outer_address == outer {
            *outer_address = change.address;
        }
        let ip = Ipv6Packet::new_quoted(&*header).ok()?;
        let (from, to) = (ip.source(), ip.destination());
        let icmp = header.get_mut(at..)?;
        let pseudo = pseudo_header_v6(from, to, IpProtocol::ICMPV6.0, icmp.len() as u32);
        Icmpv6Packet::new_checked(icmp).ok()?.fill_checksum(pseudo);
        annotate(packet)
    }
}

/// Sets the destination annotation to the packet's destination.
fn annotate(packet: &mut Packet) -> Option<()> {
    let header = packet.network_header()?;
    let to = header.get(DESTINATION..)?.first_chunk::<16>()?;
    packet.set_dst_ip6(Ipv6Addr::from_octets(*to));
    Some(())
}
