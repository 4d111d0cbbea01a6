//! Hard groups of guests.

use super::Filter;
use crate::facts::Affinity;
use crate::inventory::{HostSet, Inventory};
use crate::unit::{Answer, Request};

/// The guest's hard groups of a kind.
fn hard<'a>(request: &Request<'a>, kind: Affinity) -> impl Iterator<Item = &'a str> {
    let groups = request.guest.affinity.iter();
    groups
        .filter(move |member| member.hard && member.affinity == kind)
        .map(|member| member.group.as_str())
}

/// The hosts that run other members of a group.
fn with_others(inventory: &Inventory, request: &Request<'_>, group: &str) -> HostSet {
    let hosts = inventory.groups.hosts(group);
    hosts
        .filter(|(slot, members)| request.others(*slot, *members) > 0)
        .map(|(slot, _)| slot)
        .collect()
}

/// The hosts where a group gathers; none: anywhere.
fn gathering(inventory: &Inventory, request: &Request<'_>, group: &str) -> Option<HostSet> {
    let mut hosts = with_others(inventory, request, group);
    hosts.intersect(&inventory.hosts.up);
    (!hosts.is_empty()).then_some(hosts)
}

pub(super) struct Together;

impl Filter for Together {
    fn filter(&self, inventory: &Inventory, request: &Request<'_>, may: &mut HostSet) -> Answer {
        for group in hard(request, Affinity::Together) {
            if let Some(hosts) = gathering(inventory, request, group) {
                may.intersect(&hosts);
            }
        }
        Ok(())
    }

    fn reason(&self, inventory: &Inventory, request: &Request<'_>, slot: usize) -> String {
        for group in hard(request, Affinity::Together) {
            let hosts = gathering(inventory, request, group);
            if let Some(hosts) = hosts.filter(|hosts| !hosts.contains(slot)) {
                let names: Vec<_> = hosts
                    .iter()
                    .map(|slot| inventory.hosts.name(slot))
                    .collect();
                return format!(
                    "does not run group {group}, which is on {}",
                    names.join(", ")
                );
            }
        }
        String::new()
    }
}

pub(super) struct Apart;

impl Filter for Apart {
    fn filter(&self, inventory: &Inventory, request: &Request<'_>, may: &mut HostSet) -> Answer {
        for group in hard(request, Affinity::Apart) {
            may.subtract(&with_others(inventory, request, group));
        }
        Ok(())
    }

    fn reason(&self, inventory: &Inventory, request: &Request<'_>, slot: usize) -> String {
        let mut groups = hard(request, Affinity::Apart);
        let group = groups.find(|group| with_others(inventory, request, group).contains(slot));
        format!(
            "runs another member of group {}, which stays apart",
            group.unwrap_or("")
        )
    }
}
