//! The examples: each is valid; examples that end by themselves print the right text; and gateways
//! carry real traffic between network namespaces, as a process and as a guest.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

mod common;
#[path = "common/gateway.rs"]
mod gateway;

use common::{LIMIT, until};
use gateway::{Gateway, HOMES, Home, bound, command, connect, is_cut_off, ping, reaches, received};
use weir::lab::Runner;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn file(example: &str) -> PathBuf {
    folder().join(format!("{example}.click"))
}

/// The examples that there are, by their files' names.
fn examples() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap().flatten();
    let names = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        Some(name.strip_suffix(".click")?.to_string())
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn each_example_is_right_and_says_how_to_try_it() {
    let examples = examples();
    assert!(examples.len() >= 20, "{examples:?}");
    for name in examples {
        let output = Command::new(WEIR).arg("check").arg(file(&name)).output();
        let said = String::from_utf8_lossy(&output.unwrap().stderr).into_owned();
        assert_eq!(said, "", "{name}");
        let text = std::fs::read_to_string(file(&name)).unwrap();
        assert!(text.starts_with("// "), "{name}");
        assert!(text.contains(&format!("examples/{name}.click")), "{name}");
    }
}

#[test]
fn each_example_is_listed_in_the_readme() {
    let readme = folder().join("../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    for name in examples() {
        assert!(
            readme.contains(&format!("(examples/{name}.click)")),
            "{name}"
        );
    }
}

