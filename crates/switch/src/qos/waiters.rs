//! Queues that wait for the rate of a port that they send to.
//!
//! They are served by level and then by virtual time (start-time fair queueing, Goyal et al. 1996),
//! some frames at a time. A queue that sends less than its share does not wait for queues that
//! send more: a part of the rate is a reserve for a queue that would be next
//! ([`Waiters::goes_first`]).

use std::collections::BinaryHeap;

use hashbrown::HashMap;

use crate::ids::QueueIndex;
use crate::properties::{Priority, Share};

/// Virtual time: bytes over share.
type Virtual = u64;

/// How much finer virtual time is than a byte at a share of 1000.
const VIRTUAL: u64 = 1000;
/// Most queues that wait for one port's rate in order. Others look again after a while.
const WAITERS_MAX: usize = 128;
/// Tags that are kept, whether or not they still tell anything.
const TAGS_MIN: usize = 64;
/// Most tags. A queue without one is served as if it had sent nothing.
const TAGS_MAX: usize = 2 * WAITERS_MAX;

/// The waiter that stands for a port's backlog: no queue has this index.
pub const BACKLOG: QueueIndex = QueueIndex::MAX;

/// A queue that waits for a port's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiter {
    priority: Priority,
    tag: Virtual,
    /// Decides where all else is equal: the first comes first.
    arrival: u64,
    queue: QueueIndex,
}

/// The greatest is served next.
impl Ord for Waiter {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let level = self.priority.cmp(&other.priority);
        let tag = other.tag.cmp(&self.tag);
        level.then(tag).then(other.arrival.cmp(&self.arrival))
    }
}

impl PartialOrd for Waiter {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The queues that wait for one port's rate, [`WAITERS_MAX`] at most and the [`BACKLOG`].
#[derive(Debug, Default)]
pub struct Waiters {
    heap: BinaryHeap<Waiter>,
    /// The virtual times of queues that wait or were served lately.
    tags: HashMap<QueueIndex, Virtual>,
    /// The virtual time of the waiter served last.
    clock: Virtual,
    arrivals: u64,
    queues_max: usize,
}

impl Waiters {
    /// None yet, with their full capacity.
    pub fn new() -> Waiters {
        Waiters {
            heap: BinaryHeap::with_capacity(WAITERS_MAX + 1),
            // Twice as much, so that the map never grows to get rid of removed entries.
            tags: HashMap::with_capacity(2 * TAGS_MAX),
            queues_max: WAITERS_MAX,
            ..Waiters::default()
        }
    }

    /// Whether none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// A queue's virtual time: not before the clock, since nothing is saved up.
    fn tag(&self, queue: QueueIndex) -> Virtual {
        let tag = self.tags.get(&queue);
        tag.map_or(self.clock, |&tag| tag.max(self.clock))
    }

    /// Adds a waiting queue. Returns `false` if too many wait already.
    #[must_use]
    pub fn push(&mut self, queue: QueueIndex, priority: Priority) -> bool {
        let fits = self.heap.len() < self.queues_max;
        if fits {
            self.add(queue, priority);
        }
        fits
    }

    /// Adds the backlog, which does not wait yet.
    pub fn push_backlog(&mut self) {
        self.add(BACKLOG, Priority::default());
    }

    fn add(&mut self, queue: QueueIndex, priority: Priority) {
        self.arrivals += 1;
        self.heap.push(Waiter {
            priority,
            tag: self.tag(queue),
            arrival: self.arrivals,
            queue,
        });
    }

    /// Takes out the waiter to be served now.
    pub fn pop(&mut self) -> Option<QueueIndex> {
        let waiter = self.heap.pop()?;
        // Levels keep no common time: a waiter of a lower level may have waited for long.
        self.clock = self.clock.max(waiter.tag);
        Some(waiter.queue)
    }

    /// Whether a queue that does not wait yet would be served before all waiters, since it has sent
    /// less than its share. Where none waits, the queue served last has sent more.
    pub fn goes_first(&self, queue: QueueIndex, priority: Priority) -> bool {
        let tag = self.tag(queue);
        match self.heap.peek() {
            Some(first) if first.priority == priority => tag < first.tag,
            Some(first) if first.priority > priority => false,
            _ => tag <= self.clock,
        }
    }

    /// Counts bytes that a served queue has sent.
    pub fn served(&mut self, queue: QueueIndex, bytes: u64, share: Share) {
        let tag = self.tag(queue) + bytes * VIRTUAL / u64::from(share.get());
        if let Some(own) = self.tags.get_mut(&queue) {
            *own = tag;
            return;
        }
        if self.tags.len() >= TAGS_MIN.max(2 * self.heap.len()) {
            // A tag that the clock has passed tells nothing.
            let clock = self.clock;
            self.tags.retain(|_, tag| *tag > clock);
        }
        if self.tags.len() < TAGS_MAX {
            self.tags.insert(queue, tag);
        }
    }

    /// Takes out a queue that waits no more.
    pub fn remove(&mut self, queue: QueueIndex) {
        self.heap.retain(|waiter| waiter.queue != queue);
        self.tags.remove(&queue);
    }

