//! The frames of a source: headers, and the stamp behind them.

use crate::measure::stamp::{STAMP, Stamp};
use crate::prelude::*;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
const TTL: u8 = 64;

/// An address and the others of its prefix, of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// IPv4.
    V4(Ipv4Addr, u32),
    /// IPv6.
    V6(Ipv6Addr, u128),
}

impl Argument for Range {
    const KIND: &'static str = "IP address or prefix";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        let whole = !text.contains('/');
        if !text.contains(':') {
            return match whole {
                true => context.parse(text).map(|address| Range::V4(address, 0)),
                false => context
                    .parse::<Ipv4Prefix>(text)
                    .map(|prefix| Range::V4(prefix.address, !prefix.mask.to_bits())),
            };
        }
        match whole {
            true => context.parse(text).map(|address| Range::V6(address, 0)),
            false => context
                .parse::<Ipv6Prefix>(text)
                .map(|prefix| Range::V6(prefix.address, !prefix.mask().to_bits())),
        }
    }
}

impl Range {
    /// Addresses, `most` at most.
    pub fn len(self, most: u32) -> u32 {
        let last = match self {
            Range::V4(_, host) => host.into(),
            Range::V6(_, host) => host,
        };
        u32::try_from(last)
            .unwrap_or(u32::MAX)
            .saturating_add(1)
            .min(most)
    }
}

fn nth4(address: Ipv4Addr, host: u32, n: u32) -> Ipv4Addr {
    let bits = address.to_bits();
    Ipv4Addr::from_bits(bits & !host | bits.wrapping_add(n) & host)
}

fn nth6(address: Ipv6Addr, host: u128, n: u32) -> Ipv6Addr {
    let bits = address.to_bits();
    Ipv6Addr::from_bits(bits & !host | bits.wrapping_add(n.into()) & host)
}

/// What the packets of a flow have in common.
#[derive(Clone, Copy)]
pub struct Flow {
    /// Which source address.
    pub source: u32,
    /// Which destination address.
    pub destination: u32,
    /// The source port.
    pub port: u16,
}

/// Makes frames.
pub struct Frames {
    /// Where they come from.
    pub source: Range,
    /// Where they go to.
    pub destination: Range,
    /// UDP or TCP.
    pub protocol: IpProtocol,
    /// Whether TCP segments are SYNs.
    pub is_syn: bool,
    /// The destination port.
    pub port: u16,
    /// An Ethernet header, and zeros.
    pub template: Vec<u8>,
}

impl Default for Frames {
    fn default() -> Self {
        let none = Range::V4(Ipv4Addr::UNSPECIFIED, 0);
        Frames {
            source: none,
            destination: none,
            protocol: IpProtocol::UDP,
            is_syn: false,
            port: 0,
            template: Vec::new(),
        }
    }
}

impl Frames {
    fn ip_len(&self) -> usize {
        match self.source {
            Range::V4(..) => 20,
            Range::V6(..) => Ipv6Packet::<&[u8]>::HEADER_LEN,
        }
    }

    fn transport_len(&self) -> usize {
        if self.protocol == IpProtocol::TCP {
            20
        } else {
            8
        }
    }

    /// Length of the shortest frame.
    pub fn least(&self) -> usize {
        ETHERNET + self.ip_len() + self.transport_len() + STAMP
    }

    /// Sets the Ethernet header, for frames up to a length.
    pub fn prepare(&mut self, source: EtherAddress, destination: EtherAddress, length: u32) {
        let ethertype = match self.source {
            Range::V4(..) => EtherType::IPV4,
            Range::V6(..) => EtherType::IPV6,
        };
        let header = EthernetHeader {
            destination,
            source,
            ethertype,
        };
        self.template = vec![0; length as usize];
        header.emit(&mut EthernetFrame::new_unchecked(&mut self.template[..]));
    }

