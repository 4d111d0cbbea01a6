//! TCP segments as the proxy reads, makes and changes them, in their packets.

use crate::flow::ip6;
use crate::flow::upper::{Upper, upper_mut};
use crate::prelude::*;
use crate::rewriter::checksums::update_sum;
use crate::rewriter::headers::is_ip6;

/// Most bytes of a TCP header's options.
const OPTIONS_MAX: usize = 40;
/// The time to live of packets that the proxy makes.
pub const TTL: u8 = 64;
const ETHERNET: usize = EthernetFrame::<&[u8]>::HEADER_LEN;

/// The fields that the proxy reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    pub sequence: u32,
    pub acknowledgment: u32,
    pub window: u16,
    /// The options, as far as they are there.
    pub size: Option<u16>,
    pub scale: Option<u8>,
    pub sack: bool,
    /// The sender's clock, and that which it echoes.
    pub stamps: Option<(u32, u32)>,
}

impl Segment {
    /// Reads a segment; `None` if its header is cut short.
    pub fn of(packet: &Packet) -> Option<Segment> {
        let tcp = TcpPacket::new_checked(Upper::of(packet)?.bytes).ok()?;
        let mut segment = Segment {
            sequence: tcp.sequence().0,
            acknowledgment: tcp.acknowledgment().0,
            window: tcp.window(),
            ..Segment::default()
        };
        for option in tcp.options().map_while(Result::ok) {
            match option {
                TcpOption::MaximumSegmentSize(size) => segment.size = Some(size),
                TcpOption::WindowScale(scale) => segment.scale = Some(scale.min(14)),
                TcpOption::SackPermitted => segment.sack = true,
                TcpOption::Timestamps { value, echo } => segment.stamps = Some((value, echo)),
                _ => {}
            }
        }
        Some(segment)
    }
}

/// Options of a segment that the proxy makes.
#[derive(Clone, Copy)]
pub struct Options {
    bytes: [u8; OPTIONS_MAX],
    length: usize,
}

impl Options {
    pub fn new() -> Options {
        Options {
            bytes: [0; OPTIONS_MAX],
            length: 0,
        }
    }

    fn add(mut self, bytes: &[u8]) -> Options {
        let end = self.length + bytes.len();
        if let Some(place) = self.bytes.get_mut(self.length..end) {
            place.copy_from_slice(bytes);
            self.length = end;
        }
        self
    }

    pub fn size(self, size: u16) -> Options {
        let [a, b] = size.to_be_bytes();
        self.add(&[2, 4, a, b])
    }

    pub fn sack(self, sack: bool) -> Options {
        match sack {
            true => self.add(&[1, 1, 4, 2]),
            false => self,
        }
    }

    pub fn scale(self, scale: Option<u8>) -> Options {
        match scale {
            Some(scale) => self.add(&[1, 3, 3, scale]),
            None => self,
        }
    }

    pub fn stamps(self, stamps: Option<(u32, u32)>) -> Options {
        match stamps {
            Some((value, echo)) => self
                .add(&[1, 1, 8, 10])
                .add(&value.to_be_bytes())
                .add(&echo.to_be_bytes()),
            None => self,
        }
    }
}

/// A segment without data that takes the place of another.
pub struct Made {
    /// Whether it goes back to that one's sender.
    pub back: bool,
    pub sequence: u32,
    pub acknowledgment: u32,
    pub flags: TcpFlags,
    pub window: u16,
    pub options: Options,
}

impl Made {
    /// Makes a packet this segment; `None` if there is no room. What stands before the IP header stays; an Ethernet
    /// header's addresses are exchanged with the others.
    pub fn replace(&self, packet: &mut Packet) -> Option<()> {
        let network = usize::try_from(packet.network_offset()?).ok()?;
        let is_ip6 = is_ip6(packet);
        let header_len = match is_ip6 {
            true => ip6::HEADER,
            false => packet.network_header_len(),
        };
        let mut ports: [u8; 4] = *Upper::of(packet)?.bytes.first_chunk()?;
        if self.back {
            ports.rotate_left(2);
        }
        let tcp_len = 20 + self.options.length;
        let length = network + header_len + tcp_len;
        packet.truncate(length);
        packet.set_offload(None);
        if length > packet.len() && !packet.put(length - packet.len()) {
            return None;
        }
        if self.back && network >= ETHERNET {
            let at = network - ETHERNET;
            EthernetFrame::new_unchecked(packet.data_mut().get_mut(at..)?).swap_addresses();
        }
        let bytes = packet.data_mut().get_mut(network..)?;
        let (header, segment) = bytes.split_at_mut_checked(header_len)?;
        let (pseudo, destination) = match is_ip6 {
            true => self.front6(header, tcp_len as u16),
            false => self.front(header, tcp_len as u16),
        };
        *segment.first_chunk_mut()? = ports;
        let mut tcp = TcpPacket::new_unchecked(segment);
        tcp.set_sequence(TcpSequence(self.sequence));
        tcp.set_acknowledgment(TcpSequence(self.acknowledgment));
        tcp.set_header_len_and_flags(tcp_len, self.flags);
        tcp.set_window(self.window);
        tcp.set_urgent(0);
        let options = &self.options.bytes[..self.options.length];
        let segment = tcp.into_inner();
        segment.get_mut(20..)?.copy_from_slice(options);
        TcpPacket::new_unchecked(segment).fill_checksum(pseudo);
        match destination {
            IpAddr::V4(destination) => packet.set_dst_ip(destination),
            IpAddr::V6(destination) => packet.set_dst_ip6(destination),
        }
        Some(())
    }

