use super::log::Event;
use super::pool::{PORTS, Pool, Refusal, Shape};
use super::slot;
use super::table::{Endpoint, Mapping, Phase, Table, Timeouts};
use crate::filters::dispatch::{DROP, send};
use crate::flow::probe::{Part, Probe, Unknown, probe};
use crate::flow::state::{ACK, FIN, RST, SYN};
use crate::flow::translation::Change;
use crate::prelude::*;
use crate::rewriter::flow::Direction;
use crate::rewriter::key::FlowKey;

/// Most mappings, for which memory is allocated at once.
const CAPACITY_MAX: u32 = 1 << 24;
/// Most addresses.
const ADDRESSES_MAX: u32 = 1024;
/// Most subscribers.
const SUBSCRIBERS_MAX: u32 = 1 << 20;
/// Fewest and most ports of a block.
const BLOCK: core::ops::RangeInclusive<u32> = 16..=PORTS;
/// Events that `events` shows.
const EVENTS: usize = 256;
/// Nanoseconds of a tick.
const TICK: u64 = 1_000_000_000;

/// Lets many subscribers share the ports of a few addresses: a carrier-grade NAT (RFC 6888).
///
/// TCP, UDP and ICMP queries are translated; packets of other protocols, and fragments, are dropped.
/// A mapping is made by a packet from inside: in TCP, by a SYN. It is the same for all
/// destinations, and lets packets from anywhere in (RFC 4787: endpoint-independent mapping and filtering).
/// Subscribers reach each other by their ports outside (hairpinning). ICMP errors are translated with the
/// packet that they are about; an error from inside gets the subscriber's address outside as
/// its source (RFC 5508).
///
/// A subscriber is an address inside. It gets blocks of ports as it needs them, all of one of
/// the ADDRESSES, at most BLOCKS; a block counts for TCP, UDP and ICMP. It has at most as many mappings as these
/// blocks have ports, of which RATE may be new in a second. If CAPACITY is as many mappings for each of
/// SUBSCRIBERS, and there are as many blocks, no subscriber's flood takes anything from another. A
/// mapping that does not fit is not made, and its packet dropped.
///
/// A block is taken back 120 s after its last mapping ended. Each block that is given or taken back is
/// logged, by a packet of output 2 that has a syslog message (RFC 5424) as data: a UDPIPEncap sends
/// it to a log server. With DETERMINISTIC, a prefix inside, each subscriber has one block, which follows from
/// its address (RFC 7422), and nothing is logged; SUBSCRIBERS, BLOCK and BLOCKS have no effect.
///
/// Mappings live as long as packets come: in TCP of both sides, otherwise from inside (RFC 4787,
/// requirement 6). A mapping of TCP, which several connections from one port share, lives for
/// TCP_TRANSITORY after a FIN or RST of one of them, unless more packets come (RFC 7857, section 2).
///
/// All memory is allocated when the router is initialized: about 60 bytes for each mapping, 60 for each
/// subscriber, and for each block 24 and 3 bits a port. Packets must have their IP header marked.
///
/// # Example
/// ```click
/// n :: CarrierGradeNAT(198.51.100.16/28, BLOCK 512, SUBSCRIBERS 1000);
/// FromDump(inside.pcap) -> MarkIPHeader(14) -> [0] n [0] -> Discard;
/// FromDump(outside.pcap) -> MarkIPHeader(14) -> [1] n [1] -> Discard;
/// n[2] -> UDPIPEncap(198.51.100.1, 514, 192.0.2.9, 514) -> Discard;
/// ```
///
/// # See also
/// FlowIPNAT, IPRewriter, UDPIPEncap, IPReassembler
#[derive(Element)]
#[element(ports = "2/2-3", processing = "h/h", segments, handlers, take_over)]
#[inputs("packets from inside", "packets from outside")]
#[outputs("packets to the outside", "packets to the inside", "log messages")]
pub struct CarrierGradeNAT {
    /// The addresses outside: a prefix, or the first and last, as in 198.51.100.4-198.51.100.9.
    #[arg(mandatory, with = range, kind = "prefix or range of addresses")]
    addresses: (u32, u32),
    /// Ports of a block.
    #[arg(default = 512)]
    block: u32,
    /// Most blocks of a subscriber.
    #[arg(default = 4)]
    blocks: u32,
    /// Most subscribers.
    #[arg(default = 1024)]
    subscribers: u32,
    /// Most new mappings of a subscriber in a second.
    #[arg(default = 500)]
    rate: u32,
    /// The prefix inside whose addresses have fixed blocks.
    #[arg(with = range, kind = "prefix or range of addresses")]
    deterministic: (u32, u32),
    /// Most mappings.
    #[arg(default = 65536, read)]
    capacity: u32,
    #[flatten]
    timeouts: Timeouts,
    /// Packets that were dropped.
    #[handler(read)]
    drops: u64,
    /// Packets dropped because all mappings were in use.
    #[handler(read)]
    full: u64,
    /// Packets dropped because there were as many subscribers as there may be.
    #[handler(read)]
    strangers: u64,
    /// Packets dropped because their subscriber has its most blocks or mappings.
    #[handler(read)]
    over_limit: u64,
    /// Packets dropped because their subscriber made its most mappings of that second.
    #[handler(read)]
    over_rate: u64,
    /// Packets dropped because no block was free.
    #[handler(read)]
    exhausted: u64,
    /// Log messages that were not sent because there was no buffer.
    #[handler(read)]
    unlogged: u64,
    pool: Pool,
    table: Table,
    news: Vec<Event>,
    log: VecDeque<Event>,
    timer: Option<TimerId>,
}

