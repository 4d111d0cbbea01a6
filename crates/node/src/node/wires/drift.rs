//! Drift: the state of a wire's parts on the host.

use std::collections::{BTreeMap, BTreeSet};

use switch::properties::{DomainProperties, LookupKind, PortProperties};

use super::{Node, patch_ports};
use crate::error::{Fault, Result};
use crate::host::network;
use crate::model::{
    ApplicationRecord, Class, EntryRecord, FlowRecord, Guest, GuestRecord, Link, LinkRecord,
    NsmRecord, Route, Vnic, VnicRecord, Wire, action_text,
};
use crate::node::links::MTU;
use crate::wire::plan::{Drift, Part, Step};

/// Resources that were removed in the kernel.
#[derive(Default)]
pub(super) struct KernelDrift {
    /// VNICs whose interfaces, or the namespaces that those were in, are gone.
    lost: BTreeSet<String>,
    /// VNICs whose interfaces have not all their addresses.
    vnics: BTreeSet<String>,
    /// Namespaces that have not all their routes.
    namespaces: BTreeSet<String>,
}

impl Node {
    /// Whether the part that a step makes exists already.
    pub fn has_made(&self, wire: &str, step: &Step) -> bool {
        let made = step.to.as_ref().filter(|_| step.from.is_none());
        let is_lasting = |part: &&Part| !matches!(part, Part::Routes(_));
        made.filter(is_lasting)
            .is_some_and(|part| self.has_part(wire, &step.name, part))
    }

    /// How a part of a wire is found.
    pub(super) fn drift(&self, wire: &str, name: &str, part: &Part, seen: &KernelDrift) -> Drift {
        if !self.has_part(wire, name, part) {
            return Drift::Missing;
        }
        match part {
            Part::Guest(_) if let Some(how) = self.end_of(name) => Drift::Ended(how),
            Part::Application(_) if let Some(how) = self.crash_of(name) => Drift::Ended(how),
            Part::Vnic(_) if seen.lost.contains(name) => Drift::Lost,
            _ if self.differs(wire, name, part).unwrap_or(false) => Drift::Altered,
            Part::Vnic(_) if seen.vnics.contains(name) => Drift::Incomplete,
            Part::Routes(_) if seen.namespaces.contains(name) => Drift::Incomplete,
            _ => Drift::None,
        }
    }

    /// How a guest ended, if it did not end normally and is not restarted.
    fn end_of(&self, guest: &str) -> Option<String> {
        let guest = self.store.get::<GuestRecord>(guest).ok()??;
        if !self.has_crashed(&guest) {
            return None;
        }
        let reason = self.end_reason(&guest).unwrap_or_default();
        // Its last output may follow.
        Some(reason.lines().next().unwrap_or("it does not run").into())
    }

    /// How a program ended, if it did not end with code 0 and is not restarted.
    fn crash_of(&self, application: &str) -> Option<String> {
        let application = self.store.get::<ApplicationRecord>(application).ok()??;
        let ended = application.ended.filter(|ended| !ended.well)?;
        Some(ended.how)
    }

