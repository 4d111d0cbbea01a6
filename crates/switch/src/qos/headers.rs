//! A frame's headers, as far as limits and protection need them.
//!
//! A frame's first bytes are enough in most cases; otherwise [`HeaderError::Incomplete`] asks for
//! the whole frame. Offsets follow IEEE 802.3 and 802.1Q, RFC 791, RFC 8200 and RFC 4302.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::port::offload::ETHERNET;

/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;
/// EtherType of ARP.
pub const ARP: u16 = 0x0806;
/// EtherType of a VLAN tag.
pub const VLAN: u16 = 0x8100;
/// EtherType of a service VLAN tag.
pub const SERVICE_VLAN: u16 = 0x88a8;

/// Most tags and most extension headers that are looked behind.
const BEHIND: usize = 8;

/// Why headers cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// They go on behind the bytes given, and the frame does, too.
    Incomplete,
    /// The frame ends within a header, or a header contradicts itself.
    Malformed,
}

/// The first bytes of a frame, or all of it.
#[derive(Clone, Copy)]
pub struct Bytes<'a> {
    known: &'a [u8],
    len: usize,
}

impl<'a> Bytes<'a> {
    /// `known` are the first bytes of a frame of `len`.
    pub fn new(known: &'a [u8], len: usize) -> Bytes<'a> {
        let known = known.get(..len).unwrap_or(known);
        Bytes { known, len }
    }

    /// The `N` bytes at `at`.
    #[inline]
    pub fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], HeaderError> {
        let found = self
            .known
            .get(at..)
            .and_then(|rest| rest.first_chunk::<N>());
        match found {
            Some(found) => Ok(*found),
            None if at + N > self.len => Err(HeaderError::Malformed),
            None => Err(HeaderError::Incomplete),
        }
    }

    /// The byte at `at`.
    #[inline]
    pub fn byte(&self, at: usize) -> Result<u8, HeaderError> {
        self.array::<1>(at).map(|[byte]| byte)
    }

    /// The 16-bit number at `at`.
    #[inline]
    pub fn word(&self, at: usize) -> Result<u16, HeaderError> {
        self.array(at).map(u16::from_be_bytes)
    }
}

/// The EtherType behind any VLAN tags, and the offset of its header.
#[inline]
pub fn ethertype(bytes: Bytes<'_>) -> Result<(u16, usize), HeaderError> {
    let mut at = ETHERNET - 2;
    for _ in 0..BEHIND {
        let kind = bytes.word(at)?;
        if kind != VLAN && kind != SERVICE_VLAN {
            return Ok((kind, at + 2));
        }
        at += 4;
    }
    Err(HeaderError::Malformed)
}

/// An IP packet's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Its source address.
    pub source: IpAddr,
    /// Its destination address.
    pub destination: IpAddr,
    /// The differentiated services field.
    pub dsfield: u8,
    /// The transport protocol.
    pub transport: u8,
    /// Where the transport header begins; none in a fragment that is not the first.
    pub l4: Option<usize>,
    /// Whether the packet is a fragment.
    pub fragment: bool,
}

impl Ip {
    /// The headers of the packet of EtherType `kind` at `l3`; `None` if that is no IP packet.
    #[inline]
    pub fn parse(bytes: Bytes<'_>, kind: u16, l3: usize) -> Result<Option<Ip>, HeaderError> {
        match kind {
            IPV4 => Ip::parse_v4(bytes, l3).map(Some),
            IPV6 => Ip::parse_v6(bytes, l3).map(Some),
            _ => Ok(None),
        }
    }

