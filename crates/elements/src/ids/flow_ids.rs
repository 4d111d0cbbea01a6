mod alert;
#[cfg(test)]
mod tests;
mod thresholds;

use alert::Alert;
use thresholds::Thresholds;

use super::rules::{self, Rule, Set};
use super::search::{Scratch, Searched, Signatures, Window};
use crate::flow::intact::is_intact;
use crate::flow::stream::Streams;
use crate::flow::upper::{Upper, ends};
use crate::flow::windows::{SegmentNumbers, TcpReceiver};
use crate::flow::{FlowStates, FlowUser, Tracker, watch};
use crate::prelude::*;

/// Rules that a direction of a flow is remembered to have matched.
const REMEMBERED: usize = 8;
/// Alerts printed in a second, at most.
const PRINTED: u32 = 100;
const ALERTS_MAX: u32 = 1 << 16;
const STREAMS_MAX: u32 = 1 << 20;
const WINDOW_MAX: u32 = 1 << 16;

/// Searches the payloads of flows for signatures, and tells what it found.
///
/// RULES are in a subset of Suricata's syntax, one a line; `#` begins a comment line, and a line that ends
/// in a backslash goes on in the next. There are 32768 rules at most. A rule is
/// `alert PROTOCOL ADDRESSES PORTS -> ADDRESSES PORTS (OPTIONS)`, with `<>` for both directions. Protocols are
/// `tcp`, `udp`, `icmp`, which is that of both versions of IP, `icmpv6` and `ip`. Addresses and ports are `any`,
/// one, a prefix or a range (`1024:`), a list in brackets, or one of these after `!`; `$HOME_NET` and
/// `$EXTERNAL_NET` are known. Options are
/// `msg`, `sid`, `rev`, `gid`, `classtype`, `priority`, `content` with `nocase`, `offset`, `depth`, `distance`, `within`,
/// `startswith` and `fast_pattern`, `flow` with `established`, `not_established`, `stateless`, `to_server`,
/// `to_client`, `from_server` and `from_client`, and `threshold`; `reference` and `metadata` are passed over.
/// Rules with other options, also `pcre`, are refused.
///
/// A ConnectionTracker upstream says which flow a packet belongs to; packets pass unchanged. TCP is
/// searched as a stream of each direction: contents are found across segments, as long as they are among the
/// last WINDOW bytes, and `offset` and `depth` count from the stream's first byte. Of segments that overlap, the
/// bytes that came first make the stream; a segment that does not just go on where the stream ends is also searched
/// by itself, so that the other bytes are seen too, but not together with others' (`conflicts` counts segments whose
/// data differ from those before). Segments that the receiver does not take, because they are beyond its window
/// or acknowledge what was not sent, are searched by themselves and are not in the stream. A gap wider than WINDOW, or
/// behind more than eight pieces, is left out of the stream when the receiver has acknowledged bytes behind it.
/// Segments and datagrams with wrong checksums are not searched (`damaged`). A direction of a TCP flow alerts once for each rule, as long as at most eight rules match in
/// it. The payloads of datagrams and of ICMP are searched one by one, and each alerts. A flow is
/// established when both sides have sent.
///
/// STREAMS directions of TCP flows are put together at a time. If all are in use, segments of further ones are
/// searched one by one (`unassembled`). The last ALERTS alerts are kept; 100 a second are printed. Thresholds keep
/// counts of 14336 pairs of a rule and an address; beyond them, each match counts as the first one.
///
/// All memory is allocated when the router is initialized, or rules are written: for each stream two
/// WINDOWs, some 150 bytes, and 60 for each flow of the tracker.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> MarkIPHeader(14) -> ConnectionTracker(1000)
///     -> d :: FlowIDS('alert tcp any any -> any 80 (msg:"passwd"; content:"/etc/passwd"; sid:1;)')
///     -> Discard;
/// DriverManager(pause, print d.alerts);
/// ```
///
/// # See also
/// ConnectionTracker, FlowFirewall, FlowMonitor
#[derive(Element)]
#[element(
    ports = "-/=",
    processing = "h/h",
    flow = "#/#",
    handlers,
    provides(FlowUser)
)]
#[inputs("packets of any side")]
#[outputs("packets of the input of the same number")]
pub struct FlowIDS {
    /// The rules.
    #[arg(positional, name = "RULES")]
    text: String,
    /// The addresses that `$HOME_NET` stands for, as rules name them.
    #[arg(default_text = "any")]
    home_net: String,
    /// Directions of TCP flows that are put together at a time.
    #[arg(default = 512)]
    streams: u32,
    /// Bytes of a stream in which contents are found across segments: 64 to 65536.
    #[arg(default = 4096)]
    window: u32,
    /// Alerts that are kept.
    #[arg(name = "ALERTS", default = 1024)]
    most: u32,
    /// Whether alerts are printed.
    #[arg(default = true, read, write, checkbox)]
    print: bool,
    /// Alerts.
    #[handler(read)]
    count: u64,
    /// Alerts that are not printed because there were too many.
    #[handler(read)]
    unprinted: u64,
    /// Matches that thresholds kept from being alerts.
    #[handler(read)]
    suppressed: u64,
    /// Segments searched one by one because all streams were in use.
    #[handler(read)]
    unassembled: u64,
    /// Segments whose data differ from those before at the same place.
    #[handler(read)]
    conflicts: u64,
    /// Segments and datagrams with wrong checksums, which are not searched.
    #[handler(read)]
    damaged: u64,
    /// Comparisons of rules given up because they took too long.
    #[handler(read)]
    given_up: u64,
    signatures: Signatures,
    hits: Vec<u64>,
    scratch: Scratch,
    assembly: Streams,
    /// Of each stream, how far it was searched.
    progress: Vec<Progress>,
    thresholds: Thresholds,
    flows: FlowStates<State>,
    tracker: Option<Link<dyn Tracker>>,
    alerts: VecDeque<Alert>,
    /// The rules that the payload at hand matched.
    found: Vec<u16>,
    /// The second of the clock, and how many alerts were printed in it.
    printed: (i64, u32),
}

