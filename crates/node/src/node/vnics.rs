//! VNICs.

use ipnet::IpNet;
use rustix::rand::{GetRandomFlags, getrandom};
use switch::lookup::Mac;
use switch::port::guest;
use switch::properties::{PortProperties, cpus_here};

use super::Node;
use super::resource::{Resource, changed};
use crate::error::{Error, Fault, InField, Result, Subject};
use crate::host::LaunchPort;
use crate::model::{
    GuestRecord, LinkRecord, Location, Object, State, Vnic, VnicRecord, VnicStatus,
    check_interface, check_name, is_usable,
};

impl Resource for Vnic {
    fn all(node: &mut Node) -> Result<Vec<Object<Vnic>>> {
        let vnics = node.store.all::<VnicRecord>()?;
        vnics.into_iter().map(|vnic| node.view_vnic(vnic)).collect()
    }

    fn one(node: &mut Node, name: &str) -> Result<Object<Vnic>> {
        node.view_vnic(node.find_vnic(name)?)
    }

    fn create(node: &mut Node, name: &str, spec: Vnic) -> Result<()> {
        node.create_vnic(name, spec)
    }

    fn change(node: &mut Node, name: &str, spec: Vnic) -> Result<()> {
        node.change_vnic(name, spec)
    }

    fn reconcile(node: &mut Node) -> Result<()> {
        let mut vnics = node.store.all::<VnicRecord>()?;
        vnics.retain(|vnic| vnic.front.is_none());
        vnics.iter().try_for_each(|vnic| node.bring_vnic(vnic))
    }

    fn delete(node: &mut Node, name: &str) -> Result<()> {
        let vnic = node.find_vnic(name)?;
        check_is_own(&vnic)?;
        for vnic in vnic.behind().iter().chain([&vnic]) {
            node.check_no_default(vnic)?;
        }
        node.remove_vnic(name)
    }
}

impl Node {
    pub(super) fn find_vnic(&self, name: &str) -> Result<VnicRecord> {
        let found = self.store.get::<VnicRecord>(name)?;
        Ok(found.ok_or_else(|| Fault::NoVnic { name: name.into() })?)
    }

    /// Brings the VNICs behind others, which have their ports by now, a guest's or not.
    pub(super) fn bring_behind(&mut self) -> Result<()> {
        let mut vnics = self.store.all::<VnicRecord>()?;
        vnics.retain(|vnic| vnic.front.is_some());
        vnics.iter().try_for_each(|vnic| self.bring_vnic(vnic))
    }

    fn view_vnic(&self, vnic: VnicRecord) -> Result<Object<Vnic>> {
        let link = self.store.get::<LinkRecord>(&vnic.link)?;
        let mtu = link.map_or(1500, |link| mtu(&vnic, &link));
        let guest = self.index.guest_of(&vnic.name).map(str::to_string);
        // Its guest could not be started.
        let is_lost =
            vnic.guest.is_some() && guest.is_none() && !self.host.awaits_frame(&vnic.name);
        let (state, reason) = match (self.host.has_port(&vnic.name) && !is_lost, &guest) {
            (true, _) if self.host.awaits_frame(&vnic.name) => (State::Waiting, None),
            (true, _) => match self.host.is_vnic_down(&vnic) {
                Some(reason) => (State::Down, Some(reason)),
                None => (State::Up, None),
            },
            (false, None) if vnic.location() == Location::Guest && vnic.guest.is_none() => {
                (State::Unused, None)
            }
            (false, None) if vnic.nsm.is_some() => (
                State::Down,
                Some(format!("NSM ‘{}’ does not run", vnic.name)),
            ),
            (false, Some(guest)) => (State::Down, Some(format!("guest ‘{guest}’ does not run"))),
            (false, None) => (State::Down, self.fault(&Subject::Vnic(vnic.name.clone()))),
        };
        let interface = vnic.has_interface().then(|| vnic.interface().to_string());
        Ok(Object {
            name: vnic.name,
            spec: vnic.spec,
            status: VnicStatus {
                state,
                reason,
                mtu,
                guest,
                interface,
            },
        })
    }

