mod cookie;
mod opening;
mod repeating;
mod segment;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod tests;

use cookie::{Cookies, SIZES};
use repeating::{Asked, Waiting};
use segment::Change;

use crate::filters::dispatch::{DROP, send};
use crate::flow::connections::Connections;
use crate::flow::ip6::{AnyKey, FlowKey6, Pair};
use crate::flow::probe::{Part, Probe, Unknown, probe};
use crate::flow::state::{ACK, RST, SYN, State, Step, TcpTimeouts};
use crate::flow::windows::SegmentNumbers;
use crate::prelude::*;
use crate::rewriter::flow::Direction;
use crate::rewriter::headers::{self, is_ip6};
use crate::rewriter::index::NoMemory;

/// Most connections, for which memory is allocated at once.
const CAPACITY_MAX: u32 = 1 << 22;
/// Nanoseconds of a tick.
const TICK: u64 = 1_000_000_000;
/// Ticks for which cookies have a key.
const PERIOD: u32 = 60;
/// The input from clients.
const CLIENTS: usize = 0;

/// Answers TCP connections on behalf of servers, and opens those whose client answers: a SYN proxy.
///
/// A SYN from the clients' side is answered by a SYN with a cookie for a sequence number (RFC 4987, section 3.6),
/// and nothing is kept of it. A client that is there acknowledges the cookie: now the connection has a place in the
/// table, and the proxy opens it to the server. When the server answers, the proxy lets the client send. From
/// then on it changes the sequence numbers, timestamps and windows of segments, found once by
/// their addresses and ports. The server sees no SYN of a client that is not there.
///
/// A cookie has a code of 28 bits, by a key of its own for each 60 s, and the client's segment size, one of 536,
/// 1220, 1300, 1360, 1400, 1440, 1452 and 1460; it is valid for one to two minutes. Window scale and SACK are in the
/// lowest bits of the timestamp, as Linux's SYNPROXY has them: a client without timestamps gets neither. Clients are
/// told MSS, SCALE, SACK and TIMESTAMPS before the server is asked: set them to what servers
/// do. Windows are changed if a server has another scale. If a server has no timestamps, but its client was told that
/// it has, the connection is reset (`mismatches`).
///
/// A client may send data when the server has answered. If the SYN to the server is lost, it is sent again when
/// the client sends again, and after 1 s, 3 s, and so on to 31 s; a client whose server does not answer in 63 s is
/// reset (`unanswered`). RSTs and FINs with wrong sequence numbers pass, and change nothing (see
/// ConnectionTracker). Segments from clients that belong to no connection, and have no cookie, are dropped
/// (`invalid`), and so are fragments of TCP (`fragments`). Connections that servers open are let through, and so is what
/// is not TCP. ICMP errors have the numbers of the segment that they are about changed back.
///
/// Connections are over IPv4 or IPv6. Clients are told 20 bytes less than MSS over IPv6, whose header is so much longer.
/// Segments that the proxy makes have no extension headers.
///
/// All memory is allocated when the router is initialized: about 250 bytes for each of CAPACITY connections; but 32 bytes
/// for the addresses of a connection over IPv6 are allocated as they come. When all are in use, a new one takes the place
/// of the oldest that is closed, or else of the oldest that its server has not answered; if there is none, it is dropped
/// (`full`). Connections end when they had no packet for the timeout of their state. In a hotswap with the same CAPACITY,
/// they go on.
///
/// Packets must have their IP header marked. What stands before it stays, with Ethernet addresses exchanged in
/// answers: the proxy works between two networks that are one, without addresses.
///
/// # Example
/// ```click
/// p :: SYNProxy(CAPACITY 10000);
/// FromDump(clients.pcap) -> MarkIPHeader(14) -> [0] p [0] -> Discard;
/// FromDump(servers.pcap) -> MarkIPHeader(14) -> [1] p [1] -> Discard;
/// ```
///
/// # See also
/// SourceLimiter, ConnectionTracker, StatelessTCPResponder
#[derive(Element)]
#[element(ports = "2/2", processing = "h/h", segments, handlers, take_over)]
#[inputs("packets from clients", "packets from servers")]
#[outputs("packets to servers", "packets to clients")]
pub struct SYNProxy {
    /// Most connections.
    #[arg(positional, default = 65536, read)]
    capacity: u32,
    /// The largest segment that servers take over IPv4.
    #[arg(default = 1460)]
    mss: u16,
    /// By how much servers scale their windows: 0 to 14.
    #[arg(default = 7)]
    scale: u8,
    /// Whether servers take selective acknowledgments.
    #[arg(default = true)]
    sack: bool,
    /// Whether servers have timestamps.
    #[arg(default = true)]
    timestamps: bool,
    #[flatten]
    timeouts: TcpTimeouts,
    /// SYNs that were answered.
    #[handler(read)]
    cookies: u64,
    /// Connections whose client answered.
    #[handler(read)]
    opened: u64,
    /// Connections that servers opened.
    #[handler(read)]
    passed: u64,
    /// Connections that servers refused.
    #[handler(read)]
    refused: u64,
    /// Connections that ended because their server did not answer.
    #[handler(read)]
    unanswered: u64,
    /// Connections that ended because the server has no timestamps.
    #[handler(read)]
    mismatches: u64,
    /// Connections that made room for others.
    #[handler(read)]
    evicted: u64,
    /// Segments dropped because all connections were in use.
    #[handler(read)]
    full: u64,
    /// Segments dropped because they belong to no connection.
    #[handler(read)]
    invalid: u64,
    /// Fragments dropped.
    #[handler(read)]
    fragments: u64,
    table: Connections,
    proxied: Vec<Proxied>,
    waiting: Waiting,
    /// The addresses of a batch's packets over IPv6.
    pairs: Vec<Pair>,
    keys: Cookies,
    /// The tick at which the key of new cookies ends.
    rotate_at: u32,
    timer: Option<TimerId>,
}

