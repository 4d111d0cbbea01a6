//! The anti-replay window (RFC 4303, section 3.4.3).

/// Sequence numbers that are remembered.
const REMEMBERED: u32 = 256;

/// Why a sequence number is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replay {
    /// It lies before the window.
    Old,
    /// It was there before.
    Seen,
}

/// Which sequence numbers were seen, of the last few up to the highest.
#[derive(Clone, Debug)]
pub(super) struct Window {
    size: u32,
    highest: u32,
    /// A bit for each remembered number, at its remainder by [`REMEMBERED`].
    seen: [u64; REMEMBERED as usize / 64],
}

impl Window {
    /// A window of `size` numbers (at least 1), in which the first is to be `start` or later.
    pub fn new(start: u32, size: u8) -> Window {
        Window {
            size: u32::from(size).max(1),
            highest: start,
            seen: [0; 4],
        }
    }

    /// The highest number seen, or the one to start with.
    pub fn highest(&self) -> u32 {
        self.highest
    }

    fn bit(&mut self, number: u32) -> (&mut u64, u64) {
        let at = number % REMEMBERED;
        (&mut self.seen[at as usize / 64], 1 << (at % 64))
    }

    /// Takes the number of a packet that is authentic.
    pub fn accept(&mut self, number: u32) -> Result<(), Replay> {
        if number == 0 {
            return Err(Replay::Old);
        }
        if number > self.highest {
            if number - self.highest >= REMEMBERED {
                self.seen = [0; 4];
            } else {
                for passed in self.highest + 1..number {
                    let (word, bit) = self.bit(passed);
                    *word &= !bit;
                }
            }
            self.highest = number;
        } else if self.highest - number >= self.size {
            return Err(Replay::Old);
        } else {
            let (word, bit) = self.bit(number);
            if *word & bit != 0 {
                return Err(Replay::Seen);
            }
        }
        let (word, bit) = self.bit(number);
        *word |= bit;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_number_is_accepted_once() {
        let mut window = Window::new(300, 64);
        assert_eq!(window.accept(300), Ok(()));
        assert_eq!(window.accept(300), Err(Replay::Seen));
        assert_eq!(window.accept(302), Ok(()));
        assert_eq!(window.accept(301), Ok(()));
        assert_eq!(window.accept(301), Err(Replay::Seen));
        assert_eq!(window.accept(239), Ok(()));
        assert_eq!(window.accept(238), Err(Replay::Old));
        assert_eq!(window.accept(0), Err(Replay::Old));
        assert_eq!(window.accept(u32::MAX), Ok(()));
        assert_eq!(window.accept(1), Err(Replay::Old));
        assert_eq!(window.highest(), u32::MAX);
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set(
            start in 1u32..1000,
            size: u8,
            steps in proptest::collection::vec(-300i64..300, 1..400),
        ) {
            let mut window = Window::new(start, size);
            let (mut seen, mut highest) = (HashSet::new(), start);
            let mut number = i64::from(start);
            for step in steps {
                number = (number + step).clamp(1, i64::from(u32::MAX));
                let n = number as u32;
                let age = highest.saturating_sub(n);
                let expected = match () {
                    _ if age >= u32::from(size).max(1) => Err(Replay::Old),
                    _ if seen.contains(&n) => Err(Replay::Seen),
                    _ => Ok(()),
                };
                prop_assert_eq!(window.accept(n), expected);
                if expected.is_ok() {
                    seen.insert(n);
                    highest = highest.max(n);
                }
            }
        }
    }
}
