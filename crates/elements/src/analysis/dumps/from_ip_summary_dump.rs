use std::boxed::Box;
use std::io::Cursor;
use std::string::{String, ToString};

use packet::Batch;
use packet::wire::IpProtocol;
use router::args::{self, Args, Failed, FilenameArg, FixedPoint, Severity, unparse};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList, Notice, Ran, Search, TaskId, TimerId};

use super::replay::{ALWAYS, Read, Replay, SAMPLE_BITS};
use super::source::{self, Opened};
use super::summary::{Defaults, Next, Reader};

/// What messages call the file that the argument DATA is.
const DATA_NAME: &str = "<data>";

/// Makes packets of the lines of an IP summary dump.
///
/// The file is one of ToIPSummaryDump's, or written by hand: a line `!data` names the fields, and
/// each line that does not start with `!` or `#` gives their values for one packet, `-` where one
/// is not known. Records of a binary dump are read too. What no field says is zero, but for the
/// IP header: version 4, TTL 100, the length that the fields make, TCP if nothing else is said.
/// Packets are as short as they can be: what is missing of their length is in the extra length
/// annotation. Their network header is marked, and their destination annotation set.
///
/// A line `!proto PROTOCOL` gives the packets after it another protocol,
/// `!flowid SOURCE SPORT DESTINATION DPORT [PROTOCOL]` addresses and ports, which are exchanged for
/// packets painted 1, and `!aggregate NUMBER` an aggregate annotation. What cannot be made sense
/// of is said once, with the file's name and the line.
///
/// Files that are compressed by gzip or bzip2 are read as they were before.
///
/// # Arguments
/// - `FILENAME` (file name): the file; `-` is the standard input.
/// - `STOP` (boolean, false): stop the driver at the end.
/// - `ACTIVE` (boolean, true): whether it reads.
/// - `ZERO` (boolean, true): accepted, without effect: what no field says is zero.
/// - `TIMING` (boolean, false): whether packets keep the distances in time that they had.
/// - `CHECKSUM` (boolean, false): whether to set the checksums of IP, TCP, UDP and ICMP, and make
///   packets as long as their IP header says.
/// - `SAMPLE` (probability, 1): how likely a packet is taken.
/// - `PROTO` (integer, 6): the protocol of packets whose line does not say.
/// - `MULTIPACKET` (boolean, false): whether a line whose `count` is above 1 makes so many packets.
/// - `FIELDS` (words): the fields, until a line `!data` names them; up to 1024. `CONTENTS`,
///   `DEFAULT_CONTENTS` and `DEFAULT_FIELDS` mean the same.
/// - `FLOWID` (words): as a line `!flowid`. `DEFAULT_FLOWID` means the same.
/// - `ALLOW_NONEXISTENT` (boolean, false): whether the file may be missing or empty.
/// - `DATA` (string): the text to read, instead of a file.
///
/// # Ports
/// No input. One output, agnostic.
///
/// # Handlers
/// - `sampling_prob` (read): SAMPLE.
/// - `active` (read, write): whether it reads.
/// - `encap` (read): `IP`, for ToDump's USE_ENCAP_FROM.
/// - `stop` (write): ends reading, and stops the driver.
/// - `filename`, `filesize` (read): the file's name, and its length in bytes, `-` if that is not
///   known.
/// - `filepos` (read): where in the file the next line is, in bytes.
/// - `scheduled`, `tickets`, `home_thread`: the task's; on a push output.
///
/// # Example
/// ```click
/// FromIPSummaryDump(DATA "!data ip_src ip_dst sport dport ip_proto
/// 1.0.0.1 2.0.0.2 1024 53 U", STOP true, CHECKSUM true) -> IPPrint -> Discard;
/// ```
///
/// # See also
/// ToIPSummaryDump, FromDump
pub struct FromIPSummaryDump {
    filename: String,
    data: String,
    reader: Reader,
    filesize: Option<u64>,
    may_be_missing: bool,
    replay: Replay,
}

impl Default for FromIPSummaryDump {
    fn default() -> Self {
        let defaults = Defaults {
            protocol: IpProtocol::TCP.0,
            checksums: false,
        };
        FromIPSummaryDump {
            filename: String::new(),
            data: String::new(),
            reader: Reader::new("", defaults),
            filesize: None,
            may_be_missing: false,
            replay: Replay::default(),
        }
    }
}

impl Class for FromIPSummaryDump {
    const NAME: &'static str = "FromIPSummaryDump";
    const PORTS: &'static str = "0/1";
}

impl FromIPSummaryDump {
    fn open(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let opened = if self.filename == DATA_NAME {
            let data = core::mem::take(&mut self.data).into_bytes();
            Some(Opened {
                size: Some(data.len() as u64),
                source: Box::new(Cursor::new(data)),
            })
        } else {
            let opened = source::open(&self.filename, self.may_be_missing);
            opened.map_err(|error| cx.error(error))?
        };
        let Some(Opened { source, size }) = opened else {
            return Ok(());
        };
        self.filesize = size;
        let is_open = self.reader.open(source);
        let notes = self.reader.take_notes();
        if !is_open && self.may_be_missing {
            return Ok(());
        }
        for note in notes {
            match note.severity {
                Severity::Error => drop(cx.error(note.text)),
                _ => cx.warning(note.unplaced()),
            }
        }
        is_open.then_some(()).ok_or(Failed)
    }
}

