//! The steps that make a wire, and undo it.

use ipnet::IpNet;
use switch::properties::DomainProperties;

use super::{Node, patch_ports};
use crate::error::{Error, Fault, Kind, Result, Subject};
use crate::host::network;
use crate::model::{
    Application, Class, Entry, EntryStatus, Guest, Happened, Link, LinkRecord, Nsm, Patch, Topic,
    Vnic, Wire, WireRecord,
};
use crate::node::resource::Resource;
use crate::wire::plan::{Part, Step};

impl Node {
    /// The guest to be created by a step that creates one.
    pub fn guest_of_step(step: &Step) -> Option<Guest> {
        match (&step.from, &step.to) {
            (None, Some(Part::Guest(guest))) => Some(guest.clone()),
            _ => None,
        }
    }

    /// The configuration that a guest has, with its variables.
    pub fn config_of(&self, guest: &str) -> Result<String> {
        Ok(self.find_guest(guest)?.text())
    }

    /// Keeps what of a guest that a step changed in use: its configuration, and when it is
    /// restarted.
    pub fn keep_guest(&mut self, name: &str, part: &Guest) -> Result<()> {
        let mut guest = self.find_guest(name)?;
        guest.config.clone_from(&part.config);
        guest.variables.clone_from(&part.variables);
        guest.configurations.clone_from(&part.configurations);
        guest.restart = part.restart;
        self.store.put(&guest)?;
        self.tell_routers(&guest);
        Ok(())
    }

    /// Takes a step of the wire `wire`. Steps that create guests or NSMs are for the service, as
    /// are steps that change guests' configurations and steps that end programs.
    pub fn take_step(&mut self, wire: &str, step: &Step) -> Result<()> {
        let name = step.name.as_str();
        match (&step.from, &step.to) {
            (None, Some(Part::Namespace(it))) => self.make_namespace(wire, name, it),
            (Some(Part::Namespace(it)), None) => self.leave_namespace(wire, name, it),
            (Some(Part::Namespace(_)), Some(Part::Namespace(it))) => {
                self.set_forwarding(wire, name, it)
            }
            (None, Some(Part::Stub(it))) => self.create_stub(name, it.clone()),
            (Some(Part::Stub(_)), None) => self.remove_link(name, Class::Stub),
            (_, Some(Part::Stub(it))) => self.set_domain(name, &it.properties),
            (None, Some(Part::Link(it))) => self.attach_for(wire, name, it),
            (Some(Part::Link(_)), None) => self.detach_for(wire, name),
            (Some(Part::Link(old)), Some(Part::Link(it))) => {
                if !it.leads_as(old) {
                    return Err(Fault::LinkFixed {
                        name: name.into(),
                        wire: wire.into(),
                    }
                    .into());
                }
                self.adjust_link(wire, name, old, it)
            }
            (None, Some(Part::Patch(it))) => self.attach_patch(wire, name, it),
            (Some(Part::Patch(_)), None) => {
                for port in patch_ports(wire, name) {
                    self.host.detach(&port);
                }
                Ok(())
            }
            (None, Some(Part::Vnic(it))) => {
                let mac = Some(it.mac.unwrap_or_else(|| Wire::mac_of(wire, name)));
                self.create_vnic(name, Vnic { mac, ..it.clone() })
            }
            (Some(Part::Vnic(_)), None) => self.remove_vnic(name),
            (Some(Part::Vnic(old)), Some(Part::Vnic(it))) => {
                self.restore_interface(name)?;
                let is = self.find_vnic(name)?.spec.properties;
                if [&old.properties, &is] != [&it.properties; 2] {
                    self.set_vnic(name, &it.properties)?;
                }
                self.set_addresses(name, &old.addresses, &it.addresses)
            }
            (old, Some(Part::Routes(new))) => {
                let old = match old {
                    Some(Part::Routes(old)) => self.routes_left(old)?,
                    _ => Vec::new(),
                };
                network::set_routes(name, &old, &self.routes(new)?)
            }
            (Some(Part::Routes(old)), None) if network::exists(name) => {
                network::set_routes(name, &self.routes_left(old)?, &[])
            }
            (Some(Part::Routes(_)), None) => Ok(()),
            (Some(Part::Nsm(_)), None) => Nsm::delete(self, name),
            (Some(Part::Nsm(_)), Some(Part::Nsm(it))) => Nsm::change(self, name, it.clone()),
            (None, Some(Part::Application(it))) => self.create_application(name, it.clone()),
            (Some(Part::Application(_)), Some(Part::Application(it))) => {
                let moved = Application::note_of_change(self, name, it);
                self.change_application(name, it.clone())?;
                if moved.is_some() {
                    self.tell_change(Topic::Application, name, Happened::Changed, moved);
                }
                Ok(())
            }
            (Some(Part::Guest(_)), None) => self.destroy_guest(name),
            (None, Some(Part::Flow(it))) => self.add_flow(name, it.clone()),
            (Some(Part::Flow(_)), None) => self.remove_flow(name),
            (_, Some(Part::Entry { link, flow, port })) => {
                let entry = Entry {
                    flow: flow.to_string(),
                    port: port.clone(),
                    status: EntryStatus::default(),
                };
                self.add_flow_entry(link, &entry).map(drop)
            }
            (Some(Part::Entry { link, flow, .. }), None) => {
                absent(self.remove_flow_entry(link, &flow.to_string()))
            }
            (_, Some(Part::Default(action))) => self.set_default(name, action),
            (Some(Part::Default(_)), None) => absent(self.set_default(name, "normal")),
            // The plan has no other steps.
            _ => Err(Fault::NoStep { part: step.part() }.into()),
        }
    }

