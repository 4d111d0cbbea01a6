//! Fused paths: the work of elements in a row, done to a batch in one pass.
//!
//! A fused path starts at an edge that leads to elements which declare what they do as an
//! [`Edit`](packet::Edit), or which have nothing to do for packets with certain facts. It ends at an
//! edge behind them. The pass stops at the first packet that the plan does not cover; that packet
//! and those behind it go from element to element. So a fused path changes nothing but time.

use packet::{Facts, Plan, Prefetcher};

use super::edges::{Edge, Edges};
use crate::prelude::*;

use super::numbers::EdgeId;

/// A fused path.
#[derive(Debug)]
pub(crate) struct FusedPath {
    /// The edits of packets.
    pub plan: Plan,
    /// Facts that have to hold.
    pub needs: Facts,
    /// Facts that still hold afterwards.
    pub preserves: Facts,
    /// Facts that the plan may establish.
    pub learns: Facts,
    /// The edges that packets pass.
    pub passed: Box<[EdgeId]>,
    /// The edge behind.
    pub exit: EdgeId,
    /// Packets that passed, and that the edges do not count yet.
    pub packets: u64,
}

impl FusedPath {
    /// Whether packets of which `facts` hold may take it.
    #[inline]
    pub fn admits(&self, facts: Facts) -> bool {
        self.needs.without(facts) == Facts::NONE
    }

    /// Does the work to the packets of a batch up to the first that the plan does not cover. It and
    /// those behind it are returned, in a batch that `spare` gives.
    #[inline]
    #[expect(clippy::vec_box, reason = "a batch moves by its pointer")]
    pub fn run(
        &self,
        batch: &mut Batch,
        prefetcher: &mut Prefetcher,
        spare: &mut Vec<Box<Batch>>,
    ) -> Option<Box<Batch>> {
        batch.edit(&self.plan, self.preserves, self.learns, prefetcher, || {
            spare.pop().unwrap_or_default()
        })
    }

    /// Whether it has the same effect as another, wherever they lead.
    fn has_effect_of(&self, other: &FusedPath) -> bool {
        let facts = |path: &FusedPath| (path.needs, path.preserves, path.learns);
        facts(self) == facts(other) && self.plan == other.plan
    }
}

/// The fused paths of a router, by index.
#[derive(Default)]
pub(crate) struct FusedPaths(pub Vec<FusedPath>);

impl FusedPaths {
    /// The path that starts at an edge.
    #[inline]
    pub fn at(&self, edge: &Edge) -> Option<&FusedPath> {
        self.0.get(edge.optimization.as_path()?)
    }

    /// Whether paths with the same effect start at both edges.
    pub fn same_effect(&self, one: &Edge, other: &Edge) -> bool {
        matches!((self.at(one), self.at(other)), (Some(one), Some(other)) if one.has_effect_of(other))
    }

    /// Adds the packets that passed to the counts of the edges that they passed.
    pub fn flush_counts(&mut self, edges: &mut Edges) {
        for path in &mut self.0 {
            let packets = core::mem::take(&mut path.packets);
            for edge in &path.passed {
                if let Some(edge) = edges.get_mut(*edge) {
                    edge.packets += packets;
                }
            }
        }
    }
}