/// How far the opening of a connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// A server opened it: segments pass unchanged.
    #[default]
    Passing,
    /// The client answered, and the server is asked.
    Opening,
    /// Both answered.
    Open,
}

/// What is kept of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Proxied {
    phase: Phase,
    /// Whether a SYN came for it: its client may have begun another one.
    is_asked: bool,
    /// The initial sequence numbers of the client, and that which it knows of the server.
    client: u32,
    cookie: u32,
    size: u16,
    /// The client's window when it answered, and its scale.
    window: u16,
    scale: Option<u8>,
    sack: bool,
    /// The client's clock, and that which it knows of the server.
    stamps: Option<(u32, u32)>,
    /// Of segments from the client, and to it.
    changes: [Change; 2],
    asked: Asked,
}

const _: () = assert!(size_of::<Proxied>() <= 96);

/// What tells the connection of a packet.
struct Flow {
    probe: Probe,
    /// The addresses, if they are of IPv6.
    pair: Option<Pair>,
}

impl Flow {
    fn key(&self) -> AnyKey {
        match self.pair {
            None => AnyKey::V4(self.probe.key),
            Some(addresses) => AnyKey::V6(FlowKey6 {
                addresses,
                ports: self.probe.key.ports,
            }),
        }
    }
}

/// What becomes of a packet.
enum Fate {
    /// It leaves, to servers or to clients.
    To(usize),
    Invalid,
    Full,
}

const SERVERS_OUT: Fate = Fate::To(0);
const CLIENTS_OUT: Fate = Fate::To(1);

#[handlers]
impl SYNProxy {
    /// Connections in the table.
    #[read]
    fn count(&self) -> usize {
        self.table.count()
    }

    /// A line for each connection: its state, source and destination with their ports, and the seconds that it lives
    /// without packets.
    #[read(expensive)]
    fn table(&self) -> Result<String, HandlerError> {
        listing(|out| {
            self.table.iter().try_for_each(|(number, connection)| {
                let (state, left) = (connection.state, self.table.left(connection));
                match self.table.key(number, Direction::Forward) {
                    Some(key) => writeln!(out, "{state} {key} {left}"),
                    None => Ok(()),
                }
            })
        })
    }

