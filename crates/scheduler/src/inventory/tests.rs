//! What is kept as guests come, move and go is what counting anew gives.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::facts::{Affinity, Membership, Memory, Processors, Rate};

/// A change of an inventory of a few hosts and guests.
#[derive(Clone, Debug)]
enum Change {
    Book(u8, u8, Guest),
    Release(u8),
    Load(u8, u64),
    Begin(u8, u8),
    Finish(u8),
    Cancel(u8),
    Host(u8, Host),
    Remove(u8),
}

fn guest() -> impl Strategy<Value = Guest> {
    (
        0..100u64,
        0..100u64,
        prop::option::of(0..100u64),
        0..4u8,
        0..50u64,
    )
        .prop_map(|(memory, processors, load, group, rate)| Guest {
            memory: Memory(memory),
            processors: Processors(processors),
            load: load.map(Processors),
            links: BTreeMap::from([(format!("link{}", group % 2), Rate(rate))]),
            affinity: vec![Membership {
                group: format!("group{group}"),
                affinity: Affinity::Apart,
                hard: true,
            }],
            ..Guest::default()
        })
}

fn host() -> impl Strategy<Value = Host> {
    (0..500u64, 0..500u64, 0..50u64, 0..4u8).prop_map(|(memory, processors, load, kind)| Host {
        memory: Memory(memory),
        processors: Processors(processors),
        load: Processors(load),
        state: [
            HostState::Up,
            HostState::Maintenance,
            HostState::Asleep,
            HostState::Down,
        ][usize::from(kind)],
        labels: BTreeSet::from([format!("label{kind}")]),
        links: BTreeMap::from([(format!("link{}", kind % 2), Rate(memory))]),
        build: format!("build{}", kind % 2),
        ..Host::default()
    })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0..12u8, 0..5u8, guest()).prop_map(|(g, h, guest)| Change::Book(g, h, guest)),
        2 => (0..12u8).prop_map(Change::Release),
        2 => (0..12u8, 0..100u64).prop_map(|(g, load)| Change::Load(g, load)),
        3 => (0..12u8, 0..5u8).prop_map(|(g, h)| Change::Begin(g, h)),
        2 => (0..12u8).prop_map(Change::Finish),
        2 => (0..12u8).prop_map(Change::Cancel),
        2 => (0..5u8, host()).prop_map(|(h, host)| Change::Host(h, host)),
        1 => (0..5u8).prop_map(Change::Remove),
    ]
}

/// Makes a change; one that makes no sense is refused.
fn apply(inventory: &mut Inventory, change: Change) -> Result {
    let (guest, host) = (|n: u8| format!("guest{n}"), |n: u8| format!("host{n}"));
    match change {
        Change::Book(g, h, facts) => {
            let slot = inventory.hosts.slot(&host(h))?;
            inventory.book(&guest(g), Arc::new(facts), slot)
        }
        Change::Release(g) => inventory.release(&guest(g)).map(drop),
        Change::Load(g, load) => inventory.set_load(&guest(g), Processors(load)),
        Change::Begin(g, h) => {
            let slot = inventory.hosts.slot(&host(h))?;
            inventory.begin_move(&guest(g), slot)
        }
        Change::Finish(g) => inventory.finish_move(&guest(g)),
        Change::Cancel(g) => inventory.cancel_move(&guest(g)),
        Change::Host(h, facts) => inventory.set_host(&host(h), facts),
        Change::Remove(h) => inventory.remove_host(&host(h)).map(drop),
    }
}

/// What guests have booked on a host, counted anew.
fn counted(inventory: &Inventory, slot: usize) -> Totals {
    let mut totals = Totals::default();
    let mut links = BTreeMap::<String, u64>::new();
    for placed in inventory.guests() {
        if placed.host != slot && placed.target != Some(slot) {
            continue;
        }
        totals.memory += placed.guest.memory.0;
        totals.processors += placed.guest.processors.0;
        totals.guests += 1;
        if placed.destination() == slot {
            totals.load += placed.guest.used().0;
        }
        for (name, rate) in &placed.guest.links {
            *links.entry(name.clone()).or_default() += rate.0;
        }
    }
    totals.links = links
        .into_iter()
        .filter(|(_, booked)| *booked > 0)
        .collect();
    totals
}

fn check(inventory: &Inventory) {
    let mut groups = Groups::default();
    for placed in inventory.guests() {
        for member in &placed.guest.affinity {
            groups.add(&member.group, placed.host);
            if let Some(target) = placed.target {
                groups.add(&member.group, target);
            }
        }
        assert_eq!(
            inventory.guest(&placed.name).map(|found| found.host),
            Some(placed.host)
        );
    }
    assert_eq!(inventory.groups, groups);
    let moving = inventory.guests().filter(|placed| placed.target.is_some());
    assert_eq!(inventory.moving().count(), moving.count());
    let away = inventory.guests().filter(|placed| placed.home.is_some());
    assert_eq!(inventory.away().count(), away.count());
    let hosts = &inventory.hosts;
    for slot in hosts.by_name() {
        assert_eq!(hosts.totals(slot), counted(inventory, slot));
        let leaving = inventory
            .guests_on(slot)
            .filter(|placed| placed.target.is_some());
        assert_eq!(hosts.leaving[slot] as usize, leaving.count());
        let (facts, state) = (hosts.facts(slot), hosts.state(slot));
        assert_eq!(hosts.memory.capacity[slot], facts.memory.0);
        assert_eq!(hosts.up.contains(slot), state == HostState::Up);
        for kind in 0..4 {
            let label = format!("label{kind}");
            assert_eq!(
                hosts.labels.get(&label).contains(slot),
                facts.labels.contains(&label)
            );
            let build = format!("build{kind}");
            assert_eq!(
                hosts.builds.get(&build).contains(slot),
                facts.build == build
            );
            let link = format!("link{kind}");
            assert_eq!(
                hosts.linked.get(&link).contains(slot),
                facts.links.contains_key(&link)
            );
        }
    }
}

proptest! {
    #[test]
    fn totals_are_those_that_counting_gives(changes in vec(change(), 1..120)) {
        let mut inventory = Inventory::default();
        for change in changes {
            let refused = apply(&mut inventory, change).is_err();
            if !refused {
                check(&inventory);
            }
        }
        check(&inventory);
    }
}

#[test]
fn a_removed_host_names_the_guests_that_it_ran() {
    let mut inventory = Inventory::default();
    for name in ["a", "b"] {
        inventory.set_host(name, Host::default()).unwrap();
    }
    inventory.book("one", Arc::default(), 0).unwrap();
    inventory.book("two", Arc::default(), 1).unwrap();
    inventory.begin_move("two", 0).unwrap();
    let lost = inventory.remove_host("a").unwrap();
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].0, "one");
    // What moved there runs where it ran.
    let two = inventory.guest("two").unwrap();
    assert_eq!((two.host, two.target), (1, None));
    assert!(inventory.hosts.slot("a").is_err());
}
