use super::connections::Connections;
use super::ip6::{AnyKey, Pair};
use super::probe::{Part, Probe, Unknown, probe};
use super::state::{ACK, RST, SYN, State, Step, Timeouts};
use super::windows::{SegmentNumbers, TcpReceiver};
use super::{FlowManager, FlowUser, Tracker};
use crate::prelude::*;
use crate::rewriter::flow::Direction;
use crate::rewriter::headers::is_ip6;

/// Most connections, for which memory is allocated at once: some 400 MB.
const CAPACITY_MAX: u32 = 1 << 22;
/// Nanoseconds of a tick.
const TICK: u64 = 1_000_000_000;

/// Finds the connection of each packet, in both directions, for the elements behind it.
///
/// A connection begins with a TCP SYN, an ICMP echo or timestamp request, or any packet of another
/// protocol. Later packets of both directions have its number, and so have ICMP errors about them.
/// TCP connections go from state to state with the flags of their segments (RFC 9293). A RST counts only with
/// the sequence number that the receiver expects next, or one that is under way (RFC 5961), and a FIN only with
/// one in the receiver's window: forged ones, which do not know the numbers, pass and change nothing. A segment that
/// stands for others, which SettleFlows had passed on elsewhere, may be as much further as these reach. Of a
/// connection that is picked up in the middle, the scale of windows is not known: they count as the largest.
/// A SYN on a connection that is closed begins another one. Connections
/// of UDP, SCTP, DCCP and UDP-Lite have ports, ICMP queries have their identifier, and other
/// protocols are told by their addresses alone.
///
/// With LOOSE, a TCP segment without a SYN begins a connection too: the tracker picks up those that
/// are older than itself. They are established once the other side sends. The side that is seen first
/// counts as the one that opened it.
///
/// Packets that belong to no connection and begin none are dropped: TCP segments without a SYN,
/// flags that do not go together, answers without a question, errors about an unknown packet,
/// headers that are cut short. Fragments are dropped too; put an IPReassembler in front. Packets
/// must have their IP header marked.
///
/// Connections over IPv6 are tracked as those over IPv4 are. ICMPv6 echo requests begin connections as ICMP's do;
/// the messages of neighbor discovery and of multicast groups belong to none. A packet whose routing header of type 0
/// has places left to go to (RFC 5095) is invalid, and so is a fragment in a fragment.
///
/// A connection ends when it had no packet for the timeout of its state, or when an element behind
/// refuses it. All memory is allocated when the router is initialized: about 150 bytes for each of
/// CAPACITY connections, and more in the elements behind; but 32 bytes for the addresses of a connection over IPv6,
/// and 32 more if a balancer changes them, are allocated as they come. When all are in use, a new connection
/// takes the place of the oldest TCP connection that is closed, or if there is none of the oldest that is
/// not confirmed: one that had no reply, or no complete TCP handshake. If there is none, or none before
/// the batch at hand, the packet is dropped. So
/// a flood of new connections costs other new connections, and no established one.
///
/// In a hotswap, connections go on, and so does what FlowFirewall, FlowIPNAT and other elements behind
/// know of them; with a smaller CAPACITY, the connections that have no room end.
///
/// There must be no queue between this element and the elements that use its numbers.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> MarkIPHeader(14)
///     -> t :: ConnectionTracker(CAPACITY 4096) -> c :: FlowCounter -> Discard;
/// DriverManager(wait, print t.table);
/// ```
///
/// # See also
/// FlowIPManager, FlowFirewall, FlowCounter, IPReassembler
#[derive(Element)]
#[element(
    ports = "-/=",
    processing = "h/h",
    flow = "#/#",
    segments,
    handlers,
    take_over,
    phase = phase::DEFAULT - 1,
    provides(FlowManager, Tracker),
    is_a("VirtualFlowManager")
)]
#[inputs("packets of any side")]
#[outputs("packets of the input of the same number")]
pub struct ConnectionTracker {
    /// Most connections.
    #[arg(positional, default = 65536, read)]
    capacity: u32,
    #[flatten]
    timeouts: Timeouts,
    /// Whether a TCP segment without a SYN begins a connection, which is one that began before.
    #[arg(default = false)]
    loose: bool,
    /// Connections that began.
    #[handler(read)]
    opened: u64,
    /// Connections that made room for others.
    #[handler(read)]
    evicted: u64,
    /// Packets dropped because all connections were in use.
    #[handler(read)]
    drops: u64,
    /// Packets dropped because they belong to no connection and begin none.
    #[handler(read)]
    invalid: u64,
    /// Fragments dropped.
    #[handler(read)]
    fragments: u64,
    table: Connections,
    timer: Option<TimerId>,
    users: Vec<Link<dyn FlowUser>>,
    refused: Vec<u32>,
    /// What the packets of the batch at hand are, those of IPv6 apart, and invalid among the others; empty between
    /// batches.
    probes: Vec<Result<Probe, Unknown>>,
    probes6: Vec<Result<(Probe, Pair), Unknown>>,
    ended: Vec<u32>,
    /// Whether replies take another path.
    one_way: bool,
}

