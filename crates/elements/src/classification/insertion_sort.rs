//! A small sort.

/// Sorts stably by a key, for a few dozen elements: the standard library's sort is half a dozen KiB of
/// code for each of six types here, and a guest's image is small.
pub(super) fn insertion_sort<T, K: Ord>(things: &mut [T], key: impl Fn(&T) -> K) {
    for end in 1..things.len() {
        let mut at = end;
        while at > 0 && key(&things[at - 1]) > key(&things[at]) {
            things.swap(at - 1, at);
            at -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    proptest! {
        #[test]
        fn it_does_as_the_library_does(mut things: Vec<(u8, u8)>) {
            let mut expected = things.clone();
            expected.sort_by_key(|thing| thing.0);
            super::insertion_sort(&mut things, |thing| thing.0);
            prop_assert_eq!(things, expected);
        }
    }
}
