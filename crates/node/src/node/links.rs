//! Links: attaching interfaces, stubs, and the switching function of each.

use switch::lookup::FlowDefault;
use switch::properties::{DomainProperties, LookupKind, PortProperties, cpus_here};
use switch::protocol::PortKind;

use super::Node;
use crate::check;
use crate::error::{Error, Kind, Result};
use crate::model::{
    Address, Class, Link, LinkMode, LinkView, NewLink, NewStub, PropertyChange, State,
    SwitchChange, SwitchView, Vnic, check_interface, check_name, check_stub_mtu,
};
use crate::store::Change;

/// MTU of a stub, unless it is given another, in bytes.
pub(super) const MTU: u16 = 1500;

impl Node {
    /// All links.
    pub fn links(&self) -> Result<Vec<LinkView>> {
        let links = self.store.all::<Link>()?;
        Ok(links.iter().map(|link| self.view_link(link)).collect())
    }

    /// One link.
    pub fn link(&self, name: &str) -> Result<LinkView> {
        Ok(self.view_link(&self.find_link(name)?))
    }

    pub(super) fn find_link(&self, name: &str) -> Result<Link> {
        let found = self.store.get::<Link>(name)?;
        found.ok_or_else(|| {
            Error::not_found(format_args!(
                "no link ‘{name}’: `weir link show` lists those there are, `weir link attach` and `weir stub create` make more"
            ))
        })
    }

    pub(super) fn view_link(&self, link: &Link) -> LinkView {
        let fault = self.fault(&link.name);
        let down = fault.or_else(|| self.host.is_link_down(link));
        LinkView {
            name: link.name.clone(),
            class: link.class,
            mode: match (self.host.port_kind(&link.name), link.class) {
                (_, Class::Stub) => None,
                (Some(PortKind::Xdp), _) => Some(LinkMode::Xdp),
                (Some(PortKind::Packet), _) => Some(LinkMode::Packet),
                (Some(PortKind::Tap), _) => Some(LinkMode::Tap),
                (Some(PortKind::Vxlan), _) => Some(LinkMode::Vxlan),
                _ => link.mode,
            },
            tunnel: link.tunnel.clone(),
            mtu: link.port.mtu.unwrap_or(link.mtu).min(link.mtu),
            state: match down {
                Some(_) => State::Down,
                None => State::Up,
            },
            reason: down.or_else(|| self.host.has_other_mtu(link)),
            vnics: self.index.vnics_on(&link.name).count(),
            properties: link.port.clone(),
        }
    }

    /// Links and VNICs have one space of names: flows and statistics name either.
    pub(super) fn check_free(&self, name: &str) -> Result<()> {
        let taken = match self.store.get::<Link>(name)? {
            Some(link) if link.class == Class::Stub => "a stub",
            Some(_) => "an attached interface",
            None if self.store.get::<Vnic>(name)?.is_some() => "a VNIC",
            None => return Ok(()),
        };
        Err(Error::new(
            Kind::Exists,
            format_args!("there is {taken} called ‘{name}’ already: choose another name"),
        ))
    }

