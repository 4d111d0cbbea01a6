//! The switching function of each link and stub.

use switch::lookup::FlowDefault;
use switch::properties::{DomainProperties, LookupKind};

use super::Node;
use super::resource::Resource;
use crate::check;
use crate::error::{Error, Fault, InField, Result};
use crate::model::{Address, Class, LinkRecord, Object, SwitchFunction, SwitchStatus, action_text};

impl Resource for SwitchFunction {
    fn all(node: &mut Node) -> Result<Vec<Object<SwitchFunction>>> {
        let links = node.store.all::<LinkRecord>()?;
        Ok(links.into_iter().map(view_switch).collect())
    }

    fn one(node: &mut Node, name: &str) -> Result<Object<SwitchFunction>> {
        node.find_link(name).map(view_switch)
    }
}

impl Node {
    /// Changes the switch of a link to `new`. The default of a flow table is `normal` unless given.
    pub fn set_switch(
        &mut self,
        name: &str,
        new: &SwitchFunction,
    ) -> Result<Object<SwitchFunction>> {
        let mut link = self.find_link(name)?;
        let mut missing = Vec::new();
        link.properties = new.properties();
        if let LookupKind::Click { config } = &new.lookup {
            let named = check::lookup(config, new.file.as_deref().unwrap_or("lookup"))
                .in_field("lookup.click.config")?;
            missing = self.without_port(&link, named)?;
        }
        let is_table = link.properties.lookup == LookupKind::FlowTable;
        // Refused before anything is changed.
        if let Some(default) = &new.default {
            check_has_default(&link)?;
            self.default_of(&link, default).in_field("default")?;
        }
        self.set_domain(name, &link.properties)?;
        if is_table {
            self.set_default(name, new.default.as_deref().unwrap_or("normal"))?;
        }
        let mut view = self.find_link(name).map(view_switch)?;
        view.status = SwitchStatus { missing };
        Ok(view)
    }

    /// The names among these that no port of a link has.
    fn without_port(&self, link: &LinkRecord, names: Vec<String>) -> Result<Vec<String>> {
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

    /// Sets the properties of a link's switch.
    pub(super) fn set_domain(&mut self, name: &str, properties: &DomainProperties) -> Result<()> {
        properties.check().map_err(Error::of_switch)?;
        self.need_switch()?;
        let mut link = self.find_link(name)?;
        let old = std::mem::replace(&mut link.properties, properties.clone());
        let table = |properties: &DomainProperties| properties.lookup == LookupKind::FlowTable;
        let change = self.store.change()?;
        // A flow table's entries go with it.
        let gone = if table(&old) && !table(properties) {
            link.default = FlowDefault::default();
            self.drop_table(&change, name)?
        } else {
            Vec::new()
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

    /// Changes the default of a link's flow table.
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

    /// Removes the learned addresses of a link's switch.
    pub fn flush(&self, name: &str) -> Result<()> {
        self.host.flush(self.find_link(name)?.domain)
    }
}

/// Checks that a link's switch has a default for frames without an entry.
fn check_has_default(link: &LinkRecord) -> Result<()> {
    match &link.properties.lookup {
        LookupKind::FlowTable => Ok(()),
        other => Err(Fault::NoDefault {
            name: link.name.clone(),
            lookup: other.to_string(),
        }
        .into()),
    }
}

fn view_switch(link: LinkRecord) -> Object<SwitchFunction> {
    let is_table = link.properties.lookup == LookupKind::FlowTable;
    let spec = SwitchFunction {
        default: is_table.then(|| action_text(&link.default)),
        ..SwitchFunction::from(link.spec.properties)
    };
    Object::new(link.name, spec)
}

/// Refuses a Click configuration that cannot be a lookup function; `field` is what has it.
pub(super) fn check_lookup(properties: &DomainProperties, field: &str) -> Result<()> {
    if let LookupKind::Click { config } = &properties.lookup {
        check::lookup(config, "lookup").in_field(&format!("{field}.click.config"))?;
    }
    Ok(())
}
