//! A set of flows under one limit.
//!
//! Each rewriter has one, unless `MAPPING_CAPACITY` lets it share another's. The tables of all that
//! share are one index, told apart by number. When the set is full, the flow whose time is up first
//! makes room for a new one, but no flow within its guarantee does: then the new one is refused.

use super::deadlines::Deadlines;
use super::flow::{Direction, Entry, Flow, NO_TABLE, Queue};
use super::index::{Index, Lines, NoMemory};
use super::key::FlowKey;
use super::sequence::Sequences;
use super::table::Table;
use crate::prelude::*;

/// Most flows that numbers reach for.
pub const MOST: usize = i32::MAX as usize;

/// Searches without result that are remembered.
const EXHAUSTED: usize = 64;

/// How one input of a rewriter fares.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Flows that it made and that live.
    pub flows: u32,
    /// Flows that it could not make.
    pub failures: u32,
    /// Its number among its element's inputs.
    pub number: u16,
}

/// A flow to be.
#[derive(Clone, Copy, Debug)]
pub struct NewFlow {
    /// The table it goes to.
    pub table: u16,
    /// The input it comes by, among the set's.
    pub input: u16,
    /// Its packets.
    pub key: FlowKey,
    /// What they become.
    pub rewritten: FlowKey,
    /// Where packets of either direction go.
    pub outputs: [u16; 2],
    /// IP protocol; 0 if any.
    pub protocol: u8,
}

/// Flows under one limit; see the [module](self).
pub struct FlowSet {
    flows: Vec<Flow>,
    /// The first free slot among `flows`, plus one; it links to the others.
    free: u32,
    live: usize,
    index: Index,
    deadlines: Deadlines,
    capacity: i32,
    /// Flows that ended so far.
    ended: u64,
    /// Where searches for a source found none lately, and `ended` then: until a flow ends, they
    /// would find none again, and they are long.
    exhausted: [Option<(u16, u16, FlowKey, u64)>; EXHAUSTED],
    /// The tables of all elements.
    pub tables: Vec<Table>,
    /// The inputs of all elements.
    pub tallies: Vec<Tally>,
    /// Changes of sequence numbers.
    pub sequences: Sequences,
    /// Numbers of flows among all that were made, in the slots of the flows; of flows that were
    /// [counted](Self::count) only.
    counts: Vec<u32>,
    counted: u32,
}

impl Default for FlowSet {
    fn default() -> FlowSet {
        FlowSet {
            flows: Vec::new(),
            free: 0,
            live: 0,
            index: Index::default(),
            deadlines: Deadlines::default(),
            capacity: MOST as i32,
            ended: 0,
            exhausted: [None; EXHAUSTED],
            tables: Vec::new(),
            tallies: Vec::new(),
            sequences: Sequences::default(),
            counts: Vec::new(),
            counted: 0,
        }
    }
}

/// Finding flows.
impl FlowSet {
    /// The hash of a key in a table.
    #[inline(always)]
    pub fn hash(&self, table: u16, key: FlowKey) -> u64 {
        self.index.hash(table, key)
    }

