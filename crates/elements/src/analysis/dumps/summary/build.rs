//! A packet that is made of a dump's fields.

use packet::checksum::checksum;

use super::ip_options::OPTIONS_MAX;
use super::seen::has_ports;
use crate::prelude::*;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const UDP_LITE: u8 = 136;

const IP_HEADER: usize = 20;
const TCP_HEADER: usize = 20;
const ETHER_HEADER: usize = 14;
/// Longest header of IP or TCP.
const HEADER_MAX: usize = 60;
/// Largest TTL that nobody asks for.
const TTL: u8 = 100;

/// Addresses and ports that packets have if nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    pub source: (Ipv4Addr, u16),
    pub destination: (Ipv4Addr, u16),
}

impl Flow {
    fn reversed(self) -> Flow {
        Flow {
            source: self.destination,
            destination: self.source,
        }
    }
}

/// A packet in the making: its bytes, and what goes with them.
pub struct Build<'c> {
    /// What names mean.
    pub names: Context<'c>,
    /// Of the file that is read.
    pub minor_version: u32,
    /// Nanoseconds since 1970.
    pub timestamp: i64,
    pub first_timestamp: i64,
    /// Packets that it stands for.
    pub count: u32,
    pub paint: u8,
    pub aggregate: u32,
    /// Length that it is to have, link header included; 0: as it comes.
    pub wanted: u32,
    flow: Option<Flow>,
    protocol: u8,
    bytes: Vec<u8>,
    has_link: bool,
    is_ip: bool,
    /// Where the IP header starts, once it is there, and its length.
    network: Option<usize>,
    header: usize,
    icmp_type_given: bool,
    icmp_code_given: bool,
    ip_options_given: bool,
    tcp_options_given: bool,
}

impl<'c> Build<'c> {
    /// An empty packet. `scratch` is memory to use; [`into_scratch`](Self::into_scratch) gives it
    /// back.
    pub fn new(
        names: Context<'c>,
        minor_version: u32,
        protocol: u8,
        flow: Option<Flow>,
        mut scratch: Vec<u8>,
    ) -> Build<'c> {
        scratch.clear();
        Build {
            names,
            minor_version,
            timestamp: 0,
            first_timestamp: 0,
            count: 1,
            paint: 0,
            aggregate: 0,
            wanted: 0,
            flow,
            protocol,
            bytes: scratch,
            has_link: false,
            is_ip: true,
            network: None,
            header: 0,
            icmp_type_given: false,
            icmp_code_given: false,
            ip_options_given: false,
            tcp_options_given: false,
        }
    }

    pub fn into_scratch(self) -> Vec<u8> {
        self.bytes
    }

    /// Where the transport header starts, if there is an IP header.
    fn transport(&self) -> Option<usize> {
        self.network.map(|at| at + self.header)
    }

    fn at(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// Writes bytes if they lie within the packet.
    fn set(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// Makes the packet at least `length` bytes long.
    fn extend_to(&mut self, length: usize) {
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
    }
}

/// The link header.
impl Build<'_> {
    fn make_link(&mut self) {
        if !self.has_link {
            self.has_link = true;
            self.bytes.splice(0..0, [0; ETHER_HEADER]);
            self.network = self.network.map(|at| at + ETHER_HEADER);
            self.set(12, &[8, 0]);
        }
    }

    pub fn set_ether_source(&mut self, address: [u8; 6]) {
        self.make_link();
        self.set(6, &address);
    }

    pub fn set_ether_destination(&mut self, address: [u8; 6]) {
        self.make_link();
        self.set(0, &address);
    }

    pub fn set_ether_type(&mut self, kind: u16) {
        self.make_link();
        self.set(12, &kind.to_be_bytes());
        self.is_ip &= matches!(kind, 0x0800 | 0x86dd);
    }
}

