//! One primitive of the IP pattern language: `src port > 1023`, `ip ttl 5`.
//!
//! The parser collects words into a [`Primitive`]. [`Primitive::check`] fills
//! in omitted words, often from the previous primitive, and rejects invalid
//! combinations. [`Primitive::compile`] turns it into tests.

mod check;
mod compile;

use super::diagnostic::Diagnostics;
use super::names::ICMP6_TYPES;
use crate::prelude::*;

pub(super) const ICMP: i32 = 1;
pub(super) const TCP: i32 = 6;
pub(super) const UDP: i32 = 17;
pub(super) const DCCP: i32 = 33;
pub(super) const ICMP6: i32 = 58;
/// Pseudo-protocols: TCP or UDP, any transport protocol, any payload.
pub(super) const TCP_OR_UDP: i32 = 256;
pub(super) const TRANSP: i32 = 258;
pub(super) const PAYLOAD: i32 = 259;

/// The kind of a primitive, and the kind of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Kind {
    #[default]
    None,
    /// An error was reported already.
    Wrong,
    Int,
    Host,
    Net,
    Proto,
    Port,
    TcpOption,
    Ether,
    Frag,
    Unfrag,
    Ect,
    Ce,
    Field(Field),
}

/// A header field: bits `offset` to `offset + bits` of the IP header, or of
/// the transport header when `protocol` is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub protocol: i32,
    pub offset: u32,
    pub bits: u32,
}

impl Field {
    const fn ip(offset: u32, bits: u32) -> Field {
        Field {
            protocol: 0,
            offset,
            bits,
        }
    }

    const TOS: Field = Field::ip(8, 8);
    pub(super) const ICMP_TYPE: Field = Field {
        protocol: ICMP,
        offset: 0,
        bits: 8,
    };
    pub(super) const ICMP6_TYPE: Field = Field {
        protocol: ICMP6,
        ..Field::ICMP_TYPE
    };
    const TCP_WINDOW: Field = Field {
        protocol: TCP,
        offset: 14 * 8,
        bits: 16,
    };

    fn name(self) -> Option<&'static str> {
        const NAMES: [(&str, Field); 10] = [
            ("ip len", Field::ip(2 * 8, 16)),
            ("ip id", Field::ip(4 * 8, 16)),
            ("ip vers", Field::ip(0, 4)),
            ("ip hl", Field::ip(4, 4)),
            ("ip tos", Field::TOS),
            ("ip dscp", Field::ip(8, 6)),
            ("ip ttl", Field::ip(8 * 8, 8)),
            ("tcp win", Field::TCP_WINDOW),
            ("icmp type", Field::ICMP_TYPE),
            ("icmp6 type", Field::ICMP6_TYPE),
        ];
        NAMES
            .iter()
            .find(|(_, f)| *f == self)
            .map(|(name, _)| *name)
    }
}

/// A word of the language: a primitive's kind, or syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TypeWord {
    Kind(Kind),
    /// Syntax: never a value.
    Syntax,
}

/// The words that name kinds of primitives.
pub(super) fn type_word(word: &str) -> Option<TypeWord> {
    let kind = match word {
        "dest" | "dst" | "ether" | "ip" | "not" | "src" => return Some(TypeWord::Syntax),
        "ce" => Kind::Ce,
        "dscp" => Kind::Field(Field::ip(8, 6)),
        "ect" => Kind::Ect,
        "frag" => Kind::Frag,
        "hl" => Kind::Field(Field::ip(4, 4)),
        "host" => Kind::Host,
        "id" => Kind::Field(Field::ip(4 * 8, 16)),
        "len" => Kind::Field(Field::ip(2 * 8, 16)),
        "net" => Kind::Net,
        "opt" => Kind::TcpOption,
        "port" => Kind::Port,
        "proto" => Kind::Proto,
        "tos" => Kind::Field(Field::TOS),
        "ttl" => Kind::Field(Field::ip(8 * 8, 8)),
        "type" => Kind::Field(Field::ICMP_TYPE),
        "unfrag" => Kind::Unfrag,
        "vers" => Kind::Field(Field::ip(0, 4)),
        "win" => Kind::Field(Field::TCP_WINDOW),
        _ => return None,
    };
    Some(TypeWord::Kind(kind))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Relation {
    #[default]
    Equal,
    Greater,
    Less,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Destination,
    Both,
    Either,
}

/// The header that `ip` or `ether` selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderWord {
    Ip,
    Ether,
}

/// A mask given with `&`.
#[derive(Clone, Copy, Debug)]
pub(super) struct GivenMask {
    /// [`Kind::Int`], [`Kind::Host`] or [`Kind::Ether`].
    pub kind: Kind,
    pub bytes: [u8; 6],
}

impl GivenMask {
    fn word(&self) -> u32 {
        word(&self.bytes)
    }
}

