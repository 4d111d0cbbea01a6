//! Fields of a packet's annotations.

use super::number;
use crate::analysis::dumps::summary::{Field, Format, Order};
use crate::prelude::*;

const PER_SECOND: i64 = 1_000_000_000;

pub static FIELDS: &[Field] = &[
    Field {
        name: "timestamp",
        aliases: &["utimestamp", "ts"],
        format: Format::Time,
        of_ip: false,
        extract: Some(|seen| number(seen.packet.timestamp() as u64)),
        inject: Some((Order::ANNO, |build, value| {
            build.timestamp = value.number() as i64;
        })),
    },
    Field {
        name: "ntimestamp",
        aliases: &[],
        format: Format::NanoTime,
        of_ip: false,
        extract: Some(|seen| number(seen.packet.timestamp() as u64)),
        inject: Some((Order::ANNO, |build, value| {
            build.timestamp = value.number() as i64;
        })),
    },
    Field {
        name: "ts_sec",
        aliases: &["sec"],
        format: Format::Number(4),
        of_ip: false,
        extract: Some(|seen| number(seen.packet.timestamp().div_euclid(PER_SECOND) as u32)),
        inject: Some((Order::ANNO, |build, value| {
            let rest = build.timestamp.rem_euclid(PER_SECOND);
            build.timestamp = seconds(value.number()).saturating_add(rest);
        })),
    },
    Field {
        name: "ts_usec",
        aliases: &["usec"],
        format: Format::Number(4),
        of_ip: false,
        extract: Some(|seen| number(seen.packet.timestamp().rem_euclid(PER_SECOND) as u32 / 1000)),
        inject: Some((Order::ANNO, |build, value| {
            let whole = build.timestamp - build.timestamp.rem_euclid(PER_SECOND);
            build.timestamp = whole.saturating_add(micros(value.number()));
        })),
    },
    Field {
        name: "ts_usec1",
        aliases: &["usec1"],
        format: Format::Number(8),
        of_ip: false,
        extract: Some(|seen| number(seen.packet.timestamp().div_euclid(1000) as u64)),
        inject: Some((Order::ANNO, |build, value| {
            build.timestamp = micros(value.number());
        })),
    },
    Field {
        name: "first_timestamp",
        aliases: &["first_utimestamp", "first_ts"],
        format: Format::Time,
        of_ip: false,
        extract: Some(|seen| number(seen.packet.anno_u64(FIRST_TIMESTAMP))),
        inject: Some((Order::ANNO, |build, value| {
            build.first_timestamp = value.number() as i64;
        })),
    },
    Field {
        name: "first_ntimestamp",
        aliases: &[],
        format: Format::NanoTime,
        of_ip: false,
        extract: Some(|seen| number(seen.packet.anno_u64(FIRST_TIMESTAMP))),
        inject: Some((Order::ANNO, |build, value| {
            build.first_timestamp = value.number() as i64;
        })),
    },
    Field {
        name: "count",
        aliases: &["pkt_count", "packet_count"],
        format: Format::Number(4),
        of_ip: false,
        extract: Some(|seen| number(seen.packet.anno(EXTRA_PACKETS).saturating_add(1))),
        inject: Some((Order::ANNO, |build, value| {
            build.count = value.number() as u32;
        })),
    },
    Field {
        name: "link",
        aliases: &[],
        format: Format::Link,
        of_ip: false,
        extract: Some(|seen| number(seen.packet.paint())),
        inject: Some((Order::ANNO, |build, value| {
            build.paint = value.number() as u8;
        })),
    },
    Field {
        name: "paint",
        aliases: &[],
        format: Format::Link,
        of_ip: false,
        extract: Some(|seen| number(seen.packet.paint())),
        inject: Some((Order::ANNO, |build, value| {
            build.paint = value.number() as u8;
        })),
    },
    Field {
        name: "direction",
        aliases: &[],
        format: Format::Direction,
        of_ip: false,
        extract: Some(|seen| number(seen.packet.paint())),
        inject: Some((Order::ANNO, |build, value| {
            build.paint = value.number() as u8;
        })),
    },
    Field {
        name: "aggregate",
        aliases: &["agg"],
        format: Format::Number(4),
        of_ip: false,
        extract: Some(|seen| number(seen.packet.anno(AGGREGATE))),
        inject: Some((Order::ANNO, |build, value| {
            build.aggregate = value.number() as u32;
        })),
    },
    Field {
        name: "wire_len",
        aliases: &["wire_length"],
        format: Format::Number(4),
        of_ip: false,
        extract: Some(|seen| number(seen.packet.len() as u32)),
        inject: Some((Order::ANNO, |build, value| {
            build.wanted = value.number() as u32;
        })),
    },
];

fn seconds(n: u64) -> i64 {
    i64::try_from(n)
        .unwrap_or(i64::MAX)
        .saturating_mul(PER_SECOND)
}

fn micros(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX).saturating_mul(1000)
}
