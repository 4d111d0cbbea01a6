//! Guests to be: what is asked for is looked over, and made into what the host needs to know.

use click::Diagnostics;
use switch::lookup::Mac;
use switch::port::guest::MTU_MAX;
use switch::properties::{PortProperties, cpus_here};

use super::Node;
use super::guests::started;
use super::vnics::mtu;
use crate::error::{Error, Kind, Result};
use crate::host::{Launch, LaunchPort};
use crate::model::{
    Guest, GuestView, Interface, Link, NewGuest, NewInterface, Run, Serves, Vnic, check_name,
    takes_less,
};

/// Slots of each ring, unless others are asked for.
const RING_SLOTS: u32 = 256;
/// CPUs, unless others are asked for.
const CPUS: usize = 1;
/// What an interface may stand on, in messages.
const STAND: &str = "LINK";

impl Node {
    /// Whether a name is no guest's yet.
    pub(super) fn check_no_guest(&self, name: &str) -> Result<()> {
        match self.store.get::<Guest>(name)? {
            None => Ok(()),
            Some(_) => Err(Error::new(
                Kind::Exists,
                format_args!(
                    "there is a guest called ‘{name}’ already: choose another name, or `weir destroy {name}` first"
                ),
            )),
        }
    }

    /// Creates a guest and starts it. Whether it comes to run shows in its state.
    pub fn create_guest(&mut self, new: NewGuest) -> Result<GuestView> {
        self.check_no_guest(&new.name)?;
        let (vnics, made) = self.interfaces(&new)?;
        let interfaces: Vec<_> = new
            .interfaces
            .iter()
            .zip(&vnics)
            .map(|(interface, vnic)| (interface.name.clone(), vnic.mac))
            .collect();
        let mut diagnostics = self.check_guest(&new, &interfaces)?;
        for vnic in &vnics {
            let link = self.find_link(&vnic.link)?;
            let less = takes_less(&vnic.name, vnic.properties.mtu, &link.name, link.mtu);
            if let Some(less) = less {
                diagnostics.warning_here(less);
            }
        }
        self.need_switch()?;
        let mut guest = Guest {
            id: 0,
            interfaces: new
                .interfaces
                .iter()
                .zip(&vnics)
                .map(|(interface, vnic)| Interface {
                    name: interface.name.clone(),
                    vnic: vnic.name.clone(),
                })
                .collect(),
            isolation: new.isolation,
            memory: new.memory.unwrap_or(vmm::DEFAULT_MEMORY),
            booted_config: new.config.len(),
            ring_slots: new.ring_slots.unwrap_or(RING_SLOTS),
            cpus: new.cpus.unwrap_or(CPUS),
            pins: new.pins,
            restart: new.restart,
            run: Run::Wanted,
            name: new.name,
            config: new.config,
        };
        let change = self.store.change()?;
        guest.id = change.next("guest")?;
        let launch = self.launch_of(&guest, &vnics)?;
        let record = &mut guest;
        let mut kept = false;
        let launched = self.host.launch(launch, |trace| {
            record.run = started(trace);
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
        for interface in &guest.interfaces {
            self.bring_flows(&interface.vnic);
        }
        let mut view = self.view_guest(&guest);
        let messages = diagnostics.to_string();
        view.messages = (!messages.is_empty()).then_some(messages);
        Ok(view)
    }

    /// Whether there can be such a guest: what can be told from how it is described, and the
    /// addresses of its interfaces. What is merely odd is in the diagnostics.
    pub(super) fn check_guest(
        &self,
        new: &NewGuest,
        interfaces: &[(String, Mac)],
    ) -> Result<Diagnostics> {
        check_name("guest", &new.name)?;
        let cpus = new.cpus.unwrap_or(CPUS);
        if !(1..=abi::CPUS_MAX).contains(&cpus) {
            return Err(Error::invalid(format_args!(
                "{cpus} CPUs cannot be: a guest has 1 to {}",
                abi::CPUS_MAX
            )));
        }
        check_cpus(&new.pins)?;
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
            name: new.name.clone(),
            config: new.config.clone().into_bytes(),
            ports: interfaces.iter().map(port).collect(),
            isolation: new.isolation.into(),
            memory: new.memory.unwrap_or(vmm::DEFAULT_MEMORY),
            ring_slots: new.ring_slots.unwrap_or(RING_SLOTS),
            cpus,
            pins: new.pins.clone(),
        })?;
        let file = new.file.as_deref().unwrap_or("config");
        let named = interfaces.iter().map(|(name, mac)| (name.clone(), mac.0));
        let named: Vec<_> = named.collect();
        let config = new.config.as_bytes();
        let diagnostics = crate::check::check(config, file, &named, cpus, STAND);
        match diagnostics.errors() {
            0 => Ok(diagnostics),
            _ => Err(Error::invalid(diagnostics.to_string().trim_end())),
        }
    }

