//! Dispatch merging: outputs of an element whose fused paths have the same effect. Dispatch does the
//! work to the whole batch before it splits it.

use crate::walk::edges::Edges;
use crate::walk::fused_path::FusedPaths;

/// Records for each output edge the first of the same element whose fused path has the same effect.
pub fn merge(edges: &mut Edges, paths: &FusedPaths) {
    edges.group_outputs(|one, other| paths.same_effect(one, other));
}
