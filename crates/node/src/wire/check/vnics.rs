//! VNICs and their addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use switch::lookup::Mac;
use switch::properties::{Vlan, cpus_here};

use super::{Look, MTU, is_name};
use crate::model::{Guest, INTERFACE_NAME_MAX, LOCATIONS};

impl Look<'_> {
    pub(super) fn vnics(&mut self) {
        let wire = self.wire;
        let mut macs: BTreeMap<(&str, Mac), &str> = BTreeMap::new();
        let mut inside: BTreeMap<(Option<&str>, &str), &str> = BTreeMap::new();
        for (name, vnic) in &wire.vnics {
            if !self.is_switch(&vnic.link) {
                self.missing("vnic", name, "stub or link", &vnic.link);
            }
            let stub = wire.stubs.get(&vnic.link);
            let most = stub.map(|stub| stub.mtu.unwrap_or(MTU));
            if let Err(error) = vnic.properties.check(most.unwrap_or(MTU), &cpus_here()) {
                self.error(
                    format!("vnic.{name}.properties"),
                    format!("vnic ‘{name}’: {error}"),
                );
            }
            if let (Some(mtu), Some(most)) = (vnic.properties.mtu, most)
                && mtu > most
            {
                self.error(format!("vnic.{name}.properties.mtu"), format!(
                    "vnic ‘{name}’: its mtu of {mtu} is above that of stub ‘{}’, {most}: give that mtu = {mtu}",
                    vnic.link
                ));
            }
            if let Some(mac) = vnic.mac {
                if mac.is_multicast() || mac.0 == [0; 6] {
                    self.error(
                        format!("vnic.{name}.mac"),
                        format!("vnic ‘{name}’: {mac} is not a unicast address"),
                    );
                }
                if let Some(other) = macs.insert((&vnic.link, mac), name) {
                    self.error(format!("vnic.{name}.mac"), format!(
                        "vnic ‘{name}’: its address {mac} is that of vnic ‘{other}’ on the same switch"
                    ));
                }
            }
            let locations = vnic.locations() + usize::from(self.guest_of(name).is_some());
            if locations > 1 {
                self.error(format!("vnic.{name}"), format!(
                    "vnic ‘{name}’: it can be in one place only: give one of {LOCATIONS}, or one guest's interface"
                ));
            }
            if locations == 0 {
                self.findings
                    .warnings
                    .push(format!("vnic ‘{name}’: nothing uses it"));
            }
            if let Some(on) = &vnic.guest {
                if let Err(fault) = on.check(name) {
                    let inner = fault.field().unwrap_or_default();
                    self.error(format!("vnic.{name}.{inner}"), fault.to_string());
                }
                let behind = on.behind(name).into_iter();
                let mut taken = behind.filter(|it| {
                    wire.vnics.contains_key(it)
                        || wire.guests.contains_key(it)
                        || self.is_switch(it)
                });
                if let Some(taken) = taken.next() {
                    self.error(format!("vnic.{name}.guest"), format!(
                        "vnic ‘{name}’: its guests for connections are called ‘{name}-1’ and so on: give the other ‘{taken}’ another name"
                    ));
                }
            }
            if let Some(on) = &vnic.guest
                && wire.guests.contains_key(&on.template)
            {
                self.error(format!("vnic.{name}.guest.template"), format!(
                    "vnic ‘{name}’: its template ‘{0}’ is a guest of the same wire, and comes about after it: create it before, `weir create {0}`",
                    on.template
                ));
            }
            if let Some(namespace) = &vnic.namespace
                && !wire.namespaces.contains_key(namespace)
            {
                self.missing("vnic", name, "namespace", namespace);
            }
            if vnic.namespace.is_none() && !vnic.host {
                if !vnic.addresses.is_empty() || vnic.interface.is_some() {
                    self.error(format!("vnic.{name}.addresses"), format!(
                        "vnic ‘{name}’: ‘addresses’ and ‘interface’ are for VNICs in a namespace or the host"
                    ));
                }
                continue;
            }
            if let Err(error) = vnic.check_addresses(name) {
                let inner = error.field.clone().unwrap_or_default();
                self.error(format!("vnic.{name}.{inner}"), error.to_string());
            }
            let interface = vnic.interface.as_deref().unwrap_or(name);
            if !is_name(interface, INTERFACE_NAME_MAX) {
                self.error(format!("vnic.{name}.interface"), format!("vnic ‘{name}’: ‘{interface}’ is not an interface name of 1 to {INTERFACE_NAME_MAX} bytes"));
            }
            if let Some(other) = inside.insert((vnic.namespace.as_deref(), interface), name) {
                self.error(format!("vnic.{name}.interface"), format!(
                    "vnic ‘{name}’: interface ‘{interface}’ of the same namespace is vnic ‘{other}’ already"
                ));
            }
        }
    }

    /// Warns of IP addresses that two VNICs on the same switch have, in the same VLAN: which of them is reached is
    /// undefined.
    pub(super) fn addresses(&mut self) {
        let mut known: BTreeMap<(&str, Option<Vlan>, IpAddr), &str> = BTreeMap::new();
        for (name, vnic) in &self.wire.vnics {
            for address in vnic.addresses.iter().map(IpNet::addr) {
                let place = (vnic.link.as_str(), vnic.properties.vlan, address);
                match known.insert(place, name) {
                    Some(other) if other != name => self.findings.warnings.push(format!(
                        "vnic ‘{name}’: its address {address} is that of vnic ‘{other}’ on the same switch"
                    )),
                    _ => {}
                }
            }
        }
    }

    /// The guest that a VNIC is an interface of.
    fn guest_of(&self, vnic: &str) -> Option<&str> {
        let guests = &self.wire.guests;
        let has = |(_, guest): &(_, &Guest)| guest.interfaces.values().any(|v| v == vnic);
        guests.iter().find(has).map(|(name, _)| name.as_str())
    }
}
