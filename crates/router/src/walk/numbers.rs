//! Numbers of the walk with several meanings, each a type of its own: an edge, where it leads, the
//! optimization that starts there, and the value that an element's `push` returns.

use crate::prelude::*;
use crate::topology::PortOf;

/// An output edge, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(crate) struct EdgeId(u32);

impl EdgeId {
    /// No edge: packets that go there are dropped. It is above all edges.
    pub const NONE: EdgeId = EdgeId(u32::MAX);

    /// The edge of a number.
    #[inline]
    pub const fn from_number(number: u32) -> EdgeId {
        EdgeId(number)
    }

    /// The edge of an index.
    pub const fn new(index: usize) -> EdgeId {
        EdgeId(index as u32)
    }

    /// Its index. That of [`NONE`](EdgeId::NONE) is beyond all edges.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether it is no edge.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == EdgeId::NONE.0
    }
}

/// Where an edge leads: to an element's port, into a handoff ring, or nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The element, or one of the two values above all elements.
    element: u32,
    /// The element's port, or the ring's number.
    port: u32,
}

impl Target {
    const NO_ELEMENT: u32 = u32::MAX;
    const RING: u32 = u32::MAX - 1;

    /// Nowhere.
    pub const NOWHERE: Target = Target {
        element: Target::NO_ELEMENT,
        port: 0,
    };

    /// A port of an element.
    pub const fn port((ElementId(element), port): PortOf) -> Target {
        let port = port as u32;
        Target { element, port }
    }

    /// A handoff ring.
    pub const fn ring(number: usize) -> Target {
        Target {
            element: Target::RING,
            port: number as u32,
        }
    }

    /// The element and its port, if it leads to one.
    #[inline]
    pub const fn as_port(self) -> Option<PortOf> {
        if self.element < Target::RING {
            Some((ElementId(self.element), self.port as usize))
        } else {
            None
        }
    }

    /// The number of the handoff ring, if it leads into one.
    #[inline]
    pub const fn as_ring(self) -> Option<usize> {
        if self.element == Target::RING {
            Some(self.port as usize)
        } else {
            None
        }
    }

    /// A number that tells targets apart. No target has [`u64::MAX`].
    #[inline]
    pub const fn key(self) -> u64 {
        (self.element as u64) << 32 | self.port as u64
    }
}

/// The optimization that starts at an edge: a fused path, a decision tree, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Optimization(u32);

impl Optimization {
    /// Set in a decision tree's number.
    const TREE: u32 = 1 << 31;

    /// Nothing.
    pub const NONE: Optimization = Optimization(0);

    /// The fused path of an index.
    pub const fn path(index: usize) -> Optimization {
        Optimization(index as u32 + 1)
    }

    /// The decision tree of an index.
    pub const fn tree(index: usize) -> Optimization {
        Optimization(index as u32 | Optimization::TREE)
    }

    /// Whether there is any.
    #[inline]
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }

    /// The index of the fused path, if one starts here.
    #[inline]
    pub const fn as_path(self) -> Option<usize> {
        match self.0 {
            0 | Optimization::TREE.. => None,
            number => Some(number as usize - 1),
        }
    }

    /// The index of the decision tree, if one starts here.
    #[inline]
    pub const fn as_tree(self) -> Option<usize> {
        if self.0 & Optimization::TREE != 0 {
            Some((self.0 ^ Optimization::TREE) as usize)
        } else {
            None
        }
    }
}

/// What [`push`](crate::Element::push) of an element returns: an output's number, or the edge that
/// dispatch chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Pushed(usize);

impl Pushed {
    /// Set if it is an edge.
    const EDGE: usize = 1 << (usize::BITS - 1);

    /// What an element returned.
    #[inline]
    pub const fn from_raw(raw: usize) -> Pushed {
        Pushed(raw)
    }

    /// An edge.
    #[inline]
    pub const fn edge(edge: EdgeId) -> Pushed {
        Pushed(edge.0 as usize | Pushed::EDGE)
    }

    /// For an element to return.
    #[inline]
    pub const fn raw(self) -> usize {
        self.0
    }

    /// The edge, if it is one. No element has so many outputs.
    #[inline]
    pub const fn as_edge(self) -> Option<EdgeId> {
        let edge = EdgeId(self.0 as u32);
        if self.0 & Pushed::EDGE != 0 && !edge.is_none() {
            Some(edge)
        } else {
            None
        }
    }
}

const _: () = {
    assert!(size_of::<EdgeId>() == 4 && size_of::<Optimization>() == 4);
    assert!(size_of::<Target>() == 8 && size_of::<Pushed>() == size_of::<usize>());
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_made() {
        let port = (ElementId::new(7), 3);
        assert_eq!(Target::port(port).as_port(), Some(port));
        assert_eq!(Target::port(port).as_ring(), None);
        assert_eq!(Target::ring(9).as_ring(), Some(9));
        for target in [Target::ring(9), Target::NOWHERE] {
            assert_eq!(target.as_port(), None);
        }
        assert_eq!(Target::NOWHERE.as_ring(), None);
        let read = |o: Optimization| (o.is_some(), o.as_path(), o.as_tree());
        assert_eq!(read(Optimization::NONE), (false, None, None));
        assert_eq!(read(Optimization::path(0)), (true, Some(0), None));
        assert_eq!(read(Optimization::tree(0)), (true, None, Some(0)));
        let edge = EdgeId::new(5);
        assert_eq!(Pushed::edge(edge).as_edge(), Some(edge));
        assert_eq!(Pushed::edge(EdgeId::NONE).as_edge(), None);
        assert_eq!(Pushed::from_raw(5).as_edge(), None);
    }
}
