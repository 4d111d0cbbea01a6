//! Segmentation of a frame that stands for several (GSO).
//!
//! Each segment is a copy of the headers, with its own lengths, sequence number, flags and checksums,
//! and a piece of the payload, as a network interface with TCP or UDP segmentation offload makes
//! them. (Virtual I/O Device 1.2, section 5.1.6.2; Linux, networking/segmentation-offloads.)
#![forbid(unsafe_code)]

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::checksum::{Sum, pseudo_header_v4, pseudo_header_v6};
use crate::{Offload, SegmentKind};

/// Length of an Ethernet header, in bytes.
pub const ETHERNET: usize = 14;
/// Length of a VLAN tag, in bytes.
pub const VLAN: usize = 4;
/// Most bytes of headers, Ethernet to transport, of a frame to be segmented.
pub const HEADERS_MAX: usize = 192;

/// EtherType of IPv4.
pub const TYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const TYPE_IPV6: u16 = 0x86dd;
const TYPE_VLAN: u16 = 0x8100;
const TYPE_SERVICE_VLAN: u16 = 0x88a8;
/// IP protocol number of TCP.
pub const TCP: u8 = 6;
/// IP protocol number of UDP.
pub const UDP: u8 = 17;
/// Offset of UDP's checksum in its header, in bytes.
pub const UDP_CHECKSUM: u16 = 6;
/// Offset of TCP's checksum in its header, in bytes.
pub const TCP_CHECKSUM: u16 = 16;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// The offload contradicts the frame's headers, or the headers are of an unknown kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported;

/// Whether the checksum that `frame` needs is that of the TCP segment or UDP datagram in it: no
/// tunnel's inner one, no other protocol's, no fragment's.
pub fn is_own_checksum(frame: &[u8], offload: impl Into<Option<Offload>>) -> bool {
    let Some(offload) = offload.into() else {
        return false;
    };
    let (protocol, length) = match offload.checksum_offset {
        TCP_CHECKSUM => (TCP, 20),
        UDP_CHECKSUM => (UDP, 8),
        _ => return false,
    };
    let found = match network_header(frame) {
        Some((TYPE_IPV4, l3)) => transport_of_v4(frame, l3, protocol),
        Some((TYPE_IPV6, l3)) => transport_of_v6(frame, l3, protocol),
        _ => None,
    };
    let start = offload.checksum_start;
    found == Some(start) && start + length <= frame.len().min(HEADERS_MAX)
}

/// A checksum as it goes into a header: UDP's 0 means "none", so a sum of 0 is sent as all ones
/// (RFC 768).
pub fn transport_checksum(sum: u16, offset: u16) -> [u8; 2] {
    match (sum, offset) {
        (0, UDP_CHECKSUM) => [0xff; 2],
        (sum, _) => sum.to_be_bytes(),
    }
}

/// The EtherType behind any VLAN tags, and the offset of that payload.
pub fn network_header(frame: &[u8]) -> Option<(u16, usize)> {
    let mut at = ETHERNET - 2;
    for _ in 0..3 {
        let kind = word(frame, at)?;
        at += 2;
        if kind != TYPE_VLAN && kind != TYPE_SERVICE_VLAN {
            return Some((kind, at));
        }
        at += 2;
    }
    None
}

/// Length of the frame's VLAN tags, in bytes. The MTU does not count them.
pub fn tags_len(head: &[u8]) -> usize {
    match word(head, ETHERNET - 2) {
        Some(TYPE_VLAN | TYPE_SERVICE_VLAN) => {
            network_header(head).map_or(VLAN, |(_, at)| at - ETHERNET)
        }
        _ => 0,
    }
}

/// The big-endian word at `at`, if the bytes reach so far.
pub fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    V4,
    V6,
}

