//! Sharing a router out to threads, and making it one again.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::context::{Cx, ElementId};
use crate::crossing::{Entry, Exit, crossing};
use crate::engine::{CROSSING, Core, Runtime};
use crate::homes::{EVERYWHERE, Wishes};
use crate::library::Library;
use crate::notifier::Notice;
use crate::random::Random;
use crate::router::Settings;
use crate::task::NO_THREAD;
use crate::team::{Share, Team};

impl Core {
    /// A core with nothing in it, that stands for this one for a while.
    pub fn hollow(&self) -> Core {
        let settings = Settings::default();
        let (library, runtime) = (Library::new(&[]), Runtime::nothing());
        Core::new(
            Vec::new(),
            Arc::clone(&self.graph),
            library,
            runtime,
            settings,
        )
    }

    /// Takes the runtime away from a core that is not used any more.
    pub fn take_runtime(&mut self) -> Runtime {
        let runtime = core::mem::replace(&mut self.runtime, Runtime::nothing());
        Runtime {
            devices: Vec::new(),
            ..runtime
        }
    }

    /// The core of another thread, with nothing of its own yet.
    pub fn part(&self, me: u16, mut runtime: Runtime) -> Core {
        let random = Random::new(runtime.embedding.seed());
        let settings = Settings {
            batch: self.limit,
            threads: self.threads,
        };
        let (graph, library) = (Arc::clone(&self.graph), self.library.clone());
        let mut part = Core::new(Vec::new(), graph, library, runtime, settings);
        let elements = self.graph.elements.iter();
        part.elements = elements
            .map(|info| info.class.per_thread.then(|| info.class.make()))
            .collect();
        part.configs = alloc::vec![None; part.elements.len()];
        part.driver_manager = self.driver_manager;
        part.measured = self.measured;
        part.openers = self.openers.clone();
        part.preferences = self.preferences.clone();
        part.random = random;
        let team = self.share.as_ref().map(|share| Arc::clone(&share.team));
        part.share = team.map(|team| Box::new(Share::new(team, me, Arc::new([]))));
        part
    }

    /// Makes this core, which is whole, that of thread `me` of several, with all of them gathered
    /// here; `others` are the runtimes of the rest.
    pub fn divide(&mut self, team: Arc<Team>, me: u16, others: Vec<Runtime>) {
        self.threads = team.threads() as u16;
        let mut share = Share::new(team, me, Arc::new([]));
        share.whole = true;
        self.share = Some(Box::new(share));
        let numbers = (0..self.threads).filter(|number| *number != me);
        let parts = numbers.zip(others);
        let parts = parts.map(|(number, runtime)| Box::new(self.part(number, runtime)));
        let parts = parts.collect();
        if let Some(share) = &mut self.share {
            share.parts = parts;
        }
        self.settle();
    }

    /// Makes the router, which is gathered here, one for good.
    pub fn unite(&mut self) {
        self.bring_over();
        self.former_drops = self.drops_between_threads();
        self.share = None;
        let edges = self.graph.elements.iter().map(|e| e.outputs.len()).sum();
        self.cut_edges(edges);
        self.connect();
    }

    /// Forgets the edges behind the first `count`, which lead on from crossings.
    fn cut_edges(&mut self, count: usize) {
        self.outputs.truncate(count);
        self.open.truncate(count);
    }

    fn wishes(&self) -> Vec<u16> {
        let within = |thread: i32| match u16::try_from(thread) {
            Ok(thread) if thread < self.threads => thread,
            _ => 0,
        };
        let tasks = self.tasks.iter();
        let tasks = tasks.filter(|task| self.tasks.thread(*task) != NO_THREAD);
        let tasks = tasks.map(|t| (self.tasks.element(t), within(self.tasks.thread(t))));
        let timers = self.timers.list().map(|(_, element)| element);
        let watching = self.watches.iter().map(|watch| watch.element);
        let opening = self.openers.iter().map(|(_, element)| *element);
        let mut bound = self.bound.clone();
        for (i, (device, element)) in self.openers.iter().enumerate() {
            let first = self.openers[..i].iter().find(|(other, _)| other == device);
            bound.extend(first.map(|(_, other)| (*other, *element)));
        }
        let preferences = self.preferences.iter();
        Wishes {
            graph: &self.graph,
            threads: self.threads,
            tasks: tasks.collect(),
            active: timers.chain(watching).chain(opening).collect(),
            preferences: preferences.map(|p| p.map(within)).collect(),
            bound: &bound,
        }
        .settle()
    }

