//! Decision trees in the walk: elements in a row that only classify, as one.
//!
//! A tree starts where an edge leads to an element that only classifies, and that has others of the
//! kind behind some of its outputs. A batch that arrives there is classified in one pass and
//! dispatched once, behind the last of these elements. Packets with the same destination stay
//! together, whichever outputs they take, and count for the edges that they would have passed. A
//! batch with a packet that lacks bytes that a rule reads goes from element to element.

use packet::{BATCH, Facts, Pool};

use super::Walk;
use super::dispatch::{FEW, OutputSet};
use super::edges::Edges;
use super::numbers::EdgeId;
use crate::classify::{DecisionTree, TreeNode};
use crate::prelude::*;

/// Batches that go from element to element after one that the tree did not cover: a vain attempt
/// takes a fifth of the time.
const PAUSE: u8 = 63;

/// A tree of a router.
pub(crate) struct Tree {
    pub nodes: Vec<TreeNode>,
    pub classifier: Box<dyn DecisionTree>,
    pub leaves: Box<[Leaf]>,
    /// Whether the fused paths from some leaves have the same effect.
    pub same_effect: bool,
    /// Whether packets have at most [`FEW`] destinations behind the leaves, with their fused paths
    /// or without.
    pub few: bool,
    /// Batches that still go from element to element.
    pause: u8,
    /// Buffers for what is found in a batch.
    found: Vec<(u32, u64)>,
    sets: Vec<OutputSet>,
}

/// A way out of a tree.
pub(crate) struct Leaf {
    /// The edge by which packets leave the tree's first element, or [`EdgeId::NONE`] if that drops
    /// them.
    pub output: EdgeId,
    /// The edge by which they leave the tree, or [`EdgeId::NONE`] if they are dropped.
    pub exit: EdgeId,
    /// The first leaf whose fused path has the same effect; the leaf itself if there is none before
    /// it.
    pub same_effect: u32,
    /// The edges between the tree's elements that packets pass.
    pub passed: Box<[EdgeId]>,
    /// Packets that passed, and that these edges do not count yet.
    pub packets: u64,
}

impl Tree {
    /// A tree with these leaves.
    pub fn new(
        nodes: Vec<TreeNode>,
        classifier: Box<dyn DecisionTree>,
        leaves: Vec<Leaf>,
        same_effect: bool,
        few: bool,
    ) -> Tree {
        Tree {
            nodes,
            classifier,
            leaves: leaves.into(),
            same_effect,
            few,
            pause: 0,
            found: Vec::with_capacity(BATCH),
            sets: Vec::with_capacity(BATCH),
        }
    }

    /// Adds the packets that passed to the counts of the edges that they passed.
    pub fn flush_counts(&mut self, edges: &mut Edges) {
        for leaf in &mut self.leaves {
            let packets = core::mem::take(&mut leaf.packets);
            for edge in &leaf.passed {
                if let Some(edge) = edges.get_mut(*edge) {
                    edge.packets += packets;
                }
            }
        }
    }
}

impl Walk {
    /// Classifies a batch by the tree of an index, and dispatches it. Returns the edge by which the
    /// rest of the batch goes on, or [`EdgeId::NONE`]; `None`, and nothing done, if the tree does
    /// not cover the batch.
    pub fn classify(&mut self, pool: &mut Pool, index: usize, batch: &mut Batch) -> Option<EdgeId> {
        let tree = self.trees.get_mut(index)?;
        if tree.pause > 0 {
            tree.pause -= 1;
            return None;
        }
        tree.found.clear();
        if !tree.classifier.classify(batch, &mut tree.found) {
            tree.pause = PAUSE;
            return None;
        }
        let mut sets = core::mem::take(&mut tree.sets);
        sets.clear();
        for &(leaf, packets) in &tree.found {
            let leaf = &mut tree.leaves[leaf as usize];
            leaf.packets += u64::from(packets.count_ones());
            sets.push(OutputSet {
                output: leaf.output,
                exit: leaf.exit,
                packets,
            });
        }
        let destinations = if tree.few { FEW } else { sets.len() };
        let path = if tree.same_effect {
            self.path_of_leaves(index, batch.facts())
        } else {
            None
        };
        let rest = self.dispatch_sets(pool, batch, sets.iter().copied(), destinations, path);
        if let Some(tree) = self.trees.get_mut(index) {
            tree.sets = sets;
        }
        Some(rest)
    }

    /// The fused path from the first of the leaves that were found, if those from the others have
    /// the same effect and packets of which `facts` hold may take it.
    fn path_of_leaves(&self, index: usize, facts: Facts) -> Option<usize> {
        let tree = self.trees.get(index)?;
        let leaves = tree.found.iter().map(|(leaf, _)| {
            let leaf = &tree.leaves[*leaf as usize];
            (leaf.exit, leaf.same_effect)
        });
        self.common_path(leaves, facts)
    }
}
