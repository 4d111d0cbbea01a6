//! Host interfaces: the interfaces that links attach, and the TAP devices and sockets of VNICs.

use std::os::fd::{AsFd, OwnedFd};

use ipnet::IpNet;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

use ::switch::links::{Gro, HostLink};
use ::switch::lookup::Mac;
use ::switch::port::{LinkRecord as SwitchRecord, PortKind};
use ::switch::properties::PortProperties;
use ::switch::protocol::{PatchEnd, PortDescription};

use super::{Host, Port, namespace, network};
use crate::error::{Error, Kind, Result};
use crate::model::{Class, LinkRecord, Location, VnicRecord};

/// The descriptors of a port whose interface or socket exists as long as they are open.
pub(super) struct Held {
    record: SwitchRecord,
    files: Vec<OwnedFd>,
}

impl Held {
    /// A link that a switch can attach.
    fn reopened(&self, name: &str, mac: Mac, mtu: u16) -> Result<HostLink> {
        let files: std::io::Result<_> = self.files.iter().map(OwnedFd::try_clone).collect();
        let files = files.map_err(|error| Error::refused(format_args!("‘{name}’: {error}")))?;
        let record = self.record.clone();
        Ok(HostLink::reopened(record, name, mac, mtu, files))
    }
}

/// What of a link follows from its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// GRO was turned on for it.
    pub gro: bool,
    /// The number of the host's interface, if it has one of its own.
    pub index: Option<u32>,
}

impl Host {
    /// Keeps what keeps an interface alive, of a port that a switch has already.
    pub(super) fn hold(&mut self, port: &PortDescription) {
        let Some(record) = port.kind.kept() else {
            return;
        };
        let files = self.client().map(|client| client.files(port.id));
        if let Ok(Ok(files)) = files {
            self.held.insert(port.name.clone(), Held { record, files });
        }
    }

    /// Attaches a link's interface, if it is not. Returns what of the link follows from it.
    pub fn attach_uplink(&mut self, link: &LinkRecord) -> Result<Attached> {
        let is_there = self.has_port(&link.name);
        // It may be off: of a link that was to be detached when its node was killed.
        if link.gro && !self.gro.contains_key(&link.name) {
            let attached = link.index.filter(|_| is_there);
            let index = attached.or_else(|| index_of(&link.name));
            if let Some(gro) = index
                .and_then(network::name_of)
                .and_then(|it| Gro::turn_on(&it))
            {
                gro.keep();
            }
            self.gro
                .extend(index.map(|index| (link.name.clone(), index)));
        }
        self.claim(link)?;
        if is_there {
            // It may have been changed when its node was killed.
            self.set_remotes(link)?;
        }
        if link.class == Class::Stub || is_there {
            return Ok(Attached {
                mtu: link.mtu,
                gro: link.gro,
                index: link.index,
            });
        }
        let mut open = match self.held.get(&link.name) {
            Some(held) => held.reopened(&link.name, Mac::ZERO, link.mtu)?,
            None => {
                let lanes = usize::from(link.port.lanes.unwrap_or(1));
                link.open(&link.name, link.mtu, self.lane_count()?.min(lanes))?
            }
        };
        let (mtu, gro) = (open.mtu(), open.take_gro());
        self.attach(&link.name, open, link.domain, link.port.clone())?;
        let index = index_of(&link.name);
        // The one before may be there under another name.
        if self
            .gro
            .get(&link.name)
            .is_some_and(|was| index != Some(*was))
        {
            self.put_back(&link.name);
        }
        if let (Some(gro), Some(index)) = (gro, index) {
            gro.keep();
            self.gro.insert(link.name.clone(), index);
        }
        Ok(Attached {
            mtu,
            gro: self.gro.contains_key(&link.name),
            index,
        })
    }

    /// Tells the switch where an attached link to other hosts leads.
    pub fn set_remotes(&self, link: &LinkRecord) -> Result<()> {
        match (self.ports.get(&link.name), link.changed(&link.name)) {
            (Some(port), Some(record)) => Ok(self.client()?.set_link(port.id, record)?),
            _ => Ok(()),
        }
    }

    /// Sees to it that no other node of this host attaches a link's interface. The name of an abstract socket is taken
    /// for that, in the interface's own network namespace: the kernel releases it when this process ends.
    fn claim(&mut self, link: &LinkRecord) -> Result<()> {
        let index = link.interface().and_then(index_of);
        let Some(index) = index.filter(|_| link.class != Class::Stub) else {
            return Ok(());
        };
        if self.claims.get(&link.name).is_some_and(|it| it.0 == index) {
            return Ok(());
        }
        let socket = claim_interface(index, &link.name)?;
        self.claims.insert(link.name.clone(), (index, socket));
        Ok(())
    }