/// The IP header.
impl Build<'_> {
    /// Makes the IP header, if it may have one; returns where it starts.
    fn make_ip(&mut self) -> Option<usize> {
        if !self.is_ip {
            return None;
        }
        if let Some(at) = self.network {
            return Some(at);
        }
        let at = self.bytes.len();
        self.extend_to(at + IP_HEADER);
        self.network = Some(at);
        self.header = IP_HEADER;
        self.set(at, &[0x45]);
        self.set(at + 8, &[TTL, self.protocol]);
        if let Some(flow) = self.directed_flow() {
            self.set(at + 12, &flow.source.0.octets());
            self.set(at + 16, &flow.destination.0.octets());
        }
        Some(at)
    }

    /// The flow's addresses, as the paint says which way.
    fn directed_flow(&self) -> Option<Flow> {
        self.flow.map(|flow| match self.paint & 1 {
            0 => flow,
            _ => flow.reversed(),
        })
    }

    /// Writes bytes at a place of the IP header.
    pub fn set_ip(&mut self, place: usize, bytes: &[u8]) {
        if let Some(at) = self.make_ip() {
            self.set(at + place, bytes);
        }
    }

    /// Replaces the bits of `mask` in the type of service.
    pub fn set_tos(&mut self, mask: u8, bits: u8) {
        if let Some(at) = self.make_ip() {
            let tos = self.at(at + 1) & !mask | bits & mask;
            self.set(at + 1, &[tos]);
        }
    }

    /// Sets the header length, in bytes.
    pub fn set_ip_header_len(&mut self, length: u64) {
        let Some(at) = self.make_ip() else {
            return;
        };
        let length = length.next_multiple_of(4) as usize;
        if length > HEADER_MAX {
            return;
        }
        self.ip_options_given = true;
        self.widen_ip(at, length);
        let version = self.at(at) & 0xf0 | (length / 4) as u8;
        self.set(at, &[version]);
    }

    /// Makes the header at least `length` bytes long.
    fn widen_ip(&mut self, at: usize, length: usize) {
        if length > self.header {
            let end = at + self.header;
            self.insert(end, length - self.header);
            self.header = length;
            self.set(at, &[0x40 | (length / 4) as u8]);
        }
    }

    /// Makes room for `n` zeros at `at`.
    fn insert(&mut self, at: usize, n: usize) {
        let at = at.min(self.bytes.len());
        self.bytes.splice(at..at, core::iter::repeat_n(0, n));
    }

    pub fn set_ip_options(&mut self, options: &[u8]) {
        let Some(at) = self.make_ip() else {
            return;
        };
        self.ip_options_given = true;
        if options.is_empty() || options.len() > OPTIONS_MAX {
            return;
        }
        self.widen_ip(at, (IP_HEADER + options.len()).next_multiple_of(4));
        self.set(at + IP_HEADER, options);
    }

    /// Sets the length of the IP packet.
    pub fn set_ip_len(&mut self, length: u64) {
        if let Some(at) = self.make_ip() {
            let wanted = (at as u64).saturating_add(length);
            self.wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        }
    }
}

