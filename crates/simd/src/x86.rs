//! AVX2 and AVX-512.
//!
//! Each operation is a safe function compiled for its instruction set, and the trait's method
//! calls it. Both are inlined into the kernel, which is compiled for the same set.

use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use crate::{BLOCK, Kernel, LINE, Pointers, STEPS, Simd, WIDTH};

/// The processor has AVX2, BMI1, BMI2, LZCNT and POPCNT.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

/// The processor has what [`Avx2`] says, and AVX-512 F, BW, DQ and VL.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

impl Avx2 {
    /// # Safety
    /// The processor has these instructions, and the system keeps their state.
    #[inline(always)]
    pub(crate) unsafe fn assume() -> Avx2 {
        Avx2(())
    }

    #[inline(always)]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[inline]
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        fn compiled<K: Kernel>(kernel: K, simd: Avx2) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: `self` says that the processor has them.
        unsafe { compiled(kernel, self) }
    }
}

impl Avx512 {
    /// # Safety
    /// The processor has these instructions, and the system keeps their state.
    #[inline(always)]
    pub(crate) unsafe fn assume() -> Avx512 {
        Avx512(())
    }

    #[inline(always)]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
        fn compiled<K: Kernel>(kernel: K, simd: Avx512) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: `self` says that the processor has them.
        unsafe { compiled(kernel, self) }
    }
}

/// See [`crate::equal`].
#[inline(always)]
pub(crate) fn equal(values: &[u16; 8], value: u16) -> u32 {
    #[inline]
    #[target_feature(enable = "sse2")]
    fn compiled(values: &[u16; 8], value: u16) -> u32 {
        // SAFETY: 16 readable bytes; the instruction asks for no alignment.
        let values = unsafe { _mm_loadu_si128(values.as_ptr().cast()) };
        let same = _mm_cmpeq_epi16(values, _mm_set1_epi16(value as i16));
        _mm_movemask_epi8(_mm_packs_epi16(same, _mm_setzero_si128())) as u32
    }
    // SAFETY: SSE2 is part of x86-64.
    unsafe { compiled(values, value) }
}

impl Simd for Avx2 {
    #[inline(always)]
    fn within(self, vector: &[u32; WIDTH], blocks: usize, mask: u32, low: u32, span: u32) -> u64 {
        // SAFETY: `self` says that the processor has the instructions.
        unsafe { within_256(vector, blocks, [mask, low, span]) }
    }

    #[inline(always)]
    fn sum_words(self, lines: &[[u8; LINE]]) -> u64 {
        // SAFETY: as above.
        unsafe { sum_words_256(lines) }
    }

    #[inline(always)]
    fn rank(self, keys: &[u32; BLOCK], value: u32) -> u32 {
        // SAFETY: as above.
        unsafe { rank_256(keys, value) }
    }

    #[inline(always)]
    fn gather(self, table: &[u32], at: &[u32; WIDTH], blocks: usize, into: &mut [u32; WIDTH]) {
        // SAFETY: as above.
        unsafe { gather_256(table, at, blocks, into) }
    }

    #[inline(always)]
    fn last_reached(
        self,
        pairs: &[[u32; 2]],
        runs: [&[u32; WIDTH]; 2],
        values: &[u32; WIDTH],
        blocks: usize,
        into: &mut [u32; WIDTH],
    ) {
        // SAFETY: as above.
        unsafe { last_reached_256(pairs, runs, values, blocks, into) }
    }

    #[inline(always)]
    fn pick(self, from: &Pointers, set: u64, into: &mut Pointers) {
        crate::Baseline.pick(from, set, into);
    }

    #[inline(always)]
    fn keep(self, pointers: &mut Pointers, set: u64) {
        crate::Baseline.keep(pointers, set);
    }

    #[inline(always)]
    fn first_common<const N: usize, const R: usize>(self, rows: [&[u64; N]; R]) -> Option<u32> {
        // SAFETY: as above.
        unsafe { first_256(rows) }
    }
}

