//! The table of fields, by layers.

mod anno;
mod icmp;
mod ip;
mod link;
mod payload;
mod transport;

use super::{Field, Value};

/// All fields.
pub static ALL: &[&[Field]] = &[
    anno::FIELDS,
    link::FIELDS,
    ip::FIELDS,
    transport::FIELDS,
    icmp::FIELDS,
    payload::FIELDS,
];

fn number(n: impl Into<u64>) -> Option<Value<'static>> {
    Some(Value::Number(n.into()))
}

/// The number in a byte of a header, which was checked to be there.
fn byte(header: &[u8], at: usize) -> Option<Value<'static>> {
    header.get(at).and_then(|byte| number(*byte))
}

fn word(header: &[u8], at: usize) -> Option<u16> {
    let bytes = header.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*bytes))
}

fn long(header: &[u8], at: usize) -> Option<u32> {
    let bytes = header.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}