    /// Makes a VNIC, and its interface in a namespace or on the host.
    pub fn create_vnic(&mut self, name: &str, mut spec: Vnic) -> Result<()> {
        let link = self.find_link(&spec.link).in_field("link")?;
        spec.check_place(name)?;
        match &spec.interface {
            Some(interface) => {
                check_name("VNIC", name)?;
                check_interface("interface", interface).in_field("interface")?;
            }
            None if spec.has_interface() => check_interface("VNIC", name)?,
            None => check_name("VNIC", name)?,
        }
        self.check_free(name)?;
        spec.properties.check(link.mtu, &cpus_here())?;
        spec.mac = Some(self.address(&spec.link, spec.mac)?);
        let vnic = VnicRecord {
            name: name.into(),
            spec,
            implicit: false,
            front: None,
        };
        check_mtu(&vnic, &link)?;
        self.need_switch()?;
        self.check_lanes(&vnic.properties)?;
        self.settle_for(&vnic)?;
        let behind = vnic.behind();
        if let Some(on) = &vnic.guest {
            self.check_on_demand(&vnic, on)?;
            for vnic in &behind {
                check_name("VNIC", &vnic.name)?;
                self.check_free(&vnic.name)?;
                self.check_no_guest(&vnic.name)?;
            }
        }
        let change = self.store.change()?;
        for vnic in [&vnic].into_iter().chain(&behind) {
            change.put(vnic)?;
        }
        let mtu = mtu_max(&vnic, &link);
        match &vnic.guest {
            Some(_) => self.host.await_frame(&waiting_port(&vnic, &link))?,
            None => self.host.attach_vnic(&vnic, link.domain, mtu)?,
        }
        let mut waiting = behind.iter().map(|vnic| waiting_port(vnic, &link));
        let wait = waiting.try_for_each(|port| self.host.await_frame(&port));
        if let Err(error) = wait.and_then(|()| Ok(change.commit()?)) {
            for vnic in behind.iter().chain([&vnic]) {
                self.host.detach(&vnic.name);
            }
            super::remove_socket(&vnic);
            return Err(error);
        }
        for vnic in [&vnic].into_iter().chain(&behind) {
            self.index.add_vnic(vnic);
        }
        self.bring_entries(&vnic.name);
        Ok(())
    }

    /// Changes the properties and addresses of a VNIC; the rest has to be as it is.
    fn change_vnic(&mut self, name: &str, spec: Vnic) -> Result<()> {
        let is = self.find_vnic(name)?;
        check_is_own(&is)?;
        let fixed = Vnic {
            mac: spec.mac.or(is.mac),
            addresses: is.addresses.clone(),
            properties: is.properties.clone(),
            ..spec.clone()
        };
        if fixed != is.spec {
            return Err(Fault::Fixed {
                what: "VNIC",
                name: name.into(),
                can: "`properties` and `addresses`",
                field: changed(&is.spec, &spec),
            }
            .into());
        }
        if !spec.has_interface() && spec.addresses != is.addresses {
            let (vnic, field) = (name.into(), "addresses");
            return Err(Fault::NoInterface { vnic, field }.into());
        }
        spec.check_addresses(name)?;
        if spec.properties != is.properties {
            self.set_vnic(name, &spec.properties)?;
        }
        self.set_addresses(name, &is.addresses, &spec.addresses)
    }

    /// The address asked for on a link, or an unused one.
    pub(super) fn address(&self, link: &str, asked: Option<Mac>) -> Result<Mac> {
        let Some(mac) = asked else {
            return self.free_address(link);
        };
        if !is_usable(mac) {
            return Err(Fault::NotUnicast { mac }.into());
        }
        match self.index.vnic_with(link, mac) {
            Some(other) => Err(Fault::AddressTaken {
                mac,
                link: link.into(),
                other: other.into(),
            }
            .into()),
            None => Ok(mac),
        }
    }

    fn free_address(&self, link: &str) -> Result<Mac> {
        let mut mac = Mac([0; 6]);
        loop {
            getrandom(&mut mac.0, GetRandomFlags::empty()).map_err(|error| {
                Error::failed(format_args!("the kernel gives no random numbers: {error}"))
            })?;
            // Locally administered, unicast.
            mac.0[0] = 0x02;
            if self.index.vnic_with(link, mac).is_none() {
                return Ok(mac);
            }
        }
    }

    /// Removes a VNIC and its interface. If it is the default of a flow table, that has none then.
    pub fn remove_vnic(&mut self, name: &str) -> Result<()> {
        let vnic = self.find_vnic(name)?;
        if vnic.nsm.is_some() {
            return Err(Fault::HasNsm { vnic: name.into() }.into());
        }
        let behind = vnic.behind();
        for vnic in behind.iter().chain([&vnic]) {
            self.check_no_flows(&vnic.name)?;
        }
        self.remove_guests_of(&vnic)?;
        self.store.with_spare(|| -> Result<()> {
            let change = self.store.change()?;
            change.remove::<VnicRecord>(name)?;
            for vnic in &behind {
                change.remove::<VnicRecord>(&vnic.name)?;
                self.drop_entries(&change, &vnic.link, &vnic.name)?;
            }
            self.drop_entries(&change, &vnic.link, name)?;
            Ok(change.commit()?)
        })?;
        for vnic in behind.iter().chain([&vnic]) {
            self.index.remove_vnic(vnic);
            self.host.detach(&vnic.name);
        }
        super::remove_socket(&vnic);
        Ok(())
    }

