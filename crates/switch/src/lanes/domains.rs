//! The domains of a switch, and their properties.

use std::mem::discriminant;

use super::{AttachError, Lanes};
use crate::ids::{DomainIndex, PortIndex};
use crate::lookup::{self, Answer, Command, Known};
use crate::properties::DomainProperties;

/// A domain that has ports.
pub(super) struct DomainRecord {
    /// Its slot on each lane.
    pub index: DomainIndex,
    ports: u32,
    /// The numbers of the domains that its patches lead to, one for each patch.
    pub patches: Vec<u32>,
}

impl Lanes {
    /// The slot of the domain with a number, for a port that joins it. The domain is made if this is
    /// its first port.
    pub(super) fn domain(&mut self, number: u32) -> Result<DomainIndex, AttachError> {
        if let Some(domain) = self.domains.get_mut(&number) {
            domain.ports += 1;
            return Ok(domain.index);
        }
        let asked = self.asked.get(&number).cloned().unwrap_or_default();
        let replicated = self.lanes.len() > 1;
        let lookups: Result<Vec<_>, _> = (self.lanes.iter())
            .map(|_| lookup::build(&asked, replicated))
            .collect();
        let lookups = lookups.map_err(AttachError::Property)?;
        let index = self.free_domains.pop();
        let index = index.unwrap_or(self.domains.len() as DomainIndex);
        let generation = self.next_generation();
        for (lane, lookup) in self.lanes.iter().zip(lookups) {
            lane.post(move |worker| worker.open_domain(index, generation, lookup));
        }
        let domain = DomainRecord {
            index,
            ports: 1,
            patches: Vec::new(),
        };
        self.domains.insert(number, domain);
        self.tell_flows(number);
        Ok(index)
    }

    /// A port has left the domain with a number. Without ports, the domain is removed.
    pub(super) fn leave_domain(&mut self, number: u32) {
        let Some(domain) = self.domains.get_mut(&number) else {
            return;
        };
        domain.ports -= 1;
        if domain.ports == 0 {
            let index = domain.index;
            self.domains.remove(&number);
            self.post_to_all(move |worker| worker.close_domain(index));
            self.free_domains.push(index);
        }
    }

    /// Gives the domain with a number other properties. It need have no ports.
    pub fn set_domain(&mut self, number: u32, properties: DomainProperties) -> Result<(), String> {
        properties.check().map_err(|error| error.to_string())?;
        // Invalid properties are refused now, not when the first port comes.
        lookup::build(&properties, false)?;
        let old = if properties == DomainProperties::default() {
            // So that domains without ports or properties leave nothing behind.
            self.asked.remove(&number)
        } else {
            self.asked.insert(number, properties.clone())
        };
        let old = old.unwrap_or_default();
        let Some(domain) = self.domains.get(&number) else {
            return Ok(());
        };
        let index = domain.index;
        if old.speed != properties.speed {
            self.update_policies(number);
        }
        if discriminant(&old.lookup) == discriminant(&properties.lookup) {
            self.post_to_all(move |worker| worker.configure_domain(index, &properties));
            return Ok(());
        }
        let replicated = self.lanes.len() > 1;
        for lane in &self.lanes {
            let lookup = lookup::build(&properties, replicated)?;
            lane.post(move |worker| worker.replace_lookup(index, lookup));
        }
        Ok(())
    }

    /// Asks something of a domain's lookup function, on all lanes.
    pub fn command(&self, number: u32, command: Command<PortIndex>) -> Result<Answer, String> {
        let index = self.domains.get(&number).map(|domain| domain.index);
        let index = index.ok_or("a switch without a port has no state")?;
        let answers = self.on_all(move |worker| worker.command(index, &command));
        lookup::command::joined(answers)
    }

    /// Forgets the learned entries of a domain.
    pub fn flush(&self, number: u32) {
        if let Some(&DomainRecord { index, .. }) = self.domains.get(&number) {
            self.post_to_all(move |worker| worker.flush(index));
        }
    }

    /// The addresses that a domain knows; none, if it has no ports.
    pub fn table(&self, number: u32) -> Vec<Known> {
        // What one lane learns, all lanes know.
        let lane = self.lanes.first().zip(self.domains.get(&number));
        lane.map_or_else(Vec::new, |(lane, &DomainRecord { index, .. })| {
            lane.call(move |worker| worker.known_addresses(index))
        })
    }
}
