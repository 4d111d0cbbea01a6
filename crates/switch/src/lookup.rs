//! Lookup functions: where a frame of a domain goes.
//!
//! A domain has one [`Lookup`], asked once for each batch. The default is [`Learning`]: an
//! Ethernet bridge's table of which address was last seen behind which port. (That the function
//! can be exchanged is mSwitch's idea; Honda et al. 2015.)

pub mod click;
pub mod command;
pub mod flow;
pub mod flow_table;
pub mod flow_text;
#[cfg(test)]
mod frames;
pub mod hash;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry as Place;
use serde::{Deserialize, Serialize};

use crate::counters::Reason;
use crate::port::Frame;
use crate::properties::{DomainProperties, LookupKind};

use self::click::ClickFunction;
use flow_table::{FLOWS_MAX, FLOWS_PER_PORT_MAX, FlowTable};
use hash::HashSteered;

pub use command::{Answer, Command, FlowDefault, FlowEntry};
pub use flow::Flow;

/// An Ethernet address.
///
/// Written as six pairs of hexadecimal digits with colons between; dashes are read as well.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac(pub [u8; 6]);

/// A text that is no Ethernet address.
#[derive(Debug, thiserror::Error)]
#[error(
    "‘{0}’ is no Ethernet address: write six pairs of hexadecimal digits, as in 02:00:00:00:00:01"
)]
pub struct NoMac(String);

impl Mac {
    /// Whether it is a multicast or the broadcast address.
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl std::str::FromStr for Mac {
    type Err = NoMac;

    fn from_str(text: &str) -> Result<Mac, NoMac> {
        let mut bytes = [0; 6];
        let mut pairs = text.split([':', '-']);
        for byte in &mut bytes {
            let pair = pairs.next().filter(|pair| pair.len() == 2);
            let digits = pair.filter(|pair| pair.bytes().all(|b| b.is_ascii_hexdigit()));
            let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            *byte = value.ok_or_else(|| NoMac(text.into()))?;
        }
        match pairs.next() {
            None => Ok(Mac(bytes)),
            Some(_) => Err(NoMac(text.into())),
        }
    }
}

impl TryFrom<String> for Mac {
    type Error = NoMac;

    fn try_from(text: String) -> Result<Mac, NoMac> {
        text.parse()
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> String {
        mac.to_string()
    }
}

impl std::fmt::Debug for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// A port's index: its place among the ports of its worker.
pub type PortIndex = u16;

/// Seconds on a clock of the worker's.
pub type Seconds = u32;

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To one port.
    Port(PortIndex),
    /// To every other port of the domain.
    Flood,
    /// Nowhere.
    Drop(Reason),
}

/// A domain's lookup function and its state.
pub trait Lookup: Send {
    /// Says for each of `frames`, which came from port `from`, where it goes: `to[i]` for
    /// `frames[i]`. Both are of the same length, [`crate::port::BATCH`] at most. `now` never goes
    /// back. Runs for each batch: it must not allocate.
    fn steer(&mut self, from: PortIndex, frames: &[Frame], to: &mut [Destination], now: Seconds);

    /// A port is about to join the domain: what users call it, and whether it leads out of the
    /// host.
    fn introduce(&mut self, port: PortIndex, name: &str, uplink: bool) {
        let _ = (port, name, uplink);
    }

    /// Carries out what is asked of functions of this kind.
    fn command(&mut self, command: &Command<PortIndex>) -> Result<Answer, String> {
        let _ = command;
        Err("the domain's lookup function has neither flows nor handlers".into())
    }

    /// A port joins the domain. `mac` is the address that is known to be behind it, in VLAN `vlan`
    /// if that is not 0.
    fn attach(&mut self, port: PortIndex, mac: Option<Mac>, vlan: u16);

    /// A port leaves the domain: nothing goes to it from now on.
    fn detach(&mut self, port: PortIndex);

    /// Forgets what was learned.
    fn flush(&mut self);

    /// The domain's properties have changed; those of this function's own kind.
    fn configure(&mut self, properties: &DomainProperties);

