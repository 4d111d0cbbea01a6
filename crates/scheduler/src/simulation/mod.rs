//! A day of guests that come, change their load and go, under any policy: the scheduler's own code at work on made-up
//! hosts. The same seed makes the same day.

pub mod crowd;
mod trace;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::facts::{HostState, Processors};
use crate::inventory::{Inventory, Millis};
use crate::scheduler::Scheduler;
use crate::unit::Occasion;

pub use trace::{Event, Settings, Trace};

/// A minute of the day, after all that happened in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Sample {
    /// The minute.
    pub minute: u32,
    /// Guests.
    pub guests: usize,
    /// Hosts that run guests.
    pub hosts_used: usize,
    /// Hosts that are awake.
    pub hosts_awake: usize,
    /// Processors used, in percent of those of hosts that are awake.
    pub utilization: f64,
    /// The same of the host that is used most.
    pub highest: f64,
}

/// A day under a policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report {
    /// The policy.
    pub policy: String,
    /// A sample for each minute.
    pub samples: Vec<Sample>,
    /// Guests that were placed.
    pub placed: u32,
    /// Guests that no host could run.
    pub rejected: u32,
    /// Guests that moved.
    pub migrations: u32,
    /// Minutes of hosts that were used above HighUtilization.
    pub overloaded_host_minutes: u32,
}

/// Runs a trace under a policy. Moves take a minute; hosts wake at once.
pub fn run(trace: &Trace, scheduler: &Scheduler) -> Result<Report> {
    let mut inventory = Inventory::default();
    for (name, host) in &trace.hosts {
        inventory.set_host(name, host.clone())?;
    }
    scheduler.watch(&mut inventory);
    let mut report = Report {
        policy: scheduler.name().into(),
        samples: Vec::new(),
        placed: 0,
        rejected: 0,
        migrations: 0,
        overloaded_host_minutes: 0,
    };
    let mut events = trace.events.iter().peekable();
    for minute in 0..trace.minutes {
        inventory.hosts.set_now(Millis(u64::from(minute) * 60_000));
        let moving: Vec<_> = inventory
            .moving()
            .map(|placed| placed.name.clone())
            .collect();
        for name in moving {
            inventory.finish_move(&name)?;
            report.migrations += 1;
        }
        while let Some((_, event)) = events.next_if(|(at, _)| *at <= minute) {
            happen(event, &mut inventory, scheduler, &mut report)?;
        }
        while let (Some(placement), _) = scheduler.next_move(&inventory) {
            scheduler.commit(&mut inventory, &placement)?;
        }
        save_power(&mut inventory, scheduler)?;
        report.sample(minute, &inventory);
    }
    Ok(report)
}

fn happen(
    event: &Event,
    inventory: &mut Inventory,
    scheduler: &Scheduler,
    report: &mut Report,
) -> Result {
    match event {
        Event::Arrive(name, guest) => {
            let mut decided = scheduler.decide(inventory, name, guest, Occasion::Start, true);
            if decided.is_err()
                && let Some(host) = scheduler.wake_for(inventory, name, guest)
            {
                set_state(inventory, &host, HostState::Up)?;
                decided = scheduler.decide(inventory, name, guest, Occasion::Start, true);
            }
            match decided {
                Ok(decision) => {
                    scheduler.commit(inventory, &decision.placement)?;
                    report.placed += 1;
                }
                Err(Error::NoHost { .. }) => report.rejected += 1,
                Err(error) => return Err(error),
            }
        }
        // A guest that was rejected has neither load nor end.
        Event::Load(name, load) if inventory.guest(name).is_some() => {
            inventory.set_load(name, *load)?;
        }
        Event::Depart(name) if inventory.guest(name).is_some() => {
            inventory.release(name)?;
        }
        Event::Load(..) | Event::Depart(_) => {}
    }
    Ok(())
}

fn save_power(inventory: &mut Inventory, scheduler: &Scheduler) -> Result {
    let power = scheduler.power(inventory);
    let states = [
        (power.may_sleep, HostState::Asleep),
        (power.should_wake, HostState::Up),
    ];
    for (names, state) in states {
        for name in names {
            set_state(inventory, &name, state)?;
        }
    }
    Ok(())
}

fn set_state(inventory: &mut Inventory, name: &str, state: HostState) -> Result {
    let slot = inventory.hosts.slot(name)?;
    let mut facts = inventory.hosts.facts(slot).clone();
    facts.state = state;
    inventory.set_host(name, facts)
}

impl Report {
    fn sample(&mut self, minute: u32, inventory: &Inventory) {
        let hosts = &inventory.hosts;
        let sum = |of: &[u64]| hosts.up.iter().map(|slot| of[slot]).sum::<u64>();
        let share = |used: u64, capacity: u64| 100.0 * used as f64 / capacity.max(1) as f64;
        let highest = hosts.up.iter().map(|slot| hosts.use_of(slot)).max();
        self.samples.push(Sample {
            minute,
            guests: inventory.guest_count(),
            hosts_used: hosts
                .up
                .iter()
                .filter(|slot| hosts.count[*slot] > 0)
                .count(),
            hosts_awake: hosts.up.len(),
            utilization: share(sum(&hosts.load), sum(&hosts.processors.capacity)),
            highest: highest.unwrap_or(0) as f64 / 10.0,
        });
        let over = hosts
            .up
            .iter()
            .filter(|slot| hosts.over_for(*slot).is_some());
        self.overloaded_host_minutes += over.count() as u32;
    }
}

/// A load of so many thousandths of a processor.
fn thousandths(load: f64) -> Processors {
    Processors(load.max(0.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{BUILT_IN, Policy};

    fn settings() -> Settings {
        Settings {
            hosts: 20,
            hours: 6,
            guests: 1200,
            ..Settings::default()
        }
    }

    #[test]
    fn a_day_is_the_same_every_time_and_policies_differ() {
        let trace = Trace::new(&settings());
        assert_eq!(trace.events, Trace::new(&settings()).events);
        let other = Settings {
            seed: 2,
            ..settings()
        };
        assert_ne!(trace.events, Trace::new(&other).events);
        let run_under = |row: &crate::BuiltIn| {
            let scheduler = Scheduler::new(row.name, row.policy(), &[]).unwrap();
            run(&trace, &scheduler).unwrap()
        };
        let reports: Vec<_> = BUILT_IN.iter().map(run_under).collect();
        let [none, even, even_guests, saving, maintenance] = &reports[..] else {
            panic!("a policy has no test");
        };
        assert_eq!(none, &run_under(&BUILT_IN[0]));
        assert_eq!((none.migrations, none.rejected), (0, 0));
        assert!(even.overloaded_host_minutes <= none.overloaded_host_minutes);
        let awake = |report: &Report| -> usize {
            report.samples.iter().map(|sample| sample.hosts_awake).sum()
        };
        assert!(
            awake(saving) * 10 < awake(none) * 9,
            "{} {}",
            awake(saving),
            awake(none)
        );
        assert!(saving.migrations > 0 && even_guests.rejected == 0);
        // Nothing starts under maintenance.
        assert_eq!((maintenance.placed, maintenance.rejected), (0, none.placed));
        assert_eq!(Policy::default(), BUILT_IN[0].policy());
    }
}
