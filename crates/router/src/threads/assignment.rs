//! Thread assignment: which thread runs each element.
//!
//! An element with a task runs on the thread that its task is assigned to (by StaticThreadSched,
//! BalancedThreadSched or a `home_thread` handler), else on thread 0. The elements that it pulls from
//! run there too; so do elements that refer to each other by argument, that open the same side of a
//! device, or that look at each other's queues. A message names a task whose assignment this
//! overrules. The elements that it pushes to run there as well, up to the next one that has a thread.
//! Where several threads push to an element, the lowest runs it; the packets of the others come by
//! [handoff rings](super::ring).

use super::constraints::{Constraints, PerThread, Placement};
use super::thread_set::ThreadSet;
use crate::prelude::*;

/// Where an element runs: on one thread, or with an instance on every thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Assigned(u16);

const _: () = assert!(size_of::<Assigned>() == 2);

impl Assigned {
    /// On every thread.
    pub const EVERYWHERE: Assigned = Assigned(u16::MAX);

    /// On one thread.
    pub const fn to(thread: u16) -> Assigned {
        Assigned(thread)
    }

    /// The thread, if it is one.
    #[inline]
    pub fn thread(self) -> Option<u16> {
        (self != Assigned::EVERYWHERE).then_some(self.0)
    }
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

    fn join(&mut self, a: ElementId, b: ElementId) {
        let (a, b) = (self.of(a.index()), self.of(b.index()));
        self.0[a.max(b)] = a.min(b);
    }
}

/// The thread of each group, by its representative.
type Chosen = Vec<Option<u16>>;

fn choose_lowest(chosen: &mut Option<u16>, thread: u16) {
    *chosen = Some(chosen.map_or(thread, |other| other.min(thread)));
}

impl Constraints {
    /// Where each element runs; `passing` are the threads that [pass](Self::passing) each.
    pub fn assign(&self, passing: &[ThreadSet]) -> Vec<Assigned> {
        let count = self.elements.len();
        let mut groups = self.groups();
        let mut chosen: Chosen = alloc::vec![None; count];
        for &(element, thread) in &self.tasks {
            choose_lowest(&mut chosen[groups.of(element.index())], thread);
        }
        self.choose_sources(&mut groups, &mut chosen);
        for thread in 0..self.threads {
            self.spread(thread, passing, &mut groups, &mut chosen);
        }
        let assigned = |(i, element): (usize, &Placement)| match element.per_thread {
            PerThread::No => Assigned::to(chosen[groups.of(i)].unwrap_or(0)),
            PerThread::ByNumber | PerThread::InOrder => Assigned::EVERYWHERE,
        };
        self.elements.iter().enumerate().map(assigned).collect()
    }

    fn groups(&self) -> Groups {
        let mut groups = Groups((0..self.elements.len()).collect());
        for c in self.connections.iter().filter(|c| !c.push) {
            groups.join(c.from.0, c.to.0);
        }
        for (a, b) in &self.bound {
            groups.join(*a, *b);
        }
        groups
    }

    /// Chooses threads for groups that nothing pushes to and that have no task.
    fn choose_sources(&self, groups: &mut Groups, chosen: &mut Chosen) {
        let mut reached = alloc::vec![false; self.elements.len()];
        for c in &self.connections {
            let (from, to) = (groups.of(c.from.0.index()), groups.of(c.to.0.index()));
            reached[to] |= from != to;
        }
        for (i, element) in self.elements.iter().enumerate() {
            let group = groups.of(i);
            let is_active = || self.active.iter().any(|id| id.index() == i);
            if !reached[group] && (element.affinity.is_some() || is_active()) {
                choose_lowest(&mut chosen[group], element.affinity.unwrap_or(0));
            }
        }
    }

