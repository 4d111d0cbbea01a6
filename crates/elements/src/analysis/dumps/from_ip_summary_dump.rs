use std::boxed::Box;
use std::io::Cursor;
use std::string::{String, ToString};

use packet::anno::{EXTRA_LENGTH, EXTRA_PACKETS, FIRST_TIMESTAMP};
use packet::wire::{IpProtocol, Ipv4Packet};
use packet::{Batch, Packet};
use router::args::{self, Args, Failed, FilenameArg, FixedPoint, Severity, unparse};
use router::{
    Class, Cx, Element, HandlerError, HandlerFlags, HandlerList, Notice, Ran, Search, SignalId,
    Steady, TaskId, TimerId,
};

use super::source::{self, Opened};
use super::summary::{Defaults, Next, Reader};

/// Binary digits of a probability.
const SAMPLE_BITS: u32 = 28;
const ALWAYS: u32 = 1 << SAMPLE_BITS;
/// Lines passed over in one scheduling.
const SKIPS: u32 = 16;
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
    stop: bool,
    active: bool,
    timing: bool,
    multipacket: bool,
    sample: u32,
    /// Read, and not yet sent.
    pending: Option<Packet>,
    /// How `pending` is divided, once its first part was sent.
    division: Option<Division>,
    /// What to add to a packet's time for its moment on the steady clock.
    offset: Option<i64>,
    push: bool,
    task: Option<TaskId>,
    timer: Option<TimerId>,
    nonempty: Option<SignalId>,
}

/// How a packet that stands for several becomes them.
#[derive(Clone, Copy)]
struct Division {
    /// Bytes of all but the last.
    length: u32,
    /// Nanoseconds from one to the next.
    step: i64,
    /// The last one's time.
    end: i64,
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
            stop: false,
            active: true,
            timing: false,
            multipacket: false,
            sample: ALWAYS,
            pending: None,
            division: None,
            offset: None,
            push: true,
            task: None,
            timer: None,
            nonempty: None,
        }
    }
}

impl Class for FromIPSummaryDump {
    const NAME: &'static str = "FromIPSummaryDump";
    const PORTS: &'static str = "0/1";
}

/// What reading gave.
enum Read {
    Packet(Packet),
    /// A line without a packet.
    Nothing,
    /// The packet's time is yet to come.
    Early,
    End,
}

