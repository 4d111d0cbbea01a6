//! Names of fields in the headers of IP packets: `ip src/8`, `tcp [13] & 2`, `udp {16:16}`.

use crate::prelude::*;

/// What the offset of a field counts from: the IP header for [`IP`], else the header of a protocol.
pub type Protocol = u32;
/// The IP header.
pub const IP: Protocol = 0;
/// The header of TCP or UDP.
pub const TCP_OR_UDP: Protocol = 256;
/// The header behind the IP header.
pub const TRANSPORT: Protocol = 258;
/// What TCP or UDP carries.
pub const PAYLOAD: Protocol = 259;

const ICMP: Protocol = 1;
const TCP: Protocol = 6;
const UDP: Protocol = 17;

/// Some bits of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpField {
    pub protocol: Protocol,
    /// In bits.
    pub offset: u32,
    /// In bits; at least 1.
    pub length: u32,
}

/// Largest offset, in bits: that of the last bit of the longest packet.
const OFFSET_MAX: u32 = 1 << 19;

const EXPECTED: &str = "expected 'HEADER [NAME] [{OFFSET:LENGTH}] [/PREFIX] [& MASK]'";
const BAD_PLACE: &str = "bad offset or length in TCP/IP field";
const BAD_MASK: &str = "bad prefix or mask in TCP/IP field";

/// Names, protocols, offsets and lengths in bits. The first name of a field is the one shown.
static FIELDS: &[(&str, Protocol, u32, u32)] = &[
    ("df", IP, 49, 1),
    ("dscp", IP, 8, 6),
    ("dst", IP, 128, 32),
    ("ecn", IP, 14, 2),
    ("fragoff", IP, 51, 13),
    ("hl", IP, 4, 4),
    ("id", IP, 32, 16),
    ("len", IP, 16, 16),
    ("mf", IP, 50, 1),
    ("off", IP, 48, 16),
    ("proto", IP, 72, 8),
    ("rf", IP, 48, 1),
    ("src", IP, 96, 32),
    ("sum", IP, 80, 16),
    ("tos", IP, 8, 8),
    ("ttl", IP, 64, 8),
    ("vers", IP, 0, 4),
    ("dport", UDP, 16, 16),
    ("len", UDP, 32, 16),
    ("sport", UDP, 0, 16),
    ("sum", UDP, 48, 16),
    ("ack", TCP, 107, 1),
    ("ackno", TCP, 64, 32),
    ("dport", TCP, 16, 16),
    ("fin", TCP, 111, 1),
    ("flags", TCP, 104, 8),
    ("hl", TCP, 96, 4),
    ("psh", TCP, 108, 1),
    ("push", TCP, 108, 1),
    ("rst", TCP, 109, 1),
    ("seq", TCP, 32, 32),
    ("seqno", TCP, 32, 32),
    ("sport", TCP, 0, 16),
    ("sum", TCP, 128, 16),
    ("syn", TCP, 110, 1),
    ("urg", TCP, 106, 1),
    ("urp", TCP, 144, 16),
    ("win", TCP, 112, 16),
    ("code", ICMP, 8, 8),
    ("sum", ICMP, 16, 16),
    ("type", ICMP, 0, 8),
    ("dport", TCP_OR_UDP, 16, 16),
    ("sport", TCP_OR_UDP, 0, 16),
];

/// The field that a name means behind the name of a protocol.
fn named(protocol: Protocol, name: &str) -> Option<IpField> {
    // Ports are not of the IP header, but `ip sport` means that of either protocol.
    let protocol = match (protocol, name) {
        (IP, "sport" | "dport") => TCP_OR_UDP,
        (protocol, _) => protocol,
    };
    let known = FIELDS
        .iter()
        .find(|(known, of, ..)| *known == name && *of == protocol);
    known.map(|&(_, protocol, offset, length)| IpField {
        protocol,
        offset,
        length,
    })
}

/// What is left of a text, white space in front passed over.
struct Text<'t>(&'t str);

impl<'t> Text<'t> {
    fn skip_space(&mut self) {
        self.0 = self.0.trim_start();
    }