    /// What of a wire's interfaces, addresses and routes is not in the kernel. An interface that is
    /// not there lacks nothing, it gets all when it is recreated; nor do routes by one that is down,
    /// which the kernel does not take.
    pub(super) fn kernel_drift(&self, wire: &Wire) -> KernelDrift {
        let mut drift = KernelDrift::default();
        for name in wire.vnics.keys() {
            let vnic = self.store.get::<VnicRecord>(name);
            if matches!(vnic, Ok(Some(vnic)) if self.host.has_no_interface(&vnic)) {
                drift.lost.insert(name.clone());
            }
        }
        let interface = |name: &str| {
            let vnic = wire.vnics.get(name)?;
            Some(vnic.interface.clone().unwrap_or_else(|| name.into()))
        };
        let namespaces = wire
            .vnics
            .values()
            .filter(|vnic| !vnic.addresses.is_empty());
        let namespaces = namespaces.map(|vnic| vnic.namespace.as_deref());
        let routed = wire
            .namespaces
            .iter()
            .filter(|(_, it)| !it.routes.is_empty());
        let routed = routed.map(|(name, _)| Some(name.as_str()));
        for namespace in namespaces.chain(routed).collect::<BTreeSet<_>>() {
            // A namespace that is not there is missing itself.
            let Ok(seen) = network::look(namespace) else {
                continue;
            };
            let held = |name: &str| interface(name).filter(|_| self.host.holds(name));
            let inside = wire.vnics.iter();
            let inside: Vec<_> = inside
                .filter(|(_, vnic)| vnic.namespace.as_deref() == namespace)
                .collect();
            for (name, vnic) in &inside {
                let lacks = held(name).is_some_and(|it| seen.lacks_addresses(&it, &vnic.addresses));
                if lacks {
                    drift.vnics.insert(name.to_string());
                }
            }
            let Some(namespace) = namespace else {
                continue;
            };
            let routes = wire.namespaces.get(namespace);
            let routes = routes.map_or(&[][..], |it| &it.routes);
            let lacks = routes.iter().any(|route| {
                let reaches = |vnic: &Vnic| {
                    let via = route.via;
                    via.is_some_and(|via| vnic.addresses.iter().any(|net| net.contains(&via)))
                };
                let near = inside.iter().find(|(_, vnic)| reaches(vnic));
                // A gateway may be reached by a route without one instead.
                let leads = |other: &&Route| {
                    other.via.is_none() && route.via.is_some_and(|via| other.to.contains(&via))
                };
                let straight = || routes.iter().find(leads)?.vnic.as_ref();
                let near = near.map(|(name, _)| *name).or_else(straight);
                let by = route.vnic.as_ref().or(near);
                let can_be = by.is_none_or(|name| held(name).is_some_and(|it| seen.is_up(&it)));
                let wanted = network::InterfaceRoute {
                    to: route.to,
                    via: route.via,
                    interface: route.vnic.as_ref().and_then(|name| interface(name)),
                    metric: route.metric,
                };
                can_be && !seen.has_route(&wanted)
            });
            if lacks {
                drift.namespaces.insert(namespace.into());
            }
        }
        drift
    }

    /// Restores routes of a wire that were lost with interfaces recreated while the wire was rolled
    /// back. Returns the routes that failed.
    pub fn mend_routes(&mut self, wire: &str) -> Result<Vec<String>> {
        let wire = self.applied(wire)?.applied;
        let incomplete = self.kernel_drift(&wire).namespaces;
        let left = incomplete.iter().filter_map(|name| {
            let routes = self.routes(&wire.namespaces[name].routes);
            let set = routes.and_then(|routes| network::set_routes(name, &[], &routes));
            let error = set.err()?;
            Some(format!("routes of namespace ‘{name}’ ({error})"))
        });
        Ok(left.collect())
    }

    /// Whether a part of a wire exists. Another part of its name does not count.
    fn has_part(&self, wire: &str, name: &str, part: &Part) -> bool {
        // If the store cannot be read, the next operation fails.
        self.find_part(wire, name, part).unwrap_or(false)
    }

    fn find_part(&self, wire: &str, name: &str, part: &Part) -> Result<bool> {
        Ok(match part {
            Part::Namespace(_) => network::exists(name),
            Part::Stub(it) => {
                let mtu = it.mtu.unwrap_or(MTU);
                let stub = self.store.get::<LinkRecord>(name)?;
                stub.is_some_and(|is| is.class == Class::Stub && is.mtu == mtu)
            }
            Part::Link(it) => {
                let link = self.store.get::<LinkRecord>(name)?;
                link.is_some_and(|is| is.class == Class::Nic && self.is_attached_so(&is, it))
            }
            Part::Patch(it) => {
                let domains = self.domains_between(it)?;
                self.host.has_patch(&patch_ports(wire, name), domains)
            }
            Part::Vnic(it) => self.store.get::<VnicRecord>(name)?.is_some_and(|is| {
                let mac = it.mac.unwrap_or_else(|| Wire::mac_of(wire, name));
                let location = (it.location(), it.interface.as_deref().unwrap_or(name));
                (&is.link, is.mac()) == (&it.link, mac)
                    && (is.location(), is.interface()) == location
            }),
            Part::Guest(it) => {
                let guest = self.store.get::<GuestRecord>(name)?;
                guest.is_some_and(|is| is_guest(&is, it))
            }
            Part::Flow(it) => {
                let flow = self.store.get::<FlowRecord>(name)?;
                flow.is_some_and(|is| is.spec == *it)
            }
            Part::Entry { port, .. } => {
                let entry = self.store.get::<EntryRecord>(name)?;
                entry.is_some_and(|entry| entry.port == *port)
            }
            Part::Default(action) => {
                let link = self.find_link(name)?;
                link.properties.lookup == LookupKind::FlowTable
                    && action_text(&link.default) == *action
            }
            Part::Nsm(it) => {
                let is = self.store.get::<NsmRecord>(name)?;
                is.is_some_and(|is| is.spec.can_become(it))
            }
            Part::Application(it) => {
                let is = self.store.get::<ApplicationRecord>(name)?;
                is.is_some_and(|is| is.can_become(it))
            }
            Part::Routes(_) => true,
        })
    }

