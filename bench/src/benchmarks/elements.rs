//! Every element beside Click and FastClick: the CPU time of a packet in the smallest configuration
//! that exercises the element as users do. The rows are those of `bench/elements.click`.
//!
//! `WEIR`, `CLICK`, `FASTCLICK` and `ROUNDS` (3) are those of the engine's benchmark. Words on the
//! command line select rows by parts of their names; then no result is saved. `check` before them
//! runs each row with few packets instead, and compares the counts of the programs.

mod check;
mod rows;
mod traffic;

use std::fmt::Write;
use std::path::PathBuf;

use bench::compare::{Length, PerPacket, Timed, cell, measure};
use bench::program::{Program, rounds};
use bench::{document, machine, median, save, with_folder};
use rows::{FILE, Row, Rows};
use serde::Serialize;
use traffic::Traffic;

/// A row with its traffic.
pub struct Subject<'r> {
    rows: &'r Rows,
    pub row: &'r Row,
    pub name: String,
    traffic: Traffic,
}

impl Subject<'_> {
    /// Writes the configuration for so many packets, and the captures that it reads.
    pub fn config(&self, packets: u64) -> Result<PathBuf, String> {
        let values = self.traffic.values(self.row, packets);
        let values =
            values.map_err(|error| format!("the captures could not be written: {error}"))?;
        let file = traffic::folder().join("config.click");
        std::fs::write(&file, self.rows.config(self.row, &values))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(file)
    }

    fn seconds(&self, program: &Program, packets: u64) -> Result<f64, String> {
        program.seconds(&self.config(packets)?)
    }

    /// Whether the program has the classes and arguments. The first program, Weir, has all.
    ///
    /// # Errors
    /// If the program fails for another reason.
    pub fn runs_in(&self, program: &Program) -> Result<bool, String> {
        if let Some(programs) = &self.row.programs
            && !programs.contains(&program.name.as_str())
        {
            return Ok(false);
        }
        let mut command = program.command(&self.config(1)?);
        let output = command.arg("-q").output();
        let output = output.map_err(|error| format!("{} does not start: {error}", program.name))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let unknown = ["unknown element class", "undeclared element"];
        if program.name != "Weir" && unknown.iter().any(|words| said.contains(words)) {
            return Ok(false);
        }
        if output.status.success() {
            Ok(true)
        } else {
            Err(format!("{} refuses it: {said}", program.name))
        }
    }
}

/// The rows that the words select, all without words; those with flows once for each number.
fn subjects<'r>(rows: &'r Rows, words: &[String]) -> Vec<Subject<'r>> {
    let mut subjects = Vec::new();
    for row in &rows.rows {
        for traffic in Traffic::of(row) {
            let name = match traffic.flows {
                Some((_, said)) => format!("{}, {said}", row.name),
                None => row.name.to_string(),
            };
            if words.is_empty() || words.iter().any(|word| name.contains(word.as_str())) {
                subjects.push(Subject {
                    rows,
                    row,
                    name,
                    traffic,
                });
            }
        }
    }
    subjects
}

#[derive(Serialize)]
struct Report {
    benchmark: &'static str,
    machine: String,
    rounds: usize,
    /// Of the ratios to the better peer.
    median: f64,
    worst: Option<f64>,
    /// By ratio, the lowest first; then rows without a peer.
    rows: Vec<Timed>,
}

/// The table of `docs/performance.md`.
fn table(report: &Report) -> String {
    let mut text = format!(
        "\nMedian × {:.1}, worst × {}.\n\n| element | Weir | Click | FastClick | over the better |\n\
        | --- | ---: | ---: | ---: | ---: |\n",
        report.median,
        cell(report.worst)
    );
    for row in &report.rows {
        let _ = writeln!(text, "{}", row.line());
    }
    text + "\n"
}

/// Measures a subject.
fn figure(subject: &Subject, programs: &[Program], rounds: usize) -> Result<Timed, String> {
    let mut able = Vec::new();
    for program in programs {
        if subject.runs_in(program)? {
            able.push(program);
        }
    }
    let length = Length {
        first: subject.traffic.first(),
        seconds: 0.3,
        most: subject.traffic.most(subject.row),
        rounds,
    };
    let figures = measure(&subject.name, &able, &length, |program, packets| {
        subject.seconds(program, packets)
    })?;
    Ok(Timed {
        row: subject.name.clone(),
        times: PerPacket::of(&figures),
    })
}

pub(super) fn run(words: &[String]) -> Result<(), String> {
    with_folder(&traffic::folder(), || measure_all(words))
}

fn measure_all(words: &[String]) -> Result<(), String> {
    let rows = Rows::read(FILE)?;
    let programs = Program::all();
    if words.first().is_some_and(|word| word == "check") {
        return check::check(&subjects(&rows, &words[1..]), &programs);
    }
    let rounds = rounds(3);
    let mut figures = Vec::new();
    for subject in subjects(&rows, words) {
        match figure(&subject, &programs, rounds) {
            Ok(figure) => {
                println!(
                    "{:<44} {:6.1} ns, × {:.2}",
                    figure.row,
                    figure.times.weir,
                    figure.times.over_better_peer.unwrap_or(f64::NAN)
                );
                figures.push(figure);
            }
            Err(error) => eprintln!("{}: {error}", subject.name),
        }
    }
    if !words.is_empty() {
        return Ok(());
    }
    figures.sort_by(|a, b| a.times.ratio().total_cmp(&b.times.ratio()));
    let ratios: Vec<_> = figures
        .iter()
        .filter_map(|figure| figure.times.over_better_peer)
        .collect();
    let report = Report {
        benchmark: "elements",
        machine: machine(),
        rounds,
        median: median(&ratios),
        worst: ratios.first().copied(),
        rows: figures,
    };
    println!("{}", save("elements", &report)?.display());
    document("elements", &table(&report)).map_err(|error| format!("docs/performance.md: {error}"))
}
