mod inspection;
#[cfg(test)]
mod tests;

use router::memory::{MORE_MEMORY, RESERVE, spare};

use super::guess::Found;
use super::name::Name;
use super::policy::{Action, Applications, Policy};
use super::protocol::Protocol;
use super::quic;
use crate::filters::dispatch::{DROP, send};
use crate::flow::stream::Streams;
use crate::flow::top::{Top, how_many};
use crate::flow::upper::Upper;
use crate::flow::{FlowStates, FlowUser, Tracker};
use crate::ip::tos;
use crate::prelude::*;

const STREAMS_MAX: u32 = 1 << 20;
const WINDOW_MAX: u32 = 1 << 16;
const TOP_MAX: u32 = 1 << 16;
/// Bytes of memory that a line of a policy takes, and a word of a table of applications, besides its text.
const LINE: usize = 384;
const WORD: usize = 128;

/// Tells the protocol of flows, and the names of their servers, by their first bytes, and treats them by these.
///
/// A ConnectionTracker upstream says which flow a packet belongs to. Packets pass by the output of
/// their input's number, unless the policy has another. The protocols are `amqp`, `bgp`, `bittorrent`,
/// `dhcp`, `dns`, `dtls`, `esp`, `ftp`, `gre`, `http`, `http2`, `icmp`, `ike`, `imap`, `irc`, `ldap`, `mongodb`, `mqtt`,
/// `mssql`, `mysql`, `ntp`, `openvpn`, `pop3`, `postgresql`, `quic`, `radius`, `rdp`, `redis`, `rsync`, `rtp`, `rtsp`,
/// `sctp`, `sip`, `smb`, `smtp`, `snmp`, `ssdp`, `ssh`, `stun`, `syslog`, `telnet`, `tftp`, `tls`, `vnc`, `wireguard` and
/// `xmpp`; others are `unknown`. Ports are not looked at, but for `ntp`.
///
/// The server's name is that in the ClientHello of TLS and of QUIC, version 1 and 2 (the client's first
/// packets are decrypted, and their tags checked), in the Host header or the target of the first request of HTTP/1, or in the first
/// question to the DNS. Of names longer than 63 bytes, the last 63 are kept. A ClientHello that is
/// encrypted (ECH) tells its outer name.
///
/// TCP is put together: the first WINDOW bytes of each direction, of STREAMS directions at a time.
/// A direction takes a stream only while its first segment does not tell enough; if all streams are in
/// use, that segment alone decides (`unassembled`). A flow that WINDOW bytes of both directions do not tell, or of
/// one direction and 16 segments with data, or 8 datagrams, is `unknown`. A flow is decided on once.
///
/// What the receiver does not take is not looked at, and passes: a wrong checksum, data beyond the receiver's
/// window, an acknowledgment of what was not sent. A segment whose data differ from those before at the same
/// place, and not acknowledged yet, is dropped (`conflicts`), so that the receiver gets what was looked at,
/// whichever copy it prefers; so is one that would be a ninth piece apart from the others.
/// A segment whose hops end before the receiver looks like one that arrives: it can decide on a flow.
///
/// If the target of an HTTP request is a whole address, that has the name, and Host does not count. A request with
/// different Host headers, which no server may take (RFC 9112, section 3.2), shows the first one's name; the
/// conditions `name` and `application` then hold in rules that drop, and in no others.
///
/// APPLICATIONS is text with a line for each application: its name, and the domains of its servers. A
/// name belongs to the longest domain that it is in: `www.example.com` is in `example.com`.
///
/// POLICY is text with a rule on each line; the first that matches decides on the flow, from the packet
/// that told its protocol on; packets before it pass. A rule is an action and conditions, which must all
/// hold: `protocol`, `name` (with domains), `application` and `alpn` (the first protocol that a client of TLS
/// offers), each with a value or several with commas between. Actions are `pass`, `drop`, `dscp N`, which sets the
/// code point, `paint N`, which sets the paint annotation, and `output N`. `#` begins a comment in
/// both texts. New rules, written to `policy`, apply to flows that are not decided on yet. In a hotswap, flows that
/// the ConnectionTracker takes over keep what was found and decided.
///
/// All memory is allocated when the router is initialized, or texts are written: for each stream two
/// WINDOWs, some 300 bytes for each of the TOP names, and 170 for each flow of the tracker.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> MarkIPHeader(14) -> ConnectionTracker(1000)
///     -> d :: FlowDPI("drop name example.com # and its subdomains
///         dscp 46 protocol rtp,sip", APPLICATIONS "video video.example cdn.example") -> Discard;
/// DriverManager(pause, print d.protocols, print d.names);
/// ```
///
/// # See also
/// ConnectionTracker, FlowIDS, FlowFirewall, FlowMonitor
#[derive(Element)]
#[element(
    ports = "1-/1-",
    processing = "h/h",
    segments,
    handlers,
    take_over,
    provides(FlowUser)
)]
#[inputs("packets from the side of the same number")]
#[outputs(
    "packets that pass, by the number of their side; after them, packets of rules with output"
)]
pub struct FlowDPI {
    /// The rules.
    #[arg(positional, name = "POLICY")]
    policy_text: String,
    /// The applications.
    #[arg(name = "APPLICATIONS")]
    applications_text: String,
    /// Directions of TCP connections, and clients of QUIC, that are put together at a time.
    #[arg(default = 256)]
    streams: u32,
    /// Bytes of a direction of a TCP connection that are looked at: 512 to 65536.
    #[arg(default = 4096)]
    window: u32,
    /// Names of servers that are counted; 65536 at most.
    #[arg(default = 256)]
    top: u32,
    /// Packets that rules dropped.
    #[handler(read)]
    drops: u64,
    /// Flows whose first segment decided because all streams were in use.
    #[handler(read)]
    unassembled: u64,
    /// Segments dropped because their data differ from those before at the same place.
    #[handler(read)]
    conflicts: u64,
    policy: Policy,
    applications: Applications,
    by_protocol: Vec<Count>,
    by_application: Vec<Count>,
    names: Top<Name>,
    flows: FlowStates<State>,
    assembly: Streams,
    /// For messages of TLS in several records, and for packets of QUIC.
    scratch: Vec<u8>,
    tracker: Option<Link<dyn Tracker>>,
}

