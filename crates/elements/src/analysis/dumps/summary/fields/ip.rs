//! Fields of the IP header.

use std::borrow::Cow;

use super::{byte, long, number, word};
use crate::analysis::dumps::summary::{Build, Field, Format, Order, Seen, Value};
use crate::prelude::*;

/// The bits of the type of service that are the ECN (RFC 3168).
const ECN: u8 = 3;

pub static FIELDS: &[Field] = &[
    Field::of_ip("ip_src", Format::Address)
        .extract(|seen| seen.ip(16).and_then(|ip| number(long(ip, 12)?)))
        .inject(Order::NET, |build, value| {
            build.set_ip(12, &(value.number() as u32).to_be_bytes())
        }),
    Field::of_ip("ip_dst", Format::Address)
        .extract(|seen| seen.ip(20).and_then(|ip| number(long(ip, 16)?)))
        .inject(Order::NET, |build, value| {
            build.set_ip(16, &(value.number() as u32).to_be_bytes())
        }),
    Field::of_ip("ip_tos", Format::Number(1))
        .extract(|seen| seen.ip(2).and_then(|ip| byte(ip, 1)))
        .inject(Order::NET, |build, value| {
            build.set_tos(0xff, value.number() as u8)
        }),
    Field::of_ip("ip_dscp", Format::Number(1))
        .extract(|seen| seen.ip(2).and_then(|ip| number(ip.get(1)? >> 2)))
        .inject(Order::NET, |build, value| {
            build.set_tos(!ECN, (value.number() as u8) << 2)
        }),
    Field::of_ip("ip_ecn", Format::Ecn)
        .extract(|seen| seen.ip(2).and_then(|ip| number(ip.get(1)? & ECN)))
        .inject(Order::NET, |build, value| {
            build.set_tos(ECN, value.number() as u8)
        }),
    Field::of_ip("ip_ttl", Format::Number(1))
        .extract(|seen| seen.ip(9).and_then(|ip| byte(ip, 8)))
        .inject(Order::NET, |build, value| {
            build.set_ip(8, &[value.number() as u8])
        }),
    Field::of_ip("ip_frag", Format::Fragment)
        .extract(|seen| seen.ip(8).and_then(|ip| number(word(ip, 6)?)))
        .inject(Order::NET.plus(-2), set_fragment),
    Field::of_ip("ip_fragoff", Format::FragmentOffset)
        .extract(|seen| seen.ip(8).and_then(|ip| number(word(ip, 6)?)))
        .inject(Order::NET.plus(-1), set_fragment),
    Field::of_ip("ip_id", Format::Number(2))
        .extract(|seen| seen.ip(6).and_then(|ip| number(word(ip, 4)?)))
        .inject(Order::NET, |build, value| {
            build.set_ip(4, &(value.number() as u16).to_be_bytes())
        }),
    Field::of_ip("ip_sum", Format::Number(2))
        .extract(|seen| seen.ip(12).and_then(|ip| number(word(ip, 10)?)))
        .inject(Order::NET.plus(2), |build, value| {
            build.set_ip(10, &(value.number() as u16).to_be_bytes())
        }),
    Field::of_ip("ip_proto", Format::Protocol)
        .aliases(&["ip_p"])
        .extract(|seen| seen.ip(10).and_then(|ip| byte(ip, 9)))
        .inject(Order::NET, |build, value| {
            build.set_ip(9, &[value.number() as u8])
        }),
    Field::of_ip("ip_hl", Format::Number(1))
        .extract(|seen| seen.ip(1).and_then(|ip| number((ip.first()? & 15) * 4)))
        .inject(Order::NET.plus(-1), |build, value| {
            build.set_ip_header_len(value.number())
        }),
    Field::of_ip("ip_len", Format::Number(4))
        .aliases(&["length"])
        .extract(extract_len)
        .inject(Order::NET.plus(1), |build, value| {
            build.set_ip_len(value.number())
        }),
    // It is known to fields that are read, but says nothing of the packet.
    Field::of_ip("ip_capture_len", Format::Number(4))
        .extract(extract_capture_len)
        .inject(Order::PAYLOAD.plus(2), |_, _| {}),
    Field::of_ip("ip_opt", Format::IpOptions)
        .extract(extract_options)
        .inject(Order::NET, |build, value| {
            build.set_ip_options(value.bytes())
        }),
];

fn set_fragment(build: &mut Build<'_>, value: &Value<'_>) {
    build.set_ip(6, &(value.number() as u16).to_be_bytes());
}

fn extract_len(seen: &mut Seen<'_>) -> Option<Value<'static>> {
    let length = match seen.any_ip() {
        Some(ip) => word(ip, 2)?.into(),
        None => seen.packet.len() as u32,
    };
    let extra = if seen.extra_length {
        seen.packet.anno(EXTRA_LENGTH)
    } else {
        0
    };
    number(length.saturating_add(extra))
}

fn extract_capture_len(seen: &mut Seen<'_>) -> Option<Value<'static>> {
    match seen.any_ip() {
        Some(ip) => number(u32::from(word(ip, 2)?).min(ip.len() as u32)),
        None => number(seen.packet.len() as u32),
    }
}

fn extract_options<'p>(seen: &mut Seen<'p>) -> Option<Value<'p>> {
    let header = match seen.any_ip() {
        Some(ip) => usize::from(ip.first()? & 15) * 4,
        None => 20,
    };
    if header == 20 && seen.any_ip().is_some() {
        return Some(Value::Bytes(Cow::Borrowed(&[])));
    }
    let options = seen.ip(header)?.get(20..header)?;
    Some(Value::Bytes(options.into()))
}
