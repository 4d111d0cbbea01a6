//! Wires: the operations that the node does without waiting. An apply takes several of them, and
//! the service waits for guests in between.

mod drift;
mod namespaces;
mod steps;

use std::collections::{BTreeMap, BTreeSet};

use super::Node;
use super::links::list;
use super::resource::{Resource, found};
use crate::error::{Error, Fault, InField, Result, Subject};
use crate::host::network;
use crate::model::{
    Application, Class, EntryRecord, Guest, GuestRecord, Link, LinkRecord, Nsm, Object, Patch,
    State, Wire, WireChange, WireGuest, WireProcess, WireRecord, WireStatus,
};
use crate::wire::check::check;
use crate::wire::plan::{Drift, Part, Step, Why, patches, plan};

/// The node's state of wires beside their records.
#[derive(Default)]
pub(super) struct Wires {
    /// Wires that are being changed.
    pub(super) changing: BTreeSet<String>,
}

impl Resource for Wire {
    fn all(node: &mut Node) -> Result<Vec<Object<Wire>>> {
        let records = node.store.all::<WireRecord>()?;
        records.into_iter().map(|it| node.view_wire(it)).collect()
    }

    fn one(node: &mut Node, name: &str) -> Result<Object<Wire>> {
        let record = node.find_wire(name)?;
        node.view_wire(record)
    }

    fn reconcile(node: &mut Node) -> Result<()> {
        node.bring_patches()
    }
}

impl Node {
    fn view_wire(&mut self, record: WireRecord) -> Result<Object<Wire>> {
        let mut guests = Vec::new();
        for name in record.applied.guests.keys() {
            let there = self.store.get::<GuestRecord>(name)?;
            let status = there.map(|guest| self.view_guest(&guest).status);
            guests.push(WireGuest {
                name: name.clone(),
                state: status.as_ref().map(|status| status.state),
                reason: status.and_then(|status| status.reason),
            });
        }
        let nsms = self.processes_of::<Nsm>(record.applied.nsms.keys(), |status| {
            (status.state, status.reason)
        })?;
        let applications = record.applied.applications.keys();
        let applications =
            self.processes_of::<Application>(applications, |status| (status.state, status.reason))?;
        let changing = record.pending.is_some();
        Ok(Object {
            name: record.name,
            spec: record.applied,
            status: WireStatus {
                guests,
                nsms,
                applications,
                changing,
            },
        })
    }