    /// Says which tasks run elsewhere than they were meant to.
    fn tell_overruled(&mut self, homes: &[u16]) {
        for task in self.tasks.iter() {
            let (id, thread) = (self.tasks.element(task), self.tasks.thread(task));
            let home = homes[id.index()];
            if self.preferences[id.index()].is_none() || thread < 0 || thread == i32::from(home) {
                continue;
            }
            let info = self.graph.info(id);
            let text = format!(
                "‘{} :: {}’ runs on thread {home}, not {thread}: it works with elements that run there",
                info.name, info.class.name
            );
            self.runtime.embedding.chatter(&text);
        }
    }

    /// Gives every element its home and makes the crossings that follow from it. The router is
    /// gathered here.
    pub fn settle(&mut self) {
        let homes = self.wishes();
        self.tell_overruled(&homes);
        let mut former = self.take_crossings();
        let mut passed: BTreeMap<_, _> = former
            .iter()
            .map(|(key, (_, exit))| (*key, self.outputs[exit.edge as usize].packets))
            .collect();
        let real = self.graph.elements.iter().map(|e| e.outputs.len()).sum();
        self.cut_edges(real);
        self.connect();
        let graph = Arc::clone(&self.graph);
        let (mut entries, mut exits) = (Vec::new(), Vec::new());
        for c in &graph.flat.connections {
            let (from, to) = (ElementId::new(c.from.0), ElementId::new(c.to.0));
            let Some(edge) = self.output_edge(from, c.from.1) else {
                continue;
            };
            if !graph.info(from).outputs[c.from.1] {
                continue;
            }
            for sender in self.senders(&homes, from, c.from.1) {
                let receiver = match homes[to.index()] {
                    EVERYWHERE => sender,
                    home => home,
                };
                // That of an element with one home is the same, wherever it is now.
                let senders = match homes[from.index()] {
                    EVERYWHERE => sender..=sender,
                    _ => 0..=u16::MAX,
                };
                let key = former.range((edge, *senders.start())..=(edge, *senders.end()));
                let key = key.map(|(key, _)| *key).next();
                let old = key.and_then(|key| former.remove(&key));
                let waiting = old.as_ref().is_some_and(|(_, exit)| exit.waiting() > 0);
                if sender == receiver && !waiting {
                    continue;
                }
                let onward = self.outputs.len() as u32;
                let mut behind = self.outputs[edge as usize];
                let (mut entry, mut exit) = old.unwrap_or_else(|| {
                    let room = self.room(to);
                    crossing(edge, onward, sender, receiver, to, room)
                });
                behind.packets = passed.remove(&(edge, entry.from)).unwrap_or(behind.packets);
                self.outputs.push(behind);
                self.open.push(0);
                (entry.from, entry.to) = (sender, receiver);
                (exit.from, exit.to, exit.edge) = (sender, receiver, onward);
                let (signal, found) = Cx {
                    core: self,
                    id: from,
                }
                .walk(Notice::Full, c.from.1);
                let found = found.into_iter();
                let elsewhere = found.filter(|id| homes[self.signals.owner(*id).index()] != sender);
                (entry.signals, exit.signal) = (elsewhere.collect(), signal);
                entries.push(Some(entry));
                exits.push(Some(exit));
            }
        }
        let drops = former.values().map(|(entry, _)| entry.drops);
        self.former_drops += drops.sum::<u64>();
        self.install(homes.into(), entries, exits);
    }

