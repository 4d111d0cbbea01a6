//! What decides which thread runs an element, and which threads' packets pass it.

use super::thread_set::ThreadSet;
use crate::prelude::*;
use crate::topology::{Connection, PortOf};

/// Whether each thread has an instance of an element, and by which output packets leave it then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerThread {
    /// One instance, on one thread.
    No,
    /// Packets on thread `t` leave by output `t`, modulo the number of outputs.
    ByNumber,
    /// Packets on the first of the threads that pass it leave by output 0, those on the next by
    /// output 1, and so on.
    InOrder,
}

/// An element, as far as its assignment depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    /// Whether it has an instance on every thread.
    pub per_thread: PerThread,
    /// Number of outputs.
    pub outputs: usize,
    /// The thread that was asked for.
    pub affinity: Option<u16>,
}

/// What the assignment follows from.
pub(crate) struct Constraints {
    pub threads: u16,
    pub elements: Vec<Placement>,
    pub connections: Vec<Connection>,
    /// Elements with tasks, and the threads that these are assigned to.
    pub tasks: Vec<(ElementId, u16)>,
    /// Elements that start work without a task: by a timer, a device or a file descriptor.
    pub active: Vec<ElementId>,
    /// Elements that have to be together.
    pub bound: Vec<(ElementId, ElementId)>,
}

impl Constraints {
    /// Whether packets on a thread leave by an output.
    pub fn leaves_by(&self, passing: &[ThreadSet], (id, port): PortOf, thread: u16) -> bool {
        let element = &self.elements[id.index()];
        let number = match element.per_thread {
            PerThread::No => return true,
            PerThread::ByNumber => usize::from(thread),
            PerThread::InOrder => passing.get(id.index()).map_or(0, |set| set.rank(thread)),
        };
        port == number % element.outputs.max(1)
    }
}
