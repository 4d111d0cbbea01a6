//! Programs: what patterns compile to.

use super::byte_tables::{ByteTables, Products, Row};
use super::decision::Graph;
use super::diagnostic::{Compiled, Diagnostics};
use super::expression::Expression;
use super::fields::Fields;
use super::headers::Headers;
use super::rules::Rules;
use super::terms::{Term, Union};
use super::wide_tables::{MAX_PRODUCTS, WideTables};
use super::witness::Witness;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// The most memory that a compiled form may take, in bytes.
const MEMORY_LIMIT: usize = 4 << 20;

/// What meeting a term leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    /// The output, [`DROP`] to drop.
    output: u32,
    /// The rule to check the packet with first; [`EXACT`] when the term says
    /// it all.
    verify: u32,
}

const DROP: u32 = NO_OUTPUT;
/// What [`Program::classify_each`] says of a packet that goes nowhere.
pub const NO_OUTPUT: u32 = u32::MAX;
const EXACT: u32 = u32::MAX;

/// A compiled set of rules.
///
/// Packets are matched in the first of these forms that the rules fit:
///
/// | form | rules | work per packet |
/// | --- | --- | --- |
/// | [`Form::Constant`] | all packets go one way | none |
/// | [`Form::ByteTables`] | up to 256 terms | one table row for each header byte that rules look at |
/// | [`Form::WideTables`] | up to 16 384 terms and 4 MiB | one row for each group of such bytes, then a few chunks of them |
/// | [`Form::Linear`] | any | rule by rule |
///
/// Measured by `cargo bench -p elements --bench classify` (one core of a
/// Sapphire Rapids at 2.1 GHz, x86-64 baseline instructions, 1024 flows in
/// random order, half of them made to match a rule; best pass):
///
/// | rules | ns/packet | compiling | memory |
/// | --- | --- | --- | --- |
/// | 10 | 14 | 56 µs | 9 KiB |
/// | 100 | 14 | 0.6 ms | 74 KiB |
/// | 250 | 17 | 1.7 ms | 149 KiB |
/// | 1000 | 44 | 7.7 ms | 400 KiB |
/// | 10 000 | 69 | 81 ms | 5.2 MiB |
///
/// What was measured against them: the same bitmaps with one row per *field*,
/// found by searching a trie of interval bounds (80 ns for 1000 rules, 143 for
/// 4000: the branches of the searches are mispredicted on random traffic,
/// where a byte's table has none); byte tables with rows of 1024 bits (51 ns
/// for 1000 rules, growing linearly); rule by rule (3.4 ns a rule).
///
/// A packet that ends in the middle of a field of which some rule tests only
/// a part is classified rule by rule in every form.
#[derive(Clone, Debug)]
pub struct Program {
    rules: Rules,
    fields: Fields,
    matcher: Matcher,
}

#[derive(Clone, Debug)]
enum Matcher {
    Constant(Option<u32>),
    Bytes16(ByteTables<u16>),
    Bytes32(ByteTables<u32>),
    Bytes64(ByteTables<u64>),
    Bytes128(ByteTables<[u64; 2]>),
    Bytes256(ByteTables<[u64; 4]>),
    Wide(WideTables),
    Linear,
}

/// How a [`Program`] matches packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Every packet has the same outcome.
    Constant,
    /// A row per byte of header; see the module `byte_tables`.
    ByteTables,
    /// A row per group of bytes, under a summary; see the module
    /// `wide_tables`.
    WideTables,
    /// Each rule in turn: the form for rule sets beyond every limit.
    Linear,
}

impl Program {
    /// Compiles `rules`, whose patterns are `expressions`, into the form that
    /// suits them best.
    pub(super) fn compile(rules: Rules, expressions: &[Expression]) -> Program {
        let forms = [Form::Constant, Form::ByteTables, Form::WideTables];
        let terms = Terms::of(&rules, expressions);
        for form in forms {
            if let Some(matcher) = terms.matcher(form) {
                return Program::with(rules, terms.fields, matcher);
            }
        }
        Program::with(rules, terms.fields, Matcher::Linear)
    }

