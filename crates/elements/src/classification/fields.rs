//! The packet fields that a rule set reads.
//!
//! Tests compare masked four-byte words. A *field* is the smallest run of
//! bytes within a word that the tests on that word treat as one value: four
//! bytes for addresses, two for ports, one for the protocol. Every test is a
//! conjunction of tests of fields.

use super::expression::{Expression, Op};
use super::headers::{Area, Headers};
use super::instruction::Layout;
use crate::prelude::*;

/// Most bytes of all fields. Fields that most tests read come first. A test of
/// another field is left to the rule's own code.
pub(super) const MAX_BYTES: usize = 32;

/// A run of one to four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub area: Area,
    /// Of the first byte, within the area.
    pub offset: u16,
    pub bytes: u32,
    /// Some test compares fewer than all the bytes, so a packet that ends
    /// inside the field has to be matched test by test.
    pub divisible: bool,
    /// The program offset of its word, and its last bit's distance from the
    /// word's last.
    word: u16,
    shift: u32,
}

impl Field {
    /// The largest value.
    pub(super) fn max(&self) -> u32 {
        u32::MAX >> (32 - 8 * self.bytes)
    }

    /// The area length that it takes to have the whole field.
    pub(super) fn end(&self) -> usize {
        usize::from(self.offset) + self.bytes as usize
    }

    /// The field of a packet that has all of it.
    pub(super) fn value(&self, headers: &Headers<'_>) -> u32 {
        let bytes = headers.area(self.area).get(usize::from(self.offset)..);
        let bytes = bytes.unwrap_or(&[]).iter().take(self.bytes as usize);
        bytes.fold(0, |value, byte| value << 8 | u32::from(*byte))
    }

    /// How much of the field a packet has.
    pub(super) fn presence(&self, headers: &Headers<'_>) -> Presence {
        let length = headers.area(self.area).len();
        if length >= self.end() {
            Presence::Whole
        } else if length > self.offset.into() && self.divisible {
            Presence::Truncated
        } else {
            Presence::Missing
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Whole,
    Missing,
    /// The packet ends inside, and that matters.
    Truncated,
}

/// The fields of a rule set.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    fields: Vec<Field>,
}

/// What the tests on one word compare.
struct WordUse {
    word: u16,
    uses: usize,
    /// Bytes `i` and `i + 1` belong together; must not.
    joined: [bool; 3],
    cut: [bool; 3],
    used: [bool; 4],
    masks: Vec<u32>,
}

impl Fields {
    pub(super) fn of(expressions: &mut dyn Iterator<Item = &Expression>, layout: Layout) -> Fields {
        let mut words: Vec<WordUse> = Vec::new();
        for op in expressions.flat_map(Expression::ops) {
            let (word, mask, comparison) = match *op {
                Op::Test(test) => (test.offset, test.mask, false),
                Op::Compare(compare) => (compare.offset, compare.mask << compare.shift, true),
                _ => continue,
            };
            if mask == 0 {
                continue;
            }
            let found = words.iter().position(|entry| entry.word == word);
            let at = found.unwrap_or_else(|| {
                words.push(WordUse::new(word));
                words.len() - 1
            });
            words[at].note(mask, comparison);
        }
        words.sort_by_key(|entry| core::cmp::Reverse(entry.uses));
        let mut fields = Vec::new();
        let mut room = MAX_BYTES as u32;
        for entry in &words {
            let new: Vec<Field> = entry.fields(layout);
            let bytes = new.iter().map(|field| field.bytes).sum();
            match room.checked_sub(bytes) {
                Some(left) => room = left,
                None => break,
            }
            fields.extend(new);
        }
        Fields { fields }
    }

    pub(super) fn as_slice(&self) -> &[Field] {
        &self.fields
    }

    /// The parts of a masked word that fall on fields: field, mask, value.
    /// The second result tells whether these are all of it.
    pub(super) fn split(&self, word: u16, mask: u32, value: u32) -> (Vec<(u8, u32, u32)>, bool) {
        let mut left = mask;
        let mut parts = Vec::new();
        for (i, field) in self.fields.iter().enumerate() {
            let covered = field.max() << field.shift;
            if field.word == word && mask & covered != 0 {
                let part = |bits: u32| (bits & covered) >> field.shift;
                parts.push((i as u8, part(mask), part(value)));
                left &= !covered;
            }
        }
        (parts, left == 0)
    }
}

impl WordUse {
    fn new(word: u16) -> WordUse {
        WordUse {
            word,
            uses: 0,
            joined: [false; 3],
            cut: [false; 3],
            used: [false; 4],
            masks: Vec::new(),
        }
    }

    fn note(&mut self, mask: u32, comparison: bool) {
        self.uses += 1;
        // A comparison may be decided by its first byte alone.
        let first_byte = 0xff00_0000 >> (mask.leading_zeros() / 8 * 8);
        let least = if comparison { mask & first_byte } else { mask };
        if self.masks.contains(&least) && !comparison {
            return;
        }
        if self.masks.len() < 64 {
            self.masks.push(least);
        }
        let bytes = mask.to_be_bytes();
        for (used, &byte) in self.used.iter_mut().zip(&bytes) {
            *used |= byte != 0;
        }
        for i in 0..3 {
            let both = bytes[i] != 0 && bytes[i + 1] != 0;
            self.joined[i] |= both;
            // A test of the later byte alone would be many ranges of both.
            self.cut[i] |= !comparison && bytes[i + 1] != 0 && bytes[i].count_zeros() > 4;
        }
    }

    fn fields(&self, layout: Layout) -> Vec<Field> {
        let (area, base) = layout.locate(self.word);
        let mut out = Vec::new();
        let mut first = 0;
        while first < 4 {
            if !self.used[first] {
                first += 1;
                continue;
            }
            let mut last = first;
            while last < 3 && self.joined[last] && !self.cut[last] {
                last += 1;
            }
            let shift = 8 * (3 - last) as u32;
            let bytes = (last - first + 1) as u32;
            let covered = u32::MAX >> (32 - 8 * bytes) << shift;
            let final_byte = 0xff << shift;
            let partial = |mask: &u32| mask & covered != 0 && mask & final_byte == 0;
            // A word that begins before its area has no tests there.
            if let Ok(offset) = u16::try_from(base + first as i32) {
                out.push(Field {
                    area,
                    offset,
                    bytes,
                    divisible: self.masks.len() == 64 || self.masks.iter().any(partial),
                    word: self.word,
                    shift,
                });
            }
            first = last + 1;
        }
        out
    }
}