/// The first address of a prefix or range, and how many there are; none of an empty text.
pub(crate) fn range(text: &str, _context: &Context<'_>) -> Result<(u32, u32), Invalid> {
    let wrong = || {
        Invalid::because(
            "write a prefix, as in 198.51.100.0/28, or a range, as in 198.51.100.4-198.51.100.9",
        )
    };
    let address = |text: &str| text.trim().parse::<Ipv4Addr>().ok().map(Ipv4Addr::to_bits);
    if matches!(text, "" | "\"\"") {
        return Ok((0, 0));
    }
    if let Some((first, last)) = text.split_once('-') {
        let ends = address(first).zip(address(last));
        let ends = ends.filter(|(first, last)| first <= last && last - first < 1 << 24);
        return ends
            .map(|(first, last)| (first, last - first + 1))
            .ok_or_else(wrong);
    }
    let (prefix, length) = text.split_once('/').unwrap_or((text, "32"));
    let length = length
        .parse()
        .ok()
        .filter(|length| (8..=32).contains(length));
    let prefix = address(prefix).zip(length);
    let prefix = prefix.map(|(address, length): (u32, u32)| (address, 1u32 << (32 - length)));
    prefix
        .filter(|(address, count)| address % count == 0)
        .ok_or_else(wrong)
}

#[handlers]
impl CarrierGradeNAT {
    /// Mappings in use.
    #[read]
    fn count(&self) -> usize {
        self.table.count()
    }

    /// A line for each mapping: protocol, subscriber and its port, address and port outside.
    #[read(expensive)]
    fn mappings(&self) -> Result<String, HandlerError> {
        listing(|out| {
            self.table.iter().try_for_each(|mapping| {
                let (protocol, inside) = (mapping.protocol, Ipv4Addr::from_bits(mapping.inside));
                let outside = Ipv4Addr::from_bits(self.pool.shape.address(mapping.block));
                let (port, outside_port) = (mapping.inside_port, mapping.outside_port);
                writeln!(out, "{protocol} {inside} {port} {outside} {outside_port}")
            })
        })
    }