    /// The VNICs that a new guest's interfaces are, in their order, and those among them that are
    /// made for it.
    fn interfaces(&self, new: &NewGuest) -> Result<(Vec<Vnic>, Vec<Vnic>)> {
        let (mut all, mut made): (Vec<Vnic>, Vec<Vnic>) = (Vec::new(), Vec::new());
        for (i, interface) in new.interfaces.iter().enumerate() {
            let twice = |other: &NewInterface| other.name == interface.name;
            if new.interfaces[..i].iter().any(twice) {
                return Err(Error::invalid(format_args!(
                    "two links are called ‘{}’: give each interface one --link",
                    interface.name
                )));
            }
            let vnic = match self.store.get::<Vnic>(&interface.on)? {
                Some(vnic) => self.free_vnic(vnic, &all)?,
                None => {
                    let vnic = self.implicit_vnic(&new.name, interface)?;
                    made.push(vnic.clone());
                    vnic
                }
            };
            all.push(vnic);
        }
        Ok((all, made))
    }

    /// A VNIC that a guest may take, if it may.
    fn free_vnic(&self, vnic: Vnic, taken: &[Vnic]) -> Result<Vnic> {
        let name = &vnic.name;
        if vnic.serves != Serves::Guest {
            return Err(Error::new(
                Kind::InUse,
                format_args!(
                    "VNIC ‘{name}’ does not serve guests: make one without --netns, --host and --vhost-user"
                ),
            ));
        }
        let own = taken.iter().any(|other| other.name == *name);
        match (self.index.guest_of(name), own) {
            (Some(guest), _) => Err(Error::new(
                Kind::InUse,
                format_args!("VNIC ‘{name}’ is an interface of guest ‘{guest}’ already"),
            )),
            (None, true) => Err(Error::invalid(format_args!(
                "VNIC ‘{name}’ cannot be two interfaces of one guest"
            ))),
            (None, false) => Ok(vnic),
        }
    }

    /// A VNIC made for one interface of a guest, on a link.
    fn implicit_vnic(&self, guest: &str, interface: &NewInterface) -> Result<Vnic> {
        let Some(link) = self.store.get::<Link>(&interface.on)? else {
            return Err(Error::not_found(format_args!(
                "interface ‘{}’ of guest ‘{guest}’: no VNIC or link ‘{}’: `weir vnic show` and `weir link show` list those there are",
                interface.name, interface.on
            )));
        };
        let name = format!("{guest}.{}", interface.name);
        self.check_free(&name)?;
        Ok(Vnic {
            name,
            mac: self.address(&link.name, None)?,
            link: link.name,
            serves: Serves::Guest,
            interface: None,
            addresses: Vec::new(),
            implicit: true,
            properties: PortProperties::default(),
        })
    }

    /// What the host needs to know to run a guest.
    pub(super) fn launch_of(&self, guest: &Guest, vnics: &[Vnic]) -> Result<Launch> {
        let mut ports = Vec::new();
        for (interface, vnic) in guest.interfaces.iter().zip(vnics) {
            let link = self.find_link(&vnic.link)?;
            ports.push(LaunchPort {
                interface: interface.name.clone(),
                name: vnic.name.clone(),
                domain: link.domain,
                mtu: mtu(vnic, &link),
                mac: vnic.mac,
                properties: vnic.properties.clone(),
            });
        }
        Ok(Launch {
            id: guest.id,
            name: guest.name.clone(),
            config: guest.config.clone().into_bytes(),
            ports,
            isolation: guest.isolation.into(),
            memory: guest.memory,
            ring_slots: guest.ring_slots,
            cpus: guest.cpus,
            pins: guest.pins.clone(),
        })
    }
}

/// Whether the node may use all these CPUs.
pub(super) fn check_cpus(cpus: &[usize]) -> Result<()> {
    let here = cpus_here();
    let missing = |cpu: &&usize| !here.iter().any(|here| usize::from(*here) == **cpu);
    match cpus.iter().find(missing) {
        None => Ok(()),
        Some(cpu) => Err(Error::invalid(format_args!(
            "there is no CPU {cpu} that the node may use: it has {}",
            here.iter()
                .map(u16::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ))),
    }
}
