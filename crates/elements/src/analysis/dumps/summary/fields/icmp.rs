//! Fields of ICMP's header.

use super::{byte, number, word};
use crate::analysis::dumps::summary::build::is_sequenced;
use crate::analysis::dumps::summary::{Build, Field, Format, Order, Seen, Value};

/// A destination that cannot be reached, as the packet would need fragments.
const NEEDS_FRAGMENTS: &[u8] = &[3, 4];

pub static FIELDS: &[Field] = &[
    Field::of_ip("icmp_type", Format::IcmpType { named: false })
        .extract(|seen| seen.icmp(1).and_then(|icmp| byte(icmp, 0)))
        .inject(Order::TRANSPORT, set_type),
    Field::of_ip("icmp_code", Format::IcmpCode { named: false })
        .extract(|seen| seen.icmp(2).and_then(|icmp| byte(icmp, 1)))
        .inject(Order::TRANSPORT.plus(1), set_code),
    Field::of_ip("icmp_type_name", Format::IcmpType { named: true })
        .extract(|seen| seen.icmp(1).and_then(|icmp| byte(icmp, 0)))
        .inject(Order::TRANSPORT, set_type),
    Field::of_ip("icmp_code_name", Format::IcmpCode { named: true })
        .extract(|seen| seen.icmp(2).and_then(|icmp| byte(icmp, 1)))
        .inject(Order::TRANSPORT.plus(1), set_code),
    Field::of_ip("icmp_flowid", Format::Number(2))
        .extract(|seen| sequenced(seen, 4))
        .inject(Order::TRANSPORT.plus(2), |build, value| {
            build.set_icmp_sequenced(4, value.number() as u16)
        }),
    Field::of_ip("icmp_seq", Format::Number(2))
        .extract(|seen| sequenced(seen, 6))
        .inject(Order::TRANSPORT.plus(2), |build, value| {
            build.set_icmp_sequenced(6, value.number() as u16)
        }),
    Field::of_ip("icmp_nextmtu", Format::Number(2))
        .extract(next_mtu)
        .inject(Order::TRANSPORT.plus(2), |build, value| {
            build.set_icmp_next_mtu(value.number() as u16)
        }),
];

fn set_type(build: &mut Build<'_>, value: &Value<'_>) {
    build.set_icmp_type(value.number() as u8);
}

fn set_code(build: &mut Build<'_>, value: &Value<'_>) {
    build.set_icmp_code(value.number() as u8);
}

fn sequenced(seen: &mut Seen<'_>, at: usize) -> Option<Value<'static>> {
    let kind = *seen.icmp(1)?.first()?;
    if !is_sequenced(kind) {
        return None;
    }
    number(word(seen.icmp(at + 2)?, at)?)
}

fn next_mtu(seen: &mut Seen<'_>) -> Option<Value<'static>> {
    if !seen.icmp(2)?.starts_with(NEEDS_FRAGMENTS) {
        return None;
    }
    number(word(seen.icmp(8)?, 6)?)
}
