//! Hosts as columns: a value for each host, kept up to date with every guest that comes, moves or goes.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use super::{HostSet, Index, Millis};
use crate::error::{Error, Result};
use crate::facts::{Guest, Host, HostState, Wall};

/// A quantity of each host, and how much of it is booked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// What each host has.
    pub capacity: Vec<u64>,
    /// What guests have booked.
    pub booked: Vec<u64>,
}

impl Column {
    fn push(&mut self) {
        self.capacity.push(0);
        self.booked.push(0);
    }

    fn change(&mut self, slot: usize, by: i64, amount: u64) {
        self.booked[slot] = self.booked[slot].wrapping_add_signed(by * amount as i64);
    }

    /// The share of a host's capacity, in thousandths, that is booked; of a host without any, all.
    pub fn share(&self, slot: usize) -> u64 {
        let (booked, capacity) = (self.booked[slot], self.capacity[slot]);
        match capacity {
            0 => 1000,
            _ => booked * 1000 / capacity,
        }
    }
}

/// What guests have booked on a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Memory, in bytes.
    pub memory: u64,
    /// Processors, in thousandths.
    pub processors: u64,
    /// Processor time that is used, in thousandths of a processor.
    pub load: u64,
    /// Guests, arriving and leaving guests included.
    pub guests: u32,
    /// Rates of links, in bits a second.
    pub links: Vec<(String, u64)>,
}

/// What a balancer watches: from when on each host is used too much, or too little.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Share of a host's processors, in percent, above which it is used too much.
    pub high: u64,
    /// Below which it is used too little.
    pub low: u64,
}

/// The hosts. A host keeps its slot until it is removed.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    names: Vec<String>,
    facts: Vec<Host>,
    by_name: HashMap<String, usize>,
    free: Vec<usize>,
    guests: Vec<Vec<usize>>,
    revision: Vec<u64>,
    /// Hosts that may get guests: that are up, or in maintenance.
    pub running: HostSet,
    /// Hosts that are up.
    pub up: HostSet,
    /// Hosts that are asleep.
    pub asleep: HostSet,
    /// Memory, in bytes.
    pub memory: Column,
    /// Processors, in thousandths: reserved ones.
    pub processors: Column,
    /// Processor time that is used on each host, in thousandths of a processor.
    pub load: Vec<u64>,
    /// Guests of each host, arriving and leaving guests included.
    pub count: Vec<u32>,
    /// Guests of each host that leave it.
    pub leaving: Vec<u32>,
    /// Most guests of each host.
    pub max_guests: Vec<u32>,
    /// Lanes.
    pub lanes: Vec<u16>,
    /// Rates of links, by their names.
    pub links: HashMap<String, Column>,
    /// Hosts that have a link.
    pub linked: Index,
    /// Hosts that can put a wall around a guest.
    pub walls: Index,
    /// Hosts with a label.
    pub labels: Index,
    /// Hosts with an image ready.
    pub images: Index,
    /// Hosts whose processors have a feature.
    pub features: Index,
    /// Hosts of a build.
    pub builds: Index,
    /// The site of each host: an index into `site_paths`.
    pub sites: Vec<u32>,
    site_paths: Vec<Vec<u32>>,
    site_parts: HashMap<String, u32>,
    by_site: HashMap<String, u32>,
    thresholds: Option<Thresholds>,
    now: Millis,
    over_since: Vec<Option<Millis>>,
    under_since: Vec<Option<Millis>>,
}

fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    texts.into_iter().map(String::from).collect()
}

impl Hosts {
    /// The slot of a host.
    pub fn slot(&self, name: &str) -> Result<usize> {
        self.by_name
            .get(name)
            .copied()
            .ok_or_else(|| Error::Unknown {
                kind: "host",
                name: name.into(),
                known: Vec::new(),
            })
    }

    /// The name of the host in this slot.
    pub fn name(&self, slot: usize) -> &str {
        &self.names[slot]
    }

    /// The facts of the host in this slot.
    pub fn facts(&self, slot: usize) -> &Host {
        &self.facts[slot]
    }

    /// Whether the host in this slot takes part.
    pub fn state(&self, slot: usize) -> HostState {
        self.facts[slot].state
    }

    /// A number that changes with every change of the host.
    pub fn revision(&self, slot: usize) -> u64 {
        self.revision[slot]
    }

    /// How many slots there are: hosts, and removed hosts.
    pub fn slots(&self) -> usize {
        self.names.len()
    }

