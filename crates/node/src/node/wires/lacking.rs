//! What of a wire is there, and what is not, or otherwise.

use std::collections::{BTreeMap, BTreeSet};

use switch::properties::{DomainProperties, PortProperties};

use super::{Node, mac_of, patch_ports, serves};
use crate::error::{Error, Kind, Result};
use crate::host::network;
use crate::model::{Class, Flow, FlowEntry, Guest, Link, LinkMode, Vnic};
use crate::node::links::MTU;
use crate::wire::file::{self, Attachment, Mode, Wire};
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

    /// Whether a part of a wire is there, and as the wire has it.
    pub(super) fn there(&self, wire: &str, name: &str, part: &Part, lacking: &Lacking) -> There {
        let lacks = match part {
            Part::Vnic(_) => lacking.vnics.contains(name),
            Part::Routes(_) => lacking.namespaces.contains(name),
            _ => false,
        };
        if !self.has_part(wire, name, part) {
            There::No
        } else if matches!(part, Part::Guest(_)) && self.is_crashed(name) {
            There::Ended
        } else if matches!(part, Part::Vnic(_)) && lacking.lost.contains(name) {
            There::Lost
        } else if self.differs(wire, name, part).unwrap_or(false) {
            There::Differs
        } else if lacks {
            There::Lacks
        } else {
            There::Yes
        }
    }

    fn is_crashed(&self, guest: &str) -> bool {
        let guest = self.store.get::<Guest>(guest);
        matches!(guest, Ok(Some(guest)) if self.has_crashed(&guest))
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
            let routes = wire.namespaces.get(namespace);
            let routes = routes.map_or(&[][..], |it| &it.routes);
            let lacks = routes.iter().any(|route| {
                let reaches = |vnic: &file::Vnic| {
                    let via = route.via;
                    via.is_some_and(|via| vnic.addresses.iter().any(|net| net.contains(&via)))
                };
                let near = inside.iter().find(|(_, vnic)| reaches(vnic));
                // A gateway may be reached by a route without one instead.
                let leads = |other: &&file::Route| {
                    other.via.is_none() && route.via.is_some_and(|via| other.to.contains(&via))
                };
                let straight = || routes.iter().find(leads)?.vnic.as_ref();
                let near = near.map(|(name, _)| *name).or_else(straight);
                let by = route.vnic.as_ref().or(near);
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

    /// Whether a part of a wire is there, and no other of its name that somebody made.
    fn has_part(&self, wire: &str, name: &str, part: &Part) -> bool {
        // A store that cannot be read fails in what comes next.
        self.find_part(wire, name, part).unwrap_or(false)
    }

    fn find_part(&self, wire: &str, name: &str, part: &Part) -> Result<bool> {
        Ok(match part {
            Part::Namespace(_) => network::exists(name),
            Part::Stub(it) => {
                let mtu = it.mtu.unwrap_or(MTU);
                let stub = self.store.get::<Link>(name)?;
                stub.is_some_and(|is| is.class == Class::Stub && is.mtu == mtu)
            }
            Part::Link(it) => {
                let link = self.store.get::<Link>(name)?;
                link.is_some_and(|is| is.class == Class::Nic && self.is_attached_so(&is, it))
            }
            Part::Patch(it) => {
                let domains = self.domains_between(it)?;
                self.host.has_patch(&patch_ports(wire, name), domains)
            }
            Part::Vnic(it) => self.store.get::<Vnic>(name)?.is_some_and(|is| {
                let mac = it.mac.unwrap_or_else(|| mac_of(wire, name));
                let place = (serves(it), it.interface.as_deref().unwrap_or(name));
                (&is.link, is.mac) == (&it.link, mac)
                    && (is.serves.clone(), is.interface()) == place
            }),
            Part::Guest(it) => {
                let guest = self.store.get::<Guest>(name)?;
                guest.is_some_and(|is| is_guest(&is, it))
            }
            Part::Flow(it) => self.store.get::<Flow>(name)?.is_some_and(|is| {
                let is = (&is.link, &is.attributes, &is.properties);
                is == (&it.link, &it.attributes, &it.properties)
            }),
            Part::Entry { port, .. } => {
                let entry = self.store.get::<FlowEntry>(name)?;
                entry.is_some_and(|entry| entry.port == *port)
            }
            Part::Default(action) => self.switch(name)?.default.as_ref() == Some(action),
            Part::Routes(_) => true,
        })
    }

    /// Whether a link is attached as a wire says. Of one that is not up, the best way is not known.
    fn is_attached_so(&self, link: &Link, it: &Attachment) -> bool {
        let wanted = match it.mode {
            Mode::Auto => return link.tunnel == it.vxlan,
            Mode::Xdp => LinkMode::Xdp,
            Mode::Packet => LinkMode::Packet,
        };
        let mode = self.view_link(link).mode;
        link.tunnel == it.vxlan && mode.is_none_or(|mode| mode == wanted)
    }

    /// Whether a link was attached for a wire, and not by somebody else.
    pub(super) fn has_attached(&self, wire: &str, link: &str) -> Result<bool> {
        let links = self.applied(wire)?.links;
        Ok(links.iter().any(|name| name == link))
    }

    /// Refuses a link that somebody else attached otherwise than a wire says.
    pub(super) fn check_attached(&self, link: &Link, it: &Attachment) -> Result<()> {
        let name = &link.name;
        let refused = |sentence: String| Err(Error::new(Kind::InUse, sentence));
        if !self.is_attached_so(link, it) {
            return refused(format!(
                "‘{name}’ is attached already, and otherwise: `weir link detach {name}` first, or have the wire say how it is (`weir link show {name}`)"
            ));
        }
        match has_all(&link.port, &it.port) {
            true => Ok(()),
            false => refused(format!(
                "‘{name}’ is attached already, and its port has {}, not {}: `weir link detach {name}` first, or leave that out of the wire",
                told(&link.port),
                it.port
            )),
        }
    }

    /// Whether somebody changed of a part, which is there, what can change in use. A link that
    /// somebody else attached may be as it is where the wire says nothing.
    fn differs(&self, wire: &str, name: &str, part: &Part) -> Result<bool> {
        Ok(match part {
            Part::Stub(it) => self.find_link(name)?.properties != it.properties,
            Part::Link(it) => {
                let is = self.find_link(name)?;
                match self.has_attached(wire, name)? {
                    true => (&is.port, &is.properties) != (&it.port, &it.properties),
                    false => {
                        let is_unsaid = it.properties == DomainProperties::default();
                        !has_all(&is.port, &it.port) || !is_unsaid && is.properties != it.properties
                    }
                }
            }
            Part::Vnic(it) => self.find_vnic(name)?.properties != it.properties,
            Part::Guest(it) => {
                let is = self.find_guest(name)?;
                (&is.config, is.restart) != (&it.config, it.restart)
            }
            _ => false,
        })
    }
}

/// Whether a guest is one that a wire describes, but for what changes in use. What the wire does not
/// say is as it was when the guest was created.
fn is_guest(guest: &Guest, it: &file::Guest) -> bool {
    let interfaces = guest.interfaces.iter();
    let interfaces: BTreeMap<_, _> = interfaces.map(|it| (&it.name, &it.vnic)).collect();
    interfaces == it.interfaces.iter().collect()
        && it.memory.is_none_or(|memory| memory.0 == guest.memory)
        && it.ring_slots.is_none_or(|slots| slots == guest.ring_slots)
        && it.cpus.is_none_or(|cpus| cpus == guest.cpus)
        && (&it.pin, it.isolation) == (&guest.pins, guest.isolation)
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
