//! The engine: the running state of a router, or of one thread of it.
//!
//! It is made of a [graph](graph::Graph), which does not change; a [walk](crate::walk) of batches
//! through it; a [scheduler](crate::scheduler); the state of [threads](crate::threads); and an
//! [optimizer](crate::optimizer). Each owns its state. The engine brings them together with the
//! elements: while an element works, it is out of its slot, and it reaches everything else through
//! [`Cx`]. So an element can pull from others and call their handlers without any sharing.

mod advice;
mod configure;
mod context;
pub(crate) mod divide;
mod driver;
pub(crate) mod element;
mod elements;
pub(crate) mod graph;
mod handlers;
pub(crate) mod keeping;
pub(crate) mod library;
mod optimize;
pub mod ports;
mod quiesce;
mod report;
mod rounds;
mod run;
mod segments;

use alloc::collections::BTreeSet;

use crate::args::NameDatabase;
use crate::chatter::Listeners;
use crate::optimizer::Optimizer;
use crate::prelude::*;
use crate::random::Random;
use crate::runtime::Runtime;
use crate::scheduler::Scheduler;
use crate::settings::{Settings, THREADS_MAX};
use crate::threads::Threads;
use crate::walk::Walk;
use crate::walk::edges::Edges;
pub use context::Queues;
pub(crate) use context::Report;
use driver::Driver;
use element::{Addressed, DynElement};
pub(crate) use elements::ElementTable;
use graph::Graph;
pub use handlers::VERSION;
use library::Library;

/// The router, as the element that works at the moment sees it.
pub struct Cx<'c> {
    pub(crate) engine: &'c mut Engine,
    pub(crate) id: ElementId,
}

/// The running state of a router, or of one thread of it.
pub(crate) struct Engine {
    pub elements: ElementTable,
    pub graph: Arc<Graph>,
    pub walk: Walk,
    pub scheduler: Scheduler,
    pub threads: Threads<Engine>,
    pub optimizer: Optimizer,
    pub driver: Driver,
    pub runtime: Runtime,
    pub random: Random,
    pub names: NameDatabase,
    /// The classes that configurations may use.
    pub library: Library,
    /// Elements that listen to others' messages.
    pub listeners: Listeners,
    /// Elements whose arguments named addresses of the machine's interfaces.
    pub addressed: BTreeSet<ElementId>,
    /// What elements report while they are initialized.
    pub reports: Vec<Report>,
    /// The warnings of the handler that is being written.
    pub warnings: Vec<String>,
}

impl Engine {
    /// Takes a new seed from the embedding, unless random numbers are to repeat.
    pub fn reseed(&mut self) {
        if !self.random.repeats() {
            self.random = Random::new(self.runtime.embedding.seed());
        }
    }

    /// Tells the elements that addresses of interfaces have changed. Returns false if some element
    /// cannot follow: the caller then replaces the configuration by itself. The router is whole.
    pub fn readdress(&mut self) -> bool {
        let names = self.runtime.embedding.names();
        self.names.take_host(names);
        for id in self.addressed.clone() {
            let config = self.config(id).to_string();
            if self.reconfigure(id, &config).is_err() {
                return false;
            }
        }
        for id in self.elements.ids() {
            if let Some(link) = self.link::<dyn Addressed>(id) {
                self.reach(link, |element, cx| element.readdress(cx));
            }
        }
        true
    }

    /// An engine with these elements, which may be fewer than the graph's.
    pub fn new(
        elements: Vec<Option<Box<dyn DynElement>>>,
        graph: Arc<Graph>,
        library: Library,
        mut runtime: Runtime,
        settings: Settings,
    ) -> Box<Engine> {
        let ports = graph.elements.iter();
        let ports = ports.map(|element| (element.inputs.len(), element.outputs.len()));
        let mut edges = Edges::new(ports);
        edges.connect(graph.connections());
        let count = settings.threads.clamp(1, THREADS_MAX);
        let driver = Driver::new(&graph.parts);
        let mut names = runtime.embedding.names();
        let installed = graph.parts.iter().skip(1);
        names.set_roots(installed.map(|part| part.name.clone() + "/").collect());
        Box::new(Engine {
            threads: Threads::new(count, elements.len()),
            elements: ElementTable::new(elements, runtime.embedding.current_element()),
            graph,
            walk: Walk::new(edges, settings.batch),
            scheduler: Scheduler::default(),
            optimizer: Optimizer::default(),
            driver,
            random: Random::new(0),
            names,
            runtime,
            library,
            listeners: Listeners::default(),
            addressed: BTreeSet::new(),
            reports: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// Lets an element work with everything around it. `None` if it is at work already.
    pub fn with<R>(
        &mut self,
        id: ElementId,
        work: impl FnOnce(&mut dyn DynElement, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let (mut element, outer) = self.elements.lend(id)?;
        let result = work(element.as_mut(), &mut Cx { engine: self, id });
        self.elements.give_back(id, element, outer);
        Some(result)
    }

    /// As [`with`](Self::with), and delivers what the element sends.
    pub fn with_delivery<R>(
        &mut self,
        id: ElementId,
        work: impl FnOnce(&mut dyn DynElement, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let base = self.walk.height();
        let result = self.with(id, work);
        self.run_stack(base);
        result
    }

    /// Prints a line for the user.
    pub fn chatter(&mut self, line: &str) {
        self.runtime.embedding.chatter(line);
    }

    pub fn name(&self, id: ElementId) -> &str {
        &self.graph.info(id).name
    }

    /// The configuration of an element, with changes while the router runs.
    pub fn config(&self, id: ElementId) -> &str {
        let changed = self.elements.config(id);
        changed.unwrap_or(&self.graph.info(id).config)
    }
}

/// The walk, with the packet pool.
impl Engine {
    /// Takes a batch back and drops its packets.
    #[inline]
    pub fn put_back(&mut self, batch: Box<Batch>) {
        self.walk.put_back(&mut self.runtime.pool, batch);
    }

    /// Emits a packet by an output.
    #[inline]
    pub fn emit(&mut self, id: ElementId, port: usize, packet: Packet) {
        self.walk.emit(&mut self.runtime.pool, id, port, packet);
    }

    /// Emits a whole batch by an output.
    #[inline]
    pub fn send(&mut self, id: ElementId, port: usize, batch: Box<Batch>) {
        self.walk.send(&mut self.runtime.pool, id, port, batch);
    }
}
