//! Dispatch merging: outputs of an element whose fused paths have the same effect. Dispatch does the
//! work to the whole batch before it splits it.

use crate::walk::edges::Edges;
use crate::walk::fused_path::FusedPaths;

/// Records for each output edge the first of the same element whose fused path has the same effect.
pub fn merge(edges: &mut Edges, paths: &FusedPaths) {
    edges.group_outputs(|one, other| paths.same_effect(one, other));
}

#[cfg(test)]
mod tests {
    use super::super::EffectTable;
    use super::super::fusion::fuse;
    use super::super::tests::{edge, graph, opaque, strips};
    use super::*;
    use crate::prelude::*;

    #[test]
    fn outputs_with_the_same_work_behind_them_are_merged() {
        // 0 -> strips 1 -> 2, and as much to 3, 4; and less to 5, 6; sink 7
        let mut edges = graph(&[&[1, 5, 3], &[2], &[7], &[4], &[7], &[6], &[7], &[]]);
        let effects: [_; 8] = core::array::from_fn(|element| match element {
            0 | 7 => opaque(),
            5 | 6 => strips(2),
            _ => strips(14),
        });
        let paths = fuse(&mut edges, EffectTable(&effects));
        merge(&mut edges, &paths);
        let [first, less, second] = [0, 1, 2].map(|port| edge(&edges, 0, port));
        assert_eq!(edges[first].same_effect, first);
        assert_eq!(edges[second].same_effect, first);
        assert_eq!(edges[less].same_effect, less);
        assert!(edges.outputs_of(ElementId::new(0)).same_effect);
        assert!(!edges.outputs_of(ElementId::new(1)).same_effect);
    }
}
