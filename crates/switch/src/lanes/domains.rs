//! The domains of a switch: which there are, and what was asked of them.

use std::mem::discriminant;

use super::{AttachError, Lanes};
use crate::lookup::{self, Answer, Command, Known, PortIndex};
use crate::properties::DomainProperties;

/// A domain that has ports.
pub(super) struct Domain {
    /// Where it stands on each lane.
    pub place: u32,
    ports: u32,
    /// The numbers of the domains that patches lead to from here, one for each patch.
    pub patched: Vec<u32>,
}

impl Lanes {
    /// The place of the domain with a number, for a port that joins it. The domain is made if it
    /// is the first.
    pub(super) fn domain(&mut self, number: u32) -> Result<u32, AttachError> {
        if let Some(domain) = self.domains.get_mut(&number) {
            domain.ports += 1;
            return Ok(domain.place);
        }
        let asked = self.asked.get(&number).cloned().unwrap_or_default();
        let replicated = self.lanes.len() > 1;
        let lookups: Result<Vec<_>, _> = (self.lanes.iter())
            .map(|_| lookup::build(&asked, replicated))
            .collect();
        let lookups = lookups.map_err(AttachError::Property)?;
        let place = self.free_domains.pop();
        let place = place.unwrap_or(self.domains.len() as u32);
        let turn = self.next_turn;
        self.next_turn = self.next_turn.wrapping_add(1);
        for (lane, lookup) in self.lanes.iter().zip(lookups) {
            lane.tell(move |worker| worker.open_domain(place, turn, lookup));
        }
        let domain = Domain {
            place,
            ports: 1,
            patched: Vec::new(),
        };
        self.domains.insert(number, domain);
        self.tell_flows(number);
        Ok(place)
    }

    /// A port has left the domain with a number; the last one takes the domain with it.
    pub(super) fn leave_domain(&mut self, number: u32) {
        let Some(domain) = self.domains.get_mut(&number) else {
            return;
        };
        domain.ports -= 1;
        if domain.ports == 0 {
            let place = domain.place;
            self.domains.remove(&number);
            self.tell_all(move |worker| worker.close_domain(place));
            self.free_domains.push(place);
        }
    }

    /// Gives the domain with a number other properties. It need have no ports.
    pub fn set_domain(&mut self, number: u32, properties: DomainProperties) -> Result<(), String> {
        properties.check().map_err(|error| error.to_string())?;
        // What cannot be is refused now, not when the first port comes.
        lookup::build(&properties, false)?;
        let old = match properties == DomainProperties::default() {
            // Of domains that are no more, nothing is kept.
            true => self.asked.remove(&number),
            false => self.asked.insert(number, properties.clone()),
        };
        let old = old.unwrap_or_default();
        let Some(domain) = self.domains.get(&number) else {
            return Ok(());
        };
        let place = domain.place;
        if old.speed != properties.speed {
            self.reshape_domain(number);
        }
        if discriminant(&old.lookup) == discriminant(&properties.lookup) {
            self.tell_all(move |worker| worker.configure_domain(place, &properties));
            return Ok(());
        }
        let replicated = self.lanes.len() > 1;
        for lane in &self.lanes {
            let lookup = lookup::build(&properties, replicated)?;
            lane.tell(move |worker| worker.replace_lookup(place, lookup));
        }
        Ok(())
    }

    /// Asks something of a domain's lookup function, on all lanes.
    pub fn command(&self, number: u32, command: Command<PortIndex>) -> Result<Answer, String> {
        let place = self.domains.get(&number).map(|domain| domain.place);
        let place = place.ok_or("a switch without a port has no state")?;
        let answers = self.on_all(move |worker| worker.command(place, &command));
        lookup::command::joined(answers)
    }

    /// Forgets what was learned in a domain.
    pub fn flush(&self, number: u32) {
        if let Some(&Domain { place, .. }) = self.domains.get(&number) {
            self.tell_all(move |worker| worker.flush(place));
        }
    }

    /// The addresses that a domain knows; none, if it has no ports.
    pub fn table(&self, number: u32) -> Vec<Known> {
        // Every lane knows what any of them has learned.
        let lane = self.lanes.first().zip(self.domains.get(&number));
        lane.map_or_else(Vec::new, |(lane, &Domain { place, .. })| {
            lane.ask(move |worker| worker.table(place))
        })
    }
}
