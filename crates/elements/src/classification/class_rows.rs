//! Medium rule sets: classes of each field's values, and a row for each class.
//!
//! The bounds of all ranges that rules allow a field cut its values into
//! intervals; intervals that admit the same terms are one *class*, and a
//! class has a row with a bit for each term. A packet's classes are found by
//! searching the intervals in a tree of 16 bounds a node (one vector
//! comparison; 4 624 intervals are three of them), with no branch that
//! depends on the packet, so that the searches of several packets overlap.
//! Fields with few classes are joined into *groups* with a row for each
//! combination. The AND of the groups' rows (three for rules over addresses,
//! protocol and ports) has the terms that admit the packet, in the rules'
//! order: the lowest bit decides. (Bit vectors: Lakshman and Stiliadis,
//! SIGCOMM 1998.)

mod classes;
mod tree;

use super::columns::{Batch, Columns, WIDTH};
use super::fields::{Fields, Presence};
use super::headers::Headers;
use super::hit::{DROP, EXACT, Hit};
use super::insertion_sort::insertion_sort;
use super::terms::Term;
use super::wide_tables::Truncated;
use crate::prelude::*;
use classes::Draft;
use simd::{Aligned, BLOCK, Kernel, Level, Simd};
use tree::Tree;

/// Most rows of a group of several fields.
const GROUP_ROWS: usize = 512;
/// Most groups.
pub(super) const MAX_GROUPS: usize = 6;
/// See the module's documentation. A row has `N` words.
#[derive(Clone, Debug)]
pub(super) struct ClassRows<const N: usize> {
    pub(super) columns: Columns,
    searches: Vec<Search>,
    /// Where each group's rows start.
    bases: Vec<u32>,
    /// The rows' words, one row behind the other.
    words: Vec<Aligned<[u64; 8]>>,
    /// For each term; the last one admits every packet.
    hits: Vec<Hit>,
    /// No term needs verifying.
    pub(super) exact: bool,
}

/// How a field's value becomes its class.
#[derive(Clone, Debug)]
struct Search {
    field: u8,
    column: u8,
    shift: u8,
    group: u8,
    max: u32,
    tree: Tree,
    /// Each interval's class, and that of packets without the field;
    /// multiplied, so that a group's classes add up to its row.
    classes: Vec<u32>,
    missing: u32,
}

impl<const N: usize> ClassRows<N> {
    /// Builds the rows; `None` when there are more terms than bits, when no
    /// term reads a field, or when the rows would take more than
    /// `memory_limit` bytes.
    pub(super) fn new(
        terms: &[(Term, Hit)],
        fields: &Fields,
        memory_limit: usize,
    ) -> Option<ClassRows<N>> {
        if terms.len() >= 64 * N || fields.as_slice().is_empty() {
            return None;
        }
        let mut drafts = Vec::with_capacity(fields.as_slice().len());
        let mut room = memory_limit / size_of::<[u64; N]>();
        for (number, field) in fields.as_slice().iter().enumerate() {
            let draft = Draft::<N>::new(terms, number as u8, field.max(), room)?;
            room -= draft.rows.len();
            drafts.push(draft);
        }
        let nothing = Hit {
            output: DROP,
            verify: EXACT,
        };
        let hits = terms.iter().map(|(_, hit)| *hit).chain([nothing]).collect();
        let mut tables = ClassRows {
            columns: Columns::new(fields)?,
            searches: Vec::with_capacity(drafts.len()),
            bases: Vec::new(),
            words: Vec::new(),
            hits,
            exact: terms.iter().all(|(_, hit)| hit.verify == EXACT),
        };
        let rows = tables.group(drafts, fields);
        if size_of_val(&rows[..]) > memory_limit || tables.bases.len() > MAX_GROUPS {
            return None;
        }
        let words = rows.as_flattened().chunks(8);
        tables.words = words.map(|words| Aligned(filled(words))).collect();
        Some(tables)
    }

    /// Joins fields into groups, those with few classes first. Returns the
    /// rows of all groups.
    fn group(&mut self, mut drafts: Vec<Draft<N>>, fields: &Fields) -> Vec<[u64; N]> {
        let mut all = Vec::new();
        insertion_sort(&mut drafts, |draft| draft.rows.len());
        let mut drafts = drafts.into_iter().peekable();
        while let Some(draft) = drafts.next() {
            let mut rows = draft.rows.clone();
            self.search(draft, 1, fields);
            while let Some(next) = drafts.next_if(|next| rows.len() * next.rows.len() <= GROUP_ROWS)
            {
                let before = rows.len();
                rows = next.combined(&rows);
                self.search(next, before, fields);
            }
            self.bases.push(all.len() as u32);
            all.append(&mut rows);
        }
        all
    }

    #[inline(always)]
    fn rows(&self) -> &[[u64; N]] {
        Aligned::flattened(&self.words).as_chunks().0
    }

    /// Adds a field to the current group, whose fields so far have `before`
    /// rows.
    fn search(&mut self, draft: Draft<N>, before: usize, fields: &Fields) {
        let position = self.columns.positions()[usize::from(draft.field)];
        let class = |class: &u16| u32::from(*class) * before as u32;
        self.searches.push(Search {
            field: draft.field,
            column: position.column,
            shift: position.shift,
            group: self.bases.len() as u8,
            max: fields.as_slice()[usize::from(draft.field)].max(),
            tree: Tree::new(&draft.ends),
            classes: draft.classes.iter().map(class).collect(),
            missing: class(&draft.missing),
        });
    }

