//! Configurations that go on when a router of several is replaced: those that are the same in both.
//!
//! Their elements stay what they are, with all their state, and keep their ids; so do their tasks,
//! timers and signals. The new engine is made with their places left empty, as if they were on another
//! thread. Once all other elements are initialized, those that stay move over, as between threads. If
//! the new router cannot be made, the old one is as it was.

use super::Engine;
use super::divide::Rings;
use super::graph::Graph;
use crate::prelude::*;

/// Configurations of a router that stay in the one that replaces it.
#[derive(Default)]
pub(crate) struct Staying {
    /// The number of each in the new router and in the old one.
    parts: Vec<(usize, usize)>,
    /// For each place whether its element stays.
    places: Vec<bool>,
}

impl Staying {
    /// Configurations of a graph that is [placed over](Graph::placed_over) another.
    pub fn new(graph: &Graph, parts: Vec<(usize, usize)>) -> Staying {
        let mut places = alloc::vec![false; graph.elements.len()];
        for (here, _) in &parts {
            places[graph.parts[*here].elements.clone()].fill(true);
        }
        Staying { parts, places }
    }

    /// Whether an element stays.
    pub fn has(&self, id: ElementId) -> bool {
        self.places.get(id.index()) == Some(&true)
    }

    fn ids(&self) -> impl Iterator<Item = ElementId> {
        let places = self.places.iter().enumerate();
        let staying = places.filter(|(_, stays)| **stays);
        staying.map(|(place, _)| ElementId::new(place))
    }
}

impl Engine {
    /// Leaves room in this engine, which is new, for what stays of another.
    pub fn reserve(&mut self, old: &Engine, staying: &Staying) {
        if staying.parts.is_empty() {
            return;
        }
        let stays = |id: &ElementId| staying.has(*id);
        self.scheduler = old.scheduler.reserve(|id| staying.has(id));
        let (threads, former) = (&mut self.threads, &old.threads);
        for id in staying.ids() {
            threads.affinity[id.index()] = former.affinity[id.index()];
        }
        let bound = former.bound.iter().filter(|(id, _)| stays(id));
        threads.bound = bound.copied().collect();
        threads.blocking = former.blocking.iter().copied().filter(stays).collect();
        let openers = former.openers.iter().filter(|(_, id)| stays(id));
        threads.openers = openers.copied().collect();
        for (id, most) in &old.walk.lowered {
            if stays(id) {
                self.walk.lower_limit(*id, *most);
            }
        }
        self.addressed = old.addressed.iter().copied().filter(stays).collect();
        self.driver.go_on_as(&old.driver, &staying.parts);
        let names = self.graph.parts.iter().map(|part| part.name.as_str());
        let roots: Vec<String> = names.map(|name| name.to_string() + "/").collect();
        let part_of = |scope: &str| {
            let root = roots
                .iter()
                .skip(1)
                .position(|root| scope.starts_with(root));
            root.map_or(0, |root| root + 1)
        };
        let known = |scope: &str| {
            let part = part_of(scope);
            staying.parts.iter().any(|(here, _)| *here == part)
        };
        self.names.take_defined(&old.names, known);
    }

    /// Takes the handoff rings between elements that stay out of another engine, with what is in them, for
    /// [`divide`](Self::divide). The other is divided, and is quiesced.
    pub fn take_staying_rings(&self, old: &mut Engine, staying: &Staying) -> Rings {
        let mut rings = Rings::new();
        let edges = &old.walk.edges;
        let Some(own) = &mut old.threads.partition else {
            return rings;
        };
        let both = own.senders.iter_mut().zip(&mut own.receivers);
        for (sender, receiver) in both {
            let Some(edge) = sender.as_ref().map(|sender| sender.edge) else {
                continue;
            };
            let from = edges.source(edge);
            let mut outputs = edges.outputs_of(from).edges();
            let port = outputs.position(|output| output == edge);
            let edge = port.and_then(|port| self.walk.edges.output(from, port));
            let Some(edge) = edge.filter(|_| staying.has(from)) else {
                continue;
            };
            if let Some((mut sender, mut receiver)) = sender.take().zip(receiver.take()) {
                let packets = edges[receiver.edge].packets;
                (sender.edge, receiver.edge) = (edge, edge);
                let key = (edge, sender.from);
                rings.insert(key, (sender, receiver, packets));
            }
        }
        rings
    }

    /// Takes what stays over from another engine. Neither is divided among threads.
    pub fn take_staying(&mut self, old: &mut Engine, staying: &Staying) {
        if staying.parts.is_empty() {
            return;
        }
        old.invalidate();
        for id in staying.ids() {
            old.elements.transfer(id, &mut self.elements);
            self.walk.edges.take_counts_of(id, &old.walk.edges);
        }
        let moves = |id| staying.has(id);
        old.scheduler.transfer(moves, &mut self.scheduler);
        old.listeners.transfer(moves, &mut self.listeners);
        self.threads.former_drops = old.threads.former_drops;
        if !self.random.repeats() {
            self.random = old.random.clone();
        }
    }
}
