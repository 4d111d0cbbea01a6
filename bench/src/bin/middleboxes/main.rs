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

mod linux;
mod subscriber;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use bench::compare::{Length, measure};
use bench::program::{Program, rounds};
use bench::traffic::Random;
use bench::{bars, children_time, document, median, report, results};
use serde::Serialize;
use subscriber::Subscriber;

/// Bytes of frames, with their check sequence.
const SIZES: [usize; 3] = [64, 512, 1500];
/// Bytes of the frame check sequence, which packets in memory do not have.
const FCS: usize = 4;
/// Stands for the number of packets in a fused configuration.
const COUNT: &str = "1987654321";
/// Stands for the next hop's address.
const NEXT_HOP: &str = "00:00:00:98:76:54";
/// Bytes of the headers of PPPoE and PPP.
const HEADER: usize = 8;
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
    /// Linux in its place.
    linux: Option<linux::Role>,
}

#[derive(Clone, Copy)]
struct Traffic {
    from: &'static str,
    to: &'static str,
    port: u16,
    flows: u32,
    kind: Kind,
}

/// What packets are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Datagrams of flows, with zeros.
    Flows,
    /// Datagrams of one flow, with text.
    Text,
    /// Datagrams of flows in a session of PPPoE.
    Session,
}

/// Traffic of 1000 flows to one host.
const USUAL: Traffic = Traffic {
    from: "10.1.0.2",
    to: "10.2.0.2",
    port: 9,
    flows: 1000,
    kind: Kind::Flows,
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
    let users = file("users", "ann secret 100.64.0.7\n")?;
    let row = |name: &str, function, parameters: &[&str]| Row {
        name: name.into(),
        function,
        parameters: parameters.iter().map(ToString::to_string).collect(),
        traffic: USUAL,
        sink: "10.2.0.0/24",
        published: MIDDLEBOX,
        linux: None,
    };
    let mut rows = vec![
        Row {
            published: Some(14.2),
            ..row("wire", "wire", &[])
        },
        row("mirror", "mirror", &[]),
        row("router", "router", &[]),
        Row {
            linux: Some(linux::Role::Firewall),
            ..row(
                "firewall, 10 rules",
                "firewall",
                &[&format!("rules={rules}")],
            )
        },
        Row {
            linux: Some(linux::Role::Nat),
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
                from: "100.64.0.7",
                to: "192.0.2.9",
                kind: Kind::Session,
                ..USUAL
            },
            sink: "203.0.113.1",
            ..row("bras", "bras", &[&format!("users={users}"), "auth=pap"])
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
                    "pool=198.51.0.0/22",
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
        kind: Kind::Text,
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
            kind,
        } = self.traffic;
        let flows = format!("DPORT {port}, FLOWS {flows}, RATE 0, COUNT {COUNT}, STOP true");
        let source = match kind {
            Kind::Flows => format!(
                "TrafficSource(SRCETH port, DSTETH {NEXT_HOP}, SRC {from}, DST {to}, PROTOCOL udp,
                SIZES {size}, {flows}) -> ToNetfront(port);\n"
            ),
            Kind::Text => {
                let mut random = Random::new(1);
                let words = std::iter::repeat_with(|| random_word(&mut random) + " ");
                let payload: String = words.take(size / 13 + 1).collect();
                let payload = &payload[..size - 42];
                format!(
                    "InfiniteSource(\"{payload}\", LIMIT {COUNT}, BURST 64, STOP true, TIMESTAMP false)
                    -> UDPIPEncap({from}, 1024, {to}, {port})
                    -> EtherEncap(0x0800, port, {NEXT_HOP}) -> ToNetfront(port);\n"
                )
            }
            Kind::Session => {
                // The shortest frame of the source is as long as one of its own.
                let size = size.max(60 + HEADER) - HEADER;
                let (session, ppp) = (subscriber::SESSION, size - 14 + 2);
                let (packets, start) = (subscriber::PACKETS, subscriber::START);
                return format!(
                    "source :: TrafficSource(SRC {from}, DST {to}, PROTOCOL udp, SIZES {size}, {flows},
                    ACTIVE false) -> Strip(14) -> Unstrip({HEADER})
                    -> StoreData(0, \\<1100 {session:04x} {ppp:04x} 0021>)
                    -> EtherEncap(0x{packets:04x}, port, {NEXT_HOP}) -> ToNetfront(port);
                    FromNetfront(port) -> line :: Null -> kind :: Classifier(12/{start:04x}, -);
                    kind[0] -> Counter(COUNT_CALL 1 source.active true) -> Discard;
                    kind[1] -> ToNetfront(port);\n"
                );
            }
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
        let [here, router] = sockets();
        Ok(text
            .replace(NEXT_HOP, &address(&text, self.stage())?)
            // The monitor exports to nobody.
            .replace("AddressInfo(a ", "AddressInfo(export 02:00:00:00:00:03, a ")
            .replace("FromNetfront(export)", "Idle")
            .replace("ToNetfront(export)", "Discard")
            .replace(
                "from/line :: Null",
                &format!("from/line :: Socket(UNIX_DGRAM, {here}, {router}, CLIENT true)"),
            ))
    }
}