    /// A frame of a length; `bytes`: those of the flow's payload before, for TCP.
    #[inline]
    pub fn make(
        &self,
        pool: &mut Pool,
        length: u32,
        flow: Flow,
        bytes: u32,
        stamp: Stamp,
    ) -> Option<Packet> {
        let mut packet = pool.copy(self.template.get(..length as usize)?)?;
        let ip_len = self.ip_len();
        packet.set_network_header(ETHERNET, ip_len);
        let ip = packet.data_mut().get_mut(ETHERNET..)?;
        let transport_bytes = (ip.len() - ip_len) as u16;
        let pseudo = match (self.source, self.destination) {
            (Range::V4(source, sources), Range::V4(destination, destinations)) => {
                let header = Ipv4Header {
                    tos: 0,
                    total_len: ip.len() as u16,
                    ident: 0,
                    dont_fragment: true,
                    more_fragments: false,
                    fragment_offset: 0,
                    ttl: TTL,
                    protocol: self.protocol,
                    source: nth4(source, sources, flow.source),
                    destination: nth4(destination, destinations, flow.destination),
                };
                header.emit(&mut Ipv4Packet::new_unchecked(&mut *ip));
                pseudo_header_v4(
                    header.source,
                    header.destination,
                    self.protocol.0,
                    transport_bytes,
                )
            }
            (Range::V6(source, sources), Range::V6(destination, destinations)) => {
                let header = Ipv6Header {
                    traffic_class: 0,
                    flow_label: 0,
                    payload_len: transport_bytes,
                    next_header: self.protocol,
                    hop_limit: TTL,
                    source: nth6(source, sources, flow.source),
                    destination: nth6(destination, destinations, flow.destination),
                };
                let mut packet = Ipv6Packet::new_unchecked(&mut *ip);
                header.emit(&mut packet);
                packet.pseudo_header(self.protocol, transport_bytes.into())
            }
            _ => return None,
        };
        let transport = ip.get_mut(ip_len..)?;
        let (header, rest) = transport.split_at_mut_checked(self.transport_len())?;
        // Behind the stamp are zeros, which add nothing to the checksum.
        let stamp = stamp.to_bytes();
        rest.get_mut(..STAMP)?.copy_from_slice(&stamp);
        let sum = pseudo + Sum::of_array(&stamp);
        // The header is summed up before it is in the packet: to read what was just written there would wait for it.
        match self.protocol {
            IpProtocol::TCP => {
                let (acknowledgment, flags) = if self.is_syn {
                    (TcpSequence(0), TcpFlags::SYN)
                } else {
                    (TcpSequence(1), TcpFlags::ACK)
                };
                let fields = TcpHeader {
                    source: flow.port,
                    destination: self.port,
                    sequence: TcpSequence(bytes),
                    acknowledgment,
                    flags,
                    window: u16::MAX,
                    urgent: 0,
                };
                let mut bytes = [0; 20];
                fields.emit(&mut TcpPacket::new_unchecked(&mut bytes[..]));
                let sum = sum + Sum::of_array(&bytes);
                TcpPacket::new_unchecked(&mut bytes[..]).set_checksum(sum.checksum());
                header.copy_from_slice(&bytes);
            }
            _ => {
                let fields = UdpHeader {
                    source: flow.port,
                    destination: self.port,
                    length: transport_bytes,
                };
                let mut bytes = [0; 8];
                fields.emit(&mut UdpPacket::new_unchecked(&mut bytes[..]));
                let sum = sum + Sum::of_array(&bytes);
                // Zero would mean that there is none (RFC 768).
                let checksum = match sum.checksum() {
                    0 => 0xffff,
                    checksum => checksum,
                };
                UdpPacket::new_unchecked(&mut bytes[..]).set_checksum(checksum);
                header.copy_from_slice(&bytes);
            }
        }
        Some(packet)
    }

    /// Bytes of payload of a frame.
    pub fn payload(&self, length: u32) -> u32 {
        length.saturating_sub((self.least() - STAMP) as u32)
    }
}
