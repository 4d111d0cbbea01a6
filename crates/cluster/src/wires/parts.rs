//! The networks and guests that a wire stands for.

use std::collections::{BTreeMap, BTreeSet};

use node::error::{Error, Result};
use node::model::{Guest, Location, Stub, Vnic, Wire};
use scheduler::facts::ENTRIES_MAX;
use switch::properties::{Bandwidth, DomainProperties, cpus_here};

use crate::keys::Kind;
use crate::model::{Demand, GuestRecord};
use crate::networks::{Creation, default_mtu};
use crate::view::View;

/// A wire, as a cluster makes it.
pub struct Parts {
    /// The networks, by their names.
    pub networks: BTreeMap<String, Creation>,
    /// The guests, by their names.
    pub guests: BTreeMap<String, GuestRecord>,
}

impl Parts {
    /// The parts of a wire. All that a cluster cannot make is named in the error, a sentence each.
    pub fn of(view: &View, wire: &Wire, demand: &Demand) -> Result<Parts> {
        let mut errors = host_parts(wire);
        errors.extend(wire.existing.iter().filter_map(|name| unknown(view, name)));
        let mut networks = BTreeMap::new();
        for (name, stub) in &wire.stubs {
            errors.extend(wrong_with_stub(name, stub));
            let creation = Creation {
                mtu: stub.mtu,
                wire: Some(wire.wire.clone()),
                ..Creation::default()
            };
            networks.insert(name.clone(), creation);
        }
        let mut used = BTreeMap::new();
        for guest in wire.guests.values() {
            for vnic in guest.interfaces.values() {
                *used.entry(vnic).or_insert(0) += 1;
            }
        }
        let default_mtu = default_mtu(view);
        for (name, vnic) in &wire.vnics {
            let stub = wire.stubs.get(&vnic.link);
            let count = used.get(name).copied().unwrap_or(0);
            let mtu = stub.and_then(|stub| stub.mtu).unwrap_or(default_mtu);
            errors.extend(wrong_with_vnic(name, vnic, mtu, count));
        }
        if !errors.is_empty() {
            return Err(Error::invalid(errors.join("\n")));
        }
        let guests = wire.guests.iter().map(|(name, guest)| {
            let demand = Demand {
                near: &neighbors(wire, name, guest) | &demand.near,
                ..demand.clone()
            };
            let own = guest.interfaces.values();
            let vnics = own.filter_map(|name| Some((name.clone(), vnic(wire, name)?)));
            let record = GuestRecord {
                wire: Some(wire.wire.clone()),
                vnics: vnics.collect(),
                ..GuestRecord::new(guest.clone(), demand)
            };
            (name.clone(), record)
        });
        Ok(Parts {
            networks,
            guests: guests.collect(),
        })
    }
}

/// What one host has, and a cluster does not make.
fn host_parts(wire: &Wire) -> Vec<String> {
    let Wire {
        wire: _,
        description: _,
        existing: _,
        chains: _,
        stubs: _,
        vnics: _,
        guests,
        links,
        patches,
        namespaces,
        nsms,
        applications,
        flows,
        tables,
    } = wire;
    let here = "it is a host's own: apply it there, in a wire with this wire's stubs as `existing`";
    let kinds: [(&str, Vec<&String>, &str); 7] = [
        (
            "link",
            links.keys().collect(),
            "an interface is a host's own: attach it there (`weir link attach`), and write its name in `existing`: guests on it run on hosts that have it",
        ),
        (
            "patch",
            patches.keys().collect(),
            "a network over hosts has no patches: put the VNICs on one stub",
        ),
        ("namespace", namespaces.keys().collect(), here),
        ("nsm", nsms.keys().collect(), here),
        ("app", applications.keys().collect(), here),
        ("flow", flows.keys().collect(), here),
        (
            "table",
            tables.keys().collect(),
            "a network over hosts has no flow table: remove it",
        ),
    ];
    let kinds = kinds.into_iter().flat_map(|(kind, names, why)| {
        names
            .into_iter()
            .map(move |name| format!("{kind} ‘{name}’: {why}"))
    });
    let sockets = guests.iter().filter(|(_, guest)| guest.nsm.is_some());
    let sockets = sockets.map(|(name, _)| {
        format!("guest ‘{name}’: an NSM is a host's own: a guest of the cluster has none")
    });
    kinds.chain(sockets).collect()
}

/// That neither the cluster nor a host has a link.
fn unknown(view: &View, link: &str) -> Option<String> {
    let is_network = view.revision_of(&Kind::Network.of(link)) != 0;
    let mut hosts = view.names(Kind::Facts);
    let has = |host: &str| {
        view.facts(host)
            .is_some_and(|it| it.links.contains_key(link))
    };
    (!is_network && !hosts.any(has)).then(|| {
        format!("existing ‘{link}’: the cluster has no network of this name, and no host a link")
    })
}

fn wrong_with_stub(name: &str, stub: &Stub) -> Option<String> {
    let properties = DomainProperties {
        speed: None,
        ..stub.properties.clone()
    };
    (properties != DomainProperties::default()).then(|| {
        format!("stub ‘{name}’: a network over hosts learns addresses as by default: of a stub's properties, give `mtu` and `speed` alone")
    })
}

fn wrong_with_vnic(name: &str, vnic: &Vnic, mtu: u16, used: usize) -> Option<String> {
    if vnic.location() != Location::Guest {
        return Some(format!(
            "vnic ‘{name}’: it is no guest's: make it on the host where it is to be, on the link ‘{}’",
            vnic.link
        ));
    }
    if used != 1 {
        return Some(format!(
            "vnic ‘{name}’: it is an interface of {used} guests: over hosts, each VNIC is that of one"
        ));
    }
    let wrong = vnic.properties.check(mtu, &cpus_here()).err();
    wrong.map(|why| format!("vnic ‘{name}’: {why}"))
}

/// A VNIC with its address, and the speed of its stub.
fn vnic(wire: &Wire, name: &str) -> Option<Vnic> {
    let mut vnic = wire.vnics.get(name)?.clone();
    vnic.mac = vnic.mac.or_else(|| Some(Wire::mac_of(&wire.wire, name)));
    let speed = |stub: &Stub| -> Option<Bandwidth> { stub.properties.speed };
    let properties = &mut vnic.properties;
    properties.maxbw = properties
        .maxbw
        .or_else(|| wire.stubs.get(&vnic.link).and_then(speed));
    Some(vnic)
}

/// Guests that have VNICs on the stubs of this one.
fn neighbors(wire: &Wire, name: &str, guest: &Guest) -> BTreeSet<String> {
    let links = |guest: &Guest| -> BTreeSet<String> {
        let vnics = guest.interfaces.values();
        let links = vnics.filter_map(|vnic| Some(wire.vnics.get(vnic)?.link.clone()));
        links.filter(|link| wire.stubs.contains_key(link)).collect()
    };
    let own = links(guest);
    let others = wire.guests.iter().filter(|(other, _)| *other != name);
    let near = others.filter(|(_, other)| !own.is_disjoint(&links(other)));
    near.map(|(other, _)| other.clone())
        .take(ENTRIES_MAX)
        .collect()
}
