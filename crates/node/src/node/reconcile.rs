//! Reconciles what runs with the desired state: at once, and repeatedly while something is down.

use super::resource::Resource;
use super::{LOOK_TICKS, Node, for_each_resource};
use crate::error::{Error, Kind, Result, Subject};
use crate::host::Attached;
use crate::model::{
    Application, ApplicationRecord, Flow, FlowRecord, Guest, GuestRecord, Link, LinkRecord,
    Location, Nsm, NsmRecord, Run, Stub, SwitchFunction, Vnic, VnicRecord, Wire,
};

impl Node {
    /// Detaches ports that are in no record: a killed node left them.
    pub(super) fn detach_leftovers(&mut self) -> Result<()> {
        for name in self.host.port_names() {
            let wanted = match self.store.get::<VnicRecord>(&name)? {
                Some(vnic) => {
                    vnic.location() != Location::Guest
                        || vnic.guest.is_some()
                        || self.runs_with(&name)?
                }
                None => self.store.get::<LinkRecord>(&name)?.is_some() || self.is_patch(&name)?,
            };
            if !wanted {
                self.host.detach(&name);
            }
        }
        self.remove_leftover_flows()
    }

    pub(super) fn remove_leftover_flows(&mut self) -> Result<()> {
        for name in self.host.flow_names() {
            if self.store.get::<FlowRecord>(&name)?.is_none() {
                self.host.remove_flow(&name);
            }
        }
        Ok(())
    }

    /// Whether a guest runs that has this VNIC.
    pub(super) fn runs_with(&self, vnic: &str) -> Result<bool> {
        let guest = self.index.guest_of(vnic);
        let guest = guest
            .map(|name| self.store.get::<GuestRecord>(name))
            .transpose()?;
        Ok(guest
            .flatten()
            .is_some_and(|guest| self.host.runs(guest.id)))
    }

    /// Creates what the desired state has and the host lacks. A failure is noted with its reason
    /// and tried again later; the rest goes on.
    pub fn reconcile(&mut self) -> Result<()> {
        self.bring_namespaces()?;
        self.bring_nsm_namespaces()?;
        macro_rules! reconcile {
            ($($resource:ident),*; $($waiting:ident),*) => {
                $(<$resource>::reconcile(self)?;)*
                $(<$waiting>::reconcile(self)?;)*
            };
        }
        for_each_resource!(reconcile);
        self.bring_settling();
        self.bring_behind()
    }

    pub(super) fn bring_link(&mut self, link: &LinkRecord) {
        let set = self.host.set_domain(link.domain, &link.properties);
        let attached = set.and_then(|()| self.host.attach_uplink(link));
        let kept = attached.and_then(|Attached { gro, index, .. }| {
            if (gro, index) == (link.gro, link.index) {
                return Ok(());
            }
            // An interface that is another than before, of the same name.
            Ok(self.store.put(&LinkRecord {
                gro,
                index,
                ..link.clone()
            })?)
        });
        self.host.note(Subject::Link(link.name.clone()), kept);
        self.bring_flows(&link.name);
        self.bring_settling();
    }

    pub(super) fn bring_vnic(&mut self, vnic: &VnicRecord) -> Result<()> {
        if let Some(on) = &vnic.guest {
            let brought = self.bring_on_demand(vnic, on);
            self.host.note(Subject::Vnic(vnic.name.clone()), brought);
        }
        if vnic.location() != Location::Guest
            && let Some(link) = self.store.get::<LinkRecord>(&vnic.link)?
        {
            if self.host.has_lost(vnic) {
                self.host.detach(&vnic.name);
            }
            let was_there = self.host.holds(&vnic.name);
            let mtu = super::vnics::mtu_max(vnic, &link);
            let mut attached = self.host.attach_vnic(vnic, link.domain, mtu);
            if let (Ok(()), false, Location::Namespace(namespace)) =
                (&attached, was_there, vnic.location())
            {
                attached = self.bring_routes(namespace);
            }
            self.host.note(Subject::Vnic(vnic.name.clone()), attached);
            self.bring_flows(&vnic.name);
        }
        Ok(())
    }

    pub(super) fn bring_guest(&mut self, guest: &GuestRecord) {
        if self.guests.unkept.contains_key(&guest.id) {
            return self.keep_ends();
        }
        if guest.arriving {
            return;
        }
        let brought = match &guest.run {
            Run::Ended { .. } | Run::Stopped => return,
            // Also if its start could not be recorded.
            _ if self.host.runs(guest.id) => self.host.reattach_guest(guest.id),
            // It is restarted when its time comes.
            _ if self.guests.restarts.is_waiting(guest.id) => return,
            Run::Wanted | Run::Started { .. } => return self.want_start(guest.id),
        };
        self.host.note(Subject::Guest(guest.name.clone()), brought);
        for port in &guest.ports {
            self.bring_flows(&port.vnic);
        }
    }

