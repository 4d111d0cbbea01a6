use alloc::string::{String, ToString};
use core::any::Any;
use std::boxed::Box;
use std::fs::File;

use packet::anno::EXTRA_LENGTH;
use packet::{Batch, Packet};
use router::args::{self, Args, Failed, FilenameArg, FixedPoint, Timestamp, unparse};
use router::{Call, Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList, Notice, Ran, Search, SignalId, Steady, TaskId, TimerId};

use super::capture::{Capture, Frame, Source};
use crate::link_type::LinkType;

/// Binary digits of a probability.
const SAMPLE_BITS: u32 = 28;
const ALWAYS: u32 = 1 << SAMPLE_BITS;
/// Packets passed over in one scheduling.
const SKIPS: u32 = 16;

/// Reads packets from a capture file.
///
/// The file is one of tcpdump's or ToDump's: pcap in any byte order, with microseconds or
/// nanoseconds, or pcapng. Packets carry the time at which they were captured, a mark of their MAC
/// header, and in their extra length annotation the bytes that were not captured. From a file of
/// raw IP packets they carry a network header mark too. Compressed files are not read.
///
/// # Arguments
/// - `FILENAME` (file name): the file; `-` is the standard input.
/// - `TIMING` (boolean, false): whether packets keep the distances in time that they had.
/// - `STOP` (boolean, false): stop the driver at the end.
/// - `ACTIVE` (boolean, true): whether it reads.
/// - `SAMPLE` (probability, 1): how likely a packet is taken.
/// - `FORCE_IP` (boolean, false): whether only IP packets leave by output 0, with their network
///   header marked and their destination annotation set; the others leave by output 1.
/// - `START` (time): passes over packets before this time, in seconds since 1970.
/// - `START_AFTER` (time): passes over the packets of so many first seconds.
/// - `END` (time): ends at the first packet at this time or later.
/// - `END_AFTER` (time): ends so many seconds after the file's first packet.
/// - `INTERVAL` (time): ends so many seconds after START.
/// - `END_CALL` (handler call): called at the end; not together with STOP. With an end time, it is
///   the element's own `active false` if none is given.
/// - `FILEPOS` (integer, 0): where in the file to start, in bytes.
/// - `MMAP` (boolean): accepted, without effect.
///
/// # Ports
/// No input. Output 0 is agnostic; output 1, optional, is push: with FORCE_IP, what is not IP.
///
/// # Handlers
/// - `count` (read): packets that left by output 0.
/// - `reset_counts` (write): sets `count` to 0.
/// - `active` (read, write): whether it reads.
/// - `stop` (write): ends reading, and stops the driver.
/// - `encap` (read): the file's link type, as ToDump's ENCAP takes it.
/// - `sampling_prob` (read): SAMPLE.
/// - `filename`, `filesize` (read): the file's name, and its length in bytes.
/// - `filepos` (read, write): where in the file the next packet is, in bytes.
/// - `packet_filepos` (read): where in the file the last packet was, in bytes.
/// - `extend_interval` (write): adds so many seconds to the end time, and reads on.
/// - `reset_timing` (write): forgets the times, for TIMING after a write of `filepos`.
/// - `scheduled`, `tickets`, `home_thread`: the task's; on a push output.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> Counter -> Discard;
/// ```
///
/// # See also
/// ToDump, FromDevice
pub struct FromDump {
    filename: String,
    timing: bool,
    force_ip: bool,
    active: bool,
    sample: u32,
    filepos: u64,
    times: Times,
    end: End,
    end_text: String,
    capture: Option<Capture>,
    filesize: Option<u64>,
    /// Read, and not yet sent.
    pending: Option<Pending>,
    packet_filepos: u64,
    count: u64,
    push: bool,
    task: Option<TaskId>,
    timer: Option<TimerId>,
    nonempty: Option<SignalId>,
}

