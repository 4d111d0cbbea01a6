//! Large rule sets: one lookup per field, then the AND of a few bitmaps.
//!
//! The values of each field fall into intervals within which no term changes
//! its mind; intervals with the same terms share a row. A row is a bitmap
//! with a bit per term, and above it a summary with a bit per 64 terms that
//! says where the bitmap is not zero (aggregated bit vectors: Baboescu and
//! Varghese, SIGCOMM 2001). A packet's rows are found by [`Locator`]; the AND
//! of their summaries leaves few words to look at, and the lowest bit in them
//! decides. Work grows with the logarithm of the rules, and then with one
//! summary word per 4096 terms.

use super::fields::{Field, Fields, MAX_FIELDS, Presence};
use super::headers::{Area, Headers};
use super::locator::Locator;
use super::program::Hit;
use super::terms::Term;
use alloc::vec;
use alloc::vec::Vec;

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Bitmaps {
    columns: Vec<Column>,
    /// All columns' rows: `summary_words` words of summary, then the bitmap.
    words: Vec<u64>,
    summary_words: usize,
    stride: usize,
    lengths: [usize; 3],
    hits: Vec<Hit>,
}

/// One field's way from value to row.
#[derive(Clone, Debug)]
struct Column {
    field: Field,
    locator: Locator,
    /// The row of packets without the field.
    missing: u32,
}

impl Bitmaps {
    /// Builds the bitmaps; `None` when they would take more than
    /// `memory_limit` bytes.
    pub(super) fn new(
        terms: &[(Term, Hit)],
        fields: &Fields,
        memory_limit: usize,
    ) -> Option<Bitmaps> {
        let bitmap_words = terms.len().div_ceil(64);
        let summary_words = bitmap_words.div_ceil(64);
        let mut bitmaps = Bitmaps {
            columns: Vec::new(),
            words: Vec::new(),
            summary_words,
            stride: summary_words + bitmap_words,
            lengths: [0; 3],
            hits: terms.iter().map(|(_, hit)| *hit).collect(),
        };
        for (number, field) in fields.as_slice().iter().enumerate() {
            let length = &mut bitmaps.lengths[field.area as usize];
            *length = (*length).max(field.end());
            let column = bitmaps.column(number as u8, field, terms, memory_limit)?;
            bitmaps.columns.push(column);
        }
        Some(bitmaps)
    }

    /// Sweeps one field's values from 0 up, making a row wherever a term
    /// begins or stops to allow them.
    fn column(
        &mut self,
        number: u8,
        field: &Field,
        terms: &[(Term, Hit)],
        memory_limit: usize,
    ) -> Option<Column> {
        let mut now = vec![0u64; self.stride];
        let mut missing = now.clone();
        let mut changes: Vec<(u32, u32)> = Vec::new();
        let bit = |term: usize| 1u64 << (term % 64);
        for (i, (term, _)) in terms.iter().enumerate() {
            let word = self.summary_words + i / 64;
            match term.sets().binary_search_by_key(&number, |set| set.0) {
                Err(_) => {
                    now[word] |= bit(i);
                    missing[word] |= bit(i);
                }
                Ok(at) => {
                    let set = &term.sets()[at].1;
                    if set.missing {
                        missing[word] |= bit(i);
                    }
                    for &(low, high) in set.ranges() {
                        if low == 0 {
                            now[word] |= bit(i);
                        } else {
                            changes.push((low, i as u32));
                        }
                        if high < field.max() {
                            changes.push((high + 1, i as u32));
                        }
                    }
                }
            }
        }
        changes.sort_unstable();
        let mut interner = Interner::new(self.words.len() / self.stride.max(1));
        let missing = self.intern(&mut interner, &mut missing, memory_limit)?;
        let mut bounds = Vec::new();
        let mut rows = vec![self.intern(&mut interner, &mut now, memory_limit)?];
        for group in changes.chunk_by(|a, b| a.0 == b.0) {
            for &(_, term) in group {
                now[self.summary_words + term as usize / 64] ^= bit(term as usize);
            }
            let row = self.intern(&mut interner, &mut now, memory_limit)?;
            if rows.last() != Some(&row) {
                bounds.push(group[0].0);
                rows.push(row);
            }
        }
        let locator = Locator::new(&bounds, rows, 8 * field.bytes)?;
        Some(Column {
            field: *field,
            locator,
            missing,
        })
    }

    /// The number of the row like `row`, made if there is none in its column.
    fn intern(
        &mut self,
        interner: &mut Interner,
        row: &mut [u64],
        memory_limit: usize,
    ) -> Option<u32> {
        let (summary, bitmap) = row.split_at_mut(self.summary_words);
        summary.fill(0);
        for (i, &word) in bitmap.iter().enumerate() {
            summary[i / 64] |= u64::from(word != 0) << (i % 64);
        }
        if let Some(found) = interner.find(row, &self.words, self.stride) {
            return Some(found);
        }
        if (self.words.len() + row.len()) * 8 > memory_limit {
            return None;
        }
        self.words.extend_from_slice(row);
        Some(interner.add(row, &self.words, self.stride))
    }

