//! Random numbers for elements that drop, choose or generate packets: xoshiro256** (Blackman and
//! Vigna, 2018). It is fast, and not for secrets.

use crate::prelude::*;

/// A random number generator.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
    /// Another source of choices, which repeats another implementation's.
    repeated: Option<Box<Additive>>,
}

impl Random {
    /// A generator that starts from `seed`.
    pub fn new(seed: u64) -> Random {
        // SplitMix64 spreads the seed over the state.
        let mut x = seed;
        let state = core::array::from_fn(|_| {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Random {
            state,
            repeated: None,
        }
    }

    /// A generator whose numbers follow from `seed`, and whose [choices](Random::below) are those
    /// that Click makes with it where the C library is glibc.
    pub fn repeating(seed: u32) -> Random {
        Random {
            repeated: Some(Box::new(Additive::new(seed))),
            ..Random::new(seed.into())
        }
    }

    /// Whether its choices repeat another implementation's.
    pub fn repeats(&self) -> bool {
        self.repeated.is_some()
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// The next 32 bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// So many random bits, 31 at most. If numbers repeat, the lowest of random(3)'s next, as Click's samples.
    #[inline]
    pub fn bits(&mut self, bits: u32) -> u32 {
        match &mut self.repeated {
            None => self.next_u32() >> (u32::BITS - bits),
            Some(repeated) => repeated.next() & ((1 << bits) - 1),
        }
    }

    /// A number below `end` (0 if `end` is 0), each as likely as another to within 2⁻³².
    #[inline]
    pub fn below(&mut self, end: u32) -> u32 {
        match &mut self.repeated {
            None => ((self.next_u32() as u64 * end as u64) >> 32) as u32,
            Some(repeated) => repeated.below(end),
        }
    }
}

/// Words of an additive generator's state, and the distance of the two that make the next.
const WORDS: usize = 31;
const APART: usize = 3;
/// Words that are skipped until the state is well mixed.
const MIXED: usize = 310;

/// The additive feedback generator of random(3): a word is the sum of those 3 and 31 before it, and
/// a number its upper 31 bits. The first 31 words come from the minimal standard generator (Park and
/// Miller, 1988).
#[derive(Clone, Debug)]
struct Additive {
    words: [u32; WORDS],
    /// The oldest word, which is the next to be replaced.
    oldest: usize,
}

impl Additive {
    fn new(seed: u32) -> Additive {
        const MODULUS: i64 = i32::MAX as i64;
        // A seed is a signed number, the others are not.
        let mut word = i64::from(seed.max(1) as i32);
        let words = core::array::from_fn(|_| {
            let this = word as u32;
            word = (16807 * word).rem_euclid(MODULUS);
            this
        });
        let mut generator = Additive {
            words,
            oldest: APART,
        };
        (0..MIXED).for_each(|_| _ = generator.next());
        generator
    }

    /// The next 31 bits.
    fn next(&mut self) -> u32 {
        let recent = self.words[(self.oldest + WORDS - APART) % WORDS];
        let word = &mut self.words[self.oldest];
        *word = word.wrapping_add(recent);
        let number = *word >> 1;
        self.oldest = (self.oldest + 1) % WORDS;
        number
    }

    /// A number below `end`, chosen as Click does: from as many equal parts of all numbers; one of
    /// two by a bit that is not the lowest.
    #[cold]
    fn below(&mut self, end: u32) -> u32 {
        const ALL: u32 = 1 << 31;
        match end {
            0 => 0,
            2 => (self.next() >> 14) & 1,
            1..=ALL => {
                let part = ALL / end;
                loop {
                    let number = self.next();
                    if number < part * end {
                        return number / part;
                    }
                }
            }
            _ => loop {
                let number = (self.next() << 17) ^ (self.next() >> 14);
                if number < end {
                    return number;
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_the_c_library() {
        // As srandom(3) and random(3) of glibc 2.36 give them.
        for (seed, first) in SEQUENCES {
            let mut generator = Additive::new(*seed);
            assert_eq!(core::array::from_fn(|_| generator.next()), *first, "{seed}");
        }
    }

    const SEQUENCES: &[(u32, [u32; 5])] = &[
        (
            0,
            [
                1_804_289_383,
                846_930_886,
                1_681_692_777,
                1_714_636_915,
                1_957_747_793,
            ],
        ),
        (
            1,
            [
                1_804_289_383,
                846_930_886,
                1_681_692_777,
                1_714_636_915,
                1_957_747_793,
            ],
        ),
        (
            2_026,
            [
                1_199_659_537,
                1_872_465_372,
                1_381_520_923,
                36_027_969,
                1_759_202_686,
            ],
        ),
        (
            2_147_483_648,
            [
                1_336_741_213,
                1_210_407_648,
                1_447_044_896,
                337_392_383,
                82_502_902,
            ],
        ),
        (
            4_294_967_295,
            [
                254_925_627,
                1_205_188_300,
                366_127_624,
                1_401_405_153,
                76_053_476,
            ],
        ),
    ];

    #[test]
    fn choices_are_within_bounds_and_repeat() {
        for end in [1, 2, 3, 10, 64_511, 1 << 31, (1 << 31) + 1, u32::MAX] {
            let (mut a, mut b) = (Random::repeating(7), Random::repeating(7));
            let mut free = Random::new(7);
            for _ in 0..1000 {
                let chosen = a.below(end);
                assert_eq!(chosen, b.below(end));
                assert!(chosen < end && free.below(end) < end);
            }
        }
        assert_eq!(Random::repeating(1).below(64_511), 54_202);
        assert_eq!(Random::repeating(4).bits(28), 1_968_078_301 & 0x0fff_ffff);
        assert!(Random::new(4).bits(3) < 8);
        assert_eq!(
            (Random::repeating(1).below(0), Random::new(1).below(0)),
            (0, 0)
        );
        assert_eq!(
            Random::repeating(3).next_u64(),
            Random::repeating(3).next_u64()
        );
    }
}
