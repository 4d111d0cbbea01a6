//! Middling rule sets: a class for each field, and a row for each class.
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

use super::columns::{Batch, Columns, LANES};
use super::few::sort_few;
use super::fields::{Fields, Presence};
use super::headers::Headers;
use super::program::{DROP, EXACT, Hit};
use super::terms::Term;
use super::wide_tables::Cut;
use crate::prelude::*;
use simd::{BLOCK, Baseline, Kernel, Level, Simd};

/// Rows of a group of several fields at most.
const GROUP_ROWS: usize = 512;
/// Groups at most.
pub(super) const MAX_GROUPS: usize = 6;
/// Children of a tree's node.
const FAN: usize = BLOCK + 1;

/// See the module's text. `N` words make a row.
#[derive(Clone, Debug)]
pub(super) struct ClassRows<const N: usize> {
    pub(super) columns: Columns,
    searches: Vec<Search>,
    /// Where each group's rows start.
    bases: Vec<u32>,
    rows: Vec<[u64; N]>,
    /// For each term; the last one admits every packet.
    hits: Vec<Hit>,
    /// Rules say all: no term needs verifying.
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

/// The last values of all intervals but the last one, in a tree: a node
/// holds the last value of each child's part, a leaf those of 16 intervals.
#[derive(Clone, Debug)]
struct Tree {
    /// From the root to the leaves.
    levels: Vec<Vec<[u32; BLOCK]>>,
}

impl Tree {
    fn new(ends: &[u32]) -> Tree {
        let mut levels = vec![nodes(ends, BLOCK)];
        let last = |part: &[u32]| part.last().copied().unwrap_or(u32::MAX);
        let mut lasts: Vec<u32> = ends.chunks(BLOCK).map(last).collect();
        while lasts.len() > 1 {
            // What is greater than every end is in the last child too.
            if let Some(last) = lasts.last_mut() {
                *last = u32::MAX;
            }
            levels.push(nodes(&lasts, FAN));
            lasts = lasts.chunks(FAN).map(last).collect();
        }
        levels.reverse();
        Tree { levels }
    }

    /// How many ends are before `value`: its interval.
    #[inline(always)]
    fn find<S: Simd, const DEPTH: usize>(
        simd: S,
        levels: &[&[[u32; BLOCK]]; DEPTH],
        value: u32,
    ) -> usize {
        let mut node = 0;
        for nodes in &levels[..DEPTH - 1] {
            node = node * FAN + simd.rank(&nodes[node], value) as usize;
        }
        node * BLOCK + simd.rank(&levels[DEPTH - 1][node], value) as usize
    }

    fn find_any(&self, value: u32) -> usize {
        let (leaves, inner) = match self.levels.split_last() {
            Some(split) => split,
            None => return 0,
        };
        let mut node = 0;
        for nodes in inner {
            node = node * FAN + Baseline.rank(&nodes[node], value) as usize;
        }
        node * BLOCK + Baseline.rank(&leaves[node], value) as usize
    }

    fn depth<const DEPTH: usize>(&self) -> Option<[&[[u32; BLOCK]]; DEPTH]> {
        let levels = <&[Vec<_>; DEPTH]>::try_from(&self.levels[..]).ok()?;
        Some(levels.each_ref().map(|level| &level[..]))
    }
}

/// One level: `width` values a node, of which the first 16 are kept. What is
/// left over is no value's bound.
fn nodes(values: &[u32], width: usize) -> Vec<[u32; BLOCK]> {
    let node = |part: &[u32]| {
        let mut node = [u32::MAX; BLOCK];
        for (key, value) in node.iter_mut().zip(part) {
            *key = *value;
        }
        node
    };
    match values {
        [] => vec![[u32::MAX; BLOCK]],
        _ => values.chunks(width).map(node).collect(),
    }
}

impl<const N: usize> ClassRows<N> {
    /// Builds the rows; `None` when there are more terms than bits, when no
    /// term looks at anything, or when the rows would take more than
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
        let mut rows = ClassRows {
            columns: Columns::new(fields)?,
            searches: Vec::with_capacity(drafts.len()),
            bases: Vec::new(),
            rows: Vec::new(),
            hits,
            exact: terms.iter().all(|(_, hit)| hit.verify == EXACT),
        };
        rows.group(drafts, fields);
        let fits = rows.rows.len() * size_of::<[u64; N]>() <= memory_limit;
        (fits && rows.bases.len() <= MAX_GROUPS).then_some(rows)
    }

