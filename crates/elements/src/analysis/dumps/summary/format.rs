//! How fields' values look: as text and as bytes.

use std::borrow::Cow;

use md5::{Digest, Md5};

use super::scan::Scan;
use super::tcp_options::{self, Which};
use super::{Build, Seen, ip_options};
use crate::prelude::*;

/// A field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'v> {
    /// A number; an IPv4 address, first byte highest; or nanoseconds since 1970.
    Number(u64),
    /// An Ethernet address.
    Ether([u8; 6]),
    /// Options, or a payload.
    Bytes(Cow<'v, [u8]>),
}

impl Value<'_> {
    /// The number; 0 for what is none.
    pub fn number(&self) -> u64 {
        match self {
            Value::Number(n) => *n,
            _ => 0,
        }
    }

    /// The bytes; none for what has none.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Value::Bytes(bytes) => bytes,
            _ => &[],
        }
    }
}

/// How a field's values look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A field that is passed over.
    Nothing,
    /// A number of so many bytes.
    Number(u8),
    /// An IPv4 address.
    Address,
    /// An Ethernet address.
    Ether,
    /// A number of 2 bytes, in hexadecimal.
    EtherType,
    /// Seconds with a fraction; in binary, seconds and microseconds.
    Time,
    /// The same; in binary, nanoseconds and seconds.
    NanoTime,
    /// Which way: `>` for 0, `<` for 1.
    Direction,
    /// A number of 1 byte, read as `>` and `<` too.
    Link,
    /// `F`, `f`, `!` or `.`: the flags and offset of IP, in few words.
    Fragment,
    /// The flags and offset of IP: bytes, `+` for more fragments, `!` for don't fragment.
    FragmentOffset,
    /// `T`, `U`, `I`, or a number.
    Protocol,
    /// `no`, `ect1`, `ect2` or `ce`.
    Ecn,
    /// IP options.
    IpOptions,
    /// TCP flags, by letters.
    TcpFlags,
    /// TCP options.
    TcpOptions(Which),
    /// An ICMP type by its number, or by its name.
    IcmpType { named: bool },
    /// An ICMP code by its number, or by its name.
    IcmpCode { named: bool },
    /// A quoted string.
    Payload,
    /// MD5 of the value, in 22 characters.
    Md5,
    /// MD5 of the value, in 32 hexadecimal digits.
    Md5Hex,
}

/// Bytes that values take in a binary record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    Fixed(usize),
    /// A byte that says how many follow.
    Counted,
    /// The field has no binary form.
    None,
}

/// Letters of the TCP flags, from the lowest bit.
const TCP_FLAGS: &[u8] = b"FSRPAUECN";
/// The flags in IP's fragment field.
const DONT_FRAGMENT: u64 = 0x4000;
const MORE_FRAGMENTS: u64 = 0x2000;
const OFFSET: u64 = 0x1fff;
/// A place in a packet that is not its start, for `f`.
const SOME_OFFSET: u64 = 100;

const PER_SECOND: u64 = 1_000_000_000;

impl Format {
    /// Bytes in a binary record.
    pub fn width(self) -> Width {
        match self {
            Format::Nothing => Width::Fixed(0),
            Format::Number(bytes) => Width::Fixed(bytes.into()),
            Format::Address => Width::Fixed(4),
            Format::Ether => Width::Fixed(6),
            Format::EtherType | Format::FragmentOffset => Width::Fixed(2),
            Format::Time | Format::NanoTime => Width::Fixed(8),
            Format::Direction
            | Format::Link
            | Format::Fragment
            | Format::Protocol
            | Format::Ecn
            | Format::TcpFlags
            | Format::IcmpType { .. }
            | Format::IcmpCode { .. } => Width::Fixed(1),
            Format::IpOptions | Format::TcpOptions(_) => Width::Counted,
            Format::Payload => Width::None,
            Format::Md5 | Format::Md5Hex => Width::Fixed(16),
        }
    }

    /// Whether text can be read as such a value.
    pub fn is_read(self) -> bool {
        !matches!(self, Format::Nothing | Format::Md5 | Format::Md5Hex)
    }

