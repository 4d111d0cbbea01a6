//! Migration, maintenance.

use super::Filter;
use crate::inventory::{HostSet, Inventory};
use crate::unit::{Answer, Occasion, Request};

pub(super) struct Migration;

impl Filter for Migration {
    fn filter(&self, inventory: &Inventory, request: &Request<'_>, may: &mut HostSet) -> Answer {
        if let Some(state) = &request.guest.state {
            may.intersect(inventory.hosts.builds.get(&state.build));
            for feature in &state.features {
                may.intersect(inventory.hosts.features.get(feature));
            }
        }
        Ok(())
    }

    fn reason(&self, inventory: &Inventory, request: &Request<'_>, slot: usize) -> String {
        let host = inventory.hosts.facts(slot);
        let Some(state) = &request.guest.state else {
            return String::new();
        };
        if state.build != host.build {
            let (build, of) = (&host.build, &state.build);
            return format!(
                "runs build ‘{build}’ of the guest image; the guest's state is of ‘{of}’"
            );
        }
        let lacks = state.features.difference(&host.features);
        let lacks = lacks.cloned().collect::<Vec<_>>().join(", ");
        format!("has processors without {lacks}, which the guest uses")
    }
}

pub(super) struct Maintenance;

impl Filter for Maintenance {
    fn filter(&self, inventory: &Inventory, _: &Request<'_>, may: &mut HostSet) -> Answer {
        may.intersect(&inventory.hosts.up);
        Ok(())
    }

    fn reason(&self, _: &Inventory, _: &Request<'_>, _: usize) -> String {
        "is in maintenance".into()
    }
}

pub(super) struct NoNewGuests;

impl Filter for NoNewGuests {
    fn filter(&self, _: &Inventory, request: &Request<'_>, may: &mut HostSet) -> Answer {
        let runs = match request.occasion {
            Occasion::Start => false,
            Occasion::Move => true,
            Occasion::Recover => request.guest.highly_available,
        };
        if !runs {
            may.clear();
        }
        Ok(())
    }

    fn reason(&self, _: &Inventory, _: &Request<'_>, _: usize) -> String {
        "takes no new guests under this policy".into()
    }
}
