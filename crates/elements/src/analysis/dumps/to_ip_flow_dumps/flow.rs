//! One flow, and how its file looks.

use std::io::Write;

use crate::analysis::dumps::summary::tcp_options::{self, Which};
use crate::prelude::*;

/// Packets that are kept before they are written.
const KEPT: usize = 128;
/// How much later than the start the first packet is, in nanoseconds.
const FIRST: i64 = 1;
const PER_SECOND: i64 = 1_000_000_000;

const ICMP_HEADER: usize = 8;
const ACK: u8 = 0x10;
const LETTERS: &[u8] = b"FSRPAUECN";

const NOP: u8 = 1;
const SACK: u8 = 5;
const TIMESTAMP: u8 = 8;
/// Options that are written: of these kinds, beside timestamps.
const WRITTEN: [u8; 4] = [2, 3, 4, SACK];

/// What is written of packets.
#[derive(Clone, Component)]
pub struct Options {
    /// Whether times are since 1970.
    #[arg]
    pub absolute_time: bool,
    /// Whether sequence and acknowledgement numbers are those in the packets.
    #[arg]
    pub absolute_seq: bool,
    /// Whether to write records.
    #[arg]
    pub binary: bool,
    /// Whether to write TCP options.
    #[arg(name = "ALL_TCP_OPT")]
    pub tcp_timestamps: bool,
    /// Whether to write TCP options without timestamps.
    #[arg(name = "TCP_OPT")]
    pub tcp_options: bool,
    /// Whether to write TCP windows.
    #[arg(name = "TCP_WINDOW")]
    pub window: bool,
    /// Whether to write IP identifications.
    #[arg(name = "IP_ID")]
    pub id: bool,
}

/// A flow whose file is being written.
pub struct Flow {
    /// The file's name.
    pub name: String,
    aggregate: u32,
    tcp: bool,
    source: (Ipv4Addr, u16),
    destination: (Ipv4Addr, u16),
    start: i64,
    /// First sequence numbers, by direction.
    first_seq: [Option<u32>; 2],
    count: u32,
    begun: bool,
    kept: Vec<Line>,
}

/// What becomes a line.
enum Line {
    Packet(Record),
    Remark(String),
}

