//! The way of a packet through a rewriter.
//!
//! A batch goes through in three rounds: keys are read and hashed, lines of the index are looked
//! at, packets are rewritten. Each round asks for the memory that the next one needs, so that with
//! a hundred thousand flows the processor waits for many lines at a time, not for each by itself.

use core::net::Ipv4Addr;

use packet::checksum::Delta;
use packet::wire::IpProtocol;
use packet::{BATCH, Batch, Packet};
use router::{Cx, ElementId};

use super::base::{Base, Translation};
use super::flow::{Annotations, Direction, Entry, Flow, NO_TABLE};
use super::input::{Action, Input};
use super::key::FlowKey;
use super::mapper;
use super::pattern::Pattern;
use super::sequence::Sequences;
use super::set::{BOTH_DONE, DATA, DONE, FlowSet, NewFlow, REPLIED, THREE};
use crate::dispatch::{self, DROP};

/// What a packet is to a rewriter.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Its flow's key.
    pub key: FlowKey,
    /// The table to look in, among the element's; [`NO_TABLE`]: it is not to be rewritten.
    pub table: u16,
    /// IP protocol, where the flow keeps it; else 0.
    pub protocol: u8,
}

impl Identity {
    /// A packet that is not to be rewritten.
    pub const NONE: Identity = Identity {
        key: FlowKey {
            addresses: 0,
            ports: 0,
        },
        table: NO_TABLE,
        protocol: 0,
    };
}

/// How a class of rewriter reads and writes packets.
pub trait Scheme {
    /// What a packet is.
    fn identify(packet: &Packet) -> Identity;

    /// The other key that a packet may be known under.
    #[inline(always)]
    fn alternative(packet: &Packet) -> Option<FlowKey> {
        let _ = packet;
        None
    }

    /// Whether a packet of no known flow may start one.
    #[inline(always)]
    fn starts(identity: &Identity) -> bool {
        let _ = identity;
        true
    }

    /// Makes what a pattern chose a key that packets can have.
    #[inline(always)]
    fn complete(rewritten: FlowKey) -> FlowKey {
        rewritten
    }

    /// Whether packets can become packets of this key.
    #[inline(always)]
    fn accepts(rewritten: FlowKey) -> bool {
        let _ = rewritten;
        true
    }

    /// Prepares a flow that was just made.
    #[inline(always)]
    fn prepare(flow: &mut Flow) {
        let _ = flow;
    }

    /// Rewrites a packet, and takes note of what it shows.
    fn apply(
        flow: &mut Flow,
        sequences: &mut Sequences,
        direction: Direction,
        annotations: Annotations,
        packet: &mut Packet,
    );
}

/// Room for what is known of a batch's packets between the rounds.
pub struct Scratch {
    identities: [Identity; BATCH],
    hashes: [u64; BATCH],
    guesses: [Option<Entry>; BATCH],
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            identities: [Identity::NONE; BATCH],
            hashes: [0; BATCH],
            guesses: [None; BATCH],
        }
    }
}

/// A rewriter's parts, as the rounds need them.
struct Rounds<'r, 'c> {
    set: &'r mut FlowSet,
    cx: &'r mut Cx<'c>,
    input: &'r Input,
    /// The input's number among the set's.
    number: u16,
    annotations: Annotations,
    now: u64,
}

impl Base {
    /// Rewrites a batch that came in by input `port`; see
    /// [`Element::push`](router::Element::push).
    #[inline]
    pub fn push<S: Scheme>(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        let mut outputs = [DROP; BATCH];
        if let Some(mut set) = self.take_set(cx) {
            if let Some(input) = self.inputs.get(port) {
                let mut rounds = Rounds {
                    now: cx.steady().0,
                    set: &mut set,
                    cx,
                    input,
                    number: self.first_input + port as u16,
                    annotations: self.annotations,
                };
                rounds.run::<S>(self.first_table, &mut self.scratch, batch, &mut outputs);
            }
            self.put_set(cx, set);
        }
        dispatch::send(cx, batch, &outputs)
    }
}