/// What the source files below a folder say.
fn sources(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn each_test_that_the_specification_names_is_there() {
    let root = folder().join("..");
    let mut text = String::new();
    sources(&root.join("crates"), &mut text);
    sources(&root.join("tests"), &mut text);
    let specification = std::fs::read_to_string(root.join("docs/specification.md")).unwrap();
    let words = specification.split('`').skip(1).step_by(2);
    let is_test = |word: &&str| {
        word.len() > 14
            && word
                .chars()
                .all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_' | '…'))
    };
    let tests: Vec<_> = words.filter(is_test).collect();
    assert!(tests.len() > 100, "{tests:?}");
    for name in tests {
        // Of some that have a beginning in common, that is named; some have their names in a list.
        let (start, end) = name
            .strip_suffix('…')
            .map_or((name, "("), |start| (start, ""));
        let is_there = [format!("fn {start}{end}"), format!("{start}\"")]
            .iter()
            .any(|test| text.contains(test));
        let target = root.join(format!("fuzz/fuzz_targets/{name}.rs"));
        assert!(is_there || target.is_file(), "{name}");
    }
}

// Examples that end by themselves.

/// What an example prints, in simulated time.
#[track_caller]
fn printed(example: &str, settings: &[&str]) -> String {
    let mut command = Command::new(WEIR);
    command
        .args(["click", "--simtime"])
        .arg(file(example))
        .args(settings);
    let output = Runner::default().output(command, 3 * LIMIT).unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The numbers in a text.
fn numbers(text: &str) -> Vec<u64> {
    let words = text.split(|c: char| !c.is_ascii_digit());
    words.filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn red_drops_before_the_queue_is_full() {
    let said = printed("red-queue", &[]);
    let [offered, sent, early, late, longest] = numbers(&said)[..] else {
        panic!("{said}");
    };
    assert_eq!((offered, late), (12_000, 0), "{said}");
    assert!(
        (9_900..=10_300).contains(&sent) && early + sent <= offered,
        "{said}"
    );
    assert!((30..150).contains(&longest), "{said}");
}

#[test]
fn codel_holds_the_delay() {
    let said = printed("codel-queue", &[]);
    let [without, with, dropped] = numbers(&said)[..] else {
        panic!("{said}");
    };
    assert!(without > 500 && with < 60, "{said}");
    assert!((400..700).contains(&dropped), "{said}");
}

#[test]
fn weighted_queues_share_by_their_weights() {
    let said = printed("weighted-queues", &[]);
    let [a, b, c, ended, d, e] = numbers(&said)[..] else {
        panic!("{said}");
    };
    for (share, part) in [(a, 3000), (b, 2000), (c, 1000), (d, 4000), (e, 2000)] {
        assert!(u64::abs_diff(share, part) < 60, "{said}");
    }
    assert_eq!(ended, 0);
}

#[test]
fn fragments_become_whole_again() {
    let said = printed("fragments", &[]);
    assert_eq!(numbers(&said), [800, 100, 400_000], "{said}");
}

/// What an example prints of the capture file that another makes.
fn printed_of_capture(example: &str) -> String {
    let name = format!("weir-examples-{example}-{}.pcap", std::process::id());
    let capture = std::env::temp_dir().join(name);
    let setting = format!("FILE={}", capture.display());
    printed("pcap-record", &[&setting]);
    let said = printed(example, &[&setting]);
    std::fs::remove_file(&capture).unwrap();
    said
}

#[test]
fn flows_of_a_capture_are_told_apart_and_counted() {
    let said = printed_of_capture("flow-statistics");
    let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with('!')).collect();
    // Which of the two begins is not said.
    let number = |flow: &str| {
        let line = lines[..2].iter().find(|line| line.ends_with(flow));
        line.and_then(|line| line.split_once(' '))
            .unwrap()
            .0
            .to_string()
    };
    let (dns, web) = (
        number(" U 10.0.0.1 1001 10.0.0.2 53"),
        number(" U 10.0.0.1 1002 10.0.0.2 443"),
    );
    assert_eq!(lines[2], "2 flows, 1000 packets of them:", "{said}");
    assert_eq!(lines[5], "528000 bytes:", "{said}");
    for (flow, packets, bytes) in [(dns, 500, 64_000), (web, 500, 464_000)] {
        assert!(
            lines[3..5].contains(&&*format!("{flow} {packets}")),
            "{said}"
        );
        assert!(lines[6..8].contains(&&*format!("{flow} {bytes}")), "{said}");
    }
}

#[test]
fn a_capture_is_summed_up() {
    let said = printed_of_capture("pcap-summary");
    let lines: Vec<&str> = said.lines().collect();
    let flow = " U 10.0.0.1 1001 10.0.0.2 53 128";
    assert_eq!(
        lines.iter().filter(|line| line.ends_with(flow)).count(),
        500,
        "{said}"
    );
    assert_eq!(lines.len(), 1001, "{said}");
    assert!(
        lines.contains(&"dns 500, web 500, icmp 0, other 0"),
        "{said}"
    );
}

/// Examples whose lines are always the same: each with lines that it prints, in this order.
const LINES: &[(&str, &[&str])] = &[(
    "4to6",
    &[
        "the host got 5 answers, 2 errors, 0 else",
        "not translated: 0 to IPv6, 0 to IPv4, 0 addresses",
    ],
)];

#[test]
fn examples_print_what_they_say() {
    for (name, expected) in LINES {
        let said = printed(name, &[]);
        let mut lines = said.lines();
        for line in *expected {
            assert!(lines.any(|said| said == *line), "{name}: {line}\n{said}");
        }
    }
}

// Examples that connect networks.

#[test]
fn the_transparent_firewall_filters() {
    for home in HOMES {
        let mut gateway = Gateway::new();
        let web = gateway.host("inside", "10.0.0.80/24", None);
        let outside = gateway.host("outside", "10.0.0.2/24", None);
        let _running = gateway.start(home, "transparent-firewall", &[]);
        assert!(reaches(&web, "10.0.0.2"), "{home:?}");
        assert!(is_cut_off(&outside, "10.0.0.80"), "{home:?}");
        assert!(connect(&web, "10.0.0.2:8080", &outside, "0.0.0.0:8080").is_some());
        assert!(connect(&outside, "10.0.0.80:80", &web, "0.0.0.0:80").is_some());
        assert_eq!(connect(&outside, "10.0.0.80:22", &web, "0.0.0.0:22"), None);
    }
}

#[test]
fn the_responder_answers_for_a_whole_network() {
    for home in HOMES {
        let mut gateway = Gateway::new();
        let host = gateway.host("net", "192.0.2.1/24", None);
        let _running = gateway.start(home, "arp-icmp-responder", &[]);
        for address in ["192.0.2.77", "192.0.2.254"] {
            assert!(reaches(&host, address), "{home:?} {address}");
        }
    }
}

#[test]
fn the_vlan_trunk_keeps_networks_apart_on_one_trunk() {
    for home in HOMES {
        let (mut one, mut two) = (Gateway::new(), Gateway::new());
        let red = one.host("red", "10.10.0.1/24", None);
        let blue = one.host("blue", "10.20.0.1/24", None);
        let red_there = two.host("red", "10.10.0.2/24", None);
        let blue_there = two.host("blue", "10.20.0.2/24", None);
        one.join("trunk", &two.namespace, "trunk");
        two.interfaces.push("trunk");
        let _one = one.start(home, "vlan-trunk", &[]);
        let _two = two.start(home, "vlan-trunk", &[]);
        assert!(reaches(&red, "10.10.0.2"));
        assert!(reaches(&blue_there, "10.20.0.1"));
        assert!(connect(&blue, "10.20.0.2:80", &blue_there, "0.0.0.0:80").is_some());
        // The same network, but another VLAN.
        command(&red, "ip", "addr add 10.20.0.9/24 dev eth0");
        command(&red_there, "ip", "addr add 10.20.0.10/24 dev eth0");
        assert!(is_cut_off(&red, "10.20.0.2"));
        assert!(reaches(&red, "10.20.0.10"));
    }
}

#[test]
fn the_vlan_gateway_routes_between_the_networks_of_a_trunk() {
    // The hosts' tags are put on and off by the other example.
    let (mut trunk, mut router) = (Gateway::new(), Gateway::new());
    let ten = trunk.host("red", "10.0.10.2/24", Some("10.0.10.1"));
    let twenty = trunk.host("blue", "10.0.20.2/24", Some("10.0.20.1"));
    trunk.join("trunk", &router.namespace, "trunk");
    router.interfaces.push("trunk");
    let _trunk = trunk.start(Home::Guest, "vlan-trunk", &[]);
    let _router = router.start(Home::Guest, "vlan-gateway", &[]);
    assert!(reaches(&ten, "10.0.10.1"));
    assert!(reaches(&ten, "10.0.20.2"));
    let (client, _) = connect(&twenty, "10.0.10.2:80", &ten, "0.0.0.0:80").unwrap();
    assert_eq!(client.to_string(), "10.0.20.2");
}

#[test]
fn the_switch_passes_frames_once_it_has_learned() {
    let mut switch = Gateway::new();
    let a = switch.host("p0", "10.0.0.1/24", None);
    let _b = switch.host("p1", "10.0.0.2/24", None);
    let c = switch.host("p2", "10.0.0.3/24", None);
    let _running = switch.start(Home::Guest, "switch", &[]);
    // Its ports listen and learn for half a minute.
    assert!(is_cut_off(&a, "10.0.0.2"));
    assert!((0..6).any(|_| reaches(&a, "10.0.0.2")));
    assert!(reaches(&c, "10.0.0.1"));
}

#[test]
fn the_mirror_shows_what_passes() {
    for home in HOMES {
        let mut gateway = Gateway::new();
        let a = gateway.host("a", "10.0.0.1/24", None);
        let _b = gateway.host("b", "10.0.0.2/24", None);
        let monitor = gateway.host("monitor", "10.99.0.1/24", None);
        let _running = gateway.start(home, "port-mirror", &[]);
        assert!(reaches(&a, "10.0.0.2"), "{home:?}");
        let before = received(&monitor);
        let said = ping(&a, "-c 5 -i 0.2 -W 2 10.0.0.2");
        assert!(said.contains(" 0% packet loss"), "{home:?} {said}");
        // Requests and answers.
        let shown = || received(&monitor) - before;
        until(&format!("{home:?}: {} frames", shown()), || shown() >= 10);
    }
}

#[test]
fn the_reflector_echoes() {
    for home in HOMES {
        let mut gateway = Gateway::new();
        let host = gateway.host("net", "10.0.0.1/24", None);
        let _running = gateway.start(home, "udp-reflector", &[]);
        let socket = bound(&host, "0.0.0.0:0");
        socket
            .set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        let mut answer = [0; 100];
        let echoed = (0..20).any(|_| {
            socket.send_to(b"echo", "10.0.0.2:7").unwrap();
            socket
                .recv(&mut answer)
                .is_ok_and(|length| answer[..length] == *b"echo")
        });
        assert!(echoed, "{home:?}");
        // From a port that may be another service's.
        let low = bound(&host, "0.0.0.0:19");
        low.send_to(b"loop", "10.0.0.2:7").unwrap();
        assert!(low.recv(&mut answer).is_err(), "{home:?}");
    }
}

#[test]
fn a_capture_is_recorded_and_replayed() {
    let mut gateway = Gateway::new();
    let host = gateway.host("net", "10.0.0.2/24", None);
    std::fs::create_dir_all(&gateway.run).unwrap();
    let setting = format!("FILE={}", gateway.run.join("flows.pcap").display());
    assert_eq!(numbers(&printed("pcap-record", &[&setting])), [1000]);
    let before = received(&host);
    let said = gateway
        .start(Home::Process, "pcap-replay", &[&setting])
        .rest();
    // 142 and 942 bytes, 500 times each.
    assert_eq!(numbers(&said), [1000, 542_000], "{said}");
    assert_eq!(received(&host) - before, 1000);
}

/// Two sites with a tunnel between their gateways, in all ways to run the near one.
fn tunnel(example: &str, settings: &[&str]) {
    for home in HOMES {
        let (mut one, mut two) = (Gateway::new(), Gateway::new());
        let here = one.host("inside", "10.1.0.2/24", Some("10.1.0.1"));
        let there = two.host("inside", "10.2.0.2/24", Some("10.2.0.1"));
        one.join("outside", &two.namespace, "outside");
        two.interfaces.push("outside");
        let _one = one.start(home, example, &[]);
        let _two = two.start(Home::Process, example, settings);
        assert!(reaches(&here, "10.1.0.1"), "{home:?}");
        assert!(reaches(&here, "10.2.0.2"), "{home:?}");
        let (client, _) = connect(&there, "10.1.0.2:80", &here, "0.0.0.0:80").unwrap();
        assert_eq!(client.to_string(), "10.2.0.2");
        let said = ping(&here, "-c 2 -i 0.2 -W 2 -s 4000 10.2.0.2");
        assert!(said.contains(" 0% packet loss"), "{home:?} {said}");
    }
}

const OTHER_END: [&str; 6] = [
    "LAN=10.2.0.1",
    "REMOTE_NET=10.1.0.0/24",
    "HERE=192.0.2.2",
    "THERE=192.0.2.1",
    "INSIDE=inside",
    "OUTSIDE=outside",
];

#[test]
fn the_udp_tunnel_joins_two_sites() {
    tunnel("udp-tunnel", &OTHER_END);
}

#[test]
fn the_ipip_tunnel_joins_two_sites() {
    tunnel("ipip-tunnel", &OTHER_END);
}

#[test]
fn the_gre_tunnel_joins_two_sites() {
    tunnel("gre-tunnel", &OTHER_END);
}

#[test]
fn the_ipsec_tunnel_joins_two_sites() {
    let settings = [
        &OTHER_END[..],
        &["LAN_NET=10.2.0.0/24", "OUT=1002", "IN=1001"],
    ]
    .concat();
    tunnel("ipsec-tunnel", &settings);
}

#[test]
fn the_rate_limiter_holds_each_source_to_its_rate() {
    for home in HOMES {
        let mut gateway = Gateway::new();
        let customer = gateway.host("customers", "10.0.1.2/16", None);
        command(&customer, "ip", "addr add 10.0.2.2/16 dev eth0");
        let uplink = gateway.host("uplink", "10.0.9.1/16", None);
        let _running = gateway.start(home, "rate-limiter", &[]);
        assert!(reaches(&customer, "10.0.9.1"), "{home:?}");
        let sink = bound(&uplink, "0.0.0.0:9000");
        // 140 kB at once: the burst passes, the rest does not, but for what its rate lets through
        // until all are sent.
        let greedy = bound(&customer, "10.0.1.2:0");
        let started = Instant::now();
        for _ in 0..100 {
            greedy.send_to(&[0; 1400], "10.0.9.1:9000").unwrap();
        }
        // Another source is not held up.
        let modest = bound(&customer, "10.0.2.2:0");
        modest.send_to(b"modest", "10.0.9.1:9000").unwrap();
        let (mut passed, mut heard) = (0, false);
        while !heard {
            let (length, from) = sink.recv_from(&mut [0; 1500]).unwrap();
            heard = from.ip().to_string() == "10.0.2.2";
            passed += u32::from(length == 1400);
        }
        let most = 90 + (started.elapsed().as_secs_f64() * 2e6 / 8.0 / 1400.0) as u32;
        assert!((50..most).contains(&passed), "{home:?}: {passed} of {most}");
    }
}

#[test]
fn the_emulated_network_is_far() {
    for home in HOMES {
        let mut gateway = Gateway::new();
        let a = gateway.host("a", "10.0.0.1/24", None);
        let _b = gateway.host("b", "10.0.0.2/24", None);
        let _running = gateway.start(home, "wan-emulator", &[]);
        assert!(reaches(&a, "10.0.0.2"), "{home:?}");
        let said = ping(&a, "-c 3 -i 0.2 -W 2 10.0.0.2");
        let least = said.split("min/avg/max/mdev = ").nth(1).unwrap();
        let least: f64 = least.split('/').next().unwrap().parse().unwrap();
        assert!(least >= 80.0, "{home:?} {said}");
    }
}

#[test]
fn each_class_of_a_plugin_is_tried_behind_one_that_fails() {
    let file = std::env::temp_dir().join(format!("weir-plugin-{}.py", std::process::id()));
    let classes = ["First", "Second"].map(|class| {
        format!("class {class}:\n def do_filter(self, hosts, vm, args):\n  raise ValueError('of {class}')\n")
    });
    std::fs::write(&file, classes.concat()).unwrap();
    let output = Command::new(WEIR)
        .args(["plugin", "test"])
        .arg(&file)
        .output();
    std::fs::remove_file(&file).unwrap();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("of First") && said.contains("of Second"),
        "{said}"
    );
}