/// A flow.
#[derive(Default)]
struct State {
    sides: [Side; 2],
}

/// A direction of a flow.
#[derive(Clone, Copy, Default)]
struct Side {
    /// Whether there were packets.
    seen: bool,
    /// The sequence number of the stream's first byte.
    first: u32,
    /// The stream, less one; 0: none.
    stream: u32,
    /// Rules that matched.
    matched: [u16; REMEMBERED],
    count: u8,
}

/// How far a stream was searched.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// The position behind the last byte that was searched.
    searched: u64,
    /// The position behind the last content that was found.
    found: u64,
}

impl Progress {
    /// Bytes in order whose first has a position.
    fn window(self, bytes: &[u8], position: u64) -> Window<'_> {
        let is_known = self.found <= position;
        let known = self.searched.saturating_sub(position) as usize;
        Window {
            bytes,
            position,
            known: if is_known { known.min(bytes.len()) } else { 0 },
        }
    }
}

/// A packet, as rules see it.
struct Seen {
    time: i64,
    protocol: IpProtocol,
    source: (IpAddr, u16),
    destination: (IpAddr, u16),
    is_reply: bool,
    established: bool,
}

impl Seen {
    fn concerns(&self, rule: &Rule) -> bool {
        let is_other = rule.protocol.is_some_and(|it| {
            it != self.protocol && (it, self.protocol) != (IpProtocol::ICMP, IpProtocol::ICMPV6)
        });
        if is_other
            || rule
                .flow
                .established
                .is_some_and(|it| it != self.established)
            || rule.flow.to_server.is_some_and(|it| it == self.is_reply)
        {
            return false;
        }
        let fits = |set: &(Set, Set), end: (IpAddr, u16)| {
            set.0.contains(rules::number(end.0)) && set.1.contains(end.1.into())
        };
        let there = fits(&rule.source, self.source) && fits(&rule.destination, self.destination);
        there
            || rule.both_ways
                && fits(&rule.source, self.destination)
                && fits(&rule.destination, self.source)
    }
}

