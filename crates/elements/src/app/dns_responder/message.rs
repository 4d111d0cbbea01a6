//! Messages (RFC 1035, section 4.1): a query is read, and its answer written.

use super::name;
use super::table::{CHAIN_MAX, Found, Set, Table, Zone, small};
use super::zone_file::Type;

/// Bytes of a message's header.
const HEADER: usize = 12;
/// Most bytes of an answer to a client that does not say (RFC 1035, section 2.3.4).
const PLAIN_MAX: usize = 512;
/// Most bytes of an answer: no fragments (RFC 9715).
pub const ANSWER_MAX: usize = 1232;
/// Bytes of an OPT record without options (RFC 6891, section 6.1).
const OPT: usize = 11;
/// The class of the Internet, and that which stands for all.
const CLASSES: [u16; 2] = [1, 255];

/// Bits of the second word (RFC 1035, section 4.1.1).
const RESPONSE: u16 = 1 << 15;
const OPCODE: u16 = 15 << 11;
const AUTHORITATIVE: u16 = 1 << 10;
const TRUNCATED: u16 = 1 << 9;
const RECURSION_DESIRED: u16 = 1 << 8;

/// What an answer says of the query (RFC 1035, section 4.1.1; RFC 6891, section 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Here are the records.
    Found,
    /// The name has no records of this type.
    NoData,
    /// The query is malformed.
    Malformed,
    /// There is no such name.
    NoName,
    /// This kind of query is not served.
    Unsupported,
    /// The name is in no zone here.
    Refused,
    /// The version of EDNS is unknown.
    BadVersion,
}

impl Outcome {
    /// The response code; the upper bits are OPT's.
    fn code(self) -> u16 {
        match self {
            Outcome::Found | Outcome::NoData => 0,
            Outcome::Malformed => 1,
            Outcome::NoName => 3,
            Outcome::Unsupported => 4,
            Outcome::Refused => 5,
            Outcome::BadVersion => 16,
        }
    }
}

/// EDNS0 (RFC 6891).
#[derive(Clone, Copy, Debug)]
struct Edns {
    /// Most bytes that the client takes.
    size: u16,
    version: u8,
    /// Whether it asks for DNSSEC records (RFC 3225).
    dnssec: bool,
}

/// A query.
#[derive(Debug)]
struct Query<'m> {
    /// Its name, as it is written.
    name: &'m [u8],
    kind: Type,
    class: u16,
    /// Where the question ends.
    end: usize,
    edns: Option<Edns>,
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*word))
}

/// Reads a query; `None` if it is malformed.
fn read(message: &[u8]) -> Option<Query<'_>> {
    let counts = [4, 6, 8, 10].map(|at| word(message, at).unwrap_or(0));
    // More than one question has no meaning (RFC 9619).
    if counts[0] != 1 {
        return None;
    }
    let name = name::read(message.get(HEADER..)?)?;
    let at = HEADER + name.len();
    let (kind, class) = (Type(word(message, at)?), word(message, at + 2)?);
    let mut query = Query {
        name,
        kind,
        class,
        end: at + 4,
        edns: None,
    };
    let mut at = query.end;
    for count in 0..counts[1..]
        .iter()
        .map(|count| u32::from(*count))
        .sum::<u32>()
    {
        let is_root = message.get(at) == Some(&0);
        at += name::skip(message.get(at..)?)?;
        let kind = Type(word(message, at)?);
        let (size, extended, flags) = (
            word(message, at + 2)?,
            word(message, at + 4)?,
            word(message, at + 6)?,
        );
        at += 10 + usize::from(word(message, at + 8)?);
        message.get(..at)?;
        let is_additional = count >= u32::from(counts[1]) + u32::from(counts[2]);
        if kind == Type::OPT {
            if query.edns.is_some() || !is_root || !is_additional {
                return None;
            }
            query.edns = Some(Edns {
                size,
                version: extended as u8,
                dnssec: flags & 1 << 15 != 0,
            });
        }
    }
    Some(query)
}

/// An answer at work.
pub struct Answer {
    bytes: [u8; ANSWER_MAX],
    length: usize,
    /// Most bytes, without those of the OPT record.
    limit: usize,
    /// Records in the answer and authority sections.
    counts: [u16; 2],
    flags: u16,
}

/// The outcome of a query, and whether its answer is cut.
pub type Said = (Outcome, bool);

impl Answer {
    pub fn new() -> Answer {
        Answer {
            bytes: [0; ANSWER_MAX],
            length: 0,
            limit: PLAIN_MAX,
            counts: [0; 2],
            flags: 0,
        }
    }

    /// The answer's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Adds bytes, if they fit.
    fn put(&mut self, bytes: &[u8]) -> bool {
        let end = self.length + bytes.len();
        let fits = end <= self.limit;
        if let Some(place) = self.bytes.get_mut(self.length..end).filter(|_| fits) {
            place.copy_from_slice(bytes);
            self.length = end;
        }
        fits
    }

