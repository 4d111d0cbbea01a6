//! Flows.

use super::Node;
use super::resource::Resource;
use crate::error::{Error, Fault, Kind, Result, Subject};
use crate::model::{
    Flow, FlowRecord, FlowStats, FlowStatus, LinkRecord, Object, State, check_name,
};

impl Resource for Flow {
    fn all(node: &mut Node) -> Result<Vec<Object<Flow>>> {
        let flows = node.store.all::<FlowRecord>()?;
        Ok(flows.into_iter().map(|flow| node.view_flow(flow)).collect())
    }

    fn one(node: &mut Node, name: &str) -> Result<Object<Flow>> {
        Ok(node.view_flow(node.find_flow(name)?))
    }

    fn create(node: &mut Node, name: &str, spec: Flow) -> Result<()> {
        node.add_flow(name, spec)
    }

    fn change(node: &mut Node, name: &str, spec: Flow) -> Result<()> {
        node.change_flow(name, spec)
    }

    fn delete(node: &mut Node, name: &str) -> Result<()> {
        node.remove_flow(name)
    }
}

impl Node {
    pub(super) fn find_flow(&self, name: &str) -> Result<FlowRecord> {
        let found = self.store.get::<FlowRecord>(name)?;
        Ok(found.ok_or_else(|| Fault::NoFlow { name: name.into() })?)
    }

    fn view_flow(&self, flow: FlowRecord) -> Object<Flow> {
        let up = self.host.has_flow(&flow.name);
        let fault = self.host.fault(&Subject::Flow(flow.name.clone()));
        let reason = fault.map_or_else(|| format!("‘{}’ is not up", flow.link), str::to_string);
        Object {
            name: flow.name,
            spec: flow.spec,
            status: FlowStatus {
                state: if up { State::Up } else { State::Down },
                reason: (!up).then_some(reason),
            },
        }
    }

    /// Whether a name is no flow's yet.
    pub(super) fn check_no_flow(&self, name: &str) -> Result<()> {
        match self.store.get::<FlowRecord>(name)? {
            None => Ok(()),
            Some(_) => Err(Fault::FlowExists { name: name.into() }.into()),
        }
    }

    /// Adds a flow on a link or VNIC. On a VNIC that is not up it waits until that is.
    pub fn add_flow(&mut self, name: &str, spec: Flow) -> Result<()> {
        check_name("flow", name)?;
        self.check_no_flow(name)?;
        let domain = self.domain_of(&spec.link)?;
        check_attributes(&spec)?;
        let flow = FlowRecord {
            name: name.into(),
            spec,
        };
        self.need_switch()?;
        let change = self.store.change()?;
        change.put(&flow)?;
        self.put_up(&flow, domain)?;
        if let Err(error) = change.commit() {
            self.host.remove_flow(&flow.name);
            return Err(error.into());
        }
        self.index.add_flow(&flow);
        Ok(())
    }

    /// Puts another flow in the place of one. If that cannot be, the old one is there again.
    fn change_flow(&mut self, name: &str, spec: Flow) -> Result<()> {
        let old = self.find_flow(name)?;
        let domain = self.domain_of(&spec.link)?;
        check_attributes(&spec)?;
        let new = FlowRecord {
            name: name.into(),
            spec,
        };
        self.need_switch()?;
        let change = self.store.change()?;
        change.put(&new)?;
        self.host.remove_flow(name);
        let up = self.put_up(&new, domain);
        if let Err(error) = up.and_then(|()| Ok(change.commit()?)) {
            self.host.remove_flow(name);
            let brought = self.bring_flow(name);
            self.host.note(Subject::Flow(name.into()), brought);
            return Err(error);
        }
        self.index.remove_flow(&old);
        self.index.add_flow(&new);
        self.host.clear_fault(&Subject::Flow(name.into()));
        Ok(())
    }

    /// The number of a link's domain; `None` for a VNIC.
    fn domain_of(&self, name: &str) -> Result<Option<u32>> {
        if let Some(link) = self.store.get::<LinkRecord>(name)? {
            return Ok(Some(link.domain));
        }
        match self.find_vnic(name) {
            Ok(_) => Ok(None),
            Err(Error {
                kind: Kind::NotFound,
                ..
            }) => Err(Fault::NoLinkOrVnic { name: name.into() }.into()),
            Err(error) => Err(error),
        }
    }

    /// Removes a flow.
    pub fn remove_flow(&mut self, name: &str) -> Result<()> {
        let flow = self.find_flow(name)?;
        let change = self.store.change()?;
        change.remove::<FlowRecord>(name)?;
        change.commit()?;
        self.index.remove_flow(&flow);
        self.host.remove_flow(name);
        self.host.clear_fault(&Subject::Flow(name.into()));
        Ok(())
    }

    /// Adds missing flows on a link or VNIC, and the flow table's entries that lead to it, as far
    /// as possible.
    pub(super) fn bring_flows(&mut self, on: &str) {
        let names: Vec<_> = self.index.flows_on(on).map(str::to_string).collect();
        for name in names {
            let brought = self.bring_flow(&name);
            self.host.note(Subject::Flow(name), brought);
        }
        self.bring_entries(on);
    }

    pub(super) fn bring_flow(&mut self, name: &str) -> Result<()> {
        let Some(flow) = self.store.get::<FlowRecord>(name)? else {
            return Ok(());
        };
        let domain = self.domain_of(&flow.link)?;
        self.put_up(&flow, domain)
    }

    /// Gives a flow to the switch, if what it is on is there: a link's domain, or a VNIC that is up.
    fn put_up(&mut self, flow: &FlowRecord, domain: Option<u32>) -> Result<()> {
        if domain.is_none() && !self.host.has_port(&flow.link) {
            return Ok(());
        }
        let added = self.host.add_flow(flow, domain);
        added.map_err(|error| match error.kind {
            // It shares frames with another.
            Kind::Refused => error.of_field("attributes"),
            _ => error,
        })
    }

    /// The counters of each flow; 0 for a flow that is not up.
    pub fn flow_stats(&self) -> Result<Vec<FlowStats>> {
        let counted = self.host.flow_stats()?;
        let stats = |flow: FlowRecord| {
            let found = counted.iter().find(|stats| stats.name == flow.name);
            FlowStats {
                name: flow.name,
                link: flow.spec.link,
                ..found.cloned().unwrap_or_default()
            }
        };
        Ok(self
            .store
            .all::<FlowRecord>()?
            .into_iter()
            .map(stats)
            .collect())
    }

    /// What passed of one flow.
    pub fn stats_of_flow(&self, name: &str) -> Result<FlowStats> {
        let flow = self.find_flow(name)?;
        let counted = self.host.flow_stats()?;
        let found = counted.into_iter().find(|stats| stats.name == name);
        Ok(FlowStats {
            name: flow.name,
            link: flow.spec.link,
            ..found.unwrap_or_default()
        })
    }
}

/// Refuses attributes that no frame can have all of.
fn check_attributes(flow: &Flow) -> Result<()> {
    let checked = flow.attributes.check().map_err(Error::from);
    checked.map_err(|error| error.renamed("properties", "attributes"))
}