    /// The index, to find entries of many packets.
    #[inline(always)]
    pub fn index(&self) -> Lines<'_> {
        self.index.lines()
    }

    /// The flow that probably has this hash, and asks for it; [`Entry::NONE`] if none has.
    #[inline(always)]
    pub fn guess(&self, index: Lines<'_>, hash: u64) -> Entry {
        let entry = index.guess(hash).map_or(Entry::NONE, Entry);
        if let Some(flow) = self.flow(entry.flow()) {
            packet::prefetch(flow);
        }
        entry
    }

    /// Whether `entry` is that of `key` in `table`.
    #[inline(always)]
    pub fn is(&self, entry: Entry, table: u16, key: FlowKey) -> bool {
        let flow = self.flows.get(entry.flow() as usize);
        flow.is_some_and(|flow| flow.table == table && flow.key(entry.direction()) == key)
    }

    /// The flow of `key` in `table`, whose hash is `hash`.
    #[inline]
    pub fn find_hashed(&self, hash: u64, table: u16, key: FlowKey) -> Option<Entry> {
        let is_it = |entry| self.is(Entry(entry), table, key);
        self.index.find(hash, is_it).map(Entry)
    }

    /// The flow of `key` in `table`.
    pub fn find(&self, table: u16, key: FlowKey) -> Option<Entry> {
        self.find_hashed(self.hash(table, key), table, key)
    }

    /// A flow by number.
    #[inline(always)]
    pub fn flow(&self, number: u32) -> Option<&Flow> {
        self.flows.get(number as usize)
    }

    /// A flow by number, to be changed.
    #[inline(always)]
    pub fn flow_mut(&mut self, number: u32) -> Option<&mut Flow> {
        self.flows.get_mut(number as usize)
    }

    /// A flow by number, with all flows' changes of sequence numbers.
    #[inline(always)]
    pub fn flow_and_sequences(&mut self, number: u32) -> Option<(&mut Flow, &mut Sequences)> {
        let flow = self.flows.get_mut(number as usize)?;
        Some((flow, &mut self.sequences))
    }

    /// All flows with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Flow)> {
        let flows = (0u32..).zip(&self.flows);
        flows.filter(|(_, flow)| flow.table != NO_TABLE)
    }

    /// How many flows there are.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// When a flow's time is up.
    pub fn expires(&self, flow: &Flow) -> u64 {
        let table = self.tables.get(usize::from(flow.table));
        table.map_or(0, |table| table.expires(flow))
    }
}

/// Limits.
impl FlowSet {
    /// Takes the numbers that make hashes unpredictable.
    pub fn seed(&mut self, seeds: [u64; 2]) {
        self.index.seed(seeds);
    }

    /// Most flows.
    pub fn capacity(&self) -> i32 {
        self.capacity
    }

    /// Sets the limit. Flows beyond it stay until the next [`reap`](Self::reap).
    pub fn set_capacity(&mut self, capacity: i32) {
        self.capacity = capacity;
    }

    /// Sets memory aside for `flows` flows, so that none is asked for while packets flow.
    pub fn reserve(&mut self, flows: usize) -> Result<(), NoMemory> {
        let more = flows.saturating_sub(self.flows.len());
        self.flows.try_reserve_exact(more).map_err(|_| NoMemory)?;
        self.deadlines.reserve(flows)?;
        self.reserve_index(2 * more)
    }

    /// Sets memory aside for the numbers of `flows` flows.
    pub fn reserve_counts(&mut self, flows: usize) -> Result<(), NoMemory> {
        let more = flows.saturating_sub(self.counts.len());
        self.counts.try_reserve_exact(more).map_err(|_| NoMemory)
    }

    fn reserve_index(&mut self, more: usize) -> Result<(), NoMemory> {
        let flows = &self.flows;
        self.index.reserve(more, |index, entry| {
            let (entry, none) = (Entry(entry), Flow::default());
            let flow = flows.get(entry.flow() as usize).unwrap_or(&none);
            index.hash(flow.table, flow.key(entry.direction()))
        })
    }

    /// Room for one more flow: its slot.
    fn slot(&mut self) -> Result<u32, NoMemory> {
        self.deadlines.reserve(self.live + 1)?;
        self.reserve_index(2)?;
        if let Some(number) = self.free.checked_sub(1) {
            self.free = self.flow(number).map_or(0, |flow| flow.extra);
            return Ok(number);
        }
        if self.flows.len() >= MOST {
            return Err(NoMemory);
        }
        self.flows.try_reserve(1).map_err(|_| NoMemory)?;
        self.flows.push(Flow::default());
        Ok(self.flows.len() as u32 - 1)
    }
}

/// Sources that are all taken.
impl FlowSet {
    fn exhausted_at(&self, table: u16, ground: FlowKey) -> usize {
        self.hash(table, ground) as usize % EXHAUSTED
    }

    /// Whether a search by `input` is known to find nothing: `ground` is what all it would try have
    /// in common.
    pub fn is_exhausted(&self, table: u16, input: u16, ground: FlowKey) -> bool {
        let known = self.exhausted[self.exhausted_at(table, ground)];
        known == Some((table, input, ground, self.ended))
    }