    fn parse_v4(bytes: Bytes<'_>, l3: usize) -> Result<Ip, HeaderError> {
        let header = bytes.array::<20>(l3)?;
        let length = usize::from(header[0] & 15) * 4;
        if header[0] >> 4 != 4 || length < 20 {
            return Err(HeaderError::Malformed);
        }
        let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
        let is_first = fragment & 0x1fff == 0;
        let address = |at: usize| {
            Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]).into()
        };
        Ok(Ip {
            source: address(12),
            destination: address(16),
            dsfield: header[1],
            transport: header[9],
            l4: is_first.then_some(l3 + length),
            fragment: fragment != 0,
        })
    }

    fn parse_v6(bytes: Bytes<'_>, l3: usize) -> Result<Ip, HeaderError> {
        let [first, second] = bytes.array(l3)?;
        if first >> 4 != 6 {
            return Err(HeaderError::Malformed);
        }
        let mut ip = Ip {
            source: Ipv6Addr::from(bytes.array::<16>(l3 + 8)?).into(),
            destination: Ipv6Addr::from(bytes.array::<16>(l3 + 24)?).into(),
            dsfield: first << 4 | second >> 4,
            transport: bytes.byte(l3 + 6)?,
            l4: None,
            fragment: false,
        };
        let mut at = l3 + 40;
        for _ in 0..BEHIND {
            match ip.transport {
                // Hop-by-hop options, routing, destination options.
                0 | 43 | 60 => {
                    let [next, length] = bytes.array(at)?;
                    ip.transport = next;
                    at += (usize::from(length) + 1) * 8;
                }
                // Authentication.
                51 => {
                    let [next, length] = bytes.array(at)?;
                    ip.transport = next;
                    at += (usize::from(length) + 2) * 4;
                }
                // Fragment.
                44 => {
                    let [next, _, high, low] = bytes.array(at)?;
                    ip.transport = next;
                    ip.fragment = true;
                    if u16::from_be_bytes([high, low]) & 0xfff8 != 0 {
                        return Ok(ip);
                    }
                    at += 8;
                }
                _ => {
                    ip.l4 = Some(at);
                    return Ok(ip);
                }
            }
        }
        Err(HeaderError::Malformed)
    }

    /// The ports of TCP, UDP and SCTP; `None` in others' packets and fragments that bear none.
    #[inline]
    pub fn ports(&self, bytes: Bytes<'_>) -> Result<Option<(u16, u16)>, HeaderError> {
        match (self.transport, self.l4) {
            (6 | 17 | 132, Some(l4)) => Ok(Some((bytes.word(l4)?, bytes.word(l4 + 2)?))),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame with a UDP datagram.
    pub fn udp(source: &str, destination: &str, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
        let mut datagram = Vec::new();
        datagram.extend(ports.0.to_be_bytes());
        datagram.extend(ports.1.to_be_bytes());
        datagram.extend((8 + payload.len() as u16).to_be_bytes());
        datagram.extend([0, 0]);
        datagram.extend(payload);
        packet(source, destination, 17, &datagram)
    }

    /// A frame with an IP packet.
    pub fn packet(source: &str, destination: &str, transport: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1];
        match (source.parse().unwrap(), destination.parse().unwrap()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                frame.extend([8, 0, 0x45, 0]);
                frame.extend((20 + payload.len() as u16).to_be_bytes());
                frame.extend([0, 1, 0, 0, 64, transport, 0, 0]);
                frame.extend(from.octets());
                frame.extend(to.octets());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend((payload.len() as u16).to_be_bytes());
                frame.extend([transport, 255]);
                frame.extend(from.octets());
                frame.extend(to.octets());
            }
            _ => panic!("{source} and {destination} have different IP versions"),
        }
        frame.extend(payload);
        frame
    }

    /// The same frame in a VLAN.
    pub fn tagged(mut frame: Vec<u8>, vlan: u16) -> Vec<u8> {
        let tag = [0x81, 0, (vlan >> 8) as u8, vlan as u8];
        frame.splice(12..12, tag);
        frame
    }

    fn parse(frame: &[u8], known: usize) -> Result<(Ip, Option<(u16, u16)>), HeaderError> {
        let bytes = Bytes::new(&frame[..known.min(frame.len())], frame.len());
        let (kind, l3) = ethertype(bytes)?;
        let ip = Ip::parse(bytes, kind, l3)?.ok_or(HeaderError::Malformed)?;
        Ok((ip, ip.ports(bytes)?))
    }

    #[test]
    fn a_head_is_enough_for_common_frames_and_says_so_where_it_is_not() {
        let v4 = tagged(udp("10.0.0.1", "10.0.0.2", (5, 6), &[0; 40]), 7);
        let (ip, ports) = parse(&v4, 64).unwrap();
        assert_eq!(ip.source, "10.0.0.1".parse::<IpAddr>().unwrap());
        assert_eq!((ip.transport, ports), (17, Some((5, 6))));
        let v6 = tagged(udp("fd00::1", "fd00::2", (5, 6), &[0; 40]), 7);
        assert_eq!(parse(&v6, 64).unwrap().1, Some((5, 6)));
        assert_eq!(
            parse(&tagged(v6.clone(), 8), 64),
            Err(HeaderError::Incomplete)
        );
        assert_eq!(parse(&tagged(v6, 8), 200).unwrap().1, Some((5, 6)));
        // Destination options in front of the datagram.
        let mut options = vec![17, 1];
        options.extend([0; 14]);
        options.extend([0, 5, 0, 6, 0, 8, 0, 0]);
        let behind = packet("fd00::1", "fd00::2", 60, &options);
        assert_eq!(parse(&behind, 64), Err(HeaderError::Incomplete));
        assert_eq!(parse(&behind, 200).unwrap().1, Some((5, 6)));
        assert_eq!(parse(&behind[..60], 200), Err(HeaderError::Malformed));
    }

    #[test]
    fn later_fragments_bear_no_ports() {
        let mut v4 = udp("10.0.0.1", "10.0.0.2", (5, 6), &[0; 40]);
        v4[20] = 0x20;
        let (ip, ports) = parse(&v4, 64).unwrap();
        assert!(ip.fragment && ports.is_some());
        v4[21] = 1;
        let (ip, ports) = parse(&v4, 64).unwrap();
        assert!(ip.fragment && ports.is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused_and_more_bytes_only_tell_more(
            start in prop_oneof![
                Just(vec![8u8, 0, 0x45]), Just(vec![0x86, 0xdd, 0x60]), Just(vec![0x81, 0]),
                Just(vec![])
            ],
            rest in proptest::collection::vec(any::<u8>(), 0..200),
            known in 0usize..200,
        ) {
            let mut frame = vec![2; 12];
            frame.extend(start);
            frame.extend(rest);
            let whole = parse(&frame, frame.len());
            prop_assert_ne!(whole, Err(HeaderError::Incomplete));
            match parse(&frame, known) {
                Err(HeaderError::Incomplete) => prop_assert!(known < frame.len()),
                found => prop_assert_eq!(found, whole),
            }
        }
    }
}