    /// Joins fields into groups, those with few classes first.
    fn group(&mut self, mut drafts: Vec<Draft<N>>, fields: &Fields) {
        sort_few(&mut drafts, |draft| draft.rows.len());
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
            self.bases.push(self.rows.len() as u32);
            self.rows.append(&mut rows);
        }
    }

    /// Adds a field to the group at work, whose fields so far have `before`
    /// rows.
    fn search(&mut self, draft: Draft<N>, before: usize, fields: &Fields) {
        let place = self.columns.places()[usize::from(draft.field)];
        let class = |class: &u16| u32::from(*class) * before as u32;
        self.searches.push(Search {
            field: draft.field,
            column: place.column,
            shift: place.shift,
            group: self.bases.len() as u8,
            max: fields.as_slice()[usize::from(draft.field)].max(),
            tree: Tree::new(&draft.ends),
            classes: draft.classes.iter().map(class).collect(),
            missing: class(&draft.missing),
        });
    }

    /// What the lowest term says that admits each of the first `count`
    /// packets of `batch`.
    #[inline]
    pub(super) fn decide(
        &self,
        level: Level,
        batch: &Batch,
        count: usize,
        rows: &mut [[u32; LANES]; MAX_GROUPS],
        outputs: &mut [u32; LANES],
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
    /// be missing, in order, until it says something; `Err` when the packet
    /// ends inside a field in a way that matters.
    pub(super) fn one<T>(
        &self,
        headers: &Headers<'_>,
        fields: &Fields,
        mut decide: impl FnMut(Hit) -> Option<T>,
    ) -> Result<Option<T>, Cut> {
        let mut at = [0u32; MAX_GROUPS];
        for (at, base) in at.iter_mut().zip(&self.bases) {
            *at = *base;
        }
        for search in &self.searches {
            let field = &fields.as_slice()[usize::from(search.field)];
            at[usize::from(search.group)] += match field.presence(headers) {
                Presence::Whole => search.classes[search.tree.find_any(field.value(headers))],
                Presence::Missing => search.missing,
                Presence::Cut => return Err(Cut),
            };
        }
        let groups = &at[..self.bases.len()];
        for word in 0..N {
            let and = |and: u64, row: &u32| and & self.rows[*row as usize][word];
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
        let search = |search: &Search| {
            let nodes: usize = search.tree.levels.iter().map(Vec::len).sum();
            size_of::<Search>() + nodes * size_of::<[u32; BLOCK]>() + 4 * search.classes.len()
        };
        self.columns.memory()
            + self.searches.iter().map(search).sum::<usize>()
            + self.rows.len() * size_of::<[u64; N]>()
            + self.hits.len() * size_of::<Hit>()
    }
}

struct Decide<'a, const N: usize> {
    tables: &'a ClassRows<N>,
    batch: &'a Batch,
    count: usize,
    rows: &'a mut [[u32; LANES]; MAX_GROUPS],
    outputs: &'a mut [u32; LANES],
}

impl<const N: usize> Kernel for Decide<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let tables = self.tables;
        let count = self.count.min(LANES);
        for (rows, base) in self.rows.iter_mut().zip(&tables.bases) {
            *rows = [*base; LANES];
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
        levels: &[&[[u32; BLOCK]]; DEPTH],
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
    /// The outputs of the lowest terms; `R` rows are looked at, those beyond
    /// the groups there are being the first group's again.
    #[inline(always)]
    fn first_terms<S: Simd, const R: usize>(
        &self,
        simd: S,
        rows: &[[u32; LANES]; MAX_GROUPS],
        outputs: &mut [u32],
    ) {
        let group = |i: usize| if i < self.bases.len() { i } else { 0 };
        let groups: [&[u32; LANES]; R] = core::array::from_fn(|i| &rows[group(i)]);
        for (i, output) in outputs.iter_mut().enumerate() {
            let rows = groups.map(|group| &self.rows[group[i % LANES] as usize]);
            let bit = simd.first_common(rows).unwrap_or(0) as usize;
            *output = self.hits.get(bit).map_or(DROP, |hit| hit.output);
        }
    }
}

/// A field's classes in the making.
struct Draft<const N: usize> {
    field: u8,
    /// The last values of the intervals but the last.
    ends: Vec<u32>,
    classes: Vec<u16>,
    missing: u16,
    rows: Vec<[u64; N]>,
}

