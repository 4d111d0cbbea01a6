//! Filters, weights, explanations.

use proptest::collection::vec;
use proptest::sample::Index;

use super::*;
use crate::balancers::BALANCERS;
use crate::facts::{GuestState, HostState, Wall};
use crate::filters::FILTERS;
use crate::properties;
use crate::weights::WEIGHTS;
use crate::{BUILT_IN, Error};

/// Two hosts, of which the second has everything that guests ask for.
fn unlike() -> Inventory {
    let mut inventory = hosts(1);
    let other = Host {
        memory: Memory(64 << 30),
        processors: Processors(32_000),
        walls: [Wall::Vm].into(),
        labels: ["ssd".to_string()].into(),
        features: ["avx2".to_string()].into(),
        build: "2".into(),
        lanes: 16,
        links: [
            ("wan".to_string(), Rate(100_000_000_000)),
            ("lan".to_string(), Rate(0)),
        ]
        .into(),
        ..host()
    };
    inventory.set_host("h1", other).unwrap();
    inventory
}

#[test]
fn each_filter_excludes_a_host_with_a_reason() {
    let state = || GuestState {
        build: "2".into(),
        features: ["avx2".to_string()].into(),
    };
    type Change = fn(&mut Guest);
    let state_of_2: Change = |guest| {
        guest.state = Some(GuestState {
            build: "2".into(),
            ..GuestState::default()
        })
    };
    let cases: [(&str, Change, &str); 10] = [
        (
            "memory",
            |g| g.memory = Memory(20 << 30),
            "has 16G of memory left of 16G; the guest needs 20G",
        ),
        (
            "processor",
            |g| g.processors = Processors(9000),
            "has 8 processors left of 8; 9 are to be reserved for the guest",
        ),
        (
            "processor",
            |g| g.vcpus = 16,
            "has 8 processors; the guest has 16",
        ),
        (
            "wall",
            |g| g.wall = Some(Wall::Vm),
            "has no KVM; the guest must be a virtual machine",
        ),
        (
            "link",
            |g| _ = g.links.insert("lan".into(), Rate(0)),
            "has no link lan",
        ),
        (
            "rate",
            |g| _ = g.links.insert("wan".into(), Rate(11_000_000_000)),
            "has 10Gb/s left on link wan; the guest's VNICs may have 11Gb/s",
        ),
        ("lanes", |g| g.lanes = 8, "has 4 lanes; the guest needs 8"),
        (
            "pinned-host",
            |g| _ = g.pinned.insert("h1".into()),
            "is not h1, which the guest is pinned to",
        ),
        (
            "labels",
            |g| _ = g.labels.insert("ssd".into()),
            "lacks label ssd",
        ),
        (
            "migration",
            state_of_2,
            "runs build ‘’ of the guest image; the guest's state is of ‘2’",
        ),
    ];
    let (scheduler, inventory) = (scheduler("none"), unlike());
    for (filter, change, reason) in cases {
        let guest = guest(change);
        let explained = scheduler.explain(&inventory, "g", &guest, Occasion::Start);
        assert_eq!(explained.host.as_deref(), Some("h1"), "{filter}");
        let excluded: Vec<_> = explained
            .excluded
            .iter()
            .map(|e| (e.host.as_str(), e.filter.as_deref(), e.reason.as_str()))
            .collect();
        assert_eq!(excluded, [("h0", Some(filter), reason)]);
        let decision = scheduler
            .decide(&inventory, "g", &guest, Occasion::Start, true)
            .unwrap();
        assert_eq!(decision.placement.host, "h1");
    }
    // The other way around.
    let guest = guest(|g| {
        g.anti_labels.insert("ssd".into());
        g.state = Some(state());
    });
    let error = scheduler
        .decide(&inventory, "g", &guest, Occasion::Start, true)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "no host may run guest g: anti-labels: host h1 has label ssd, which the guest avoids; \
         migration: host h0 runs build ‘’ of the guest image; the guest's state is of ‘2’"
    );
}