impl Default for FromDump {
    fn default() -> Self {
        FromDump {
            filename: String::new(),
            timing: false,
            force_ip: false,
            active: true,
            sample: ALWAYS,
            filepos: 0,
            times: Times::default(),
            end: End::Nothing,
            end_text: String::new(),
            capture: None,
            filesize: None,
            pending: None,
            packet_filepos: 0,
            count: 0,
            push: true,
            task: None,
            timer: None,
            nonempty: None,
        }
    }
}

/// A packet that was read.
struct Pending {
    packet: Packet,
    link: LinkType,
    /// It is before the end, and in the sample.
    wanted: bool,
}

/// What happens at the end.
#[derive(Clone)]
enum End {
    Nothing,
    /// The element ends reading and stops the driver.
    Stop,
    /// The element ends reading.
    Inactive,
    Call(Call),
}

/// Which part of the file is wanted, in nanoseconds since 1970.
#[derive(Clone, Copy, Default)]
struct Times {
    first: Option<i64>,
    first_is_relative: bool,
    last: Option<i64>,
    last_is_relative: bool,
    last_is_interval: bool,
    /// Relative times are made absolute by the first packet.
    known: bool,
    /// The end time as it is extended; kept when the end was reached.
    end: i64,
    /// What to add to a packet's time for its moment on the steady clock.
    offset: i64,
}

/// What reading gave.
enum Next {
    Packet,
    PassedOver,
    End,
}

impl Class for FromDump {
    const NAME: &'static str = "FromDump";
    const PORTS: &'static str = "0/1-2";
    const PROCESSING: &'static str = "/ah";
}

impl Times {
    /// Takes the first packet's time.
    fn start(&mut self, time: i64, steady: Steady) {
        let first = self.first.unwrap_or(0);
        let start = match self.first_is_relative || self.first.is_none() {
            true => first.saturating_add(time),
            false => first,
        };
        self.first = self.first.map(|_| start);
        if self.last_is_relative {
            self.end = self.end.saturating_add(time);
        } else if self.last_is_interval {
            self.end = self.end.saturating_add(start);
        }
        self.last = self.last.map(|_| self.end);
        self.offset = (steady.0 as i64).saturating_sub(time);
        self.known = true;
    }
}

impl FromDump {
    fn print_filename(&self) -> &str {
        match self.filename.as_str() {
            "" | "-" => "<stdin>",
            name => name,
        }
    }

    fn fail(&self, cx: &mut Cx<'_>, error: impl core::fmt::Display) -> Failed {
        let name = self.print_filename();
        cx.error(format_args!("{name}: {error}"))
    }

    fn open(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let source: Box<dyn Source> = if self.print_filename() == "<stdin>" {
            Box::new(std::io::stdin())
        } else {
            let file = File::open(&self.filename);
            let file = file.map_err(|error| self.fail(cx, super::os_error(&error)))?;
            let meta = file.metadata().ok().filter(std::fs::Metadata::is_file);
            self.filesize = meta.map(|meta| meta.len());
            Box::new(file)
        };
        let mut capture = Capture::open(source).map_err(|error| self.fail(cx, error))?;
        if self.filepos != 0 {
            if self.filesize.is_some_and(|size| self.filepos > size) {
                return Err(cx.error("FILEPOS out of range"));
            }
            let gone = capture.go_to(self.filepos);
            gone.map_err(|error| self.fail(cx, error))?;
        }
        let link = capture.link();
        if self.force_ip && !link.can_force_ip() {
            let link = link.0;
            let error = format_args!("unknown linktype {link}; can't force IP packets").to_string();
            return Err(self.fail(cx, error));
        }
        self.force_ip |= link == LinkType::RAW;
        self.capture = Some(capture);
        Ok(())
    }

    fn set_active(&mut self, cx: &mut Cx<'_>, active: bool) {
        self.active = active;
        if active {
            self.wake(cx);
        }
    }

    /// Lets packets flow, by the task or whoever pulls.
    fn wake(&mut self, cx: &mut Cx<'_>) {
        match (self.push, self.task, self.nonempty) {
            (true, Some(task), _) => cx.schedule(task),
            (false, _, Some(signal)) => cx.set_signal(signal, true),
            _ => {}
        }
    }

