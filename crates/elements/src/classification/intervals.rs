//! Sets of field values, as sorted disjoint ranges.

use crate::prelude::*;

/// A set of the values that a field of at most 32 bits may have, where
/// "missing" (the packet ends before the field) is one more value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set {
    /// Inclusive ranges, ascending, with gaps between them.
    ranges: Vec<(u32, u32)>,
    /// Packets without the field are in the set.
    pub(super) missing: bool,
}

/// Most ranges of a set: those of any bit of a byte.
pub(super) const MAX_RANGES: usize = 128;

impl Set {
    /// The values `v ≤ max` with `v & mask == value`; `None` when they are too
    /// many ranges.
    pub(super) fn matching(mask: u32, value: u32, max: u32) -> Option<Set> {
        let low = (mask & mask.wrapping_neg()).wrapping_sub(1) & max;
        let free = max & !mask & !low;
        if free.count_ones() > MAX_RANGES.ilog2() {
            return None;
        }
        let mut ranges = Vec::with_capacity(1 << free.count_ones());
        // All subsets of the free bits in ascending order.
        let mut high = 0u32;
        loop {
            let first = value | high;
            ranges.push((first, first | low));
            high = high.wrapping_sub(free) & free;
            if high == 0 {
                break;
            }
        }
        Some(Set {
            ranges: normalized(ranges),
            missing: false,
        })
    }

    /// The values `v ≤ max` with `v & mask > above`; `None` when they are too
    /// many ranges.
    pub(super) fn greater(mask: u32, above: u32, max: u32) -> Option<Set> {
        let low = (mask & mask.wrapping_neg()).wrapping_sub(1) & max;
        let contiguous = mask | low;
        if contiguous & contiguous.wrapping_add(1) != 0 {
            return (max <= 255).then(|| Set {
                ranges: normalized(
                    (0..=max)
                        .filter(|v| v & mask > above)
                        .map(|v| (v, v))
                        .collect(),
                ),
                missing: false,
            });
        }
        let free = max & !contiguous;
        if free.count_ones() > MAX_RANGES.ilog2() {
            return None;
        }
        let mut ranges = Vec::new();
        let mut high = 0u32;
        loop {
            if above < mask {
                ranges.push((high | ((above | low) + 1), high | contiguous));
            }
            high = high.wrapping_sub(free) & free;
            if high == 0 {
                break;
            }
        }
        Some(Set {
            ranges: normalized(ranges),
            missing: false,
        })
    }

    pub(super) fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges
    }

    /// Every value up to `max`, and missing.
    pub(super) fn is_any(&self, max: u32) -> bool {
        self.missing && self.ranges == [(0, max)]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty() && !self.missing
    }

    /// The mask and value such that the set has exactly the values `v ≤ max`
    /// with `v & mask == value`; `None` when there are none.
    pub(super) fn as_masked(&self, max: u32) -> Option<(u32, u32)> {
        let first = self.ranges.first()?.0;
        let mut differ = 0u32;
        let mut size = 0u64;
        for &(low, high) in &self.ranges {
            // Within a range every bit below the highest that changes takes both values.
            let below = u32::MAX
                .checked_shr((low ^ high).leading_zeros())
                .unwrap_or(0);
            differ |= (low ^ first) | below;
            size += u64::from(high - low) + 1;
        }
        let mask = max & !differ;
        (size == 1 << (max & differ).count_ones()).then_some((mask, first & mask))
    }

    pub(super) fn intersection(&self, other: &Set) -> Set {
        let mut ranges = Vec::new();
        let (mut a, mut b) = (self.ranges.iter(), other.ranges.iter());
        let (mut x, mut y) = (a.next(), b.next());
        while let (Some(&(xl, xh)), Some(&(yl, yh))) = (x, y) {
            let (low, high) = (xl.max(yl), xh.min(yh));
            if low <= high {
                ranges.push((low, high));
            }
            if xh < yh {
                x = a.next();
            } else {
                y = b.next();
            }
        }
        Set {
            ranges,
            missing: self.missing && other.missing,
        }
    }

    pub(super) fn union(&self, other: &Set) -> Set {
        let mut ranges = self.ranges.clone();
        ranges.extend_from_slice(&other.ranges);
        ranges.sort_unstable();
        Set {
            ranges: normalized(ranges),
            missing: self.missing || other.missing,
        }
    }

    /// The complement of the set, up to `max`.
    pub(super) fn complement(&self, max: u32) -> Set {
        let mut ranges = Vec::with_capacity(self.ranges.len() + 1);
        let mut next = Some(0);
        for &(low, high) in &self.ranges {
            if let Some(next) = next.filter(|&next| next < low) {
                ranges.push((next, low - 1));
            }
            next = high.checked_add(1);
        }
        if let Some(next) = next.filter(|&next| next <= max) {
            ranges.push((next, max));
        }
        Set {
            ranges,
            missing: !self.missing,
        }
    }

    /// Splits a set of `bytes`-byte values into products of per-byte sets,
    /// most significant byte first: the union of the products is the set.
    pub(super) fn products(&self, bytes: u32) -> Vec<Vec<ByteSet>> {
        products(&self.ranges, bytes)
    }
}

