mod quality;
#[cfg(test)]
mod tests;

use quality::Quality;

use super::ip6::AnyKey;
use super::top::{Top, how_many};
use super::upper::Upper;
use super::{FlowStates, FlowUser, Tracker, watch};
use crate::prelude::*;

const SECOND: i64 = 1_000_000_000;
/// Nanoseconds between two looks at a part of the flows.
const TICK: u64 = 100_000_000;
/// Most addresses of `top`, and most records that wait.
const TOP_MAX: u32 = 1 << 16;
const RECORDS_MAX: u32 = 1 << 20;
/// Bytes of a flow that are counted as its sender's at once.
const STEP: u32 = 1 << 16;

/// What happened in one direction of a flow, since its record before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Addresses and ports. Of ICMP, the destination port is the type times 256, and the source port 0.
    pub key: AnyKey,
    /// The IP protocol.
    pub protocol: IpProtocol,
    /// Packets.
    pub packets: u64,
    /// Bytes, IP headers included.
    pub bytes: u64,
    /// When the first packet came, in nanoseconds since 1970.
    pub first: i64,
    /// When the last packet came.
    pub last: i64,
    /// All TCP flags.
    pub flags: u8,
    /// Why the record ends.
    pub end: End,
}

/// Why a record ends: flowEndReason of IPFIX.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum End {
    /// No packet for the idle timeout.
    #[default]
    Idle = 1,
    /// The active timeout.
    Active = 2,
    /// The connection ended.
    Closed = 3,
}

/// An element that makes records of flows.
pub trait Records {
    /// Has records kept until they are taken; false if there is no memory.
    fn keep(&mut self) -> bool;

    /// The oldest record.
    fn take(&mut self) -> Option<Record>;
}

impl Interface for dyn Records {
    const NAME: &'static str = "Records";
}

/// Measures flows: packets and bytes, round-trip times and retransmissions of TCP; and senders: the ones
/// with the most bytes.
///
/// A ConnectionTracker upstream says which flow a packet belongs to. Packets pass unchanged. ICMP errors
/// about a flow are counted as no packets of it.
///
/// A FlowExporter takes the records of flows. A record of each direction that had packets is made
/// when the connection ends, when it had no packet for IDLE, and each time that it is ACTIVE old; the next
/// one begins with the next packet. If RECORDS wait, further ones are lost (`unexported`).
///
/// Round-trip times of TCP are between this element and either side: from the handshake, and from
/// timestamps (RFC 7323), of which one at a time is followed in each direction. A segment counts as
/// retransmitted if its data came before or belongs before data that came; segments that overtook each
/// other count too, keep-alives do not.
///
/// Senders are counted by the space-saving algorithm, in TOP counters: bytes are never too low, and too
/// high by the error that stands beside them at most.
///
/// All memory is allocated when the router is initialized: some 350 bytes for each flow of the tracker. If all
/// its flows are in use, the tracker drops packets of new ones before they come here.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> MarkIPHeader(14)
///     -> ConnectionTracker(1000) -> m :: FlowMonitor -> Discard;
/// DriverManager(pause, print m.flows, print m.quality, print m.top);
/// ```
///
/// # See also
/// FlowExporter, ConnectionTracker, FlowCounter
#[derive(Element)]
#[element(
    ports = "-/=",
    processing = "h/h",
    flow = "#/#",
    handlers,
    provides(FlowUser, Records)
)]
#[inputs("packets of any side")]
#[outputs("packets of the input of the same number")]
pub struct FlowMonitor {
    /// Time without packets after which a record ends.
    #[arg(default = Timestamp(15 * SECOND))]
    idle: Timestamp,
    /// Time after which a record ends though packets come.
    #[arg(default = Timestamp(60 * SECOND))]
    active: Timestamp,
    /// Senders that are counted; 65536 at most.
    #[arg(default = 1000)]
    top: u32,
    /// Most records that wait to be exported.
    #[arg(default = 1024)]
    records: u32,
    /// Packets.
    #[handler(read)]
    count: u64,
    /// Flows that have packets.
    #[handler(read)]
    open: usize,
    /// Records made for a FlowExporter.
    #[handler(read)]
    made: u64,
    /// Records lost because too many waited.
    #[handler(read)]
    unexported: u64,
    /// TCP segments that count as retransmitted.
    #[handler(read)]
    retransmitted: u64,
    flows: FlowStates<State>,
    senders: Top<IpAddr>,
    waiting: VecDeque<Record>,
    /// Whether records are taken.
    exports: bool,
    tracker: Option<Link<dyn Tracker>>,
    timer: Option<TimerId>,
    /// The flow at which the next look begins.
    next: usize,
}