/// How far filling a batch came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filled {
    More,
    Early,
    Ended,
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

    /// Says what there is to say of the file.
    fn say_notes(&mut self, cx: &mut Cx<'_>) {
        for note in self.reader.take_notes() {
            cx.chatter(note.text);
        }
    }

    fn read_packet(&mut self, cx: &mut Cx<'_>) -> Read {
        if !self.reader.is_open() {
            return Read::End;
        }
        let Some(mut packet) = cx.pool().empty() else {
            return Read::Nothing;
        };
        let next = self.reader.next(cx.names(), &mut packet);
        self.say_notes(cx);
        let read = match next {
            Next::Packet => return Read::Packet(packet),
            Next::Nothing => Read::Nothing,
            Next::End => Read::End,
        };
        cx.kill(packet);
        read
    }

    /// The next packet to send.
    fn next(&mut self, cx: &mut Cx<'_>) -> Read {
        let packet = match self.pending.take() {
            Some(packet) => packet,
            None => match self.read_packet(cx) {
                Read::Packet(packet) => packet,
                other => return other,
            },
        };
        if self.timing && !self.is_time(cx, &packet) {
            self.pending = Some(packet);
            return Read::Early;
        }
        if !self.multipacket {
            return Read::Packet(packet);
        }
        match self.divide(cx, packet) {
            Some(packet) => Read::Packet(packet),
            None => Read::Nothing,
        }
    }

    /// Whether a packet's time has come; if not, the timer is set to it.
    fn is_time(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> bool {
        let now = cx.steady();
        let first = || (now.0 as i64).saturating_sub(packet.timestamp());
        let offset = *self.offset.get_or_insert_with(first);
        let due = packet.timestamp().saturating_add(offset).max(0) as u64;
        if now.0 >= due {
            return true;
        }
        if let Some(timer) = self.timer {
            cx.schedule_at(timer, Steady(due));
        }
        self.set_signal(cx, false);
        false
    }

    /// Takes one packet of a packet that stands for several; the rest is pending.
    fn divide(&mut self, cx: &mut Cx<'_>, mut packet: Packet) -> Option<Packet> {
        let extra = packet.anno(EXTRA_PACKETS);
        if extra == 0 {
            self.division = None;
            return Some(packet);
        }
        let own = packet.len() as u32;
        let division = match self.division {
            Some(division) => division,
            None => {
                let division = divide_lengths(&mut packet, extra);
                set_lengths(&mut packet, division.length);
                self.division = Some(division);
                division
            }
        };
        let beyond = division.length - own.min(division.length);
        let first = cx.pool().clone(&packet);
        let left = packet.anno(EXTRA_LENGTH).saturating_sub(division.length);
        packet.set_anno(EXTRA_PACKETS, extra - 1);
        packet.set_anno(EXTRA_LENGTH, left);
        if extra == 1 {
            packet.set_timestamp(division.end);
            set_lengths(&mut packet, own.saturating_add(left));
        } else {
            packet.set_timestamp(packet.timestamp().saturating_add(division.step));
        }
        self.pending = Some(packet);
        first.map(|mut first| {
            first.set_anno(EXTRA_PACKETS, 0);
            first.set_anno(EXTRA_LENGTH, beyond);
            first
        })
    }

    fn set_signal(&mut self, cx: &mut Cx<'_>, active: bool) {
        if let (false, Some(signal)) = (self.push, self.nonempty) {
            cx.set_signal(signal, active);
        }
    }

    /// Lets packets flow, by the task or whoever pulls.
    fn wake(&mut self, cx: &mut Cx<'_>) {
        match self.task.filter(|_| self.push) {
            Some(task) => cx.schedule(task),
            None => self.set_signal(cx, true),
        }
    }

    fn is_sampled(&self, cx: &mut Cx<'_>) -> bool {
        self.sample == ALWAYS || cx.random().next_u32() & (ALWAYS - 1) < self.sample
    }

    /// Adds at most `most` packets to `batch`. What is to happen at the end waits until what was
    /// read before is on its way.
    fn fill(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, most: usize) -> Filled {
        let mut skips = 0;
        while batch.len() < most && skips < SKIPS {
            match self.next(cx) {
                Read::Packet(packet) if self.is_sampled(cx) => {
                    if let Err(packet) = batch.push(packet) {
                        cx.kill(packet);
                    }
                }
                Read::Packet(packet) => {
                    cx.kill(packet);
                    skips += 1;
                }
                Read::Nothing => break,
                Read::Early => return Filled::Early,
                Read::End if !batch.is_empty() => break,
                Read::End => {
                    if self.stop {
                        cx.stop();
                    }
                    return Filled::Ended;
                }
            }
        }
        Filled::More
    }
}

/// Divides lengths and times of a packet that stands for `extra` more, and gives it the first
/// one's time.
fn divide_lengths(packet: &mut Packet, extra: u32) -> Division {
    let own = packet.len() as u32;
    let beyond = packet.anno(EXTRA_LENGTH);
    let mut length = own.saturating_add(beyond) / extra.saturating_add(1);
    if length < own {
        length = own;
        packet.set_anno(EXTRA_LENGTH, length.saturating_mul(extra));
    }
    let end = packet.timestamp();
    let first = packet.anno_u64(FIRST_TIMESTAMP) as i64;
    let mut step = 0;
    if first != 0 {
        step = end.saturating_sub(first) / i64::from(extra);
        packet.set_timestamp(first);
    }
    Division { length, step, end }
}

