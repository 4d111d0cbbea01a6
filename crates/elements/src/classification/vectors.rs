//! Small rule sets: all packets of a batch at once.
//!
//! Each distinct set of values that rules allow a field is compared with that
//! field of all packets. The result is 64 bits, one per packet; with AVX-512,
//! that takes a dozen instructions for the whole batch. A rule is the AND of
//! its sets' bits, and its matches leave the pending packets. So a test is one
//! instruction for 64 packets, and no branch depends on packet contents:
//! random traffic costs as much as regular traffic. Rules behind the one that
//! decides the last packet cost nothing.

use super::columns::{Batch, Columns};
use super::fields::{Fields, Presence};
use super::headers::Headers;
use super::hit::{EXACT, Hit};
use super::intervals::Set;
use super::terms::Term;
use super::wide_tables::Truncated;
use crate::prelude::*;
use simd::{Kernel, Level, Simd};

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct Vectors {
    pub(super) columns: Columns,
    /// In the order in which terms first use them.
    tests: Vec<Test>,
    ranges: Vec<Range>,
    /// All tests' ranges, in the order in which a batch is compared with them.
    steps: Vec<Step>,
    terms: Vec<VectorTerm>,
    /// The terms' tests, one term's behind the other's.
    uses: Vec<u16>,
    /// The tests among these that earlier terms use.
    again: Vec<u16>,
    /// The outputs of terms.
    outputs: Vec<u32>,
}

/// Whether a field's value is in a set: in one of some ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Test {
    field: u8,
    column: u8,
    /// Packets without the field pass.
    missing: bool,
    /// Values in no range pass.
    inverted: bool,
    first_range: u16,
    ranges: u16,
}

/// `(column & mask) - low <= span`, in position within the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    mask: u32,
    low: u32,
    span: u32,
}

/// One range of a test.
#[derive(Clone, Copy, Debug)]
struct Step {
    range: Range,
    column: u8,
    /// The test's last range.
    last: bool,
    test: u16,
    /// The test's result for values in none of its ranges.
    inverted: u64,
}

/// The empty range.
const NOTHING: Range = Range {
    mask: 0,
    low: 1,
    span: 0,
};

#[derive(Clone, Copy, Debug)]
struct VectorTerm {
    /// End of its `uses`.
    uses: u32,
    /// End of its `again`.
    again: u32,
    /// End of the steps of its other tests.
    steps: u16,
    /// An index of `outputs`.
    output: u16,
}

/// Results for one batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    /// A word for each test.
    passed: Vec<u64>,
    /// A word for each output.
    sent: Vec<u64>,
}

impl Scratch {
    /// Takes the packets for output number `at` of [`Vectors::outputs`].
    #[inline(always)]
    pub(super) fn take(&mut self, at: usize) -> u64 {
        self.sent.get_mut(at).map_or(0, core::mem::take)
    }
}

impl Vectors {
    /// `None` when the terms have more than `limit` ranges, or a rule needs
    /// verifying.
    pub(super) fn new(terms: &[(Term, Hit)], fields: &Fields, limit: usize) -> Option<Vectors> {
        let mut vectors = Vectors {
            columns: Columns::new(fields)?,
            tests: Vec::new(),
            ranges: Vec::new(),
            steps: Vec::new(),
            terms: Vec::with_capacity(terms.len()),
            uses: Vec::new(),
            again: Vec::new(),
            outputs: Vec::new(),
        };
        if terms.len() > 16 * limit {
            return None;
        }
        for (term, hit) in terms {
            if hit.verify != EXACT {
                return None;
            }
            let before = vectors.tests.len();
            for (field, set) in term.sets() {
                let test = vectors.test(*field, set, fields);
                vectors.uses.push(test as u16);
                if test < before {
                    vectors.again.push(test as u16);
                }
                if vectors.ranges.len() > limit {
                    return None;
                }
            }
            let known = vectors
                .outputs
                .iter()
                .position(|output| *output == hit.output);
            let output = known.unwrap_or_else(|| {
                vectors.outputs.push(hit.output);
                vectors.outputs.len() - 1
            });
            vectors.terms.push(VectorTerm {
                uses: vectors.uses.len() as u32,
                again: vectors.again.len() as u32,
                steps: vectors.steps.len() as u16,
                output: output as u16,
            });
        }
        Some(vectors)
    }

    /// The number of the test for `set`.
    fn test(&mut self, field: u8, set: &Set, fields: &Fields) -> usize {
        let max = fields.as_slice()[usize::from(field)].max();
        let position = self.columns.positions()[usize::from(field)];
        let shifted = |low: u32, span: u32, mask: u32| Range {
            mask: mask << position.shift,
            low: low << position.shift,
            span: span << position.shift,
        };
        let all = |set: &Set| -> Vec<Range> {
            match set.as_masked(max) {
                Some((mask, value)) => [shifted(value, 0, mask)].into(),
                None => {
                    let ranges = set.ranges().iter();
                    ranges
                        .map(|(low, high)| shifted(*low, high - low, max))
                        .collect()
                }
            }
        };
        let (direct, inverse) = (all(set), all(&set.complement(max)));
        let inverted = inverse.len() < direct.len();
        let ranges = if inverted { inverse } else { direct };
        let found = self.tests.iter().position(|test| {
            let first = usize::from(test.first_range);
            (test.field, test.missing, test.inverted) == (field, set.missing, inverted)
                && self.ranges[first..first + usize::from(test.ranges)] == ranges
        });
        found.unwrap_or_else(|| {
            self.tests.push(Test {
                field,
                column: position.column,
                missing: set.missing,
                inverted,
                first_range: self.ranges.len() as u16,
                ranges: ranges.len() as u16,
            });
            let test = self.tests.len() - 1;
            let compared = match &ranges[..] {
                [] => &[NOTHING],
                ranges => ranges,
            };
            self.steps
                .extend(compared.iter().enumerate().map(|(i, range)| Step {
                    range: *range,
                    column: position.column,
                    last: i + 1 == compared.len(),
                    test: test as u16,
                    inverted: if inverted { u64::MAX } else { 0 },
                }));
            self.ranges.extend(ranges);
            test
        })
    }

