//! The flat graph, as the engine uses it: names, classes, ports and edges.

use alloc::collections::BTreeSet;
use core::any::Any;
use core::hash::BuildHasher;
use core::ops::Range;

use click::configurations::Part;
use click::{FlatElement, FlatGraph, Location, Requirement};
use hashbrown::{DefaultHashBuilder, HashTable};
use smallvec::SmallVec;

use super::element::ClassEntry;
use super::ports::flow;
use crate::args::Elements;
use crate::prelude::*;
use crate::topology::Connection;

/// For each port of one side of an element whether it is push.
pub type PushPorts = SmallVec<[bool; 16]>;

/// The class of a place without an element.
static NO_CLASS: ClassEntry = ClassEntry::refused("", "it is no element");

/// The description of an element, without its state.
pub struct ElementInfo {
    /// Full name, `compound/inner`.
    pub name: String,
    /// Its class.
    pub class: &'static ClassEntry,
    /// The name of its class in the configuration.
    pub declared: Arc<str>,
    /// Configuration string.
    pub config: String,
    /// Where it was declared.
    pub location: Location,
    /// For each input whether it is push.
    pub inputs: PushPorts,
    /// For each output whether it is push.
    pub outputs: PushPorts,
}

impl ElementInfo {
    /// A place without an element.
    fn vacant() -> ElementInfo {
        ElementInfo {
            name: String::new(),
            class: &NO_CLASS,
            declared: Arc::from(""),
            config: String::new(),
            location: Location::unknown(),
            inputs: PushPorts::new(),
            outputs: PushPorts::new(),
        }
    }
}

/// The graph of a router. It does not change while the router lives, but for configurations.
pub struct Graph {
    /// What is in the places of elements: for most graphs the elements in Click's order. A graph that took
    /// configurations over from another may have places without one ([`Graph::present`]).
    pub elements: Vec<ElementInfo>,
    /// The configuration as it was read.
    pub source: String,
    /// The connections as they were elaborated.
    pub wiring: Vec<click::Connection>,
    /// What the configuration requires.
    pub requirements: Vec<Requirement>,
    /// The configurations that it is made of: the main one first.
    pub parts: Vec<Part>,
    /// The elements by their names.
    by_name: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// Numbers of the connections, in the order of the inputs and of the outputs that they join.
    by_input: Vec<u32>,
    by_output: Vec<u32>,
}

impl Graph {
    pub(crate) fn new(
        elements: Vec<ElementInfo>,
        wiring: Vec<click::Connection>,
        requirements: Vec<Requirement>,
        mut parts: Vec<Part>,
        source: String,
    ) -> Graph {
        if parts.is_empty() {
            parts.push(Part {
                name: String::new(),
                elements: 0..elements.len(),
            });
        }
        let hasher = DefaultHashBuilder::default();
        let hash = |i: &u32| hasher.hash_one(elements[*i as usize].name.as_str());
        let mut by_name = HashTable::with_capacity(elements.len());
        for i in parts.iter().flat_map(|part| part.elements.clone()) {
            let i = i as u32;
            by_name.insert_unique(hash(&i), i, hash);
        }
        let all = || (0..wiring.len() as u32).collect::<Vec<_>>();
        let (mut by_input, mut by_output) = (all(), all());
        by_input.sort_by_key(|c| wiring[*c as usize].to);
        by_output.sort_by_key(|c| wiring[*c as usize].from);
        Graph {
            elements,
            source,
            wiring,
            requirements,
            parts,
            by_name,
            hasher,
            by_input,
            by_output,
        }
    }

    /// The element called `name`.
    pub fn find(&self, name: &str) -> Option<ElementId> {
        self.index_of(name).map(ElementId::new)
    }

    /// The description of an element.
    pub fn info(&self, id: ElementId) -> &ElementInfo {
        &self.elements[id.index()]
    }

    /// The elements with their ids, configuration by configuration.
    pub fn present(&self) -> impl Iterator<Item = (ElementId, &ElementInfo)> {
        let places = self.parts.iter().flat_map(|part| part.elements.clone());
        places.map(|place| (ElementId::new(place), &self.elements[place]))
    }

    /// The flat graph; `config` says what configuration an element has.
    pub fn flat(&self, config: impl Fn(ElementId) -> String) -> FlatGraph {
        let flat = |(id, info): (ElementId, &ElementInfo)| FlatElement {
            name: info.name.clone(),
            class: Arc::clone(&info.declared),
            config: config(id),
            location: info.location.clone(),
        };
        let mut at = alloc::vec![0; self.elements.len()];
        for (number, (id, _)) in self.present().enumerate() {
            at[id.index()] = number;
        }
        FlatGraph {
            elements: self.present().map(flat).collect(),
            connections: moved(&self.wiring, |place| at[place]),
            requirements: self.requirements.clone(),
            parts: Vec::new(),
        }
    }

