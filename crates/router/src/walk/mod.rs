//! The walk: batches on their way through the graph.
//!
//! Batches that elements emit go on a stack, and the engine takes them off depth first, in port
//! order; with a batch limit of 1, in the order of emission, as Click's recursion would. This module
//! holds the edges, the stack, and the optimized ways past elements; the loop that calls elements is
//! the [engine's](crate::engine).

pub(crate) mod dispatch;
pub(crate) mod edges;
pub(crate) mod fused_path;
pub(crate) mod numbers;
pub(crate) mod tree;

use core::num::NonZeroU32;

use packet::{BATCH, Pool, Prefetcher};

use crate::prelude::*;
use edges::{Edge, Edges, InputEdgeId};
use fused_path::FusedPaths;
use numbers::{EdgeId, Pushed};
use tree::Tree;

/// A batch that waits on the stack.
pub(crate) struct Pending {
    /// The edge by which it goes on.
    pub edge: EdgeId,
    /// The output edge by which it left its element: batches of an element go on in the order of
    /// these.
    pub output: EdgeId,
    pub batch: Box<Batch>,
}

impl Pending {
    pub fn new(edge: EdgeId, batch: Box<Batch>) -> Pending {
        Pending {
            edge,
            output: edge,
            batch,
        }
    }
}

/// The batch on the stack that takes an output's next packet, if there is one.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct OpenBatch(Option<NonZeroU32>);

const _: () = assert!(size_of::<OpenBatch>() == 4);

impl OpenBatch {
    const NONE: OpenBatch = OpenBatch(None);

    /// The top of a stack of this height.
    #[inline]
    fn top(height: usize) -> OpenBatch {
        OpenBatch(NonZeroU32::new(height as u32))
    }

    /// Its index on the stack.
    #[inline]
    fn index(self) -> Option<usize> {
        self.0.map(|height| height.get() as usize - 1)
    }
}

/// A pull that the engine continues once the element that was asked has returned.
///
/// In one word: a read of what was just written in parts waits for all of them.
#[derive(Clone, Copy)]
pub(crate) struct PullThrough(u64);

impl PullThrough {
    /// `element` continues from `input`, for at most `most` packets.
    #[inline]
    pub fn new(element: ElementId, input: usize, most: usize) -> PullThrough {
        debug_assert!(input < 1 << 24);
        let most = most.min(BATCH) as u64;
        PullThrough(u64::from(element.0) | (input as u64) << 32 | most << 56)
    }

    #[inline]
    pub fn element(self) -> ElementId {
        ElementId(self.0 as u32)
    }

    #[inline]
    pub fn input(self) -> usize {
        (self.0 >> 32) as usize & 0xff_ffff
    }

    #[inline]
    pub fn most(self) -> usize {
        (self.0 >> 56) as usize
    }
}

const _: () = assert!(BATCH < 1 << 8);

/// Batches on their way through the graph.
pub(crate) struct Walk {
    pub edges: Edges,
    /// For each output edge.
    open: Vec<OpenBatch>,
    stack: Vec<Pending>,
    #[expect(clippy::vec_box, reason = "a batch moves by its pointer")]
    spare: Vec<Box<Batch>>,
    pub paths: FusedPaths,
    pub trees: Vec<Tree>,
    /// Packets that come next.
    pub prefetcher: Prefetcher,
    /// Most packets of a batch.
    pub limit: usize,
    /// The elements that lowered it, and how far.
    pub lowered: Vec<(ElementId, usize)>,
    pub pull_through: Option<PullThrough>,
    /// What was pulled for the task that runs.
    pub pulled: Option<Box<Batch>>,
    /// Edges by which packets are being pulled through elements.
    pub pulling: Vec<InputEdgeId>,
}

impl Walk {
    /// A walk along `edges` with batches of at most `limit` packets.
    pub fn new(edges: Edges, limit: usize) -> Walk {
        Walk {
            open: alloc::vec![OpenBatch::NONE; edges.len()],
            edges,
            stack: Vec::with_capacity(16),
            spare: Vec::new(),
            paths: FusedPaths::default(),
            trees: Vec::new(),
            prefetcher: Prefetcher::default(),
            limit: limit.clamp(1, BATCH),
            lowered: Vec::new(),
            pull_through: None,
            pulled: None,
            pulling: Vec::with_capacity(16),
        }
    }

    /// Lowers the limit, as an element asks.
    pub fn lower_limit(&mut self, id: ElementId, most: usize) {
        self.limit = self.limit.min(most.max(1));
        self.lowered.push((id, most));
    }

    /// An empty batch.
    #[inline]
    pub fn batch(&mut self) -> Box<Batch> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a batch back and drops its packets.
    #[inline]
    pub fn put_back(&mut self, pool: &mut Pool, mut batch: Box<Batch>) {
        pool.recycle(&mut batch);
        self.spare.push(batch);
    }

