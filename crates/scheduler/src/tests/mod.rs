//! What policies do.

mod balance;
mod decide;
mod docs;
mod overbook;
mod plugins;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use crate::facts::{Affinity, Guest, Host, Membership, Memory, Processors, Rate};
use crate::inventory::Inventory;
use crate::{Occasion, Policy, Result, Scheduler};

/// A host with 16 GiB, 8 processors and a link of 10 Gb/s.
fn host() -> Host {
    Host {
        memory: Memory(16 << 30),
        processors: Processors(8000),
        links: BTreeMap::from([("wan".into(), Rate(10_000_000_000))]),
        lanes: 4,
        ..Host::default()
    }
}

/// An inventory with so many hosts: `h0`, `h1` and so on.
fn hosts(count: usize) -> Inventory {
    let mut inventory = Inventory::default();
    for number in 0..count {
        inventory.set_host(&format!("h{number}"), host()).unwrap();
    }
    inventory
}

fn guest(change: impl FnOnce(&mut Guest)) -> Arc<Guest> {
    let mut guest = Guest {
        memory: Memory(1 << 30),
        processors: Processors(500),
        ..Guest::default()
    };
    change(&mut guest);
    Arc::new(guest)
}

fn scheduler(policy: &str) -> Scheduler {
    Scheduler::new(policy, Policy::built_in(policy).unwrap(), &[]).unwrap()
}

/// A policy that sets properties.
fn with(policy: &str, properties: &[(&str, u64)]) -> Scheduler {
    let mut policy_ = Policy::built_in(policy).unwrap();
    let properties = properties
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()));
    policy_.properties = properties.collect();
    Scheduler::new(policy, policy_, &[]).unwrap()
}

/// Places a guest; the host.
fn place(
    scheduler: &Scheduler,
    inventory: &mut Inventory,
    name: &str,
    guest: &Arc<Guest>,
) -> Result<String> {
    let decision = scheduler.decide(inventory, name, guest, Occasion::Start, true)?;
    scheduler.commit(inventory, &decision.placement)?;
    Ok(decision.placement.host)
}

/// Guests that need a little of everything.
fn any_guest() -> impl Strategy<Value = Arc<Guest>> {
    let group = prop::option::of((0..3u8, any::<bool>(), any::<bool>()));
    (1..6u64, 0..4000u64, 1..4u64, group).prop_map(|(memory, processors, rate, group)| {
        let membership = group.map(|(group, apart, hard)| Membership {
            group: format!("group{group}"),
            affinity: if apart {
                Affinity::Apart
            } else {
                Affinity::Together
            },
            hard,
        });
        guest(|guest| {
            guest.memory = Memory(memory << 30);
            guest.processors = Processors(processors);
            guest.links = BTreeMap::from([("wan".into(), Rate(rate * 1_000_000_000))]);
            guest.affinity = membership.into_iter().collect();
        })
    })
}
