//! What a packet says of the flow it is part of, and how its ends are replaced.

use packet::wire::ports;

use super::table::{Endpoint, Side};
use crate::prelude::*;

/// What stands where the upper layer starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upper {
    /// A header with two ports.
    Ports(u16, u16),
    /// An echo with its identifier.
    Echo(u16),
    /// An ICMPv6 error.
    Error,
    /// Another ICMPv6 message.
    Message,
    /// Data from the middle of a packet.
    Middle,
}

/// What a packet says of its flow.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub source: Ipv6Addr,
    pub destination: Ipv6Addr,
    pub protocol: IpProtocol,
    /// Where the upper layer starts, in bytes from the start of the IPv6 header.
    pub at: usize,
    pub upper: Upper,
}

/// Why a packet is not translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its protocol is not known.
    Protocol,
    /// It is damaged, or no mapping is for it.
    Unknown,
}

impl Flow {
    /// The flow of a packet, which may be cut off behind the first bytes of its upper layer.
    pub fn of(ip: &Ipv6Packet<&[u8]>) -> Result<Flow, Refusal> {
        for extension in ip.extensions() {
            let extension = extension.map_err(|_| Refusal::Unknown)?;
            // On its way the destination is not the one that checksums have.
            if extension.kind == IpProtocol::ROUTING && extension.bytes.get(3) != Some(&0) {
                return Err(Refusal::Unknown);
            }
        }
        let layer = ip.extensions().upper_layer();
        let layer = layer.map_err(|_| Refusal::Unknown)?;
        let bytes = ip.bytes().get(layer.at..).unwrap_or_default();
        let middle = layer.fragment.is_some_and(|fragment| fragment.offset > 0);
        let upper = match layer.protocol {
            IpProtocol::TCP | IpProtocol::UDP | IpProtocol::ICMPV6 if middle => Upper::Middle,
            IpProtocol::TCP | IpProtocol::UDP => {
                let (source, destination) = ports(bytes).ok_or(Refusal::Unknown)?;
                Upper::Ports(source, destination)
            }
            IpProtocol::ICMPV6 => {
                let icmp = Icmpv6Packet::new_checked(bytes).map_err(|_| Refusal::Unknown)?;
                match icmp.icmp_type() {
                    Icmpv6Type::ECHO | Icmpv6Type::ECHO_REPLY => Upper::Echo(icmp.ident()),
                    kind if kind.is_error() => Upper::Error,
                    _ => Upper::Message,
                }
            }
            _ => return Err(Refusal::Protocol),
        };
        Ok(Flow {
            source: ip.source(),
            destination: ip.destination(),
            protocol: layer.protocol,
            at: layer.at,
            upper,
        })
    }

    /// The flow as the end that is translated sees it: the source if `source`.
    pub fn side(&self, source: bool) -> Side {
        let (from, to) = match self.upper {
            Upper::Ports(from, to) => (from, to),
            Upper::Echo(ident) if source => (ident, 0),
            Upper::Echo(ident) => (0, ident),
            _ => (0, 0),
        };
        let (from, to) = ((self.source, from), (self.destination, to));
        let (own, peer) = if source { (from, to) } else { (to, from) };
        Side {
            protocol: self.protocol,
            own,
            peer,
        }
    }

    /// Whether the packet says which port it is from or for.
    pub fn has_port(&self) -> bool {
        matches!(self.upper, Upper::Ports(..) | Upper::Echo(_))
    }

    /// Puts `new` in the place of one end, the source if `source`, in the header and the upper
    /// layer of the packet in `bytes`, as far as they are there, and brings its checksum up to date.
    pub fn replace(&self, bytes: &mut [u8], source: bool, new: Endpoint) {
        let mut ip = Ipv6Packet::new_unchecked(&mut *bytes);
        let mut delta = match source {
            true => ip.rewrite_source(new.0),
            false => ip.rewrite_destination(new.0),
        };
        let Some(upper) = bytes.get_mut(self.at..) else {
            return;
        };
        let place = match (self.upper, source) {
            (Upper::Ports(..), true) => Some(0),
            (Upper::Ports(..), false) => Some(2),
            (Upper::Echo(_), _) => Some(4),
            _ => None,
        };
        if let Some(port) = place.and_then(|at| upper.get_mut(at..at + 2)) {
            let old = self.side(source).own.1;
            port.copy_from_slice(&new.1.to_be_bytes());
            delta = delta + Delta::of_u16(old, new.1);
        }
        match (self.upper, self.protocol) {
            (Upper::Middle, _) => {}
            (_, IpProtocol::TCP) => TcpPacket::new_unchecked(upper).update_checksum(delta),
            (_, IpProtocol::UDP) => UdpPacket::new_unchecked(upper).update_checksum(delta),
            _ => Icmpv6Packet::new_unchecked(upper).update_checksum(delta),
        }
    }
}