/// Joins ranges (sorted by their low ends) that overlap or touch.
fn normalized(ranges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    let mut out: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
    for (low, high) in ranges {
        match out.last_mut() {
            Some(last) if last.1 >= low || last.1 + 1 == low => last.1 = last.1.max(high),
            _ => out.push((low, high)),
        }
    }
    out
}

/// A set of byte values, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteSet(pub [u64; 4]);

impl ByteSet {
    pub(super) const EMPTY: ByteSet = ByteSet([0; 4]);

    fn insert(&mut self, low: u8, high: u8) {
        for byte in low..=high {
            self.0[usize::from(byte) / 64] |= 1 << (byte % 64);
        }
    }

    /// The values in it, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = u8> + use<> {
        let words = self.0.into_iter().enumerate();
        words.flat_map(|(i, word)| {
            let rest = core::iter::successors(Some(word), |left| Some(left & left.wrapping_sub(1)));
            rest.take_while(|&left| left != 0)
                .map(move |left| (64 * i) as u8 + left.trailing_zeros() as u8)
        })
    }

    #[cfg(test)]
    pub(super) fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte) / 64] >> (byte % 64) & 1 == 1
    }
}

/// See [`Set::products`].
fn products(ranges: &[(u32, u32)], bytes: u32) -> Vec<Vec<ByteSet>> {
    let shift = 8 * (bytes - 1);
    if bytes == 1 {
        let mut set = ByteSet::EMPTY;
        for &(low, high) in ranges {
            set.insert(low as u8, high as u8);
        }
        return vec![vec![set]];
    }
    let rest = (1u32 << shift) - 1;
    // Group the values of the first byte by what they leave to the others.
    let mut groups: Vec<(Vec<(u32, u32)>, ByteSet)> = Vec::new();
    let mut add = |low: u8, high: u8, tail: Vec<(u32, u32)>| match groups
        .iter_mut()
        .find(|group| group.0 == tail)
    {
        Some(group) => group.1.insert(low, high),
        None => {
            let mut set = ByteSet::EMPTY;
            set.insert(low, high);
            groups.push((tail, set));
        }
    };
    let mut at = 0;
    // Ranges that share a first byte are collected in `open`.
    let mut open: Option<(u8, Vec<(u32, u32)>)> = None;
    while at < ranges.len() {
        let (low, high) = ranges[at];
        at += 1;
        let (first, last) = ((low >> shift) as u8, (high >> shift) as u8);
        match &mut open {
            Some((byte, tail)) if *byte == first => {
                tail.push((low & rest, if last == first { high & rest } else { rest }));
            }
            _ => {
                if let Some((byte, tail)) = open.take() {
                    add(byte, byte, tail);
                }
                let end = if last == first { high & rest } else { rest };
                open = Some((first, vec![(low & rest, end)]));
            }
        }
        if last > first {
            if let Some((byte, tail)) = open.take() {
                add(byte, byte, tail);
            }
            if last - first > 1 {
                add(first + 1, last - 1, vec![(0, rest)]);
            }
            open = Some((last, vec![(0, high & rest)]));
        }
    }
    if let Some((byte, tail)) = open {
        add(byte, byte, tail);
    }
    let mut out = Vec::new();
    for (tail, set) in groups {
        for mut product in products(&tail, bytes - 1) {
            product.insert(0, set);
            out.push(product);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn has(set: &Set, value: u32) -> bool {
        set.ranges()
            .iter()
            .any(|&(low, high)| (low..=high).contains(&value))
    }

    proptest! {
        #[test]
        fn masked_sets_are_recognized(
            mask: u8, value: u8, bounds in proptest::collection::btree_set(any::<u8>(), 0..7),
        ) {
            let (mask, max) = (u32::from(mask), 255);
            let value = u32::from(value) & mask;
            let masked = Set::matching(mask, value, max);
            let bounds: Vec<u32> = bounds.into_iter().map(u32::from).collect();
            let pairs = bounds.chunks_exact(2).map(|p| (p[0], p[1])).collect();
            let any = Set { ranges: normalized(pairs), missing: false };
            if let Some(set) = &masked {
                prop_assert_eq!(set.as_masked(max), Some((mask, value)));
            }
            for set in masked.into_iter().chain([any]) {
                if let Some((mask, value)) = set.as_masked(max) {
                    for v in 0..=max {
                        prop_assert_eq!(has(&set, v), v & mask == value);
                    }
                }
            }
        }

        #[test]
        fn sets_of_masked_values_hold_exactly_these(
            mask: u16, value: u16, above: u16, probes: Vec<u16>,
        ) {
            let (mask, above, max) = (u32::from(mask), u32::from(above), 0xffff);
            let value = u32::from(value) & mask;
            let probes = probes.iter().map(|&p| u32::from(p)).chain([0, max, value, value + 1]);
            for probe in probes.filter(|&p| p <= max) {
                if let Some(set) = Set::matching(mask, value, max) {
                    prop_assert_eq!(has(&set, probe), probe & mask == value);
                    prop_assert_eq!(has(&set.complement(max), probe), probe & mask != value);
                }
                if let Some(set) = Set::greater(mask, above & mask, max) {
                    prop_assert_eq!(has(&set, probe), probe & mask > above & mask);
                }
            }
        }

        #[test]
        fn products_cover_exactly_the_set(
            bounds in proptest::collection::btree_set(any::<u32>(), 0..12),
            bytes in 1u32..=4, probes: Vec<u32>,
        ) {
            let max = u32::MAX >> (32 - 8 * bytes);
            let mut bounds: Vec<u32> = bounds.into_iter().map(|b| b & max).collect();
            bounds.sort_unstable();
            bounds.dedup();
            let pairs = bounds.chunks_exact(2).map(|p| (p[0], p[1])).collect();
            let set = Set { ranges: normalized(pairs), missing: false };
            let products = set.products(bytes);
            let probes = probes.iter().map(|p| p & max);
            let edges = bounds.iter().flat_map(|&b| [b, b.wrapping_add(1) & max, b.saturating_sub(1)]);
            for probe in probes.chain(edges) {
                let covered = products.iter().any(|product| {
                    product.iter().enumerate().all(|(i, set)| {
                        set.contains((probe >> (8 * (bytes - 1 - i as u32))) as u8)
                    })
                });
                prop_assert_eq!(covered, has(&set, probe));
            }
        }
    }
}
