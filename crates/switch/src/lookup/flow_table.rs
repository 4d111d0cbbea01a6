//! The flow table: which port a flow goes to, exactly.
//!
//! An entry is added by the switch's administrator, or learned: after the first packet of a flow,
//! the packets of the other direction go to that packet's port. A learned entry ages, and stays
//! with the first port. Learned entries are bounded, in all and for each port; a full table learns
//! nothing until an entry ages out. A packet without an entry goes by the [default](FlowDefault):
//! by addresses as in a learning bridge, to one port, or nowhere. Frames other than IP, and
//! fragments, always go by addresses.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry as Slot;

use super::flow::{Flow, FlowWords};
use super::{
    Answer, Command, Destination, FlowDefault, FlowEntry, Known, LEARNED_MAX, LearnedEntry,
    Learning, Limits, Lookup, Mac, PortIndex, Seconds, is_group,
};
use crate::counters::Reason;
use crate::port::Frame;
use crate::properties::DomainProperties;

/// Entries of the whole table.
pub const FLOWS_MAX: usize = 65_536;
/// Entries learned for one port.
pub const FLOWS_PER_PORT_MAX: usize = 16_384;
/// Most entries in one answer.
pub const FLOWS_PER_ANSWER: usize = 512;

#[derive(Clone, Copy, Debug)]
struct TableEntry {
    port: PortIndex,
    /// Made by hand: never moves, never ages.
    pinned: bool,
    seen: Seconds,
}

impl TableEntry {
    fn is_fresh(&self, now: Seconds, aging: Seconds) -> bool {
        self.pinned || now.wrapping_sub(self.seen) < aging
    }
}

/// A flow table of a domain with these properties.
pub(super) fn build(
    properties: &DomainProperties,
    replicated: bool,
) -> Result<Box<dyn Lookup>, String> {
    let mut function = FlowTable::new(FLOWS_MAX, FLOWS_PER_PORT_MAX, Limits::default());
    function.configure(properties);
    function.set_replicated(replicated);
    Ok(Box::new(function))
}

/// The flow table as a lookup function.
pub struct FlowTable {
    /// The table of addresses, for frames without an entry.
    learning: Learning,
    limits: Limits,
    table: HashMap<FlowWords, TableEntry>,
    /// How many entries were learned for each port.
    learned: HashMap<PortIndex, usize>,
    /// How many were made by hand, for ports that have such.
    made: HashMap<PortIndex, usize>,
    default: FlowDefault<PortIndex>,
    /// What the replicas are yet to be told, if there are any.
    news: Option<Vec<LearnedEntry>>,
    swept: Seconds,
    now: Seconds,
}

impl FlowTable {
    /// An empty table with room for so many flows in all and for each port; addresses have the
    /// other limits.
    pub fn new(flows: usize, per_port: usize, addresses: Limits) -> FlowTable {
        FlowTable {
            learning: Learning::new(addresses),
            limits: Limits {
                table: flows,
                port: per_port,
                aging: addresses.aging,
            },
            // Twice as much as it may hold, so that no frame makes it grow, not even to get rid of
            // removed entries.
            table: HashMap::with_capacity(2 * (flows + 1)),
            learned: HashMap::new(),
            made: HashMap::new(),
            default: FlowDefault::Addresses,
            news: None,
            swept: 0,
            now: 0,
        }
    }

    /// Sets whether it keeps [`news`](Lookup::news) for its replicas.
    pub fn set_replicated(&mut self, replicated: bool) {
        self.learning.set_replicated(replicated);
        self.news = replicated.then(|| Vec::with_capacity(LEARNED_MAX));
    }

    /// Number of entries.
    pub fn flows(&self) -> usize {
        self.table.len()
    }

    /// The port of a flow, unless it has none or is on the side that the frame came from.
    #[inline]
    fn find(&self, key: &FlowWords, from: PortIndex) -> Option<PortIndex> {
        let entry = self.table.get(key)?;
        let counts = entry.is_fresh(self.now, self.limits.aging) && entry.port != from;
        counts.then_some(entry.port)
    }

