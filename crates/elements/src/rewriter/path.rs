//! The way of a packet through a rewriter.
//!
//! A batch goes through in three rounds: keys are read and hashed, lines of the index are looked
//! at, packets are rewritten. Each round asks for the memory that the next one needs, so that with
//! a hundred thousand flows the processor waits for many lines at a time, not for each by itself.
//!
//! Datagrams often come in trains, several of a flow one behind the other. A train's flow is looked
//! up once, and what it changes stays in registers.

use super::base::{Base, Translation};
use super::flow::{Annotations, Direction, Entry, Flow, NO_TABLE};
use super::headers;
use super::input::{Action, Input};
use super::key::FlowKey;
use super::mapper::Mapper;
use super::pattern::Pattern;
use super::scratch::{Identity, Scratch};
use super::sequence::Sequences;
use super::set::{FlowSet, NewFlow};
use crate::filters::dispatch::{self, DROP};
use crate::prelude::*;

/// How a class of rewriter reads and writes packets.
pub trait Scheme {
    /// The table, among the element's, of flows whose packets are rewritten as
    /// [`headers::apply_datagram`] does, if there is one.
    const DATAGRAMS: Option<u16> = None;

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

/// A rewriter's parts, as the rounds need them.
struct Rounds<'r, 'c> {
    set: &'r mut FlowSet,
    cx: &'r mut Cx<'c>,
    input: &'r Input,
    /// The input's number among the set's.
    number: u16,
    annotations: Annotations,
    /// When the packets pass, within a few turns of tasks.
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
                let first_table = self.table(cx, 0);
                let mut rounds = Rounds {
                    now: cx.recent().0,
                    set: &mut set,
                    cx,
                    input,
                    number: self.first_input + port as u16,
                    annotations: self.annotations,
                };
                rounds.run::<S>(first_table, &mut self.scratch, batch, &mut outputs);
            }
            self.put_set(cx, set);
        }
        dispatch::send(cx, batch, &outputs)
    }
}