    /// Buffers for the results of a batch.
    pub(super) fn scratch(&self) -> Scratch {
        Scratch {
            passed: alloc::vec![0; self.tests.len()],
            sent: alloc::vec![0; self.outputs.len()],
        }
    }

    /// Classifies the packets of `batch` with a bit in `pending`: passes each
    /// output with packets to `sink`, with a bit for each packet. Returns the
    /// packets that no term admits.
    pub(super) fn decide(
        &self,
        level: Level,
        batch: &Batch,
        blocks: usize,
        pending: u64,
        scratch: &mut Scratch,
        mut sink: impl FnMut(u32, u64),
    ) -> u64 {
        let left = self.decide_sets(level, batch, blocks, pending, scratch);
        for (output, sent) in self.outputs.iter().zip(&mut scratch.sent) {
            if *sent != 0 {
                sink(*output, core::mem::take(sent));
            }
        }
        left
    }

    /// As [`decide`](Self::decide), with the packets of each of the
    /// [outputs](Self::outputs) left for [`Scratch::take`].
    pub(super) fn decide_sets(
        &self,
        level: Level,
        batch: &Batch,
        blocks: usize,
        pending: u64,
        scratch: &mut Scratch,
    ) -> u64 {
        let kernel = Decide {
            vectors: self,
            batch,
            blocks,
            pending,
            scratch,
        };
        simd::run(level, kernel)
    }

    /// The outputs of terms.
    pub(super) fn outputs(&self) -> &[u32] {
        &self.outputs
    }

    /// The output of one packet, of which fields may be missing; `Err` when
    /// the packet ends inside a field of which some test needs only a part.
    pub(super) fn one(
        &self,
        headers: &Headers<'_>,
        fields: &Fields,
    ) -> Result<Option<u32>, Truncated> {
        let mut first = 0;
        for term in &self.terms {
            let uses = &self.uses[first..term.uses as usize];
            first = term.uses as usize;
            let mut all = true;
            for test in uses {
                all &= self.passes(&self.tests[usize::from(*test)], headers, fields)?;
            }
            if all {
                return Ok(Some(self.outputs[usize::from(term.output)]));
            }
        }
        Ok(None)
    }

    fn passes(
        &self,
        test: &Test,
        headers: &Headers<'_>,
        fields: &Fields,
    ) -> Result<bool, Truncated> {
        let field = &fields.as_slice()[usize::from(test.field)];
        let position = self.columns.positions()[usize::from(test.field)];
        let value = match field.presence(headers) {
            Presence::Whole => field.value(headers) << position.shift,
            Presence::Missing => return Ok(test.missing),
            Presence::Truncated => return Err(Truncated),
        };
        let mut ranges = self.ranges_of(test).iter();
        let within = |range: &Range| (value & range.mask).wrapping_sub(range.low) <= range.span;
        Ok(ranges.any(within) != test.inverted)
    }

    #[inline(always)]
    fn ranges_of(&self, test: &Test) -> &[Range] {
        let first = usize::from(test.first_range);
        &self.ranges[first..first + usize::from(test.ranges)]
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.columns.memory()
            + self.tests.len() * (size_of::<Test>() + 8)
            + self.ranges.len() * (size_of::<Range>() + size_of::<Step>())
            + self.terms.len() * size_of::<VectorTerm>()
            + (self.uses.len() + self.again.len()) * 2
            + self.outputs.len() * 12
    }
}

struct Decide<'a> {
    vectors: &'a Vectors,
    batch: &'a Batch,
    blocks: usize,
    pending: u64,
    scratch: &'a mut Scratch,
}

impl Kernel for Decide<'_> {
    /// The packets that no term admits.
    type Output = u64;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> u64 {
        let Decide {
            vectors,
            batch,
            blocks,
            mut pending,
            scratch,
        } = self;
        let passed = &mut scratch.passed[..];
        let (mut steps, mut again) = (0, 0);
        for term in &vectors.terms {
            if pending == 0 {
                break;
            }
            let (mut hits, mut within) = (pending, 0);
            for step in &vectors.steps[steps..usize::from(term.steps)] {
                let Range { mask, low, span } = step.range;
                let column = &batch.columns[usize::from(step.column)];
                // Ranges of a test do not overlap.
                within ^= simd.within(column, blocks, mask, low, span);
                if step.last {
                    within ^= step.inverted;
                    passed[usize::from(step.test)] = within;
                    hits &= within;
                    within = 0;
                }
            }
            steps = usize::from(term.steps);
            for test in &vectors.again[again..term.again as usize] {
                hits &= passed[usize::from(*test)];
            }
            again = term.again as usize;
            pending ^= hits;
            scratch.sent[usize::from(term.output)] |= hits;
        }
        pending
    }
}
