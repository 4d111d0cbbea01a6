use super::servers::{Admin, Pool, Server, parse};
use super::{Checked, Servers};
use crate::filters::dispatch::{DROP, send};
use crate::flow::ip6::{AnyKey, FlowKey6};
use crate::flow::translation::Translation;
use crate::flow::translation6::Translation6;
use crate::flow::upper::ends;
use crate::flow::windows::SegmentNumbers;
use crate::flow::{FlowStates, FlowUser, Tracker};
use crate::local::segment::{Segment, Style, make_any};
use crate::prelude::*;
use crate::rewriter::flow::Direction;

/// The output of packets that no server takes.
const REFUSED: u32 = 2;

/// Distributes connections over servers, by Maglev's consistent hashing.
///
/// A SERVER is `ADDRESS[:PORT] [WEIGHT]`: with a port, clients' connections go to that port; with a
/// weight, up to 256, it gets as many times the connections of a server of weight 1; with weight 0, none. A server
/// of IPv6 gets the connections over IPv6; with a port, its address stands in brackets, as in `[2001:db8::11]:8080`.
/// All packets of a connection go to the server that its first packet went to, whatever servers
/// come and go. A server that comes or goes changes the choice of few others' new connections, and
/// balancers with the same servers choose alike.
///
/// In the mode `nat`, the destination of packets becomes the server's address, and replies, which must come
/// back by input 1, get the service's address as their source; ICMP errors are translated too. In the mode
/// `direct`, packets stay as they are, and the destination annotation becomes the server's
/// address: an ARPQuerier sends them to it. Each server has the service's address as an address of
/// its own, of which its ARP is silent, and replies to clients by a path of its own.
///
/// A server takes no new connections while it is drained, or a HealthCheck finds it down. Its
/// connections go on while it is drained. They end when it is removed, and if DOWN is `reset` when it
/// is down: a reset goes to the client by output 1, with the number that it acknowledged last, and within 5 seconds
/// packets that it sends all the same leave by output 2, for a TCPReset, as do packets of new connections when there is
/// no server.
///
/// A ConnectionTracker upstream finds connections. All memory is allocated when the router is
/// initialized: about 56 bytes for each of its connections, and 200 KB for servers, of which there are 512 at
/// most. The first server of IPv6 takes 140 KB more, and translated connections over IPv6 take 64 bytes more.
///
/// # Example
/// ```click
/// t :: ConnectionTracker(4096);
/// b :: FlowIPLoadBalancer(10.0.0.11, 10.0.0.12:8080 2);
/// FromDump(clients.pcap) -> MarkIPHeader(14) -> [0] t [0] -> [0] b [0] -> Discard;
/// FromDump(servers.pcap) -> MarkIPHeader(14) -> [1] t [1] -> [1] b [1] -> Discard;
/// b[2] -> TCPReset -> Discard;
/// ```
///
/// # See also
/// ConnectionTracker, HealthCheck, TCPReset, SourceIPHashMapper, FlowIPNAT
#[derive(Element)]
#[element(
    ports = "2/3",
    processing = "h/h",
    segments,
    handlers,
    take_over,
    provides(FlowUser, Servers)
)]
#[inputs("packets from clients", "packets from servers")]
#[outputs(
    "packets to servers",
    "packets to clients",
    "packets from clients that no server takes"
)]
pub struct FlowIPLoadBalancer {
    /// How packets reach servers.
    #[arg(with = way, kind = "nat or direct", default_text = "nat")]
    mode: Mode,
    /// What connections have a server in common: `connection`, none but by chance; `source`, those
    /// of a client's address.
    #[arg(with = stickiness, kind = "connection or source", default_text = "connection")]
    sticky: Stickiness,
    /// What becomes of the connections of a server that is down: `reset` or `keep`.
    #[arg(with = when_down, kind = "reset or keep", default_text = "reset")]
    down: Down,
    /// Servers.
    #[arg(rest, name = "SERVER", kind = "any number of servers")]
    given: Vec<String>,
    /// New connections that found no server.
    #[handler(read)]
    refused: u64,
    /// Packets of connections whose server is gone.
    #[handler(read)]
    lost: u64,
    /// Packets that were dropped.
    #[handler(read)]
    drops: u64,
    pool: Pool,
    flows: FlowStates<State>,
    tracker: Option<Link<dyn Tracker>>,
    /// The flow at which the search for connections of servers that are gone goes on.
    search: Option<u32>,
    /// Whether it has reset connections, which another search is to end.
    has_reset: bool,
    timer: Option<TimerId>,
}

