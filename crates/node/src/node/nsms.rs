//! Network stack modules.

use std::time::Instant;

use ipnet::IpNet;
use netkernel::protocol::Status;

use super::Node;
use super::links::list;
use super::resource::{Resource, changed};
use super::vnics::mtu;
use crate::error::{Error, Fault, InField, Result, Subject};
use crate::host::{LaunchPort, Usage, network};
use crate::model::{
    ApplicationRecord, Event, Happened, Nsm, NsmKind, NsmRecord, NsmStatus, Object, State, Topic,
    Vnic, VnicRecord, check_name,
};

impl Resource for Nsm {
    fn all(node: &mut Node) -> Result<Vec<Object<Nsm>>> {
        let nsms = node.store.all::<NsmRecord>()?;
        let status = node.host.core_status().unwrap_or_default();
        nsms.into_iter()
            .map(|nsm| node.view_nsm(nsm, &status))
            .collect()
    }

    fn one(node: &mut Node, name: &str) -> Result<Object<Nsm>> {
        let nsm = node.find_nsm(name)?;
        let status = node.host.core_status().unwrap_or_default();
        node.view_nsm(nsm, &status)
    }

    fn create(node: &mut Node, name: &str, spec: Nsm) -> Result<()> {
        node.create_nsm(name, spec)
    }

    fn change(node: &mut Node, name: &str, spec: Nsm) -> Result<()> {
        node.change_nsm(name, spec)
    }

    /// The applications, too: CoreEngine knows them once it knows their NSMs.
    fn reconcile(node: &mut Node) -> Result<()> {
        for nsm in node.store.all::<NsmRecord>()? {
            node.bring_nsm(&nsm);
        }
        node.bring_applications()
    }

    fn delete(node: &mut Node, name: &str) -> Result<()> {
        node.delete_nsm(name)
    }
}

impl Node {
    pub(super) fn find_nsm(&self, name: &str) -> Result<NsmRecord> {
        let found = self.store.get::<NsmRecord>(name)?;
        Ok(found.ok_or_else(|| Fault::NoNsm { name: name.into() })?)
    }

    pub(super) fn check_no_nsm(&self, name: &str) -> Result<()> {
        match self.store.get::<NsmRecord>(name)? {
            Some(_) => Err(Fault::NsmExists { name: name.into() }.into()),
            None => Ok(()),
        }
    }

    fn view_nsm(&self, nsm: NsmRecord, status: &Status) -> Result<Object<Nsm>> {
        let of = status.nsms.iter().find(|it| it.name == nsm.name);
        let of = of.cloned().unwrap_or_default();
        let pid = self.host.nsm_pid(&nsm.name);
        let usage = pid.and_then(Usage::of);
        let reason = match pid {
            Some(pid) if usage.is_some_and(|usage| usage.stopped) => Some(format!(
                "its process was stopped by a signal: `kill -CONT {pid}` resumes it"
            )),
            _ if of.present => None,
            _ => {
                let fault = self.host.fault(&Subject::Nsm(nsm.name.clone()));
                Some(fault.unwrap_or("it starts").to_string())
            }
        };
        Ok(Object {
            status: NsmStatus {
                state: match reason {
                    None => State::Up,
                    Some(_) => State::Down,
                },
                reason,
                namespace: nsm.spec.place(&nsm.name),
                pid,
                restarts: self.nsm_restarts.count(nsm.id),
                applications: self.applications_of(&nsm.name)?.len(),
                sockets: of.sockets,
                requests: of.requests,
                answers: of.answers,
                sent: of.sent,
                received: of.received,
                connections: of.connections,
                refused: of.refused,
                cpu_s: usage.map(|usage| usage.cpu.as_secs_f64()),
                resident: usage.map(|usage| usage.resident),
            },
            name: nsm.name,
            spec: nsm.spec,
        })
    }

    /// The names of the applications whose new sockets go to an NSM.
    fn applications_of(&self, nsm: &str) -> Result<Vec<String>> {
        let all = self.store.all::<ApplicationRecord>()?.into_iter();
        let its = all.filter(|it| it.spec.nsm == nsm);
        Ok(its.map(|it| it.name).collect())
    }

    /// Makes an NSM. It serves when its process has come up.
    fn create_nsm(&mut self, name: &str, spec: Nsm) -> Result<()> {
        check_name("network stack module", name)?;
        self.check_no_nsm(name)?;
        spec.check()?;
        if let Some(namespace) = spec.place(name)
            && spec.owns_namespace()
            && network::exists(&namespace)
        {
            let name = name.into();
            return Err(Fault::NsmNamespaceExists { name, namespace }.into());
        }
        let vnic = self.nsm_vnic(name, &spec)?;
        let change = self.store.change()?;
        let nsm = NsmRecord {
            name: name.into(),
            spec,
            id: change.next("nsm")?,
            token: netkernel::protocol::Token::random().map_err(Error::failed)?,
        };
        change.put(&nsm)?;
        if let Some(vnic) = &vnic {
            change.put(vnic)?;
        }
        let made = self
            .start_nsm(&nsm, vnic.as_ref())
            .and_then(|()| Ok(change.commit()?));
        if made.is_err() {
            self.end_nsm(&nsm);
            self.release_core()?;
        } else if let Some(vnic) = vnic {
            self.index.add_vnic(&vnic);
        }
        made
    }