impl Base {
    /// What the packets of `key` and `protocol` become by the element's `table`th table; if it has
    /// no mapping for them, one is made as if a packet had come by input `port`.
    pub fn obtain<S: Scheme>(
        &mut self,
        cx: &mut Cx<'_>,
        table: u16,
        protocol: IpProtocol,
        key: FlowKey,
        port: usize,
    ) -> Option<Translation> {
        let identity = Identity {
            key,
            table: self.table(cx, table),
            protocol: protocol.0,
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

/// What a packet is, with its table's number in the set.
#[inline(always)]
fn identify<S: Scheme>(first_table: u16, packet: &Packet) -> Identity {
    let mut identity = S::identify(packet);
    if identity.table != NO_TABLE {
        identity.table += first_table;
    }
    identity
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
        let packets = batch.as_mut_slice();
        let done = match S::DATAGRAMS {
            Some(table) => self.trains(first_table + table, packets, outputs),
            None => 0,
        };
        let (Some(packets), Some(outputs)) = (packets.get_mut(done..), outputs.get_mut(done..))
        else {
            return;
        };
        let Scratch { hashes, guesses } = scratch;
        let index = self.set.index();
        for (packet, hash) in packets.iter().zip(&mut *hashes) {
            let identity = identify::<S>(first_table, packet);
            *hash = index.hash(identity.table, identity.key);
            index.prefetch(*hash);
        }
        for (guess, hash) in guesses.iter_mut().zip(&*hashes).take(packets.len()) {
            *guess = self.set.guess(index, *hash);
        }
        let datagrams = S::DATAGRAMS.map(|table| first_table + table);
        let known = hashes.iter().zip(guesses);
        for ((packet, output), (hash, guess)) in packets.iter_mut().zip(outputs).zip(known) {
            if let Some(table) = datagrams
                && let Some(sent) = self.datagram(table, *guess, packet)
            {
                *output = sent;
                continue;
            }
            // Read again: a header in the cache costs less than 64 keys that are kept.
            let identity = identify::<S>(first_table, packet);
            *output = if self.set.is(*guess, identity.table, identity.key) {
                self.rewrite::<S>(*guess, packet)
            } else {
                self.search::<S>(&identity, *hash, packet)
            };
        }
    }

    /// Rewrites a packet if it is a usual datagram of the flow that was guessed, in this table;
    /// returns its output.
    #[inline(always)]
    fn datagram(&mut self, table: u16, guess: Entry, packet: &mut Packet) -> Option<u32> {
        let (number, direction) = (guess.flow(), guess.direction());
        let flow = self.set.flow_mut(number)?;
        let before = flow.state;
        let packets = core::slice::from_mut(packet);
        if flow.table != table
            || headers::apply_train(flow, direction, self.annotations, packets) == 0
        {
            return None;
        }
        flow.last = self.now;
        let output = flow.output(direction);
        if flow.state != before {
            self.set.hasten(number);
        }
        self.annotate(number, packets);
        Some(output)
    }

    /// Rewrites trains of a known flow's datagrams, from the first packet on as long as there are
    /// any; returns how many packets.
    #[inline(always)]
    fn trains(&mut self, table: u16, packets: &mut [Packet], outputs: &mut [u32; BATCH]) -> usize {
        let mut done = 0;
        while let Some([first, second, ..]) = packets.get(done..)
            && let Some(key) = headers::datagram(first)
            && headers::datagram(second) == Some(key)
            && let Some(count) = self.train(table, key, &mut packets[done..], &mut outputs[done..])
        {
            done += count;
        }
        done
    }

    /// Rewrites the train of datagrams of `key` that `packets` start with; returns how many, if
    /// there is such a flow.
    #[inline(never)]
    fn train(
        &mut self,
        table: u16,
        key: FlowKey,
        packets: &mut [Packet],
        outputs: &mut [u32],
    ) -> Option<usize> {
        let entry = self.set.find(table, key)?;
        let (number, direction) = (entry.flow(), entry.direction());
        let flow = self.set.flow_mut(number)?;
        let before = flow.state;
        let count = headers::apply_train(flow, direction, self.annotations, packets);
        flow.last = self.now;
        outputs[..count].fill(flow.output(direction));
        if flow.state != before {
            self.set.hasten(number);
        }
        self.annotate(number, &mut packets[..count]);
        Some(count)
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
        self.annotate(number, core::slice::from_mut(packet));
        output
    }

    /// Sets the aggregate annotation of a flow's packets, if that is asked for.
    #[inline(always)]
    fn annotate(&self, flow: u32, packets: &mut [Packet]) {
        if self.annotations.aggregate {
            self.set.annotate(flow, packets);
        }
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
        // To the nanosecond: another flow may have to go for this one.
        self.now = self.cx.steady().0;
        let number = self.set.add(new, self.now)?;
        S::prepare(self.set.flow_mut(number)?);
        if self.annotations.aggregate {
            self.set.count(number);
        }
        Some(number)
    }

    fn choose<S: Scheme>(&mut self, pattern: &Pattern, identity: &Identity) -> Option<FlowKey> {
        let (table, ground) = (identity.table, pattern.ground(identity.key));
        if self.set.is_exhausted(table, self.number, ground) {
            pattern.start(self.cx.random());
            return None;
        }
        let set = &*self.set;
        let taken = |key| set.find(table, S::complete(key).reverse()).is_some();
        let rewritten = pattern.rewrite(identity.key, self.cx.random(), taken);
        if rewritten.is_none() {
            self.set.set_exhausted(table, self.number, ground);
        }
        rewritten.map(S::complete)
    }

    fn map<S: Scheme>(
        &mut self,
        mapper: Link<dyn Mapper>,
        identity: &Identity,
    ) -> Option<(FlowKey, [u16; 2])> {
        let set = &*self.set;
        let taken = |key| {
            set.find(identity.table, S::complete(key).reverse())
                .is_some()
        };
        let mapped = self
            .cx
            .reach(mapper, |mapper, cx| mapper.map(cx, identity.key, &taken));
        let (rewritten, outputs) = mapped.flatten()?;
        Some((S::complete(rewritten), outputs))
    }
}
