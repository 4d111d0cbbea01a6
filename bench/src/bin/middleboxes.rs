//! The functions on one core, packets from memory.
//!
//! `WEIR` names the `weir` program. Each function stands between a source of flows and a sink, all in
//! one configuration, as `weir chain fuse` writes it; `weir click` runs that. Rates are packets over
//! CPU time less the time of a run with few packets, medians of `ROUNDS` runs (3); what the source
//! and the sink take is in them. The sink counts: a run in which packets are missing is an error.
//! Words on the command line select functions by their names; then no result is saved.
//!
//! Where Linux does the same by nftables, it forwards between two veth pairs of a namespace of its
//! own, in the same run. The rate is by the wall clock, on one core, less the time that sending
//! takes where the frames end behind the first pair.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use bench::compare::{Length, measure};
use bench::program::{Program, rounds};
use bench::traffic::Random;
use bench::{bars, children_time, document, machine, results, save};
use serde::Serialize;

/// Bytes of frames, with their check sequence.
const SIZES: [usize; 3] = [64, 512, 1500];
/// Bytes of the frame check sequence, which packets in memory do not have.
const FCS: usize = 4;
/// Stands for the number of packets in a fused configuration.
const COUNT: &str = "987654321987654321";
/// Stands for the next hop's address.
const NEXT_HOP: &str = "00:00:00:98:76:54";
/// Packets that a function may hold when its source ends.
const HELD: u64 = 4096;

/// A function to be measured, and its traffic.
struct Row {
    /// What the row is called.
    name: String,
    /// The function, with the side that traffic enters by.
    function: &'static str,
    /// Values of its parameters.
    parameters: Vec<String>,
    /// The source's flows: addresses, ports, how many.
    traffic: Traffic,
    /// What the sink answers ARP requests for.
    sink: &'static str,
    /// What ClickOS reached with 64 bytes (2014), in million packets a second.
    published: Option<f64>,
}

#[derive(Clone, Copy)]
struct Traffic {
    from: &'static str,
    to: &'static str,
    port: u16,
    flows: u32,
    /// Whether payloads are text instead of zeros; then there is one flow.
    has_text: bool,
}

/// Traffic of 1000 flows to one host.
const USUAL: Traffic = Traffic {
    from: "10.1.0.2",
    to: "10.2.0.2",
    port: 9,
    flows: 1000,
    has_text: false,
};

/// ClickOS's bars for middleboxes: "roughly 5 Mpps and up each".
const MIDDLEBOX: Option<f64> = Some(5.0);

/// Ten rules, of which the last matches.
const RULES: &str = "deny src net 192.0.2.0/24
deny dst net 198.51.100.0/24
allow tcp dst port 22 and src net 10.1.0.0/16
allow tcp dst port 80
allow tcp dst port 443
deny icmp type echo and dst net 10.0.0.0/8
allow udp dst port 123
deny udp dst port 161
allow from inside udp dst port 53
allow from inside udp dst port 9 and src net 10.0.0.0/8
";

/// Signatures of words that do not occur, half of them for a few ports.
fn signatures(count: usize) -> String {
    let mut random = Random::new(count as u64);
    let mut text = String::new();
    for sid in 1..=count {
        let word = random_word(&mut random);
        let ports = ["any", "[53,80,8080]"][sid % 2];
        let _ = writeln!(
            text,
            "alert udp any any -> any {ports} (msg:\"{sid}\"; content:\"{word}\"; sid:{sid}; rev:1;)"
        );
    }
    text
}

/// A word of 12 letters.
fn random_word(random: &mut Random) -> String {
    let letter = |_| char::from(b'a' + random.below(26) as u8);
    (0..12).map(letter).collect()
}

/// The temporary folder of configurations.
fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("weir-middleboxes-{}", std::process::id()))
}

/// A file in the folder, with a text.
fn file(name: &str, text: &str) -> Result<String, String> {
    let path = folder().join(name);
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path.display().to_string())
}

