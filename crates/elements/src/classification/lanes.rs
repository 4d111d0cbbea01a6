//! Small rule sets: all packets of a batch at once.
//!
//! Each distinct set of values that rules allow a field is compared with that
//! field of all packets, which gives 64 bits, one a packet; with AVX-512, a
//! dozen instructions for the whole batch. From there on a rule is the AND
//! of its sets' bits, and what it matches is taken from the packets that are
//! still to be decided: one instruction a test for 64 packets, and no branch
//! depends on what a packet holds, so random traffic costs what regular
//! traffic does. Rules behind the one that decided the last packet are not
//! looked at.

use super::columns::{Batch, Columns};
use super::fields::{Fields, Presence};
use super::headers::Headers;
use super::intervals::Set;
use super::program::{EXACT, Hit};
use super::terms::Term;
use super::wide_tables::Cut;
use crate::prelude::*;
use simd::{Kernel, Level, Simd};

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    pub(super) columns: Columns,
    /// In the order in which terms first use them.
    tests: Vec<Test>,
    ranges: Vec<Range>,
    /// All tests' ranges, as a batch is compared with them.
    steps: Vec<Step>,
    terms: Vec<LaneTerm>,
    /// The terms' tests, one term's behind the other's.
    uses: Vec<u16>,
    /// Those that terms before use.
    again: Vec<u16>,
    /// The outputs that terms lead to.
    outputs: Vec<u32>,
}

/// Whether a field's value is in a set: in one of some ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Test {
    field: u8,
    column: u8,
    /// Packets without the field pass.
    missing: bool,
    /// It is the values in no range that pass.
    inverted: bool,
    first_range: u16,
    ranges: u16,
}

/// `(column & mask) - low <= span`, in place within the column.
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
    /// It is the test's last.
    last: bool,
    test: u16,
    /// What the test says of values in none of its ranges.
    inverted: u64,
}

/// No value is in it.
const NOTHING: Range = Range {
    mask: 0,
    low: 1,
    span: 0,
};

#[derive(Clone, Copy, Debug)]
struct LaneTerm {
    /// Where its uses end.
    uses: u32,
    /// Where its uses of tests that terms before it use end.
    again: u32,
    /// Where the steps of its other tests end.
    steps: u16,
    /// An index of `outputs`.
    output: u16,
}

/// What one batch's tests said.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    /// A word for each test.
    passed: Vec<u64>,
    /// A word for each output.
    sent: Vec<u64>,
}

impl Scratch {
    /// What goes to output number `at` of [`Lanes::outputs`]; nothing does from
    /// then on.
    #[inline(always)]
    pub(super) fn take(&mut self, at: usize) -> u64 {
        self.sent.get_mut(at).map_or(0, core::mem::take)
    }
}

impl Lanes {
    /// Takes the terms; `None` when they have more than `limit` ranges to
    /// compare, or are not the whole truth.
    pub(super) fn new(terms: &[(Term, Hit)], fields: &Fields, limit: usize) -> Option<Lanes> {
        let mut lanes = Lanes {
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
            let before = lanes.tests.len();
            for (field, set) in term.sets() {
                let test = lanes.test(*field, set, fields);
                lanes.uses.push(test as u16);
                if test < before {
                    lanes.again.push(test as u16);
                }
                if lanes.ranges.len() > limit {
                    return None;
                }
            }
            let known = lanes
                .outputs
                .iter()
                .position(|output| *output == hit.output);
            let output = known.unwrap_or_else(|| {
                lanes.outputs.push(hit.output);
                lanes.outputs.len() - 1
            });
            lanes.terms.push(LaneTerm {
                uses: lanes.uses.len() as u32,
                again: lanes.again.len() as u32,
                steps: lanes.steps.len() as u16,
                output: output as u16,
            });
        }
        Some(lanes)
    }

    /// The number of the test for `set`.
    fn test(&mut self, field: u8, set: &Set, fields: &Fields) -> usize {
        let max = fields.as_slice()[usize::from(field)].max();
        let place = self.columns.places()[usize::from(field)];
        let shifted = |low: u32, span: u32, mask: u32| Range {
            mask: mask << place.shift,
            low: low << place.shift,
            span: span << place.shift,
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
                column: place.column,
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
                    column: place.column,
                    last: i + 1 == compared.len(),
                    test: test as u16,
                    inverted: if inverted { u64::MAX } else { 0 },
                }));
            self.ranges.extend(ranges);
            test
        })
    }

    /// Room for what a batch's tests say.
    pub(super) fn scratch(&self) -> Scratch {
        Scratch {
            passed: alloc::vec![0; self.tests.len()],
            sent: alloc::vec![0; self.outputs.len()],
        }
    }

    /// Decides on the packets of `batch` with a bit in `pending`: hands each
    /// output that some go to to `sink`, with a bit for each of these. What
    /// is left is returned.
    pub(super) fn decide(
        &self,
        level: Level,
        batch: &Batch,
        blocks: usize,
        pending: u64,
        scratch: &mut Scratch,
        mut sink: impl FnMut(u32, u64),
    ) -> u64 {
        let left = self.sift(level, batch, blocks, pending, scratch);
        for (output, sent) in self.outputs.iter().zip(&mut scratch.sent) {
            if *sent != 0 {
                sink(*output, core::mem::take(sent));
            }
        }
        left
    }

    /// As [`decide`](Self::decide), with what goes to each of the
    /// [outputs](Self::outputs) left for [`Scratch::take`].
    pub(super) fn sift(
        &self,
        level: Level,
        batch: &Batch,
        blocks: usize,
        pending: u64,
        scratch: &mut Scratch,
    ) -> u64 {
        let kernel = Decide {
            lanes: self,
            batch,
            blocks,
            pending,
            scratch,
        };
        simd::run(level, kernel)
    }

    /// The outputs that terms lead to.
    pub(super) fn outputs(&self) -> &[u32] {
        &self.outputs
    }

    /// Decides on one packet, of which fields may be missing: the output;
    /// `Err` when it ends inside a field in a way that matters.
    pub(super) fn one(&self, headers: &Headers<'_>, fields: &Fields) -> Result<Option<u32>, Cut> {
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

    fn passes(&self, test: &Test, headers: &Headers<'_>, fields: &Fields) -> Result<bool, Cut> {
        let field = &fields.as_slice()[usize::from(test.field)];
        let place = self.columns.places()[usize::from(test.field)];
        let value = match field.presence(headers) {
            Presence::Whole => field.value(headers) << place.shift,
            Presence::Missing => return Ok(test.missing),
            Presence::Cut => return Err(Cut),
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
            + self.terms.len() * size_of::<LaneTerm>()
            + (self.uses.len() + self.again.len()) * 2
            + self.outputs.len() * 12
    }
}

struct Decide<'a> {
    lanes: &'a Lanes,
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
            lanes,
            batch,
            blocks,
            mut pending,
            scratch,
        } = self;
        let passed = &mut scratch.passed[..];
        let (mut steps, mut again) = (0, 0);
        for term in &lanes.terms {
            if pending == 0 {
                break;
            }
            let (mut hits, mut within) = (pending, 0);
            for step in &lanes.steps[steps..usize::from(term.steps)] {
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
            for test in &lanes.again[again..term.again as usize] {
                hits &= passed[usize::from(*test)];
            }
            again = term.again as usize;
            pending ^= hits;
            scratch.sent[usize::from(term.output)] |= hits;
        }
        pending
    }
}