    /// Takes out all waiters.
    pub fn drain(&mut self) -> impl Iterator<Item = QueueIndex> {
        self.heap.drain().map(|waiter| waiter.queue)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn share(weight: u16) -> Share {
        Share::try_from(weight).unwrap()
    }

    proptest! {
        #[test]
        fn those_who_wait_share_a_rate_within_a_frame(
            ports in proptest::collection::vec((1u16..=1000, 60u64..66_000), 2..8),
        ) {
            let mut waiters = Waiters::new();
            let mut sent = vec![0u64; ports.len()];
            for i in 0..ports.len() {
                assert!(waiters.push(i as QueueIndex, Priority::Medium));
            }
            for _ in 0..1_000 {
                let port = waiters.pop().unwrap();
                let (weight, frame) = ports[port as usize];
                sent[port as usize] += frame;
                waiters.served(port, frame, share(weight));
                assert!(waiters.push(port, Priority::Medium));
            }
            for (i, &(weight_a, frame_a)) in ports.iter().enumerate() {
                for (j, &(weight_b, frame_b)) in ports.iter().enumerate() {
                    let (a, b) = (f64::from(weight_a), f64::from(weight_b));
                    let apart = (sent[i] as f64 / a - sent[j] as f64 / b).abs();
                    // A thousandth of a byte is lost to rounding with each frame.
                    let most = (frame_a as f64 / a).max(frame_b as f64 / b) + 5.0;
                    prop_assert!(apart <= most + frame_a as f64 / a, "{sent:?} for {ports:?}");
                }
            }
        }

        /// A queue that goes first whenever it may, as often as it likes, gets its share and a quantum.
        #[test]
        fn who_goes_first_gets_no_more_than_its_share(
            ports in proptest::collection::vec((1u16..=1000, 60u64..66_000), 2..8),
            tries in 1usize..5,
        ) {
            let mut waiters = Waiters::new();
            let mut sent = vec![0u64; ports.len()];
            for i in 1..ports.len() {
                assert!(waiters.push(i as QueueIndex, Priority::Medium));
            }
            for _ in 0..1_000 {
                let port = waiters.pop().unwrap();
                let (weight, frame) = ports[port as usize];
                sent[port as usize] += frame;
                waiters.served(port, frame, share(weight));
                assert!(waiters.push(port, Priority::Medium));
                for _ in 0..tries {
                    if waiters.goes_first(0, Priority::Medium) {
                        sent[0] += ports[0].1;
                        waiters.served(0, ports[0].1, share(ports[0].0));
                    }
                }
            }
            let own = sent[0] as f64 / f64::from(ports[0].0);
            for (&(weight, frame), &bytes) in ports.iter().zip(&sent) {
                let other = bytes as f64 / f64::from(weight);
                let slack = frame as f64 / f64::from(weight) + ports[0].1 as f64 / f64::from(ports[0].0);
                prop_assert!(own <= other + 2.0 * slack + 10.0, "{sent:?} for {ports:?}");
            }
        }
    }

    #[test]
    fn levels_are_strict_and_a_port_that_waited_not_at_all_has_saved_nothing() {
        let mut waiters = Waiters::new();
        assert!(waiters.push(0, Priority::Low));
        assert!(waiters.push(1, Priority::Medium));
        for _ in 0..100 {
            assert_eq!(waiters.pop(), Some(1));
            waiters.served(1, 1500, Share::default());
            assert!(waiters.push(1, Priority::Medium));
        }
        assert!(waiters.push(2, Priority::Medium));
        let order: Vec<_> = (0..4)
            .map(|_| {
                let port = waiters.pop().unwrap();
                waiters.served(port, 1500, Share::default());
                assert!(waiters.push(port, Priority::Medium));
                port
            })
            .collect();
        assert!(order.contains(&1) && order.contains(&2), "{order:?}");
        waiters.remove(1);
        waiters.remove(2);
        assert_eq!(waiters.drain().collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn the_waiter_that_sent_less_goes_first_behind_higher_levels() {
        let mut waiters = Waiters::new();
        assert!(waiters.goes_first(2, Priority::Low), "no queue waits");
        assert!(waiters.push(1, Priority::Medium));
        waiters.pop();
        waiters.served(1, 16_000, Share::default());
        assert!(!waiters.goes_first(1, Priority::High), "it had the rate");
        assert!(waiters.push(1, Priority::Medium));
        assert!(waiters.goes_first(2, Priority::Medium));
        assert!(waiters.goes_first(2, Priority::High));
        assert!(!waiters.goes_first(2, Priority::Low));
        waiters.served(2, 8_000, Share::default());
        assert!(waiters.goes_first(2, Priority::Medium), "not as much yet");
        waiters.served(2, 8_000, Share::default());
        assert!(!waiters.goes_first(2, Priority::Medium));
    }

    #[test]
    fn only_so_many_wait_and_a_backlog_always_may() {
        let mut waiters = Waiters::new();
        let capacity = (waiters.heap.capacity(), waiters.tags.capacity());
        for queue in 0..1000 {
            let waits = waiters.push(queue, Priority::Medium);
            assert_eq!(waits, (queue as usize) < WAITERS_MAX);
            waiters.served(queue, 1500, Share::default());
        }
        waiters.push_backlog();
        assert_eq!(waiters.drain().count(), WAITERS_MAX + 1);
        for queue in 0..100_000 {
            assert!(waiters.push(queue, Priority::Medium));
            assert_eq!(waiters.pop(), Some(queue));
            waiters.served(queue, 1500, Share::default());
        }
        let now = (waiters.heap.capacity(), waiters.tags.capacity());
        assert_eq!(now, capacity, "nothing has grown");
    }

    #[test]
    fn what_the_clock_has_passed_is_forgotten() {
        let mut waiters = Waiters::new();
        for queue in 0..10_000 {
            assert!(waiters.push(queue, Priority::Medium));
            assert_eq!(waiters.pop(), Some(queue));
            waiters.served(queue, 1500, Share::default());
            assert!(waiters.push(queue, Priority::Medium));
            assert_eq!(waiters.pop(), Some(queue));
        }
        assert!(waiters.tags.len() <= TAGS_MIN + 1, "{}", waiters.tags.len());
    }
}
