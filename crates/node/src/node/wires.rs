//! Wires: what of them the node does at once. Applying one takes several such steps, and waits for
//! guests in between: see [`crate::service`].

use std::collections::BTreeSet;

use ipnet::IpNet;
use switch::lookup::Mac;
use switch::properties::PortProperties;

use super::Node;
use crate::error::{Error, Kind, Result};
use crate::host::network;
use crate::model::{
    AppliedWire, Class, Flow, FlowEntry, Guest, Link, LinkMode, NewFlow, NewFlowEntry, NewGuest,
    NewInterface, NewLink, NewStub, NewVnic, PropertyChange, Serves, Vnic, WireChange, WireGuest,
    WireView,
};
use crate::wire;
use crate::wire::check::check;
use crate::wire::diff::diff;
use crate::wire::file::{Attachment, Mode, Patch, Route, Wire};
use crate::wire::plan::{Part, Step, There, patches, plan};

/// What of a wire was removed in the kernel by hand.
#[derive(Default)]
struct Lacking {
    /// VNICs whose interfaces have not all their addresses.
    vnics: BTreeSet<String>,
    /// Namespaces that have not all their routes.
    namespaces: BTreeSet<String>,
}

impl Node {
    /// All wires.
    pub fn wires(&mut self) -> Result<Vec<WireView>> {
        let records = self.store.all::<AppliedWire>()?;
        records
            .iter()
            .map(|record| self.view_wire(record))
            .collect()
    }

    fn view_wire(&mut self, record: &AppliedWire) -> Result<WireView> {
        let mut guests = Vec::new();
        for name in record.applied.guests.keys() {
            let there = self.store.get::<Guest>(name)?;
            let view = there.map(|guest| self.view_guest(&guest));
            guests.push(WireGuest {
                name: name.clone(),
                state: view.as_ref().map(|view| view.state),
                reason: view.and_then(|view| view.reason),
            });
        }
        Ok(WireView::new(record, guests))
    }

    /// One wire, as it was applied.
    pub fn wire(&self, name: &str) -> Result<Wire> {
        Ok(self.find_wire(name)?.applied)
    }

    fn find_wire(&self, name: &str) -> Result<AppliedWire> {
        self.store.get::<AppliedWire>(name)?.ok_or_else(|| {
            Error::not_found(format_args!(
                "no wire ‘{name}’: `weir wire show` lists those there are"
            ))
        })
    }

    /// What there is of a wire: nothing, if it was never applied.
    fn applied(&self, name: &str) -> Result<AppliedWire> {
        let record = self.store.get::<AppliedWire>(name)?;
        Ok(record.unwrap_or_else(|| AppliedWire {
            name: name.into(),
            applied: nothing(name),
            pending: None,
            links: Vec::new(),
        }))
    }

    /// What applying a wire would do.
    pub fn compare_wire(&mut self, new: &Wire) -> Result<WireChange> {
        let record = self.applied(&new.wire)?;
        self.change_of(&record, new).map(|(change, _)| change)
    }

    /// What makes `new` of a wire, and the steps: all of which can be taken, as far as that can be
    /// told from what is asked for.
    fn change_of(&mut self, record: &AppliedWire, new: &Wire) -> Result<(WireChange, Vec<Step>)> {
        let findings = check(new);
        if !findings.errors.is_empty() {
            return Err(Error::invalid(findings.errors.join("\n")));
        }
        // Of a guest that has just ended, too.
        self.take_events();
        let old = &record.applied;
        let mut ended = Vec::new();
        for name in new
            .guests
            .keys()
            .filter(|name| old.guests.contains_key(*name))
        {
            ended.extend(self.end_of(name)?);
        }
        let lacking = self.lacking(old);
        let there = |name: &str, part: &Part| self.there(&new.wire, name, part, &lacking);
        let again = plan(old, old, there);
        let missing = again.iter().filter_map(|step| {
            let part = step.to.as_ref()?;
            match there(&step.name, part) {
                There::No => Some(step.part()),
                There::Lacks => Some(step.lacking()),
                There::Yes | There::Ended => None,
            }
        });
        let missing = missing.collect();
        let steps = plan(old, new, there);
        for step in &steps {
            self.check_free_for(&new.wire, step, &steps)?;
        }
        let errors: Vec<_> = steps
            .iter()
            .filter_map(|step| {
                let checked = match &step.to {
                    Some(Part::Guest(guest)) => self.check_guest_of(new, &step.name, guest),
                    Some(Part::Link(link)) => self.check_link_of(&step.name, link),
                    _ => Ok(()),
                };
                let error = checked.err()?;
                Some(format!("wire ‘{}’, {}: {error}", new.wire, step.part()))
            })
            .collect();
        if !errors.is_empty() {
            return Err(Error::invalid(errors.join("\n")));
        }
        let change = WireChange {
            differences: diff(old, new).iter().map(ToString::to_string).collect(),
            missing,
            ended,
            warnings: findings.warnings,
        };
        Ok((change, steps))
    }

