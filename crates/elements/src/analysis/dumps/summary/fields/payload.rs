//! Fields of what follows all headers.

use super::number;
use crate::analysis::dumps::summary::{Field, Format, Order, Seen, Value};
use crate::prelude::*;

pub static FIELDS: &[Field] = &[
    Field {
        name: "payload_len",
        aliases: &["payload_length"],
        format: Format::Number(4),
        of_ip: true,
        extract: Some(length),
        inject: Some((Order::PAYLOAD.plus(1), |build, value| {
            build.set_payload_len(value.number());
        })),
    },
    Field {
        name: "payload",
        aliases: &[],
        format: Format::Payload,
        of_ip: true,
        extract: Some(payload),
        inject: Some((Order::PAYLOAD, |build, value| {
            build.set_payload(value.bytes())
        })),
    },
    Field {
        name: "payload_md5",
        aliases: &[],
        format: Format::Md5,
        of_ip: true,
        extract: Some(payload),
        inject: None,
    },
    Field {
        name: "payload_md5_hex",
        aliases: &[],
        format: Format::Md5Hex,
        of_ip: true,
        extract: Some(payload),
        inject: None,
    },
];

fn length(seen: &mut Seen<'_>) -> Option<Value<'static>> {
    let (length, _) = seen.payload();
    let extra = if seen.any_ip().is_none() || seen.extra_length {
        seen.packet.anno(EXTRA_LENGTH)
    } else {
        0
    };
    number((length as u32).saturating_add(extra))
}

fn payload<'p>(seen: &mut Seen<'p>) -> Option<Value<'p>> {
    seen.payload().1.map(|payload| Value::Bytes(payload.into()))
}
