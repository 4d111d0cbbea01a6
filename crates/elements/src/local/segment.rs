//! TCP segments, as the elements of this group see and make them.

use crate::flow::ip6::HEADER as HEADER6;
use crate::flow::upper::{Upper, ends};
use crate::prelude::*;

/// Length of both headers without options, of IPv4.
pub const HEADERS: usize = 40;

/// The fields of a segment that the elements read, of IPv4 or, with an [`IpAddr`], of either version.
#[derive(Clone, Copy, Debug)]
pub struct Segment<A = Ipv4Addr> {
    pub source: (A, u16),
    pub destination: (A, u16),
    pub flags: TcpFlags,
    pub sequence: u32,
    pub acknowledgment: u32,
    /// Bytes of data.
    pub payload: u32,
}

impl Segment {
    /// Reads a segment whose IP header is at the start of `data`; `None` if it is none, or not
    /// whole.
    pub fn parse(data: &[u8]) -> Option<Segment> {
        let ip = Ipv4Packet::new_quoted(data).ok()?;
        let segment = data.get(ip.header_len()..usize::from(ip.total_len()))?;
        let tcp = TcpPacket::new_checked(segment).ok()?;
        (ip.protocol() == IpProtocol::TCP).then(|| Segment {
            source: (ip.source(), tcp.source()),
            destination: (ip.destination(), tcp.destination()),
            flags: tcp.flags(),
            sequence: tcp.sequence().0,
            acknowledgment: tcp.acknowledgment().0,
            payload: (segment.len() - tcp.header_len()) as u32,
        })
    }

    /// As `parse`, by the packet's mark of its IP header.
    pub fn of(packet: &Packet) -> Option<Segment> {
        Segment::parse(packet.network_header()?)
    }
}

impl Segment<IpAddr> {
    /// A packet's segment by the mark of its IP header, and its data; `None` if it is none, or not whole.
    pub fn of_any(packet: &Packet) -> Option<(Segment<IpAddr>, &[u8])> {
        let upper = Upper::of(packet)?;
        if upper.protocol != IpProtocol::TCP || upper.bytes.len() < upper.length {
            return None;
        }
        let [source, destination] = ends(packet)?;
        let tcp = TcpPacket::new_checked(upper.bytes).ok()?;
        let data = upper.bytes.get(tcp.header_len()..)?;
        let segment = Segment {
            source: (source, tcp.source()),
            destination: (destination, tcp.destination()),
            flags: tcp.flags(),
            sequence: tcp.sequence().0,
            acknowledgment: tcp.acknowledgment().0,
            payload: data.len() as u32,
        };
        Some((segment, data))
    }
}

impl<A> Segment<A> {
    pub fn has(&self, flags: TcpFlags) -> bool {
        self.flags.contains(flags)
    }

    pub fn has_any(&self, flags: TcpFlags) -> bool {
        self.flags.intersects(flags)
    }

    /// Sequence numbers that the segment takes: data, SYN and FIN (RFC 9293, section 3.4).
    pub fn sequence_length(&self) -> u32 {
        let syn = u32::from(self.has(TcpFlags::SYN));
        let fin = u32::from(self.has(TcpFlags::FIN));
        self.payload.wrapping_add(syn + fin)
    }
}

/// Whether sequence number `a` stands before `b` (RFC 9293, section 3.4).
pub fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// The fields of a new segment other than its addresses and numbers.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub tos: u8,
    pub ttl: u8,
    pub ident: u16,
    pub dont_fragment: bool,
    pub window: u16,
}

impl Style {
    /// Segments that acknowledge or connect.
    pub const CONTROL: Style = Style {
        tos: 0x10,
        ttl: 255,
        ident: 0,
        dont_fragment: true,
        window: 32120,
    };
}

/// Writes the TCP header in front of `payload` into `place`; `pseudo` is the sum of the pseudo header.
fn write<A>(segment: &Segment<A>, style: &Style, payload: &[u8], pseudo: Sum, place: &mut [u8]) {
    let tcp = TcpHeader {
        source: segment.source.1,
        destination: segment.destination.1,
        sequence: TcpSequence(segment.sequence),
        acknowledgment: TcpSequence(segment.acknowledgment),
        flags: segment.flags,
        window: style.window,
        urgent: 0,
    };
    place[20..].copy_from_slice(payload);
    let mut view = TcpPacket::new_unchecked(place);
    tcp.emit(&mut view);
    view.fill_checksum(pseudo);
}

/// Makes a packet of one segment, with its headers marked and all checksums right. `None` if there
/// is no buffer.
pub fn make(cx: &mut Cx<'_>, segment: &Segment, style: &Style, payload: &[u8]) -> Option<Packet> {
    let length = HEADERS + payload.len();
    let total_len = u16::try_from(length).ok()?;
    let mut packet = cx.pool().packet(packet::HEADROOM, length)?;
    let (from, to) = (segment.source.0, segment.destination.0);
    let ip = Ipv4Header {
        tos: style.tos,
        total_len,
        ident: style.ident,
        dont_fragment: style.dont_fragment,
        more_fragments: false,
        fragment_offset: 0,
        ttl: style.ttl,
        protocol: IpProtocol::TCP,
        source: from,
        destination: to,
    };
    let (front, rest) = packet.data_mut().split_at_mut(20);
    ip.emit(&mut Ipv4Packet::new_unchecked(front));
    let pseudo = pseudo_header_v4(from, to, IpProtocol::TCP.0, total_len - 20);
    write(segment, style, payload, pseudo, rest);
    packet.set_network_header(0, 20);
    packet.set_dst_ip(to);
    Some(packet)
}

/// As [`make`], of the version of IP that both addresses are of.
pub fn make_any(
    cx: &mut Cx<'_>,
    segment: &Segment<IpAddr>,
    style: &Style,
    payload: &[u8],
) -> Option<Packet> {
    let (from, to) = match (segment.source.0, segment.destination.0) {
        (IpAddr::V6(from), IpAddr::V6(to)) => (from, to),
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let segment = Segment {
                source: (from, segment.source.1),
                destination: (to, segment.destination.1),
                flags: segment.flags,
                sequence: segment.sequence,
                acknowledgment: segment.acknowledgment,
                payload: segment.payload,
            };
            return make(cx, &segment, style, payload);
        }
        _ => return None,
    };
    let payload_len = u16::try_from(20 + payload.len()).ok()?;
    let length = HEADER6 + usize::from(payload_len);
    let mut packet = cx.pool().packet(packet::HEADROOM, length)?;
    let ip = Ipv6Header {
        traffic_class: style.tos,
        flow_label: 0,
        payload_len,
        next_header: IpProtocol::TCP,
        hop_limit: style.ttl,
        source: from,
        destination: to,
    };
    let (front, rest) = packet.data_mut().split_first_chunk_mut::<HEADER6>()?;
    *front = ip.to_bytes();
    let pseudo = pseudo_header_v6(from, to, IpProtocol::TCP.0, payload_len.into());
    write(segment, style, payload, pseudo, rest);
    packet.set_network_header(0, HEADER6);
    packet.set_dst_ip6(to);
    Some(packet)
}
