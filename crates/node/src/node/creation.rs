//! Creation of guests: a request is checked, and turned into the host's description of the guest.

use std::collections::HashSet;

use click::Diagnostics;
use switch::lookup::Mac;
use switch::port::guest::MTU_MAX;
use switch::properties::{PortProperties, cpus_here};

use super::Node;
use super::copies::{Creation, Origin};
use super::guests::started;
use super::vnics::mtu;
use crate::check::check_fields;
use crate::error::{Error, Fault, Kind, Result};
use crate::host::{CopiedPort, Launch, LaunchPort, Reserved};
use crate::model::{
    Event, Guest, GuestPort, GuestRecord, Happened, LOCATIONS, LinkRecord, Location, Memory,
    NsmRecord, Object, Run, Topic, Vnic, VnicRecord, check_name, takes_less,
};

/// The other side of `--link` in messages.
const STAND: &str = "LINK";

/// A guest that can be created.
pub(super) struct NewGuest {
    pub(super) record: GuestRecord,
    /// The VNICs of its interfaces, in their order.
    vnics: Vec<VnicRecord>,
    /// The VNICs among them that are made for it.
    pub(super) made: Vec<VnicRecord>,
    /// Warnings about its configuration.
    messages: Option<String>,
    /// Where it goes on; none: it boots.
    copy: Origin,
}

/// Guests that are recorded together: none needs another's record.
#[derive(Default)]
struct Batch {
    /// With the places of their results.
    guests: Vec<(usize, NewGuest)>,
    /// Names of guests and VNICs that are not in the store yet.
    guest_names: HashSet<String>,
    vnic_names: HashSet<String>,
}

impl Batch {
    /// Whether a guest has or uses a name of this batch.
    fn conflicts(&self, name: &str, spec: &Guest) -> bool {
        let uses = |(interface, on): (&String, &String)| {
            self.vnic_names.contains(on)
                || self.vnic_names.contains(&implicit_name(name, interface))
        };
        self.guest_names.contains(name) || spec.interfaces.iter().any(uses)
    }

    fn add(&mut self, at: usize, guest: NewGuest) {
        self.guest_names.insert(guest.record.name.clone());
        let made = guest.made.iter().map(|vnic| vnic.name.clone());
        self.vnic_names.extend(made);
        self.guests.push((at, guest));
    }
}

/// The name of a VNIC that is made for an interface of a guest.
fn implicit_name(guest: &str, interface: &str) -> String {
    format!("{guest}.{interface}")
}

impl Node {
    /// Whether a name may become a guest's: it is no guest's yet, nor that of one which a VNIC starts.
    pub(super) fn check_guest_name(&self, name: &str) -> Result<()> {
        self.check_no_guest(name)?;
        match self.store.get::<VnicRecord>(name)? {
            Some(vnic) if vnic.guest.is_some() => {
                Err(Fault::NameOnDemand { name: name.into() }.into())
            }
            _ => Ok(()),
        }
    }

    /// Whether a name is no guest's yet.
    pub(super) fn check_no_guest(&self, name: &str) -> Result<()> {
        match self.store.get::<GuestRecord>(name)? {
            None => Ok(()),
            Some(_) => Err(Fault::GuestExists { name: name.into() }.into()),
        }
    }

    /// Creates guests and starts them. Whether a guest comes to run shows in its state. All records are written at
    /// once, which takes as long as writing one.
    pub fn create_guests(&mut self, wanted: Vec<Creation>) -> Vec<Result<Object<Guest>>> {
        let mut results = Vec::with_capacity(wanted.len());
        let mut batch = Batch::default();
        for Creation { name, spec, copy } in wanted {
            if batch.conflicts(&name, &spec) {
                self.finish_batch(&mut batch, &mut results);
            }
            // An invalid guest is answered now; the others are answered with their batch.
            let checked = self.check_new(name, spec, copy);
            results.push(checked.as_ref().err().cloned().map(Err));
            if let Ok(guest) = checked {
                batch.add(results.len() - 1, guest);
            }
        }
        self.finish_batch(&mut batch, &mut results);
        let unanswered = || Err(Error::failed("the guest was not created"));
        let results = results.into_iter();
        results.map(|one| one.unwrap_or_else(unanswered)).collect()
    }

    /// Creates a guest; see [`create_guests`](Self::create_guests).
    pub fn create_guest(&mut self, name: &str, spec: Guest) -> Result<Object<Guest>> {
        let name = name.into();
        let copy = None;
        let mut created = self.create_guests(vec![Creation { name, spec, copy }]);
        created.swap_remove(0)
    }

