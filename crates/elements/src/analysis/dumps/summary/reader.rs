//! A summary dump that is read.
//!
//! Files may come from anywhere: whatever they hold, there are packets and notes, never a panic.

use core::fmt;

use click::{Location, config};
use smallvec::SmallVec;

use super::build::{Build, Flow};
use super::input::{LINE_MAX, Lines};
use super::{FIELDS_MAX, Field, UNKNOWN, VERSION, find};
use crate::prelude::*;
use crate::userlevel::capture::Source;
use crate::userlevel::os_error;

/// Something to tell the user about the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub severity: Severity,
    /// The place in the file.
    pub location: Location,
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.severity {
            Severity::Warning => "warning: ",
            Severity::Error | Severity::Info => "",
        };
        write!(f, "{}: {mark}{}", self.location, self.text)
    }
}

/// What reading on gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A packet.
    Packet,
    /// A line that is no packet, though it should be.
    Nothing,
    /// The end of the file.
    End,
}

/// What packets are made like, beside what the file says.
#[derive(Clone, Copy, Debug, Component)]
pub struct Defaults {
    /// The IP protocol of packets without a protocol field.
    #[arg(name = "PROTO", default = IpProtocol::TCP.0, default_text = "6")]
    pub protocol: u8,
    /// Whether to set the checksums of IP, TCP, UDP and ICMP, and make packets as long as their IP
    /// header says.
    #[arg(name = "CHECKSUM")]
    pub checksums: bool,
}

/// A summary dump that is read.
pub struct Reader {
    name: String,
    /// `None` before it is opened, and at its end.
    lines: Option<Lines>,
    /// Where the file ended, or reading it.
    end: u64,
    line: usize,
    fields: Vec<&'static Field>,
    /// The fields' places, in the order in which they are put into packets.
    order: Vec<u16>,
    defaults: Defaults,
    flow: Option<Flow>,
    aggregate: u32,
    minor_version: u32,
    binary: bool,
    /// A line made no sense, and that was said.
    complained: bool,
    notes: Vec<Note>,
    /// Memory for packets in the making.
    scratch: Vec<u8>,
}

