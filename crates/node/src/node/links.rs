//! Links: attaching interfaces.

use switch::lookup::FlowDefault;
use switch::properties::{DomainProperties, PortProperties, Settle, cpus_here};

use super::Node;
use super::resource::{Resource, changed};
use super::switches::check_lookup;
use crate::error::{Error, Fault, InField, Result, Subject};
use crate::model::{
    Class, Link, LinkRecord, LinkStatus, Object, State, VnicRecord, check_interface, check_name,
};
use crate::store::Change;

/// MTU of a stub, unless it is given another, in bytes.
pub(super) const MTU: u16 = 1500;

impl Resource for Link {
    fn all(node: &mut Node) -> Result<Vec<Object<Link>>> {
        let mut links = node.store.all::<LinkRecord>()?;
        links.retain(|link| link.class == Class::Nic);
        let object = |link: LinkRecord| Object {
            status: node.link_status(&link),
            name: link.name,
            spec: link.spec,
        };
        Ok(links.into_iter().map(object).collect())
    }

    fn one(node: &mut Node, name: &str) -> Result<Object<Link>> {
        let link = node.find_link(name)?;
        if link.class == Class::Stub {
            return Err(Fault::IsStub { name: name.into() }.into());
        }
        Ok(Object {
            status: node.link_status(&link),
            name: link.name,
            spec: link.spec,
        })
    }

    fn create(node: &mut Node, name: &str, spec: Link) -> Result<()> {
        node.attach_link(name, spec)
    }

    fn change(node: &mut Node, name: &str, spec: Link) -> Result<()> {
        let spec = spec.canonical(name)?;
        let is = Self::one(node, name)?.spec;
        if !is.can_become(&spec) {
            return Err(Fault::Fixed {
                what: "link",
                name: name.into(),
                can: Link::CAN_CHANGE,
                field: changed(&is, &spec),
            }
            .into());
        }
        spec.properties.check()?;
        if spec.port != is.port {
            node.set_link(name, &spec.port)?;
        }
        if !spec.leads_as(&is) {
            node.set_remotes(name, &spec)?;
        }
        if spec.properties != is.properties {
            node.set_domain(name, &spec.properties)?;
        }
        Ok(())
    }

    /// Stubs, too: both are domains of the switch.
    fn reconcile(node: &mut Node) -> Result<()> {
        let links = node.store.all::<LinkRecord>()?;
        links.iter().for_each(|link| node.bring_link(link));
        Ok(())
    }

    fn delete(node: &mut Node, name: &str) -> Result<()> {
        node.remove_link(name, Class::Nic)
    }
}

impl Node {
    pub(super) fn find_link(&self, name: &str) -> Result<LinkRecord> {
        let found = self.store.get::<LinkRecord>(name)?;
        Ok(found.ok_or_else(|| Fault::NoLink { name: name.into() })?)
    }

    pub(super) fn link_status(&self, link: &LinkRecord) -> LinkStatus {
        let fault = self.fault(&Subject::Link(link.name.clone()));
        let down = fault.or_else(|| self.host.is_link_down(link));
        LinkStatus {
            class: link.class,
            mode: match link.class {
                Class::Stub => None,
                Class::Nic => self.host.port_kind(&link.name).or(link.kind()),
            },
            mtu: link.port.mtu.unwrap_or(link.mtu).min(link.mtu),
            state: if down.is_some() {
                State::Down
            } else {
                State::Up
            },
            reason: down.or_else(|| self.host.has_other_mtu(link)),
            vnics: self.index.vnics_on(&link.name).count(),
        }
    }

    /// Links and VNICs have one space of names: flows and statistics name either.
    pub(super) fn check_free(&self, name: &str) -> Result<()> {
        let taken = match self.store.get::<LinkRecord>(name)? {
            Some(link) if link.class == Class::Stub => "a stub",
            Some(_) => "an attached interface",
            None if self.store.get::<VnicRecord>(name)?.is_some() => "a VNIC",
            None => return Ok(()),
        };
        Err(Fault::Taken {
            what: taken,
            name: name.into(),
        }
        .into())
    }

    fn check_not_attached(&self, name: &str) -> Result<()> {
        match self.store.get::<LinkRecord>(name)? {
            Some(link) if link.class == Class::Nic => {
                Err(Fault::Attached { name: name.into() }.into())
            }
            _ => Ok(()),
        }
    }

    /// Attaches an interface of the host.
    pub fn attach_link(&mut self, name: &str, spec: Link) -> Result<()> {
        let spec = spec.canonical(name)?;
        match spec.interface() {
            None => check_name("link", name)?,
            Some(interface) => check_interface("link", interface)?,
        }
        self.check_not_attached(name)?;
        self.check_free(name)?;
        check_port(&spec.port, MTU)?;
        spec.properties.check()?;
        check_lookup(&spec.properties, "properties.lookup")?;
        self.need_switch()?;
        self.check_own_port(name, &spec.port)?;
        let change = self.store.change()?;
        let mut link = LinkRecord {
            name: name.into(),
            spec,
            domain: next_domain(&change)?,
            class: Class::Nic,
            mtu: MTU,
            gro: false,
            index: None,
            default: FlowDefault::default(),
        };
        let attached = self.host.attach_uplink(&link)?;
        (link.mtu, link.gro, link.index) = (attached.mtu, attached.gro, attached.index);
        let kept = check_mtu(&link)
            .and_then(|()| Ok(change.put(&link)?))
            .and_then(|()| self.commit_domain(change, &link));
        if let Err(error) = kept {
            self.host.detach(&link.name);
            return Err(error);
        }
        self.bring_settling();
        Ok(())
    }

