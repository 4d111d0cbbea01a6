//! A packet as a dump's fields see it.

use crate::prelude::*;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Shortest IP and TCP headers.
const HEADER: usize = 20;

/// What is known of a packet's headers once they are checked.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    ip: bool,
    /// The protocol whose header follows, if it is TCP, UDP or ICMP and in this fragment.
    transport: Option<u8>,
    /// Bytes behind the end of the IP packet.
    padding: usize,
    /// What is wrong with them.
    bad: Option<String>,
}

impl Headers {
    /// Looks at a packet's IP header and at the one behind it. As lengths are taken from the IP
    /// header from now on, the extra length annotation is left to what does not fit there.
    /// `careful`: a packet cut short is bad.
    pub fn check(packet: &mut Packet, careful: bool) -> Headers {
        let mut headers = Headers::default();
        let Some(ip) = packet.network_header() else {
            return headers;
        };
        let captured = ip.len();
        let mut extra = packet.anno(EXTRA_LENGTH);
        let &[version, _, high, low, ..] = ip else {
            headers.bad = Some("truncated IP header".into());
            return headers;
        };
        let header = usize::from(version & 15) * 4;
        let total = u16::from_be_bytes([high, low]);
        let length = usize::from(total);
        if version >> 4 != 4 {
            headers.bad = Some(format!("IP version {}", version >> 4));
            return headers;
        }
        if header < HEADER {
            headers.bad = Some(format!("IP header length {}", version & 15));
            return headers;
        }
        if length < header {
            headers.bad = Some(format!("IP length {length}"));
            return headers;
        }
        headers.ip = true;
        if captured > length {
            headers.padding = captured - length;
            extra = extra.saturating_add(headers.padding as u32);
        } else if careful && captured + (extra as usize) < length {
            let missing = length - captured - extra as usize;
            headers.bad = Some(format!("truncated IP missing {missing}"));
        }
        let captured = captured - headers.padding;
        if captured > header && !is_later_fragment(ip) {
            headers.check_transport(ip.get(9).copied(), packet.transport_header());
        }
        if extra > 0 {
            let full = (captured as u32).saturating_add(extra);
            let beyond = match total {
                u16::MAX => full.saturating_sub(u16::MAX.into()),
                _ => 0,
            };
            packet.set_anno(EXTRA_LENGTH, beyond);
        }
        headers
    }

    fn check_transport(&mut self, protocol: Option<u8>, header: Option<&[u8]>) {
        let Some(header) = header else {
            return;
        };
        let words = header.get(12).map(|byte| byte >> 4);
        match (protocol, words) {
            (Some(TCP), Some(words)) if usize::from(words) * 4 < HEADER => {
                let bad = || format!("TCP header length {words}");
                self.bad.get_or_insert_with(bad);
            }
            (Some(TCP | UDP | ICMP), _) => self.transport = protocol,
            _ => {}
        }
    }
}

fn is_later_fragment(ip: &[u8]) -> bool {
    match ip.get(6..8) {
        Some(&[high, low]) => u16::from_be_bytes([high, low]) & 0x1fff != 0,
        _ => false,
    }
}

/// What a field is missing.
enum Missing {
    Ethernet,
    Ip,
    /// So many bytes of the header of a protocol; `None`: TCP or UDP.
    Transport(Option<u8>, usize),
}

/// A packet, with its headers checked.
pub struct Seen<'p> {
    pub packet: &'p Packet,
    /// What names mean.
    pub names: Context<'p>,
    /// Whether lengths count the extra length annotation.
    pub extra_length: bool,
    /// The thread that the packet comes from.
    pub thread: u16,
    headers: Headers,
    ip: Option<&'p [u8]>,
    transport: &'p [u8],
}

