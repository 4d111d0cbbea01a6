//! Balancers, maintenance, power.

use proptest::collection::vec;

use super::*;
use crate::facts::HostState;
use crate::inventory::Millis;

/// Moves guests until none should; how many moved. Fails if it does not come to rest.
fn settle(scheduler: &Scheduler, inventory: &mut Inventory, minutes: &mut u64) -> usize {
    let mut moves = 0;
    loop {
        *minutes += 10;
        inventory.hosts.set_now(Millis(*minutes * 60_000));
        let (next, failures) = scheduler.next_move(inventory);
        assert!(failures.is_empty());
        let Some(placement) = next else {
            return moves;
        };
        scheduler.commit(inventory, &placement).unwrap();
        inventory.finish_move(&placement.name).unwrap();
        moves += 1;
        // With n guests and h hosts there are h^n ways to place them; a balancer that went in a circle would never
        // stop, one that makes way stops long before this.
        assert!(moves <= 2000, "it does not come to rest");
    }
}

/// Hosts with guests of these memory sizes and loads, wherever they are.
fn scattered(guests: &[(u64, u64, usize)], capacities: &[u64]) -> Inventory {
    let mut inventory = Inventory::default();
    for (number, processors) in capacities.iter().enumerate() {
        let processors = Processors(*processors);
        inventory
            .set_host(
                &format!("h{number}"),
                Host {
                    processors,
                    ..host()
                },
            )
            .unwrap();
    }
    for (number, (memory, load, on)) in guests.iter().enumerate() {
        let guest = guest(|guest| {
            guest.memory = Memory(memory << 20);
            guest.processors = Processors(0);
            guest.load = Some(Processors(*load));
        });
        inventory
            .book(&format!("g{number}"), guest, on % capacities.len())
            .unwrap();
    }
    inventory
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn a_constant_load_comes_to_rest(
        guests in vec((1..300u64, prop_oneof![Just(0), 1..2500u64], 0..8usize), 0..50),
        capacities in vec(1000..9000u64, 1..8),
        policy in prop::sample::select(vec!["none", "evenly_distributed", "vm_evenly_distributed", "power_saving"]),
        high in 20..100u64,
        at_a_time in 1..5u64,
    ) {
        let mut properties = vec![("MigrationsAtATime", at_a_time)];
        match policy {
            "vm_evenly_distributed" => properties.extend([("HighVmCount", high / 20), ("MigrationThreshold", 2)]),
            "power_saving" => properties.extend([("HighUtilization", high), ("LowUtilization", high / 2)]),
            _ => properties.push(("HighUtilization", high)),
        }
        let scheduler = with(policy, &properties);
        let mut inventory = scattered(&guests, &capacities);
        scheduler.watch(&mut inventory);
        let mut minutes = 0;
        let moves = settle(&scheduler, &mut inventory, &mut minutes);
        prop_assert!(policy != "none" || moves == 0);
        // At rest it stays.
        for _ in 0..3 {
            prop_assert_eq!(settle(&scheduler, &mut inventory, &mut minutes), 0);
        }
        if policy == "vm_evenly_distributed" {
            // A host that is used too much takes no guest.
            let open = (0..capacities.len()).filter(|slot| inventory.hosts.over_for(*slot).is_none());
            let counts: Vec<_> = open.map(|slot| u64::from(inventory.hosts.count[slot])).collect();
            let most = counts.iter().copied().max().unwrap_or(0);
            let least = counts.iter().copied().min().unwrap_or(0);
            prop_assert!(most <= high / 20 || most - least < 2, "{most} {least}");
        }
    }
}

#[test]
fn a_host_that_is_used_too_much_is_relieved_after_a_while() {
    let scheduler = with("evenly_distributed", &[("CpuOverCommitDurationMinutes", 5)]);
    let guests = [
        (100, 3000, 0),
        (100, 3000, 0),
        (100, 1500, 0),
        (100, 500, 1),
    ];
    let mut inventory = scattered(&guests, &[8000, 8000]);
    scheduler.watch(&mut inventory);
    inventory.hosts.set_now(Millis(4 * 60_000));
    assert!(scheduler.next_move(&inventory).0.is_none());
    inventory.hosts.set_now(Millis(5 * 60_000));
    let placement = scheduler.next_move(&inventory).0.unwrap();
    // 7.5 of 8 are used, 6.4 may be: the smallest guest that is enough.
    assert_eq!(
        (placement.name.as_str(), placement.host.as_str()),
        ("g2", "h1")
    );
    scheduler.commit(&mut inventory, &placement).unwrap();
    // While it moves, its load counts where it goes.
    assert!(scheduler.next_move(&inventory).0.is_none());
    inventory.finish_move("g2").unwrap();
    assert!(scheduler.next_move(&inventory).0.is_none());
    // The filter holds new guests back from a host for as long as it is used too much.
    inventory.set_load("g0", Processors(5000)).unwrap();
    let explained = scheduler.explain(&inventory, "new", &guest(|_| ()), Occasion::Start);
    assert!(explained.excluded.is_empty());
    inventory.hosts.set_now(Millis(10 * 60_000));
    let explained = scheduler.explain(&inventory, "new", &guest(|_| ()), Occasion::Start);
    let reason = "has 100 % of its processors used, above 80 % for 5 minutes or more";
    assert_eq!(explained.excluded[0].reason, reason);
}

