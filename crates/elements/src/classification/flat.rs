//! IPv6 packets in the form that patterns for both versions of IP look at.

use super::headers::Headers;
use super::program::Program;
use super::views::headers;
use crate::prelude::*;

/// Where the source address begins, in bytes from the start of the flat header.
pub(super) const SOURCE: u16 = 20;
/// Where the destination address begins.
pub(super) const DESTINATION: u16 = SOURCE + 16;
/// Length of IPv6's header.
const IP6: usize = Ipv6Packet::<&[u8]>::HEADER_LEN;
/// Length of the flat header.
const HEADER: usize = DESTINATION as usize + 16;
/// Most bytes of the upper layer that patterns look at: a TCP header with all options.
const UPPER: usize = 60;

/// A protocol that no packet has: the number is reserved.
const NO_PROTOCOL: IpProtocol = IpProtocol(255);

/// An IPv6 packet's headers as an IPv4 packet would have them.
///
/// Version, traffic class, length, fragment, hop limit and protocol, which is that of the upper layer, are where IPv4 has
/// them; the identification is 0, and so are the addresses. IPv6's follow, and then the upper layer. IPv4's ICMP is none
/// of IPv6's: its number is [`NO_PROTOCOL`] here.
struct Flat {
    bytes: [u8; HEADER + UPPER],
    length: usize,
}

impl Flat {
    /// The flat form of a packet; `None` if it is not IPv6, or its extension headers are wrong.
    fn of(packet: &Packet) -> Option<Flat> {
        let ip = Ipv6Packet::new_quoted(packet.network_header()?).ok()?;
        let upper = ip.extensions().upper_layer().ok()?;
        let mut bytes = [0; HEADER + UPPER];
        let header: &mut [u8; HEADER] = bytes.first_chunk_mut()?;
        (header[0], header[1]) = (0x60, ip.traffic_class());
        let total = ip.payload_len().saturating_add(IP6 as u16);
        header[2..4].copy_from_slice(&total.to_be_bytes());
        if let Some(fragment) = upper.fragment {
            let more = u16::from(fragment.more) << 13;
            header[6..8].copy_from_slice(&(more | (fragment.offset / 8)).to_be_bytes());
        }
        let protocol = match upper.protocol {
            IpProtocol::ICMP => NO_PROTOCOL,
            protocol => protocol,
        };
        (header[8], header[9]) = (ip.hop_limit(), protocol.0);
        header[usize::from(SOURCE)..][..16].copy_from_slice(&ip.source().octets());
        header[usize::from(DESTINATION)..].copy_from_slice(&ip.destination().octets());
        let rest = ip.payload().get(upper.at - IP6..).unwrap_or_default();
        let rest = rest.get(..UPPER).unwrap_or(rest);
        bytes[HEADER..][..rest.len()].copy_from_slice(rest);
        Some(Flat {
            bytes,
            length: HEADER + rest.len(),
        })
    }

    /// As programs look at it, with the packet's MAC header.
    fn headers<'a>(&'a self, packet: &'a Packet) -> Headers<'a> {
        let mac = packet.mac_header().unwrap_or(&[]);
        Headers::ip(&self.bytes[..self.length], HEADER).with_mac(mac)
    }
}

impl Program {
    /// The output that a packet goes to, which is IPv6 if `is_ip6` says so; `None` if it is dropped. The program is of
    /// patterns for both versions of IP.
    pub fn classify_dual_stack(&self, packet: &Packet, is_ip6: bool) -> Option<usize> {
        match is_ip6 {
            false => self.classify(&headers(packet)),
            true => self.classify(&Flat::of(packet)?.headers(packet)),
        }
    }
}
