use std::io::Cursor;
use std::sync::Arc;

use super::replay::{Read, Replay};
use super::summary::{Defaults, Next, Reader};
use crate::prelude::*;
use crate::userlevel::capture::source::{self, OpenError, Opened, shown, shown_size};
use crate::userlevel::sample::Sample;

/// What messages call the file that the argument DATA is.
const DATA_NAME: &str = "<data>";

/// Makes packets of the lines of an IP summary dump.
///
/// The file is one of ToIPSummaryDump's, or written by hand: a line `!data` names the fields, and
/// each line that does not start with `!` or `#` gives their values for one packet, `-` where one
/// is not known. Records of a binary dump are read too. Fields that are not given are zero, except
/// in the IP header: version 4, TTL 100, the length that follows from the fields, and protocol TCP.
/// Packets are as short as possible: the rest of their length is in the extra length annotation.
/// Their network header is marked, and their destination annotation set.
///
/// A line `!proto PROTOCOL` gives the packets after it another protocol, `!flowid SOURCE SPORT
/// DESTINATION DPORT [PROTOCOL]` addresses and ports, which are exchanged for packets painted 1,
/// and `!aggregate NUMBER` an aggregate annotation. The first unreadable line is reported, with the
/// file's name and the line's number.
///
/// Files that are compressed by gzip, bzip2 or zstd are read as they were before.
///
/// # Example
/// ```click
/// FromIPSummaryDump(DATA "!data ip_src ip_dst sport dport ip_proto
/// 1.0.0.1 2.0.0.2 1024 53 U", STOP true, CHECKSUM true) -> IPPrint -> Discard;
/// ```
///
/// # See also
/// ToIPSummaryDump, FromDump
#[derive(Element)]
#[element(ports = "0/1", handlers)]
pub struct FromIPSummaryDump {
    /// The file; `-` is the standard input.
    #[arg(positional, with = FilenameArg, kind = "file name", read = shown)]
    filename: String,
    #[flatten]
    replay: Replay,
    #[flatten]
    defaults: Defaults,
    /// The probability that a packet is taken.
    #[arg(read, handler = "sampling_prob", default_text = "1")]
    sample: Sample,
    /// The fields, until a line `!data` names them; up to 1024.
    #[arg(with = args::Any, kind = "words")]
    fields: String,
    /// As FIELDS.
    #[arg(with = args::Any, kind = "words")]
    contents: String,
    /// As FIELDS.
    #[arg(with = args::Any, kind = "words")]
    default_fields: String,
    /// As FIELDS.
    #[arg(with = args::Any, kind = "words")]
    default_contents: String,
    /// As a line `!flowid`.
    #[arg(with = args::Any, kind = "words")]
    flowid: String,
    /// As FLOWID.
    #[arg(with = args::Any, kind = "words")]
    default_flowid: String,
    /// Most packets that are sent at a time; 0, or more than a batch: a batch.
    #[arg]
    burst: u32,
    /// Whether the file may be missing or empty.
    #[arg(name = "ALLOW_NONEXISTENT")]
    may_be_missing: bool,
    /// Accepted and ignored: elements behind it need not be told which threads packets come from.
    #[arg]
    migrate: bool,
    /// The text to read, instead of a file.
    #[arg]
    data: String,
    /// How often all packets are sent; without end if not positive.
    #[arg(default = 1)]
    times: i32,
    input: Input,
    #[init(Reader::new("", Defaults::default()))]
    reader: Reader,
    /// The file's length in bytes.
    size: Option<u64>,
}

/// The file, which is opened again for each of TIMES.
#[derive(Default)]
struct Input {
    filename: String,
    data: Arc<[u8]>,
    may_be_missing: bool,
    /// How often it is opened again; without end if negative.
    left: i32,
    /// A packet came since it was opened.
    has_packets: bool,
}

impl Input {
    fn open(&self) -> Result<Option<Opened>, OpenError> {
        if self.filename != DATA_NAME {
            return source::open(&self.filename, self.may_be_missing);
        }
        Ok(Some(Opened {
            size: Some(self.data.len() as u64),
            source: Box::new(Cursor::new(self.data.clone())),
        }))
    }

