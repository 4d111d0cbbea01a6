use super::*;
use proptest::prelude::*;

/// RFC 1071's definition, word by word.
fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0u64;
    for pair in bytes.chunks(2) {
        sum += u64::from(u16::from_be_bytes([
            pair[0],
            pair.get(1).copied().unwrap_or(0),
        ]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[test]
fn the_example_of_rfc_1071_sums_up() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(Sum::of(&bytes).fold(), 0xddf2);
    assert_eq!(Sum::of_array(&bytes).fold(), 0xddf2);
    assert_eq!(checksum(&bytes), 0x220d);
}

#[test]
fn the_examples_of_rfc_1624_update() {
    // Section 4: HC = 0xdd2f, m = 0x5555, m' = 0x3285, and the sum of the rest makes HC' zero,
    // where the equation of RFC 1141 would give 0xffff.
    assert_eq!(Delta::of_u16(0x5555, 0x3285).apply(0xdd2f), 0x0000);
}

#[test]
fn zeros_sum_to_zero_and_ones_do_not() {
    assert_eq!(Sum::of(&[0; 100]).fold(), 0);
    assert_eq!(checksum(&[]), 0xffff);
    assert_eq!(Sum::of(&[0xff; 100]).fold(), 0xffff);
    assert!(Sum::of(&[0xff; 20]).is_valid());
}

#[test]
fn a_full_sum_still_takes_additions() {
    let full = Sum(u64::MAX);
    assert_eq!(full.add_u16(1).fold(), 1);
    assert_eq!((full + full).fold(), 0xffff);
    assert_eq!(full.join(1, full).fold(), 0xffff);
}

#[test]
fn pseudo_headers_equal_their_bytes() {
    let (a, b) = (
        Ipv4Addr::new(10, 1, 2, 3),
        Ipv4Addr::new(192, 168, 255, 254),
    );
    let bytes = [10, 1, 2, 3, 192, 168, 255, 254, 0, 17, 0xff, 0xfe];
    assert_eq!(pseudo_header_v4(a, b, 17, 0xfffe).checksum(), naive(&bytes));
    let (a, b): (Ipv6Addr, Ipv6Addr) = (
        "2001:db8::1".parse().unwrap(),
        "ff02::1:ff00:7".parse().unwrap(),
    );
    let mut bytes = [0; 40];
    bytes[..16].copy_from_slice(&a.octets());
    bytes[16..32].copy_from_slice(&b.octets());
    bytes[32..36].copy_from_slice(&0x0001_2345u32.to_be_bytes());
    bytes[39] = 58;
    assert_eq!(
        pseudo_header_v6(a, b, 58, 0x0001_2345).checksum(),
        naive(&bytes)
    );
}

proptest! {
    #[test]
    fn sum_equals_the_definition(bytes in prop::collection::vec(any::<u8>(), 0..700), skip in 0..8usize) {
        let bytes = &bytes[skip.min(bytes.len())..];
        prop_assert_eq!(checksum(bytes), naive(bytes));
        let (blocks, _) = bytes.as_chunks();
        for level in Level::all() {
            let sum = Sum(simd::run(level, AddLong(blocks)));
            prop_assert_eq!(sum.checksum(), naive(blocks.as_flattened()));
        }
    }

    #[test]
    fn array_sums_equal_the_definition(a in any::<[u8; 20]>(), b in any::<[u8; 7]>()) {
        prop_assert_eq!(Sum::of_array(&a).checksum(), naive(&a));
        prop_assert_eq!(Sum::of_array(&b).checksum(), naive(&b));
    }

    #[test]
    fn pieces_join_at_any_offset(bytes in prop::collection::vec(any::<u8>(), 0..200), a in 0..200usize, b in 0..200usize) {
        let a = a.min(bytes.len());
        let b = b.clamp(a, bytes.len().max(a));
        let (x, y, z) = (&bytes[..a], &bytes[a..b], &bytes[b..]);
        let left = Sum::of(x).join(a, Sum::of(y)).join(b, Sum::of(z));
        let right = Sum::of(x).join(a, Sum::of(y).join(b - a, Sum::of(z)));
        prop_assert_eq!(left.checksum(), naive(&bytes));
        prop_assert_eq!(right.checksum(), naive(&bytes));
    }

    #[test]
    fn a_sum_is_valid_if_it_folds_to_ones(sum: u64, factor in 0..=u64::MAX / 0xffff, near in -1i64..=1) {
        for sum in [sum, (factor * 0xffff).wrapping_add_signed(near), near as u64] {
            prop_assert_eq!(Sum(sum).is_valid(), Sum(sum).fold() == 0xffff);
        }
    }

    #[test]
    fn bytes_are_updated_as_numbers_are(old: u32, new: u32, checksum: u16, equal: bool) {
        let delta = Delta::of_u32(old, new);
        let checksum = if equal { delta.0 } else { checksum };
        let bytes = delta.apply_bytes(checksum.to_be_bytes());
        prop_assert_eq!(u16::from_be_bytes(bytes), delta.apply(checksum));
    }

    #[test]
    fn update_equals_recomputation(mut bytes in any::<[u8; 20]>(), at in 0..10usize, new in any::<u16>(), edge in any::<bool>()) {
        bytes[19] |= 1; // not all zeros, before or after
        let at = at.min(8) * 2;
        let new = if edge { [0, 0xffff, 1, 0xfffe][usize::from(new % 4)] } else { new };
        let before = naive(&bytes);
        let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
        prop_assert_eq!(Delta::of_u16(old, new).apply(before), naive(&bytes));
    }

    #[test]
    fn deltas_add_up_to_recomputation(mut bytes in any::<[u8; 24]>(), one in any::<u32>(), two in any::<u32>(), whole in any::<[u8; 16]>()) {
        bytes[23] |= 1;
        let before = naive(&bytes);
        let was = |at: usize, bytes: &[u8; 24]| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        let delta = Delta::of_u32(was(0, &bytes), one) + Delta::of_u32(was(8, &bytes), two);
        bytes[..4].copy_from_slice(&one.to_be_bytes());
        bytes[8..12].copy_from_slice(&two.to_be_bytes());
        prop_assert_eq!(delta.apply(before), naive(&bytes));
        prop_assert_eq!((delta + Delta::NONE).apply(before), naive(&bytes));

        let replaced = Delta::of_sums(Sum::of(&bytes[..16]), Sum::of(&whole));
        let before = naive(&bytes);
        bytes[..16].copy_from_slice(&whole);
        prop_assert_eq!(replaced.apply(before), naive(&bytes));
    }
}
