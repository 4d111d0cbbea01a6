use super::*;
use proptest::prelude::*;

struct Within<'a>(&'a [u32; WIDTH], usize, [u32; 3]);

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

struct Gather<'a>(&'a [u32], &'a [u32; WIDTH], usize);

impl Kernel for Gather<'_> {
    type Output = [u32; WIDTH];
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> [u32; WIDTH] {
        let mut into = [7; WIDTH];
        simd.gather(self.0, self.1, self.2, &mut into);
        into
    }
}

struct LastReached<'a>(
    &'a [[u32; 2]],
    [&'a [u32; WIDTH]; 2],
    &'a [u32; WIDTH],
    usize,
);

impl Kernel for LastReached<'_> {
    type Output = [u32; WIDTH];
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> [u32; WIDTH] {
        let mut into = [7; WIDTH];
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
    let expected = (0..64 * N as u32).find(|&bit| and(bit as usize / 64) >> (bit % 64) & 1 == 1);
    for level in Level::all() {
        assert_eq!(run(level, First(rows)), expected, "{level:?}");
    }
}

proptest! {
    #[test]
    fn within_compares_each_lane(
        lanes in proptest::collection::vec(number(), WIDTH),
        blocks in 0usize..=4, mask in number(), low in number(), span in number(),
    ) {
        let lanes: [u32; WIDTH] = lanes.try_into().unwrap();
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
        let numbers: Vec<usize> = (0..WIDTH).filter(|i| set >> i & 1 == 1).collect();
        let pointer = |i: usize| MaybeUninit::new(core::ptr::without_provenance_mut::<u8>(i));
        for level in Level::all() {
            let mut from: Pointers = core::array::from_fn(pointer);
            let mut into: Pointers = [pointer(99); WIDTH];
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
        at in proptest::collection::vec(prop_oneof![0u32..50, number()], WIDTH),
        blocks in 0usize..=4,
    ) {
        let at: [u32; WIDTH] = at.try_into().unwrap();
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
        at in proptest::collection::vec(prop_oneof![0u32..50, number()], WIDTH),
        len in proptest::collection::vec(prop_oneof![0u32..=16, Just(17)], WIDTH),
        values in proptest::collection::vec(number(), WIDTH), blocks in 0usize..=4,
    ) {
        pairs.sort_by_key(|pair| pair[1]);
        let [at, len, values] = [at, len, values].map(|lanes| lanes.try_into().unwrap());
        for level in Level::all() {
            let found = run(level, LastReached(&pairs, [&at, &len], &values, blocks));
            for i in 0..BLOCK * blocks {
                let (at, len, value) = (at[i] as usize, len[i] as usize, values[i]);
                let expected = match pairs.get(at..at.saturating_add(len)) {
                    _ if len == 0 => at as u32,
                    Some(run) if len <= 16 => {
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

proptest! {
    #[test]
    fn words_of_lines_add_up(bytes in proptest::collection::vec(any::<u8>(), 0..400), skip in 0usize..4) {
        struct Sum<'a>(&'a [[u8; LINE]]);
        impl Kernel for Sum<'_> {
            type Output = u64;
            fn run<S: Simd>(self, simd: S) -> u64 {
                simd.sum_words(self.0)
            }
        }
        let (lines, _) = bytes.get(skip..).unwrap_or_default().as_chunks();
        let words = lines.as_flattened().chunks(4);
        let expected: u64 = words.map(|word| u64::from(u32::from_ne_bytes(word.try_into().unwrap()))).sum();
        for level in Level::all() {
            prop_assert_eq!(run(level, Sum(lines)), expected);
        }
    }
}
