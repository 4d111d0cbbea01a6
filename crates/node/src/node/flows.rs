//! Flows.

use switch::properties::FlowProperties;

use super::Node;
use crate::error::{Error, Kind, Result};
use crate::model::{Flow, FlowStats, FlowView, Link, NewFlow, State, check_name};

/// The name under which what is wrong with a flow is noted: names have no spaces.
pub(super) fn flow_fault(name: &str) -> String {
    format!("flow {name}")
}

impl Node {
    /// All flows.
    pub fn flows(&self) -> Result<Vec<FlowView>> {
        let flows = self.store.all::<Flow>()?;
        Ok(flows.into_iter().map(|flow| self.view_flow(flow)).collect())
    }

    /// One flow.
    pub fn flow(&self, name: &str) -> Result<FlowView> {
        Ok(self.view_flow(self.find_flow(name)?))
    }

    fn find_flow(&self, name: &str) -> Result<Flow> {
        let found = self.store.get::<Flow>(name)?;
        found.ok_or_else(|| {
            Error::not_found(format_args!(
                "no flow ‘{name}’: `weir flow show` lists those there are"
            ))
        })
    }

    fn view_flow(&self, flow: Flow) -> FlowView {
        let up = self.host.has_flow(&flow.name);
        let fault = self.host.fault(&flow_fault(&flow.name));
        let reason = fault.map_or_else(|| format!("‘{}’ is not up", flow.link), str::to_string);
        FlowView {
            state: if up { State::Up } else { State::Down },
            reason: (!up).then_some(reason),
            name: flow.name,
            link: flow.link,
            attributes: flow.attributes,
            properties: flow.properties,
        }
    }

    /// Whether a name is no flow's yet.
    pub(super) fn check_no_flow(&self, name: &str) -> Result<()> {
        match self.store.get::<Flow>(name)? {
            None => Ok(()),
            Some(_) => Err(Error::new(
                Kind::Exists,
                format_args!("there is a flow called ‘{name}’ already: choose another name"),
            )),
        }
    }

    /// Adds a flow on a link or VNIC. On a VNIC that is not up it waits until that is.
    pub fn add_flow(&mut self, new: NewFlow) -> Result<FlowView> {
        check_name("flow", &new.name)?;
        self.check_no_flow(&new.name)?;
        let domain = self.domain_of(&new.link)?;
        let flow = Flow {
            attributes: new.attributes.parse()?,
            properties: new.properties.parse::<FlowProperties>()?,
            name: new.name,
            link: new.link,
        };
        self.need_switch()?;
        let change = self.store.change()?;
        change.put(&flow)?;
        if domain.is_some() || self.host.has_port(&flow.link) {
            self.host.add_flow(&flow, domain)?;
        }
        if let Err(error) = change.commit() {
            self.host.remove_flow(&flow.name);
            return Err(error.into());
        }
        self.index.add_flow(&flow);
        Ok(self.view_flow(flow))
    }

    /// The number of a link's domain; `None` for a VNIC.
    fn domain_of(&self, name: &str) -> Result<Option<u32>> {
        if let Some(link) = self.store.get::<Link>(name)? {
            return Ok(Some(link.domain));
        }
        match self.find_vnic(name) {
            Ok(_) => Ok(None),
            Err(error) if error.kind == Kind::NotFound => Err(Error::not_found(format_args!(
                "no link or VNIC ‘{name}’: `weir link show` and `weir vnic show` list those there are"
            ))),
            Err(error) => Err(error),
        }
    }

    /// Removes a flow.
    pub fn remove_flow(&mut self, name: &str) -> Result<()> {
        let flow = self.find_flow(name)?;
        let change = self.store.change()?;
        change.remove::<Flow>(name)?;
        change.commit()?;
        self.index.remove_flow(&flow);
        self.host.remove_flow(name);
        self.host.clear_fault(&flow_fault(name));
        Ok(())
    }

    /// Adds the flows on a link or VNIC that are not there, and the flow table's entries that lead
    /// to it, as far as they can be.
    pub(super) fn bring_flows(&mut self, on: &str) {
        let names: Vec<_> = self.index.flows_on(on).map(str::to_string).collect();
        for name in names {
            let brought = self.bring_flow(&name);
            self.host.note(&flow_fault(&name), brought);
        }
        self.bring_entries(on);
    }

    pub(super) fn bring_flow(&mut self, name: &str) -> Result<()> {
        let Some(flow) = self.store.get::<Flow>(name)? else {
            return Ok(());
        };
        let domain = self.domain_of(&flow.link)?;
        if domain.is_none() && !self.host.has_port(&flow.link) {
            return Ok(());
        }
        self.host.add_flow(&flow, domain)
    }

    /// What passed of each flow; of one that is not up, nothing.
    pub fn flow_stats(&self) -> Result<Vec<FlowStats>> {
        let counted = self.host.flow_stats()?;
        let stats = |flow: Flow| {
            let found = counted.iter().find(|stats| stats.name == flow.name);
            FlowStats {
                name: flow.name,
                link: flow.link,
                ..found.cloned().unwrap_or_default()
            }
        };
        Ok(self.store.all::<Flow>()?.into_iter().map(stats).collect())
    }
}
