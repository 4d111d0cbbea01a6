//! The delay that a guest and the switch add to a frame.
//!
//! **Polling**: one guest with one vCPU is source, firewall and sink. Its source stamps frames, which
//! the switch passes to the firewall, and from there to the sink, which stamps them again. So each
//! frame crosses guest → switch → guest → switch → guest, and its delay includes the guest's work for
//! all three. The guest has core 0, the switch core 1; both poll. About a hundredth of the frames
//! continues to this program, which reads them ten times a second.
//!
//! **Sleeping**: this program is source and sink, on core 0. It sends one frame, waits until the frame
//! returns by guest and switch, and pauses long enough for both to fall asleep. Lane and guest share
//! core 1: one works while the other waits for it. A thread that waits on core 1 for an eventfd shows
//! what the host's own wake-up takes of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench::median;
use hdrhistogram::Histogram;
use rustix::event::{EventfdFlags, eventfd};
use serde_json::{Value, json};
use switch::process::Switch;
use vmm::{Isolation, Template};

use super::Failure;
use super::filter::{self, round};
use super::guests::{Own, Running, move_to, station, switch_on};
use super::pauses::Pauses;

/// Offset of a frame's two timestamps: behind the headers of Ethernet, IP and UDP.
const STAMPS: [usize; 2] = [42, 50];
/// Samples a second that are read.
const SAMPLES: f64 = 15_000.0;
/// How often they are read.
const READ: Duration = Duration::from_millis(100);
/// How long a load lasts.
const TIME: Duration = Duration::from_millis(2_500);
/// Goal for the delay, in microseconds.
const GOAL: u64 = 20;
/// Frames a second that no path carries.
const ENDLESS: f64 = 1e8;
/// Time for all to fall asleep.
const PAUSE: Duration = Duration::from_millis(2);
/// Frames sent one at a time.
const SINGLE: usize = 400;

/// Loads, as shares of the path's rate.
const PARTS: [f64; 2] = [0.1, 0.9];
/// The walls that guests are behind.
const GUESTS: [(&str, Isolation); 2] = [("vm", Isolation::Vm), ("process", Isolation::Process)];
/// Who is awoken by one event after the other.
#[derive(Clone, Copy)]
enum Sleepers {
    /// A thread on core 1 that waits for an eventfd: what the host's wake-up takes by itself.
    Thread,
    /// The switch, and a guest behind a wall.
    Switch(Option<Isolation>),
}

const SLEEPERS: [(&str, Sleepers); 4] = [
    ("host alone: a thread", Sleepers::Thread),
    ("switch", Sleepers::Switch(None)),
    (
        "switch, guest (VM), switch",
        Sleepers::Switch(Some(Isolation::Vm)),
    ),
    (
        "switch, guest (process), switch",
        Sleepers::Switch(Some(Isolation::Process)),
    ),
];

/// The delay of frames, in microseconds.
#[derive(Clone, Copy)]
struct Delay {
    median: f64,
    p99: f64,
    p999: f64,
    most: f64,
    /// Those above [`GOAL`], in percent.
    late: f64,
    samples: u64,
}

impl Delay {
    fn of(nanoseconds: &Histogram<u64>) -> Delay {
        let at = |part| nanoseconds.value_at_quantile(part) as f64 / 1e3;
        let kept = nanoseconds.count_between(0, GOAL * 1000) as f64;
        Delay {
            median: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            most: nanoseconds.max() as f64 / 1e3,
            late: 100.0 * (1.0 - kept / nanoseconds.len() as f64),
            samples: nanoseconds.len(),
        }
    }
}

/// The result of one load.
#[derive(Clone, Copy)]
struct Loaded {
    /// Million frames a second that were to be sent, and that arrived.
    offered: f64,
    arrived: f64,
    delay: Delay,
    /// The median of the 99th percentiles of each tenth of a second, in microseconds: the delay
    /// without long pauses of the host.
    usual_p99: f64,
}

/// The host's pauses of the two cores, right before a load.
#[derive(Clone, Copy)]
struct Host {
    /// The delay at this load by these pauses alone, in microseconds.
    p99: f64,
    late: f64,
    each_second: f64,
    percent: f64,
}

impl Host {
    fn before(load: f64) -> Result<Host, Failure> {
        let pauses = Pauses::on(&[0, 1])?;
        Ok(Host {
            p99: pauses.delay(0.99, load),
            late: 100.0 * pauses.delayed(GOAL as f64, load),
            each_second: pauses.each_second(),
            percent: pauses.percent(),
        })
    }
}

/// A histogram of up to ten seconds in nanoseconds, to a thousandth.
fn histogram() -> Result<Histogram<u64>, Failure> {
    Ok(Histogram::new_with_bounds(1, 10_000_000_000, 3)?)
}