    /// Gives a VNIC's port other properties, from its next frame on, and its interface their MTU.
    pub(super) fn set_vnic(&mut self, name: &str, properties: &PortProperties) -> Result<()> {
        let mut vnic = self.find_vnic(name)?;
        let link = self.find_link(&vnic.link)?;
        let old = vnic.clone();
        vnic.properties = properties.clone();
        vnic.properties.check(link.mtu, &cpus_here())?;
        if vnic.properties.mtu != old.properties.mtu {
            check_mtu(&vnic, &link)?;
        }
        let [is, was] = [&vnic, &old].map(|vnic| mtu(vnic, &link));
        if is != was {
            self.check_guest_is_untold(name)?;
            for behind in vnic.behind() {
                self.check_guest_is_untold(&behind.name)?;
            }
        }
        self.check_lanes(&vnic.properties)?;
        self.settle_for(&vnic)?;
        self.host.set_properties(name, &vnic.properties)?;
        let resized = if is == was {
            Ok(())
        } else {
            self.host.set_mtu(&vnic, is)
        };
        if let Err(error) = resized.and_then(|()| Ok(self.store.put(&vnic)?)) {
            if is != was {
                let _ = self.host.set_mtu(&old, was);
            }
            let _ = self.host.set_properties(name, &old.properties);
            return Err(error);
        }
        if let Some(guest) = self.index.guest_of(name)
            && let Some(guest) = self.store.get::<GuestRecord>(guest)?
        {
            self.host.keep_properties(guest.id, name, &vnic.properties);
        }
        if self.host.awaits_frame(name) {
            // For which frames it waits is one of them.
            self.await_frame(&vnic)?;
        }
        if is != was {
            for behind in vnic.behind() {
                self.set_vnic(&behind.name, &behind.properties)?;
            }
        }
        Ok(())
    }

    /// Refuses another MTU for a VNIC of a guest that runs: it has the one that it started with.
    fn check_guest_is_untold(&self, name: &str) -> Result<()> {
        let is_nsm = |vnic: VnicRecord| vnic.nsm.is_some();
        match self.index.guest_of(name) {
            None if self.store.get::<VnicRecord>(name)?.is_some_and(is_nsm) => {
                Err(Fault::MtuToldNsm { vnic: name.into() }.into())
            }
            Some(guest) if self.runs_with(name)? => Err(Fault::MtuTold {
                vnic: name.into(),
                guest: guest.into(),
            }
            .into()),
            _ => Ok(()),
        }
    }
}

/// The least MTU with which an interface can have IPv6 addresses, in bytes (RFC 8200, 5).
const IPV6_MTU: u16 = 1280;

/// Whether a VNIC on this link can have the MTU that its properties ask for.
fn check_mtu(vnic: &VnicRecord, link: &LinkRecord) -> Result<()> {
    let Some(asked) = vnic.properties.mtu else {
        return Ok(());
    };
    let most = mtu_max(vnic, link);
    if asked > most {
        let vnic_name = vnic.name.clone();
        if vnic.has_rings() && most == guest::MTU_MAX {
            return Err(Fault::GuestMtu {
                vnic: vnic_name,
                asked,
                most,
            }
            .into());
        }
        return Err(Fault::LinkMtu {
            vnic: vnic_name,
            asked,
            link: link.name.clone(),
            mtu: link.mtu,
            tag: if most < link.mtu {
                ", less the VLAN tag's"
            } else {
                ""
            },
        }
        .into());
    }
    let ipv6 = vnic.addresses.iter().find(|ip| matches!(ip, IpNet::V6(_)));
    match ipv6 {
        Some(address) if asked < IPV6_MTU => Err(Fault::Ipv6Mtu {
            vnic: vnic.name.clone(),
            asked,
            address: *address,
            least: IPV6_MTU,
        }
        .into()),
        _ => Ok(()),
    }
}

/// Refuses to change or delete a VNIC that another has for its connections.
fn check_is_own(vnic: &VnicRecord) -> Result<()> {
    match &vnic.front {
        None => Ok(()),
        Some(front) => Err(Fault::BehindVnic {
            vnic: vnic.name.clone(),
            front: front.clone(),
        }
        .into()),
    }
}

/// The port of a VNIC that waits for a frame.
pub(super) fn waiting_port(vnic: &VnicRecord, link: &LinkRecord) -> LaunchPort {
    LaunchPort {
        // No guest reads the rings by it.
        interface: "waiting".into(),
        name: vnic.name.clone(),
        domain: link.domain,
        mtu: mtu(vnic, link),
        mac: vnic.mac(),
        properties: vnic.properties.clone(),
        behind: vnic.front.clone(),
    }
}

/// Largest IP packet of a VNIC, in bytes.
pub(super) fn mtu(vnic: &VnicRecord, link: &LinkRecord) -> u16 {
    let most = mtu_max(vnic, link);
    vnic.properties.mtu.unwrap_or(most).min(most)
}

/// The largest IP packet that a VNIC's link carries for it, in bytes: a guest's buffers have their
/// size.
pub(super) fn mtu_max(vnic: &VnicRecord, link: &LinkRecord) -> u16 {
    let carried = link.carries(vnic.properties.vlan);
    if vnic.has_rings() {
        carried.min(guest::MTU_MAX)
    } else {
        carried
    }
}
