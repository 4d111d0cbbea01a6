//! What of a wire is there, and what is not.

use std::collections::BTreeSet;

use super::{Node, patch_ports};
use crate::error::Result;
use crate::host::network;
use crate::model::{Flow, FlowEntry, Guest, Link, Vnic};
use crate::wire::file::{self, Wire};
use crate::wire::plan::{Part, Step, There};

/// What of a wire was removed in the kernel by hand.
#[derive(Default)]
pub(super) struct Lacking {
    /// VNICs whose interfaces, or the namespaces that those were in, are gone.
    lost: BTreeSet<String>,
    /// VNICs whose interfaces have not all their addresses.
    vnics: BTreeSet<String>,
    /// Namespaces that have not all their routes.
    namespaces: BTreeSet<String>,
}

impl Node {
    /// Whether what a step is to make is there already.
    pub fn has_made(&self, wire: &str, step: &Step) -> bool {
        let made = step.to.as_ref().filter(|_| step.from.is_none());
        let is_lasting = |part: &&Part| !matches!(part, Part::Routes(_));
        made.filter(is_lasting)
            .is_some_and(|part| self.has_part(wire, &step.name, part))
    }

    /// Whether a part of a wire is there, and not a guest that has ended, nor one that lacks
    /// something.
    pub(super) fn there(&self, wire: &str, name: &str, part: &Part, lacking: &Lacking) -> There {
        match (self.has_part(wire, name, part), part) {
            (false, _) => There::No,
            (true, Part::Vnic(_)) if lacking.lost.contains(name) => There::Lost,
            (true, Part::Vnic(_)) if lacking.vnics.contains(name) => There::Lacks,
            (true, Part::Routes(_)) if lacking.namespaces.contains(name) => There::Lacks,
            (true, Part::Guest(_)) => match self.store.get::<Guest>(name) {
                Ok(Some(guest)) if self.has_crashed(&guest) => There::Ended,
                _ => There::Yes,
            },
            (true, _) => There::Yes,
        }
    }

    /// What of a wire's interfaces, addresses and routes is not in the kernel. An interface that is
    /// not there lacks nothing, it gets all when it is made anew; nor do routes by one that is down,
    /// which the kernel does not take.
    pub(super) fn lacking(&self, wire: &Wire) -> Lacking {
        let mut lacking = Lacking::default();
        for name in wire.vnics.keys() {
            let vnic = self.store.get::<Vnic>(name);
            if matches!(vnic, Ok(Some(vnic)) if self.host.has_no_interface(&vnic)) {
                lacking.lost.insert(name.clone());
            }
        }
        let interface = |name: &str| {
            let vnic = wire.vnics.get(name)?;
            Some(vnic.interface.clone().unwrap_or_else(|| name.into()))
        };
        let places = wire
            .vnics
            .values()
            .filter(|vnic| !vnic.addresses.is_empty());
        let places = places.map(|vnic| vnic.namespace.as_deref());
        let routed = wire
            .namespaces
            .iter()
            .filter(|(_, it)| !it.routes.is_empty());
        let routed = routed.map(|(name, _)| Some(name.as_str()));
        for place in places.chain(routed).collect::<BTreeSet<_>>() {
            // A namespace that is not there is missing itself.
            let Ok(seen) = network::look(place) else {
                continue;
            };
            let held = |name: &str| interface(name).filter(|_| self.host.holds(name));
            let inside = wire.vnics.iter();
            let inside: Vec<_> = inside
                .filter(|(_, vnic)| vnic.namespace.as_deref() == place)
                .collect();
            for (name, vnic) in &inside {
                let lacks = held(name).is_some_and(|it| seen.lacks_addresses(&it, &vnic.addresses));
                if lacks {
                    lacking.vnics.insert(name.to_string());
                }
            }
            let Some(namespace) = place else {
                continue;
            };
            let routes = wire.namespaces.get(namespace).map(|it| it.routes.iter());
            let lacks = routes.into_iter().flatten().any(|route| {
                let reaches = |vnic: &file::Vnic| {
                    let via = route.via;
                    via.is_some_and(|via| vnic.addresses.iter().any(|net| net.contains(&via)))
                };
                let near = inside.iter().find(|(_, vnic)| reaches(vnic));
                let by = route.vnic.as_ref().or(near.map(|(name, _)| *name));
                let can_be = by.is_none_or(|name| held(name).is_some_and(|it| seen.is_up(&it)));
                let wanted = network::Route {
                    to: route.to,
                    via: route.via,
                    interface: route.vnic.as_ref().and_then(|name| interface(name)),
                    metric: route.metric,
                };
                can_be && !seen.has_route(&wanted)
            });
            if lacks {
                lacking.namespaces.insert(namespace.into());
            }
        }
        lacking
    }

    /// Sets routes of a wire again that went with interfaces which were made anew while the wire
    /// was taken back. Returns those that could not be.
    pub fn mend_routes(&mut self, wire: &str) -> Result<Vec<String>> {
        let wire = self.applied(wire)?.applied;
        let lacking = self.lacking(&wire).namespaces;
        let left = lacking.iter().filter_map(|name| {
            let routes = self.routes(&wire.namespaces[name].routes);
            let set = routes.and_then(|routes| network::set_routes(name, &[], &routes));
            let error = set.err()?;
            Some(format!("routes of namespace ‘{name}’ ({error})"))
        });
        Ok(left.collect())
    }

    /// Which guest of a wire has ended and how, if it has otherwise than in good order.
    pub(super) fn end_of(&mut self, guest: &str) -> Result<Option<String>> {
        let guest = self.store.get::<Guest>(guest)?;
        let Some(guest) = guest.filter(|guest| self.has_crashed(guest)) else {
            return Ok(None);
        };
        let reason = self.view_guest(&guest).reason.unwrap_or_default();
        // What it printed last may follow.
        let how = reason.lines().next().unwrap_or("it does not run");
        Ok(Some(format!("guest ‘{}’ ({how})", guest.name)))
    }

    /// Whether a part of a wire is there.
    fn has_part(&self, wire: &str, name: &str, part: &Part) -> bool {
        // A store that cannot be read fails in what comes next.
        match part {
            Part::Namespace(_) => network::exists(name),
            Part::Stub(_) | Part::Link(_) => matches!(self.store.get::<Link>(name), Ok(Some(_))),
            Part::Patch(it) => {
                let domains = self.domains_between(it);
                domains.is_ok_and(|domains| self.host.has_patch(&patch_ports(wire, name), domains))
            }
            Part::Vnic(_) => matches!(self.store.get::<Vnic>(name), Ok(Some(_))),
            Part::Guest(_) => matches!(self.store.get::<Guest>(name), Ok(Some(_))),
            Part::Flow(_) => matches!(self.store.get::<Flow>(name), Ok(Some(_))),
            Part::Entry { port, .. } => {
                matches!(self.store.get::<FlowEntry>(name), Ok(Some(entry)) if entry.port == *port)
            }
            Part::Default(action) => self
                .switch(name)
                .is_ok_and(|switch| switch.default.as_ref() == Some(action)),
            Part::Routes(_) => true,
        }
    }
}