#[test]
fn so_many_guests_move_at_a_time() {
    let scheduler = with("vm_evenly_distributed", &[("MigrationsAtATime", 3)]);
    let guests: Vec<_> = (0..40).map(|_| (10, 0, 0)).collect();
    let mut inventory = scattered(&guests, &[8000, 8000]);
    let mut moving = Vec::new();
    while let Some(placement) = scheduler.next_move(&inventory).0 {
        scheduler.commit(&mut inventory, &placement).unwrap();
        moving.push(placement.name);
    }
    assert_eq!(moving.len(), 3);
    // A move that failed leaves the guest where it ran.
    inventory.cancel_move(&moving[0]).unwrap();
    assert_eq!(inventory.hosts.count[1], 2);
    inventory.finish_move(&moving[1]).unwrap();
    inventory.finish_move(&moving[2]).unwrap();
    assert_eq!(
        (inventory.hosts.count[0], inventory.hosts.count[1]),
        (38, 2)
    );
}

#[test]
fn guests_share_few_hosts_and_the_others_may_sleep() {
    let scheduler = with("power_saving", &[("HostsInReserve", 1)]);
    let guests: Vec<_> = (0..8).map(|n| (100, 500, n % 4)).collect();
    let mut inventory = scattered(&guests, &[8000; 4]);
    scheduler.watch(&mut inventory);
    assert!(settle(&scheduler, &mut inventory, &mut 0) >= 6);
    let used = inventory
        .hosts
        .count
        .iter()
        .filter(|count| **count > 0)
        .count();
    assert_eq!(used, 1, "{:?}", inventory.hosts.count);
    let power = scheduler.power(&inventory);
    assert_eq!((power.may_sleep.len(), power.should_wake.len()), (2, 0));
    // The reserve is used: a host wakes.
    for name in &power.may_sleep {
        inventory
            .set_host(
                name,
                Host {
                    state: HostState::Asleep,
                    ..host()
                },
            )
            .unwrap();
    }
    let reserve =
        (0..4).find(|slot| inventory.hosts.up.contains(*slot) && inventory.hosts.count[*slot] == 0);
    inventory
        .book("new", guest(|_| ()), reserve.unwrap())
        .unwrap();
    assert_eq!(scheduler.power(&inventory).should_wake.len(), 1);
    // Other policies let nothing sleep.
    assert_eq!(
        self::scheduler("none").power(&inventory),
        Default::default()
    );
}

#[test]
fn guests_leave_a_host_for_maintenance_and_come_back() {
    let scheduler = scheduler("none");
    let together = || Membership {
        group: "web".into(),
        affinity: Affinity::Together,
        hard: true,
    };
    let mut inventory = hosts(3);
    for number in 0..6 {
        let guest =
            guest(|guest| guest.affinity = if number < 2 { vec![together()] } else { vec![] });
        inventory.book(&format!("g{number}"), guest, 0).unwrap();
    }
    let maintained = Host {
        state: HostState::Maintenance,
        ..host()
    };
    inventory.set_host("h0", maintained).unwrap();
    assert_eq!(settle(&scheduler, &mut inventory, &mut 0), 6);
    assert_eq!(inventory.hosts.count[0], 0);
    let on = |inventory: &Inventory, name| inventory.guest(name).unwrap().host;
    assert_eq!(on(&inventory, "g0"), on(&inventory, "g1"));
    inventory.set_host("h0", host()).unwrap();
    settle(&scheduler, &mut inventory, &mut 0);
    let back = inventory.guests_on(0).count();
    // The group that stays together cannot come back a guest at a time.
    assert_eq!(back, 4);
}
