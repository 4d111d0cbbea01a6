//! Who goes next: weighted shares and strict levels.
//!
//! Two things can be short. The worker itself: its round goes over the ports of the highest level
//! that has frames, and shares itself out among them by deficit round robin ([`Credit`];
//! Shreedhar and Varghese 1995), a batch at a time. And the rate of a port that others send to:
//! who finds it used up waits for it in [`Waiters`], and is served by level and then by virtual
//! time (start-time fair queueing, Goyal et al. 1996), in grants of a few frames. Neither costs
//! anything for ports that have nothing to send.

use std::collections::BinaryHeap;

use crate::lookup::PortIndex;
use crate::properties::{Priority, Share};

/// Levels of priority.
pub const LEVELS: usize = 3;

/// The place of a priority's level, the highest first.
pub fn level(priority: Priority) -> usize {
    match priority {
        Priority::High => 0,
        Priority::Medium => 1,
        Priority::Low => 2,
    }
}

/// Bytes that a visit brings a port with a share of 1.
const QUANTUM: i64 = 20;

/// A port's standing in the worker's round, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Credit {
    left: i64,
    quantum: i64,
}

impl Credit {
    /// Of a port with this share.
    pub fn new(share: Share) -> Credit {
        let quantum = i64::from(share.get()) * QUANTUM;
        Credit {
            left: quantum,
            quantum,
        }
    }

    /// The round comes to the port: whether it may send.
    #[inline]
    pub fn visit(&mut self) -> bool {
        self.left += self.quantum;
        self.left > 0
    }

    /// Whether it may send more on the same visit.
    #[inline]
    pub fn is_left(&self) -> bool {
        self.left > 0
    }

    /// It sent this much.
    #[inline]
    pub fn spend(&mut self, bytes: u64) {
        self.left -= bytes as i64;
    }

    /// It had nothing to send: what it did not use is gone.
    #[inline]
    pub fn lapse(&mut self) {
        self.left = self.left.min(0);
    }

    /// After how many more visits it may send.
    fn visits(&self) -> i64 {
        ((1 - self.left).max(0) + self.quantum - 1) / self.quantum
    }

    /// As if the round had come this often and the port had not been allowed to send.
    fn skip(&mut self, visits: i64) {
        self.left += visits * self.quantum;
    }
}

/// Where all ports of a round wait for credit, nobody is helped by going round: this brings the
/// next visit at which one of them may send.
pub fn fast_forward(mut credits: impl FnMut(&mut dyn FnMut(&mut Credit))) {
    let mut fewest = i64::MAX;
    credits(&mut |credit| fewest = fewest.min(credit.visits()));
    // The visit itself brings one.
    let skipped = fewest.saturating_sub(1);
    if fewest != i64::MAX && skipped > 0 {
        credits(&mut |credit| credit.skip(skipped));
    }
}

/// Virtual time: bytes over share.
type Virtual = u64;

/// How much finer virtual time is than a byte at a share of 1000.
const VIRTUAL: u64 = 1000;

/// Who waits: a queue of the lane's by its index.
pub type WaiterIndex = u32;

/// A queue that waits for a port's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiter {
    priority: Priority,
    tag: Virtual,
    /// Who came first, where all else is equal.
    turn: u64,
    queue: WaiterIndex,
}

/// The one to be served next is the greatest.
impl Ord for Waiter {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let level = self.priority.cmp(&other.priority);
        let tag = other.tag.cmp(&self.tag);
        level.then(tag).then(other.turn.cmp(&self.turn))
    }
}

impl PartialOrd for Waiter {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A queue's standing with the port that it waits for, kept by the queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tag {
    /// Whose virtual time it is.
    of: Option<PortIndex>,
    at: Virtual,
}

/// Those who wait for one port's rate.
#[derive(Debug, Default)]
pub struct Waiters {
    heap: BinaryHeap<Waiter>,
    /// Virtual time of the last one served.
    clock: Virtual,
    turns: u64,
}

impl Waiters {
    /// Whether nobody waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// `queue` waits from now on for `of`, whose waiters these are.
    pub fn push(&mut self, of: PortIndex, queue: WaiterIndex, priority: Priority, tag: &mut Tag) {
        if tag.of != Some(of) {
            *tag = Tag {
                of: Some(of),
                at: 0,
            };
        }
        tag.at = tag.at.max(self.clock);
        self.turns += 1;
        self.heap.push(Waiter {
            priority,
            tag: tag.at,
            turn: self.turns,
            queue,
        });
    }