    fn check_not_attached(&self, name: &str) -> Result<()> {
        match self.store.get::<Link>(name)? {
            Some(link) if link.class == Class::Nic => Err(Error::new(
                Kind::Exists,
                format_args!(
                    "‘{name}’ is attached already: `weir link detach {name}` first to attach it otherwise"
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Attaches an interface of the host.
    pub fn attach_link(&mut self, new: NewLink) -> Result<LinkView> {
        match (new.mode, &new.tunnel) {
            (Some(LinkMode::Vxlan), Some(_)) => check_name("link", &new.name)?,
            (Some(LinkMode::Vxlan), None) => {
                return Err(Error::invalid(
                    "a link by VXLAN needs a network and other hosts: --vni N --remote ADDRESS,…",
                ));
            }
            (_, Some(_)) => {
                return Err(Error::invalid(
                    "--vni, --remote, --local and --port are for --mode vxlan only",
                ));
            }
            (_, None) => check_interface("link", &new.name)?,
        }
        self.check_not_attached(&new.name)?;
        self.check_free(&new.name)?;
        let mut port = PortProperties::default();
        port.set_all(&new.properties)?;
        port.check(MTU, &cpus_here())?;
        self.need_switch()?;
        self.check_lanes(&port)?;
        let change = self.store.change()?;
        let mut link = Link {
            name: new.name,
            domain: next_domain(&change)?,
            class: Class::Nic,
            mode: new.mode,
            tunnel: new.tunnel,
            mtu: MTU,
            gro: false,
            index: None,
            port,
            properties: DomainProperties::default(),
            default: FlowDefault::default(),
        };
        let attached = self.host.attach_uplink(&link)?;
        (link.mtu, link.gro, link.index) = (attached.mtu, attached.gro, attached.index);
        let kept = check_mtu(&link)
            .and_then(|()| Ok(change.put(&link)?))
            .and_then(|()| Ok(change.commit()?));
        if let Err(error) = kept {
            self.host.detach(&link.name);
            return Err(error);
        }
        Ok(self.view_link(&link))
    }

    /// Makes a stub.
    pub fn create_stub(&mut self, new: NewStub) -> Result<LinkView> {
        check_name("stub", &new.name)?;
        self.check_free(&new.name)?;
        let mtu = new.mtu.unwrap_or(MTU);
        check_stub_mtu(mtu)?;
        let change = self.store.change()?;
        let link = Link {
            name: new.name,
            domain: next_domain(&change)?,
            class: Class::Stub,
            mode: None,
            tunnel: None,
            mtu,
            gro: false,
            index: None,
            port: PortProperties::default(),
            properties: DomainProperties::default(),
            default: FlowDefault::default(),
        };
        change.put(&link)?;
        change.commit()?;
        Ok(self.view_link(&link))
    }

    /// Detaches an interface, which is as it was before, or removes a stub.
    pub fn remove_link(&mut self, name: &str, class: Class) -> Result<()> {
        let link = self.find_link(name)?;
        if link.class != class {
            let verb = match link.class {
                Class::Nic => "an attached interface: `weir link detach`",
                Class::Stub => "a stub: `weir stub delete`",
            };
            return Err(Error::invalid(format_args!("‘{name}’ is {verb}")));
        }
        let standing = list(self.index.vnics_on(name));
        if let Some(standing) = standing {
            return Err(Error::new(
                Kind::InUse,
                format_args!("‘{name}’ is in use: delete what stands on it first ({standing})"),
            ));
        }
        self.check_no_flows(name)?;
        let change = self.store.change()?;
        change.remove::<Link>(name)?;
        self.drop_table(&change, name)?;
        // While there is a record of it: a node that is killed in between finds it by that.
        self.host.put_back(name);
        if let Err(error) = change.commit() {
            self.bring_link(&link);
            return Err(error.into());
        }
        self.index.remove_entries_to(name);
        self.host.detach(name);
        // Its number is never another's: nothing need be kept for it.
        let _ = self
            .host
            .set_domain(link.domain, &DomainProperties::default());
        Ok(())
    }

    /// Changes what the port of a link's interface may do; from its next frame on.
    pub fn set_link(&mut self, name: &str, new: &PropertyChange) -> Result<LinkView> {
        let mut link = self.find_link(name)?;
        if link.class == Class::Stub {
            return Err(Error::invalid(format_args!(
                "‘{name}’ is a stub, which has no interface: set properties of its VNICs, or `weir switch set {name}`"
            )));
        }
        let old = link.port.clone();
        for property in &new.reset {
            link.port.reset(property)?;
        }
        link.port.set_all(&new.set)?;
        link.port.check(link.mtu, &cpus_here())?;
        if link.port.mtu != old.mtu {
            check_mtu(&link)?;
        }
        self.check_lanes(&link.port)?;
        self.host.set_properties(name, &link.port)?;
        if let Err(error) = self.store.put(&link) {
            let _ = self.host.set_properties(name, &old);
            return Err(error.into());
        }
        Ok(self.view_link(&link))
    }

    /// Whether the switch has as many lanes as a port is to be served by. One that was taken up
    /// before makes do with those that there are.
    pub(super) fn check_lanes(&self, port: &PortProperties) -> Result<()> {
        let Some(asked) = port.lanes else {
            return Ok(());
        };
        match self.host.lane_count()? {
            there if usize::from(asked) <= there => Ok(()),
            there => Err(Error::invalid(format_args!(
                "lanes={asked} cannot be: the switch has {}; end the node and start `weir node --lanes {asked}` for more",
                match there {
                    1 => "1 lane".to_string(),
                    there => format!("{there} lanes"),
                }
            ))),
        }
    }

    pub(super) fn check_no_flows(&self, name: &str) -> Result<()> {
        match list(self.index.flows_on(name)) {
            Some(flows) => Err(Error::new(
                Kind::InUse,
                format_args!("‘{name}’ has flows: remove them first ({flows})"),
            )),
            None => Ok(()),
        }
    }

    /// The switching functions of all links.
    pub fn switches(&self) -> Result<Vec<SwitchView>> {
        let links = self.store.all::<Link>()?;
        Ok(links.into_iter().map(view_switch).collect())
    }

    /// The switching function of a link.
    pub fn switch(&self, link: &str) -> Result<SwitchView> {
        self.find_link(link).map(view_switch)
    }

    /// Changes how a link's switch works.
    pub fn set_switch(&mut self, name: &str, new: SwitchChange) -> Result<SwitchView> {
        let mut link = self.find_link(name)?;
        let (defaults, properties): (Vec<_>, Vec<_>) = new
            .reset
            .iter()
            .partition(|property| *property == "default");
        for property in properties {
            link.properties.reset(property)?;
        }
        link.properties.set_all(&new.set)?;
        let mut missing = Vec::new();
        if let Some(config) = new.click {
            let named = check::lookup(&config, new.file.as_deref().unwrap_or("lookup"))?;
            missing = self.without_port(&link, named)?;
            link.properties.lookup = LookupKind::Click { config };
        }
        let is_table = link.properties.lookup == LookupKind::FlowTable;
        // Without a flow table there is none.
        let reset = (is_table && !defaults.is_empty()).then(|| "normal".to_string());
        let default = new.default.or(reset);
        // Told before anything is changed.
        if let Some(default) = &default {
            check_has_default(&link)?;
            self.default_of(&link, default)?;
        }
        self.set_domain(name, &link.properties)?;
        if let Some(default) = &default {
            self.set_default(name, default)?;
        }
        let view = self.find_link(name).map(view_switch)?;
        Ok(SwitchView { missing, ..view })
    }

    /// Of these names, those that no port of a link has.
    fn without_port(&self, link: &Link, names: Vec<String>) -> Result<Vec<String>> {
        let vnics: Vec<&str> = self.index.vnics_on(&link.name).collect();
        let mut missing = Vec::new();
        for name in names {
            let is_own = name == link.name && link.class == Class::Nic;
            if !is_own && !vnics.contains(&name.as_str()) && !self.is_patch(&name)? {
                missing.push(name);
            }
        }
        Ok(missing)
    }

    /// Has a link's switch work by these properties.
    pub(super) fn set_domain(&mut self, name: &str, properties: &DomainProperties) -> Result<()> {
        properties.check()?;
        self.need_switch()?;
        let mut link = self.find_link(name)?;
        let old = std::mem::replace(&mut link.properties, properties.clone());
        let table = |properties: &DomainProperties| properties.lookup == LookupKind::FlowTable;
        let change = self.store.change()?;
        // A flow table's entries go with it.
        let gone = match table(&old) && !table(properties) {
            true => {
                link.default = FlowDefault::default();
                self.drop_table(&change, name)?
            }
            false => Vec::new(),
        };
        change.put(&link)?;
        self.host.set_domain(link.domain, properties)?;
        if let Err(error) = change.commit() {
            let _ = self.host.set_domain(link.domain, &old);
            self.host.forget_entries_of(link.domain);
            for entry in &gone {
                self.bring_entries(&entry.port);
            }
            return Err(error.into());
        }
        for entry in &gone {
            self.index.remove_entry(entry);
        }
        if table(&old) != table(properties) {
            self.host.forget_entries_of(link.domain);
        }
        Ok(())
    }

    /// Has a link's flow table send what has no entry elsewhere.
    pub(super) fn set_default(&mut self, name: &str, text: &str) -> Result<()> {
        let mut link = self.find_link(name)?;
        check_has_default(&link)?;
        let old = link.clone();
        link.default = self.default_of(&link, text)?;
        self.bring_default(&link)?;
        if let Err(error) = self.store.put(&link) {
            let _ = self.bring_default(&old);
            return Err(error.into());
        }
        Ok(())
    }

    /// The addresses that a link's switch knows.
    pub fn addresses(&self, name: &str) -> Result<Vec<Address>> {
        let link = self.find_link(name)?;
        let mut addresses = self.host.table(link.domain)?;
        addresses.sort_by_key(|address| (address.vlan, address.mac));
        Ok(addresses)
    }

    /// Has a link's switch forget what it learned.
    pub fn flush(&self, name: &str) -> Result<()> {
        self.host.flush(self.find_link(name)?.domain)
    }
}

/// Whether a link's switch sends what has no entry somewhere.
fn check_has_default(link: &Link) -> Result<()> {
    match &link.properties.lookup {
        LookupKind::FlowTable => Ok(()),
        other => Err(Error::invalid(format_args!(
            "--default is for --lookup flow-table only; ‘{}’ works by {other}",
            link.name
        ))),
    }
}

/// Whether a link's port can have the MTU that its properties ask for.
fn check_mtu(link: &Link) -> Result<()> {
    match link.port.mtu {
        Some(asked) if asked > link.mtu => Err(Error::invalid(format_args!(
            "mtu={asked} for ‘{}’ cannot be: it has an MTU of {} bytes, which is the most",
            link.name, link.mtu
        ))),
        _ => Ok(()),
    }
}

fn view_switch(link: Link) -> SwitchView {
    let default = match (&link.properties.lookup, &link.default) {
        (LookupKind::FlowTable, FlowDefault::Addresses) => Some("normal".into()),
        (LookupKind::FlowTable, FlowDefault::Drop) => Some("drop".into()),
        (LookupKind::FlowTable, FlowDefault::Port(port)) => Some(format!("output:{port}")),
        _ => None,
    };
    SwitchView {
        default,
        link: link.name,
        properties: link.properties,
        missing: Vec::new(),
    }
}

fn next_domain(change: &Change) -> Result<u32> {
    let number = change.next("domain")?;
    u32::try_from(number).map_err(|_| Error::failed("there have been 4294967295 links already"))
}

/// The first few names, for a sentence; `None` if there is none.
fn list<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    const MOST: usize = 5;
    let names: Vec<_> = names.collect();
    let shown = names[..names.len().min(MOST)].join(", ");
    match names.len() {
        0 => None,
        1..=MOST => Some(shown),
        more => Some(format!("{shown} and {} more", more - MOST)),
    }
}