impl Base {
    /// The flow of `key` and `protocol` in the element's `table`th table; if there is none, one is
    /// made as if a packet of it had come by input `port`.
    pub fn obtain<S: Scheme>(
        &mut self,
        cx: &mut Cx<'_>,
        identity: Identity,
        port: usize,
    ) -> Option<Translation> {
        let identity = Identity {
            table: self.first_table + identity.table,
            ..identity
        };
        let mut set = self.take_set(cx)?;
        let entry = set.find(identity.table, identity.key).or_else(|| {
            let mut rounds = Rounds {
                now: cx.steady().0,
                set: &mut set,
                input: self.inputs.get(port)?,
                cx,
                number: self.first_input + port as u16,
                annotations: self.annotations,
            };
            let number = rounds.make::<S>(&identity)?;
            Some(Entry::new(number, Direction::Forward))
        });
        let translation = entry.and_then(|entry| {
            let (flow, direction) = (set.flow(entry.flow())?, entry.direction());
            Some(Translation::new(flow, direction, flow.rewritten(direction)))
        });
        self.put_set(cx, set);
        translation
    }
}

impl Rounds<'_, '_> {
    #[inline(always)]
    fn run<S: Scheme>(
        &mut self,
        first_table: u16,
        scratch: &mut Scratch,
        batch: &mut Batch,
        outputs: &mut [u32; BATCH],
    ) {
        let Scratch {
            identities,
            hashes,
            guesses,
        } = scratch;
        for ((packet, identity), hash) in batch.iter().zip(&mut *identities).zip(&mut *hashes) {
            *identity = S::identify(packet);
            if identity.table != NO_TABLE {
                identity.table += first_table;
            }
            *hash = self.set.hash(identity.table, identity.key);
            self.set.prefetch(*hash);
        }
        for (guess, hash) in guesses.iter_mut().zip(&*hashes).take(batch.len()) {
            *guess = self.set.guess(*hash);
        }
        let known = identities.iter().zip(hashes).zip(guesses);
        for ((packet, output), ((identity, hash), guess)) in
            batch.iter_mut().zip(outputs).zip(known)
        {
            *output = match guess {
                Some(entry) if self.set.is(*entry, identity.table, identity.key) => {
                    self.rewrite::<S>(*entry, packet)
                }
                _ => self.search::<S>(identity, *hash, packet),
            };
        }
    }

    /// Rewrites a packet of a known flow; returns its output.
    #[inline(always)]
    fn rewrite<S: Scheme>(&mut self, entry: Entry, packet: &mut Packet) -> u32 {
        let (number, direction) = (entry.flow(), entry.direction());
        let Some((flow, sequences)) = self.set.flow_and_sequences(number) else {
            return DROP;
        };
        let before = flow.state;
        S::apply(flow, sequences, direction, self.annotations, packet);
        let output = flow.output(direction);
        flow.last = self.now;
        if flow.state != before {
            self.set.hasten(number);
        }
        output
    }

    /// Finds a packet's flow where the guess was wrong, or makes it.
    #[inline(never)]
    fn search<S: Scheme>(&mut self, identity: &Identity, hash: u64, packet: &mut Packet) -> u32 {
        if identity.table == NO_TABLE {
            return self.leave();
        }
        let table = identity.table;
        let found = self.set.find_hashed(hash, table, identity.key);
        let found = found.or_else(|| self.set.find(table, S::alternative(packet)?));
        match found {
            Some(entry) => self.rewrite::<S>(entry, packet),
            None => self.start::<S>(identity, packet),
        }
    }

    /// Where a packet goes that is not to be rewritten.
    fn leave(&self) -> u32 {
        match self.input.action {
            Action::Pass(output) => output.into(),
            _ => DROP,
        }
    }

    /// Takes a packet of no known flow.
    #[cold]
    fn start<S: Scheme>(&mut self, identity: &Identity, packet: &mut Packet) -> u32 {
        if !S::starts(identity) {
            return self.leave();
        }
        match self.make::<S>(identity) {
            Some(number) => {
                if let Some(flow) = self.set.flow_mut(number) {
                    self.annotations.keep(flow, packet);
                }
                self.rewrite::<S>(Entry::new(number, Direction::Forward), packet)
            }
            None => self.leave(),
        }
    }

    /// Makes a flow as the input says; `None` if it does not, or cannot.
    fn make<S: Scheme>(&mut self, identity: &Identity) -> Option<u32> {
        let made = match &self.input.action {
            Action::Drop | Action::Pass(_) => return None,
            Action::Keep => Some((identity.key, self.input.outputs)),
            Action::Pattern(pattern) => {
                let rewritten = self.choose::<S>(&pattern.clone(), identity);
                rewritten.map(|rewritten| (rewritten, self.input.outputs))
            }
            Action::Mapper(mapper) => self.map::<S>(*mapper, identity),
        };
        let Some((rewritten, outputs)) = made else {
            self.set.fail(self.number);
            return None;
        };
        if !S::accepts(rewritten) {
            return None;
        }
        let new = NewFlow {
            table: identity.table,
            input: self.number,
            key: identity.key,
            rewritten,
            outputs,
            protocol: identity.protocol,
        };
        let number = self.set.add(new, self.now)?;
        S::prepare(self.set.flow_mut(number)?);
        Some(number)
    }

