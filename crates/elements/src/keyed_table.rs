//! Values by flow keys, in a table that grows: found by the [index](crate::rewriter::index) of the rewriters,
//! numbered, and prefetched a batch ahead.

use crate::prelude::*;
use crate::rewriter::index::{Index, NoMemory};
use crate::rewriter::key::FlowKey;

/// A key: what tells keys of equal [`FlowKey`]s apart, as a protocol does, and the flow key.
pub type Key = (u16, FlowKey);

/// The values, each with its key. Values that are removed leave gaps, which are used again.
pub struct KeyedTable<V> {
    index: Index,
    entries: Vec<Option<(Key, V)>>,
    free: Vec<u32>,
}

impl<V> Default for KeyedTable<V> {
    fn default() -> Self {
        KeyedTable {
            index: Index::default(),
            entries: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<V> KeyedTable<V> {
    /// Makes hashes unpredictable. Only while the table is empty.
    pub fn seed(&mut self, cx: &mut Cx<'_>) {
        self.index
            .seed([cx.random().next_u64(), cx.random().next_u64()]);
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// A key's hash.
    #[inline(always)]
    pub fn hash(&self, (kind, key): Key) -> u64 {
        self.index.hash(kind, key)
    }

    /// Asks for what a search needs to be brought into the cache.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        self.index.lines().prefetch(hash);
    }

    /// Asks for what is probably the value of a key with this hash.
    #[inline(always)]
    pub fn prefetch_value(&self, hash: u64) {
        let number = self.index.lines().guess(hash);
        if let Some(entry) = number.and_then(|number| self.entries.get(number as usize)) {
            packet::prefetch(entry);
        }
    }

    /// The number of a key's value.
    #[inline]
    pub fn find(&self, key: Key, hash: u64) -> Option<u32> {
        let entries = &self.entries;
        let is_it =
            |entry: u32| matches!(entries.get(entry as usize), Some(Some((own, _))) if *own == key);
        self.index.find(hash, is_it)
    }

    /// A key's value.
    #[inline]
    pub fn get_mut(&mut self, key: Key, hash: u64) -> Option<&mut V> {
        let number = self.find(key, hash)?;
        let entry = self.entries.get_mut(number as usize)?.as_mut()?;
        Some(&mut entry.1)
    }

    /// Adds the value of a key that has none.
    pub fn insert(&mut self, key: Key, hash: u64, value: V) -> Result<(), NoMemory> {
        let entries = &self.entries;
        let hash_of = |index: &Index, number: u32| match entries.get(number as usize) {
            Some(Some(((kind, key), _))) => index.hash(*kind, *key),
            _ => 0,
        };
        self.index.reserve(1, hash_of)?;
        if self.free.is_empty() {
            let number = u32::try_from(self.entries.len()).map_err(|_| NoMemory)?;
            self.entries.try_reserve(1).map_err(|_| NoMemory)?;
            // A later removal finds space.
            self.free
                .try_reserve(self.entries.len() + 1)
                .map_err(|_| NoMemory)?;
            self.entries.push(None);
            self.free.push(number);
        }
        let number = self.free.pop().ok_or(NoMemory)?;
        self.entries[number as usize] = Some((key, value));
        self.index.insert(hash, number);
        Ok(())
    }

    /// Removes a key's value.
    pub fn remove(&mut self, key: Key) -> Option<V> {
        let hash = self.hash(key);
        let number = self.find(key, hash)?;
        self.index.remove(hash, number);
        self.free.push(number);
        let entry = self.entries.get_mut(number as usize)?.take();
        entry.map(|(_, value)| value)
    }

    /// The values and their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &V)> {
        let entries = self.entries.iter().flatten();
        entries.map(|(key, value)| (key, value))
    }

    /// Removes the values for which `stays` is false.
    pub fn retain(&mut self, mut stays: impl FnMut(&Key, &V) -> bool) {
        for number in 0..self.entries.len() {
            let slot = &mut self.entries[number];
            if let Some((key, _)) = slot.take_if(|(key, value)| !stays(key, value)) {
                let hash = self.index.hash(key.0, key.1);
                self.index.remove(hash, number as u32);
                self.free.push(number as u32);
            }
        }
    }

    /// Removes all values, and returns them.
    pub fn drain(&mut self) -> impl Iterator<Item = (Key, V)> {
        self.index.clear();
        self.free.clear();
        self.entries.drain(..).flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn key(n: u16) -> Key {
        let ends = FlowKey {
            addresses: u64::from(n / 3) << 20,
            ports: u32::from(n % 3),
        };
        (n % 2, ends)
    }

    proptest! {
        #[test]
        fn values_are_those_of_a_map(steps in prop::collection::vec((0u8..10, 0u16..1000, any::<u32>()), 0..2000)) {
            let mut table = KeyedTable::default();
            table.index.seed([3, 5]);
            let mut model = HashMap::new();
            for (step, n, value) in steps {
                let (key, hash) = (key(n), table.hash(key(n)));
                match step {
                    0..6 => match table.get_mut(key, hash) {
                        Some(there) => {
                            prop_assert_eq!(model.insert(key, value), Some(*there));
                            *there = value;
                        }
                        None => {
                            prop_assert!(table.insert(key, hash, value).is_ok());
                            prop_assert_eq!(model.insert(key, value), None);
                        }
                    },
                    6..9 => prop_assert_eq!(table.remove(key), model.remove(&key)),
                    _ if value % 8 > 0 => {
                        table.retain(|_, there| there % 16 != value % 16);
                        model.retain(|_, there| *there % 16 != value % 16);
                    }
                    _ => prop_assert_eq!(table.drain().collect::<HashMap<_, _>>(), core::mem::take(&mut model)),
                }
                prop_assert_eq!(table.len(), model.len());
            }
            let all: HashMap<_, _> = table.iter().map(|(key, value)| (*key, *value)).collect();
            prop_assert_eq!(all, model);
        }
    }
}
