//! Programs: what patterns compile to.

use super::class_rows::{ClassRows, MAX_GROUPS};
use super::columns::{Batch, LANES};
use super::decision::Graph;
use super::diagnostic::{Compiled, Diagnostics};
use super::expression::Expression;
use super::fields::Fields;
use super::headers::{Headers, View};
use super::lanes::{self, Lanes};
use super::products::Products;
use super::rules::Rules;
use super::terms::{Term, Union};
use super::wide_tables::{Cut, MAX_PRODUCTS, WideTables};
use super::witness::Witness;
use crate::prelude::*;
use simd::{BLOCK, Kernel, Level, Simd};

/// The most memory that a compiled form may take, in bytes.
const MEMORY_LIMIT: usize = 4 << 20;

/// The most that class rows may take: what fits a core's second cache.
const ROWS_LIMIT: usize = 1 << 20;

/// What meeting a term leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    /// The output, [`DROP`] to drop.
    pub(super) output: u32,
    /// The rule to check the packet with first; [`EXACT`] when the term says
    /// it all.
    pub(super) verify: u32,
}

pub(super) const DROP: u32 = NO_OUTPUT;
/// What [`Program::classify_batch`] says of packets that go nowhere.
pub const NO_OUTPUT: u32 = u32::MAX;
pub(super) const EXACT: u32 = u32::MAX;

/// A compiled set of rules.
///
/// Packets are matched in the first of these forms that the rules fit:
///
/// | form | rules | work per packet |
/// | --- | --- | --- |
/// | [`Form::Constant`] | all packets go one way | none |
/// | [`Form::Lanes`] | few ranges of values to compare with | each range with all packets of a batch at once |
/// | [`Form::ClassRows`] | up to 2047 terms and 1 MiB | one search a field, then the AND of a few rows of bits |
/// | [`Form::WideTables`] | up to 16 384 terms and 4 MiB | one row for each group of header bytes, then a few chunks of them |
/// | [`Form::Linear`] | any | rule by rule |
///
/// Measured by `cargo bench -p elements --bench classify` (one core of a
/// Sapphire Rapids; 1024 flows in random order, half of them made to match a
/// rule; best pass; nanoseconds a packet by what instructions there are):
///
/// | rules | AVX-512 | AVX2 | baseline | compiling | memory |
/// | --- | --- | --- | --- | --- | --- |
/// | 10 | 3.4 | 4.5 | 16 | 42 µs | 6 KiB |
/// | 64 | 11 | 14 | 40 | 0.3 ms | 19 KiB |
/// | 250 | 13 | 20 | 40 | 1.2 ms | 70 KiB |
/// | 1000 | 18 | 21 | 44 | 9 ms | 400 KiB |
/// | 4000 | 59 | 59 | 59 | 60 ms | 1.7 MiB |
///
/// What was measured against them: a row for each byte of header in place of
/// each field (14 ns for 10 to 100 rules, 44 for 1000); rule by rule (3.4 ns a
/// rule).
///
/// A packet that ends in the middle of a field of which some rule tests only
/// a part is classified rule by rule in every form.
#[derive(Clone, Debug)]
pub struct Program {
    patterns: Arc<Patterns>,
    fields: Fields,
    matcher: Matcher,
    level: Level,
    work: Box<Work>,
}

/// What a program was compiled from.
#[derive(Debug)]
pub struct Patterns {
    pub(super) rules: Rules,
    /// The rules' patterns, where these are few: see [`Form::Lanes`].
    pub(super) expressions: Vec<Expression>,
}

#[derive(Clone, Debug)]
enum Matcher {
    Constant(Option<u32>),
    Lanes(Lanes),
    Rows4(ClassRows<4>),
    Rows16(ClassRows<16>),
    Rows32(ClassRows<32>),
    Wide(WideTables),
    Linear,
}

/// What is at work on a batch; nothing of it outlives the batch.
#[derive(Clone, Debug)]
struct Work {
    batch: Batch,
    lanes: lanes::Scratch,
    rows: [[u32; LANES]; MAX_GROUPS],
    outputs: [u32; LANES],
    routes: Routes,
}

/// Which packets go where: outputs, each with a bit for each packet.
#[derive(Clone, Debug)]
struct Routes(Vec<(u32, u64)>);

