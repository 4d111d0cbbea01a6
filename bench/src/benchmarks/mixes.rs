//! Configurations that nobody tuned for: random ones of 5 to 40 elements, beside Click and FastClick.
//!
//! `MIXES` (200) are made from the seeds 1, 2, 3 …, by the generator of the differential test (`tests/differential/mix.rs`).
//! 1024 frames of UDP, TCP and ping flows go round in front of each; a figure is the CPU time of a packet that goes
//! into it. The counts of the sinks are compared as well: a peer whose sinks count otherwise did other work, and is left
//! out. Click's Unqueue, for one, ends its burst where an element on the way drops a packet, and the queue overflows.
//!
//! `WEIR`, `CLICK`, `FASTCLICK` and `ROUNDS` (3) are those of the engine's benchmark. Seeds on the command line are
//! measured alone, and their configurations shown; then no result is saved.

#[path = "../../../tests/differential/mix.rs"]
mod mix;
#[expect(dead_code, reason = "the rest is the differential test's")]
#[path = "../../../tests/differential/random.rs"]
mod random;

use std::fmt::Write;
use std::path::PathBuf;

use bench::compare::{Length, PerPacket, measure, same_counts};
use bench::program::{Program, rounds, setting};
use bench::traffic::{Flow, capture, checksum, set_transport, words};
use bench::{document, machine, percentile, save, with_folder};
use mix::{BURST, mix};
use random::Random;
use serde::Serialize;

/// Frames that go round.
const FRAMES: u32 = 1024;
/// Packets of the run whose counts are compared, and those on the way when the programs stop.
const COUNTED: u64 = 100_000;
const ON_THE_WAY: u64 = 2048;

fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("weir-mixes-{}", std::process::id()))
}

/// A frame of the flow of a number, with right checksums.
fn frame(i: u32) -> Vec<u8> {
    let flow = Flow {
        source: 0x0a00_0001 + i % 61,
        destination: if i.is_multiple_of(3) {
            0xc0a8_0001
        } else {
            0x0a00_0001
        } + i % 7,
        protocol: [17, 6, 6, 1][i as usize % 4],
        ports: (1024 + i as u16, [53, 80, 443][i as usize % 3]),
    };
    let mut frame = flow.frame(60);
    set_transport(&mut frame, flow.protocol);
    let (at, pseudo) = match flow.protocol {
        1 => (2, 0),
        6 => (16, 6 + 26 + words(&frame[26..34])),
        _ => (6, 17 + 26 + words(&frame[26..34])),
    };
    let sum = checksum(pseudo + words(&frame[34..60]));
    frame[34 + at..36 + at].copy_from_slice(&sum);
    frame
}

/// A random configuration.
struct Mix {
    seed: u64,
    elements: usize,
    statements: Vec<String>,
    sinks: usize,
}

impl Mix {
    fn new(seed: u64) -> Mix {
        let mut random = Random::new(seed);
        let size = random.within(5..=40);
        let (statements, sinks) = mix(&mut random, size);
        Mix {
            seed,
            elements: statements
                .iter()
                .filter(|line| line.contains(" :: "))
                .count(),
            statements,
            sinks,
        }
    }

    /// Writes the configuration for so many packets.
    fn config(&self, packets: u64) -> Result<PathBuf, String> {
        let capture = folder().join("frames.pcap");
        let file = folder().join("config.click");
        let text = format!(
            "{}\nFromDump({}, END_CALL u.active true) -> q :: Queue({});\n\
            q -> u :: Unqueue(BURST {BURST}, ACTIVE false) -> Counter(COUNT_CALL {packets} stop) -> t :: Tee -> q;\n\
            t[1] -> in;\n",
            self.statements.join("\n"),
            capture.display(),
            FRAMES * 2,
        );
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(file)
    }

    /// The counts of the sinks.
    fn counts(&self, program: &Program) -> Result<Vec<u64>, String> {
        let sinks = (0..self.sinks).map(|sink| format!("s{sink}.count"));
        program.counts(&self.config(COUNTED)?, sinks)
    }
}

