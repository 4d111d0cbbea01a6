//! Wires: what of them the node does at once. Applying one takes several such steps, and waits for
//! guests in between: see [`crate::service`].

mod lacking;
mod namespaces;
mod steps;

use std::collections::BTreeMap;

use switch::lookup::Mac;

use super::Node;
use crate::error::{Error, Kind, Result};
use crate::host::network;
use crate::model::{
    AppliedWire, Class, FlowEntry, Guest, Link, NewGuest, NewInterface, Serves, WireChange,
    WireGuest, WireView,
};
use crate::wire;
use crate::wire::check::check;
use crate::wire::diff::diff;
use crate::wire::file::{Attachment, Patch, Wire};
use crate::wire::plan::{Part, Step, There, patches, plan};

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
            forwarding: BTreeMap::new(),
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
        let (mut missing, mut altered) = (Vec::new(), Vec::new());
        for step in &again {
            match step.to.as_ref().map(|part| there(&step.name, part)) {
                Some(There::No | There::Lost) => missing.push(step.part()),
                Some(There::Lacks) => missing.push(step.lacking()),
                Some(There::Differs) => altered.push(step.part()),
                Some(There::Yes | There::Ended) | None => {}
            }
        }
        let steps = plan(old, new, there);
        for step in &steps {
            self.check_free_for(step, &steps).map_err(|error| {
                let remedy = step.to.as_ref().and_then(removes);
                let remedy = remedy.filter(|_| missing.contains(&step.part()));
                let why = match remedy {
                    Some(command) => format!(
                        "somebody removed it and made another of its name: `{command} {}` first, and it is made again",
                        step.name
                    ),
                    None => error.error,
                };
                Error::new(
                    error.kind,
                    format_args!("wire ‘{}’, {}: {why}", new.wire, step.part()),
                )
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
                Some(format!("wire ‘{}’, {}: {error}", new.wire, step.part()))
            })
            .collect();
        if !errors.is_empty() {
            return Err(Error::invalid(errors.join("\n")));
        }
        let change = WireChange {
            differences: diff(old, new).iter().map(ToString::to_string).collect(),
            missing,
            altered,
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
    /// shows before; and whether one that somebody else attached is as the wire says.
    fn check_link_of(&mut self, wire: &str, step: &Step, link: &Attachment) -> Result<()> {
        let name = &step.name;
        if link.port.lanes.is_some() {
            self.need_switch()?;
            self.check_lanes(&link.port)?;
        }
        match self.store.get::<Link>(name)? {
            Some(_) if step.from.is_some() && self.has_attached(wire, name)? => Ok(()),
            Some(attached) => self.check_attached(&attached, link),
            None if link.vxlan.is_some() => Ok(()),
            None => Ok(switch::links::check(name)?),
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
        change.commit()?;
        // Those of a switch that ended meanwhile. What is noted of them is tried again later.
        let _ = self.bring_patches();
        Ok(())
    }

    /// Whether the name of a part that is new is free. Nothing is begun before: so what there is of
    /// a wire that is taken back was made for it.
    fn check_free_for(&self, step: &Step, steps: &[Step]) -> Result<()> {
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
        }
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

    /// The domains that a patch joins.
    fn domains_between(&self, patch: &Patch) -> Result<[u32; 2]> {
        let [a, b] = &patch.between;
        Ok([self.find_link(a)?.domain, self.find_link(b)?.domain])
    }

    /// The wires that are not being changed: what of one that is has come and gone, only its steps
    /// know, and [`end_wire`](Self::end_wire) brings about what they did not.
    fn settled_wires(&self) -> Result<Vec<AppliedWire>> {
        let mut records = self.store.all::<AppliedWire>()?;
        records.retain(|record| !self.changing.contains(&record.name));
        Ok(records)
    }

    /// Attaches the patches of wires that are not: those of a switch that ended.
    pub(super) fn bring_patches(&mut self) -> Result<()> {
        for record in self.settled_wires()? {
            for (name, part) in patches(&record.applied) {
                let attached = self.attach_patch(&record.name, &name, &part);
                self.host
                    .note(&patch_ports(&record.name, &name)[0], attached);
            }
        }
        Ok(())
    }

    /// The ports of all wires' patches, each with the link that it is on.
    pub(super) fn patch_ends(&self) -> Result<Vec<(String, String)>> {
        let mut ends = Vec::new();
        for record in self.store.all::<AppliedWire>()? {
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

    /// Whether a port is a wire's patch.
    pub(super) fn is_patch(&self, port: &str) -> Result<bool> {
        Ok(self.patch_ends()?.iter().any(|(end, _)| end == port))
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

/// The command that removes a part which somebody made.
fn removes(part: &Part) -> Option<&'static str> {
    match part {
        Part::Stub(_) => Some("weir stub delete"),
        Part::Vnic(_) => Some("weir vnic delete"),
        Part::Guest(_) => Some("weir destroy"),
        Part::Flow(_) => Some("weir flow remove"),
        _ => None,
    }
}

/// What a VNIC of a wire is for.
fn serves(vnic: &wire::file::Vnic) -> Serves {
    match (&vnic.namespace, vnic.host, &vnic.vhost_user) {
        (Some(namespace), _, _) => Serves::Netns(namespace.clone()),
        (_, true, _) => Serves::Host,
        (_, _, Some(socket)) => Serves::VhostUser(socket.display().to_string()),
        _ => Serves::Guest,
    }
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
