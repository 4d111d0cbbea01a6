//! Entries of flow tables: which port of a link a flow goes to.

use switch::lookup::{Flow, FlowDefault};
use switch::properties::LookupKind;

use super::Node;
use crate::error::{Error, Fault, InField, Kind, Result, Subject};
use crate::model::{Class, Entry, EntryRecord, EntryStatus, LinkRecord, State, VnicRecord, output};
use crate::store::Change;

impl Node {
    /// The link, if it works by a flow table.
    fn flow_table(&self, name: &str) -> Result<LinkRecord> {
        let link = self.find_link(name)?;
        match link.properties.lookup {
            LookupKind::FlowTable => Ok(link),
            _ => Err(Fault::NoTable {
                name: name.into(),
                lookup: link.properties.lookup.to_string(),
            }
            .into()),
        }
    }

    /// A name that must be a port's of a link: a VNIC's on it, or its own.
    fn check_port(&self, link: &LinkRecord, port: &str) -> Result<()> {
        let own = link.name == port && link.class == Class::Nic;
        let vnic = self.store.get::<VnicRecord>(port)?;
        if own || vnic.is_some_and(|vnic| vnic.link == link.name) {
            return Ok(());
        }
        Err(Fault::NotOnLink {
            port: port.into(),
            link: link.name.clone(),
        }
        .into())
    }

    /// The entries of a link's flow table: made by command, and learned.
    pub fn flow_entries(&self, name: &str) -> Result<Vec<Entry>> {
        let link = self.flow_table(name)?;
        let mut there = match self.host.entries_of(link.domain) {
            // A domain without ports.
            Err(error) if error.kind == Kind::Refused => Vec::new(),
            there => there?,
        };
        let known: std::collections::HashSet<Flow> = there.iter().map(|(flow, ..)| *flow).collect();
        let wanted = self.store.all::<EntryRecord>()?.into_iter();
        let down: Vec<_> = wanted
            .filter(|entry| entry.link == name && !known.contains(&entry.flow))
            .map(|entry| (entry.flow, entry.port, None))
            .collect();
        there.extend(down);
        there.sort();
        let view = |(flow, port, age): (Flow, String, Option<u32>)| {
            let up = known.contains(&flow);
            entry(flow, port, age, up)
        };
        Ok(there.into_iter().map(view).collect())
    }

    /// Adds an entry for a flow to a port, or replaces the flow's former entry. An entry for a port
    /// that is down waits until it is up.
    pub fn add_flow_entry(&mut self, link: &str, new: &Entry) -> Result<Entry> {
        let link = self.flow_table(link)?;
        self.check_port(&link, &new.port)?;
        let flow: Flow = new.flow.parse().map_err(Error::invalid).in_field("flow")?;
        self.need_switch()?;
        let name = EntryRecord::key(&link.name, flow);
        let old = self.store.get::<EntryRecord>(&name)?;
        let entry = EntryRecord {
            name,
            link: link.name,
            flow,
            port: new.port.clone(),
        };
        let change = self.store.change()?;
        change.put(&entry)?;
        let up = self.host.has_port(&entry.port);
        if let Some(old) = &old {
            self.host.remove_entry(link.domain, flow, &old.port);
        }
        let added = if up {
            self.host.add_entry(link.domain, flow, &entry.port)
        } else {
            Ok(())
        };
        let kept = added.and_then(|()| Ok(change.commit()?));
        if let Err(error) = kept {
            self.host.remove_entry(link.domain, flow, &entry.port);
            if let Some(old) = old.filter(|old| self.host.has_port(&old.port)) {
                let _ = self.host.add_entry(link.domain, flow, &old.port);
            }
            return Err(error);
        }
        if let Some(old) = old {
            self.index.remove_entry(&old);
        }
        self.index.add_entry(&entry);
        Ok(self::entry(flow, entry.port, None, up))
    }

    /// Removes a flow's entry that was made by command.
    pub fn remove_flow_entry(&mut self, link: &str, flow: &str) -> Result<()> {
        let link = self.flow_table(link)?;
        let flow: Flow = flow.parse().map_err(Error::invalid)?;
        let key = EntryRecord::key(&link.name, flow);
        let Some(entry) = self.store.get::<EntryRecord>(&key)? else {
            return Err(Fault::NoEntry {
                link: link.name,
                flow: flow.to_string(),
            }
            .into());
        };
        let change = self.store.change()?;
        change.remove::<EntryRecord>(&key)?;
        change.commit()?;
        self.index.remove_entry(&entry);
        self.host.remove_entry(link.domain, flow, &entry.port);
        Ok(())
    }