    fn attach_for(&mut self, wire: &str, name: &str, it: &Link) -> Result<()> {
        if self.store.get::<LinkRecord>(name)?.is_none() {
            // Kept first, so that the step back knows whose link it is.
            let mut record = self.applied(wire)?;
            record.links.push(name.into());
            self.store.put(&record)?;
            let attached = self.attach_link(name, it.clone());
            if let Err(error) = attached {
                record.links.retain(|link| link != name);
                self.store.put(&record)?;
                return Err(error);
            }
        }
        self.adjust_link(wire, name, it, it)
    }

    /// Changes an attached link as a wire says. A link that the wire did not attach keeps its
    /// values where the wire has none.
    fn adjust_link(&mut self, wire: &str, name: &str, old: &Link, it: &Link) -> Result<()> {
        let is_ours = self.has_attached(wire, name)?;
        let is = self.find_link(name)?.spec.port;
        if is_ours && [&old.port, &is] != [&it.port; 2] {
            self.set_link(name, &it.port)?;
        }
        let unsaid = DomainProperties::default();
        if is_ours || [&old.properties, &it.properties] != [&unsaid; 2] {
            self.set_domain(name, &it.properties)
        } else {
            Ok(())
        }
    }

    /// Detaches a link that was attached for a wire, unless another has it as well: that takes it
    /// over, and the last one detaches it.
    fn detach_for(&mut self, wire: &str, name: &str) -> Result<()> {
        let mut record = self.applied(wire)?;
        if !self.has_attached(wire, name)? {
            return Ok(());
        }
        record.links.retain(|link| link != name);
        if let Some((mut heir, it)) = self.other_with_link(wire, name)? {
            heir.links.push(name.into());
            let change = self.store.change()?;
            change.put(&record)?;
            change.put(&heir)?;
            change.commit()?;
            return self.adjust_link(&heir.name, name, &it, &it);
        }
        if self.store.get::<LinkRecord>(name)?.is_some() {
            self.remove_link(name, Class::Nic)?;
        }
        Ok(self.store.put(&record)?)
    }

    /// Another wire that has a link, and the link's form there; for a wire that is being changed,
    /// its new form.
    fn other_with_link(&self, wire: &str, link: &str) -> Result<Option<(WireRecord, Link)>> {
        let records = self.store.all::<WireRecord>()?.into_iter();
        let mut others = records.filter(|record| record.name != wire);
        Ok(others.find_map(|record| {
            let mut links = record.wanted().links.iter();
            let (_, it) = links.find(|(name, it)| it.called(name) == link)?;
            let it = it.clone();
            Some((record, it))
        }))
    }

    pub(super) fn attach_patch(&mut self, wire: &str, name: &str, patch: &Patch) -> Result<()> {
        let domains = self.domains_between(patch)?;
        // A ring of switches was warned of already.
        let there = &patch.properties;
        let properties = [there, patch.back.as_ref().unwrap_or(there)];
        self.host
            .attach_patch(patch_ports(wire, name), domains, properties)
            .map(drop)
    }

    /// Recreates a VNIC's interface if it is gone.
    fn restore_interface(&mut self, name: &str) -> Result<()> {
        let vnic = self.find_vnic(name)?;
        if !self.host.has_no_interface(&vnic) {
            return Ok(());
        }
        self.host.detach(name);
        self.bring_vnic(&vnic)?;
        match self.host.fault(&Subject::Vnic(name.into())) {
            Some(fault) => Err(Error::new(Kind::Unavailable, fault)),
            None => Ok(()),
        }
    }

    /// Replaces the addresses of a VNIC's interface, and records them. The record may differ from
    /// the interface: a node may have been killed between the two.
    pub(in crate::node) fn set_addresses(
        &mut self,
        name: &str,
        old: &[IpNet],
        addresses: &[IpNet],
    ) -> Result<()> {
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
}

/// Treats a missing entry, a missing switch, and a switch without a table as removed.
fn absent(removed: Result<()>) -> Result<()> {
    match removed {
        Err(error) if matches!(error.kind, Kind::NotFound | Kind::Invalid) => Ok(()),
        removed => removed,
    }
}
