//! The optimizer: reads once what the elements declare about their packets, and finds faster ways
//! through the same graph. Its results change nothing but time.
//!
//! The passes, in order; each marks edges and returns a table of its results:
//!
//! 1. [`fusion::fuse`] makes fused paths of elements in a row.
//! 2. [`merging::merge`] finds outputs whose fused paths have the same effect, so that dispatch does
//!    the work once, to the whole batch.
//! 3. [`trees::build`] makes decision trees of elements in a row that only classify.

mod fusion;
mod merging;
#[cfg(test)]
mod tests;
mod trees;

use crate::classify::Classify;
use crate::effects::Effects;
use crate::prelude::*;
use crate::walk::Walk;
use crate::walk::edges::Edges;
use crate::walk::fused_path::FusedPaths;
use crate::walk::numbers::Optimization;
use crate::walk::tree::Tree;

/// What every element declares; `None` for elements of other threads.
#[derive(Clone, Copy)]
pub(crate) struct EffectTable<'d>(pub &'d [Option<Effects>]);

impl EffectTable<'_> {
    fn of(&self, id: ElementId) -> Option<&Effects> {
        self.0.get(id.index())?.as_ref()
    }

    fn rules(&self, id: ElementId) -> Option<&Arc<dyn Classify>> {
        self.of(id)?.rules.as_ref()
    }
}

/// Runs all passes. Trees are taken from `former` where they still apply.
fn optimize(
    edges: &mut Edges,
    effects: EffectTable<'_>,
    former: &mut Vec<Tree>,
) -> (FusedPaths, Vec<Tree>) {
    let paths = fusion::fuse(edges, effects);
    merging::merge(edges, &paths);
    let trees = trees::build(edges, effects, &paths, former);
    (paths, trees)
}

/// Removes all marks.
fn reset(edges: &mut Edges) {
    for edge in edges.outputs_mut() {
        edge.optimization = Optimization::NONE;
    }
    edges.group_outputs(|_, _| false);
}

/// Whether a walk is optimized, and the trees that it had before.
#[derive(Default)]
pub(crate) struct Optimizer {
    valid: bool,
    /// Trees that were invalidated, to be used again where they still apply.
    former: Vec<Tree>,
}

impl Optimizer {
    /// Whether the walk is optimized, and no element has changed what it declares since.
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.valid
    }

    /// Optimizes a walk.
    pub fn run(&mut self, walk: &mut Walk, effects: EffectTable<'_>) {
        self.invalidate(walk);
        let mut former = core::mem::take(&mut self.former);
        (walk.paths, walk.trees) = optimize(&mut walk.edges, effects, &mut former);
        self.valid = true;
    }

    /// Takes all optimizations back: elements may do something else from now on, or be elsewhere.
    pub fn invalidate(&mut self, walk: &mut Walk) {
        walk.flush_counts();
        walk.paths = FusedPaths::default();
        self.former.append(&mut walk.trees);
        reset(&mut walk.edges);
        self.valid = false;
    }
}
