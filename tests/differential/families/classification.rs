//! Classifier, IPClassifier and IPFilter.

use super::{noise, print_outputs};
use crate::case::{Case, Link};
use crate::packets;
use crate::random::Random;

pub fn make(random: &mut Random, size: usize) -> Case {
    let mut case = Case::default();
    let class = *random.pick(&["Classifier", "IPClassifier", "IPClassifier", "IPFilter"]);
    let mut rules = random.list(1..=size.min(3), |random| match class {
        "Classifier" => pattern(random),
        _ => expression(random, size.min(4)),
    });
    if class == "Classifier" && random.chance(50) {
        case.link = Link::Ethernet;
    }
    let outputs = rules.len();
    if class == "IPFilter" {
        for rule in &mut rules {
            let action = match random.below(6) {
                0 => "deny".to_string(),
                1 => random.one("drop|allow").to_string(),
                _ => random.below(outputs).to_string(),
            };
            *rule = format!("{action} {rule}");
        }
    }
    if random.chance(5) {
        let at = random.below(outputs);
        rules[at] = noise(random);
    }
    let way = match (class, random.below(3)) {
        ("Classifier", _) => "",
        (_, 0) => "-> CheckIPHeader ",
        _ => "-> MarkIPHeader ",
    };
    case.config.push(format!("c :: {class}("));
    case.config
        .extend(rules.join(",\n").split('\n').map(String::from));
    case.config.push(");".into());
    case.config
        .push(format!("FromDump(packets.pcap, STOP true) {way}-> c;"));
    case.config.extend(print_outputs("c", outputs));
    case.packets = packets::stamped(random, size * 3, |random| match case.link {
        Link::Ethernet => packets::ethernet(random),
        Link::Ip => packets::ip(random),
    });
    case
}

/// A pattern of Classifier: clauses of offset, value and mask.
fn pattern(random: &mut Random) -> String {
    if random.chance(15) {
        return "-".into();
    }
    let clauses = random.list(1..=3, |random| {
        let offset = *random.pick(&[0, 1, 6, 8, 9, 12, 13, 14, 16, 20, 22, 23, 30, 33, 36]);
        let known = random.one("0800|0806|45|06|11|01|0a0000|00|ff|0a|0000c0|0?|?1|????|01??");
        let value = match random.below(4) {
            0 => random
                .list(1..=8, |random| random.one("0|1|4|a|f|?").to_string())
                .concat(),
            _ => known.to_string(),
        };
        let mask = match random.chance(20) {
            true => format!("%{}", "f0".repeat(value.len() / 2)),
            false => String::new(),
        };
        let not = random.one("||||!").to_string();
        format!("{not}{offset}/{value}{mask}")
    });
    clauses.join(" ")
}

/// An expression of IPClassifier and IPFilter, at most `depth` deep.
fn expression(random: &mut Random, depth: usize) -> String {
    if depth <= 1 || random.chance(30) {
        return primitive(random);
    }
    let (left, right) = (expression(random, depth - 1), expression(random, depth - 1));
    match random.below(9) {
        0..3 => format!("{left} {} {right}", random.one("&&|and")),
        3..5 => format!("{left} or {right}"),
        5 => format!("({left}) || ({right})"),
        6 => format!("{}({left})", random.one("!|not ")),
        7 => format!("({left} ? {right} : {})", primitive(random)),
        _ => format!("{left} {right}"),
    }
}

fn primitive(random: &mut Random) -> String {
    let direction = random
        .one("src |dst |src or dst |src and dst |")
        .to_string();
    let not = random.one("||||||not |!").to_string();
    let compare = random.one("||||= |== |!= |> |< |>= |<= ").to_string();
    let address = packets::address(random);
    let number = *random.pick(&[
        0u64,
        1,
        2,
        4,
        5,
        6,
        7,
        17,
        20,
        64,
        255,
        256,
        1000,
        65535,
        65536,
        1 << 32,
    ]);
    let port = *random.pick(&packets::PORTS);
    let length = random.within(0..=33);
    let what = match random.below(30) {
        0 | 1 => format!("{direction}host {address}"),
        2 | 3 => format!("{direction}net {address}/{length}"),
        4 => format!("{direction}net {address} mask {}", random.one("255.0.0.0|255.255.255.0|255.0.255.0|0.0.0.3")),
        5 => format!("{direction}{compare}{address}"),
        6..9 => format!("{direction}{} port {compare}{port}", random.one("tcp|udp|tcp or udp||")),
        9 => format!("{direction}{} port {}", random.one("tcp|udp|"), random.one("80-90|domain|www|http|1024-|1000-5000|bogus")),
        10..12 => random.one("tcp|udp|icmp|ip|arp|tcp or udp|igmp|ip proto tcp|proto 4").to_string(),
        // Above 255, Click's tree matches nothing at all; Weir refuses the number.
        12 => format!("ip proto {compare}{}", number.min(255)),
        13..16 => {
            let field = random.one("vers|hl|len|id|tos|dscp|ttl|sum|proto|csum|frag|ecn");
            let number = if field == "proto" { number.min(255) } else { number };
            format!("ip {field} {compare}{number}")
        }
        16 => random.one("ip frag|ip unfrag|ip ce|ip ect|not ip unfrag|frag|unfrag").to_string(),
        17 | 18 => {
            let option = random.one("syn|ack|fin|rst|psh|urg|syn ack|bogus");
            format!("{}tcp opt {option}", not)
        }
        19 => random.one("syn|ack|syn && not ack|rst|fin|psh|urg").to_string(),
        20 => format!("tcp win {compare}{number}"),
        21 => format!("icmp type {compare}{}", random.one("echo|echo-reply|unreachable|3|8|timeexceeded|256|bogus")),
        22..25 => {
            let head = random.one("ip|ip|transp|tcp|udp|icmp|ether|bogus");
            // Click reads on behind a packet that is shorter.
            let within = if head == "ip" { 16 } else { 24 };
            let (offset, bytes) = (random.below(within), random.within(0..=5));
            let mask = random.one("|| & 0xf0| & 0x00ff| & 3| & 1");
            let operator = random.one("=|==|!=|>|<|>=|<=");
            let length = [format!(":{bytes}"), String::new()];
            format!("{head}[{offset}{}]{mask} {operator} {number}", random.pick(&length))
        }
        25 => format!("ip[{}] & {number} {compare}{number}", random.below(20)),
        26 => random.one("true|false|all|any|none|-").to_string(),
        27 => random.one("ip multicast|dst ip multicast|src host 10.0.0.1 or 10.0.0.2|src 10.0.0.1 or 10.0.0.2 and tcp|dst port 80 or 53|tcp src port 80 or dst port 53").to_string(),
        28 => format!("{direction}ether host 00:00:c0:00:00:01"),
        _ => address.to_string(),
    };
    format!("{not}{what}")
}
