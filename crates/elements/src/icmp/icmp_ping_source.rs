use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use packet::wire::{Icmpv4Header, Icmpv4Packet, Icmpv4Type, IpProtocol, Ipv4Header, Ipv4Packet};
use packet::{Batch, Packet};
use router::args::{Args, Argument, Failed, SecondsArg, unparse};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList, Steady, TimerId};

mod replies;

use replies::Replies;

/// Length of an IP and an ICMP header.
const HEADERS: usize = 28;
/// Most nanoseconds of arrears that are made up for; longer ones are dropped.
const ARREARS_MAX: u64 = 1_000_000_000;

/// Sends ICMP echo requests at intervals, and counts the replies.
///
/// The sequence number counts up, from 1, and leaves out 0. Where replies come back by the input,
/// each draws a line, as ping has it, and the round trip times are kept; a summary is printed at
/// the end. A reply to a request before the last 4096 does not count. Round trip times are from
/// the timestamps of request and reply: replies without one count, but have none.
///
/// # Arguments
/// - `SRC`, `DST` (IP address): who the requests are from, and who they are for.
/// - `INTERVAL` (time, 1s): time between two requests of a push output, a millisecond at least.
/// - `IDENTIFIER` (integer, 0): the ICMP identifier.
/// - `LIMIT` (integer, -1): requests after which it stops; no limit if negative.
/// - `STOP` (boolean, false): whether to stop the driver then.
/// - `DATA` (bytes): what each request holds.
/// - `ACTIVE` (boolean, true): whether it sends.
/// - `MIRROR` (boolean, false): whether each reply is answered by the next request at once, in the
///   same packet, whatever the limit.
/// - `VERBOSE` (boolean, true): whether replies and the summary are printed.
///
/// # Ports
/// One push input, optional: replies. One agnostic output; by a pull output a request leaves
/// whenever one is asked for.
///
/// # Handlers
/// - `active`, `src`, `dst` (read, write): the arguments.
/// - `limit`, `interval` (write): the arguments.
/// - `count` (read): requests sent.
/// - `reset_counts` (write): forgets requests and replies.
/// - `summary` (read): requests, replies, loss and round trip times, as ping prints them; only with
///   an input.
/// - `rtt_min`, `rtt_avg`, `rtt_max` (read): round trip times; only with an input.
///
/// # Example
/// ```click
/// ping :: ICMPPingSource(1.0.0.1, 2.0.0.2, INTERVAL 0.1, LIMIT 3, STOP true)
///     -> ICMPPingResponder -> ping;
/// ```
///
/// # See also
/// ICMPPingEncap, ICMPPingResponder, ICMPPingRewriter
pub struct ICMPPingSource {
    source: Ipv4Addr,
    destination: Ipv4Addr,
    ident: u16,
    /// In milliseconds.
    interval: u32,
    data: Vec<u8>,
    limit: i32,
    active: bool,
    verbose: bool,
    stop: bool,
    mirror: bool,
    count: i32,
    replies: Option<Replies>,
    timer: Option<TimerId>,
    /// When the next request is due.
    due: Steady,
}

impl Default for ICMPPingSource {
    fn default() -> Self {
        ICMPPingSource {
            source: Ipv4Addr::UNSPECIFIED,
            destination: Ipv4Addr::UNSPECIFIED,
            ident: 0,
            interval: 1000,
            data: Vec::new(),
            limit: -1,
            active: true,
            verbose: true,
            stop: false,
            mirror: false,
            count: 0,
            replies: None,
            timer: None,
            due: Steady::default(),
        }
    }
}

impl Class for ICMPPingSource {
    const NAME: &'static str = "ICMPPingSource";
    const PORTS: &'static str = "0-1/1";
    const PROCESSING: &'static str = "h/a";
}

impl ICMPPingSource {
    fn is_finished(&self) -> bool {
        self.limit >= 0 && self.count >= self.limit
    }

    fn interval(&self) -> u64 {
        u64::from(self.interval.max(1)) * 1_000_000
    }