    /// Whether a link is attached as a wire says. Of one that is not up, the best way is not known.
    fn is_attached_so(&self, link: &LinkRecord, it: &Link) -> bool {
        it.is_met_by(link, self.link_status(link).mode)
    }

    /// Whether a link was attached for a wire.
    pub(super) fn has_attached(&self, wire: &str, link: &str) -> Result<bool> {
        let links = self.applied(wire)?.links;
        Ok(links.iter().any(|name| name == link))
    }

    /// Refuses a link that the wire did not attach, if it differs from the wire's.
    pub(super) fn check_attached(&self, link: &LinkRecord, it: &Link) -> Result<()> {
        let name = link.name.clone();
        if !self.is_attached_so(link, it) {
            return Err(Fault::AttachedOtherwise { name }.into());
        }
        if has_all(&link.port, &it.port) {
            return Ok(());
        }
        Err(Fault::AttachedWith {
            name,
            has: told(&link.port),
            said: it.port.to_string(),
        }
        .into())
    }

    /// Whether an existing part differs from the wire in properties that can change in use. A link
    /// that the wire did not attach may have any value where the wire has none.
    fn differs(&self, wire: &str, name: &str, part: &Part) -> Result<bool> {
        Ok(match part {
            Part::Stub(it) => self.find_link(name)?.properties != it.properties,
            Part::Link(it) => {
                let is = self.find_link(name)?;
                if self.has_attached(wire, name)? {
                    (&is.port, &is.properties) != (&it.port, &it.properties)
                } else {
                    let is_unsaid = it.properties == DomainProperties::default();
                    !has_all(&is.port, &it.port) || !is_unsaid && is.properties != it.properties
                }
            }
            Part::Vnic(it) => self.find_vnic(name)?.properties != it.properties,
            Part::Guest(it) => {
                let is = self.find_guest(name)?;
                (is.text(), is.restart) != (it.text(), it.restart)
            }
            Part::Nsm(it) => self.find_nsm(name)?.spec != *it,
            Part::Application(it) => self.find_application(name)?.spec != *it,
            _ => false,
        })
    }
}

/// Whether a guest matches a wire's, except for properties that change in use. Properties that the
/// wire leaves out keep the values of the guest's creation.
fn is_guest(guest: &GuestRecord, it: &Guest) -> bool {
    let ports = guest.ports.iter();
    let ports: BTreeMap<_, _> = ports.map(|it| (&it.name, &it.vnic)).collect();
    ports == it.interfaces.iter().collect()
        && it.memory.is_none_or(|memory| memory.0 == guest.memory())
        && it
            .ring_slots
            .is_none_or(|slots| slots == guest.ring_slots())
        && it.cpus.is_none_or(|cpus| cpus == guest.cpus())
        && (&it.pin, it.isolation, &it.nsm) == (&guest.pin, guest.isolation, &guest.nsm)
}

/// Properties in a sentence.
fn told(properties: &PortProperties) -> String {
    match properties.to_string() {
        none if none.is_empty() => "no properties".into(),
        some => some,
    }
}

/// Whether a port has all properties that are said.
fn has_all(port: &PortProperties, said: &PortProperties) -> bool {
    let usual = PortProperties::default();
    let mut names = PortProperties::NAMES.iter();
    names.all(|name| [usual.get(name), port.get(name)].contains(&said.get(name)))
}