    /// The slots of all hosts, in the order of their names.
    pub fn by_name(&self) -> Vec<usize> {
        let mut slots: Vec<_> = self.by_name.values().copied().collect();
        slots.sort_by_key(|slot| &self.names[*slot]);
        slots
    }

    /// Guests of a host, as indices of the inventory.
    pub(super) fn guests(&self, slot: usize) -> &[usize] {
        &self.guests[slot]
    }

    /// Guests that a host has once all moves have ended.
    pub fn expected(&self, slot: usize) -> u32 {
        self.count[slot] - self.leaving[slot]
    }

    /// Processor time that is used on a host, in thousandths of its processors; of a host without any, all.
    pub fn use_of(&self, slot: usize) -> u64 {
        match self.processors.capacity[slot] {
            0 => 1000,
            capacity => self.load[slot] * 1000 / capacity,
        }
    }

    /// The parts of a site's name, from the outside in, as numbers.
    pub fn site_path(&self, site: u32) -> &[u32] {
        &self.site_paths[site as usize]
    }

    /// How many sites there are.
    pub fn site_count(&self) -> usize {
        self.site_paths.len()
    }

    /// Tells the time.
    pub fn set_now(&mut self, now: Millis) {
        self.now = now.max(self.now);
    }

    /// The time.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// Says what is too much and too little use.
    pub fn watch(&mut self, thresholds: Thresholds) {
        if self.thresholds != Some(thresholds) {
            self.thresholds = Some(thresholds);
            self.over_since.fill(None);
            self.under_since.fill(None);
            (0..self.slots()).for_each(|slot| self.note_use(slot));
        }
    }

    /// How long a host has been used too much.
    pub fn over_for(&self, slot: usize) -> Option<Millis> {
        self.over_since[slot].map(|since| Millis(self.now.0 - since.0))
    }

    /// How long a host has been used too little.
    pub fn under_for(&self, slot: usize) -> Option<Millis> {
        self.under_since[slot].map(|since| Millis(self.now.0 - since.0))
    }

    /// What guests have booked on a host.
    pub fn totals(&self, slot: usize) -> Totals {
        let mut links: Vec<_> = self
            .links
            .iter()
            .map(|(name, column)| (name.clone(), column.booked[slot]))
            .filter(|(_, booked)| *booked > 0)
            .collect();
        links.sort();
        Totals {
            memory: self.memory.booked[slot],
            processors: self.processors.booked[slot],
            load: self.load[slot] - self.facts[slot].load.0,
            guests: self.count[slot],
            links,
        }
    }

    pub(super) fn set(&mut self, name: &str, facts: Host) {
        let slot = self.by_name.get(name).copied();
        let slot = slot.unwrap_or_else(|| self.enter(name));
        let old = std::mem::take(&mut self.facts[slot]);
        self.running.set(
            slot,
            matches!(facts.state, HostState::Up | HostState::Maintenance),
        );
        self.up.set(slot, facts.state == HostState::Up);
        self.asleep.set(slot, facts.state == HostState::Asleep);
        self.describe(slot, &old, &facts);
        self.facts[slot] = facts;
        self.revision[slot] += 1;
        self.note_use(slot);
    }

    /// Changes columns and sets from `old` facts to `new` ones.
    fn describe(&mut self, slot: usize, old: &Host, new: &Host) {
        self.memory.capacity[slot] = new.memory.0;
        self.processors.capacity[slot] = new.processors.0;
        self.load[slot] = self.load[slot] - old.load.0 + new.load.0;
        self.max_guests[slot] = new.max_guests.unwrap_or(u32::MAX);
        self.lanes[slot] = new.lanes;
        for name in old.links.keys() {
            if let Some(column) = self.links.get_mut(name) {
                column.capacity[slot] = 0;
            }
        }
        for (name, rate) in &new.links {
            self.link(name).capacity[slot] = rate.0;
        }
        let names = |host: &Host| texts(host.links.keys().map(String::as_str));
        self.linked.change(slot, &names(old), &names(new));
        let walls = |host: &Host| texts(host.walls.iter().copied().map(Wall::name));
        self.walls.change(slot, &walls(old), &walls(new));
        let build = |host: &Host| texts([host.build.as_str()]);
        self.builds.change(slot, &build(old), &build(new));
        self.labels.change(slot, &old.labels, &new.labels);
        self.images.change(slot, &old.images, &new.images);
        self.features.change(slot, &old.features, &new.features);
        self.sites[slot] = self.site(&new.site);
    }