/// All figures: medians of rounds.
pub fn run(template: &Template, rounds: usize) -> Result<Value, Failure> {
    let guests: Vec<_> = GUESTS
        .into_iter()
        .filter(|(_, wall)| template.wall(*wall).is_ok())
        .collect();
    let mut capacities = vec![Vec::new(); guests.len()];
    let mut loads = vec![[const { Vec::new() }; PARTS.len()]; guests.len()];
    let mut alone = vec![Vec::new(); SLEEPERS.len()];
    for _ in 0..rounds {
        for (((_, wall), capacities), loads) in guests.iter().zip(&mut capacities).zip(&mut loads) {
            let capacity = load(template, *wall, None)?.arrived;
            capacities.push(capacity);
            for (part, loads) in PARTS.iter().zip(loads) {
                let host = Host::before(*part)?;
                loads.push((host, load(template, *wall, Some(part * capacity))?));
            }
        }
        for ((_, sleepers), delays) in SLEEPERS.iter().zip(&mut alone) {
            match sleepers {
                Sleepers::Thread => delays.push(bare()?),
                Sleepers::Switch(Some(wall)) if template.wall(*wall).is_err() => {}
                Sleepers::Switch(wall) => delays.push(sleeping(template, *wall)?),
            }
        }
    }
    let mut polling = Vec::new();
    for (((name, _), capacities), loads) in guests.iter().zip(&capacities).zip(&loads) {
        for (part, rounds) in PARTS.iter().zip(loads) {
            let host = |f: fn(&Host) -> f64| middle(rounds, |(host, _)| f(host), 2);
            let of = |f: fn(&Loaded) -> f64| middle(rounds, |(_, load)| f(load), 2);
            let delays: Vec<Delay> = rounds.iter().map(|(_, load)| load.delay).collect();
            let mut row = row(&delays);
            row["wall"] = json!(name);
            row["capacity_mpps"] = json!(round(median(capacities), 2));
            row["load_percent"] = json!((part * 100.0).round());
            row["offered_mpps"] = json!(of(|load| load.offered));
            row["arrived_mpps"] = json!(of(|load| load.arrived));
            row["usual_p99_us"] = json!(of(|load| load.usual_p99));
            row["late_percent"] = json!(of(|load| load.delay.late));
            row["host_late_percent"] = json!(host(|host| host.late));
            row["host_p99_us"] = json!(host(|host| host.p99));
            row["host_pauses_a_second"] = json!(host(|host| host.each_second));
            row["host_pauses_percent"] = json!(host(|host| host.percent));
            polling.push(row);
        }
    }
    let asleep = SLEEPERS
        .iter()
        .zip(&alone)
        .filter(|(_, delays)| !delays.is_empty());
    let asleep = asleep.map(|((name, _), delays)| {
        let mut row = row(delays);
        row["path"] = json!(name);
        row
    });
    Ok(json!({
        "frame_bytes": 60,
        "polling": polling,
        "asleep": asleep.collect::<Vec<_>>(),
    }))
}

/// The median over rounds.
fn middle<T>(rounds: &[T], of: impl Fn(&T) -> f64, digits: i32) -> f64 {
    round(median(&rounds.iter().map(of).collect::<Vec<_>>()), digits)
}

fn row(rounds: &[Delay]) -> Value {
    let of = |f: fn(&Delay) -> f64| middle(rounds, f, 2);
    json!({
        "median_us": of(|delay| delay.median),
        "p99_us": of(|delay| delay.p99),
        "p999_us": of(|delay| delay.p999),
        "most_us": of(|delay| delay.most),
        "samples_a_round": of(|delay| delay.samples as f64),
    })
}