/// Segments a frame that stands for several.
#[derive(Debug)]
pub struct Segmenter<'a> {
    frame: &'a [u8],
    network: Network,
    /// TCP or UDP.
    protocol: u8,
    /// Where the network header starts.
    l3: usize,
    /// Where the transport header starts.
    l4: usize,
    /// Where the payload starts: the length of each segment's headers.
    payload: usize,
    /// Payload bytes of each segment but the last.
    size: usize,
    /// Number of the next segment.
    next: usize,
    headers: [u8; HEADERS_MAX],
}

impl<'a> Segmenter<'a> {
    /// A segmenter of `frame`, from its Ethernet header on. Its headers must be the headers that
    /// `offload` describes, and not a tunnel's.
    pub fn new(
        frame: &'a [u8],
        offload: impl Into<Option<Offload>>,
    ) -> Result<Segmenter<'a>, Unsupported> {
        let offload: Offload = offload.into().ok_or(Unsupported)?;
        let segments = offload.segments.ok_or(Unsupported)?;
        let (kind, l3) = network_header(frame).ok_or(Unsupported)?;
        let (network, protocol) = match (kind, segments.kind) {
            (TYPE_IPV4, SegmentKind::Tcp4) => (Network::V4, TCP),
            (TYPE_IPV6, SegmentKind::Tcp6) => (Network::V6, TCP),
            (TYPE_IPV4, SegmentKind::Udp) => (Network::V4, UDP),
            (TYPE_IPV6, SegmentKind::Udp) => (Network::V6, UDP),
            _ => return Err(Unsupported),
        };
        let l4 = match network {
            Network::V4 => transport_of_v4(frame, l3, protocol),
            Network::V6 => transport_of_v6(frame, l3, protocol),
        }
        .ok_or(Unsupported)?;
        let length = match protocol {
            TCP => usize::from(*frame.get(l4 + 12).ok_or(Unsupported)? >> 4) * 4,
            _ => 8,
        };
        let payload = l4 + length;
        let size = usize::from(segments.size);
        if offload.checksum_start != l4
            || (protocol == TCP && length < 20)
            || payload > HEADERS_MAX
            || payload >= frame.len()
            || size == 0
        {
            return Err(Unsupported);
        }
        let mut headers = [0; HEADERS_MAX];
        headers[..payload].copy_from_slice(&frame[..payload]);
        Ok(Segmenter {
            frame,
            network,
            protocol,
            l3,
            l4,
            payload,
            size,
            next: 0,
            headers,
        })
    }

    /// How many segments there are in all.
    pub fn count(&self) -> usize {
        (self.frame.len() - self.payload).div_ceil(self.size)
    }

    /// Length of each segment's headers, in bytes from the Ethernet header on.
    pub fn header_len(&self) -> usize {
        self.payload
    }

    /// Length of the longest segment, in bytes from the Ethernet header on.
    pub fn longest(&self) -> usize {
        (self.payload + self.size).min(self.frame.len())
    }

    /// Skips the next `n` segments.
    pub fn skip(&mut self, n: usize) {
        self.next = self.next.saturating_add(n).min(self.count());
    }

    /// The next segment: its headers, complete with checksums, and its payload.
    pub fn next_segment(&mut self) -> Option<(&[u8], &'a [u8])> {
        let from = self.next * self.size;
        let whole = &self.frame[self.payload..];
        if from >= whole.len() {
            return None;
        }
        let to = (from + self.size).min(whole.len());
        let payload = &whole[from..to];
        self.write_network_header(payload.len());
        self.write_transport_header(from as u32, to == whole.len(), payload.len());
        self.write_checksum(payload);
        self.next += 1;
        Some((&self.headers[..self.payload], payload))
    }

    fn write_network_header(&mut self, payload: usize) {
        let length = self.payload - self.l3 + payload;
        let l3 = self.l3;
        match self.network {
            Network::V4 => {
                let id = word(self.frame, l3 + 4).unwrap_or(0);
                let id = id.wrapping_add(self.next as u16);
                self.put(l3 + 2, length as u16);
                self.put(l3 + 4, id);
                self.put(l3 + 10, 0);
                let sum = Sum::of(&self.headers[l3..l3 + header_len_v4(self.headers[l3])]);
                self.put(l3 + 10, sum.checksum());
            }
            Network::V6 => self.put(l3 + 4, (length - 40) as u16),
        }
    }

    fn write_transport_header(&mut self, from: u32, last: bool, payload: usize) {
        let l4 = self.l4;
        if self.protocol == UDP {
            self.put(l4 + 4, (self.payload - l4 + payload) as u16);
            return;
        }
        let mut sequence = [0; 4];
        sequence.copy_from_slice(&self.frame[l4 + 4..l4 + 8]);
        let sequence = u32::from_be_bytes(sequence).wrapping_add(from);
        self.headers[l4 + 4..l4 + 8].copy_from_slice(&sequence.to_be_bytes());
        let mut flags = self.frame[l4 + 13];
        if !last {
            flags &= !(FIN | PSH);
        }
        if self.next > 0 {
            flags &= !CWR;
        }
        self.headers[l4 + 13] = flags;
    }

    fn write_checksum(&mut self, payload: &[u8]) {
        let offset = match self.protocol {
            UDP => UDP_CHECKSUM,
            _ => TCP_CHECKSUM,
        };
        let at = self.l4 + usize::from(offset);
        self.put(at, 0);
        let header = &self.headers[self.l4..self.payload];
        let length = header.len() + payload.len();
        let pseudo = match self.network {
            Network::V4 => pseudo_header_v4(
                Ipv4Addr::from(self.address::<4>(12)),
                Ipv4Addr::from(self.address::<4>(16)),
                self.protocol,
                length as u16,
            ),
            Network::V6 => pseudo_header_v6(
                Ipv6Addr::from(self.address::<16>(8)),
                Ipv6Addr::from(self.address::<16>(24)),
                self.protocol,
                length as u32,
            ),
        };
        let sum = pseudo
            .add_bytes(header)
            .join(header.len(), Sum::of(payload));
        let sum = transport_checksum(sum.checksum(), offset);
        self.headers[at..at + 2].copy_from_slice(&sum);
    }

    /// The `N` bytes at `at` of the network header.
    fn address<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut address = [0; N];
        address.copy_from_slice(&self.headers[self.l3 + at..self.l3 + at + N]);
        address
    }

    fn put(&mut self, at: usize, value: u16) {
        self.headers[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }
}

