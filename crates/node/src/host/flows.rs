//! Flows in the switch.

use switch::protocol::FlowOn;

use super::Host;
use crate::error::{Error, Result};
use crate::model::{FlowRecord, FlowStats};

impl Host {
    /// Notes which flows a switch has already.
    pub(super) fn adopt_flows(&mut self) -> Result<()> {
        let flows = self.client()?.flows()?;
        for flow in flows {
            let on = match flow.on {
                FlowOn::Domain(_) => None,
                FlowOn::Port(id) => {
                    let port = self.ports.iter().find(|(_, port)| port.id == id);
                    port.map(|(name, _)| name.clone())
                }
            };
            self.flows.insert(flow.name, on);
        }
        Ok(())
    }

    /// Adds a flow, if it is not there: on a domain, or on the port that it names.
    pub fn add_flow(&mut self, flow: &FlowRecord, domain: Option<u32>) -> Result<()> {
        if self.flows.contains_key(&flow.name) {
            return Ok(());
        }
        let (on, port) = match domain {
            Some(domain) => (FlowOn::Domain(domain), None),
            None => {
                let down = || Error::refused(format_args!("‘{}’ is not up", flow.link));
                let port = self.ports.get(&flow.link).ok_or_else(down)?;
                (FlowOn::Port(port.id), Some(flow.link.clone()))
            }
        };
        let client = self.client()?;
        client.add_flow(&flow.name, on, flow.attributes, flow.properties)?;
        self.flows.insert(flow.name.clone(), port);
        Ok(())
    }

    /// Removes a flow, if it is there.
    pub fn remove_flow(&mut self, name: &str) {
        if self.flows.remove(name).is_some()
            && let Ok(client) = self.client()
        {
            let _ = client.remove_flow(name);
        }
    }

    /// Whether the switch has a flow.
    pub fn has_flow(&self, name: &str) -> bool {
        self.flows.contains_key(name)
    }

    /// Names of the flows that the switch has.
    pub fn flow_names(&self) -> Vec<String> {
        self.flows.keys().cloned().collect()
    }

    /// What passed of each flow that the switch has.
    pub fn flow_stats(&self) -> Result<Vec<FlowStats>> {
        let flows = self.client()?.flows()?;
        let stats = |flow: switch::protocol::FlowDescription| FlowStats {
            name: flow.name,
            link: String::new(),
            frames: flow.stats.frames,
            bytes: flow.stats.bytes,
            held: flow.stats.held,
            dropped: flow.stats.dropped,
        };
        Ok(flows.into_iter().map(stats).collect())
    }

    /// Removes the flows on a port, which goes.
    pub(super) fn forget_flows(&mut self, port: &str) {
        let on = |on: &Option<String>| on.as_deref() == Some(port);
        let flows = self.flows.iter().filter(|(_, there)| on(there));
        let names: Vec<_> = flows.map(|(name, _)| name.clone()).collect();
        for name in names {
            self.remove_flow(&name);
        }
    }
}
