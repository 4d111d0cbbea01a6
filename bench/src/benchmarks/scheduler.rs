//! Placements a second, and a made-up day under each policy.
//!
//! A placement is a decision and its booking. The hosts are full of guests when measuring begins, 100 a host; before
//! each placement, a guest that is chosen at random goes. The policy has five filters and four weights
//! (`scheduler::simulation::crowd`); in the rows without weights, the first host is taken that the filters leave. The
//! last rows place on two threads that share the hosts, one at a time and in parallel. `ROUNDS` (5) is the number of
//! rounds; figures are medians of rounds.
//!
//! The day is that of `scheduler::simulation::Settings::default()`, so its figures are the same on every machine.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bench::program::rounds;
use bench::{Axis, Line, lines, machine, median, results, save};
use hdrhistogram::Histogram;
use scheduler::facts::Guest;
use scheduler::simulation::{self, Report, Sample, Settings, Trace, crowd};
use scheduler::{BUILT_IN, Concurrency, Occasion, Scheduler, Shared, SkipWeights};
use serde::Serialize;

/// Guests of a host.
const GUESTS: usize = 100;
/// Placements of a round.
const PLACEMENTS: usize = 20_000;
/// Threads that place at once.
const THREADS: usize = 2;

/// Medians of a row.
#[derive(Serialize)]
struct Figure {
    name: &'static str,
    hosts: u32,
    guests: usize,
    /// Placements a second.
    rate: f64,
    /// Microseconds of a placement.
    p50: f64,
    p99: f64,
}

/// A day under a policy, in short.
#[derive(Serialize)]
struct Day {
    policy: String,
    placed: u32,
    rejected: u32,
    migrations: u32,
    overloaded_host_minutes: u32,
    hosts_awake: f64,
    utilization: f64,
}

#[derive(Serialize)]
struct Results {
    benchmark: &'static str,
    machine: String,
    rounds: usize,
    figures: Vec<Figure>,
    days: Vec<Day>,
}

fn sentence(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A policy of five filters and four weights.
fn measured(concurrency: Concurrency, skip_weights: SkipWeights) -> Result<Scheduler, String> {
    let policy = scheduler::Policy {
        concurrency,
        skip_weights,
        ..crowd::policy()
    };
    Scheduler::new("measured", policy, &[]).map_err(sentence)
}

/// Nanoseconds, up to a minute.
fn histogram() -> Result<Histogram<u64>, String> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).map_err(sentence)
}

/// A round of one row: placements a second, and microseconds of the median one and of that at the 99th percentile.
fn round(hosts: u32, weigh: bool, seed: u64) -> Result<[f64; 3], String> {
    let scheduler = measured(Concurrency::OneAtATime, SkipWeights::Never)?;
    let mut inventory = crowd::hosts(hosts).map_err(sentence)?;
    let mut guests = crowd::Crowd::new(seed);
    let full = hosts as usize * GUESTS;
    let mut names = crowd::fill(&mut inventory, &scheduler, &mut guests, full).map_err(sentence)?;
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut took = histogram()?;
    let mut total = Duration::ZERO;
    for (name, guest) in guests.take(PLACEMENTS) {
        let goes = &mut names[rng.usize(0..full)];
        inventory.release(goes).map_err(sentence)?;
        let start = Instant::now();
        let decision = scheduler.decide(&inventory, &name, &guest, Occasion::Start, weigh);
        let placement = decision.map_err(sentence)?.placement;
        scheduler
            .commit(&mut inventory, &placement)
            .map_err(sentence)?;
        let elapsed = start.elapsed();
        total += elapsed;
        took.saturating_record(elapsed.as_nanos() as u64);
        *goes = name;
    }
    let micros = |quantile| took.value_at_quantile(quantile) as f64 / 1e3;
    Ok([
        PLACEMENTS as f64 / total.as_secs_f64(),
        micros(0.5),
        micros(0.99),
    ])
}

/// A round of threads that place at once, on hosts with room.
fn round_of_threads(hosts: u32, concurrency: Concurrency, seed: u64) -> Result<[f64; 3], String> {
    let scheduler = measured(concurrency, SkipWeights::Never)?;
    let mut inventory = crowd::hosts(hosts).map_err(sentence)?;
    let mut guests = crowd::Crowd::new(seed);
    let full = hosts as usize * GUESTS;
    crowd::fill(&mut inventory, &scheduler, &mut guests, full).map_err(sentence)?;
    let waiting: Vec<(String, Arc<Guest>)> = guests.take(PLACEMENTS).collect();
    let shared = Shared::new(inventory, scheduler);
    let place = |waiting: &[(String, Arc<Guest>)]| {
        let mut took = histogram()?;
        for (name, guest) in waiting {
            let start = Instant::now();
            shared
                .place(name, guest, Occasion::Start)
                .map_err(sentence)?;
            took.saturating_record(start.elapsed().as_nanos() as u64);
        }
        Ok::<_, String>(took)
    };
    let start = Instant::now();
    let took = thread::scope(|scope| {
        let parts = waiting.chunks(PLACEMENTS / THREADS);
        let threads: Vec<_> = parts.map(|part| scope.spawn(|| place(part))).collect();
        let mut all = histogram()?;
        for thread in threads {
            all += thread.join().map_err(|_| "a thread ended")??;
        }
        Ok::<_, String>(all)
    })?;
    let rate = PLACEMENTS as f64 / start.elapsed().as_secs_f64();
    let micros = |quantile| took.value_at_quantile(quantile) as f64 / 1e3;
    Ok([rate, micros(0.5), micros(0.99)])
}