impl Reader {
    /// A file called `name`, not open yet.
    pub fn new(name: &str, defaults: Defaults) -> Reader {
        Reader {
            name: name.into(),
            lines: None,
            end: 0,
            line: 0,
            fields: Vec::new(),
            order: Vec::new(),
            defaults,
            flow: None,
            aggregate: 0,
            minor_version: VERSION.1,
            binary: false,
            complained: false,
            notes: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Takes what there is to tell the user.
    pub fn take_notes(&mut self) -> Vec<Note> {
        core::mem::take(&mut self.notes)
    }

    /// Whether there may be more packets.
    pub fn is_open(&self) -> bool {
        self.lines.is_some()
    }

    /// Where in the file the next line is, in bytes.
    pub fn position(&self) -> u64 {
        self.lines.as_ref().map_or(self.end, Lines::position)
    }

    /// Where in the file it reads.
    pub fn location(&self) -> Location {
        let record = if self.binary { "record " } else { "" };
        Location::new(format!("{}:{record}{}", self.name, self.line), 0)
    }

    fn note(&mut self, severity: Severity, text: impl fmt::Display) {
        self.notes.push(Note {
            severity,
            location: self.location(),
            text: text.to_string(),
        });
    }

    fn error(&mut self, text: impl fmt::Display) {
        self.note(Severity::Error, text);
    }

    fn warning(&mut self, text: impl fmt::Display) {
        self.note(Severity::Warning, text);
    }

    /// Reads the first line of the file. False if that cannot be read, or the file is empty: a note
    /// says so.
    pub fn open(&mut self, source: Box<dyn Source>) -> bool {
        let mut lines = Lines::new(source);
        (self.line, self.binary) = (0, false);
        let first = match lines.peek() {
            Ok(Some(line)) => click::text::decode(line).into_owned(),
            Ok(None) => {
                self.error("empty file");
                return false;
            }
            Err(error) => {
                self.error(os_error(&error));
                return false;
            }
        };
        if let Some(version) = first.strip_prefix("!IPSummaryDump") {
            self.take_version(version);
            // It is there: it was peeked at.
            let _ = lines.next_line();
            self.line = 1;
        } else {
            let known = ["!creator", "!data", "!contents", "!proto", "!flowid"];
            if !known.iter().any(|word| first.starts_with(word)) && self.fields.is_empty() {
                self.warning("missing banner line; is this an IP summary dump?");
            }
        }
        self.lines = Some(lines);
        true
    }

    fn take_version(&mut self, text: &str) {
        let Some((major, minor)) = text.trim().split_once('.') else {
            return;
        };
        let digits = |text: &str| -> Option<u32> {
            let end = text.find(|c: char| !c.is_ascii_digit());
            text[..end.unwrap_or(text.len())].parse().ok()
        };
        if let (Some(major), Some(minor)) = (digits(major), digits(minor)) {
            self.minor_version = minor;
            if major != VERSION.0 || minor > VERSION.1 {
                self.warning(format_args!(
                    "unexpected IPSummaryDump version {major}.{minor}"
                ));
                self.minor_version = VERSION.1;
            }
        }
    }
}

/// Lines that say something of those after them.
impl Reader {
    /// Takes the fields that lines have.
    pub fn set_fields(&mut self, text: &str) {
        self.fields.clear();
        let words = config::split_space(text);
        if words.len() > FIELDS_MAX {
            self.error(format_args!("too many fields; the most is {FIELDS_MAX}"));
        }
        for word in words.into_iter().take(FIELDS_MAX) {
            let name = config::unquote_text(&word);
            let field = find(&name).filter(|field| field.format.is_read());
            match field {
                None => self.warning(format_args!("unknown content type '{name}'")),
                Some(field) if field.inject.is_none() => {
                    self.warning(format_args!("content type '{name}' ignored on input"));
                }
                Some(_) => {}
            }
            let field = field.filter(|field| field.inject.is_some());
            self.fields.push(field.unwrap_or(&UNKNOWN));
        }
        if self.fields.is_empty() {
            self.error("no contents specified");
        }
        self.order = (0..self.fields.len() as u16).collect();
        let fields = &self.fields;
        let order = |place: &u16| {
            fields
                .get(usize::from(*place))?
                .inject
                .map(|(order, _)| order)
        };
        self.order.sort_by_key(order);
    }

    /// Takes addresses, ports, and perhaps the protocol that packets have if their lines say
    /// nothing else.
    pub fn set_flow(&mut self, words: &[String], names: &Context<'_>) {
        self.flow = parse_flow(words, names);
        match (self.flow, words.get(4)) {
            (None, _) => self.error("bad !flowid specification"),
            (_, Some(protocol)) => self.set_protocol(protocol, names, "!flowid"),
            _ => {}
        }
    }

    fn set_protocol(&mut self, word: &str, names: &Context<'_>, line: &str) {
        let named = names
            .names
            .int_or_number(Kind::IpProtocol, word, names.element);
        let protocol = match (named.and_then(|n| u8::try_from(n).ok()), word) {
            (Some(n), _) => n,
            (None, "T") => 6,
            (None, "U") => 17,
            (None, "I") => 1,
            _ => {
                self.error(format_args!("bad protocol in {line}"));
                return;
            }
        };
        self.defaults.protocol = protocol;
    }

    fn take_directive(&mut self, line: &[u8], names: &Context<'_>) {
        let text = click::text::decode(line);
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((&text, ""));
        match word {
            "!data" | "!contents" => self.set_fields(rest),
            "!flowid" => self.set_flow(&config::split_space(rest), names),
            "!proto" => match config::split_space(rest).as_slice() {
                [protocol] => self.set_protocol(protocol, names, "!proto"),
                _ => self.error("bad !proto"),
            },
            "!aggregate" => match config::split_space(rest).as_slice() {
                [number] if let Ok(number) = names.parse(number) => self.aggregate = number,
                _ => self.error("bad !aggregate specification"),
            },
            "!binary" => {
                if !rest.trim().is_empty() {
                    self.error("bad !binary specification");
                }
                self.binary = true;
                self.line = 0;
            }
            _ => {}
        }
    }
}

/// Packets.
impl Reader {
    /// Reads on until there is a packet, and writes it into `packet`, which is empty.
    pub fn next(&mut self, names: Context<'_>, packet: &mut Packet) -> Next {
        let Some(mut lines) = self.lines.take() else {
            return Next::End;
        };
        let next = self.next_of(&mut lines, names, packet);
        if next == Next::End {
            self.end = lines.position();
        } else {
            self.lines = Some(lines);
        }
        next
    }

    fn next_of(&mut self, lines: &mut Lines, names: Context<'_>, packet: &mut Packet) -> Next {
        loop {
            let read = if self.binary {
                self.read_record(lines)
            } else {
                lines.next_line().map(|line| line.map(|line| (line, false)))
            };
            let (line, is_record) = match read {
                Ok(Some(line)) => line,
                Ok(None) => return Next::End,
                Err(error) => {
                    self.error(os_error(&error));
                    return Next::End;
                }
            };
            self.line += 1;
            match line.first() {
                None if !is_record => {}
                Some(b'!') if !is_record => self.take_directive(line, &names),
                Some(b'#') if !is_record => {}
                _ => return self.make(line, is_record, names, packet),
            }
        }
    }

    /// The next record of a binary file, and whether it is a packet's, not a line.
    fn read_record<'l>(
        &mut self,
        lines: &'l mut Lines,
    ) -> std::io::Result<Option<(&'l [u8], bool)>> {
        let Some(head) = lines.bytes(4)?.and_then(|head| head.first_chunk()) else {
            return Ok(None);
        };
        let head = u32::from_be_bytes(*head);
        let is_line = head & 0x8000_0000 != 0;
        let length = (head & 0x7fff_ffff) as usize;
        let Some(length) = length.checked_sub(4) else {
            self.error("binary record too short");
            return Ok(None);
        };
        if length > LINE_MAX {
            self.error("binary record too long");
            return Ok(None);
        }
        let Some(mut bytes) = lines.bytes(length)? else {
            return Ok(None);
        };
        if is_line {
            while let [rest @ .., 0 | b'\n' | b'\r'] = bytes {
                bytes = rest;
            }
        }
        Ok(Some((bytes, !is_line)))
    }

    /// Makes a packet of a line or of a record.
    fn make(&mut self, line: &[u8], binary: bool, names: Context<'_>, packet: &mut Packet) -> Next {
        let scratch = core::mem::take(&mut self.scratch);
        let protocol = self.defaults.protocol;
        let mut build = Build::new(names, self.minor_version, protocol, self.flow, scratch);
        build.aggregate = self.aggregate;
        let known = if binary {
            self.inject_record(line, &mut build)
        } else {
            self.inject_line(line, &mut build)
        };
        let made = known && build.finish(packet, self.defaults.checksums);
        self.scratch = build.into_scratch();
        if made {
            return Next::Packet;
        }
        let is_blank = !binary && line.iter().all(u8::is_ascii_whitespace);
        if !known && !is_blank && !core::mem::replace(&mut self.complained, true) {
            self.error(if self.fields.is_empty() {
                "no '!data' provided"
            } else {
                "packet parse error"
            });
        }
        Next::Nothing
    }

    /// Puts a line's values into a packet; returns whether there were any.
    fn inject_line(&self, line: &[u8], build: &mut Build<'_>) -> bool {
        let mut words: SmallVec<[&[u8]; 16]> = SmallVec::new();
        let mut rest = line;
        while words.len() < self.fields.len() && !rest.is_empty() {
            let (word, after) = rest.split_at(end_of_word(rest));
            words.push(word);
            rest = match after {
                // Most often one space is between.
                [b' ', next @ ..] if next.first().is_some_and(u8::is_ascii_graphic) => next,
                _ => after.trim_ascii_start(),
            };
        }
        let mut any = false;
        for place in self.order.iter().map(|place| usize::from(*place)) {
            let (Some(field), Some(word)) = (self.fields.get(place), words.get(place)) else {
                continue;
            };
            let Some((_, inject)) = field.inject else {
                continue;
            };
            if word.is_empty() || *word == b"-" {
                continue;
            }
            // Not moved: it would be read before the processor has put its words together.
            if let Some(value) = &field.format.parse(word, build) {
                inject(build, value);
                any = true;
            }
        }
        any
    }

    /// Puts a record's values into a packet; returns whether there were any.
    fn inject_record(&self, record: &[u8], build: &mut Build<'_>) -> bool {
        let mut rest = record;
        let mut values = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            match field.format.decode(&mut rest) {
                Some(value) => values.push(value),
                None => break,
            }
        }
        let mut any = false;
        for place in self.order.iter().map(|place| usize::from(*place)) {
            if let Some(field) = self.fields.get(place)
                && let Some((_, inject)) = field.inject
                && let Some(Some(value)) = values.get(place)
            {
                inject(build, value);
                any = true;
            }
        }
        any
    }
}

