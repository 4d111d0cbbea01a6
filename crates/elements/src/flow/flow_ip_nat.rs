use super::ftp::Announced;
use super::ip6::AnyKey;
use super::mappings::{Endpoint, Mappings};
use super::translation::Translation;
use super::{FlowStates, FlowUser, Tracker};
use crate::filters::dispatch::{DROP, send};
use crate::prelude::*;
use crate::rewriter::flow::Direction;
use crate::rewriter::headers;
use crate::rewriter::key::FlowKey;
use crate::rewriter::payload::replace;
use crate::rewriter::sequence::Sequences;

/// FTP's control port.
const FTP: u16 = 21;
/// Most announcements that wait for their connections.
const EXPECTED_MAX: usize = 1024;
/// Nanoseconds that an announcement is waited for.
const EXPECTED: u64 = 60_000_000_000;
/// Nanoseconds between two looks at them.
const INTERVAL: u64 = 1_000_000_000;

/// Lets hosts inside share one address: network address and port translation (NAPT).
///
/// A connection from inside gets ADDRESS as its source, and a port of PORTS; its replies come back to
/// the host. The port is the same for all destinations of one port of a host (RFC 4787, section
/// 4.1), and ports are taken at random (RFC 6056). TCP, UDP, and the identifiers of ICMP queries are
/// translated so; of other protocols, whose packets have no port to change, one host inside can talk
/// to each address at a time. DCCP and UDP-Lite are refused. ICMP errors are translated with the
/// packet that they are about; an error from inside gets ADDRESS as its source (RFC 5508).
///
/// A connection from outside is refused, unless a FORWARD is about its port, or FILTERING is
/// `independent` and a host inside uses the port. Hosts inside reach each other by ADDRESS and the
/// ports that stand for them (hairpinning).
///
/// FTP works in both directions: what PORT, EPRT and the answers 227 and 229 announce on connections
/// to port 21 is rewritten, and the data connection from the other side is expected for 60 s.
///
/// A ConnectionTracker upstream finds connections, and holds as many as it has room for. All
/// memory is allocated when the router is initialized: about 100 bytes for each of its connections. If no
/// port is free, new connections are refused.
///
/// In a hotswap, the connections that the ConnectionTracker takes over go on if ADDRESS and PORTS stay as
/// they are; a FORWARD that is gone lasts as long as its connections.
///
/// # Example
/// ```click
/// t :: ConnectionTracker(4096);
/// n :: FlowIPNAT(198.51.100.2, tcp 8080 192.168.1.10 80);
/// FromDump(inside.pcap) -> MarkIPHeader(14) -> [0] t [0] -> [0] n [0] -> Discard;
/// FromDump(outside.pcap) -> MarkIPHeader(14) -> [1] t [1] -> [1] n [1] -> Discard;
/// ```
///
/// # See also
/// ConnectionTracker, IPRewriter, FlowFirewall
#[derive(Element)]
#[element(
    ports = "2/2",
    processing = "h/h",
    segments,
    handlers,
    take_over,
    provides(FlowUser)
)]
#[inputs("packets from inside", "packets from outside")]
#[outputs("packets to the outside", "packets to the inside")]
pub struct FlowIPNAT {
    /// The address outside.
    #[arg(mandatory, read)]
    address: Ipv4Addr,
    /// The ports of ADDRESS that connections from inside get, as in 1024-65535.
    #[arg(with = port_range, kind = "range of ports", default = (1024, 65535), default_text = "1024-65535")]
    ports: (u16, u16),
    /// Who may send to a port that a host inside uses: `dependent`, only hosts that it sent to;
    /// `independent`, all.
    #[arg(with = kind_of_filtering, kind = "dependent or independent", default_text = "dependent")]
    filtering: Filtering,
    /// `PROTOCOL PORT ADDRESS PORT`: connections of `tcp` or `udp` to the first port go to the second port of a
    /// host inside.
    #[arg(rest, name = "FORWARD", kind = "any number of forwards")]
    forwards: Vec<String>,
    /// Connections that were refused because no port was free.
    #[handler(read)]
    exhausted: u64,
    /// Packets that were dropped.
    #[handler(read)]
    drops: u64,
    mappings: Mappings,
    /// Mappings below it are FORWARDs.
    fixed: u32,
    flows: FlowStates<State>,
    tracker: Option<Link<dyn Tracker>>,
    sequences: Sequences,
    expected: Vec<Expected>,
    timer: Option<TimerId>,
}

/// Who may send to a port that a host inside uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filtering {
    /// Hosts that it sent to (RFC 4787: address and port-dependent).
    #[default]
    Dependent,
    /// All (RFC 4787: endpoint-independent).
    Independent,
}

