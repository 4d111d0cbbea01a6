//! The default lookup function: an Ethernet bridge's table, with the port at which each address was
//! last seen.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry as Slot;

use super::{Destination, Known, LEARNED_MAX, LearnedEntry, Lookup, PortIndex, Seconds};
use crate::counters::Reason;
use crate::mac::Mac;
use crate::port::{Frame, HEAD};
use crate::properties::DomainProperties;

/// A learning function of a domain with these properties.
pub(super) fn build(
    properties: &DomainProperties,
    replicated: bool,
) -> Result<Box<dyn Lookup>, String> {
    let mut learning = Learning::new(Limits::default());
    learning.configure(properties);
    learning.set_replicated(replicated);
    Ok(Box::new(learning))
}

/// Limits of a learning table.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Addresses in the whole table.
    pub table: usize,
    /// Addresses learned behind one port; others keep being flooded.
    pub port: usize,
    /// Seconds after which an address that was not seen again is forgotten (802.1D: 300).
    pub aging: Seconds,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            table: 65_536,
            port: 1024,
            aging: 300,
        }
    }
}

/// An address, in the low 48 bits, and the VLAN that it was seen in above them.
type AddressKey = u64;

/// Where a key has the VLAN.
const VLAN_SHIFT: u32 = 48;

/// The address at `at` of a frame's head, in no VLAN.
#[inline(always)]
fn key(head: &[u8; HEAD], at: usize) -> AddressKey {
    const ADDRESS: u64 = (1 << 48) - 1;
    let mut word = [0; 8];
    word.copy_from_slice(&head[at..at + 8]);
    u64::from_le_bytes(word) & ADDRESS
}

/// The same of an address by itself, in a VLAN.
fn key_of(mac: Mac, vlan: u16) -> AddressKey {
    let mut head = [0; HEAD];
    head[..6].copy_from_slice(&mac.0);
    key(&head, 0) | u64::from(vlan) << VLAN_SHIFT
}

/// The group bit of an address: the lowest of its first byte.
const GROUP: u64 = 1;

#[derive(Clone, Copy, Debug)]
struct Station {
    port: PortIndex,
    /// Given with the port, not learned: never moves, never ages.
    pinned: bool,
    seen: Seconds,
}

/// The learning L2 table.
///
/// Addresses with the group bit are never learned, and frames from them dropped. Each port may
/// take only so much of the table. A full table learns nothing new until something ages out: what
/// is not known is flooded, so traffic still arrives.
pub struct Learning {
    limits: Limits,
    /// Most entries for which the table has its capacity: no frame makes it grow.
    capacity: usize,
    table: HashMap<AddressKey, Station>,
    /// How many learned entries each port has.
    learned: HashMap<PortIndex, Learned>,
    swept: Seconds,
    /// Reports for the replicas, if there are any: addresses that are new, have moved, or were not
    /// reported for a while.
    news: Option<Vec<LearnedEntry>>,
    /// Whether an address has moved from port to port.
    moved: bool,
}

/// The addresses learned behind one port.
#[derive(Debug)]
struct Learned {
    /// Number of entries.
    count: usize,
    /// The address that it was attached with.
    pinned: Option<AddressKey>,
    /// Where its entries are, and perhaps some that are not its own any more: so that few need not
    /// be looked for among all when the port goes.
    keys: Vec<AddressKey>,
    /// Whether they are too many to be noted.
    many: bool,
}

/// Addresses behind a port that are noted with it.
const KEYS: usize = 64;

impl Learned {
    fn new(pinned: Option<AddressKey>) -> Learned {
        Learned {
            count: 0,
            pinned,
            // Noting one never allocates.
            keys: Vec::with_capacity(KEYS),
            many: false,
        }
    }

    /// Notes another entry, which is the port's in `table`.
    fn note(&mut self, key: AddressKey, port: PortIndex, table: &HashMap<AddressKey, Station>) {
        if self.many {
            return;
        }
        if self.keys.len() == KEYS {
            self.keys.sort_unstable();
            self.keys.dedup();
            self.keys.retain(|key| is_behind(table, *key, port));
        }
        if self.keys.len() < KEYS {
            self.keys.push(key);
        } else {
            self.many = true;
        }
    }

    fn forget(&mut self) {
        self.count = 0;
        self.keys.clear();
        self.many = false;
    }
}