    /// Sets all counters to 0.
    #[write(button)]
    fn reset(&mut self) {
        (self.cookies, self.opened, self.passed, self.refused) = (0, 0, 0, 0);
        (self.unanswered, self.mismatches, self.evicted) = (0, 0, 0);
        (self.full, self.invalid, self.fragments) = (0, 0, 0);
    }
}

impl SYNProxy {
    fn now(cx: &Cx<'_>) -> u32 {
        (cx.steady().0 / TICK) as u32
    }

    /// The connection that a packet belongs to, and the direction of the packet.
    #[inline]
    fn find(&self, Flow { probe, pair }: &Flow) -> Option<(u32, Direction)> {
        let (protocol, key, hash) = (probe.protocol, probe.key, probe.hash);
        match pair {
            None => self.table.find(protocol, key, hash),
            Some(pair) => self.table.find6(protocol, key, hash, *pair),
        }
    }

    /// What becomes of a TCP segment.
    #[inline]
    fn segment(
        &mut self,
        cx: &mut Cx<'_>,
        port: usize,
        flags: u8,
        flow: &Flow,
        packet: &mut Packet,
    ) -> Fate {
        let found = self.find(flow);
        let is_syn = flags & (SYN | ACK) == SYN;
        let Some((number, direction)) = found else {
            return match (port, is_syn) {
                (CLIENTS, true) => self.answer(cx, flow, packet),
                (CLIENTS, false) => self.open(flags, flow, packet),
                (_, true) => self.pass(flow, packet),
                (_, false) => Fate::Invalid,
            };
        };
        let Some(known) = self.proxied.get_mut(number as usize) else {
            return Fate::Invalid;
        };
        let is_proxied = known.phase != Phase::Passing;
        // Each side has its direction.
        if (port == CLIENTS) != (is_proxied == (direction == Direction::Forward)) {
            return Fate::Invalid;
        }
        if is_proxied && direction == Direction::Forward {
            if is_syn {
                known.is_asked = true;
                return self.answer(cx, flow, packet);
            }
            let is_over = matches!(
                self.table.get(number).map(|it| it.state),
                Some(State::Closed | State::Reset)
            );
            if (known.is_asked || is_over) && flags & (ACK | RST) == ACK {
                // A cookie begins another connection in its place.
                let opened = self.cookie(flow, packet);
                if let Some(new) = opened.filter(|new| new.cookie != self.cookie_of(number)) {
                    self.table.end(number);
                    return self.begin(flow, new, packet);
                }
            }
        }
        let known = self
            .proxied
            .get(number as usize)
            .copied()
            .unwrap_or_default();
        self.table.touch(number);
        match known.phase {
            Phase::Opening => self.opening(cx, number, &known, direction, flags, packet),
            Phase::Open if direction == Direction::Reply && flags & SYN != 0 => {
                self.confirm(&known, packet)
            }
            _ => self.follow(number, flow, direction, flags, packet),
        }
        .unwrap_or(Fate::Invalid)
    }

    fn cookie_of(&self, number: u32) -> u32 {
        let known = self.proxied.get(number as usize);
        known.map_or(0, |known| known.cookie)
    }

    fn set_state(&mut self, number: u32, state: State) {
        let timeout = self.timeouts.of(state);
        self.table.set_state(number, state, timeout);
    }
}