    /// Sets the properties of a new link's domain, and commits the link.
    pub(super) fn commit_domain(&mut self, change: Change, link: &LinkRecord) -> Result<()> {
        let usual = DomainProperties::default();
        if link.properties == usual {
            return Ok(change.commit()?);
        }
        self.need_switch()?;
        let set = self.host.set_domain(link.domain, &link.properties);
        let kept = set.and_then(|()| Ok(change.commit()?));
        if kept.is_err() {
            // The number was not given: another link will have it.
            let _ = self.host.set_domain(link.domain, &usual);
        }
        kept
    }

    /// Detaches an interface, which is as it was before, or removes a stub.
    pub fn remove_link(&mut self, name: &str, class: Class) -> Result<()> {
        let link = self.find_link(name)?;
        if link.class != class {
            let name = name.into();
            return Err(match link.class {
                Class::Nic => Fault::NoStub { name }.into(),
                Class::Stub => Fault::IsStub { name }.into(),
            });
        }
        let standing = list(self.index.vnics_on(name));
        if let Some(standing) = standing {
            return Err(Fault::HasVnics {
                name: name.into(),
                vnics: standing,
            }
            .into());
        }
        self.check_no_flows(name)?;
        // While there is a record of it: a node that is killed in between finds it by that.
        self.host.put_back(name);
        let removed = self.store.with_spare(|| -> Result<()> {
            let change = self.store.change()?;
            change.remove::<LinkRecord>(name)?;
            self.drop_table(&change, name)?;
            Ok(change.commit()?)
        });
        if let Err(error) = removed {
            self.bring_link(&link);
            return Err(error);
        }
        self.index.remove_entries_to(name);
        self.host.detach(name);
        // Its number is never another's: nothing need be kept for it.
        let _ = self
            .host
            .set_domain(link.domain, &DomainProperties::default());
        Ok(())
    }

    /// Gives the port of a link's interface other properties, from its next frame on.
    pub(super) fn set_link(&mut self, name: &str, port: &PortProperties) -> Result<()> {
        let mut link = self.find_link(name)?;
        if link.class == Class::Stub {
            return Err(Fault::IsStub { name: name.into() }.into());
        }
        let old = std::mem::replace(&mut link.port, port.clone());
        check_port(&link.port, link.mtu)?;
        if link.port.mtu != old.mtu {
            check_mtu(&link)?;
        }
        self.check_own_port(name, &link.port)?;
        self.host.set_properties(name, &link.port)?;
        if let Err(error) = self.store.put(&link) {
            let _ = self.host.set_properties(name, &old);
            return Err(error.into());
        }
        Ok(())
    }

    /// Has a link to other hosts lead where `spec` says, from the next frame on.
    fn set_remotes(&mut self, name: &str, spec: &Link) -> Result<()> {
        let mut link = self.find_link(name)?;
        let old = link.clone();
        link.lead_as(spec);
        self.host.set_remotes(&link)?;
        if let Err(error) = self.store.put(&link) {
            let _ = self.host.set_remotes(&old);
            return Err(error.into());
        }
        Ok(())
    }

    /// Checks what the port of a link itself is to be like.
    fn check_own_port(&self, name: &str, port: &PortProperties) -> Result<()> {
        if port.settle == Settle::On {
            return Err(Fault::LinkSettles { link: name.into() }.into());
        }
        self.check_lanes(port).in_field("port.lanes")
    }

    /// Checks that the switch has as many lanes as a port asks for. A port that was attached before
    /// uses the lanes that exist.
    pub(super) fn check_lanes(&self, port: &PortProperties) -> Result<()> {
        let Some(asked) = port.lanes else {
            return Ok(());
        };
        match self.host.lane_count()? {
            there if usize::from(asked) <= there => Ok(()),
            there => Err(Fault::Lanes { asked, there }.into()),
        }
    }

    pub(super) fn check_no_flows(&self, name: &str) -> Result<()> {
        match list(self.index.flows_on(name)) {
            Some(flows) => Err(Fault::HasFlows {
                name: name.into(),
                flows,
            }
            .into()),
            None => Ok(()),
        }
    }
}

/// Refuses properties that the port of a link of this MTU cannot have.
fn check_port(port: &PortProperties, mtu: u16) -> Result<()> {
    let checked = port.check(mtu, &cpus_here()).map_err(Error::from);
    checked.map_err(|error| error.renamed("properties", "port"))
}

/// Whether a link's port can have the MTU that its properties ask for.
fn check_mtu(link: &LinkRecord) -> Result<()> {
    match link.port.mtu {
        Some(asked) if asked > link.mtu => Err(Fault::OwnMtu {
            link: link.name.clone(),
            asked,
            mtu: link.mtu,
        }
        .into()),
        _ => Ok(()),
    }
}

pub(super) fn next_domain(change: &Change) -> Result<u32> {
    let number = change.next("domain")?;
    u32::try_from(number)
        .map_err(|_| Error::failed("the host has had 4294967295 links, the maximum"))
}

/// The first few names, for a sentence; `None` if there is none.
pub(super) fn list<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    const MOST: usize = 5;
    let names: Vec<_> = names.collect();
    let shown = names[..names.len().min(MOST)].join(", ");
    match names.len() {
        0 => None,
        1..=MOST => Some(shown),
        more => Some(format!("{shown} and {} more", more - MOST)),
    }
}