    /// Notes that packets of the flow `key` go to `port`.
    #[inline]
    fn learn(&mut self, key: FlowWords, port: PortIndex) {
        if self.note(key, port)
            && let Some(news) = &mut self.news
            && news.len() < LEARNED_MAX
        {
            let flow = key.flow();
            news.push(LearnedEntry::Flow { flow, port });
        }
    }

    /// Makes or refreshes an entry, if the table has room and the flow belongs to no other port.
    /// Returns whether the entry is new or changed.
    fn note(&mut self, key: FlowWords, port: PortIndex) -> bool {
        // Replicas must not forget what only one lane sees, nor be told of each packet.
        let lull = match self.news {
            Some(_) => self.limits.aging / 16,
            None => 0,
        };
        let full = self.table.len() >= self.limits.table;
        let Some(mine) = self.learned.get(&port).copied() else {
            return false;
        };
        match self.table.entry(key) {
            Slot::Occupied(mut entry) => {
                let entry = entry.get_mut();
                if entry.port == port {
                    if self.now.wrapping_sub(entry.seen) < lull {
                        return false;
                    }
                    entry.seen = self.now;
                    return !entry.pinned;
                }
                if entry.is_fresh(self.now, self.limits.aging) || mine >= self.limits.port {
                    return false;
                }
                let old = std::mem::replace(&mut entry.port, port);
                entry.seen = self.now;
                if let Some(count) = self.learned.get_mut(&old) {
                    *count -= 1;
                }
            }
            Slot::Vacant(_) if full || mine >= self.limits.port => {
                self.sweep(1);
                return false;
            }
            Slot::Vacant(slot) => {
                slot.insert(TableEntry {
                    port,
                    pinned: false,
                    seen: self.now,
                });
            }
        }
        if let Some(count) = self.learned.get_mut(&port) {
            *count += 1;
        }
        true
    }

    /// Removes aged entries, if the last sweep was `every` seconds ago or earlier.
    fn sweep(&mut self, every: Seconds) {
        if self.now.wrapping_sub(self.swept) < every {
            return;
        }
        self.swept = self.now;
        let (now, aging, learned) = (self.now, self.limits.aging, &mut self.learned);
        self.table.retain(|_, entry| {
            let stays = entry.is_fresh(now, aging);
            if !stays && let Some(count) = learned.get_mut(&entry.port) {
                *count -= 1;
            }
            stays
        });
    }

    fn add(&mut self, flow: Flow, port: PortIndex) -> Result<(), String> {
        let key =
            FlowWords::of_flow(flow).ok_or("a flow's addresses are both IPv4 or both IPv6")?;
        if !self.learned.contains_key(&port) {
            return Err("the port is in another domain".into());
        }
        let known = self.table.contains_key(&key);
        if !known && self.table.len() >= self.limits.table {
            let most = self.limits.table;
            return Err(format!(
                "the table has {most} flows, the maximum: remove one first"
            ));
        }
        let entry = TableEntry {
            port,
            pinned: true,
            seen: self.now,
        };
        let old = self.table.insert(key, entry);
        self.forget(old);
        *self.made.entry(port).or_default() += 1;
        Ok(())
    }

    fn remove(&mut self, flow: Flow) -> Result<(), String> {
        let old = FlowWords::of_flow(flow).and_then(|key| self.table.remove(&key));
        self.forget(old);
        old.map(drop).ok_or_else(|| "no such flow".into())
    }

    /// Takes an entry that is gone out of the count of its port.
    fn forget(&mut self, old: Option<TableEntry>) {
        let Some(TableEntry { port, pinned, .. }) = old else {
            return;
        };
        let counts = match pinned {
            true => &mut self.made,
            false => &mut self.learned,
        };
        if let Some(count) = counts.get_mut(&port) {
            *count -= 1;
        }
    }

    /// The entries from the `from`-th on, in the order of their flows.
    fn list(&self, from: usize) -> Answer {
        let fresh = |entry: &TableEntry| entry.is_fresh(self.now, self.limits.aging);
        let known = self.table.iter().filter(|(_, entry)| fresh(entry));
        let mut flows: Vec<FlowEntry<PortIndex>> = known
            .map(|(key, entry)| FlowEntry {
                flow: key.flow(),
                port: entry.port,
                age: (!entry.pinned).then(|| self.now.wrapping_sub(entry.seen)),
            })
            .collect();
        flows.sort_unstable_by_key(|entry| entry.flow);
        let next = from + FLOWS_PER_ANSWER;
        let next = (next < flows.len()).then_some(next as u32);
        let flows = flows.into_iter().skip(from).take(FLOWS_PER_ANSWER);
        Answer::Flows {
            flows: flows.collect(),
            next,
        }
    }
}