    /// Something that was learned and that this function's replicas on other lanes are yet to be
    /// told. Only asked where there are any.
    fn news(&mut self) -> Option<News> {
        None
    }

    /// A replica on another lane has learned something.
    fn hear(&mut self, news: News, now: Seconds) {
        let _ = (news, now);
    }

    /// Number of addresses known.
    fn entries(&self) -> usize;

    /// The addresses known, in no order.
    fn table(&self, now: Seconds) -> Vec<Known>;
}

/// What one lane's lookup function tells its replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// An address was seen.
    Address {
        /// It, in the low 48 bits.
        key: u64,
        /// Behind which port.
        port: PortIndex,
    },
    /// A flow was seen whose other direction this is.
    Flow {
        /// That direction.
        flow: Flow,
        /// Where its packets go.
        port: PortIndex,
    },
}

/// The lookup function of a domain with these properties. `replicated` if it is one of several, one
/// for each lane.
pub fn build(properties: &DomainProperties, replicated: bool) -> Result<Box<dyn Lookup>, String> {
    match &properties.lookup {
        LookupKind::Learning => {
            let mut learning = Learning::new(Limits::default());
            learning.configure(properties);
            learning.set_replicated(replicated);
            Ok(Box::new(learning))
        }
        LookupKind::Hash => {
            let mut hash = HashSteered::new(Limits::default());
            hash.configure(properties);
            hash.set_replicated(replicated);
            Ok(Box::new(hash))
        }
        LookupKind::FlowTable => {
            let limits = Limits::default();
            let mut table = FlowTable::new(FLOWS_MAX, FLOWS_PER_PORT_MAX, limits);
            table.configure(properties);
            table.set_replicated(replicated);
            Ok(Box::new(table))
        }
        LookupKind::Click { config } => Ok(Box::new(ClickFunction::new(config)?)),
    }
}

/// An address that a lookup function knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The address.
    pub mac: Mac,
    /// The VLAN it was seen in; 0 for none, or where VLANs are not told apart.
    pub vlan: u16,
    /// The port that it is behind.
    pub port: PortIndex,
    /// Since when it was not seen, unless it does not age.
    pub age: Option<Seconds>,
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
type Key = u64;

/// Where a key has the VLAN.
const VLAN_SHIFT: u32 = 48;

/// The address at `at` of a frame's head, in no VLAN.
#[inline(always)]
fn key(head: &[u8; crate::port::HEAD], at: usize) -> Key {
    const ADDRESS: u64 = (1 << 48) - 1;
    let mut word = [0; 8];
    word.copy_from_slice(&head[at..at + 8]);
    u64::from_le_bytes(word) & ADDRESS
}

/// The same of an address by itself, in a VLAN.
fn key_of(mac: Mac, vlan: u16) -> Key {
    let mut head = [0; crate::port::HEAD];
    head[..6].copy_from_slice(&mac.0);
    key(&head, 0) | u64::from(vlan) << VLAN_SHIFT
}

/// Whether a frame goes to a multicast or the broadcast address.
#[inline(always)]
fn is_group(head: &[u8; crate::port::HEAD]) -> bool {
    head[0] & 1 != 0
}

/// The group bit of an address: the lowest of its first byte.
const GROUP: u64 = 1;

#[derive(Clone, Copy, Debug)]
struct Entry {
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
    table: HashMap<Key, Entry>,
    /// How many learned entries each port has.
    learned: HashMap<PortIndex, Learned>,
    swept: Seconds,
    /// What the replicas are yet to be told, if there are any: addresses that are new, that have
    /// moved, or that were not told of for a while.
    news: Option<Vec<News>>,
}

/// What was learned behind one port.
#[derive(Debug)]
struct Learned {
    /// Number of entries.
    count: usize,
    /// The address that it was attached with.
    pinned: Option<Key>,
    /// Where its entries are, and perhaps some that are not its own any more: so that few need not
    /// be looked for among all when the port goes.
    keys: Vec<Key>,
    /// Whether they are too many to be noted.
    many: bool,
}