/// All rows.
fn rows() -> Result<Vec<Row>, String> {
    let rules = file("rules", RULES)?;
    let row = |name: &str, function, parameters: &[&str]| Row {
        name: name.into(),
        function,
        parameters: parameters.iter().map(ToString::to_string).collect(),
        traffic: USUAL,
        sink: "10.2.0.0/24",
        published: MIDDLEBOX,
    };
    let mut rows = vec![
        Row {
            published: Some(14.2),
            ..row("wire", "wire", &[])
        },
        row("mirror", "mirror", &[]),
        row("router", "router", &[]),
        row("firewall, 10 rules", "firewall", &[&format!("rules={rules}")]),
        Row {
            sink: "198.51.100.1",
            traffic: Traffic {
                to: "203.0.113.9",
                ..USUAL
            },
            ..row("nat44", "nat44", &["inside_net=10.1.0.0/24"])
        },
        Row {
            traffic: Traffic {
                from: "198.18.0.0/16",
                to: "203.0.113.10",
                ..USUAL
            },
            sink: "10.0.0.0/24",
            ..row(
                "balancer, 10 servers",
                "balancer",
                &[
                    "servers=10.0.0.11,10.0.0.12,10.0.0.13,10.0.0.14,10.0.0.15,10.0.0.16,10.0.0.17,10.0.0.18,10.0.0.19,10.0.0.20",
                    "service=udp dst port 9",
                    "check=none",
                ],
            )
        },
        Row {
            traffic: Traffic {
                from: "10.0.0.0/16",
                flows: 100_000,
                ..USUAL
            },
            ..row("monitor, 100 K flows", "monitor", &["connections=200000"])
        },
        Row {
            traffic: Traffic {
                from: "100.64.0.0/16",
                to: "192.0.2.9",
                flows: 1_000_000,
                ..USUAL
            },
            sink: "203.0.113.1",
            ..row(
                "cgnat, 1 M mappings",
                "cgnat",
                &[
                    "pool=198.51.0.0/21",
                    "block=16",
                    "blocks=4",
                    "subscribers=65536",
                    "rate=1000000",
                    "mappings=1100000",
                ],
            )
        },
        row("ddos", "ddos:outside", &["udp_rate=1000000000"]),
        Row {
            published: None,
            ..row(
                "shaper",
                "shaper",
                &["rate=1000Gbps", "rest_ceiling=1000Gbps"],
            )
        },
        Row {
            published: None,
            ..row("dpi", "dpi", &[])
        },
    ];
    let text = Traffic {
        flows: 1,
        has_text: true,
        ..USUAL
    };
    for count in [5, 10_000] {
        let rules = file(&format!("signatures-{count}"), &signatures(count))?;
        let called = match count {
            5 => "ids, 5 rules",
            _ => "ids, 10 K rules",
        };
        rows.push(Row {
            traffic: text,
            published: MIDDLEBOX.filter(|_| count == 5),
            ..row(called, "ids", &[&format!("rules={rules}"), "print=false"])
        });
    }
    Ok(rows)
}

impl Row {
    /// The stage's name in the chain.
    fn stage(&self) -> &str {
        self.function.split(':').next().unwrap_or_default()
    }

    /// The handler that counts what arrived.
    fn arrived(&self) -> &'static str {
        match self.function {
            "mirror" => "from/arrived.count",
            _ => "to/arrived.count",
        }
    }

    /// The source's side: packets go out, and ARP is answered.
    fn source(&self, bytes: usize) -> String {
        let size = bytes - FCS;
        let Traffic {
            from,
            to,
            port,
            flows,
            has_text,
        } = self.traffic;
        let source = if has_text {
            let mut random = Random::new(1);
            let words = std::iter::repeat_with(|| random_word(&mut random) + " ");
            let payload: String = words.take(size / 13 + 1).collect();
            let payload = &payload[..size - 42];
            format!(
                "InfiniteSource(\"{payload}\", LIMIT {COUNT}, BURST 64, STOP true, TIMESTAMP false)
                -> UDPIPEncap({from}, 1024, {to}, {port})
                -> EtherEncap(0x0800, port, {NEXT_HOP}) -> ToNetfront(port);\n"
            )
        } else {
            format!(
                "TrafficSource(SRCETH port, DSTETH {NEXT_HOP}, SRC {from}, DST {to}, PROTOCOL udp,
                DPORT {port}, FLOWS {flows}, SIZES {size}, RATE 0, COUNT {COUNT}, STOP true)
                -> ToNetfront(port);\n"
            )
        };
        source + &end(from)
    }

    /// The whole configuration, with stand-ins for the number of packets and the next hop.
    fn fused(&self, weir: &Path, bytes: usize) -> Result<String, String> {
        let from = file("from.click", &self.source(bytes))?;
        let to = file("to.click", &end(self.sink))?;
        let mut command = Command::new(weir);
        command.args(["chain", "fuse", &from, self.function]);
        command.args((self.function != "mirror").then_some(to));
        for parameter in &self.parameters {
            let parameter = format!("{}.{parameter}", self.stage());
            command.args(["-p", &parameter]);
        }
        let output = command.output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // Frames are for the function, or for the sink behind one that is a wire.
        let addresses = format!("{}/AddressInfo@0 :: AddressInfo(", self.stage());
        let address = text.split(&addresses).nth(1).and_then(|rest| {
            let mut words = rest.split([' ', ',', ')']);
            words.nth(1)
        });
        let address = address.ok_or("the function has no inner address")?.to_string();
        // The monitor exports to nobody.
        Ok(text
            .replace(NEXT_HOP, &address)
            .replace("FromNetfront(export)", "Idle")
            .replace("ToNetfront(export)", "Discard"))
    }
}

/// An end of a chain: what arrives is counted, and ARP requests for some addresses are answered.
fn end(addresses: &str) -> String {
    format!(
        "FromNetfront(port) -> kind :: Classifier(12/0806 20/0001, 12/0800, -);
        kind[0] -> ARPResponder({addresses} port) -> ToNetfront(port);
        kind[1] -> arrived :: Counter -> Discard;
        kind[2] -> Discard;\n"
    )
}