    /// The one to be served now.
    pub fn pop(&mut self) -> Option<WaiterIndex> {
        let waiter = self.heap.pop()?;
        // Levels keep no common time: whoever is of a lower one may have waited for long.
        self.clock = self.clock.max(waiter.tag);
        Some(waiter.queue)
    }

    /// The one that was served sent this much.
    pub fn served(&mut self, tag: &mut Tag, bytes: u64, share: Share) {
        tag.at += bytes * VIRTUAL / u64::from(share.get());
    }

    /// Takes out one that waits no more.
    pub fn remove(&mut self, queue: WaiterIndex) {
        self.heap.retain(|waiter| waiter.queue != queue);
    }

    /// Takes out all.
    pub fn drain(&mut self) -> impl Iterator<Item = WaiterIndex> {
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

    /// Bytes that each of ports with these shares gets, which always have batches of the given
    /// sizes to send, in `visits` rounds.
    fn round(ports: &[(u16, u64)], rounds: usize) -> Vec<u64> {
        let mut credits: Vec<_> = ports
            .iter()
            .map(|&(weight, _)| Credit::new(share(weight)))
            .collect();
        let mut sent = vec![0; ports.len()];
        for _ in 0..rounds {
            let mut moved = false;
            for (i, credit) in credits.iter_mut().enumerate() {
                if credit.visit() {
                    while credit.is_left() {
                        credit.spend(ports[i].1);
                        sent[i] += ports[i].1;
                        moved = true;
                    }
                }
            }
            if !moved {
                fast_forward(|each| credits.iter_mut().for_each(each));
            }
        }
        sent
    }

    #[test]
    fn a_round_without_anyone_who_may_send_is_not_repeated() {
        // Alone, a port with the least share sends in every other round, however large its
        // batches.
        assert_eq!(round(&[(1, 96_000)], 1000), [500 * 96_000]);
    }

    proptest! {
        #[test]
        fn shares_hold_within_a_batch(
            ports in proptest::collection::vec((1u16..=1000, 60u64..100_000), 2..8),
        ) {
            let sent = round(&ports, 3_000);
            let parts: Vec<_> = ports.iter().zip(&sent).map(|(&(weight, batch), &bytes)| {
                (bytes as f64 / f64::from(weight), (batch as f64 + f64::from(weight) * 40.0) / f64::from(weight))
            }).collect();
            for (a, slack_a) in &parts {
                for (b, slack_b) in &parts {
                    prop_assert!((a - b).abs() <= slack_a + slack_b, "{sent:?} for {ports:?}");
                }
            }
        }

        #[test]
        fn those_who_wait_share_a_rate_within_a_frame(
            ports in proptest::collection::vec((1u16..=1000, 60u64..66_000), 2..8),
        ) {
            let mut waiters = Waiters::default();
            let mut tags = vec![Tag::default(); ports.len()];
            let mut sent = vec![0u64; ports.len()];
            for (i, tag) in tags.iter_mut().enumerate() {
                waiters.push(9, i as WaiterIndex, Priority::Medium, tag);
            }
            for _ in 0..1_000 {
                let port = waiters.pop().unwrap() as usize;
                let (weight, frame) = ports[port];
                sent[port] += frame;
                waiters.served(&mut tags[port], frame, share(weight));
                waiters.push(9, port as WaiterIndex, Priority::Medium, &mut tags[port]);
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
    }

    #[test]
    fn levels_are_strict_and_a_port_that_waited_not_at_all_has_saved_nothing() {
        let mut waiters = Waiters::default();
        let mut tags = [Tag::default(); 3];
        waiters.push(9, 0, Priority::Low, &mut tags[0]);
        waiters.push(9, 1, Priority::Medium, &mut tags[1]);
        for _ in 0..100 {
            assert_eq!(waiters.pop(), Some(1));
            waiters.served(&mut tags[1], 1500, Share::default());
            waiters.push(9, 1, Priority::Medium, &mut tags[1]);
        }
        waiters.push(9, 2, Priority::Medium, &mut tags[2]);
        let order: Vec<_> = (0..4)
            .map(|_| {
                let port = waiters.pop().unwrap();
                let tag = &mut tags[port as usize];
                waiters.served(tag, 1500, Share::default());
                waiters.push(9, port, Priority::Medium, tag);
                port
            })
            .collect();
        assert!(order.contains(&1) && order.contains(&2), "{order:?}");
        waiters.remove(1);
        waiters.remove(2);
        assert_eq!(waiters.drain().collect::<Vec<_>>(), [0]);
    }
}
