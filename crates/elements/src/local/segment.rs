//! TCP segments in IPv4, as the elements of this group see and make them.

use crate::prelude::*;

/// Length of both headers without options.
pub const HEADERS: usize = 40;

/// The fields of a segment that the elements read.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub source: (Ipv4Addr, u16),
    pub destination: (Ipv4Addr, u16),
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

/// Makes a packet of one segment, with its headers marked and all checksums right. `None` if there
/// is no buffer.
pub fn make(cx: &mut Cx<'_>, segment: &Segment, style: &Style, payload: &[u8]) -> Option<Packet> {
    let length = HEADERS + payload.len();
    let total_len = u16::try_from(length).ok()?;
    let mut packet = cx.pool().packet(packet::HEADROOM, length)?;
    let ip = Ipv4Header {
        tos: style.tos,
        total_len,
        ident: style.ident,
        dont_fragment: style.dont_fragment,
        more_fragments: false,
        fragment_offset: 0,
        ttl: style.ttl,
        protocol: IpProtocol::TCP,
        source: segment.source.0,
        destination: segment.destination.0,
    };
    let tcp = TcpHeader {
        source: segment.source.1,
        destination: segment.destination.1,
        sequence: TcpSequence(segment.sequence),
        acknowledgment: TcpSequence(segment.acknowledgment),
        flags: segment.flags,
        window: style.window,
        urgent: 0,
    };
    let (front, rest) = packet.data_mut().split_at_mut(20);
    ip.emit(&mut Ipv4Packet::new_unchecked(front));
    rest[20..].copy_from_slice(payload);
    let mut view = TcpPacket::new_unchecked(rest);
    tcp.emit(&mut view);
    let (from, to) = (segment.source.0, segment.destination.0);
    view.fill_checksum(pseudo_header_v4(
        from,
        to,
        IpProtocol::TCP.0,
        total_len - 20,
    ));
    packet.set_network_header(0, 20);
    packet.set_dst_ip(to);
    Some(packet)
}