    /// The same, with a warning for each output below `outputs` that no packet
    /// can reach, as far as the decision graph shows.
    pub(super) fn compile_warning(
        rules: Rules,
        expressions: &[Expression],
        outputs: usize,
    ) -> Compiled {
        let program = Program::compile(rules, expressions);
        let mut warnings = Diagnostics::default();
        let terms = Terms::of(&program.rules, expressions);
        if !terms.all_reached(&program, outputs) {
            for output in Graph::for_outputs(&program.rules).unreached(outputs) {
                warnings.warning(None, format!("output {output} matches no packets"));
            }
        }
        Compiled { program, warnings }
    }

    /// Compiles into one form; `None` when the rules do not fit it.
    #[cfg(test)]
    pub(super) fn compile_as(
        form: Form,
        rules: &Rules,
        expressions: &[Expression],
    ) -> Option<Program> {
        let terms = Terms::of(rules, expressions);
        let matcher = terms.matcher(form)?;
        Some(Program::with(rules.clone(), terms.fields, matcher))
    }

    fn with(rules: Rules, fields: Fields, matcher: Matcher) -> Program {
        Program {
            rules,
            fields,
            matcher,
        }
    }

    /// Classifies several packets, as many as `outputs` has room for: each output is that of
    /// [`classify`](Self::classify), with [`NO_OUTPUT`] for none.
    pub fn classify_each<'p>(
        &self,
        packets: impl Iterator<Item = Headers<'p>>,
        outputs: &mut [u32],
    ) {
        match &self.matcher {
            Matcher::Bytes16(tables) => self.each_by_bytes(tables, packets, outputs),
            Matcher::Bytes32(tables) => self.each_by_bytes(tables, packets, outputs),
            Matcher::Bytes64(tables) => self.each_by_bytes(tables, packets, outputs),
            _ => {
                for (headers, output) in packets.zip(outputs) {
                    *output = self
                        .classify(&headers)
                        .map_or(NO_OUTPUT, |output| output as u32);
                }
            }
        }
    }

    /// The output that a packet goes to; `None` when it is dropped.
    #[inline]
    pub fn classify(&self, headers: &Headers<'_>) -> Option<usize> {
        let output = match &self.matcher {
            Matcher::Constant(output) => return output.map(|output| output as usize),
            Matcher::Bytes16(tables) => self.by_bytes(tables, headers),
            Matcher::Bytes32(tables) => self.by_bytes(tables, headers),
            Matcher::Bytes64(tables) => self.by_bytes(tables, headers),
            Matcher::Bytes128(tables) => self.by_bytes(tables, headers),
            Matcher::Bytes256(tables) => self.by_bytes(tables, headers),
            Matcher::Wide(tables) => {
                match tables.find(headers, &self.fields, |hit| self.decide(hit, headers)) {
                    Ok(output) => output.unwrap_or(DROP),
                    Err(_) => self.by_rules(headers),
                }
            }
            Matcher::Linear => self.by_rules(headers),
        };
        (output != DROP).then_some(output as usize)
    }

    #[inline(always)]
    fn each_by_bytes<'p, R: Row>(
        &self,
        tables: &ByteTables<R>,
        packets: impl Iterator<Item = Headers<'p>>,
        outputs: &mut [u32],
    ) {
        for (headers, output) in packets.zip(outputs) {
            *output = self.by_bytes(tables, &headers);
        }
    }

    #[inline(always)]
    fn by_bytes<R: Row>(&self, tables: &ByteTables<R>, headers: &Headers<'_>) -> u32 {
        match tables.admit(headers) {
            Some(row) => self.first(tables, row, headers),
            None => self.by_bytes_short(tables, headers),
        }
    }

    #[cold]
    fn by_bytes_short<R: Row>(&self, tables: &ByteTables<R>, headers: &Headers<'_>) -> u32 {
        match tables.admit_short(headers, &self.fields) {
            Some(row) => self.first(tables, row, headers),
            None => self.by_rules(headers),
        }
    }

    #[inline(always)]
    fn first<R: Row>(&self, tables: &ByteTables<R>, mut row: R, headers: &Headers<'_>) -> u32 {
        while let Some((bit, rest)) = row.pop() {
            if let Some(output) = self.decide(tables.hit(bit), headers) {
                return output;
            }
            row = rest;
        }
        DROP
    }

    /// The output of a term that admits the packet, unless its rule turns
    /// out not to match.
    #[inline(always)]
    fn decide(&self, hit: Hit, headers: &Headers<'_>) -> Option<u32> {
        if hit.verify != EXACT && !self.verify(hit.verify, headers) {
            return None;
        }
        Some(hit.output)
    }

    #[cold]
    fn verify(&self, rule: u32, headers: &Headers<'_>) -> bool {
        self.rules.matches(rule as usize, headers)
    }

    #[cold]
    fn by_rules(&self, headers: &Headers<'_>) -> u32 {
        self.rules.classify(headers).unwrap_or(DROP)
    }

    /// The form in which packets are matched.
    pub fn form(&self) -> Form {
        match self.matcher {
            Matcher::Constant(_) => Form::Constant,
            Matcher::Wide(_) => Form::WideTables,
            Matcher::Linear => Form::Linear,
            _ => Form::ByteTables,
        }
    }

    /// Roughly how many bytes the program holds.
    pub fn memory(&self) -> usize {
        let matcher = match &self.matcher {
            Matcher::Constant(_) | Matcher::Linear => 0,
            Matcher::Bytes16(tables) => tables.memory(),
            Matcher::Bytes32(tables) => tables.memory(),
            Matcher::Bytes64(tables) => tables.memory(),
            Matcher::Bytes128(tables) => tables.memory(),
            Matcher::Bytes256(tables) => tables.memory(),
            Matcher::Wide(tables) => tables.memory(),
        };
        matcher + self.rules.memory()
    }

    /// The text of the `program` handler: Click's decision graph of the
    /// rules. It is built anew by each call, in time that grows with the
    /// square of the rules.
    pub fn text(&self) -> String {
        Graph::of(&self.rules).text()
    }
}