    /// Lets no more packets into the batch that an output emitted last.
    #[inline]
    fn close(&mut self, output: EdgeId) {
        self.open[output.index()] = OpenBatch::NONE;
    }

    /// The edge by which a batch leaves an element that returned `pushed`; `None` if it has no such
    /// output.
    #[inline]
    pub fn edge_of(&self, id: ElementId, pushed: Pushed) -> Option<EdgeId> {
        let output = self.edges.output(id, pushed.raw());
        output.or_else(|| pushed.as_edge())
    }

    /// Emits a packet by an output; drops it if there is no such output.
    #[inline]
    pub fn emit(&mut self, pool: &mut Pool, id: ElementId, port: usize, packet: Packet) {
        let Some(edge) = self.edges.output(id, port) else {
            pool.kill(packet);
            return;
        };
        let mut packet = packet;
        if let Some(open) = self.open[edge.index()].index() {
            let batch = &mut self.stack[open].batch;
            match batch.push(packet) {
                Ok(()) => {
                    if batch.len() >= self.limit {
                        self.close(edge);
                    }
                    return;
                }
                Err(back) => packet = back,
            }
        }
        let mut batch = self.batch();
        if let Err(packet) = batch.push(packet) {
            pool.kill(packet);
        }
        self.stack.push(Pending::new(edge, batch));
        self.open[edge.index()] = if self.limit > 1 {
            OpenBatch::top(self.stack.len())
        } else {
            OpenBatch::NONE
        };
    }

    /// Emits a whole batch by an output; drops it if there is no such output.
    pub fn send(&mut self, pool: &mut Pool, id: ElementId, port: usize, batch: Box<Batch>) {
        match self.edges.output(id, port) {
            Some(edge) if !batch.is_empty() => {
                // Packets that follow may not overtake this batch.
                self.close(edge);
                self.stack.push(Pending::new(edge, batch));
            }
            _ => self.put_back(pool, batch),
        }
    }

    /// Takes a batch past elements by the fused path that starts at an edge; returns the edge behind
    /// it. `None` if the batch, or the rest of it, has to go from element to element. Packets that
    /// the path does not cover follow on the stack.
    #[inline]
    pub fn take_path(&mut self, edge: EdgeId, batch: &mut Box<Batch>) -> Option<EdgeId> {
        let index = self.edges[edge].optimization.as_path()?;
        let path = self.paths.0.get_mut(index)?;
        if !path.admits(batch.facts()) {
            return None;
        }
        if let Some(mut left) = path.run(batch, &mut self.prefetcher, &mut self.spare) {
            if batch.is_empty() {
                core::mem::swap(batch, &mut left);
                self.spare.push(left);
                return None;
            }
            self.stack.push(Pending::new(edge, left));
        }
        path.packets += batch.len() as u64;
        Some(path.exit)
    }
}

/// The stack.
impl Walk {
    /// Number of batches on the stack.
    #[inline]
    pub fn height(&self) -> usize {
        self.stack.len()
    }

    /// Puts a batch on the stack.
    pub fn push(&mut self, pending: Pending) {
        self.stack.push(pending);
    }

    /// Takes the topmost batch off the stack, if it stands above `base`.
    #[inline]
    pub fn pop(&mut self, base: usize) -> Option<Pending> {
        if self.stack.len() > base {
            self.stack.pop()
        } else {
            None
        }
    }

    /// Orders the batches that were emitted since the stack stood at `base` as they are taken off.
    #[inline]
    pub fn seal(&mut self, base: usize) {
        let emitted = match &mut self.stack[base..] {
            [] => return,
            [one] => {
                self.open[one.output.index()] = OpenBatch::NONE;
                return;
            }
            several => several,
        };
        for pending in emitted.iter() {
            self.open[pending.output.index()] = OpenBatch::NONE;
        }
        if self.limit > 1 {
            emitted.sort_by_key(|pending| pending.output);
        }
        emitted.reverse();
    }

    /// Puts a batch under those above `base`.
    pub fn insert(&mut self, base: usize, pending: Pending) {
        self.stack.insert(base, pending);
    }
}

/// Edges that change.
impl Walk {
    /// Adds what passed fused paths and trees to the counts of edges.
    pub fn flush_counts(&mut self) {
        self.paths.flush_counts(&mut self.edges);
        for tree in &mut self.trees {
            tree.flush_counts(&mut self.edges);
        }
    }

    /// Adds an edge that leads on from a handoff ring.
    pub fn add_behind_ring(&mut self, edge: Edge) -> EdgeId {
        self.open.push(OpenBatch::NONE);
        self.edges.add_behind_ring(edge)
    }

    /// Removes the edges that lead on from handoff rings.
    pub fn remove_behind_rings(&mut self) {
        self.edges.remove_behind_rings();
        self.open.truncate(self.edges.len());
    }
}
