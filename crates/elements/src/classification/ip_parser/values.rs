//! Values, masks and names.

use super::super::ip_primitive::{
    Field, GivenMask, HeaderWord, ICMP, ICMP6, Kind, Primitive, Relation, TCP, TCP_OR_UDP,
    TypeWord, UDP, kind_text, protocol_text, type_word,
};
use super::super::ip_words::{
    ether_address, int32, integer, ip_address, ip_prefix, ip6_address, ip6_prefix, uint32,
};
use super::super::names::NumberName;
use super::{Lookup, Parser};
use crate::prelude::*;

/// The furthest byte of the IP header and of the transport header that
/// `ip[…]` and `transp[…]` may name.
const MAX_IP_FIELD: i64 = 255;
const MAX_TRANSPORT_FIELD: i64 = 8191;

impl<'r> Parser<'_, 'r> {
    /// `[POS]`, `[POS:LEN]` or `[FIRST,LAST]`; returns the position behind.
    pub(super) fn brackets(&mut self, open: usize, primitive: &mut Primitive) -> usize {
        let inside = &self.words[open + 1..];
        let Some(length) = inside.iter().position(|word| *word == "]") else {
            self.report.error("missing ‘]’");
            return open + 1;
        };
        let text: String = inside[..length].concat();
        let at = open + length + 2;
        let Some((position, length)) = field_span(&text) else {
            let wanted = "expected ‘[POS]’ or ‘[POS:LEN]’";
            self.report
                .error(format!("syntax error after ‘[’, {wanted}"));
            return at;
        };
        let protocol = primitive.protocol.unwrap_or(0);
        let bound = if protocol == 0 {
            MAX_IP_FIELD
        } else {
            MAX_TRANSPORT_FIELD
        };
        if !(1..=4).contains(&length) {
            let text = "LEN in ‘[POS:LEN]’ out of range, should be between 1 and 4";
            self.report.error(text);
        } else if position.div_euclid(4) != (position + length - 1).div_euclid(4) {
            let text = format!("field [{position}:{length}] does not fit in a single word");
            self.report.error(text);
        } else if !(0..=bound).contains(&position) {
            let text = format!("field [{position}:{length}] out of range, bound {bound}");
            self.report.error(text);
        } else {
            let field = Field {
                protocol,
                offset: position as u32 * 8,
                bits: length as u32 * 8,
            };
            primitive.set_kind(Kind::Field(field), &mut self.report);
        }
        at
    }

    pub(super) fn mask(&self, word: &str, header: Option<HeaderWord>) -> Option<GivenMask> {
        if let Some(mask) = uint32(word) {
            let [a, b, c, d] = mask.to_le_bytes();
            return Some(GivenMask {
                kind: Kind::Int,
                bytes: [a, b, c, d, 0, 0],
            });
        }
        if header != Some(HeaderWord::Ether)
            && let Some([a, b, c, d]) = ip_address(word, self.names.names)
        {
            return Some(GivenMask {
                kind: Kind::Host,
                bytes: [a, b, c, d, 0, 0],
            });
        }
        if header != Some(HeaderWord::Ip) {
            let bytes = ether_address(word, self.names.names)?;
            return Some(GivenMask {
                kind: Kind::Ether,
                bytes,
            });
        }
        None
    }

    /// Reads the value at `at`; false when there is none.
    pub(super) fn value(
        &mut self,
        at: usize,
        primitive: &mut Primitive,
        header: Option<HeaderWord>,
    ) -> bool {
        let word = self.word(at);
        match self.lookup(word, primitive.kind, primitive.protocol, true) {
            Lookup::Wrong => {
                primitive.kind = Kind::Wrong;
                return true;
            }
            Lookup::Value(kind, number) => {
                primitive.set_number(kind, number);
                return true;
            }
            Lookup::Type(_) | Lookup::Unknown => {}
        }
        if let Some(number) = int32(word) {
            primitive.set_number(Kind::Int, number as u32);
            return true;
        }
        if self.names.both && header != Some(HeaderWord::Ether) {
            let host = ip6_address(word, self.names.names).map(|address| [address, u128::MAX]);
            if let Some(ip6) = host {
                (primitive.ip6, primitive.data) = (Some(ip6), Kind::Host);
            }
            if (host.is_none() || primitive.kind == Kind::Net)
                && let Some(ip6) = ip6_prefix(word, self.names.names)
            {
                (primitive.ip6, primitive.data) = (Some(ip6), Kind::Net);
            }
            if primitive.ip6.is_some() {
                return true;
            }
        }
        let pad = |[a, b, c, d]: [u8; 4]| [a, b, c, d, 0, 0];
        if header != Some(HeaderWord::Ether) {
            let host = ip_address(word, self.names.names);
            if let Some(address) = host {
                primitive.value = pad(address);
                primitive.data = Kind::Host;
            }
            if (host.is_none() || primitive.kind == Kind::Net)
                && let Some((address, mask)) = ip_prefix(word, self.names.names)
            {
                (primitive.value, primitive.mask) = (pad(address), pad(mask));
                primitive.data = Kind::Net;
                return true;
            }
            if host.is_some() {
                return true;
            }
        }
        if header != Some(HeaderWord::Ip)
            && let Some(address) = ether_address(word, self.names.names)
        {
            primitive.value = address;
            primitive.data = Kind::Ether;
            return true;
        }
        if primitive.relation != Relation::Equal || primitive.negated {
            self.report
                .error(format!("dangling operator near ‘{word}’"));
        }
        false
    }

    /// `mask MASK` behind an IP address; returns how many words it took.
    pub(super) fn trailing_mask(&mut self, at: usize, primitive: &mut Primitive) -> usize {
        let address = matches!(primitive.data, Kind::Host | Kind::Net);
        if !address || self.word(at) != "mask" {
            return 0;
        }
        let before = self.word(at - 1);
        let Some(address) = ip_address(before, self.names.names) else {
            return 0;
        };
        let Some(mask) = ip_address(self.word(at + 1), self.names.names) else {
            return 0;
        };
        primitive.value[..4].copy_from_slice(&address);
        primitive.mask[..4].copy_from_slice(&mask);
        primitive.data = Kind::Net;
        2
    }

    /// Looks a word up among kinds and named values. A value must suit
    /// `kind` and `protocol`, where these are known.
    pub(super) fn lookup(
        &mut self,
        word: &'r str,
        kind: Kind,
        protocol: Option<i32>,
        report: bool,
    ) -> Lookup {
        if kind == Kind::None {
            match type_word(word) {
                Some(TypeWord::Syntax) => return Lookup::Unknown,
                Some(TypeWord::Kind(kind)) => return Lookup::Type(kind),
                None => {}
            }
        }
        if int32(word).is_some() {
            return Lookup::Unknown;
        }
        let found = self.names.numbers(word);
        if found.iter().all(Option::is_none) {
            return Lookup::Unknown;
        }
        let mut suits = [false; KINDS.len()];
        for (i, (its_kind, protocols)) in KINDS.iter().enumerate() {
            let protocol_suits = protocols.is_empty()
                || protocol.is_none_or(|protocol| protocols.contains(&protocol));
            suits[i] =
                found[i].is_some() && (kind == Kind::None || kind == *its_kind) && protocol_suits;
        }
        // Of a name that both versions of ICMP have, the one that the word before was about; else IPv4's.
        if suits[4] && suits[5] {
            let other = match self.previous.kind == Kind::Field(Field::ICMP6_TYPE) {
                true => 4,
                false => 5,
            };
            suits[other] = false;
        }
        if suits[1] && suits[2] && found[1] == found[2] {
            suits[2] = false;
        }
        let count = suits.iter().filter(|suits| **suits).count();
        if count == 1 {
            let i = suits.iter().position(|suits| *suits).unwrap_or(0);
            return Lookup::Value(KINDS[i].0, found[i].unwrap_or(0));
        }
        if report {
            let choices: Vec<String> = (0..KINDS.len())
                .filter(|&i| found[i].is_some())
                .map(|i| format!("‘{}’", described(KINDS[i].0, protocol, word)))
                .collect();
            let problem = if count > 1 {
                "ambiguous"
            } else {
                "meaningless"
            };
            let shown = described(kind, protocol, word);
            let choices = choices.join(", ");
            self.report
                .error(format!("‘{shown}’ is {problem}; try {choices}"));
        }
        Lookup::Wrong
    }
}