#[handlers]
impl FlowIDS {
    /// The rules, as they were written.
    #[read]
    fn read_rules(&self) -> &str {
        &self.text
    }

    /// Replaces the rules. A mistake is told with its line, and changes nothing.
    #[write]
    fn write_rules(&mut self, cx: &mut Cx<'_>, text: &str) -> Result<(), HandlerError> {
        let _ = cx;
        self.compile(text)
            .map_err(|why| HandlerError::failed(FailureKind::Invalid, why))?;
        self.text = text.into();
        Ok(())
    }

    /// The last alerts, a line of JSON each, as Suricata's EVE output.
    #[read(expensive)]
    fn alerts(&self) -> Result<String, HandlerError> {
        listing(|out| {
            let mut alerts = self.alerts.iter();
            alerts.try_for_each(|alert| writeln!(out, "{}", alert.line()))
        })
    }

    /// A line for each rule that matched: how often, and its sid and message.
    #[read(expensive)]
    fn hits(&self) -> Result<String, HandlerError> {
        listing(|out| {
            let rules = self.hits.iter().zip(self.signatures.rules.iter());
            rules
                .filter(|(hits, _)| **hits > 0)
                .try_for_each(|(hits, rule)| writeln!(out, "{hits} {} {}", rule.sid, rule.message))
        })
    }

    /// Rules.
    #[read]
    fn rule_count(&self) -> usize {
        self.signatures.rules.len()
    }

    /// Gaps that were left out of streams.
    #[read]
    fn gaps(&self) -> u64 {
        self.assembly.gaps
    }

    /// Forgets the alerts, and sets all counts to 0.
    #[write(button)]
    fn reset(&mut self) {
        self.alerts.clear();
        self.hits.fill(0);
        (self.count, self.unprinted, self.suppressed) = (0, 0, 0);
        (self.unassembled, self.given_up, self.assembly.gaps) = (0, 0, 0);
        (self.conflicts, self.damaged) = (0, 0);
    }
}

impl FlowIDS {
    /// Puts rules in place of those there are, or says what is wrong with them.
    fn compile(&mut self, text: &str) -> Result<(), String> {
        let home = rules::addresses(&self.home_net, &Set::default())
            .map_err(|why| format!("HOME_NET: {why}"))?;
        let rules =
            rules::parse(text, &home).map_err(|(line, why)| format!("line {line}: {why}"))?;
        let count = rules.len();
        let signatures = Signatures::new(rules).filter(|_| self.scratch.reserve(count));
        self.signatures = signatures.ok_or("out of memory for the rules")?;
        self.hits = vec![0; count];
        self.found = Vec::with_capacity(count);
        self.progress.fill(Progress::default());
        self.thresholds.clear();
        Ok(())
    }

