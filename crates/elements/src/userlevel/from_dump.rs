use click::Location;

use super::capture::Capture;
use super::capture::source::{self, OpenError, Opened, shown, shown_size};
use super::sample::Sample;
use crate::headers::link_type::LinkType;
use crate::positions::Positioned;
use crate::prelude::*;

mod fill;
mod times;

use fill::Filled;
use times::Times;

/// Reads packets from a capture file.
///
/// The file is one of tcpdump's or ToDump's: pcap in any byte order, with microseconds or
/// nanoseconds, or pcapng. Packets have the capture time as their timestamp, their MAC header
/// marked, and the number of bytes not captured as their extra length annotation. Packets from a
/// file of raw IP packets have their network header marked too. A file that gzip, bzip2 or zstd
/// compressed is unpacked while it is read, but for the standard input.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> Counter -> Discard;
/// ```
///
/// # See also
/// ToDump, FromDevice
#[derive(Element)]
#[element(
    ports = "0/1-2",
    processing = "/ah",
    handlers,
    task(when = self.push),
    take_over,
    provides(Positioned)
)]
#[outputs("packets", "with FORCE_IP, packets that are not IP")]
pub struct FromDump {
    /// The file; `-` is the standard input.
    #[arg(mandatory, with = FilenameArg, kind = "file name", read = shown)]
    filename: String,
    /// Whether packets leave at the intervals of their timestamps.
    #[arg(positional)]
    timing: bool,
    /// Stop the driver at the end.
    #[arg]
    stop: bool,
    /// Whether it reads.
    #[arg(default = true, read, write, checkbox, error = "type mismatch", then = activated)]
    active: bool,
    /// The probability that a packet is taken.
    #[arg(read, handler = "sampling_prob", default_text = "1")]
    sample: Sample,
    /// Whether only IP packets leave by output 0, with their network header marked and their
    /// destination annotation set; other packets leave by output 1.
    #[arg]
    force_ip: bool,
    /// Passes over packets before this time, in seconds since 1970.
    #[arg]
    start: Timestamp,
    /// Passes over the packets of this time after the file's first packet.
    #[arg]
    start_after: Timestamp,
    /// Ends at the first packet at this time or later.
    #[arg(name = "END")]
    end_at: Timestamp,
    /// Ends this time after the file's first packet.
    #[arg]
    end_after: Timestamp,
    /// Ends this time after START.
    #[arg]
    interval: Timestamp,
    /// Called at the end; not together with STOP. With an end time, it is the element's own
    /// `active false` if none is given.
    #[arg(with = args::Any, kind = "handler call")]
    end_call: String,
    /// Offset in the file to start at, in bytes.
    #[arg(default = 0)]
    filepos: u64,
    /// Accepted, without effect.
    #[arg]
    mmap: bool,
    times: Times,
    end: End,
    /// The file could be opened.
    is_open: bool,
    capture: Option<Capture>,
    /// The file's length in bytes, `-` if that is not known.
    #[handler(read = shown_size)]
    filesize: Option<u64>,
    /// The end was read, and packets before it had to be sent first.
    has_ended: bool,
    /// Read, and not yet sent.
    pending: Option<Pending>,
    /// Offset of the last packet in the file, in bytes.
    #[handler(read)]
    packet_filepos: u64,
    /// It sends one packet at a time.
    sends_singly: bool,
    /// Packets that left by output 0.
    #[handler(read)]
    count: u64,
    #[init(true)]
    push: bool,
    task: Option<TaskId>,
    timer: Option<TimerId>,
    nonempty: Option<SignalId>,
}

/// A packet that was read.
struct Pending {
    packet: Packet,
    link: LinkType,
    /// It is before the end, and in the sample.
    wanted: bool,
}

/// What happens at the end.
#[derive(Clone, Default)]
enum End {
    #[default]
    Nothing,
    /// The element ends reading and stops the driver.
    Stop,
    /// The element ends reading.
    Inactive,
    Call(Call),
}

impl FromDump {
    fn print_filename(&self) -> &str {
        shown(&self.filename)
    }

    fn location(&self) -> Location {
        Location::new(self.print_filename(), 0)
    }

    fn open(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let location = self.location();
        let opened = source::open(&self.filename, false);
        self.is_open = !matches!(opened, Err(OpenError::Unopened(_)));
        let opened = opened.map_err(|error| error.report(cx, &location))?;
        let Some(Opened { source, size }) = opened else {
            return Err(Failed);
        };
        self.filesize = size;
        let capture = Capture::open(source);
        let mut capture = capture.map_err(|error| cx.error_at(&location, error))?;
        if self.filepos != 0 {
            if self.filesize.is_some_and(|size| self.filepos > size) {
                return Err(cx.error("FILEPOS out of range"));
            }
            let gone = capture.go_to(self.filepos);
            gone.map_err(|error| cx.error_at(&location, error))?;
        }
        let link = capture.link();
        if self.force_ip && !link.can_force_ip() {
            let link = link.0;
            let error = format_args!("unknown linktype {link}; can't force IP packets");
            return Err(cx.error_at(&location, error));
        }
        self.force_ip |= link == LinkType::RAW;
        self.capture = Some(capture);
        Ok(())
    }

