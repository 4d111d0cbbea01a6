//! Plugins as filters, weights and balancers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::message::{self, GuestFacts, HostFacts, Request as Message};
use super::{Channel, Method, Plugin};
use crate::balancers::{Balancer, Offer};
use crate::error::Failure;
use crate::filters::Filter;
use crate::inventory::{HostSet, Inventory};
use crate::unit::{Answer, Request};
use crate::weights::Weight;

/// A method of a plugin, in a policy.
pub(crate) struct PluginUnit {
    class: String,
    channel: Arc<dyn Channel>,
    args: BTreeMap<String, String>,
}

impl PluginUnit {
    pub(crate) fn new(plugin: &Plugin, args: BTreeMap<String, String>) -> PluginUnit {
        PluginUnit {
            class: plugin.class.clone(),
            channel: plugin.channel.clone(),
            args,
        }
    }

    fn failure(&self, method: Method, why: &str) -> Failure {
        Failure {
            plugin: self.class.clone(),
            why: format!("{} {why}; it was left out of the decision", method.name()),
        }
    }

    /// Calls a method, and reads its answer.
    fn call<T>(
        &self,
        method: Method,
        inventory: &Inventory,
        hosts: &HostSet,
        request: Option<&Request<'_>>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Answer<T> {
        let hosts = hosts.iter().map(|slot| facts(inventory, slot, method));
        let message = Message::Call {
            class: &self.class,
            method: method.name(),
            hosts: hosts.collect(),
            vm: request.map(|request| GuestFacts {
                name: request.name,
                facts: request.guest,
            }),
            args: &self.args,
        };
        let answer = self.channel.exchange(&message.text());
        answer
            .and_then(|answer| read(&answer))
            .map_err(|why| self.failure(method, &why))
    }
}

fn facts(inventory: &Inventory, slot: usize, method: Method) -> HostFacts<'_> {
    let hosts = &inventory.hosts;
    let facts = hosts.facts(slot);
    let booked = |name: &'_ String| hosts.links.get(name).map_or(0, |link| link.booked[slot]);
    let vms = inventory.guests_on(slot).map(|placed| GuestFacts {
        name: &placed.name,
        facts: &placed.guest,
    });
    HostFacts {
        name: hosts.name(slot),
        facts,
        memory_booked: hosts.memory.booked[slot],
        processors_booked: hosts.processors.booked[slot] as f64 / 1000.0,
        processors_used: hosts.load[slot] as f64 / 1000.0,
        guests: hosts.count[slot],
        rates_booked: facts
            .links
            .keys()
            .map(|name| (name.as_str(), booked(name)))
            .collect(),
        vms: (method == Method::Balance).then(|| vms.collect()),
    }
}

/// The slots of hosts that are named; names of other hosts are left out.
fn slots(inventory: &Inventory, names: &BTreeSet<String>) -> HostSet {
    let slots = names
        .iter()
        .filter_map(|name| inventory.hosts.slot(name).ok());
    slots.collect()
}

impl Filter for PluginUnit {
    fn filter(&self, inventory: &Inventory, request: &Request<'_>, may: &mut HostSet) -> Answer {
        let accepted = self.call(
            Method::Filter,
            inventory,
            may,
            Some(request),
            message::accepted,
        )?;
        if let Some(names) = accepted {
            may.intersect(&slots(inventory, &names));
        }
        Ok(())
    }

    fn reason(&self, _: &Inventory, _: &Request<'_>, _: usize) -> String {
        format!("is not among the hosts that plugin {} accepts", self.class)
    }
}

impl Weight for PluginUnit {
    fn score(
        &self,
        inventory: &Inventory,
        request: &Request<'_>,
        hosts: &HostSet,
        scores: &mut [f64],
    ) -> Answer {
        let scored = self.call(
            Method::Score,
            inventory,
            hosts,
            Some(request),
            message::scores,
        )?;
        for (name, score) in scored.into_iter().flatten() {
            if let Ok(slot) = inventory.hosts.slot(&name) {
                scores[slot] = score;
            }
        }
        Ok(())
    }
}

impl Balancer for PluginUnit {
    fn balance(&self, inventory: &Inventory, offer: &mut Offer<'_>) -> Answer {
        let hosts = &inventory.hosts.up;
        let chosen = self.call(Method::Balance, inventory, hosts, None, message::balance)?;
        let Some((name, hosts)) = chosen else {
            return Ok(());
        };
        match inventory.guest(&name) {
            Some(placed) if placed.target.is_none() && placed.guest.migratable => {
                offer(placed, &slots(inventory, &hosts));
                Ok(())
            }
            Some(_) => Ok(()),
            None => {
                let why = format!("names ‘{}’, which is no guest", message::shortened(&name));
                Err(self.failure(Method::Balance, &why))
            }
        }
    }
}
