//! Sets of threads.

use core::fmt;

use crate::settings::THREADS_MAX;

/// A set of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadSet(u64);

const _: () = assert!(THREADS_MAX as u32 <= u64::BITS);

impl ThreadSet {
    /// The set of one thread.
    pub fn of(thread: u16) -> ThreadSet {
        ThreadSet(1 << (thread % THREADS_MAX))
    }

    /// Whether a thread is in it.
    pub fn has(self, thread: u16) -> bool {
        self.0 & ThreadSet::of(thread).0 != 0
    }

    /// Number of its threads that come before `thread`.
    pub fn rank(self, thread: u16) -> usize {
        (self.0 & (ThreadSet::of(thread).0 - 1)).count_ones() as usize
    }

    /// Its threads, in order.
    pub fn iter(self) -> impl Iterator<Item = u16> {
        (0..THREADS_MAX).filter(move |thread| self.has(*thread))
    }

    /// Adds threads; returns whether there were new ones.
    pub fn add(&mut self, others: ThreadSet) -> bool {
        let before = self.0;
        self.0 |= others.0;
        self.0 != before
    }
}

/// `0,2-3`.
impl fmt::Display for ThreadSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = |thread: u16| thread > 0 && self.has(thread - 1);
        let after = |thread: u16| thread + 1 < THREADS_MAX && self.has(thread + 1);
        let mut separator = "";
        for thread in self.iter() {
            match (before(thread), after(thread)) {
                (true, true) => {}
                (true, false) => write!(f, "-{thread}")?,
                (false, _) => write!(f, "{separator}{thread}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    #[test]
    fn sets_are_shown_as_ranges() {
        for (threads, text) in [
            (&[][..], ""),
            (&[0], "0"),
            (&[0, 1, 2, 3], "0-3"),
            (&[3, 0], "0,3"),
            (&[0, 2, 3, 63, 62], "0,2-3,62-63"),
        ] {
            let mut set = ThreadSet::default();
            threads.iter().for_each(|thread| {
                set.add(ThreadSet::of(*thread));
            });
            assert_eq!(set.to_string(), text);
        }
    }
}
