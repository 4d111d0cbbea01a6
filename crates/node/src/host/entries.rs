//! Entries of flow tables in the switch.

use switch::lookup::{Answer, Command, Flow, FlowDefault, FlowEntry};
use switch::protocol::PortId;

use super::Host;
use crate::error::{Error, Result};

impl Host {
    /// Notes which entries a domain of a switch has that was taken over: those made by command.
    pub fn adopt_entries(&mut self, domain: u32) -> Result<()> {
        for (flow, port, age) in self.entries_of(domain)? {
            if age.is_none() {
                self.entries.entry(port).or_default().insert((domain, flow));
            }
        }
        Ok(())
    }

    /// Adds an entry, if it is not there, in the place of any other for its flow.
    pub fn add_entry(&mut self, domain: u32, flow: Flow, port: &str) -> Result<()> {
        let key = (domain, flow);
        if self.entries.get(port).is_some_and(|all| all.contains(&key)) {
            return Ok(());
        }
        let id = self.port_id(port)?;
        let command = Command::AddFlow { flow, port: id };
        self.client()?.lookup(domain, command)?;
        self.entries.entry(port.into()).or_default().insert(key);
        Ok(())
    }

    /// Removes an entry, if it is there.
    pub fn remove_entry(&mut self, domain: u32, flow: Flow, port: &str) {
        let removed = self.entries.get_mut(port);
        if removed.is_some_and(|all| all.remove(&(domain, flow)))
            && let Ok(client) = self.client()
        {
            let _ = client.lookup(domain, Command::RemoveFlow { flow });
        }
    }

    /// Entries for a port, which goes, go with it.
    pub(super) fn forget_entries(&mut self, port: &str) {
        self.entries.remove(port);
    }

    /// A domain's entries are gone, with the function that had them.
    pub fn forget_entries_of(&mut self, domain: u32) {
        for all in self.entries.values_mut() {
            all.retain(|(of, _)| *of != domain);
        }
    }

    /// The switch's entries with their ports: made by command, and learned.
    pub fn entries_of(&self, domain: u32) -> Result<Vec<(Flow, String, Option<u32>)>> {
        let client = self.client()?;
        let names = self.names();
        let (mut all, mut next) = (Vec::new(), Some(0));
        while let Some(from) = next {
            let answer = client.lookup(domain, Command::Flows { from })?;
            let Answer::Flows { flows, next: on } = answer else {
                break;
            };
            let named = |entry: FlowEntry<PortId>| {
                let name = names.get(&entry.port)?;
                Some((entry.flow, name.to_string(), entry.age))
            };
            all.extend(flows.into_iter().filter_map(named));
            next = on;
        }
        Ok(all)
    }

    /// Where a domain's flows go that have no entry. A port that is not up is none yet.
    pub fn set_default(&self, domain: u32, default: &FlowDefault<String>) -> Result<()> {
        let default = match default {
            FlowDefault::Addresses => FlowDefault::Addresses,
            FlowDefault::Drop => FlowDefault::Drop,
            FlowDefault::Port(port) => FlowDefault::Port(self.port_id(port)?),
        };
        self.client()?
            .lookup(domain, Command::SetDefault { default })?;
        Ok(())
    }

    fn port_id(&self, name: &str) -> Result<PortId> {
        let port = self.ports.get(name).map(|port| port.id);
        port.ok_or_else(|| Error::refused(format_args!("‘{name}’ is not up")))
    }
}