/// A direction of a flow: a line of the cache, the only one that most packets need.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Side {
    packets: u64,
    bytes: u64,
    /// What of it is in records.
    recorded: (u64, u64),
    first: i64,
    last: i64,
    /// TCP flags since the record before; of ICMP, the type.
    flags: u8,
    /// The flow's protocol, here because packets need no other line then; `None` before the first packet.
    protocol: Option<IpProtocol>,
    /// Bytes that are not counted as the sender's yet.
    uncounted: u32,
}

const _: () = assert!(size_of::<Side>() == 64);

/// A flow.
#[derive(Default)]
struct State {
    /// None before the first packet.
    ends: Option<(IpProtocol, AnyKey)>,
    began: i64,
    sides: [Side; 2],
    quality: Quality,
}

impl State {
    /// The record of a direction, if it has packets that are in none.
    fn record(&mut self, direction: usize, end: End) -> Option<Record> {
        let ((protocol, key), side) = (self.ends?, self.sides.get_mut(direction)?);
        let (packets, bytes) = side.recorded;
        if side.packets == packets {
            return None;
        }
        let key = if direction == 0 { key } else { key.reverse() };
        let is_icmp = matches!(protocol, IpProtocol::ICMP | IpProtocol::ICMPV6);
        let record = Record {
            key: match is_icmp {
                true => key.with_ports(u32::from(side.flags) << 8),
                false => key,
            },
            protocol,
            packets: side.packets - packets,
            bytes: side.bytes - bytes,
            first: side.first,
            last: side.last,
            flags: if is_icmp { 0 } else { side.flags },
            end,
        };
        side.recorded = (side.packets, side.bytes);
        (side.first, side.flags) = (0, 0);
        Some(record)
    }

    /// Counts bytes as their senders'.
    fn count_senders(&mut self, senders: &mut Top<IpAddr>) {
        let Some((_, key)) = self.ends else {
            return;
        };
        let ends = [key.source(), key.reverse().source()];
        for (side, sender) in self.sides.iter_mut().zip(ends) {
            match core::mem::take(&mut side.uncounted) {
                0 => {}
                bytes => senders.count(sender, bytes.into()),
            }
        }
    }

    /// When the record under way began, and when its last packet came; `None` if none is under way.
    fn under_way(&self) -> Option<(i64, i64)> {
        let sides = self
            .sides
            .iter()
            .filter(|side| side.packets > side.recorded.0);
        let spans = sides.map(|side| (side.first, side.last));
        spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Whether the connection was closed or reset.
    fn is_closed(&self) -> bool {
        const FIN_OR_RST: u8 = 0x05;
        let mut sides = self.sides.iter();
        let is_tcp = self
            .ends
            .is_some_and(|(protocol, _)| protocol == IpProtocol::TCP);
        is_tcp && sides.any(|side| side.flags & FIN_OR_RST != 0)
    }
}

#[handlers]
impl FlowMonitor {
    /// A line for each flow: protocol, source and destination with their ports, packets and bytes of it
    /// and of its answers, and its age in seconds.
    #[read(expensive)]
    fn flows(&self, cx: &mut Cx<'_>) -> Result<String, HandlerError> {
        let now = cx.wall();
        listing(|out| {
            self.states().try_for_each(|(protocol, key, state)| {
                let [there, back] = &state.sides;
                let age = (now - state.began).max(0) / SECOND;
                writeln!(
                    out,
                    "{protocol} {key} {} {} {} {} {age}",
                    there.packets, there.bytes, back.packets, back.bytes,
                )
            })
        })
    }

