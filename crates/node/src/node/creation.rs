//! Guests to be: what is asked for is looked over, and made into what the host needs to know.

use click::Diagnostics;
use switch::lookup::Mac;
use switch::port::guest::MTU_MAX;
use switch::properties::{PortProperties, cpus_here};

use super::Node;
use super::guests::started;
use super::vnics::mtu;
use crate::error::{Error, Fault, Result};
use crate::host::{Launch, LaunchPort};
use crate::model::{
    Guest, GuestPort, GuestRecord, LOCATIONS, LinkRecord, Location, Memory, Object, Run, Vnic,
    VnicRecord, check_name, takes_less,
};

/// What an interface may stand on, in messages.
const STAND: &str = "LINK";

impl Node {
    /// Whether a name is no guest's yet.
    pub(super) fn check_no_guest(&self, name: &str) -> Result<()> {
        match self.store.get::<GuestRecord>(name)? {
            None => Ok(()),
            Some(_) => Err(Fault::GuestExists { name: name.into() }.into()),
        }
    }

    /// Creates a guest and starts it. Whether it comes to run shows in its state.
    pub fn create_guest(&mut self, name: &str, mut spec: Guest) -> Result<Object<Guest>> {
        self.check_no_guest(name)?;
        let (vnics, made) = self.interfaces(name, &spec)?;
        let interfaces: Vec<_> = spec
            .interfaces
            .keys()
            .zip(&vnics)
            .map(|(interface, vnic)| (interface.clone(), vnic.mac()))
            .collect();
        let mut diagnostics = self.check_guest(name, &spec, &interfaces)?;
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
        // What is not given now is not to be another with another version.
        spec.memory = Some(Memory(spec.memory()));
        spec.ring_slots = Some(spec.ring_slots());
        spec.cpus = Some(spec.cpus());
        let mut guest = GuestRecord {
            name: name.into(),
            id: 0,
            ports,
            booted_config: spec.config.len(),
            run: Run::Wanted,
            spec,
        };
        let change = self.store.change()?;
        guest.id = change.next("guest")?;
        let launch = self.launch_of(&guest, &vnics)?;
        let record = &mut guest;
        let mut kept = false;
        let launched = self.host.launch(launch, |identity| {
            record.run = started(identity);
            for vnic in &made {
                change.put(vnic)?;
            }
            change.put(record)?;
            change.commit()?;
            kept = true;
            Ok(true)
        });
        if let Err(error) = launched {
            if kept {
                self.forget_guest(&guest, &made)?;
            }
            return Err(error);
        }
        for vnic in &made {
            self.index.add_vnic(vnic);
        }
        self.index.add_guest(&guest);
        for port in &guest.ports {
            self.bring_flows(&port.vnic);
        }
        let mut view = self.view_guest(&guest);
        let messages = diagnostics.to_string();
        view.status.messages = (!messages.is_empty()).then_some(messages);
        Ok(view)
    }

    /// Whether there can be such a guest: what can be told from how it is described, and the
    /// addresses of its interfaces. What is merely odd is in the diagnostics.
    pub(super) fn check_guest(
        &self,
        name: &str,
        spec: &Guest,
        interfaces: &[(String, Mac)],
    ) -> Result<Diagnostics> {
        check_name("guest", name)?;
        spec.check_config(name)?;
        let cpus = spec.cpus();
        if !(1..=abi::CPUS_MAX).contains(&cpus) {
            let most = abi::CPUS_MAX;
            return Err(Fault::Cpus { cpus, most }.into());
        }
        check_cpus(&spec.pin)?;
        let port = |(name, mac): &(String, Mac)| LaunchPort {
            interface: name.clone(),
            name: String::new(),
            domain: 0,
            mtu: MTU_MAX,
            mac: *mac,
            properties: PortProperties::default(),
        };
        self.host.check(&Launch {
            id: 0,
            name: name.into(),
            config: spec.config.clone().into_bytes(),
            ports: interfaces.iter().map(port).collect(),
            isolation: spec.isolation.into(),
            memory: spec.memory(),
            ring_slots: spec.ring_slots(),
            cpus,
            pins: spec.pin.clone(),
        })?;
        let file = spec.file_name();
        let named = interfaces.iter().map(|(name, mac)| (name.clone(), mac.0));
        let named: Vec<_> = named.collect();
        let config = spec.config.as_bytes();
        let diagnostics = crate::check::check(config, &file, &named, cpus, STAND);
        match diagnostics.errors() {
            0 => Ok(diagnostics),
            _ => Err(Error::invalid(diagnostics.to_string().trim_end())),
        }
    }

    /// The VNICs that a new guest's interfaces are, in their order, and those among them that are
    /// made for it.
    fn interfaces(&self, guest: &str, spec: &Guest) -> Result<(Vec<VnicRecord>, Vec<VnicRecord>)> {
        let (mut all, mut made): (Vec<VnicRecord>, Vec<VnicRecord>) = (Vec::new(), Vec::new());
        for (interface, on) in &spec.interfaces {
            let vnic = match self.store.get::<VnicRecord>(on)? {
                Some(vnic) => self.free_vnic(vnic, &all)?,
                None => {
                    let vnic = self.implicit_vnic(guest, interface, on)?;
                    made.push(vnic.clone());
                    vnic
                }
            };
            all.push(vnic);
        }
        Ok((all, made))
    }

    /// A VNIC that a guest may take, if it may.
    fn free_vnic(&self, vnic: VnicRecord, taken: &[VnicRecord]) -> Result<VnicRecord> {
        let name = vnic.name.clone();
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

    /// A VNIC made for one interface of a guest, on a link.
    fn implicit_vnic(&self, guest: &str, interface: &str, on: &str) -> Result<VnicRecord> {
        let Some(link) = self.store.get::<LinkRecord>(on)? else {
            return Err(Fault::StandsOnNothing {
                guest: guest.into(),
                interface: interface.into(),
                on: on.into(),
            }
            .into());
        };
        let name = format!("{guest}.{interface}");
        self.check_free(&name)?;
        Ok(VnicRecord {
            name,
            spec: Vnic {
                mac: Some(self.address(&link.name, None)?),
                link: link.name,
                ..Vnic::default()
            },
            implicit: true,
        })
    }

    /// What the host needs to know to run a guest.
    pub(super) fn launch_of(&self, guest: &GuestRecord, vnics: &[VnicRecord]) -> Result<Launch> {
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
            });
        }
        Ok(Launch {
            id: guest.id,
            name: guest.name.clone(),
            config: guest.config.clone().into_bytes(),
            ports,
            isolation: guest.isolation.into(),
            memory: guest.memory(),
            ring_slots: guest.ring_slots(),
            cpus: guest.cpus(),
            pins: guest.pin.clone(),
        })
    }
}

/// Whether the node may use all these CPUs.
pub(super) fn check_cpus(cpus: &[usize]) -> Result<()> {
    let here = cpus_here();
    let missing = |cpu: &&usize| !here.iter().any(|here| usize::from(*here) == **cpu);
    match cpus.iter().find(missing) {
        None => Ok(()),
        Some(cpu) => {
            let there: Vec<_> = here.iter().map(u16::to_string).collect();
            let there = there.join(", ");
            Err(Fault::NoCpu { cpu: *cpu, there }.into())
        }
    }
}