    /// Begins again at the end, if packets are to be sent once more; returns whether they are. A
    /// file without packets is not read again.
    fn reopen(&mut self, reader: &mut Reader) -> bool {
        if self.left == 0 || !core::mem::take(&mut self.has_packets) {
            return false;
        }
        self.left -= i32::from(self.left > 0);
        let Ok(Some(Opened { source, .. })) = self.open() else {
            return false;
        };
        let is_open = reader.open(source);
        // They were told the first time.
        reader.take_notes();
        is_open
    }
}

impl FromIPSummaryDump {
    fn open(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.input = Input {
            filename: self.filename.clone(),
            data: click::text::encode(&core::mem::take(&mut self.data)).into(),
            may_be_missing: self.may_be_missing,
            left: self.times.saturating_sub(1).max(-1),
            has_packets: false,
        };
        let location = self.reader.location();
        let opened = self.input.open();
        let opened = opened.map_err(|error| error.report(cx, &location))?;
        let Some(Opened { source, size }) = opened else {
            return Ok(());
        };
        self.size = size;
        let is_open = self.reader.open(source);
        let notes = self.reader.take_notes();
        if !is_open && self.may_be_missing {
            return Ok(());
        }
        for note in notes {
            match note.severity {
                Severity::Error => drop(cx.error_at(&note.location, note.text)),
                _ => cx.warning_at(&note.location, note.text),
            }
        }
        is_open.then_some(()).ok_or(Failed)
    }
}

/// Reads a packet, and says what there is to say of the file.
fn read_packet(reader: &mut Reader, input: &mut Input, cx: &mut Cx<'_>) -> Read {
    if !reader.is_open() {
        return Read::End;
    }
    let Some(mut packet) = cx.pool().empty() else {
        return Read::Nothing;
    };
    let next = reader.next(cx.names(), &mut packet);
    for note in reader.take_notes() {
        cx.chatter(note);
    }
    let read = match next {
        Next::Packet => {
            input.has_packets = true;
            return Read::Packet(packet);
        }
        Next::Nothing => Read::Nothing,
        Next::End if input.reopen(reader) => Read::Nothing,
        Next::End => Read::End,
    };
    cx.kill(packet);
    read
}

#[handlers]
impl FromIPSummaryDump {
    /// Where in the file the next line is, in bytes.
    #[read]
    fn filepos(&self) -> u64 {
        self.reader.position()
    }

    /// The file's length in bytes, `-` if that is not known, and at the end.
    #[read]
    fn filesize(&self) -> String {
        shown_size(&self.size.filter(|_| self.reader.is_open()))
    }

    /// Ends reading, and stops the driver.
    #[write(button)]
    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.replay.active = false;
        cx.stop();
    }
}

impl Element for FromIPSummaryDump {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.sample.check(args);
        self.replay.sample = self.sample;
        match (self.data.is_empty(), self.filename.is_empty()) {
            (false, false) => return Err(args.fail("FILENAME and DATA conflict")),
            (false, true) => self.filename = DATA_NAME.to_string(),
            (true, false) => {}
            (true, true) => return Err(args.fail("FILENAME: required argument missing")),
        }
        self.reader = Reader::new(shown(&self.filename), self.defaults);
        let fields = [
            &self.fields,
            &self.contents,
            &self.default_fields,
            &self.default_contents,
        ];
        if let Some(fields) = fields.into_iter().find(|fields| !fields.is_empty()) {
            self.reader.set_fields(fields);
        }
        let flow = [&self.flowid, &self.default_flowid];
        if let Some(flow) = flow.into_iter().find(|flow| !flow.is_empty()) {
            let words = click::config::split_space(flow);
            self.reader.set_flow(&words, &args.context());
        }
        for note in self.reader.take_notes() {
            args.message_at(&note.location, note.severity, note.text);
        }
        self.replay.burst = self.burst as usize;
        self.replay.configured(cx);
        args.finish()
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.replay.initialize(cx);
        self.open(cx)
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.replay.cleanup(cx);
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        self.replay.run_timer(cx);
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        let (reader, input) = (&mut self.reader, &mut self.input);
        self.replay
            .run_task(cx, task, |cx| read_packet(reader, input, cx))
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        let (reader, input) = (&mut self.reader, &mut self.input);
        self.replay
            .pull(cx, batch, most, |cx| read_packet(reader, input, cx));
    }
}

#[cfg(test)]
mod tests;