    /// Whether a guest could be created, as far as that can be told from how it is described.
    fn check_guest_of(&self, wire: &Wire, name: &str, guest: &wire::file::Guest) -> Result<()> {
        let mac = |vnic: &String| {
            let given = wire.vnics.get(vnic).and_then(|vnic| vnic.mac);
            given.unwrap_or_else(|| mac_of(&wire.wire, vnic))
        };
        let interfaces = guest.interfaces.iter();
        let interfaces: Vec<_> = interfaces
            .map(|(name, vnic)| (name.clone(), mac(vnic)))
            .collect();
        self.check_guest(&new_guest(name, guest), &interfaces)
            .map(drop)
    }

    /// Whether a link could be attached, or served by as many lanes as it is to be, as far as that
    /// shows before.
    fn check_link_of(&mut self, name: &str, link: &Attachment) -> Result<()> {
        if link.port.lanes.is_some() {
            self.need_switch()?;
            self.check_lanes(&link.port)?;
        }
        let is_attached = self.store.get::<Link>(name)?.is_some();
        match is_attached || link.vxlan.is_some() {
            true => Ok(()),
            false => Ok(switch::links::check(name)?),
        }
    }

    /// Begins to make of the wire called as `new` what that says. Returns what is to become of it
    /// and the steps, which are to be taken, and then [`end_wire`](Self::end_wire).
    pub fn begin_wire(&mut self, new: Wire) -> Result<(WireChange, Vec<Step>)> {
        let mut record = self.applied(&new.wire)?;
        if record.pending.is_some() {
            return Err(Error::new(
                Kind::InUse,
                format_args!(
                    "wire ‘{}’ is being changed: try again when that is done",
                    new.wire
                ),
            ));
        }
        let begun = self.change_of(&record, &new)?;
        let name = new.wire.clone();
        record.pending = Some(new);
        self.store.put(&record)?;
        self.changing.insert(name);
        Ok(begun)
    }

    /// Ends what [`begin_wire`](Self::begin_wire) began: `done` if all steps were taken, else all
    /// were taken back.
    pub fn end_wire(&mut self, name: &str, done: bool) -> Result<()> {
        self.changing.remove(name);
        let mut record = self.applied(name)?;
        let pending = record.pending.take();
        if let (Some(new), true) = (pending, done) {
            record.applied = new;
        }
        let change = self.store.change()?;
        match record.applied == nothing(name) {
            true => change.remove::<AppliedWire>(name)?,
            false => change.put(&record)?,
        }
        Ok(change.commit()?)
    }

