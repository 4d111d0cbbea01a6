//! A router on one thread and on two, in `weir click` and in a guest: throughput by wall-clock time,
//! and CPU time per packet.
//!
//! `WEIR` names the `weir` program. Each configuration runs on one thread and on two, alternating,
//! `ROUNDS` times (9), for about a second each. Rates are packets over elapsed time, less that of a
//! run with two packets. Other load of the machine costs two threads more than one, so the best
//! round stands beside the median. The CPU time of all threads per packet is independent of other
//! load.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use abi::region::{Geometry, Region};
use bench::program::{rounds, weir};
use bench::{children_time, machine, median, results, save};
use serde::Serialize;
use switch::memory::SharedRegion;
use vmm::{Control, DataFile, Exit, GuestSpec, IMAGE, Isolation, Template};

/// Ethernet addresses, IPv4 from 10.0.0.2 to 192.168.1.2, UDP from port 4096 to 53: 60 bytes.
const FRAME: &str = "\\<00000000000200000000000108004500002e000000004011af130a000002c0a80102\
    10000035001a0000000000000000000000000000000000000000>";

/// Forwarding by address, with all of a router's work on a packet.
const ROUTER: &str = "Strip(14) -> CheckIPHeader -> GetIPAddress(16)
    -> StaticIPLookup(10.0.0.0/8 0, 192.168.1.0/24 0, 0.0.0.0/0 10.0.0.1 0)
    -> DropBroadcasts -> IPGWOptions(192.168.1.1) -> FixIPSrc(192.168.1.1) -> DecIPTTL
    -> IPFragmenter(1500) -> EtherEncap(0x0800, 00:00:00:00:00:03, 00:00:00:00:00:04)";

struct Row {
    name: &'static str,
    /// The configuration for a number of packets in all.
    config: fn(u64) -> String,
}

fn source(packets: u64) -> String {
    format!("InfiniteSource(DATA {FRAME}, LIMIT {packets}, BURST 64, TIMESTAMP false)")
}

fn side_by_side(packets: u64) -> String {
    let half = packets.div_ceil(2);
    let path = |n| {
        format!(
            "s{n} :: {} -> {ROUTER} -> c{n} :: Counter(COUNT_CALL {half} d.step) -> Discard;",
            source(half)
        )
    };
    format!(
        "{}{} d :: DriverManager(pause 2, stop); StaticThreadSched(s0 0, s1 1);",
        path(0),
        path(1)
    )
}

fn pipeline(packets: u64) -> String {
    format!(
        "s :: {} -> CheckIPHeader(14) -> Queue(2000) -> u :: Unqueue(BURST 64) -> {ROUTER}
            -> Counter(COUNT_CALL {packets} stop) -> Discard;
         StaticThreadSched(s 0, u 1);",
        source(packets)
    )
}

const ROWS: [Row; 2] = [
    Row {
        name: "two routers side by side",
        config: side_by_side,
    },
    Row {
        name: "source and router, a queue between",
        config: pipeline,
    },
];

/// A program that runs a router.
enum Runner {
    /// `weir click`, at this path.
    Program(PathBuf),
    /// A guest, behind the best wall of the machine.
    Guest(Box<Template>),
}

/// The time that a run took.
struct Spent {
    wall: Duration,
    cpu: Duration,
}

impl Runner {
    fn name(&self) -> &'static str {
        match self {
            Runner::Program(_) => "weir click",
            Runner::Guest(_) => "guest",
        }
    }

    fn run(&self, config: &str, threads: usize) -> Result<Spent, String> {
        let (start, before) = (Instant::now(), children_time());
        match self {
            Runner::Program(weir) => program(weir, config, threads)?,
            Runner::Guest(template) => guest(template, config, threads)?,
        }
        Ok(Spent {
            wall: start.elapsed(),
            cpu: children_time() - before,
        })
    }
}