/// Length of an IPv4 header that begins with `first`, in bytes.
pub fn header_len_v4(first: u8) -> usize {
    usize::from(first & 0x0f) * 4
}

/// Offset of the transport header of an IPv4 packet, if it is no fragment and of `protocol`.
pub fn transport_of_v4(frame: &[u8], l3: usize, protocol: u8) -> Option<usize> {
    let first = *frame.get(l3)?;
    let length = header_len_v4(first);
    let fragment = word(frame, l3 + 6)? & 0x3fff;
    let fits = frame.len() >= l3 + length && length >= 20;
    (first >> 4 == 4 && fits && fragment == 0 && *frame.get(l3 + 9)? == protocol)
        .then_some(l3 + length)
}

/// Offset of the transport header of an IPv6 packet, behind hop-by-hop and destination options, if
/// the packet is no fragment and of `protocol`. (The checksum behind a routing header covers another
/// destination than the packet's; such packets are not segmented.)
pub fn transport_of_v6(frame: &[u8], l3: usize, protocol: u8) -> Option<usize> {
    const HOP_BY_HOP: u8 = 0;
    const DESTINATION: u8 = 60;
    if *frame.get(l3)? >> 4 != 6 {
        return None;
    }
    let mut next = *frame.get(l3 + 6)?;
    let mut at = l3 + 40;
    for _ in 0..4 {
        match next {
            HOP_BY_HOP | DESTINATION => {
                next = *frame.get(at)?;
                at += (usize::from(*frame.get(at + 1)?) + 1) * 8;
            }
            found => return (found == protocol && at <= frame.len()).then_some(at),
        }
    }
    None
}