    /// A line for each TCP flow: source and destination with their ports; then of the destination
    /// and of the source: the round-trip time of the handshake, the smoothed and the least by timestamps, in
    /// microseconds (`-` if there is none), how many were measured, and the segments that it sent again.
    #[read(expensive)]
    fn quality(&self) -> Result<String, HandlerError> {
        listing(|out| {
            let mut flows = self
                .states()
                .filter(|(protocol, ..)| *protocol == IpProtocol::TCP);
            flows.try_for_each(|(_, key, state)| {
                let quality = &state.quality;
                write!(out, "{key}")?;
                for (half, handshake) in [(1, 0), (0, 1)] {
                    let half = &quality.halves[half];
                    let trips = &half.round_trips;
                    let known = |value: u32| (trips.count > 0).then_some(value);
                    let times = [
                        quality.handshake[handshake],
                        known(trips.smoothed),
                        known(trips.least),
                    ];
                    for time in times {
                        match time {
                            Some(time) => write!(out, " {time}")?,
                            None => write!(out, " -")?,
                        }
                    }
                    write!(out, " {} {}", trips.count, half.retransmitted)?;
                }
                writeln!(out)
            })
        })
    }

    /// The senders with the most bytes, ten unless the parameter says how many: address, bytes, and how many
    /// of these may be others'.
    #[read(name = "top", expensive)]
    fn read_top(&mut self, most: &str) -> Result<String, String> {
        let most = how_many(most, "senders")?;
        self.count_senders();
        let lines = self.senders.top(most).into_iter();
        Ok(lines
            .map(|sender| format!("{} {} {}\n", sender.key, sender.count, sender.error))
            .collect())
    }

    /// Sets the counts of senders to 0.
    #[write(button)]
    fn reset_top(&mut self) {
        self.count_senders();
        self.senders.clear();
    }
}

impl FlowMonitor {
    /// The flows that have packets.
    fn states(&self) -> impl Iterator<Item = (IpProtocol, AnyKey, &State)> {
        self.flows.iter().filter_map(|state| {
            let (protocol, key) = state.ends?;
            Some((protocol, key, state))
        })
    }

    /// Counts all bytes as their senders'.
    fn count_senders(&mut self) {
        for state in self.flows.iter_mut() {
            state.count_senders(&mut self.senders);
        }
    }

    #[inline]
    fn see(&mut self, cx: &mut Cx<'_>, packet: &Packet, now: i64) {
        let Some(flow) = packet.flow().filter(|_| !packet.is_related()) else {
            return;
        };
        let Some(upper) = Upper::of(packet) else {
            return;
        };
        let Some(state) = self.flows.of_number(flow) else {
            return;
        };
        let direction = usize::from(packet.is_reply());
        let protocol = match state.sides[direction].protocol {
            Some(protocol) => protocol,
            None => {
                let tracker = self.tracker;
                let opener = tracker.and_then(|tracker| cx.reach(tracker, |it, _| it.opener(flow)));
                let Some((protocol, key)) = opener.flatten() else {
                    return;
                };
                (state.ends, state.began) = (Some((protocol, key)), now);
                for side in &mut state.sides {
                    side.protocol = Some(protocol);
                }
                self.open += 1;
                protocol
            }
        };
        let bytes = upper.total;
        let side = &mut state.sides[direction];
        if side.packets == side.recorded.0 {
            side.first = now;
        }
        side.packets += 1;
        side.bytes += bytes as u64;
        side.uncounted += bytes as u32;
        let is_step = side.uncounted >= STEP;
        side.last = now;
        self.count += 1;
        match protocol {
            IpProtocol::TCP => {
                if let Ok(segment) = TcpPacket::new_checked(upper.bytes) {
                    side.flags |= segment.flags().to_bits() as u8;
                    let before = state.quality.halves[direction].retransmitted;
                    state.quality.see(&segment, direction, now as u64);
                    let again = state.quality.halves[direction].retransmitted - before;
                    self.retransmitted += u64::from(again);
                }
            }
            IpProtocol::ICMP | IpProtocol::ICMPV6 => {
                side.flags = upper.bytes.first().copied().unwrap_or(0);
            }
            _ => {}
        }
        if is_step {
            state.count_senders(&mut self.senders);
        }
    }