/// Flows that a search looks at before others have their turns again, and connections that it resets.
const SEARCHED: u32 = 4096;
/// See [`SEARCHED`].
const RESETS: usize = 64;
/// Nanoseconds until it goes on.
const PAUSE: u64 = 1_000_000;
/// Nanoseconds that a client has to answer a reset whose number is not the one that it expects.
const ANSWER: u64 = 5_000_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Nat,
    Direct,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stickiness {
    #[default]
    Connection,
    Source,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Down {
    #[default]
    Reset,
    Keep,
}

/// One of two words.
fn either<T>(text: &str, [a, b]: [(&str, T); 2]) -> Result<T, Invalid> {
    let because = format!("write {} or {}", a.0, b.0);
    let found = [a, b].into_iter().find(|(word, _)| *word == text);
    found
        .map(|(_, value)| value)
        .ok_or_else(|| Invalid::because(because))
}

fn way(text: &str, _context: &Context<'_>) -> Result<Mode, Invalid> {
    either(text, [("nat", Mode::Nat), ("direct", Mode::Direct)])
}

fn stickiness(text: &str, _context: &Context<'_>) -> Result<Stickiness, Invalid> {
    let words = [
        ("connection", Stickiness::Connection),
        ("source", Stickiness::Source),
    ];
    either(text, words)
}

fn when_down(text: &str, _context: &Context<'_>) -> Result<Down, Invalid> {
    either(text, [("reset", Down::Reset), ("keep", Down::Keep)])
}

/// A connection.
#[derive(Clone, Copy, Default)]
struct State {
    changes: Changes,
    choice: Choice,
}

const _: () = assert!(size_of::<State>() <= 56);

/// What is changed in its packets.
#[derive(Clone, Copy, Default)]
enum Changes {
    /// Nothing.
    #[default]
    None,
    V4(Translation),
    V6(Translation6),
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Choice {
    /// Not made.
    #[default]
    Unknown,
    /// No server.
    Refused,
    /// The server of this number.
    Server(u16),
    /// None any more, and the client was told.
    Reset,
}

/// The changes to the packets of a connection with a server, and the key of its replies.
fn translation(protocol: IpProtocol, key: AnyKey, server: &Server) -> Option<(Changes, AnyKey)> {
    let own_port = server.port != 0 && protocol.has_ports();
    match (key, server.address) {
        (AnyKey::V4(key), IpAddr::V4(address)) => {
            let mut to = key.with_destination(address);
            if own_port {
                to = to.with_destination_port(server.port);
            }
            let translation = Translation::new(protocol, key, to);
            Some((Changes::V4(translation), AnyKey::V4(to.reverse())))
        }
        (AnyKey::V6(key), IpAddr::V6(address)) => {
            let [client, service] = key.addresses;
            let [from, port] = [(key.ports >> 16) as u16, key.ports as u16];
            let to = (address, if own_port { server.port } else { port });
            let translation = Translation6::new((service, port), to);
            let reply = FlowKey6 {
                addresses: [address, client],
                ports: u32::from(to.1) << 16 | u32::from(from),
            };
            Some((Changes::V6(translation), AnyKey::V6(reply)))
        }
        _ => None,
    }
}

#[handlers]
impl FlowIPLoadBalancer {
    /// A line for each server: address, `up`, `down`, `draining` or `removed`, weight, connections that it
    /// has, connections that it had, and packets to it.
    #[read]
    fn servers(&self) -> String {
        self.pool.show()
    }

    /// `ADDRESS[:PORT] [WEIGHT]`: adds a server, or gives one another weight; one that is drained
    /// gets connections again.
    #[write]
    fn add(&mut self, value: &str) -> Result<(), HandlerError> {
        let added = self.pool.add(self.server(value)?);
        added.map_err(|full| HandlerError::failed(FailureKind::Failed, full.to_string()))
    }

    /// `ADDRESS[:PORT]`: a server gets no new connections.
    #[write]
    fn drain(&mut self, value: &str) -> Result<(), HandlerError> {
        self.set_admin(value, Admin::Draining)
    }

    /// `ADDRESS[:PORT]`: removes a server; its connections end.
    #[write]
    fn remove(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        self.set_admin(value, Admin::Removed)?;
        self.search(cx);
        Ok(())
    }

    /// A server as a handler is told it.
    fn server(&self, text: &str) -> Result<Server, HandlerError> {
        self.parse(text.trim())
            .map_err(|why| HandlerError::failed(FailureKind::Invalid, why))
    }

    fn set_admin(&mut self, value: &str, admin: Admin) -> Result<(), HandlerError> {
        let server = self.server(value)?;
        if self.pool.set_admin(&server, admin) {
            return Ok(());
        }
        let text = format!("there is no server {server}; ‘servers’ lists all");
        Err(HandlerError::failed(FailureKind::Invalid, text))
    }
}

impl FlowIPLoadBalancer {
    /// A server as it is written.
    fn parse(&self, text: &str) -> Result<Server, String> {
        let why = match parse(text) {
            Ok(server) if server.port != 0 && self.mode == Mode::Direct => {
                "in the mode direct, packets keep their port; write the address alone"
            }
            Ok(server) => return Ok(server),
            Err(why) => why,
        };
        Err(format!("‘{text}’ is no server: {why}"))
    }

    /// Begins to search for connections of servers that are gone.
    fn search(&mut self, cx: &mut Cx<'_>) {
        self.search = Some(0);
        if let Some(timer) = self.timer {
            cx.schedule_after(timer, 0);
        }
    }

    /// Resets a connection whose server is gone, and ends one that was reset before; returns whether it was reset.
    fn look_at(&mut self, cx: &mut Cx<'_>, flow: u32) -> Option<bool> {
        let tracker = self.tracker?;
        let state = self.flows.of_number(flow)?;
        match state.choice {
            Choice::Unknown | Choice::Refused => return Some(false),
            Choice::Reset => {
                cx.reach(tracker, |tracker, _| tracker.refuse(flow));
                return Some(false);
            }
            Choice::Server(number) => {
                let server = self.pool.get_mut(number)?;
                if !server.is_gone(self.down == Down::Reset) {
                    return Some(false);
                }
                server.connections = server.connections.saturating_sub(1);
                state.choice = Choice::Refused;
            }
        }
        let opener = cx.reach(tracker, |tracker, _| tracker.opener(flow));
        let (protocol, key) = opener.flatten()?;
        let any = SegmentNumbers::default();
        let mut expected = |reply| {
            let receiver = cx.reach(tracker, |tracker, _| tracker.receiver(flow, reply, &any));
            receiver.and_then(|receiver| receiver.acknowledged)
        };
        let (by_client, by_server) = (expected(true), expected(false));
        let sequence = match (protocol, by_client) {
            (IpProtocol::TCP, Some(sequence)) => sequence,
            // The client's next segment is answered.
            (IpProtocol::TCP, None) => return Some(false),
            // Its next packet begins another.
            _ => {
                cx.reach(tracker, |tracker, _| tracker.refuse(flow));
                return Some(false);
            }
        };
        let reset = Segment {
            source: key.reverse().from(),
            destination: key.from(),
            flags: TcpFlags::RST,
            sequence,
            acknowledgment: 0,
            payload: 0,
        };
        let style = Style {
            window: 0,
            ..Style::CONTROL
        };
        // The server may live.
        if let Some(sequence) = by_server {
            let reset = Segment {
                source: reset.destination,
                destination: reset.source,
                sequence,
                ..reset
            };
            self.reset_server(cx, flow, &reset, &style);
        }
        let reset = make_any(cx, &reset, &style, &[])?;
        cx.emit(1, reset);
        self.flows.of_number(flow)?.choice = Choice::Reset;
        Some(true)
    }

    /// Resets the server of a connection, whose packets are translated.
    fn reset_server(
        &mut self,
        cx: &mut Cx<'_>,
        flow: u32,
        reset: &Segment<IpAddr>,
        style: &Style,
    ) -> Option<()> {
        let changes = self.flows.of_number(flow)?.changes;
        let mut packet = make_any(cx, reset, style, &[])?;
        let translated = match changes {
            Changes::None => None,
            Changes::V4(translation) => translation.apply(Direction::Forward, &mut packet),
            Changes::V6(translation) => translation.apply(Direction::Forward, &mut packet),
        };
        match translated {
            Some(()) => cx.emit(0, packet),
            None => cx.kill(packet),
        }
        translated
    }

    /// Chooses the server of a connection by its first packet.
    #[cold]
    fn open(&mut self, cx: &mut Cx<'_>, flow: u32) -> Option<()> {
        let tracker = self.tracker?;
        let opener = cx.reach(tracker, |tracker, _| tracker.opener(flow))?;
        let (protocol, key) = opener?;
        let of = match self.sticky {
            Stickiness::Connection => (protocol, key),
            Stickiness::Source => (IpProtocol(0), key.with_ports(0)),
        };
        let number = self.pool.choose(of.0, of.1);
        self.refused += u64::from(number.is_none());
        let mut state = State {
            choice: number.map_or(Choice::Refused, Choice::Server),
            ..State::default()
        };
        if let Some(server) = number.and_then(|number| self.pool.get_mut(number)) {
            server.connections += 1;
            server.total += 1;
            if self.mode == Mode::Nat {
                let (changes, reply) = translation(protocol, key, server)?;
                state.changes = changes;
                if cx.reach(tracker, |tracker, _| tracker.set_reply(flow, reply)) != Some(true) {
                    server.connections -= 1;
                    state.choice = Choice::Refused;
                }
            }
        }
        if state.choice == Choice::Refused {
            cx.reach(tracker, |tracker, _| tracker.refuse(flow));
        }
        *self.flows.of_number(flow)? = state;
        Some(())
    }

    /// The output of a packet, which is translated.
    #[inline]
    fn balance(&mut self, cx: &mut Cx<'_>, port: usize, packet: &mut Packet) -> Option<u32> {
        let flow = packet.flow()?;
        let mut state = *self.flows.of_number(flow)?;
        if state.choice == Choice::Unknown {
            if port != 0 || packet.is_reply() || packet.is_related() {
                if !packet.is_related() {
                    // It would have the key of replies.
                    let tracker = self.tracker?;
                    cx.reach(tracker, |tracker, _| tracker.refuse(flow));
                }
                return None;
            }
            self.open(cx, flow)?;
            state = *self.flows.of_number(flow)?;
        }
        let direction = match packet.is_reply() {
            true => Direction::Reply,
            false => Direction::Forward,
        };
        // Each side sends its own direction's packets, and errors about the other's.
        if port != direction as usize {
            return None;
        }
        let server = match state.choice {
            Choice::Server(number) => self.pool.get_mut(number)?,
            _ => return self.refuse(cx, port, flow),
        };
        if server.is_gone(self.down == Down::Reset) {
            self.lost += packet.stands_for() as u64;
            return self.refuse(cx, port, flow);
        }
        if direction == Direction::Forward {
            server.packets += packet.stands_for() as u64;
        }
        let address = server.address;
        match (state.changes, address) {
            (Changes::None, IpAddr::V4(address)) => packet.set_dst_ip(address),
            (Changes::None, IpAddr::V6(address)) => packet.set_dst_ip6(address),
            (Changes::V4(translation), _) if packet.is_related() => {
                let [from, _] = ends(packet)?;
                // Clients do not know the server itself.
                let service = translation.rewritten(Direction::Reply).source();
                let source = (direction == Direction::Reply && from == address).then_some(service);
                translation.apply_to_error(direction, source, packet)?;
            }
            (Changes::V4(translation), _) => translation.apply(direction, packet)?,
            (Changes::V6(translation), _) if packet.is_related() => {
                translation.apply_to_error(direction, packet)?;
            }
            (Changes::V6(translation), _) => translation.apply(direction, packet)?,
        }
        Some(direction as u32)
    }

    /// The output of a packet that no server takes. The connection lives until its client is told.
    #[cold]
    fn refuse(&mut self, cx: &mut Cx<'_>, port: usize, flow: u32) -> Option<u32> {
        let tracker = self.tracker?;
        if port != 0 {
            return None;
        }
        cx.reach(tracker, |tracker, _| tracker.refuse(flow));
        Some(REFUSED)
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut Self) {
        let numbers = self.pool.take_over(&old.pool);
        (self.refused, self.lost, self.drops) = (old.refused, old.lost, old.drops);
        if self.mode != old.mode {
            return;
        }
        let Some(tracker) = self.tracker else {
            return;
        };
        let pool = &mut self.pool;
        let keep = |state: &mut State| {
            let Choice::Server(number) = state.choice else {
                return;
            };
            let number = numbers.get(usize::from(number)).copied().flatten();
            state.choice = number.map_or(Choice::Refused, Choice::Server);
            if let Some(server) = number.and_then(|number| pool.get_mut(number)) {
                server.connections += 1;
            }
        };
        self.flows
            .take_over(cx, tracker, &mut old.flows, keep, |_| {});
        self.search(cx);
    }
}

impl Element for FlowIPLoadBalancer {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.pool = Pool::new().map_err(|full| args.fail(format_args!("{full}")))?;
        for text in self.given.iter().filter(|text| !text.is_empty()) {
            let server = self.parse(text);
            let server = server.map_err(|why| args.fail(format_args!("{why}")))?;
            let added = self.pool.add(server);
            added.map_err(|full| args.fail(format_args!("{text}: {full}")))?;
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let tracker = self.flows.reserve_tracked(cx)?;
        if self.mode == Mode::Direct {
            cx.reach(tracker, |tracker, _| tracker.expect_no_replies());
        }
        self.tracker = Some(tracker);
        self.timer = Some(cx.timer());
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let Some(mut flow) = self.search else {
            return;
        };
        let capacity = self.flows.capacity() as u32;
        let until = capacity.min(flow.saturating_add(SEARCHED));
        let mut resets = 0;
        while flow < until && resets < RESETS {
            resets += usize::from(self.look_at(cx, flow) == Some(true));
            flow += 1;
        }
        self.has_reset |= resets > 0;
        if flow < capacity {
            self.search = Some(flow);
            cx.schedule_after(timer, PAUSE);
        } else if core::mem::take(&mut self.has_reset) {
            self.search = Some(0);
            cx.schedule_after(timer, ANSWER);
        } else {
            self.search = None;
        }
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        self.flows.prefetch(batch);
        let mut outputs = [DROP; BATCH];
        let kept = Facts::ALL.without(Facts::DESTINATION);
        for (packet, output) in batch.iter_mut_keeping(kept).zip(&mut outputs) {
            match self.balance(cx, port, packet) {
                Some(to) => *output = to,
                None => self.drops += packet.stands_for() as u64,
            }
        }
        send(cx, batch, &outputs)
    }
}

impl Servers for FlowIPLoadBalancer {
    fn server(&self, number: usize) -> Option<Checked> {
        self.pool.checked(number)
    }

    fn set_health(&mut self, cx: &mut Cx<'_>, number: usize, healthy: bool) {
        self.pool.set_health(number, healthy);
        if !healthy && self.down == Down::Reset {
            self.search(cx);
        }
    }
}

impl FlowUser for FlowIPLoadBalancer {
    fn flow_ended(&mut self, _cx: &mut Cx<'_>, flow: u32) {
        if let Choice::Server(number) = self.flows.take(flow).choice
            && let Some(server) = self.pool.get_mut(number)
        {
            server.connections = server.connections.saturating_sub(1);
        }
    }
}