#[derive(Serialize)]
struct Figure {
    seed: u64,
    elements: usize,
    #[serde(flatten)]
    times: PerPacket,
    /// Programs whose sinks count otherwise than Weir's: they are not measured.
    differs: Vec<String>,
}

#[derive(Serialize)]
struct Report {
    benchmark: &'static str,
    machine: String,
    rounds: usize,
    /// Of the ratios to the better peer: the least, the 5th, 25th, 50th, 75th and 95th percentile, the most.
    ratios: Vec<f64>,
    mixes: Vec<Figure>,
}

fn figure(mix: &Mix, programs: &[Program], rounds: usize) -> Result<Figure, String> {
    let expected = mix.counts(&programs[0])?;
    let (mut able, mut differs) = (vec![&programs[0]], Vec::new());
    for program in &programs[1..] {
        match mix.counts(program) {
            Ok(counts) if same_counts(&counts, &expected, ON_THE_WAY) => able.push(program),
            Ok(counts) => {
                let (seed, name) = (mix.seed, &program.name);
                eprintln!("{seed}: {name} counts {counts:?}, Weir {expected:?}");
                differs.push(name.clone());
            }
            Err(error) => eprintln!("{}: {error}", mix.seed),
        }
    }
    let length = Length {
        first: 1 << 14,
        seconds: 0.3,
        most: 1 << 32,
        rounds,
    };
    let figures = measure(&mix.seed.to_string(), &able, &length, |program, packets| {
        program.seconds(&mix.config(packets)?)
    })?;
    Ok(Figure {
        seed: mix.seed,
        elements: mix.elements,
        times: PerPacket::of(&figures),
        differs,
    })
}

/// The table of `docs/performance.md`.
fn table(report: &Report) -> String {
    let ratios: Vec<_> = report
        .ratios
        .iter()
        .map(|ratio| format!("{ratio:.2}"))
        .collect();
    let mut text = format!(
        "\n{} configurations.\n\n| least | 5th percentile | 25th | median | 75th | 95th | most |\n\
        | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n| {} |\n",
        report.mixes.len(),
        ratios.join(" | ")
    );
    let count = |is: fn(&&Figure) -> bool| report.mixes.iter().filter(is).count();
    let _ = writeln!(
        text,
        "\n{} ran in Click and {} in FastClick with the counts that Weir has.",
        count(|mix| mix.times.click.is_some()),
        count(|mix| mix.times.fastclick.is_some())
    );
    text + "\n"
}

pub(super) fn run(words: &[String]) -> Result<(), String> {
    with_folder(&folder(), || measure_all(words))
}

fn measure_all(words: &[String]) -> Result<(), String> {
    let seeds: Vec<u64> = match words {
        [] => (1..=setting("MIXES", 200)).collect(),
        words => words
            .iter()
            .map(|word| {
                word.parse()
                    .map_err(|_| format!("{word}: a seed is a number"))
            })
            .collect::<Result<_, _>>()?,
    };
    capture(&folder().join("frames.pcap"), (0..FRAMES).map(frame))
        .map_err(|error| format!("the capture could not be written: {error}"))?;
    let (programs, rounds) = (Program::all(), rounds(3));
    let mut figures = Vec::new();
    for seed in seeds {
        let mix = Mix::new(seed);
        if !words.is_empty() {
            println!("{}", mix.statements.join("\n"));
        }
        match figure(&mix, &programs, rounds) {
            Ok(figure) => {
                println!(
                    "{:<6} {:>2} elements {:8.1} ns, × {:.2}",
                    figure.seed,
                    figure.elements,
                    figure.times.weir,
                    figure.times.over_better_peer.unwrap_or(f64::NAN)
                );
                figures.push(figure);
            }
            Err(error) => eprintln!("{seed}: {error}"),
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
    let shares = [0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0];
    let report = Report {
        benchmark: "mixes",
        machine: machine(),
        rounds,
        ratios: shares.map(|share| percentile(&ratios, share)).into(),
        mixes: figures,
    };
    println!("{}", table(&report));
    println!("{}", save("mixes", &report)?.display());
    document("mixes", &table(&report)).map_err(|error| format!("docs/performance.md: {error}"))
}
