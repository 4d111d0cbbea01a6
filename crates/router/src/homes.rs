//! Homes: the thread that each element belongs to.
//!
//! An element with a task belongs to the thread that its task is meant for. What it pushes to
//! goes with it, and what it pulls from; so do elements that refer to each other by argument, and
//! those that share a device. Where threads meet, by push, the lowest has the element; packets of
//! the others cross to it (see [`crossing`](crate::crossing)).

use alloc::vec::Vec;

use crate::context::ElementId;
use crate::graph::Graph;

/// In place of a home: the element has an instance on every thread.
pub(crate) const EVERYWHERE: u16 = u16::MAX;

/// What homes follow from.
pub(crate) struct Wishes<'r> {
    pub graph: &'r Graph,
    pub threads: u16,
    /// Elements with tasks, and the threads that these are meant for.
    pub tasks: Vec<(ElementId, u16)>,
    /// Elements that may start something of themselves, without a task: by a timer, say.
    pub active: Vec<ElementId>,
    /// The thread that each element is meant for, if that was said.
    pub preferences: Vec<Option<u16>>,
    /// Elements that are to be together.
    pub bound: &'r [(ElementId, ElementId)],
}

/// Sets of elements that are together: each element's representative.
struct Groups(Vec<usize>);

impl Groups {
    fn of(&mut self, mut i: usize) -> usize {
        while self.0[i] != i {
            self.0[i] = self.0[self.0[i]];
            i = self.0[i];
        }
        i
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.of(a), self.of(b));
        self.0[a.max(b)] = a.min(b);
    }
}

impl Wishes<'_> {
    fn everywhere(&self, i: usize) -> bool {
        self.graph.elements[i].class.per_thread
    }

    fn pushes(&self, from: (usize, usize)) -> bool {
        self.graph.elements[from.0].outputs[from.1]
    }

    fn groups(&self) -> Groups {
        let mut groups = Groups((0..self.graph.elements.len()).collect());
        for c in &self.graph.flat.connections {
            if !self.pushes(c.from) {
                groups.join(c.from.0, c.to.0);
            }
        }
        for (a, b) in self.bound {
            groups.join(a.index(), b.index());
        }
        groups
    }

    /// The home of each element.
    pub fn settle(&self) -> Vec<u16> {
        let count = self.graph.elements.len();
        let mut groups = self.groups();
        let mut homes: Vec<Option<u16>> = alloc::vec![None; count];
        for &(element, thread) in &self.tasks {
            let home = &mut homes[groups.of(element.index())];
            *home = Some(home.map_or(thread, |other| other.min(thread)));
        }
        self.seed(&mut groups, &mut homes);
        for thread in 0..self.threads {
            self.spread(thread, &mut groups, &mut homes);
        }
        (0..count)
            .map(|i| match self.everywhere(i) {
                true => EVERYWHERE,
                false => homes[groups.of(i)].unwrap_or(0),
            })
            .collect()
    }

    /// Gives homes to what nothing pushes to, and which has no task.
    fn seed(&self, groups: &mut Groups, homes: &mut [Option<u16>]) {
        let mut reached = alloc::vec![false; homes.len()];
        for c in self.graph.flat.connections.iter() {
            let (from, to) = (groups.of(c.from.0), groups.of(c.to.0));
            reached[to] |= from != to;
        }
        let active = |i: usize| self.active.iter().any(|id| id.index() == i);
        for (i, preference) in self.preferences.iter().enumerate() {
            let group = groups.of(i);
            if reached[group] || (preference.is_none() && !active(i)) {
                continue;
            }
            let thread = preference.unwrap_or(0);
            let home = &mut homes[group];
            *home = Some(home.map_or(thread, |other| other.min(thread)));
        }
    }

    /// Gives a home to all that `thread` pushes to and that has none yet.
    fn spread(&self, thread: u16, groups: &mut Groups, homes: &mut [Option<u16>]) {
        let mut members: Vec<Vec<usize>> = alloc::vec![Vec::new(); homes.len()];
        for i in 0..homes.len() {
            members[groups.of(i)].push(i);
        }
        let mut passed = alloc::vec![false; homes.len()];
        let mut ahead: Vec<usize> = (0..homes.len())
            .filter(|i| homes[*i] == Some(thread) && groups.of(*i) == *i)
            .flat_map(|group| members[group].iter().copied())
            .collect();
        while let Some(i) = ahead.pop() {
            let everywhere = self.everywhere(i);
            let outputs = self.graph.elements[i].outputs.len();
            for c in self.graph.flat.connections.iter() {
                let by = !everywhere || c.from.1 == usize::from(thread) % outputs;
                if c.from.0 != i || !by || !self.pushes(c.from) {
                    continue;
                }
                let to = c.to.0;
                if self.everywhere(to) {
                    if !core::mem::replace(&mut passed[to], true) {
                        ahead.push(to);
                    }
                    continue;
                }
                let group = groups.of(to);
                if homes[group].is_none() {
                    homes[group] = Some(thread);
                    ahead.extend(&members[group]);
                }
            }
        }
    }
}
