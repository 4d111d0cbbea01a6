//! The functions that make and observe traffic, on real links between namespaces.

use std::time::Duration;

use common::{LIMIT, until};
use gateway::{Gateway, bound, command, connect, reaches};
use weir::lab::{Namespace, Runner};

mod common;
#[path = "common/gateway.rs"]
mod gateway;

#[track_caller]
fn number(gateway: &Gateway, function: &str, handler: &str) -> u64 {
    let said = gateway.weir(&["read", function, handler]);
    said.trim().parse().unwrap()
}

/// Two machines with a cable between their interfaces `port`.
fn pair() -> (Gateway, Gateway) {
    let (mut a, mut b) = (Gateway::new(), Gateway::new());
    a.join("port", &b.namespace, "port");
    b.interfaces.push("port");
    (a, b)
}

#[test]
fn a_sink_measures_a_generator_over_a_link() {
    let (near, far) = pair();
    let _sink = far.function("sink", &[]);
    let arguments = [
        "-p",
        "rate=2000",
        "-p",
        "count=4000",
        "-p",
        "flows=100",
        "-p",
        "sizes=imix",
    ];
    let _generator = near.function("generator", &arguments);
    until("the run is not over", || {
        near.weir(&["read", "generator", "source.done"]).trim() == "true"
    });
    until("packets are missing", || {
        number(&far, "sink", "sink.count") == 4000
    });
    for (handler, value) in [
        ("sink.lost", 0),
        ("sink.reordered", 0),
        ("sink.duplicates", 0),
        ("sink.stale", 0),
        ("sink.flow_count", 100),
        ("sink.untracked", 0),
    ] {
        assert_eq!(number(&far, "sink", handler), value, "{handler}");
    }
    let bytes = number(&near, "generator", "source.byte_count");
    assert_eq!(number(&far, "sink", "sink.byte_count"), bytes);
    let (median, most) = (
        number(&far, "sink", "sink.delay_p50"),
        number(&far, "sink", "sink.delay_max"),
    );
    assert!(median <= most && most < 5_000_000_000, "{median} {most}");
    // The drawing of the delays.
    let histogram = far.weir(&["read", "sink", "sink.histogram"]);
    let (text, svg) = (far.run.join("histogram"), far.run.join("delay.svg"));
    std::fs::write(&text, &histogram).unwrap();
    far.weir(&["plot", text.to_str().unwrap(), "-o", svg.to_str().unwrap()]);
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(svg.contains("p99.9 "), "{svg}");
}

#[test]
fn a_link_that_loses_and_repeats_packets_is_told() {
    let (near, far) = pair();
    let _sink = far.function("sink", &[]);
    // The kernel's own emulator is the judge: what it dropped and repeated.
    let qdisc = near
        .namespace
        .command("tc", "qdisc add dev port root netem loss 10%");
    if Runner::default().run(qdisc, LIMIT).is_err() {
        eprintln!("this kernel has no netem");
        return;
    }
    let arguments = [
        "-p",
        "rate=2000",
        "-p",
        "count=4000",
        "-p",
        "to=2001:2:0:1::1",
        "-p",
        "from=2001:2::1",
    ];
    let _generator = near.function("generator", &arguments);
    until("the run is not over", || {
        near.weir(&["read", "generator", "source.done"]).trim() == "true"
    });
    std::thread::sleep(Duration::from_millis(200));
    let statistics = command(&near.namespace, "tc", "-s qdisc show dev port");
    let (count, lost) = (
        number(&far, "sink", "sink.count"),
        number(&far, "sink", "sink.lost"),
    );
    // Losses behind the last packet that arrived are not known.
    assert!((3990..=4000).contains(&(count + lost)), "{count} {lost}");
    assert!((200..700).contains(&lost), "{lost}: {statistics}");
}

/// A monitor between two hosts, with a collector on an interface of its own.
struct Monitored {
    gateway: Gateway,
    a: Namespace,
    b: Namespace,
    collector: Namespace,
    _running: gateway::Running,
}

fn monitor(arguments: &[&str]) -> Monitored {
    let mut gateway = Gateway::new();
    let a = gateway.host("a", "10.0.0.1/24", None);
    let b = gateway.host("b", "10.0.0.2/24", None);
    let collector = gateway.host("export", "10.3.0.2/24", None);
    let running = gateway.function("monitor", arguments);
    Monitored {
        gateway,
        a,
        b,
        collector,
        _running: running,
    }
}

