//! Vector operations over a batch's worth of numbers, in the widest instructions of the processor.
//!
//! Programs are built for a baseline (x86-64, or x86-64-v2 in a guest) and run on machines that
//! have more. Work that gains by wider instructions is a [`Kernel`], generic over the instruction
//! set. [`run`] compiles it once for each set and selects one, so that everything inside is inlined
//! and no packet costs a choice. With 16 numbers compared by one instruction instead of 4, ten
//! firewall rules take a fifth of the time (`cargo bench -p elements --bench classify`, with
//! `WEIR_SIMD` set to `baseline`, `avx2` or `avx512`).
//!
//! A function compiled for more than the baseline may only be called where the processor has the
//! instructions. [`Avx2`] and [`Avx512`] are the proof: only [`Level`] makes them, by CPUID and XCR0.
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

mod aligned;
mod level;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use aligned::Aligned;
pub use level::Level;
#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

/// Numbers of a vector: one for each packet of a batch.
pub const WIDTH: usize = 64;
/// Numbers of a [block](Simd::within).
pub const BLOCK: usize = 16;
/// Bytes of a cache line.
pub const LINE: usize = 64;

/// Steps of a binary search in sixteen pairs.
const STEPS: [u32; 4] = [8, 4, 2, 1];

/// Operations of an instruction set.
pub trait Simd: Copy {
    /// For the first `blocks` blocks of 16 lanes of `vector`, a bit for each lane with
    /// `(lane & mask) - low <= span`, the difference wrapping; other bits are unspecified. 4 blocks
    /// are the whole vector.
    fn within(self, vector: &[u32; WIDTH], blocks: usize, mask: u32, low: u32, span: u32) -> u64;

    /// How many of `keys` are less than `value`.
    fn rank(self, keys: &[u32; BLOCK], value: u32) -> u32;

    /// The numbers of `table` at the indices in the first `blocks` blocks of `at`; 0 for an index out
    /// of bounds. Other lanes are unspecified.
    fn gather(self, table: &[u32], at: &[u32; WIDTH], blocks: usize, into: &mut [u32; WIDTH]);

    /// For each lane of the first `blocks` blocks, a run of `len` pairs, at most sixteen, starts at
    /// `at`, ordered by their second numbers. The result is the first number of the last pair whose
    /// second is at most the lane of `values`, or of the run's first pair; `at` for an empty run. It
    /// is unspecified for runs that are longer or not inside `pairs`.
    fn last_reached(
        self,
        pairs: &[[u32; 2]],
        runs: [&[u32; WIDTH]; 2],
        values: &[u32; WIDTH],
        blocks: usize,
        into: &mut [u32; WIDTH],
    );

    /// The sum of all 32-bit words in `lines`, as they are in memory. It wraps only for slices that no memory holds.
    fn sum_words(self, lines: &[[u8; LINE]]) -> u64;

    /// Copies the pointers in `from` with a bit in `set`, which are initialized, to the start of
    /// `into`, in order. The rest of `into` is uninitialized then.
    fn pick(self, from: &Pointers, set: u64, into: &mut Pointers);

    /// As [`pick`](Self::pick), within one array.
    fn keep(self, pointers: &mut Pointers, set: u64);

    /// The lowest bit of the AND of `rows`, of `N` words each; `None` if it is zero.
    fn first_common<const N: usize, const R: usize>(self, rows: [&[u64; N]; R]) -> Option<u32>;
}

/// Slots for as many pointers as a batch has packets.
pub type Pointers = [MaybeUninit<*mut u8>; WIDTH];

/// Work that is compiled for each instruction set.
pub trait Kernel {
    /// Its result.
    type Output;

    /// Runs the work. To be marked `#[inline(always)]`, so that it is compiled for the instruction
    /// set of `simd`.
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

/// Copies pointers' slots, initialized or not.
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

/// A bit for each of `values` that equals `value`, the lowest for the first. (Four instructions of
/// the x86-64 baseline.)
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

/// The instructions that the program is built for.
#[derive(Clone, Copy, Debug)]
pub struct Baseline;

impl Simd for Baseline {
    #[inline(always)]
    fn within(self, vector: &[u32; WIDTH], blocks: usize, mask: u32, low: u32, span: u32) -> u64 {
        let mut bits = 0;
        for (i, block) in vector
            .as_chunks::<BLOCK>()
            .0
            .iter()
            .take(blocks)
            .enumerate()
        {
            let mut hits = [0u8; BLOCK];
            for (hit, lane) in hits.iter_mut().zip(block) {
                *hit = u8::from((lane & mask).wrapping_sub(low) <= span);
            }
            bits |= u64::from(packed(hits)) << (BLOCK * i);
        }
        bits
    }

    #[inline(always)]
    fn sum_words(self, lines: &[[u8; LINE]]) -> u64 {
        let words = lines.as_flattened().as_chunks().0.iter();
        words.fold(0, |sum: u64, word| {
            sum.wrapping_add(u64::from(u32::from_ne_bytes(*word)))
        })
    }

    #[inline(always)]
    fn rank(self, keys: &[u32; BLOCK], value: u32) -> u32 {
        keys.iter().map(|key| u32::from(*key < value)).sum()
    }

    #[inline(always)]
    fn gather(self, table: &[u32], at: &[u32; WIDTH], blocks: usize, into: &mut [u32; WIDTH]) {
        for (into, at) in into.iter_mut().zip(at).take(BLOCK * blocks) {
            *into = table.get(*at as usize).copied().unwrap_or(0);
        }
    }

    #[inline(always)]
    fn last_reached(
        self,
        pairs: &[[u32; 2]],
        [at, len]: [&[u32; WIDTH]; 2],
        values: &[u32; WIDTH],
        blocks: usize,
        into: &mut [u32; WIDTH],
    ) {
        let runs = at.iter().zip(len).zip(values);
        for (into, ((at, len), value)) in into.iter_mut().zip(runs).take(BLOCK * blocks) {
            let run = pairs.get(*at as usize..).unwrap_or(&[]);
            let mut reached = 0;
            for step in STEPS {
                let next = reached + step;
                let pair = run.get(next as usize).filter(|_| next < *len);
                if pair.is_some_and(|pair| pair[1] <= *value) {
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
            *into = from[bits.trailing_zeros() as usize % WIDTH];
            bits &= bits - 1;
        }
    }

    #[inline(always)]
    fn keep(self, pointers: &mut Pointers, set: u64) {
        let (mut bits, mut count) = (set, 0);
        while bits != 0 {
            pointers[count % WIDTH] = pointers[bits.trailing_zeros() as usize % WIDTH];
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
fn packed(bytes: [u8; BLOCK]) -> u16 {
    let word = u128::from_le_bytes(bytes);
    let eight = |word: u64| word.wrapping_mul(0x0102_0408_1020_4080) >> 56;
    (eight(word as u64) | eight((word >> 64) as u64) << 8) as u16
}

#[cfg(test)]
mod tests;