    /// The next request, in a packet of its own.
    fn make(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut packet = cx.pool().packet(packet::HEADROOM, HEADERS + self.data.len())?;
        packet.data_mut().get_mut(HEADERS..)?.copy_from_slice(&self.data);
        self.fill(cx, &mut packet);
        Some(packet)
    }

    /// Makes `packet`, which has room for the headers, the next request.
    fn fill(&mut self, cx: &Cx<'_>, packet: &mut Packet) {
        let number = (self.count.unsigned_abs() % 0xffff) as u16 + 1;
        let ip = Ipv4Header {
            tos: 0,
            total_len: packet.len() as u16,
            ident: number,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 200,
            protocol: IpProtocol::ICMP,
            source: self.source,
            destination: self.destination,
        };
        let ([a, b], [c, d]) = (self.ident.to_be_bytes(), number.to_be_bytes());
        let echo = Icmpv4Header {
            icmp_type: Icmpv4Type::ECHO,
            code: 0,
            rest: [a, b, c, d],
        };
        if let Some((header, message)) = packet.data_mut().split_first_chunk_mut::<20>() {
            *header = ip.to_bytes();
            let mut icmp = Icmpv4Packet::new_unchecked(message);
            echo.emit(&mut icmp);
            icmp.fill_checksum();
        }
        let now = cx.wall();
        packet.set_timestamp(now);
        packet.set_dst_ip(self.destination);
        packet.set_network_header(0, 20);
        if let Some(replies) = &mut self.replies {
            replies.sent(number, now);
        }
        self.count = self.count.wrapping_add(1);
    }