    fn sleep(&mut self, cx: &mut Cx<'_>) {
        if let (false, Some(signal)) = (self.push, self.nonempty) {
            cx.set_signal(signal, false);
        }
    }

    fn call_end(&mut self, cx: &mut Cx<'_>) {
        match self.end.clone() {
            End::Nothing => {}
            End::Stop => {
                self.active = false;
                cx.stop();
            }
            End::Inactive => self.active = false,
            End::Call(call) if call.element == Some(cx.id()) => {
                // The element itself is at work.
                if let Err(HandlerError::Failed(error)) = self.write(cx, &call.handler, &call.value)
                {
                    cx.chatter(error);
                }
            }
            End::Call(call) => {
                if let Err(HandlerError::Failed(error)) = call.write(cx) {
                    cx.chatter(error);
                }
            }
        }
    }

    /// Reads the next packet into `self.pending`.
    fn read_packet(&mut self, cx: &mut Cx<'_>) -> Next {
        let Some(capture) = &mut self.capture else {
            return Next::End;
        };
        self.packet_filepos = capture.position();
        let frame = match capture.next_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) => return Next::End,
            Err(error) => {
                self.capture = None;
                let name = self.print_filename();
                cx.chatter(format_args!("{name}: {error}"));
                return Next::End;
            }
        };
        if !self.times.known {
            self.times.start(frame.time, cx.steady());
        }
        if let Some(first) = self.times.first {
            if frame.time < first {
                return Next::PassedOver;
            }
            self.times.first = None;
        }
        match make_packet(cx, &frame) {
            Some(packet) => {
                self.pending = Some(Pending {
                    link: frame.link,
                    packet,
                    wanted: false,
                });
                Next::Packet
            }
            None => Next::PassedOver,
        }
    }

    /// Whether the packet that was read is at the end of what is wanted.
    fn is_at_end(&self) -> bool {
        match (&self.pending, self.times.last) {
            (Some(pending), Some(last)) => !pending.wanted && pending.packet.timestamp() >= last,
            _ => false,
        }
    }

    /// Ends, unless whoever is called at the end has other plans; returns whether it goes on.
    #[cold]
    fn reached_end(&mut self, cx: &mut Cx<'_>) -> bool {
        self.times.last = None;
        self.call_end(cx);
        if !self.active {
            self.drop_pending(cx);
        }
        self.active
    }

    fn drop_pending(&mut self, cx: &mut Cx<'_>) {
        if let Some(pending) = self.pending.take() {
            cx.kill(pending.packet);
        }
    }

    /// Draws whether the packet that was read is one of the sample.
    fn is_sampled(&self, cx: &mut Cx<'_>) -> bool {
        self.sample == ALWAYS || cx.random().next_u32() & (ALWAYS - 1) < self.sample
    }

    /// Whether the packet's time has come; if not, the timer is set to it.
    fn is_time(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(pending) = &self.pending else {
            return true;
        };
        let time = pending.packet.timestamp();
        let due = time.saturating_add(self.times.offset).max(0) as u64;
        if cx.steady().0 >= due {
            return true;
        }
        if let Some(timer) = self.timer {
            cx.schedule_at(timer, Steady(due));
        }
        self.sleep(cx);
        false
    }

    /// Takes the packet that was read, if it may go by output 0; others leave by output 1.
    fn take(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let Pending {
            mut packet, link, ..
        } = self.pending.take()?;
        if self.force_ip && !link.force_ip(&mut packet) {
            cx.emit(1, packet);
            return None;
        }
        self.count += 1;
        Some(packet)
    }

    /// Adds at most `most` packets to `batch`. What is to happen at the end waits until what was
    /// read before is on its way.
    fn fill(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, most: usize) -> Filled {
        let mut skips = 0;
        while batch.len() < most && skips < SKIPS {
            if self.pending.is_none() {
                match self.read_packet(cx) {
                    Next::Packet => {}
                    Next::PassedOver => {
                        skips += 1;
                        continue;
                    }
                    Next::End if batch.is_empty() => {
                        self.call_end(cx);
                        return Filled::Ended;
                    }
                    Next::End => return Filled::More,
                }
            }
            if self.is_at_end() {
                if !batch.is_empty() {
                    return Filled::More;
                }
                if !self.reached_end(cx) {
                    return Filled::Ended;
                }
                continue;
            }
            let Some(pending) = &mut self.pending else {
                continue;
            };
            if !core::mem::replace(&mut pending.wanted, true) && !self.is_sampled(cx) {
                self.drop_pending(cx);
                skips += 1;
                continue;
            }
            if self.timing && !self.is_time(cx) {
                return Filled::Early;
            }
            match self.take(cx) {
                Some(packet) => {
                    if let Err(packet) = batch.push(packet) {
                        cx.kill(packet);
                    }
                }
                None => skips += 1,
            }
        }
        Filled::More
    }
}

