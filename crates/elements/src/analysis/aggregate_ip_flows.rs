use hashbrown::HashMap;

use crate::aggregates::{AggregateNotifier, Listeners};
use crate::keyed_table::KeyedTable;
use crate::positions::Positioned;
use crate::prelude::*;
use flows::{Flow, Header, Hosts, Key, OVER, Whole, is_tcp};
use held::Held;
use trace::Trace;

mod flows;
mod held;
mod trace;

/// Most flows that are known.
const FLOWS_MAX: usize = 1 << 20;
/// Which part of the packet buffers may be held in fragments.
const BUFFERS_PART: usize = 4;

const PER_SECOND: i64 = 1_000_000_000;
/// What is added to the paint of ICMP errors.
const QUOTED: u8 = 2;

/// Numbers the flows of TCP and UDP, and sets packets' aggregate annotation to the number.
///
/// A flow is identified by its addresses, ports and protocol, in both directions; the first flow
/// gets 1. The paint annotation becomes 0 for packets in the direction of the flow's first packet,
/// 1 for the others. Times are those of the packets' timestamps.
///
/// Fragments without ports are held until another fragment of their packet shows the flow, and
/// dropped if none does. Later packets between the same hosts are held too, to keep the order. At
/// the end of a trace, `clear` releases them. The element knows up to 1048576 flows and holds up to
/// a quarter of the packet buffers; further packets leave by output 1. Flows that are forgotten at
/// the same time are forgotten in the order of their numbers.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true, FORCE_IP true)
///     -> f :: AggregateIPFlows -> c :: AggregateCounter -> Discard;
/// DriverManager(pause, write f.clear, write c.write_text_file -);
/// ```
///
/// # See also
/// AggregateIP, AggregateIPAddrPair, AggregateCounter, ToIPFlowDumps, DriverManager
#[derive(Element)]
#[element(
    ports = "1/1-2",
    processing = "a/ah",
    handlers,
    provides(AggregateNotifier)
)]
#[outputs("packets with a number", "packets of other protocols or without ports")]
pub struct AggregateIPFlows {
    /// Seconds after which a TCP flow without packets is forgotten.
    #[arg(default = 24 * 60 * 60, default_text = "86400")]
    tcp_timeout: u32,
    /// The same for a flow that has ended in both directions. A SYN replaces it by a new flow at
    /// once.
    #[arg(default = 30)]
    tcp_done_timeout: u32,
    /// The same for UDP.
    #[arg(default = Seconds(60), default_text = "1 min")]
    udp_timeout: Seconds,
    /// How long fragments are held.
    #[arg(default = Seconds(30), default_text = "30 s")]
    fragment_timeout: Seconds,
    /// How often expired flows are removed.
    #[arg(default = Seconds(20 * 60), default_text = "20 min")]
    reap: Seconds,
    /// Whether ICMP errors belong to the flow of the packet that they quote. Their paint is then 2
    /// or 3.
    #[arg]
    icmp: bool,
    /// Whether fragments without ports are held; not in pull.
    #[arg(default_text = "true in push")]
    fragments: Option<bool>,
    /// A file that gets a description of each removed flow, in XML.
    #[arg(name = "TRACEINFO", with = FilenameArg, kind = "file name")]
    trace_name: String,
    /// Where packets come from: its handlers `filename` and `packet_filepos` go into that file.
    /// FromDump then sends one packet at a time.
    #[arg]
    source: Option<ElementRef>,
    flows: KeyedTable<Flow>,
    /// Fragments, and what came behind them.
    held: HashMap<Hosts, VecDeque<Held>>,
    held_packets: usize,
    last_aggregate: u32,
    timeouts: Timeouts,
    /// The latest packet's time, and when flows are looked through next; in seconds.
    now: i64,
    reap_at: i64,
    warned: bool,
    /// One packet at a time is on the way.
    alone: bool,
    trace: Option<Trace>,
    listeners: Listeners,
}

/// In seconds.
#[derive(Default)]
struct Timeouts {
    tcp: i64,
    tcp_done: i64,
    udp: i64,
    fragment: i64,
}

/// What a packet at the front of a batch is.
#[derive(Clone, Copy)]
enum Found {
    /// A whole packet, and its key's hash.
    Whole(Whole, u64),
    NoFlow,
    Other,
}

