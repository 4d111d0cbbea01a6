//! Elements by number, and the connections between their ports.

/// An element of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ElementId(pub(crate) u32);

impl ElementId {
    /// No element: the owner of tasks, timers and signals that no longer exist.
    pub(crate) const NONE: ElementId = ElementId(u32::MAX);

    /// Its index among the router's elements.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The element at an index, as arguments refer to it.
    pub fn new(index: usize) -> ElementId {
        ElementId(index as u32)
    }
}

/// An element and one of its ports.
pub(crate) type PortOf = (ElementId, usize);

/// A connection between an output and an input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    pub from: PortOf,
    pub to: PortOf,
    /// Whether packets are pushed along it; else they are pulled.
    pub push: bool,
}