    /// Whether the name of a part that is new is free. Nothing is begun before: so what there is of
    /// a wire that is taken back was made for it.
    fn check_free_for(&self, wire: &str, step: &Step, steps: &[Step]) -> Result<()> {
        let (None, Some(part)) = (&step.from, &step.to) else {
            return Ok(());
        };
        let name = step.name.as_str();
        let goes = |other: &&Step| {
            let from = other.from.as_ref();
            other.to.is_none()
                && other.name == name
                && from.is_some_and(|from| from.noun() == part.noun())
        };
        if steps.iter().find(goes).is_some() {
            return Ok(());
        }
        let free = match part {
            Part::Namespace(it) if !it.existing && network::exists(name) => {
                Err(network::is_taken(name))
            }
            Part::Stub(_) | Part::Vnic(_) => self.check_free(name),
            Part::Link(_) => match self.store.get::<Link>(name)? {
                Some(link) if link.class == Class::Nic => Ok(()),
                _ => self.check_free(name),
            },
            Part::Guest(_) => self.check_no_guest(name),
            Part::Flow(_) => self.check_no_flow(name),
            Part::Entry { port, .. } => match self.store.get::<FlowEntry>(name)? {
                Some(entry) if entry.port != *port => Err(Error::new(
                    Kind::Exists,
                    format_args!(
                        "there is one already, which leads to ‘{}’: `weir switch remove-flow {name}` first",
                        entry.port
                    ),
                )),
                _ => Ok(()),
            },
            Part::Namespace(_) | Part::Patch(_) | Part::Routes(_) | Part::Default(_) => Ok(()),
        };
        free.map_err(|error| {
            Error::new(
                error.kind,
                format_args!("wire ‘{wire}’, {}: {error}", step.part()),
            )
        })
    }

    /// Wires that are not being changed and were not ended, with the steps back: a node did not
    /// live to do it, or could not keep it. They are being changed from now on.
    pub fn unfinished_wires(&mut self) -> Result<Vec<(String, Vec<Step>)>> {
        let records = self.store.all::<AppliedWire>()?;
        let unfinished = records.into_iter().filter_map(|record| {
            let pending = record.pending?;
            if self.changing.contains(&record.name) {
                return None;
            }
            for wire in [&pending, &record.applied] {
                wire.namespaces.keys().for_each(|name| network::sweep(name));
            }
            let lacking = self.lacking(&pending);
            let there = |name: &str, part: &Part| self.there(&record.name, name, part, &lacking);
            let back = plan(&pending, &record.applied, there);
            Some((record.name, back))
        });
        let unfinished: Vec<_> = unfinished.collect();
        self.changing
            .extend(unfinished.iter().map(|(name, _)| name.clone()));
        Ok(unfinished)
    }

    /// Whether what a step is to make is there already.
    pub fn has_made(&self, wire: &str, step: &Step) -> bool {
        let made = step.to.as_ref().filter(|_| step.from.is_none());
        let is_lasting = |part: &&Part| !matches!(part, Part::Routes(_));
        made.filter(is_lasting)
            .is_some_and(|part| self.has_part(wire, &step.name, part))
    }

    /// Whether a part of a wire is there, and not a guest that has ended, nor one that lacks
    /// something.
    fn there(&self, wire: &str, name: &str, part: &Part, lacking: &Lacking) -> There {
        match (self.has_part(wire, name, part), part) {
            (false, _) => There::No,
            (true, Part::Vnic(_)) if lacking.vnics.contains(name) => There::Lacks,
            (true, Part::Routes(_)) if lacking.namespaces.contains(name) => There::Lacks,
            (true, Part::Guest(_)) => match self.store.get::<Guest>(name) {
                Ok(Some(guest)) if self.has_crashed(&guest) => There::Ended,
                _ => There::Yes,
            },
            (true, _) => There::Yes,
        }
    }

