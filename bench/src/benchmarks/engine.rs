//! The engine on one core, packets from memory, beside Click and FastClick.
//!
//! `WEIR` names the `weir` program; `CLICK` and `FASTCLICK` name the peers' `click` programs; a peer
//! without a name is skipped. Each program runs each configuration for about `SECONDS_EACH` (1) seconds
//! of CPU time, alternating, `ROUNDS` times (7): where a machine's speed changes from second to second,
//! many short runs tell programs apart that are nearly alike. Rates are packets over CPU time less the
//! time of a run with few packets, medians. That time is taken in every round as well, and its median
//! counts. A ratio is the median of the rounds' ratios. Words on the command line select rows by parts
//! of their names; then no result is saved.
//!
//! Packets are copies of one frame. In rows with flows they go round: they are read from a capture
//! into a queue first, and return to it behind the elements. That needs only elements that all
//! programs have, and costs less than a source of many packets.

use std::path::{Path, PathBuf};

use bench::compare::{Figure, Length, better_peer, measure};
use bench::program::{Program, rounds, setting};
use bench::traffic::{Flow, Random, capture};
use bench::{bars, firewall, machine, results, routes, save, with_folder};
use serde::Serialize;

/// Ethernet addresses, IPv4 from 10.0.0.2 to 192.168.1.2, UDP from port 4096 to 53: 60 bytes.
const FRAME: &str = "\\<00000000000200000000000108004500002e000000004011af130a000002c0a80102\
    10000035001a0000000000000000000000000000000000000000>";

/// Rows with copies of one frame: name and path.
const ROWS: [(&str, &str); 6] = [
    ("wire", "-> Discard"),
    ("EtherMirror", "-> EtherMirror -> Discard"),
    (
        "counter, queue, shaper",
        "-> Counter -> Queue(1000) -> Shaper(4000000000) -> Unqueue(BURST 64) -> Discard",
    ),
    (
        "firewall, 10 rules",
        "-> Strip(14) -> CheckIPHeader -> IPFilter(
            deny src net 192.0.2.0/24,
            deny dst net 198.51.100.0/24,
            allow tcp dst port 22 and src net 10.1.0.0/16,
            allow tcp dst port 80,
            allow tcp dst port 443,
            deny icmp type echo and dst net 10.0.0.0/8,
            allow udp dst port 123,
            deny udp dst port 161,
            allow udp dst port 53 and src net 10.0.0.0/8,
            deny all) -> Discard",
    ),
    (
        "IP router, 5 routes",
        "-> Strip(14) -> CheckIPHeader -> GetIPAddress(16)
            -> rt :: StaticIPLookup(10.0.0.0/8 0, 172.16.0.0/12 0, 192.168.1.0/24 1,
                                    192.168.2.0/24 0, 0.0.0.0/0 10.0.0.1 0);
            rt[0] -> Discard;
            rt[1] -> DropBroadcasts -> IPGWOptions(192.168.1.1) -> FixIPSrc(192.168.1.1)
            -> ttl :: DecIPTTL -> IPFragmenter(1500)
            -> EtherEncap(0x0800, 00:00:00:00:00:03, 00:00:00:00:00:04) -> Discard",
    ),
    (
        "source NAT",
        "-> Strip(14) -> CheckIPHeader
            -> nat :: IPRewriter(pattern 203.0.113.1 1024-65535 - - 0 0) -> Discard",
    ),
];

/// Prefixes of the large routing table.
pub(super) const PREFIXES: usize = 100_000;

/// Numbers of flows.
const FLOWS: [(usize, &str); 3] = [(1, "1 flow"), (1000, "1 K flows"), (100_000, "100 K flows")];

/// A measured configuration.
pub(super) struct Row {
    pub name: String,
    packets: Packets,
    /// Circulating packets come from `q`, and return to it.
    path: String,
}

/// Room for packets that circulate.
pub(super) const ROOM: usize = 1 << 17;

enum Packets {
    /// Copies of [`FRAME`].
    Copies,
    /// Packets of a capture circulate, of which there may be so many. Each is processed that many times a round.
    Round(PathBuf, usize, u64),
}

/// The temporary folder of configurations and captures.
fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("weir-engine-{}", std::process::id()))
}

impl Row {
    /// A row whose frames circulate, out of a capture in `folder`.
    pub(super) fn round(
        folder: &Path,
        name: String,
        path: &str,
        (times, room): (u64, usize),
        frames: impl Iterator<Item = Vec<u8>>,
    ) -> std::io::Result<Row> {
        let file = folder.join(format!("{}.pcap", name.replace([' ', ','], "-")));
        capture(&file, frames)?;
        Ok(Row {
            name,
            packets: Packets::Round(file, room, times),
            path: path.into(),
        })
    }

