//! VNICs.

use ipnet::IpNet;
use rustix::rand::{GetRandomFlags, getrandom};
use switch::lookup::Mac;
use switch::port::guest;
use switch::properties::{PortProperties, cpus_here};

use super::Node;
use crate::error::{Error, Kind, Result};
use crate::model::{
    Guest, Link, NewVnic, PropertyChange, Serves, State, Vnic, VnicView, check_interface,
    check_name, is_usable,
};

impl Node {
    /// All VNICs.
    pub fn vnics(&self) -> Result<Vec<VnicView>> {
        let vnics = self.store.all::<Vnic>()?;
        vnics.iter().map(|vnic| self.view_vnic(vnic)).collect()
    }

    /// One VNIC.
    pub fn vnic(&self, name: &str) -> Result<VnicView> {
        self.view_vnic(&self.find_vnic(name)?)
    }

    pub(super) fn find_vnic(&self, name: &str) -> Result<Vnic> {
        let found = self.store.get::<Vnic>(name)?;
        found.ok_or_else(|| {
            Error::not_found(format_args!(
                "no VNIC ‘{name}’: `weir vnic show` lists those there are"
            ))
        })
    }

    fn view_vnic(&self, vnic: &Vnic) -> Result<VnicView> {
        let link = self.store.get::<Link>(&vnic.link)?;
        let mtu = link.map_or(1500, |link| mtu(vnic, &link));
        let guest = self.index.guest_of(&vnic.name).map(str::to_string);
        let (state, reason) = match (self.host.has_port(&vnic.name), &guest) {
            (true, _) => match self.host.is_vnic_down(vnic) {
                Some(reason) => (State::Down, Some(reason)),
                None => (State::Up, None),
            },
            (false, None) if vnic.serves == Serves::Guest => (State::Unused, None),
            (false, Some(guest)) => (State::Down, Some(format!("guest ‘{guest}’ does not run"))),
            (false, None) => (State::Down, self.fault(&vnic.name)),
        };
        let interface = match vnic.serves {
            Serves::Host | Serves::Netns(_) => Some(vnic.interface().to_string()),
            Serves::Guest | Serves::VhostUser(_) => None,
        };
        Ok(VnicView {
            name: vnic.name.clone(),
            link: vnic.link.clone(),
            mac: vnic.mac,
            addresses: vnic.addresses.clone(),
            vlan: vnic.properties.vlan.map(u16::from),
            mtu,
            serves: vnic.serves.clone(),
            guest,
            interface,
            state,
            reason,
            properties: vnic.properties.clone(),
        })
    }

    /// Makes a VNIC, and its interface in a namespace or on the host if it serves one.
    pub fn create_vnic(&mut self, new: NewVnic) -> Result<VnicView> {
        let link = self.find_link(&new.link)?;
        match (&new.serves, &new.interface) {
            (Serves::Host | Serves::Netns(_), None) => check_interface("VNIC", &new.name)?,
            (Serves::Host | Serves::Netns(_), Some(interface)) => {
                check_name("VNIC", &new.name)?;
                check_interface("interface", interface)?;
            }
            (Serves::Guest | Serves::VhostUser(_), None) => check_name("VNIC", &new.name)?,
            (Serves::Guest | Serves::VhostUser(_), Some(_)) => {
                return Err(Error::invalid(format_args!(
                    "‘{}’ has no interface on this host that could have a name of its own",
                    new.name
                )));
            }
        }
        if !new.addresses.is_empty() && !matches!(new.serves, Serves::Host | Serves::Netns(_)) {
            return Err(Error::invalid(format_args!(
                "‘{}’ has no interface on this host that could have IP addresses",
                new.name
            )));
        }
        self.check_free(&new.name)?;
        let mut properties = PortProperties::default();
        properties.set_all(&new.properties)?;
        properties.check(link.mtu, &cpus_here())?;
        let vnic = Vnic {
            mac: self.address(&new.link, new.mac)?,
            name: new.name,
            link: new.link,
            serves: new.serves,
            interface: new.interface,
            addresses: new.addresses,
            implicit: false,
            properties,
        };
        check_mtu(&vnic, &link)?;
        self.need_switch()?;
        self.check_lanes(&vnic.properties)?;
        let change = self.store.change()?;
        change.put(&vnic)?;
        let mtu = mtu_max(&vnic, &link);
        self.host.attach_vnic(&vnic, link.domain, mtu)?;
        if let Err(error) = change.commit() {
            self.host.detach(&vnic.name);
            super::remove_socket(&vnic);
            return Err(error.into());
        }
        self.index.add_vnic(&vnic);
        self.bring_entries(&vnic.name);
        self.view_vnic(&vnic)
    }

    /// The address asked for on a link, or one that nobody has.
    pub(super) fn address(&self, link: &str, asked: Option<Mac>) -> Result<Mac> {
        let Some(mac) = asked else {
            return self.free_address(link);
        };
        if !is_usable(mac) {
            return Err(Error::invalid(format_args!(
                "{mac} cannot be a VNIC's address: it must be a unicast address that is not zero"
            )));
        }
        match self.index.vnic_with(link, mac) {
            Some(other) => Err(Error::new(
                Kind::Exists,
                format_args!(
                    "VNIC ‘{other}’ on ‘{link}’ has the address {mac} already: choose another, or none for a random one"
                ),
            )),
            None => Ok(mac),
        }
    }

    fn free_address(&self, link: &str) -> Result<Mac> {
        let mut mac = Mac([0; 6]);
        loop {
            getrandom(&mut mac.0, GetRandomFlags::empty())
                .map_err(|error| Error::failed(format_args!("no random numbers: {error}")))?;
            // Locally administered, unicast.
            mac.0[0] = 0x02;
            if self.index.vnic_with(link, mac).is_none() {
                return Ok(mac);
            }
        }
    }