    /// The VNIC that a new NSM is to have, if its kind has one.
    fn nsm_vnic(&self, name: &str, spec: &Nsm) -> Result<Option<VnicRecord>> {
        let Some(link) = &spec.link else {
            return Ok(None);
        };
        let link = self.find_link(link).in_field("link")?;
        self.check_addresses(&link.name, spec)?;
        self.check_free(name)?;
        let mac = Some(self.address(&link.name, None)?);
        let spec = Vnic {
            link: link.name,
            nsm: Some(name.into()),
            mac,
            ..Vnic::default()
        };
        Ok(Some(VnicRecord {
            name: name.into(),
            spec,
            implicit: true,
            front: None,
        }))
    }

    /// Refuses an address that another user NSM on the link has.
    fn check_addresses(&self, link: &str, spec: &Nsm) -> Result<()> {
        for other in self.store.all::<NsmRecord>()? {
            if other.spec.link.as_deref() != Some(link) {
                continue;
            }
            let taken = |it: &IpNet| {
                other
                    .spec
                    .addresses
                    .iter()
                    .any(|its| its.addr() == it.addr())
            };
            if let Some(at) = spec.addresses.iter().position(taken) {
                return Err(Fault::NsmAddressTaken {
                    address: spec.addresses[at].addr().to_string(),
                    link: link.into(),
                    nsm: other.name,
                    at,
                }
                .into());
            }
        }
        Ok(())
    }

    fn change_nsm(&mut self, name: &str, spec: Nsm) -> Result<()> {
        let was = self.find_nsm(name)?;
        if !was.spec.can_become(&spec) {
            return Err(Fault::Fixed {
                what: "NSM",
                name: name.into(),
                can: "`properties` and `cores`",
                field: changed(&was.spec, &spec),
            }
            .into());
        }
        spec.check()?;
        let is = NsmRecord {
            spec,
            ..was.clone()
        };
        self.host.limit_nsm(&is)?;
        if let Err(error) = self.store.put(&is) {
            let _ = self.host.limit_nsm(&was);
            return Err(error.into());
        }
        if is.spec.workers() != was.spec.workers() {
            self.host.change_cores(&is)?;
            self.bring_nsm(&is);
        }
        Ok(())
    }

    /// Starts an NSM, if it does not run, in its namespace or with its VNIC.
    fn start_nsm(&mut self, nsm: &NsmRecord, vnic: Option<&VnicRecord>) -> Result<()> {
        let again = self.nsm_restarts.count(nsm.id) > 0;
        self.need_core()?;
        if let Some(place) = nsm.spec.place(&nsm.name)
            && !network::exists(&place)
        {
            match nsm.spec.namespace {
                Some(_) => return Err(Fault::NoNsmNamespace { name: place }.into()),
                None => network::create(&place)?,
            }
        }
        let port = vnic.map(|vnic| self.nsm_port(vnic)).transpose()?;
        let started = self.host.start_nsm(nsm, port.as_ref())?;
        if vnic.is_some() {
            self.bring_flows(&nsm.name);
            self.bring_entries(&nsm.name);
        }
        if started {
            let happened = if again {
                Happened::Restarted
            } else {
                Happened::Started
            };
            self.tell(Event::of(Topic::Nsm, &nsm.name, happened));
        }
        Ok(())
    }

    /// The port of an NSM's VNIC.
    fn nsm_port(&mut self, vnic: &VnicRecord) -> Result<LaunchPort> {
        let link = self.find_link(&vnic.link)?;
        self.need_switch()?;
        Ok(LaunchPort {
            interface: "eth0".into(),
            name: vnic.name.clone(),
            domain: link.domain,
            mtu: mtu(vnic, &link),
            mac: vnic.mac(),
            properties: vnic.properties.clone(),
            behind: None,
        })
    }

    /// Ends what an NSM has on the host.
    fn end_nsm(&mut self, nsm: &NsmRecord) {
        self.host.end_nsm(&nsm.name);
        if nsm.spec.kind == NsmKind::User {
            self.host.detach(&nsm.name);
        }
        if let Some(place) = nsm.spec.place(&nsm.name)
            && nsm.spec.owns_namespace()
        {
            // What cannot be removed is in the way of the next NSM of this name, which is told of it.
            let _ = network::delete(&place);
        }
        self.nsm_restarts.forget(nsm.id);
        self.host.clear_fault(&Subject::Nsm(nsm.name.clone()));
    }

