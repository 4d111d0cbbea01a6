use super::echo::{self, HEADERS};
use crate::prelude::*;

mod replies;

use replies::Replies;

/// Most nanoseconds of arrears that are made up for; longer ones are dropped.
const ARREARS_MAX: u64 = 1_000_000_000;

/// Sends ICMP echo requests at intervals, and counts the replies.
///
/// The sequence number counts up from 1 and skips 0. For each reply at the input, the element
/// prints a line like ping's and keeps the round trip time; at the end, it prints a summary. A
/// reply to a request before the last 4096 does not count. The round trip time is the difference of
/// the timestamps of request and reply: a reply without a timestamp counts, but has no round trip
/// time.
///
/// # Example
/// ```click
/// ping :: ICMPPingSource(1.0.0.1, 2.0.0.2, INTERVAL 0.1, LIMIT 3, STOP true)
///     -> ICMPPingResponder -> ping;
/// ```
///
/// # See also
/// ICMPPingEncap, ICMPPingResponder, ICMPPingRewriter
#[derive(Element)]
#[element(ports = "0-1/1", processing = "h/a", handlers, alias("ICMPSendPings"))]
#[inputs("replies")]
#[outputs("requests; by a pull output, one leaves whenever it is pulled")]
pub struct ICMPPingSource {
    /// The source of the requests.
    #[arg(
        mandatory,
        name = "SRC",
        read,
        write,
        calm,
        error = "syntax error",
        then = go_on
    )]
    source: Ipv4Addr,
    /// The destination of the requests.
    #[arg(
        mandatory,
        name = "DST",
        read,
        write,
        calm,
        error = "syntax error",
        then = go_on
    )]
    destination: Ipv4Addr,
    /// Time between two requests of a push output, a millisecond at least.
    #[arg(
        default_text = "1s",
        write,
        error = "'interval' should be an interval",
        then = go_on
    )]
    interval: Option<Milliseconds>,
    /// The ICMP identifier.
    #[arg(name = "IDENTIFIER", default = 0)]
    ident: u16,
    /// The data of each request.
    #[arg]
    data: Vec<u8>,
    /// Requests after which it stops; no limit if negative.
    #[arg(default = -1, write, calm, error = "'limit' should be integer", then = go_on)]
    limit: i32,
    /// Whether it sends.
    #[arg(default = true, read, write, checkbox, error = "type mismatch", then = activated)]
    active: bool,
    /// Whether replies and the summary are printed.
    #[arg(default = true)]
    verbose: bool,
    /// Whether to stop the driver after LIMIT requests.
    #[arg]
    stop: bool,
    /// Whether each reply causes the next request at once, in the same packet, beyond the limit
    /// too.
    #[arg]
    mirror: bool,
    /// Requests sent.
    #[handler(read)]
    count: i32,
    replies: Option<Replies>,
    timer: Option<TimerId>,
    /// When the next request is due.
    due: Steady,
}

impl ICMPPingSource {
    fn is_finished(&self) -> bool {
        self.limit >= 0 && self.count >= self.limit
    }

    fn interval(&self) -> u64 {
        let interval = self.interval.map_or(1000, |interval| interval.0);
        u64::from(interval.max(1)) * 1_000_000
    }

    /// The next request, in a packet of its own.
    fn make(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut packet = cx
            .pool()
            .packet(packet::HEADROOM, HEADERS + self.data.len())?;
        packet
            .data_mut()
            .get_mut(HEADERS..)?
            .copy_from_slice(&self.data);
        self.fill(cx, &mut packet);
        Some(packet)
    }

    /// Makes `packet`, which has room for the headers, the next request.
    fn fill(&mut self, cx: &Cx<'_>, packet: &mut Packet) {
        let number = (self.count.unsigned_abs() % 0xffff) as u16 + 1;
        let addresses = (self.source, self.destination);
        echo::write(packet, addresses, self.ident, number);
        let now = cx.wall();
        packet.set_timestamp(now);
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
        let time =
            replies.and_then(|replies| replies.received(icmp.sequence(), packet.timestamp()));
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

#[handlers]
impl ICMPPingSource {
    /// Forgets requests and replies.
    #[write(button)]
    fn reset_counts(&mut self, cx: &mut Cx<'_>) {
        self.count = 0;
        self.replies = self.replies.take().map(|_| Replies::default());
        self.go_on(cx);
    }

    /// Requests, replies, loss and round trip times, as ping prints them.
    #[read(when = self.replies.is_some())]
    fn summary(&self) -> Option<String> {
        Some(self.replies.as_ref()?.summary(self.count))
    }

    /// The least round trip time.
    #[read(when = self.replies.is_some())]
    fn rtt_min(&self) -> Option<String> {
        Some(unparse::microseconds(self.replies.as_ref()?.least()))
    }

    /// The average round trip time.
    #[read(when = self.replies.is_some())]
    fn rtt_avg(&self) -> Option<String> {
        Some(unparse::microseconds(self.replies.as_ref()?.average()))
    }

    /// The greatest round trip time.
    #[read(when = self.replies.is_some())]
    fn rtt_max(&self) -> Option<String> {
        Some(unparse::microseconds(self.replies.as_ref()?.most()))
    }

    /// Sends on if it had stopped.
    fn go_on(&mut self, cx: &mut Cx<'_>) {
        if !self.is_finished() {
            self.wake(cx, self.interval());
        }
    }

    fn activated(&mut self, cx: &mut Cx<'_>) {
        if let Some(timer) = self.timer.filter(|_| !self.active) {
            cx.unschedule_timer(timer);
        }
        if !self.is_finished() {
            self.wake(cx, 0);
        }
    }
}

impl Element for ICMPPingSource {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.interval == Some(Milliseconds(0)) {
            args.warning("INTERVAL so small that it is zero");
        }
        let pull = !cx.output_is_push(0);
        if pull && self.interval.is_some() {
            args.warning("element is pull, INTERVAL parameter will be ignored");
        }
        if pull && self.mirror {
            return Err(args.fail("MIRROR invalid on pull element"));
        }
        self.replies = (cx.inputs() > 0).then(Replies::default);
        Ok(())
    }

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
        self.due = if late {
            now.after(self.interval())
        } else {
            due
        };
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

#[cfg(test)]
mod tests;
