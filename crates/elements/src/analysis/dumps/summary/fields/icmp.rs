//! Fields of ICMP's header.

use super::{byte, number, word};
use crate::analysis::dumps::summary::build::is_sequenced;
use crate::analysis::dumps::summary::{Build, Field, Format, Order, Seen, Value};

/// A destination that cannot be reached, as the packet would need fragments.
const NEEDS_FRAGMENTS: &[u8] = &[3, 4];

pub static FIELDS: &[Field] = &[
    Field {
        name: "icmp_type",
        aliases: &[],
        format: Format::IcmpType { named: false },
        of_ip: true,
        extract: Some(|seen| seen.icmp(1).and_then(|icmp| byte(icmp, 0))),
        inject: Some((Order::TRANSPORT, set_type)),
    },
    Field {
        name: "icmp_code",
        aliases: &[],
        format: Format::IcmpCode { named: false },
        of_ip: true,
        extract: Some(|seen| seen.icmp(2).and_then(|icmp| byte(icmp, 1))),
        inject: Some((Order::TRANSPORT.plus(1), set_code)),
    },
    Field {
        name: "icmp_type_name",
        aliases: &[],
        format: Format::IcmpType { named: true },
        of_ip: true,
        extract: Some(|seen| seen.icmp(1).and_then(|icmp| byte(icmp, 0))),
        inject: Some((Order::TRANSPORT, set_type)),
    },
    Field {
        name: "icmp_code_name",
        aliases: &[],
        format: Format::IcmpCode { named: true },
        of_ip: true,
        extract: Some(|seen| seen.icmp(2).and_then(|icmp| byte(icmp, 1))),
        inject: Some((Order::TRANSPORT.plus(1), set_code)),
    },
    Field {
        name: "icmp_flowid",
        aliases: &[],
        format: Format::Number(2),
        of_ip: true,
        extract: Some(|seen| sequenced(seen, 4)),
        inject: Some((Order::TRANSPORT.plus(2), |build, value| {
            build.set_icmp_sequenced(4, value.number() as u16);
        })),
    },
    Field {
        name: "icmp_seq",
        aliases: &[],
        format: Format::Number(2),
        of_ip: true,
        extract: Some(|seen| sequenced(seen, 6)),
        inject: Some((Order::TRANSPORT.plus(2), |build, value| {
            build.set_icmp_sequenced(6, value.number() as u16);
        })),
    },
    Field {
        name: "icmp_nextmtu",
        aliases: &[],
        format: Format::Number(2),
        of_ip: true,
        extract: Some(next_mtu),
        inject: Some((Order::TRANSPORT.plus(2), |build, value| {
            build.set_icmp_next_mtu(value.number() as u16);
        })),
    },
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