fn program(weir: &Path, config: &str, threads: usize) -> Result<(), String> {
    let threads = threads.to_string();
    let mut command = Command::new(weir);
    command.args(["click", "-w", "-j", &threads, "-a", "-e", config]);
    let output = command.output();
    let output = output.map_err(|error| format!("weir could not be started: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Ring slots that a guest with interfaces would have: its packets are bounded by them.
const SLOTS: u32 = 1024;
const TIMEOUT: Duration = Duration::from_secs(60);

fn guest(template: &Template, config: &str, cpus: usize) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let geometry = Geometry::new(SLOTS, 0).map_err(|e| told(&e))?;
    let (_region, file) = SharedRegion::create(geometry, &[]).map_err(|e| told(&e))?;
    let control = Control::new().map_err(|e| told(&e))?;
    let mut guest = template
        .spawn(&GuestSpec {
            isolation: Isolation::Auto,
            cpus,
            pins: &[0, 1],
            config: config.as_bytes(),
            data: Some(DataFile {
                file: file.as_fd(),
                length: geometry.bytes(),
                wake_offset: Region::WAKE_OFFSET,
            }),
            ..GuestSpec::new("threads", 1, &control)
        })
        .map_err(|e| told(&e))?;
    match guest.wait(&control, Some(TIMEOUT)).map_err(|e| told(&e))? {
        Some(Exit::Halted) => Ok(()),
        Some(exit) => Err(exit.to_string()),
        None => Err("the guest does not end".into()),
    }
}

#[derive(Serialize)]
struct Figure {
    configuration: &'static str,
    runner: &'static str,
    threads: usize,
    /// Million packets a second: median, and best round.
    mpps: f64,
    best: f64,
    /// CPU time of all threads over packets, in nanoseconds, median.
    cpu_ns: f64,
}

#[derive(Serialize)]
struct Scaling {
    configuration: &'static str,
    runner: &'static str,
    median: f64,
    best: f64,
    /// The ratio on two dedicated processors, by CPU time.
    by_cpu: f64,
}

#[derive(Serialize)]
struct Report {
    benchmark: &'static str,
    machine: String,
    rounds: usize,
    frame_bytes: usize,
    figures: Vec<Figure>,
    two_over_one: Vec<Scaling>,
}

fn measure(runner: &Runner, row: &Row, rounds: usize) -> Result<[Figure; 2], String> {
    let trial: u32 = 1 << 22;
    let spent = runner.run(&(row.config)(trial.into()), 1)?;
    let packets = (f64::from(trial) / spent.cpu.as_secs_f64()) as u64;
    let mut rates = [Vec::new(), Vec::new()];
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for i in 0..2 {
            let idle = runner.run(&(row.config)(2), i + 1)?;
            let spent = runner.run(&(row.config)(packets), i + 1)?;
            let wall = spent.wall.saturating_sub(idle.wall).as_secs_f64();
            let cpu = spent.cpu.saturating_sub(idle.cpu).as_secs_f64();
            rates[i].push(packets as f64 / wall / 1e6);
            costs[i].push(cpu * 1e9 / packets as f64);
        }
    }
    let figure = |i: usize| Figure {
        configuration: row.name,
        runner: runner.name(),
        threads: i + 1,
        mpps: median(&rates[i]),
        best: rates[i].iter().copied().fold(0.0, f64::max),
        cpu_ns: median(&costs[i]),
    };
    Ok([figure(0), figure(1)])
}

pub(super) fn run() -> Result<(), String> {
    let rounds = rounds(9);
    let mut report = Report {
        benchmark: "threads",
        machine: machine(),
        rounds,
        frame_bytes: 60,
        figures: Vec::new(),
        two_over_one: Vec::new(),
    };
    let template = Template::new(IMAGE).map_err(|error| error.to_string())?;
    let runners = [Runner::Program(weir()), Runner::Guest(Box::new(template))];
    for (row, runner) in ROWS
        .iter()
        .flat_map(|row| runners.iter().map(move |runner| (row, runner)))
    {
        let figures = measure(runner, row, rounds)?;
        let [one, two] = &figures;
        let scaling = Scaling {
            configuration: row.name,
            runner: runner.name(),
            median: two.mpps / one.mpps,
            best: two.best / one.best,
            by_cpu: 2.0 * one.cpu_ns / two.cpu_ns,
        };
        println!(
            "{:<36} {:<10} 1: {:.1} (best {:.1}) Mpps, {:.1} ns  2: {:.1} (best {:.1}) Mpps, {:.1} ns  x{:.2} (x{:.2}, by CPU time x{:.2})",
            row.name,
            runner.name(),
            one.mpps,
            one.best,
            one.cpu_ns,
            two.mpps,
            two.best,
            two.cpu_ns,
            scaling.median,
            scaling.best,
            scaling.by_cpu
        );
        report.two_over_one.push(scaling);
        report.figures.extend(figures);
    }
    save("threads", &report)?;
    println!("{}", results().join("threads.json").display());
    Ok(())
}