    /// The outputs of the first `count` packets of `batch`: those of the
    /// lowest terms that admit them.
    #[inline]
    pub(super) fn decide(
        &self,
        level: Level,
        batch: &Batch,
        count: usize,
        rows: &mut [Aligned<[u32; WIDTH]>; MAX_GROUPS],
        outputs: &mut [u32; WIDTH],
    ) {
        let kernel = Decide {
            tables: self,
            batch,
            count,
            rows,
            outputs,
        };
        simd::run(level, kernel);
    }

    /// Calls `decide` with the terms that admit a packet, of which fields may
    /// be missing, in order, until it returns a result; `Err` when the packet
    /// ends inside a field of which some test needs only a part.
    pub(super) fn one<T>(
        &self,
        headers: &Headers<'_>,
        fields: &Fields,
        mut decide: impl FnMut(Hit) -> Option<T>,
    ) -> Result<Option<T>, Truncated> {
        let mut at = [0u32; MAX_GROUPS];
        for (at, base) in at.iter_mut().zip(&self.bases) {
            *at = *base;
        }
        for search in &self.searches {
            let field = &fields.as_slice()[usize::from(search.field)];
            at[usize::from(search.group)] += match field.presence(headers) {
                Presence::Whole => search.classes[search.tree.find_any(field.value(headers))],
                Presence::Missing => search.missing,
                Presence::Truncated => return Err(Truncated),
            };
        }
        let rows = self.rows();
        let mut groups = [&[0; N]; MAX_GROUPS];
        let groups = &mut groups[..self.bases.len()];
        for (group, row) in groups.iter_mut().zip(at) {
            *group = &rows[row as usize];
        }
        for word in 0..N {
            let and = |and, row: &&[u64; N]| and & row[word];
            let mut bits = groups.iter().fold(u64::MAX, and);
            while bits != 0 {
                let bit = 64 * word + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let Some(hit) = self.hits.get(bit) else {
                    return Ok(None);
                };
                if let Some(said) = decide(*hit) {
                    return Ok(Some(said));
                }
            }
        }
        Ok(None)
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        let search =
            |search: &Search| size_of::<Search>() + search.tree.memory() + 4 * search.classes.len();
        self.columns.memory()
            + self.searches.iter().map(search).sum::<usize>()
            + size_of_val(&self.words[..])
            + self.hits.len() * size_of::<Hit>()
    }
}

/// The words, and zeros behind them.
fn filled(words: &[u64]) -> [u64; 8] {
    core::array::from_fn(|i| words.get(i).copied().unwrap_or(0))
}

struct Decide<'a, const N: usize> {
    tables: &'a ClassRows<N>,
    batch: &'a Batch,
    count: usize,
    rows: &'a mut [Aligned<[u32; WIDTH]>; MAX_GROUPS],
    outputs: &'a mut [u32; WIDTH],
}

impl<const N: usize> Kernel for Decide<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let tables = self.tables;
        let count = self.count.min(WIDTH);
        for (rows, base) in self.rows.iter_mut().zip(&tables.bases) {
            **rows = [*base; WIDTH];
        }
        for search in &tables.searches {
            let column = &self.batch.columns[usize::from(search.column)][..count];
            let rows = &mut self.rows[usize::from(search.group)][..count];
            if let Some(levels) = search.tree.depth::<1>() {
                search.add(simd, &levels, column, rows);
            } else if let Some(levels) = search.tree.depth::<2>() {
                search.add(simd, &levels, column, rows);
            } else if let Some(levels) = search.tree.depth::<3>() {
                search.add(simd, &levels, column, rows);
            } else if let Some(levels) = search.tree.depth::<4>() {
                search.add(simd, &levels, column, rows);
            }
        }
        let outputs = &mut self.outputs[..count];
        if tables.bases.len() <= 3 {
            tables.first_terms::<S, 3>(simd, self.rows, outputs);
        } else {
            tables.first_terms::<S, MAX_GROUPS>(simd, self.rows, outputs);
        }
    }
}

impl Search {
    /// Adds each packet's class to its row.
    #[inline(always)]
    fn add<S: Simd, const DEPTH: usize>(
        &self,
        simd: S,
        levels: &[&[Aligned<[u32; BLOCK]>]; DEPTH],
        column: &[u32],
        rows: &mut [u32],
    ) {
        for (word, row) in column.iter().zip(rows) {
            let value = (word >> self.shift) & self.max;
            *row += self.classes[Tree::find(simd, levels, value)];
        }
    }
}

impl<const N: usize> ClassRows<N> {
    /// The outputs of the lowest terms. `R` rows are read; beyond the last
    /// group, the first group's row is read again.
    #[inline(always)]
    fn first_terms<S: Simd, const R: usize>(
        &self,
        simd: S,
        rows: &[Aligned<[u32; WIDTH]>; MAX_GROUPS],
        outputs: &mut [u32],
    ) {
        let group = |i: usize| if i < self.bases.len() { i } else { 0 };
        let groups: [&[u32; WIDTH]; R] = core::array::from_fn(|i| &*rows[group(i)]);
        let words = self.rows();
        for (i, output) in outputs.iter_mut().enumerate() {
            let rows = groups.map(|group| &words[group[i % WIDTH] as usize]);
            let bit = simd.first_common(rows).unwrap_or(0) as usize;
            *output = self.hits.get(bit).map_or(DROP, |hit| hit.output);
        }
    }
}
