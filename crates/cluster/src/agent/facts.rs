//! What a host says of itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use node::client::Client;
use node::error::Result;
use node::model::{Guest, Link, Object, Stub};
use scheduler::facts::{ENTRIES_MAX, Host, Memory, Processors, Rate, Wall};

use crate::model::Loads;

/// By how much a load has to change before it is told, in thousandths of a processor.
const GUEST_STEP: u64 = 50;
/// The same of a host.
const HOST_STEP: u64 = 200;

/// What does not change as long as this program runs.
pub struct Machine {
    walls: BTreeSet<Wall>,
    build: String,
    features: BTreeSet<String>,
}

impl Machine {
    /// This machine.
    pub fn look() -> Machine {
        let template = vmm::Template::new(vmm::IMAGE).ok();
        let has = |isolation| {
            let template = template.as_ref();
            template.is_some_and(|template| template.wall(isolation).is_ok())
        };
        let walls = [
            (vmm::Isolation::Vm, Wall::Vm),
            (vmm::Isolation::Process, Wall::Process),
        ];
        let walls = walls.into_iter().filter(|(isolation, _)| has(*isolation));
        Machine {
            walls: walls.map(|(_, wall)| wall).collect(),
            build: format!("{:08x}", crc32fast::hash(vmm::IMAGE)),
            features: features(&read("/proc/cpuinfo")),
        }
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Features of the first processor.
fn features(cpuinfo: &str) -> BTreeSet<String> {
    let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let flags = lines.find(|(name, _)| matches!(name.trim(), "flags" | "Features"));
    let flags = flags.map_or("", |(_, flags)| flags);
    flags
        .split_whitespace()
        .take(ENTRIES_MAX)
        .map(String::from)
        .collect()
}

/// Bytes of memory of this machine.
fn memory(meminfo: &str) -> u64 {
    let total = meminfo.lines().find_map(|it| it.strip_prefix("MemTotal:"));
    let kilobytes = total.and_then(|it| it.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}

/// What this host has, by its node.
pub fn host(machine: &Machine, node: &Client) -> Result<Host> {
    let links = node.list::<Link>()?.into_iter().map(|link| link.name);
    let stubs = node.list::<Stub>()?.into_iter().map(|stub| stub.name);
    let names = links.chain(stubs).take(ENTRIES_MAX);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Host {
        memory: Memory(memory(&read("/proc/meminfo"))),
        processors: Processors(processors as u64 * 1000),
        links: names.map(|name| (name, Rate(0))).collect(),
        lanes: u16::try_from(node.lanes()?.len()).unwrap_or(u16::MAX),
        walls: machine.walls.clone(),
        build: machine.build.clone(),
        features: machine.features.clone(),
        ..Host::default()
    })
}

/// Over how long processor time is measured.
const WINDOW: Duration = Duration::from_secs(2);

/// Processor time that was used until an instant, in seconds.
struct Sample {
    at: Instant,
    all: f64,
    guests: BTreeMap<String, f64>,
}

/// Measures processor time over the last two seconds, at each look.
#[derive(Default)]
pub struct Meter {
    samples: VecDeque<Sample>,
}

/// Seconds of processor time that the machine has used.
fn busy(stat: &str) -> f64 {
    let first = stat.lines().next().unwrap_or("");
    let numbers: Vec<f64> = first
        .split_whitespace()
        .skip(1)
        .filter_map(|number| number.parse().ok())
        .collect();
    // user, nice, system; irq, softirq, steal come behind idle and iowait (proc(5)).
    let used = numbers.iter().take(3).chain(numbers.iter().skip(5).take(3));
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    used.sum::<f64>() / ticks
}

impl Meter {
    /// Processor time that is used, after a look of now.
    pub fn look<'a>(&mut self, guests: impl Iterator<Item = &'a Object<Guest>>) -> Option<Loads> {
        let guests = guests.filter_map(|guest| Some((guest.name.clone(), guest.status.cpu_s?)));
        self.add(Sample {
            at: Instant::now(),
            all: busy(&read("/proc/stat")),
            guests: guests.collect(),
        })
    }

    fn add(&mut self, now: Sample) -> Option<Loads> {
        // The first one is the last that is as old as the window.
        let is_old = |it: &Sample| now.at - it.at >= WINDOW;
        while self.samples.get(1).is_some_and(is_old) {
            self.samples.pop_front();
        }
        let loads = self.samples.front().map(|then| loads(then, &now));
        self.samples.push_back(now);
        loads
    }
}

/// Processor time that was used from one sample to another.
fn loads(then: &Sample, now: &Sample) -> Loads {
    let seconds = (now.at - then.at).as_secs_f64();
    let share = |now: f64, then: f64| {
        let milli = (now - then).max(0.0) / seconds * 1000.0;
        (milli / GUEST_STEP as f64).round() as u64 * GUEST_STEP
    };
    let guests = now.guests.iter().map(|(name, now)| {
        let then = then.guests.get(name).copied().unwrap_or(0.0);
        (name.clone(), Processors(share(*now, then)))
    });
    let guests: BTreeMap<_, _> = guests.collect();
    let own = share(now.all, then.all);
    let by_guests: u64 = guests.values().map(|it| it.0).sum();
    Loads {
        host: Processors(own.saturating_sub(by_guests)),
        guests,
    }
}

/// Whether loads differ enough to be told.
pub fn differ(one: &Loads, other: &Loads) -> bool {
    let apart = |a: Processors, b: Processors, step| a.0.abs_diff(b.0) >= step;
    one.guests.len() != other.guests.len()
        || apart(one.host, other.host, HOST_STEP)
        || one.guests.iter().any(|(name, load)| {
            let before = other.guests.get(name);
            before.is_none_or(|before| apart(*load, *before, GUEST_STEP))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_read_from_the_files_of_the_kernel() {
        assert_eq!(memory("MemTotal:  2048 kB\nMemFree: 1 kB\n"), 2 << 20);
        let found = features("processor : 0\nflags\t\t: fpu avx2\nflags : x\n");
        assert_eq!(found, ["avx2", "fpu"].map(String::from).into());
        let ticks = rustix::param::clock_ticks_per_second();
        let stat = format!("cpu  {ticks} 0 {ticks} 900 900 0 0 {ticks} 0 0\n");
        assert_eq!(busy(&stat), 3.0);
        let machine = Machine::look();
        assert!(machine.walls.contains(&Wall::Process) && !machine.build.is_empty());
    }

    #[test]
    fn a_load_is_that_of_the_last_two_seconds_and_is_seen_at_each_look() {
        let start = Instant::now();
        let sample = |half_seconds: u32, all: f64, guest: f64| Sample {
            at: start + WINDOW / 4 * half_seconds,
            all,
            guests: [("fw".to_string(), guest)].into(),
        };
        let mut meter = Meter::default();
        let mut look = |at, all, guest| {
            let loads = meter.add(sample(at, all, guest))?;
            Some((loads.host.0, loads.guests["fw"].0))
        };
        assert_eq!(look(0, 0.0, 0.0), None);
        assert_eq!(look(1, 0.5, 0.0), Some((1000, 0)));
        // The guest takes a processor from now on: a quarter of it is seen at the next look.
        assert_eq!(look(4, 0.5, 0.0), Some((250, 0)));
        assert_eq!(look(5, 1.0, 0.5), Some((0, 250)));
        assert_eq!(look(8, 2.5, 2.0), Some((0, 1000)));
        assert_eq!(look(12, 2.5, 2.0), Some((0, 0)));
        assert_eq!(meter.samples.len(), 2);
    }

    #[test]
    fn loads_are_told_when_they_differ_enough() {
        let loads = |host, guest| Loads {
            host: Processors(host),
            guests: [("fw".to_string(), Processors(guest))].into(),
        };
        assert!(!differ(&loads(100, 200), &loads(250, 200)));
        assert!(differ(&loads(100, 200), &loads(300, 200)));
        assert!(differ(&loads(100, 200), &loads(100, 250)));
        assert!(differ(&loads(0, 0), &Loads::default()));
    }
}