/// What follows the IP header.
impl Build<'_> {
    fn ip_protocol(&self) -> u8 {
        self.network.map_or(0, |at| self.at(at + 9))
    }

    fn is_later_fragment(&self) -> bool {
        let field = |at: usize| u16::from_be_bytes([self.at(at + 6), self.at(at + 7)]);
        self.network.is_some_and(|at| field(at) & 0x1fff != 0)
    }

    /// Makes the header of the packet's protocol, as far as the wanted length allows; returns
    /// where it starts. `None` if this is a later fragment.
    fn make_transport(&mut self) -> Option<usize> {
        let at = self.transport()?;
        if self.is_later_fragment() {
            return None;
        }
        let protocol = self.ip_protocol();
        let whole = match protocol {
            TCP => TCP_HEADER,
            UDP | UDP_LITE | ICMP => 8,
            DCCP => 12,
            _ => return Some(at),
        };
        if self.bytes.len() >= at + 8 {
            return Some(at);
        }
        let wanted = self.wanted as usize;
        let end = match wanted {
            0 => at + whole,
            _ => wanted.min(at + whole),
        };
        if self.bytes.len() < end {
            self.extend_to(end);
            if protocol == TCP {
                self.set(at + 12, &[(TCP_HEADER as u8 / 4) << 4]);
            }
            if let Some(flow) = self.directed_flow() {
                self.set(at, &flow.source.1.to_be_bytes());
                self.set(at + 2, &flow.destination.1.to_be_bytes());
            }
        }
        Some(at)
    }

    /// Where the header of `protocol` starts, if that is the packet's.
    fn make_header_of(&mut self, protocol: u8) -> Option<usize> {
        self.make_ip()?;
        if !matches!(self.ip_protocol(), 0) && self.ip_protocol() != protocol {
            return None;
        }
        self.make_transport()
    }

    /// Writes a port: the source at place 0, the destination at place 2.
    pub fn set_port(&mut self, place: usize, port: u16) {
        if self.make_ip().is_none() {
            return;
        }
        let protocol = self.ip_protocol();
        if let Some(at) = self.make_transport()
            && (protocol == 0 || has_ports(protocol))
        {
            self.set(at + place, &port.to_be_bytes());
        }
    }

    /// Writes bytes at a place of the TCP header.
    pub fn set_tcp(&mut self, place: usize, bytes: &[u8]) {
        if let Some(at) = self.make_header_of(TCP) {
            self.set(at + place, bytes);
        }
    }

    /// Sets the flags: the low 8 bits, and 4 beside the header length.
    pub fn set_tcp_flags(&mut self, flags: u16) {
        if let Some(at) = self.make_header_of(TCP) {
            let offset = self.at(at + 12) & 0xf0;
            self.set(at + 12, &[offset | (flags >> 8) as u8 & 15, flags as u8]);
        }
    }

    /// Sets the TCP header's length, in bytes.
    pub fn set_tcp_header_len(&mut self, length: u64) {
        let length = length.next_multiple_of(4) as usize;
        if length > HEADER_MAX {
            return;
        }
        if let Some(at) = self.make_header_of(TCP) {
            self.widen_tcp(at, length);
            let flags = self.at(at + 12) & 15;
            self.set(at + 12, &[(length as u8 / 4) << 4 | flags]);
        }
    }

    /// Makes the TCP header at least `length` bytes long.
    fn widen_tcp(&mut self, at: usize, length: usize) {
        let now = usize::from(self.at(at + 12) >> 4) * 4;
        if length > now {
            self.insert(
                at + now.max(TCP_HEADER),
                length - now.max(TCP_HEADER).min(length),
            );
            self.extend_to(at + length);
            let flags = self.at(at + 12) & 15;
            self.set(at + 12, &[(length as u8 / 4) << 4 | flags]);
        }
    }

    pub fn set_tcp_options(&mut self, options: &[u8]) {
        let Some(at) = self.make_header_of(TCP) else {
            return;
        };
        self.tcp_options_given = true;
        if options.is_empty() || options.len() > OPTIONS_MAX {
            return;
        }
        let header = (TCP_HEADER + options.len()).next_multiple_of(4);
        self.widen_tcp(at, header);
        self.set(at + TCP_HEADER, options);
        // Longer options of another field end where these do. As Click, this clears 20 bytes more than the
        // padding, where there are any.
        let end = at + TCP_HEADER + options.len();
        let cleared = (end + header - options.len()).min(self.bytes.len());
        if let Some(rest) = self.bytes.get_mut(end..cleared) {
            rest.fill(0);
        }
    }

    pub fn set_udp_len(&mut self, length: u16) {
        if self.make_ip().is_none() {
            return;
        }
        let protocol = self.ip_protocol();
        if let Some(at) = self.make_transport()
            && matches!(protocol, 0 | UDP | UDP_LITE)
        {
            self.extend_to(at + 8);
            self.set(at + 4, &length.to_be_bytes());
        }
    }
}