/// Why a packet is dropped.
#[derive(Clone, Copy)]
enum Refusal {
    Invalid,
    Fragment,
    Full,
}

#[handlers]
impl ConnectionTracker {
    /// Connections in the table.
    #[read]
    fn count(&self) -> usize {
        self.table.count()
    }

    /// A line for each connection: protocol, state, source and destination with their ports, the same
    /// of the packets that answer, and the seconds that it lives without packets.
    #[read(expensive)]
    fn table(&self) -> Result<String, HandlerError> {
        listing(|out| {
            self.table.iter().try_for_each(|(number, connection)| {
                let (protocol, state) = (connection.protocol().0, connection.state);
                let left = self.table.left(connection);
                let directions = [Direction::Forward, Direction::Reply];
                match directions.map(|direction| self.table.key(number, direction)) {
                    [Some(forward), Some(reply)] => {
                        writeln!(out, "{protocol} {state} {forward} {reply} {left}")
                    }
                    _ => Ok(()),
                }
            })
        })
    }

    /// Ends all connections.
    #[write(button)]
    fn clear(&mut self, cx: &mut Cx<'_>) {
        let all = self.table.iter().map(|(number, _)| number);
        self.ended.extend(all);
        for number in &self.ended {
            self.table.end(*number);
        }
        self.tell(cx);
    }
}

impl ConnectionTracker {
    /// Tells the elements behind of the connections that ended.
    fn tell(&mut self, cx: &mut Cx<'_>) {
        for flow in self.ended.drain(..) {
            for user in &self.users {
                cx.reach(*user, |user, cx| user.flow_ended(cx, flow));
            }
        }
    }

    fn now(cx: &Cx<'_>) -> u32 {
        (cx.steady().0 / TICK) as u32
    }

    /// Ends what was refused since the last batch.
    fn end_refused(&mut self, cx: &mut Cx<'_>) {
        let Self {
            table,
            refused,
            ended,
            ..
        } = self;
        ended.extend(refused.drain(..).filter(|number| table.end(*number)));
        self.tell(cx);
    }

    /// Finds the connection of a packet, or begins it, and marks the packet. `pair` are its addresses if it is IPv6.
    #[inline(always)]
    fn track(
        &mut self,
        cx: &mut Cx<'_>,
        probe: &Probe,
        pair: Option<Pair>,
        packet: &mut Packet,
    ) -> Option<Refusal> {
        let (protocol, key, hash) = (probe.protocol, probe.key, probe.hash);
        let found = match pair {
            None => self.table.find(protocol, key, hash),
            Some(pair) => self.table.find6(protocol, key, hash, pair),
        };
        let Some((number, direction)) = found else {
            return self.begin(cx, probe, pair, packet);
        };
        let reply = direction == Direction::Reply;
        let step = match (probe.part, self.table.get(number).map(|it| it.state)) {
            (_, None) => return Some(Refusal::Invalid),
            (Part::Error, Some(_)) => {
                packet.set_flow(Some(number));
                packet.set_flow_relation(reply, true);
                return None;
            }
            (Part::Query, Some(_)) if reply => return Some(Refusal::Invalid),
            (Part::Answer, Some(_)) if !reply => return Some(Refusal::Invalid),
            (Part::Segment(flags), Some(state)) => {
                match self.step(number, state, direction, flags, packet) {
                    Step::State(next) => (state, next),
                    Step::Invalid => return Some(Refusal::Invalid),
                    Step::Restart => {
                        self.table.end(number);
                        self.ended.push(number);
                        self.tell(cx);
                        return self.begin(cx, probe, pair, packet);
                    }
                }
            }
            (_, Some(state)) => (state, state.after_packet(direction)),
        };
        self.table.touch(number);
        if step.0 != step.1 {
            let timeout = self.timeouts.of(IpProtocol(protocol), step.1);
            self.table.set_state(number, step.1, timeout);
        }
        packet.set_flow(Some(number));
        packet.set_flow_relation(reply, false);
        None
    }

