//! Configurations that go on when a router of several is replaced: the configurations that are the same in both
//! routers.
//!
//! Their elements keep their state and their ids; so do their tasks, timers and signals. The new engine is made with
//! their slots empty, as if they were on another thread. Once all other elements are initialized, the elements that
//! stay move to the new engine, as between threads. If the new router cannot be made, the old one is as it was.

use super::Engine;
use super::divide::Rings;
use super::graph::Graph;
use crate::prelude::*;
use crate::walk::edges::Edges;
use crate::walk::numbers::EdgeId;

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

    /// Takes handoff rings out of another engine, for [`divide`](Self::divide): the rings of elements that stay, and
    /// rings with packets between elements that are connected in the same way here. The other engine is divided, and
    /// quiesced.
    pub fn take_rings_of(&mut self, old: &mut Engine, staying: &Staying) -> Rings {
        let mut rings = Rings::new();
        let there = (&old.walk.edges, &*old.graph);
        let Some(own) = &mut old.threads.partition else {
            return rings;
        };
        for (sender_place, receiver_place) in own.senders.iter_mut().zip(&mut own.receivers) {
            let (Some(sender), Some(receiver)) = (&mut *sender_place, &mut *receiver_place) else {
                continue;
            };
            let stays = staying.has(there.0.source(sender.edge));
            if !stays && receiver.len() == 0 {
                continue;
            }
            let alike = self.edge_alike(there, (sender.edge, receiver.target), stays);
            let Some((from, edge)) = alike else {
                continue;
            };
            let mut packets = there.0[receiver.edge].packets;
            if !stays {
                (packets, sender.drops) = (0, 0);
                receiver.pass_again(sender, |packet| {
                    self.with(from, |_, cx| cx.admit(packet)).flatten()
                });
            }
            if let Some((sender, receiver)) = sender_place.take().zip(receiver_place.take()) {
                rings.insert((edge, sender.from), (sender, receiver, packets));
            }
        }
        rings
    }

    /// The edge, with its source, that is here what one to `target` is in another engine: it connects the same elements
    /// in the same way. Elements that stay have the same numbers in both; others are found by their names.
    fn edge_alike(
        &self,
        (edges, graph): (&Edges, &Graph),
        (edge, target): (EdgeId, ElementId),
        stays: bool,
    ) -> Option<(ElementId, EdgeId)> {
        let source = edges.source(edge);
        let mut outputs = edges.outputs_of(source).edges();
        let port = outputs.position(|output| output == edge)?;
        let named = |id| self.graph.find(&graph.info(id).name);
        let (from, to) = match stays {
            true => (source, target),
            false => (named(source)?, named(target)?),
        };
        let is_alike = self.graph.downstream(from, port).any(|(end, _)| end == to);
        let edge = self.walk.edges.output(from, port)?;
        is_alike.then_some((from, edge))
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