    /// Attaches the port of a VNIC that is in no guest, and makes its interface or socket if it is
    /// missing. `mtu` is the MTU of its link, which limits the port at any MTU of the interface.
    pub fn attach_vnic(&mut self, vnic: &VnicRecord, domain: u32, mtu: u16) -> Result<()> {
        if self.has_port(&vnic.name) {
            return Ok(());
        }
        let is_new = !self.held.contains_key(&vnic.name);
        let open = match (self.held.get(&vnic.name), vnic.location()) {
            (_, Location::Guest | Location::Nsm(_)) => return Ok(()),
            (Some(held), _) => held.reopened(&vnic.name, vnic.mac(), mtu)?,
            (None, Location::Namespace(name)) => namespace::within(name, || vnic.open(mtu))??,
            (None, _) => vnic.open(mtu)?,
        };
        let open = open.within_mtu(mtu);
        self.attach(&vnic.name, open, domain, vnic.properties.clone())?;
        // A held interface has its addresses still.
        if is_new && let Err(error) = self.set_addresses(vnic, &[], &vnic.addresses) {
            self.detach(&vnic.name);
            return Err(error);
        }
        Ok(())
    }

    /// Why an interface that a link attached is not there, or passes nothing. Its port stays, and is
    /// the interface's again as soon as that is up and has its name.
    pub fn is_link_down(&self, link: &LinkRecord) -> Option<String> {
        if !self.port_kind(&link.name)?.has_interface() {
            return None;
        }
        let name = &link.name;
        let Some(index) = link.index else {
            return passes_nothing(None, name);
        };
        match network::name_of(index) {
            Some(called) if called == *name => passes_nothing(None, name),
            Some(other) => Some(format!(
                "interface ‘{name}’ is now named ‘{other}’: detach the link, or `ip link set {other} name {name}`"
            )),
            // Another of its name is no better.
            None => Some(is_gone(None, name)),
        }
    }

    /// Why nothing passes between a VNIC, whose port is there, and its user. Its port stays,
    /// and frames pass again as soon as a frontend is connected, or the interface is up, under its
    /// name and in its place.
    pub fn is_vnic_down(&self, vnic: &VnicRecord) -> Option<String> {
        if self.port_kind(&vnic.name)?.has_interface() {
            return passes_nothing(place(vnic), vnic.interface());
        }
        let lacks_frontend = vnic.socket().is_some() && !self.has_frontend(&vnic.name);
        lacks_frontend.then(|| "no frontend is connected".into())
    }

    /// A sentence on a link's MTU, if its interface has another one now.
    pub fn has_other_mtu(&self, link: &LinkRecord) -> Option<String> {
        let (name, was) = (&link.name, link.mtu);
        let kind = self.port_kind(name)?;
        if !kind.has_interface() || !kind.is_uplink() {
            return None;
        }
        let is = network::interface(None, name).ok()??.mtu;
        (is != u32::from(was)).then(|| {
            format!(
                "its MTU was {was} bytes when it was attached and is now {is}: attach it again, or `ip link set {name} mtu {was}`"
            )
        })
    }

    /// The VNICs of whose interfaces something is held that outlives a switch.
    pub fn held(&self) -> impl Iterator<Item = &str> {
        self.held.keys().map(String::as_str)
    }

    /// Whether the namespace of a VNIC's interface has lost its name: it was deleted, and another
    /// may have the name. The held interface keeps the old namespace alive, so nothing else shows
    /// it.
    pub fn has_lost(&self, vnic: &VnicRecord) -> bool {
        let (Location::Namespace(name), Some(held)) = (vnic.location(), self.held.get(&vnic.name))
        else {
            return false;
        };
        let tap = held.files.first().map(OwnedFd::as_fd);
        let made = tap.and_then(namespace::of_tap);
        made.is_some() && made != namespace::id(name)
    }

    /// Whether a VNIC in a namespace or on the host lacks its interface there: the interface or the
    /// namespace was removed.
    pub fn has_no_interface(&self, vnic: &VnicRecord) -> bool {
        let is_gone = || matches!(network::interface(place(vnic), vnic.interface()), Ok(None));
        vnic.has_interface() && (!self.holds(&vnic.name) || self.has_lost(vnic) || is_gone())
    }

    /// Whether a VNIC's interface that is there has not all of these addresses.
    pub fn lacks_addresses(&self, vnic: &VnicRecord, addresses: &[IpNet]) -> bool {
        vnic.has_interface()
            && network::look(place(vnic))
                .is_ok_and(|seen| seen.lacks_addresses(vnic.interface(), addresses))
    }

    /// Gives a VNIC's interface the addresses `new` in the place of `old`.
    pub fn set_addresses(&self, vnic: &VnicRecord, old: &[IpNet], new: &[IpNet]) -> Result<()> {
        if old.is_empty() && new.is_empty() {
            return Ok(());
        }
        network::set_addresses(place(vnic), vnic.interface(), old, new)
    }

    /// Gives a VNIC's interface an MTU, if it has one that is there: one that is not is made with
    /// it.
    pub fn set_mtu(&self, vnic: &VnicRecord, mtu: u16) -> Result<()> {
        if vnic.has_interface() && self.holds(&vnic.name) && !self.has_lost(vnic) {
            network::set_mtu(place(vnic), vnic.interface(), mtu)
        } else {
            Ok(())
        }
    }