    /// A line for each subscriber: its address, that outside, its blocks, its mappings, and the new ones
    /// that it did not get.
    #[read(expensive, name = "subscribers")]
    fn show_subscribers(&self) -> Result<String, HandlerError> {
        listing(|out| {
            self.pool.subscribers().try_for_each(|(known, outside)| {
                let (inside, outside) = (
                    Ipv4Addr::from_bits(known.address),
                    Ipv4Addr::from_bits(outside),
                );
                let (blocks, mappings, refused) = (known.blocks, known.mappings, known.refused);
                writeln!(out, "{inside} {outside} {blocks} {mappings} {refused}")
            })
        })
    }

    /// The last 256 log messages.
    #[read]
    fn events(&self) -> String {
        let lines = self.log.iter().map(|event| format!("{event}\n"));
        lines.collect()
    }

    /// `ADDRESS PORT`: the subscriber that has a port outside.
    #[read]
    fn subscriber(&self, text: &str) -> Result<String, HandlerError> {
        let wrong = || {
            let text = "write an address and a port outside, as in 198.51.100.4 2000";
            HandlerError::failed(FailureKind::Invalid, text)
        };
        let (address, port) = text.trim().split_once(' ').ok_or_else(wrong)?;
        let address: Ipv4Addr = address.parse().map_err(|_| wrong())?;
        let port = port.trim().parse().map_err(|_| wrong())?;
        let block = self.pool.shape.block_of(address.to_bits(), port);
        let known = block.and_then(|block| {
            let fixed = self.pool.shape.fixed_subscriber(block);
            fixed.or_else(|| self.pool.subscriber_of(block))
        });
        Ok(known.map_or("none".into(), |known| {
            Ipv4Addr::from_bits(known).to_string()
        }))
    }
}

/// The end of a key that is inside, or outside.
fn source(probe: &Probe) -> Endpoint {
    Endpoint {
        protocol: probe.protocol,
        port: probe.key.source_port(),
        address: probe.key.source().to_bits(),
    }
}

fn destination(probe: &Probe) -> Endpoint {
    Endpoint {
        protocol: probe.protocol,
        port: probe.key.destination_port(),
        address: probe.key.destination().to_bits(),
    }
}

/// Whether a packet from inside may make a mapping.
fn makes(part: Part) -> bool {
    match part {
        Part::Segment(flags) => flags & (SYN | ACK | RST) == SYN,
        Part::Packet | Part::Query => true,
        Part::Answer | Part::Error => false,
    }
}

impl CarrierGradeNAT {
    fn now(cx: &Cx<'_>) -> u32 {
        (cx.steady().0 / TICK) as u32
    }

    /// The mapping of a port outside.
    #[inline]
    fn find_outside(&self, end: Endpoint) -> Option<u32> {
        if !self.pool.shape.has(end.address) {
            return None;
        }
        let hash = self.table.hash(end, Direction::Reply);
        let shape = &self.pool.shape;
        self.table.outside(end, hash, |block| shape.address(block))
    }

    /// Makes the mapping of a subscriber's port.
    #[cold]
    fn make(&mut self, cx: &mut Cx<'_>, probe: &Probe) -> Option<u32> {
        if !makes(probe.part) || slot(probe.protocol).is_none() {
            return None;
        }
        if self.table.is_full() {
            self.full += 1;
            return None;
        }
        let (inside, now) = (source(probe), (Self::now(cx), cx.wall()));
        let taken = self.pool.take(
            inside.address,
            inside.protocol,
            now,
            cx.random(),
            &mut self.news,
        );
        let (block, port) = match taken {
            Ok(taken) => taken,
            Err(refusal) => {
                *match refusal {
                    Refusal::Subscribers => &mut self.strangers,
                    Refusal::Limit => &mut self.over_limit,
                    Refusal::Rate => &mut self.over_rate,
                    Refusal::Blocks => &mut self.exhausted,
                } += 1;
                return None;
            }
        };
        let outside = Endpoint {
            address: self.pool.shape.address(block),
            port,
            ..inside
        };
        self.table.add(inside, outside, block, &self.timeouts)
    }

