//! The functions on one core, packets from memory.
//!
//! `WEIR` names the `weir` program. Each function stands between a source of flows and a sink, all in
//! one configuration, as `weir chain fuse` writes it; `weir click` runs that. A packet's time is CPU time
//! less that of a run with few packets. The function's own is this time less that of a chain of the same source and a
//! sink alone, measured next; the median of `ROUNDS` runs (3). Rates are by the function's own time, which is a tenth of
//! that of source and sink if it is less; the rate with source and sink stands beside them. The sink counts: a run in which packets are missing is an error.
//! Words on the command line select functions by their names; then no result is saved.
//!
//! Where Linux does the same by nftables, it forwards between two veth pairs of a namespace of its
//! own, in the same run. The rate is by the wall clock, on one core, less the time that sending
//! takes where the frames end behind the first pair.

mod linux;
mod subscriber;

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bench::compare::{Length, measure};
use bench::program::{Program, rounds, weir};
use bench::traffic::Random;
use bench::{bars, children_time, document, median, report, results, with_folder};
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
/// The type of IP frames.
const IP: u16 = 0x0800;
/// Bytes of the headers of PPPoE and PPP.
const HEADER: usize = 8;
/// Packets that a function may hold when its source ends.
const HELD: u64 = 4096;

/// Least time of a function, as a part of that of source and sink: less is noise.
const LEAST: f64 = 0.1;

/// A function to be measured, and its traffic.
struct Row {
    /// What the row is called.
    name: String,
    /// The function, with the side that traffic enters by; without one, source and sink are alone.
    function: Option<&'static str>,
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
    /// Datagrams of one flow, with the words of a seed.
    Text(u64),
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

/// Letters of the words of texts, and of most signatures.
const WORD: RangeInclusive<u32> = 12..=12;

/// Signatures of the words of a seed, which is their number; half of them are for a few ports.
fn signatures(count: usize, letters: RangeInclusive<u32>) -> String {
    let mut text = String::new();
    for (sid, word) in (1..=count).zip(words(count as u64, letters)) {
        let ports = ["any", "[53,80,8080]"][sid % 2];
        let _ = writeln!(
            text,
            "alert udp any any -> any {ports} (msg:\"{sid}\"; content:\"{word}\"; sid:{sid}; rev:1;)"
        );
    }
    text
}

/// Random words.
fn words(seed: u64, letters: RangeInclusive<u32>) -> impl Iterator<Item = String> {
    let mut random = Random::new(seed);
    std::iter::repeat_with(move || {
        let (least, most) = (*letters.start(), *letters.end());
        let count = least + random.below(most - least + 1);
        let mut letter = || char::from(b'a' + random.below(26) as u8);
        (0..count).map(|_| letter()).collect()
    })
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
        function: Some(function),
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
    // Words that are not in the rules, and words that are.
    let (other, same) = (1, 10_000);
    for (called, count, letters, text) in [
        ("ids, 5 rules", 5, WORD, other),
        ("ids, 10 K rules", 10_000, WORD, other),
        ("ids, 10 K rules of 3 to 6 letters", 10_000, 3..=6, other),
        ("ids, 10 K rules, each word matches", 10_000, WORD, same),
    ] {
        let rules = file(&called.replace(' ', "-"), &signatures(count, letters))?;
        rows.push(Row {
            traffic: Traffic {
                flows: 1,
                kind: Kind::Text(text),
                ..USUAL
            },
            published: MIDDLEBOX.filter(|_| count == 5),
            ..row(
                called,
                "ids",
                &[
                    &format!("rules={rules}"),
                    "print=false",
                    "connections=10000",
                    "streams=512",
                ],
            )
        });
    }
    Ok(rows)
}

impl Row {
    /// The stage's name in the chain.
    fn stage(&self) -> &str {
        let function = self.function.and_then(|it| it.split(':').next());
        function.unwrap_or("to")
    }

