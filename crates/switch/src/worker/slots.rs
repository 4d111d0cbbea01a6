//! Reusable slots: a table from indices to ports, domains or queues.

/// A table whose entries keep their index as long as they exist.
pub(super) struct Slots<T>(Vec<Option<T>>);

impl<T> Slots<T> {
    /// An empty table that reaches so many entries without growing.
    pub fn with_capacity(entries: usize) -> Slots<T> {
        Slots(Vec::with_capacity(entries))
    }

    /// The entry with an index, if there is one.
    #[inline(always)]
    pub fn get(&self, index: impl Into<u32>) -> Option<&T> {
        self.0.get(index.into() as usize)?.as_ref()
    }

    /// The entry with an index, if there is one.
    #[inline(always)]
    pub fn get_mut(&mut self, index: impl Into<u32>) -> Option<&mut T> {
        self.0.get_mut(index.into() as usize)?.as_mut()
    }

    /// Puts an entry into a slot, which may be behind all others.
    pub fn put(&mut self, index: impl Into<u32>, entry: T) {
        let index = index.into() as usize;
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index] = Some(entry);
    }

    /// Takes an entry out of its slot.
    pub fn take(&mut self, index: impl Into<u32>) -> Option<T> {
        self.0.get_mut(index.into() as usize)?.take()
    }

    /// Number of slots, with an entry or without.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The slots, in the order of their indices.
    pub fn iter(&self) -> impl Iterator<Item = Option<&T>> {
        self.0.iter().map(Option::as_ref)
    }

    /// The entries, in the order of their indices.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flatten()
    }
}
