//! Messages of IPFIX (RFC 7011) and NetFlow v9 (RFC 3954), with one template.

use crate::flow::flow_monitor::Record;
use crate::prelude::*;

/// Most bytes of a message: with its headers it fits an MTU of 1500, tunnels included.
const MOST: usize = 1400;
/// The template's number: the first that may be one.
const TEMPLATE: u16 = 256;
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

/// Numbers and lengths of the information elements, in order (IANA's registry): sourceIPv4Address,
/// destinationIPv4Address, sourceTransportPort, destinationTransportPort, protocolIdentifier,
/// tcpControlBits, flowEndReason, octetDeltaCount, packetDeltaCount, flowStartMilliseconds,
/// flowEndMilliseconds.
const IPFIX: &[(u16, u16)] = &[
    (8, 4),
    (12, 4),
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
    (8, 4),
    (12, 4),
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
    /// Records of data, and whether there is a template.
    records: u16,
    has_template: bool,
    /// Where the set of data begins.
    data: Option<usize>,
}

impl Format {
    fn fields(self) -> &'static [(u16, u16)] {
        match self {
            Format::Ipfix => IPFIX,
            Format::NetFlow9 => NETFLOW9,
        }
    }

    fn header_len(self) -> usize {
        match self {
            Format::Ipfix => 16,
            Format::NetFlow9 => 20,
        }
    }

    fn record_len(self) -> usize {
        self.fields()
            .iter()
            .map(|(_, length)| usize::from(*length))
            .sum()
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
            has_template: false,
            data: None,
        }
    }

    /// Adds the template, which says how records are read. It comes before them.
    pub fn add_template(&mut self) {
        let fields = self.format.fields();
        let set: u16 = match self.format {
            Format::Ipfix => 2,
            Format::NetFlow9 => 0,
        };
        let length = 8 + 4 * fields.len() as u16;
        for word in [set, length, TEMPLATE, fields.len() as u16] {
            self.bytes.extend(word.to_be_bytes());
        }
        for (number, length) in fields {
            self.bytes.extend(number.to_be_bytes());
            self.bytes.extend(length.to_be_bytes());
        }
        self.has_template = true;
    }

    /// Whether another record fits.
    pub fn has_room(&self) -> bool {
        // With a set's header and padding.
        self.bytes.len() + 4 + self.format.record_len() + 3 <= MOST
    }

    /// Adds a record.
    pub fn add(&mut self, record: &Record) {
        if self.data.is_none() {
            self.data = Some(self.bytes.len());
            self.bytes.extend(TEMPLATE.to_be_bytes());
            self.bytes.extend([0, 0]);
        }
        let Record { key, protocol, .. } = record;
        let bytes = &mut self.bytes;
        bytes.extend(key.source().octets());
        bytes.extend(key.destination().octets());
        bytes.extend(key.source_port().to_be_bytes());
        bytes.extend(key.destination_port().to_be_bytes());
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
        if let Some(data) = self.data {
            while !self.bytes.len().is_multiple_of(4) {
                self.bytes.push(0);
            }
            let length = (self.bytes.len() - data) as u16;
            self.bytes[data + 2..data + 4].copy_from_slice(&length.to_be_bytes());
        }
        let seconds = (self.time.wall / 1_000_000_000) as u32;
        let length = self.bytes.len() as u16;
        let count = self.records + u16::from(self.has_template);
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