    /// CPU time of a program's run with so many packets.
    pub(super) fn seconds(&self, program: &Program, packets: u64) -> Result<f64, String> {
        let file = match &self.packets {
            Packets::Copies => folder().join("config.click"),
            Packets::Round(capture, ..) => capture.with_extension("click"),
        };
        // In a file: a thousand rules are a long argument.
        std::fs::write(&file, self.config(packets)).map_err(|error| error.to_string())?;
        program.seconds(&file)
    }

    fn config(&self, packets: u64) -> String {
        let path = &self.path;
        match &self.packets {
            Packets::Copies => format!(
                "InfiniteSource(DATA {FRAME}, LIMIT {packets}, BURST 64, STOP true, TIMESTAMP false) {path}"
            ),
            Packets::Round(capture, room, times) => format!(
                "FromDump({}, END_CALL u.active true) -> q :: Queue({room})
                -> u :: Unqueue(BURST 64, ACTIVE false) -> Counter(COUNT_CALL {} stop) {path}",
                capture.display(),
                packets.div_ceil(*times)
            ),
        }
    }
}

/// Classifiers as a bridge or a host's input has them: by Ethernet type, then by protocol and
/// port or by ARP's operation.
const TREE: &str = "-> t :: Classifier(12/0800, 12/0806, 12/86dd, 12/8100, -);
    t[0] -> ip :: Classifier(23/06 36/0050, 23/06 36/01bb, 23/06, 23/11 36/0035, 23/11, -);
    t[1] -> arp :: Classifier(20/0001, 20/0002, -);
    t[2] -> q; t[3] -> q; t[4] -> q; arp[0] -> q; arp[1] -> q; arp[2] -> q;
    ip[0] -> q; ip[1] -> q; ip[2] -> q; ip[3] -> q; ip[4] -> q; ip[5] -> q";

/// The IP router's work on a forwarded packet, and the elements that restore the packet.
fn router(output: u32) -> String {
    format!(
        "rt[{output}] -> DropBroadcasts -> IPGWOptions(192.168.{output}.1)
        -> FixIPSrc(192.168.{output}.1) -> DecIPTTL -> IPFragmenter(1500)
        -> EtherEncap(0x0800, 00:00:00:00:00:03, 00:00:00:00:00:04) -> back;\n"
    )
}

/// The IP router with a large table. A round decrements the time to live, which is restored behind
/// it.
pub(super) fn routing(prefixes: &[(u32, u32)]) -> String {
    let outputs: String = (0..routes::OUTPUTS).map(router).collect();
    format!(
        "-> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> rt :: DirectIPLookup({});
        back :: Strip(14) -> StoreData(8, \\<40>) -> SetIPChecksum -> Unstrip(14) -> q;
        {outputs}",
        routes::table(prefixes)
    )
}

/// Source NAT, whose output comes back to it as answers.
pub(super) const NAT: &str = "-> Strip(14) -> CheckIPHeader
    -> nat :: IPRewriter(pattern 203.0.113.1 1024-65535 - - 0 1) -> IPMirror -> nat;
    nat[1] -> IPMirror -> Unstrip(14) -> q";

