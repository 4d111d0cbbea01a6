//! Even number of guests.

use super::{Balancer, Offer, movable};
use crate::inventory::Inventory;
use crate::unit::Answer;

pub(super) struct EvenGuests {
    pub(super) high: u32,
    pub(super) threshold: u32,
}

impl Balancer for EvenGuests {
    fn balance(&self, inventory: &Inventory, offer: &mut Offer<'_>) -> Answer {
        let hosts = &inventory.hosts;
        let mut full: Vec<_> = hosts
            .up
            .iter()
            .filter(|slot| hosts.expected(*slot) > self.high)
            .collect();
        full.sort_by_key(|slot| std::cmp::Reverse(hosts.expected(*slot)));
        for slot in full {
            let most = hosts.expected(slot);
            let mut receivers = hosts.up.clone();
            receivers.retain(&hosts.count, &hosts.leaving, |count, leaving| {
                count - leaving + self.threshold <= most
            });
            if receivers.is_empty() {
                // Hosts with fewer guests have fewer receivers.
                break;
            }
            let mut guests = movable(inventory, slot);
            // What moves soonest.
            guests.sort_by_key(|placed| placed.guest.memory);
            if guests.into_iter().any(|placed| offer(placed, &receivers)) {
                break;
            }
        }
        Ok(())
    }
}
