//! Sets of hosts, a bit each.

/// Bits of a word.
const BITS: usize = u64::BITS as usize;

/// A set of hosts, by their slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSet {
    words: Vec<u64>,
}

impl HostSet {
    /// No host.
    pub(super) const NONE: HostSet = HostSet { words: Vec::new() };

    /// The set without hosts.
    pub fn new() -> HostSet {
        HostSet::default()
    }

    /// The set of one host.
    pub fn of(slot: usize) -> HostSet {
        let mut set = HostSet::new();
        set.insert(slot);
        set
    }

    /// Adds a host.
    pub fn insert(&mut self, slot: usize) {
        let word = slot / BITS;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (slot % BITS);
    }

    /// Removes a host.
    pub fn remove(&mut self, slot: usize) {
        if let Some(word) = self.words.get_mut(slot / BITS) {
            *word &= !(1 << (slot % BITS));
        }
    }

    /// Adds or removes a host.
    pub fn set(&mut self, slot: usize, member: bool) {
        if member {
            self.insert(slot);
        } else {
            self.remove(slot);
        }
    }

    /// Whether the host is in it.
    pub fn contains(&self, slot: usize) -> bool {
        let word = self.words.get(slot / BITS).copied().unwrap_or(0);
        word >> (slot % BITS) & 1 == 1
    }

    /// Whether no host is in it.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// How many hosts are in it.
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Removes all hosts.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Removes hosts that are not in `other`.
    pub fn intersect(&mut self, other: &HostSet) {
        let others = other.words.iter().copied().chain(std::iter::repeat(0));
        for (word, other) in self.words.iter_mut().zip(others) {
            *word &= other;
        }
    }

    /// Removes hosts that are in `other`.
    pub fn subtract(&mut self, other: &HostSet) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= !other;
        }
    }

    /// Removes hosts that `keep` refuses. `a` and `b` are columns with a value for each slot.
    #[inline]
    pub fn retain<A: Copy, B: Copy>(&mut self, a: &[A], b: &[B], keep: impl Fn(A, B) -> bool) {
        let columns = a.chunks(BITS).zip(b.chunks(BITS));
        for (word, (a, b)) in self.words.iter_mut().zip(columns) {
            if *word == 0 {
                continue;
            }
            let mut kept = 0;
            for (bit, (a, b)) in a.iter().zip(b).enumerate() {
                kept |= u64::from(keep(*a, *b)) << bit;
            }
            *word &= kept;
        }
    }

    /// Its hosts, in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(number, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(number * BITS + bit)
            })
        })
    }

    /// The first host at or after `start`, or else before it.
    pub fn first_from(&self, start: usize) -> Option<usize> {
        let words = self.words.len();
        if words == 0 {
            return None;
        }
        let (word, bit) = (start / BITS % words, start % BITS);
        let found = |number: usize, mask: u64| {
            let rest = self.words[number] & mask;
            (rest != 0).then(|| number * BITS + rest.trailing_zeros() as usize)
        };
        let behind = u64::MAX << bit;
        found(word, behind)
            .or_else(|| (1..words).find_map(|step| found((word + step) % words, u64::MAX)))
            .or_else(|| found(word, !behind))
    }
}

impl FromIterator<usize> for HostSet {
    fn from_iter<I: IntoIterator<Item = usize>>(slots: I) -> HostSet {
        let mut set = HostSet::new();
        slots.into_iter().for_each(|slot| set.insert(slot));
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(a in btree_set(0..300usize, 0..80), b in btree_set(0..300usize, 0..80), start in 0..300usize) {
            let set = |of: &BTreeSet<usize>| of.iter().copied().collect::<HostSet>();
            let same = |got: &HostSet, wanted: BTreeSet<usize>| got.iter().collect::<BTreeSet<_>>() == wanted;
            let mut both = set(&a);
            both.intersect(&set(&b));
            prop_assert!(same(&both, &a & &b));
            let mut less = set(&a);
            less.subtract(&set(&b));
            prop_assert!(same(&less, &a - &b));
            prop_assert_eq!(set(&a).len(), a.len());
            let first = a.range(start..).next().or(a.first()).copied();
            // Beyond the last word, the search begins at the first.
            let words = a.last().map_or(1, |last| last / 64 + 1);
            if start < words * 64 {
                prop_assert_eq!(set(&a).first_from(start), first);
            } else {
                prop_assert_eq!(set(&a).first_from(start).is_some(), first.is_some());
            }
            let column: Vec<usize> = (0..300).collect();
            let mut kept = set(&a);
            kept.retain(&column, &column, |slot, same| slot == same && slot % 3 == 0);
            prop_assert!(same(&kept, a.iter().copied().filter(|slot| slot % 3 == 0).collect()));
        }
    }
}
