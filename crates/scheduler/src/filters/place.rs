//! Walls, pinned hosts, labels.

use super::Filter;
use crate::facts;
use crate::inventory::{HostSet, Inventory};
use crate::unit::{Answer, Request};

pub(super) struct Wall;

impl Filter for Wall {
    fn filter(&self, inventory: &Inventory, request: &Request<'_>, may: &mut HostSet) -> Answer {
        if let Some(wall) = request.guest.wall {
            may.intersect(inventory.hosts.walls.get(wall.name()));
        }
        Ok(())
    }

    fn reason(&self, _: &Inventory, request: &Request<'_>, _: usize) -> String {
        match request.guest.wall {
            Some(facts::Wall::Vm) => "has no KVM; the guest must be a virtual machine".into(),
            _ => "offers no process wall; the guest must be a process".into(),
        }
    }
}

pub(super) struct PinnedHost;

impl Filter for PinnedHost {
    fn filter(&self, inventory: &Inventory, request: &Request<'_>, may: &mut HostSet) -> Answer {
        let pinned = &request.guest.pinned;
        if !pinned.is_empty() {
            let slots = pinned
                .iter()
                .filter_map(|name| inventory.hosts.slot(name).ok());
            may.intersect(&slots.collect());
        }
        Ok(())
    }

    fn reason(&self, _: &Inventory, request: &Request<'_>, _: usize) -> String {
        let pinned: Vec<_> = request.guest.pinned.iter().map(String::as_str).collect();
        format!(
            "is not {}, which the guest is pinned to",
            pinned.join(" or ")
        )
    }
}

pub(super) struct Labels;

impl Filter for Labels {
    fn filter(&self, inventory: &Inventory, request: &Request<'_>, may: &mut HostSet) -> Answer {
        for label in &request.guest.labels {
            may.intersect(inventory.hosts.labels.get(label));
        }
        Ok(())
    }

    fn reason(&self, inventory: &Inventory, request: &Request<'_>, slot: usize) -> String {
        let labels = &inventory.hosts.facts(slot).labels;
        let lacks = request.guest.labels.difference(labels);
        format!(
            "lacks label {}",
            lacks.cloned().collect::<Vec<_>>().join(", ")
        )
    }
}

pub(super) struct AntiLabels;

impl Filter for AntiLabels {
    fn filter(&self, inventory: &Inventory, request: &Request<'_>, may: &mut HostSet) -> Answer {
        for label in &request.guest.anti_labels {
            may.subtract(inventory.hosts.labels.get(label));
        }
        Ok(())
    }

    fn reason(&self, inventory: &Inventory, request: &Request<'_>, slot: usize) -> String {
        let labels = &inventory.hosts.facts(slot).labels;
        let has = request.guest.anti_labels.intersection(labels);
        let has = has.cloned().collect::<Vec<_>>().join(", ");
        format!("has label {has}, which the guest avoids")
    }
}
