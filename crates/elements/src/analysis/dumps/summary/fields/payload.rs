//! Fields of what follows all headers.

use super::number;
use crate::analysis::dumps::summary::{Field, Format, Order, Seen, Value};
use crate::prelude::*;

pub static FIELDS: &[Field] = &[
    Field::of_ip("payload_len", Format::Number(4))
        .aliases(&["payload_length"])
        .extract(length)
        .inject(Order::PAYLOAD.plus(1), |build, value| {
            build.set_payload_len(value.number())
        }),
    Field::of_ip("payload", Format::Payload)
        .extract(payload)
        .inject(Order::PAYLOAD, |build, value| {
            build.set_payload(value.bytes())
        }),
    Field::of_ip("payload_md5", Format::Md5).extract(payload),
    Field::of_ip("payload_md5_hex", Format::Md5Hex).extract(payload),
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
