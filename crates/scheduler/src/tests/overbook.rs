//! Schedulers that decide at once never place more than fits.

use std::thread;

use proptest::collection::vec;

use super::*;
use crate::{Concurrency, Error, Shared, SkipWeights};

/// That no host has more than it has room for, and hard groups are as they are to be.
fn check(inventory: &Inventory) {
    let hosts = &inventory.hosts;
    for slot in hosts.by_name() {
        assert!(hosts.memory.booked[slot] <= hosts.memory.capacity[slot]);
        assert!(hosts.processors.booked[slot] <= hosts.processors.capacity[slot]);
        for link in hosts.links.values() {
            assert!(link.booked[slot] <= link.capacity[slot]);
        }
    }
    for placed in inventory.guests() {
        for member in placed.guest.affinity.iter().filter(|member| member.hard) {
            let others = inventory.guests().filter(|other| {
                let same = |theirs: &Membership| theirs.group == member.group;
                other.name != placed.name && other.guest.affinity.iter().any(same)
            });
            for other in others {
                // Members of one group may want different things here; what a guest wants held when it came.
                if other.guest.affinity[0] == *member {
                    let apart = member.affinity == Affinity::Apart;
                    assert_eq!(
                        placed.host != other.host,
                        apart,
                        "{} {}",
                        placed.name,
                        other.name
                    );
                }
            }
        }
    }
}

proptest! {
    /// Each scheduler decides on a copy that is as old as it happens to be; one list of bookings decides.
    #[test]
    fn two_schedulers_never_place_more_than_fits(
        guests in vec((any_guest(), any::<bool>(), any::<bool>(), any::<bool>()), 1..80),
    ) {
        let scheduler = scheduler("none");
        let mut truth = hosts(4);
        let mut copies = [truth.clone(), truth.clone()];
        let mut refused = 0;
        for (number, (guest, second, refreshes, weigh)) in guests.iter().enumerate() {
            let copy = &mut copies[usize::from(*second)];
            if *refreshes {
                *copy = truth.clone();
            }
            // One group, one wish: else a later guest's wish would contradict an earlier one's.
            let mut guest = guest.clone();
            if let Some(member) = Arc::make_mut(&mut guest).affinity.first_mut() {
                member.group = format!("{:?}{}", member.affinity, member.hard);
            }
            let name = format!("g{number}");
            let Ok(decision) = scheduler.decide(copy, &name, &guest, Occasion::Start, *weigh) else {
                continue;
            };
            match scheduler.commit(&mut truth, &decision.placement) {
                Ok(()) => scheduler.commit(copy, &decision.placement).unwrap(),
                Err(Error::Stale { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            check(&truth);
        }
        // With copies that are always new, nothing is refused.
        if guests.iter().all(|(_, _, refreshes, _)| *refreshes) {
            prop_assert_eq!(refused, 0);
        }
    }
}

#[test]
fn a_stale_decision_is_refused_with_the_reason() {
    let (scheduler, mut inventory) = (scheduler("none"), hosts(1));
    let large = guest(|guest| guest.memory = Memory(10 << 30));
    let decide = |name| {
        scheduler
            .decide(&inventory, name, &large, Occasion::Start, true)
            .unwrap()
    };
    let (first, second) = (decide("a"), decide("b"));
    scheduler.commit(&mut inventory, &first.placement).unwrap();
    let error = scheduler
        .commit(&mut inventory, &second.placement)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "host h0 changed, and may not run guest b any more: memory: it has 6G of memory left of 16G; \
         the guest needs 10G; decide again"
    );
    // One that still fits is booked.
    let small = guest(|guest| guest.memory = Memory(1 << 30));
    let decision = scheduler
        .decide(&inventory, "c", &small, Occasion::Start, true)
        .unwrap();
    place(&scheduler, &mut inventory, "d", &small).unwrap();
    scheduler
        .commit(&mut inventory, &decision.placement)
        .unwrap();
}

#[test]
fn threads_that_place_at_once_fill_the_hosts_and_no_more() {
    for (concurrency, skip) in [
        (Concurrency::OneAtATime, SkipWeights::Never),
        (Concurrency::Parallel, SkipWeights::Never),
        (Concurrency::Parallel, SkipWeights::Above(1)),
        (Concurrency::Parallel, SkipWeights::Always),
    ] {
        let policy = Policy {
            concurrency,
            skip_weights: skip,
            ..Policy::default()
        };
        let scheduler = Scheduler::new("p", policy, &[]).unwrap();
        let shared = Shared::new(hosts(10), scheduler);
        let guest = guest(|guest| guest.processors = Processors(0));
        thread::scope(|scope| {
            for thread in 0..4 {
                let (shared, guest) = (&shared, &guest);
                scope.spawn(move || {
                    // Room for 160 in all.
                    for number in 0..50 {
                        let placed =
                            shared.place(&format!("g{thread}-{number}"), guest, Occasion::Start);
                        assert!(
                            matches!(placed, Ok(_) | Err(Error::NoHost { .. })),
                            "{placed:?}"
                        );
                    }
                });
            }
        });
        let inventory = shared.read();
        assert_eq!(inventory.guest_count(), 160);
        check(&inventory);
    }
}
