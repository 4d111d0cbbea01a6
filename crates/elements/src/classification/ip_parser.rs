//! The grammar of IP patterns.
//!
//! ```text
//! expr   ::= orexpr | orexpr ? expr : expr
//! orexpr ::= term | orexpr or term          (or ||)
//! term   ::= factor | term and factor       (or &&, or nothing in between)
//! factor ::= not factor | ( expr ) | test   (or !)
//! test   ::= true | false | qualifiers [relation] value
//! ```
//!
//! The parser keeps its own stack and stops at [`MAX_DEPTH`], so that no
//! pattern can exhaust the program's. After an error it goes on, to report
//! what else is wrong in the same pattern.

use super::expression::{Expression, Joint, Mark};
use super::instruction::Test;
use super::ip_primitive::{
    Field, GivenMask, HeaderWord, Kind, Primitive, Relation, Reporter, Side, TCP, TCP_OR_UDP,
    TypeWord, UDP, kind_text, protocol_text, type_word,
};
use super::ip_words::{ether_address, int32, integer, ip_address, ip_prefix, uint32};
use super::names::{Names, NumberName};
use crate::prelude::*;

/// How deep parentheses and negations may nest.
const MAX_DEPTH: usize = 512;

/// The furthest byte of the IP header and of the transport header that
/// `ip[…]` and `transp[…]` may name.
const MAX_IP_FIELD: i64 = 255;
const MAX_TRANSPORT_FIELD: i64 = 8191;

pub(super) struct Parser<'a> {
    pub words: &'a [&'a str],
    pub names: &'a dyn Names,
    pub report: Reporter<'a>,
    pub out: &'a mut Expression,
    previous: Primitive,
}

/// What the parser is in the middle of.
struct Frame {
    state: State,
    mark: Mark,
    /// Where the part being parsed began.
    part: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the start of an expression; behind its condition or last branch;
    /// behind a middle branch.
    Expr,
    ExprTail,
    ExprMiddle,
    Or,
    OrTail,
    Term,
    /// Behind a factor that an `and` demanded; behind any other.
    TermDemanded,
    TermTail,
    /// At a factor to be negated or not; behind its operand; behind its
    /// parenthesis.
    Factor(bool),
    FactorNot,
    FactorParen(bool),
}

/// What a word means where a value is expected.
enum Lookup {
    Unknown,
    /// An error was reported.
    Wrong,
    Type(Kind),
    Value(Kind, u32),
}