    /// Checks a new guest. Its names and addresses are its own from now on.
    pub(super) fn check_new(
        &mut self,
        name: String,
        mut spec: Guest,
        copy: Origin,
    ) -> Result<NewGuest> {
        match spec.interfaces.values().any(|on| *on == name) {
            // As the VNIC does that starts it.
            true => self.check_no_guest(&name)?,
            false => self.check_guest_name(&name)?,
        }
        let (vnics, made) = self.interfaces(&name, &spec, &copy)?;
        let interfaces: Vec<_> = spec
            .interfaces
            .keys()
            .zip(&vnics)
            .map(|(interface, vnic)| (interface.clone(), vnic.mac()))
            .collect();
        // A copy has what its original had, and a template's original was checked when it was created.
        let had = copy.is_some().then_some(&spec);
        let mut diagnostics = if copy.as_ref().is_some_and(|copy| self.is_of_template(copy)) {
            self.check_settings(&name, &spec, &interfaces)?;
            Diagnostics::default()
        } else {
            self.check_guest(&name, &spec, &interfaces, had)?
        };
        for vnic in &vnics {
            let link = self.find_link(&vnic.link)?;
            let less = takes_less(&vnic.name, vnic.properties.mtu, &link.name, link.mtu);
            if let Some(less) = less {
                diagnostics.warning_here(less);
            }
        }
        self.need_switch()?;
        let port = |(interface, vnic): (&String, &VnicRecord)| GuestPort {
            name: interface.clone(),
            vnic: vnic.name.clone(),
        };
        let ports = spec.interfaces.keys().zip(&vnics).map(port).collect();
        // Record the present default, so that another version does not change it.
        spec.memory = Some(Memory(spec.memory()));
        spec.ring_slots = Some(spec.ring_slots());
        spec.cpus = Some(spec.cpus());
        let record = GuestRecord {
            name,
            id: 0,
            domain_id: 0,
            ports,
            booted_config: spec.text().len(),
            run: Run::Wanted,
            paused: false,
            booted: None,
            template: false,
            arriving: false,
            departure: None,
            spec,
        };
        for vnic in &made {
            self.index.add_vnic(vnic);
        }
        self.index.add_interfaces(&record);
        let messages = diagnostics.to_string();
        Ok(NewGuest {
            record,
            vnics,
            made,
            messages: (!messages.is_empty()).then_some(messages),
            copy,
        })
    }

    /// Creates the guests of a batch, which is empty then.
    fn finish_batch(&mut self, batch: &mut Batch, results: &mut [Option<Result<Object<Guest>>>]) {
        let mut batch = std::mem::take(batch).guests;
        let reserved = self.record_batch(&mut batch);
        let reserved = reserved.unwrap_or_else(|error| {
            let failed = batch.iter().map(|_| Err(error.clone()));
            failed.collect()
        });
        for ((at, guest), reserved) in batch.into_iter().zip(reserved) {
            let started = match reserved {
                Ok(reserved) => {
                    let started = self.start_reserved(&guest.record, reserved, true);
                    // A record that cannot be removed is a guest that is restarted.
                    started.inspect_err(|_| {
                        let _ = self.remove_guests(&[(guest.record.clone(), guest.made.clone())]);
                    })
                }
                Err(error) => {
                    self.release(&guest);
                    Err(error)
                }
            };
            results[at] = Some(started.map(|()| self.view_new(guest)));
        }
    }

    /// Forks a process for each guest of a batch, and records all guests that got one.
    pub(super) fn record_batch(
        &mut self,
        batch: &mut [(usize, NewGuest)],
    ) -> Result<Vec<Result<Reserved>>> {
        let change = self.store.change()?;
        let mut reserved = Vec::with_capacity(batch.len());
        for (_, guest) in batch.iter_mut() {
            guest.record.id = change.next("guest")?;
            guest.record.domain_id = self.index.take_domain(&change)?;
            let launch = self.launch_of(&guest.record, &guest.vnics, guest.copy.clone())?;
            guest.record.booted_config = launch.config.len();
            reserved.push(self.host.reserve(launch));
        }
        for ((_, guest), process) in batch.iter_mut().zip(&mut reserved) {
            let identity = match process {
                Ok(reserved) => reserved.identity(),
                Err(_) => continue,
            };
            match identity {
                Ok(identity) => guest.record.run = started(identity),
                Err(error) => {
                    *process = Err(error);
                    continue;
                }
            }
            for vnic in &guest.made {
                change.put(vnic)?;
            }
            change.put(&guest.record)?;
        }
        change.commit()?;
        Ok(reserved)
    }