    /// Notes a packet of a mapping.
    #[inline]
    fn note(&mut self, number: u32, side: Direction, part: Part) {
        let Some(mapping) = self.table.get_mut(number) else {
            return;
        };
        let is_tcp = matches!(part, Part::Segment(_));
        mapping.phase = match (part, side, mapping.phase) {
            (Part::Segment(flags), ..) if flags & (FIN | RST) != 0 => Phase::Closing,
            // Another connection of the same port.
            (Part::Segment(flags), Direction::Forward, Phase::Closing) if flags & SYN != 0 => {
                Phase::Opening
            }
            (_, Direction::Reply, Phase::Opening) => Phase::Open,
            (.., phase) => phase,
        };
        if is_tcp || side == Direction::Forward {
            self.table.touch(number);
        }
    }

    fn outside_of(&self, mapping: &Mapping) -> (Ipv4Addr, u16) {
        let address = self.pool.shape.address(mapping.block);
        (Ipv4Addr::from_bits(address), mapping.outside_port)
    }

    /// The key that a packet to a port outside gets.
    #[inline]
    fn inbound(&mut self, probe: &Probe, key: FlowKey) -> Option<FlowKey> {
        let number = self.find_outside(destination(probe))?;
        if probe.part == Part::Query {
            return None;
        }
        if probe.part != Part::Error {
            self.note(number, Direction::Reply, probe.part);
        }
        let mapping = self.table.get(number)?;
        let key = key.with_destination(Ipv4Addr::from_bits(mapping.inside));
        Some(key.with_destination_port(mapping.inside_port))
    }

    /// Translates a packet; returns its output.
    #[inline]
    fn translate(
        &mut self,
        cx: &mut Cx<'_>,
        port: usize,
        probe: &Probe,
        packet: &mut Packet,
    ) -> Option<u32> {
        let mut key = probe.key;
        let mut output = 1;
        let mut error_source = None;
        if port == 0 {
            let number = match self.table.inside(source(probe), probe.hash) {
                Some(number) => number,
                None => self.make(cx, probe)?,
            };
            if probe.part != Part::Error {
                self.note(number, Direction::Forward, probe.part);
            }
            let (address, outside_port) = self.outside_of(self.table.get(number)?);
            key = key.with_source(address).with_source_port(outside_port);
            error_source = Some(address);
            output = 0;
        }
        if port == 1 || self.pool.shape.has(key.destination().to_bits()) {
            let protocol = IpProtocol(probe.protocol);
            // A ping has no way back by another identifier.
            if port == 0 && protocol == IpProtocol::ICMP {
                return None;
            }
            key = self.inbound(probe, key)?;
            output = 1;
        }
        let change = Change::new(IpProtocol(probe.protocol), probe.key, key);
        match probe.part {
            Part::Error => change.apply_to_error(error_source, packet)?,
            _ => change.apply(packet)?,
        }
        Some(output)
    }

    /// Sends what is to be logged.
    #[cold]
    fn tell(&mut self, cx: &mut Cx<'_>) {
        for event in self.news.drain(..) {
            if cx.outputs() > 2 {
                match cx.pool().copy(event.to_string().as_bytes()) {
                    Some(packet) => cx.emit(2, packet),
                    None => self.unlogged += 1,
                }
            }
            if self.log.len() == EVENTS {
                self.log.pop_front();
            }
            self.log.push_back(event);
        }
    }

    fn take_over(&mut self, _cx: &mut Cx<'_>, old: &mut Self) {
        core::mem::swap(&mut self.log, &mut old.log);
        if self.pool.shape == old.pool.shape && self.capacity == old.capacity {
            core::mem::swap(&mut self.pool, &mut old.pool);
            core::mem::swap(&mut self.table, &mut old.table);
        }
        (self.drops, self.full, self.strangers) = (old.drops, old.full, old.strangers);
        (self.over_limit, self.over_rate) = (old.over_limit, old.over_rate);
        (self.exhausted, self.unlogged) = (old.exhausted, old.unlogged);
    }