    /// How many packets it sends at a time, of `most`.
    fn most(&self, most: usize) -> usize {
        if self.sends_singly { most.min(1) } else { most }
    }

    fn activated(&mut self, cx: &mut Cx<'_>) {
        if self.active {
            self.wake(cx);
        }
    }

    /// Makes packets flow, by the task or the notifier.
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
            End::Stop => self.write_stop(cx),
            End::Inactive => self.active = false,
            End::Call(call) => {
                if let Err(HandlerError::Failed(failure)) = call.write_from(cx, self) {
                    cx.report(&failure.text);
                }
            }
        }
    }
}

#[handlers]
impl FromDump {
    /// Offset of the next packet in the file, in bytes.
    #[read]
    fn read_filepos(&self) -> u64 {
        self.capture.as_ref().map_or(0, Capture::position)
    }

    /// Continues at that offset.
    #[write(error = "argument must be file offset")]
    fn write_filepos(&mut self, position: u64) -> Result<(), String> {
        if self.filesize.is_some_and(|size| position > size) {
            return Err("FILEPOS out of range".into());
        }
        self.has_ended = false;
        if let Some(capture) = &mut self.capture {
            capture.go_to(position).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The file's link type, as ToDump's ENCAP takes it.
    #[read]
    fn encap(&self) -> String {
        let link = self.capture.as_ref().map(Capture::link);
        link.map_or("<none>".into(), LinkType::name).into_owned()
    }

    /// Ends reading, and stops the driver.
    #[write(button)]
    fn write_stop(&mut self, cx: &mut Cx<'_>) {
        self.active = false;
        cx.stop();
    }

    /// Adds a time to the end time, and continues reading.
    #[write(error = "'extend_interval' takes a time interval")]
    fn extend_interval(&mut self, cx: &mut Cx<'_>, more: Timestamp) {
        self.times.end = self.times.end.saturating_add(more.0);
        if !matches!(self.end, End::Nothing) {
            self.times.last = Some(self.times.end);
            self.active = true;
            self.wake(cx);
        }
    }

    /// Sets `count` to 0.
    #[write(button)]
    fn reset_counts(&mut self) {
        self.count = 0;
    }

    /// Forgets the times, for TIMING after a write of `filepos`.
    #[write(button)]
    fn reset_timing(&mut self) {
        self.times.first_is_relative = false;
        self.times.last_is_relative = false;
        self.times.last_is_interval = false;
        self.times.known = false;
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut FromDump) {
        if old.filename != self.filename {
            return;
        }
        self.capture = old.capture.take();
        self.pending = old.pending.take();
        self.packet_filepos = old.packet_filepos;
        self.times.offset = old.times.offset;
        let link = self.capture.as_ref().map_or(LinkType::RAW, Capture::link);
        if self.force_ip && !link.can_force_ip() {
            let link = link.0;
            let warning = format_args!("unknown linktype {link}; can't force IP packets");
            cx.warning_at(&self.location(), warning);
        }
        self.force_ip |= link == LinkType::RAW;
    }
}

impl Positioned for FromDump {
    fn send_singly(&mut self) {
        self.sends_singly = true;
    }
}

impl Element for FromDump {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        Call::check_element(cx, args, "END_CALL", &self.end_call)?;
        self.sample.check(args);
        let (first, first_after) = (self.start.0, self.start_after.0);
        if first != 0 && first_after != 0 {
            return Err(args.fail("START and START_AFTER are mutually exclusive"));
        }
        let ends = [self.end_at.0, self.end_after.0, self.interval.0];
        if ends.iter().filter(|time| **time != 0).count() > 1 {
            return Err(args.fail("END, END_AFTER, and INTERVAL are mutually exclusive"));
        }
        let end = ends.iter().sum();
        self.times = Times {
            first: Some(first + first_after).filter(|time| *time != 0),
            first_is_relative: first == 0,
            last: Some(end).filter(|time| *time != 0),
            last_is_relative: self.end_after.0 != 0,
            last_is_interval: self.interval.0 != 0,
            end,
            ..Times::default()
        };
        self.end = match (self.stop, self.end_call.is_empty()) {
            (true, false) => return Err(args.fail("END_CALL and STOP are mutually exclusive")),
            (true, true) => End::Stop,
            (false, true) if self.times.last.is_some() => End::Inactive,
            _ => End::Nothing,
        };
        self.push = cx.output_is_push(0);
        self.nonempty = Some(cx.signal(Notice::Empty, true));
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if !self.end_call.is_empty() {
            let call = Call::to_write(cx, &self.end_call);
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

    fn declared_argument(&self) -> Option<&str> {
        self.is_open.then(|| self.print_filename())
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
        let most = self.most(cx.limit());
        let more = self.fill(cx, &mut batch, most);
        let worked = !batch.is_empty();
        cx.push(0, batch);
        // The call at the end may have scheduled it too.
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
        match self.fill(cx, batch, self.most(most)) {
            Filled::More => self.wake(cx),
            Filled::Early => {}
            Filled::Ended => self.sleep(cx),
        }
    }
}

#[cfg(test)]
mod tests;