/// Whether an address was learned behind a port.
fn is_behind(table: &HashMap<AddressKey, Station>, key: AddressKey, port: PortIndex) -> bool {
    let entry = table.get(&key);
    entry.is_some_and(|entry| entry.port == port && !entry.pinned)
}

impl Learning {
    /// An empty table.
    pub fn new(limits: Limits) -> Learning {
        Learning {
            limits,
            capacity: 0,
            table: HashMap::new(),
            learned: HashMap::new(),
            swept: 0,
            moved: false,
            news: None,
        }
    }

    /// Sets whether it keeps [`news`](Lookup::news) for its replicas.
    pub fn set_replicated(&mut self, replicated: bool) {
        self.news = replicated.then(|| Vec::with_capacity(LEARNED_MAX));
    }

    /// Gives the table the capacity for all that its ports may learn.
    fn reserve(&mut self) {
        let entries = (self.learned.len() * (self.limits.port + 1)).min(self.limits.table + 1);
        self.capacity = self.capacity.max(entries);
        // Twice as much, so that the map never grows to get rid of removed entries.
        let reserved = 2 * self.capacity;
        self.table
            .reserve(reserved - self.table.len().min(reserved));
    }

    /// For how long an address that is seen again and again counts as seen before it is noted, and
    /// the replicas told: they must not forget what only one lane sees.
    fn lull(&self) -> Seconds {
        if self.news.is_some() {
            self.limits.aging / 16
        } else {
            0
        }
    }

    /// Notes that `key` was seen behind `port`.
    fn learn(&mut self, key: AddressKey, port: PortIndex, now: Seconds) {
        if key & ((1 << VLAN_SHIFT) - 1) == 0 {
            return;
        }
        let lull = self.lull();
        if let Some(entry) = self.table.get_mut(&key)
            && (entry.port == port || entry.pinned)
        {
            if now.wrapping_sub(entry.seen) < lull {
                return;
            }
            let pinned = entry.pinned;
            entry.seen = now;
            if !pinned && lull > 0 {
                self.tell(key, port);
            }
            return;
        }
        let mine = self.learned.get(&port).map_or(0, |mine| mine.count);
        if mine < self.limits.port && self.put(key, port, now) {
            return self.tell(key, port);
        }
        self.sweep(now, 1);
    }

    /// Enters `key` behind `port`, or moves it there, unless it is pinned or the table full.
    /// Returns whether it is there then.
    fn put(&mut self, key: AddressKey, port: PortIndex, now: Seconds) -> bool {
        let full = self.table.len() >= self.capacity.min(self.limits.table);
        let new = Station {
            port,
            pinned: false,
            seen: now,
        };
        match self.table.entry(key) {
            Slot::Occupied(entry) if entry.get().pinned => return false,
            Slot::Occupied(mut entry) => {
                let old = std::mem::replace(entry.get_mut(), new);
                self.moved |= old.port != port;
                if let Some(old) = self.learned.get_mut(&old.port) {
                    old.count -= 1;
                }
            }
            Slot::Vacant(_) if full => return false,
            Slot::Vacant(slot) => {
                slot.insert(new);
            }
        }
        if let Some(mine) = self.learned.get_mut(&port) {
            mine.count += 1;
            mine.note(key, port, &self.table);
        }
        true
    }

    fn tell(&mut self, key: AddressKey, port: PortIndex) {
        if let Some(news) = &mut self.news
            && news.len() < LEARNED_MAX
        {
            news.push(LearnedEntry::Address { key, port });
        }
    }

    /// Removes aged entries, if the last sweep was `every` seconds ago or earlier.
    fn sweep(&mut self, now: Seconds, every: Seconds) {
        if now.wrapping_sub(self.swept) < every {
            return;
        }
        self.swept = now;
        let (aging, learned) = (self.limits.aging, &mut self.learned);
        self.table.retain(|_, entry| {
            let stays = entry.is_fresh(now, aging);
            if !stays && let Some(mine) = learned.get_mut(&entry.port) {
                mine.count -= 1;
            }
            stays
        });
    }

    fn find(&self, key: AddressKey, from: PortIndex, now: Seconds) -> Destination {
        match self.table.get(&key) {
            Some(entry) if !entry.is_fresh(now, self.limits.aging) => Destination::Flood,
            Some(entry) if entry.port == from => Destination::Drop(Reason::SameSide),
            Some(entry) => Destination::Port(entry.port),
            None => Destination::Flood,
        }
    }
}

