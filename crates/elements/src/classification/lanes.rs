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
use alloc::vec::Vec;
use simd::{Kernel, Level, Simd};

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    pub(super) columns: Columns,
    /// In the order in which terms first use them.
    tests: Vec<Test>,
    ranges: Vec<Range>,
    terms: Vec<LaneTerm>,
    /// The terms' tests, one term's behind the other's.
    uses: Vec<u16>,
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

#[derive(Clone, Copy, Debug)]
struct LaneTerm {
    /// Where its uses end.
    uses: u32,
    /// The tests up to here are used by it and those before it.
    tests: u16,
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

impl Lanes {
    /// Takes the terms; `None` when they have more than `limit` ranges to
    /// compare, or are not the whole truth.
    pub(super) fn new(terms: &[(Term, Hit)], fields: &Fields, limit: usize) -> Option<Lanes> {
        let mut lanes = Lanes {
            columns: Columns::new(fields)?,
            tests: Vec::new(),
            ranges: Vec::new(),
            terms: Vec::with_capacity(terms.len()),
            uses: Vec::new(),
            outputs: Vec::new(),
        };
        if terms.len() > 16 * limit {
            return None;
        }
        for (term, hit) in terms {
            if hit.verify != EXACT {
                return None;
            }
            for (field, set) in term.sets() {
                let test = lanes.test(*field, set, fields);
                lanes.uses.push(test as u16);
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
                tests: lanes.tests.len() as u16,
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
            self.ranges.extend(ranges);
            self.tests.len() - 1
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
        let kernel = Decide {
            lanes: self,
            batch,
            blocks,
            pending,
            scratch,
        };
        let left = simd::run(level, kernel);
        for (output, sent) in self.outputs.iter().zip(&mut scratch.sent) {
            if *sent != 0 {
                sink(*output, core::mem::take(sent));
            }
        }
        left
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
            + self.ranges.len() * size_of::<Range>()
            + self.terms.len() * size_of::<LaneTerm>()
            + self.uses.len() * 2
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
        let passed = &mut scratch.passed[..lanes.tests.len()];
        let (mut known, mut first) = (0, 0);
        for term in &lanes.terms {
            if pending == 0 {
                break;
            }
            let tests = usize::from(term.tests);
            for (test, passed) in lanes.tests[known..tests].iter().zip(&mut passed[known..]) {
                let column = &batch.columns[usize::from(test.column)];
                let mut bits = if test.inverted { u64::MAX } else { 0 };
                for range in lanes.ranges_of(test) {
                    bits ^= simd.within(column, blocks, range.mask, range.low, range.span);
                }
                *passed = bits;
            }
            known = tests;
            let uses = &lanes.uses[first..term.uses as usize];
            first = term.uses as usize;
            let hits = uses
                .iter()
                .fold(pending, |hits, test| hits & passed[usize::from(*test)]);
            pending ^= hits;
            scratch.sent[usize::from(term.output)] |= hits;
        }
        pending
    }
}