    /// The states of NSMs or of applications.
    fn processes_of<'a, R: Resource>(
        &mut self,
        names: impl Iterator<Item = &'a String>,
        state: fn(R::Status) -> (State, Option<String>),
    ) -> Result<Vec<WireProcess>> {
        let process = |name: &String| {
            let is = found::<R>(self, name)?.map(|it| state(it.status));
            Ok(WireProcess {
                name: name.clone(),
                state: is.as_ref().map(|(state, _)| *state),
                reason: is.and_then(|(_, reason)| reason),
            })
        };
        names.map(process).collect()
    }

    fn find_wire(&self, name: &str) -> Result<WireRecord> {
        let found = self.store.get::<WireRecord>(name)?;
        Ok(found.ok_or_else(|| Fault::NoWire { name: name.into() })?)
    }

    /// What there is of a wire: nothing, if it was never applied.
    fn applied(&self, name: &str) -> Result<WireRecord> {
        let record = self.store.get::<WireRecord>(name)?;
        Ok(record.unwrap_or_else(|| WireRecord {
            name: name.into(),
            applied: nothing(name),
            pending: None,
            links: Vec::new(),
            forwarding: BTreeMap::new(),
        }))
    }

    /// What applying a wire would do.
    pub fn compare_wire(&mut self, new: &Wire) -> Result<WireChange> {
        let record = self.applied(&new.wire)?;
        self.change_of(&record, new).map(|(change, _)| change)
    }

    /// The change of a wire to `new`, and its steps. The steps are checked as far as the
    /// specification allows.
    fn change_of(&mut self, record: &WireRecord, new: &Wire) -> Result<(WireChange, Vec<Step>)> {
        let findings = check(new);
        if !findings.errors.is_empty() {
            return Err(Error {
                field: findings.field,
                ..Error::invalid(findings.errors.join("\n"))
            });
        }
        for (at, name) in new.existing.iter().enumerate() {
            self.find_link(name).in_field(&format!("existing[{at}]"))?;
        }
        // Of a guest that has just ended, too.
        self.take_events();
        let old = &record.applied;
        let seen = self.kernel_drift(old);
        let steps = plan(old, new, |name, part| {
            self.drift(&new.wire, name, part, &seen)
        });
        for step in &steps {
            self.check_unused(step, &steps)?;
            self.check_free_for(step, &steps).map_err(|error| {
                let missing = step.why == Why::Drift(Drift::Missing);
                let remedy = step.to.as_ref().and_then(removes).filter(|_| missing);
                error.within(|why| {
                    let why = remedy.map_or_else(
                        || why.to_string(),
                        |command| {
                            format!(
                                "it was removed and another was made under its name: `{command} {}` first, and the wire recreates it",
                                step.name
                            )
                        },
                    );
                    format!("wire ‘{}’, {}: {why}", new.wire, step.part())
                })
            })?;
        }
        let errors: Vec<_> = steps
            .iter()
            .filter_map(|step| {
                let checked = match &step.to {
                    Some(Part::Guest(guest)) => self.check_guest_of(new, &step.name, guest),
                    Some(Part::Link(link)) => self.check_link_of(&new.wire, step, link),
                    _ => Ok(()),
                };
                let error = checked.err()?;
                let said = format!("wire ‘{}’, {}: {error}", new.wire, step.part());
                let part = step.to.as_ref().map_or("", Part::noun);
                Some((
                    said,
                    error.field.map(|it| format!("{part}.{}.{it}", step.name)),
                ))
            })
            .collect();
        let (errors, fields): (Vec<_>, Vec<_>) = errors.into_iter().unzip();
        if !errors.is_empty() {
            let field = fields.into_iter().flatten().next();
            return Err(Error {
                field,
                ..Error::invalid(errors.join("\n"))
            });
        }
        let change = WireChange {
            steps: steps.iter().map(ToString::to_string).collect(),
            warnings: findings.warnings,
        };
        Ok((change, steps))
    }

    /// Checks that a guest can be created, as far as its specification shows.
    fn check_guest_of(&self, wire: &Wire, name: &str, guest: &Guest) -> Result<()> {
        let mac = |vnic: &String| {
            let given = wire.vnics.get(vnic).and_then(|vnic| vnic.mac);
            given.unwrap_or_else(|| Wire::mac_of(&wire.wire, vnic))
        };
        let interfaces = guest.interfaces.iter();
        let interfaces: Vec<_> = interfaces
            .map(|(name, vnic)| (name.clone(), mac(vnic)))
            .collect();
        self.check_guest(name, guest, &interfaces, None).map(drop)
    }

    /// Checks, as far as possible in advance, that a link can be attached and served by as many
    /// lanes as it asks for, and that a link which the wire did not attach matches it.
    fn check_link_of(&mut self, wire: &str, step: &Step, link: &Link) -> Result<()> {
        let name = &step.name;
        if link.port.lanes.is_some() {
            self.need_switch()?;
            self.check_lanes(&link.port)?;
        }
        match self.store.get::<LinkRecord>(name)? {
            Some(_) if step.from.is_some() && self.has_attached(wire, name)? => Ok(()),
            Some(attached) => self.check_attached(&attached, link),
            None if !link.needs_interface() => Ok(()),
            None => Ok(switch::links::check(name)?),
        }
    }

    /// Begins to change the wire of `new`'s name to `new`. Returns the change and its steps. The
    /// caller takes the steps, then calls [`end_wire`](Self::end_wire).
    pub fn begin_wire(&mut self, new: Wire) -> Result<(WireChange, Vec<Step>)> {
        let mut record = self.applied(&new.wire)?;
        if record.pending.is_some() {
            return Err(Fault::WireChanging { name: new.wire }.into());
        }
        let begun = self.change_of(&record, &new)?;
        let name = new.wire.clone();
        record.pending = Some(new);
        self.store.put(&record)?;
        self.wires.changing.insert(name);
        Ok(begun)
    }

    /// Ends what [`begin_wire`](Self::begin_wire) began: `done` if all steps were taken, else all
    /// were taken back.
    pub fn end_wire(&mut self, name: &str, done: bool) -> Result<()> {
        self.wires.changing.remove(name);
        let mut record = self.applied(name)?;
        let pending = record.pending.take();
        if let (Some(new), true) = (pending, done) {
            record.applied = new;
        }
        let change = self.store.change()?;
        if record.applied == nothing(name) {
            change.remove::<WireRecord>(name)?;
        } else {
            change.put(&record)?;
        }
        change.commit()?;
        // Patches of a switch that ended meanwhile. Failures are noted, and tried again later.
        let _ = self.bring_patches();
        Ok(())
    }

    /// Whether all that stands on a stub to be removed goes with it. (A link may be another wire's as
    /// well, and stays then.)
    fn check_unused(&self, step: &Step, steps: &[Step]) -> Result<()> {
        let (Some(Part::Stub(_)), None) = (&step.from, &step.to) else {
            return Ok(());
        };
        let stays = |noun: &str, name: &str| {
            let goes = |step: &Step| {
                let part = step.from.as_ref().filter(|_| step.to.is_none());
                step.name == name && part.is_some_and(|part| part.noun() == noun)
            };
            !steps.iter().any(goes)
        };
        let name = &step.name;
        // An NSM goes with its VNIC, which has its name.
        let vnics = self.index.vnics_on(name);
        let vnics = vnics.filter(|vnic| stays("vnic", vnic) && stays("nsm", vnic));
        if let Some(vnics) = list(vnics) {
            let name = name.clone();
            return Err(Fault::HasVnics { name, vnics }.into());
        }
        let flows = self.index.flows_on(name).filter(|flow| stays("flow", flow));
        match list(flows) {
            Some(flows) => {
                let name = name.clone();
                Err(Fault::HasFlows { name, flows }.into())
            }
            None => Ok(()),
        }
    }

    /// Whether the name of a part that is new is free. Nothing is begun before: so what there is of
    /// a wire that is taken back was made for it.
    fn check_free_for(&mut self, step: &Step, steps: &[Step]) -> Result<()> {
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
        match part {
            Part::Namespace(it) if !it.existing && network::exists(name) => {
                Err(network::is_taken(name))
            }
            Part::Namespace(it) if it.existing && !network::exists(name) => {
                Err(Fault::NoNamespace { name: name.into() }.into())
            }
            Part::Stub(_) | Part::Vnic(_) => self.check_free(name),
            Part::Link(_) => match self.store.get::<LinkRecord>(name)? {
                Some(link) if link.class == Class::Nic => Ok(()),
                _ => self.check_free(name),
            },
            Part::Nsm(it) => {
                self.check_no_nsm(name)?;
                it.link.as_ref().map_or(Ok(()), |_| self.check_free(name))
            }
            Part::Application(_) => self.check_no_application(name),
            Part::Guest(_) => self.check_guest_name(name),
            Part::Flow(_) => self.check_no_flow(name),
            Part::Entry { port, .. } => match self.store.get::<EntryRecord>(name)? {
                Some(entry) if entry.port != *port => Err(Fault::EntryExists {
                    name: name.into(),
                    port: entry.port,
                }
                .into()),
                _ => Ok(()),
            },
            Part::Namespace(_) | Part::Patch(_) | Part::Routes(_) | Part::Default(_) => Ok(()),
        }
    }

    /// Wires that are not being changed and were not ended, with the steps back: a node did not
    /// live to do it, or could not keep it. They are being changed from now on.
    pub fn unfinished_wires(&mut self) -> Result<Vec<(String, Vec<Step>)>> {
        let records = self.store.all::<WireRecord>()?;
        let unfinished = records.into_iter().filter_map(|record| {
            let pending = record.pending?;
            if self.wires.changing.contains(&record.name) {
                return None;
            }
            for wire in [&pending, &record.applied] {
                wire.namespaces.keys().for_each(|name| network::sweep(name));
            }
            let seen = self.kernel_drift(&pending);
            let back = plan(&pending, &record.applied, |name, part| {
                self.drift(&record.name, name, part, &seen)
            });
            Some((record.name, back))
        });
        let unfinished: Vec<_> = unfinished.collect();
        self.wires
            .changing
            .extend(unfinished.iter().map(|(name, _)| name.clone()));
        Ok(unfinished)
    }

    /// The domains that a patch joins.
    fn domains_between(&self, patch: &Patch) -> Result<[u32; 2]> {
        let [a, b] = &patch.between;
        Ok([self.find_link(a)?.domain, self.find_link(b)?.domain])
    }

    /// The wires that are not being changed. The state of a changing wire's parts is known to its
    /// steps only; [`end_wire`](Self::end_wire) completes them.
    fn settled_wires(&self) -> Result<Vec<WireRecord>> {
        let mut records = self.store.all::<WireRecord>()?;
        records.retain(|record| !self.wires.changing.contains(&record.name));
        Ok(records)
    }

    /// Attaches missing patches of wires, after the end of a switch.
    pub(super) fn bring_patches(&mut self) -> Result<()> {
        for record in self.settled_wires()? {
            for (name, part) in patches(&record.applied) {
                let attached = self.attach_patch(&record.name, &name, &part);
                let [end, _] = patch_ports(&record.name, &name);
                self.host.note(Subject::Patch(end), attached);
            }
        }
        Ok(())
    }

    /// The ports of all wires' patches, each with the link that it is on.
    pub(super) fn patch_ends(&self) -> Result<Vec<(String, String)>> {
        let mut ends = Vec::new();
        for record in self.store.all::<WireRecord>()? {
            for (name, patch) in record.applied.patches {
                ends.extend(
                    patch_ports(&record.name, &name)
                        .into_iter()
                        .zip(patch.between),
                );
            }
        }
        Ok(ends)
    }

    /// The link that an end of a patch is on: WIRE/PATCH:a or b. No other wire is looked at.
    pub(super) fn patch_end(&self, port: &str) -> Result<Option<String>> {
        let Some((wire, end)) = port.split_once('/') else {
            return Ok(None);
        };
        let Some((patch, end)) = end.rsplit_once(':') else {
            return Ok(None);
        };
        let record = self.store.get::<WireRecord>(wire)?;
        let patch = record.and_then(|mut record| record.applied.patches.remove(patch));
        Ok(patch.and_then(|patch| {
            let [a, b] = patch.between;
            match end {
                "a" => Some(a),
                "b" => Some(b),
                _ => None,
            }
        }))
    }

    /// Whether a port is a wire's patch.
    pub(super) fn is_patch(&self, port: &str) -> Result<bool> {
        Ok(self.patch_end(port)?.is_some())
    }
}

/// The command that removes a part made by command.
fn removes(part: &Part) -> Option<&'static str> {
    match part {
        Part::Stub(_) => Some("weir stub delete"),
        Part::Vnic(_) => Some("weir vnic delete"),
        Part::Nsm(_) => Some("weir nsm delete"),
        Part::Guest(_) => Some("weir destroy"),
        Part::Flow(_) => Some("weir flow remove"),
        _ => None,
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
