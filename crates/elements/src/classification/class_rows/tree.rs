//! A search tree over the intervals of a field.

use crate::prelude::*;
use simd::{Aligned, BLOCK, Baseline, Simd};

/// Children of a node.
const FAN: usize = BLOCK + 1;

/// The last values of all intervals but the last one, in a tree: a node
/// holds the last value of each child's part, a leaf those of 16 intervals.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// From the root to the leaves.
    levels: Vec<Vec<Aligned<[u32; BLOCK]>>>,
}

impl Tree {
    pub(super) fn new(ends: &[u32]) -> Tree {
        let mut levels = vec![nodes(ends, BLOCK)];
        let last = |part: &[u32]| part.last().copied().unwrap_or(u32::MAX);
        let mut lasts: Vec<u32> = ends.chunks(BLOCK).map(last).collect();
        while lasts.len() > 1 {
            // What is greater than every end is in the last child too.
            if let Some(last) = lasts.last_mut() {
                *last = u32::MAX;
            }
            levels.push(nodes(&lasts, FAN));
            lasts = lasts.chunks(FAN).map(last).collect();
        }
        levels.reverse();
        Tree { levels }
    }

    /// How many ends are before `value`: its interval.
    #[inline(always)]
    pub(super) fn find<S: Simd, const DEPTH: usize>(
        simd: S,
        levels: &[&[Aligned<[u32; BLOCK]>]; DEPTH],
        value: u32,
    ) -> usize {
        let mut node = 0;
        for nodes in &levels[..DEPTH - 1] {
            node = node * FAN + simd.rank(&nodes[node], value) as usize;
        }
        node * BLOCK + simd.rank(&levels[DEPTH - 1][node], value) as usize
    }

    pub(super) fn find_any(&self, value: u32) -> usize {
        let (leaves, inner) = match self.levels.split_last() {
            Some(split) => split,
            None => return 0,
        };
        let mut node = 0;
        for nodes in inner {
            node = node * FAN + Baseline.rank(&nodes[node], value) as usize;
        }
        node * BLOCK + Baseline.rank(&leaves[node], value) as usize
    }

    pub(super) fn depth<const DEPTH: usize>(&self) -> Option<[&[Aligned<[u32; BLOCK]>]; DEPTH]> {
        let levels = <&[Vec<_>; DEPTH]>::try_from(&self.levels[..]).ok()?;
        Some(levels.each_ref().map(|level| &level[..]))
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        let nodes: usize = self.levels.iter().map(Vec::len).sum();
        nodes * size_of::<[u32; BLOCK]>()
    }
}

/// One level: `width` values a node, of which the first 16 are kept. Unused
/// keys are the largest number.
fn nodes(values: &[u32], width: usize) -> Vec<Aligned<[u32; BLOCK]>> {
    let node = |part: &[u32]| {
        let mut node = Aligned([u32::MAX; BLOCK]);
        for (key, value) in node.iter_mut().zip(part) {
            *key = *value;
        }
        node
    };
    match values {
        [] => vec![Aligned([u32::MAX; BLOCK])],
        _ => values.chunks(width).map(node).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn trees_find_the_interval(
            ends in proptest::collection::btree_set(any::<u32>(), 0..700),
            small in proptest::collection::btree_set(0u32..40, 0..40),
            values in proptest::collection::vec(any::<u32>(), 30),
        ) {
            for ends in [ends, small] {
                let ends: Vec<u32> = ends.into_iter().filter(|end| *end < u32::MAX).collect();
                let tree = Tree::new(&ends);
                let near = ends.iter().flat_map(|&e| [e.saturating_sub(1), e, e + 1]);
                for value in values.iter().copied().chain(near).chain([0, u32::MAX]) {
                    let expected = ends.iter().filter(|end| **end < value).count();
                    prop_assert_eq!(tree.find_any(value), expected);
                    if let Some(levels) = tree.depth::<3>() {
                        prop_assert_eq!(Tree::find(Baseline, &levels, value), expected);
                    }
                }
            }
        }
    }
}