    #[inline]
    fn see(&mut self, cx: &mut Cx<'_>, packet: &Packet, time: i64) {
        let Some((upper, [source, destination])) = Upper::of(packet).zip(ends(packet)) else {
            return;
        };
        let (protocol, transport) = (upper.protocol, upper.bytes);
        let Some(flow) = packet.flow().filter(|_| !packet.is_related()) else {
            return;
        };
        if matches!(protocol, IpProtocol::TCP | IpProtocol::UDP) && !is_intact(packet) {
            self.damaged += 1;
            return;
        }
        let Some(state) = self.flows.of_number(flow) else {
            return;
        };
        let side = usize::from(packet.is_reply());
        state.sides[side].seen = true;
        let ports = match protocol.has_ports() {
            true => packet::wire::ports(transport).unwrap_or_default(),
            false => (0, 0),
        };
        let seen = Seen {
            time,
            protocol,
            source: (source, ports.0),
            destination: (destination, ports.1),
            is_reply: packet.is_reply(),
            established: state.sides.iter().all(|side| side.seen),
        };
        match protocol {
            IpProtocol::TCP => {
                let numbers = SegmentNumbers::of(packet);
                if let (Ok(segment), Some(numbers)) = (TcpPacket::new_checked(transport), numbers) {
                    let receiver = self.tracker.and_then(|tracker| {
                        cx.reach(tracker, |it, _| it.receiver(flow, seen.is_reply, &numbers))
                    });
                    let receiver = receiver.unwrap_or(TcpReceiver::UNKNOWN);
                    self.see_segment(cx, flow, &segment, &seen, receiver);
                }
            }
            IpProtocol::UDP | IpProtocol::ICMP | IpProtocol::ICMPV6 => {
                let data = transport.get(8..).unwrap_or_default();
                self.search_alone(cx, flow, data, 0, &seen);
            }
            _ => self.search_alone(cx, flow, transport, 0, &seen),
        }
    }

    fn see_segment(
        &mut self,
        cx: &mut Cx<'_>,
        flow: u32,
        segment: &TcpPacket<&[u8]>,
        seen: &Seen,
        receiver: TcpReceiver,
    ) {
        let data = segment.payload();
        let mut sequence = segment.sequence().0;
        let Some(state) = self.flows.of_number(flow) else {
            return;
        };
        let side = &mut state.sides[usize::from(seen.is_reply)];
        if segment.flags().contains(TcpFlags::SYN) {
            sequence = sequence.wrapping_add(1);
            // Once it is answered, the numbers stay.
            if receiver.acknowledged.is_none() {
                side.first = sequence;
            }
        }
        if data.is_empty() || !receiver.takes {
            // Rules without contents are about segments without data too.
            return self.search_alone(cx, flow, data, 0, seen);
        }
        if side.stream == 0
            && let Some(stream) = self.assembly.begin(side.first)
        {
            side.stream = stream + 1;
            if let Some(progress) = self.progress.get_mut(stream as usize) {
                *progress = Progress::default();
            }
        }
        let Some(stream) = side.stream.checked_sub(1) else {
            self.unassembled += 1;
            return self.search_alone(cx, flow, data, 0, seen);
        };
        let acknowledged = receiver.acknowledged;
        if !self.assembly.is_next(stream, sequence) {
            let conflicts = self
                .assembly
                .conflicts(stream, sequence, data, acknowledged);
            self.conflicts += u64::from(conflicts);
            let position = u64::from(sequence.wrapping_sub(side.first));
            self.search_alone(cx, flow, data, position, seen);
        }
        // The streams cannot be borrowed while the rest is at work.
        let mut assembly = core::mem::take(&mut self.assembly);
        assembly.add(stream, sequence, data, acknowledged, |bytes, position| {
            let progress = self.progress.get(stream as usize).copied();
            let progress = progress.unwrap_or_default();
            let end = self.search(cx, flow, progress.window(bytes, position), seen);
            if let Some(now) = self.progress.get_mut(stream as usize) {
                now.searched = position + bytes.len() as u64;
                now.found = progress.found.max(end);
            }
        });
        self.assembly = assembly;
    }

    /// Searches bytes by themselves, whose first has a position in its stream.
    fn search_alone(
        &mut self,
        cx: &mut Cx<'_>,
        flow: u32,
        bytes: &[u8],
        position: u64,
        seen: &Seen,
    ) {
        self.search(cx, flow, Progress::default().window(bytes, position), seen);
    }

    /// Searches bytes; returns the position behind the last content that was found, 0 if there was none.
    fn search(&mut self, cx: &mut Cx<'_>, flow: u32, window: Window<'_>, seen: &Seen) -> u64 {
        let found = &mut self.found;
        found.clear();
        let Searched { given_up, end } = self.signatures.search(
            window,
            &mut self.scratch,
            |rule| seen.concerns(rule),
            |rule| found.push(rule),
        );
        self.given_up += u64::from(given_up);
        for at in 0..self.found.len() {
            self.tell(cx, flow, self.found[at], seen);
        }
        match end {
            0 => 0,
            _ => window.position + end as u64,
        }
    }