impl Station {
    fn is_fresh(&self, now: Seconds, aging: Seconds) -> bool {
        self.pinned || now.wrapping_sub(self.seen) < aging
    }
}

impl Lookup for Learning {
    fn behind(&self, mac: Mac) -> Option<PortIndex> {
        let key = key_of(mac, 0);
        self.table.get(&key).map(|entry| entry.port)
    }

    fn learns(&self) -> bool {
        true
    }

    fn has_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    fn steer(&mut self, from: PortIndex, frames: &[Frame], to: &mut [Destination], now: Seconds) {
        self.sweep(now, (self.limits.aging / 8).max(1));
        // Frames come in runs of the same flow: one look at the table serves a run.
        let mut last_source = None;
        let mut last_found = None;
        for (frame, to) in frames.iter().zip(to) {
            let head = frame.head();
            let vlan = u64::from(frame.vlan()) << VLAN_SHIFT;
            let (destination, source) = (key(head, 0) | vlan, key(head, 6) | vlan);
            if source & GROUP != 0 {
                *to = Destination::Drop(Reason::MulticastSource);
                continue;
            }
            if last_source != Some(source) {
                self.learn(source, from, now);
                last_source = Some(source);
                last_found = None;
            }
            *to = match last_found {
                Some((address, found)) if address == destination => found,
                _ if destination & GROUP != 0 => Destination::Flood,
                _ => {
                    let found = self.find(destination, from, now);
                    last_found = Some((destination, found));
                    found
                }
            };
        }
    }

    fn attach(&mut self, port: PortIndex, mac: Option<Mac>, vlan: u16) {
        let pinned = mac.map(|mac| key_of(mac, vlan));
        self.learned.insert(port, Learned::new(pinned));
        self.reserve();
        if let Some(key) = pinned {
            let entry = Station {
                port,
                pinned: true,
                seen: 0,
            };
            let old = self.table.insert(key, entry);
            if let Some(old) = old.filter(|old| !old.pinned)
                && let Some(old) = self.learned.get_mut(&old.port)
            {
                old.count -= 1;
            }
        }
    }

    fn detach(&mut self, port: PortIndex) {
        let Some(gone) = self.learned.remove(&port) else {
            return;
        };
        if let Some(key) = gone.pinned
            && self.table.get(&key).is_some_and(|entry| entry.port == port)
        {
            self.table.remove(&key);
        }
        // Most ports have a few addresses: only others need the whole table.
        if gone.many && gone.count > 0 {
            self.table.retain(|_, entry| entry.port != port);
        } else {
            for key in gone.keys {
                if is_behind(&self.table, key, port) {
                    self.table.remove(&key);
                }
            }
        }
    }

    fn flush(&mut self) {
        self.table.retain(|_, entry| entry.pinned);
        self.learned.values_mut().for_each(Learned::forget);
    }

    fn configure(&mut self, properties: &DomainProperties) {
        self.limits.aging = properties.aging;
        self.limits.port = properties.mac_limit as usize;
        self.reserve();
    }

    fn news(&mut self) -> Option<LearnedEntry> {
        self.news.as_mut()?.pop()
    }

    fn hear(&mut self, news: LearnedEntry, now: Seconds) {
        let LearnedEntry::Address { key, port } = news else {
            return;
        };
        if !self.learned.contains_key(&port) {
            return;
        }
        match self.table.get_mut(&key) {
            Some(entry) if entry.port == port => entry.seen = now,
            _ => {
                self.put(key, port, now);
            }
        }
    }

    fn entries(&self) -> usize {
        self.table.len()
    }

    fn table(&self, now: Seconds) -> Vec<Known> {
        let fresh = self.table.iter();
        let fresh = fresh.filter(|(_, entry)| entry.is_fresh(now, self.limits.aging));
        let known = fresh.map(|(key, entry)| {
            let [a, b, c, d, e, g, ..] = key.to_le_bytes();
            Known {
                mac: Mac([a, b, c, d, e, g]),
                vlan: (key >> VLAN_SHIFT) as u16,
                port: entry.port,
                age: (!entry.pinned).then(|| now.wrapping_sub(entry.seen)),
            }
        });
        known.collect()
    }
}

#[cfg(test)]
mod tests;