    /// Takes note of a search that found nothing.
    pub fn set_exhausted(&mut self, table: u16, input: u16, ground: FlowKey) {
        let at = self.exhausted_at(table, ground);
        self.exhausted[at] = Some((table, input, ground, self.ended));
    }

    /// Forgets searches that found nothing: an input has something else to do.
    pub fn forget_exhausted(&mut self) {
        self.exhausted = [None; EXHAUSTED];
    }
}

/// Flows come and go.
impl FlowSet {
    /// Adds a flow at time `now`. `None`, and a failure counted, if there is no room for it.
    ///
    /// A flow whose replies the new one would take is ended.
    #[cold]
    pub fn add(&mut self, new: NewFlow, now: u64) -> Option<u32> {
        let made = self.try_add(new, now);
        if made.is_none() {
            self.fail(new.input);
        }
        made
    }

    /// Counts a flow that an input could not make.
    pub fn fail(&mut self, input: u16) {
        if let Some(tally) = self.tallies.get_mut(usize::from(input)) {
            tally.failures = tally.failures.wrapping_add(1);
        }
    }

    fn try_add(&mut self, new: NewFlow, now: u64) -> Option<u32> {
        let table = *self.tables.get(usize::from(new.table))?;
        let number = match self.slot() {
            Ok(number) => number,
            Err(NoMemory) => {
                // No memory is the same as no room: another flow is evicted, if one can be.
                let victim = self.victim(now)?;
                self.end(victim);
                self.slot().ok()?
            }
        };
        let reply = new.rewritten.reverse();
        let old = self.find(new.table, reply);
        if let Some(old) = old {
            self.end(old.flow());
        }
        let flow = self.flows.get_mut(number as usize)?;
        *flow = Flow::between(new.key, new.rewritten);
        flow.last = now;
        flow.outputs = new.outputs;
        flow.input = new.input;
        flow.table = new.table;
        flow.protocol = new.protocol;
        let (queue, deadline) = match table.timeouts.guarantee {
            0 => (Queue::BestEffort, table.expires(flow)),
            _ => (Queue::Guaranteed, table.guaranteed(flow)),
        };
        self.deadlines.put(&mut self.flows, number, queue, deadline);
        let forward = self.index.hash(new.table, new.key);
        let entry = Entry::new(number, Direction::Forward);
        let answer = Entry::new(number, Direction::Reply);
        self.index.insert(forward, entry.0);
        if reply == new.key {
            // A flow that answers itself.
            self.index.replace(forward, entry.0, answer.0);
        } else {
            self.index
                .insert(self.index.hash(new.table, reply), answer.0);
        }
        self.live += 1;
        if let Some(tally) = self.tallies.get_mut(usize::from(new.input)) {
            tally.flows += 1;
        }
        if i64::from(self.capacity) < self.live as i64 {
            let victim = self.victim(now).unwrap_or(number);
            self.end(victim);
            if victim == number {
                return None;
            }
        }
        Some(number)
    }

    /// Gives a new flow the number that [`annotate`](Self::annotate) writes.
    #[cold]
    pub fn count(&mut self, flow: u32) {
        let more = (flow as usize + 1).saturating_sub(self.counts.len());
        // Without memory, the flow's packets keep their annotation.
        if self.counts.try_reserve(more).is_ok() {
            self.counts.resize(self.counts.len() + more, 0);
            self.counts[flow as usize] = self.counted;
        }
        self.counted = self.counted.wrapping_add(1);
    }

    /// Sets the aggregate annotation of a flow's packets to the flow's number. Out of the way of
    /// rewriters that are not asked to.
    #[cold]
    pub fn annotate(&self, flow: u32, packets: &mut [Packet]) {
        if let Some(count) = self.counts.get(flow as usize) {
            for packet in packets {
                packet.set_anno(AGGREGATE, *count);
            }
        }
    }

    /// Requeues a flow whose timeout may have become shorter.
    #[cold]
    pub fn hasten(&mut self, number: u32) {
        let Some(flow) = self.flows.get(number as usize) else {
            return;
        };
        let Some(table) = self.tables.get(usize::from(flow.table)) else {
            return;
        };
        let expires = table.expires(flow);
        if flow.queue == Queue::BestEffort && expires < flow.queued {
            self.deadlines
                .put(&mut self.flows, number, Queue::BestEffort, expires);
        }
    }

