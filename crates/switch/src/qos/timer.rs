//! What a worker has to do at a time, rather than for a descriptor.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::bucket::Nanos;
use crate::lookup::PortIndex;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// The port of a queue may send again, as far as its own limit goes.
    Send(u32),
    /// A port may be sent to again, as far as its limit goes.
    Grant(PortIndex),
    /// A frame leaves the line to a port.
    Leave(PortIndex),
    /// A flow of the domain at this place may go on.
    Flow(u32, u32),
}

/// Times and what is due then, the earliest first. Whoever is told looks again whether it is so:
/// a port may have gone since, or may have to wait for longer.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Nanos, Due)>>,
}

impl Timers {
    /// The earliest time.
    #[inline]
    pub fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Something is due at `at`.
    pub fn set(&mut self, at: Nanos, due: Due) {
        self.heap.push(Reverse((at, due)));
    }

    /// The next thing that is due by now.
    pub fn pop(&mut self, now: Nanos) -> Option<Due> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, due))| due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_not_before_its_time() {
        let mut timers = Timers::default();
        timers.set(30, Due::Send(3));
        timers.set(10, Due::Grant(1));
        timers.set(20, Due::Leave(2));
        assert_eq!(timers.next(), Some(10));
        assert_eq!(timers.pop(9), None);
        assert_eq!(timers.pop(25), Some(Due::Grant(1)));
        assert_eq!(timers.pop(25), Some(Due::Leave(2)));
        assert_eq!(timers.pop(25), None);
        assert_eq!(timers.pop(30), Some(Due::Send(3)));
        assert_eq!(timers.next(), None);
    }
}