    /// Makes an IPv4 header that of a segment of `length` bytes; returns the sum of its pseudo header, and its
    /// destination.
    fn front(&self, header: &mut [u8], length: u16) -> (Sum, IpAddr) {
        let total_len = header.len() as u16 + length;
        let mut ip = Ipv4Packet::new_unchecked(header);
        let (mut source, mut destination) = (ip.source(), ip.destination());
        if self.back {
            core::mem::swap(&mut source, &mut destination);
            ip.set_source(source);
            ip.set_destination(destination);
            ip.set_ttl(TTL);
        }
        ip.set_total_len(total_len);
        ip.set_fragment(true, false, 0);
        ip.set_ident(0);
        ip.fill_checksum();
        let pseudo = pseudo_header_v4(source, destination, IpProtocol::TCP.0, length);
        (pseudo, destination.into())
    }

    /// The same of an IPv6 header.
    fn front6(&self, header: &mut [u8], length: u16) -> (Sum, IpAddr) {
        let mut ip = Ipv6Packet::new_unchecked(header);
        let (mut source, mut destination) = (ip.source(), ip.destination());
        if self.back {
            core::mem::swap(&mut source, &mut destination);
            ip.set_source(source);
            ip.set_destination(destination);
            ip.set_hop_limit(TTL);
            // The label is the sender's (RFC 6437).
            let class = ip.traffic_class();
            ip.set_class_and_flow(class, 0);
        }
        // The extension headers were that packet's.
        ip.set_next_header(IpProtocol::TCP);
        ip.set_payload_len(length);
        let pseudo = pseudo_header_v6(source, destination, IpProtocol::TCP.0, length.into());
        (pseudo, destination.into())
    }
}

/// What is added to the fields of a direction's segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub sequence: u32,
    /// To acknowledgments, selective ones included.
    pub acknowledgment: u32,
    /// To the sender's clock, and to that which it echoes.
    pub stamps: [u32; 2],
    /// By how many bits windows are shifted to the left; to the right if negative.
    pub window: i8,
}

/// A window by another scale.
pub fn scaled(window: u16, shift: i8) -> u16 {
    let window = u32::from(window);
    let bits = u32::from(shift.unsigned_abs()).min(14);
    match shift >= 0 {
        true => (window << bits).min(u16::MAX.into()) as u16,
        false => (window >> bits) as u16,
    }
}

fn add(bytes: &mut [u8], at: usize, by: u32) {
    if let Some(field) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *field = u32::from_be_bytes(*field).wrapping_add(by).to_be_bytes();
    }
}

impl Change {
    /// Changes a segment, and its checksum if that covers its header.
    pub fn apply(&self, packet: &mut Packet) -> Option<()> {
        if *self == Change::default() {
            return Some(());
        }
        let covered = !packet.needs_checksum();
        let segment = upper_mut(packet)?;
        let length = usize::from(segment.get(12)? >> 4) * 4;
        let header = segment.get_mut(..length).filter(|it| it.len() >= 20)?;
        let before = Sum::of(header);
        add(header, 4, self.sequence);
        if header[13] & 16 != 0 {
            add(header, 8, self.acknowledgment);
        }
        let window = scaled(u16::from_be_bytes([header[14], header[15]]), self.window);
        header[14..16].copy_from_slice(&window.to_be_bytes());
        self.options(&mut header[20..]);
        if covered {
            update_sum(Delta::of_sums(before, Sum::of(header)), header, 16);
        }
        Some(())
    }

    /// Changes timestamps and selective acknowledgments among options.
    fn options(&self, options: &mut [u8]) {
        const END: u8 = 0;
        const NOTHING: u8 = 1;
        const SELECTIVE: u8 = 5;
        const STAMPS: u8 = 8;
        let mut rest = options;
        while let Some(&kind) = rest.first() {
            let length = match (kind, rest.get(1)) {
                (END, _) => return,
                (NOTHING, _) => 1,
                (_, Some(&length)) if length >= 2 => usize::from(length),
                _ => return,
            };
            let Some((option, behind)) = rest.split_at_mut_checked(length) else {
                return;
            };
            match kind {
                SELECTIVE if length % 8 == 2 => {
                    for at in (2..length).step_by(4) {
                        add(option, at, self.acknowledgment);
                    }
                }
                STAMPS if length == 10 => {
                    add(option, 2, self.stamps[0]);
                    add(option, 6, self.stamps[1]);
                }
                _ => {}
            }
            rest = behind;
        }
    }

    /// Changes the sequence number that an ICMP error quotes of a segment back to that which its sender sent.
    pub fn undo_quoted(&self, packet: &mut Packet) -> Option<()> {
        let is_ip6 = is_ip6(packet);
        let icmp = upper_mut(packet)?;
        let quoted = icmp.get(8..)?;
        let header_len = match is_ip6 {
            true => ip6::upper(quoted).ok()?.1.at,
            false => usize::from(*quoted.first()? & 15) * 4,
        };
        let at = 8 + header_len + 4;
        let field: [u8; 4] = *icmp.get(at..)?.first_chunk()?;
        let old = u32::from_be_bytes(field);
        let new = old.wrapping_sub(self.sequence);
        icmp.get_mut(at..at + 4)?
            .copy_from_slice(&new.to_be_bytes());
        update_sum(Delta::of_u32(old, new), icmp, 2);
        Some(())
    }
}