impl<'p> Seen<'p> {
    pub fn new(
        packet: &'p Packet,
        headers: Headers,
        extra_length: bool,
        names: Context<'p>,
    ) -> Seen<'p> {
        let cut = |bytes: &'p [u8]| &bytes[..bytes.len().saturating_sub(headers.padding)];
        let ip = packet.network_header().filter(|_| headers.ip).map(cut);
        let transport = packet.transport_header().filter(|_| headers.ip);
        Seen {
            packet,
            names,
            extra_length,
            thread: 0,
            ip,
            transport: transport.map(cut).unwrap_or_default(),
            headers,
        }
    }

    /// What is wrong with the packet, as far as its headers and the fields taken of it show.
    pub fn bad(&self) -> Option<&str> {
        self.headers.bad.as_deref()
    }

    /// The IP header, if it is sound, and what follows it, padding left out.
    pub fn any_ip(&self) -> Option<&'p [u8]> {
        self.ip
    }

    /// The same, if there are `n` bytes of it.
    pub fn ip(&mut self, n: usize) -> Option<&'p [u8]> {
        match self.ip {
            Some(ip) if ip.len() >= n => Some(ip),
            _ => self.missing(Missing::Ip),
        }
    }

    /// Its TCP header, if there are `n` bytes of it.
    pub fn tcp(&mut self, n: usize) -> Option<&'p [u8]> {
        self.transport_of(TCP, n)
    }

    /// Its UDP header, if there are `n` bytes of it.
    pub fn udp(&mut self, n: usize) -> Option<&'p [u8]> {
        self.transport_of(UDP, n)
    }

    /// Its ICMP header, if there are `n` bytes of it.
    pub fn icmp(&mut self, n: usize) -> Option<&'p [u8]> {
        self.transport_of(ICMP, n)
    }

    fn transport_of(&mut self, protocol: u8, n: usize) -> Option<&'p [u8]> {
        if self.headers.transport == Some(protocol) && self.transport.len() >= n {
            return Some(self.transport);
        }
        self.missing(Missing::Transport(Some(protocol), n))
    }

    /// What follows the IP header of a protocol with ports, if there are `n` bytes of it.
    pub fn ports(&mut self, n: usize) -> Option<&'p [u8]> {
        let first = self.ip.filter(|ip| !is_later_fragment(ip));
        let header = |ip: &[u8]| usize::from(ip.first().unwrap_or(&0) & 15) * 4;
        let ported = first.is_some_and(|ip| {
            ip.len() > header(ip) && ip.get(9).is_some_and(|protocol| has_ports(*protocol))
        });
        if ported && self.transport.len() >= n {
            return Some(self.transport);
        }
        self.missing(Missing::Transport(None, n))
    }

    /// The ICMP type, 0 if there is none.
    pub fn icmp_type(&self) -> u8 {
        match self.headers.transport {
            Some(ICMP) => self.transport.first().copied().unwrap_or(0),
            _ => 0,
        }
    }

    /// The Ethernet header: what its mark says, or the start of a packet without it; 14 bytes
    /// before the network header, or before the end of a packet without that.
    pub fn ethernet(&mut self) -> Option<&'p [u8; 14]> {
        let packet = self.packet;
        let network = packet.network_offset();
        let start = match packet.mac_offset() {
            Some(mac) => Some(mac),
            None => network.is_none_or(|at| at > 0).then_some(0),
        };
        let end = network.unwrap_or(packet.len() as isize);
        let header = match start {
            Some(start) if start + 14 == end => match packet.mac_header() {
                Some(bytes) => bytes.first_chunk(),
                None => packet.data().first_chunk(),
            },
            _ => None,
        };
        header.or_else(|| self.missing(Missing::Ethernet))
    }

    /// What follows the last header: its length as the IP header says, and what is there of it.
    /// `None` of it is there if the headers themselves are cut short.
    pub fn payload(&self) -> (usize, Option<&'p [u8]>) {
        let Some(ip) = self.ip else {
            let data = self.packet.data();
            let data = &data[..data.len().saturating_sub(self.headers.padding)];
            return (data.len(), Some(data));
        };
        let total = match ip.get(2..4) {
            Some(&[high, low]) => usize::from(u16::from_be_bytes([high, low])),
            _ => 0,
        };
        let mut header = 0;
        if !is_later_fragment(ip) {
            header = match ip.get(9) {
                Some(&TCP) => match self.transport.get(12) {
                    Some(words) => usize::from(words >> 4).max(5) * 4,
                    None => HEADER,
                },
                Some(&UDP | &136) => 8,
                _ => 0,
            };
        }
        let length = total.saturating_sub(self.packet.network_header_len() + header);
        let rest = self.transport.get(header..);
        let rest = rest.map(|rest| &rest[..rest.len().min(length)]);
        match rest {
            Some([]) if length > 0 => (length, None),
            // The headers end where the packet does.
            None if total == self.packet.network_header_len() + header => (0, Some(&[])),
            rest => (length, rest),
        }
    }

    /// Notes that something is missing, unless something else is known to be wrong before.
    fn missing<T>(&mut self, what: Missing) -> Option<T> {
        if self.headers.bad.is_some() {
            return None;
        }
        let bad = match (what, self.ip) {
            (Missing::Ethernet, _) => "Ethernet header".into(),
            (_, None) => "no IP header".into(),
            (Missing::Ip, _) => "truncated IP header capture".into(),
            (Missing::Transport(protocol, n), Some(ip)) => {
                let own = ip.get(9).copied();
                let name = match protocol {
                    Some(TCP) => "TCP",
                    Some(UDP) => "UDP",
                    Some(_) => "ICMP",
                    None => "TCP/UDP",
                };
                let is_other = match (own, protocol) {
                    (None, _) => false,
                    (own, Some(_)) => own != protocol,
                    (Some(own), None) => own != TCP && own != UDP,
                };
                if is_other {
                    // Another protocol is no fault.
                    return None;
                }
                let extra = self.packet.anno(EXTRA_LENGTH) as usize;
                if is_later_fragment(ip) {
                    format!("fragmented {name} header")
                } else if self.transport.len().saturating_add(extra) >= n {
                    format!("truncated {name} header capture")
                } else {
                    format!("truncated {name} header")
                }
            }
        };
        self.headers.bad = Some(bad);
        None
    }
}

/// Whether a protocol's header starts with ports: TCP, UDP, DCCP, UDP-Lite.
pub fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | 33 | 136)
}
