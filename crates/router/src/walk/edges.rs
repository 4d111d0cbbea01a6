//! The edges of a walk: where each leads, the optimization that starts there, and its packet count.

use core::ops::{Index, IndexMut};

use super::numbers::{EdgeId, Optimization, Target};
use crate::prelude::*;
use crate::topology::Connection;

/// An edge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub target: Target,
    /// The optimization that starts here.
    pub optimization: Optimization,
    /// The first output edge of the same element whose fused path has the same effect; the edge
    /// itself if there is none before it.
    pub same_effect: EdgeId,
    /// Packets that passed.
    pub packets: u64,
}

impl Edge {
    const UNCONNECTED: Edge = Edge {
        target: Target::NOWHERE,
        optimization: Optimization::NONE,
        same_effect: EdgeId::new(0),
        packets: 0,
    };
}

const _: () = assert!(size_of::<Edge>() == 24);

/// An input edge, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct InputEdgeId(u32);

/// The output edges of an element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outputs {
    first: u32,
    count: u32,
    /// Whether the fused paths of some have the same effect.
    pub same_effect: bool,
}

impl Outputs {
    /// Number of outputs.
    pub fn count(self) -> usize {
        self.count as usize
    }

    /// The edge of an output; `None` if there is no such output.
    #[inline]
    pub fn edge(self, port: usize) -> Option<EdgeId> {
        (port < self.count as usize)
            .then_some(EdgeId::from_number(self.first.wrapping_add(port as u32)))
    }

    /// The edges of all outputs.
    pub fn edges(self) -> impl DoubleEndedIterator<Item = EdgeId> + Clone {
        (self.first..self.first + self.count).map(EdgeId::from_number)
    }
}

/// The edges of a router: first the elements' outputs, then the edges that lead on from handoff
/// rings.
pub(crate) struct Edges {
    outputs_of: Vec<Outputs>,
    /// For each element the first of its input edges, and their number.
    first_input: Vec<u32>,
    outputs: Vec<Edge>,
    inputs: Vec<Edge>,
    /// For each input edge whether packets are being pulled by it through the element at its end.
    pulling: Vec<bool>,
    /// Number of the elements' output edges.
    own: usize,
}

impl Edges {
    /// The edges of elements with these numbers of inputs and outputs, not connected yet.
    pub fn new(ports: impl Iterator<Item = (usize, usize)>) -> Edges {
        let (mut outputs_of, mut first_input) = (Vec::new(), Vec::new());
        let (mut outputs, mut inputs) = (0, 0);
        for (ins, outs) in ports {
            outputs_of.push(Outputs {
                first: outputs,
                count: outs as u32,
                same_effect: false,
            });
            first_input.push(inputs);
            outputs += outs as u32;
            inputs += ins as u32;
        }
        first_input.push(inputs);
        Edges {
            outputs_of,
            first_input,
            outputs: alloc::vec![Edge::UNCONNECTED; outputs as usize],
            inputs: alloc::vec![Edge::UNCONNECTED; inputs as usize],
            pulling: alloc::vec![false; inputs as usize],
            own: outputs as usize,
        }
    }

    /// Lets every edge lead where the connections say.
    pub fn connect(&mut self, connections: impl Iterator<Item = Connection>) {
        for Connection { from, to, push } in connections {
            if push {
                if let Some(edge) = self.output(from.0, from.1) {
                    self[edge].target = Target::port(to);
                }
            } else if let Some(edge) = self.input(to.0, to.1) {
                self[edge].target = Target::port(from);
            }
        }
    }

    /// The output edges of an element.
    #[inline]
    pub fn outputs_of(&self, id: ElementId) -> Outputs {
        self.outputs_of[id.index()]
    }

    /// The edge of an output; `None` if there is no such output.
    #[inline]
    pub fn output(&self, id: ElementId, port: usize) -> Option<EdgeId> {
        self.outputs_of(id).edge(port)
    }

    /// The element whose output edge is `edge`.
    pub fn source(&self, edge: EdgeId) -> ElementId {
        let after = self
            .outputs_of
            .partition_point(|of| of.first as usize <= edge.index());
        ElementId(after.saturating_sub(1) as u32)
    }

    /// Every output edge, also those behind handoff rings.
    pub fn ids(&self) -> impl Iterator<Item = EdgeId> + use<> {
        (0..self.outputs.len() as u32).map(EdgeId::from_number)
    }

    /// An output edge, if there is such.
    #[inline]
    pub fn get(&self, edge: EdgeId) -> Option<&Edge> {
        self.outputs.get(edge.index())
    }