    /// The same source and sink alone.
    fn ends(&self) -> Row {
        Row {
            name: format!("{}, source and sink alone", self.name),
            function: None,
            parameters: Vec::new(),
            published: None,
            linux: None,
            ..*self
        }
    }

    /// Whether there is a session, of a function and a subscriber.
    fn has_session(&self) -> bool {
        self.traffic.kind == Kind::Session && self.function.is_some()
    }

    /// The handler that counts what arrived.
    fn arrived(&self) -> &'static str {
        match self.function {
            Some("mirror") => "from/arrived.count",
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
            Kind::Text(seed) => {
                let words = words(seed, WORD).map(|word| word + " ");
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
                let is_active = !self.has_session();
                return format!(
                    "source :: TrafficSource(SRC {from}, DST {to}, PROTOCOL udp, SIZES {size}, {flows},
                    ACTIVE {is_active}) -> Strip(14) -> Unstrip({HEADER})
                    -> StoreData(0, \\<1100 {session:04x} {ppp:04x} 0021>)
                    -> EtherEncap(0x{packets:04x}, port, {NEXT_HOP}) -> ToNetfront(port);
                    FromNetfront(port) -> line :: Null -> kind :: Classifier(12/{start:04x}, -);
                    kind[0] -> Counter(COUNT_CALL 1 source.active true) -> Discard;
                    kind[1] -> ToNetfront(port);\n"
                );
            }
        };
        source + &end(from, IP)
    }

    /// The whole configuration, with stand-ins for the number of packets and the next hop.
    fn fused(&self, weir: &Path, bytes: usize) -> Result<String, String> {
        let from = file("from.click", &self.source(bytes))?;
        let kind = match (self.function, self.traffic.kind) {
            (None, Kind::Session) => subscriber::PACKETS,
            _ => IP,
        };
        let to = file("to.click", &end(self.sink, kind))?;
        let mut command = Command::new(weir);
        command.args(["chain", "fuse", &from]).args(self.function);
        command.args((self.function != Some("mirror")).then_some(to));
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
        let line = match self.has_session() {
            true => format!("Socket(UNIX_DGRAM, {here}, {router}, CLIENT true)"),
            false => "Null".into(),
        };
        Ok(text
            .replace(NEXT_HOP, &address(&text, self.stage())?)
            // The monitor exports to nobody.
            .replace("AddressInfo(a ", "AddressInfo(export 02:00:00:00:00:03, a ")
            .replace("FromNetfront(export)", "Idle")
            .replace("ToNetfront(export)", "Discard")
            .replace("from/line :: Null", &format!("from/line :: {line}")))
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

/// An end of a chain: frames of a type are counted, and ARP requests for some addresses are answered.
fn end(addresses: &str, ethertype: u16) -> String {
    format!(
        "FromNetfront(port) -> kind :: Classifier(12/0806 20/0001, 12/{ethertype:04x}, -);
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
    let mut subscriber = row.has_session().then(|| subscriber(fused)).transpose()?;
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
    /// Million packets a second, median; source and sink are not in their time.
    mpps: f64,
    least: f64,
    most: f64,
    /// Whether the function takes less time than can be told from that of source and sink.
    at_least: bool,
    /// Bits of frames, in 10^9 a second.
    gbps: f64,
    /// Million packets a second of the function, source and sink, median.
    #[serde(skip_serializing_if = "Option::is_none")]
    mpps_with_ends: Option<f64>,
    /// What ClickOS reached with frames of 64 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    published_mpps: Option<f64>,
}

impl Figure {
    fn new(name: &str, frame_bytes: usize, rates: [f64; 3]) -> Figure {
        let [mpps, least, most] = rates;
        Figure {
            name: name.into(),
            frame_bytes,
            mpps,
            least,
            most,
            at_least: false,
            gbps: mpps * 8e-3 * frame_bytes as f64,
            mpps_with_ends: None,
            published_mpps: None,
        }
    }
}

/// A function's speeds.
fn measure_weir(row: &Row, weir: &Path, rounds: usize) -> Result<Vec<Figure>, String> {
    let ends = row.ends();
    let figure = |bytes: usize| {
        // Turn about, since the machine's speed changes.
        let both = |_| Ok([rate(row, weir, bytes)?, rate(&ends, weir, bytes)?]);
        let both: Result<Vec<[f64; 2]>, String> = (0..rounds).map(both).collect();
        let both = both?;
        let least = LEAST * median(&both.iter().map(|[_, ends]| 1.0 / ends).collect::<Vec<_>>());
        let own: Vec<f64> = both
            .iter()
            .map(|[whole, ends]| 1.0 / whole - 1.0 / ends)
            .collect();
        let rates = own.iter().map(|time| 1.0 / time.max(least));
        let range = [
            rates.clone().fold(f64::INFINITY, f64::min),
            rates.fold(0.0, f64::max),
        ];
        let time = median(&own);
        Ok(Figure {
            at_least: time < least,
            mpps_with_ends: Some(median(
                &both.iter().map(|[whole, _]| *whole).collect::<Vec<_>>(),
            )),
            published_mpps: row.published.filter(|_| bytes == SIZES[0]),
            ..Figure::new(
                &row.name,
                bytes,
                [1.0 / time.max(least), range[0], range[1]],
            )
        })
    };
    SIZES.map(figure).into_iter().collect()
}

/// The rate of a row with its source and sink, of frames of so many bytes, in one run.
fn rate(row: &Row, weir: &Path, bytes: usize) -> Result<f64, String> {
    let programs = Program::all();
    let length = Length {
        // Every flow has had a packet before packets count.
        first: u64::from(row.traffic.flows).max(1 << 17),
        seconds: 0.3,
        most: 1 << 28,
        rounds: 1,
    };
    let fused = row.fused(weir, bytes)?;
    let figures = measure(&row.name, &[&programs[0]], &length, |program, packets| {
        seconds(program, row, &fused, packets)
    });
    let mut figures = figures.map_err(|error| format!("{}, {bytes} bytes: {error}", row.name))?;
    let figure = figures.pop().map(|figure| figure.mpps);
    figure.ok_or_else(|| format!("{}: no figures", row.name))
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
        all.push(Figure::new(role.name(), bytes, rates));
    }
    Ok(all)
}

pub(super) fn run(words: &[String]) -> Result<(), String> {
    with_folder(&folder(), || measure_all(words))
}

fn measure_all(words: &[String]) -> Result<(), String> {
    let rounds = rounds(3);
    let weir = weir();
    let is_wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
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
        add(measure_weir(row, &weir, rounds));
        if let Some(role) = row.linux {
            add(measure_linux(role, rounds));
        }
    }
    if !words.is_empty() {
        return Ok(());
    }
    report("middleboxes", rounds, &figures)?;
    let head = "| function | 64 bytes | 512 bytes | 1500 bytes | Gb/s | 64 bytes, source and sink included | \
        ClickOS, 64 bytes |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n";
    let plot = "\n![Functions](../bench/results/middleboxes.svg)\n";
    document("middleboxes", &(head.to_string() + &table + plot))
        .map_err(|error| error.to_string())?;
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
    let sign = |it: &Figure| if it.at_least { "≥ " } else { "" };
    let rates = figures
        .iter()
        .map(|it| format!("{}{:.1}", sign(it), it.mpps));
    let bits = figures
        .iter()
        .map(|it| format!("{}{:.0}", sign(it), it.gbps));
    let cell = |mpps: Option<f64>| mpps.map_or(String::new(), |it| format!("{it:.1}"));
    format!(
        "| {} | {} | {} | {} | {} |",
        figures[0].name,
        rates.collect::<Vec<_>>().join(" | "),
        bits.collect::<Vec<_>>().join(", "),
        cell(figures[0].mpps_with_ends),
        cell(figures[0].published_mpps),
    )
}
