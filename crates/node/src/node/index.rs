//! Indices of resources by other keys than their names, so that no operation scans all records.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use switch::lookup::Mac;

use crate::error::{Error, Result};
use crate::model::{EntryRecord, FlowRecord, GuestRecord, VnicRecord};
use crate::store::{Change, Store};

/// The highest number that a guest may have in the control store: those above are Xen's own.
const DOMAIN_MAX: u16 = 0x7fef;

/// The index; it always matches the store.
#[derive(Default)]
pub struct Index {
    /// VNICs by their links.
    vnics: HashMap<String, BTreeSet<String>>,
    /// VNICs by their links and addresses.
    macs: HashMap<(String, Mac), String>,
    /// How long the guests may be idle that VNICs start, by the VNICs.
    idle: HashMap<String, Duration>,
    /// The VNICs behind VNICs that have a guest for each connection, by these.
    fronts: HashMap<String, BTreeSet<String>>,
    /// Guests by their VNICs.
    guests: HashMap<String, String>,
    /// Guests' names by their numbers.
    names: HashMap<u64, String>,
    /// Guests' numbers by those in the control store.
    domains: HashMap<u16, u64>,
    /// Flows by their link or VNIC.
    flows: HashMap<String, BTreeSet<String>>,
    /// Entries of flow tables by the ports that they lead to.
    entries: HashMap<String, BTreeSet<String>>,
}

impl Index {
    /// Builds the index of the store's records.
    pub fn load(store: &Store) -> Result<Index> {
        let mut index = Index::default();
        for vnic in store.all::<VnicRecord>()? {
            index.add_vnic(&vnic);
        }
        for guest in store.all::<GuestRecord>()? {
            index.add_guest(&guest);
        }
        for flow in store.all::<FlowRecord>()? {
            index.add_flow(&flow);
        }
        for entry in store.all::<EntryRecord>()? {
            index.add_entry(&entry);
        }
        Ok(index)
    }

    pub fn add_vnic(&mut self, vnic: &VnicRecord) {
        let on = self.vnics.entry(vnic.link.clone()).or_default();
        on.insert(vnic.name.clone());
        // The address of one behind another is the other's.
        if vnic.front.is_none() {
            self.macs
                .insert((vnic.link.clone(), vnic.mac()), vnic.name.clone());
        }
        if let Some(front) = &vnic.front {
            let behind = self.fronts.entry(front.clone()).or_default();
            behind.insert(vnic.name.clone());
        }
        if let Some(on) = &vnic.guest {
            self.idle.insert(vnic.name.clone(), on.idle());
        }
    }

    pub fn remove_vnic(&mut self, vnic: &VnicRecord) {
        remove(&mut self.vnics, &vnic.link, &vnic.name);
        match &vnic.front {
            None => drop(self.macs.remove(&(vnic.link.clone(), vnic.mac()))),
            Some(front) => remove(&mut self.fronts, front, &vnic.name),
        }
        self.entries.remove(&vnic.name);
        self.idle.remove(&vnic.name);
    }

    /// How long the guest may be idle that a VNIC starts, if it starts one.
    pub fn idle_of(&self, vnic: &str) -> Option<Duration> {
        self.idle.get(vnic).copied()
    }

    /// The VNICs that have a guest for each connection, and those behind each.
    pub fn fronts(&self) -> impl Iterator<Item = (&String, &BTreeSet<String>)> {
        self.fronts.iter()
    }

    /// Whether a VNIC has a guest for each connection.
    pub fn is_front(&self, vnic: &str) -> bool {
        self.fronts.contains_key(vnic)
    }

    /// Whether a VNIC is behind another.
    pub fn is_behind(&self, vnic: &str) -> bool {
        let front = vnic
            .rsplit_once('-')
            .and_then(|(front, _)| self.fronts.get(front));
        front.is_some_and(|behind| behind.contains(vnic))
    }