fn kind_of_filtering(text: &str, _context: &Context<'_>) -> Result<Filtering, Invalid> {
    match text {
        "dependent" => Ok(Filtering::Dependent),
        "independent" => Ok(Filtering::Independent),
        _ => Err(Invalid::because("write dependent or independent")),
    }
}

fn port_range(text: &str, _context: &Context<'_>) -> Result<(u16, u16), Invalid> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.parse().ok().zip(last.parse().ok());
    range
        .filter(|(first, last)| 0 < *first && first <= last)
        .ok_or_else(|| Invalid::because("write a range of ports, as in 1024-65535"))
}

/// A connection, as it is translated.
#[derive(Clone, Copy, Default)]
struct State {
    translation: Translation,
    fate: Fate,
    /// The outputs of packets in either direction.
    outputs: [u8; 2],
    /// Whether it is an FTP control connection.
    ftp: bool,
    /// The mappings that it holds, plus one; 0 for none.
    held: [u32; 2],
    /// Its changes of sequence numbers.
    extra: u32,
}

const _: () = assert!(size_of::<State>() <= 48);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Fate {
    /// Not decided.
    #[default]
    Unknown,
    Refused,
    Translated,
}

/// A connection that was announced.
#[derive(Clone, Copy)]
struct Expected {
    mapping: u32,
    from: Ipv4Addr,
    until: u64,
}

#[handlers]
impl FlowIPNAT {
    /// Mappings in use.
    #[read]
    fn count(&self) -> usize {
        self.mappings.count()
    }

    /// A line for each mapping: protocol, host inside and its port, port outside, and how many
    /// connections and announcements hold it.
    #[read(expensive, name = "mappings")]
    fn show_mappings(&self) -> Result<String, HandlerError> {
        listing(|out| {
            self.mappings.iter().try_for_each(|(inside, port, held)| {
                let (protocol, address) = (inside.protocol, Ipv4Addr::from_bits(inside.address));
                writeln!(out, "{protocol} {address} {} {port} {held}", inside.port)
            })
        })
    }
}

/// A FORWARD: the host's port inside, and the port outside.
fn forward(text: &str) -> Option<(Endpoint, u16)> {
    let words = click::config::split_space(text);
    let [protocol, outside, address, inside] = &words[..] else {
        return None;
    };
    let protocol = match protocol.as_str() {
        "tcp" => IpProtocol::TCP,
        "udp" => IpProtocol::UDP,
        _ => return None,
    };
    let port = |text: &String| text.parse().ok().filter(|port: &u16| *port > 0);
    let inside = Endpoint {
        protocol: protocol.0,
        address: address.parse::<Ipv4Addr>().ok()?.to_bits(),
        port: port(inside)?,
    };
    Some((inside, port(outside)?))
}

/// What becomes of a new connection.
struct Opened {
    rewritten: FlowKey,
    outputs: [u8; 2],
    held: [Option<u32>; 2],
}

impl FlowIPNAT {
    /// How a connection from inside is translated.
    fn open_from_inside(
        &mut self,
        protocol: IpProtocol,
        key: FlowKey,
        random: &mut Random,
    ) -> Option<Opened> {
        let mut rewritten = key;
        let mut held = [None; 2];
        let mut outputs = [0, 1];
        if key.destination() == self.address {
            let (number, inside) = self.mappings.outside(protocol.0, key.destination_port())?;
            if protocol == IpProtocol::ICMP {
                return None;
            }
            self.mappings.hold_again(number);
            held[1] = Some(number);
            rewritten = rewritten
                .with_destination(Ipv4Addr::from_bits(inside.address))
                .with_destination_port(inside.port);
            outputs = [1, 1];
        }
        rewritten = rewritten.with_source(self.address);
        match protocol {
            IpProtocol::TCP | IpProtocol::UDP | IpProtocol::ICMP => {
                held[0] = self.mappings.hold(
                    Endpoint {
                        protocol: protocol.0,
                        address: key.source().to_bits(),
                        port: key.source_port(),
                    },
                    random,
                );
                let port = held[0].and_then(|number| self.mappings.port(number));
                self.exhausted += u64::from(port.is_none());
                rewritten = rewritten.with_source_port(port.unwrap_or_default());
            }
            IpProtocol::DCCP | IpProtocol::UDP_LITE => return None,
            _ => {}
        }
        Some(Opened {
            rewritten,
            outputs,
            held,
        })
    }