#[test]
fn every_filter_can_exclude_and_every_unit_is_in_a_policy() {
    let policies: Vec<_> = BUILT_IN.iter().map(|row| row.policy()).collect();
    for row in FILTERS {
        assert!(
            policies
                .iter()
                .any(|policy| policy.filters.iter().any(|name| name == row.name)),
            "{}",
            row.name
        );
    }
    for row in WEIGHTS {
        assert!(
            policies
                .iter()
                .any(|policy| policy.weights.contains_key(row.name)),
            "{}",
            row.name
        );
    }
    for row in BALANCERS {
        assert!(
            policies.iter().any(|policy| policy.balancer == row.name),
            "{}",
            row.name
        );
    }
    let names: std::collections::BTreeSet<_> = policies
        .iter()
        .flat_map(Policy::declared)
        .map(|row| row.name)
        .collect();
    assert_eq!(names.len(), properties::ALL.len());
    for policy in BUILT_IN {
        assert_eq!(scheduler(policy.name).policy(), &policy.policy());
    }
}

#[test]
fn hosts_that_are_not_up_get_no_guests() {
    let mut inventory = hosts(4);
    for (name, state) in [
        ("h0", HostState::Down),
        ("h1", HostState::Asleep),
        ("h2", HostState::Maintenance),
    ] {
        inventory.set_host(name, Host { state, ..host() }).unwrap();
    }
    let explained = scheduler("none").explain(&inventory, "g", &guest(|_| ()), Occasion::Start);
    let reasons: Vec<_> = explained
        .excluded
        .iter()
        .map(|e| e.reason.as_str())
        .collect();
    assert_eq!(reasons, ["is down", "is asleep", "is in maintenance"]);
    assert_eq!(explained.host.as_deref(), Some("h3"));
}

#[test]
fn a_maintained_group_takes_no_new_guests() {
    let (scheduler, inventory) = (scheduler("maintenance"), hosts(1));
    let (plain, available) = (guest(|_| ()), guest(|guest| guest.highly_available = true));
    let on = |guest, occasion| {
        scheduler
            .decide(&inventory, "g", guest, occasion, true)
            .is_ok()
    };
    assert!(!on(&plain, Occasion::Start) && !on(&available, Occasion::Start));
    assert!(!on(&plain, Occasion::Recover) && on(&available, Occasion::Recover));
}

#[test]
fn groups_gather_and_keep_apart() {
    let member = |affinity, hard| {
        guest(|guest| {
            guest.affinity.push(Membership {
                group: "web".into(),
                affinity,
                hard,
            })
        })
    };
    let scheduler = scheduler("vm_evenly_distributed");
    for hard in [true, false] {
        let mut inventory = hosts(5);
        let apart = member(Affinity::Apart, hard);
        let taken: std::collections::BTreeSet<_> = (0..5)
            .map(|n| place(&scheduler, &mut inventory, &format!("a{n}"), &apart).unwrap())
            .collect();
        assert_eq!(taken.len(), 5);
        // The sixth has no host of its own.
        assert_eq!(
            place(&scheduler, &mut inventory, "a5", &apart).is_ok(),
            !hard
        );
        let mut inventory = hosts(5);
        let together = member(Affinity::Together, hard);
        let taken: std::collections::BTreeSet<_> = (0..5)
            .map(|n| place(&scheduler, &mut inventory, &format!("t{n}"), &together).unwrap())
            .collect();
        assert_eq!(taken.len(), 1);
    }
}

#[test]
fn weights_choose_what_the_guest_asks_for() {
    let scheduler = scheduler("none");
    let mut inventory = hosts(6);
    let site = |rack: &str| Host {
        site: format!("hall-1/{rack}"),
        ..host()
    };
    for (name, rack) in [
        ("h0", "a"),
        ("h1", "a"),
        ("h2", "b"),
        ("h3", "b"),
        ("h4", "b"),
        ("h5", "a"),
    ] {
        inventory.set_host(name, site(rack)).unwrap();
    }
    inventory
        .set_host(
            "h4",
            Host {
                images: ["fw".to_string()].into(),
                ..site("b")
            },
        )
        .unwrap();
    let preferring = guest(|guest| _ = guest.preferred.insert("h3".into()));
    assert_eq!(
        place(&scheduler, &mut inventory, "p", &preferring).unwrap(),
        "h3"
    );
    let warm = guest(|guest| guest.image = Some("fw".into()));
    let policy = Policy {
        weights: [("warm-image".to_string(), 1)].into(),
        ..Policy::default()
    };
    let only_warm = Scheduler::new("warm", policy, &[]).unwrap();
    assert_eq!(place(&only_warm, &mut inventory, "w", &warm).unwrap(), "h4");
    // Wired to a guest on h0: there, or else in its rack.
    let first = guest(|guest| _ = guest.pinned.insert("h0".into()));
    place(&scheduler, &mut inventory, "n", &first).unwrap();
    let policy = Policy {
        weights: [("chain-distance".to_string(), 1)].into(),
        ..Policy::default()
    };
    let near = Scheduler::new("near", policy, &[]).unwrap();
    let wired = guest(|guest| _ = guest.chain.insert("n".into()));
    let explained = near.explain(&inventory, "c", &wired, Occasion::Start);
    let scores: Vec<_> = explained
        .weights
        .iter()
        .map(|row| (row.host.as_str(), row.scores[0].score))
        .collect();
    assert_eq!(scores[0], ("h0", 0.0));
    assert!(scores[1].1 == 1.0 && scores[5].1 == 2.0, "{scores:?}");
}