impl<'a> Parser<'a> {
    pub(super) fn new(
        words: &'a [&'a str],
        names: &'a dyn Names,
        report: Reporter<'a>,
        out: &'a mut Expression,
    ) -> Parser<'a> {
        Parser {
            words,
            names,
            report,
            out,
            previous: Primitive::default(),
        }
    }

    fn word(&self, at: usize) -> &'a str {
        self.words.get(at).copied().unwrap_or("")
    }

    fn is(&self, at: usize, spellings: [&str; 2]) -> bool {
        at < self.words.len() && spellings.contains(&self.word(at))
    }

    /// Parses an expression; returns the position behind it.
    pub(super) fn expression(&mut self, mut at: usize) -> usize {
        let mut stack = Vec::new();
        let mut next = Some(State::Expr);
        let mut depth = 0;
        loop {
            if let Some(state) = next {
                depth += usize::from(matches!(state, State::Factor(_)));
                if depth > MAX_DEPTH {
                    let text = format!("expression nests more than {MAX_DEPTH} levels deep");
                    self.report.error(text);
                    return self.words.len();
                }
                let mark = self.out.open();
                stack.push(Frame {
                    state,
                    mark,
                    part: at,
                });
            } else if let Some(done) = stack.pop() {
                let factor = matches!(
                    done.state,
                    State::Factor(_) | State::FactorNot | State::FactorParen(_)
                );
                depth -= usize::from(factor);
            }
            let Some(frame) = stack.last_mut() else {
                return at;
            };
            next = self.step(frame, &mut at);
            frame.part = if next.is_some() { at } else { frame.part };
        }
    }

    /// Goes on with one frame: returns what to parse next inside it, or
    /// nothing when it is finished.
    fn step(&mut self, frame: &mut Frame, at: &mut usize) -> Option<State> {
        let stuck = *at == frame.part;
        match frame.state {
            State::Expr => {
                frame.state = State::ExprTail;
                Some(State::Or)
            }
            State::ExprTail => {
                if self.is(*at, ["?", "?"]) {
                    *at += 1;
                    frame.state = State::ExprMiddle;
                    return Some(State::Expr);
                }
                self.out.close(frame.mark, Joint::Ternary);
                None
            }
            State::ExprMiddle => {
                if stuck || !self.is(*at, [":", ":"]) {
                    self.report.error("missing ':' in ternary expression");
                    self.out.close(frame.mark, Joint::Ternary);
                    return None;
                }
                *at += 1;
                frame.state = State::ExprTail;
                Some(State::Or)
            }
            State::Or => {
                frame.state = State::OrTail;
                Some(State::Term)
            }
            State::OrTail => {
                if self.is(*at, ["or", "||"]) {
                    *at += 1;
                    return Some(State::Term);
                }
                self.out.close(frame.mark, Joint::Or);
                None
            }
            State::Term => {
                frame.state = State::TermDemanded;
                Some(State::Factor(false))
            }
            State::TermDemanded | State::TermTail => self.term_tail(frame, at, stuck),
            State::Factor(negated) => self.factor(frame, at, negated),
            State::FactorNot => {
                if stuck {
                    let word = self.word(*at - 1);
                    self.report
                        .error(format!("missing expression after '{word}'"));
                }
                None
            }
            State::FactorParen(negated) => {
                if stuck {
                    self.report.error("missing expression after '('");
                }
                if self.is(*at, [")", ")"]) {
                    *at += 1;
                } else if !stuck {
                    self.report.error("missing ')'");
                }
                if negated {
                    self.out.negate(frame.mark);
                }
                None
            }
        }
    }

    fn term_tail(&mut self, frame: &mut Frame, at: &mut usize, stuck: bool) -> Option<State> {
        if stuck {
            if frame.state == State::TermDemanded {
                self.report.error("missing expression");
            }
            self.out.close(frame.mark, Joint::And);
            return None;
        }
        if self.is(*at, ["and", "&&"]) {
            *at += 1;
            frame.state = State::TermDemanded;
        } else {
            frame.state = State::TermTail;
        }
        Some(State::Factor(false))
    }

    fn factor(&mut self, frame: &mut Frame, at: &mut usize, negated: bool) -> Option<State> {
        if self.is(*at, ["not", "!"]) {
            *at += 1;
            frame.state = State::FactorNot;
            return Some(State::Factor(!negated));
        }
        if self.is(*at, ["(", "("]) {
            *at += 1;
            frame.state = State::FactorParen(negated);
            return Some(State::Expr);
        }
        *at = self.test(*at, negated);
        None
    }

    /// Parses one test; returns the position behind it.
    fn test(&mut self, first: usize, mut negated: bool) -> usize {
        let mark = self.out.open();
        match self.word(first) {
            "" | ")" | "||" | "or" | "?" | ":" => return first,
            constant @ ("true" | "false") => {
                self.out.push_test(Test::ALWAYS);
                if negated != (constant == "false") {
                    self.out.negate(mark);
                }
                return first + 1;
            }
            _ => {}
        }
        let mut primitive = Primitive::default();
        let mut header = None;
        let mut at = self.qualifiers(first, &mut primitive, &mut header, &mut negated);
        if at != first {
            self.previous = Primitive::default();
        }
        if self.previous.data == Kind::Ether {
            header = Some(HeaderWord::Ether);
        }
        // An operator cannot be the last word.
        let last = self.words.len().saturating_sub(1);
        let operator = |this: &Self, at: usize| if at < last { this.word(at) } else { "" };

        if operator(self, at) == "[" && at > first && primitive.kind == Kind::None {
            at = self.brackets(at, &mut primitive);
        }
        let mut mask = None;
        if operator(self, at) == "&" {
            mask = self.mask(self.word(at + 1), header);
            at += if mask.is_some() { 2 } else { 0 };
            if mask.is_some_and(|m| m.kind != Kind::Ether && m.bytes[..4] == [0; 4]) {
                self.report.error("zero mask ignored");
                mask = None;
            }
        }
        if let Some((relation, turned)) = relation(operator(self, at)) {
            primitive.relation = relation;
            primitive.negated = turned;
            at += 1;
        }
        if at < self.words.len() && self.value(at, &mut primitive, header) {
            at += 1;
            at += self.trailing_mask(at, &mut primitive);
        }
        if at == first {
            let word = self.word(at);
            self.report.error(format!("empty term near '{word}'"));
            return at;
        }
        let checked = primitive.check(&self.previous, header, mask, &mut self.report);
        if checked.is_ok() {
            primitive.compile(self.out);
            if negated {
                self.out.negate(mark);
            }
            self.previous = primitive;
        }
        at
    }

    /// Collects the words in front of a value; returns the position behind.
    fn qualifiers(
        &mut self,
        mut at: usize,
        primitive: &mut Primitive,
        header: &mut Option<HeaderWord>,
        negated: &mut bool,
    ) -> usize {
        while at < self.words.len() {
            let word = self.word(at);
            match self.lookup(word, Kind::None, None, false) {
                Lookup::Type(kind) => {
                    primitive.set_kind(kind, &mut self.report);
                    if let Kind::Field(field) = kind
                        && field.protocol != 0
                    {
                        primitive.set_protocol(field.protocol, &mut self.report);
                    }
                }
                Lookup::Value(Kind::Proto, number) => {
                    primitive.set_protocol(number as i32, &mut self.report);
                }
                Lookup::Value(..) | Lookup::Wrong => break,
                Lookup::Unknown => match word {
                    "src" => {
                        let (side, length) = self.source_side(at);
                        primitive.set_side(side, &mut self.report);
                        at += length - 1;
                    }
                    "dst" | "dest" => {
                        primitive.set_side(Side::Destination, &mut self.report);
                    }
                    "ip" if header.is_none() => *header = Some(HeaderWord::Ip),
                    "ether" if header.is_none() => *header = Some(HeaderWord::Ether),
                    "not" | "!" => *negated = !*negated,
                    _ => break,
                },
            }
            at += 1;
        }
        at
    }

    /// `src`, `src and dst` or `src or dst`, and how many words it took.
    fn source_side(&self, at: usize) -> (Side, usize) {
        if self.is(at + 2, ["dst", "dest"]) {
            if self.is(at + 1, ["and", "&&"]) {
                return (Side::Both, 3);
            }
            if self.is(at + 1, ["or", "||"]) {
                return (Side::Either, 3);
            }
        }
        (Side::Source, 1)
    }

    /// `[POS]`, `[POS:LEN]` or `[FIRST,LAST]`; returns the position behind.
    fn brackets(&mut self, open: usize, primitive: &mut Primitive) -> usize {
        let inside = &self.words[open + 1..];
        let Some(length) = inside.iter().position(|word| *word == "]") else {
            self.report.error("missing ']'");
            return open + 1;
        };
        let text: String = inside[..length].concat();
        let at = open + length + 2;
        let Some((position, length)) = field_span(&text) else {
            let wanted = "expected '[POS]' or '[POS:LEN]'";
            self.report
                .error(format!("syntax error after '[', {wanted}"));
            return at;
        };
        let protocol = primitive.protocol.unwrap_or(0);
        let bound = if protocol == 0 {
            MAX_IP_FIELD
        } else {
            MAX_TRANSPORT_FIELD
        };
        if !(1..=4).contains(&length) {
            let text = "LEN in '[POS:LEN]' out of range, should be between 1 and 4";
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

    fn mask(&self, word: &str, header: Option<HeaderWord>) -> Option<GivenMask> {
        if let Some(mask) = uint32(word) {
            let [a, b, c, d] = mask.to_le_bytes();
            return Some(GivenMask {
                kind: Kind::Int,
                bytes: [a, b, c, d, 0, 0],
            });
        }
        if header != Some(HeaderWord::Ether)
            && let Some([a, b, c, d]) = ip_address(word, self.names)
        {
            return Some(GivenMask {
                kind: Kind::Host,
                bytes: [a, b, c, d, 0, 0],
            });
        }
        if header != Some(HeaderWord::Ip) {
            let bytes = ether_address(word, self.names)?;
            return Some(GivenMask {
                kind: Kind::Ether,
                bytes,
            });
        }
        None
    }

    /// Reads the value at `at`; false when there is none.
    fn value(&mut self, at: usize, primitive: &mut Primitive, header: Option<HeaderWord>) -> bool {
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
        let pad = |[a, b, c, d]: [u8; 4]| [a, b, c, d, 0, 0];
        if header != Some(HeaderWord::Ether) {
            let prefix = ip_prefix(word, self.names);
            if let Some(address) = ip_address(word, self.names) {
                primitive.value = pad(address);
                primitive.data = Kind::Host;
                if let (Kind::Net, Some((address, mask))) = (primitive.kind, prefix) {
                    (primitive.value, primitive.mask) = (pad(address), pad(mask));
                    primitive.data = Kind::Net;
                }
                return true;
            }
            if let Some((address, mask)) = prefix {
                (primitive.value, primitive.mask) = (pad(address), pad(mask));
                primitive.data = Kind::Net;
                return true;
            }
        }
        if header != Some(HeaderWord::Ip)
            && let Some(address) = ether_address(word, self.names)
        {
            primitive.value = address;
            primitive.data = Kind::Ether;
            return true;
        }
        if primitive.relation != Relation::Equal || primitive.negated {
            self.report
                .error(format!("dangling operator near '{word}'"));
        }
        false
    }

    /// `mask MASK` behind an IP address; returns how many words it took.
    fn trailing_mask(&mut self, at: usize, primitive: &mut Primitive) -> usize {
        let address = matches!(primitive.data, Kind::Host | Kind::Net);
        if !address || self.word(at) != "mask" {
            return 0;
        }
        let before = self.word(at - 1);
        let Some(address) = ip_address(before, self.names) else {
            return 0;
        };
        let Some(mask) = ip_address(self.word(at + 1), self.names) else {
            return 0;
        };
        primitive.value[..4].copy_from_slice(&address);
        primitive.mask[..4].copy_from_slice(&mask);
        primitive.data = Kind::Net;
        2
    }

    /// Looks a word up among kinds and named values. A value must suit
    /// `kind` and `protocol`, where these are known.
    fn lookup(&mut self, word: &str, kind: Kind, protocol: Option<i32>, report: bool) -> Lookup {
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
        const KINDS: [(NumberName, Kind, &[i32]); 5] = [
            (NumberName::IpProtocol, Kind::Proto, &[]),
            (NumberName::TcpPort, Kind::Port, &[TCP, TCP_OR_UDP]),
            (NumberName::UdpPort, Kind::Port, &[UDP, TCP_OR_UDP]),
            (NumberName::TcpOption, Kind::TcpOption, &[TCP, TCP_OR_UDP]),
            (
                NumberName::IcmpType,
                Kind::Field(Field::ICMP_TYPE),
                &[super::ip_primitive::ICMP],
            ),
        ];
        let found = KINDS.map(|(name, ..)| self.names.number(name, word));
        if found.iter().all(Option::is_none) {
            return Lookup::Unknown;
        }
        let mut suits = [false; 5];
        for (i, (_, its_kind, protocols)) in KINDS.iter().enumerate() {
            let protocol_suits = protocols.is_empty()
                || protocol.is_none_or(|protocol| protocols.contains(&protocol));
            suits[i] =
                found[i].is_some() && (kind == Kind::None || kind == *its_kind) && protocol_suits;
        }
        if suits[1] && suits[2] && found[1] == found[2] {
            suits[2] = false;
        }
        let count = suits.iter().filter(|suits| **suits).count();
        if count == 1 {
            let i = suits.iter().position(|suits| *suits).unwrap_or(0);
            return Lookup::Value(KINDS[i].1, found[i].unwrap_or(0));
        }
        if report {
            let choices: Vec<String> = (0..5)
                .filter(|&i| found[i].is_some())
                .map(|i| format!("'{}'", described(KINDS[i].1, protocol, word)))
                .collect();
            let problem = if count > 1 {
                "ambiguous"
            } else {
                "meaningless"
            };
            let shown = described(kind, protocol, word);
            let choices = choices.join(", ");
            self.report
                .error(format!("'{shown}' is {problem}; try {choices}"));
        }
        Lookup::Wrong
    }
}

fn described(kind: Kind, protocol: Option<i32>, word: &str) -> String {
    format!("{} {} {word}", kind_text(kind), protocol_text(protocol))
}

/// A relation and whether it is turned round.
fn relation(word: &str) -> Option<(Relation, bool)> {
    Some(match word {
        "=" | "==" => (Relation::Equal, false),
        "!=" => (Relation::Equal, true),
        ">" => (Relation::Greater, false),
        "<" => (Relation::Less, false),
        ">=" => (Relation::Less, true),
        "<=" => (Relation::Greater, true),
        _ => return None,
    })
}

/// Position and length in bytes of what stands in brackets.
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
