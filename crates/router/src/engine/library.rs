//! The classes that configurations may use.

use alloc::collections::BTreeMap;

use click::{Diagnostics, Environment, FlatGraph};

use super::element::ClassEntry;
use crate::prelude::*;

/// A set of element classes.
#[derive(Clone)]
pub struct Library {
    tables: Vec<&'static [ClassEntry]>,
    /// For each first letter, the lengths of classes' names, a bit each. This tells most names of
    /// elements from names of classes.
    lengths: [u64; 128],
}

/// A name's place in [`Library::lengths`], and its bit there.
fn length(name: &str) -> (usize, u64) {
    let first = name.bytes().next().unwrap_or(0);
    (usize::from(first % 128), 1 << name.len().min(63))
}

impl Library {
    /// The classes of `table`.
    pub fn new(table: &'static [ClassEntry]) -> Library {
        let mut library = Library {
            tables: Vec::new(),
            lengths: [0; 128],
        };
        library.add(table);
        library
    }

    /// Adds classes; where a name is known already, the new class goes first.
    pub fn add(&mut self, table: &'static [ClassEntry]) {
        self.tables.push(table);
        for name in table.iter().flat_map(ClassEntry::names) {
            let (first, bit) = length(name);
            self.lengths[first] |= bit;
        }
    }

    /// All classes.
    pub fn iter(&self) -> impl Iterator<Item = &'static ClassEntry> {
        self.tables.iter().rev().flat_map(|table| table.iter())
    }

    /// The class called `name`.
    pub fn find(&self, name: &str) -> Option<&'static ClassEntry> {
        let (first, bit) = length(name);
        if self.lengths[first] & bit == 0 {
            return None;
        }
        self.iter()
            .find(|class| class.name == name || class.aliases.contains(&name))
    }

    /// The class whose name is nearest to `name`, if one is near enough for a hint.
    pub fn nearest(&self, name: &str) -> Option<&'static str> {
        nearest(name, self.iter().flat_map(ClassEntry::names))
    }

    /// The class of each element of `flat`. `None` if some are unknown or refused.
    pub fn classes(
        &self,
        flat: &FlatGraph,
        diagnostics: &mut Diagnostics,
    ) -> Option<Vec<&'static ClassEntry>> {
        let before = diagnostics.errors();
        let mut classes = Vec::with_capacity(flat.elements.len());
        let mut reported: Vec<&str> = Vec::new();
        let mut found = BTreeMap::new();
        for element in &flat.elements {
            let class = &*element.class;
            match *found.entry(class).or_insert_with(|| self.find(class)) {
                Some(class) => {
                    if let Some(reason) = class.refused {
                        diagnostics.error(
                            &element.location,
                            format_args!("‘{} :: {}’: {reason}", element.name, class.name),
                        );
                    }
                    classes.push(class);
                }
                None if reported.contains(&&*element.class) => {}
                None => {
                    reported.push(&element.class);
                    let class = &element.class;
                    match self.nearest(class) {
                        Some(near) => diagnostics.error(
                            &element.location,
                            format_args!("unknown element class ‘{class}’; did you mean ‘{near}’?"),
                        ),
                        None => diagnostics.error(
                            &element.location,
                            format_args!("unknown element class ‘{class}’"),
                        ),
                    }
                }
            }
        }
        (diagnostics.errors() == before).then_some(classes)
    }
}

impl Environment for Library {
    fn has_class(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn nearest_class(&self, name: &str) -> Option<String> {
        self.nearest(name).map(String::from)
    }
}

/// The name nearest to `name` among the known names, if one is near enough to be what was meant.
pub fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let limit = name.len().div_ceil(3);
    known
        .map(|known| (distance(name, known), known))
        .min()
        .filter(|(distance, _)| *distance <= limit)
        .map(|(_, name)| name)
}

/// The edit distance of two words, whatever their case. The crate strsim needs `std`, which a guest
/// does not have.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<u8> = b.bytes().map(|c| c.to_ascii_lowercase()).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().take(256).enumerate() {
        let x = x.to_ascii_lowercase();
        let mut diagonal = core::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + (x != *y) as usize;
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
