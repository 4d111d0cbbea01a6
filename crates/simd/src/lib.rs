//! A few vector operations over a batch's worth of numbers, in the widest instructions that the
//! processor has.
//!
//! Programs are built for a baseline (x86-64, or x86-64-v2 in a guest) and run on machines that
//! have more. Work that gains by it is a [`Kernel`], generic over the instruction set; [`run`]
//! compiles it once for each and picks one, so that everything inside is inlined and nothing is
//! decided per packet. With 16 numbers compared by one instruction instead of 4, ten firewall
//! rules take a fifth of the time (`cargo bench -p elements --bench classify` shows it: set
//! `WEIR_SIMD` to `baseline`, `avx2` or `avx512`).
//!
//! All of the unsafe code is here: a function compiled for more than the baseline may only be
//! called where the processor has it. [`Avx2`] and [`Avx512`] are the proof of that: [`Level`]
//! alone makes them, from what CPUID and XCR0 say.
//!
//! ```
//! struct CountBelow<'a>(&'a [u32; 64], u32);
//!
//! impl simd::Kernel for CountBelow<'_> {
//!     type Output = u32;
//!     #[inline(always)]
//!     fn run<S: simd::Simd>(self, simd: S) -> u32 {
//!         simd.within(self.0, 4, u32::MAX, 0, self.1).count_ones()
//!     }
//! }
//!
//! let numbers = core::array::from_fn(|i| i as u32);
//! assert_eq!(simd::run(simd::Level::detected(), CountBelow(&numbers, 9)), 10);
//! ```
#![cfg_attr(not(test), no_std)]

use core::mem::MaybeUninit;

mod level;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use level::Level;
#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

/// Numbers that are worked on together: one for each packet of a batch.
pub const LANES: usize = 64;
/// Numbers of a [block](Simd::within).
pub const BLOCK: usize = 16;

/// How far a search in eight pairs goes on, if it does.
const STEPS: [u32; 3] = [4, 2, 1];

/// An instruction set's way to do things.
pub trait Simd: Copy {
    /// For the first `blocks` blocks of 16 `lanes`, a bit for each with
    /// `(lane & mask) - low <= span`, the difference wrapping; what the other bits are is not
    /// said. 4 blocks are all of them.
    fn within(self, lanes: &[u32; LANES], blocks: usize, mask: u32, low: u32, span: u32) -> u64;

    /// How many of `keys` are less than `value`.
    fn rank(self, keys: &[u32; BLOCK], value: u32) -> u32;

    /// The numbers of `table` at the places in the first `blocks` blocks of 16 `at`; 0 for what is
    /// no place. What the other lanes are is not said.
    fn gather(self, table: &[u32], at: &[u32; LANES], blocks: usize, into: &mut [u32; LANES]);

    /// For each lane of the first `blocks` blocks of 16, a run of `len` pairs, eight at most, starts
    /// at `at`, in the order of their second numbers: the first number of the last pair whose second
    /// is at most the lane's in `values`, or of the run's first one. `at` where there is no run.
    /// What lanes get whose run is not all in `pairs` or longer is not said.
    fn last_reached(
        self,
        pairs: &[[u32; 2]],
        runs: [&[u32; LANES]; 2],
        values: &[u32; LANES],
        blocks: usize,
        into: &mut [u32; LANES],
    );

    /// Copies the pointers in `from` with a bit in `set`, which are there, to the start of `into`, in
    /// order. What is behind them in `into` is nothing.
    fn pick(self, from: &Pointers, set: u64, into: &mut Pointers);

    /// As [`pick`](Self::pick), within the same places.
    fn keep(self, pointers: &mut Pointers, set: u64);

    /// The AND of the rows that start at `rows[row]`, of `N` words each, and the lowest bit of it;
    /// `None` if there is none.
    fn first_common<const N: usize, const R: usize>(self, rows: [&[u64; N]; R]) -> Option<u32>;
}

/// As many pointers as a batch has packets, of which some are there.
pub type Pointers = [MaybeUninit<*mut u8>; LANES];

/// Work that is compiled for each instruction set.
pub trait Kernel {
    /// What comes of it.
    type Output;

    /// Does it. To be marked `#[inline(always)]`, so that it is compiled with the instruction set
    /// that `simd` stands for.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Runs `kernel` with the instructions of `level`.
#[inline]
pub fn run<K: Kernel>(level: Level, kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(simd) = level.avx512() {
            return simd.run(kernel);
        }
        if let Some(simd) = level.avx2() {
            return simd.run(kernel);
        }
    }
    let _ = level;
    kernel.run(Baseline)
}