#[test]
fn wrong_policies_are_refused_in_a_sentence() {
    let refused = |change: fn(&mut Policy)| {
        let mut policy = Policy::default();
        change(&mut policy);
        Scheduler::new("p", policy, &[]).err().unwrap().to_string()
    };
    let error = refused(|p| p.filters.push("memry".into()));
    assert!(
        error.starts_with("there is no filter memry: there are memory, processor, "),
        "{error}"
    );
    assert!(
        refused(|p| p.balancer = "x".into())
            .starts_with("there is no balancer x: there are none, ")
    );
    assert!(refused(|p| _ = p.weights.insert("x".into(), 1)).starts_with("there is no weight x"));
    let error = refused(|p| _ = p.weights.insert("affinity".into(), 0));
    assert_eq!(
        error,
        "policy p: weight affinity has factor 0: a factor is a whole number from 1 to 1000"
    );
    let error = refused(|p| _ = p.properties.insert("HighUtilization".into(), "much".into()));
    assert_eq!(
        error,
        "policy p: HighUtilization is ‘much’: it is a whole number from 1 to 100"
    );
    let error = refused(|p| _ = p.properties.insert("Nothing".into(), "1".into()));
    assert!(
        error.starts_with("policy p has no property Nothing: there are MemoryOverCommit, "),
        "{error}"
    );
    assert!(refused(|p| p.filters.push("memory".into())).contains("names filter memory twice"));
    assert!(
        Policy::built_in("evn")
            .unwrap_err()
            .to_string()
            .contains("there are none, evenly_distributed")
    );
    let error = toml::from_str::<Policy>("weights = { affinity = 'much' }")
        .unwrap_err()
        .to_string();
    assert!(error.contains("expected u32"), "{error}");
}

#[test]
fn a_guest_is_placed_once() {
    let (scheduler, mut inventory) = (scheduler("none"), hosts(2));
    place(&scheduler, &mut inventory, "g", &guest(|_| ())).unwrap();
    let again = place(&scheduler, &mut inventory, "g", &guest(|_| ()));
    assert_eq!(again, Err(Error::Taken("g".into())));
}

proptest! {
    #[test]
    fn the_order_of_filters_does_not_matter(guests in vec(any_guest(), 1..60), order in vec(any::<Index>(), 15)) {
        let mut shuffled = Policy::default();
        for index in order {
            let index = index.index(shuffled.filters.len());
            let filter = shuffled.filters.remove(index);
            shuffled.filters.push(filter);
        }
        let (one, other) = (scheduler("none"), Scheduler::new("none", shuffled, &[]).unwrap());
        let mut inventory = hosts(7);
        for (number, guest) in guests.iter().enumerate() {
            let name = format!("g{number}");
            let decide = |scheduler: &Scheduler| {
                let decision = scheduler.decide(&inventory, &name, guest, Occasion::Start, true);
                decision.map(|decision| decision.placement.host).ok()
            };
            let host = decide(&one);
            prop_assert_eq!(&host, &decide(&other));
            // An explanation explains the decision.
            let explained = one.explain(&inventory, &name, guest, Occasion::Start);
            prop_assert_eq!(&host, &explained.host);
            let costs = explained.weights.iter().map(|row| row.scores.iter().map(|score| score.cost).sum::<f64>());
            for (row, sum) in explained.weights.iter().zip(costs) {
                prop_assert!((row.sum - sum).abs() < 1e-9);
                prop_assert!(explained.weights[0].sum <= row.sum);
            }
            if host.is_some() {
                place(&one, &mut inventory, &name, guest).unwrap();
            }
        }
    }
}