/// The sockets of a subscriber's line: the subscriber's and the router's.
fn sockets() -> [String; 2] {
    ["subscriber", "router"].map(|name| folder().join(name).display().to_string())
}

/// The address of the first inner interface of a stage.
fn address(fused: &str, stage: &str) -> Result<String, String> {
    let addresses = format!("{stage}/AddressInfo@0 :: AddressInfo(");
    let words = fused.split(&addresses).nth(1);
    let address = words.and_then(|rest| rest.split([' ', ',', ')']).nth(1));
    address
        .map(String::from)
        .ok_or_else(|| format!("{stage} has no inner address"))
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

/// A subscriber of the BRAS, who waits for the router.
fn subscriber(fused: &str) -> Result<Subscriber, String> {
    let station = address(fused, "from")?;
    let mut bytes = station.split(':').map(|it| u8::from_str_radix(it, 16));
    let own = std::array::from_fn(|_| bytes.next().and_then(Result::ok).unwrap_or_default());
    let [here, router] = sockets();
    let subscriber = Subscriber::new(here.as_ref(), router.as_ref(), own);
    subscriber.map_err(|error| format!("no subscriber: {error}"))
}

/// Seconds of CPU time of a run; most packets have to arrive.
fn seconds(program: &Program, row: &Row, fused: &str, packets: u64) -> Result<f64, String> {
    let config = folder().join("config.click");
    let text = fused.replace(COUNT, &packets.to_string());
    std::fs::write(&config, text).map_err(|error| error.to_string())?;
    let before = children_time();
    let failed = |error: std::io::Error| error.to_string();
    let mut command = program.command(&config);
    command.args(["-h", row.arrived()]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let is_session = row.traffic.kind == Kind::Session;
    let mut subscriber = is_session.then(|| subscriber(fused)).transpose()?;
    let mut child = command.spawn().map_err(failed)?;
    // The session starts the traffic, and lasts as long as the subscriber.
    let started = subscriber.as_mut().map_or(Ok(()), Subscriber::start);
    if started.is_err() {
        child.kill().map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    let took = children_time() - before;
    started.map_err(|error| format!("no session: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let arrived = said
        .lines()
        .find_map(|line| line.trim().parse::<u64>().ok());
    match arrived {
        Some(arrived) if arrived + HELD >= packets => Ok(took.as_secs_f64()),
        Some(arrived) => Err(format!("{arrived} of {packets} packets arrived")),
        None => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// A speed.
#[derive(Serialize)]
struct Figure {
    /// The row: a function, or Linux in its place.
    name: String,
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

impl Figure {
    fn new(name: &str, frame_bytes: usize, rates: [f64; 3], published: Option<f64>) -> Figure {
        let [mpps, least, most] = rates;
        Figure {
            name: name.into(),
            frame_bytes,
            mpps,
            least,
            most,
            gbps: mpps * 8e-3 * frame_bytes as f64,
            published_mpps: published.filter(|_| frame_bytes == SIZES[0]),
        }
    }
}

/// A function's speeds.
fn measure_weir(row: &Row, weir: &Path, rounds: usize) -> Result<Vec<Figure>, String> {
    let programs = Program::all();
    let length = Length {
        // Every flow has had a packet before packets count.
        first: u64::from(row.traffic.flows).max(1 << 17),
        seconds: 0.3,
        most: 1 << 28,
        rounds,
    };
    let mut all = Vec::new();
    for bytes in SIZES {
        let fused = row.fused(weir, bytes)?;
        let figures = measure(&row.name, &[&programs[0]], &length, |program, packets| {
            seconds(program, row, &fused, packets)
        });
        let figures = figures.map_err(|error| format!("{}, {bytes} bytes: {error}", row.name))?;
        let figure = |it: &bench::compare::Figure| {
            let rates = [it.mpps, it.least, it.most];
            Figure::new(&row.name, bytes, rates, row.published)
        };
        all.extend(figures.iter().map(figure));
    }
    Ok(all)
}

/// Linux's speeds in a function's place.
fn measure_linux(role: linux::Role, rounds: usize) -> Result<Vec<Figure>, String> {
    let network = linux::Network::new(role).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    for bytes in SIZES {
        let rate = |_| network.rate(bytes - FCS);
        let rates: Result<Vec<_>, _> = (0..rounds).map(rate).collect();
        let rates = rates.map_err(|error| format!("{}: {error}", role.name()))?;
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rates.iter().copied().fold(0.0, f64::max);
        let rates = [median(&rates), least, most];
        all.push(Figure::new(role.name(), bytes, rates, None));
    }
    Ok(all)
}

fn run() -> Result<(), String> {
    let rounds = rounds(3);
    let weir = std::env::var_os("WEIR").unwrap_or_else(|| "target/release/weir".into());
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word));
    let (mut figures, mut table, mut plotted) = (Vec::new(), String::new(), Vec::new());
    let mut add = |measured: Result<Vec<Figure>, String>| {
        let measured = match measured {
            Ok(measured) => measured,
            // The others are measured all the same.
            Err(error) => return eprintln!("{error}"),
        };
        let line = line(&measured);
        println!("{line}");
        table += &(line + "\n");
        let rates = measured.iter().map(|figure| figure.mpps).collect();
        plotted.push((measured[0].name.clone(), rates));
        figures.extend(measured);
    };
    for row in rows()?.iter().filter(|row| is_wanted(&row.name)) {
        add(measure_weir(row, Path::new(&weir), rounds));
        if let Some(role) = row.linux {
            add(measure_linux(role, rounds));
        }
    }
    if !wanted.is_empty() {
        return Ok(());
    }
    report("middleboxes", rounds, &figures)?;
    let head = "| function | 64 bytes | 512 bytes | 1500 bytes | Gb/s | ClickOS, 64 bytes |\n\
        | --- | ---: | ---: | ---: | ---: | ---: |\n";
    document("middleboxes", &(head.to_string() + &table)).map_err(|error| error.to_string())?;
    bars(
        &results().join("middleboxes.svg"),
        "Functions on one core, packets from memory",
        "million packets a second",
        &SIZES.map(|bytes| format!("{bytes} bytes")),
        &plotted,
    )
}

/// A row of the table.
fn line(figures: &[Figure]) -> String {
    let rates = figures.iter().map(|it| format!("{:.1}", it.mpps));
    let bits = figures.iter().map(|it| format!("{:.0}", it.gbps));
    let published = figures.iter().find_map(|it| it.published_mpps);
    format!(
        "| {} | {} | {} | {} |",
        figures[0].name,
        rates.collect::<Vec<_>>().join(" | "),
        bits.collect::<Vec<_>>().join(", "),
        published.map_or(String::new(), |mpps| mpps.to_string())
    )
}

fn main() -> ExitCode {
    let made = std::fs::create_dir_all(folder());
    let ran = made.map_err(|error| error.to_string()).and_then(|()| run());
    let _ = std::fs::remove_dir_all(folder());
    bench::exit(ran)
}
