//! What a user should know of a division among threads that does not pay.

use alloc::collections::{BTreeMap, BTreeSet};

use super::Engine;
use crate::prelude::*;
use crate::threads::assignment::Assigned;

/// Simple elements that cost a packet as much as a hand-over costs each of the two threads, some 20 ns.
const HANDOVER: usize = 8;
/// The class that gives tasks to threads while the router runs.
const MOVES_TASKS: &str = "BalancedThreadSched";

impl Engine {
    /// Sentences about threads without work, and about packets that cross to a thread with little of it.
    pub fn advice(&self) -> Vec<String> {
        let Some(own) = &self.threads.partition else {
            return Vec::new();
        };
        let graph = &self.graph;
        let thread_of = |id: ElementId| own.assigned(id).and_then(Assigned::thread);
        // The elements of each thread that packets pass.
        let mut passed = BTreeSet::new();
        let mut crossings = BTreeMap::new();
        let mut everywhere = false;
        for connection in graph.connections() {
            let ends = [connection.from.0, connection.to.0];
            passed.extend(ends);
            match ends.map(thread_of) {
                [Some(from), Some(to)] if from != to => {
                    crossings.entry((from, to)).or_insert(ends[1]);
                }
                [Some(_), Some(_)] => {}
                _ => everywhere = true,
            }
        }
        let count = |thread| {
            passed
                .iter()
                .filter(|id| thread_of(**id) == Some(thread))
                .count()
        };
        let mut lines = Vec::new();
        let idle: Vec<u16> = (0..self.threads.count)
            .filter(|thread| count(*thread) == 0)
            .collect();
        let moves = graph
            .elements
            .iter()
            .any(|info| info.class.name == MOVES_TASKS);
        if !idle.is_empty() && !moves && !everywhere {
            let names: Vec<_> = idle.iter().map(u16::to_string).collect();
            let (noun, verb) = if idle.len() == 1 {
                ("thread", "has")
            } else {
                ("threads", "have")
            };
            lines.push(format!(
                "{noun} {} {verb} nothing to do: StaticThreadSched or {MOVES_TASKS} gives tasks to threads",
                names.join(", ")
            ));
        }
        for ((from, to), behind) in crossings {
            let (thread, least) = match (count(from), count(to)) {
                (sends, receives) if sends <= receives => (from, sends),
                (_, receives) => (to, receives),
            };
            if least < HANDOVER {
                let noun = if least == 1 { "element" } else { "elements" };
                lines.push(format!(
                    "thread {from} hands packets to thread {to} at '{}', which costs each of them as much as {HANDOVER} \
                     simple elements, and thread {thread} has {least} {noun}: one thread may be faster",
                    graph.info(behind).name
                ));
            }
        }
        lines
    }
}