/// Addresses behind a port that are noted with it.
const KEYS: usize = 64;

impl Learned {
    fn new(pinned: Option<Key>) -> Learned {
        Learned {
            count: 0,
            pinned,
            // Noting one never allocates.
            keys: Vec::with_capacity(KEYS),
            many: false,
        }
    }

    /// Notes another entry, which is the port's in `table`.
    fn note(&mut self, key: Key, port: PortIndex, table: &HashMap<Key, Entry>) {
        if self.keys.len() == KEYS {
            self.keys.sort_unstable();
            self.keys.dedup();
            self.keys.retain(|key| is_behind(table, *key, port));
        }
        match self.keys.len() < KEYS {
            true => self.keys.push(key),
            false => self.many = true,
        }
    }

    fn forget(&mut self) {
        self.count = 0;
        self.keys.clear();
        self.many = false;
    }
}

/// Whether an address was learned behind a port.
fn is_behind(table: &HashMap<Key, Entry>, key: Key, port: PortIndex) -> bool {
    let entry = table.get(&key);
    entry.is_some_and(|entry| entry.port == port && !entry.pinned)
}

/// Most news that wait to be told. What is not told is told when it is seen again.
const NEWS_MAX: usize = 1024;

impl Learning {
    /// An empty table.
    pub fn new(limits: Limits) -> Learning {
        Learning {
            limits,
            table: HashMap::new(),
            learned: HashMap::new(),
            swept: 0,
            news: None,
        }
    }

    /// Has it keep [`news`](Lookup::news) for its replicas, or not.
    pub fn set_replicated(&mut self, replicated: bool) {
        self.news = replicated.then(|| Vec::with_capacity(NEWS_MAX));
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
    fn learn(&mut self, key: Key, port: PortIndex, now: Seconds) {
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

    /// Has `key` be behind `port`, wherever it was before, unless it is pinned or the table full.
    /// Returns whether it is.
    fn put(&mut self, key: Key, port: PortIndex, now: Seconds) -> bool {
        let full = self.table.len() >= self.limits.table;
        let new = Entry {
            port,
            pinned: false,
            seen: now,
        };
        match self.table.entry(key) {
            Place::Occupied(entry) if entry.get().pinned => return false,
            Place::Occupied(mut entry) => {
                let old = std::mem::replace(entry.get_mut(), new);
                if let Some(old) = self.learned.get_mut(&old.port) {
                    old.count -= 1;
                }
            }
            Place::Vacant(_) if full => return false,
            Place::Vacant(place) => {
                place.insert(new);
            }
        }
        if let Some(mine) = self.learned.get_mut(&port) {
            mine.count += 1;
            mine.note(key, port, &self.table);
        }
        true
    }

    fn tell(&mut self, key: Key, port: PortIndex) {
        if let Some(news) = &mut self.news
            && news.len() < NEWS_MAX
        {
            news.push(News::Address { key, port });
        }
    }

    /// Removes what has aged, if that was last done `every` seconds ago or earlier.
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

    fn find(&self, key: Key, from: PortIndex, now: Seconds) -> Destination {
        match self.table.get(&key) {
            Some(entry) if !entry.is_fresh(now, self.limits.aging) => Destination::Flood,
            Some(entry) if entry.port == from => Destination::Drop(Reason::SameSide),
            Some(entry) => Destination::Port(entry.port),
            None => Destination::Flood,
        }
    }
}

impl Entry {
    fn is_fresh(&self, now: Seconds, aging: Seconds) -> bool {
        self.pinned || now.wrapping_sub(self.seen) < aging
    }
}

impl Lookup for Learning {
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
        // What steering may come to need, so that it never allocates.
        let room = (self.learned.len() * (self.limits.port + 1)).min(self.limits.table + 1);
        self.table.reserve(room.saturating_sub(self.table.len()));
        if let Some(key) = pinned {
            let entry = Entry {
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
    }

    fn news(&mut self) -> Option<News> {
        self.news.as_mut()?.pop()
    }

    fn hear(&mut self, news: News, now: Seconds) {
        let News::Address { key, port } = news else {
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