    /// Retries resources that are down, and restarts guests that are due. Called about once a
    /// second, and at the time of [`next_restart`](Self::next_restart).
    pub fn tick(&mut self) {
        self.ticks += 1;
        if self.host.has_silent_switch() {
            return self.give_switch_up();
        }
        if self.ticks.is_multiple_of(LOOK_TICKS) {
            self.store.keep_spare();
            self.host.clear_cgroups();
            self.drop_closed_ports();
            // A state that cannot be read now can be later.
            let _ = self.leave_lost_namespaces();
            let _ = self.look_at_nsms();
            self.look_at_consoles();
        }
        self.remove_idle();
        self.host.hear_silent();
        self.host.tell_pending();
        self.reconnect_store();
        // A state that cannot be read now can be later.
        let _ = self.drop_ended_applications();
        self.log_programs();
        for subject in self.host.faulty() {
            // A state that cannot be read now can be later.
            let _ = self.heal(subject);
        }
    }

    /// Tries again to bring up a resource that is down.
    pub(super) fn heal(&mut self, subject: Subject) -> Result<()> {
        match &subject {
            Subject::Switch => {
                let started = self.need_switch();
                self.host.note(subject, started);
            }
            Subject::ControlStore => self.need_store(),
            Subject::CoreEngine => self.bring_core(),
            Subject::Nsm(name) => {
                if let Some(nsm) = self.store.get::<NsmRecord>(name)? {
                    self.bring_nsm(&nsm);
                }
            }
            Subject::Application(name) => {
                if let Some(application) = self.store.get::<ApplicationRecord>(name)? {
                    self.bring_program(&application);
                }
            }
            Subject::State => {
                let kept = self.keep_processes();
                self.host.note(subject, kept);
            }
            Subject::Flow(name) => {
                let brought = self.bring_flow(name);
                self.host.note(subject, brought);
            }
            Subject::Entries(port) => self.bring_entries(port),
            Subject::Guest(name) => {
                if let Some(guest) = self.store.get::<GuestRecord>(name)? {
                    self.bring_guest(&guest);
                }
            }
            Subject::Namespace(_) => {
                self.bring_namespaces()?;
                self.bring_nsm_namespaces()?;
            }
            Subject::Patch(_) => self.bring_patches()?,
            Subject::Link(name) => {
                if let Some(link) = self.store.get::<LinkRecord>(name)? {
                    self.bring_link(&link);
                }
            }
            Subject::Vnic(name) => {
                if let Some(vnic) = self.store.get::<VnicRecord>(name)? {
                    self.bring_vnic(&vnic)?;
                }
            }
        }
        Ok(())
    }

    /// Kills a switch that does not answer: its end is dealt with as any other.
    pub(super) fn give_switch_up(&self) {
        tracing::error!("the switch does not answer: killing it");
        self.host.kill_switch();
    }

    /// Detaches ports whose interface is gone; they are reattached when it is back. A guest's
    /// or an NSM's port that is closed stays so: it broke the rules.
    pub(super) fn drop_closed_ports(&mut self) {
        if self.host.switch_pid().is_none() {
            return;
        }
        let Ok(closed) = self.host.closed_ports() else {
            return self.give_switch_up();
        };
        for name in closed {
            let vnic = self.store.get::<VnicRecord>(&name).unwrap_or_default();
            if !vnic.is_some_and(|vnic| vnic.has_rings()) {
                self.host.detach(&name);
                let gone = Err(Error::new(Kind::Unavailable, "its interface is gone"));
                self.host.note::<()>(self.subject_of_port(&name), gone);
            }
        }
    }

    /// Releases interfaces whose namespace is gone, so that it can end, and recreates them if
    /// there is another of its name. While a wire changes, its namespaces come and go.
    pub(super) fn leave_lost_namespaces(&mut self) -> Result<()> {
        if !self.wires.changing.is_empty() {
            return Ok(());
        }
        let mut lost = Vec::new();
        for name in self.host.held() {
            let vnic = self.store.get::<VnicRecord>(name)?;
            lost.extend(vnic.filter(|vnic| self.host.has_lost(vnic)));
        }
        if !lost.is_empty() {
            self.bring_namespaces()?;
        }
        lost.iter().try_for_each(|vnic| self.bring_vnic(vnic))
    }
}