/// Integers and addresses share a word; Click's masks between the two come
/// out as on a little-endian machine, so the first byte is the lowest.
fn word(bytes: &[u8; 6]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn bytes(word: u32) -> [u8; 6] {
    let [a, b, c, d] = word.to_le_bytes();
    [a, b, c, d, 0, 0]
}

/// A primitive, first as read, then as checked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Primitive {
    pub kind: Kind,
    pub data: Kind,
    pub relation: Relation,
    pub negated: bool,
    pub side: Option<Side>,
    pub protocol: Option<i32>,
    pub value: [u8; 6],
    pub mask: [u8; 6],
    /// Of an IPv6 address, value and mask.
    pub ip6: Option<[u128; 2]>,
    /// Whether the packet may be of either version of IP.
    pub both: bool,
}

/// An error has been reported.
pub(super) struct Reported;

/// Receives the messages of one pattern.
pub(super) struct Reporter<'a> {
    pub pattern: usize,
    pub diagnostics: &'a mut Diagnostics,
}

impl Reporter<'_> {
    pub(super) fn error(&mut self, text: impl Into<String>) -> Reported {
        self.diagnostics.error(Some(self.pattern), text);
        Reported
    }

    fn warning(&mut self, text: String) {
        self.diagnostics.warning(Some(self.pattern), text);
    }
}

/// The protocol in words; nothing when there is none.
pub(super) fn protocol_text(protocol: Option<i32>) -> String {
    let Some(protocol) = protocol else {
        return String::new();
    };
    match protocol {
        ICMP => "icmp".into(),
        2 => "igmp".into(),
        4 => "ipip".into(),
        TCP => "tcp".into(),
        UDP => "udp".into(),
        ICMP6 => "icmp6".into(),
        TCP_OR_UDP => "tcpudp".into(),
        TRANSP => "transp".into(),
        other => format!("ip proto {other}"),
    }
}

/// The kind in words.
pub(super) fn kind_text(kind: Kind) -> String {
    let name = match kind {
        Kind::None | Kind::Wrong | Kind::Int => "<none>",
        Kind::Host => "ip host",
        Kind::Net => "ip net",
        Kind::Proto => "proto",
        Kind::Port => "port",
        Kind::TcpOption => "tcp opt",
        Kind::Ether => "ether host",
        Kind::Frag => "ip frag",
        Kind::Unfrag => "ip unfrag",
        Kind::Ect => "ip ect",
        Kind::Ce => "ip ce",
        Kind::Field(field) => match field.name() {
            Some(name) => name,
            None if field.protocol == 0 => "ip[...]",
            None => return protocol_text(Some(field.protocol)) + "[...]",
        },
    };
    name.into()
}

impl Primitive {
    pub(super) fn set_kind(&mut self, kind: Kind, report: &mut Reporter<'_>) {
        if self.kind != Kind::None {
            report.error("type specified twice");
        }
        self.kind = kind;
    }

    pub(super) fn set_side(&mut self, side: Side, report: &mut Reporter<'_>) {
        if self.side.is_some() {
            report.error("‘src’ or ‘dst’ specified twice");
        }
        self.side = Some(side);
    }

    pub(super) fn set_protocol(&mut self, protocol: i32, report: &mut Reporter<'_>) {
        if self.protocol.is_some_and(|old| old != protocol) {
            report.error("transport protocol specified twice");
        }
        self.protocol = Some(protocol);
    }

    pub(super) fn set_number(&mut self, data: Kind, value: u32) {
        self.data = data;
        self.value = bytes(value);
    }

    fn number(&self) -> u32 {
        word(&self.value)
    }

    fn text(&self) -> String {
        let side = match self.side {
            Some(Side::Source) => "src ",
            Some(Side::Destination) => "dst ",
            Some(Side::Either) => "src or dst ",
            Some(Side::Both) => "src and dst ",
            None => "",
        };
        side.to_string() + &kind_text(self.kind)
    }

    fn relation_text(&self) -> &'static str {
        match (self.relation, self.negated) {
            (Relation::Greater, false) => ">",
            (Relation::Greater, true) => "<=",
            (Relation::Less, false) => "<",
            (Relation::Less, true) => ">=",
            (Relation::Equal, false) => "=",
            (Relation::Equal, true) => "!=",
        }
    }

    /// What is wrong with a word in the place of the value, where a pattern is about both versions of IP.
    pub(super) fn wrong_value(&self, word: &str) -> Option<String> {
        if !self.both || self.data != Kind::None {
            return None;
        }
        let wanted = match self.kind {
            Kind::Host => "no address: write one as 10.0.0.1 or 2001:db8::1",
            Kind::Net => "no prefix: write one as 10.0.0.0/8 or 2001:db8::/32",
            Kind::Field(Field::ICMP6_TYPE) => {
                let names = ICMP6_TYPES.map(|(name, _)| name).join(", ");
                let text = format!("‘{word}’ is no type of ICMPv6: write a number, or {names}");
                return Some(text);
            }
            Kind::None if matches!(word, "ip6" | "ipv6") => "no word of a pattern: write vers 6",
            Kind::None if matches!(word, "ip4" | "ipv4") => "no word of a pattern: write vers 4",
            Kind::None if matches!(word, "icmpv6") => "no word of a pattern: write icmp6",
            _ => return None,
        };
        Some(format!("‘{word}’ is {wanted}"))
    }

    fn wrong(&self, what: &str, report: &mut Reporter<'_>) -> Reported {
        report.error(format!("‘{}’: {what}", self.text()))
    }
}
