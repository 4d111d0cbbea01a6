//! The functions that make and observe traffic, on real links between namespaces.

use common::{LIMIT, until};
use gateway::{Gateway, bound, command, connect, give6, ping, reaches};
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

/// A path that loses the first of each four packets, and repeats the last.
const LOSSY: &str = "
FromNetfront(in) -> kind :: Classifier(12/0800, -);
kind[0] -> turn :: RoundRobinSwitch;
turn[0], kind[1] -> Discard;
turn[1], turn[2] -> out :: ToNetfront(out);
turn[3] -> twice :: Tee -> out;
twice[1] -> out;
FromNetfront(out) -> Discard;
";

#[test]
fn loss_and_duplicates_on_the_way_are_counted_exactly() {
    let (mut near, mut middle, mut far) = (Gateway::new(), Gateway::new(), Gateway::new());
    middle.join("in", &near.namespace, "port");
    middle.join("out", &far.namespace, "port");
    near.interfaces.push("port");
    far.interfaces.push("port");
    std::fs::create_dir_all(&middle.run).unwrap();
    let lossy = middle.run.join("lossy.click");
    std::fs::write(&lossy, LOSSY).unwrap();
    let _sink = far.function("sink", &[]);
    let _lossy = middle.function(lossy.to_str().unwrap(), &[]);
    let arguments = [
        "-p",
        "rate=2000",
        "-p",
        "count=4000",
        "-p",
        "sizes=100 1000",
    ];
    let _generator = near.function("generator", &arguments);
    // A batch is sent output by output, so packets also overtake each other.
    until("packets are missing", || {
        number(&far, "sink", "sink.count") == 4000
    });
    for (handler, value) in [
        ("sink.lost", 1000),
        ("sink.duplicates", 1000),
        ("sink.stale", 0),
    ] {
        assert_eq!(number(&far, "sink", handler), value, "{handler}");
    }
    assert_eq!(far.weir(&["read", "sink", "sink.loss"]).trim(), "0.25");
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
    give6(&monitored.a, "2001:db8::1/64");
    give6(&monitored.b, "2001:db8::2/64");
    let socket = bound(&monitored.a, "[::]:5002");
    let _receiver = bound(&monitored.b, "[::]:5003");
    for _ in 0..6 {
        socket.send_to(&[1; 100], "[2001:db8::2]:5003").unwrap();
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
        [",5001,", ",5003,", ",80,"]
            .iter()
            .all(|port| said.contains(port))
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
        let udp = rows.iter().find(|row| field(row, "dp") == "5003").unwrap();
        let shown = ["sa", "da", "sp", "pr", "ipkt", "ibyt"].map(|name| field(udp, name));
        assert_eq!(
            shown,
            ["2001:db8::1", "2001:db8::2", "5002", "UDP", "6", "888"],
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
}

const SIGNATURES: &str = r#"# Requests and answers.
alert tcp $HOME_NET any -> $EXTERNAL_NET 80 (msg:"asks for a secret"; flow:established,to_server; content:"GET /secret"; startswith; content:"Host|3a|"; distance:0; classtype:policy; sid:100; rev:2;)
alert tcp any 80 -> any any (msg:"gets a secret"; flow:established,to_client; content:"TOP-SECRET-7"; sid:101;)
alert udp any any -> any any (msg:"datagram"; content:"EVIL"; nocase; threshold:type limit, track by_src, count 2, seconds 60; sid:102;)
alert icmp any any -> any any (msg:"ping"; content:"|aa bb aa bb|"; sid:103;)
alert tcp any any -> any any (msg:"never"; content:"is not there"; sid:104;)
"#;

/// Without a word about memory, too.
#[test]
fn an_ids_of_two_hundred_rules_has_memory_enough() {
    let mut gateway = Gateway::new();
    let a = gateway.host("a", "10.0.0.1/24", None);
    let _b = gateway.host("b", "10.0.0.2/24", None);
    let rule = |sid| {
        format!(
            "alert tcp any any -> any any (msg:\"r\"; content:\"token-{sid}-{sid}\"; sid:{sid};)\n"
        )
    };
    std::fs::create_dir_all(&gateway.run).unwrap();
    let file = gateway.run.join("local.rules");
    std::fs::write(&file, (1..=200).map(rule).collect::<String>()).unwrap();
    let rules = format!("rules={}", file.display());
    let _running = gateway.function("ids", &["-p", &rules]);
    assert_eq!(number(&gateway, "ids", "ids.rule_count"), 200);
    assert!(reaches(&a, "10.0.0.2"));
}

#[test]
fn the_ids_alerts_on_what_real_programs_send() {
    let mut gateway = Gateway::new();
    let a = gateway.host("a", "10.0.0.1/24", None);
    let b = gateway.host("b", "10.1.0.1/24", None);
    command(&a, "ip", "route add default dev eth0");
    command(&b, "ip", "route add default dev eth0");
    std::fs::create_dir_all(gateway.run.join("web")).unwrap();
    // Ten thousand rules besides.
    let mut rules: String = SIGNATURES.into();
    for sid in 1000..11_000 {
        rules += &format!(
            "alert tcp any any -> any any (msg:\"r\"; content:\"token-{sid}-{sid}\"; sid:{sid};)\n"
        );
    }
    let file = gateway.run.join("local.rules");
    std::fs::write(&file, rules).unwrap();
    let rules = format!("rules={}", file.display());
    let arguments = [
        "-p",
        &rules,
        "-p",
        "home_net=10.0.0.0/24",
        "--memory",
        "128M",
    ];
    let _running = gateway.function("ids", &arguments);
    assert_eq!(number(&gateway, "ids", "ids.rule_count"), 10_005);
    assert!(reaches(&a, "10.1.0.1"));
    // The secret stands where segments meet: 1448 bytes each.
    let mut page = vec![b'x'; 200_000];
    let at = 1448 * 20 - 300;
    for at in (at..at + 400).step_by(12) {
        page[at..at + 12].copy_from_slice(b"TOP-SECRET-7");
    }
    std::fs::write(gateway.run.join("web/secret"), page).unwrap();
    let words = format!(
        "-m http.server 80 --directory {}",
        gateway.run.join("web").display()
    );
    let _server = b.service("python3", &words).unwrap();
    until("no page", || {
        let fetch = a.command(
            "curl",
            "-s -m 3 -o /dev/null -w %{size_download} http://10.1.0.1/secret",
        );
        Runner::default().output(fetch, LIMIT).unwrap().stdout == b"200000"
    });
    let socket = bound(&a, "0.0.0.0:0");
    for _ in 0..5 {
        socket.send_to(b"an evil datagram", "10.1.0.1:9").unwrap();
    }
    ping(&a, "-c 1 -p aabb -W 2 10.1.0.1");
    give6(&a, "2001:db8::1/64");
    give6(&b, "2001:db8::2/64");
    let socket = bound(&a, "[::]:0");
    socket
        .send_to(b"an evil datagram", "[2001:db8::2]:9")
        .unwrap();
    let hits = || gateway.weir(&["read", "ids", "ids.hits"]);
    until("rules did not match", || {
        let hits = hits();
        hits.lines().count() >= 4 && hits.contains("6 102 ")
    });
    let hits = hits();
    for line in [
        "100 asks for a secret",
        "101 gets a secret",
        "6 102 datagram",
        "2 103 ping",
    ] {
        assert!(hits.contains(line), "{hits}");
    }
    assert!(!hits.contains(" 104 "), "{hits}");
    assert_eq!(number(&gateway, "ids", "ids.suppressed"), 3);
    let alerts = gateway.weir(&["read", "ids", "ids.alerts"]);
    let alerts: Vec<serde_json::Value> = alerts
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let request = alerts
        .iter()
        .find(|it| it["alert"]["signature_id"] == 100)
        .unwrap();
    assert_eq!(request["src_ip"], "10.0.0.1");
    assert_eq!(request["dest_port"], 80);
    assert_eq!(request["proto"], "TCP");
    assert_eq!(request["alert"]["category"], "policy");
    let sixth = alerts.iter().find(|it| it["src_ip"] == "2001:db8::1");
    assert_eq!(sixth.unwrap()["alert"]["signature_id"], 102);
    assert_eq!(number(&gateway, "ids", "ids.gaps"), 0);
}

#[test]
fn a_wrong_signature_is_told_with_its_file_and_line() {
    let gateway = Gateway::new();
    std::fs::create_dir_all(&gateway.run).unwrap();
    let file = gateway.run.join("wrong.rules");
    std::fs::write(
        &file,
        "# one\nalert tcp any any -> any any (msg:\"x\"; pcre:\"/a/\"; sid:1;)\n",
    )
    .unwrap();
    let words = format!("run ids -p rules={}", file.display());
    let output = Runner::default()
        .output(
            gateway
                .namespace
                .command(env!("CARGO_BIN_EXE_weir"), &words),
            LIMIT,
        )
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    let expected = format!(
        "weir: {}:2: pcre is not supported: write contents, or leave the rule out",
        file.display()
    );
    assert_eq!(said.trim(), expected);
}
