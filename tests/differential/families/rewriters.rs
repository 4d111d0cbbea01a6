//! Rewriters: patterns, packets of both ways, time-outs and capacities.
//!
//! Patterns that pick at random have one choice only. Left out are the tables, which Click shows in
//! the order of an internal hash.

use super::noise;
use crate::case::Case;
use crate::packets::{self, Ip};
use crate::random::Random;

const OUTPUTS: usize = 3;

pub fn make(random: &mut Random, size: usize) -> Case {
    let classes = [
        "IPRewriter",
        "IPRewriter",
        "UDPRewriter",
        "TCPRewriter",
        "IPAddrRewriter",
        "ICMPPingRewriter",
        "IPAddrPairRewriter",
    ];
    let class = *random.pick(&classes);
    let inputs = random.within(1..=size.min(3));
    let mut specs = random.list(inputs..=inputs, |random| input(random, class));
    if class == "ICMPPingRewriter" && inputs > 1 {
        // Two patterns of one address, in Click, give the same identifiers.
        for spec in &mut specs {
            *spec = spec.replace("1024-65535#", "-");
        }
    }
    if random.chance(4) {
        specs[0] = noise(random);
    }
    let mut case = Case::default();
    let mut options = options(random, class);
    if specs.iter().any(|spec| spec.contains('#')) {
        // All mappings are of one time. Click evicts any of them, whose address is free then.
        options.retain(|option| !option.contains("CAPACITY"));
    }
    specs.extend(options);
    case.config
        .push(format!("rw :: {class}({});", specs.join(", ")));
    let rules = match inputs {
        1 => "all",
        2 => "src net 10.0.0.0/16, all",
        _ => "src net 10.0.0.0/16, src net 18.0.0.0/8, all",
    };
    case.config.push(format!("in :: IPClassifier({rules});"));
    for port in 0..inputs {
        case.config.push(format!("in[{port}] -> [{port}] rw;"));
    }
    case.config
        .push("FromDump(packets.pcap, STOP true) -> CheckIPHeader -> in;".into());
    case.config.push("d :: Discard;".into());
    for output in 0..OUTPUTS {
        case.config
            .push(format!("rw[{output}] -> Print({output}, -1) -> d;"));
    }
    for handler in ["mapping_failures", "size", "table_size", "nmappings"] {
        if random.chance(30) {
            case.handlers.push(format!("rw.{handler}"));
        }
    }
    case.packets = packets::stamped(random, size * 4, |random| flow(random, class));
    case
}

/// A packet of few flows, of either way.
fn flow(random: &mut Random, class: &str) -> Vec<u8> {
    let protocol = match (class, random.below(10)) {
        ("ICMPPingRewriter", 0..8) => 1,
        ("UDPRewriter", 0..8) => 17,
        ("TCPRewriter", 0..8) => 6,
        (_, 0..4) => 6,
        (_, 4..8) => 17,
        _ => 1,
    };
    let mut ip = Ip::new(random, protocol);
    let hosts = "10.0.0.1|10.0.0.2|18.26.4.9|18.26.4.10|1.0.0.1|1.0.0.2|1.0.0.3";
    ip.source = packets::octets(random.one(hosts));
    ip.destination = packets::octets(random.one(hosts));
    if protocol != 1 {
        for at in [0, 2] {
            let port: u16 = *random.pick(&[80, 80, 53, 1024, 1025, 1026, 5000, 21]);
            ip.payload[at..at + 2].copy_from_slice(&port.to_be_bytes());
        }
        ip.seal(random);
    }
    if random.chance(5) {
        ip.fragment = *random.pick(&[0x2000, 10]);
    }
    ip.bytes()
}

fn outputs(random: &mut Random) -> String {
    format!("{} {}", random.below(OUTPUTS), random.below(OUTPUTS))
}

fn input(random: &mut Random, class: &str) -> String {
    match random.below(12) {
        0 => "drop".into(),
        1 => "nochange".into(),
        2 => format!("keep {}", outputs(random)),
        3 => format!("pass {}", random.below(OUTPUTS)),
        4 => format!("nochange {}", random.below(OUTPUTS)),
        5 => "discard".into(),
        _ => format!("pattern {} {}", pattern(random, class), outputs(random)),
    }
}

fn pattern(random: &mut Random, class: &str) -> String {
    let source = random.one("1.0.0.1|1.0.0.1|2.0.0.1|-").to_string();
    let destination = random.one("-|-|18.26.4.10|10.0.0.2").to_string();
    match class {
        "IPAddrRewriter" => random
            .one("1.0.0.1|1.0.0.1|1.0.0.1-1.0.0.1#|1.0.0.1-1.0.0.3#|-")
            .into(),
        "IPAddrPairRewriter" => {
            format!("{} {destination}", random.one("1.0.0.1|1.0.0.1-1.0.0.3#|-"))
        }
        _ => {
            // Click gives identifiers of pings that are in use once a range is used up.
            let (ports, port) = match class {
                "ICMPPingRewriter" => (random.one("-|-|5000|1024-1024|1024-65535#"), "-"),
                _ => (
                    random.one("-|-|5000|1024-1024|1024-1026#|1024-1030#|1024-65535#|0-3#"),
                    random.one("-|-|-|80|53"),
                ),
            };
            format!("{source} {ports} {destination} {port}")
        }
    }
}

fn options(random: &mut Random, class: &str) -> Vec<String> {
    let mut options = Vec::new();
    let mut add = |random: &mut Random, percent, texts: &str| {
        if random.chance(percent) {
            options.push(random.one(texts).to_string());
        }
    };
    add(
        random,
        15,
        "MAPPING_CAPACITY 1|MAPPING_CAPACITY 2|MAPPING_CAPACITY 3|CAPACITY 1",
    );
    add(
        random,
        15,
        "TIMEOUT 1|TIMEOUT 10|TIMEOUT 60|GUARANTEE 5|GUARANTEE 0|REAP_INTERVAL 10",
    );
    if class == "IPRewriter" || class == "TCPRewriter" {
        add(
            random,
            10,
            "TCP_TIMEOUT 10|TCP_DONE_TIMEOUT 1|TCP_NODATA_TIMEOUT 1|TCP_GUARANTEE 1",
        );
    }
    if class == "IPRewriter" {
        add(
            random,
            10,
            "UDP_TIMEOUT 10|UDP_STREAMING_TIMEOUT 1|UDP_GUARANTEE 1",
        );
    }
    add(
        random,
        10,
        "DST_ANNO false|REPLY_ANNO 0|REPLY_ANNO 5|DST_ANNO maybe|BOGUS 1",
    );
    options
}