/// A number of flows, their packets and bytes.
#[derive(Clone, Copy, Default)]
struct Count {
    flows: u64,
    packets: u64,
    bytes: u64,
}

impl Count {
    fn add(&mut self, flows: u64, packets: u64, bytes: u64) {
        self.flows += flows;
        self.packets += packets;
        self.bytes += bytes;
    }
}

/// A flow.
#[derive(Default)]
struct State {
    /// What it is; as long as it is not decided on, the best guess.
    found: Found,
    is_decided: bool,
    /// Packets with data that told too little.
    seen: u8,
    application: Option<u16>,
    action: Action,
    packets: u64,
    bytes: u64,
    sides: [Side; 2],
}

const _: () = assert!(size_of::<State>() <= 170);

/// A direction of a flow.
#[derive(Clone, Copy, Default)]
struct Side {
    /// The sequence number of the first byte, once it is known.
    first: Option<u32>,
    /// The stream, less one; 0: none.
    stream: u32,
    /// Whether its bytes tell nothing.
    is_done: bool,
    /// The stream and number of the last datagram, if it may be RTP's.
    rtp: Option<(u32, u16)>,
}

#[handlers]
impl FlowDPI {
    /// A line for each protocol that there was: its name, flows, packets and bytes.
    #[read(expensive)]
    fn protocols(&self) -> Result<String, HandlerError> {
        let names = Protocol::ALL.iter().map(|protocol| protocol.name());
        list(names, &self.by_protocol)
    }

    /// A line for each application that there was: its name, flows, packets and bytes.
    #[read(name = "applications", expensive)]
    fn read_applications(&self) -> Result<String, HandlerError> {
        let names = self.applications.names().iter();
        list(names.map(String::as_str), &self.by_application)
    }

    /// A line for each flow: IP protocol, source and destination with their ports, the protocol, the
    /// application, the server's name and the first protocol offered in TLS (`-` if there is none),
    /// packets and bytes.
    #[read(name = "flows", expensive)]
    fn read_flows(&self, cx: &mut Cx<'_>) -> Result<String, HandlerError> {
        // The tracker cannot be asked while the text is written.
        let mut ends = Vec::new();
        let count = self.flows.iter().filter(|state| state.packets > 0).count();
        if ends.try_reserve_exact(count).is_err() {
            let text = format!("no memory for a list of {count} flows; {MORE_MEMORY}");
            return Err(HandlerError::failed(FailureKind::NoMemory, text));
        }
        for (number, state) in (0..)
            .zip(self.flows.iter())
            .filter(|(_, it)| it.packets > 0)
        {
            let opener = self
                .tracker
                .and_then(|tracker| cx.reach(tracker, |it, _| it.opener(number)));
            if let Some((protocol, key)) = opener.flatten() {
                ends.push((protocol, key, state));
            }
        }
        listing(|out| {
            ends.iter().try_for_each(|(protocol, key, state)| {
                let found = &state.found;
                let application = state
                    .application
                    .and_then(|number| self.applications.names().get(usize::from(number)));
                let application = application.map_or("-", String::as_str);
                writeln!(
                    out,
                    "{protocol} {key} {} {application} {} {} {} {}",
                    found.protocol.name(),
                    found.name,
                    found.alpn,
                    state.packets,
                    state.bytes,
                )
            })
        })
    }