    /// Writes `value`, of the packet `seen`, as text.
    pub fn print(self, value: &Value<'_>, seen: &Seen<'_>, out: &mut Vec<u8>) {
        let n = value.number();
        match self {
            Format::Nothing => {}
            Format::Number(_) | Format::Link => out.put_decimal(n),
            Format::Address => out.put_address(Ipv4Addr::from_bits(n as u32)),
            Format::Ether => {
                if let Value::Ether(address) = value {
                    out.put(&EtherAddress(*address).to_string());
                }
            }
            Format::EtherType => out.put(&format!("{n:04X}")),
            Format::Time | Format::NanoTime => out.put_time(Timestamp(n as i64)),
            Format::Direction => match n {
                0 => out.put(">"),
                1 => out.put("<"),
                n => out.put_decimal(n),
            },
            Format::Fragment => out.push(fragment_letter(n)),
            Format::FragmentOffset => {
                out.put_decimal((n & OFFSET) * 8);
                out.put(if n & MORE_FRAGMENTS != 0 { "+" } else { "" });
                out.put(if n & DONT_FRAGMENT != 0 { "!" } else { "" });
            }
            Format::Protocol => match n {
                6 => out.put("T"),
                17 => out.put("U"),
                1 => out.put("I"),
                n => out.put_decimal(n),
            },
            Format::Ecn => out.put(match n & 3 {
                0 => "no",
                1 => "ect1",
                2 => "ect2",
                _ => "ce",
            }),
            Format::IpOptions => ip_options::print(value.bytes(), out),
            Format::TcpFlags => print_tcp_flags(n, out),
            Format::TcpOptions(which) => tcp_options::print(value.bytes(), which, out),
            Format::IcmpType { named } => print_named(Kind::IcmpType, named, n, seen, out),
            Format::IcmpCode { named } => {
                print_named(Kind::IcmpCode(seen.icmp_type()), named, n, seen, out);
            }
            Format::Payload => out.put(&click::config::quote(value.bytes())),
            Format::Md5 => print_digest(&Md5::digest(value.bytes()), out),
            Format::Md5Hex => {
                for byte in Md5::digest(value.bytes()) {
                    out.put_hex(byte);
                }
            }
        }
    }

    /// Reads a value from text. `build` is the packet it is for.
    pub fn parse(self, text: &[u8], build: &Build<'_>) -> Option<Value<'static>> {
        let names = &build.names;
        let string = || core::str::from_utf8(text).ok();
        let number = |most: u64| -> Option<Value<'static>> {
            let n = match plain_decimal(text) {
                Some(n) => n,
                None => names.parse(string()?).ok()?,
            };
            (n <= most).then_some(Value::Number(n))
        };
        let found = |n: u64| Some(Value::Number(n));
        match self {
            Format::Nothing | Format::Md5 | Format::Md5Hex => None,
            Format::Number(bytes) => number(most(bytes.into())),
            Format::Address => {
                let address = match parse_ipv4_literal(text) {
                    Some(address) => address,
                    None => names.parse::<Ipv4Addr>(string()?).ok()?,
                };
                found(address.to_bits().into())
            }
            Format::Ether => {
                let address: EtherAddress = names.parse(string()?).ok()?;
                Some(Value::Ether(address.0))
            }
            Format::EtherType => {
                let n: u16 = names.parse_with(Int::base(16), string()?).ok()?;
                found(n.into())
            }
            Format::Time | Format::NanoTime => {
                let time: Timestamp = names.parse(string()?).ok()?;
                found(time.0 as u64)
            }
            Format::Direction | Format::Link => match text {
                b">" | b"L" => found(0),
                b"<" | b"R" | b"X" => found(1),
                // The annotation has its low byte.
                _ => number(most(4)),
            },
            Format::Fragment | Format::FragmentOffset => {
                parse_fragment(text, build.minor_version).map(Value::Number)
            }
            Format::Protocol => match text {
                b"T" => found(6),
                b"U" => found(17),
                b"I" => found(1),
                _ => number(most(1)),
            },
            Format::Ecn => match text {
                b"0" | b"no" => found(0),
                b"1" | b"ect1" | b"ECT(1)" => found(1),
                b"2" | b"ect2" | b"ECT(0)" => found(2),
                b"3" | b"ce" | b"CE" => found(3),
                _ => None,
            },
            Format::IpOptions => ip_options::parse(text).map(|bytes| Value::Bytes(bytes.into())),
            Format::TcpFlags => match text.first()? {
                b'0'..=b'9' => number(0xfff),
                _ => parse_tcp_flags(text).map(Value::Number),
            },
            Format::TcpOptions(which) => {
                let options = tcp_options::parse(text, which);
                options.map(|bytes| Value::Bytes(bytes.into()))
            }
            Format::IcmpType { .. } => parse_named(Kind::IcmpType, string()?, build),
            Format::IcmpCode { .. } => match build.icmp_type() {
                Some(kind) => parse_named(Kind::IcmpCode(kind), string()?, build),
                None => number(most(1)),
            },
            Format::Payload => {
                let bytes = click::config::string(&click::text::decode(text))?;
                (bytes.len() <= usize::from(u16::MAX)).then_some(Value::Bytes(bytes.into()))
            }
        }
    }