/// What nfdump says of the flows that nfcapd collected by a protocol.
fn collected(format: &str) -> (Monitored, String) {
    let format = format!("format={format}");
    let monitored = monitor(&["-p", "idle=2", "-p", &format]);
    let folder = monitored.gateway.run.join("nfcapd");
    std::fs::create_dir_all(&folder).unwrap();
    let words = format!("-w {} -p 4739 -t 2", folder.display());
    let _nfcapd = monitored.collector.service("nfcapd", &words).unwrap();
    assert!(reaches(&monitored.a, "10.0.0.2"));
    connect(&monitored.a, "10.0.0.2:80", &monitored.b, "0.0.0.0:80").unwrap();
    let socket = bound(&monitored.a, "0.0.0.0:5000");
    let _receiver = bound(&monitored.b, "0.0.0.0:5001");
    for _ in 0..7 {
        socket.send_to(&[1; 100], "10.0.0.2:5001").unwrap();
    }
    let read = || {
        let words = format!("-q -R {} -o csv", folder.display());
        let nfdump = monitored.collector.command("nfdump", &words);
        let output = Runner::default().output(nfdump, LIMIT).unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let mut said = String::new();
    until("nfdump has no flows", || {
        said = read();
        said.contains(",5001,") && said.contains(",80,")
    });
    (monitored, said)
}

#[test]
fn nfdump_reads_what_the_monitor_exports() {
    for format in ["ipfix", "netflow9"] {
        let (monitored, said) = collected(format);
        let gateway = &monitored.gateway;
        // ts, te, td, sa, da, sp, dp, pr, flg, …, ipkt, ibyt
        let rows: Vec<Vec<&str>> = said.lines().map(|line| line.split(',').collect()).collect();
        let header: Vec<&str> = [
            "ts", "te", "td", "sa", "da", "sp", "dp", "pr", "flg", "fwd", "stos", "ipkt", "ibyt",
        ]
        .into();
        let field = |row: &[&str], name: &str| {
            let at = header.iter().position(|it| *it == name).unwrap();
            row.get(at)
                .map_or(String::new(), |it| it.trim().to_string())
        };
        let udp = rows.iter().find(|row| field(row, "dp") == "5001").unwrap();
        let shown = ["sa", "da", "sp", "pr", "ipkt", "ibyt"].map(|name| field(udp, name));
        assert_eq!(
            shown,
            ["10.0.0.1", "10.0.0.2", "5000", "UDP", "7", "896"],
            "{format}: {said}"
        );
        // All segments of the connection, of both directions.
        let bytes = |port: &str| -> u64 {
            let of = rows
                .iter()
                .filter(|row| field(row, port) == "80" && field(row, "pr") == "TCP");
            of.map(|row| field(row, "ibyt").parse::<u64>().unwrap())
                .sum()
        };
        for port in ["sp", "dp"] {
            let bytes = bytes(port);
            assert!(
                (300_000..400_000).contains(&bytes),
                "{format} {port} {bytes}: {said}"
            );
        }
        let quality = gateway.weir(&["read", "monitor", "flows.quality"]);
        let top = gateway.weir(&["read", "monitor", "flows.top"]);
        assert!(
            top.contains("10.0.0.1 ") && top.contains("10.0.0.2 "),
            "{top}"
        );
        assert!(quality.contains("10.0.0.2, 80) "), "{quality}");
        assert_eq!(number(gateway, "monitor", "flows.unexported"), 0);
    }
}

#[test]
fn the_monitor_measures_a_connections_round_trips() {
    let monitored = monitor(&[]);
    assert!(reaches(&monitored.a, "10.0.0.2"));
    let qdisc = monitored
        .b
        .command("tc", "qdisc add dev eth0 root netem delay 20ms");
    let delayed = Runner::default().run(qdisc, LIMIT).is_ok();
    connect(&monitored.a, "10.0.0.2:80", &monitored.b, "0.0.0.0:80").unwrap();
    let quality = monitored
        .gateway
        .weir(&["read", "monitor", "flows.quality"]);
    let line = quality
        .lines()
        .find(|line| line.contains(", 80) "))
        .unwrap();
    let (_, values) = line.split_once(") ").unwrap();
    let values: Vec<&str> = values.split(' ').collect();
    let handshake: u64 = values[0].parse().unwrap();
    let (smoothed, least): (u64, u64) = (values[1].parse().unwrap(), values[2].parse().unwrap());
    assert!(handshake > 0 && least <= smoothed, "{line}");
    if delayed {
        assert!(
            (20_000..200_000).contains(&handshake) && least >= 20_000,
            "{line}"
        );
    } else {
        eprintln!("this kernel has no netem");
    }
}
