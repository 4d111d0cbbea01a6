//! Free numbers, in memory that processes share: a stack without locks. Numbers that were never
//! taken come from a counter, so memory of zeros is an allocator whose numbers are all free.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The head of a stack of numbers below the length of its links.
#[repr(C)]
pub struct Stack {
    /// A tag in the upper half, against a head that changed and changed back; below it the topmost
    /// number plus one, 0: none.
    head: AtomicU64,
    /// Numbers that were ever taken.
    fresh: AtomicU32,
}

impl Stack {
    pub const fn new() -> Stack {
        Stack {
            head: AtomicU64::new(0),
            fresh: AtomicU32::new(0),
        }
    }

    /// Takes a number. `None`: all are taken.
    pub fn pop(&self, links: &[AtomicU32]) -> Option<u32> {
        let mut head = self.head.load(Ordering::Acquire);
        while let Some(top) = (head as u32).checked_sub(1) {
            let below = links.get(top as usize)?.load(Ordering::Relaxed);
            match self.exchange(head, below) {
                Ok(()) => return Some(top),
                Err(now) => head = now,
            }
        }
        self.fresh
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                ((n as usize) < links.len()).then_some(n + 1)
            })
            .ok()
    }

    /// Gives a number back, which is taken.
    pub fn push(&self, links: &[AtomicU32], number: u32) {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            links[number as usize].store(head as u32, Ordering::Relaxed);
            match self.exchange(head, number + 1) {
                Ok(()) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Whether a number is free.
    pub fn available(&self, links: &[AtomicU32]) -> bool {
        self.head.load(Ordering::Relaxed) as u32 != 0
            || (self.fresh.load(Ordering::Relaxed) as usize) < links.len()
    }

    /// Numbers below this have been taken at some time.
    pub fn used(&self) -> u32 {
        self.fresh.load(Ordering::Relaxed)
    }

    /// Frees all numbers. Nobody else uses the stack.
    pub fn reset(&self) {
        self.head.store(0, Ordering::Relaxed);
        self.fresh.store(0, Ordering::Relaxed);
    }

    fn exchange(&self, from: u64, to: u32) -> Result<(), u64> {
        let to = ((from >> 32) + 1) << 32 | u64::from(to);
        self.head
            .compare_exchange_weak(from, to, Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn links(n: usize) -> Vec<AtomicU32> {
        (0..n).map(|_| AtomicU32::new(0)).collect()
    }

    proptest! {
        /// No number is taken twice, and none is lost.
        #[test]
        fn numbers_are_taken_once(takes in proptest::collection::vec(any::<bool>(), 0..200)) {
            let (stack, links) = (Stack::new(), links(16));
            let mut taken = HashSet::new();
            for take in takes {
                if take {
                    match stack.pop(&links) {
                        Some(n) => prop_assert!(n < 16 && taken.insert(n)),
                        None => prop_assert_eq!(taken.len(), 16),
                    }
                } else if let Some(&n) = taken.iter().next() {
                    taken.remove(&n);
                    stack.push(&links, n);
                }
                prop_assert_eq!(stack.available(&links), taken.len() < 16);
            }
        }
    }

    #[test]
    fn threads_never_hold_the_same_number() {
        let (stack, links) = (Stack::new(), links(8));
        let held: Vec<AtomicU32> = (0..8).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        if let Some(n) = stack.pop(&links) {
                            assert_eq!(held[n as usize].swap(1, Ordering::Relaxed), 0);
                            held[n as usize].store(0, Ordering::Relaxed);
                            stack.push(&links, n);
                        }
                    }
                });
            }
        });
    }
}