/// See [`Simd::pick`].
#[inline(never)]
pub fn pick(from: &Pointers, set: u64, into: &mut Pointers) {
    struct Pick<'a>(&'a Pointers, u64, &'a mut Pointers);
    impl Kernel for Pick<'_> {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            simd.pick(self.0, self.1, self.2);
        }
    }
    run(Level::detected(), Pick(from, set, into));
}

/// See [`Simd::keep`].
#[inline(never)]
pub fn keep(pointers: &mut Pointers, set: u64) {
    struct Keep<'a>(&'a mut Pointers, u64);
    impl Kernel for Keep<'_> {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            simd.keep(self.0, self.1);
        }
    }
    run(Level::detected(), Keep(pointers, set));
}

/// Copies a few pointers' places, whatever is there.
#[inline(never)]
pub fn copy<const N: usize>(from: &[MaybeUninit<*mut u8>; N], to: &mut [MaybeUninit<*mut u8>; N]) {
    struct Copy<'a, const N: usize>(
        &'a [MaybeUninit<*mut u8>; N],
        &'a mut [MaybeUninit<*mut u8>; N],
    );
    impl<const N: usize> Kernel for Copy<'_, N> {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, _simd: S) {
            *self.1 = *self.0;
        }
    }
    run(Level::detected(), Copy(from, to));
}

/// A bit for each of `values` that is `value`, the lowest for the first. (Four instructions that
/// every x86-64 has.)
#[inline(always)]
pub fn equal(values: &[u16; 8], value: u16) -> u32 {
    #[cfg(target_arch = "x86_64")]
    return x86::equal(values, value);
    #[cfg(not(target_arch = "x86_64"))]
    values
        .iter()
        .rev()
        .fold(0, |bits, own| bits << 1 | u32::from(*own == value))
}

/// What every processor has.
#[derive(Clone, Copy, Debug)]
pub struct Baseline;

impl Simd for Baseline {
    #[inline(always)]
    fn within(self, lanes: &[u32; LANES], blocks: usize, mask: u32, low: u32, span: u32) -> u64 {
        let mut bits = 0;
        for (i, block) in lanes.as_chunks::<BLOCK>().0.iter().take(blocks).enumerate() {
            let mut hits = [0u8; BLOCK];
            for (hit, lane) in hits.iter_mut().zip(block) {
                *hit = u8::from((lane & mask).wrapping_sub(low) <= span);
            }
            bits |= u64::from(gathered(hits)) << (BLOCK * i);
        }
        bits
    }

    #[inline(always)]
    fn rank(self, keys: &[u32; BLOCK], value: u32) -> u32 {
        keys.iter().map(|key| u32::from(*key < value)).sum()
    }

    #[inline(always)]
    fn gather(self, table: &[u32], at: &[u32; LANES], blocks: usize, into: &mut [u32; LANES]) {
        for (into, at) in into.iter_mut().zip(at).take(BLOCK * blocks) {
            *into = table.get(*at as usize).copied().unwrap_or(0);
        }
    }

    #[inline(always)]
    fn last_reached(
        self,
        pairs: &[[u32; 2]],
        [at, len]: [&[u32; LANES]; 2],
        values: &[u32; LANES],
        blocks: usize,
        into: &mut [u32; LANES],
    ) {
        let runs = at.iter().zip(len).zip(values);
        for (into, ((at, len), value)) in into.iter_mut().zip(runs).take(BLOCK * blocks) {
            let run = pairs.get(*at as usize..).unwrap_or(&[]);
            let mut reached = 0;
            for step in STEPS {
                let next = reached + step;
                let there = run.get(next as usize).filter(|_| next < *len);
                if there.is_some_and(|pair| pair[1] <= *value) {
                    reached = next;
                }
            }
            *into = match (len, run.get(reached as usize)) {
                (1.., Some(pair)) => pair[0],
                _ => *at,
            };
        }
    }

    #[inline(always)]
    fn pick(self, from: &Pointers, set: u64, into: &mut Pointers) {
        let mut bits = set;
        for into in into {
            if bits == 0 {
                break;
            }
            *into = from[bits.trailing_zeros() as usize % LANES];
            bits &= bits - 1;
        }
    }