impl SYNProxy {
    /// A segment of a connection that is open.
    #[inline]
    fn follow(
        &mut self,
        number: u32,
        flow: &Flow,
        direction: Direction,
        flags: u8,
        packet: &mut Packet,
    ) -> Option<Fate> {
        let state = self.table.get(number)?.state;
        let known = self.proxied.get(number as usize)?;
        let mut segment = SegmentNumbers::of(packet)?;
        if direction == Direction::Forward {
            // As the server knows it.
            let change = known.changes[direction as usize].acknowledgment;
            segment.acknowledgment = segment.acknowledgment.wrapping_add(change);
        }
        let ends = self.table.note(number, direction, &segment);
        match state.after_segment(direction, flags, ends) {
            Step::State(next) if next != state => self.set_state(number, next),
            Step::State(_) => {}
            Step::Invalid => return None,
            Step::Restart => {
                self.table.end(number);
                return Some(self.pass(flow, packet));
            }
        }
        let known = self.proxied.get(number as usize)?;
        known.changes[direction as usize].apply(packet)?;
        let is_forward = direction == Direction::Forward;
        Some(match is_forward == (known.phase == Phase::Passing) {
            true => CLIENTS_OUT,
            false => SERVERS_OUT,
        })
    }

    /// An ICMP error: what it quotes of a segment to the client becomes what the server sent.
    #[cold]
    fn relate(&mut self, port: usize, flow: &Flow, packet: &mut Packet) {
        let found = self.find(flow);
        let known = found.and_then(|(number, _)| self.proxied.get(number as usize));
        if let Some(known) = known.filter(|known| port == CLIENTS && known.phase == Phase::Open) {
            // An error that quotes too little for a sequence number says nothing of it.
            let _ = known.changes[Direction::Reply as usize].undo_quoted(packet);
        }
    }

    fn take_over(&mut self, _cx: &mut Cx<'_>, old: &mut Self) {
        if self.capacity == old.capacity {
            core::mem::swap(&mut self.table, &mut old.table);
            core::mem::swap(&mut self.proxied, &mut old.proxied);
            core::mem::swap(&mut self.waiting, &mut old.waiting);
        }
        (self.keys, self.rotate_at) = (old.keys, old.rotate_at);
        (self.cookies, self.opened, self.passed) = (old.cookies, old.opened, old.passed);
        (self.refused, self.mismatches, self.evicted) = (old.refused, old.mismatches, old.evicted);
        self.unanswered = old.unanswered;
        (self.full, self.invalid, self.fragments) = (old.full, old.invalid, old.fragments);
    }
}

/// What a packet is to the proxy.
#[derive(Clone, Copy)]
enum Kind {
    /// Not TCP, or about TCP.
    Other,
    Segment(u8, Probe),
    Error(Probe),
    Fragment,
    Invalid,
}

impl Kind {
    fn of(found: Probe) -> Kind {
        match found.part {
            Part::Segment(flags) => Kind::Segment(flags, found),
            Part::Error if found.protocol == IpProtocol::TCP.0 => Kind::Error(found),
            _ => Kind::Other,
        }
    }
}

/// What an IPv4 packet is.
#[inline]
fn kind(packet: &Packet) -> Kind {
    let Some((ip, _)) = headers::parts(packet) else {
        return Kind::Invalid;
    };
    let protocol = headers::protocol(ip);
    if protocol != IpProtocol::TCP && protocol != IpProtocol::ICMP {
        return Kind::Other;
    }
    match (probe(packet), protocol) {
        (Ok(found), _) => Kind::of(found),
        (Err(_), IpProtocol::ICMP) => Kind::Other,
        (Err(Unknown::Fragment), _) => Kind::Fragment,
        (Err(Unknown::Invalid), _) => Kind::Invalid,
    }
}

/// The protocol of an IPv6 packet, of a later fragment too.
fn protocol6(packet: &Packet) -> Option<IpProtocol> {
    let ip = Ipv6Packet::new_quoted(packet.network_header()?).ok()?;
    let upper = ip.extensions().upper_layer().ok()?;
    Some(upper.protocol)
}

impl SYNProxy {
    /// What an IPv6 packet is, and its addresses if it belongs to a connection.
    #[inline(never)]
    fn kind6(&self, packet: &Packet) -> (Kind, Option<Pair>) {
        let unknown = match self.table.addresses.probe(packet) {
            Ok((mut found, pair)) => {
                found.hash = self.table.hash6(found.protocol, found.key);
                let kind = Kind::of(found);
                return (kind, (!matches!(kind, Kind::Other)).then_some(pair));
            }
            Err(unknown) => unknown,
        };
        let kind = match (protocol6(packet), unknown) {
            (Some(IpProtocol::TCP), Unknown::Fragment) => Kind::Fragment,
            (Some(IpProtocol::TCP) | None, _) => Kind::Invalid,
            (Some(_), _) => Kind::Other,
        };
        (kind, None)
    }
}

