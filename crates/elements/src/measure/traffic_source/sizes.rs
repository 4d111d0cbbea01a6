//! The sizes of frames, in the order in which they are made.

use crate::prelude::*;

/// The simple Internet mix: 7 parts, 4 parts, 1 part; without the frame check sequence.
const IMIX: &[(u32, u32)] = &[(60, 7), (590, 4), (1514, 1)];
/// Bytes of the shortest frame of Ethernet, without its check sequence.
const SIZE_MIN: u32 = 60;
/// Longest frame.
const SIZE_MAX: u32 = 9014;
/// Most frames before the order repeats.
const ORDER_MAX: u32 = 4096;

/// Sizes of frames, in bytes: an order that repeats, in which each has its share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(Vec<u32>);

impl Sizes {
    /// Sizes with their weights: each in turn that is furthest behind its share.
    fn mix(shares: &[(u32, u32)]) -> Sizes {
        let total: i64 = shares.iter().map(|(_, weight)| i64::from(*weight)).sum();
        let mut behind = vec![0i64; shares.len()];
        let mut order = Vec::new();
        for _ in 0..total {
            for (behind, (_, weight)) in behind.iter_mut().zip(shares) {
                *behind += i64::from(*weight);
            }
            let all = behind.iter_mut().zip(shares).rev();
            if let Some((behind, (size, _))) = all.max_by_key(|(behind, _)| **behind) {
                *behind -= total;
                order.push(*size);
            }
        }
        Sizes(order)
    }

    /// Frames before the order repeats.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The size that stands at a place of the order.
    #[inline]
    pub fn nth(&self, place: usize) -> u32 {
        self.0.get(place).copied().unwrap_or(0)
    }

    /// The largest size.
    pub fn most(&self) -> u32 {
        self.0.iter().max().copied().unwrap_or(0)
    }

    /// The least size.
    pub fn least(&self) -> u32 {
        self.0.iter().min().copied().unwrap_or(0)
    }

    /// Lengthens those below `least`.
    pub fn raise(&mut self, least: u32) {
        for size in &mut self.0 {
            *size = (*size).max(least);
        }
    }
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes(vec![60])
    }
}

impl Argument for Sizes {
    const KIND: &'static str = "sizes, or imix";

    fn parse(text: &str, _: &Context<'_>) -> Result<Self, Invalid> {
        if text == "imix" {
            return Ok(Sizes::mix(IMIX));
        }
        let mut shares = Vec::new();
        for word in text.split_whitespace() {
            let (size, weight) = word.split_once(':').unwrap_or((word, "1"));
            let size = size
                .parse()
                .ok()
                .filter(|size| (SIZE_MIN..=SIZE_MAX).contains(size));
            let weight = weight
                .parse()
                .ok()
                .filter(|weight| (1..=ORDER_MAX).contains(weight));
            let Some(share) = size.zip(weight) else {
                return Err(Invalid::because(format!(
                    "‘{word}’ is no size: write bytes from {SIZE_MIN} to {SIZE_MAX}, and a weight, as in 60:7"
                )));
            };
            shares.push(share);
        }
        let total: u64 = shares.iter().map(|(_, weight)| u64::from(*weight)).sum();
        if !(1..=u64::from(ORDER_MAX)).contains(&total) {
            return Err(Invalid::because(format!(
                "expected imix, or sizes whose weights make up to {ORDER_MAX}, as in 60:7 590:4 1514"
            )));
        }
        Ok(Sizes::mix(&shares))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    fn sizes(text: &str) -> Sizes {
        Context::blank().parse(text).unwrap()
    }

    #[test]
    fn sizes_take_turns_by_their_weights() {
        assert_eq!(sizes("64 128").0, [64, 128]);
        assert_eq!(sizes("imix").0[..6], [60, 590, 60, 60, 590, 60]);
        assert_eq!(sizes("imix"), sizes("60:7 590:4 1514:1"));
        for text in ["", "64:0", "9015", "64,128", "64:4096 128", "0"] {
            assert!(Context::blank().parse::<Sizes>(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn each_size_has_its_share(weights in prop::collection::vec(1u32..40, 1..6)) {
            let shares: Vec<_> = (1u32..).zip(weights.iter().copied()).collect();
            let sizes = Sizes::mix(&shares);
            for (size, weight) in &shares {
                let times = sizes.0.iter().filter(|other| *other == size).count();
                prop_assert_eq!(times, *weight as usize);
            }
            prop_assert_eq!((sizes.least(), sizes.most()), (1, weights.len() as u32));
        }
    }
}
