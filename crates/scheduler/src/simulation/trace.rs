//! Made-up days.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::sync::Arc;

use fastrand::Rng;

use super::thousandths;
use crate::facts::{Affinity, Guest, Host, Membership, Memory, Processors, Rate};

/// A day.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What makes it this day.
    pub seed: u64,
    /// Hosts.
    pub hosts: u32,
    /// Hours.
    pub hours: u32,
    /// Guests that come, in all.
    pub guests: u32,
}

impl Default for Settings {
    /// 24 hours of 100 hosts, whose processors are about three quarters used at noon.
    fn default() -> Settings {
        Settings {
            seed: 1,
            hosts: 100,
            hours: 24,
            guests: 11_000,
        }
    }
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A guest comes.
    Arrive(String, Arc<Guest>),
    /// A guest's load changes.
    Load(String, Processors),
    /// A guest goes.
    Depart(String),
}

/// Hosts, and what happens in the order of minutes.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The hosts.
    pub hosts: Vec<(String, Host)>,
    /// What happens, and in which minute.
    pub events: Vec<(u32, Event)>,
    /// Minutes.
    pub minutes: u32,
}

/// Kinds of guests: processors, in thousandths, that one uses when busy; memory in MiB; rate in Mb/s; and how many of
/// ten are of the kind.
const KINDS: [(f64, u64, u64, u64); 3] = [
    (200.0, 64, 50, 6),
    (800.0, 256, 200, 3),
    (2000.0, 1024, 1000, 1),
];
/// Minutes between changes of a guest's load.
const CHANGE: u32 = 15;
/// Minutes that a guest stays, on average.
const STAY: f64 = 300.0;

impl Trace {
    /// Makes a day.
    pub fn new(settings: &Settings) -> Trace {
        let mut rng = Rng::with_seed(settings.seed);
        let minutes = settings.hours * 60;
        let hosts = (0..settings.hosts).map(host).collect();
        let mut events = Vec::new();
        for number in 0..settings.guests {
            live(number, minutes, &mut rng, &mut events);
        }
        // Stable: what happens to one guest in one minute stays in its order.
        events.sort_by_key(|(minute, _)| *minute);
        Trace {
            hosts,
            events,
            minutes,
        }
    }
}

fn host(number: u32) -> (String, Host) {
    // Every fourth is of a larger kind.
    let size = if number % 4 == 3 { 2 } else { 1 };
    let host = Host {
        memory: Memory((size * 16) << 30),
        processors: Processors(size * 16_000),
        load: Processors(200),
        links: BTreeMap::from([("wan".into(), Rate(size * 25_000_000_000))]),
        lanes: 8,
        site: format!("hall-1/rack-{}", number / 20),
        ..Host::default()
    };
    (format!("host-{number}"), host)
}

/// How busy a minute of the day is: from 0.3 at night to 1 at noon.
fn daylight(minute: u32) -> f64 {
    0.65 - 0.35 * (TAU * f64::from(minute) / 1440.0).cos()
}

/// One guest's life.
fn live(number: u32, minutes: u32, rng: &mut Rng, events: &mut Vec<(u32, Event)>) {
    let mut start = rng.u32(0..minutes);
    while rng.f64() > daylight(start) {
        start = rng.u32(0..minutes);
    }
    let stay = (-(1.0 - rng.f64()).ln() * STAY).max(1.0) as u32;
    let end = start.saturating_add(stay);
    let mut pick = rng.u64(0..10);
    let kind = KINDS.iter().find(|(.., share)| {
        let found = pick < *share;
        pick = pick.wrapping_sub(*share);
        found
    });
    let (busy, memory, rate, _) = *kind.unwrap_or(&KINDS[0]);
    let load =
        |minute: u32, rng: &mut Rng| thousandths(busy * daylight(minute) * (0.4 + 1.2 * rng.f64()));
    // Services of three: each of a host of its own, if it can be.
    let service = Membership {
        group: format!("service-{}", number / 3),
        affinity: Affinity::Apart,
        hard: number % 30 < 3,
    };
    let guest = Guest {
        memory: Memory(memory << 20),
        processors: thousandths(busy * 0.5),
        load: Some(load(start, rng)),
        links: BTreeMap::from([("wan".into(), Rate(rate * 1_000_000))]),
        affinity: vec![service],
        ..Guest::default()
    };
    let name = format!("guest-{number}");
    events.push((start, Event::Arrive(name.clone(), Arc::new(guest))));
    let mut minute = start + CHANGE;
    while minute < end.min(minutes) {
        events.push((minute, Event::Load(name.clone(), load(minute, rng))));
        minute += CHANGE;
    }
    if end < minutes {
        events.push((end, Event::Depart(name)));
    }
}