impl Element for SYNProxy {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if !(1..=CAPACITY_MAX).contains(&self.capacity) {
            return Err(args.fail(format_args!("CAPACITY must be from 1 to {CAPACITY_MAX}")));
        }
        if self.mss < SIZES[0] || self.scale > 14 {
            return Err(args.fail("MSS must be at least 536, and SCALE from 0 to 14"));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let seeds = [cx.random().next_u64(), cx.random().next_u64()];
        let capacity = self.capacity as usize;
        let proxied = self.proxied.try_reserve_exact(capacity);
        let room = proxied.and_then(|()| self.pairs.try_reserve_exact(BATCH));
        let room = room.map_err(|_| NoMemory);
        let table = room.and_then(|()| Connections::new(capacity, seeds));
        let both = table.and_then(|table| Ok((table, Waiting::new(capacity)?)));
        (self.table, self.waiting) = both.map_err(|_| {
            cx.error(format_args!(
                "out of memory for {capacity} connections; give a smaller CAPACITY, or a guest more \
                 memory, as in --memory 32M"
            ))
        })?;
        self.proxied.resize(capacity, Proxied::default());
        self.table.addresses.seeds = [cx.random().next_u64(), cx.random().next_u64()];
        let now = Self::now(cx);
        self.table.advance(now, |_| {});
        self.keys = Cookies::new(cx.random());
        self.rotate_at = now.wrapping_add(PERIOD);
        let timer = cx.timer();
        cx.schedule_after(timer, TICK);
        self.timer = Some(timer);
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        self.table.begin();
        let mut kinds = [Kind::Invalid; BATCH];
        let mut pairs = core::mem::take(&mut self.pairs);
        for (packet, slot) in batch.iter().zip(&mut kinds) {
            if is_ip6(packet) {
                let (kind, pair) = self.kind6(packet);
                *slot = kind;
                pairs.extend(pair);
            } else {
                *slot = kind(packet);
                if let Kind::Segment(_, probe) | Kind::Error(probe) = slot {
                    probe.hash = self.table.hash(probe.protocol, probe.key);
                }
            }
            if let Kind::Segment(_, probe) | Kind::Error(probe) = slot {
                self.table.prefetch(probe.hash);
            }
        }
        let mut found = pairs.iter().copied();
        let mut flow = |probe, packet: &Packet| Flow {
            probe,
            pair: is_ip6(packet).then(|| found.next()).flatten(),
        };
        let mut outputs = [DROP; BATCH];
        for ((packet, kind), output) in batch.iter_mut().zip(kinds).zip(&mut outputs) {
            let packets = packet.stands_for() as u64;
            let fate = match kind {
                Kind::Other => Fate::To(port),
                Kind::Segment(flags, probe) => {
                    let flow = flow(probe, packet);
                    self.segment(cx, port, flags, &flow, packet)
                }
                Kind::Error(probe) => {
                    let flow = flow(probe, packet);
                    self.relate(port, &flow, packet);
                    Fate::To(port)
                }
                Kind::Fragment => {
                    self.fragments += packets;
                    continue;
                }
                Kind::Invalid => Fate::Invalid,
            };
            match fate {
                Fate::To(to) => *output = to as u32,
                Fate::Invalid => self.invalid += packets,
                Fate::Full => self.full += packets,
            }
        }
        pairs.clear();
        self.pairs = pairs;
        send(cx, batch, &outputs)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let now = Self::now(cx);
        self.table.advance(now, |_| {});
        if now.wrapping_sub(self.rotate_at) as i32 >= 0 {
            self.keys.rotate(cx.random());
            self.rotate_at = now.wrapping_add(PERIOD);
        }
        self.ask_again(cx);
        cx.schedule_after(timer, TICK);
    }
}
