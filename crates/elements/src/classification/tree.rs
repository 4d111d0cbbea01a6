//! Decision trees: consecutive classifiers as one.
//!
//! Where a classifier has others right behind its outputs, the header bytes
//! that any of them reads are loaded into columns once, for the whole batch.
//! Each program classifies its packets, a set of bits, by the same columns.
//! No packet moves on the way. A program without packets takes no time.
//!
//! If some packet does not have all of these bytes near its start, the batch
//! goes from element to element.

use super::columns::{Batch, Columns};
use super::fields::Fields;
use super::headers::View;
use super::hit::DROP;
use super::instruction::Layout;
use super::program::{Patterns, first_bits, ranges_limit};
use super::vectors::{Scratch, Vectors};
use super::views::{DataView, IpView};
use super::wide_tables::MAX_PRODUCTS;
use crate::prelude::*;
use core::any::Any;
use simd::{BLOCK, Level};

/// Most columns: a column that only one program reads is loaded for all
/// packets, in about a fiftieth of the time that a program takes.
const MAX_COLUMNS: usize = 8;

/// A decision tree; the first program is the root.
#[derive(Debug)]
struct Tree {
    layout: Layout,
    level: Level,
    columns: Columns,
    batch: Batch,
    nodes: Vec<Node>,
    scratch: Vec<Scratch>,
}

/// One program of a tree.
#[derive(Debug)]
struct Node {
    vectors: Vectors,
    /// Indices of [`Vectors::outputs`], and the branch of each.
    branches: Vec<(usize, TreeBranch)>,
    /// The leaf of dropped packets.
    dropped: u32,
}

impl Classify for Patterns {
    fn tree(&self, nodes: &[TreeNode]) -> Option<Box<dyn DecisionTree>> {
        Tree::of(nodes).map(|tree| Box::new(tree) as Box<dyn DecisionTree>)
    }
}

/// The patterns of an element of a tree, if its rules are patterns.
fn patterns(node: &TreeNode) -> Option<&Patterns> {
    let rules: &dyn Any = &*node.rules;
    rules.downcast_ref()
}

impl Tree {
    fn of(branches: &[TreeNode]) -> Option<Tree> {
        let layout = patterns(branches.first()?)?.rules.layout;
        let all = || branches.iter().filter_map(patterns);
        if all().filter(|one| one.rules.layout == layout).count() < branches.len() {
            return None;
        }
        let fields = Fields::of(&mut all().flat_map(|one| &one.expressions), layout);
        let columns = Columns::new(&fields)?;
        if !columns.near() || columns.len() > MAX_COLUMNS {
            return None;
        }
        let mut tree = Tree {
            layout,
            level: Level::detected(),
            batch: columns.batch(),
            columns,
            nodes: Vec::new(),
            scratch: Vec::new(),
        };
        for (patterns, branch) in all().zip(branches) {
            let node = Node::of(patterns, branch, &fields)?;
            tree.scratch.push(node.vectors.scratch());
            tree.nodes.push(node);
        }
        Some(tree)
    }

    /// Classifies packets; see [`DecisionTree::classify`].
    #[inline(always)]
    fn run<'p>(
        &mut self,
        packets: impl Iterator<Item = impl View<'p>> + Clone,
        leaves: &mut Vec<(u32, u64)>,
    ) -> bool {
        let (count, odd) = self.columns.fill_near(&mut self.batch, packets);
        if odd == 0 {
            self.decide(0, count.div_ceil(BLOCK), first_bits(count), leaves);
        }
        odd == 0
    }

    /// Classifies the packets in `pending` by a program and those behind it.
    fn decide(&mut self, at: usize, blocks: usize, pending: u64, leaves: &mut Vec<(u32, u64)>) {
        let (Some(node), Some(scratch)) = (self.nodes.get(at), self.scratch.get_mut(at)) else {
            return;
        };
        let left = node
            .vectors
            .decide_sets(self.level, &self.batch, blocks, pending, scratch);
        if left != 0 {
            leaves.push((node.dropped, left));
        }
        for next in 0..node.branches.len() {
            let (Some(node), Some(scratch)) = (self.nodes.get(at), self.scratch.get_mut(at)) else {
                return;
            };
            let (output, branch) = node.branches[next];
            match (scratch.take(output), branch) {
                (0, _) => {}
                (some, TreeBranch::Leaf(leaf)) => leaves.push((leaf, some)),
                (some, TreeBranch::Node(behind)) => self.decide(behind, blocks, some, leaves),
            }
        }
    }
}

impl DecisionTree for Tree {
    fn classify(&mut self, batch: &packet::Batch, leaves: &mut Vec<(u32, u64)>) -> bool {
        match self.layout {
            Layout::Data { .. } => self.run(batch.iter().map(DataView), leaves),
            Layout::Ip => self.run(batch.iter().map(IpView), leaves),
        }
    }
}

impl Node {
    fn of(patterns: &Patterns, branch: &TreeNode, fields: &Fields) -> Option<Node> {
        let terms = Patterns::terms(&patterns.rules, &patterns.expressions, fields, MAX_PRODUCTS)?;
        let vectors = Vectors::new(&terms, fields, ranges_limit(Level::detected()))?;
        let mut branches = Vec::new();
        let known = branch.outputs.iter().copied().zip(0..);
        for (branch, output) in known.chain([(TreeBranch::Leaf(branch.dropped), DROP)]) {
            if let Some(at) = vectors.outputs().iter().position(|known| *known == output) {
                branches.push((at, branch));
            }
        }
        (branches.len() == vectors.outputs().len()).then_some(Node {
            branches,
            dropped: branch.dropped,
            vectors,
        })
    }
}
