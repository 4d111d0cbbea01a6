//! Fields of a packet's annotations.

use super::number;
use crate::analysis::dumps::summary::{Build, Field, Format, Order, Seen, Value};
use crate::prelude::*;

const PER_SECOND: i64 = 1_000_000_000;

pub static FIELDS: &[Field] = &[
    Field::new("timestamp", Format::Time)
        .aliases(&["utimestamp", "ts"])
        .extract(|seen| number(seen.packet.timestamp() as u64))
        .inject(Order::ANNO, set_timestamp),
    Field::new("ntimestamp", Format::NanoTime)
        .extract(|seen| number(seen.packet.timestamp() as u64))
        .inject(Order::ANNO, set_timestamp),
    Field::new("ts_sec", Format::Number(4))
        .aliases(&["sec"])
        .extract(|seen| number(seen.packet.timestamp().div_euclid(PER_SECOND) as u32))
        .inject(Order::ANNO, |build, value| {
            let rest = build.timestamp.rem_euclid(PER_SECOND);
            build.timestamp = seconds(value.number()).saturating_add(rest);
        }),
    Field::new("ts_usec", Format::Number(4))
        .aliases(&["usec"])
        .extract(|seen| number(seen.packet.timestamp().rem_euclid(PER_SECOND) as u32 / 1000))
        .inject(Order::ANNO, |build, value| {
            let whole = build.timestamp - build.timestamp.rem_euclid(PER_SECOND);
            build.timestamp = whole.saturating_add(micros(value.number()));
        }),
    Field::new("ts_usec1", Format::Number(8))
        .aliases(&["usec1"])
        .extract(|seen| number(seen.packet.timestamp().div_euclid(1000) as u64))
        .inject(Order::ANNO, |build, value| {
            build.timestamp = micros(value.number())
        }),
    Field::new("first_timestamp", Format::Time)
        .aliases(&["first_utimestamp", "first_ts"])
        .extract(|seen| number(seen.packet.anno_u64(FIRST_TIMESTAMP)))
        .inject(Order::ANNO, set_first_timestamp),
    Field::new("first_ntimestamp", Format::NanoTime)
        .extract(|seen| number(seen.packet.anno_u64(FIRST_TIMESTAMP)))
        .inject(Order::ANNO, set_first_timestamp),
    Field::new("count", Format::Number(4))
        .aliases(&["pkt_count", "packet_count"])
        .extract(|seen| number(seen.packet.anno(EXTRA_PACKETS).saturating_add(1)))
        .inject(Order::ANNO, |build, value| {
            build.count = value.number() as u32
        }),
    Field::new("link", Format::Link)
        .extract(paint)
        .inject(Order::ANNO, set_paint),
    Field::new("paint", Format::Link)
        .extract(paint)
        .inject(Order::ANNO, set_paint),
    Field::new("direction", Format::Direction)
        .extract(paint)
        .inject(Order::ANNO, set_paint),
    Field::new("aggregate", Format::Number(4))
        .aliases(&["agg"])
        .extract(|seen| number(seen.packet.anno(AGGREGATE)))
        .inject(Order::ANNO, |build, value| {
            build.aggregate = value.number() as u32
        }),
    Field::new("wire_len", Format::Number(4))
        .aliases(&["wire_length"])
        .extract(|seen| number(seen.packet.len() as u32))
        .inject(Order::ANNO, |build, value| {
            build.wanted = value.number() as u32
        }),
    Field::new("thread", Format::Number(4)).extract(|seen| number(seen.thread)),
];

fn paint(seen: &mut Seen<'_>) -> Option<Value<'static>> {
    number(seen.packet.paint())
}

fn set_paint(build: &mut Build<'_>, value: &Value<'_>) {
    build.paint = value.number() as u8;
}

fn set_timestamp(build: &mut Build<'_>, value: &Value<'_>) {
    build.timestamp = value.number() as i64;
}

fn set_first_timestamp(build: &mut Build<'_>, value: &Value<'_>) {
    build.first_timestamp = value.number() as i64;
}

fn seconds(n: u64) -> i64 {
    i64::try_from(n)
        .unwrap_or(i64::MAX)
        .saturating_mul(PER_SECOND)
}

fn micros(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX).saturating_mul(1000)
}