    /// Whether a VNIC's interface exists, even without a switch.
    pub fn holds(&self, name: &str) -> bool {
        self.held.contains_key(name)
    }

    /// Whether a patch of these two ends joins these domains.
    pub fn has_patch(&self, names: &[String; 2], domains: [u32; 2]) -> bool {
        let mut ends = names.iter().zip(domains);
        ends.all(|(name, domain)| self.ports.get(name).is_some_and(|p| p.domain == domain))
    }

    /// Joins two domains by a patch, unless they are joined; with the properties of each direction.
    /// Returns a warning for the user, if any.
    pub fn attach_patch(
        &mut self,
        names: [String; 2],
        domains: [u32; 2],
        properties: [&PortProperties; 2],
    ) -> Result<Option<String>> {
        if self.has_patch(&names, domains) {
            return Ok(None);
        }
        // One between stubs that are no more, perhaps, whose names these have.
        names.iter().for_each(|name| self.detach_port(name));
        let [a, b] = names.clone();
        let end = |name, domain, properties: &PortProperties| PatchEnd {
            name,
            domain,
            properties: properties.clone(),
        };
        let ends = [
            end(a, domains[0], properties[0]),
            end(b, domains[1], properties[1]),
        ];
        let (ports, warning) = self.client()?.attach_patch(ends)?;
        let kind = PortKind::Patch;
        for ((name, id), domain) in names.into_iter().zip(ports).zip(domains) {
            self.ports.insert(name, Port { id, kind, domain });
        }
        Ok(warning)
    }

    fn attach(
        &mut self,
        name: &str,
        link: HostLink,
        domain: u32,
        properties: PortProperties,
    ) -> Result<()> {
        let link = link.called(name);
        let kind = link.kind();
        let client = self.client()?;
        let id = client.attach_link(link, domain, properties)?;
        if let Some(record) = kind.kept()
            && !self.held.contains_key(name)
        {
            match client.files(id) {
                Ok(files) => {
                    self.held.insert(name.into(), Held { record, files });
                }
                Err(error) => {
                    let _ = client.detach(&[id]);
                    return Err(error.into());
                }
            }
        }
        self.ports.insert(name.into(), Port { id, kind, domain });
        Ok(())
    }
}

/// Turns GRO off on an interface of the host, under any name, if it still exists.
pub(super) fn turn_off_gro(index: u32) {
    if let Some(name) = network::name_of(index) {
        Gro::turn_off(&name);
    }
}

/// As [`claim_interface`], by its name alone. One that is not there needs no claim.
pub fn claim(interface: &str) -> Result<Option<OwnedFd>> {
    let index = index_of(interface);
    index
        .map(|index| claim_interface(index, interface))
        .transpose()
}

/// Claims an interface for as long as the socket is open: one program of this host attaches it.
fn claim_interface(index: u32, interface: &str) -> Result<OwnedFd> {
    let bound = || {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        let name = format!("weir/interface/{index}");
        bind(
            &socket,
            &SocketAddrUnix::new_abstract_name(name.as_bytes())?,
        )?;
        Ok(socket)
    };
    bound().map_err(|error| match error {
        Errno::ADDRINUSE => Error::new(
            Kind::InUse,
            format_args!(
                "interface ‘{interface}’ is attached by another node or `weir run` of this host: `weir link detach` it there, or end that, first"
            ),
        ),
        error => Error::failed(format_args!("interface ‘{interface}’: {error}")),
    })
}

/// The number of an interface of the host.
fn index_of(name: &str) -> Option<u32> {
    let found = network::interface(None, name).ok()?;
    found.map(|it| it.index)
}

/// Why an interface passes nothing: it is set down, or is not there.
fn passes_nothing(place: Option<&str>, interface: &str) -> Option<String> {
    match network::interface(place, interface) {
        Ok(Some(it)) => (!it.is_up).then(|| is_down(place, interface)),
        Ok(None) => Some(is_gone(place, interface)),
        Err(error) => Some(error.error),
    }
}

/// That an interface is not there any more.
fn is_gone(place: Option<&str>, interface: &str) -> String {
    format!(
        "there is no interface ‘{interface}’{}: it was removed, renamed or moved away",
        within(place)
    )
}

/// That an interface is set down, and how to set it up.
fn is_down(place: Option<&str>, interface: &str) -> String {
    let up = match place {
        None => format!("ip link set {interface} up"),
        Some(path) if path.contains('/') => {
            format!("nsenter --net={path} ip link set {interface} up")
        }
        Some(name) => format!("ip -n {name} link set {interface} up"),
    };
    format!("interface ‘{interface}’{} is down: `{up}`", within(place))
}

fn within(place: Option<&str>) -> String {
    place.map_or_else(String::new, |name| format!(" in namespace ‘{name}’"))
}

/// The namespace that a VNIC's interface is in; `None` is the host's own.
fn place(vnic: &VnicRecord) -> Option<&str> {
    vnic.namespace.as_deref()
}
