//! Programs: compiled patterns.

mod work;

use super::class_rows::ClassRows;
use super::decision::Graph;
use super::diagnostic::{Compiled, Diagnostics};
use super::expression::Expression;
use super::fields::Fields;
use super::headers::{Headers, View};
use super::hit::{DROP, EXACT, Hit};
use super::products::{Products, WORK};
use super::rules::Rules;
use super::sample::SamplePacket;
use super::terms::{Term, Union};
use super::vectors::Vectors;
use super::wide_tables::{MAX_PRODUCTS, WideTables};
use crate::prelude::*;
use router::memory::spare_of;
use simd::Level;
use work::{SinglePackets, Work};

/// The most memory that a compiled form may take, in bytes.
const MEMORY_LIMIT: usize = 4 << 20;

/// Terms whose forms are small: a guest's heap grows when it is asked for much, and it is not for these.
pub(super) const FEW: usize = 64;

/// How many times a form's memory it takes to make it.
const MAKING: usize = 6;

/// The most memory of class rows, in bytes: half of a core's second-level cache.
const ROWS_LIMIT: usize = 1 << 20;

/// A compiled set of rules.
///
/// Packets are matched in the first of these forms that the rules fit:
///
/// | form | rules | work per packet |
/// | --- | --- | --- |
/// | [`Form::Constant`] | all packets have one output | none |
/// | [`Form::Vectors`] | few ranges of values to compare with | each range with all packets of a batch at once |
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
/// Measured against them: a row for each byte of header instead of each
/// field (14 ns for 10 to 100 rules, 44 for 1000); rule by rule (3.4 ns a
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

/// A program's source.
#[derive(Debug)]
pub struct Patterns {
    pub(super) rules: Rules,
    /// The rules' patterns, where these are few: see [`Form::Vectors`].
    pub(super) expressions: Vec<Expression>,
}

#[derive(Clone, Debug)]
enum Matcher {
    Constant(Option<u32>),
    Vectors(Vectors),
    Rows4(ClassRows<4>),
    Rows16(ClassRows<16>),
    Rows32(ClassRows<32>),
    Wide(WideTables),
    Linear,
}

/// How a [`Program`] matches packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Every packet has the same outcome.
    Constant,
    /// All packets of a batch at once; see the module `vectors`.
    Vectors,
    /// A row per class of a field's values; see the module `class_rows`.
    ClassRows,
    /// A row per group of bytes, under a summary; see the module
    /// `wide_tables`.
    WideTables,
    /// Each rule in turn: the form for rule sets beyond every limit.
    Linear,
}

impl Program {
    /// Compiles `rules`, whose patterns are `expressions`, into the first form
    /// that they fit.
    pub(super) fn compile(rules: Rules, expressions: &[Expression]) -> Program {
        Program::compile_keeping(rules, expressions).0
    }

    /// The same; also gives the rules' terms, unless these are too many for
    /// every form but the linear one.
    fn compile_keeping(
        rules: Rules,
        expressions: &[Expression],
    ) -> (Program, Option<Vec<(Term, Hit)>>) {
        let forms = [
            Form::Constant,
            Form::Vectors,
            Form::ClassRows,
            Form::WideTables,
        ];
        let fields = Fields::of(&mut expressions.iter(), rules.layout);
        let terms = Terms::of(&rules, expressions, &fields);
        let matcher = terms.as_ref().and_then(|terms| {
            let ranges = ranges_limit(Level::detected());
            forms.iter().find_map(|form| terms.matcher(*form, ranges))
        });
        let list = terms.map(|terms| terms.list);
        let matcher = matcher.unwrap_or(Matcher::Linear);
        (Program::with(rules, expressions, fields, matcher), list)
    }

    /// The same, with a warning for each output below `outputs` that no packet
    /// can reach, as far as the decision graph shows.
    pub(super) fn compile_warning(
        rules: Rules,
        expressions: &[Expression],
        outputs: usize,
    ) -> Compiled {
        let (program, terms) = Program::compile_keeping(rules, expressions);
        let mut warnings = Diagnostics::default();
        if !terms.is_some_and(|terms| program.reaches_all(&terms, outputs)) {
            let graph = Graph::for_outputs(&program.patterns.rules);
            for output in graph.unreached(outputs) {
                warnings.warning(None, format!("output {output} matches no packets"));
            }
        }
        Compiled { program, warnings }
    }

