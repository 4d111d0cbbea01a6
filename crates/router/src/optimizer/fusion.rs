//! Fusion: elements in a row whose edits combine, or that have nothing to do for packets with
//! certain facts, become one [fused path](crate::walk::fused_path).

use alloc::vec::Vec;

use packet::{Edit, Facts};

use super::{Declarations, Declared};
use crate::walk::edges::{EdgeId, Edges, Optimization};
use crate::walk::fused_path::{FusedPath, FusedPaths};

/// Most elements of a path.
const LENGTH_MAX: usize = 16;

/// Finds the fused path from each edge, and marks the edges where one starts.
pub fn fuse(edges: &mut Edges, declared: Declarations<'_>) -> FusedPaths {
    let mut paths = Vec::new();
    for edge in edges.ids() {
        if let Some(path) = path(edges, declared, edge) {
            edges[edge].optimization = Optimization::path(paths.len());
            paths.push(path);
        }
    }
    FusedPaths(paths)
}

/// The longest path from an edge, if one is worth it.
fn path(edges: &Edges, declared: Declarations<'_>, start: EdgeId) -> Option<FusedPath> {
    let mut fused = Fused::default();
    let (mut passed, mut at) = (Vec::new(), start);
    while passed.len() < LENGTH_MAX {
        let Some((id, 0)) = edges[at].target.as_port() else {
            break;
        };
        let (Some(element), Some(next)) = (declared.of(id), edges.output(id, 0)) else {
            break;
        };
        if !fused.add(element) {
            break;
        }
        passed.push(at);
        at = next;
    }
    // The element itself does a single edit as quickly.
    (!passed.is_empty() && (fused.edits != 1 || passed.len() > 1)).then(|| FusedPath {
        plan: fused.edit.plan(),
        needs: fused.needs,
        preserves: fused.preserves,
        learns: fused.learns,
        passed: passed.into(),
        exit: at,
        packets: 0,
    })
}

/// What elements in a row do together.
struct Fused {
    edit: Edit,
    /// Elements that are part of the edit.
    edits: usize,
    needs: Facts,
    preserves: Facts,
    /// Facts that the edit establishes for all packets.
    known: Facts,
    /// Facts that it may establish.
    learns: Facts,
}

impl Default for Fused {
    fn default() -> Fused {
        Fused {
            edit: Edit::NOTHING,
            edits: 0,
            needs: Facts::NONE,
            preserves: Facts::ALL,
            known: Facts::NONE,
            learns: Facts::NONE,
        }
    }
}

impl Fused {
    /// Adds an element behind the others; false if it cannot be fused with them.
    fn add(&mut self, element: &Declared) -> bool {
        let asks = element.no_op.without(self.known);
        if element.no_op != Facts::NONE && asks.without(self.preserves) == Facts::NONE {
            self.needs = self.needs.and(asks);
            return true;
        }
        let Some(next) = element.edit.and_then(|next| self.edit.then(&next)) else {
            return false;
        };
        let preserved = element.preserves;
        let found = next.learns().without(self.edit.learns());
        let may_learn = Facts::ALL.if_so(found != Facts::NONE);
        (self.edit, self.edits) = (next, self.edits + 1);
        self.preserves = self.preserves.among(preserved);
        self.known = self.known.among(preserved).and(found);
        self.learns = self.learns.among(preserved).and(may_learn);
        true
    }
}
