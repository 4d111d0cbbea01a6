//! The upper layer of packets of either version of IP.

use crate::prelude::*;
use crate::rewriter::headers::{self, is_ip6};

use super::ip6;

/// The upper layer of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Upper<'p> {
    /// Which protocol.
    pub protocol: IpProtocol,
    /// Its bytes, as far as they are in the packet's first part.
    pub bytes: &'p [u8],
    /// How many it has, as the IP header says.
    pub length: usize,
    /// How many the packet has.
    pub total: usize,
}

impl<'p> Upper<'p> {
    /// Finds it; `None` if a header is wrong, or the packet is a later fragment over IPv6.
    #[inline]
    pub fn of(packet: &'p Packet) -> Option<Upper<'p>> {
        if is_ip6(packet) {
            return Upper::of_ip6(packet);
        }
        let (ip, rest) = headers::parts(packet)?;
        let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        let length = total.saturating_sub(packet.network_header_len());
        Some(Upper {
            protocol: headers::protocol(ip),
            bytes: rest.get(..length).unwrap_or(rest),
            length,
            total,
        })
    }

    #[inline(never)]
    fn of_ip6(packet: &'p Packet) -> Option<Upper<'p>> {
        let header = packet.network_header()?;
        let (ip, upper) = ip6::upper(header).ok()?;
        let payload = usize::from(ip.payload_len());
        let length = payload.saturating_sub(upper.at - ip6::HEADER);
        let rest = header.get(upper.at..).unwrap_or_default();
        Some(Upper {
            protocol: upper.protocol,
            bytes: rest.get(..length).unwrap_or(rest),
            length,
            total: ip6::HEADER + payload,
        })
    }
}

/// The bytes of a packet's upper layer, to be changed; `None` as of [`Upper::of`].
#[inline]
pub fn upper_mut(packet: &mut Packet) -> Option<&mut [u8]> {
    if is_ip6(packet) {
        let header = packet.network_header_mut()?;
        let (_, upper) = ip6::upper(header).ok()?;
        return header.get_mut(upper.at..);
    }
    headers::parts_mut(packet).map(|(_, rest)| rest)
}

/// The source and the destination of a packet.
pub fn ends(packet: &Packet) -> Option<[IpAddr; 2]> {
    let header = packet.network_header()?;
    if let Ok(ip) = Ipv6Packet::new_quoted(header) {
        return Some([ip.source().into(), ip.destination().into()]);
    }
    let ip = Ipv4Packet::new_quoted(header).ok()?;
    Some([ip.source().into(), ip.destination().into()])
}
