//! Messages of IPFIX (RFC 7011) and NetFlow v9 (RFC 3954), with a template for each version of IP.

use crate::flow::flow_monitor::Record;
use crate::flow::ip6::AnyKey;
use crate::prelude::*;

/// Most bytes of a message: with its headers it fits an MTU of 1500, tunnels included.
const MOST: usize = 1400;
/// The templates' numbers, of IPv4 and IPv6: the first that may be such.
const TEMPLATES: [u16; 2] = [256, 257];
const MILLISECOND: i64 = 1_000_000;

/// A protocol by which records are exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// IPFIX.
    #[default]
    Ipfix,
    /// NetFlow v9.
    NetFlow9,
}

impl Argument for Format {
    const KIND: &'static str = "ipfix or netflow9";

    fn parse(text: &str, _: &Context<'_>) -> Result<Self, Invalid> {
        match text {
            "ipfix" => Ok(Format::Ipfix),
            "netflow9" => Ok(Format::NetFlow9),
            _ => Err(Invalid::because("expected ipfix or netflow9")),
        }
    }
}

/// Numbers and lengths of the information elements of the addresses (IANA's registry): sourceIPv4Address,
/// destinationIPv4Address; sourceIPv6Address, destinationIPv6Address.
const ADDRESSES: [[(u16, u16); 2]; 2] = [[(8, 4), (12, 4)], [(27, 16), (28, 16)]];
/// Those behind them, in order: sourceTransportPort, destinationTransportPort, protocolIdentifier,
/// tcpControlBits, flowEndReason, octetDeltaCount, packetDeltaCount, flowStartMilliseconds,
/// flowEndMilliseconds.
const IPFIX: &[(u16, u16)] = &[
    (7, 2),
    (11, 2),
    (4, 1),
    (6, 2),
    (136, 1),
    (1, 8),
    (2, 8),
    (152, 8),
    (153, 8),
];
/// The same of NetFlow v9: there is no flowEndReason, and times are FIRST_SWITCHED and LAST_SWITCHED,
/// in milliseconds since the exporter's start.
const NETFLOW9: &[(u16, u16)] = &[
    (7, 2),
    (11, 2),
    (4, 1),
    (6, 1),
    (1, 8),
    (2, 8),
    (22, 4),
    (21, 4),
];

/// When a message is sent.
#[derive(Clone, Copy)]
pub struct Time {
    /// Nanoseconds since 1970.
    pub wall: i64,
    /// Milliseconds since the exporter's start.
    pub uptime: u32,
}

/// A message that is written.
pub struct Message {
    format: Format,
    time: Time,
    bytes: Vec<u8>,
    /// Records of data, and templates.
    records: u16,
    templates: u16,
    /// The set of data at the end: its template, and where it begins.
    set: Option<(u16, usize)>,
}

impl Format {
    /// The fields of a record with addresses of a version: 0 for IPv4, 1 for IPv6.
    fn fields(self, version: usize) -> impl Iterator<Item = (u16, u16)> {
        let rest = match self {
            Format::Ipfix => IPFIX,
            Format::NetFlow9 => NETFLOW9,
        };
        ADDRESSES[version].iter().chain(rest).copied()
    }

    fn header_len(self) -> usize {
        match self {
            Format::Ipfix => 16,
            Format::NetFlow9 => 20,
        }
    }

    /// The length of the longest record.
    fn record_len(self) -> usize {
        self.fields(1).map(|(_, length)| usize::from(length)).sum()
    }
}

impl Message {
    /// An empty message, written into `bytes`.
    pub fn new(format: Format, time: Time, mut bytes: Vec<u8>) -> Message {
        bytes.clear();
        bytes.resize(format.header_len(), 0);
        Message {
            format,
            time,
            bytes,
            records: 0,
            templates: 0,
            set: None,
        }
    }

    /// Adds the templates, which say how records are read. They come before them.
    pub fn add_templates(&mut self) {
        let set: u16 = match self.format {
            Format::Ipfix => 2,
            Format::NetFlow9 => 0,
        };
        let begin = self.bytes.len();
        self.bytes.extend(set.to_be_bytes());
        self.bytes.extend([0, 0]);
        for (version, template) in TEMPLATES.into_iter().enumerate() {
            let count = self.format.fields(version).count() as u16;
            for word in [template, count] {
                self.bytes.extend(word.to_be_bytes());
            }
            for (number, length) in self.format.fields(version) {
                self.bytes.extend(number.to_be_bytes());
                self.bytes.extend(length.to_be_bytes());
            }
            self.templates += 1;
        }
        self.end_set(begin);
    }

    /// Writes the length of the set that began there, and ends here.
    fn end_set(&mut self, begin: usize) {
        while !self.bytes.len().is_multiple_of(4) {
            self.bytes.push(0);
        }
        let length = (self.bytes.len() - begin) as u16;
        self.bytes[begin + 2..begin + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Whether another record fits.
    pub fn has_room(&self) -> bool {
        // With another set's header and the padding of both.
        self.bytes.len() + 3 + 4 + self.format.record_len() + 3 <= MOST
    }

    /// Adds a record.
    pub fn add(&mut self, record: &Record) {
        let Record { key, protocol, .. } = record;
        let template = match key {
            AnyKey::V4(_) => TEMPLATES[0],
            AnyKey::V6(_) => TEMPLATES[1],
        };
        if self.set.is_none_or(|(of, _)| of != template) {
            if let Some((_, begin)) = self.set {
                self.end_set(begin);
            }
            self.set = Some((template, self.bytes.len()));
            self.bytes.extend(template.to_be_bytes());
            self.bytes.extend([0, 0]);
        }
        let bytes = &mut self.bytes;
        match key {
            AnyKey::V4(key) => bytes.extend(key.addresses.to_be_bytes()),
            AnyKey::V6(key) => bytes.extend(key.addresses.iter().flat_map(Ipv6Addr::octets)),
        }
        bytes.extend(key.ports().to_be_bytes());
        bytes.push(protocol.0);
        match self.format {
            Format::Ipfix => bytes.extend([0, record.flags, record.end as u8]),
            Format::NetFlow9 => bytes.push(record.flags),
        }
        bytes.extend(record.bytes.to_be_bytes());
        bytes.extend(record.packets.to_be_bytes());
        for at in [record.first, record.last] {
            match self.format {
                Format::Ipfix => bytes.extend((at / MILLISECOND).to_be_bytes()),
                Format::NetFlow9 => {
                    let ago = (self.time.wall - at) / MILLISECOND;
                    let at = self.time.uptime.wrapping_sub(ago as u32);
                    bytes.extend(at.to_be_bytes());
                }
            }
        }
        self.records += 1;
    }

    /// Records of data.
    pub fn records(&self) -> u16 {
        self.records
    }

    /// The message's bytes, with its number and the number of its exporter.
    pub fn finish(mut self, sequence: u32, domain: u32) -> Vec<u8> {
        if let Some((_, begin)) = self.set {
            self.end_set(begin);
        }
        let seconds = (self.time.wall / 1_000_000_000) as u32;
        let length = self.bytes.len() as u16;
        let count = self.records + self.templates;
        let words = match self.format {
            Format::Ipfix => vec![10 << 16 | u32::from(length), seconds, sequence, domain],
            Format::NetFlow9 => vec![
                9 << 16 | u32::from(count),
                self.time.uptime,
                seconds,
                sequence,
                domain,
            ],
        };
        for (slot, word) in self.bytes.chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&word.to_be_bytes());
        }
        self.bytes
    }
}