    fn choose<S: Scheme>(&mut self, pattern: &Pattern, identity: &Identity) -> Option<FlowKey> {
        let set = &*self.set;
        let taken = |key| {
            set.find(identity.table, S::complete(key).reverse())
                .is_some()
        };
        let rewritten = pattern.rewrite(identity.key, self.cx.random(), taken)?;
        Some(S::complete(rewritten))
    }

    fn map<S: Scheme>(
        &mut self,
        mapper: ElementId,
        identity: &Identity,
    ) -> Option<(FlowKey, [u16; 2])> {
        let set = &*self.set;
        let taken = |key| {
            set.find(identity.table, S::complete(key).reverse())
                .is_some()
        };
        let mapped = mapper::map(self.cx, mapper, identity.key, &taken)?;
        Some((S::complete(mapped.0), mapped.1))
    }
}

/// The IP header and what follows it.
#[inline(always)]
pub fn parts(packet: &Packet) -> Option<(&[u8; 20], &[u8])> {
    let length = packet.network_header_len();
    let (ip, rest) = packet.network_header()?.split_at_checked(length)?;
    Some((ip.first_chunk()?, rest))
}

/// As [`parts`], to be changed.
#[inline(always)]
pub fn parts_mut(packet: &mut Packet) -> Option<(&mut [u8; 20], &mut [u8])> {
    let length = packet.network_header_len();
    let (ip, rest) = packet.network_header_mut()?.split_at_mut_checked(length)?;
    Some((ip.first_chunk_mut()?, rest))
}

/// Whether an IP header is that of a whole packet or of a first fragment.
#[inline(always)]
pub fn is_first(ip: &[u8; 20]) -> bool {
    u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff == 0
}

/// An IP header's protocol.
#[inline(always)]
pub fn protocol(ip: &[u8; 20]) -> IpProtocol {
    IpProtocol(ip[9])
}