    /// Ends the records of a flow.
    fn end_records(&mut self, flow: u32, end: End) {
        let Some(state) = self.flows.of_number(flow) else {
            return;
        };
        let records = [state.record(0, end), state.record(1, end)];
        for record in records.into_iter().flatten().filter(|_| self.exports) {
            if self.waiting.len() < self.records as usize {
                self.waiting.push_back(record);
                self.made += 1;
            } else {
                self.unexported += 1;
            }
        }
    }

    /// Ends the records of the next part of the flows whose time is up.
    fn look(&mut self, now: i64) {
        let capacity = self.flows.capacity();
        // All are looked at four times within the shorter timeout, and once a second at most.
        let period = (self.idle.0.min(self.active.0) / 4).max(SECOND) as usize;
        let part = capacity.div_ceil(period / TICK as usize).min(capacity);
        for _ in 0..part {
            let flow = self.next as u32;
            self.next = (self.next + 1) % capacity;
            let state = self.flows.of_number(flow);
            let Some((first, last)) = state.and_then(|state| state.under_way()) else {
                continue;
            };
            if now - last >= self.idle.0 {
                self.end_records(flow, End::Idle);
            } else if now - first >= self.active.0 {
                self.end_records(flow, End::Active);
            }
        }
    }
}

impl Element for FlowMonitor {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.idle.0 < SECOND || self.active.0 < SECOND {
            return Err(args.fail("IDLE and ACTIVE must be at least 1s"));
        }
        if !(1..=TOP_MAX).contains(&self.top) {
            return Err(args.fail(format_args!("TOP must be from 1 to {TOP_MAX}")));
        }
        if !(1..=RECORDS_MAX).contains(&self.records) {
            return Err(args.fail(format_args!("RECORDS must be from 1 to {RECORDS_MAX}")));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.tracker = Some(self.flows.reserve_tracked(cx)?);
        if !self.senders.reserve(self.top as usize) {
            return Err(cx.error(format_args!("TOP {}: out of memory", self.top)));
        }
        let timer = cx.timer();
        cx.schedule_after(timer, TICK);
        self.timer = Some(timer);
        Ok(())
    }

    #[inline]
    fn effects(&self) -> Effects {
        Effects::of_observer()
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        for packet in batch.iter() {
            if let Some(state) = self.flows.of(packet) {
                packet::prefetch(&state.sides[usize::from(packet.is_reply())]);
            }
        }
        watch(cx, port, batch, |cx, packet, now| self.see(cx, packet, now))
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        self.look(cx.wall());
        cx.schedule_after(timer, TICK);
    }
}

impl FlowUser for FlowMonitor {
    fn flow_ended(&mut self, _cx: &mut Cx<'_>, flow: u32) {
        let closed = self
            .flows
            .of_number(flow)
            .is_some_and(|state| state.is_closed());
        self.end_records(flow, if closed { End::Closed } else { End::Idle });
        let mut state = self.flows.take(flow);
        state.count_senders(&mut self.senders);
        if state.ends.is_some() {
            self.open -= 1;
        }
    }
}

impl Records for FlowMonitor {
    fn keep(&mut self) -> bool {
        let records = self.records as usize;
        self.exports = self.waiting.try_reserve_exact(records).is_ok();
        self.exports
    }

    fn take(&mut self) -> Option<Record> {
        self.waiting.pop_front()
    }
}