/// All rows; captures are written to `folder`.
fn rows(folder: &Path) -> std::io::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, path) in ROWS {
        rows.push(Row {
            name: name.into(),
            packets: Packets::Copies,
            path: path.into(),
        });
    }
    let mut add = |name: String, times, path: &str, frames: &mut dyn Iterator<Item = Vec<u8>>| {
        rows.push(Row::round(folder, name, path, (times, ROOM), frames)?);
        std::io::Result::Ok(())
    };
    // Few packets, so that they stay in the caches, unless there are more flows.
    let packets = |flows: usize| flows.max(1024);
    for count in [10usize, 100, 1000] {
        let rules = firewall::rules(count, &mut Random::new(count as u64));
        let filter = firewall::filter(&rules);
        let path =
            format!("-> CheckIPHeader(OFFSET 14) -> f :: IPFilter({filter}) -> q; f[1] -> q");
        for (flows, said) in FLOWS {
            let random = &mut Random::new(flows as u64);
            let flows = firewall::flows(&rules, flows, random);
            let frames = flows.iter().cycle().take(packets(flows.len()));
            let name = format!("firewall, {count} rules, {said}");
            add(name, 1, &path, &mut frames.map(|flow| flow.frame(60)))?;
        }
    }
    let prefixes = routes::prefixes(PREFIXES, &mut Random::new(1));
    let path = routing(&prefixes);
    for (count, said) in FLOWS {
        let random = &mut Random::new(count as u64);
        let flows: Vec<_> = routes::flows(&prefixes, count, random).collect();
        let frames = flows.iter().cycle().take(packets(count));
        let name = format!("IP router, 100 K prefixes, {said}");
        add(
            name,
            1,
            &path,
            &mut frames.clone().map(|flow| flow.frame(60)),
        )?;
        if count == 1000 {
            let name = format!("IP router, 100 K prefixes, {said}, 1514 bytes");
            add(name, 1, &path, &mut frames.map(|flow| flow.frame(1514)))?;
        }
    }
    for (count, said) in FLOWS {
        let flows: Vec<_> = (0..count).map(inside).collect();
        let frames = flows.iter().cycle().take(packets(count));
        let name = format!("NAT both ways, {said}");
        add(name, 2, NAT, &mut frames.map(|flow| flow.frame(60)))?;
    }
    let mut frames = firewall::ethernet(1024, &mut Random::new(1)).into_iter();
    add("classifier tree".into(), 1, TREE, &mut frames)?;
    for length in [60, 1514] {
        let one = || (0..1024).map(|_| inside(0).frame(length));
        add(
            format!("going round, {length} bytes"),
            1,
            "-> q",
            &mut one(),
        )?;
        let name = format!("EtherMirror, going round, {length} bytes");
        add(name, 1, "-> EtherMirror -> q", &mut one())?;
    }
    Ok(rows)
}

/// The flow number `i` of many hosts inside to many servers outside.
pub(super) fn inside(i: usize) -> Flow {
    let i = i as u32;
    Flow {
        source: 0x0a00_0000 + 1 + i % 4096,
        destination: 0xc612_0000 + 1 + i / 4096 * 7 % 251,
        protocol: 17,
        ports: (1024 + (i / 16 % 50_000) as u16, 53),
    }
}

#[derive(Serialize)]
struct Ratio {
    configuration: String,
    /// Weir's rate over the better peer's, median of the rounds.
    over_better_peer: f64,
    better_peer: String,
}

#[derive(Serialize)]
struct Report {
    benchmark: &'static str,
    machine: String,
    rounds: usize,
    frame_bytes: usize,
    figures: Vec<Figure>,
    ratios: Vec<Ratio>,
}

pub(super) fn run(words: &[String]) -> Result<(), String> {
    with_folder(&folder(), || measure_all(words))
}

fn measure_all(words: &[String]) -> Result<(), String> {
    let rounds = rounds(7);
    let programs = Program::all();
    let all: Vec<&Program> = programs.iter().collect();
    let length = Length {
        first: 1 << 18,
        seconds: setting("SECONDS_EACH", 1.0),
        most: 1 << 32,
        rounds,
    };
    let mut report = Report {
        benchmark: "engine",
        machine: machine(),
        rounds,
        frame_bytes: 60,
        figures: Vec::new(),
        ratios: Vec::new(),
    };
    let mut plotted = Vec::new();
    for row in &rows(&folder()).map_err(|error| format!("no captures: {error}"))? {
        if !words.is_empty() && !words.iter().any(|word| row.name.contains(word)) {
            continue;
        }
        let measured = measure(&row.name, &all, &length, |program, packets| {
            row.seconds(program, packets)
        });
        let figures = match measured {
            Ok(figures) => figures,
            Err(error) => {
                eprintln!("{}: {error}", row.name);
                continue;
            }
        };
        if let Some(best) = better_peer(&figures) {
            report.ratios.push(Ratio {
                configuration: row.name.clone(),
                over_better_peer: best.weir_over_it,
                better_peer: best.program.clone(),
            });
        }
        let line: Vec<_> = figures
            .iter()
            .map(|f| format!("{} {:.1} ({:.3})", f.program, f.mpps, f.weir_over_it))
            .collect();
        println!("{:<32} {} Mpps", row.name, line.join("  "));
        plotted.push((
            row.name.to_string(),
            figures.iter().map(|f| f.mpps).collect(),
        ));
        report.figures.extend(figures);
    }
    if !words.is_empty() {
        return Ok(());
    }
    let path = save("engine", &report)?;
    let names: Vec<_> = programs
        .iter()
        .map(|program| program.name.clone())
        .collect();
    let title = "One core, 60-byte packets from memory";
    bars(
        &results().join("engine.svg"),
        title,
        "million packets a second",
        &names,
        &plotted,
    )?;
    println!("{}", path.display());
    Ok(())
}