impl Routes {
    /// Packets that go to `output`.
    #[inline(always)]
    fn add(&mut self, output: u32, packets: u64) {
        match self.0.iter_mut().find(|route| route.0 == output) {
            Some(route) => route.1 |= packets,
            None => self.0.push((output, packets)),
        }
    }
}

/// How a [`Program`] matches packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Every packet has the same outcome.
    Constant,
    /// All packets of a batch at once; see the module `lanes`.
    Lanes,
    /// A row per class of a field's values; see the module `class_rows`.
    ClassRows,
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
        let forms = [
            Form::Constant,
            Form::Lanes,
            Form::ClassRows,
            Form::WideTables,
        ];
        let terms = Terms::of(&rules, expressions);
        for form in forms {
            if let Some(matcher) = terms.matcher(form, ranges_limit(Level::detected())) {
                return Program::with(rules, expressions, terms.fields, matcher);
            }
        }
        Program::with(rules, expressions, terms.fields, Matcher::Linear)
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
        let rules = &program.patterns.rules;
        let terms = Terms::of(rules, expressions);
        if !terms.all_reached(&program, outputs) {
            for output in Graph::for_outputs(rules).unreached(outputs) {
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
        let matcher = terms.matcher(form, usize::MAX >> 16)?;
        Some(Program::with(
            rules.clone(),
            expressions,
            terms.fields,
            matcher,
        ))
    }

    fn with(rules: Rules, expressions: &[Expression], fields: Fields, matcher: Matcher) -> Program {
        let columns = match &matcher {
            Matcher::Lanes(lanes) => Some(&lanes.columns),
            Matcher::Rows4(rows) => Some(&rows.columns),
            Matcher::Rows16(rows) => Some(&rows.columns),
            Matcher::Rows32(rows) => Some(&rows.columns),
            _ => None,
        };
        let none = Batch {
            columns: Vec::new(),
        };
        let scratch = match &matcher {
            Matcher::Lanes(lanes) => lanes.scratch(),
            _ => lanes::Scratch::default(),
        };
        let work = Box::new(Work {
            batch: columns.map_or(none, |columns| columns.room()),
            lanes: scratch,
            rows: [[0; LANES]; MAX_GROUPS],
            outputs: [DROP; LANES],
            routes: Routes(Vec::with_capacity(LANES)),
        });
        let expressions = match &matcher {
            Matcher::Lanes(_) => expressions.to_vec(),
            _ => Vec::new(),
        };
        Program {
            patterns: Arc::new(Patterns { rules, expressions }),
            fields,
            matcher,
            level: Level::detected(),
            work,
        }
    }

    /// What it was compiled from, for a [tree](super::tree) of programs; `None` if it has to stand
    /// alone.
    pub fn patterns(&self) -> Option<Arc<Patterns>> {
        (self.form() == Form::Lanes).then(|| self.patterns.clone())
    }

    /// The same program, matched with the instructions of `level`: to measure
    /// what these are worth.
    pub fn at_level(self, level: Level) -> Program {
        Program { level, ..self }
    }

    /// Classifies the packets of a batch, 64 at most: the outputs that some go
    /// to ([`NO_OUTPUT`] for none), each with a bit for each of these packets,
    /// the lowest for the first. Every packet is in one of them, as
    /// [`classify`](Self::classify) says.
    #[inline]
    pub fn classify_batch<'p>(
        &mut self,
        packets: impl Iterator<Item = impl View<'p>> + Clone,
    ) -> &[(u32, u64)] {
        let Program {
            patterns,
            fields,
            matcher,
            level,
            work,
        } = self;
        let judge = Judge {
            rules: &patterns.rules,
            fields,
        };
        work.routes.0.clear();
        match matcher {
            Matcher::Lanes(lanes) => work.by_lanes(lanes, *level, &judge, packets),
            Matcher::Rows4(rows) if rows.exact => work.by_rows(rows, *level, &judge, packets),
            Matcher::Rows16(rows) if rows.exact => work.by_rows(rows, *level, &judge, packets),
            Matcher::Rows32(rows) if rows.exact => work.by_rows(rows, *level, &judge, packets),
            matcher => {
                let mut count = 0;
                for (view, output) in packets.zip(&mut work.outputs) {
                    *output = judge.one(matcher, &view.headers());
                    count += 1;
                }
                work.sort(*level, count, first_bits(count));
            }
        }
        &work.routes.0
    }

    /// The output that a packet goes to; `None` when it is dropped.
    pub fn classify(&self, headers: &Headers<'_>) -> Option<usize> {
        let judge = Judge {
            rules: &self.patterns.rules,
            fields: &self.fields,
        };
        let output = judge.one(&self.matcher, headers);
        (output != DROP).then_some(output as usize)
    }

    /// The form in which packets are matched.
    pub fn form(&self) -> Form {
        match self.matcher {
            Matcher::Constant(_) => Form::Constant,
            Matcher::Lanes(_) => Form::Lanes,
            Matcher::Rows4(_) | Matcher::Rows16(_) | Matcher::Rows32(_) => Form::ClassRows,
            Matcher::Wide(_) => Form::WideTables,
            Matcher::Linear => Form::Linear,
        }
    }

    /// Roughly how many bytes the program holds.
    pub fn memory(&self) -> usize {
        let matcher = match &self.matcher {
            Matcher::Constant(_) | Matcher::Linear => 0,
            Matcher::Lanes(lanes) => lanes.memory(),
            Matcher::Rows4(rows) => rows.memory(),
            Matcher::Rows16(rows) => rows.memory(),
            Matcher::Rows32(rows) => rows.memory(),
            Matcher::Wide(tables) => tables.memory(),
        };
        let patterns = self.patterns.memory();
        matcher + patterns + size_of::<Work>()
    }

    /// The text of the `program` handler: Click's decision graph of the
    /// rules. It is built anew by each call, in time that grows with the
    /// square of the rules.
    pub fn text(&self) -> String {
        Graph::of(&self.patterns.rules).text()
    }
}