fn parse_flow(words: &[String], names: &Context<'_>) -> Option<Flow> {
    let address = |at: usize| -> Option<Ipv4Addr> {
        match words.get(at)?.as_str() {
            "-" => Some(Ipv4Addr::UNSPECIFIED),
            text => names.parse(text).ok(),
        }
    };
    let port = |at: usize| -> Option<u16> {
        match words.get(at)?.as_str() {
            "-" => Some(0),
            text => names.parse(text).ok(),
        }
    };
    Some(Flow {
        source: (address(0)?, port(1)?),
        destination: (address(2)?, port(3)?),
    })
}

/// Where a word ends: at white space that is not in double quotes.
fn end_of_word(text: &[u8]) -> usize {
    let plain = |byte: &u8| *byte > b' ' && *byte != b'"';
    match text.iter().position(|byte| !plain(byte)) {
        None => text.len(),
        Some(at) if text[at].is_ascii_whitespace() => at,
        Some(_) => end_of_quoted_word(text),
    }
}

fn end_of_quoted_word(text: &[u8]) -> usize {
    let mut quoted = false;
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => quoted = !quoted,
            b'\\' if quoted => at += 1,
            byte if byte.is_ascii_whitespace() && !quoted => break,
            _ => {}
        }
        at += 1;
    }
    at.min(text.len())
}
