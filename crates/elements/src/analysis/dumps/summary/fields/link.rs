//! Fields of the Ethernet header.

use super::{number, word};
use crate::analysis::dumps::summary::{Build, Field, Format, Order, Seen, Value};

pub static FIELDS: &[Field] = &[
    Field::new("eth_src", Format::Ether)
        .aliases(&["ether_src"])
        .extract(|seen| address(seen, 6))
        .inject(Order::LINK, |build, value| {
            set_address(build, value, Build::set_ether_source);
        }),
    Field::new("eth_dst", Format::Ether)
        .aliases(&["ether_dst"])
        .extract(|seen| address(seen, 0))
        .inject(Order::LINK, |build, value| {
            set_address(build, value, Build::set_ether_destination);
        }),
    Field::new("eth_type", Format::EtherType)
        .aliases(&["ether_type"])
        .extract(|seen| seen.ethernet().and_then(|header| number(word(header, 12)?)))
        .inject(Order::LINK, |build, value| {
            build.set_ether_type(value.number() as u16)
        }),
];

fn address(seen: &mut Seen<'_>, at: usize) -> Option<Value<'static>> {
    let header = seen.ethernet()?;
    header
        .get(at..)?
        .first_chunk()
        .map(|address| Value::Ether(*address))
}

fn set_address<'c>(build: &mut Build<'c>, value: &Value<'_>, set: fn(&mut Build<'c>, [u8; 6])) {
    if let Value::Ether(address) = value {
        set(build, *address);
    }
}