/// Up to how many ranges [`Form::Lanes`] is the fastest form, measured.
pub(super) fn ranges_limit(level: Level) -> usize {
    match level.bytes() {
        64 => 112,
        32 => 96,
        _ => 32,
    }
}

/// The lowest `count` bits.
#[inline(always)]
pub(super) fn first_bits(count: usize) -> u64 {
    u64::MAX.checked_shr(64 - count as u32).unwrap_or(0)
}

/// The packets with a bit in `bits`, by number; there are few, if any.
#[inline(always)]
fn those<'p>(
    packets: impl Iterator<Item = impl View<'p>>,
    bits: u64,
) -> impl Iterator<Item = (usize, Headers<'p>)> {
    let packets = packets.enumerate().take(if bits == 0 { 0 } else { LANES });
    let those = packets.filter(move |(i, _)| bits >> i & 1 == 1);
    those.map(|(i, view)| (i, view.headers()))
}

impl Work {
    #[inline(always)]
    fn by_lanes<'p>(
        &mut self,
        lanes: &Lanes,
        level: Level,
        judge: &Judge<'_>,
        packets: impl Iterator<Item = impl View<'p>> + Clone,
    ) {
        let routes = &mut self.routes;
        let (count, short) = lanes.columns.fill(&mut self.batch, packets.clone());
        for (i, headers) in those(packets, short) {
            routes.add(judge.by_lanes(lanes, &headers), 1 << i);
        }
        let (pending, blocks) = (first_bits(count) & !short, count.div_ceil(BLOCK));
        let left = lanes.decide(
            level,
            &self.batch,
            blocks,
            pending,
            &mut self.lanes,
            |output, packets| routes.add(output, packets),
        );
        if left != 0 {
            routes.add(DROP, left);
        }
    }

    #[inline(always)]
    fn by_rows<'p, const N: usize>(
        &mut self,
        rows: &ClassRows<N>,
        level: Level,
        judge: &Judge<'_>,
        packets: impl Iterator<Item = impl View<'p>> + Clone,
    ) {
        let routes = &mut self.routes;
        let (count, short) = rows.columns.fill(&mut self.batch, packets.clone());
        for (i, headers) in those(packets, short) {
            routes.add(judge.by_rows(rows, &headers), 1 << i);
        }
        rows.decide(level, &self.batch, count, &mut self.rows, &mut self.outputs);
        self.sort(level, count, first_bits(count) & !short);
    }

    /// Adds the packets in `pending`, of `count`, to the routes that `outputs`
    /// says.
    fn sort(&mut self, level: Level, count: usize, pending: u64) {
        let Work {
            outputs, routes, ..
        } = self;
        let kernel = Sort {
            outputs,
            blocks: count.div_ceil(BLOCK),
            pending,
            routes,
        };
        simd::run(level, kernel);
    }
}

