//! Dividing a router among threads, and making it one again.

use alloc::collections::BTreeMap;

use super::{Cx, Engine};
use crate::prelude::*;
use crate::random::Random;
use crate::runtime::{Devices, Runtime};
use crate::scheduler::signal::{Notice, Signal};
use crate::scheduler::task::{NO_THREAD, TaskId};
use crate::settings::Settings;
use crate::threads::Partition;
use crate::threads::assignment::Assigned;
use crate::threads::constraints::{Constraints, PerThread, Placement};
use crate::threads::quiesce::ThreadGroup;
use crate::threads::ring::{RingReceiver, RingSender, ring};
use crate::threads::thread_set::ThreadSet;
use crate::walk::edges::Edge;
use crate::walk::numbers::{EdgeId, Target};

/// Both ends of rings, by edge and sending thread, and the packets that passed.
pub(crate) type Rings = BTreeMap<(EdgeId, u16), (RingSender, RingReceiver, u64)>;

/// Dividing and uniting.
impl Engine {
    /// Makes this engine, which has the whole router, that of thread `me` of several, quiesced
    /// here. `others` are the runtimes of the other threads, `rings` the rings that it had before.
    pub fn divide(
        &mut self,
        group: Arc<ThreadGroup<Engine>>,
        me: u16,
        others: Vec<Runtime>,
        rings: Rings,
    ) {
        self.threads.count = group.threads();
        let numbers = (0..self.threads.count).filter(|number| *number != me);
        let mut own = Partition::new(Arc::clone(&group), me);
        let other = |(number, runtime)| self.other(&group, number, runtime);
        own.others = numbers.zip(others).map(other).collect();
        own.whole = true;
        self.threads.partition = Some(Box::new(own));
        self.assign_with(rings);
    }

    /// The engine of another thread, with nothing of its own yet.
    fn other(
        &self,
        group: &Arc<ThreadGroup<Engine>>,
        me: u16,
        mut runtime: Runtime,
    ) -> Box<Engine> {
        let random = Random::new(runtime.embedding.seed());
        let settings = Settings {
            batch: self.walk.limit,
            threads: self.threads.count,
        };
        let (graph, library) = (Arc::clone(&self.graph), self.library.clone());
        let elements = graph.elements.iter();
        let elements = elements.map(|info| {
            (info.class.per_thread != PerThread::No)
                .then(|| info.class.make())
                .flatten()
        });
        let mut other = Engine::new(
            elements.collect(),
            graph.clone(),
            library,
            runtime,
            settings,
        );
        other.driver = self.driver.of_thread();
        other.scheduler.measured = self.scheduler.measured;
        other.threads.openers = self.threads.openers.clone();
        other.threads.affinity = self.threads.affinity.clone();
        other.random = random;
        let own = Partition::new(Arc::clone(group), me);
        other.threads.partition = Some(Box::new(own));
        other
    }

    /// Makes the router, which is quiesced here, a router of one thread permanently.
    pub fn unite(&mut self) {
        self.drain_rings();
        let own = self.threads.partition.as_ref();
        let left = own.map_or(0, |own| {
            own.receivers.iter().flatten().map(RingReceiver::len).sum()
        });
        self.threads.former_drops = self.threads.drops() + left;
        self.threads.partition = None;
        self.reconnect();
    }

    /// Takes the runtime of an engine that is no longer used, without the devices.
    pub fn take_runtime(&mut self) -> Runtime {
        Runtime {
            devices: Devices::default(),
            ..self.runtime.take()
        }
    }

    /// Lets the edges lead where the graph says, and no longer into rings.
    fn reconnect(&mut self) {
        self.invalidate();
        self.walk.remove_behind_rings();
        self.walk.edges.connect(self.graph.connections());
    }

    /// Assigns a task to another thread. The router is whole.
    pub fn move_task(&mut self, task: TaskId, thread: i32) {
        self.scheduler.tasks.set_thread(task, thread);
        let element = self.scheduler.tasks.element(task);
        self.threads.affinity[element.index()] = Some(thread);
        self.threads.request_assignment();
    }
}