    /// Releases the names and addresses of a guest that is not created.
    pub(super) fn release(&mut self, guest: &NewGuest) {
        self.index.remove_guest(&guest.record);
        for vnic in &guest.made {
            self.index.remove_vnic(vnic);
        }
    }

    pub(super) fn view_new(&mut self, guest: NewGuest) -> Object<Guest> {
        self.index.add_guest(&guest.record);
        self.health.watch(&guest.record);
        self.tell(Event::of(
            Topic::Guest,
            &guest.record.name,
            Happened::Created,
        ));
        for port in &guest.record.ports {
            self.bring_flows(&port.vnic);
        }
        let mut view = self.view_guest(&guest.record);
        view.status.messages = guest.messages;
        view
    }

    /// Checks a guest by its specification and the addresses of its interfaces. Interfaces and
    /// variables that it `had` before are accepted, used or not. Warnings are in the diagnostics.
    pub(super) fn check_guest(
        &self,
        name: &str,
        spec: &Guest,
        interfaces: &[(String, Mac)],
        had: Option<&Guest>,
    ) -> Result<Diagnostics> {
        self.check_settings(name, spec, interfaces)?;
        let named = interfaces.iter().map(|(name, mac)| (name.clone(), mac.0));
        let named: Vec<_> = named.collect();
        let (diagnostics, field) = check_fields(spec, &named, STAND, had);
        match diagnostics.errors() {
            0 => Ok(diagnostics),
            _ => Err(Error::invalid(diagnostics.to_string().trim_end()).of_field(&field)),
        }
    }

    /// As [`check_guest`](Self::check_guest), all but the configuration.
    fn check_settings(&self, name: &str, spec: &Guest, interfaces: &[(String, Mac)]) -> Result<()> {
        check_name("guest", name)?;
        spec.check_config(name)?;
        let cpus = spec.cpus();
        if !(1..=abi::CPUS_MAX).contains(&cpus) {
            let most = abi::CPUS_MAX;
            return Err(Fault::Cpus { cpus, most }.into());
        }
        check_cpus(&spec.pin)?;
        spec.check_limits()?;
        if let Some(nsm) = &spec.nsm
            && self.store.get::<NsmRecord>(nsm)?.is_none()
        {
            return Err(Fault::NoNsmFor { nsm: nsm.clone() }.into());
        }
        let port = |(name, mac): &(String, Mac)| LaunchPort {
            interface: name.clone(),
            name: String::new(),
            domain: 0,
            mtu: MTU_MAX,
            mac: *mac,
            properties: PortProperties::default(),
            behind: None,
        };
        self.host.check(&Launch {
            routers: Vec::new(),
            id: 0,
            domain_id: 0,
            name: name.into(),
            config: spec.text().into_bytes(),
            ports: interfaces.iter().map(port).collect(),
            sockets: spec.nsm.is_some(),
            isolation: spec.isolation.into(),
            memory: spec.memory(),
            ring_slots: spec.ring_slots(),
            cpus,
            pins: spec.pin.clone(),
            limits: spec.limits(),
            copy: None,
        })
    }

    /// The VNICs that a new guest's interfaces are, in their order, and those among them that are
    /// made for it.
    fn interfaces(
        &self,
        guest: &str,
        spec: &Guest,
        copy: &Origin,
    ) -> Result<(Vec<VnicRecord>, Vec<VnicRecord>)> {
        let (mut all, mut made): (Vec<VnicRecord>, Vec<VnicRecord>) = (Vec::new(), Vec::new());
        for (interface, on) in &spec.interfaces {
            let vnic = match self.store.get::<VnicRecord>(on)? {
                Some(vnic) => self.free_vnic(guest, vnic, &all)?,
                None => {
                    let port = copy.as_ref().map(|copy| copy.port(interface));
                    let port = port.unwrap_or_default();
                    let vnic = self.implicit_vnic((guest, interface, on), port, &[])?;
                    made.push(vnic.clone());
                    vnic
                }
            };
            all.push(vnic);
        }
        Ok((all, made))
    }

