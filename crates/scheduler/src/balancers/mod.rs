//! Balancers: which guest should move, and to which hosts it may.
//!
//! Each built-in balancer comes to rest under a load that stays the same: a quantity of the whole group gets strictly
//! better with every move, so no guest can move back and forth.
//!
//! | balancer | gets better with every move |
//! | --- | --- |
//! | `even-distribution` | use above HighUtilization, summed over hosts, falls |
//! | `even-guests` | the sum of squares of guests of hosts falls |
//! | `power-saving` | first use above HighUtilization falls; where it stays, the sum of use squared, by capacity, rises, or idle guests move up in the order of hosts by use |

mod even_distribution;
mod even_guests;
mod power_saving;

use crate::inventory::{HostSet, Inventory, Millis, Placed};
use crate::properties as p;
use crate::properties::Values;
use crate::unit::{Answer, Unit};

/// Says which guest should move.
pub trait Balancer: Send + Sync {
    /// Offers guests, the best first, each with the hosts that it may go to, until an offer is taken.
    fn balance(&self, inventory: &Inventory, offer: &mut Offer<'_>) -> Answer;
}

/// Takes a guest and the hosts that it may go to; `true`: the offer is taken.
pub type Offer<'a> = dyn FnMut(&Placed, &HostSet) -> bool + 'a;

/// The balancers that are built in.
pub static BALANCERS: &[Unit<dyn Balancer>] = &[
    Unit {
        name: "none",
        description: "No guest moves.",
        properties: &[],
        make: |_| Box::new(NoBalancer),
    },
    Unit {
        name: "even-distribution",
        description: "A guest leaves a host whose processors are used above HighUtilization for \
                      CpuOverCommitDurationMinutes, for a host that stays below.",
        properties: &[&p::HIGH_UTILIZATION, &p::CPU_OVER_COMMIT_DURATION],
        make: |values| Box::new(even_distribution::EvenDistribution(Bounds::of(values))),
    },
    Unit {
        name: "even-guests",
        description: "A guest leaves the host with the most guests, if these are more than HighVmCount, for a host \
                      that has at least MigrationThreshold fewer.",
        properties: &[&p::HIGH_VM_COUNT, &p::MIGRATION_THRESHOLD],
        make: |values| {
            Box::new(even_guests::EvenGuests {
                high: values.get(&p::HIGH_VM_COUNT) as u32,
                threshold: values.get(&p::MIGRATION_THRESHOLD) as u32,
            })
        },
    },
    Unit {
        name: "power-saving",
        description: "Guests leave hosts that are used above HighUtilization, as under even-distribution, and hosts \
                      that are used below LowUtilization for CpuOverCommitDurationMinutes, for fuller hosts that \
                      stay below HighUtilization. Empty hosts beyond HostsInReserve may sleep.",
        properties: &[
            &p::HIGH_UTILIZATION,
            &p::LOW_UTILIZATION,
            &p::CPU_OVER_COMMIT_DURATION,
            &p::HOSTS_IN_RESERVE,
        ],
        make: |values| Box::new(power_saving::PowerSaving(Bounds::of(values))),
    },
];

struct NoBalancer;

impl Balancer for NoBalancer {
    fn balance(&self, _: &Inventory, _: &mut Offer<'_>) -> Answer {
        Ok(())
    }
}

/// How much a host may be used, and for how long.
struct Bounds {
    /// Above, it is used too much: percent.
    high: u64,
    /// For so long, before anything is done.
    duration: Millis,
}

impl Bounds {
    fn of(values: &Values) -> Bounds {
        Bounds {
            high: values.get(&p::HIGH_UTILIZATION),
            duration: Millis(values.get(&p::CPU_OVER_COMMIT_DURATION) * 60_000),
        }
    }

    /// Offers guests of hosts that are used too much, the most used first. `false`: no offer was taken.
    fn relieve(&self, inventory: &Inventory, offer: &mut Offer<'_>) -> bool {
        let hosts = &inventory.hosts;
        let long = |slot: &usize| hosts.over_for(*slot).is_some_and(|t| t >= self.duration);
        let mut over: Vec<_> = hosts.up.iter().filter(long).collect();
        over.sort_by_key(|slot| std::cmp::Reverse(hosts.use_of(*slot)));
        over.into_iter().any(|slot| {
            // What is to leave, in hundredths of a thousandth of a processor.
            let excess = hosts.load[slot] * 100 - hosts.processors.capacity[slot] * self.high;
            let mut guests = movable(inventory, slot);
            guests.retain(|placed| placed.guest.used().0 > 0);
            // The smallest guest that is enough, then the largest that is not.
            guests.sort_by_key(|placed| match placed.guest.used().0 * 100 {
                load if load >= excess => (false, load),
                load => (true, u64::MAX - load),
            });
            guests.into_iter().any(|placed| {
                let receivers = self.receivers(inventory, placed);
                !receivers.is_empty() && offer(placed, &receivers)
            })
        })
    }

    /// The hosts that are not used too much once the guest is there.
    fn receivers(&self, inventory: &Inventory, placed: &Placed) -> HostSet {
        let (hosts, load) = (&inventory.hosts, placed.guest.used().0);
        let mut receivers = hosts.up.clone();
        receivers.remove(placed.host);
        receivers.retain(&hosts.load, &hosts.processors.capacity, |used, capacity| {
            (used + load) * 100 <= capacity * self.high
        });
        receivers
    }
}

/// The guests of a host that a balancer may move.
fn movable(inventory: &Inventory, slot: usize) -> Vec<&Placed> {
    let guests = inventory.guests_on(slot);
    guests
        .filter(|placed| placed.guest.migratable && placed.target.is_none())
        .collect()
}
