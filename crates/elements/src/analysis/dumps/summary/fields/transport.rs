//! Fields of TCP's and UDP's headers.

use std::borrow::Cow;

use super::{long, number, word};
use crate::analysis::dumps::summary::tcp_options::Which;
use crate::analysis::dumps::summary::{Field, Format, Order, Seen, Value};

/// The usual options: two of padding, and a timestamp (RFC 7323, appendix A).
const PADDED_TIMESTAMP: [u8; 4] = [1, 1, 8, 10];

pub static FIELDS: &[Field] = &[
    Field::of_ip("sport", Format::Number(2))
        .extract(|seen| seen.ports(2).and_then(|header| number(word(header, 0)?)))
        .inject(Order::TRANSPORT, |build, value| {
            build.set_port(0, value.number() as u16)
        }),
    Field::of_ip("dport", Format::Number(2))
        .extract(|seen| seen.ports(4).and_then(|header| number(word(header, 2)?)))
        .inject(Order::TRANSPORT, |build, value| {
            build.set_port(2, value.number() as u16)
        }),
    Field::of_ip("tcp_seq", Format::Number(4))
        .aliases(&["tcp_seqno"])
        .extract(|seen| seen.tcp(8).and_then(|tcp| number(long(tcp, 4)?)))
        .inject(Order::TRANSPORT, |build, value| {
            build.set_tcp(4, &(value.number() as u32).to_be_bytes())
        }),
    Field::of_ip("tcp_ack", Format::Number(4))
        .aliases(&["tcp_ackno"])
        .extract(|seen| seen.tcp(12).and_then(|tcp| number(long(tcp, 8)?)))
        .inject(Order::TRANSPORT, |build, value| {
            build.set_tcp(8, &(value.number() as u32).to_be_bytes())
        }),
    Field::of_ip("tcp_off", Format::Number(1))
        .extract(|seen| seen.tcp(13).and_then(|tcp| number((tcp.get(12)? >> 4) * 4)))
        .inject(Order::TRANSPORT.plus(-1), |build, value| {
            build.set_tcp_header_len(value.number())
        }),
    Field::of_ip("tcp_flags", Format::TcpFlags)
        .extract(|seen| seen.tcp(14).and_then(|tcp| number(word(tcp, 12)? & 0xfff)))
        .inject(Order::TRANSPORT, |build, value| {
            build.set_tcp_flags(value.number() as u16)
        }),
    Field::of_ip("tcp_window", Format::Number(2))
        .aliases(&["tcp_win"])
        .extract(|seen| seen.tcp(16).and_then(|tcp| number(word(tcp, 14)?)))
        .inject(Order::TRANSPORT, |build, value| {
            build.set_tcp(14, &(value.number() as u16).to_be_bytes())
        }),
    Field::of_ip("tcp_urp", Format::Number(2))
        .extract(|seen| seen.tcp(20).and_then(|tcp| number(word(tcp, 18)?)))
        .inject(Order::TRANSPORT, |build, value| {
            build.set_tcp(18, &(value.number() as u16).to_be_bytes())
        }),
    Field::of_ip("tcp_opt", Format::TcpOptions(Which::All))
        .extract(options)
        .inject(Order::TRANSPORT.plus(3), |build, value| {
            build.set_tcp_options(value.bytes())
        }),
    Field::of_ip("tcp_ntopt", Format::TcpOptions(Which::NoTimestamp))
        .extract(options_but_timestamp)
        .inject(Order::TRANSPORT.plus(2), |build, value| {
            build.set_tcp_options(value.bytes())
        }),
    Field::of_ip("tcp_sack", Format::TcpOptions(Which::Sack))
        .extract(options_but_timestamp)
        .inject(Order::TRANSPORT.plus(1), |build, value| {
            build.set_tcp_options(value.bytes())
        }),
    Field::of_ip("udp_len", Format::Number(4))
        .extract(|seen| seen.udp(6).and_then(|udp| number(word(udp, 4)?)))
        .inject(Order::TRANSPORT, |build, value| {
            build.set_udp_len(value.number() as u16)
        }),
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