impl<const N: usize> Draft<N> {
    /// `None` when there are more than `room` classes.
    fn new(terms: &[(Term, Hit)], field: u8, max: u32, room: usize) -> Option<Draft<N>> {
        // Terms that take no interest in the field, and the last one, admit any value.
        let mut row = [0u64; N];
        let mut missing = row;
        set(&mut row, terms.len());
        set(&mut missing, terms.len());
        // Where a term's bit changes: from this value on.
        let mut changes: Vec<(u32, u32)> = Vec::new();
        for (bit, (term, _)) in terms.iter().enumerate() {
            match term.sets().iter().find(|(f, _)| *f == field) {
                None => {
                    set(&mut row, bit);
                    set(&mut missing, bit);
                }
                Some((_, values)) => {
                    if values.missing {
                        set(&mut missing, bit);
                    }
                    for &(low, high) in values.ranges() {
                        changes.push((low, bit as u32));
                        if high < max {
                            changes.push((high + 1, bit as u32));
                        }
                    }
                }
            }
        }
        changes.sort_unstable();
        let mut numbers = Numbers::default();
        let mut draft = Draft {
            field,
            ends: Vec::new(),
            classes: Vec::new(),
            missing: 0,
            rows: Vec::new(),
        };
        let mut start = 0;
        for change in changes.chunk_by(|a, b| a.0 == b.0) {
            let at = change[0].0;
            if at > start {
                let class = numbers.of(&row, &mut draft.rows, room)?;
                draft.push(class, Some(at - 1));
                start = at;
            }
            for (_, bit) in change {
                row[*bit as usize / 64] ^= 1 << (bit % 64);
            }
        }
        let class = numbers.of(&row, &mut draft.rows, room)?;
        draft.push(class, None);
        draft.missing = numbers.of(&missing, &mut draft.rows, room)?;
        Some(draft)
    }

    /// Adds an interval that ends with `end`; `None`: with the largest value.
    /// One of the same class as the one before only lengthens that.
    fn push(&mut self, class: u16, end: Option<u32>) {
        if self.classes.last() == Some(&class) {
            self.ends.pop();
        } else {
            self.classes.push(class);
        }
        self.ends.extend(end);
    }

    /// A row for each of `rows` with each of the field's own.
    fn combined(&self, rows: &[[u64; N]]) -> Vec<[u64; N]> {
        let and = |own: &[u64; N], row: &[u64; N]| core::array::from_fn(|i| own[i] & row[i]);
        let own = self.rows.iter();
        own.flat_map(|own| rows.iter().map(move |row| and(own, row)))
            .collect()
    }
}

fn set<const N: usize>(row: &mut [u64; N], bit: usize) {
    row[bit / 64] |= 1 << (bit % 64);
}

/// Numbers rows by content.
#[derive(Default)]
struct Numbers<const N: usize> {
    known: hashbrown::HashMap<[u64; N], u16>,
}

impl<const N: usize> Numbers<N> {
    /// `None` when there would be more than `room` rows.
    fn of(&mut self, row: &[u64; N], rows: &mut Vec<[u64; N]>, room: usize) -> Option<u16> {
        if let Some(number) = self.known.get(row) {
            return Some(*number);
        }
        let number = u16::try_from(rows.len()).ok()?;
        if rows.len() >= room {
            return None;
        }
        rows.push(*row);
        self.known.insert(*row, number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn trees_find_the_interval(
            ends in proptest::collection::btree_set(any::<u32>(), 0..700),
            small in proptest::collection::btree_set(0u32..40, 0..40),
            values in proptest::collection::vec(any::<u32>(), 30),
        ) {
            for ends in [ends, small] {
                let ends: Vec<u32> = ends.into_iter().filter(|end| *end < u32::MAX).collect();
                let tree = Tree::new(&ends);
                let near = ends.iter().flat_map(|&e| [e.saturating_sub(1), e, e + 1]);
                for value in values.iter().copied().chain(near).chain([0, u32::MAX]) {
                    let expected = ends.iter().filter(|end| **end < value).count();
                    prop_assert_eq!(tree.find_any(value), expected);
                    if let Some(levels) = tree.depth::<3>() {
                        prop_assert_eq!(Tree::find(Baseline, &levels, value), expected);
                    }
                }
            }
        }
    }
}
