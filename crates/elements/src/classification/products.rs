//! Terms as products of byte sets, from which wide tables are built.
//!
//! A product allows each byte of a field a set of values of its own, so one
//! range of a wider field may become several (`port 1000-2000` is three).

use super::fields::Fields;
use super::hit::Hit;
use super::insertion_sort::insertion_sort;
use super::intervals::ByteSet;
use super::terms::Term;
use crate::prelude::*;

/// Bytes that must be free for a step of the compiler, which are those of a rule.
pub(super) const WORK: usize = 32 << 10;

/// Bytes that a product takes while the list grows and is ordered, beside its sets.
const PRODUCT: usize = 512;

/// Terms as products of byte sets, with the outcome of each.
#[derive(Clone, Debug, Default)]
pub(super) struct Products {
    list: Vec<Product>,
}

#[derive(Clone, Debug)]
struct Product {
    /// Field, what it allows byte by byte, and whether it may be missing.
    sets: Vec<(u8, Vec<ByteSet>, bool)>,
    hit: Hit,
}

impl Products {
    /// Splits terms into products; `None` when they become more than `limit`.
    pub(super) fn of(terms: &[(Term, Hit)], fields: &Fields, limit: usize) -> Option<Products> {
        let mut list = Vec::new();
        for (term, hit) in terms {
            let mut products = vec![Vec::new()];
            for (field, set) in term.sets() {
                let bytes = fields.as_slice()[usize::from(*field)].bytes;
                let mut parts = set.products(bytes);
                if parts.is_empty() {
                    parts.push(vec![ByteSet::EMPTY; bytes as usize]);
                }
                if products.len() * parts.len() + list.len() > limit {
                    return None;
                }
                products = products
                    .iter()
                    .flat_map(|so_far: &Vec<_>| {
                        parts.iter().map(|part| {
                            let mut longer = so_far.clone();
                            longer.push((*field, part.clone(), set.missing));
                            longer
                        })
                    })
                    .collect();
            }
            let has_room = spare(PRODUCT * list.len() + WORK);
            if list.len() + products.len() > limit || !has_room {
                return None;
            }
            list.extend(products.into_iter().map(|sets| Product { sets, hit: *hit }));
        }
        Some(Products { list })
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn hit(&self, product: usize) -> Hit {
        self.list[product].hit
    }

    /// The values that a product allows a field, byte by byte, and whether it
    /// may be missing; `None` when it allows anything.
    pub(super) fn constraint(&self, product: usize, field: u8) -> Option<(&[ByteSet], bool)> {
        let sets = &self.list[product].sets;
        let (_, bytes, missing) = sets.iter().find(|set| set.0 == field)?;
        Some((bytes, *missing))
    }

    /// The products' numbers, grouped by constrained fields, and ordered by
    /// allowed values within a group: wide fields first, since these are the
    /// most selective.
    pub(super) fn clustered(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.list.len() as u32).collect();
        order.sort_by_cached_key(|&i| {
            let sets = &self.list[i as usize].sets;
            let constrained = sets.iter().fold(0u32, |mask, set| mask | 1 << set.0);
            let mut firsts: Vec<(usize, Vec<Option<u8>>)> = sets
                .iter()
                .map(|(_, bytes, _)| {
                    let first = |set: &ByteSet| set.iter().next();
                    (4 - bytes.len(), bytes.iter().map(first).collect())
                })
                .collect();
            insertion_sort(&mut firsts, |first| first.0);
            (constrained, firsts)
        });
        order
    }
}
