//! The sequence numbers that arrived of each flow: which are missing, late, or there twice.
//!
//! Of each flow the last numbers are kept, a bit each, as an IPsec replay window keeps them. A
//! number is late if a higher one came before it (reordered, RFC 4737).

use crate::prelude::*;

/// What a packet's number says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is the highest so far, and so many before it are missing.
    Next(u32),
    /// It was missing.
    Late,
    /// It came before.
    Duplicate,
    /// It is older than the window: late, or there twice.
    Stale,
}

/// A flow that was not seen yet.
const UNSEEN: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Flow {
    run: u32,
    /// One more than the highest number.
    next: u32,
}

/// The numbers of flows.
#[derive(Default)]
pub struct Sequences {
    flows: Vec<Flow>,
    /// Bits of the last numbers of each flow, one after the other.
    seen: Vec<u64>,
    /// Words of a flow's bits.
    words: usize,
}

impl Sequences {
    /// Allocates memory for so many flows of windows of `window` numbers, a multiple of 64; false
    /// if there is none.
    pub fn reserve(&mut self, flows: usize, window: usize) -> bool {
        self.words = window / 64;
        let bits = flows * self.words;
        let reserved = self.flows.try_reserve_exact(flows).is_ok()
            && self.seen.try_reserve_exact(bits).is_ok();
        if reserved {
            let unseen = Flow {
                run: UNSEEN,
                next: 0,
            };
            self.flows.resize(flows, unseen);
            self.seen.resize(bits, 0);
        }
        reserved
    }

    /// Flows that were seen.
    pub fn count(&self) -> usize {
        let seen = self.flows.iter().filter(|flow| flow.run != UNSEEN);
        seen.count()
    }

    /// A number of a flow's run came; `None` if there is no room for that flow.
    ///
    /// A run's numbers are missed from 0 on if its first is within the window, else from the first on.
    #[inline]
    pub fn arrive(&mut self, flow: u32, run: u32, number: u32) -> Option<Arrival> {
        let index = flow as usize;
        let words = self.words;
        let flow = self.flows.get_mut(index)?;
        let seen = self.seen.get_mut(index * words..(index + 1) * words)?;
        let window = words as u32 * 64;
        if flow.run != run {
            let next = if number < window { 0 } else { number };
            *flow = Flow { run, next };
            seen.fill(0);
        }
        let ahead = number.wrapping_sub(flow.next);
        if ahead < 1 << 31 {
            if ahead >= window {
                seen.fill(0);
            } else {
                for skipped in 0..ahead {
                    set(seen, flow.next.wrapping_add(skipped), false);
                }
            }
            set(seen, number, true);
            flow.next = number.wrapping_add(1);
            return Some(Arrival::Next(ahead));
        }
        // The highest number is 1 behind the next one.
        if ahead.wrapping_neg() > window {
            return Some(Arrival::Stale);
        }
        Some(match set(seen, number, true) {
            true => Arrival::Duplicate,
            false => Arrival::Late,
        })
    }
}

/// Sets the bit of a number; returns its former value.
#[inline]
fn set(seen: &mut [u64], number: u32, value: bool) -> bool {
    let at = number as usize / 64 % seen.len().max(1);
    let Some(word) = seen.get_mut(at) else {
        return false;
    };
    let bit = 1 << (number % 64);
    let before = *word & bit != 0;
    match value {
        true => *word |= bit,
        false => *word &= !bit,
    }
    before
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::testing::*;

    proptest! {
        /// As a set of all numbers tells it, which has no bounds. The window is a power of two, so
        /// numbers may wrap around.
        #[test]
        fn missing_late_and_repeated_numbers_are_told(
            start in prop_oneof![Just(0u32), Just(u32::MAX - 300), any::<u32>()],
            steps in prop::collection::vec(-90i64..200, 1..300),
        ) {
            const WINDOW: i64 = 128;
            let mut sequences = Sequences::default();
            prop_assert!(sequences.reserve(2, WINDOW as usize));
            let mut seen = HashSet::new();
            let mut highest = if start < WINDOW as u32 { -1 } else { i64::from(start) - 1 };
            let mut first = true;
            for step in steps {
                let number = if first { i64::from(start) } else { (highest + step).max(i64::from(start)) };
                first = false;
                let told = sequences.arrive(1, 5, number as u32).unwrap();
                let expected = if number > highest {
                    let missing = (number - highest - 1) as u32;
                    highest = number;
                    Arrival::Next(missing)
                } else if highest + 1 - number > WINDOW {
                    Arrival::Stale
                } else if seen.contains(&number) {
                    Arrival::Duplicate
                } else {
                    Arrival::Late
                };
                seen.insert(number);
                prop_assert_eq!(told, expected, "{} {}", number, highest);
            }
            prop_assert_eq!(sequences.count(), 1);
            prop_assert_eq!(sequences.arrive(2, 5, 0), None);
            // Another run begins again.
            prop_assert_eq!(sequences.arrive(1, 6, 3), Some(Arrival::Next(3)));
        }
    }
}
