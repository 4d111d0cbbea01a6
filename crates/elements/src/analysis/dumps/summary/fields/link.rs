//! Fields of the Ethernet header.

use super::{number, word};
use crate::analysis::dumps::summary::{Build, Field, Format, Order, Seen, Value};

pub static FIELDS: &[Field] = &[
    Field {
        name: "eth_src",
        aliases: &["ether_src"],
        format: Format::Ether,
        of_ip: false,
        extract: Some(|seen| address(seen, 6)),
        inject: Some((Order::LINK, |build, value| {
            set_address(build, value, Build::set_ether_source);
        })),
    },
    Field {
        name: "eth_dst",
        aliases: &["ether_dst"],
        format: Format::Ether,
        of_ip: false,
        extract: Some(|seen| address(seen, 0)),
        inject: Some((Order::LINK, |build, value| {
            set_address(build, value, Build::set_ether_destination);
        })),
    },
    Field {
        name: "eth_type",
        aliases: &["ether_type"],
        format: Format::EtherType,
        of_ip: false,
        extract: Some(|seen| seen.ethernet().and_then(|header| number(word(header, 12)?))),
        inject: Some((Order::LINK, |build, value| {
            build.set_ether_type(value.number() as u16);
        })),
    },
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
