//! The classes of a field's values.

use super::super::hit::Hit;
use super::super::terms::Term;
use crate::prelude::*;

/// A field's classes, being built.
pub(super) struct Draft<const N: usize> {
    pub(super) field: u8,
    /// The last values of the intervals but the last.
    pub(super) ends: Vec<u32>,
    pub(super) classes: Vec<u16>,
    pub(super) missing: u16,
    pub(super) rows: Vec<[u64; N]>,
}

impl<const N: usize> Draft<N> {
    /// `None` when there are more than `limit` classes.
    pub(super) fn new(
        terms: &[(Term, Hit)],
        field: u8,
        max: u32,
        limit: usize,
    ) -> Option<Draft<N>> {
        // Terms that do not read the field, and the last one, admit any value.
        let mut row = [0u64; N];
        let mut missing = row;
        set(&mut row, terms.len());
        set(&mut missing, terms.len());
        // Values from which on a term's bit changes.
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
                let class = numbers.of(&row, &mut draft.rows, limit)?;
                draft.push(class, Some(at - 1));
                start = at;
            }
            for (_, bit) in change {
                row[*bit as usize / 64] ^= 1 << (bit % 64);
            }
        }
        let class = numbers.of(&row, &mut draft.rows, limit)?;
        draft.push(class, None);
        draft.missing = numbers.of(&missing, &mut draft.rows, limit)?;
        Some(draft)
    }

    /// Adds an interval that ends with `end`; `None`: with the largest value.
    /// An interval of the previous one's class extends that one.
    fn push(&mut self, class: u16, end: Option<u32>) {
        if self.classes.last() == Some(&class) {
            self.ends.pop();
        } else {
            self.classes.push(class);
        }
        self.ends.extend(end);
    }

    /// A row for each of `rows` with each of the field's own.
    pub(super) fn combined(&self, rows: &[[u64; N]]) -> Vec<[u64; N]> {
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
    /// `None` when there would be more than `limit` rows.
    fn of(&mut self, row: &[u64; N], rows: &mut Vec<[u64; N]>, limit: usize) -> Option<u16> {
        if let Some(number) = self.known.get(row) {
            return Some(*number);
        }
        let number = u16::try_from(rows.len()).ok()?;
        if rows.len() >= limit {
            return None;
        }
        rows.push(*row);
        self.known.insert(*row, number);
        Some(number)
    }
}
