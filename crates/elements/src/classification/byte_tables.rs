//! Small rule sets: one table lookup per byte of header, and nothing else.
//!
//! Every byte that a field has gets a table of 256 rows; row `v` holds one
//! bit per term, set when the term allows the value `v` there. The AND of the
//! rows that a packet's bytes select has exactly the bits of the terms that
//! admit the packet, and the lowest one decides. There is no data-dependent
//! branch before that, so random traffic costs what regular traffic does.
//!
//! A term here is a product of byte sets: one range of a wider field may
//! become several (`port 1000-2000` is three).

use super::fields::{Fields, Presence};
use super::headers::{Area, Headers};
use super::intervals::ByteSet;
use super::program::Hit;
use super::terms::Term;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;

/// A bit per term.
pub(super) trait Row: Copy + Debug {
    /// How many terms fit.
    const BITS: usize;
    /// No term.
    const NONE: Self;
    fn insert(&mut self, bit: usize);
    fn and(self, other: Self) -> Self;
    /// The lowest bit, and the row without it.
    fn pop(self) -> Option<(usize, Self)>;
}

macro_rules! word_row {
    ($($word:ty),*) => {$(
        impl Row for $word {
            const BITS: usize = <$word>::BITS as usize;
            const NONE: Self = 0;

            fn insert(&mut self, bit: usize) {
                *self |= 1 << bit;
            }

            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }

            #[inline(always)]
            fn pop(self) -> Option<(usize, Self)> {
                (self != 0).then(|| (self.trailing_zeros() as usize, self & (self - 1)))
            }
        }
    )*};
}

word_row!(u16, u32, u64);

impl<const N: usize> Row for [u64; N] {
    const BITS: usize = 64 * N;
    const NONE: Self = [0; N];

    fn insert(&mut self, bit: usize) {
        self[bit / 64] |= 1 << (bit % 64);
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        core::array::from_fn(|i| self[i] & other[i])
    }

    #[inline(always)]
    fn pop(mut self) -> Option<(usize, Self)> {
        let i = self.iter().position(|&word| word != 0)?;
        let bit = 64 * i + self[i].trailing_zeros() as usize;
        self[i] &= self[i] - 1;
        Some((bit, self))
    }
}

/// Terms as products of byte sets, with what a hit of each leads to.
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
            if list.len() + products.len() > limit {
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

    /// What a product allows a field, byte by byte, and whether it may be
    /// missing; `None` when it allows anything.
    pub(super) fn constraint(&self, product: usize, field: u8) -> Option<(&[ByteSet], bool)> {
        let sets = &self.list[product].sets;
        let (_, bytes, missing) = sets.iter().find(|set| set.0 == field)?;
        Some((bytes, *missing))
    }

    /// The products' numbers, those with the same constrained fields
    /// together, and among them ordered by what they allow: wide fields
    /// first, since these are the most telling.
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
            firsts.sort_by_key(|first| first.0);
            (constrained, firsts)
        });
        order
    }
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct ByteTables<R> {
    /// Offsets of the columns' bytes, area by area.
    columns: [Vec<u16>; 3],
    /// 256 rows a column, in the same order.
    rows: [Vec<[R; 256]>; 3],
    /// The area lengths from which no field is missing.
    lengths: [usize; 3],
    /// All terms there are.
    all: R,
    hits: Vec<Hit>,
    spans: Vec<Span>,
}

/// Where a field's columns are, and the row of a packet without the field.
#[derive(Clone, Debug)]
struct Span {
    area: Area,
    field: u8,
    first: usize,
    missing: R64,
}

/// Rows of missing fields are rarely used; they are kept in the widest form.
type R64 = Vec<u64>;

impl<R: Row> ByteTables<R> {
    /// Builds the tables; `products` must not be more than [`Row::BITS`].
    pub(super) fn new(products: &Products, fields: &Fields) -> ByteTables<R> {
        debug_assert!(products.len() <= R::BITS);
        let mut tables = ByteTables {
            columns: Default::default(),
            rows: Default::default(),
            lengths: [0; 3],
            all: R::NONE,
            hits: products.list.iter().map(|product| product.hit).collect(),
            spans: Vec::new(),
        };
        for bit in 0..products.len() {
            tables.all.insert(bit);
        }
        for (number, field) in fields.as_slice().iter().enumerate() {
            let area = field.area as usize;
            let first = tables.columns[area].len();
            tables.lengths[area] = tables.lengths[area].max(field.end());
            let mut open = R::NONE;
            let mut missing = vec![0; R::BITS.div_ceil(64)];
            let mut bounded = Vec::new();
            for (bit, product) in products.list.iter().enumerate() {
                match product.sets.iter().find(|set| usize::from(set.0) == number) {
                    Some((_, sets, may_miss)) => {
                        bounded.push((bit, sets));
                        missing[bit / 64] |= u64::from(*may_miss) << (bit % 64);
                    }
                    None => {
                        open.insert(bit);
                        missing[bit / 64] |= 1 << (bit % 64);
                    }
                }
            }
            for byte in 0..field.bytes as usize {
                let mut rows = [open; 256];
                for (bit, sets) in &bounded {
                    insert(&mut rows, *bit, &sets[byte]);
                }
                tables.columns[area].push(field.offset + byte as u16);
                tables.rows[area].push(rows);
            }
            tables.spans.push(Span {
                area: field.area,
                field: number as u8,
                first,
                missing,
            });
        }
        tables
    }

    /// The terms that admit a packet, given that no field is missing; `None`
    /// when one is.
    #[inline(always)]
    pub(super) fn admit(&self, headers: &Headers<'_>) -> Option<R> {
        let mut row = self.all;
        for area in Area::ALL {
            let columns = &self.columns[area as usize];
            if columns.is_empty() {
                continue;
            }
            let bytes = headers.area(area);
            if bytes.len() < self.lengths[area as usize] {
                return None;
            }
            for (&offset, rows) in columns.iter().zip(&self.rows[area as usize]) {
                row = row.and(rows[usize::from(bytes[usize::from(offset)])]);
            }
        }
        Some(row)
    }

    /// The same for a packet that lacks fields; `None` when it ends inside
    /// one in a way that the tables cannot tell apart.
    pub(super) fn admit_short(&self, headers: &Headers<'_>, fields: &Fields) -> Option<R> {
        let mut row = self.all;
        for span in &self.spans {
            let field = &fields.as_slice()[usize::from(span.field)];
            match field.presence(headers) {
                Presence::Cut => return None,
                Presence::Whole => {
                    let bytes = headers.area(span.area);
                    let rows = &self.rows[span.area as usize];
                    for i in 0..field.bytes as usize {
                        let byte = bytes[usize::from(field.offset) + i];
                        row = row.and(rows[span.first + i][usize::from(byte)]);
                    }
                }
                Presence::Missing => {
                    let mut missing = R::NONE;
                    for bit in 0..self.hits.len() {
                        if span.missing[bit / 64] >> (bit % 64) & 1 == 1 {
                            missing.insert(bit);
                        }
                    }
                    row = row.and(missing);
                }
            }
        }
        Some(row)
    }

    #[inline(always)]
    pub(super) fn hit(&self, bit: usize) -> Hit {
        self.hits[bit]
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        let columns: usize = self.rows.iter().map(Vec::len).sum();
        columns * (size_of::<[R; 256]>() + 2) + self.hits.len() * size_of::<Hit>()
    }
}

fn insert<R: Row>(rows: &mut [R; 256], bit: usize, set: &ByteSet) {
    for value in set.iter() {
        rows[usize::from(value)].insert(bit);
    }
}