/// ICMP.
impl Build<'_> {
    fn make_icmp(&mut self) -> Option<usize> {
        let at = self.make_header_of(ICMP)?;
        self.extend_to(at + 8);
        Some(at)
    }

    /// The ICMP type, if it was said.
    pub fn icmp_type(&self) -> Option<u8> {
        let at = self.transport()?;
        self.icmp_type_given.then(|| self.at(at))
    }

    pub fn set_icmp_type(&mut self, kind: u8) {
        if let Some(at) = self.make_icmp() {
            self.set(at, &[kind]);
            self.icmp_type_given = true;
            if matches!(kind, 13 | 14) {
                // Timestamps follow.
                self.extend_to(at + 20);
            }
        }
    }

    pub fn set_icmp_code(&mut self, code: u8) {
        if let Some(at) = self.make_icmp() {
            self.set(at + 1, &[code]);
            self.icmp_code_given = true;
        }
    }

    /// Sets the identifier (place 4) or the sequence number (place 6) of a type that has them.
    pub fn set_icmp_sequenced(&mut self, place: usize, number: u16) {
        if let Some(at) = self.make_icmp()
            && (!self.icmp_type_given || is_sequenced(self.at(at)))
        {
            self.set(at + place, &number.to_be_bytes());
        }
    }

    /// Sets the next hop's MTU of a destination that cannot be reached without fragments.
    pub fn set_icmp_next_mtu(&mut self, mtu: u16) {
        if let Some(at) = self.make_icmp()
            && (!self.icmp_type_given || self.at(at) == 3)
            && (!self.icmp_code_given || self.at(at + 1) == 4)
        {
            self.set(at + 6, &mtu.to_be_bytes());
        }
    }
}

/// Whether an ICMP type has an identifier and a sequence number.
pub fn is_sequenced(kind: u8) -> bool {
    matches!(kind, 0 | 8 | 13 | 14 | 15 | 16)
}

/// The payload.
impl Build<'_> {
    /// Where the payload starts.
    fn payload(&mut self) -> usize {
        if self.make_ip().is_some() {
            self.make_transport();
        }
        let Some(at) = self.transport() else {
            return if self.has_link { ETHER_HEADER } else { 0 };
        };
        if self.is_later_fragment() {
            return at;
        }
        at + match self.ip_protocol() {
            TCP => usize::from(self.at(at + 12) >> 4).max(5) * 4,
            UDP | UDP_LITE => 8,
            _ => 0,
        }
    }

    pub fn set_payload(&mut self, payload: &[u8]) {
        if payload.is_empty() {
            // It has headers, too.
            self.payload();
            return;
        }
        self.account_payload(payload.len() as u64);
        let at = self.payload();
        self.extend_to(at + payload.len());
        self.set(at, payload);
    }

    /// Sets the payload's length, without its bytes.
    pub fn set_payload_len(&mut self, length: u64) {
        self.account_payload(length);
    }

    /// Makes the lengths of packet and payload agree: if the packet's is given and leaves more than
    /// the headers need, they have options.
    fn account_payload(&mut self, length: u64) {
        let end = (self.payload() as u64).saturating_add(length);
        if self.wanted == 0 || self.network.is_none() {
            self.wanted = u32::try_from(end).unwrap_or(u32::MAX);
            return;
        }
        let spare = u64::from(self.wanted).saturating_sub(end);
        let mut spare = usize::try_from(spare).unwrap_or(usize::MAX) & !3;
        let Some(at) = self.transport() else {
            return;
        };
        let is_tcp = self.ip_protocol() == TCP && !self.is_later_fragment();
        if is_tcp && !self.tcp_options_given && self.at(at + 12) >> 4 == 5 {
            let more = spare.min(OPTIONS_MAX);
            if more > 0 && self.bytes.len() >= at + TCP_HEADER {
                self.widen_tcp(at, TCP_HEADER + more);
                spare -= more;
            }
        }
        if let Some(network) = self.network
            && !self.ip_options_given
            && self.header == IP_HEADER
            && spare > 0
        {
            self.widen_ip(network, IP_HEADER + spare.min(OPTIONS_MAX));
        }
    }
}