    /// Adds a record whose name begins at `owner` in the message; returns where its data are, `None` if it
    /// does not fit, which the answer then says.
    fn record(
        &mut self,
        section: usize,
        owner: usize,
        (kind, ttl): (Type, u32),
        data: &[u8],
    ) -> Option<usize> {
        let mut fixed = [0; 12];
        fixed[..2].copy_from_slice(&(0xc000 | owner as u16).to_be_bytes());
        fixed[2..4].copy_from_slice(&kind.0.to_be_bytes());
        fixed[4..6].copy_from_slice(&CLASSES[0].to_be_bytes());
        fixed[6..10].copy_from_slice(&ttl.to_be_bytes());
        fixed[10..].copy_from_slice(&(data.len() as u16).to_be_bytes());
        if self.length + fixed.len() + data.len() > self.limit {
            self.flags |= TRUNCATED;
            return None;
        }
        self.put(&fixed);
        let at = self.length;
        self.put(data);
        self.counts[section] += 1;
        Some(at)
    }

    fn set(&mut self, owner: usize, set: &Set) {
        for data in &set.data {
            if self.record(0, owner, (set.kind, set.ttl), data).is_none() {
                break;
            }
        }
    }

    /// Says which zone does not have something; the zone is the end of the name at `owner`.
    fn absence(&mut self, owner: usize, name: &[u8], zone: &Zone) {
        let apex = owner + name.len().saturating_sub(zone.name.len());
        self.record(1, apex, (Type::SOA, zone.ttl), &zone.data);
    }

    /// Answers a message; `None` if there is no answer, because it is no query.
    pub fn to(&mut self, message: &[u8], table: &Table) -> Option<Said> {
        let flags = word(message, 2).filter(|_| message.len() >= HEADER)?;
        if flags & RESPONSE != 0 {
            return None;
        }
        self.flags = RESPONSE | flags & (OPCODE | RECURSION_DESIRED);
        self.put(&message[..HEADER]);
        let query = read(message);
        let outcome = match &query {
            _ if flags & OPCODE != 0 => Outcome::Unsupported,
            Some(query) => self.fill(message, query, table),
            None => Outcome::Malformed,
        };
        let edns = query.and_then(|query| query.edns);
        self.finish(outcome, edns);
        Some((outcome, self.flags & TRUNCATED != 0))
    }

    /// Writes the question and the records.
    fn fill(&mut self, message: &[u8], query: &Query<'_>, table: &Table) -> Outcome {
        if let Some(edns) = query.edns {
            let size = usize::from(edns.size).clamp(PLAIN_MAX, ANSWER_MAX);
            self.limit = size - OPT;
        }
        self.put(&message[HEADER..query.end]);
        if query.edns.is_some_and(|edns| edns.version > 0) {
            return Outcome::BadVersion;
        }
        // Zone transfers (251, 252) and the other queries that are no types (RFC 6895, section 3.1).
        if (128..255).contains(&query.kind.0) || query.kind == Type::OPT {
            return Outcome::Unsupported;
        }
        if !CLASSES.contains(&query.class) {
            return Outcome::Refused;
        }
        let mut buffer = [0; name::NAME_MAX];
        let (mut owner, mut length) = (HEADER, small(query.name, &mut buffer));
        for alias in 0..=CHAIN_MAX {
            let name = &buffer[..length];
            let (node, zone) = match table.find(name) {
                Found::Name(node, zone) => (node, zone),
                Found::Missing(zone) => {
                    self.flags |= AUTHORITATIVE;
                    self.absence(owner, name, zone);
                    return Outcome::NoName;
                }
                Found::Foreign if alias == 0 => return Outcome::Refused,
                // The client asks others for the rest of the chain.
                Found::Foreign => return Outcome::Found,
            };
            self.flags |= AUTHORITATIVE;
            if let Some(set) = node.set(query.kind) {
                self.set(owner, set);
                return Outcome::Found;
            }
            let target = node
                .set(Type::CNAME)
                .and_then(|set| Some((set, set.data.first()?)));
            let Some((set, target)) = target else {
                self.absence(owner, name, zone);
                return Outcome::NoData;
            };
            let Some(at) = self.record(0, owner, (set.kind, set.ttl), target) else {
                return Outcome::Found;
            };
            (owner, length) = (at, small(target, &mut buffer));
        }
        Outcome::Found
    }

    /// Writes the OPT record and the header.
    fn finish(&mut self, outcome: Outcome, edns: Option<Edns>) {
        let has_question = self.length > HEADER;
        if let Some(edns) = edns {
            let mut opt = [0; OPT];
            opt[2] = Type::OPT.0 as u8;
            opt[3..5].copy_from_slice(&(ANSWER_MAX as u16).to_be_bytes());
            opt[5] = (outcome.code() >> 4) as u8;
            opt[7] = u8::from(edns.dnssec) << 7;
            self.limit += OPT;
            self.put(&opt);
        }
        let words = [
            self.flags | outcome.code() & 15,
            has_question.into(),
            self.counts[0],
            self.counts[1],
            edns.is_some().into(),
        ];
        for (at, word) in (2..).step_by(2).zip(words) {
            self.bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
        }
    }
}