/// Rules as terms, on the way to a form.
struct Terms {
    fields: Fields,
    list: Vec<(Term, Hit)>,
}

impl Terms {
    fn of(rules: &Rules, expressions: &[Expression]) -> Terms {
        let fields = Fields::of(expressions, rules.layout);
        let mut list = Vec::new();
        for (rule, expression) in expressions.iter().enumerate() {
            let union = Union::of(expression, &fields);
            let hit = Hit {
                output: rules.output(rule).unwrap_or(DROP),
                verify: if union.exact { EXACT } else { rule as u32 },
            };
            let last = union.is_everything();
            list.extend(union.terms.into_iter().map(|term| (term, hit)));
            if last {
                break;
            }
        }
        Terms { fields, list }
    }

    /// Whether packets made for the terms reach every output.
    fn all_reached(&self, program: &Program, outputs: usize) -> bool {
        let mut reached = vec![false; outputs];
        let mut witness = Witness::new(&self.fields);
        for (term, hit) in &self.list {
            for highest in [false, true] {
                if reached.get(hit.output as usize) != Some(&false) {
                    continue;
                }
                if let Some(packet) = witness.packet(term, &self.fields, highest) {
                    reached[hit.output as usize] =
                        program.classify(&packet) == Some(hit.output as usize);
                }
            }
        }
        reached.into_iter().all(|reached| reached)
    }

    fn matcher(&self, form: Form) -> Option<Matcher> {
        match form {
            Form::Constant => {
                let Some((term, hit)) = self.list.first() else {
                    return Some(Matcher::Constant(None));
                };
                let output = (hit.output != DROP).then_some(hit.output);
                let everything = term.sets().is_empty() && hit.verify == EXACT;
                everything.then_some(Matcher::Constant(output))
            }
            Form::ByteTables => {
                let products = Products::of(&self.list, &self.fields, 256)?;
                let (products, fields) = (&products, &self.fields);
                Some(match products.len() {
                    0..=16 => Matcher::Bytes16(ByteTables::new(products, fields)),
                    17..=32 => Matcher::Bytes32(ByteTables::new(products, fields)),
                    33..=64 => Matcher::Bytes64(ByteTables::new(products, fields)),
                    65..=128 => Matcher::Bytes128(ByteTables::new(products, fields)),
                    _ => Matcher::Bytes256(ByteTables::new(products, fields)),
                })
            }
            Form::WideTables => {
                let products = Products::of(&self.list, &self.fields, MAX_PRODUCTS)?;
                if products.len() == 0 {
                    return None;
                }
                WideTables::new(&products, &self.fields, MEMORY_LIMIT).map(Matcher::Wide)
            }
            Form::Linear => Some(Matcher::Linear),
        }
    }
}
