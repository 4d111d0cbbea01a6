use super::servers::{Admin, Pool, SERVERS_MAX, Server, parse};
use super::{Checked, Servers};
use crate::filters::dispatch::{DROP, send};
use crate::flow::translation::Translation;
use crate::flow::{FlowStates, FlowUser, Tracker};
use crate::prelude::*;
use crate::rewriter::flow::Direction;
use crate::rewriter::headers;

/// The output of packets that no server takes.
const REFUSED: u32 = 2;

/// Distributes connections over servers, by Maglev's consistent hashing.
///
/// A SERVER is `ADDRESS[:PORT] [WEIGHT]`: with a port, clients' connections go to that port; with a
/// weight, up to 256, it gets as many times the connections of a server of weight 1; with weight 0, none.
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
/// is down: their next packets from clients leave by output 2, for a TCPReset, as do packets of new
/// connections when there is no server.
///
/// A ConnectionTracker upstream finds connections. All memory is allocated when the router is
/// initialized: about 56 bytes for each of its connections, and 200 KB for servers, of which there are 512 at
/// most.
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
}

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
    translation: Translation,
    choice: Choice,
}

const _: () = assert!(size_of::<State>() <= 56);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Choice {
    /// Not made.
    #[default]
    Unknown,
    /// No server.
    Refused,
    /// The server of this number.
    Server(u16),
}

/// A server as a handler is told it.
fn server(text: &str) -> Result<Server, HandlerError> {
    parse(text.trim()).ok_or_else(|| {
        let text = text.trim();
        let text = format!(
            "‘{text}’ is no server: write ADDRESS[:PORT] [WEIGHT], as in 10.0.0.11:8080 2, with a weight up to 256"
        );
        HandlerError::failed(FailureKind::Invalid, text)
    })
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
        let added = self.pool.add(server(value)?);
        added.map(|_| ()).ok_or_else(|| {
            let text = format!("there are {SERVERS_MAX} servers, the most; remove one first");
            HandlerError::failed(FailureKind::Failed, text)
        })
    }

    /// `ADDRESS[:PORT]`: a server gets no new connections.
    #[write]
    fn drain(&mut self, value: &str) -> Result<(), HandlerError> {
        self.set_admin(value, Admin::Draining)
    }

    /// `ADDRESS[:PORT]`: removes a server; its connections end.
    #[write]
    fn remove(&mut self, value: &str) -> Result<(), HandlerError> {
        self.set_admin(value, Admin::Removed)
    }

    fn set_admin(&mut self, value: &str, admin: Admin) -> Result<(), HandlerError> {
        let server = server(value)?;
        if self.pool.set_admin(&server, admin) {
            return Ok(());
        }
        let text = format!("there is no server {server}; ‘servers’ lists all");
        Err(HandlerError::failed(FailureKind::Invalid, text))
    }
}

impl FlowIPLoadBalancer {
    /// Chooses the server of a connection by its first packet.
    #[cold]
    fn open(&mut self, cx: &mut Cx<'_>, flow: u32) -> Option<()> {
        let tracker = self.tracker?;
        let opener = cx.reach(tracker, |tracker, _| tracker.opener(flow))?;
        let (protocol, key) = opener?;
        let Some(key) = key.v4() else {
            cx.reach(tracker, |tracker, _| tracker.refuse(flow));
            return None;
        };
        let of = match self.sticky {
            Stickiness::Connection => (protocol, key),
            Stickiness::Source => {
                let portless = key.with_source_port(0).with_destination_port(0);
                (IpProtocol(0), portless)
            }
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
                let mut to = key.with_destination(server.address);
                if server.port != 0 && protocol.has_ports() {
                    to = to.with_destination_port(server.port);
                }
                state.translation = Translation::new(protocol, key, to);
                let reply = to.reverse();
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
        let Choice::Server(number) = state.choice else {
            return (port == 0).then_some(REFUSED);
        };
        let server = self.pool.get_mut(number)?;
        let is_down = !server.healthy && self.down == Down::Reset;
        if server.admin == Admin::Removed || is_down {
            self.lost += packet.stands_for() as u64;
            let tracker = self.tracker?;
            cx.reach(tracker, |tracker, _| tracker.refuse(flow));
            return (port == 0).then_some(REFUSED);
        }
        if direction == Direction::Forward {
            server.packets += packet.stands_for() as u64;
        }
        let address = server.address;
        match self.mode {
            Mode::Direct => packet.set_dst_ip(address),
            Mode::Nat if packet.is_related() => {
                let (ip, _) = headers::parts(packet)?;
                let from = Ipv4Addr::from_bits((headers::addresses(ip) >> 32) as u32);
                // Clients do not know the server itself.
                let service = state.translation.rewritten(Direction::Reply).source();
                let source = (direction == Direction::Reply && from == address).then_some(service);
                state
                    .translation
                    .apply_to_error(direction, source, packet)?;
            }
            Mode::Nat => state.translation.apply(direction, packet)?,
        }
        Some(direction as u32)
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
    }
}

impl Element for FlowIPLoadBalancer {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let no_memory = "out of memory for servers; give a guest more, as in --memory 32M";
        self.pool = Pool::new().map_err(|_| args.fail(no_memory))?;
        for text in self.given.iter().filter(|text| !text.is_empty()) {
            let server = parse(text).ok_or_else(|| {
                args.fail(format_args!(
                    "‘{text}’ is no SERVER: write ADDRESS[:PORT] [WEIGHT], as in 10.0.0.11:8080 2, with a weight up to 256"
                ))
            })?;
            if self.pool.add(server).is_none() {
                return Err(args.fail(format_args!("more than {SERVERS_MAX} SERVERs")));
            }
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let tracker = self.flows.reserve_tracked(cx)?;
        if self.mode == Mode::Direct {
            cx.reach(tracker, |tracker, _| tracker.expect_no_replies());
        }
        self.tracker = Some(tracker);
        Ok(())
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

    fn set_health(&mut self, number: usize, healthy: bool) {
        self.pool.set_health(number, healthy);
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