    /// Calls `decide` with each term that admits the packet, lowest first,
    /// until it returns something; `Err` when the packet ends inside a field
    /// in a way that the rows cannot tell apart.
    #[inline(always)]
    pub(super) fn find<T>(
        &self,
        headers: &Headers<'_>,
        decide: impl FnMut(Hit) -> Option<T>,
    ) -> Result<Option<T>, Cut> {
        let mut rows = [0usize; MAX_FIELDS];
        let areas = Area::ALL.map(|area| headers.area(area));
        let whole = (0..3).all(|area| areas[area].len() >= self.lengths[area]);
        if whole {
            for (row, column) in rows.iter_mut().zip(&self.columns) {
                let value = column.field.read(areas[column.field.area as usize]);
                *row = column.locator.row(value) as usize * self.stride;
            }
        } else {
            self.short_rows(headers, &mut rows)?;
        }
        let columns = self.columns.len().min(MAX_FIELDS);
        Ok(self.search(&rows[..columns], decide))
    }

    #[cold]
    fn short_rows(&self, headers: &Headers<'_>, rows: &mut [usize; MAX_FIELDS]) -> Result<(), Cut> {
        for (row, column) in rows.iter_mut().zip(&self.columns) {
            let found = match column.field.presence(headers) {
                Presence::Cut => return Err(Cut),
                Presence::Missing => column.missing,
                Presence::Whole => {
                    let area = headers.area(column.field.area);
                    column.locator.row(column.field.read(area))
                }
            };
            *row = found as usize * self.stride;
        }
        Ok(())
    }

    #[inline(always)]
    fn search<T>(&self, rows: &[usize], mut decide: impl FnMut(Hit) -> Option<T>) -> Option<T> {
        let and = |at: usize| {
            rows.iter()
                .fold(u64::MAX, |and, &row| and & self.words[row + at])
        };
        for i in 0..self.summary_words {
            let mut summary = and(i);
            while summary != 0 {
                let word = 64 * i + summary.trailing_zeros() as usize;
                summary &= summary - 1;
                let mut terms = and(self.summary_words + word);
                while terms != 0 {
                    let term = 64 * word + terms.trailing_zeros() as usize;
                    terms &= terms - 1;
                    // Without fields every bit is set.
                    let hit = self.hits.get(term)?;
                    if let Some(decision) = decide(*hit) {
                        return Some(decision);
                    }
                }
            }
        }
        None
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        let columns: usize = self.columns.iter().map(|c| c.locator.memory()).sum();
        columns + self.words.len() * 8 + self.hits.len() * size_of::<Hit>()
    }
}

/// A packet ends inside a field that some test needs only part of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut;

/// A hash table of one column's rows, by content.
struct Interner {
    /// Row numbers plus one; 0 is free. The size is a power of two.
    slots: Vec<u32>,
    first: usize,
    count: usize,
}

impl Interner {
    fn new(first: usize) -> Interner {
        Interner {
            slots: vec![0; 16],
            first,
            count: 0,
        }
    }

    fn hash(row: &[u64]) -> usize {
        let mix = |hash: u64, &word: &u64| {
            (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        };
        (row.iter().fold(0, mix) >> 32) as usize
    }

    /// The slot with a row, or the free one where it belongs.
    fn slot(&self, row: &[u64], words: &[u64], stride: usize) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = Interner::hash(row) & mask;
        loop {
            let entry = self.slots[slot];
            if entry == 0 {
                return slot;
            }
            let at = (entry as usize - 1) * stride;
            if &words[at..at + stride] == row {
                return slot;
            }
            slot = (slot + 1) & mask;
        }
    }

    fn find(&self, row: &[u64], words: &[u64], stride: usize) -> Option<u32> {
        self.slots[self.slot(row, words, stride)].checked_sub(1)
    }

    /// Adds the row that was appended to `words` last.
    fn add(&mut self, row: &[u64], words: &[u64], stride: usize) -> u32 {
        let number = self.first + self.count;
        let slot = self.slot(row, words, stride);
        // The slot found is the new row itself only if it was added before.
        self.slots[slot] = number as u32 + 1;
        self.count += 1;
        if 2 * self.count > self.slots.len() {
            self.slots = vec![0; 2 * self.slots.len()];
            for number in self.first..self.first + self.count {
                let row = &words[number * stride..][..stride];
                let slot = self.slot(row, words, stride);
                self.slots[slot] = number as u32 + 1;
            }
        }
        number as u32
    }
}
