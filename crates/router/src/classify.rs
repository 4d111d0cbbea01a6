//! Classification that the optimizer can fuse: what an element that only classifies declares, and
//! the decision tree of several in a row.

use core::any::Any;

use crate::prelude::*;

/// The rules of an element that only classifies: packets leave unchanged, each by an output that
/// depends on nothing but the packet.
pub trait Classify: Any + Send + Sync {
    /// The decision tree of elements in a row, which does what they do one after the other; `None`
    /// if there is none, or none that is faster. The first of `nodes` is this element's.
    fn tree(&self, nodes: &[TreeNode]) -> Option<Box<dyn DecisionTree>>;
}

/// One element of a decision tree.
pub struct TreeNode {
    /// Its rules.
    pub rules: Arc<dyn Classify>,
    /// Where its outputs lead.
    pub outputs: Vec<TreeBranch>,
    /// The leaf of the packets that it drops.
    pub dropped: u32,
}

impl PartialEq for TreeNode {
    fn eq(&self, other: &TreeNode) -> bool {
        Arc::ptr_eq(&self.rules, &other.rules)
            && (&self.outputs, self.dropped) == (&other.outputs, other.dropped)
    }
}

/// Where an output leads in a decision tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeBranch {
    /// To the node of this index.
    Node(usize),
    /// Out of the tree, by the leaf of this index.
    Leaf(u32),
}

/// Classifies batches.
pub trait DecisionTree: Send {
    /// Finds the packets of a batch that come to each leaf: adds the leaves to `leaves`, depth
    /// first and in port order, with a bit for each packet, the lowest for the first. Every packet
    /// comes to one leaf. If some packet is not covered, the result is false and `leaves` is
    /// invalid: the batch then goes from element to element.
    fn classify(&mut self, batch: &Batch, leaves: &mut Vec<(u32, u64)>) -> bool;
}