/// Assignment.
impl Engine {
    fn constraints(&self) -> Constraints {
        let within = |thread: i32| match u16::try_from(thread) {
            Ok(thread) if thread < self.threads.count => thread,
            _ => 0,
        };
        let tasks = &self.scheduler.tasks;
        let assigned = tasks.list().filter(|t| tasks.thread(*t) != NO_THREAD);
        let assigned = assigned.map(|t| (tasks.element(t), within(tasks.thread(t))));
        let openers = &self.threads.openers;
        let timers = self.scheduler.timers.list().map(|(_, element)| element);
        let watching = self.scheduler.watches().iter().map(|watch| watch.element);
        let opening = openers.iter().map(|(_, element)| *element);
        let mut bound = self.threads.bound.clone();
        for (i, (device, element)) in openers.iter().enumerate() {
            let first = openers[..i].iter().find(|(other, _)| other == device);
            bound.extend(first.map(|(_, other)| (*other, *element)));
        }
        let elements = self.graph.elements.iter().zip(&self.threads.affinity);
        let placement = elements.map(|(info, affinity)| Placement {
            per_thread: info.class.per_thread,
            outputs: info.outputs.len(),
            affinity: affinity.map(within),
        });
        Constraints {
            threads: self.threads.count,
            elements: placement.collect(),
            connections: self.graph.connections().collect(),
            tasks: assigned.collect(),
            active: timers.chain(watching).chain(opening).collect(),
            bound,
        }
    }

    /// The threads whose packets pass an element. All tasks are here.
    pub fn passing_threads(&self, id: ElementId) -> ThreadSet {
        self.constraints().passing()[id.index()]
    }

    /// Tells the user which tasks run on another thread than was asked for.
    fn report_overruled(&mut self, assignment: &[Assigned]) {
        let tasks = &self.scheduler.tasks;
        for task in tasks.list() {
            let (id, asked) = (tasks.element(task), tasks.thread(task));
            let Some(thread) = assignment[id.index()].thread() else {
                continue;
            };
            let was_asked = self.threads.affinity[id.index()].is_some() && asked >= 0;
            if !was_asked || asked == i32::from(thread) {
                continue;
            }
            let info = self.graph.info(id);
            let text = format!(
                "‘{} :: {}’ runs on thread {thread}, not {asked}: it works with elements that run there",
                info.name, info.class.name
            );
            self.runtime.embedding.chatter(&text);
        }
    }

    /// Assigns every element to a thread, and makes the rings that follow from it. The router is
    /// quiesced here.
    pub fn assign(&mut self) {
        let rings = self.take_rings();
        self.assign_with(rings);
    }

    /// As [`assign`](Self::assign), with the rings that there were.
    fn assign_with(&mut self, mut former: Rings) {
        let constraints = self.constraints();
        let passing = constraints.passing();
        let assignment = constraints.assign(&passing);
        self.report_overruled(&assignment);
        self.reconnect();
        let graph = Arc::clone(&self.graph);
        let blocking = self.blocking();
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for connection in graph.connections().filter(|connection| connection.push) {
            let (from, port) = connection.from;
            let Some(edge) = self.walk.edges.output(from, port) else {
                continue;
            };
            let blocks = blocking[connection.to.0.index()];
            let leaves = |thread: &u16| constraints.leaves_by(&passing, connection.from, *thread);
            let sending = match assignment[from.index()].thread() {
                Some(thread) => thread..thread + 1,
                None => 0..self.threads.count,
            };
            for thread in sending.filter(leaves) {
                let to = assignment[connection.to.0.index()]
                    .thread()
                    .unwrap_or(thread);
                // The ring of an element with one thread is the same, wherever that is now.
                let same = match assignment[from.index()].thread() {
                    None => thread..=thread,
                    Some(_) => 0..=u16::MAX,
                };
                let key = former.range((edge, *same.start())..=(edge, *same.end()));
                let key = key.map(|(key, _)| *key).next();
                let old = key.and_then(|key| former.remove(&key));
                let is_empty = (old.as_ref()).is_none_or(|(_, receiver, _)| receiver.len() == 0);
                if thread == to && is_empty {
                    continue;
                }
                let mut behind = self.walk.edges[edge];
                behind.packets = old
                    .as_ref()
                    .map_or(behind.packets, |(_, _, passed)| *passed);
                let behind = self.walk.add_behind_ring(behind);
                let ends = old.map(|(sender, receiver, _)| (sender, receiver));
                let ends = ends.unwrap_or_else(|| {
                    let room = self.room(connection.to.0);
                    let (edges, threads) = ((edge, behind), (thread, to));
                    ring(edges, threads, connection.to.0, room, blocks)
                });
                let (mut sender, mut receiver) = ends;
                (sender.from, sender.to, sender.edge) = (thread, to, edge);
                (receiver.from, receiver.to, receiver.edge) = (thread, to, behind);
                receiver.target = connection.to.0;
                let cx = Cx {
                    engine: self,
                    id: from,
                };
                let (signal, found) = cx.walk(Notice::Full, port);
                let owner = |id| self.scheduler.signals.owner(id);
                let elsewhere = |id: &_| assignment[owner(*id).index()] != Assigned::to(thread);
                sender.signals = found.into_iter().filter(elsewhere).collect();
                receiver.signal = signal;
                sender.blocking = blocks;
                senders.push(Some(sender));
                receivers.push(Some(receiver));
            }
        }
        unblock_circles(&mut senders);
        let rings = senders.iter().flatten().zip(receivers.iter_mut().flatten());
        for (_, receiver) in rings.filter(|(sender, _)| sender.blocking) {
            receiver.signal = Signal::busy();
        }
        let drops = former.values();
        let drops = drops.map(|(sender, receiver, _)| sender.drops + receiver.len());
        self.threads.former_drops += drops.sum::<u64>();
        self.install(assignment.into(), passing.into(), senders, receivers);
    }