    /// The servers' names with the most flows, ten unless the parameter says how many: name, flows, and how
    /// many of these may be others'.
    #[read(expensive)]
    fn names(&self, most: &str) -> Result<String, String> {
        let lines = self.names.top(how_many(most, "names")?);
        let lines = lines.into_iter();
        Ok(lines
            .map(|name| format!("{} {} {}\n", name.key, name.count, name.error))
            .collect())
    }

    /// The rules, as they were written.
    #[read]
    fn read_policy(&self) -> &str {
        &self.policy_text
    }

    /// Replaces the rules. A mistake is told with its line, and changes nothing.
    #[write]
    fn write_policy(&mut self, cx: &mut Cx<'_>, text: &str) -> Result<(), HandlerError> {
        has_memory_for(text).map_err(no_memory)?;
        self.policy = Policy::compile(text, &self.applications, cx.outputs()).map_err(invalid)?;
        self.policy_text = text.into();
        Ok(())
    }

    /// The table of applications, as it was written.
    #[read]
    fn read_domains(&self) -> &str {
        &self.applications_text
    }

    /// Replaces the table of applications. A mistake is told with its line, and changes nothing. The
    /// counts of applications begin at 0.
    #[write]
    fn write_domains(&mut self, cx: &mut Cx<'_>, text: &str) -> Result<(), HandlerError> {
        has_memory_for(text).map_err(no_memory)?;
        let applications = Applications::parse(text).map_err(invalid)?;
        let policy = Policy::compile(&self.policy_text, &applications, cx.outputs())
            .map_err(|(line, why)| invalid((line, format!("{why}, which the policy names"))))?;
        self.by_application = vec![Count::default(); applications.names().len()];
        for state in self.flows.iter_mut() {
            state.application = applications.of(&state.found.name);
        }
        (self.applications, self.policy) = (applications, policy);
        self.applications_text = text.into();
        Ok(())
    }

    /// A line for each rule: how many flows it decided on, and the rule.
    #[read(expensive)]
    fn hits(&self) -> Result<String, HandlerError> {
        listing(|out| {
            let mut rules = self.policy.hits();
            rules.try_for_each(|(hits, rule)| writeln!(out, "{hits} {rule}"))
        })
    }

    /// Sets all counts to 0.
    #[write(button)]
    fn reset(&mut self) {
        self.by_protocol.fill(Count::default());
        self.by_application.fill(Count::default());
        self.names.clear();
        self.policy.clear();
        (self.drops, self.unassembled, self.conflicts) = (0, 0, 0);
    }
}

/// Lines of names and their counts, without those that are 0.
fn list<'n>(
    names: impl Iterator<Item = &'n str> + Clone,
    counts: &[Count],
) -> Result<String, HandlerError> {
    listing(|out| {
        let mut lines = names.clone().zip(counts).filter(|(_, it)| it.packets > 0);
        lines.try_for_each(|(name, count)| {
            writeln!(
                out,
                "{name} {} {} {}",
                count.flows, count.packets, count.bytes
            )
        })
    })
}

fn invalid((line, why): (usize, String)) -> HandlerError {
    HandlerError::failed(FailureKind::Invalid, format!("line {line}: {why}"))
}

/// Whether a text can be taken in beside the one that it replaces.
fn has_memory_for(text: &str) -> Result<(), String> {
    let (lines, words) = (text.lines().count(), text.split_whitespace().count());
    match spare(3 * text.len() + LINE * lines + WORD * words + RESERVE) {
        true => Ok(()),
        false => Err(format!(
            "no memory for a text of {words} words; {MORE_MEMORY}"
        )),
    }
}

fn no_memory(why: String) -> HandlerError {
    HandlerError::failed(FailureKind::NoMemory, why)
}