    #[cold]
    fn tell(&mut self, cx: &mut Cx<'_>, flow: u32, number: u16, seen: &Seen) {
        let Some(rule) = self.signatures.rules.get(usize::from(number)) else {
            return;
        };
        if seen.protocol == IpProtocol::TCP
            && let Some(state) = self.flows.of_number(flow)
        {
            let side = &mut state.sides[usize::from(seen.is_reply)];
            let count = usize::from(side.count);
            if side.matched[..count].contains(&number) {
                return;
            }
            if let Some(slot) = side.matched.get_mut(count) {
                *slot = number;
                side.count += 1;
            }
        }
        if let Some(hits) = self.hits.get_mut(usize::from(number)) {
            *hits += 1;
        }
        let second = seen.time / 1_000_000_000;
        if let Some(threshold) = rule.threshold {
            let address = match threshold.by_source {
                true => seen.source.0,
                false => seen.destination.0,
            };
            if !self.thresholds.tells(number, threshold, address, second) {
                self.suppressed += 1;
                return;
            }
        }
        self.count += 1;
        let alert = Alert {
            time: seen.time,
            rules: Arc::clone(&self.signatures.rules),
            rule: number,
            protocol: seen.protocol,
            source: seen.source,
            destination: seen.destination,
        };
        if self.printed.0 != second {
            self.printed = (second, 0);
        }
        if self.print && self.printed.1 < PRINTED {
            self.printed.1 += 1;
            cx.chatter(alert.line());
        } else if self.print {
            self.unprinted += 1;
        }
        if self.alerts.len() >= self.most as usize {
            self.alerts.pop_front();
        }
        if self.most > 0 {
            self.alerts.push_back(alert);
        }
    }
}

impl Element for FlowIDS {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if !(64..=WINDOW_MAX).contains(&self.window) {
            return Err(args.fail(format_args!("WINDOW must be from 64 to {WINDOW_MAX}")));
        }
        if self.streams > STREAMS_MAX {
            return Err(args.fail(format_args!("STREAMS must be at most {STREAMS_MAX}")));
        }
        if self.most > ALERTS_MAX {
            return Err(args.fail(format_args!("ALERTS must be at most {ALERTS_MAX}")));
        }
        if self.home_net.is_empty() {
            self.home_net = "any".into();
        }
        let text = core::mem::take(&mut self.text);
        let compiled = self.compile(&text);
        self.text = text;
        compiled.map_err(|why| args.fail(why))
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.tracker = Some(self.flows.reserve_tracked(cx)?);
        let (streams, window) = (self.streams as usize, self.window as usize);
        let reserved = self.assembly.reserve(streams, window)
            && self.progress.try_reserve_exact(streams).is_ok()
            && self.thresholds.reserve()
            && self.alerts.try_reserve_exact(self.most as usize).is_ok();
        if !reserved {
            return Err(cx.error(format_args!(
                "out of memory for {streams} streams of {window} bytes; give smaller STREAMS or WINDOW, or a \
                 guest more memory, as in --memory 64M"
            )));
        }
        self.progress.resize(streams, Progress::default());
        Ok(())
    }

    #[inline]
    fn effects(&self) -> Effects {
        Effects::of_observer()
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        self.flows.prefetch(batch);
        watch(cx, port, batch, |cx, packet, now| self.see(cx, packet, now))
    }
}

impl FlowUser for FlowIDS {
    fn flow_ended(&mut self, _cx: &mut Cx<'_>, flow: u32) {
        for side in self.flows.take(flow).sides {
            if let Some(stream) = side.stream.checked_sub(1) {
                self.assembly.end(stream);
            }
        }
    }
}
