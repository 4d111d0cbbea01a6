//! Capture files, beside Click, FastClick and tcpdump: reading one, and reading, filtering and writing one.
//!
//! The time is CPU time, of a program and its children, from its start to its end. `PACKETS` (2 M of 60 bytes, or as
//! many bytes in packets of 60, 576 and 1514 bytes, 7:4:1) are in a file, of 1 K or 1 M flows; a third of them pass the
//! filter. `WEIR`, `CLICK`, `FASTCLICK` and `ROUNDS` (5) are those of the engine's benchmark. A program that does not
//! read a kind of file has no figure.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use bench::program::{Program, rounds, setting, weir};
use bench::traffic::{self, Flow};
use bench::{cpu_time, document, machine, median, save, with_folder};
use serde::Serialize;

const SMALL: &[usize] = &[60];
pub(super) const IMIX: &[usize] = &[60, 576, 60, 60, 576, 60, 1514, 60, 576, 60, 576, 60];
/// The filter, as elements and tcpdump know it.
const FILTER: &str = "udp && dst port 53";
const TCPDUMP_FILTER: &str = "udp and dst port 53";

fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("weir-captures-{}", std::process::id()))
}

/// A capture file.
struct Capture {
    name: &'static str,
    /// The file's name, whose end says how it is compressed.
    file: &'static str,
    sizes: &'static [usize],
    flows: usize,
}

const CAPTURES: [Capture; 6] = [
    capture("pcap, 60 bytes, 1 K flows", "small.pcap", SMALL, 1000),
    capture("pcap, 60 bytes, 1 M flows", "flows.pcap", SMALL, 1_000_000),
    capture("pcap, IMIX, 1 K flows", "imix.pcap", IMIX, 1000),
    capture("pcapng, IMIX, 1 K flows", "imix.pcapng", IMIX, 1000),
    capture("pcap.gz, IMIX, 1 K flows", "imix.pcap.gz", IMIX, 1000),
    capture("pcap.zst, IMIX, 1 K flows", "imix.pcap.zst", IMIX, 1000),
];

const fn capture(
    name: &'static str,
    file: &'static str,
    sizes: &'static [usize],
    flows: usize,
) -> Capture {
    Capture {
        name,
        file,
        sizes,
        flows,
    }
}

/// A frame of the flow of a number, whose payload is text that compresses as text does.
fn frame(number: usize, length: usize) -> Vec<u8> {
    let flow = Flow {
        source: 0x0a00_0001 + (number % 4096) as u32,
        destination: 0xc612_0001 + (number / 4096) as u32,
        protocol: [17, 6][number % 2],
        ports: (1024 + (number % 50_000) as u16, [53, 80, 443][number % 3]),
    };
    let mut frame = flow.frame(length);
    for (at, byte) in frame.iter_mut().enumerate().skip(54) {
        *byte = b" etaoinshrdlucmfwypvbgkjqxz-0123"[(at * at + number * 7) % 61 % 32];
    }
    frame
}

impl Capture {
    fn path(&self) -> PathBuf {
        folder().join(self.file)
    }

    /// Writes it, and returns how many packets it has.
    fn write(&self, packets: usize) -> io::Result<usize> {
        let bytes: usize = self.sizes.iter().map(|size| size + 16).sum();
        let packets = packets * 76 * self.sizes.len() / bytes;
        let plain = folder().join(self.file.trim_end_matches(".gz").trim_end_matches(".zst"));
        if !plain.exists() {
            let frame = |i: usize| frame(i % self.flows, self.sizes[i % self.sizes.len()]);
            let frames = (0..packets).map(frame);
            match self.file.contains("pcapng") {
                true => write_pcapng(&plain, frames)?,
                false => traffic::capture(&plain, frames)?,
            }
        }
        if plain != self.path() {
            let config = format!(
                "FromDump({}, STOP true) -> ToDump({}, 0)",
                plain.display(),
                self.path().display()
            );
            let status = Command::new(weir())
                .args(["click", "-e", &config])
                .status()?;
            assert!(status.success(), "weir compresses {}", plain.display());
        }
        Ok(packets)
    }
}

/// Writes a pcapng file of an Ethernet interface: its section, the interface, and a block for each frame.
fn write_pcapng(path: &Path, frames: impl Iterator<Item = Vec<u8>>) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut write = |words: &[u32], bytes: &[u8]| -> io::Result<()> {
        for word in words {
            file.write_all(&word.to_le_bytes())?;
        }
        file.write_all(bytes)
    };
    let unknown = u32::MAX;
    write(
        &[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, unknown, unknown, 28],
        &[],
    )?;
    write(&[1, 20, 1, 0, 20], &[])?;
    for (time, mut frame) in (0..).zip(frames) {
        let length = frame.len() as u32;
        frame.resize(frame.len().next_multiple_of(4), 0);
        let block = 32 + frame.len() as u32;
        write(&[6, block, 0, 0, time, length, length], &frame)?;
        write(&[block], &[])?;
    }
    file.flush()
}