    fn eat(&mut self, word: &str) -> bool {
        self.skip_space();
        match self.0.strip_prefix(word) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// A word of letters, digits, `-` and `_`.
    fn word(&mut self) -> &'t str {
        self.skip_space();
        let end = self
            .0
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
        let (word, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        word
    }

    fn number(&mut self) -> Option<u32> {
        let before = self.0;
        self.skip_space();
        let end = self.0.find(|c: char| !c.is_ascii_alphanumeric());
        let (word, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        match Context::blank().parse(word) {
            Ok(number) => {
                self.0 = rest;
                Some(number)
            }
            Err(_) => {
                self.0 = before;
                None
            }
        }
    }
}

impl IpField {
    /// Reads a field. The whole text has to be one.
    pub fn parse(text: &str, names: &Context<'_>) -> Result<IpField, &'static str> {
        let mut rest = Text(text);
        let header = parse_protocol(&mut rest, names).ok_or(EXPECTED)?;
        let mut ahead = Text(rest.0);
        let name = ahead.word();
        let mut field = named(header, name);
        if field.is_some() {
            rest = ahead;
        }
        let place = parse_place(&mut rest)?;
        field = match (field, place) {
            (field, None) => field,
            (_, Some((_, 0))) => return Err(BAD_PLACE),
            (Some(field), Some((offset, length))) => {
                if offset
                    .checked_add(length)
                    .is_none_or(|end| end > field.length)
                {
                    return Err(BAD_PLACE);
                }
                Some(IpField {
                    offset: field.offset + offset,
                    length,
                    ..field
                })
            }
            (None, Some((offset, length))) => Some(IpField {
                protocol: header,
                offset,
                length,
            }),
        };
        let mut field = field.ok_or(EXPECTED)?;
        if field.offset > OFFSET_MAX || field.length > OFFSET_MAX {
            return Err(BAD_PLACE);
        }
        if rest.eat("/") {
            let prefix = rest.number().ok_or(EXPECTED)?;
            if prefix == 0 || prefix > field.length {
                return Err(BAD_MASK);
            }
            field.length = prefix;
        }
        if rest.eat("&") {
            field = masked(field, rest.number().ok_or(EXPECTED)?).ok_or(BAD_MASK)?;
        }
        rest.skip_space();
        match rest.0 {
            "" => Ok(field),
            _ => Err("garbage after field specification"),
        }
    }

    /// As [`parse`](Self::parse) reads it.
    pub fn show(&self, names: &Context<'_>) -> String {
        let protocol = match self.protocol {
            IP => "ip".into(),
            other => match names.names.name_of(Kind::IpProtocol, other, names.element) {
                Some(name) => String::from(name),
                None => format!("ip proto {other}"),
            },
        };
        let name = |offset, length| {
            let field = (self.protocol, offset, length);
            let known = FIELDS.iter().find(|(_, p, o, l)| (*p, *o, *l) == field);
            known.map(|(name, ..)| *name)
        };
        if let Some(name) = name(self.offset, self.length) {
            return format!("{protocol} {name}");
        }
        let (mut offset, mut container_name) = (self.offset, "");
        for container in [8, 16, 32] {
            let start = offset / container * container;
            if offset + self.length <= start + container
                && let Some(name) = name(start, container)
            {
                container_name = name;
                offset -= start;
                break;
            }
        }
        let space = if container_name.is_empty() { "" } else { " " };
        let length = self.length;
        let place = match (offset, length) {
            (0, length) if !container_name.is_empty() => format!("/{length}"),
            (o, 8) if o % 8 == 0 => format!("[{}]", o / 8),
            (o, l) if o % 8 == 0 && l % 8 == 0 => format!("[{}:{}]", o / 8, l / 8),
            (o, 1) => format!("{{{o}}}"),
            (o, l) => format!("{{{o}:{l}}}"),
        };
        format!("{protocol}{space}{container_name}{place}")
    }
}

/// The name of a header. Other than `ip`, it ends at white space.
fn parse_protocol(rest: &mut Text<'_>, names: &Context<'_>) -> Option<Protocol> {
    let from_word = rest.0;
    let word = rest.word();
    let is_whole = rest.0.is_empty() || rest.0.starts_with(char::is_whitespace);
    match word {
        "ip" => {
            // `ip proto` is a field too, if no number follows.
            let mut ahead = Text(rest.0);
            if ahead.word() == "proto"
                && let Some(number) = ahead.number().filter(|number| *number < 256)
            {
                *rest = ahead;
                return Some(number);
            }
            Some(IP)
        }
        "sport" | "dport" => {
            // Without a protocol: of either. The word is the field's name.
            rest.0 = from_word;
            Some(TCP_OR_UDP)
        }
        _ if !is_whole => None,
        "data" => Some(PAYLOAD),
        _ => names.names.int(Kind::IpProtocol, word, names.element),
    }
}

/// `[BYTE]`, `[BYTE:BYTES]`, `[BYTE-BYTE]`, or the same in braces, in bits: the first bit and how
/// many. `None` if there is none.
fn parse_place(rest: &mut Text<'_>) -> Result<Option<(u32, u32)>, &'static str> {
    let (unit, end) = match () {
        () if rest.eat("[") => (8, "]"),
        () if rest.eat("{") => (1, "}"),
        () => return Ok(None),
    };
    let first = rest.number().ok_or(EXPECTED)?;
    let length = match () {
        () if rest.eat(":") || rest.eat(",") => rest.number().ok_or(EXPECTED)?,
        () if rest.eat("-") => {
            let last = rest.number().ok_or(EXPECTED)?;
            last.checked_sub(first)
                .and_then(|n| n.checked_add(1))
                .ok_or(BAD_PLACE)?
        }
        () => 1,
    };
    if !rest.eat(end) {
        return Err(EXPECTED);
    }
    let bits = |n: u32| n.checked_mul(unit).ok_or(BAD_PLACE);
    Ok(Some((bits(first)?, bits(length)?)))
}

/// The bits of a field that a mask leaves, which have to stand together.
fn masked(field: IpField, mask: u32) -> Option<IpField> {
    let low = mask.trailing_zeros();
    let high = 32 - mask.leading_zeros();
    if mask == 0 || mask.count_ones() != high - low || high > field.length {
        return None;
    }
    Some(IpField {
        offset: field.offset + field.length - high,
        length: high - low,
        ..field
    })
}
