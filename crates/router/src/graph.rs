//! The flat graph, as the engine uses it: names, classes, ports and edges.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use click::{FlatGraph, Location};

use crate::args::Elements;
use crate::context::ElementId;
use crate::element::ClassEntry;

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
}

impl Graph {
    pub(crate) fn new(elements: Vec<ElementInfo>, flat: FlatGraph, source: String) -> Graph {
        let by_name = elements
            .iter()
            .enumerate()
            .map(|(i, element)| (element.name.clone(), i))
            .collect();
        Graph {
            elements,
            source,
            flat,
            by_name,
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

    /// The places at the other end of an element's input.
    pub fn upstream(&self, id: ElementId, port: usize) -> impl Iterator<Item = (ElementId, usize)> {
        let connections = self.flat.connections.iter();
        connections
            .filter(move |c| c.to == (id.index(), port))
            .map(|c| (ElementId(c.from.0 as u32), c.from.1))
    }

    /// The places at the other end of an element's output.
    pub fn downstream(
        &self,
        id: ElementId,
        port: usize,
    ) -> impl Iterator<Item = (ElementId, usize)> {
        let connections = self.flat.connections.iter();
        connections
            .filter(move |c| c.from == (id.index(), port))
            .map(|c| (ElementId(c.to.0 as u32), c.to.1))
    }
}

impl Elements for Graph {
    fn index_of(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    fn is_a(&self, index: usize, class: &str) -> bool {
        self.elements
            .get(index)
            .is_some_and(|e| e.class.name == class || e.class.is_a.contains(&class))
    }

    fn has_handler(&self, _element: Option<usize>, _handler: &str) -> bool {
        false
    }
}