    /// Whether sample packets of the terms reach every output.
    fn reaches_all(&self, terms: &[(Term, Hit)], outputs: usize) -> bool {
        let mut reached = vec![false; outputs];
        let mut sample = SamplePacket::new(&self.fields);
        for (term, hit) in terms {
            for highest in [false, true] {
                if reached.get(hit.output as usize) != Some(&false) {
                    continue;
                }
                if let Some(packet) = sample.packet(term, &self.fields, highest) {
                    reached[hit.output as usize] =
                        self.classify(&packet) == Some(hit.output as usize);
                }
            }
        }
        reached.into_iter().all(|reached| reached)
    }

    /// Compiles into one form; `None` when the rules do not fit it.
    #[cfg(test)]
    pub(super) fn compile_as(
        form: Form,
        rules: &Rules,
        expressions: &[Expression],
    ) -> Option<Program> {
        let fields = Fields::of(&mut expressions.iter(), rules.layout);
        let terms = Terms::of(rules, expressions, &fields)?;
        let matcher = terms.matcher(form, usize::MAX >> 16)?;
        Some(Program::with(rules.clone(), expressions, fields, matcher))
    }

    fn with(rules: Rules, expressions: &[Expression], fields: Fields, matcher: Matcher) -> Program {
        let work = Work::new(&matcher);
        let expressions = match &matcher {
            Matcher::Vectors(_) => expressions.to_vec(),
            _ => Vec::new(),
        };
        Program {
            patterns: Arc::new(Patterns { rules, expressions }),
            fields,
            matcher,
            level: Level::detected(),
            work: Box::new(work),
        }
    }

    /// The program's source, for a [tree](super::tree) of programs; `None` if it cannot be part of
    /// one.
    pub fn patterns(&self) -> Option<Arc<Patterns>> {
        (self.form() == Form::Vectors).then(|| self.patterns.clone())
    }

    /// The same program, matched with the instructions of `level`: for
    /// benchmarks.
    pub fn at_level(self, level: Level) -> Program {
        Program { level, ..self }
    }

    /// Classifies the packets of a batch, at most 64. Returns the outputs of
    /// the packets ([`NO_OUTPUT`](super::NO_OUTPUT) for dropped ones), each with a bit for each
    /// of its packets, the lowest for the first. Every packet is in one set.
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
        let single = SinglePackets {
            rules: &patterns.rules,
            fields,
        };
        work.sets.0.clear();
        match matcher {
            Matcher::Vectors(vectors) => work.by_vectors(vectors, *level, &single, packets),
            Matcher::Rows4(rows) if rows.exact => work.by_rows(rows, *level, &single, packets),
            Matcher::Rows16(rows) if rows.exact => work.by_rows(rows, *level, &single, packets),
            Matcher::Rows32(rows) if rows.exact => work.by_rows(rows, *level, &single, packets),
            matcher => {
                let mut count = 0;
                for (view, output) in packets.zip(work.outputs.iter_mut()) {
                    *output = single.classify(matcher, &view.headers());
                    count += 1;
                }
                work.group(*level, count, first_bits(count));
            }
        }
        &work.sets.0
    }

    /// The output that a packet goes to; `None` when it is dropped.
    pub fn classify(&self, headers: &Headers<'_>) -> Option<usize> {
        let single = SinglePackets {
            rules: &self.patterns.rules,
            fields: &self.fields,
        };
        let output = single.classify(&self.matcher, headers);
        (output != DROP).then_some(output as usize)
    }

    /// The form in which packets are matched.
    pub fn form(&self) -> Form {
        match self.matcher {
            Matcher::Constant(_) => Form::Constant,
            Matcher::Vectors(_) => Form::Vectors,
            Matcher::Rows4(_) | Matcher::Rows16(_) | Matcher::Rows32(_) => Form::ClassRows,
            Matcher::Wide(_) => Form::WideTables,
            Matcher::Linear => Form::Linear,
        }
    }

    /// Whether there was less memory to compile the rules than they may take, and so the packets are
    /// matched rule by rule.
    pub fn is_cramped(&self) -> bool {
        self.form() == Form::Linear && !spare(MAKING * MEMORY_LIMIT)
    }

    /// Roughly how many bytes the program holds.
    pub fn memory(&self) -> usize {
        let matcher = match &self.matcher {
            Matcher::Constant(_) | Matcher::Linear => 0,
            Matcher::Vectors(vectors) => vectors.memory(),
            Matcher::Rows4(rows) => rows.memory(),
            Matcher::Rows16(rows) => rows.memory(),
            Matcher::Rows32(rows) => rows.memory(),
            Matcher::Wide(tables) => tables.memory(),
        };
        let patterns = self.patterns.memory();
        matcher + patterns + size_of::<Work>()
    }

    /// The text of the `program` handler: Click's decision graph of the
    /// rules. Each call builds the graph, in time quadratic in the rules.
    pub fn text(&self) -> String {
        Graph::of(&self.patterns.rules).text()
    }
}

