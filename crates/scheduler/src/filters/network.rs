//! Links, rates, lanes.

use super::Filter;
use crate::facts;
use crate::inventory::{HostSet, Inventory};
use crate::unit::{Answer, Request};

pub(super) struct Link;

impl Filter for Link {
    fn filter(&self, inventory: &Inventory, request: &Request<'_>, may: &mut HostSet) -> Answer {
        for name in request.guest.links.keys() {
            may.intersect(inventory.hosts.linked.get(name));
        }
        Ok(())
    }

    fn reason(&self, inventory: &Inventory, request: &Request<'_>, slot: usize) -> String {
        let links = &inventory.hosts.facts(slot).links;
        let lacks = request
            .guest
            .links
            .keys()
            .find(|name| !links.contains_key(*name));
        format!("has no link {}", lacks.map_or("", String::as_str))
    }
}

pub(super) struct Rate;

impl Filter for Rate {
    fn filter(&self, inventory: &Inventory, request: &Request<'_>, may: &mut HostSet) -> Answer {
        for (name, rate) in request.guest.links.iter().filter(|(_, rate)| rate.0 > 0) {
            match inventory.hosts.links.get(name) {
                Some(link) => may.retain(&link.capacity, &link.booked, |capacity, booked| {
                    booked + rate.0 <= capacity
                }),
                None => may.clear(),
            }
        }
        Ok(())
    }

    fn reason(&self, inventory: &Inventory, request: &Request<'_>, slot: usize) -> String {
        let left = |name: &str| {
            let link = inventory.hosts.links.get(name);
            link.map_or(0, |link| {
                link.capacity[slot].saturating_sub(link.booked[slot])
            })
        };
        let mut rates = request.guest.links.iter();
        let Some((name, rate)) = rates.find(|(name, rate)| rate.0 > left(name)) else {
            return String::new();
        };
        let left = facts::Rate(left(name));
        format!("has {left}b/s left on link {name}; the guest's VNICs may have {rate}b/s")
    }
}

pub(super) struct Lanes;

impl Filter for Lanes {
    fn filter(&self, inventory: &Inventory, request: &Request<'_>, may: &mut HostSet) -> Answer {
        let (lanes, needed) = (&inventory.hosts.lanes, request.guest.lanes);
        if needed > 0 {
            may.retain(lanes, lanes, |lanes, _| lanes >= needed);
        }
        Ok(())
    }

    fn reason(&self, inventory: &Inventory, request: &Request<'_>, slot: usize) -> String {
        let (has, needs) = (inventory.hosts.lanes[slot], request.guest.lanes);
        format!("has {has} lanes; the guest needs {needs}")
    }
}