    /// Chooses `thread` for all groups that it pushes to and that have no thread yet.
    fn spread(&self, thread: u16, passing: &[ThreadSet], groups: &mut Groups, chosen: &mut Chosen) {
        let mut members: Vec<Vec<usize>> = alloc::vec![Vec::new(); self.elements.len()];
        for i in 0..self.elements.len() {
            members[groups.of(i)].push(i);
        }
        let mut passed = alloc::vec![false; self.elements.len()];
        let mut pending: Vec<usize> = (0..self.elements.len())
            .filter(|i| chosen[*i] == Some(thread) && groups.of(*i) == *i)
            .flat_map(|group| members[group].iter().copied())
            .collect();
        while let Some(i) = pending.pop() {
            for c in self.connections.iter().filter(|c| c.push) {
                if c.from.0.index() != i || !self.leaves_by(passing, c.from, thread) {
                    continue;
                }
                let to = c.to.0.index();
                if self.elements[to].per_thread != PerThread::No {
                    if !core::mem::replace(&mut passed[to], true) {
                        pending.push(to);
                    }
                    continue;
                }
                let group = groups.of(to);
                if chosen[group].is_none() {
                    chosen[group] = Some(thread);
                    pending.extend(&members[group]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Connection;

    fn connection(from: usize, to: usize, push: bool) -> Connection {
        let [from, to] = [from, to].map(|i| (ElementId::new(i), 0));
        Connection { from, to, push }
    }

    fn constraints(connections: &[(usize, usize, bool)], elements: usize) -> Constraints {
        let element = Placement {
            per_thread: PerThread::No,
            outputs: 1,
            affinity: None,
        };
        let connections = connections.iter();
        Constraints {
            threads: 2,
            elements: alloc::vec![element; elements],
            connections: connections.map(|c| connection(c.0, c.1, c.2)).collect(),
            tasks: Vec::new(),
            active: Vec::new(),
            bound: Vec::new(),
        }
    }

    fn threads(assigned: &[Assigned]) -> Vec<Option<u16>> {
        assigned.iter().map(|assigned| assigned.thread()).collect()
    }

    #[test]
    fn a_queue_parts_threads_and_the_lowest_has_what_both_push_to() {
        // source 0 -> 2, source 1 -> 2 -> queue 3 <- puller 4 -> 5
        let ways = [
            (0, 2, true),
            (1, 2, true),
            (2, 3, true),
            (3, 4, false),
            (4, 5, true),
        ];
        let mut constraints = constraints(&ways, 6);
        let task = |element, thread| (ElementId::new(element), thread);
        constraints.tasks = Vec::from([task(0, 1), task(1, 0), task(4, 1)]);
        let expected = [1, 0, 0, 1, 1, 1].map(Some);
        assert_eq!(threads(&constraints.assign(&[])), expected);
    }

    #[test]
    fn elements_that_are_bound_are_together_and_one_without_a_task_follows_its_affinity() {
        let mut constraints = constraints(&[(0, 1, true)], 4);
        constraints.tasks = Vec::from([(ElementId::new(0), 1)]);
        constraints.bound = Vec::from([(ElementId(1), ElementId(2))]);
        constraints.elements[3].affinity = Some(1);
        assert_eq!(threads(&constraints.assign(&[])), [Some(1); 4]);
        constraints.elements[3].affinity = None;
        constraints.active = Vec::from([ElementId::new(3)]);
        assert_eq!(threads(&constraints.assign(&[]))[3], Some(0));
    }

    #[test]
    fn an_element_of_every_thread_passes_each_on_by_its_own_output() {
        // 0 and 1 -> 2, which has an instance on every thread: thread 0 goes on to 3, 1 to 4.
        let mut constraints = constraints(&[(0, 2, true), (1, 2, true)], 5);
        constraints.elements[2] = Placement {
            per_thread: PerThread::ByNumber,
            outputs: 2,
            affinity: None,
        };
        for port in 0..2 {
            constraints.connections.push(Connection {
                from: (ElementId::new(2), port),
                ..connection(2, 3 + port, true)
            });
        }
        constraints.tasks = Vec::from([(ElementId::new(0), 0), (ElementId::new(1), 1)]);
        let expected = [Some(0), Some(1), None, Some(0), Some(1)];
        assert_eq!(threads(&constraints.assign(&[])), expected);
    }
}
