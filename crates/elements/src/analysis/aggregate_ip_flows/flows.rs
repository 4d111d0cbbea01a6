//! What AggregateIPFlows knows of flows, and what it takes from packets.

pub use crate::keyed_table::Key;
use crate::prelude::*;
use crate::rewriter::headers;
use crate::rewriter::key::FlowKey;

const TCP: u8 = IpProtocol::TCP.0;
const UDP: u8 = IpProtocol::UDP.0;
const ICMP: u8 = IpProtocol::ICMP.0;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const IP_HEADER: usize = 20;
const ICMP_HEADER: usize = 8;

/// Two hosts and the protocol between them, the lesser address first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hosts {
    pub tcp: bool,
    pub ends: [[u8; 4]; 2],
}

impl Hosts {
    /// The hosts of a flow. Its key begins with the lesser end.
    pub fn of(key: &Key) -> Hosts {
        let (from, to) = (key.1.source(), key.1.destination());
        Hosts {
            tcp: is_tcp(key),
            ends: [from, to].map(|address| address.octets()),
        }
    }
}

/// Whether a flow is TCP's.
#[inline]
pub fn is_tcp((protocol, _): &Key) -> bool {
    *protocol == u16::from(TCP)
}

/// What is known of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub aggregate: u32,
    /// Its first packet went from the greater end to the lesser.
    pub reverse: bool,
    /// A bit for each way on which it has ended.
    pub over: u8,
    /// Nanoseconds since 1970.
    pub first: i64,
    pub last: i64,
    pub packets: [u32; 2],
    /// Where in its file the first packet was.
    pub filepos: u64,
}

impl Flow {
    /// Accounts for a packet that leaves.
    #[inline]
    pub fn account(&mut self, header: &Header, packet: &Packet) {
        if header.is_quoted {
            self.last = packet.timestamp();
        } else {
            self.count(header.flags.unwrap_or(0), packet);
        }
    }

    /// The same for one with these flags, that is not quoted.
    #[inline]
    pub fn count(&mut self, flags: u8, packet: &Packet) {
        self.last = packet.timestamp();
        let way = packet.paint() & 1;
        match flags {
            flags if flags & RST != 0 => self.over = OVER,
            flags if flags & FIN != 0 => self.over |= 1 << way,
            flags if flags & SYN != 0 => self.over = 0,
            _ => {}
        }
        let count = &mut self.packets[usize::from(way)];
        *count = count.saturating_add(1);
    }
}

/// Both ways have ended.
pub const OVER: u8 = 3;

/// What a whole packet, as most are, says of its flow.
#[derive(Clone, Copy)]
pub struct Whole {
    pub key: Key,
    /// The packet goes from its greater end to the lesser.
    pub reverse: bool,
    /// Of TCP.
    pub flags: u8,
}

impl Whole {
    /// Looks at a packet of TCP or UDP without IP options; `None` if it is not such a one, or a fragment.
    #[inline(always)]
    pub fn of(packet: &Packet) -> Option<Whole> {
        let (ip, ports) = packet.plain_header()?.split_first_chunk::<IP_HEADER>()?;
        let addresses = headers::addresses(ip);
        let protocol = ip[9];
        let is_usual = ip[0] & 15 == 5 && fragment(ip) & 0x3fff == 0 && addresses != 0;
        if !is_usual || (protocol != UDP && protocol != TCP) {
            return None;
        }
        let ports = u32::from_be_bytes(*ports.first_chunk()?);
        let source = addresses >> 32 << 16 | u64::from(ports >> 16);
        let destination = (addresses & 0xffff_ffff) << 16 | u64::from(ports & 0xffff);
        let key = FlowKey { addresses, ports };
        let reverse = source > destination;
        let flags = match protocol {
            TCP => packet.transport_header()?.get(13).copied().unwrap_or(0),
            _ => 0,
        };
        Some(Whole {
            key: (protocol.into(), if reverse { key.reverse() } else { key }),
            reverse,
            flags,
        })
    }

