//! Many hosts with many guests, to measure decisions on.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;

use crate::error::Result;
use crate::facts::{Affinity, Guest, Host, Membership, Memory, Processors, Rate};
use crate::inventory::Inventory;
use crate::policy::Policy;
use crate::scheduler::Scheduler;
use crate::unit::Occasion;

/// The filters of the measured policy.
pub const FILTERS: [&str; 5] = ["memory", "processor", "rate", "labels", "anti-affinity"];
/// Its weights.
pub const WEIGHTS: [&str; 4] = [
    "even-processor",
    "even-memory",
    "affinity",
    "chain-distance",
];

/// A policy of five filters and four weights.
pub fn policy() -> Policy {
    Policy {
        filters: FILTERS.map(String::from).into(),
        weights: WEIGHTS.iter().map(|name| (name.to_string(), 1)).collect(),
        balancer: "none".into(),
        properties: BTreeMap::new(),
        ..Policy::default()
    }
}

/// So many hosts, 40 a rack.
pub fn hosts(count: u32) -> Result<Inventory> {
    let mut inventory = Inventory::default();
    for number in 0..count {
        let label = ["ssd", "gpu", "old", "new"][number as usize % 4];
        let host = Host {
            memory: Memory(64 << 30),
            processors: Processors(64_000),
            links: BTreeMap::from([("wan".into(), Rate(100_000_000_000))]),
            labels: [label.to_string()].into(),
            site: format!("hall-{}/rack-{}", number / 400, number / 40),
            ..Host::default()
        };
        inventory.set_host(&format!("host-{number}"), host)?;
    }
    Ok(inventory)
}

/// Guests that come, one after the other: chains of four, of which two stay apart and two together; one in eight needs
/// a label.
pub struct Crowd {
    rng: Rng,
    next: u32,
}

impl Crowd {
    /// The guests of a seed.
    pub fn new(seed: u64) -> Crowd {
        Crowd {
            rng: Rng::with_seed(seed),
            next: 0,
        }
    }
}

impl Iterator for Crowd {
    type Item = (String, Arc<Guest>);

    fn next(&mut self) -> Option<Self::Item> {
        let (number, rng) = (self.next, &mut self.rng);
        self.next += 1;
        let chain = number / 4;
        let (affinity, hard) = match number % 4 {
            0 | 1 => (Affinity::Apart, true),
            _ => (Affinity::Together, false),
        };
        let member = Membership {
            group: format!("chain-{chain}-{}", number % 4 / 2),
            affinity,
            hard,
        };
        let before = (number % 4 > 0).then(|| format!("guest-{}", number - 1));
        let guest = Guest {
            memory: Memory(rng.u64(1..=16) << 20),
            processors: Processors(rng.u64(1..=200)),
            links: BTreeMap::from([("wan".into(), Rate(rng.u64(1..=200) * 1_000_000))]),
            labels: (number % 8 == 7)
                .then(|| "ssd".to_string())
                .into_iter()
                .collect(),
            affinity: vec![member],
            chain: before.into_iter().collect(),
            ..Guest::default()
        };
        Some((format!("guest-{number}"), Arc::new(guest)))
    }
}

/// Places so many guests without weighing hosts; returns their names.
pub fn fill(
    inventory: &mut Inventory,
    scheduler: &Scheduler,
    crowd: &mut Crowd,
    guests: usize,
) -> Result<Vec<String>> {
    let mut names = Vec::with_capacity(guests);
    for (name, guest) in crowd.take(guests) {
        let decision = scheduler.decide(inventory, &name, &guest, Occasion::Start, false)?;
        scheduler.commit(inventory, &decision.placement)?;
        names.push(name);
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_fits_on_its_hosts() {
        let scheduler = Scheduler::new("measured", policy(), &[]).unwrap();
        let mut inventory = hosts(50).unwrap();
        let names = fill(&mut inventory, &scheduler, &mut Crowd::new(1), 5000).unwrap();
        assert_eq!((names.len(), inventory.guest_count()), (5000, 5000));
        // Spread over all of them, though none was weighed.
        let counts = &inventory.hosts.count;
        assert!(
            counts.iter().all(|count| (20..500).contains(count)),
            "{counts:?}"
        );
    }
}