/// Reads a packet, and says what there is to say of the file.
fn read_packet(reader: &mut Reader, cx: &mut Cx<'_>) -> Read {
    if !reader.is_open() {
        return Read::End;
    }
    let Some(mut packet) = cx.pool().empty() else {
        return Read::Nothing;
    };
    let next = reader.next(cx.names(), &mut packet);
    for note in reader.take_notes() {
        cx.chatter(note.text);
    }
    let read = match next {
        Next::Packet => return Read::Packet(packet),
        Next::Nothing => Read::Nothing,
        Next::End => Read::End,
    };
    cx.kill(packet);
    read
}


impl Declared for FromIPSummaryDump {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut defaults = Defaults {
            protocol: IpProtocol::TCP.0,
            checksums: false,
        };
        let (mut fields, mut flow, mut zero) = (String::new(), String::new(), true);
        let mut older = [const { String::new() }; 4];
        let [contents, default_contents, default_fields, default_flow] = &mut older;
        let probability = FixedPoint { bits: SAMPLE_BITS };
        args.positional_with("FILENAME", FilenameArg, &mut self.filename)
            .keyword("STOP", &mut self.replay.stop)
            .keyword("ACTIVE", &mut self.replay.active)
            .keyword("ZERO", &mut zero)
            .keyword("TIMING", &mut self.replay.timing)
            .keyword("CHECKSUM", &mut defaults.checksums)
            .keyword_with("SAMPLE", probability, &mut self.replay.sample)
            .keyword("PROTO", &mut defaults.protocol)
            .keyword("MULTIPACKET", &mut self.replay.multipacket)
            .keyword_with("DEFAULT_CONTENTS", args::Any, default_contents)
            .keyword_with("DEFAULT_FIELDS", args::Any, default_fields)
            .keyword_with("DEFAULT_FLOWID", args::Any, default_flow)
            .keyword_with("CONTENTS", args::Any, contents)
            .keyword_with("FIELDS", args::Any, &mut fields)
            .keyword_with("FLOWID", args::Any, &mut flow)
            .keyword("ALLOW_NONEXISTENT", &mut self.may_be_missing)
            .keyword("DATA", &mut self.data)
            .complete()?;
        if self.replay.sample > ALWAYS {
            args.warning("SAMPLE probability reduced to 1");
            self.replay.sample = ALWAYS;
        } else if self.replay.sample == 0 {
            args.warning("SAMPLE probability is 0; emitting no packets");
        }
        match (self.data.is_empty(), self.filename.is_empty()) {
            (false, false) => return Err(args.fail("FILENAME and DATA conflict")),
            (false, true) => self.filename = DATA_NAME.to_string(),
            (true, false) => {}
            (true, true) => return Err(args.fail("FILENAME: required argument missing")),
        }
        self.reader = Reader::new(source::shown(&self.filename), defaults);
        let [contents, default_contents, default_fields, default_flow] = older;
        for other in [contents, default_fields, default_contents] {
            if fields.is_empty() {
                fields = other;
            }
        }
        if !fields.is_empty() {
            self.reader.set_fields(&fields);
        }
        if flow.is_empty() {
            flow = default_flow;
        }
        if !flow.is_empty() {
            let words = click::config::split_space(&flow);
            self.reader.set_flow(&words, &args.context());
        }
        for note in self.reader.take_notes() {
            match note.severity {
                Severity::Error => args.error(note.text),
                _ => args.warning(note.unplaced()),
            }
        }
        self.replay.configure(cx);
        args.finish()
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("sampling_prob").checkbox("active").read("encap");
        list.button("stop");
        list.read("filename").read("filesize").read("filepos");
        list.add("filename", HandlerFlags::CALM);
        if self.replay.has_task() {
            list.task(false);
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        Ok(match name {
            "sampling_prob" => unparse::real2(self.replay.sample.into(), SAMPLE_BITS),
            "active" => self.replay.active.to_string(),
            "encap" => "IP".to_string(),
            "filename" => source::shown(&self.filename).to_string(),
            "filesize" => self.filesize.map_or("-".to_string(), |size| size.to_string()),
            "filepos" => self.reader.position().to_string(),
            _ => return Err(HandlerError::Unknown),
        })
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "active" => {
                let value = click::config::uncomment(value);
                let active = cx.names().parse(&value).map_err(|_| "type mismatch")?;
                self.replay.set_active(cx, active);
            }
            "stop" => {
                self.replay.active = false;
                cx.stop();
            }
            _ => return Err(HandlerError::Unknown),
        }
        Ok(())
    }
}

impl Element for FromIPSummaryDump {
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
        let reader = &mut self.reader;
        self.replay.run_task(cx, task, |cx| read_packet(reader, cx))
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        let reader = &mut self.reader;
        self.replay.pull(cx, batch, most, |cx| read_packet(reader, cx));
    }

    fn notifier(&self, notice: Notice, port: usize) -> Search {
        self.replay.notifier(notice, port)
    }
}

#[cfg(test)]
mod tests;
