//! Which threads' packets pass each element.
//!
//! Packets belong to the thread whose task sends or pulls them, on any element on their way. A
//! queue is passed by the threads that push to it and the threads that pull from it.

use super::constraints::{Constraints, PerThread};
use super::thread_set::ThreadSet;
use crate::prelude::*;

impl Constraints {
    /// The threads whose packets pass each element.
    pub fn passing(&self) -> Vec<ThreadSet> {
        let own = self.own_threads();
        let mut passing = Vec::new();
        // Where an element's outputs depend on the threads that pass it, the sets behind it do too:
        // each round settles one more of those in a row.
        let in_order = |element: &&_| matches!(element, PerThread::InOrder);
        let kinds = self.elements.iter().map(|element| &element.per_thread);
        for _ in 0..=kinds.filter(in_order).count() {
            let next = self.spread_from(&own, &passing);
            if core::mem::replace(&mut passing, next) == passing {
                break;
            }
        }
        passing
    }

    /// The threads of the elements that start work.
    fn own_threads(&self) -> Vec<Option<ThreadSet>> {
        let mut own: Vec<Option<ThreadSet>> = alloc::vec![None; self.elements.len()];
        for (element, thread) in &self.tasks {
            own[element.index()]
                .get_or_insert_default()
                .add(ThreadSet::of(*thread));
        }
        let mut entered = alloc::vec![false; self.elements.len()];
        for c in &self.connections {
            entered[c.to.0.index()] = true;
        }
        for element in self.active.iter().map(|id| id.index()) {
            if !entered[element] && own[element].is_none() {
                let thread = self.elements[element].affinity.unwrap_or(0);
                own[element] = Some(ThreadSet::of(thread));
            }
        }
        own
    }

    /// The threads that come from the elements with own ones: down push connections, and up pull
    /// connections. `former` says which threads pass elements whose outputs depend on that.
    fn spread_from(&self, own: &[Option<ThreadSet>], former: &[ThreadSet]) -> Vec<ThreadSet> {
        let mut touching: Vec<Vec<usize>> = alloc::vec![Vec::new(); own.len()];
        for (i, c) in self.connections.iter().enumerate() {
            let near = if c.push { c.from } else { c.to };
            touching[near.0.index()].push(i);
        }
        let mut passing: Vec<_> = own.iter().map(|own| own.unwrap_or_default()).collect();
        let mut pending: Vec<usize> = (0..own.len()).filter(|i| own[*i].is_some()).collect();
        while let Some(i) = pending.pop() {
            for c in touching[i].iter().map(|c| &self.connections[*c]) {
                let far = if c.push { c.to } else { c.from };
                let from = own[i].unwrap_or(passing[i]);
                let mut leaving = from;
                if c.push {
                    let by = |thread: &u16| self.leaves_by(former, c.from, *thread);
                    leaving = ThreadSet::default();
                    from.iter().filter(by).for_each(|thread| {
                        leaving.add(ThreadSet::of(thread));
                    });
                }
                if passing[far.0.index()].add(leaving) {
                    pending.push(far.0.index());
                }
            }
        }
        passing
    }
}

#[cfg(test)]
mod tests {
    use super::super::constraints::Placement;
    use super::*;
    use crate::topology::Connection;

    fn constraints(
        connections: &[((usize, usize), usize, bool)],
        tasks: &[(usize, u16)],
        elements: usize,
    ) -> Constraints {
        let element = Placement {
            per_thread: PerThread::No,
            outputs: 1,
            affinity: None,
        };
        let connection = |&((from, port), to, push): &((usize, usize), usize, bool)| Connection {
            from: (ElementId::new(from), port),
            to: (ElementId::new(to), 0),
            push,
        };
        let tasks = tasks.iter();
        Constraints {
            threads: 4,
            elements: alloc::vec![element; elements],
            connections: connections.iter().map(connection).collect(),
            tasks: tasks.map(|(i, t)| (ElementId::new(*i), *t)).collect(),
            active: Vec::new(),
            bound: Vec::new(),
        }
    }

    fn shown(constraints: &Constraints) -> Vec<String> {
        let passing = constraints.passing();
        passing.iter().map(ThreadSet::to_string).collect()
    }

    #[test]
    fn packets_up_to_a_queue_are_the_sources_and_behind_it_the_pullers() {
        // 0 and 1 -> 2 -> queue 3 <- 4 <- puller 5 -> 6
        let ways = [
            ((0, 0), 2, true),
            ((1, 0), 2, true),
            ((2, 0), 3, true),
            ((3, 0), 4, false),
            ((4, 0), 5, false),
            ((5, 0), 6, true),
        ];
        let constraints = constraints(&ways, &[(0, 1), (1, 2), (5, 3)], 7);
        let expected = ["1", "2", "1-2", "1-3", "3", "3", "3"];
        assert_eq!(shown(&constraints), expected);
    }

    #[test]
    fn an_element_of_every_thread_divides_its_threads_among_its_outputs() {
        // 0, 1 and 2 -> 3, which goes on to 4, 5 and 6.
        let ways = [
            ((0, 0), 3, true),
            ((1, 0), 3, true),
            ((2, 0), 3, true),
            ((3, 0), 4, true),
            ((3, 1), 5, true),
            ((3, 2), 6, true),
        ];
        let mut constraints = constraints(&ways, &[(0, 0), (1, 2), (2, 3)], 7);
        for (per_thread, expected) in [
            (PerThread::ByNumber, ["0,3", "", "2"]),
            (PerThread::InOrder, ["0", "2", "3"]),
        ] {
            let switch = &mut constraints.elements[3];
            (switch.per_thread, switch.outputs) = (per_thread, 3);
            assert_eq!(shown(&constraints)[3], "0,2-3");
            assert_eq!(shown(&constraints)[4..], expected);
        }
    }
}
