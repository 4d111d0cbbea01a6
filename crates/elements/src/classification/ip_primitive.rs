//! One primitive of the IP pattern language: `src port > 1023`, `ip ttl 5`.
//!
//! The parser collects what it reads into a [`Primitive`]; [`Primitive::check`]
//! fills in what was left out, often from the primitive before it, and
//! refuses what makes no sense; [`Primitive::compile`] turns it into tests.

use super::diagnostic::Diagnostics;
use super::expression::{Compare, Expression, Joint};
use super::instruction::{NETWORK, TRANSPORT, Test};
use crate::prelude::*;

pub(super) const ICMP: i32 = 1;
pub(super) const TCP: i32 = 6;
pub(super) const UDP: i32 = 17;
pub(super) const DCCP: i32 = 33;
/// Pseudo-protocols: TCP or UDP, any transport protocol, any payload.
pub(super) const TCP_OR_UDP: i32 = 256;
pub(super) const TRANSP: i32 = 258;
pub(super) const PAYLOAD: i32 = 259;

/// The word that holds the protocol, and the one with the fragment offset.
const PROTOCOL_WORD: u16 = NETWORK + 8;
const FRAGMENT_WORD: u16 = NETWORK + 4;

/// What a primitive is about, and also what kind of value it was given.
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
    const TCP_WINDOW: Field = Field {
        protocol: TCP,
        offset: 14 * 8,
        bits: 16,
    };

    fn name(self) -> Option<&'static str> {
        const NAMES: [(&str, Field); 9] = [
            ("ip len", Field::ip(2 * 8, 16)),
            ("ip id", Field::ip(4 * 8, 16)),
            ("ip vers", Field::ip(0, 4)),
            ("ip hl", Field::ip(4, 4)),
            ("ip tos", Field::TOS),
            ("ip dscp", Field::ip(8, 6)),
            ("ip ttl", Field::ip(8 * 8, 8)),
            ("tcp win", Field::TCP_WINDOW),
            ("icmp type", Field::ICMP_TYPE),
        ];
        NAMES
            .iter()
            .find(|(_, f)| *f == self)
            .map(|(name, _)| *name)
    }
}

/// What a word says about the primitive's kind, when it is such a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TypeWord {
    Kind(Kind),
    /// A word of the syntax: never a value.
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

/// Which header `ip` or `ether` chose.
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

/// A primitive as it is read, then as it is meant.
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
}

/// An error has been reported.
pub(super) struct Reported;

