//! Large rule sets: byte tables with wide rows and a summary over them.
//!
//! Each byte of a field selects a row with a bit per term and the AND of the
//! rows has the terms that admit the packet, as in [`super::class_rows`]. Rows
//! are per byte, since a row for each class of a whole field would take too
//! much memory. With thousands of terms four things keep the work down:
//! - byte values that lead to the same terms are one *class*, and columns
//!   with few classes are joined into *groups* with a row for each
//!   combination, so that few rows are left to AND: eight for firewall rules
//!   over addresses, protocol and port, which compare fourteen bytes;
//! - rows are read [`CHUNK`] words at a time, so that the AND stays in
//!   registers;
//! - each row has a summary with a bit per chunk that is not all zero
//!   (aggregated bit vectors: Baboescu and Varghese, SIGCOMM 2001). Only
//!   chunks in the AND of the summaries are read;
//! - terms are ordered so that summaries are selective: terms that constrain
//!   the same fields are neighbours, ordered by value, so that "anything"
//!   fills whole chunks and an address occurs in few. The smallest precedence
//!   among the bits found decides, not the first bit. (In the rules' order
//!   1000 rules take 60 ns a packet and 4000 take 127, clustered 46 and 65.)

use super::fields::{Fields, MAX_BYTES, Presence};
use super::headers::{Area, Headers};
use super::hit::Hit;
use super::insertion_sort::insertion_sort;
use super::products::Products;
use crate::prelude::*;

/// Words read together.
const CHUNK: usize = 4;

type Chunk = [u64; CHUNK];

/// The most terms: a summary is one word.
pub(super) const MAX_PRODUCTS: usize = 64 * 64 * CHUNK;

/// Most rows of a group.
const GROUP_ROWS: usize = 512;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct WideTables {
    /// Group by group.
    columns: Vec<Column>,
    groups: Vec<Group>,
    /// The area lengths from which no field is missing.
    lengths: [usize; 3],
    /// A word for each row with a bit for each chunk that is not all zero.
    summaries: Vec<u64>,
    /// All rows' bitmaps, `chunks` for each.
    bitmaps: Vec<Chunk>,
    chunks: usize,
    /// Each term's precedence and outcome.
    hits: Vec<(u32, Hit)>,
    /// The smallest precedence in each chunk.
    firsts: Vec<u32>,
}

/// The classes of one byte.
#[derive(Clone, Debug)]
struct Column {
    area: u8,
    field: u8,
    offset: u16,
    /// The class of packets without the field, and of each value; multiplied,
    /// so that a group's classes add up to its row.
    missing: u16,
    classes: [u16; 256],
}

/// Columns whose classes together select a row.
#[derive(Clone, Debug)]
struct Group {
    first_column: u16,
    columns: u16,
    /// Its first row.
    base: u32,
}

impl WideTables {
    /// Builds the tables; `None` when they would take more than
    /// `memory_limit` bytes.
    pub(super) fn new(
        products: &Products,
        fields: &Fields,
        memory_limit: usize,
    ) -> Option<WideTables> {
        let order = products.clustered();
        let hit = |&i: &u32| (i, products.hit(i as usize));
        let hits: Vec<(u32, Hit)> = order.iter().map(hit).collect();
        let first = |hits: &[(u32, Hit)]| hits.iter().map(|hit| hit.0).min().unwrap_or(0);
        let chunks = hits.len().div_ceil(64 * CHUNK);
        debug_assert!(chunks <= 64);
        let mut tables = WideTables {
            columns: Vec::new(),
            groups: Vec::new(),
            lengths: [0; 3],
            summaries: Vec::new(),
            bitmaps: Vec::new(),
            chunks,
            firsts: hits.chunks(64 * CHUNK).map(first).collect(),
            hits,
        };
        let mut drafts = Vec::new();
        let mut room = memory_limit / 8;
        for (number, field) in fields.as_slice().iter().enumerate() {
            let length = &mut tables.lengths[field.area as usize];
            *length = (*length).max(field.end());
            for byte in 0..field.bytes as usize {
                let draft = Draft::new(products, &order, number as u8, byte, CHUNK * chunks);
                room = room.checked_sub(draft.rows.len())?;
                drafts.push((draft, field.area, field.offset + byte as u16));
            }
        }
        tables.group(drafts, memory_limit)?;
        Some(tables)
    }