    /// A VNIC that a guest may take, if it may.
    pub(super) fn free_vnic(
        &self,
        guest: &str,
        vnic: VnicRecord,
        taken: &[VnicRecord],
    ) -> Result<VnicRecord> {
        let name = vnic.name.clone();
        if vnic.guest.is_some() && guest != name {
            let guest = guest.into();
            return Err(Fault::StartsGuest { vnic: name, guest }.into());
        }
        if vnic.location() != Location::Guest {
            let (vnic, fields) = (name, LOCATIONS);
            return Err(Fault::ServesNoGuest { vnic, fields }.into());
        }
        if let Some(guest) = self.index.guest_of(&name) {
            let guest = guest.into();
            return Err(Fault::GuestHas { vnic: name, guest }.into());
        }
        if taken.iter().any(|other| other.name == name) {
            return Err(Fault::VnicTwice { vnic: name }.into());
        }
        Ok(vnic)
    }

    /// A VNIC for one interface of a guest, on a link; for a copied guest, like the original's
    /// port. The names of VNICs in `gone` are free.
    pub(super) fn implicit_vnic(
        &self,
        (guest, interface, on): (&str, &str, &str),
        port: CopiedPort,
        gone: &[VnicRecord],
    ) -> Result<VnicRecord> {
        let Some(link) = self.store.get::<LinkRecord>(on)? else {
            return Err(Fault::StandsOnNothing {
                guest: guest.into(),
                interface: interface.into(),
                on: on.into(),
            }
            .into());
        };
        let name = implicit_name(guest, interface);
        if gone.iter().all(|vnic| vnic.name != name) {
            self.check_free(&name)
                .map_err(|error| self.implicit_taken((guest, interface, &name), error))?;
        }
        port.properties.check(link.mtu, &cpus_here())?;
        Ok(VnicRecord {
            name,
            spec: Vnic {
                mac: Some(
                    self.address(&link.name, port.mac)
                        .or_else(|_| self.address(&link.name, None))?,
                ),
                link: link.name,
                properties: port.properties,
                ..Vnic::default()
            },
            implicit: true,
            front: None,
        })
    }

    /// Why a VNIC cannot be made for an interface of a guest: its name is taken, perhaps by that of a guest that was
    /// renamed.
    fn implicit_taken(&self, (guest, interface, vnic): (&str, &str, &str), why: Error) -> Error {
        if why.kind != Kind::Exists {
            return why;
        }
        let by = match self.index.guest_of(vnic) {
            Some(guest) => format!("an interface of guest ‘{guest}’"),
            None => "another link or VNIC".into(),
        };
        Fault::ImplicitTaken {
            guest: guest.into(),
            interface: interface.into(),
            vnic: vnic.into(),
            by,
        }
        .into()
    }

    /// The host's description of a guest to run.
    pub(super) fn launch_of(
        &self,
        guest: &GuestRecord,
        vnics: &[VnicRecord],
        copy: Origin,
    ) -> Result<Launch> {
        let mut ports = Vec::new();
        for (interface, vnic) in guest.ports.iter().zip(vnics) {
            let link = self.find_link(&vnic.link)?;
            ports.push(LaunchPort {
                interface: interface.name.clone(),
                name: vnic.name.clone(),
                domain: link.domain,
                mtu: mtu(vnic, &link),
                mac: vnic.mac(),
                properties: vnic.properties.clone(),
                behind: vnic.front.clone(),
            });
        }
        let config = match &copy {
            None => guest.text().into_bytes(),
            // It is not read again: its length decides where things lie.
            Some(copy) => vec![b' '; copy.config_length(guest.name.len())],
        };
        Ok(Launch {
            id: guest.id,
            domain_id: guest.domain_id,
            name: guest.name.clone(),
            config,
            routers: super::control_store::routers_of(guest),
            ports,
            sockets: guest.nsm.is_some(),
            isolation: guest.isolation.into(),
            memory: guest.memory(),
            ring_slots: guest.ring_slots(),
            cpus: guest.cpus(),
            pins: guest.pin.clone(),
            limits: guest.limits(),
            copy,
        })
    }
}

/// Whether the node may use all these CPUs.
pub(super) fn check_cpus(cpus: &[usize]) -> Result<()> {
    let here = cpus_here();
    let missing = |cpu: &usize| !here.iter().any(|here| usize::from(*here) == *cpu);
    match cpus.iter().position(missing) {
        None => Ok(()),
        Some(at) => {
            let there: Vec<_> = here.iter().map(u16::to_string).collect();
            let there = there.join(", ");
            let cpu = cpus[at];
            Err(Fault::NoCpu { cpu, there, at }.into())
        }
    }
}