    /// Whether it begins a TCP connection.
    #[inline]
    pub fn is_syn(&self) -> bool {
        self.flags & SYN != 0
    }
}

/// What a packet, or the one that an ICMP error quotes, says of its flow.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub tcp: bool,
    pub source: [u8; 4],
    pub destination: [u8; 4],
    pub id: u16,
    /// It is a part of a larger packet.
    pub is_fragment: bool,
    pub is_first: bool,
    /// It is quoted.
    pub is_quoted: bool,
    /// Source and destination port, if they are there.
    pub ports: Option<(u16, u16)>,
    /// Flags of its own TCP header.
    pub flags: Option<u8>,
}

impl Header {
    /// Looks at a packet; `None` if it belongs to no flow of TCP or UDP. `quoted`: ICMP errors
    /// belong to the flow of the packet that they quote.
    pub fn of(packet: &Packet, quoted: bool) -> Option<Header> {
        let ip = packet.network_header()?;
        let own: &[u8; IP_HEADER] = ip.first_chunk()?;
        if own[9] == ICMP && quoted && fragment(own) & 0x1fff == 0 {
            let icmp = packet.transport_header()?;
            if !matches!(icmp.first(), Some(3 | 4 | 5 | 11 | 12)) {
                return None;
            }
            let inner = icmp.get(ICMP_HEADER..)?;
            return Header::parse(inner, usize::from(inner.first()? & 15) * 4, true);
        }
        let header = packet
            .network_header_len()
            .max(usize::from(own[0] & 15) * 4);
        let mut parsed = Header::parse(ip, header, false)?;
        if parsed.tcp && parsed.is_first {
            parsed.flags = packet
                .transport_header()
                .and_then(|tcp| tcp.get(13).copied());
        }
        Some(parsed)
    }

    fn parse(ip: &[u8], header: usize, is_quoted: bool) -> Option<Header> {
        let own: &[u8; IP_HEADER] = ip.first_chunk()?;
        let &[.., a, b, c, d, e, f, g, h] = own;
        let (source, destination) = ([a, b, c, d], [e, f, g, h]);
        let tcp = match own[9] {
            TCP => true,
            UDP => false,
            _ => return None,
        };
        if header < IP_HEADER || (source == [0; 4] && destination == [0; 4]) {
            return None;
        }
        let field = fragment(own);
        let is_first = field & 0x1fff == 0;
        let ports = match ip.get(header..).and_then(|rest| rest.first_chunk()) {
            Some(&[a, b, c, d]) if is_first => {
                Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
            }
            _ => None,
        };
        Some(Header {
            tcp,
            source,
            destination,
            id: u16::from_be_bytes([own[4], own[5]]),
            is_fragment: field & 0x3fff != 0,
            is_first,
            is_quoted,
            ports,
            flags: None,
        })
    }

    /// Whether it begins a TCP connection.
    #[inline]
    pub fn is_syn(&self) -> bool {
        !self.is_quoted && self.flags.is_some_and(|flags| flags & SYN != 0)
    }

    /// The flow, and whether the packet goes from its greater end to the lesser.
    #[inline]
    pub fn key(&self) -> Option<(Key, bool)> {
        let (from, to) = self.ports?;
        let rank = |address, port| u64::from(u32::from_be_bytes(address)) << 16 | u64::from(port);
        let reverse = rank(self.source, from) > rank(self.destination, to);
        let key = FlowKey::new((self.source.into(), from), (self.destination.into(), to));
        let protocol = if self.tcp { TCP } else { UDP };
        let key = if reverse { key.reverse() } else { key };
        Some(((protocol.into(), key), reverse))
    }

    pub fn hosts(&self) -> Hosts {
        let (from, to) = (self.source, self.destination);
        Hosts {
            tcp: self.tcp,
            ends: if from > to { [to, from] } else { [from, to] },
        }
    }
}

/// Flags and offset of an IP header.
fn fragment(ip: &[u8; IP_HEADER]) -> u16 {
    u16::from_be_bytes([ip[6], ip[7]])
}