/// The packets at the front of a batch whose fate is known without a lookup by [`AggregateIPFlows::look`].
#[derive(Clone, Copy, Default)]
struct Front {
    packets: usize,
    /// A bit for each packet without a flow.
    unknown: u64,
}

const _: () = assert!(BATCH <= 64);

impl Front {
    /// Whether all packets of the batch are known.
    fn is_all_of(self, batch: &Batch) -> bool {
        self.packets == batch.len() && self.unknown == 0
    }
}

/// What becomes of a packet.
#[derive(PartialEq, Eq)]
enum Fate {
    Known,
    Unknown,
    Held,
}

fn seconds(time: i64) -> i64 {
    time.div_euclid(PER_SECOND)
}

impl Timeouts {
    fn of(&self, key: &Key, flow: &Flow) -> i64 {
        match (is_tcp(key), flow.over) {
            (false, _) => self.udp,
            (true, OVER) => self.tcp_done,
            (true, _) => self.tcp,
        }
    }

    /// Whether a packet at `time` belongs to what is known of its flow, rather than to a new one.
    #[inline]
    fn goes_on(&self, key: &Key, flow: &Flow, is_syn: bool, time: i64) -> bool {
        let age = seconds(time) - seconds(flow.last);
        age <= self.of(key, flow) && !(flow.over == OVER && is_syn)
    }
}

impl AggregateIPFlows {
    fn source(&self) -> Option<ElementId> {
        let source = self.source.as_ref();
        source.map(|element| ElementId::new(element.index))
    }

    /// A new flow.
    fn start(&mut self, cx: &mut Cx<'_>, time: i64, reverse: bool) -> Flow {
        self.last_aggregate = match self.last_aggregate.wrapping_add(1) {
            0 => 1,
            next => next,
        };
        let mut filepos = 0;
        if self.trace.is_some()
            && let Some(source) = self.source()
            && let Ok(text) = cx.read_handler(Some(source), "packet_filepos", "")
        {
            filepos = text.trim().parse().unwrap_or(0);
        }
        Flow {
            aggregate: self.last_aggregate,
            reverse,
            over: 0,
            first: time,
            last: time,
            packets: [0; 2],
            filepos,
        }
    }

    /// Says that a flow has ended.
    fn end(&mut self, cx: &mut Cx<'_>, key: &Key, flow: &Flow) {
        self.listeners.ended(cx, flow.aggregate, self.alone);
        if let Some(trace) = &mut self.trace {
            trace.add(cx, key, flow);
        }
    }

    /// The flow of a packet, which is made if need be. `None` if there is no room.
    fn find(
        &mut self,
        cx: &mut Cx<'_>,
        header: &Header,
        key: Key,
        reverse: bool,
        time: i64,
    ) -> Option<Flow> {
        let hash = self.flows.hash(key);
        let Some(flow) = self.flows.get_mut(key, hash) else {
            if self.flows.len() >= FLOWS_MAX {
                return None;
            }
            let flow = self.start(cx, time, reverse);
            self.flows.insert(key, hash, flow).ok()?;
            return Some(flow);
        };
        if self.timeouts.goes_on(&key, flow, header.is_syn(), time) {
            return Some(*flow);
        }
        let old = *flow;
        self.end(cx, &key, &old);
        let new = self.start(cx, time, reverse);
        if let Some(flow) = self.flows.get_mut(key, hash) {
            *flow = new;
        }
        Some(new)
    }

    /// Accounts for a packet that leaves.
    fn account(&mut self, key: Key, header: &Header, packet: &Packet) {
        let hash = self.flows.hash(key);
        let flow = self.flows.get_mut(key, hash);
        if let Some(flow) = flow.filter(|flow| flow.aggregate == packet.anno(AGGREGATE)) {
            flow.account(header, packet);
        }
    }

    /// Numbers a packet that needs no longer look: it is whole, its flow is known and goes on, and no packets are
    /// held. Returns false, and does nothing, if it is not such a one.
    #[inline]
    fn number(&mut self, packet: &mut Packet, whole: &Whole, hash: u64) -> bool {
        let time = packet.timestamp();
        let now = seconds(time);
        if time == 0 || now >= self.reap_at {
            return false;
        }
        let Some(flow) = self.flows.get_mut(whole.key, hash) else {
            return false;
        };
        if !(self.timeouts).goes_on(&whole.key, flow, whole.is_syn(), time) {
            return false;
        }
        packet.set_anno(AGGREGATE, flow.aggregate);
        packet.set_paint(u8::from(flow.reverse != whole.reverse));
        flow.count(whole.flags, packet);
        self.now = now;
        true
    }