    fn site(&mut self, name: &str) -> u32 {
        *self.by_site.entry_ref(name).or_insert_with(|| {
            let parts = name.split('/').filter(|part| !part.is_empty());
            let path = parts.map(|part| {
                let number = self.site_parts.len() as u32;
                *self.site_parts.entry_ref(part).or_insert(number)
            });
            self.site_paths.push(path.collect());
            self.site_paths.len() as u32 - 1
        })
    }

    fn link(&mut self, name: &str) -> &mut Column {
        let slots = self.names.len();
        self.links.entry_ref(name).or_insert_with(|| Column {
            capacity: vec![0; slots],
            booked: vec![0; slots],
        })
    }

    /// Gives a new host a slot.
    fn enter(&mut self, name: &str) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| self.grow());
        self.names[slot] = name.into();
        self.by_name.insert(name.into(), slot);
        // A host without facts is of the build and the site without a name.
        self.builds.change(slot, &BTreeSet::new(), &texts([""]));
        slot
    }

    fn grow(&mut self) -> usize {
        self.names.push(String::new());
        self.facts.push(Host::default());
        self.guests.push(Vec::new());
        self.revision.push(0);
        self.memory.push();
        self.processors.push();
        self.load.push(0);
        self.count.push(0);
        self.leaving.push(0);
        self.max_guests.push(0);
        self.lanes.push(0);
        self.links.values_mut().for_each(Column::push);
        self.sites.push(0);
        self.over_since.push(None);
        self.under_since.push(None);
        self.names.len() - 1
    }

    /// Removes a host without guests.
    pub(super) fn remove(&mut self, slot: usize) {
        debug_assert!(self.guests[slot].is_empty() && self.count[slot] == 0);
        let old = std::mem::take(&mut self.facts[slot]);
        self.describe(slot, &old, &Host::default());
        self.builds.change(slot, &texts([""]), &BTreeSet::new());
        self.running.remove(slot);
        self.up.remove(slot);
        self.asleep.remove(slot);
        self.revision[slot] += 1;
        (self.over_since[slot], self.under_since[slot]) = (None, None);
        let name = std::mem::take(&mut self.names[slot]);
        self.by_name.remove(&name);
        self.free.push(slot);
    }

    /// Books what a guest needs on a host (`by` is 1), or gives it back (-1).
    pub(super) fn add(&mut self, slot: usize, guest: &Guest, by: i32) {
        self.memory.change(slot, by.into(), guest.memory.0);
        self.processors.change(slot, by.into(), guest.processors.0);
        self.count[slot] = self.count[slot].wrapping_add_signed(by);
        for (name, rate) in guest.links.iter().filter(|(_, rate)| rate.0 > 0) {
            self.link(name).change(slot, by.into(), rate.0);
        }
        self.revision[slot] += 1;
    }

    pub(super) fn add_load(&mut self, slot: usize, load: u64) {
        self.load[slot] += load;
        self.note_use(slot);
    }

    pub(super) fn subtract_load(&mut self, slot: usize, load: u64) {
        self.load[slot] -= load;
        self.note_use(slot);
    }

    pub(super) fn leaving(&mut self, slot: usize, by: i32) {
        self.leaving[slot] = self.leaving[slot].wrapping_add_signed(by);
    }

    /// Puts a guest on the host's list; returns its index there.
    pub(super) fn seat(&mut self, slot: usize, guest: usize) -> usize {
        self.guests[slot].push(guest);
        self.guests[slot].len() - 1
    }

    /// Takes the guest at `position` off the host's list; returns the guest that is there now.
    pub(super) fn unseat(&mut self, slot: usize, position: usize) -> Option<usize> {
        self.guests[slot].swap_remove(position);
        self.guests[slot].get(position).copied()
    }

    fn note_use(&mut self, slot: usize) {
        let Some(Thresholds { high, low }) = self.thresholds else {
            return;
        };
        let (load, capacity) = (self.load[slot] * 100, self.processors.capacity[slot]);
        let note = |since: &mut Option<Millis>, holds: bool| {
            *since = match (holds, *since) {
                (false, _) => None,
                (true, Some(since)) => Some(since),
                (true, None) => Some(self.now),
            };
        };
        note(&mut self.over_since[slot], load > capacity * high);
        note(&mut self.under_since[slot], load < capacity * low);
    }
}