    /// For each element, whether threads that send to it wait while the ring is full. Elements ask for
    /// it; so do those behind an element that sends each thread's packets to an output of its own,
    /// where threads share one: they would process the packets themselves otherwise. The elements
    /// before them on push paths then block, too.
    fn blocking(&self) -> Vec<bool> {
        let mut blocking = alloc::vec![false; self.graph.elements.len()];
        let mut pending = self.threads.blocking.clone();
        for connection in self.graph.connections().filter(|c| c.push) {
            let info = self.graph.info(connection.from.0);
            let shared = info.outputs.len() < usize::from(self.threads.count);
            if shared && info.class.per_thread != PerThread::No {
                pending.push(connection.to.0);
            }
        }
        while let Some(id) = pending.pop() {
            if core::mem::replace(&mut blocking[id.index()], true) {
                continue;
            }
            let info = self.graph.info(id);
            let pushed = (0..info.inputs.len()).filter(|port| info.inputs[*port]);
            pending.extend(
                pushed.flat_map(|port| self.graph.upstream(id, port).map(|(from, _)| from)),
            );
        }
        blocking
    }

    /// Takes out the rings that there are.
    fn take_rings(&mut self) -> Rings {
        let Some(own) = &mut self.threads.partition else {
            return Rings::new();
        };
        let senders = own.senders.drain(..).flatten();
        let both = senders.zip(own.receivers.drain(..).flatten());
        let rings = both.map(|(sender, receiver)| {
            let passed = self.walk.edges[receiver.edge].packets;
            ((sender.edge, sender.from), (sender, receiver, passed))
        });
        rings.collect()
    }

    /// Gives this engine and all others the assignment, and this one the rings.
    fn install(
        &mut self,
        assignment: Arc<[Assigned]>,
        passing: Arc<[ThreadSet]>,
        senders: Vec<Option<RingSender>>,
        receivers: Vec<Option<RingReceiver>>,
    ) {
        let Some(mut own) = self.threads.partition.take() else {
            return;
        };
        let listened = !self.listeners.is_empty();
        for other in &mut own.others {
            other.reconnect();
            for edge in self.walk.edges.behind_rings() {
                other.walk.add_behind_ring(Edge {
                    packets: 0,
                    ..*edge
                });
            }
            other.lead_into_rings(&senders, &assignment);
            if let Some(other) = &mut other.threads.partition {
                other.assignment = Arc::clone(&assignment);
                other.passing = Arc::clone(&passing);
                other.senders = senders.iter().map(|_| None).collect();
                other.receivers = receivers.iter().map(|_| None).collect();
                other.listened = listened;
            }
        }
        (own.reassign, own.listened) = (false, listened);
        own.assignment = Arc::clone(&assignment);
        own.passing = passing;
        self.threads.partition = Some(own);
        self.lead_into_rings(&senders, &assignment);
        if let Some(own) = &mut self.threads.partition {
            (own.senders, own.receivers) = (senders, receivers);
        }
    }

    /// Lets the edges that are rings on this thread lead into them.
    fn lead_into_rings(&mut self, senders: &[Option<RingSender>], assignment: &[Assigned]) {
        let me = self.threads.me();
        for (number, sender) in senders.iter().enumerate() {
            let Some(sender) = sender else {
                continue;
            };
            let source: ElementId = self.walk.edges.source(sender.edge);
            if sender.from == me || assignment[source.index()].thread().is_some() {
                self.walk.edges[sender.edge].target = Target::ring(number);
            }
        }
    }
}

/// Lets rings in a circle of threads that would wait for each other drop packets instead.
fn unblock_circles(senders: &mut [Option<RingSender>]) {
    let blocking = senders.iter().flatten().filter(|sender| sender.blocking);
    let waits: Vec<_> = blocking.map(|sender| (sender.from, sender.to)).collect();
    for sender in senders.iter_mut().flatten() {
        let mut reached = ThreadSet::of(sender.to);
        while waits
            .iter()
            .any(|(from, to)| reached.has(*from) && reached.add(ThreadSet::of(*to)))
        {}
        sender.blocking &= !reached.has(sender.from);
    }
}