/// Seconds of CPU time of a run; most packets have to arrive.
fn seconds(program: &Program, row: &Row, fused: &str, packets: u64) -> Result<f64, String> {
    let config = folder().join("config.click");
    let text = fused.replace(COUNT, &packets.to_string());
    std::fs::write(&config, text).map_err(|error| error.to_string())?;
    let before = children_time();
    let mut command = program.command(&config);
    let output = command.args(["-h", row.arrived()]).output();
    let output = output.map_err(|error| error.to_string())?;
    let took = children_time() - before;
    let said = String::from_utf8_lossy(&output.stdout);
    let arrived = said.lines().find_map(|line| line.trim().parse::<u64>().ok());
    match arrived {
        Some(arrived) if arrived + HELD >= packets => Ok(took.as_secs_f64()),
        Some(arrived) => Err(format!("{arrived} of {packets} packets arrived")),
        None => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// A function's speed.
#[derive(Serialize)]
struct Figure {
    function: String,
    program: String,
    /// With the check sequence.
    frame_bytes: usize,
    /// Million packets a second, median.
    mpps: f64,
    least: f64,
    most: f64,
    /// Bits of frames, in 10^9 a second.
    gbps: f64,
    /// What ClickOS reached with frames of 64 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    published_mpps: Option<f64>,
}

#[derive(Serialize)]
struct Report {
    benchmark: &'static str,
    machine: String,
    rounds: usize,
    figures: Vec<Figure>,
}

fn run() -> Result<(), String> {
    let rounds = rounds(3);
    let weir = std::env::var_os("WEIR").unwrap_or_else(|| "target/release/weir".into());
    let programs = Program::all();
    let program = &programs[..1].iter().collect::<Vec<_>>();
    let length = Length {
        first: 1 << 17,
        seconds: 0.3,
        most: 1 << 28,
        rounds,
    };
    let mut report = Report {
        benchmark: "middleboxes",
        machine: machine(),
        rounds,
        figures: Vec::new(),
    };
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word));
    for row in rows()?.iter().filter(|row| is_wanted(&row.name)) {
        for bytes in SIZES {
            let fused = row.fused(Path::new(&weir), bytes)?;
            // Every flow has had a packet before packets count.
            let length = Length {
                first: length.first.max(u64::from(row.traffic.flows)),
                ..length
            };
            let figures = measure(&row.name, program, &length, |program, packets| {
                seconds(program, row, &fused, packets)
            });
            let figures = figures.map_err(|error| format!("{}, {bytes} bytes: {error}", row.name))?;
            report.figures.extend(figures.into_iter().map(|it| Figure {
                function: row.name.clone(),
                program: it.program,
                frame_bytes: bytes,
                mpps: it.mpps,
                least: it.least,
                most: it.most,
                gbps: it.mpps * 8e-3 * bytes as f64,
                published_mpps: row.published.filter(|_| bytes == SIZES[0]),
            }));
        }
        println!("{}", line(&report.figures, &row.name));
    }
    if !wanted.is_empty() {
        return Ok(());
    }
    println!("{}", save("middleboxes", &report)?.display());
    let names: Vec<_> = rows()?.into_iter().map(|row| row.name).collect();
    let lines: Vec<_> = names.iter().map(|name| line(&report.figures, name)).collect();
    let table = format!(
        "| function | 64 bytes | 512 bytes | 1500 bytes | Gb/s at 64, 512, 1500 bytes | ClickOS, 64 bytes |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |\n{}\n",
        lines.join("\n")
    );
    document("middleboxes", &table).map_err(|error| error.to_string())?;
    let plotted: Vec<_> = names.iter().map(|name| plot_row(&report.figures, name)).collect();
    bars(
        &results().join("middleboxes.svg"),
        "Functions on one core, packets from memory",
        "million packets a second",
        &SIZES.map(|bytes| format!("{bytes} bytes")),
        &plotted,
    )
}

/// The figures of a function, by size.
fn of<'a>(figures: &'a [Figure], name: &'a str) -> impl Iterator<Item = &'a Figure> {
    figures.iter().filter(move |figure| figure.function == name)
}

fn plot_row(figures: &[Figure], name: &str) -> (String, Vec<f64>) {
    (name.into(), of(figures, name).map(|it| it.mpps).collect())
}

/// A function's row of the table.
fn line(figures: &[Figure], name: &str) -> String {
    let rates: Vec<_> = of(figures, name).map(|it| format!("{:.1}", it.mpps)).collect();
    let bits: Vec<_> = of(figures, name).map(|it| format!("{:.0}", it.gbps)).collect();
    let published = of(figures, name).find_map(|it| it.published_mpps);
    let published = published.map_or(String::new(), |mpps| mpps.to_string());
    format!("| {name} | {} | {} | {published} |", rates.join(" | "), bits.join(", "))
}

fn main() -> ExitCode {
    let made = std::fs::create_dir_all(folder());
    let ran = made.map_err(|error| error.to_string()).and_then(|()| run());
    let _ = std::fs::remove_dir_all(folder());
    bench::exit(ran)
}