    /// Ends a flow.
    pub fn end(&mut self, number: u32) {
        let Some(flow) = self.flows.get_mut(number as usize) else {
            return;
        };
        let table = core::mem::replace(&mut flow.table, NO_TABLE);
        if table == NO_TABLE {
            return;
        }
        for direction in [Direction::Forward, Direction::Reply] {
            let hash = self.index.hash(table, flow.key(direction));
            let entry = Entry::new(number, direction);
            self.index.remove(hash, entry.0);
        }
        self.sequences.end(flow.extra);
        flow.extra = self.free;
        self.free = number + 1;
        self.live -= 1;
        self.ended += 1;
        if let Some(tally) = self.tallies.get_mut(usize::from(flow.input)) {
            tally.flows = tally.flows.saturating_sub(1);
        }
    }

    /// Ends all flows that an input made.
    pub fn end_of(&mut self, input: u16) {
        for number in 0..self.flows.len() as u32 {
            if self.flow(number).is_some_and(|flow| flow.input == input) {
                self.end(number);
            }
        }
    }

    /// Ends every flow.
    pub fn clear(&mut self) {
        for number in 0..self.flows.len() as u32 {
            self.end(number);
        }
        self.index.clear();
        self.deadlines.clear();
    }

    /// Ends the flows whose time is up, and those beyond the limit.
    pub fn reap(&mut self, now: u64) {
        while let Some((expires, number)) = self.best_effort(now)
            && expires <= now
        {
            self.end(number);
        }
        while i64::from(self.capacity) < self.live as i64 {
            let Some(number) = self.victim(now).or_else(|| self.least_guaranteed()) else {
                break;
            };
            self.end(number);
        }
    }

    /// The flow to evict for another: the first outside its guarantee whose time is up.
    fn victim(&mut self, now: u64) -> Option<u32> {
        self.best_effort(now).map(|(_, number)| number)
    }

    /// The first flow outside its guarantee, and when its time is up.
    fn best_effort(&mut self, now: u64) -> Option<(u64, u32)> {
        // Flows whose guarantee is over join the others.
        while let Some((deadline, number)) = self.deadlines.first(Queue::Guaranteed, &self.flows)
            && deadline <= now
        {
            self.requeue(Queue::Guaranteed, number, now);
        }
        loop {
            let (deadline, number) = self.deadlines.first(Queue::BestEffort, &self.flows)?;
            let flow = self.flows.get(number as usize)?;
            let table = self.tables.get(usize::from(flow.table))?;
            let guaranteed = table.timeouts.guarantee > 0 && table.guaranteed(flow) > now;
            if !guaranteed && table.expires(flow) <= deadline {
                return Some((table.expires(flow), number));
            }
            self.requeue(Queue::BestEffort, number, now);
        }
    }

    /// The flow whose guarantee ends first.
    fn least_guaranteed(&mut self) -> Option<u32> {
        loop {
            let (deadline, number) = self.deadlines.first(Queue::Guaranteed, &self.flows)?;
            let flow = self.flows.get(number as usize)?;
            let table = self.tables.get(usize::from(flow.table))?;
            if table.guaranteed(flow) <= deadline {
                return Some(number);
            }
            self.requeue(Queue::Guaranteed, number, deadline);
        }
    }

    /// Takes the first flow of a queue, which is `number`, and puts it where it belongs.
    fn requeue(&mut self, from: Queue, number: u32, now: u64) {
        self.deadlines.pop(from);
        let Some(flow) = self.flows.get(number as usize) else {
            return;
        };
        let Some(table) = self.tables.get(usize::from(flow.table)) else {
            return;
        };
        let guaranteed = table.guaranteed(flow);
        let (queue, deadline) = if table.timeouts.guarantee > 0 && guaranteed > now {
            (Queue::Guaranteed, guaranteed)
        } else {
            (Queue::BestEffort, table.expires(flow))
        };
        self.deadlines.put(&mut self.flows, number, queue, deadline);
    }
}