    /// Refuses to let a VNIC go that is the default of its link's flow table.
    pub(super) fn check_no_default(&self, vnic: &VnicRecord) -> Result<()> {
        let link = self.find_link(&vnic.link)?;
        if link.default != FlowDefault::Port(vnic.name.clone()) {
            return Ok(());
        }
        Err(Fault::IsDefault {
            vnic: vnic.name.clone(),
            link: vnic.link.clone(),
        }
        .into())
    }

    /// Removes the entries of a port that goes, and its role as its link's default.
    pub(super) fn drop_entries(&self, change: &Change, link: &str, port: &str) -> Result<()> {
        for name in self.index.entries_to(port) {
            change.remove::<EntryRecord>(name)?;
        }
        if let Some(mut link) = self.store.get::<LinkRecord>(link)?
            && link.default == FlowDefault::Port(port.into())
        {
            link.default = FlowDefault::Addresses;
            change.put(&link)?;
        }
        Ok(())
    }

    /// Removes all entries of a link, whose switch is to work otherwise.
    pub(super) fn drop_table(&self, change: &Change, link: &str) -> Result<Vec<EntryRecord>> {
        let mut gone = self.store.all::<EntryRecord>()?;
        gone.retain(|entry| entry.link == link);
        for entry in &gone {
            change.remove::<EntryRecord>(&entry.name)?;
        }
        Ok(gone)
    }

    /// The default of a link's flow table, from ovs-ofctl's words for it.
    pub(super) fn default_of(&self, link: &LinkRecord, text: &str) -> Result<FlowDefault<String>> {
        match (text, output(text)) {
            ("normal", _) => Ok(FlowDefault::Addresses),
            ("drop", _) => Ok(FlowDefault::Drop),
            (_, Some(port)) => {
                self.check_port(link, port)?;
                Ok(FlowDefault::Port(port.into()))
            }
            _ => Err(Fault::Action {
                action: text.into(),
            }
            .into()),
        }
    }

    /// Sets the default of a link's flow table in the switch, as far as its port exists.
    pub(super) fn bring_default(&self, link: &LinkRecord) -> Result<()> {
        match &link.default {
            FlowDefault::Port(port) if !self.host.has_port(port) => Ok(()),
            default => match self.host.set_default(link.domain, default) {
                // A domain without ports: this is done again when it has one.
                Err(error) if error.kind == Kind::Refused => Ok(()),
                done => done,
            },
        }
    }

    /// Adds the entries for a port that are not there, and the default of its link.
    pub(super) fn bring_entries(&mut self, port: &str) {
        let brought = self.try_entries(port);
        self.host.note(Subject::Entries(port.into()), brought);
    }

    fn try_entries(&mut self, port: &str) -> Result<()> {
        if !self.host.has_port(port) {
            return Ok(());
        }
        let link = match self.store.get::<VnicRecord>(port)? {
            Some(vnic) => vnic.spec.link,
            None => port.into(),
        };
        let link = self.store.get::<LinkRecord>(&link)?;
        let table = |link: &LinkRecord| link.properties.lookup == LookupKind::FlowTable;
        let Some(link) = link.filter(table) else {
            return Ok(());
        };
        if link.default != FlowDefault::Addresses {
            self.bring_default(&link)?;
        }
        let names: Vec<_> = self.index.entries_to(port).map(str::to_string).collect();
        for name in names {
            if let Some(entry) = self.store.get::<EntryRecord>(&name)? {
                self.host.add_entry(link.domain, entry.flow, port)?;
            }
        }
        Ok(())
    }

    /// Takes over the flow tables of a switch that outlived its node, and removes entries that are
    /// in no record: a killed node left them.
    pub(super) fn adopt_tables(&mut self) -> Result<()> {
        for link in self.store.all::<LinkRecord>()? {
            if link.properties.lookup != LookupKind::FlowTable {
                continue;
            }
            match self.host.adopt_entries(link.domain) {
                Err(error) if error.kind == Kind::Refused => continue,
                done => done?,
            }
            for (flow, port, age) in self.host.entries_of(link.domain)? {
                let wanted = self
                    .store
                    .get::<EntryRecord>(&EntryRecord::key(&link.name, flow))?;
                let wanted = wanted.is_some_and(|entry| entry.port == port);
                if age.is_none() && !wanted {
                    self.host.remove_entry(link.domain, flow, &port);
                }
            }
        }
        Ok(())
    }
}

/// An entry as the API has it.
fn entry(flow: Flow, port: String, age: Option<u32>, up: bool) -> Entry {
    let state = if up { State::Up } else { State::Down };
    Entry {
        flow: flow.to_string(),
        port,
        status: EntryStatus { age, state },
    }
}