    /// Joins columns into groups, those with few classes first, and makes the
    /// groups' rows.
    fn group(&mut self, mut drafts: Vec<(Draft, Area, u16)>, memory_limit: usize) -> Option<()> {
        insertion_sort(&mut drafts, |(draft, ..)| draft.count);
        let mut drafts = drafts.into_iter().peekable();
        while let Some((draft, area, offset)) = drafts.next() {
            let first_column = self.columns.len() as u16;
            let (mut rows, mut count) = (draft.rows.clone(), draft.count);
            self.columns.push(draft.column(area, offset, 1));
            while let Some((next, area, offset)) =
                drafts.next_if(|(next, ..)| count * next.count <= GROUP_ROWS)
            {
                rows = next.combined(&rows);
                self.columns.push(next.column(area, offset, count));
                count *= next.count;
            }
            if (self.bitmaps.len() + count * self.chunks) * size_of::<Chunk>() > memory_limit {
                return None;
            }
            self.groups.push(Group {
                first_column,
                columns: self.columns.len() as u16 - first_column,
                base: self.summaries.len() as u32,
            });
            for row in rows.chunks_exact((self.chunks * CHUNK).max(1)) {
                self.push_row(row);
            }
        }
        Some(())
    }

    fn push_row(&mut self, bits: &[u64]) {
        let chunks = bits.as_chunks().0;
        let some =
            |summary, (i, chunk): (usize, &Chunk)| summary | u64::from(*chunk != [0; CHUNK]) << i;
        self.summaries.push(chunks.iter().enumerate().fold(0, some));
        self.bitmaps.extend_from_slice(chunks);
    }

    /// Calls `decide` with terms that admit the packet. Returns the result of
    /// the first (in the rules' order) with a result; `Err` when the packet
    /// ends inside a field of which some test needs only a part.
    #[inline(always)]
    pub(super) fn find<T>(
        &self,
        headers: &Headers<'_>,
        fields: &Fields,
        decide: impl FnMut(Hit) -> Option<T>,
    ) -> Result<Option<T>, Truncated> {
        let mut rows = [0u32; MAX_BYTES];
        let areas = Area::ALL.map(|area| headers.area(area));
        if (0..3).all(|area| areas[area].len() >= self.lengths[area]) {
            for (row, group) in rows.iter_mut().zip(&self.groups) {
                let mut class = 0;
                for column in self.columns_of(group) {
                    let bytes = areas[usize::from(column.area)];
                    let byte = bytes[usize::from(column.offset)];
                    class += u32::from(column.classes[usize::from(byte)]);
                }
                *row = group.base + class;
            }
        } else {
            self.short_rows(&areas, headers, fields, &mut rows)?;
        }
        let groups = self.groups.len().min(MAX_BYTES);
        Ok(self.search(&rows[..groups], decide))
    }

    #[inline(always)]
    fn columns_of(&self, group: &Group) -> &[Column] {
        let first = usize::from(group.first_column);
        &self.columns[first..first + usize::from(group.columns)]
    }

    #[cold]
    fn short_rows(
        &self,
        areas: &[&[u8]; 3],
        headers: &Headers<'_>,
        fields: &Fields,
        rows: &mut [u32; MAX_BYTES],
    ) -> Result<(), Truncated> {
        for (row, group) in rows.iter_mut().zip(&self.groups) {
            let mut class = 0;
            for column in self.columns_of(group) {
                let field = &fields.as_slice()[usize::from(column.field)];
                class += u32::from(match field.presence(headers) {
                    Presence::Truncated => return Err(Truncated),
                    Presence::Missing => column.missing,
                    Presence::Whole => {
                        let byte = areas[usize::from(column.area)][usize::from(column.offset)];
                        column.classes[usize::from(byte)]
                    }
                });
            }
            *row = group.base + class;
        }
        Ok(())
    }

    #[inline(always)]
    fn search<T>(&self, rows: &[u32], mut decide: impl FnMut(Hit) -> Option<T>) -> Option<T> {
        let mut best = None;
        let mut bound = u32::MAX;
        let mut summary = rows
            .iter()
            .fold(u64::MAX, |and, &row| and & self.summaries[row as usize]);
        while summary != 0 {
            let chunk = summary.trailing_zeros() as usize;
            summary &= summary - 1;
            // Without columns every bit is set, also beyond the chunks.
            if self.firsts.get(chunk).is_none_or(|&first| first >= bound) {
                continue;
            }
            let mut terms = self.chunk(rows, chunk);
            while let Some(word) = terms.iter().position(|word| *word != 0) {
                let bit = 64 * word + terms[word].trailing_zeros() as usize;
                terms[word] &= terms[word] - 1;
                let Some(&(precedence, hit)) = self.hits.get(64 * CHUNK * chunk + bit) else {
                    break;
                };
                if precedence < bound
                    && let Some(decision) = decide(hit)
                {
                    best = Some(decision);
                    bound = precedence;
                }
            }
        }
        best
    }