    /// What of a wire's addresses and routes is not set in the kernel. An interface that is not
    /// there lacks nothing, it gets all when it is made anew; nor do routes by one that is down,
    /// which the kernel does not take.
    fn lacking(&self, wire: &Wire) -> Lacking {
        let mut lacking = Lacking::default();
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
                let reaches = |vnic: &wire::file::Vnic| {
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
    fn end_of(&mut self, guest: &str) -> Result<Option<String>> {
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

    /// The guest to be created by a step that creates one.
    pub fn guest_of_step(step: &Step) -> Option<NewGuest> {
        let (None, Some(Part::Guest(guest))) = (&step.from, &step.to) else {
            return None;
        };
        Some(new_guest(&step.name, guest))
    }

    /// Keeps what of a guest that a step changed in use: its configuration, and when it is started
    /// anew.
    pub fn keep_guest(&mut self, name: &str, part: &wire::file::Guest) -> Result<()> {
        let mut guest = self.find_guest(name)?;
        guest.config.clone_from(&part.config);
        guest.restart = part.restart;
        Ok(self.store.put(&guest)?)
    }

    /// Takes a step of the wire `wire`. Steps that create guests are for the service, as are those
    /// that change their configurations.
    pub fn take_step(&mut self, wire: &str, step: &Step) -> Result<()> {
        let name = step.name.as_str();
        match (&step.from, &step.to) {
            (None, Some(Part::Namespace(it))) => {
                if !it.existing {
                    network::create(name)?;
                } else if !network::exists(name) {
                    return Err(Error::not_found(format_args!(
                        "there is no network namespace ‘{name}’, which is said to exist: `ip netns add {name}`, or leave out ‘existing’"
                    )));
                }
                network::set_forwarding(name, it.forwarding)
            }
            (Some(Part::Namespace(it)), None) => match it.existing {
                true => Ok(()),
                false => network::delete(name),
            },
            (Some(Part::Namespace(_)), Some(Part::Namespace(it))) => {
                network::set_forwarding(name, it.forwarding)
            }
            (None, Some(Part::Stub(it))) => {
                self.create_stub(NewStub {
                    name: name.into(),
                    mtu: it.mtu,
                })?;
                self.set_domain(name, &it.properties)
            }
            (Some(Part::Stub(_)), None) => self.remove_link(name, Class::Stub),
            (_, Some(Part::Stub(it))) => self.set_domain(name, &it.properties),
            (None, Some(Part::Link(it))) => self.attach_for(wire, name, it),
            (Some(Part::Link(_)), None) => self.detach_for(wire, name),
            (Some(Part::Link(old)), Some(Part::Link(it))) => {
                if (old.mode, &old.vxlan) != (it.mode, &it.vxlan) {
                    return Err(Error::new(
                        Kind::InUse,
                        format_args!(
                            "link ‘{name}’ is attached: how cannot change while it is; `weir wire delete {wire}` first"
                        ),
                    ));
                }
                if old.port != it.port {
                    self.set_link(name, &whole(&it.port, &[]))?;
                }
                self.set_domain(name, &it.properties)
            }
            (None, Some(Part::Patch(it))) => self.attach_patch(wire, name, it),
            (Some(Part::Patch(_)), None) => {
                for port in patch_ports(wire, name) {
                    self.host.detach(&port);
                }
                Ok(())
            }
            (None, Some(Part::Vnic(it))) => {
                let serves = match (&it.namespace, it.host, &it.vhost_user) {
                    (Some(namespace), _, _) => Serves::Netns(namespace.clone()),
                    (_, true, _) => Serves::Host,
                    (_, _, Some(socket)) => Serves::VhostUser(socket.display().to_string()),
                    _ => Serves::Guest,
                };
                self.create_vnic(NewVnic {
                    name: name.into(),
                    link: it.link.clone(),
                    mac: Some(it.mac.unwrap_or_else(|| mac_of(wire, name))),
                    serves,
                    interface: it.interface.clone(),
                    addresses: it.addresses.clone(),
                    properties: it.properties.to_string(),
                })
                .map(drop)
            }
            (Some(Part::Vnic(_)), None) => self.remove_vnic(name),
            (Some(Part::Vnic(old)), Some(Part::Vnic(it))) => {
                if old.properties != it.properties {
                    self.set_vnic(name, &whole(&it.properties, &["vlan", "mtu"]))?;
                }
                self.set_addresses(name, &old.addresses, &it.addresses)
            }
            (old, Some(Part::Routes(new))) => {
                let old = match old {
                    Some(Part::Routes(old)) => self.routes(old)?,
                    _ => Vec::new(),
                };
                network::set_routes(name, &old, &self.routes(new)?)
            }
            (Some(Part::Routes(old)), None) => match network::exists(name) {
                true => network::set_routes(name, &self.routes(old)?, &[]),
                false => Ok(()),
            },
            (Some(Part::Guest(_)), None) => self.destroy_guest(name),
            (None, Some(Part::Flow(it))) => self
                .add_flow(NewFlow {
                    name: name.into(),
                    link: it.link.clone(),
                    attributes: it.attributes.to_string(),
                    properties: it.properties.to_string(),
                })
                .map(drop),
            (Some(Part::Flow(_)), None) => self.remove_flow(name),
            (_, Some(Part::Entry { link, flow, port })) => {
                let entry = NewFlowEntry {
                    flow: flow.to_string(),
                    port: port.clone(),
                };
                self.add_flow_entry(link, &entry).map(drop)
            }
            (Some(Part::Entry { link, flow, .. }), None) => {
                absent(self.remove_flow_entry(link, &flow.to_string()))
            }
            (_, Some(Part::Default(action))) => self.set_default(name, action),
            (Some(Part::Default(_)), None) => absent(self.set_default(name, "normal")),
            // The plan has no other steps.
            _ => Err(Error::failed(format_args!(
                "{} cannot change so",
                step.part()
            ))),
        }
    }

    fn attach_for(&mut self, wire: &str, name: &str, it: &Attachment) -> Result<()> {
        if self.store.get::<Link>(name)?.is_none() {
            let mode = match it.mode {
                _ if it.vxlan.is_some() => Some(LinkMode::Vxlan),
                Mode::Auto => None,
                Mode::Xdp => Some(LinkMode::Xdp),
                Mode::Packet => Some(LinkMode::Packet),
            };
            // Kept first, so that whoever takes this back knows whose link it is.
            let mut record = self.applied(wire)?;
            record.links.push(name.into());
            self.store.put(&record)?;
            let attached = self.attach_link(NewLink {
                name: name.into(),
                mode,
                tunnel: it.vxlan.clone(),
                properties: it.port.to_string(),
            });
            if let Err(error) = attached {
                record.links.retain(|link| link != name);
                self.store.put(&record)?;
                return Err(error);
            }
        }
        self.set_domain(name, &it.properties)
    }

    fn detach_for(&mut self, wire: &str, name: &str) -> Result<()> {
        let mut record = self.applied(wire)?;
        let ours = record.links.len();
        record.links.retain(|link| link != name);
        if record.links.len() < ours {
            if self.store.get::<Link>(name)?.is_some() {
                self.remove_link(name, Class::Nic)?;
            }
            self.store.put(&record)?;
        }
        Ok(())
    }

    /// The domains that a patch joins.
    fn domains_between(&self, patch: &Patch) -> Result<[u32; 2]> {
        let [a, b] = &patch.between;
        Ok([self.find_link(a)?.domain, self.find_link(b)?.domain])
    }

    fn attach_patch(&mut self, wire: &str, name: &str, patch: &Patch) -> Result<()> {
        let domains = self.domains_between(patch)?;
        // A ring of switches was warned of already.
        let there = &patch.properties;
        let properties = [there, patch.back.as_ref().unwrap_or(there)];
        self.host
            .attach_patch(patch_ports(wire, name), domains, properties)
            .map(drop)
    }

    /// Attaches the patches of wires that are not: those of a switch that ended.
    pub(super) fn bring_patches(&mut self) -> Result<()> {
        for record in self.store.all::<AppliedWire>()? {
            for (name, part) in patches(&record.applied) {
                let attached = self.attach_patch(&record.name, &name, &part);
                self.host
                    .note(&patch_ports(&record.name, &name)[0], attached);
            }
        }
        Ok(())
    }

    /// Whether a port is a wire's patch.
    pub(super) fn is_patch(&self, port: &str) -> Result<bool> {
        let records = self.store.all::<AppliedWire>()?;
        let mut names = records.iter().flat_map(|record| {
            let patches = record.applied.patches.keys();
            patches.flat_map(|name| patch_ports(&record.name, name))
        });
        Ok(names.any(|name| name == port))
    }

    /// Routes with the names of their interfaces in the namespace.
    fn routes(&self, routes: &[Route]) -> Result<Vec<network::Route>> {
        let route = |route: &Route| {
            let vnic = route
                .vnic
                .as_ref()
                .map(|vnic| self.find_vnic(vnic))
                .transpose()?;
            Ok(network::Route {
                to: route.to,
                via: route.via,
                interface: vnic.map(|vnic| vnic.interface().to_string()),
                metric: route.metric,
            })
        };
        routes.iter().map(route).collect()
    }

    /// Gives a VNIC's interface its addresses instead of those that it had, and keeps them. What is
    /// kept may not be what there is: a node may have been killed between the two.
    fn set_addresses(&mut self, name: &str, old: &[IpNet], addresses: &[IpNet]) -> Result<()> {
        let mut vnic = self.find_vnic(name)?;
        let mut there = vnic.addresses.clone();
        there.extend(
            old.iter()
                .filter(|address| !vnic.addresses.contains(address)),
        );
        if there != addresses || self.host.lacks_addresses(&vnic, addresses) {
            self.host.set_addresses(&vnic, &there, addresses)?;
        }
        if vnic.addresses == addresses {
            return Ok(());
        }
        vnic.addresses = addresses.into();
        Ok(self.store.put(&vnic)?)
    }

    /// Brings about what a wire's namespaces are to be, as far as it is not there: after the
    /// machine was booted anew there are none.
    pub(super) fn bring_namespaces(&mut self) -> Result<()> {
        for record in self.store.all::<AppliedWire>()? {
            for (name, namespace) in &record.applied.namespaces {
                if !namespace.existing && !network::exists(name) {
                    let made = network::create(name);
                    let made =
                        made.and_then(|()| network::set_forwarding(name, namespace.forwarding));
                    self.host.note(&format!("namespace {name}"), made);
                }
            }
        }
        Ok(())
    }

    /// Removes the namespaces that wires made.
    pub(super) fn remove_namespaces(&self) -> Result<()> {
        for record in self.store.all::<AppliedWire>()? {
            let wires = [Some(record.applied), record.pending];
            for (name, namespace) in wires.into_iter().flatten().flat_map(|w| w.namespaces) {
                if !namespace.existing {
                    network::delete(&name)?;
                }
            }
        }
        Ok(())
    }

    /// Sets the routes of a namespace that had an interface made anew.
    pub(super) fn bring_routes(&mut self, namespace: &str) -> Result<()> {
        for record in self.store.all::<AppliedWire>()? {
            if let Some(described) = record.applied.namespaces.get(namespace) {
                network::set_routes(namespace, &[], &self.routes(&described.routes)?)?;
            }
        }
        Ok(())
    }
}

/// What is to be removed and is not there, or whose switch is not or has no table, is removed.
fn absent(removed: Result<()>) -> Result<()> {
    match removed {
        Err(error) if matches!(error.kind, Kind::NotFound | Kind::Invalid) => Ok(()),
        removed => removed,
    }
}

/// A change to these properties and no others, but for those that are to stay.
fn whole(properties: &PortProperties, stay: &[&str]) -> PropertyChange {
    let names = PortProperties::NAMES.iter();
    let reset = names.filter(|name| !stay.contains(name));
    PropertyChange {
        set: properties.to_string(),
        reset: reset.map(ToString::to_string).collect(),
    }
}

/// The address of a VNIC that is given none: always the same for the same wire, so that its
/// neighbours still know one that was made again. (FNV-1a.)
fn mac_of(wire: &str, vnic: &str) -> Mac {
    let bytes = wire.bytes().chain([0]).chain(vnic.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let [_, b, c, d, e, f, ..] = hash.to_le_bytes();
    // Locally administered, unicast.
    Mac([0x02, b, c, d, e, f])
}

/// A guest of a wire, to be created.
fn new_guest(name: &str, guest: &wire::file::Guest) -> NewGuest {
    let interfaces = guest.interfaces.iter().map(|(name, vnic)| NewInterface {
        name: name.clone(),
        on: vnic.clone(),
    });
    NewGuest {
        name: name.into(),
        config: guest.config.clone(),
        file: None,
        interfaces: interfaces.collect(),
        isolation: guest.isolation,
        memory: guest.memory.map(|memory| memory.0),
        ring_slots: guest.ring_slots,
        cpus: guest.cpus,
        pins: guest.pin.clone(),
        restart: guest.restart,
    }
}

/// A wire without parts.
fn nothing(name: &str) -> Wire {
    Wire {
        wire: name.into(),
        ..Wire::default()
    }
}

/// The two ports of a wire's patch. Nothing else is called so: other names have no slashes.
fn patch_ports(wire: &str, name: &str) -> [String; 2] {
    [format!("{wire}/{name}:a"), format!("{wire}/{name}:b")]
}