    /// Starts an NSM if it does not run.
    pub(super) fn bring_nsm(&mut self, nsm: &NsmRecord) {
        // It is restarted when its time comes. A new CoreEngine knows it before: applications name it.
        if self.nsm_restarts.is_waiting(nsm.id) {
            if self.host.core_pid().is_some()
                && let Err(error) = self.host.add_nsm(nsm)
            {
                tracing::warn!("NSM ‘{}’: {error}", nsm.name);
            }
            return;
        }
        let subject = Subject::Nsm(nsm.name.clone());
        let vnic = match nsm.spec.kind {
            NsmKind::User => self.find_vnic(&nsm.name).map(Some),
            _ => Ok(None),
        };
        let started = vnic.and_then(|vnic| self.start_nsm(nsm, vnic.as_ref()));
        if let (Err(error), None) = (&started, self.host.fault(&subject)) {
            let down = Event::of(Topic::Nsm, &nsm.name, Happened::Down).because(&error.error);
            self.tell(down.note("the node tries again every second"));
        }
        self.host.note(subject, started);
    }

    /// Deals with NSMs whose processes have ended.
    pub(super) fn nsms_ended(&mut self) {
        for (name, how) in self.host.ended_nsms() {
            // A state that cannot be read now can be later: it is a fault until then.
            let Ok(Some(nsm)) = self.store.get::<NsmRecord>(&name) else {
                continue;
            };
            if nsm.spec.kind == NsmKind::User {
                self.host.detach(&name);
            }
            let delay = self.nsm_restarts.schedule(nsm.id, Instant::now());
            let event = Event::of(Topic::Nsm, &name, Happened::Crashed).because(&how);
            let note = format_args!("it restarts in {} s", delay.as_secs_f64());
            self.tell(event.note(note));
            let subject = Subject::Nsm(name);
            self.host.note::<()>(subject, Err(Error::failed(how)));
        }
    }

    /// Restarts the NSMs whose time has come.
    pub(super) fn restart_nsms(&mut self) {
        let due = self.nsm_restarts.take_due(Instant::now());
        if due.is_empty() {
            return;
        }
        // A state that cannot be read now can be later.
        let nsms = self.store.all::<NsmRecord>().unwrap_or_default();
        for nsm in nsms.iter().filter(|nsm| due.contains(&nsm.id)) {
            self.bring_nsm(nsm);
        }
    }

    /// Makes the namespaces of NSMs' own that are not there: VNICs may be in them.
    pub(super) fn bring_nsm_namespaces(&mut self) -> Result<()> {
        for nsm in self.store.all::<NsmRecord>()? {
            if let Some(place) = nsm.spec.place(&nsm.name)
                && nsm.spec.owns_namespace()
                && !network::exists(&place)
            {
                let made = network::create(&place);
                self.host.note(Subject::Namespace(place), made);
            }
        }
        Ok(())
    }

    /// Has NSMs whose namespaces were recreated be in those.
    pub(super) fn look_at_nsms(&mut self) -> Result<()> {
        self.bring_nsm_namespaces()?;
        self.host.leave_namespaces(&self.store.all::<NsmRecord>()?);
        Ok(())
    }

    /// Ends an NSM that no application uses, and removes it.
    fn delete_nsm(&mut self, name: &str) -> Result<()> {
        let nsm = self.find_nsm(name)?;
        // What is left of them is no reason to refuse.
        let _ = self.drop_ended_applications();
        let applications = self.applications_of(name)?;
        if let Some(applications) = list(applications.iter().map(String::as_str)) {
            let name = name.into();
            return Err(Fault::NsmInUse { name, applications }.into());
        }
        self.check_no_others(&nsm)?;
        let vnic = match nsm.spec.kind {
            NsmKind::User => self.store.get::<VnicRecord>(name)?,
            _ => None,
        };
        if let Some(vnic) = &vnic {
            self.check_no_flows(name)?;
            self.check_no_default(vnic)?;
        }
        self.store.with_spare(|| -> Result<()> {
            let change = self.store.change()?;
            change.remove::<NsmRecord>(name)?;
            if let Some(vnic) = &vnic {
                change.remove::<VnicRecord>(name)?;
                self.drop_entries(&change, &vnic.link, name)?;
            }
            Ok(change.commit()?)
        })?;
        if let Some(vnic) = &vnic {
            self.index.remove_vnic(vnic);
        }
        self.end_nsm(&nsm);
        self.release_core()
    }

    /// Refuses to take the namespace away that other NSMs are in.
    fn check_no_others(&self, nsm: &NsmRecord) -> Result<()> {
        let place = nsm.spec.place(&nsm.name);
        let Some(namespace) = place.filter(|_| nsm.spec.owns_namespace()) else {
            return Ok(());
        };
        let all = self.store.all::<NsmRecord>()?;
        let others = all
            .iter()
            .filter(|it| it.spec.namespace.as_ref() == Some(&namespace));
        match list(others.map(|it| it.name.as_str())) {
            Some(nsms) => Err(Fault::NsmHasNsms {
                name: nsm.name.clone(),
                namespace,
                nsms,
            }
            .into()),
            None => Ok(()),
        }
    }

    /// Ends the programs that the node runs, all NSMs, and CoreEngine.
    pub(super) fn purge_nsms(&mut self) {
        for it in self.store.all::<ApplicationRecord>().unwrap_or_default() {
            self.host.kill_application(&it.name);
        }
        for nsm in self.store.all::<NsmRecord>().unwrap_or_default() {
            self.end_nsm(&nsm);
        }
        self.host.stop_core();
    }
}