    /// How a connection from outside is translated.
    fn open_from_outside(&mut self, protocol: IpProtocol, key: FlowKey) -> Option<Opened> {
        if key.destination() != self.address || protocol == IpProtocol::ICMP {
            return None;
        }
        let (number, inside) = self.mappings.outside(protocol.0, key.destination_port())?;
        let is_it = |it: &Expected| it.mapping == number && it.from == key.source();
        let expected = self.expected.iter().position(is_it);
        let open = number < self.fixed || self.filtering == Filtering::Independent;
        if let Some(at) = expected {
            // The connection takes the hold over.
            self.expected.swap_remove(at);
        } else if open {
            self.mappings.hold_again(number);
        } else {
            return None;
        }
        let rewritten = key
            .with_destination(Ipv4Addr::from_bits(inside.address))
            .with_destination_port(inside.port);
        Some(Opened {
            rewritten,
            outputs: [1, 0],
            held: [Some(number), None],
        })
    }

    /// Decides on a connection by its first packet.
    #[cold]
    fn open(&mut self, cx: &mut Cx<'_>, port: usize, flow: u32) {
        let Some(tracker) = self.tracker else {
            return;
        };
        let opener = cx.reach(tracker, |tracker, _| tracker.opener(flow));
        let Some((protocol, key)) = opener.flatten() else {
            return;
        };
        let Some(key) = key.v4() else {
            cx.reach(tracker, |tracker, _| tracker.refuse(flow));
            return;
        };
        let opened = match port {
            0 => self.open_from_inside(protocol, key, cx.random()),
            _ => self.open_from_outside(protocol, key),
        };
        let mut state = State {
            fate: Fate::Refused,
            ..State::default()
        };
        if let Some(opened) = opened {
            let Opened {
                rewritten, outputs, ..
            } = opened;
            state.held = opened.held.map(|held| held.map_or(0, |number| number + 1));
            let has_port = protocol != IpProtocol::TCP && protocol != IpProtocol::UDP
                || rewritten.source_port() != 0;
            let reply = AnyKey::V4(rewritten.reverse());
            let set = has_port
                && cx.reach(tracker, |tracker, _| tracker.set_reply(flow, reply)) == Some(true);
            if set {
                state.fate = Fate::Translated;
                state.outputs = outputs;
                state.translation = Translation::new(protocol, key, rewritten);
                state.ftp = protocol == IpProtocol::TCP && rewritten.destination_port() == FTP;
            } else {
                self.release(&state);
                state.held = [0; 2];
            }
        }
        if state.fate == Fate::Refused {
            cx.reach(tracker, |tracker, _| tracker.refuse(flow));
        }
        if let Some(place) = self.flows.of_number(flow) {
            *place = state;
        }
    }

    fn release(&mut self, state: &State) {
        for number in state.held.iter().filter_map(|held| held.checked_sub(1)) {
            self.mappings.release(number);
        }
    }

    /// Translates a packet; returns its output.
    #[inline]
    fn translate(&mut self, cx: &mut Cx<'_>, port: usize, packet: &mut Packet) -> Option<u32> {
        let flow = packet.flow()?;
        let mut state = *self.flows.of_number(flow)?;
        if state.fate == Fate::Unknown {
            if packet.is_reply() || packet.is_related() {
                return None;
            }
            self.open(cx, port, flow);
            state = *self.flows.of_number(flow)?;
        }
        if state.fate != Fate::Translated {
            return None;
        }
        let direction = match packet.is_reply() {
            true => Direction::Reply,
            false => Direction::Forward,
        };
        let output = state.outputs[direction as usize];
        if packet.is_related() {
            let source = (output == 0).then_some(self.address);
            state
                .translation
                .apply_to_error(direction, source, packet)?;
            return Some(output.into());
        }
        if state.ftp {
            self.help_ftp(cx, flow, direction, packet);
            state = *self.flows.of_number(flow)?;
        }
        state.translation.apply(direction, packet)?;
        if state.extra != 0 {
            let covered = !packet.needs_checksum();
            let (_, segment) = headers::parts_mut(packet)?;
            self.sequences
                .apply(state.extra, direction, segment, covered);
        }
        Some(output.into())
    }