impl FlowDPI {
    /// Counts a packet, looks at it if its flow is not decided on, and says where it goes.
    #[inline]
    fn judge(&mut self, cx: &mut Cx<'_>, port: usize, packet: &mut Packet) -> u32 {
        let Some(flow) = packet.flow() else {
            return port as u32;
        };
        if !packet.is_related() {
            let Some(state) = self.flows.of_number(flow) else {
                return port as u32;
            };
            let bytes = Upper::of(packet).map_or(0, |upper| upper.total as u64);
            let packets = packet.stands_for() as u64;
            state.packets += packets;
            state.bytes += bytes;
            if state.is_decided {
                self.by_protocol[state.found.protocol as usize].add(0, packets, bytes);
                let application = state.application.map(usize::from);
                if let Some(count) = application.and_then(|it| self.by_application.get_mut(it)) {
                    count.add(0, packets, bytes);
                }
            } else if !self.inspect(cx, flow, packet) {
                return DROP;
            }
        }
        let action = self
            .flows
            .of_number(flow)
            .map_or(Action::Pass, |it| it.action);
        match action {
            Action::Pass => {}
            Action::Drop => {
                self.drops += packet.stands_for() as u64;
                return DROP;
            }
            Action::Dscp(code_point) => {
                if let Some(mut ip) = tos::header(packet) {
                    ip.rewrite_tos(code_point << 2 | ip.tos() & 3);
                }
            }
            Action::Paint(colour) => packet.set_paint(colour),
            Action::Output(output) => return output.into(),
        }
        port as u32
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut Self) {
        let Some(tracker) = self.tracker else {
            return;
        };
        let (applications, outputs) = (&self.applications, cx.outputs());
        let keep = |state: &mut State| {
            // The streams stay behind.
            for side in &mut state.sides {
                side.is_done |= core::mem::take(&mut side.stream) != 0;
            }
            state.application = applications.of(&state.found.name);
            if matches!(state.action, Action::Output(output) if usize::from(output) >= outputs) {
                state.action = Action::Pass;
            }
        };
        self.flows
            .take_over(cx, tracker, &mut old.flows, keep, |_| {});
        (self.drops, self.unassembled) = (old.drops, old.unassembled);
        self.conflicts = old.conflicts;
        core::mem::swap(&mut self.by_protocol, &mut old.by_protocol);
        if self.top == old.top {
            core::mem::swap(&mut self.names, &mut old.names);
        }
        if self.applications_text == old.applications_text {
            core::mem::swap(&mut self.by_application, &mut old.by_application);
            if self.policy_text == old.policy_text {
                core::mem::swap(&mut self.policy, &mut old.policy);
            }
        }
    }
}

impl Element for FlowDPI {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (inputs, outputs) = (cx.inputs(), cx.outputs());
        if outputs < inputs {
            return Err(args.fail(format_args!(
                "{inputs} inputs need {inputs} outputs at least"
            )));
        }
        if !(512..=WINDOW_MAX).contains(&self.window) {
            return Err(args.fail(format_args!("WINDOW must be from 512 to {WINDOW_MAX}")));
        }
        if self.streams > STREAMS_MAX {
            return Err(args.fail(format_args!("STREAMS must be at most {STREAMS_MAX}")));
        }
        if !(1..=TOP_MAX).contains(&self.top) {
            return Err(args.fail(format_args!("TOP must be from 1 to {TOP_MAX}")));
        }
        for text in [&self.policy_text, &self.applications_text] {
            has_memory_for(text).map_err(|error| args.fail(error))?;
        }
        self.applications = Applications::parse(&self.applications_text)
            .map_err(|(line, why)| args.fail(format_args!("APPLICATIONS: line {line}: {why}")))?;
        self.policy = Policy::compile(&self.policy_text, &self.applications, outputs)
            .map_err(|(line, why)| args.fail(format_args!("POLICY: line {line}: {why}")))?;
        self.by_application = vec![Count::default(); self.applications.names().len()];
        self.by_protocol = vec![Count::default(); Protocol::ALL.len()];
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.tracker = Some(self.flows.reserve_tracked(cx)?);
        let (streams, window) = (self.streams as usize, self.window as usize);
        let scratch = window.max(quic::DATAGRAM_MAX);
        let reserved = self.assembly.reserve(streams, window)
            && self.names.reserve(self.top as usize)
            && self.scratch.try_reserve_exact(scratch).is_ok();
        if !reserved {
            return Err(cx.error(format_args!(
                "out of memory for {streams} streams of {window} bytes and {} names; give smaller STREAMS, \
                 WINDOW or TOP, or a guest more memory, as in --memory 64M", self.top
            )));
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        self.flows.prefetch(batch);
        let mut outputs = [DROP; BATCH];
        for (packet, output) in batch.iter_mut().zip(&mut outputs) {
            *output = self.judge(cx, port, packet);
        }
        send(cx, batch, &outputs)
    }
}

impl FlowUser for FlowDPI {
    fn flow_ended(&mut self, _cx: &mut Cx<'_>, flow: u32) {
        let mut state = self.flows.take(flow);
        state.release(&mut self.assembly);
        if state.packets > 0 && !state.is_decided {
            self.by_protocol[state.found.protocol as usize].add(1, state.packets, state.bytes);
        }
    }
}
