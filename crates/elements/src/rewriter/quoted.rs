//! The packet that an ICMP error is about: found by its flow, and rewritten with it.

use super::key::FlowKey;
use super::{checksums, headers};
use crate::prelude::*;

/// What an ICMP error quotes of a packet.
pub struct Quoted {
    /// Length of its IP header, in bytes.
    length: usize,
    /// Its protocol.
    pub protocol: IpProtocol,
    /// The key of packets that would answer it; of a ping, both ports are the identifier.
    pub answer: FlowKey,
    /// Whether enough of its transport header is there to tell its ports or identifier.
    has_ports: bool,
}

/// Bytes of an ICMP error before the packet inside.
const ICMP: usize = 8;

impl Quoted {
    /// The packet inside `packet`, which is ICMP; `None` if it is not an error.
    pub fn of(packet: &Packet) -> Option<Quoted> {
        const ERRORS: [u8; 5] = [3, 4, 5, 11, 12];
        let (outer, icmp) = headers::parts(packet)?;
        if !headers::is_first(outer) || !ERRORS.contains(icmp.first()?) {
            return None;
        }
        let packet = icmp.get(ICMP..)?;
        let ip: &[u8; 20] = packet.first_chunk()?;
        let length = usize::from(ip[0] & 15) * 4;
        if ip[0] >> 4 != 4 || length < 20 {
            return None;
        }
        let protocol = headers::protocol(ip);
        let transport = packet.get(length..).unwrap_or_default();
        let mut key = FlowKey {
            addresses: headers::addresses(ip),
            ports: 0,
        }
        .reverse();
        let mut has_ports = false;
        match protocol {
            IpProtocol::TCP | IpProtocol::UDP | checksums::DCCP => {
                if let Some(whole) = headers::key(ip, transport) {
                    key = whole.reverse();
                    has_ports = true;
                }
            }
            IpProtocol::ICMP if headers::is_first(ip) => {
                if let Some(&[8, _, _, _, a, b]) = transport.first_chunk() {
                    let identifier = u16::from_be_bytes([a, b]);
                    key = key
                        .with_source_port(identifier)
                        .with_destination_port(identifier);
                    has_ports = true;
                }
            }
            _ => {}
        }
        Some(Quoted {
            length,
            protocol,
            answer: key,
            has_ports,
        })
    }

    /// Makes the packet inside the error `icmp` one of `key`, with all checksums.
    pub fn rewrite(&self, key: FlowKey, icmp: &mut [u8]) {
        let Some((header, packet)) = icmp.split_at_mut_checked(ICMP) else {
            return;
        };
        let before = Sum::of(packet);
        let (ip, transport) = packet.split_at_mut(self.length.min(packet.len()));
        let Some(ip) = ip.first_chunk_mut::<20>() else {
            return;
        };
        let old = self.answer.reverse();
        let addresses = sums(old.addresses, key.addresses);
        headers::set_source(ip, key.source());
        headers::set_destination(ip, key.destination());
        headers::update_ip_sum(addresses, ip);
        if self.has_ports && self.protocol == IpProtocol::ICMP {
            // As an answer's key has it, the identifier is the destination port of what it becomes.
            let (old, new) = (old.destination_port(), key.source_port());
            headers::set_identifier(Delta::of_u16(old, new), transport, new);
        } else if self.has_ports {
            if let Some(ports) = transport.first_chunk_mut() {
                *ports = key.ports.to_be_bytes();
            }
            let delta = addresses + Delta::of_u32(old.ports, key.ports);
            checksums::update_transport(delta, self.protocol, transport);
        }
        let delta = Delta::of_sums(before, Sum::of(packet));
        checksums::update_sum(delta, header, 2);
    }
}

/// What a change of both addresses does to checksums.
fn sums(old: u64, new: u64) -> Delta {
    Delta::of_u32((old >> 32) as u32, (new >> 32) as u32) + Delta::of_u32(old as u32, new as u32)
}
