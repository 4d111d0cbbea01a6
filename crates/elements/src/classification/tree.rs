//! Programs that follow each other, as one.
//!
//! Where an element that sorts has others right behind its outputs, the header
//! bytes that any of them looks at are read into columns once, for the whole
//! batch, and each program decides on the packets that come to it: their bits,
//! by the same columns. Nothing is moved on the way. A program that no packet
//! comes to takes no time.
//!
//! With packets that do not have all of these bytes at their beginning, the
//! batch goes from element to element.

use super::columns::{Batch, Columns};
use super::fields::Fields;
use super::headers::View;
use super::instruction::Layout;
use super::lanes::{Lanes, Scratch};
use super::program::{DROP, Patterns, first_bits, ranges_limit};
use super::views::{DataView, IpView};
use crate::prelude::*;
use core::any::Any;
use simd::{BLOCK, Level};

/// Columns at most: those that only one program looks at are read for all
/// packets, in about a fiftieth of the time that a program's turn takes.
const MAX_COLUMNS: usize = 8;

/// Programs as one; the first gets all packets.
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
    lanes: Lanes,
    /// By output, where packets go that [`Lanes::outputs`] has at a place.
    ways: Vec<(usize, TreeBranch)>,
    /// The leaf of those that go nowhere.
    dropped: u32,
}

impl Classify for Patterns {
    fn tree(&self, nodes: &[TreeNode]) -> Option<Box<dyn DecisionTree>> {
        Tree::of(nodes).map(|tree| Box::new(tree) as Box<dyn DecisionTree>)
    }
}

/// The patterns of an element of a tree, if it has such.
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
            batch: columns.room(),
            columns,
            nodes: Vec::new(),
            scratch: Vec::new(),
        };
        for (patterns, branch) in all().zip(branches) {
            let node = Node::of(patterns, branch, &fields)?;
            tree.scratch.push(node.lanes.scratch());
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
        let (count, odd) = self.columns.fill_usual(&mut self.batch, packets);
        if odd == 0 {
            self.decide(0, count.div_ceil(BLOCK), first_bits(count), leaves);
        }
        odd == 0
    }

    /// Lets a program, and those behind it, decide on the packets in
    /// `pending`.
    fn decide(&mut self, at: usize, blocks: usize, pending: u64, leaves: &mut Vec<(u32, u64)>) {
        let (Some(node), Some(scratch)) = (self.nodes.get(at), self.scratch.get_mut(at)) else {
            return;
        };
        let left = node
            .lanes
            .sift(self.level, &self.batch, blocks, pending, scratch);
        if left != 0 {
            leaves.push((node.dropped, left));
        }
        for way in 0..node.ways.len() {
            let (Some(node), Some(scratch)) = (self.nodes.get(at), self.scratch.get_mut(at)) else {
                return;
            };
            let (output, onward) = node.ways[way];
            match (scratch.take(output), onward) {
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
        let terms = Patterns::terms(&patterns.rules, &patterns.expressions, fields);
        let lanes = Lanes::new(&terms, fields, ranges_limit(Level::detected()))?;
        let mut ways = Vec::new();
        let known = branch.outputs.iter().copied().zip(0..);
        for (onward, output) in known.chain([(TreeBranch::Leaf(branch.dropped), DROP)]) {
            if let Some(at) = lanes.outputs().iter().position(|known| *known == output) {
                ways.push((at, onward));
            }
        }
        (ways.len() == lanes.outputs().len()).then_some(Node {
            ways,
            dropped: branch.dropped,
            lanes,
        })
    }
}
