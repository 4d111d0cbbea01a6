//! Weights: how well a host suits a guest. A score is a cost: lower is better, as in oVirt.
//!
//! A policy normalizes the scores of a weight over the hosts that are left: the best has 0, the worst 1. It multiplies
//! them with the weight's factor, and adds them up. The host with the lowest sum is chosen.

mod place;
mod spread;

use crate::inventory::{HostSet, Inventory};
use crate::properties as p;
use crate::unit::{Answer, Request, Unit};

/// Scores hosts for a guest.
pub trait Weight: Send + Sync {
    /// Writes a score for each host in `hosts`, by slot; lower is better. `scores` has an entry for each slot, and
    /// is 0 before.
    fn score(
        &self,
        inventory: &Inventory,
        request: &Request<'_>,
        hosts: &HostSet,
        scores: &mut [f64],
    ) -> Answer;
}

/// The weights that are built in.
pub static WEIGHTS: &[Unit<dyn Weight>] = &[
    Unit {
        name: "even-processor",
        description: "Even distribution by processor: hosts whose processors are used less come first.",
        properties: &[],
        make: |_| Box::new(spread::Processor),
    },
    Unit {
        name: "even-memory",
        description: "Even distribution by memory: hosts with a smaller share of memory booked come first.",
        properties: &[],
        make: |_| Box::new(spread::Memory { fullest: false }),
    },
    Unit {
        name: "even-guests",
        description: "Even distribution by number of guests: hosts with fewer guests come first.",
        properties: &[],
        make: |_| Box::new(spread::Guests),
    },
    Unit {
        name: "power-saving-processor",
        description: "Power saving by processor: hosts whose processors are used more come first; hosts that the \
                      guest would bring above HighUtilization come last.",
        properties: &[&p::HIGH_UTILIZATION],
        make: |values| {
            Box::new(spread::FullestProcessor {
                high: values.get(&p::HIGH_UTILIZATION),
            })
        },
    },
    Unit {
        name: "power-saving-memory",
        description: "Power saving by memory: hosts with a larger share of memory booked come first.",
        properties: &[],
        make: |_| Box::new(spread::Memory { fullest: true }),
    },
    Unit {
        name: "affinity",
        description: "Soft groups: hosts with members of groups that stay together come first.",
        properties: &[],
        make: |_| Box::new(place::Together),
    },
    Unit {
        name: "anti-affinity",
        description: "Soft groups: hosts with members of groups that stay apart come last.",
        properties: &[],
        make: |_| Box::new(place::Apart),
    },
    Unit {
        name: "preferred-host",
        description: "Hosts that the guest prefers come first.",
        properties: &[],
        make: |_| Box::new(place::PreferredHost),
    },
    Unit {
        name: "warm-image",
        description: "Hosts that have the guest's image ready come first.",
        properties: &[],
        make: |_| Box::new(place::WarmImage),
    },
    Unit {
        name: "chain-distance",
        description: "Hosts that are nearer to the guests that the guest is wired to come first.",
        properties: &[],
        make: |_| Box::new(place::ChainDistance),
    },
];