    /// Takes what came back; true if `packet` is to be the next request.
    fn receive(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> bool {
        let header = packet.network_header().unwrap_or_default();
        let Ok(ip) = Ipv4Packet::new_quoted(header) else {
            return false;
        };
        let transport = packet.transport_header().unwrap_or_default();
        let Ok(icmp) = Icmpv4Packet::new_checked(transport) else {
            return false;
        };
        let ours = icmp.icmp_type() == Icmpv4Type::ECHO_REPLY && icmp.ident() == self.ident;
        if ip.protocol() != IpProtocol::ICMP || !ours {
            return false;
        }
        let replies = self.replies.as_mut();
        let time = replies.and_then(|replies| replies.received(icmp.sequence(), packet.timestamp()));
        if let Some(time) = time.filter(|_| self.verbose) {
            let length = usize::from(ip.total_len()).saturating_sub(ip.header_len() + 8);
            let (name, source, ttl) = (cx.declaration(), ip.source(), ip.ttl());
            let (sequence, time) = (icmp.sequence(), replies::Millis(time));
            cx.chatter(format_args!(
                "{name}: {length} bytes from {source}: icmp_seq={sequence} ttl={ttl} time={time} ms"
            ));
        }
        self.mirror
    }

    /// Goes on after `nanoseconds` if it had stopped.
    fn wake(&mut self, cx: &mut Cx<'_>, nanoseconds: u64) {
        if let Some(timer) = self.timer
            && self.active
            && cx.expires(timer).is_none()
        {
            self.due = cx.steady().after(nanoseconds);
            cx.schedule_at(timer, self.due);
        }
    }
}

impl Declared for ICMPPingSource {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut has_interval = false;
        args.mandatory_positional("SRC", &mut self.source)
            .mandatory_positional("DST", &mut self.destination)
            .keyword_with("INTERVAL", SecondsArg(3), &mut self.interval)
            .given(&mut has_interval)
            .keyword("IDENTIFIER", &mut self.ident)
            .keyword("DATA", &mut self.data)
            .keyword("LIMIT", &mut self.limit)
            .keyword("ACTIVE", &mut self.active)
            .keyword("VERBOSE", &mut self.verbose)
            .keyword("STOP", &mut self.stop)
            .keyword("MIRROR", &mut self.mirror)
            .complete()?;
        if self.interval == 0 {
            args.warning("INTERVAL so small that it is zero");
        }
        let pull = !cx.output_is_push(0);
        if pull && has_interval {
            args.warning("element is pull, INTERVAL parameter will be ignored");
        }
        if pull && self.mirror {
            return Err(args.fail("MIRROR invalid on pull element"));
        }
        self.replies = (cx.inputs() > 0).then(Replies::default);
        Ok(())
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.checkbox("active").read_write("src").read_write("dst");
        list.read("count").write("limit").write("interval");
        list.button("reset_counts");
        for name in ["src", "dst", "limit"] {
            list.add(name, HandlerFlags::CALM);
        }
        if self.replies.is_some() {
            list.read("summary");
            list.read("rtt_min").read("rtt_avg").read("rtt_max");
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match (name, &self.replies) {
            ("active", _) => Ok(self.active.to_string()),
            ("src", _) => Ok(self.source.to_string()),
            ("dst", _) => Ok(self.destination.to_string()),
            ("count", _) => Ok(self.count.to_string()),
            ("summary", Some(replies)) => Ok(replies.summary(self.count)),
            ("rtt_min", Some(replies)) => Ok(unparse::microseconds(replies.least())),
            ("rtt_avg", Some(replies)) => Ok(unparse::microseconds(replies.average())),
            ("rtt_max", Some(replies)) => Ok(unparse::microseconds(replies.most())),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let value = value.trim();
        let mut after = self.interval();
        match name {
            "src" => self.source = parse(cx, value, "syntax error")?,
            "dst" => self.destination = parse(cx, value, "syntax error")?,
            "active" => {
                self.active = parse(cx, value, "type mismatch")?;
                after = 0;
                if let Some(timer) = self.timer.filter(|_| !self.active) {
                    cx.unschedule_timer(timer);
                }
            }
            "limit" => self.limit = parse(cx, value, "'limit' should be integer")?,
            "interval" => {
                let interval = cx.names().parse_with(SecondsArg(3), value);
                self.interval = interval.map_err(|_| "'interval' should be an interval")?;
            }
            "reset_counts" => {
                self.count = 0;
                self.replies = self.replies.take().map(|_| Replies::default());
            }
            _ => return Err(HandlerError::Unknown),
        }
        if !self.is_finished() {
            self.wake(cx, after);
        }
        Ok(())
    }
}

impl Element for ICMPPingSource {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if cx.output_is_push(0) {
            self.timer = Some(cx.timer());
            if self.limit != 0 {
                self.wake(cx, self.interval());
            }
        }
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if let Some(replies) = self.replies.as_ref().filter(|_| self.verbose) {
            let (name, summary) = (cx.declaration(), replies.summary(self.count));
            for line in summary.lines() {
                cx.chatter(format_args!("{name}: {line}"));
            }
        }
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        if self.is_finished() {
            if self.stop {
                cx.stop();
            }
            return;
        }
        if let Some(packet) = self.make(cx) {
            cx.emit(0, packet);
        }
        // From when it was due, so that delays do not add up, unless that is long past.
        let (due, now) = (self.due.after(self.interval()), cx.steady());
        let late = due.after(ARREARS_MAX) < now;
        self.due = if late { now.after(self.interval()) } else { due };
        cx.schedule_at(timer, self.due);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        for _ in 0..most.min(batch.room()) {
            if self.is_finished() {
                if core::mem::take(&mut self.stop) {
                    cx.stop();
                }
                break;
            }
            if !self.active {
                break;
            }
            let Some(packet) = self.make(cx) else {
                break;
            };
            let _ = batch.push(packet);
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        for mut packet in batch.drain() {
            if self.receive(cx, &packet) {
                let offset = packet.network_offset().unwrap_or(0);
                packet.pull(usize::try_from(offset).unwrap_or(0));
                if packet.len() >= HEADERS {
                    self.fill(cx, &mut packet);
                    cx.emit(0, packet);
                    continue;
                }
            }
            cx.kill(packet);
        }
        0
    }
}

fn parse<T: Argument>(cx: &Cx<'_>, value: &str, error: &str) -> Result<T, HandlerError> {
    cx.names().parse(value).map_err(|_| error.into())
}

#[cfg(test)]
mod tests;