    /// Tracks an IPv6 packet.
    #[inline(never)]
    fn track6(
        &mut self,
        cx: &mut Cx<'_>,
        (probe, pair): &(Probe, Pair),
        packet: &mut Packet,
    ) -> Option<Refusal> {
        self.track(cx, probe, Some(*pair), packet)
    }

    /// What an IPv6 packet is.
    #[inline(never)]
    fn probe6(&self, packet: &Packet) -> Result<(Probe, Pair), Unknown> {
        let (probe, pair) = self.table.addresses.probe(packet)?;
        let hash = self.table.hash6(probe.protocol, probe.key);
        self.table.prefetch(hash);
        Ok((Probe { hash, ..probe }, pair))
    }

    #[inline]
    fn step(
        &mut self,
        number: u32,
        state: State,
        direction: Direction,
        flags: u8,
        packet: &Packet,
    ) -> Step {
        let segment = SegmentNumbers::of(packet);
        if self.one_way && direction == Direction::Forward {
            if let Some(segment) = segment {
                self.table.note_one_way(number, direction, &segment);
            }
            return state.after_one_way_segment(flags);
        }
        let ends = segment.is_some_and(|it| self.table.note(number, direction, &it));
        state.after_segment(direction, flags, ends)
    }

    fn take_over(&mut self, _cx: &mut Cx<'_>, old: &mut Self) {
        self.table.take_over(&mut old.table);
        let most = self.refused.capacity() - self.refused.len();
        self.refused.extend(old.refused.drain(..).take(most));
        (self.opened, self.evicted) = (old.opened, old.evicted);
        (self.drops, self.invalid, self.fragments) = (old.drops, old.invalid, old.fragments);
    }

    /// Begins the connection of its first packet.
    #[cold]
    fn begin(
        &mut self,
        cx: &mut Cx<'_>,
        probe: &Probe,
        pair: Option<Pair>,
        packet: &mut Packet,
    ) -> Option<Refusal> {
        let state = match probe.part {
            Part::Segment(flags) if flags & (SYN | ACK | RST) == SYN => State::SynSent,
            Part::Segment(flags) if self.loose && flags & (SYN | RST) == 0 => State::New,
            Part::Packet | Part::Query => State::New,
            _ => return Some(Refusal::Invalid),
        };
        let (protocol, key, hash) = (probe.protocol, probe.key, probe.hash);
        let timeout = self.timeouts.of(IpProtocol(protocol), state);
        let (ended, evicted) = (&mut self.ended, &mut self.evicted);
        let evicts = |number| {
            *evicted += 1;
            ended.push(number);
        };
        let added = match pair {
            None => self.table.add(protocol, key, hash, timeout, evicts),
            Some(pair) => self.table.add6(protocol, key, hash, pair, timeout, evicts),
        };
        self.tell(cx);
        let Some(number) = added else {
            return Some(Refusal::Full);
        };
        self.table.set_state(number, state, timeout);
        if matches!(probe.part, Part::Segment(_))
            && !self.one_way
            && let Some(segment) = SegmentNumbers::of(packet)
        {
            self.table.note(number, Direction::Forward, &segment);
        }
        self.opened += 1;
        packet.set_flow(Some(number));
        None
    }

    #[cold]
    fn dispose(&mut self, cx: &mut Cx<'_>, packet: Packet, refusal: Refusal) {
        let packets = packet.stands_for() as u64;
        match refusal {
            Refusal::Invalid => self.invalid += packets,
            Refusal::Fragment => self.fragments += packets,
            Refusal::Full => {
                if self.drops == 0 {
                    let (declaration, capacity) = (cx.declaration(), self.capacity);
                    cx.chatter(format_args!(
                        "{declaration}: all {capacity} connections are in use; packets of new ones are dropped"
                    ));
                }
                self.drops += packets;
            }
        }
        cx.kill(packet);
    }
}