    /// Notes which VNICs a guest has.
    pub fn add_interfaces(&mut self, guest: &GuestRecord) {
        for interface in &guest.ports {
            self.guests
                .insert(interface.vnic.clone(), guest.name.clone());
        }
    }

    pub fn add_guest(&mut self, guest: &GuestRecord) {
        self.add_interfaces(guest);
        self.names.insert(guest.id, guest.name.clone());
        if guest.domain_id != 0 {
            self.domains.insert(guest.domain_id, guest.id);
        }
    }

    /// A number in the control store for a new guest, which has it until it is removed. A number is
    /// reused only after a long time.
    pub fn take_domain(&mut self, change: &Change) -> Result<u16> {
        if self.domains.len() >= usize::from(DOMAIN_MAX) {
            return Err(Error::failed(format_args!(
                "a node has at most {DOMAIN_MAX} guests: destroy one first"
            )));
        }
        loop {
            let place = (change.next("domain")? - 1) % u64::from(DOMAIN_MAX);
            let domain = place as u16 + 1;
            if let Entry::Vacant(free) = self.domains.entry(domain) {
                // The guest's own number comes with its record.
                free.insert(0);
                return Ok(domain);
            }
        }
    }

    pub fn remove_guest(&mut self, guest: &GuestRecord) {
        for interface in &guest.ports {
            self.guests.remove(&interface.vnic);
        }
        self.names.remove(&guest.id);
        self.domains.remove(&guest.domain_id);
    }

    pub fn add_flow(&mut self, flow: &FlowRecord) {
        let on = self.flows.entry(flow.link.clone()).or_default();
        on.insert(flow.name.clone());
    }

    pub fn remove_flow(&mut self, flow: &FlowRecord) {
        remove(&mut self.flows, &flow.link, &flow.name);
    }

    pub fn add_entry(&mut self, entry: &EntryRecord) {
        let to = self.entries.entry(entry.port.clone()).or_default();
        to.insert(entry.name.clone());
    }

    pub fn remove_entry(&mut self, entry: &EntryRecord) {
        remove(&mut self.entries, &entry.port, &entry.name);
    }

    /// Forgets the entries to a port, which goes.
    pub fn remove_entries_to(&mut self, port: &str) {
        self.entries.remove(port);
    }

    /// Entries that lead to a port.
    pub fn entries_to(&self, port: &str) -> impl Iterator<Item = &str> {
        let to = self.entries.get(port).into_iter().flatten();
        to.map(String::as_str)
    }

    /// VNICs on a link.
    pub fn vnics_on(&self, link: &str) -> impl Iterator<Item = &str> {
        self.vnics
            .get(link)
            .into_iter()
            .flatten()
            .map(String::as_str)
    }

    /// Flows on a link or VNIC.
    pub fn flows_on(&self, name: &str) -> impl Iterator<Item = &str> {
        self.flows
            .get(name)
            .into_iter()
            .flatten()
            .map(String::as_str)
    }

    /// The VNIC of a link that has an address.
    pub fn vnic_with(&self, link: &str, mac: Mac) -> Option<&str> {
        let key = (link.to_string(), mac);
        self.macs.get(&key).map(String::as_str)
    }

    /// The guest that has a VNIC.
    pub fn guest_of(&self, vnic: &str) -> Option<&str> {
        self.guests.get(vnic).map(String::as_str)
    }

    /// The names of all guests.
    pub fn guest_names(&self) -> impl Iterator<Item = &str> {
        self.names.values().map(String::as_str)
    }

    /// The number of the guest that has a number in the control store.
    pub fn guest_of_domain(&self, domain: u16) -> Option<u64> {
        self.domains.get(&domain).copied()
    }

    /// The guest with a number.
    pub fn guest_numbered(&self, id: u64) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }
}

fn remove(sets: &mut HashMap<String, BTreeSet<String>>, key: &str, name: &str) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(name);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}
