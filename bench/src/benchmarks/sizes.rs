//! Functions against the number of flows, the length of frames and the number of rules: whether there is a cliff.
//!
//! The firewall, the router and the NAT of the engine's benchmark, whose packets circulate: one frame a flow, but 1024
//! frames at least. Each has frames of 60 bytes in 1 flow to 1 M, and frames of other lengths in few flows and in 1 M.
//! With 1 M flows a round's packets take 2 GB.
//!
//! `WEIR`, `CLICK`, `FASTCLICK` and `ROUNDS` (3) are those of the engine's benchmark. Words on the command line select
//! rows by parts of their names; then no result is saved.

use std::fmt::Write;
use std::path::PathBuf;

use bench::compare::{Length, PerPacket, Timed, measure};
use bench::program::{Program, rounds};
use bench::traffic::{Flow, Random};
use bench::{document, firewall, machine, routes, save, with_folder};
use serde::Serialize;

use super::captures::IMIX;
use super::engine::{NAT, PREFIXES, ROOM, Row, inside, routing};

const FEW: usize = 1000;
const MANY: usize = 1_000_000;
const FLOWS: [(usize, &str); 4] = [
    (1, "1 flow"),
    (FEW, "1 K flows"),
    (100_000, "100 K flows"),
    (MANY, "1 M flows"),
];
/// Lengths of frames, which follow each other.
const LENGTHS: [(&[usize], &str); 4] = [
    (&[60], "60 bytes"),
    (&[576], "576 bytes"),
    (&[1514], "1514 bytes"),
    (IMIX, "IMIX"),
];

fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("weir-sizes-{}", std::process::id()))
}

/// A function, and its flows.
struct Function {
    name: String,
    path: String,
    /// How many times a packet is processed in a round.
    times: u64,
    flows: Vec<Flow>,
}

/// The firewall with so many rules. The same flows may come several times.
fn filter(count: usize) -> Function {
    let rules = firewall::rules(count, &mut Random::new(count as u64));
    let text = firewall::filter(&rules);
    Function {
        name: format!("firewall, {count} rules"),
        path: format!("-> CheckIPHeader(OFFSET 14) -> f :: IPFilter({text}) -> q; f[1] -> q"),
        times: 1,
        flows: firewall::flows(&rules, MANY, &mut Random::new(1)),
    }
}

fn functions() -> Vec<Function> {
    let prefixes = routes::prefixes(PREFIXES, &mut Random::new(1));
    let router = Function {
        name: "IP router, 100 K prefixes".into(),
        path: routing(&prefixes),
        times: 1,
        flows: routes::flows(&prefixes, MANY, &mut Random::new(1)).collect(),
    };
    let nat = Function {
        name: "NAT both ways".into(),
        path: NAT.into(),
        times: 2,
        flows: (0..MANY).map(inside).collect(),
    };
    vec![filter(10), filter(1000), router, nat]
}

#[derive(Serialize)]
struct Report {
    benchmark: &'static str,
    machine: String,
    rounds: usize,
    rows: Vec<Timed>,
}

/// Measures a row. Its files, which may be large, are gone then.
fn measure_row(
    function: &Function,
    name: String,
    flows: usize,
    lengths: &[usize],
) -> Result<Timed, String> {
    let folder = folder().join("row");
    let programs = Program::all();
    let all: Vec<_> = programs.iter().collect();
    with_folder(&folder, || {
        let packets = flows.max(1024);
        let frames = function.flows[..flows]
            .iter()
            .cycle()
            .zip(lengths.iter().cycle());
        let frames = frames
            .map(|(flow, length)| flow.frame(*length))
            .take(packets);
        let room = ROOM.max(2 * packets);
        let row = Row::round(
            &folder,
            name,
            &function.path,
            (function.times, room),
            frames,
        );
        let row = row.map_err(|error| format!("no capture: {error}"))?;
        let length = Length {
            first: (2 * packets as u64).max(1 << 18),
            // The time in which many packets are read varies.
            seconds: if flows < MANY { 0.4 } else { 1.5 },
            most: 1 << 32,
            rounds: rounds(3),
        };
        let figures = measure(&row.name, &all, &length, |program, packets| {
            row.seconds(program, packets)
        })?;
        Ok(Timed {
            row: row.name,
            times: PerPacket::of(&figures),
        })
    })
}

/// The table of `docs/performance.md`.
fn table(rows: &[Timed]) -> String {
    let mut text = String::from(
        "| configuration | Weir | Click | FastClick | Weir over the better |\n| --- | ---: | ---: | ---: | ---: |\n",
    );
    for row in rows {
        let _ = writeln!(text, "{}", row.line());
    }
    text
}

pub(super) fn run(words: &[String]) -> Result<(), String> {
    with_folder(&folder(), || measure_all(words))
}

fn measure_all(words: &[String]) -> Result<(), String> {
    let mut rows = Vec::new();
    for function in functions() {
        let by_flows = FLOWS.map(|flows| (flows, LENGTHS[0]));
        let by_length = [FLOWS[1], FLOWS[3]].map(|flows| {
            let others = &LENGTHS[1..];
            others.iter().map(move |lengths| (flows, *lengths))
        });
        let all = by_flows.into_iter().chain(by_length.into_iter().flatten());
        for ((flows, said), (lengths, long)) in all {
            let name = format!("{}, {said}, {long}", function.name);
            if !words.is_empty() && !words.iter().any(|word| name.contains(word)) {
                continue;
            }
            match measure_row(&function, name.clone(), flows, lengths) {
                Ok(row) => {
                    println!("{}", row.line());
                    rows.push(row);
                }
                Err(error) => eprintln!("{name}: {error}"),
            }
        }
    }
    if !words.is_empty() {
        return Ok(());
    }
    document("sizes", &table(&rows)).map_err(|error| format!("docs/performance.md: {error}"))?;
    let report = Report {
        benchmark: "sizes",
        machine: machine(),
        rounds: rounds(3),
        rows,
    };
    println!("{}", save("sizes", &report)?.display());
    Ok(())
}