struct Sort<'a> {
    outputs: &'a [u32; LANES],
    blocks: usize,
    pending: u64,
    routes: &'a mut Routes,
}

impl Kernel for Sort<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let mut pending = self.pending;
        while pending != 0 {
            let output = self.outputs[pending.trailing_zeros() as usize % LANES];
            let same = simd.within(self.outputs, self.blocks, u32::MAX, output, 0) & pending;
            self.routes.add(output, same);
            pending ^= same;
        }
    }
}

/// Decides on single packets.
struct Judge<'a> {
    rules: &'a Rules,
    fields: &'a Fields,
}

impl Judge<'_> {
    fn one(&self, matcher: &Matcher, headers: &Headers<'_>) -> u32 {
        match matcher {
            Matcher::Constant(output) => output.unwrap_or(DROP),
            Matcher::Lanes(lanes) => self.by_lanes(lanes, headers),
            Matcher::Rows4(rows) => self.by_rows(rows, headers),
            Matcher::Rows16(rows) => self.by_rows(rows, headers),
            Matcher::Rows32(rows) => self.by_rows(rows, headers),
            Matcher::Wide(tables) => {
                match tables.find(headers, self.fields, |hit| self.decide(hit, headers)) {
                    Ok(output) => output.unwrap_or(DROP),
                    Err(_) => self.by_rules(headers),
                }
            }
            Matcher::Linear => self.by_rules(headers),
        }
    }

    #[cold]
    fn by_lanes(&self, lanes: &Lanes, headers: &Headers<'_>) -> u32 {
        match lanes.one(headers, self.fields) {
            Ok(output) => output.unwrap_or(DROP),
            Err(Cut) => self.by_rules(headers),
        }
    }

    #[cold]
    fn by_rows<const N: usize>(&self, rows: &ClassRows<N>, headers: &Headers<'_>) -> u32 {
        match rows.one(headers, self.fields, |hit| self.decide(hit, headers)) {
            Ok(output) => output.unwrap_or(DROP),
            Err(Cut) => self.by_rules(headers),
        }
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
}

/// Rules as terms, on the way to a form.
struct Terms {
    fields: Fields,
    list: Vec<(Term, Hit)>,
}

impl Patterns {
    /// The terms that the rules are, over `fields`.
    pub(super) fn terms(
        rules: &Rules,
        expressions: &[Expression],
        fields: &Fields,
    ) -> Vec<(Term, Hit)> {
        let mut list = Vec::new();
        for (rule, expression) in expressions.iter().enumerate() {
            let union = Union::of(expression, fields);
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
        list
    }

    /// Bytes held.
    fn memory(&self) -> usize {
        let expressions = self.expressions.iter().map(Expression::memory);
        self.rules.memory() + expressions.sum::<usize>()
    }
}

impl Terms {
    fn of(rules: &Rules, expressions: &[Expression]) -> Terms {
        let fields = Fields::of(&mut expressions.iter(), rules.layout);
        let list = Patterns::terms(rules, expressions, &fields);
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

    fn matcher(&self, form: Form, ranges: usize) -> Option<Matcher> {
        match form {
            Form::Constant => {
                let Some((term, hit)) = self.list.first() else {
                    return Some(Matcher::Constant(None));
                };
                let output = (hit.output != DROP).then_some(hit.output);
                let everything = term.sets().is_empty() && hit.verify == EXACT;
                everything.then_some(Matcher::Constant(output))
            }
            Form::Lanes => Lanes::new(&self.list, &self.fields, ranges).map(Matcher::Lanes),
            Form::ClassRows => {
                let (terms, fields) = (&self.list, &self.fields);
                match terms.len() {
                    0..256 => ClassRows::new(terms, fields, ROWS_LIMIT).map(Matcher::Rows4),
                    256..1024 => ClassRows::new(terms, fields, ROWS_LIMIT).map(Matcher::Rows16),
                    _ => ClassRows::new(terms, fields, ROWS_LIMIT).map(Matcher::Rows32),
                }
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