type Round = fn(u32, u64) -> Result<[f64; 3], String>;

/// The rows: a name, hosts, and a round.
const ROWS: [(&str, u32, Round); 6] = [
    ("weights", 1000, |hosts, seed| round(hosts, true, seed)),
    ("weights skipped", 1000, |hosts, seed| {
        round(hosts, false, seed)
    }),
    ("weights", 10_000, |hosts, seed| round(hosts, true, seed)),
    ("weights skipped", 10_000, |hosts, seed| {
        round(hosts, false, seed)
    }),
    ("two threads, one at a time", 1000, |hosts, seed| {
        round_of_threads(hosts, Concurrency::OneAtATime, seed)
    }),
    ("two threads, in parallel", 1000, |hosts, seed| {
        round_of_threads(hosts, Concurrency::Parallel, seed)
    }),
];

fn figures(rounds: usize) -> Result<Vec<Figure>, String> {
    let mut measured: Vec<Vec<[f64; 3]>> = vec![Vec::new(); ROWS.len()];
    for seed in 1..=rounds as u64 {
        for ((_, hosts, round), measured) in ROWS.iter().zip(&mut measured) {
            measured.push(round(*hosts, seed)?);
        }
    }
    let figure = |((name, hosts, _), rounds): (&(&'static str, u32, Round), Vec<[f64; 3]>)| {
        let middle = |of: usize| median(&rounds.iter().map(|round| round[of]).collect::<Vec<_>>());
        Figure {
            name,
            hosts: *hosts,
            guests: *hosts as usize * GUESTS,
            rate: middle(0).round(),
            p50: middle(1),
            p99: middle(2),
        }
    };
    Ok(ROWS.iter().zip(measured).map(figure).collect())
}

/// The day under each policy that places guests.
fn days() -> Result<Vec<Report>, String> {
    let trace = Trace::new(&Settings::default());
    let policies = BUILT_IN.iter().filter(|row| row.name != "maintenance");
    let day = |row: &scheduler::BuiltIn| {
        let scheduler = Scheduler::new(row.name, row.policy(), &[]).map_err(sentence)?;
        simulation::run(&trace, &scheduler).map_err(sentence)
    };
    policies.map(day).collect()
}

fn draw(days: &[Report]) -> Result<(), String> {
    type Value = fn(&Sample) -> f64;
    let hours = |day: &Report, value: Value| Line {
        name: day.policy.clone(),
        points: day
            .samples
            .iter()
            .step_by(5)
            .map(|sample| (f64::from(sample.minute) / 60.0, value(sample)))
            .collect(),
    };
    let drawings: [(&str, &str, &str, Value); 3] = [
        (
            "scheduler-highest",
            "The host that is used most",
            "percent of its processors",
            |s| s.highest,
        ),
        (
            "scheduler-utilization",
            "Hosts that are awake",
            "percent of their processors used",
            |s| s.utilization,
        ),
        ("scheduler-hosts", "Hosts that are awake", "hosts", |s| {
            s.hosts_awake as f64
        }),
    ];
    for (name, title, unit, value) in drawings {
        let path = results().join(format!("{name}.svg"));
        let lines_: Vec<_> = days.iter().map(|day| hours(day, value)).collect();
        lines(&path, title, ("hour", unit), Axis::Linear, &lines_)?;
    }
    Ok(())
}

pub(super) fn run() -> Result<(), String> {
    let days = days()?;
    draw(&days)?;
    for day in &days {
        println!(
            "{}: {} placed, {} rejected, {} migrations, {} minutes of hosts above HighUtilization",
            day.policy, day.placed, day.rejected, day.migrations, day.overloaded_host_minutes
        );
    }
    let rounds = rounds(5);
    let figures = figures(rounds)?;
    for figure in &figures {
        println!(
            "{} hosts, {}: {} placements/s, median {:.1} µs, p99 {:.1} µs",
            figure.hosts, figure.name, figure.rate, figure.p50, figure.p99
        );
    }
    let mean = |day: &Report, value: fn(&Sample) -> f64| {
        let sum: f64 = day.samples.iter().map(value).sum();
        (sum / day.samples.len() as f64 * 10.0).round() / 10.0
    };
    let days = days.iter().map(|day| Day {
        policy: day.policy.clone(),
        placed: day.placed,
        rejected: day.rejected,
        migrations: day.migrations,
        overloaded_host_minutes: day.overloaded_host_minutes,
        hosts_awake: mean(day, |sample| sample.hosts_awake as f64),
        utilization: mean(day, |sample| sample.utilization),
    });
    let results = Results {
        benchmark: "scheduler",
        machine: machine(),
        rounds,
        days: days.collect(),
        figures,
    };
    println!("{}", save("scheduler", &results)?.display());
    Ok(())
}
