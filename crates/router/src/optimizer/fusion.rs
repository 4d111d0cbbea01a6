//! Fusion: elements in a row whose edits combine, or that have nothing to do for packets with
//! certain facts, become one [fused path](crate::walk::fused_path). In the IP router of
//! `bench/run engine`, four of fifteen elements are still called, and headers are gone over twice:
//! in front of the lookup and behind it.

use packet::{Edit, Facts};

use super::EffectTable;
use crate::effects::Effects;
use crate::prelude::*;
use crate::walk::edges::Edges;
use crate::walk::fused_path::{FusedPath, FusedPaths};
use crate::walk::numbers::{EdgeId, Optimization};

/// Most elements of a path.
const LENGTH_MAX: usize = 16;

/// Finds the fused path from each edge, and marks the edges where one starts.
pub fn fuse(edges: &mut Edges, effects: EffectTable<'_>) -> FusedPaths {
    let mut paths = Vec::new();
    for edge in edges.ids() {
        if let Some(path) = path(edges, effects, edge) {
            edges[edge].optimization = Optimization::path(paths.len());
            paths.push(path);
        }
    }
    FusedPaths(paths)
}

/// The longest path from an edge, if one is worth it.
fn path(edges: &Edges, effects: EffectTable<'_>, start: EdgeId) -> Option<FusedPath> {
    let mut fused = Fused::default();
    let (mut passed, mut at) = (Vec::new(), start);
    while passed.len() < LENGTH_MAX {
        let Some((id, 0)) = edges[at].target.as_port() else {
            break;
        };
        let (Some(element), Some(next)) = (effects.of(id), edges.output(id, 0)) else {
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
    fn add(&mut self, element: &Effects) -> bool {
        let asks = element.no_op.without(self.known);
        if element.no_op != Facts::NONE && asks.without(self.preserves) == Facts::NONE {
            self.needs = self.needs.and(asks);
            return true;
        }
        let Some((own, next)) = element
            .edit
            .and_then(|own| Some((own, self.edit.then(&own)?)))
        else {
            return false;
        };
        let preserved = element.preserves;
        // A move back to a checked header does not cover writes since the check.
        let learned = next.learns().without(self.edit.learns());
        let found = learned.among(own.learns());
        let may_learn = Facts::ALL.if_so(found != Facts::NONE);
        (self.edit, self.edits) = (next, self.edits + 1);
        self.preserves = self.preserves.among(preserved);
        self.known = self.known.among(preserved).and(found);
        self.learns = self.learns.among(preserved).and(may_learn);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{edge, graph, opaque, strips};
    use super::*;

    #[test]
    fn edits_in_a_row_become_one_path_and_a_lone_one_does_not() {
        // source 0 -> strips 1 -> strips 2 -> sink 3
        let mut edges = graph(&[&[1], &[2], &[3], &[]]);
        let effects = [opaque(), strips(14), strips(20), opaque()];
        let paths = fuse(&mut edges, EffectTable(&effects));
        let [first, second, third] = [0, 1, 2].map(|element| edge(&edges, element, 0));
        let path = paths.at(&edges[first]).expect("a path starts there");
        assert_eq!(path.passed[..], [first, second]);
        assert_eq!(path.exit, third);
        let both = Edit::pull(14).and_then(|edit| edit.then(&Edit::pull(20)?));
        assert_eq!(Some(&path.plan), both.map(|edit| edit.plan()).as_ref());
        assert_eq!(paths.0.len(), 1);
        assert_eq!(edges[second].optimization, Optimization::NONE);
    }

    #[test]
    fn an_element_is_passed_where_its_facts_may_still_hold() {
        let asks = |facts| {
            let no_op = facts;
            Some(Effects {
                no_op,
                ..Effects::default()
            })
        };
        // source 0 -> asks 1 -> strips 2 -> asks 3 -> sink 4
        let mut edges = graph(&[&[1], &[2], &[3], &[4], &[]]);
        let effects = |preserves| {
            let strips = strips(14).map(|strips| Effects {
                preserves,
                ..strips
            });
            let asks = [Facts::UNICAST, Facts::NO_OPTIONS].map(asks);
            let [first, last] = asks;
            [opaque(), first, strips, last, opaque()]
        };
        let start = edge(&edges, 0, 0);
        let paths = fuse(&mut edges, EffectTable(&effects(Facts::ALL)));
        let path = paths.at(&edges[start]).expect("a path starts there");
        assert_eq!(path.exit, edge(&edges, 3, 0));
        assert_eq!(path.needs, Facts::UNICAST.and(Facts::NO_OPTIONS));
        assert!(!path.admits(Facts::UNICAST) && path.admits(Facts::ALL));
        // Facts that are lost on the way cannot be asked for behind it.
        let paths = fuse(&mut edges, EffectTable(&effects(Facts::NONE)));
        let path = paths.at(&edges[start]).expect("a path starts there");
        assert_eq!(path.exit, edge(&edges, 2, 0));
        assert_eq!(path.needs, Facts::UNICAST);
    }

    #[test]
    fn a_path_ends_where_an_element_is_elsewhere_and_has_a_limit() {
        let mut edges = graph(&[&[1], &[2], &[3], &[]]);
        let effects = [opaque(), strips(14), None, opaque()];
        assert!(fuse(&mut edges, EffectTable(&effects)).0.is_empty());
        // Two elements that push to each other for ever.
        let mut edges = graph(&[&[1], &[0]]);
        let effects = [strips(1), strips(1)];
        let paths = fuse(&mut edges, EffectTable(&effects));
        assert!(paths.0.iter().all(|path| path.passed.len() == LENGTH_MAX));
        assert_eq!(paths.0.len(), 2);
    }
}