impl Simd for Avx512 {
    #[inline(always)]
    fn within(self, vector: &[u32; WIDTH], _blocks: usize, mask: u32, low: u32, span: u32) -> u64 {
        // SAFETY: `self` says that the processor has the instructions.
        unsafe { within_512(vector, [mask, low, span]) }
    }

    #[inline(always)]
    fn sum_words(self, lines: &[[u8; LINE]]) -> u64 {
        // SAFETY: as above.
        unsafe { sum_words_512(lines) }
    }

    #[inline(always)]
    fn rank(self, keys: &[u32; BLOCK], value: u32) -> u32 {
        // SAFETY: as above.
        unsafe { rank_512(keys, value) }
    }

    #[inline(always)]
    fn gather(self, table: &[u32], at: &[u32; WIDTH], blocks: usize, into: &mut [u32; WIDTH]) {
        // SAFETY: as above.
        unsafe { gather_512(table, at, blocks, into) }
    }

    #[inline(always)]
    fn last_reached(
        self,
        pairs: &[[u32; 2]],
        runs: [&[u32; WIDTH]; 2],
        values: &[u32; WIDTH],
        blocks: usize,
        into: &mut [u32; WIDTH],
    ) {
        // SAFETY: as above.
        unsafe { last_reached_512(pairs, runs, values, blocks, into) }
    }

    #[inline(always)]
    fn pick(self, from: &Pointers, set: u64, into: &mut Pointers) {
        // SAFETY: `self` says that the processor has the instructions; both are slots.
        unsafe { pick_512(from.as_ptr(), set, into.as_mut_ptr()) }
    }

    #[inline(always)]
    fn keep(self, pointers: &mut Pointers, set: u64) {
        let slots = pointers.as_mut_ptr();
        // SAFETY: as above.
        unsafe { pick_512(slots, set, slots) }
    }