/// What is written of a packet.
struct Record {
    time: i64,
    back: bool,
    seq: u32,
    ack: u32,
    flags: u8,
    payload: u32,
    id: u16,
    window: u16,
    options: Vec<u8>,
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl Flow {
    /// The flow of a packet, or of that which an ICMP error quotes; `None` if it is not of TCP or
    /// UDP.
    pub fn of(packet: &Packet, options: &Options) -> Option<Flow> {
        let mut ip = packet.network_header()?;
        let mut transport = packet.transport_header()?;
        if *ip.get(9)? == IpProtocol::ICMP.0 {
            ip = transport.get(ICMP_HEADER..)?;
            transport = ip.get(usize::from(ip.first()? & 15) * 4..)?;
        }
        let tcp = match IpProtocol(*ip.get(9)?) {
            IpProtocol::TCP => true,
            IpProtocol::UDP => false,
            _ => return None,
        };
        let address = |at| long(ip, at).map(Ipv4Addr::from_bits);
        let mut source = (address(12)?, word(transport, 0).unwrap_or(0));
        let mut destination = (address(16)?, word(transport, 2).unwrap_or(0));
        if packet.paint() & 1 != 0 {
            (source, destination) = (destination, source);
        }
        let start = if options.absolute_time {
            0
        } else {
            packet.timestamp().saturating_sub(FIRST)
        };
        Some(Flow {
            name: String::new(),
            aggregate: packet.anno(AGGREGATE),
            tcp,
            source,
            destination,
            start,
            first_seq: [options.absolute_seq.then_some(0); 2],
            count: 0,
            begun: false,
            kept: Vec::new(),
        })
    }

    /// Packets of the flow.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether something of the flow was taken to be written.
    pub fn is_begun(&self) -> bool {
        self.begun
    }

    /// Whether what is kept is to be written.
    pub fn is_full(&self) -> bool {
        self.kept.len() >= KEPT
    }

    /// Adds a packet.
    pub fn add(&mut self, packet: &Packet, options: &Options) {
        self.count = self.count.saturating_add(1);
        if packet.paint() >= 2 {
            let time = Timestamp(packet.timestamp());
            let way = if packet.paint() & 1 != 0 { '>' } else { '<' };
            self.kept
                .push(Line::Remark(format!("{time} {way} ICMP_error")));
        } else if let Some(record) = self.record(packet, options) {
            self.kept.push(Line::Packet(record));
        }
    }

    fn record(&mut self, packet: &Packet, options: &Options) -> Option<Record> {
        let (ip, transport) = (packet.network_header()?, packet.transport_header()?);
        let back = packet.paint() & 1 != 0;
        let length = u32::from(word(ip, 2)?);
        let header = u32::from(ip.first()? & 15) * 4;
        let mut record = Record {
            time: packet.timestamp().saturating_sub(self.start),
            back,
            seq: 0,
            ack: 0,
            flags: 0,
            payload: length.saturating_sub(header + 8),
            id: word(ip, 4)?,
            window: 0,
            options: Vec::new(),
        };
        if !self.tcp {
            return Some(record);
        }
        let (own, other) = (usize::from(back), usize::from(!back));
        let number = |at| long(transport, at).unwrap_or(0);
        let (seq, ack) = (number(4), number(8));
        record.flags = transport.get(13).copied().unwrap_or(0);
        let own_first = *self.first_seq[own].get_or_insert(seq);
        record.seq = seq.wrapping_sub(own_first);
        if record.flags & ACK != 0 {
            record.ack = ack.wrapping_sub(*self.first_seq[other].get_or_insert(ack));
        }
        let tcp_header = transport
            .get(12)
            .map_or(20, |byte| usize::from(byte >> 4) * 4);
        record.payload = length.saturating_sub(header + tcp_header as u32);
        record.window = word(transport, 14).unwrap_or(0);
        if options.tcp_options
            && let Some(bytes) = transport.get(20..tcp_header)
        {
            record.options = self.options(bytes, other, options).unwrap_or_default();
        }
        Some(record)
    }

    /// The options that are written; `None` if they make no sense.
    fn options(&mut self, mut rest: &[u8], other: usize, options: &Options) -> Option<Vec<u8>> {
        let mut kept = Vec::new();
        loop {
            match rest {
                [NOP, after @ ..] => rest = after,
                [0, ..] | [] => return Some(kept),
                [kind, length, ..] => {
                    let (option, after) = rest.split_at_checked((*length).into())?;
                    rest = after;
                    let sound = match (*kind, option.len()) {
                        (2, n) => n == 4,
                        (3, n) => n == 3,
                        (4, n) => n == 2,
                        (SACK, n) => n % 8 == 2,
                        (TIMESTAMP, n) => n == 10,
                        (_, n) => n >= 2,
                    };
                    if !sound {
                        return None;
                    }
                    if *kind == SACK {
                        kept.extend([*kind, *length]);
                        for end in option.get(2..)?.chunks_exact(4) {
                            let end = long(end, 0)?;
                            let first = *self.first_seq[other].get_or_insert(end);
                            kept.extend(end.wrapping_sub(first).to_be_bytes());
                        }
                    } else if WRITTEN.contains(kind)
                        || (*kind == TIMESTAMP && options.tcp_timestamps)
                    {
                        kept.extend(option);
                    }
                }
                [_] => return None,
            }
        }
    }

    /// Takes what is to be written next.
    pub fn take(&mut self, options: &Options) -> Vec<u8> {
        let mut out = Vec::new();
        if !core::mem::replace(&mut self.begun, true) {
            out.extend(self.header(options).bytes());
        }
        for line in core::mem::take(&mut self.kept) {
            match (line, options.binary) {
                (Line::Remark(text), false) => out.extend(format!("#{text}\n").bytes()),
                (Line::Remark(text), true) => {
                    let length = (text.len() + 6) as u32 | 0x8000_0000;
                    out.extend(length.to_be_bytes());
                    out.extend(format!("#{text}\n").bytes());
                }
                (Line::Packet(record), false) => self.add_line(&record, options, &mut out),
                (Line::Packet(record), true) => self.add_record(&record, options, &mut out),
            }
        }
        out
    }

    fn header(&self, options: &Options) -> String {
        let letter = if self.tcp { 'T' } else { 'U' };
        let (from, to, aggregate) = (self.source, self.destination, self.aggregate);
        let mut text = format!(
            "!IPSummaryDump 1.3\n!flowid {} {} {} {} {letter}\n!aggregate {aggregate}\n!data ntimestamp",
            from.0, from.1, to.0, to.1,
        );
        let mut field = |name: &str, there: bool| {
            if there {
                text.push(' ');
                text.push_str(name);
            }
        };
        let options_field = if options.tcp_timestamps {
            "tcp_opt"
        } else {
            "tcp_ntopt"
        };
        if options.binary {
            field("tcp_seq", self.tcp);
            field("payload_len", true);
            field("tcp_ack", self.tcp);
            field("ip_id", options.id);
            field("tcp_window", options.window && self.tcp);
            field("tcp_flags", self.tcp);
            field("direction", true);
        } else {
            field("direction", true);
            field("ip_id", options.id);
            field("tcp_flags tcp_seq", self.tcp);
            field("payload_len", true);
            field("tcp_ack", self.tcp);
            field("tcp_window", options.window && self.tcp);
        }
        field(options_field, self.tcp);
        text.push('\n');
        for (way, first) in ['>', '<'].into_iter().zip(self.first_seq) {
            if let Some(first) = first.filter(|first| *first != 0 && self.tcp) {
                text.push_str(&format!("!firstseq {way} {first}\n"));
            }
        }
        if self.start != 0 {
            text.push_str(&format!("!firsttime {}\n", Timestamp(self.start)));
        }
        if options.binary {
            text.push_str("!binary\n");
        }
        text
    }

    fn add_line(&self, record: &Record, options: &Options, out: &mut Vec<u8>) {
        let way = if record.back { '<' } else { '>' };
        // Writing to memory does not fail.
        let _ = write!(out, "{} {way}", Timestamp(record.time));
        if options.id {
            let _ = write!(out, " {}", record.id);
        }
        if !self.tcp {
            let _ = writeln!(out, " {}", record.payload);
            return;
        }
        out.push(b' ');
        match record.flags {
            0 => out.push(b'.'),
            0x18 => out.extend(b"PA"),
            flags => {
                let set = LETTERS.iter().enumerate().take(8);
                out.extend(
                    set.filter(|(bit, _)| flags & (1 << bit) != 0)
                        .map(|(_, letter)| letter),
                );
            }
        }
        let _ = write!(out, " {} {} {}", record.seq, record.payload, record.ack);
        if options.window {
            let _ = write!(out, " {}", record.window);
        }
        if !record.options.is_empty() {
            out.push(b' ');
            tcp_options::print(&record.options, Which::All, out);
        }
        out.push(b'\n');
    }

    fn add_record(&self, record: &Record, options: &Options, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0; 4]);
        // As the field ntimestamp is: nanoseconds first.
        out.extend((record.time.rem_euclid(PER_SECOND) as u32).to_be_bytes());
        out.extend((record.time.div_euclid(PER_SECOND) as u32).to_be_bytes());
        if self.tcp {
            out.extend(record.seq.to_be_bytes());
        }
        out.extend(record.payload.to_be_bytes());
        if self.tcp {
            out.extend(record.ack.to_be_bytes());
        }
        if options.id {
            out.extend(record.id.to_be_bytes());
        }
        if options.window && self.tcp {
            out.extend(record.window.to_be_bytes());
        }
        if self.tcp {
            out.push(record.flags);
        }
        out.push(record.back.into());
        if !record.options.is_empty() {
            out.push(record.options.len() as u8);
            out.extend(&record.options);
        }
        let length = ((out.len() - start) as u32).to_be_bytes();
        if let Some(head) = out.get_mut(start..start + 4) {
            head.copy_from_slice(&length);
        }
    }
}
