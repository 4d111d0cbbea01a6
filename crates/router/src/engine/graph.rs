//! The flat graph, as the engine uses it: names, classes, ports and edges.

use alloc::collections::{BTreeMap, BTreeSet};
use core::any::Any;

use click::{FlatGraph, Location};

use super::element::ClassEntry;
use super::ports::flow;
use crate::args::Elements;
use crate::prelude::*;
use crate::topology::Connection;

/// What is known of an element beside its state.
pub struct ElementInfo {
    /// Full name, `compound/inner`.
    pub name: String,
    /// Its class.
    pub class: &'static ClassEntry,
    /// Configuration string.
    pub config: String,
    /// Where it was declared.
    pub location: Location,
    /// For each input whether it is push.
    pub inputs: Vec<bool>,
    /// For each output whether it is push.
    pub outputs: Vec<bool>,
}

/// The graph of a router. It does not change while the router lives, but for configurations.
pub struct Graph {
    /// The elements, in Click's order.
    pub elements: Vec<ElementInfo>,
    /// The configuration as it was read.
    pub source: String,
    /// The flat graph as it was elaborated.
    pub flat: FlatGraph,
    by_name: BTreeMap<String, usize>,
    /// Numbers of the connections, in the order of the inputs and of the outputs that they join.
    by_input: Vec<u32>,
    by_output: Vec<u32>,
}

impl Graph {
    pub(crate) fn new(elements: Vec<ElementInfo>, flat: FlatGraph, source: String) -> Graph {
        let by_name = elements
            .iter()
            .enumerate()
            .map(|(i, element)| (element.name.clone(), i))
            .collect();
        let all = || (0..flat.connections.len() as u32).collect::<Vec<_>>();
        let (mut by_input, mut by_output) = (all(), all());
        by_input.sort_by_key(|c| flat.connections[*c as usize].to);
        by_output.sort_by_key(|c| flat.connections[*c as usize].from);
        Graph {
            elements,
            source,
            flat,
            by_name,
            by_input,
            by_output,
        }
    }

    /// The element called `name`.
    pub fn find(&self, name: &str) -> Option<ElementId> {
        self.by_name.get(name).map(|i| ElementId(*i as u32))
    }

    /// What is known of an element.
    pub fn info(&self, id: ElementId) -> &ElementInfo {
        &self.elements[id.index()]
    }

    /// The connections, each with whether it is push.
    pub(crate) fn connections(&self) -> impl Iterator<Item = Connection> {
        let connections = self.flat.connections.iter();
        connections.map(|c| Connection {
            from: (ElementId::new(c.from.0), c.from.1),
            to: (ElementId::new(c.to.0), c.to.1),
            push: self.elements[c.from.0].outputs[c.from.1],
        })
    }

    /// The ports at the other end of an element's input.
    pub fn upstream(&self, id: ElementId, port: usize) -> impl Iterator<Item = (ElementId, usize)> {
        let input = (id.index(), port);
        let connection = |c: &u32| &self.flat.connections[*c as usize];
        let start = (self.by_input).partition_point(|c| connection(c).to < input);
        let connections = self.by_input[start..].iter().map(connection);
        connections
            .take_while(move |c| c.to == input)
            .map(|c| (ElementId(c.from.0 as u32), c.from.1))
    }

    /// The ports at the other end of an element's output.
    pub fn downstream(
        &self,
        id: ElementId,
        port: usize,
    ) -> impl Iterator<Item = (ElementId, usize)> {
        let output = (id.index(), port);
        let connection = |c: &u32| &self.flat.connections[*c as usize];
        let start = (self.by_output).partition_point(|c| connection(c).from < output);
        let connections = self.by_output[start..].iter().map(connection);
        connections
            .take_while(move |c| c.from == output)
            .map(|c| (ElementId(c.to.0 as u32), c.to.1))
    }

    /// The elements of class or kind `class` that packets leaving `id` by output `port` come to
    /// first, nearest first.
    pub fn nearest_downstream(&self, id: ElementId, port: usize, class: &str) -> Vec<ElementId> {
        let is_wanted = |id: ElementId| self.is_a(id.index(), class);
        self.nearest((id, port), is_wanted, false)
    }

    /// The elements of class or kind `class` that packets coming to `id` by input `port` were in
    /// last, nearest first.
    pub fn nearest_upstream(&self, id: ElementId, port: usize, class: &str) -> Vec<ElementId> {
        let is_wanted = |id: ElementId| self.is_a(id.index(), class);
        self.nearest((id, port), is_wanted, true)
    }

    /// Whether packets that leave `id` by output `port` may come to the element `to`, which may be
    /// `id` itself.
    pub fn leads(&self, id: ElementId, port: usize, to: ElementId) -> bool {
        let met = self.nearest((id, port), |id| id == to, false);
        !met.is_empty()
    }

    /// Goes on from a port, downstream or `upstream`, until elements that `is_wanted` are met.
    fn nearest(
        &self,
        (id, port): (ElementId, usize),
        is_wanted: impl Fn(ElementId) -> bool,
        upstream: bool,
    ) -> Vec<ElementId> {
        let step = |id, port| -> Vec<(ElementId, usize)> {
            if upstream {
                self.upstream(id, port).collect()
            } else {
                self.downstream(id, port).collect()
            }
        };
        let mut found = Vec::new();
        let mut reached = step(id, port);
        let mut known: BTreeSet<(ElementId, usize)> = reached.iter().copied().collect();
        let mut next = 0;
        while let Some(&(id, port)) = reached.get(next) {
            next += 1;
            if is_wanted(id) {
                if !found.contains(&id) {
                    found.push(id);
                }
                continue;
            }
            let info = self.info(id);
            let others = if upstream {
                &info.inputs
            } else {
                &info.outputs
            };
            let flows = flow(info.class.flow, port, others.len(), upstream);
            for (other, _) in flows.iter().enumerate().filter(|(_, flows)| **flows) {
                for port in step(id, other) {
                    if known.insert(port) {
                        reached.push(port);
                    }
                }
            }
        }
        found
    }
}

impl Elements for Graph {
    fn index_of(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    fn is_a(&self, index: usize, class: &str) -> bool {
        self.elements
            .get(index)
            .is_some_and(|e| e.class.is_a(class))
    }

    fn capability(&self, index: usize, name: &str) -> Option<&'static (dyn Any + Sync)> {
        let class = self.elements.get(index)?.class;
        let found = class.capabilities.iter().find(|c| c.name() == name)?;
        Some(found.provided())
    }

    fn has_handler(&self, _element: Option<usize>, _handler: &str) -> bool {
        false
    }
}