    #[inline(always)]
    fn keep(self, pointers: &mut Pointers, set: u64) {
        let (mut bits, mut count) = (set, 0);
        while bits != 0 {
            pointers[count % LANES] = pointers[bits.trailing_zeros() as usize % LANES];
            bits &= bits - 1;
            count += 1;
        }
    }

    #[inline(always)]
    fn first_common<const N: usize, const R: usize>(self, rows: [&[u64; N]; R]) -> Option<u32> {
        for i in 0..N {
            let word = rows.iter().fold(u64::MAX, |and, row| and & row[i]);
            if word != 0 {
                return Some(64 * i as u32 + word.trailing_zeros());
            }
        }
        None
    }
}

/// The lowest bits of 16 bytes that are 0 or 1. Multiplying moves the eight bits of a word next to
/// each other into its top byte.
#[inline(always)]
fn gathered(bytes: [u8; BLOCK]) -> u16 {
    let word = u128::from_le_bytes(bytes);
    let eight = |word: u64| word.wrapping_mul(0x0102_0408_1020_4080) >> 56;
    (eight(word as u64) | eight((word >> 64) as u64) << 8) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Within<'a>(&'a [u32; LANES], usize, [u32; 3]);

    impl Kernel for Within<'_> {
        type Output = u64;
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> u64 {
            let [mask, low, span] = self.2;
            simd.within(self.0, self.1, mask, low, span)
        }
    }

    struct Rank<'a>(&'a [u32; BLOCK], u32);

    impl Kernel for Rank<'_> {
        type Output = u32;
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> u32 {
            simd.rank(self.0, self.1)
        }
    }

    struct Gather<'a>(&'a [u32], &'a [u32; LANES], usize);

    impl Kernel for Gather<'_> {
        type Output = [u32; LANES];
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> [u32; LANES] {
            let mut into = [7; LANES];
            simd.gather(self.0, self.1, self.2, &mut into);
            into
        }
    }

    struct LastReached<'a>(
        &'a [[u32; 2]],
        [&'a [u32; LANES]; 2],
        &'a [u32; LANES],
        usize,
    );

    impl Kernel for LastReached<'_> {
        type Output = [u32; LANES];
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> [u32; LANES] {
            let mut into = [7; LANES];
            simd.last_reached(self.0, self.1, self.2, self.3, &mut into);
            into
        }
    }

    struct First<'a, const N: usize>([&'a [u64; N]; 3]);

    impl<const N: usize> Kernel for First<'_, N> {
        type Output = Option<u32>;
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> Option<u32> {
            simd.first_common(self.0)
        }
    }

    fn number() -> impl Strategy<Value = u32> {
        prop_oneof![
            Just(0),
            Just(u32::MAX),
            Just(1 << 31),
            0u32..9,
            any::<u32>()
        ]
    }

    fn first_of<const N: usize>(rows: &[Vec<u64>; 3]) {
        let rows = rows
            .each_ref()
            .map(|row| row[..].first_chunk::<N>().unwrap());
        let and = |i: usize| rows[0][i] & rows[1][i] & rows[2][i];
        let expected =
            (0..64 * N as u32).find(|&bit| and(bit as usize / 64) >> (bit % 64) & 1 == 1);
        for level in Level::all() {
            assert_eq!(run(level, First(rows)), expected, "{level:?}");
        }
    }

    proptest! {
        #[test]
        fn within_compares_each_lane(
            lanes in proptest::collection::vec(number(), LANES),
            blocks in 0usize..=4, mask in number(), low in number(), span in number(),
        ) {
            let lanes: [u32; LANES] = lanes.try_into().unwrap();
            let said = |bits: u64| if blocks == 4 { bits } else { bits & ((1 << (BLOCK * blocks)) - 1) };
            let mut expected = 0;
            for (i, lane) in lanes.iter().take(BLOCK * blocks).enumerate() {
                expected |= u64::from((lane & mask).wrapping_sub(low) <= span) << i;
            }
            for level in Level::all() {
                let bits = run(level, Within(&lanes, blocks, [mask, low, span]));
                prop_assert_eq!(said(bits), expected, "{:?}", level);
            }
        }

        #[test]
        fn equal_values_are_found(values: [u16; 8], one in 0usize..8, same: [bool; 8]) {
            let value = values[one];
            let values = core::array::from_fn(|i| if same[i] { value } else { values[i] });
            let expected = (0..8).filter(|i| values[*i] == value).fold(0, |bits, i| bits | 1 << i);
            prop_assert_eq!(equal(&values, value), expected);
        }

        #[test]
        fn pointers_are_picked_in_order(set in prop_oneof![Just(0), Just(u64::MAX), any::<u64>()]) {
            struct Both<'a>(&'a mut Pointers, u64, &'a mut Pointers);
            impl Kernel for Both<'_> {
                type Output = ();
                #[inline(always)]
                fn run<S: Simd>(self, simd: S) {
                    simd.pick(self.0, self.1, self.2);
                    simd.keep(self.0, self.1);
                }
            }
            let numbers: Vec<usize> = (0..LANES).filter(|i| set >> i & 1 == 1).collect();
            let pointer = |i: usize| MaybeUninit::new(core::ptr::without_provenance_mut::<u8>(i));
            for level in Level::all() {
                let mut from: Pointers = core::array::from_fn(pointer);
                let mut into: Pointers = [pointer(99); LANES];
                run(level, Both(&mut from, set, &mut into));
                for pointers in [from, into] {
                    // SAFETY: all are there.
                    let found = pointers.map(|pointer| unsafe { pointer.assume_init() }.addr());
                    prop_assert_eq!(&found[..numbers.len()], &numbers[..], "{:?}", level);
                }
            }
        }

        #[test]
        fn rank_counts_smaller_keys(
            keys in proptest::collection::vec(number(), BLOCK), value in number(),
        ) {
            let keys: [u32; BLOCK] = keys.try_into().unwrap();
            let expected = keys.iter().filter(|key| **key < value).count() as u32;
            for level in Level::all() {
                prop_assert_eq!(run(level, Rank(&keys, value)), expected, "{:?}", level);
            }
        }

        #[test]
        fn numbers_are_gathered_from_places_that_are_there(
            table in proptest::collection::vec(any::<u32>(), 0..40),
            at in proptest::collection::vec(prop_oneof![0u32..50, number()], LANES),
            blocks in 0usize..=4,
        ) {
            let at: [u32; LANES] = at.try_into().unwrap();
            let expected = at.map(|at| table.get(at as usize).copied().unwrap_or(0));
            for level in Level::all() {
                let found = run(level, Gather(&table, &at, blocks));
                let said = ..BLOCK * blocks;
                prop_assert_eq!(&found[said], &expected[said], "{:?}", level);
            }
        }

        #[test]
        fn the_last_pair_that_a_value_reaches_is_found(
            mut pairs in proptest::collection::vec(any::<[u32; 2]>(), 0..40),
            at in proptest::collection::vec(prop_oneof![0u32..50, number()], LANES),
            len in proptest::collection::vec(prop_oneof![0u32..=8, Just(15)], LANES),
            values in proptest::collection::vec(number(), LANES), blocks in 0usize..=4,
        ) {
            pairs.sort_by_key(|pair| pair[1]);
            let [at, len, values] = [at, len, values].map(|lanes| lanes.try_into().unwrap());
            for level in Level::all() {
                let found = run(level, LastReached(&pairs, [&at, &len], &values, blocks));
                for i in 0..BLOCK * blocks {
                    let (at, len, value) = (at[i] as usize, len[i] as usize, values[i]);
                    let expected = match pairs.get(at..at.saturating_add(len)) {
                        _ if len == 0 => at as u32,
                        Some(run) if len <= 8 => {
                            let reached = run.partition_point(|pair| pair[1] <= value);
                            run[reached.max(1) - 1][0]
                        }
                        _ => continue,
                    };
                    prop_assert_eq!(found[i], expected, "{:?}, lane {}", level, i);
                }
            }
        }

        #[test]
        fn the_first_common_bit_is_found(
            bits in proptest::array::uniform3(proptest::collection::vec(0usize..2048, 0..60)),
            shared in proptest::collection::vec(0usize..2048, 0..3),
        ) {
            let rows = bits.map(|bits| {
                let mut row = vec![0u64; 32];
                for bit in bits.into_iter().chain(shared.iter().copied()) {
                    row[bit / 64] |= 1 << (bit % 64);
                }
                row
            });
            first_of::<1>(&rows);
            first_of::<2>(&rows);
            first_of::<4>(&rows);
            first_of::<8>(&rows);
            first_of::<16>(&rows);
            first_of::<32>(&rows);
        }
    }

    #[test]
    fn the_detected_level_is_one_of_all() {
        assert!(Level::all().any(|level| level == Level::detected()));
    }
}