/// Source and destination address of an IP header, as in a [`FlowKey`].
#[inline(always)]
pub fn addresses(ip: &[u8; 20]) -> u64 {
    let [.., a, b, c, d, e, f, g, h] = *ip;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// The key of a packet with ports, if it is one: its protocol is not looked at.
#[inline(always)]
pub fn key(ip: &[u8; 20], transport: &[u8]) -> Option<FlowKey> {
    let ports: &[u8; 8] = transport.first_chunk()?;
    if !is_first(ip) {
        return None;
    }
    let [a, b, c, d, ..] = *ports;
    Some(FlowKey {
        addresses: addresses(ip),
        ports: u32::from_be_bytes([a, b, c, d]),
    })
}

/// Gives an IP header a flow's addresses.
#[inline(always)]
pub fn rewrite_ip(flow: &Flow, direction: Direction, ip: &mut [u8; 20]) {
    let new = flow.rewritten(direction).addresses.to_be_bytes();
    if let Some(place) = ip.last_chunk_mut() {
        *place = new;
    }
    update_ip_sum(flow.ip_delta(direction), ip);
}

/// Brings the checksum of an IP header up to date.
#[inline(always)]
pub fn update_ip_sum(delta: Delta, ip: &mut [u8; 20]) {
    let sum = u16::from_be_bytes([ip[10], ip[11]]);
    [ip[10], ip[11]] = delta.apply(sum).to_be_bytes();
}

/// Sets the source address, and no checksum.
#[inline(always)]
pub fn set_source(ip: &mut [u8; 20], source: Ipv4Addr) {
    [ip[12], ip[13], ip[14], ip[15]] = source.octets();
}

/// Sets the destination address, and no checksum.
#[inline(always)]
pub fn set_destination(ip: &mut [u8; 20], destination: Ipv4Addr) {
    [ip[16], ip[17], ip[18], ip[19]] = destination.octets();
}

/// Gives a ping another identifier; `delta` is what that does to its checksum.
#[inline(always)]
pub fn set_identifier(delta: Delta, icmp: &mut [u8], identifier: u16) {
    let Some(place) = icmp.get_mut(4..).and_then(|rest| rest.first_chunk_mut()) else {
        return;
    };
    *place = identifier.to_be_bytes();
    update_sum(delta, icmp, 2);
    // The checksum of nothing but zeros is 0xffff, which no delta gives.
    if icmp.iter().all(|byte| *byte == 0) {
        icmp[2..4].fill(0xff);
    }
}

/// Gives a transport header a flow's ports.
#[inline(always)]
pub fn rewrite_ports(flow: &Flow, direction: Direction, transport: &mut [u8]) {
    if let Some(ports) = transport.first_chunk_mut() {
        *ports = flow.rewritten(direction).ports.to_be_bytes();
    }
}

/// Brings a checksum in `header`, `at` bytes in, up to date.
#[inline(always)]
pub fn update_sum(delta: Delta, header: &mut [u8], at: usize) {
    if let Some(place) = header.get_mut(at..).and_then(|h| h.first_chunk_mut()) {
        *place = delta.apply(u16::from_be_bytes(*place)).to_be_bytes();
    }
}

/// Brings the checksum of a UDP header up to date, if there is one. (RFC 768: 0 says that there is
/// none; a sum of 0 is sent as 0xffff.)
#[inline(always)]
pub fn update_udp_sum(delta: Delta, header: &mut [u8]) {
    if let Some(place) = header.get_mut(6..).and_then(|h| h.first_chunk_mut()) {
        let old = u16::from_be_bytes(*place);
        if old != 0 {
            let new = match delta.apply(old) {
                0 => 0xffff,
                new => new,
            };
            *place = new.to_be_bytes();
        }
    }
}

/// Brings the checksum that covers the addresses up to date in a header of any protocol that has
/// one there; ports are not covered by `delta`, or changed already.
#[inline(always)]
pub fn update_transport(delta: Delta, protocol: IpProtocol, transport: &mut [u8]) {
    match protocol {
        IpProtocol::TCP => update_sum(delta, transport, 16),
        IpProtocol::UDP => update_udp_sum(delta, transport),
        DCCP => update_sum(delta, transport, 6),
        _ => {}
    }
}

/// The Datagram Congestion Control Protocol, whose ports and checksum stand where UDP's do.
pub const DCCP: IpProtocol = IpProtocol(33);

/// Rewrites a packet of a flow of datagrams: addresses, ports and checksums, whatever the protocol.
#[inline(always)]
pub fn apply_datagram(
    flow: &mut Flow,
    direction: Direction,
    annotations: Annotations,
    packet: &mut Packet,
) {
    let Some((ip, transport)) = parts_mut(packet) else {
        return;
    };
    rewrite_ip(flow, direction, ip);
    rewrite_ports(flow, direction, transport);
    update_transport(flow.transport_delta(direction), protocol(ip), transport);
    annotations.set(flow, direction, packet);
    if direction == Direction::Reply {
        flow.state |= REPLIED;
    }
    if flow.state < THREE {
        flow.state += 2;
    }
}

/// Rewrites a packet of a TCP connection.
#[inline(always)]
pub fn apply_segment(
    flow: &mut Flow,
    sequences: &mut Sequences,
    direction: Direction,
    annotations: Annotations,
    packet: &mut Packet,
) {
    let Some((ip, transport)) = parts_mut(packet) else {
        return;
    };
    rewrite_ip(flow, direction, ip);
    let header_len = usize::from(ip[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    if let Some(header) = transport.first_chunk::<18>() {
        let (offset, flags) = (usize::from(header[12] >> 4) * 4, header[13]);
        rewrite_ports(flow, direction, transport);
        update_sum(flow.transport_delta(direction), transport, 16);
        flow.state = connection(flow.state, direction, flags, header_len + offset < total);
        if flow.extra != 0 {
            sequences.apply(flow.extra, direction, transport);
        }
    }
    annotations.set(flow, direction, packet);
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;

/// What state a connection is in after a segment with `flags`, and payload or not.
#[inline(always)]
fn connection(state: u8, direction: Direction, flags: u8, payload: bool) -> u8 {
    let done = DONE << direction as u8;
    let state = if flags & RST != 0 {
        state | BOTH_DONE
    } else if flags & FIN != 0 {
        state | done
    } else if flags & SYN != 0 || payload {
        state & !done
    } else {
        state
    };
    if payload {
        state | DATA << direction as u8
    } else {
        state
    }
}