    /// Numbers the packets at the front of a batch up to the first that [`look`](Self::look) must decide on. Packets
    /// without a flow get no number.
    #[inline]
    fn number_front(&mut self, batch: &mut Batch) -> Front {
        let mut front = Front::default();
        if !self.held.is_empty() {
            return front;
        }
        let mut found = [Found::Other; BATCH];
        for (packet, slot) in batch.iter().zip(&mut found) {
            if let Some(whole) = Whole::of(packet) {
                let hash = self.flows.hash(whole.key);
                self.flows.prefetch(hash);
                *slot = Found::Whole(whole, hash);
            } else if Header::of(packet, self.icmp).is_none() {
                *slot = Found::NoFlow;
            }
        }
        for found in &found[..batch.len()] {
            if let Found::Whole(_, hash) = found {
                self.flows.prefetch_value(*hash);
            }
        }
        for (packet, found) in batch.iter_mut().zip(&found) {
            match found {
                Found::NoFlow if packet.timestamp() != 0 => front.unknown |= 1 << front.packets,
                Found::Whole(whole, hash) if self.number(packet, whole, *hash) => {}
                _ => break,
            }
            front.packets += 1;
        }
        front
    }

    /// Decides on the packets of a batch: on those behind its front, one by one. Gives each that leaves with the output
    /// that it leaves by.
    fn look_at_all(
        &mut self,
        cx: &mut Cx<'_>,
        batch: &mut Batch,
        front: Front,
        mut leave: impl FnMut(&mut Cx<'_>, usize, Packet),
    ) {
        for (i, packet) in batch.drain().enumerate() {
            if i < front.packets {
                leave(cx, usize::from(front.unknown >> i & 1 != 0), packet);
                continue;
            }
            let mut packet = Some(packet);
            let fate = self.look(cx, &mut packet);
            self.reap_if_due(cx);
            if let Some(packet) = packet {
                leave(cx, usize::from(fate != Fate::Known), packet);
            }
        }
    }

    /// Decides on a packet. If it is held, it was taken.
    fn look(&mut self, cx: &mut Cx<'_>, packet: &mut Option<Packet>) -> Fate {
        let Some(own) = packet else {
            return Fate::Held;
        };
        if own.timestamp() == 0 {
            self.warn(cx);
            own.set_timestamp(cx.wall());
        }
        let time = own.timestamp();
        let Some(header) = Header::of(own, self.icmp) else {
            return Fate::Unknown;
        };
        let mut key = None;
        if header.is_first {
            let Some((flow_key, reverse)) = header.key() else {
                return Fate::Unknown;
            };
            let Some(flow) = self.find(cx, &header, flow_key, reverse, time) else {
                return Fate::Unknown;
            };
            let quoted = if header.is_quoted { QUOTED } else { 0 };
            own.set_anno(AGGREGATE, flow.aggregate);
            own.set_paint(quoted | u8::from(flow.reverse != reverse));
            key = Some(flow_key);
        } else {
            own.set_anno(AGGREGATE, 0);
        }
        let hosts = header.hosts();
        let holds = !self.held.is_empty() && self.held.contains_key(&hosts);
        if (self.fragments == Some(true) && header.is_fragment) || holds {
            let room = cx.pool().own() / BUFFERS_PART;
            if self.held_packets >= room {
                // What is known may go, though out of order.
                return if key.is_some() {
                    Fate::Known
                } else {
                    Fate::Unknown
                };
            }
            let Some(packet) = packet.take() else {
                return Fate::Held;
            };
            self.held_packets += 1;
            let held = Held {
                packet,
                header,
                key,
            };
            self.held.entry(hosts).or_default().push_back(held);
            self.now = seconds(time);
            self.release(cx, &hosts);
            return Fate::Held;
        }
        let Some(key) = key else {
            return Fate::Unknown;
        };
        self.now = seconds(time);
        self.account(key, &header, own);
        Fate::Known
    }

    /// Forgets flows that timed out, or all; releases fragments likewise.
    #[cold]
    fn forget(&mut self, cx: &mut Cx<'_>, all: bool) {
        let now = self.now;
        if all {
            self.now = i64::MAX;
        }
        let mut hosts: Vec<Hosts> = self.held.keys().copied().collect();
        hosts.sort_unstable_by_key(|hosts| (!hosts.tcp, hosts.ends));
        hosts.iter().for_each(|hosts| self.release(cx, hosts));
        self.now = now;
        let is_old = |key: &Key, flow: &Flow| {
            all || seconds(flow.last) < now.saturating_sub(self.timeouts.of(key, flow))
        };
        // Where packets wait, their flows are to be known.
        let mut ended: Vec<(Key, Flow)> = self
            .flows
            .iter()
            .filter(|(key, flow)| is_old(key, flow))
            .filter(|(key, _)| !self.held.contains_key(&Hosts::of(key)))
            .map(|(key, flow)| (*key, *flow))
            .collect();
        ended.sort_unstable_by_key(|(_, flow)| flow.aggregate);
        for (key, flow) in &ended {
            self.flows.remove(*key);
            self.end(cx, key, flow);
        }
    }

    #[inline]
    fn reap_if_due(&mut self, cx: &mut Cx<'_>) {
        if self.now >= self.reap_at {
            if self.reap_at != 0 {
                self.forget(cx, false);
            }
            self.reap_at = self.now.saturating_add(self.reap.0.into());
        }
    }

    #[cold]
    fn warn(&mut self, cx: &mut Cx<'_>) {
        if !core::mem::replace(&mut self.warned, true) {
            let declaration = cx.declaration();
            cx.chatter(format_args!(
                "{declaration}: warning: packet received without timestamp"
            ));
        }
    }
}

impl AggregateNotifier for AggregateIPFlows {
    fn listeners(&mut self) -> &mut Listeners {
        &mut self.listeners
    }
}

#[handlers]
impl AggregateIPFlows {
    /// Removes all flows, and releases held packets.
    #[write]
    fn clear(&mut self, cx: &mut Cx<'_>) {
        self.forget(cx, true);
    }
}

impl Element for AggregateIPFlows {
    fn configured(&mut self, _cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.timeouts = Timeouts {
            tcp: self.tcp_timeout.into(),
            tcp_done: self.tcp_done_timeout.into(),
            udp: self.udp_timeout.0.into(),
            fragment: self.fragment_timeout.0.into(),
        };
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if !self.trace_name.is_empty() {
            let file = self
                .source()
                .map(|source| cx.read_handler(Some(source), "filename", ""));
            let file = file.and_then(Result::ok).unwrap_or_default();
            let trace = Trace::create(cx, &self.trace_name, file.trim());
            self.trace = Some(trace.map_err(|error| cx.error(error))?);
            let source = self.source().and_then(|source| cx.link(source));
            let source: Option<Link<dyn Positioned>> = source;
            if let Some(source) = source {
                cx.reach(source, |source, _| source.send_singly());
            }
        }
        let push = cx.input_is_push(0);
        if *self.fragments.get_or_insert(push) && !push {
            return Err(cx.error(
                "'FRAGMENTS true' is incompatible with pull; run this element in a push context",
            ));
        }
        self.flows.seed(cx);
        self.listeners.initialize(cx);
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        for held in self.held.drain().flat_map(|(_, held)| held) {
            cx.kill(held.packet);
        }
        if let Some(mut trace) = self.trace.take() {
            let mut flows: Vec<(Key, Flow)> = self.flows.drain().collect();
            flows.sort_unstable_by_key(|(_, flow)| flow.aggregate);
            for (key, flow) in &flows {
                trace.add(cx, key, flow);
            }
            trace.end(cx);
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.alone = batch.len() == 1;
        let front = self.number_front(batch);
        if !front.is_all_of(batch) {
            self.look_at_all(cx, batch, front, |cx, output, packet| {
                cx.emit(output, packet);
            });
        }
        0
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch, most: usize) {
        cx.pull_through(0, most);
    }

    fn pulled(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        self.alone = batch.len() == 1;
        let front = self.number_front(batch);
        if front.is_all_of(batch) {
            return;
        }
        let mut pulled = cx.batch();
        pulled.append(batch, BATCH);
        self.look_at_all(cx, &mut pulled, front, |cx, output, packet| {
            if output != 0 {
                cx.emit(output, packet);
            } else if let Err(packet) = batch.push(packet) {
                cx.kill(packet);
            }
        });
        cx.done(pulled);
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        self.listeners.tell(cx);
        Ran::Worked
    }
}

#[cfg(test)]
mod tests;