impl Element for ConnectionTracker {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if !(1..=CAPACITY_MAX).contains(&self.capacity) {
            return Err(args.fail(format_args!("CAPACITY must be from 1 to {CAPACITY_MAX}")));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let seeds = [cx.random().next_u64(), cx.random().next_u64()];
        let capacity = self.capacity as usize;
        let table = Connections::new(capacity, seeds);
        let lists = [&mut self.ended, &mut self.refused];
        let mut lists = lists.into_iter();
        let reserved = lists
            .all(|list| list.try_reserve(2 * capacity.min(BATCH) + capacity).is_ok())
            && self.probes.try_reserve_exact(BATCH).is_ok()
            && self.probes6.try_reserve_exact(BATCH).is_ok();
        self.table = table.ok().filter(|_| reserved).ok_or_else(|| {
            cx.error(format_args!(
                "out of memory for {capacity} connections; give a smaller CAPACITY, or a guest more \
                 memory, as in --memory 32M"
            ))
        })?;
        self.table.addresses.seeds = [cx.random().next_u64(), cx.random().next_u64()];
        self.table.advance(Self::now(cx), |_| {});
        let timer = cx.timer();
        cx.schedule_after(timer, TICK);
        self.timer = Some(timer);
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        if !self.refused.is_empty() {
            self.end_refused(cx);
        }
        self.table.begin();
        // Here they need not be written before.
        let mut probes = core::mem::take(&mut self.probes);
        let mut probes6 = core::mem::take(&mut self.probes6);
        probes.extend(batch.iter().map(|packet| {
            let probe = probe(packet).inspect_err(|_| {
                if is_ip6(packet) {
                    probes6.push(self.probe6(packet));
                }
            })?;
            let hash = self.table.hash(probe.protocol, probe.key);
            self.table.prefetch(hash);
            Ok(Probe { hash, ..probe })
        }));
        for probe in probes.iter().flatten() {
            self.table.prefetch_connection(probe.hash);
        }
        for (probe, _) in probes6.iter().flatten() {
            self.table.prefetch_connection(probe.hash);
        }
        let (mut found, mut found6) = (probes.iter(), probes6.iter());
        batch.filter_keeping(
            Facts::ALL,
            &mut (&mut *self, cx),
            |(this, cx), packet| {
                packet.set_flow(None);
                let unknown = match found.next() {
                    Some(Ok(probe)) => return this.track(cx, probe, None, packet),
                    Some(Err(_)) if is_ip6(packet) => match found6.next() {
                        Some(Ok(probe)) => return this.track6(cx, probe, packet),
                        Some(Err(unknown)) => *unknown,
                        None => Unknown::Invalid,
                    },
                    Some(Err(unknown)) => *unknown,
                    None => Unknown::Invalid,
                };
                Some(match unknown {
                    Unknown::Fragment => Refusal::Fragment,
                    Unknown::Invalid => Refusal::Invalid,
                })
            },
            |(this, cx), packet, refusal| this.dispose(cx, packet, refusal),
        );
        probes.clear();
        probes6.clear();
        (self.probes, self.probes6) = (probes, probes6);
        port
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        self.end_refused(cx);
        let ended = &mut self.ended;
        self.table
            .advance(Self::now(cx), |number| ended.push(number));
        self.tell(cx);
        cx.schedule_after(timer, TICK);
    }
}

impl FlowManager for ConnectionTracker {
    fn capacity(&self) -> usize {
        self.capacity as usize
    }

    fn register(&mut self, user: Link<dyn FlowUser>) {
        self.users.push(user);
    }
}

impl Tracker for ConnectionTracker {
    fn refuse(&mut self, flow: u32) {
        // Once each: the memory is reserved.
        if self.refused.len() < self.refused.capacity() {
            self.refused.push(flow);
        }
    }

    fn opener(&self, flow: u32) -> Option<(IpProtocol, AnyKey)> {
        let protocol = self.table.get(flow)?.protocol();
        Some((protocol, self.table.key(flow, Direction::Forward)?))
    }

    fn set_reply(&mut self, flow: u32, key: AnyKey) -> bool {
        self.table.set_reply(flow, key)
    }

    fn receiver(&self, flow: u32, reply: bool, segment: &SegmentNumbers) -> TcpReceiver {
        let direction = match reply {
            true => Direction::Reply,
            false => Direction::Forward,
        };
        let connection = self.table.get(flow);
        connection.map_or(TcpReceiver::UNKNOWN, |it| {
            it.windows.receiver(direction, segment)
        })
    }

    fn expect_no_replies(&mut self) {
        self.one_way = true;
    }
}