    /// Writes a value in binary; zeros where there is none.
    pub fn encode(self, value: Option<&Value<'_>>, out: &mut Vec<u8>) {
        let n = value.map_or(0, Value::number);
        match self {
            Format::Ether => out.extend(match value {
                Some(Value::Ether(address)) => *address,
                _ => [0; 6],
            }),
            Format::Time => {
                out.extend(((n / PER_SECOND) as u32).to_be_bytes());
                out.extend(((n % PER_SECOND / 1000) as u32).to_be_bytes());
            }
            Format::NanoTime => {
                out.extend(((n % PER_SECOND) as u32).to_be_bytes());
                out.extend(((n / PER_SECOND) as u32).to_be_bytes());
            }
            Format::Fragment => out.push(value.map_or(0, |_| fragment_letter(n))),
            Format::IpOptions => {
                let options = value.map_or(&[][..], Value::bytes);
                push_counted(out, |out| out.extend_from_slice(options));
            }
            Format::TcpOptions(which) => {
                let options = value.map_or(&[][..], Value::bytes);
                push_counted(out, |out| tcp_options::copy(options, which, out));
            }
            Format::Md5 | Format::Md5Hex => {
                out.extend(Md5::digest(value.map_or(&[][..], Value::bytes)));
            }
            _ => {
                // Copies of a known length take no call.
                match self.width() {
                    Width::Fixed(1) => out.push(n as u8),
                    Width::Fixed(2) => out.extend_from_slice(&(n as u16).to_be_bytes()),
                    Width::Fixed(4) => out.extend_from_slice(&(n as u32).to_be_bytes()),
                    Width::Fixed(bytes) => {
                        let all = n.to_be_bytes();
                        out.extend_from_slice(&all[all.len().saturating_sub(bytes)..]);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Reads a value from the front of `bytes`, and passes over it: `Some(None)` if it makes no
    /// sense, `None` if the record ends before it.
    pub fn decode<'b>(self, bytes: &mut &'b [u8]) -> Option<Option<Value<'b>>> {
        let width = match self.width() {
            Width::Fixed(width) => width,
            Width::Counted => {
                let (count, rest) = bytes.split_first()?;
                *bytes = rest;
                usize::from(*count)
            }
            Width::None => return None,
        };
        let (own, rest) = bytes.split_at_checked(width)?;
        *bytes = rest;
        let number = own.iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte));
        let (high, low) = (number >> 32, number & 0xffff_ffff);
        Some(match self {
            Format::Nothing | Format::Md5 | Format::Md5Hex | Format::Payload => None,
            Format::Ether => own.first_chunk().map(|address| Value::Ether(*address)),
            Format::Time => Some(Value::Number(high * PER_SECOND + low * 1000)),
            Format::NanoTime => Some(Value::Number(low * PER_SECOND + high)),
            Format::Fragment => match number as u8 {
                b'.' => Some(Value::Number(0)),
                b'!' => Some(Value::Number(DONT_FRAGMENT)),
                b'F' => Some(Value::Number(MORE_FRAGMENTS)),
                b'f' => Some(Value::Number(SOME_OFFSET)),
                _ => None,
            },
            Format::IpOptions | Format::TcpOptions(_) => Some(Value::Bytes(own.into())),
            _ => Some(Value::Number(number)),
        })
    }
}

/// The largest number of so many bytes.
fn most(bytes: u32) -> u64 {
    u64::MAX >> (64 - 8 * bytes.clamp(1, 8))
}

fn push_counted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.push(0);
    write(out);
    // Options are at most 40 bytes.
    let count = out.len() - at - 1;
    if let Some(place) = out.get_mut(at) {
        *place = count as u8;
    }
}

