//! A summary dump that is written.

use click::config;

use super::format::Width;
use super::seen::{Headers, Seen};
use super::{FIELDS_MAX, Field, VERSION, find};
use crate::prelude::*;

/// Most lines that one packet makes which stands for several.
pub const PACKETS_MAX: u32 = 1 << 20;

/// The bit of a record's length that says it is a line.
const LINE: u32 = 0x8000_0000;

/// What is written of packets.
#[derive(Clone, Default)]
pub struct Selection {
    fields: Vec<&'static Field>,
    /// Whether any field needs the IP header.
    of_ip: bool,
    /// Records, not lines.
    pub binary: bool,
}

impl Selection {
    /// The fields that `text` names, and what is wrong with it.
    pub fn parse(text: &str, binary: bool) -> (Selection, Vec<String>) {
        let mut selection = Selection {
            binary,
            ..Selection::default()
        };
        let mut errors = Vec::new();
        for word in config::split_space(text) {
            let name = config::unquote_text(&word);
            match find(&name).filter(|field| field.extract.is_some()) {
                Some(field) => {
                    if binary && field.format.width() == Width::None {
                        errors.push(std::format!("cannot use field {name} with BINARY"));
                    }
                    selection.of_ip |= field.of_ip;
                    selection.fields.push(field);
                }
                None => errors.push(std::format!("unknown content type '{name}'")),
            }
        }
        if selection.fields.is_empty() {
            errors.push("no contents specified".into());
        }
        if selection.fields.len() > FIELDS_MAX {
            errors.push(std::format!("too many fields; the most is {FIELDS_MAX}"));
        }
        (selection, errors)
    }

    /// Whether a field is written.
    pub fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name == name)
    }

    /// The banner, and the line that names the fields.
    pub fn header(&self) -> (String, String) {
        let names: Vec<&str> = self.fields.iter().map(|field| self.name(field)).collect();
        let binary = if self.binary { "!binary\n" } else { "" };
        (
            std::format!("!IPSummaryDump {}.{}\n", VERSION.0, VERSION.1),
            std::format!("!data {}\n{binary}", names.join(" ")),
        )
    }

    /// In text, times need not say how exact they are.
    fn name(&self, field: &Field) -> &'static str {
        match field.name {
            "ntimestamp" if !self.binary => "timestamp",
            name => name,
        }
    }
}

/// Writes packets.
#[derive(Clone, Component)]
pub struct Writer {
    /// What is written of them.
    pub selection: Selection,
    /// Whether a packet that counts as several makes a line for each, up to 2^20; not with the
    /// field `count`.
    #[arg]
    pub multipacket: bool,
    /// Whether a line `!bad REASON` precedes the line of a packet with a bad header.
    #[arg]
    pub bad_packets: bool,
    /// Whether a packet shorter than its IP length is bad.
    #[arg(name = "CAREFUL_TRUNC", default = true)]
    pub careful_truncation: bool,
    /// Whether lengths count the extra length annotation.
    #[arg(default = true)]
    pub extra_length: bool,
    /// The thread that the packets at hand come from.
    pub thread: u16,
}

impl Writer {
    /// Adds what is to be written of a packet; returns how many lines or records that is.
    pub fn add(&self, packet: &mut Packet, names: Context<'_>, out: &mut Vec<u8>) -> u32 {
        let count = packet.anno(EXTRA_PACKETS).saturating_add(1);
        if !self.multipacket || count == 1 {
            self.add_one(packet, names, out);
            return 1;
        }
        let lines = count.min(PACKETS_MAX);
        let length = packet.len() as u64;
        let extra = if self.extra_length {
            u64::from(packet.anno(EXTRA_LENGTH))
        } else {
            0
        };
        let mut total = (length + extra).max(u64::from(lines) * length);
        let end = packet.timestamp();
        let first = packet.anno_u64(FIRST_TIMESTAMP) as i64;
        let mut step = 0;
        if first != 0 {
            step = super::super::distance(first, end, lines - 1);
            packet.set_timestamp(first);
        }
        packet.set_anno(EXTRA_PACKETS, 0);
        for left in (1..=lines).rev() {
            let own = total / u64::from(left);
            packet.set_anno(EXTRA_LENGTH, (own - length).min(u32::MAX.into()) as u32);
            total -= own;
            self.add_one(packet, names, out);
            packet.set_timestamp(packet.timestamp().saturating_add(step));
        }
        packet.set_timestamp(end);
        lines
    }

    fn add_one(&self, packet: &mut Packet, names: Context<'_>, out: &mut Vec<u8>) {
        let headers = if self.selection.of_ip {
            Headers::check(packet, self.careful_truncation)
        } else {
            Headers::default()
        };
        let start = out.len();
        let mut seen = Seen::new(packet, headers, self.extra_length, names);
        seen.thread = self.thread;
        if self.selection.binary {
            self.add_record(&mut seen, out)
        } else {
            self.add_line(&mut seen, out)
        }
        if self.bad_packets
            && let Some(bad) = seen.bad()
        {
            let line = std::format!("!bad {bad}\n");
            let mut before = Vec::with_capacity(line.len() + 4);
            self.add_text(&line, &mut before);
            out.splice(start..start, before);
        }
    }

    fn add_line(&self, seen: &mut Seen<'_>, out: &mut Vec<u8>) {
        for (i, field) in self.selection.fields.iter().enumerate() {
            if i > 0 {
                out.push(b' ');
            }
            match field.extract.and_then(|extract| extract(seen)) {
                Some(value) => field.format.print(&value, seen, out),
                None => out.push(b'-'),
            }
        }
        out.push(b'\n');
    }

    fn add_record(&self, seen: &mut Seen<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0; 4]);
        for field in &self.selection.fields {
            let value = field.extract.and_then(|extract| extract(seen));
            field.format.encode(value.as_ref(), out);
        }
        let length = ((out.len() - start) as u32).to_be_bytes();
        if let Some(head) = out.get_mut(start..start + 4) {
            head.copy_from_slice(&length);
        }
    }

    /// Adds a line as it stands, its end included.
    pub fn add_text(&self, line: &str, out: &mut Vec<u8>) {
        let line = click::text::encode(line);
        if self.selection.binary {
            let length = (line.len() + 4) as u32 | LINE;
            out.extend(length.to_be_bytes());
        }
        out.extend_from_slice(&line);
    }
}