    /// As [`get`](Self::get).
    #[inline]
    pub fn get_mut(&mut self, edge: EdgeId) -> Option<&mut Edge> {
        self.outputs.get_mut(edge.index())
    }

    /// The edge of an input; `None` if there is no such input.
    #[inline]
    pub fn input(&self, id: ElementId, port: usize) -> Option<InputEdgeId> {
        let first = self.first_input[id.index()];
        let end = self.first_input[id.index() + 1];
        (port < (end - first) as usize).then_some(InputEdgeId(first + port as u32))
    }

    /// Notes whether packets are being pulled by an input edge through the element at its end;
    /// returns whether they were before.
    #[inline]
    pub fn set_pulling(&mut self, InputEdgeId(edge): InputEdgeId, pulling: bool) -> bool {
        core::mem::replace(&mut self.pulling[edge as usize], pulling)
    }

    /// All edges, outputs first.
    pub fn iter(&self) -> impl Iterator<Item = &Edge> {
        self.outputs.iter().chain(&self.inputs)
    }

    /// As [`iter`](Self::iter).
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Edge> {
        self.outputs.iter_mut().chain(&mut self.inputs)
    }

    /// Every output edge.
    pub fn outputs_mut(&mut self) -> impl Iterator<Item = &mut Edge> {
        self.outputs.iter_mut()
    }

    /// Moves the packet counts of another thread's edges here.
    pub fn take_counts(&mut self, from: &mut Edges) {
        let outputs = self.outputs.iter_mut().zip(&mut from.outputs);
        for (mine, theirs) in outputs.chain(self.inputs.iter_mut().zip(&mut from.inputs)) {
            mine.packets += core::mem::take(&mut theirs.packets);
        }
    }

    /// Takes the packet counts of an element's edges from another router with the same element.
    pub fn take_counts_of(&mut self, id: ElementId, from: &Edges) {
        let outputs = self.outputs_of(id).edges().zip(from.outputs_of(id).edges());
        for (own, other) in outputs {
            self[own].packets = from[other].packets;
        }
        for port in 0.. {
            let Some((own, other)) = self.input(id, port).zip(from.input(id, port)) else {
                break;
            };
            self[own].packets = from[other].packets;
        }
    }

    /// For each element and output edge, records the first edge of the same element with the same
    /// effect, as `same` says.
    pub fn group_outputs(&mut self, same: impl Fn(&Edge, &Edge) -> bool) {
        for of in &mut self.outputs_of {
            let edges = of.first..of.first + of.count;
            of.same_effect = false;
            for edge in edges.clone() {
                let is_same = |other: &u32| {
                    let [own, other] = [edge, *other].map(|edge| &self.outputs[edge as usize]);
                    same(own, other)
                };
                let first = (of.first..edge).find(is_same).unwrap_or(edge);
                of.same_effect |= first != edge;
                self.outputs[edge as usize].same_effect = EdgeId::from_number(first);
            }
        }
    }
}

/// Edges that lead on from handoff rings.
impl Edges {
    /// Adds an edge that leads where `edge` does at the moment.
    pub fn add_behind_ring(&mut self, edge: Edge) -> EdgeId {
        self.outputs.push(edge);
        EdgeId::new(self.outputs.len() - 1)
    }

    /// The edges that lead on from handoff rings.
    pub fn behind_rings(&self) -> &[Edge] {
        &self.outputs[self.own..]
    }

    /// Removes the edges that lead on from handoff rings.
    pub fn remove_behind_rings(&mut self) {
        self.outputs.truncate(self.own);
    }

    /// Number of output edges.
    pub fn len(&self) -> usize {
        self.outputs.len()
    }
}

impl Index<EdgeId> for Edges {
    type Output = Edge;

    #[inline]
    fn index(&self, edge: EdgeId) -> &Edge {
        &self.outputs[edge.index()]
    }
}

impl IndexMut<EdgeId> for Edges {
    #[inline]
    fn index_mut(&mut self, edge: EdgeId) -> &mut Edge {
        &mut self.outputs[edge.index()]
    }
}

impl Index<InputEdgeId> for Edges {
    type Output = Edge;

    #[inline]
    fn index(&self, InputEdgeId(edge): InputEdgeId) -> &Edge {
        &self.inputs[edge as usize]
    }
}

impl IndexMut<InputEdgeId> for Edges {
    #[inline]
    fn index_mut(&mut self, InputEdgeId(edge): InputEdgeId) -> &mut Edge {
        &mut self.inputs[edge as usize]
    }
}