/// Where messages of one pattern go.
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
            report.error("'src' or 'dst' specified twice");
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

    fn wrong(&self, what: &str, report: &mut Reporter<'_>) -> Reported {
        report.error(format!("'{}': {what}", self.text()))
    }

    /// Fills in what was left out, from `previous` where the language says
    /// so, and refuses what makes no sense.
    pub(super) fn check(
        &mut self,
        previous: &Primitive,
        header: Option<HeaderWord>,
        mask: Option<GivenMask>,
        report: &mut Reporter<'_>,
    ) -> Result<(), Reported> {
        let given_side = self.side;
        match self.kind {
            Kind::Wrong => return Err(Reported),
            Kind::None => self.infer_kind(previous, report)?,
            _ => {}
        }
        let header = match header {
            Some(header) => header,
            None if self.data == Kind::Ether => HeaderWord::Ether,
            None => HeaderWord::Ip,
        };
        if header == HeaderWord::Ether && self.kind == Kind::Host {
            self.kind = Kind::Ether;
        }
        self.check_value(header, mask, report)?;
        if matches!(self.kind, Kind::Host | Kind::Port | Kind::Ether) {
            self.side = self.side.or(Some(Side::Either));
        } else if given_side.is_some() {
            report.warning(format!("'{}': 'src' or 'dst' ignored", self.text()));
        }
        Ok(())
    }

    fn infer_kind(
        &mut self,
        previous: &Primitive,
        report: &mut Reporter<'_>,
    ) -> Result<(), Reported> {
        if self.data == Kind::Int {
            if !matches!(previous.kind, Kind::Field(_) | Kind::Proto | Kind::Port) {
                return Err(report.error("specify header field or 'port'"));
            }
            self.data = previous.kind;
        }
        self.kind = self.data;
        match self.data {
            Kind::Host | Kind::Net | Kind::TcpOption | Kind::Ether => {
                self.side = self.side.or(previous.side);
            }
            Kind::Port => {
                self.side = self.side.or(previous.side);
                self.protocol = self.protocol.or(previous.protocol);
            }
            Kind::Field(field) if field.protocol != 0 => {
                self.protocol = self.protocol.or(Some(field.protocol));
            }
            Kind::None if self.protocol.is_some() => self.kind = Kind::Proto,
            Kind::None => return Err(report.error("partial directive")),
            _ => {}
        }
        Ok(())
    }

    fn check_value(
        &mut self,
        header: HeaderWord,
        mask: Option<GivenMask>,
        report: &mut Reporter<'_>,
    ) -> Result<(), Reported> {
        match self.kind {
            Kind::Host | Kind::Net => return self.check_address(header, mask, report),
            Kind::Ether => return self.check_ether(header, mask, report),
            _ if header != HeaderWord::Ip => return Err(self.wrong("ip only", report)),
            _ => {}
        }
        let plain = self.data == Kind::None && mask.is_none();
        match self.kind {
            Kind::Proto => self.check_protocol(mask, report),
            Kind::Port => self.check_port(mask, report),
            Kind::TcpOption => self.check_tcp_option(mask, report),
            Kind::Ect => {
                if self.data == Kind::None {
                    self.set_number(Kind::Int, 0);
                    self.negated = true;
                } else if self.data != Kind::Int {
                    return Err(self.wrong("value missing", report));
                }
                self.set_mask(3, mask, report)?;
                self.kind = Kind::Field(Field::TOS);
                Ok(())
            }
            Kind::Ce | Kind::Frag | Kind::Unfrag if !plain => {
                Err(self.wrong("value not supported", report))
            }
            Kind::Ce => {
                self.value = bytes(3);
                self.mask = bytes(3);
                self.kind = Kind::Field(Field::TOS);
                Ok(())
            }
            Kind::Unfrag => {
                self.negated = true;
                self.kind = Kind::Frag;
                Ok(())
            }
            Kind::Field(field) => {
                if self.data != Kind::Int && self.data != self.kind {
                    return Err(self.wrong("value missing", report));
                }
                self.set_mask(u32::MAX >> (32 - field.bits), mask, report)
            }
            _ => Ok(()),
        }
    }

    fn check_address(
        &mut self,
        header: HeaderWord,
        mask: Option<GivenMask>,
        report: &mut Reporter<'_>,
    ) -> Result<(), Reported> {
        if header != HeaderWord::Ip || self.data != self.kind {
            return Err(self.wrong("address missing", report));
        }
        if self.relation != Relation::Equal {
            return Err(self.wrong("operator not supported", report));
        }
        if self.kind == Kind::Host {
            self.mask = bytes(u32::MAX);
        }
        self.kind = Kind::Host;
        match mask {
            Some(mask) if matches!(mask.kind, Kind::Int | Kind::Host) => self.mask = mask.bytes,
            Some(_) => return Err(self.wrong("bad mask", report)),
            None => {}
        }
        Ok(())
    }

    fn check_ether(
        &mut self,
        header: HeaderWord,
        mask: Option<GivenMask>,
        report: &mut Reporter<'_>,
    ) -> Result<(), Reported> {
        if header != HeaderWord::Ether || self.data != Kind::Ether {
            return Err(self.wrong("address missing", report));
        }
        if self.relation != Relation::Equal {
            return Err(self.wrong("operator not supported", report));
        }
        match mask {
            Some(mask) if mask.kind == Kind::Ether => self.mask = mask.bytes,
            Some(_) => return Err(self.wrong("bad mask", report)),
            None => self.mask = [0xff; 6],
        }
        Ok(())
    }

    fn check_protocol(
        &mut self,
        mask: Option<GivenMask>,
        report: &mut Reporter<'_>,
    ) -> Result<(), Reported> {
        let number = self.number() as i32;
        let protocol = match self.data {
            Kind::Int | Kind::Proto => {
                if self.protocol.is_some_and(|protocol| protocol != number) {
                    return Err(self.wrong("specified twice", report));
                }
                Some(number)
            }
            Kind::None => self.protocol,
            _ => None,
        };
        self.protocol = None;
        let Some(protocol) = protocol else {
            return Err(self.wrong("value missing", report));
        };
        self.set_number(Kind::None, protocol as u32);
        if protocol >= 256 {
            let text = protocol_text(Some(protocol));
            if self.relation != Relation::Equal || mask.is_some() {
                return Err(report.error(format!("'{text}': operator or mask not supported")));
            }
            if !matches!(protocol, TCP_OR_UDP | TRANSP | PAYLOAD) {
                return Err(report.error(format!("'{text}': out of range, bound 255")));
            }
            self.mask = bytes(0xff);
        } else {
            self.set_mask(0xff, mask, report)?;
        }
        if self.relation == Relation::Equal && word(&self.mask) == 0xff && !self.negated {
            self.protocol = Some(protocol);
        }
        Ok(())
    }

    fn check_port(
        &mut self,
        mask: Option<GivenMask>,
        report: &mut Reporter<'_>,
    ) -> Result<(), Reported> {
        if !matches!(self.data, Kind::Int | Kind::Port) {
            return Err(self.wrong("value missing", report));
        }
        self.data = Kind::Port;
        match self.protocol {
            None => self.protocol = Some(TCP_OR_UDP),
            Some(TCP | UDP | TCP_OR_UDP | DCCP) => {}
            Some(other) => return Err(report.error(format!("'port': bad protocol {other}"))),
        }
        self.set_mask(0xffff, mask, report)
    }

    fn check_tcp_option(
        &mut self,
        mask: Option<GivenMask>,
        report: &mut Reporter<'_>,
    ) -> Result<(), Reported> {
        if !matches!(self.data, Kind::Int | Kind::TcpOption) {
            return Err(self.wrong("value missing", report));
        }
        self.data = Kind::TcpOption;
        match self.protocol {
            None => self.protocol = Some(TCP),
            Some(TCP) => {}
            Some(other) => return Err(report.error(format!("'tcp opt': bad protocol {other}"))),
        }
        if self.relation != Relation::Equal || self.negated || mask.is_some() {
            return Err(self.wrong("operator or mask not supported", report));
        }
        let flags = self.number() as i32;
        if !(0..=255).contains(&flags) {
            return Err(report.error(format!("'tcp opt': value {flags} out of range")));
        }
        self.mask = self.value;
        Ok(())
    }

    /// Settles value and mask of an integer primitive whose field has the
    /// bits `full`. What is left of relations is "equal" and "greater".
    fn set_mask(
        &mut self,
        full: u32,
        given: Option<GivenMask>,
        report: &mut Reporter<'_>,
    ) -> Result<(), Reported> {
        if given.is_some_and(|mask| mask.kind != Kind::Int) {
            return Err(self.wrong("bad mask", report));
        }
        let value = self.number();
        let mask = given.map_or(full, |mask| mask.word());
        if mask & full != mask {
            let text = format!("mask out of range, bound 0x{full:X}");
            return Err(self.wrong(&text, report));
        }
        if self.relation == Relation::Equal {
            if value > full {
                return Err(self.wrong(&format!("out of range, bound {full}"), report));
            }
            self.mask = bytes(mask);
            return Ok(());
        }
        let less = self.relation == Relation::Less;
        let trivial = if less {
            value == 0 || value > mask
        } else {
            value >= mask
        };
        if trivial {
            let outcome = (less && value > mask) != self.negated;
            let relation = self.relation_text();
            report.warning(format!(
                "relation '{relation} {value}' is always {outcome} (range 0-{mask})"
            ));
            self.value = bytes(0);
            self.mask = bytes(0);
            self.negated = !outcome;
            self.relation = Relation::Equal;
            return Ok(());
        }
        let mut above = value;
        if less {
            // x < v is not (x > v - 1).
            above -= 1;
            self.negated = !self.negated;
            self.relation = Relation::Greater;
        }
        if above & mask != above {
            // Make the bound one that the mask can produce: turn on all bits
            // below the highest one that the mask takes away.
            let missing = above & full & !mask;
            let below = u32::MAX.checked_shr(missing.leading_zeros() + 1);
            above = (above | below.unwrap_or(0)) & mask;
        }
        self.value = bytes(above);
        self.mask = bytes(mask);
        Ok(())
    }

    /// Turns a checked primitive into tests.
    pub(super) fn compile(&self, out: &mut Expression) {
        let mark = out.open();
        if let Some(protocol) = self.protocol {
            push_protocol(protocol, out);
        }
        let transport_field = matches!(self.kind, Kind::Field(field) if field.protocol != 0);
        if matches!(self.kind, Kind::Port | Kind::TcpOption) || transport_field {
            // Only a first fragment has a transport header.
            out.push_test(Test::new(FRAGMENT_WORD, 0, 0x1fff));
        }
        match self.kind {
            Kind::Host => self.push_sides(out, |this, source, out| {
                let offset = NETWORK + if source { 12 } else { 16 };
                let value = word(&this.value).swap_bytes();
                out.push_test(Test::new(offset, value, word(&this.mask).swap_bytes()));
            }),
            Kind::Ether => self.push_sides(out, Primitive::push_ether),
            Kind::Port => self.push_sides(out, |this, source, out| {
                this.push_comparison(out, TRANSPORT, if source { 16 } else { 0 }, false);
            }),
            Kind::Proto if self.protocol.is_none_or(|protocol| protocol < 256) => {
                let pseudo = word(&self.value) as i32 >= 256;
                if !pseudo {
                    self.push_comparison(out, PROTOCOL_WORD, 16, true);
                } else {
                    self.push_negated_pseudo(out);
                }
            }
            Kind::Frag => {
                let mark = out.open();
                out.push_test(Test::new(FRAGMENT_WORD, 0, 0x3fff));
                if !self.negated {
                    out.negate_present(mark);
                }
            }
            Kind::TcpOption => {
                let flags = self.number() << 16;
                out.push_test(Test::new(TRANSPORT + 12, flags, flags));
            }
            Kind::Field(field) => {
                let base = if field.protocol != 0 {
                    TRANSPORT
                } else {
                    NETWORK
                };
                let offset = base + ((field.offset >> 3) & !3) as u16;
                let shift = 32 - (field.offset % 32 + field.bits);
                self.push_comparison(out, offset, shift, true);
            }
            _ => {}
        }
        out.close_all(mark);
    }

    /// `proto != tcpudp`: the test that the pseudo-protocol stands for, turned
    /// round.
    fn push_negated_pseudo(&self, out: &mut Expression) {
        let mark = out.open();
        push_protocol(self.number() as i32, out);
        if self.number() as i32 != TCP_OR_UDP {
            out.push_test(Test::ALWAYS);
        }
        out.negate_present(mark);
    }

    /// One test for the source, one for the destination, as the side says.
    fn push_sides(&self, out: &mut Expression, push: impl Fn(&Primitive, bool, &mut Expression)) {
        let mark = out.open();
        if self.side != Some(Side::Destination) {
            push(self, true, out);
        }
        if self.side != Some(Side::Source) {
            push(self, false, out);
        }
        let either = self.side == Some(Side::Either);
        out.close(mark, if either { Joint::Or } else { Joint::And });
        if self.negated {
            out.negate_present(mark);
        }
    }

    fn push_ether(&self, source: bool, out: &mut Expression) {
        let mark = out.open();
        let ([a, b, c, d, e, f], [m, n, o, p, q, r]) = (self.value, self.mask);
        let words = if source {
            [
                (8, [a, b, c, d], [m, n, o, p]),
                (12, [e, f, 0, 0], [q, r, 0, 0]),
            ]
        } else {
            [
                (0, [0, 0, a, b], [0, 0, m, n]),
                (4, [c, d, e, f], [o, p, q, r]),
            ]
        };
        for (offset, value, mask) in words {
            let (value, mask) = (u32::from_be_bytes(value), u32::from_be_bytes(mask));
            out.push_test(Test::new(offset, value, mask));
        }
        out.close(mark, Joint::And);
    }

    /// The value compared with the word at `offset`, shifted; negation is
    /// left to the caller unless `negate`.
    fn push_comparison(&self, out: &mut Expression, offset: u16, shift: u32, negate: bool) {
        let mark = out.open();
        let (value, mask) = (self.number(), word(&self.mask));
        if self.relation == Relation::Equal {
            let (value, mask) = (value & mask, mask);
            out.push_test(Test::new(offset, value << shift, mask << shift));
        } else {
            out.push_compare(Compare {
                offset,
                shift,
                mask,
                above: value & mask,
                short_yes: false,
            });
        }
        if self.negated && negate {
            out.negate_present(mark);
        }
    }
}

fn push_protocol(protocol: i32, out: &mut Expression) {
    let test = |number: i32| Test::new(PROTOCOL_WORD, (number as u32) << 16, 0xff_0000);
    match protocol {
        TCP_OR_UDP => {
            let mark = out.open();
            out.push_test(test(TCP));
            out.push_test(test(UDP));
            out.close(mark, Joint::Or);
        }
        0..=255 => out.push_test(test(protocol)),
        _ => {}
    }
}