    /// The AND of one chunk of rows. A function of its own, so that it is
    /// compiled to a few vector instructions a row whatever surrounds it.
    #[inline(never)]
    fn chunk(&self, rows: &[u32], chunk: usize) -> Chunk {
        let mut and = [u64::MAX; CHUNK];
        for &row in rows {
            let row = self.bitmaps[row as usize * self.chunks + chunk];
            and = core::array::from_fn(|i| and[i] & row[i]);
        }
        and
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.columns.len() * size_of::<Column>()
            + self.bitmaps.len() * size_of::<Chunk>()
            + self.summaries.len() * 8
            + self.hits.len() * size_of::<(u32, Hit)>()
    }
}

/// A packet ends inside a field of which some test needs only a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Truncated;

/// A column being built, with its rows.
struct Draft {
    field: u8,
    /// Number of classes.
    count: usize,
    missing: u16,
    classes: [u16; 256],
    /// The classes' bitmaps, one behind the other.
    rows: Vec<u64>,
}

impl Draft {
    /// The classes of one byte of a field, with bitmaps of `words` words.
    fn new(products: &Products, order: &[u32], field: u8, byte: usize, words: usize) -> Draft {
        let mut open = vec![0u64; words];
        let mut missing = vec![0u64; words];
        let mut table = vec![0u64; 256 * words];
        for (at, &i) in order.iter().enumerate() {
            let (word, bit) = (at / 64, 1u64 << (at % 64));
            match products.constraint(i as usize, field) {
                None => {
                    open[word] |= bit;
                    missing[word] |= bit;
                }
                Some((sets, may_miss)) => {
                    missing[word] |= if may_miss { bit } else { 0 };
                    for value in sets[byte].iter() {
                        table[usize::from(value) * words + word] |= bit;
                    }
                }
            }
        }
        let mut classes = Classes::new(words);
        let mut draft = Draft {
            field,
            count: 0,
            missing: classes.of(&missing),
            classes: [0; 256],
            rows: Vec::new(),
        };
        for (class, bits) in draft
            .classes
            .iter_mut()
            .zip(table.chunks_exact_mut(words.max(1)))
        {
            for (word, open) in bits.iter_mut().zip(&open) {
                *word |= open;
            }
            *class = classes.of(bits);
        }
        draft.count = classes.rows.len() / words.max(1);
        draft.rows = classes.rows;
        draft
    }

    /// The column, in a group whose columns so far have `before` rows.
    fn column(&self, area: Area, offset: u16, before: usize) -> Column {
        Column {
            area: area as u8,
            field: self.field,
            offset,
            missing: self.missing * before as u16,
            classes: self.classes.map(|class| class * before as u16),
        }
    }

    /// A row for each of `rows` with each of the column's own.
    fn combined(&self, rows: &[u64]) -> Vec<u64> {
        let words = self.rows.len() / self.count;
        let mut out = Vec::with_capacity(rows.len() * self.count);
        for own in self.rows.chunks_exact(words) {
            for row in rows.chunks_exact(words) {
                out.extend(row.iter().zip(own).map(|(a, b)| a & b));
            }
        }
        out
    }
}

/// Numbers bitmaps by content.
struct Classes {
    words: usize,
    rows: Vec<u64>,
    /// Class numbers, found by hash; [`FREE`] is free. There are at most 257
    /// classes.
    slots: [u16; 1024],
}

const FREE: u16 = u16::MAX;

impl Classes {
    fn new(words: usize) -> Classes {
        Classes {
            words,
            rows: Vec::new(),
            slots: [FREE; 1024],
        }
    }

    fn of(&mut self, bits: &[u64]) -> u16 {
        let mix = |hash: u64, &word: &u64| {
            (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        };
        let mut slot = (bits.iter().fold(0, mix) >> 32) as usize % self.slots.len();
        while self.slots[slot] != FREE {
            let at = usize::from(self.slots[slot]) * self.words;
            if &self.rows[at..at + self.words] == bits {
                return self.slots[slot];
            }
            slot = (slot + 1) % self.slots.len();
        }
        let class = (self.rows.len() / self.words.max(1)) as u16;
        self.rows.extend_from_slice(bits);
        self.slots[slot] = class;
        class
    }
}