/// The end.
impl Build<'_> {
    /// Writes the packet into `packet`, which is empty: with the lengths that its headers say, and
    /// with checksums if asked for. False if there is no memory.
    pub fn finish(&mut self, packet: &mut Packet, checksums: bool) -> bool {
        if self.flow.is_some() {
            self.make_ip();
        }
        if self.network.is_some() && self.is_ip {
            self.make_transport();
            self.set_lengths(checksums);
        }
        if !packet.put(self.bytes.len()) {
            return false;
        }
        packet.data_mut().copy_from_slice(&self.bytes);
        if self.has_link {
            packet.set_mac_header(0);
        }
        if let Some(at) = self.network {
            packet.set_network_header(at, self.header);
            if let Some(address) = self.bytes.get(at + 16..at + 20) {
                let address: [u8; 4] = address.try_into().unwrap_or_default();
                packet.set_dst_ip(address.into());
            }
        } else if self.has_link {
            packet.set_network_header(ETHER_HEADER, 0);
        }
        packet.set_timestamp(self.timestamp);
        if self.first_timestamp != 0 {
            packet.set_anno_u64(FIRST_TIMESTAMP, self.first_timestamp as u64);
        }
        packet.set_anno(EXTRA_PACKETS, self.count.saturating_sub(1));
        packet.set_paint(self.paint);
        packet.set_anno(AGGREGATE, self.aggregate);
        let missing = (self.wanted as usize).saturating_sub(self.bytes.len());
        packet.set_anno(EXTRA_LENGTH, missing as u32);
        true
    }

    fn set_lengths(&mut self, checksums: bool) {
        let (Some(network), Some(transport)) = (self.network, self.transport()) else {
            return;
        };
        let here = self.bytes.len() - network;
        let wanted = match self.wanted as usize {
            0 => here,
            wanted => match wanted.checked_sub(network) {
                Some(0) => here,
                Some(length) => length,
                None => wanted,
            },
        };
        let length = u16::try_from(wanted).unwrap_or(u16::MAX);
        self.set(network + 2, &length.to_be_bytes());
        let is_udp = self.ip_protocol() == UDP && !self.is_later_fragment();
        if is_udp && [self.at(transport + 4), self.at(transport + 5)] == [0, 0] {
            let length = length.wrapping_sub(self.header as u16);
            self.set(transport + 4, &length.to_be_bytes());
        }
        if checksums {
            self.extend_to(network + usize::from(length));
            self.set_checksums(network, transport);
        }
    }

    fn set_checksums(&mut self, network: usize, transport: usize) {
        self.set(network + 10, &[0, 0]);
        let header = usize::from(self.at(network) & 15) * 4;
        let Some(ip) = self.bytes.get(network..network + header) else {
            return;
        };
        let sum = checksum(ip);
        // A header length below 20 shortens what is summed, but not the header.
        let whole = self.bytes.get(network..).unwrap_or_default();
        let ip = Ipv4Packet::new_unchecked(&whole[..whole.len().min(ip.len().max(IP_HEADER))]);
        let (from, to) = (ip.source(), ip.final_destination());
        self.set(network + 10, &sum.to_be_bytes());
        let fragment = u16::from_be_bytes([self.at(network + 6), self.at(network + 7)]);
        let protocol = self.ip_protocol();
        let place = match protocol {
            TCP => 16,
            UDP => 6,
            ICMP => 2,
            _ => return,
        };
        if fragment & 0x3fff != 0 {
            return;
        }
        self.set(transport + place, &[0, 0]);
        let Some(bytes) = self.bytes.get(transport..) else {
            return;
        };
        let sum = match protocol {
            ICMP => checksum(bytes),
            _ => {
                let length = bytes.len() as u16;
                let sum = pseudo_header_v4(from, to, protocol, length).add_bytes(bytes);
                // No checksum is what 0 means in UDP (RFC 768).
                match (sum.checksum(), protocol) {
                    (0, UDP) => 0xffff,
                    (sum, _) => sum,
                }
            }
        };
        self.set(transport + place, &sum.to_be_bytes());
    }
}