fn fragment_letter(field: u64) -> u8 {
    match field {
        n if n & OFFSET != 0 => b'f',
        n if n & MORE_FRAGMENTS != 0 => b'F',
        n if n & DONT_FRAGMENT != 0 => b'!',
        _ => b'.',
    }
}

/// Files of version 1.0 have offsets in units of 8 bytes.
fn parse_fragment(text: &[u8], minor_version: u32) -> Option<u64> {
    match text {
        b"." => return Some(0),
        b"!" => return Some(DONT_FRAGMENT),
        b"F" => return Some(MORE_FRAGMENTS),
        b"f" => return Some(SOME_OFFSET),
        b"" => return None,
        _ => {}
    }
    let mut scan = Scan::new(text);
    let offset = u64::from(scan.number(0).unwrap_or(0));
    let mut field = offset >> if minor_version > 0 { 3 } else { 0 };
    loop {
        match scan.next() {
            None => return Some(field & 0xffff),
            Some(b'!') => field |= DONT_FRAGMENT,
            Some(b'+') => field |= MORE_FRAGMENTS,
            Some(_) => return None,
        }
    }
}

fn print_tcp_flags(flags: u64, out: &mut Vec<u8>) {
    match flags {
        0 => out.push(b'.'),
        // The usual order of the usual ones.
        0x18 => out.extend(b"PA"),
        _ => {
            let set = TCP_FLAGS.iter().enumerate();
            let set = set.filter(|(bit, _)| flags & (1 << bit) != 0);
            out.extend(set.map(|(_, letter)| letter));
        }
    }
}

/// Reads letters, those of old versions included.
fn parse_tcp_flags(text: &[u8]) -> Option<u64> {
    if text == b"." {
        return Some(0);
    }
    text.iter().try_fold(0, |flags, letter| {
        let bit = match letter {
            b'W' | b'Y' => 7,
            b'X' => 6,
            letter => TCP_FLAGS.iter().position(|known| known == letter)?,
        };
        Some(flags | 1 << bit)
    })
}

fn print_named(kind: Kind, named: bool, n: u64, seen: &Seen<'_>, out: &mut Vec<u8>) {
    let names = &seen.names;
    let name = named.then(|| names.names.name_of(kind, n as u32, names.element));
    match name.flatten() {
        Some(name) => out.put(name),
        None => out.put_decimal(n),
    }
}

fn parse_named(kind: Kind, text: &str, build: &Build<'_>) -> Option<Value<'static>> {
    let names = &build.names;
    let n = names.names.int_or_number(kind, text, names.element)?;
    (n < 256).then_some(Value::Number(n.into()))
}

/// Six bits a character, lowest first.
fn print_digest(digest: &[u8], out: &mut Vec<u8>) {
    const CHARACTERS: &[u8; 64] =
        b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@";
    for bit in (0..8 * digest.len()).step_by(6) {
        let byte = |at: usize| u16::from(digest.get(at).copied().unwrap_or(0));
        let pair = byte(bit / 8) | byte(bit / 8 + 1) << 8;
        out.push(CHARACTERS[usize::from(pair >> (bit % 8)) & 63]);
    }
}