/// How far filling a batch came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filled {
    /// There may be more at once.
    More,
    /// The next packet's time is yet to come.
    Early,
    /// The file, or what is wanted of it, is at its end.
    Ended,
}

/// A packet of what a file holds. `None` if there is no memory.
#[inline]
fn make_packet(cx: &mut Cx<'_>, frame: &Frame<'_>) -> Option<Packet> {
    let mut packet = cx.pool().copy(frame.data)?;
    packet.set_timestamp(frame.time);
    packet.set_mac_header(0);
    if frame.missing > 0 {
        packet.set_anno(EXTRA_LENGTH, frame.missing);
    }
    Some(packet)
}

impl Declared for FromDump {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut stop, mut mmap) = (false, false);
        let [mut first, mut first_after, mut last, mut last_after, mut interval] =
            [Timestamp(0); 5];
        let probability = FixedPoint {
            bits: SAMPLE_BITS,
        };
        args.mandatory_positional_with("FILENAME", FilenameArg, &mut self.filename)
            .positional("TIMING", &mut self.timing)
            .keyword("STOP", &mut stop)
            .keyword("ACTIVE", &mut self.active)
            .keyword_with("SAMPLE", probability, &mut self.sample)
            .keyword("FORCE_IP", &mut self.force_ip)
            .keyword("START", &mut first)
            .keyword("START_AFTER", &mut first_after)
            .keyword("END", &mut last)
            .keyword("END_AFTER", &mut last_after)
            .keyword("INTERVAL", &mut interval)
            .keyword_with("END_CALL", args::Any, &mut self.end_text)
            .keyword("FILEPOS", &mut self.filepos)
            .keyword("MMAP", &mut mmap)
            .complete()?;
        if self.sample > ALWAYS {
            args.warning("SAMPLE probability reduced to 1");
            self.sample = ALWAYS;
        } else if self.sample == 0 {
            args.warning("SAMPLE probability is 0; emitting no packets");
        }
        let given = |times: &[Timestamp]| times.iter().filter(|time| time.0 != 0).count();
        if given(&[first, first_after]) > 1 {
            return Err(args.fail("START and START_AFTER are mutually exclusive"));
        }
        if given(&[last, last_after, interval]) > 1 {
            return Err(args.fail("END, END_AFTER, and INTERVAL are mutually exclusive"));
        }
        let end = last.0 + last_after.0 + interval.0;
        self.times = Times {
            first: Some(first.0 + first_after.0).filter(|time| *time != 0),
            first_is_relative: first.0 == 0,
            last: Some(end).filter(|time| *time != 0),
            last_is_relative: last_after.0 != 0,
            last_is_interval: interval.0 != 0,
            end,
            ..Times::default()
        };
        self.end = match (stop, self.end_text.is_empty()) {
            (true, false) => return Err(args.fail("END_CALL and STOP are mutually exclusive")),
            (true, true) => End::Stop,
            (false, true) if self.times.last.is_some() => End::Inactive,
            _ => End::Nothing,
        };
        self.push = cx.output_is_push(0);
        self.nonempty.get_or_insert_with(|| cx.signal(Notice::Empty, true));
        Ok(())
    }

    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let old: &mut dyn Any = old;
        let Some(old) = old.downcast_mut::<FromDump>() else {
            return;
        };
        if old.filename != self.filename {
            return;
        }
        self.capture = old.capture.take();
        self.pending = old.pending.take();
        self.packet_filepos = old.packet_filepos;
        self.times.offset = old.times.offset;
        let link = self.capture.as_ref().map_or(LinkType::RAW, Capture::link);
        if self.force_ip && !link.can_force_ip() {
            let (name, link) = (self.print_filename(), link.0);
            cx.chatter(format_args!(
                "{name}: warning: unknown linktype {link}; can't force IP packets"
            ));
        }
        self.force_ip |= link == LinkType::RAW;
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("filename").read("filesize").read_write("filepos");
        list.read("sampling_prob").checkbox("active").read("encap");
        list.button("stop").read("packet_filepos");
        list.write("extend_interval").read("count");
        list.button("reset_counts").button("reset_timing");
        list.add("filename", HandlerFlags::CALM);
        if self.push {
            list.task(false);
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        let position = self.capture.as_ref().map_or(0, Capture::position);
        let link = self.capture.as_ref().map(Capture::link);
        Ok(match name {
            "filename" => self.print_filename().to_string(),
            "filesize" => self.filesize.map_or("-".to_string(), |size| size.to_string()),
            "filepos" => position.to_string(),
            "packet_filepos" => self.packet_filepos.to_string(),
            "sampling_prob" => unparse::real2(self.sample.into(), SAMPLE_BITS),
            "active" => self.active.to_string(),
            "encap" => link.map_or("<none>".into(), LinkType::name).into_owned(),
            "count" => self.count.to_string(),
            _ => return Err(HandlerError::Unknown),
        })
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let value = click::config::uncomment(value);
        let value = value.trim();
        match name {
            "active" => {
                let active = cx.names().parse(value).map_err(|_| "type mismatch")?;
                self.set_active(cx, active);
            }
            "stop" => {
                self.active = false;
                cx.stop();
            }
            "filepos" => {
                let position = cx.names().parse(value);
                let position = position.map_err(|_| "argument must be file offset")?;
                if self.filesize.is_some_and(|size| position > size) {
                    return Err("FILEPOS out of range".into());
                }
                if let Some(capture) = &mut self.capture {
                    capture.go_to(position).map_err(|error| error.to_string())?;
                }
            }
            "extend_interval" => {
                let more: Timestamp = cx
                    .names()
                    .parse(value)
                    .map_err(|_| "'extend_interval' takes a time interval")?;
                self.times.end = self.times.end.saturating_add(more.0);
                if !matches!(self.end, End::Nothing) {
                    self.times.last = Some(self.times.end);
                    self.set_active(cx, true);
                }
            }
            "reset_counts" => self.count = 0,
            "reset_timing" => {
                self.times.first_is_relative = false;
                self.times.last_is_relative = false;
                self.times.last_is_interval = false;
                self.times.known = false;
            }
            _ => return Err(HandlerError::Unknown),
        }
        Ok(())
    }
}

impl Element for FromDump {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if !self.end_text.is_empty() {
            let call = Call::to_write(cx, &self.end_text);
            self.end = End::Call(call.map_err(|error| cx.error(error))?);
        }
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
        self.capture = None;
        self.drop_pending(cx);
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
        let more = self.fill(cx, &mut batch, most);
        let worked = !batch.is_empty();
        cx.push(0, batch);
        // Whoever was called at the end may have scheduled it too.
        if more == Filled::More {
            cx.schedule(task);
        }
        Ran::worked(worked)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        if !self.active {
            self.sleep(cx);
            return;
        }
        match self.fill(cx, batch, most) {
            Filled::More => self.wake(cx),
            Filled::Early => {}
            Filled::Ended => self.sleep(cx),
        }
    }

    fn notifier(&self, notice: Notice, port: usize) -> Search {
        match (notice, port, self.nonempty) {
            (Notice::Empty, 0, Some(signal)) => Search::Stop(signal),
            _ => Search::Pass,
        }
    }
}

#[cfg(test)]
mod tests;