    /// The threads from which packets leave by an output.
    fn senders(&self, homes: &[u16], from: ElementId, port: usize) -> Vec<u16> {
        match homes[from.index()] {
            EVERYWHERE => {
                let outputs = self.graph.info(from).outputs.len();
                let all = 0..self.threads;
                all.filter(|t| usize::from(*t) % outputs == port).collect()
            }
            home => alloc::vec![home],
        }
    }

    /// The crossings that there are, by edge and sending thread.
    fn take_crossings(&mut self) -> BTreeMap<(u32, u16), (Entry, Exit)> {
        let Some(share) = &mut self.share else {
            return BTreeMap::new();
        };
        let entries = share.entries.drain(..).flatten();
        let exits = share.exits.drain(..).flatten();
        let both = entries.zip(exits);
        both.map(|(entry, exit)| ((entry.edge, entry.from), (entry, exit)))
            .collect()
    }

    /// Lets this core and all parts know of homes and crossings.
    fn install(
        &mut self,
        homes: Arc<[u16]>,
        entries: Vec<Option<Entry>>,
        exits: Vec<Option<Exit>>,
    ) {
        let Some(mut share) = self.share.take() else {
            return;
        };
        for part in &mut share.parts {
            let real = part.graph.elements.iter().map(|e| e.outputs.len()).sum();
            part.cut_edges(real);
            part.connect();
            let onward = self.outputs[real..].iter();
            part.outputs.extend(onward.map(|edge| crate::engine::Edge {
                packets: 0,
                ..*edge
            }));
            part.open.resize(part.outputs.len(), 0);
            part.mark(&entries, &homes);
            if let Some(other) = &mut part.share {
                other.homes = Arc::clone(&homes);
                other.entries = entries.iter().map(|_| None).collect();
                other.exits = exits.iter().map(|_| None).collect();
            }
        }
        let heard = !self.listeners.is_empty();
        let others = share.parts.iter_mut();
        others
            .filter_map(|part| part.share.as_mut())
            .for_each(|share| share.heard = heard);
        (share.moved, share.heard) = (false, heard);
        share.homes = Arc::clone(&homes);
        self.share = Some(share);
        self.mark(&entries, &homes);
        if let Some(share) = &mut self.share {
            (share.entries, share.exits) = (entries, exits);
        }
    }

    /// Lets the edges that are crossings from here lead into them.
    fn mark(&mut self, entries: &[Option<Entry>], homes: &[u16]) {
        let me = self.share.as_ref().map_or(0, |share| share.me);
        for (number, entry) in entries.iter().enumerate() {
            let Some(entry) = entry else {
                continue;
            };
            if entry.from == me || self.home_behind(homes, entry.edge).is_some() {
                let edge = &mut self.outputs[entry.edge as usize];
                (edge.element, edge.port) = (CROSSING, number as u32);
            }
        }
    }

    /// The home of the element whose output edge is `edge`, if it has one.
    fn home_behind(&self, homes: &[u16], edge: u32) -> Option<u16> {
        let home = homes[self.source(edge).index()];
        (home != EVERYWHERE).then_some(home)
    }

    /// What is said when a crossing drops its first packet.
    pub fn overflow(&self, edge: u32) -> String {
        let info = self.graph.info(self.source(edge));
        format!(
            "{} :: {}: overflow: the thread that gets its packets is behind",
            info.name, info.class.name
        )
    }

    /// Whether an element is on another thread.
    pub fn is_elsewhere(&self, id: ElementId) -> bool {
        self.share.as_ref().is_some_and(|share| {
            let home = share.homes.get(id.index()).copied();
            !share.whole && home.is_some_and(|home| home != share.me && home != EVERYWHERE)
        })
    }

    /// The thread that an element runs on.
    pub fn home(&self, id: ElementId) -> u16 {
        let share = self.share.as_ref();
        let home = share.and_then(|share| share.homes.get(id.index()).copied());
        home.filter(|home| *home != EVERYWHERE).unwrap_or(0)
    }
}
