//! Fields of TCP's and UDP's headers.

use std::borrow::Cow;

use super::{long, number, word};
use crate::analysis::dumps::summary::tcp_options::Which;
use crate::analysis::dumps::summary::{Field, Format, Order, Seen, Value};

/// The usual options: two of padding, and a timestamp (RFC 7323, appendix A).
const PADDED_TIMESTAMP: [u8; 4] = [1, 1, 8, 10];

pub static FIELDS: &[Field] = &[
    Field {
        name: "sport",
        aliases: &[],
        format: Format::Number(2),
        of_ip: true,
        extract: Some(|seen| seen.ports(2).and_then(|header| number(word(header, 0)?))),
        inject: Some((Order::TRANSPORT, |build, value| {
            build.set_port(0, value.number() as u16);
        })),
    },
    Field {
        name: "dport",
        aliases: &[],
        format: Format::Number(2),
        of_ip: true,
        extract: Some(|seen| seen.ports(4).and_then(|header| number(word(header, 2)?))),
        inject: Some((Order::TRANSPORT, |build, value| {
            build.set_port(2, value.number() as u16);
        })),
    },
    Field {
        name: "tcp_seq",
        aliases: &["tcp_seqno"],
        format: Format::Number(4),
        of_ip: true,
        extract: Some(|seen| seen.tcp(8).and_then(|tcp| number(long(tcp, 4)?))),
        inject: Some((Order::TRANSPORT, |build, value| {
            build.set_tcp(4, &(value.number() as u32).to_be_bytes());
        })),
    },
    Field {
        name: "tcp_ack",
        aliases: &["tcp_ackno"],
        format: Format::Number(4),
        of_ip: true,
        extract: Some(|seen| seen.tcp(12).and_then(|tcp| number(long(tcp, 8)?))),
        inject: Some((Order::TRANSPORT, |build, value| {
            build.set_tcp(8, &(value.number() as u32).to_be_bytes());
        })),
    },
    Field {
        name: "tcp_off",
        aliases: &[],
        format: Format::Number(1),
        of_ip: true,
        extract: Some(|seen| seen.tcp(13).and_then(|tcp| number((tcp.get(12)? >> 4) * 4))),
        inject: Some((Order::TRANSPORT.plus(-1), |build, value| {
            build.set_tcp_header_len(value.number());
        })),
    },
    Field {
        name: "tcp_flags",
        aliases: &[],
        format: Format::TcpFlags,
        of_ip: true,
        extract: Some(|seen| seen.tcp(14).and_then(|tcp| number(word(tcp, 12)? & 0xfff))),
        inject: Some((Order::TRANSPORT, |build, value| {
            build.set_tcp_flags(value.number() as u16);
        })),
    },
    Field {
        name: "tcp_window",
        aliases: &["tcp_win"],
        format: Format::Number(2),
        of_ip: true,
        extract: Some(|seen| seen.tcp(16).and_then(|tcp| number(word(tcp, 14)?))),
        inject: Some((Order::TRANSPORT, |build, value| {
            build.set_tcp(14, &(value.number() as u16).to_be_bytes());
        })),
    },
    Field {
        name: "tcp_urp",
        aliases: &[],
        format: Format::Number(2),
        of_ip: true,
        extract: Some(|seen| seen.tcp(20).and_then(|tcp| number(word(tcp, 18)?))),
        inject: Some((Order::TRANSPORT, |build, value| {
            build.set_tcp(18, &(value.number() as u16).to_be_bytes());
        })),
    },
    Field {
        name: "tcp_opt",
        aliases: &[],
        format: Format::TcpOptions(Which::All),
        of_ip: true,
        extract: Some(options),
        inject: Some((Order::TRANSPORT.plus(3), |build, value| {
            build.set_tcp_options(value.bytes());
        })),
    },
    Field {
        name: "tcp_ntopt",
        aliases: &[],
        format: Format::TcpOptions(Which::NoTimestamp),
        of_ip: true,
        extract: Some(options_but_timestamp),
        inject: Some((Order::TRANSPORT.plus(2), |build, value| {
            build.set_tcp_options(value.bytes());
        })),
    },
    Field {
        name: "tcp_sack",
        aliases: &[],
        format: Format::TcpOptions(Which::Sack),
        of_ip: true,
        extract: Some(options_but_timestamp),
        inject: Some((Order::TRANSPORT.plus(1), |build, value| {
            build.set_tcp_options(value.bytes());
        })),
    },
    Field {
        name: "udp_len",
        aliases: &[],
        format: Format::Number(4),
        of_ip: true,
        extract: Some(|seen| seen.udp(6).and_then(|udp| number(word(udp, 4)?))),
        inject: Some((Order::TRANSPORT, |build, value| {
            build.set_udp_len(value.number() as u16);
        })),
    },
];

fn options<'p>(seen: &mut Seen<'p>) -> Option<Value<'p>> {
    let header = usize::from(seen.tcp(13)?.get(12)? >> 4) * 4;
    if header <= 20 {
        return Some(Value::Bytes(Cow::Borrowed(&[])));
    }
    let options = seen.tcp(header)?.get(20..header)?;
    Some(Value::Bytes(options.into()))
}

/// As [`options`], but nothing is missing where only a timestamp can be cut short.
fn options_but_timestamp<'p>(seen: &mut Seen<'p>) -> Option<Value<'p>> {
    let tcp = seen.tcp(13)?;
    if tcp.get(12)? >> 4 == 8 && tcp.get(20..24) == Some(&PADDED_TIMESTAMP) {
        return Some(Value::Bytes(Cow::Borrowed(&[])));
    }
    options(seen)
}
