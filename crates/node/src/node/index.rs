//! What is looked for by something else than its name, so that no operation has to look at all.

use std::collections::{BTreeSet, HashMap};

use switch::lookup::Mac;

use crate::error::Result;
use crate::model::{Flow, Guest, Vnic};
use crate::store::Store;

/// The index; it says what the store says.
#[derive(Default)]
pub struct Index {
    /// VNICs by their links.
    vnics: HashMap<String, BTreeSet<String>>,
    /// VNICs by their links and addresses.
    macs: HashMap<(String, Mac), String>,
    /// Guests by their VNICs.
    guests: HashMap<String, String>,
    /// Guests' names by their numbers.
    names: HashMap<u64, String>,
    /// Flows by what they are on.
    flows: HashMap<String, BTreeSet<String>>,
}

impl Index {
    /// Of what the store has.
    pub fn load(store: &Store) -> Result<Index> {
        let mut index = Index::default();
        for vnic in store.all::<Vnic>()? {
            index.add_vnic(&vnic);
        }
        for guest in store.all::<Guest>()? {
            index.add_guest(&guest);
        }
        for flow in store.all::<Flow>()? {
            index.add_flow(&flow);
        }
        Ok(index)
    }

    pub fn add_vnic(&mut self, vnic: &Vnic) {
        let on = self.vnics.entry(vnic.link.clone()).or_default();
        on.insert(vnic.name.clone());
        self.macs
            .insert((vnic.link.clone(), vnic.mac), vnic.name.clone());
    }

    pub fn remove_vnic(&mut self, vnic: &Vnic) {
        remove(&mut self.vnics, &vnic.link, &vnic.name);
        self.macs.remove(&(vnic.link.clone(), vnic.mac));
    }

    pub fn add_guest(&mut self, guest: &Guest) {
        for interface in &guest.interfaces {
            self.guests
                .insert(interface.vnic.clone(), guest.name.clone());
        }
        self.names.insert(guest.id, guest.name.clone());
    }

    pub fn remove_guest(&mut self, guest: &Guest) {
        for interface in &guest.interfaces {
            self.guests.remove(&interface.vnic);
        }
        self.names.remove(&guest.id);
    }

    pub fn add_flow(&mut self, flow: &Flow) {
        let on = self.flows.entry(flow.link.clone()).or_default();
        on.insert(flow.name.clone());
    }

    pub fn remove_flow(&mut self, flow: &Flow) {
        remove(&mut self.flows, &flow.link, &flow.name);
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