/// Frames at a rate, in millions a second, or at the path's rate.
fn load(template: &Template, wall: Isolation, rate: Option<f64>) -> Result<Loaded, Failure> {
    let switch = switch_on(1)?;
    let mut own = Own::attach(&switch, 2048, &[("record", 5, 3)])?;
    let frame = filter::frames()[0].clone();
    let data: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
    // An unreachable rate measures the path's rate. A shaper spaces frames evenly; RatedSource
    // would send a millisecond's frames at once.
    let packets = rate.map_or(ENDLESS, |rate| rate * 1e6);
    let source =
        format!("InfiniteSource(DATA \\<{data}>) -> Shaper({packets:.0}) -> Unqueue(BURST 64)");
    let sample = SAMPLES / (rate.unwrap_or(10.0) * 1e6);
    let rules = bench::firewall::filter(&filter::rules());
    let [first, second] = STAMPS;
    let config = format!(
        "{source} -> StoreTimestamp(OFFSET {first}) -> ToNetfront(source);
         FromNetfront(in) -> CheckIPHeader(14) -> rules :: IPFilter({rules}) -> ToNetfront(out);
         rules[1] -> Discard;
         FromNetfront(sink, TIMESTAMP true) -> sunk :: Counter -> sampled :: RandomSample({sample:.9})
             -> StoreTimestamp(OFFSET {second}) -> ToNetfront(record);"
    );
    let interfaces = [
        ("source", 1, 1),
        ("in", 2, 1),
        ("out", 3, 2),
        ("sink", 4, 2),
        ("record", 6, 3),
    ];
    let mut guest = Running::start(template, &switch, (wall, 0), &interfaces, &config)?;
    std::thread::sleep(Duration::from_millis(300));
    own.receive(0, |_| {})?;
    let (mut delays, mut lately, mut p99s) = (histogram()?, histogram()?, Vec::new());
    let (before, from) = (guest.number("sunk.count")?, Instant::now());
    while from.elapsed() < TIME {
        std::thread::sleep(READ);
        own.receive(0, |head| {
            let stamp = |at: usize| {
                let bytes = head[at..at + 8].try_into();
                u64::from_ne_bytes(bytes.expect("eight bytes"))
            };
            let delay = stamp(second).saturating_sub(stamp(first));
            lately.saturating_record(delay);
        })?;
        p99s.push(lately.value_at_quantile(0.99) as f64 / 1e3);
        delays.add(&lately)?;
        lately.reset();
    }
    let (after, to) = (guest.number("sunk.count")?, Instant::now());
    let arrived = (after - before) as f64 / to.duration_since(from).as_secs_f64() / 1e6;
    Ok(Loaded {
        offered: rate.unwrap_or(arrived),
        arrived,
        delay: Delay::of(&delays),
        usual_p99: median(&p99s),
    })
}

/// The delay of single frames while all sleep: through the switch alone, and through the switch, a
/// guest, and the switch again.
fn sleeping(template: &Template, wall: Option<Isolation>) -> Result<Delay, Failure> {
    let switch = switch_on(1)?;
    let (mut own, _guest) = match wall {
        None => (
            Own::attach(&switch, 64, &[("left", 1, 1), ("right", 2, 1)])?,
            None,
        ),
        Some(wall) => {
            let own = Own::attach(&switch, 64, &[("left", 1, 1), ("right", 2, 2)])?;
            let guest = firewall(template, &switch, wall)?;
            (own, Some(guest))
        }
    };
    let before = move_to(0)?;
    let delays = single(&mut own);
    rustix::thread::sched_setaffinity(None, &before)?;
    delays
}

/// The time from a write to an eventfd until the thread that waits for it runs on the other core.
fn bare() -> Result<Delay, Failure> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC)?;
    // Nanoseconds from `started`; zero: not awake yet.
    let (started, awake) = (Instant::now(), AtomicU64::new(0));
    let elapsed = || started.elapsed().as_nanos() as u64;
    let before = move_to(1)?;
    let delays = std::thread::scope(|scope| -> Result<Delay, Failure> {
        let sleeper = scope.spawn(|| {
            for _ in 0..SINGLE {
                if rustix::io::read(&bell, &mut [0; 8]).is_err() {
                    return;
                }
                awake.store(elapsed(), Ordering::Release);
            }
        });
        move_to(0)?;
        let mut delays = histogram()?;
        for _ in 0..SINGLE {
            std::thread::sleep(PAUSE);
            awake.store(0, Ordering::Relaxed);
            let sent = elapsed();
            rustix::io::write(&bell, &1u64.to_ne_bytes())?;
            let woken = loop {
                match awake.load(Ordering::Acquire) {
                    0 if sleeper.is_finished() => return Err("the sleeper ended".into()),
                    0 => std::hint::spin_loop(),
                    at => break at,
                }
            };
            delays.saturating_record(woken - sent);
        }
        Ok(Delay::of(&delays))
    });
    rustix::thread::sched_setaffinity(None, &before)?;
    delays
}

fn firewall(template: &Template, switch: &Switch, wall: Isolation) -> Result<Running, Failure> {
    let rules = bench::firewall::filter(&filter::rules());
    let config = format!(
        "FromNetfront(in) -> CheckIPHeader(14) -> rules :: IPFilter({rules}) -> ToNetfront(out);
         rules[1] -> Discard;"
    );
    let interfaces = [("in", 3, 1), ("out", 4, 2)];
    Running::start(template, switch, (wall, 1), &interfaces, &config)
}

fn single(own: &mut Own) -> Result<Delay, Failure> {
    let mut frame = filter::frames()[0].clone();
    frame[..6].copy_from_slice(&station(2));
    frame[6..12].copy_from_slice(&station(1));
    let mut delays = histogram()?;
    for _ in 0..SINGLE {
        std::thread::sleep(PAUSE);
        let sent = Instant::now();
        own.send(0, &frame)?;
        while own.receive(1, |_| {})? == 0 {
            if sent.elapsed() > Duration::from_secs(1) {
                return Err("a frame did not return".into());
            }
            std::hint::spin_loop();
        }
        delays.saturating_record(sent.elapsed().as_nanos() as u64);
    }
    Ok(Delay::of(&delays))
}