/// The kinds of values that have names, and the protocols of each, as in [`NumberName::ALL`].
const KINDS: [(Kind, &[i32]); NumberName::ALL.len()] = [
    (Kind::Proto, &[]),
    (Kind::Port, &[TCP, TCP_OR_UDP]),
    (Kind::Port, &[UDP, TCP_OR_UDP]),
    (Kind::TcpOption, &[TCP, TCP_OR_UDP]),
    (Kind::Field(Field::ICMP_TYPE), &[ICMP]),
    (Kind::Field(Field::ICMP6_TYPE), &[ICMP6]),
];

fn described(kind: Kind, protocol: Option<i32>, word: &str) -> String {
    format!("{} {} {word}", kind_text(kind), protocol_text(protocol))
}

/// Position and length in bytes of the field in brackets.
fn field_span(text: &str) -> Option<(i64, i64)> {
    // Bounded, so that sums cannot overflow.
    let number = |text: &str| integer(text).map(|n| n.clamp(-(1 << 32), 1 << 32));
    if let Some((position, length)) = text.split_once(':').filter(|parts| !parts.1.is_empty()) {
        return Some((number(position)?, number(length)?));
    }
    if let Some((first, last)) = text.split_once(',').filter(|parts| !parts.1.is_empty()) {
        let first = number(first)?;
        return Some((first, number(last)? - first + 1));
    }
    Some((number(text)?, 1))
}