    #[inline(always)]
    fn first_common<const N: usize, const R: usize>(self, rows: [&[u64; N]; R]) -> Option<u32> {
        // SAFETY: as above.
        unsafe { first_512(rows) }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn load_512(block: &[u32; BLOCK]) -> __m512i {
    // SAFETY: 64 readable bytes; the instruction asks for no alignment.
    unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn within_512(vector: &[u32; WIDTH], [mask, low, span]: [u32; 3]) -> u64 {
    let [mask, low, span] = [mask, low, span].map(|word| _mm512_set1_epi32(word as i32));
    let one = |block: &[u32; BLOCK]| {
        let distance = _mm512_sub_epi32(_mm512_and_si512(load_512(block), mask), low);
        _mm512_cmple_epu32_mask(distance, span)
    };
    // All blocks: four more instructions cost less than a branch that may be mispredicted.
    let all = vector.as_chunks::<BLOCK>().0;
    let half = |i: usize| _mm512_kunpackw(one(&all[i + 1]).into(), one(&all[i]).into());
    _cvtmask64_u64(_mm512_kunpackd(half(2).into(), half(0).into()))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn sum_words_512(lines: &[[u8; LINE]]) -> u64 {
    let even = _mm512_set1_epi64(0xffff_ffff);
    let mut sums = [_mm512_setzero_si512(); 2];
    for line in lines {
        // SAFETY: 64 readable bytes; the instruction asks for no alignment.
        let words = unsafe { _mm512_loadu_si512(line.as_ptr().cast()) };
        sums[0] = _mm512_add_epi64(sums[0], _mm512_and_si512(words, even));
        sums[1] = _mm512_add_epi64(sums[1], _mm512_srli_epi64(words, 32));
    }
    _mm512_reduce_add_epi64(_mm512_add_epi64(sums[0], sums[1])) as u64
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,popcnt")]
fn rank_512(keys: &[u32; BLOCK], value: u32) -> u32 {
    let value = _mm512_set1_epi32(value as i32);
    _mm512_cmplt_epu32_mask(load_512(keys), value).count_ones()
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn store_512(block: &mut [u32; BLOCK], value: __m512i) {
    // SAFETY: 64 writable bytes; the instruction asks for no alignment.
    unsafe { _mm512_storeu_si512(block.as_mut_ptr().cast(), value) }
}

/// The numbers of `table` at the indices `at`, in lanes that are `wanted` and in bounds; 0 in others.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn take_512(table: &[u32], wanted: __mmask16, at: __m512i) -> __m512i {
    let reach = _mm512_set1_epi32(table.len().min(i32::MAX as usize) as i32);
    let inside = _mm512_mask_cmplt_epu32_mask(wanted, at, reach);
    let none = _mm512_setzero_si512();
    // SAFETY: these lanes are indices of the table.
    unsafe { _mm512_mask_i32gather_epi32::<4>(none, inside, at, table.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn gather_512(table: &[u32], at: &[u32; WIDTH], blocks: usize, into: &mut [u32; WIDTH]) {
    let lanes = at.as_chunks::<BLOCK>().0.iter();
    let lanes = lanes.zip(into.as_chunks_mut::<BLOCK>().0);
    for (at, into) in lanes.take(blocks) {
        store_512(into, take_512(table, !0, load_512(at)));
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn last_reached_512(
    pairs: &[[u32; 2]],
    [at, len]: [&[u32; WIDTH]; 2],
    values: &[u32; WIDTH],
    blocks: usize,
    into: &mut [u32; WIDTH],
) {
    let table = pairs.as_flattened();
    let [at, len, values] = [at, len, values].map(|vector| vector.as_chunks::<BLOCK>().0);
    let lanes = at.iter().zip(len).zip(values);
    let lanes = lanes.zip(into.as_chunks_mut::<BLOCK>().0);
    for (((at, len), values), into) in lanes.take(blocks) {
        let [at, len, values] = [at, len, values].map(|block| load_512(block));
        // Indices of numbers: two for each pair.
        let start = _mm512_slli_epi32::<1>(at);
        let mut reached = _mm512_setzero_si512();
        for step in STEPS {
            let next = _mm512_add_epi32(reached, _mm512_set1_epi32(step as i32));
            let inside = _mm512_cmplt_epu32_mask(next, len);
            // Most runs are short, and a gather costs as much for no lane as for all.
            if inside == 0 {
                continue;
            }
            let index = _mm512_add_epi32(start, _mm512_slli_epi32::<1>(next));
            let key = take_512(table, inside, _mm512_or_si512(index, _mm512_set1_epi32(1)));
            let more = _mm512_mask_cmple_epu32_mask(inside, key, values);
            reached = _mm512_mask_mov_epi32(reached, more, next);
        }
        let runs = _mm512_test_epi32_mask(len, len);
        let found = take_512(
            table,
            runs,
            _mm512_add_epi32(start, _mm512_slli_epi32::<1>(reached)),
        );
        store_512(into, _mm512_mask_mov_epi32(at, runs, found));
    }
}

/// # Safety
/// Both are [`WIDTH`] slots, disjoint or the same; those in `from` with a bit in `set` are
/// initialized.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,popcnt")]
unsafe fn pick_512(from: *const MaybeUninit<*mut u8>, set: u64, into: *mut MaybeUninit<*mut u8>) {
    let mut count = 0;
    for (i, bits) in set.to_le_bytes().into_iter().enumerate() {
        // SAFETY: eight slots of both. At most as many slots were written as were read before, so
        // every overwritten slot was read.
        unsafe {
            let eight = _mm512_maskz_loadu_epi64(bits, from.add(8 * i).cast());
            let picked = _mm512_maskz_compress_epi64(bits, eight);
            _mm512_storeu_si512(into.add(count).cast(), picked);
        }
        count += bits.count_ones() as usize;
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,lzcnt,popcnt")]
fn first_512<const N: usize, const R: usize>(rows: [&[u64; N]; R]) -> Option<u32> {
    if !N.is_multiple_of(8) {
        return crate::Baseline.first_common(rows);
    }
    // Finds the words with a bit, eight at a time; then the word.
    let mut some = 0u64;
    let mut words = [0u64; N];
    for i in (0..N).step_by(8) {
        let load = |row: &[u64; N]| {
            // SAFETY: words i to i + 7 of N, which is a multiple of 8; no alignment is asked for.
            unsafe { _mm512_loadu_si512(row[i..i + 8].as_ptr().cast()) }
        };
        let mut and = load(rows[0]);
        for row in &rows[1..] {
            and = _mm512_and_si512(and, load(row));
        }
        some |= u64::from(_mm512_test_epi64_mask(and, and)) << i;
        // SAFETY: as for the load.
        unsafe { _mm512_storeu_si512(words[i..i + 8].as_mut_ptr().cast(), and) };
    }
    let word = some.trailing_zeros() as usize;
    (some != 0).then(|| 64 * word as u32 + words[word % N].trailing_zeros())
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_256(half: &[u32; BLOCK / 2]) -> __m256i {
    // SAFETY: 32 readable bytes; the instruction asks for no alignment.
    unsafe { _mm256_loadu_si256(half.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn within_256(vector: &[u32; WIDTH], blocks: usize, [mask, low, span]: [u32; 3]) -> u64 {
    let [mask, low, span] = [mask, low, span].map(|word| _mm256_set1_epi32(word as i32));
    let eight = |lanes: &[u32; BLOCK / 2]| {
        let distance = _mm256_sub_epi32(_mm256_and_si256(load_256(lanes), mask), low);
        _mm256_cmpeq_epi32(_mm256_min_epu32(distance, span), distance)
    };
    // 32 comparisons become bytes, put in order by the last permutation.
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let halves = vector.as_chunks::<{ BLOCK / 2 }>().0;
    let mut bits = 0;
    for (i, four) in halves.as_chunks::<4>().0.iter().enumerate() {
        if 2 * i >= blocks {
            break;
        }
        let low = _mm256_packs_epi32(eight(&four[0]), eight(&four[1]));
        let high = _mm256_packs_epi32(eight(&four[2]), eight(&four[3]));
        let bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
        bits |= u64::from(_mm256_movemask_epi8(bytes) as u32) << (32 * i);
    }
    bits
}

#[inline]
#[target_feature(enable = "avx2")]
fn sum_words_256(lines: &[[u8; LINE]]) -> u64 {
    let even = _mm256_set1_epi64x(0xffff_ffff);
    let mut sums = [_mm256_setzero_si256(); 4];
    for line in lines {
        for (half, sums) in line
            .as_chunks::<32>()
            .0
            .iter()
            .zip(sums.as_chunks_mut::<2>().0)
        {
            // SAFETY: 32 readable bytes; the instruction asks for no alignment.
            let words = unsafe { _mm256_loadu_si256(half.as_ptr().cast()) };
            sums[0] = _mm256_add_epi64(sums[0], _mm256_and_si256(words, even));
            sums[1] = _mm256_add_epi64(sums[1], _mm256_srli_epi64(words, 32));
        }
    }
    let sum = sums.into_iter().fold(_mm256_setzero_si256(), |sum, next| {
        _mm256_add_epi64(sum, next)
    });
    let halves = _mm_add_epi64(
        _mm256_castsi256_si128(sum),
        _mm256_extracti128_si256(sum, 1),
    );
    (_mm_extract_epi64(halves, 0) as u64).wrapping_add(_mm_extract_epi64(halves, 1) as u64)
}

#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn rank_256(keys: &[u32; BLOCK], value: u32) -> u32 {
    let value = _mm256_set1_epi32(value as i32);
    let halves = keys.as_chunks::<{ BLOCK / 2 }>().0;
    // Not less: the greater of both is the key.
    let not_less = |half: &[u32; BLOCK / 2]| {
        let keys = load_256(half);
        _mm256_cmpeq_epi32(_mm256_max_epu32(keys, value), keys)
    };
    let both = _mm256_packs_epi32(not_less(&halves[0]), not_less(&halves[1]));
    BLOCK as u32 - (_mm256_movemask_epi8(both) as u32).count_ones() / 2
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_256(half: &mut [u32; BLOCK / 2], value: __m256i) {
    // SAFETY: 32 writable bytes; the instruction asks for no alignment.
    unsafe { _mm256_storeu_si256(half.as_mut_ptr().cast(), value) }
}

/// As [`take_512`]; wanted lanes have all bits set.
#[inline]
#[target_feature(enable = "avx2")]
fn take_256(table: &[u32], wanted: __m256i, at: __m256i) -> __m256i {
    let none = _mm256_setzero_si256();
    let Some(last) = table.len().min(i32::MAX as usize).checked_sub(1) else {
        return none;
    };
    let last = _mm256_set1_epi32(last as i32);
    let inside = _mm256_cmpeq_epi32(_mm256_min_epu32(at, last), at);
    let inside = _mm256_and_si256(inside, wanted);
    // SAFETY: these lanes are indices of the table.
    unsafe { _mm256_mask_i32gather_epi32::<4>(none, table.as_ptr().cast(), at, inside) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn gather_256(table: &[u32], at: &[u32; WIDTH], blocks: usize, into: &mut [u32; WIDTH]) {
    let lanes = at.as_chunks::<{ BLOCK / 2 }>().0.iter();
    let lanes = lanes.zip(into.as_chunks_mut::<{ BLOCK / 2 }>().0);
    for (at, into) in lanes.take(2 * blocks) {
        store_256(into, take_256(table, _mm256_set1_epi32(-1), load_256(at)));
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn last_reached_256(
    pairs: &[[u32; 2]],
    [at, len]: [&[u32; WIDTH]; 2],
    values: &[u32; WIDTH],
    blocks: usize,
    into: &mut [u32; WIDTH],
) {
    let table = pairs.as_flattened();
    let [at, len, values] = [at, len, values].map(|vector| vector.as_chunks::<{ BLOCK / 2 }>().0);
    let lanes = at.iter().zip(len).zip(values);
    let lanes = lanes.zip(into.as_chunks_mut::<{ BLOCK / 2 }>().0);
    for (((at, len), values), into) in lanes.take(2 * blocks) {
        let [at, len, values] = [at, len, values].map(|half| load_256(half));
        let start = _mm256_slli_epi32::<1>(at);
        let mut reached = _mm256_setzero_si256();
        for step in STEPS {
            let next = _mm256_add_epi32(reached, _mm256_set1_epi32(step as i32));
            let inside = _mm256_cmpgt_epi32(len, next);
            if _mm256_testz_si256(inside, inside) == 1 {
                continue;
            }
            let index = _mm256_add_epi32(start, _mm256_slli_epi32::<1>(next));
            let key = take_256(table, inside, _mm256_or_si256(index, _mm256_set1_epi32(1)));
            let more = _mm256_cmpeq_epi32(_mm256_min_epu32(key, values), key);
            reached = _mm256_blendv_epi8(reached, next, _mm256_and_si256(more, inside));
        }
        let runs = _mm256_cmpgt_epi32(len, _mm256_setzero_si256());
        let found = take_256(
            table,
            runs,
            _mm256_add_epi32(start, _mm256_slli_epi32::<1>(reached)),
        );
        store_256(into, _mm256_blendv_epi8(at, found, runs));
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
fn first_256<const N: usize, const R: usize>(rows: [&[u64; N]; R]) -> Option<u32> {
    if !N.is_multiple_of(4) {
        return crate::Baseline.first_common(rows);
    }
    let mut none = 0u64;
    let mut words = [0u64; N];
    for i in (0..N).step_by(4) {
        let load = |row: &[u64; N]| {
            // SAFETY: words i to i + 3 of N, which is a multiple of 4; no alignment is asked for.
            unsafe { _mm256_loadu_si256(row[i..i + 4].as_ptr().cast()) }
        };
        let mut and = load(rows[0]);
        for row in &rows[1..] {
            and = _mm256_and_si256(and, load(row));
        }
        let zero = _mm256_cmpeq_epi64(and, _mm256_setzero_si256());
        none |= u64::from(_mm256_movemask_pd(_mm256_castsi256_pd(zero)) as u32) << i;
        // SAFETY: as for the load.
        unsafe { _mm256_storeu_si256(words[i..i + 4].as_mut_ptr().cast(), and) };
    }
    let some = !none & (u64::MAX >> (64 - N));
    let word = some.trailing_zeros() as usize;
    (some != 0).then(|| 64 * word as u32 + words[word % N].trailing_zeros())
}