/// Most ranges for which [`Form::Vectors`] is the fastest form, measured.
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

/// Rules as terms, on the way to a form.
struct Terms<'f> {
    fields: &'f Fields,
    list: Vec<(Term, Hit)>,
}

impl Patterns {
    /// The rules as terms over `fields`; `None` when these are more than
    /// `limit`.
    pub(super) fn terms(
        rules: &Rules,
        expressions: &[Expression],
        fields: &Fields,
        limit: usize,
    ) -> Option<Vec<(Term, Hit)>> {
        let mut list = Vec::new();
        for (rule, expression) in expressions.iter().enumerate() {
            let union = Union::of(expression, fields);
            let hit = Hit {
                output: rules.output(rule).unwrap_or(DROP),
                verify: if union.exact { EXACT } else { rule as u32 },
            };
            let last = union.is_everything();
            let has_room = list.len() < FEW || spare(2 * size_of_val(&list[..]) + WORK);
            if list.len() + union.terms.len() > limit || !has_room {
                return None;
            }
            list.extend(union.terms.into_iter().map(|term| (term, hit)));
            if last {
                break;
            }
        }
        Some(list)
    }

    /// Bytes held.
    fn memory(&self) -> usize {
        let expressions = self.expressions.iter().map(Expression::memory);
        self.rules.memory() + expressions.sum::<usize>()
    }
}

impl<'f> Terms<'f> {
    /// `None` when the terms are too many for every form but the linear one:
    /// each is a product at least.
    fn of(rules: &Rules, expressions: &[Expression], fields: &'f Fields) -> Option<Terms<'f>> {
        let list = Patterns::terms(rules, expressions, fields, MAX_PRODUCTS)?;
        Some(Terms { fields, list })
    }

    fn matcher(&self, form: Form, ranges: usize) -> Option<Matcher> {
        // In little memory, forms are small.
        let free = match self.list.len() {
            ..FEW => MEMORY_LIMIT,
            _ => spare_of(MAKING * MEMORY_LIMIT) / MAKING,
        };
        let rows_limit = ROWS_LIMIT.min(free);
        match form {
            Form::Constant => {
                let Some((term, hit)) = self.list.first() else {
                    return Some(Matcher::Constant(None));
                };
                let output = (hit.output != DROP).then_some(hit.output);
                let everything = term.sets().is_empty() && hit.verify == EXACT;
                everything.then_some(Matcher::Constant(output))
            }
            Form::Vectors => Vectors::new(&self.list, self.fields, ranges).map(Matcher::Vectors),
            Form::ClassRows => {
                let (terms, fields) = (&self.list, self.fields);
                match terms.len() {
                    0..256 => ClassRows::new(terms, fields, rows_limit).map(Matcher::Rows4),
                    256..1024 => ClassRows::new(terms, fields, rows_limit).map(Matcher::Rows16),
                    _ => ClassRows::new(terms, fields, rows_limit).map(Matcher::Rows32),
                }
            }
            Form::WideTables => {
                let products = Products::of(&self.list, self.fields, MAX_PRODUCTS)?;
                if products.len() == 0 {
                    return None;
                }
                let free = spare_of(MAKING * MEMORY_LIMIT) / MAKING;
                WideTables::new(&products, self.fields, free).map(Matcher::Wide)
            }
            Form::Linear => Some(Matcher::Linear),
        }
    }
}
