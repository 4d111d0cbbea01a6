//! Power saving: hosts that are used too little are emptied, so that they may sleep.

use super::{Balancer, Bounds, Offer, movable};
use crate::inventory::{HostSet, Inventory};
use crate::unit::Answer;

pub(super) struct PowerSaving(pub(super) Bounds);

impl Balancer for PowerSaving {
    fn balance(&self, inventory: &Inventory, offer: &mut Offer<'_>) -> Answer {
        if self.0.relieve(inventory, offer) {
            return Ok(());
        }
        let hosts = &inventory.hosts;
        let long = |slot: &usize| hosts.under_for(*slot).is_some_and(|t| t >= self.0.duration);
        let used = |slot: &usize| hosts.expected(*slot) > 0;
        let mut under: Vec<_> = hosts.up.iter().filter(long).filter(used).collect();
        // The one that is empty soonest.
        under.sort_by_key(|slot| hosts.expected(*slot));
        for slot in under {
            let mut guests = movable(inventory, slot);
            guests.sort_by_key(|placed| std::cmp::Reverse(placed.guest.used()));
            for placed in guests {
                let receivers = self.0.receivers(inventory, placed);
                let fuller = receivers
                    .iter()
                    .filter(|to| used(to) && is_fuller(inventory, *to, slot));
                let fuller: HostSet = fuller.collect();
                if !fuller.is_empty() && offer(placed, &fuller) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Whether host `a` comes after host `b` in the order by use; of two that are used alike, the later one.
fn is_fuller(inventory: &Inventory, a: usize, b: usize) -> bool {
    let hosts = &inventory.hosts;
    let share = |of: usize, other: usize| {
        u128::from(hosts.load[of]) * u128::from(hosts.processors.capacity[other])
    };
    (share(a, b), a) > (share(b, a), b)
}
