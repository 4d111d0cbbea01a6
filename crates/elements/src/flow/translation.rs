//! What a NAT changes in the packets of a connection.

use crate::prelude::*;
use crate::rewriter::checksums::{update_partial, update_transport};
use crate::rewriter::flow::Direction;
use crate::rewriter::headers;
use crate::rewriter::key::FlowKey;
use crate::rewriter::quoted::Quoted;

/// The change of packets in one direction.
#[derive(Clone, Copy, Default)]
pub struct Change {
    addresses: u64,
    ports: u32,
    ip: Delta,
    /// Of what covers addresses and ports; of an ICMP checksum, which covers the identifier alone.
    transport: Delta,
}

/// The changes of a connection in both directions.
#[derive(Clone, Copy, Default)]
pub struct Translation([Change; 2]);

/// What one number becoming another, and the reverse, does to a checksum.
fn delta(old: u32, new: u32) -> Delta {
    if old == new {
        Delta::NONE
    } else {
        Delta::of_u32(old, new)
    }
}

impl Change {
    /// The change that makes packets of a key packets of another.
    pub fn new(protocol: IpProtocol, old: FlowKey, new: FlowKey) -> Change {
        let upper = |addresses: u64| (addresses >> 32) as u32;
        let ip = delta(upper(old.addresses), upper(new.addresses))
            + delta(old.addresses as u32, new.addresses as u32);
        let ports = delta(old.ports, new.ports);
        Change {
            addresses: new.addresses,
            ports: new.ports,
            ip,
            transport: match protocol {
                IpProtocol::ICMP => ports,
                _ => ip + ports,
            },
        }
    }

    /// What the key of packets becomes.
    fn key(&self) -> FlowKey {
        FlowKey {
            addresses: self.addresses,
            ports: self.ports,
        }
    }

    /// Translates a packet, and sets its destination annotation.
    #[inline]
    pub fn apply(&self, packet: &mut Packet) -> Option<()> {
        let change = *self;
        let partial = packet.needs_checksum();
        let (ip, transport) = headers::parts_mut(packet)?;
        let protocol = headers::protocol(ip);
        *ip.last_chunk_mut()? = change.addresses.to_be_bytes();
        headers::update_ip_sum(change.ip, ip);
        match protocol {
            // One of the two ports of a query is the identifier, the other is 0.
            IpProtocol::ICMP => {
                let identifier = (change.ports >> 16) as u16 | change.ports as u16;
                headers::set_identifier(change.transport, transport, identifier);
            }
            IpProtocol::TCP | IpProtocol::UDP => {
                *transport.first_chunk_mut()? = change.ports.to_be_bytes();
                if partial {
                    update_partial(change.ip, protocol, transport);
                } else {
                    update_transport(change.transport, protocol, transport);
                }
            }
            _ => {}
        }
        packet.set_dst_ip(Ipv4Addr::from_bits(change.addresses as u32));
        Some(())
    }

    /// Translates an ICMP error that goes the way of the packets, about one that they answer. Its source
    /// becomes `source`, if that is given.
    pub fn apply_to_error(&self, source: Option<Ipv4Addr>, packet: &mut Packet) -> Option<()> {
        let quoted = Quoted::of(packet)?;
        let mut new = self.key().reverse();
        if quoted.protocol == IpProtocol::ICMP {
            let identifier = new.source_port() | new.destination_port();
            new = new
                .with_source_port(identifier)
                .with_destination_port(identifier);
        }
        let (ip, icmp) = headers::parts_mut(packet)?;
        let old = headers::addresses(ip);
        let from = source.map_or((old >> 32) as u32, Ipv4Addr::to_bits);
        let to = new.source();
        headers::set_source(ip, Ipv4Addr::from_bits(from));
        headers::set_destination(ip, to);
        let ip_delta = delta((old >> 32) as u32, from) + delta(old as u32, to.to_bits());
        headers::update_ip_sum(ip_delta, ip);
        quoted.rewrite(new, icmp);
        packet.set_dst_ip(to);
        Some(())
    }
}

impl Translation {
    /// That of a connection whose packets of `key` become packets of `rewritten`.
    pub fn new(protocol: IpProtocol, key: FlowKey, rewritten: FlowKey) -> Translation {
        Translation([
            Change::new(protocol, key, rewritten),
            Change::new(protocol, rewritten.reverse(), key.reverse()),
        ])
    }

    /// What the key of packets in a direction becomes.
    pub fn rewritten(&self, direction: Direction) -> FlowKey {
        self.0[direction as usize].key()
    }

    /// Translates a packet, and sets its destination annotation.
    #[inline]
    pub fn apply(&self, direction: Direction, packet: &mut Packet) -> Option<()> {
        self.0[direction as usize].apply(packet)
    }

    /// Translates an ICMP error about a packet of the connection, which goes in a direction itself. Its
    /// source becomes `source`, if that is given.
    pub fn apply_to_error(
        &self,
        direction: Direction,
        source: Option<Ipv4Addr>,
        packet: &mut Packet,
    ) -> Option<()> {
        self.0[direction as usize].apply_to_error(source, packet)
    }
}