    /// Whether one of its configurations is the same as one of another graph.
    pub(crate) fn same_part(&self, at: usize, other: &Graph, there: usize) -> bool {
        let facts = |graph: &Graph, at: usize| -> Vec<_> {
            let elements = graph.elements[graph.parts[at].elements.clone()].iter();
            let facts = elements.map(|e| (e.name.clone(), e.class.name, e.config.clone()));
            facts.collect()
        };
        let wiring = |graph: &Graph, at: usize| {
            let range = graph.parts[at].elements.clone();
            let of_part = graph.wiring.iter().filter(|c| range.contains(&c.from.0));
            let of_part: Vec<_> = of_part.cloned().collect();
            moved(&of_part, |place| place - range.start)
        };
        wiring(self, at) == wiring(other, there) && facts(self, at) == facts(other, there)
    }

    /// Places the configurations that are the same in `old` where they stand there, and the others between and
    /// behind them. Returns the former: the number of each here, and there. Configurations that are
    /// one alone, here and there, are not the same.
    pub(crate) fn placed_over(self, old: &Graph) -> (Graph, Vec<(usize, usize)>) {
        if self.parts.len() == 1 && old.parts.len() == 1 {
            return (self, Vec::new());
        }
        let same = |(here, part): (usize, &Part)| {
            let there = old.parts.iter().position(|it| it.name == part.name)?;
            self.same_part(here, old, there).then_some((here, there))
        };
        let kept: Vec<_> = self.parts.iter().enumerate().filter_map(same).collect();
        let mut taken: Vec<Range<usize>> = Vec::new();
        for (_, there) in &kept {
            taken.push(old.parts[*there].elements.clone());
        }
        let mut parts = self.parts.clone();
        let mut at = alloc::vec![0; self.elements.len()];
        for (here, part) in parts.iter_mut().enumerate() {
            let length = part.elements.len();
            let stays = kept.iter().find(|(kept, _)| *kept == here);
            let start = match stays {
                Some((_, there)) => old.parts[*there].elements.start,
                None => gap(&mut taken, length),
            };
            for (place, from) in (start..).zip(part.elements.clone()) {
                at[from] = place;
            }
            part.elements = start..start + length;
        }
        let end = parts.iter().map(|part| part.elements.end).max();
        let mut elements = Vec::new();
        elements.resize_with(end.unwrap_or(0), ElementInfo::vacant);
        for (place, info) in at.iter().zip(self.elements) {
            elements[*place] = info;
        }
        let wiring = moved(&self.wiring, |place| at[place]);
        let graph = Graph::new(elements, wiring, self.requirements, parts, self.source);
        (graph, kept)
    }

    /// The connections, each with whether it is push.
    pub(crate) fn connections(&self) -> impl Iterator<Item = Connection> {
        let connections = self.wiring.iter();
        connections.map(|c| Connection {
            from: (ElementId::new(c.from.0), c.from.1),
            to: (ElementId::new(c.to.0), c.to.1),
            push: self.elements[c.from.0].outputs[c.from.1],
        })
    }

    /// The ports at the other end of an element's input.
    pub fn upstream(&self, id: ElementId, port: usize) -> impl Iterator<Item = (ElementId, usize)> {
        let input = (id.index(), port);
        let connection = |c: &u32| &self.wiring[*c as usize];
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
        let connection = |c: &u32| &self.wiring[*c as usize];
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

/// Connections between elements at other places.
fn moved(wiring: &[click::Connection], place: impl Fn(usize) -> usize) -> Vec<click::Connection> {
    let connections = wiring.iter().cloned();
    let moved = connections.map(|mut connection| {
        connection.from.0 = place(connection.from.0);
        connection.to.0 = place(connection.to.0);
        connection
    });
    moved.collect()
}

/// Takes the first `length` places in a row that are free.
fn gap(taken: &mut Vec<Range<usize>>, length: usize) -> usize {
    taken.sort_by_key(|range| range.start);
    let mut start = 0;
    for range in taken.iter() {
        if range.start >= start + length {
            break;
        }
        start = start.max(range.end);
    }
    taken.push(start..start + length);
    start
}

impl Elements for Graph {
    fn index_of(&self, name: &str) -> Option<usize> {
        let is_named = |i: &u32| self.elements[*i as usize].name == name;
        let found = self.by_name.find(self.hasher.hash_one(name), is_named)?;
        Some(*found as usize)
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