/// What is done with a file.
#[derive(Clone, Copy)]
enum Work {
    Read,
    Count,
    Filter,
}

const WORKS: [(Work, &str); 3] = [
    (Work::Read, "read"),
    (Work::Count, "count a flow's packets"),
    (Work::Filter, "filter, write"),
];

/// The programs with their commands for a work.
fn commands(work: Work, capture: &Path) -> Result<Vec<(String, Command)>, String> {
    let (config, out) = (folder().join("config.click"), folder().join("out.pcap"));
    let rest = match work {
        Work::Read => "Counter -> Discard".to_string(),
        Work::Count => {
            "MarkIPHeader(14) -> AggregateIPFlows -> AggregateCounter -> Discard".to_string()
        }
        Work::Filter => format!(
            "MarkIPHeader(14) -> c :: IPClassifier({FILTER}, -) -> ToDump({}, 0); c[1] -> Discard",
            out.display()
        ),
    };
    let text = format!("FromDump({}, STOP true) -> {rest};\n", capture.display());
    let mut commands = Vec::new();
    for program in Program::all() {
        let config = config.with_extension(&program.name);
        std::fs::write(&config, &text).map_err(|error| error.to_string())?;
        commands.push((program.name.clone(), program.command(&config)));
    }
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.arg("-r").arg(capture);
    match work {
        Work::Filter => tcpdump.arg("-w").arg(&out).arg(TCPDUMP_FILTER),
        Work::Read | Work::Count => tcpdump.args(["-w", "/dev/null"]),
    };
    if !matches!(work, Work::Count) {
        commands.push(("tcpdump".into(), tcpdump));
    }
    Ok(commands)
}

#[derive(Serialize)]
struct Figure {
    work: &'static str,
    capture: &'static str,
    packets: usize,
    /// Nanoseconds of CPU time a packet, median: Weir, Click, FastClick, tcpdump.
    ns: [Option<f64>; 4],
    /// The best other program's over Weir's.
    over_best: Option<f64>,
}

#[derive(Serialize)]
struct Report {
    benchmark: &'static str,
    machine: String,
    rounds: usize,
    figures: Vec<Figure>,
}

const PROGRAMS: [&str; 4] = ["Weir", "Click", "FastClick", "tcpdump"];

fn figure(
    (work, said): (Work, &'static str),
    capture: &Capture,
    packets: usize,
    rounds: usize,
) -> Result<Figure, String> {
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..rounds {
        for (name, mut command) in commands(work, &capture.path())? {
            let mut columns = PROGRAMS.iter().zip(&mut times);
            let Some((_, times)) = columns.find(|(its, _)| **its == name) else {
                continue;
            };
            match cpu_time(&mut command) {
                Ok(time) => times.push(time.as_secs_f64() * 1e9 / packets as f64),
                Err(error) if name == "Weir" => return Err(error),
                Err(_) => {}
            }
        }
    }
    let ns = times
        .each_ref()
        .map(|times| (!times.is_empty()).then(|| median(times)));
    let best = ns[1..].iter().flatten().copied().reduce(f64::min);
    Ok(Figure {
        work: said,
        capture: capture.name,
        packets,
        ns,
        over_best: best.zip(ns[0]).map(|(best, weir)| best / weir),
    })
}

/// The table of `docs/performance.md`.
fn table(report: &Report) -> String {
    let cell = |ns: Option<f64>| ns.map_or("–".to_string(), |ns| format!("{ns:.1}"));
    let mut text = "\n| | | Weir | Click | FastClick | tcpdump | over the best |\n\
        | --- | --- | ---: | ---: | ---: | ---: | ---: |\n"
        .to_string();
    for figure in &report.figures {
        let ns = figure.ns.map(cell).join(" | ");
        let over = cell(figure.over_best);
        let _ = writeln!(
            text,
            "| {} | {} | {ns} | {over} |",
            figure.work, figure.capture
        );
    }
    text + "\n"
}

pub(super) fn run() -> Result<(), String> {
    with_folder(&folder(), measure_all)
}

fn measure_all() -> Result<(), String> {
    let (rounds, most) = (rounds(5), setting("PACKETS", 2_000_000));
    let mut figures = Vec::new();
    for capture in &CAPTURES {
        let packets = capture.write(most);
        let packets = packets.map_err(|error| format!("{}: {error}", capture.file))?;
        for work in WORKS {
            let figure = figure(work, capture, packets, rounds)?;
            println!(
                "{:<24} {:<28} {:?} ns, × {:.2}",
                figure.work,
                figure.capture,
                figure.ns.map(|ns| ns.map(f64::round)),
                figure.over_best.unwrap_or(f64::NAN)
            );
            figures.push(figure);
        }
    }
    let report = Report {
        benchmark: "captures",
        machine: machine(),
        rounds,
        figures,
    };
    println!("{}", save("captures", &report)?.display());
    document("captures", &table(&report)).map_err(|error| format!("docs/performance.md: {error}"))
}
