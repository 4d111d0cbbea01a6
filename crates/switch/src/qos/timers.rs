//! Timers: a worker's tasks that are due at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::token_bucket::Nanos;
use crate::ids::{DomainIndex, PortIndex, QueueIndex};

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// A queue may send again, as far as its port's own rate goes.
    Queue(QueueIndex),
    /// A port may be sent to again, as far as its rate goes.
    Rate(PortIndex),
    /// A frame leaves the delay line to a port.
    DelayLine(PortIndex),
    /// A flow of a domain may go on.
    Flow(DomainIndex, u32),
}

/// Timers, the earliest first. A due timer may be out of date: its port may be gone, or may have to
/// wait longer.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Nanos, Due)>>,
    /// How many timers may be set at the same time.
    users: usize,
}

impl Timers {
    /// Makes room for so many more timers at the same time.
    pub fn add_users(&mut self, users: usize) {
        self.users += users;
        // On top of timers whose users are gone.
        self.heap.reserve(self.users);
    }

    /// There are so many fewer.
    pub fn remove_users(&mut self, users: usize) {
        self.users = self.users.saturating_sub(users);
    }

    /// The earliest time.
    #[inline]
    pub fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Something is due at `at`.
    pub fn set(&mut self, at: Nanos, due: Due) {
        debug_assert!(self.heap.len() < self.heap.capacity(), "room for {due:?}");
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
        timers.add_users(3);
        timers.set(30, Due::Queue(3));
        timers.set(10, Due::Rate(1));
        timers.set(20, Due::DelayLine(2));
        assert_eq!(timers.next(), Some(10));
        assert_eq!(timers.pop(9), None);
        assert_eq!(timers.pop(25), Some(Due::Rate(1)));
        assert_eq!(timers.pop(25), Some(Due::DelayLine(2)));
        assert_eq!(timers.pop(25), None);
        assert_eq!(timers.pop(30), Some(Due::Queue(3)));
        assert_eq!(timers.next(), None);
    }
}
