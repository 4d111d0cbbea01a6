//! The time to start and end a large router, beside Click and FastClick.
//!
//! `WEIR` names the `weir` program; `CLICK` and `FASTCLICK` name the peers' `click` programs; a peer
//! without a name is skipped. Each program runs each configuration, which stops at once, alternating,
//! `ROUNDS` times (7). Figures are CPU time, medians. Words on the command line select rows by parts
//! of their names; then no result is saved.

use std::fmt::Write;
use std::path::PathBuf;

use bench::program::{Program, rounds};
use bench::traffic::Random;
use bench::{firewall, median, report, routes, with_folder};
use serde::Serialize;

const ROUTES: usize = 500_000;
const RULES: usize = 100_000;
const ELEMENTS: usize = 100_000;
/// Elements of a path in the rows with many.
const PATH: usize = 100;

struct Row {
    name: &'static str,
    config: fn() -> String,
    /// Whether the peers run it: Click takes minutes for the rules.
    peers: bool,
}

const ROWS: [Row; 7] = [
    Row {
        name: "RadixIPLookup, 500 000 routes",
        config: || lookup("RadixIPLookup"),
        peers: true,
    },
    Row {
        name: "DirectIPLookup, 500 000 routes",
        config: || lookup("DirectIPLookup"),
        peers: true,
    },
    Row {
        name: "IPFilter, 100 000 rules",
        config: || {
            filter(firewall::filter(&firewall::rules(
                RULES,
                &mut Random::new(1),
            )))
        },
        peers: false,
    },
    Row {
        name: "IPFilter, 100 000 rules of many primitives",
        config: || {
            filter(firewall::filter_of_many_primitives(
                RULES,
                &mut Random::new(1),
            ))
        },
        peers: false,
    },
    Row {
        name: "100 000 elements, named",
        config: || paths(|number| format!("c{number} :: Counter")),
        peers: true,
    },
    Row {
        name: "100 000 elements, unnamed",
        config: || paths(|_| "Counter".into()),
        peers: true,
    },
    Row {
        name: "100 000 elements, of twelve classes",
        config: || paths(|number| MIXED[number % MIXED.len()].into()),
        peers: true,
    },
];

/// Elements that fit behind each other.
const MIXED: [&str; 12] = [
    "Counter",
    "Strip(14)",
    "CheckIPHeader",
    "Paint(3)",
    "DecIPTTL",
    "Unstrip(14)",
    "Null",
    "SetIPChecksum",
    "MarkIPHeader(14)",
    "EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2)",
    "Queue(10)",
    "Unqueue",
];

fn lookup(class: &str) -> String {
    let prefixes = routes::prefixes(ROUTES, &mut Random::new(1));
    let mut config = format!("r :: {class}({}); Idle -> r;", routes::table(&prefixes));
    for output in 0..routes::OUTPUTS {
        let _ = write!(config, " r[{output}] -> Discard;");
    }
    config
}

fn filter(rules: String) -> String {
    format!("Idle -> f :: IPFilter({rules}); f[0] -> Discard; f[1] -> Discard;")
}

/// Paths of elements, one line each.
fn paths(element: impl Fn(usize) -> String) -> String {
    let mut config = String::new();
    for path in 0..ELEMENTS / PATH {
        config.push_str("Idle");
        for number in 1..PATH - 1 {
            let _ = write!(config, " -> {}", element(path * PATH + number));
        }
        config.push_str(" -> Discard;\n");
    }
    config
}

#[derive(Serialize)]
struct Figure {
    configuration: &'static str,
    program: String,
    /// CPU time in seconds, median.
    seconds: f64,
    least: f64,
    most: f64,
}

fn measure(row: &Row, programs: &[Program], rounds: usize) -> Result<Vec<Figure>, String> {
    let file = folder().join("config.click");
    let config = (row.config)() + " DriverManager(stop);";
    std::fs::write(&file, config).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut times = vec![Vec::new(); programs.len()];
    for _ in 0..rounds {
        for (program, times) in programs.iter().zip(&mut times) {
            times.push(program.seconds(&file)?);
        }
    }
    let figure = |(program, times): (&Program, &Vec<f64>)| Figure {
        configuration: row.name,
        program: program.name.clone(),
        seconds: median(times),
        least: times.iter().copied().fold(f64::INFINITY, f64::min),
        most: times.iter().copied().fold(0.0, f64::max),
    };
    Ok(programs.iter().zip(&times).map(figure).collect())
}

/// Where the configurations are kept meanwhile.
fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("weir-bench-startup-{}", std::process::id()))
}

pub(super) fn run(words: &[String]) -> Result<(), String> {
    with_folder(&folder(), || measure_all(words))
}

fn measure_all(words: &[String]) -> Result<(), String> {
    let programs = Program::all();
    let rounds = rounds(7);
    let mut all = Vec::new();
    for row in &ROWS {
        let programs = if row.peers {
            &programs[..]
        } else {
            &programs[..1]
        };
        if !words.is_empty() && !words.iter().any(|word| row.name.contains(word)) {
            continue;
        }
        let figures = measure(row, programs, rounds)?;
        let cells = figures.iter();
        let cells: Vec<String> = cells
            .map(|f| format!("{} {:.2} ({:.2})", f.program, f.seconds, f.least))
            .collect();
        println!("{:<42} {} s", row.name, cells.join("  "));
        all.extend(figures);
    }
    match words.is_empty() {
        true => report("startup", rounds, &all),
        false => Ok(()),
    }
}