    /// Removes a VNIC and its interface, unless something else stands on it.
    pub fn delete_vnic(&mut self, name: &str) -> Result<()> {
        let vnic = self.find_vnic(name)?;
        self.check_no_default(&vnic)?;
        self.remove_vnic(name)
    }

    /// Removes a VNIC and its interface. If it is the default of a flow table, that has none then.
    pub fn remove_vnic(&mut self, name: &str) -> Result<()> {
        let vnic = self.find_vnic(name)?;
        if let Some(guest) = self.index.guest_of(name) {
            return Err(Error::new(
                Kind::InUse,
                format_args!(
                    "VNIC ‘{name}’ is an interface of guest ‘{guest}’: `weir destroy {guest}` first"
                ),
            ));
        }
        self.check_no_flows(name)?;
        let change = self.store.change()?;
        change.remove::<Vnic>(name)?;
        self.drop_entries(&change, &vnic.link, name)?;
        change.commit()?;
        self.index.remove_vnic(&vnic);
        self.host.detach(name);
        super::remove_socket(&vnic);
        Ok(())
    }

    /// Changes what a VNIC's port may do, from its next frame on, and the MTU of its interface.
    pub fn set_vnic(&mut self, name: &str, new: &PropertyChange) -> Result<VnicView> {
        let mut vnic = self.find_vnic(name)?;
        let link = self.find_link(&vnic.link)?;
        let old = vnic.clone();
        for property in &new.reset {
            vnic.properties.reset(property)?;
        }
        vnic.properties.set_all(&new.set)?;
        vnic.properties.check(link.mtu, &cpus_here())?;
        if vnic.properties.mtu != old.properties.mtu {
            check_mtu(&vnic, &link)?;
        }
        let [is, was] = [&vnic, &old].map(|vnic| mtu(vnic, &link));
        if is != was {
            self.check_guest_is_untold(name)?;
        }
        self.check_lanes(&vnic.properties)?;
        self.host.set_properties(name, &vnic.properties)?;
        let resized = match is == was {
            true => Ok(()),
            false => self.host.set_mtu(&vnic, is),
        };
        if let Err(error) = resized.and_then(|()| Ok(self.store.put(&vnic)?)) {
            if is != was {
                let _ = self.host.set_mtu(&old, was);
            }
            let _ = self.host.set_properties(name, &old.properties);
            return Err(error);
        }
        if let Some(guest) = self.index.guest_of(name)
            && let Some(guest) = self.store.get::<Guest>(guest)?
        {
            self.host.keep_properties(guest.id, name, &vnic.properties);
        }
        self.view_vnic(&vnic)
    }

    /// Refuses another MTU for a VNIC of a guest that runs: it has the one that it started with.
    fn check_guest_is_untold(&self, name: &str) -> Result<()> {
        match self.index.guest_of(name) {
            Some(guest) if self.runs_with(name)? => Err(Error::new(
                Kind::InUse,
                format_args!(
                    "the MTU of VNIC ‘{name}’ cannot change while guest ‘{guest}’ runs, which was told of it when it started: `weir destroy {guest}` first"
                ),
            )),
            _ => Ok(()),
        }
    }
}

/// The least MTU with which an interface can have IPv6 addresses, in bytes (RFC 8200, 5).
const IPV6_MTU: u16 = 1280;

/// Whether a VNIC on this link can have the MTU that its properties ask for.
fn check_mtu(vnic: &Vnic, link: &Link) -> Result<()> {
    let Some(asked) = vnic.properties.mtu else {
        return Ok(());
    };
    let most = mtu_max(vnic, link);
    if asked > most {
        if vnic.serves == Serves::Guest && most == guest::MTU_MAX {
            return Err(Error::invalid(format_args!(
                "mtu={asked} for ‘{}’ cannot be: a guest takes IP packets of at most {most} bytes",
                vnic.name
            )));
        }
        let tag = match most < link.mtu {
            true => ", less the VLAN tag's",
            false => "",
        };
        return Err(Error::invalid(format_args!(
            "mtu={asked} for ‘{}’ cannot be: its link ‘{}’ has an MTU of {} bytes{tag}, which is the most",
            vnic.name, link.name, link.mtu
        )));
    }
    let ipv6 = vnic.addresses.iter().find(|ip| matches!(ip, IpNet::V6(_)));
    match ipv6 {
        Some(address) if asked < IPV6_MTU => Err(Error::invalid(format_args!(
            "mtu={asked} for ‘{}’ cannot be: its interface has the address {address}, and IPv6 takes {IPV6_MTU} bytes at least",
            vnic.name
        ))),
        _ => Ok(()),
    }
}

/// Largest IP packet of a VNIC, in bytes.
pub(super) fn mtu(vnic: &Vnic, link: &Link) -> u16 {
    let most = mtu_max(vnic, link);
    vnic.properties.mtu.unwrap_or(most).min(most)
}

/// The largest IP packet that a VNIC's link carries for it, in bytes: in a tunnel, a VLAN's tag
/// takes its place from the packet, and a guest's buffers have their size.
pub(super) fn mtu_max(vnic: &Vnic, link: &Link) -> u16 {
    const TAG: u16 = 4;
    let carried = match (&link.tunnel, vnic.properties.vlan) {
        (Some(_), Some(_)) => link.mtu - TAG,
        _ => link.mtu,
    };
    match vnic.serves {
        Serves::Guest => carried.min(guest::MTU_MAX),
        Serves::Host | Serves::Netns(_) | Serves::VhostUser(_) => carried,
    }
}
