//! Route tables: entries, histories of changes by handlers, look-ups.

use super::{noise, print_outputs};
use crate::case::Case;
use crate::packets;
use crate::random::Random;

const OUTPUTS: usize = 4;

const CLASSES: [&str; 6] = [
    "StaticIPLookup",
    "LinearIPLookup",
    "DirectIPLookup",
    "RadixIPLookup",
    "RangeIPLookup",
    "LookupIP6Route",
];

pub fn make(random: &mut Random, size: usize) -> Case {
    let class = *random.pick(&CLASSES);
    let six = class == "LookupIP6Route";
    // Click shows these tables in the order of an internal hash.
    let shown = !matches!(class, "DirectIPLookup" | "RangeIPLookup");
    let mut case = Case::default();
    let mut routes = random.list(0..=size.min(12), |random| route(random, six));
    if random.chance(5) {
        routes.push(noise(random));
    }
    case.config.push(format!("r :: {class}("));
    let last = routes.len().saturating_sub(1);
    let comma =
        |(at, route): (usize, &String)| format!("{route}{}", if at < last { "," } else { "" });
    case.config.extend(routes.iter().enumerate().map(comma));
    case.config.push(");".into());
    let from = match six {
        true => "Idle -> r;",
        false => "s :: FromDump(packets.pcap, STOP true, ACTIVE false) -> GetIPAddress(16) -> r;",
    };
    case.config.push(from.into());
    case.config.extend(print_outputs("r", OUTPUTS));
    case.config.push("Script(".into());
    for _ in 0..random.below(size * 3 + 1) {
        case.config.push(format!("{},", step(random, six, shown)));
    }
    match six {
        true => case.config.push("stop);".into()),
        false => {
            case.config.push("write s.active true);".into());
            case.packets = packets::stamped(random, size, packets::ip);
        }
    }
    if !shown {
        // Nor is the gateway of a default route that is removed forgotten.
        for line in &mut case.config {
            *line = line.replace("/0 ", "/1 ");
            *line = line.replace("/0,", "/1,");
        }
    }
    if class == "LinearIPLookup" {
        // Click moves the route of 0.0.0.0/32 when one before it is removed.
        for line in &mut case.config {
            *line = line.replace(" 0.0.0.0", " 0.0.0.1");
            if let Some(rest) = line.strip_prefix("0.0.0.0") {
                *line = format!("0.0.0.1{rest}");
            }
        }
    }
    if shown {
        case.handlers.push("r.table".into());
    }
    case
}

fn step(random: &mut Random, six: bool, shown: bool) -> String {
    match random.below(12) {
        0..3 => format!("write r.add {}", route(random, six)),
        3 => format!("write r.set {}", route(random, six)),
        4..6 => format!("write r.remove {}", prefix(random, six)),
        6 => format!("write r.remove {}", route(random, six)),
        7 if !six => {
            let lines = random.list(1..=3, |random| {
                format!("{} {}", random.one("add|set|remove"), route(random, six))
            });
            // Script substitutes and writes the text as it is, with its line ends.
            format!("write r.ctrl {}", lines[0])
        }
        8 if random.chance(20) => "write r.flush".into(),
        9 if shown => "print $(r.table)".into(),
        _ if six => "print $?".into(),
        _ => format!("print $(r.lookup {})", host(random, six)),
    }
}

fn host(random: &mut Random, six: bool) -> String {
    match six {
        true => random
            .one("1::1|1::2|1:2::3|::|fe80::1|1:2:3:4:5:6:7:8|::1.2.3.4")
            .into(),
        false => match random.chance(60) {
            true => packets::address(random).into(),
            false => format!(
                "{}.{}.0.{}",
                random.one("10|11|0|255|128"),
                random.below(3),
                random.below(3)
            ),
        },
    }
}

fn prefix(random: &mut Random, six: bool) -> String {
    let longest = if six { 128 } else { 32 };
    let length = match random.below(8) {
        0 => return "default".into(),
        1 => return host(random, six),
        2 => 0,
        3 => longest,
        4 => random.within(0..=longest + 1),
        _ => *random.pick(&[1, 8, 9, 16, 23, 24, 25, 30, 31]),
    };
    if !six && random.chance(10) {
        let mask = random.one("255.0.0.0|255.255.255.0|255.255.255.255");
        return format!("{}/{mask}", host(random, six));
    }
    format!("{}/{length}", host(random, six))
}

fn route(random: &mut Random, six: bool) -> String {
    let output = match random.below(25) {
        0 => random.one("-1|9|x|").to_string(),
        _ => random.below(OUTPUTS).to_string(),
    };
    match random.chance(40) {
        true => format!("{} {} {output}", prefix(random, six), host(random, six)),
        false => format!("{} {output}", prefix(random, six)),
    }
}