impl Lookup for FlowTable {
    fn steer(&mut self, from: PortIndex, frames: &[Frame], to: &mut [Destination], now: Seconds) {
        self.now = now;
        self.sweep((self.limits.aging / 8).max(1));
        self.learning.steer(from, frames, to, now);
        // Frames come in runs of the same flow: one look at the table serves a run.
        let mut last = None;
        for (frame, to) in frames.iter().zip(to) {
            let refused = matches!(to, Destination::Drop(reason) if *reason != Reason::SameSide);
            if refused || is_group(frame.head()) {
                continue;
            }
            let Some(key) = FlowWords::of(frame) else {
                continue;
            };
            let found = match last {
                Some((same, found)) if same == key => found,
                _ => {
                    let found = self.find(&key, from);
                    // The table does not handle frames between two ports on the same side.
                    if found.is_some() || !matches!(to, Destination::Drop(_)) {
                        self.learn(key.reversed(), from);
                    }
                    last = Some((key, found));
                    found
                }
            };
            *to = match (found, self.default) {
                (Some(port), _) => Destination::Port(port),
                (None, FlowDefault::Port(port)) if port != from => Destination::Port(port),
                (None, FlowDefault::Drop) => Destination::Drop(Reason::NoDestination),
                (None, _) => *to,
            };
        }
    }

    fn attach(&mut self, port: PortIndex, mac: Option<Mac>, vlan: u16) {
        self.learning.attach(port, mac, vlan);
        self.learned.insert(port, 0);
    }

    fn detach(&mut self, port: PortIndex) {
        self.learning.detach(port);
        let counts = [self.learned.remove(&port), self.made.remove(&port)];
        if counts.iter().flatten().any(|count| *count > 0) {
            self.table.retain(|_, entry| entry.port != port);
        }
        if self.default == FlowDefault::Port(port) {
            self.default = FlowDefault::Addresses;
        }
    }

    fn flush(&mut self) {
        self.learning.flush();
        self.table.retain(|_, entry| entry.pinned);
        self.learned.values_mut().for_each(|count| *count = 0);
    }

    fn configure(&mut self, properties: &DomainProperties) {
        self.learning.configure(properties);
        self.limits.aging = properties.aging;
    }

    fn news(&mut self) -> Option<LearnedEntry> {
        let flow = self.news.as_mut().and_then(Vec::pop);
        flow.or_else(|| self.learning.news())
    }

    fn hear(&mut self, news: LearnedEntry, now: Seconds) {
        self.now = now;
        match news {
            LearnedEntry::Address { .. } => self.learning.hear(news, now),
            LearnedEntry::Flow { flow, port } => {
                if let Some(key) = FlowWords::of_flow(flow) {
                    self.note(key, port);
                }
            }
        }
    }

    fn entries(&self) -> usize {
        self.learning.entries()
    }

    fn table(&self, now: Seconds) -> Vec<Known> {
        self.learning.table(now)
    }

    fn command(&mut self, command: &Command<PortIndex>) -> Result<Answer, String> {
        match command {
            Command::AddFlow { flow, port } => self.add(*flow, *port).map(|()| Answer::Done),
            Command::RemoveFlow { flow } => self.remove(*flow).map(|()| Answer::Done),
            Command::SetDefault { default } => {
                if let FlowDefault::Port(port) = default
                    && !self.learned.contains_key(port)
                {
                    return Err("the port is in another domain".into());
                }
                self.default = *default;
                Ok(Answer::Done)
            }
            Command::Flows { from } => Ok(self.list(*from as usize)),
            Command::Read { .. } | Command::Write { .. } => {
                Err("a flow table has no handlers".into())
            }
        }
    }
}

#[cfg(test)]
mod tests;