    /// How addresses and ports are divided, by the arguments.
    fn shape(&self) -> Result<Shape, String> {
        let (first, addresses) = self.addresses;
        if !(1..=ADDRESSES_MAX).contains(&addresses) {
            return Err(format!("ADDRESSES must be from 1 to {ADDRESSES_MAX}"));
        }
        if !(1..=CAPACITY_MAX).contains(&self.capacity) {
            return Err(format!("CAPACITY must be from 1 to {CAPACITY_MAX}"));
        }
        if !(1..=SUBSCRIBERS_MAX).contains(&self.subscribers) {
            return Err(format!("SUBSCRIBERS must be from 1 to {SUBSCRIBERS_MAX}"));
        }
        if !BLOCK.contains(&self.block) || self.blocks == 0 || self.rate == 0 {
            return Err(format!(
                "BLOCK must be from 16 to {PORTS}, BLOCKS and RATE at least 1"
            ));
        }
        let shape = Shape {
            first,
            addresses,
            block: self.block,
            fixed: None,
            subscribers: self.subscribers,
            blocks: self.blocks,
            mappings: self.block.saturating_mul(self.blocks),
            rate: self.rate,
        };
        let (inside, count) = self.deterministic;
        if count == 0 {
            return Ok(shape);
        }
        let block = PORTS / count.div_ceil(addresses).max(1);
        if block < *BLOCK.start() || count > SUBSCRIBERS_MAX {
            return Err(format!(
                "{count} subscribers of {addresses} ADDRESSES would have {block} ports each, too few; give more ADDRESSES"
            ));
        }
        Ok(Shape {
            block,
            fixed: Some((inside, count)),
            subscribers: count,
            blocks: 1,
            mappings: block,
            ..shape
        })
    }
}

impl Element for CarrierGradeNAT {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.pool.shape = self.shape().map_err(|why| args.fail(why))?;
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let mut seeds = || [cx.random().next_u64(), cx.random().next_u64()];
        let pool = Pool::new(self.pool.shape, seeds());
        let seeds = seeds();
        let table = Table::new(self.capacity as usize, Self::now(cx), seeds);
        let (Ok(pool), Ok(table)) = (pool, table) else {
            let capacity = self.capacity;
            return Err(cx.error(format_args!(
                "out of memory for {capacity} mappings; give a smaller CAPACITY, or a guest more memory, as in --memory 128M"
            )));
        };
        (self.pool, self.table) = (pool, table);
        self.news.reserve(BATCH);
        self.log.reserve_exact(EVENTS);
        let timer = cx.timer();
        cx.schedule_after(timer, TICK);
        self.timer = Some(timer);
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        let mut probes = [Err(Unknown::Invalid); BATCH];
        for (packet, slot) in batch.iter().zip(&mut probes) {
            *slot = probe(packet).map(|probe| {
                let (end, side) = match port {
                    0 => (source(&probe), Direction::Forward),
                    _ => (destination(&probe), Direction::Reply),
                };
                let hash = self.table.hash(end, side);
                self.table.prefetch(hash);
                Probe { hash, ..probe }
            });
        }
        for probe in probes.iter().flatten() {
            self.table.prefetch_mapping(probe.hash);
        }
        let mut outputs = [DROP; BATCH];
        let packets = batch.iter_mut_keeping(Facts::ALL);
        let packets = packets.zip(&probes).zip(&mut outputs);
        for ((packet, probe), output) in packets {
            let translated = match probe {
                Ok(probe) => self.translate(cx, port, probe, packet),
                Err(_) => None,
            };
            match translated {
                Some(to) => *output = to,
                None => self.drops += packet.stands_for() as u64,
            }
        }
        if !self.news.is_empty() {
            self.tell(cx);
        }
        send(cx, batch, &outputs)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let (now, time) = (Self::now(cx), cx.wall());
        let Self {
            table,
            pool,
            timeouts,
            news,
            ..
        } = self;
        let shape = pool.shape;
        table.advance(
            now,
            timeouts,
            |block| shape.address(block),
            |ended| pool.give_back(ended.block, ended.protocol, ended.outside_port, now),
        );
        pool.advance((now, time), news);
        self.tell(cx);
        cx.schedule_after(timer, TICK);
    }
}