/// Sets the lengths in the headers of IP and UDP.
fn set_lengths(packet: &mut Packet, length: u32) {
    let length = length as u16;
    let Some(bytes) = packet.network_header_mut() else {
        return;
    };
    let Ok(ip) = Ipv4Packet::new_quoted(&*bytes) else {
        return;
    };
    let (header, is_udp) = (ip.header_len(), ip.protocol() == IpProtocol::UDP);
    if ip.total_len() == length {
        return;
    }
    if let Some(place) = bytes.get_mut(2..4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
    if let (true, Some(place)) = (is_udp, bytes.get_mut(header + 4..header + 6)) {
        let length = length.wrapping_sub(header as u16);
        place.copy_from_slice(&length.to_be_bytes());
    }
}

impl Element for FromIPSummaryDump {
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
            .keyword("STOP", &mut self.stop)
            .keyword("ACTIVE", &mut self.active)
            .keyword("ZERO", &mut zero)
            .keyword("TIMING", &mut self.timing)
            .keyword("CHECKSUM", &mut defaults.checksums)
            .keyword_with("SAMPLE", probability, &mut self.sample)
            .keyword("PROTO", &mut defaults.protocol)
            .keyword("MULTIPACKET", &mut self.multipacket)
            .keyword_with("DEFAULT_CONTENTS", args::Any, default_contents)
            .keyword_with("DEFAULT_FIELDS", args::Any, default_fields)
            .keyword_with("DEFAULT_FLOWID", args::Any, default_flow)
            .keyword_with("CONTENTS", args::Any, contents)
            .keyword_with("FIELDS", args::Any, &mut fields)
            .keyword_with("FLOWID", args::Any, &mut flow)
            .keyword("ALLOW_NONEXISTENT", &mut self.may_be_missing)
            .keyword("DATA", &mut self.data)
            .complete()?;
        if self.sample > ALWAYS {
            args.warning("SAMPLE probability reduced to 1");
            self.sample = ALWAYS;
        } else if self.sample == 0 {
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
        self.push = cx.output_is_push(0);
        self.nonempty.get_or_insert_with(|| cx.signal(true));
        args.finish()
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.timer = Some(cx.timer());
        if self.push {
            let task = cx.task();
            self.task = Some(task);
            if self.active {
                cx.schedule(task);
            }
        }
        self.open(cx)
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if let Some(packet) = self.pending.take() {
            cx.kill(packet);
        }
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        if self.active {
            self.wake(cx);
        }
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        if !self.active {
            return Ran::Nothing;
        }
        let mut batch = cx.batch();
        let most = cx.limit();
        let filled = self.fill(cx, &mut batch, most);
        let worked = !batch.is_empty();
        cx.push(0, batch);
        if filled == Filled::More {
            cx.schedule(task);
        }
        Ran::worked(worked || filled == Filled::More)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        if !self.active {
            return;
        }
        match self.fill(cx, batch, most) {
            Filled::More => self.set_signal(cx, true),
            Filled::Early => {}
            Filled::Ended => self.set_signal(cx, false),
        }
    }

    fn notifier(&self, notice: Notice, port: usize) -> Search {
        match (notice, port, self.nonempty) {
            (Notice::Empty, 0, Some(signal)) => Search::Stop(signal),
            _ => Search::Pass,
        }
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("sampling_prob").checkbox("active").read("encap");
        list.button("stop");
        list.read("filename").read("filesize").read("filepos");
        list.add("filename", HandlerFlags::CALM);
        if self.push {
            list.task(false);
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        Ok(match name {
            "sampling_prob" => unparse::real2(self.sample.into(), SAMPLE_BITS),
            "active" => self.active.to_string(),
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
                self.active = active;
                if active || !self.push {
                    match active {
                        true => self.wake(cx),
                        false => self.set_signal(cx, false),
                    }
                }
            }
            "stop" => {
                self.active = false;
                cx.stop();
            }
            _ => return Err(HandlerError::Unknown),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
