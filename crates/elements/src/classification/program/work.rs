//! Classification of a batch's packets, by a program's matcher.

use super::super::class_rows::{ClassRows, MAX_GROUPS};
use super::super::columns::{Batch, Columns, WIDTH};
use super::super::fields::Fields;
use super::super::headers::{Headers, View};
use super::super::rules::Rules;
use super::super::vectors::{Scratch, Vectors};
use super::super::wide_tables::Truncated;
use super::{DROP, EXACT, Hit, Matcher, first_bits};
use crate::prelude::*;
use simd::{Aligned, BLOCK, Kernel, Level, Simd};

/// Buffers of a batch's classification, reused for each batch.
#[derive(Clone, Debug)]
pub(super) struct Work {
    batch: Batch,
    vectors: Scratch,
    rows: [Aligned<[u32; WIDTH]>; MAX_GROUPS],
    pub(super) outputs: Aligned<[u32; WIDTH]>,
    pub(super) sets: OutputSets,
}

/// Outputs, each with a bit for each packet.
#[derive(Clone, Debug)]
pub(super) struct OutputSets(pub(super) Vec<(u32, u64)>);

impl OutputSets {
    /// Adds packets to `output`.
    #[inline(always)]
    fn add(&mut self, output: u32, packets: u64) {
        match self.0.iter_mut().find(|set| set.0 == output) {
            Some(set) => set.1 |= packets,
            None => self.0.push((output, packets)),
        }
    }
}

/// The packets with a bit in `bits`, by number; there are few, if any.
#[inline(always)]
fn selected<'p>(
    packets: impl Iterator<Item = impl View<'p>>,
    bits: u64,
) -> impl Iterator<Item = (usize, Headers<'p>)> {
    let packets = packets.enumerate().take(if bits == 0 { 0 } else { WIDTH });
    let selected = packets.filter(move |(i, _)| bits >> i & 1 == 1);
    selected.map(|(i, view)| (i, view.headers()))
}

impl Work {
    pub(super) fn new(matcher: &Matcher) -> Work {
        let (columns, vectors) = match matcher {
            Matcher::Vectors(vectors) => (Some(&vectors.columns), vectors.scratch()),
            Matcher::Rows4(rows) => (Some(&rows.columns), Scratch::default()),
            Matcher::Rows16(rows) => (Some(&rows.columns), Scratch::default()),
            Matcher::Rows32(rows) => (Some(&rows.columns), Scratch::default()),
            _ => (None, Scratch::default()),
        };
        Work {
            batch: columns.map(Columns::batch).unwrap_or_default(),
            vectors,
            rows: [Aligned([0; WIDTH]); MAX_GROUPS],
            outputs: Aligned([DROP; WIDTH]),
            sets: OutputSets(Vec::with_capacity(WIDTH)),
        }
    }

    #[inline(always)]
    pub(super) fn by_vectors<'p>(
        &mut self,
        vectors: &Vectors,
        level: Level,
        single: &SinglePackets<'_>,
        packets: impl Iterator<Item = impl View<'p>> + Clone,
    ) {
        let sets = &mut self.sets;
        let (count, short) = vectors.columns.fill(&mut self.batch, packets.clone());
        for (i, headers) in selected(packets, short) {
            sets.add(single.by_vectors(vectors, &headers), 1 << i);
        }
        let (pending, blocks) = (first_bits(count) & !short, count.div_ceil(BLOCK));
        let left = vectors.decide(
            level,
            &self.batch,
            blocks,
            pending,
            &mut self.vectors,
            |output, packets| sets.add(output, packets),
        );
        if left != 0 {
            sets.add(DROP, left);
        }
    }

    #[inline(always)]
    pub(super) fn by_rows<'p, const N: usize>(
        &mut self,
        rows: &ClassRows<N>,
        level: Level,
        single: &SinglePackets<'_>,
        packets: impl Iterator<Item = impl View<'p>> + Clone,
    ) {
        let sets = &mut self.sets;
        let (count, short) = rows.columns.fill(&mut self.batch, packets.clone());
        for (i, headers) in selected(packets, short) {
            sets.add(single.by_rows(rows, &headers), 1 << i);
        }
        rows.decide(level, &self.batch, count, &mut self.rows, &mut self.outputs);
        self.group(level, count, first_bits(count) & !short);
    }

    /// Adds the packets in `pending`, of `count`, to the sets of their
    /// `outputs`.
    pub(super) fn group(&mut self, level: Level, count: usize, pending: u64) {
        let Work { outputs, sets, .. } = self;
        let kernel = GroupByOutput {
            outputs,
            blocks: count.div_ceil(BLOCK),
            pending,
            sets,
        };
        simd::run(level, kernel);
    }
}

struct GroupByOutput<'a> {
    outputs: &'a [u32; WIDTH],
    blocks: usize,
    pending: u64,
    sets: &'a mut OutputSets,
}

impl Kernel for GroupByOutput<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let mut pending = self.pending;
        while pending != 0 {
            let output = self.outputs[pending.trailing_zeros() as usize % WIDTH];
            let same = simd.within(self.outputs, self.blocks, u32::MAX, output, 0) & pending;
            self.sets.add(output, same);
            pending ^= same;
        }
    }
}

/// Classifies single packets.
pub(super) struct SinglePackets<'a> {
    pub(super) rules: &'a Rules,
    pub(super) fields: &'a Fields,
}

impl SinglePackets<'_> {
    pub(super) fn classify(&self, matcher: &Matcher, headers: &Headers<'_>) -> u32 {
        match matcher {
            Matcher::Constant(output) => output.unwrap_or(DROP),
            Matcher::Vectors(vectors) => self.by_vectors(vectors, headers),
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
    fn by_vectors(&self, vectors: &Vectors, headers: &Headers<'_>) -> u32 {
        match vectors.one(headers, self.fields) {
            Ok(output) => output.unwrap_or(DROP),
            Err(Truncated) => self.by_rules(headers),
        }
    }

    #[cold]
    pub(super) fn by_rows<const N: usize>(
        &self,
        rows: &ClassRows<N>,
        headers: &Headers<'_>,
    ) -> u32 {
        match rows.one(headers, self.fields, |hit| self.decide(hit, headers)) {
            Ok(output) => output.unwrap_or(DROP),
            Err(Truncated) => self.by_rules(headers),
        }
    }

    /// The output of a term that admits the packet; `None` if its rule does
    /// not match after all.
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
