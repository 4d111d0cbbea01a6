//! A router on one thread and on two: how much more it does by the clock on the wall.
//!
//! `WEIR` names the `weir` program. Each configuration runs with `-j 1` and `-j 2`, turn about,
//! `ROUNDS` times (9), for about a second each. Rates are packets over time that passed, less that
//! of a run with one packet. What else the machine does takes from two threads more than from one,
//! so the best round stands beside the median.

use std::ffi::OsString;
use std::process::{Command, ExitCode};
use std::time::Instant;

use bench::{machine, median, results, save};
use serde::Serialize;

/// Ethernet addresses, IPv4 from 10.0.0.2 to 192.168.1.2, UDP from port 4096 to 53: 60 bytes.
const FRAME: &str = "\\<00000000000200000000000108004500002e000000004011af130a000002c0a80102\
    10000035001a0000000000000000000000000000000000000000>";

/// Forwarding by address, with everything that a router does to a packet.
const ROUTER: &str = "Strip(14) -> CheckIPHeader -> GetIPAddress(16)
    -> StaticIPLookup(10.0.0.0/8 0, 192.168.1.0/24 0, 0.0.0.0/0 10.0.0.1 0)
    -> DropBroadcasts -> IPGWOptions(192.168.1.1) -> FixIPSrc(192.168.1.1) -> DecIPTTL
    -> IPFragmenter(1500) -> EtherEncap(0x0800, 00:00:00:00:00:03, 00:00:00:00:00:04)";

struct Row {
    name: &'static str,
    /// The configuration for so many packets in all, given the source's class and arguments.
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

fn seconds(weir: &OsString, row: &Row, threads: usize, packets: u64) -> Result<f64, String> {
    let threads = threads.to_string();
    let mut command = Command::new(weir);
    command.args(["click", "-w", "-j", &threads, "-a", "-e"]);
    command.arg((row.config)(packets));
    let start = Instant::now();
    let output = command.output();
    let output = output.map_err(|error| format!("weir could not be started: {error}"))?;
    let taken = start.elapsed().as_secs_f64();
    match output.status.success() {
        true => Ok(taken),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[derive(Serialize)]
struct Figure {
    configuration: &'static str,
    threads: usize,
    /// Million packets a second: median, and best round.
    mpps: f64,
    best: f64,
}

#[derive(Serialize)]
struct Scaling {
    configuration: &'static str,
    median: f64,
    best: f64,
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

fn measure(weir: &OsString, row: &Row, rounds: usize) -> Result<[Figure; 2], String> {
    let trial: u32 = 1 << 22;
    let packets = (f64::from(trial) / seconds(weir, row, 1, trial.into())?) as u64;
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (i, rates) in rates.iter_mut().enumerate() {
            let idle = seconds(weir, row, i + 1, 2)?;
            let taken = seconds(weir, row, i + 1, packets)? - idle;
            rates.push(packets as f64 / taken / 1e6);
        }
    }
    let figure = |i: usize| Figure {
        configuration: row.name,
        threads: i + 1,
        mpps: median(&rates[i]),
        best: rates[i].iter().copied().fold(0.0, f64::max),
    };
    Ok([figure(0), figure(1)])
}

fn run() -> Result<(), String> {
    let rounds = std::env::var("ROUNDS").ok();
    let rounds = rounds.and_then(|r| r.parse().ok()).unwrap_or(9);
    let weir = std::env::var_os("WEIR").unwrap_or_else(|| "target/release/weir".into());
    let mut report = Report {
        benchmark: "threads",
        machine: machine(),
        rounds,
        frame_bytes: 60,
        figures: Vec::new(),
        two_over_one: Vec::new(),
    };
    for row in &ROWS {
        let figures = measure(&weir, row, rounds)?;
        let [one, two] = &figures;
        let scaling = Scaling {
            configuration: row.name,
            median: two.mpps / one.mpps,
            best: two.best / one.best,
        };
        println!(
            "{:<36} 1 thread {:.1} (best {:.1})  2 threads {:.1} (best {:.1}) Mpps  x{:.2} (x{:.2})",
            row.name, one.mpps, one.best, two.mpps, two.best, scaling.median, scaling.best
        );
        report.two_over_one.push(scaling);
        report.figures.extend(figures);
    }
    save("threads", &report)?;
    println!("{}", results().join("threads.json").display());
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