    /// Rewrites what a segment of an FTP control connection announces of a host inside, and expects the
    /// connection.
    #[cold]
    fn help_ftp(
        &mut self,
        cx: &mut Cx<'_>,
        flow: u32,
        direction: Direction,
        packet: &mut Packet,
    ) -> Option<()> {
        let client = direction == Direction::Forward;
        let (ip, segment) = headers::parts(packet)?;
        let sender = Ipv4Addr::from_bits((headers::addresses(ip) >> 32) as u32);
        let announced = Announced::of(segment, client)?;
        let mut state = *self.flows.of_number(flow)?;
        let is_inside = matches!(
            (client, state.outputs),
            (true, [0, 1]) | (false, [1, 0]) | (_, [1, 1])
        );
        // Another host's address would make the NAT open a port that its host never asked for.
        if !is_inside || announced.address.is_some_and(|address| address != sender) {
            return None;
        }
        let other = state.translation.rewritten(direction).destination();
        let mapping = self.mappings.hold(
            Endpoint {
                protocol: IpProtocol::TCP.0,
                address: sender.to_bits(),
                port: announced.port,
            },
            cx.random(),
        )?;
        let port = self.mappings.port(mapping)?;
        let until = cx.steady().0 + EXPECTED;
        let is_it = |it: &&mut Expected| it.mapping == mapping && it.from == other;
        if let Some(known) = self.expected.iter_mut().find(is_it) {
            known.until = until;
            self.mappings.release(mapping);
        } else if self.expected.len() < EXPECTED_MAX {
            self.expected.push(Expected {
                mapping,
                from: other,
                until,
            });
        } else {
            self.mappings.release(mapping);
            return None;
        }
        let text = announced.text(self.address, port);
        let by = replace(packet, announced.place, text.as_bytes())?;
        self.sequences
            .change(&mut state.extra, direction, announced.next, by);
        *self.flows.of_number(flow)? = state;
        Some(())
    }
}

impl FlowIPNAT {
    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut Self) {
        (self.exhausted, self.drops) = (old.exhausted, old.drops);
        let same = (self.address, self.ports) == (old.address, old.ports);
        let Some(tracker) = self.tracker.filter(|_| same) else {
            return;
        };
        core::mem::swap(&mut self.sequences, &mut old.sequences);
        let mappings = &mut self.mappings;
        // Each connection holds its mappings again, by their new numbers.
        let keep = |state: &mut State| {
            for held in &mut state.held {
                let number = held.checked_sub(1).and_then(|number| {
                    let (inside, port) = old.mappings.get(number)?;
                    mappings.hold_as(inside, port)
                });
                *held = number.map_or(0, |number| number + 1);
            }
        };
        let sequences = &mut self.sequences;
        let lose = |state: State| sequences.end(state.extra);
        self.flows
            .take_over(cx, tracker, &mut old.flows, keep, lose);
        for expected in old.expected.drain(..) {
            let held = old.mappings.get(expected.mapping);
            let mapping = held.and_then(|(inside, port)| self.mappings.hold_as(inside, port));
            match mapping {
                Some(mapping) if self.expected.len() < EXPECTED_MAX => {
                    self.expected.push(Expected {
                        mapping,
                        ..expected
                    });
                }
                Some(mapping) => self.mappings.release(mapping),
                None => {}
            }
        }
    }
}

impl Element for FlowIPNAT {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        for text in self.forwards.iter().filter(|text| !text.is_empty()) {
            if forward(text).is_none() {
                return Err(args.fail(format_args!(
                    "‘{text}’ is no FORWARD: write PROTOCOL PORT ADDRESS PORT, as in tcp 8080 192.168.1.10 80"
                )));
            }
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.tracker = Some(self.flows.reserve_tracked(cx)?);
        let forwards = self.forwards.iter().filter(|text| !text.is_empty());
        let forwards: Vec<_> = forwards.filter_map(|text| forward(text)).collect();
        let capacity = self.flows.capacity() + forwards.len() + EXPECTED_MAX;
        let mappings = Mappings::new(capacity, self.ports, cx.random());
        let expected = self.expected.try_reserve_exact(EXPECTED_MAX);
        self.mappings = mappings.ok().filter(|_| expected.is_ok()).ok_or_else(|| {
            cx.error("out of memory for the mappings; give a guest more, as in --memory 32M")
        })?;
        for (inside, port) in &forwards {
            if !self.mappings.fix(*inside, *port) {
                return Err(cx.error(format_args!(
                    "two FORWARDs have the same port {port}, or one host's port"
                )));
            }
        }
        self.fixed = forwards.len() as u32;
        let timer = cx.timer();
        cx.schedule_after(timer, INTERVAL);
        self.timer = Some(timer);
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        self.flows.prefetch(batch);
        let mut outputs = [DROP; BATCH];
        // What FTP says may get longer.
        let kept = Facts::ALL.without(Facts::FITS_ETHERNET);
        for (packet, output) in batch.iter_mut_keeping(kept).zip(&mut outputs) {
            match self.translate(cx, port, packet) {
                Some(to) => *output = to,
                None => self.drops += packet.stands_for() as u64,
            }
        }
        send(cx, batch, &outputs)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let now = cx.steady().0;
        while let Some(at) = self.expected.iter().position(|it| it.until <= now) {
            let ended = self.expected.swap_remove(at);
            self.mappings.release(ended.mapping);
        }
        cx.schedule_after(timer, INTERVAL);
    }
}

impl FlowUser for FlowIPNAT {
    fn flow_ended(&mut self, _cx: &mut Cx<'_>, flow: u32) {
        let state = self.flows.take(flow);
        self.release(&state);
        self.sequences.end(state.extra);
    }
}
