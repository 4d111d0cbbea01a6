//! Who goes next: weighted shares and strict levels.
//!
//! Two things can be short. The worker itself: its round goes over the ports of the highest level
//! that has frames, and shares itself out among them by deficit round robin ([`Credit`];
//! Shreedhar and Varghese 1995), some kilobytes at a time. And the rate of a port that others send
//! to: who finds it used up waits for it in [`Waiters`], and is served by level and then by virtual
//! time (start-time fair queueing, Goyal et al. 1996), in grants of a few frames. Neither costs
//! anything for ports that have nothing to send.
//!
//! In both, who sends less than its share does not wait for those who send more. A port that was
//! found empty keeps one visit's credit, and may use it as soon as it has frames, out of its turn
//! (the DRR++ of MacGregor and Shi 2000, and the list of new flows of RFC 8290, section 4.2). It
//! gets more when the round comes to it, and no sooner, so nothing is won by seeming empty. And
//! of a port's rate a part is kept for those who would be next ([`Waiters::goes_first`]).

use std::collections::BinaryHeap;

use hashbrown::HashMap;

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

/// Bytes that a visit brings a port with a share of 1: one of the default share may send about as
/// much as is taken from a port at a time.
const QUANTUM: i64 = 160;

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

    /// The round comes to the port: whether it may send. What it had nothing to send for does not
    /// add up.
    #[inline]
    pub fn visit(&mut self) -> bool {
        self.skip(1);
        self.left > 0
    }

    /// Whether it may send, or more on the same visit.
    #[inline]
    pub fn is_left(&self) -> bool {
        self.left > 0
    }

    /// How much it may send before its credit is used up; 0 if it is.
    pub fn left(&self) -> u64 {
        self.left.max(0) as u64
    }

    /// It sent this much.
    #[inline]
    pub fn spend(&mut self, bytes: u64) {
        self.left -= bytes as i64;
    }

    /// After how many more visits it may send.
    fn visits(&self) -> i64 {
        ((1 - self.left).max(0) + self.quantum - 1) / self.quantum
    }

    /// As if the round had come this often and the port had not sent.
    #[inline]
    fn skip(&mut self, visits: i64) {
        self.left = (self.left + visits * self.quantum).min(self.quantum);
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

/// Those who wait for one port's rate.
#[derive(Debug, Default)]
pub struct Waiters {
    heap: BinaryHeap<Waiter>,
    /// Where those stand who wait or were served of late, in virtual time.
    tags: HashMap<WaiterIndex, Virtual>,
    /// Virtual time of the last one served.
    clock: Virtual,
    turns: u64,
}

/// Standings that are kept at least, whether or not they tell anything any more.
const TAGS: usize = 64;

impl Waiters {
    /// Whether nobody waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Where a queue stands: no further back than the clock, for nothing is saved up.
    fn tag(&self, queue: WaiterIndex) -> Virtual {
        let tag = self.tags.get(&queue);
        tag.map_or(self.clock, |&tag| tag.max(self.clock))
    }

    /// `queue` waits from now on.
    pub fn push(&mut self, queue: WaiterIndex, priority: Priority) {
        self.turns += 1;
        self.heap.push(Waiter {
            priority,
            tag: self.tag(queue),
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

    /// Whether a queue that does not wait yet would be served before all who do, having had less
    /// than its share: it need not wait for them. Where nobody waits, one that was the last to be
    /// served has had more.
    pub fn goes_first(&self, queue: WaiterIndex, priority: Priority) -> bool {
        let tag = self.tag(queue);
        match self.heap.peek() {
            Some(first) if first.priority == priority => tag < first.tag,
            Some(first) if first.priority > priority => false,
            _ => tag <= self.clock,
        }
    }

    /// One that was served sent this much.
    pub fn served(&mut self, queue: WaiterIndex, bytes: u64, share: Share) {
        let tag = self.tag(queue) + bytes * VIRTUAL / u64::from(share.get());
        if self.tags.len() >= TAGS.max(2 * self.heap.len()) && !self.tags.contains_key(&queue) {
            // One that the clock has passed tells nothing.
            let clock = self.clock;
            self.tags.retain(|_, tag| *tag > clock);
        }
        self.tags.insert(queue, tag);
    }

    /// Takes out one that waits no more.
    pub fn remove(&mut self, queue: WaiterIndex) {
        self.heap.retain(|waiter| waiter.queue != queue);
        self.tags.remove(&queue);
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

    /// What a worker does with ports that have so much to send, in slices of a portion at most:
    /// returns what each has sent after every slice of whoever has it.
    struct Round {
        credits: Vec<Credit>,
        /// Bytes that each has to send, and the length of its frames.
        ports: Vec<(u64, u64)>,
        sent: Vec<u64>,
    }

    const PORTION: u64 = 16 << 10;

    impl Round {
        /// Serves a port once. Returns the bytes.
        fn serve(&mut self, i: usize) -> u64 {
            let (left, frame) = &mut self.ports[i];
            let bytes = (PORTION.div_ceil(*frame) * *frame).min(*left);
            *left -= bytes;
            self.credits[i].spend(bytes);
            self.sent[i] += bytes;
            bytes
        }

        /// Goes round once; `between` is told who had a portion, and may give others something to
        /// send, who are then looked at.
        fn go(&mut self, mut between: impl FnMut(&mut Round, usize)) {
            let mut moved = false;
            for i in 0..self.ports.len() {
                if !self.credits[i].visit() {
                    continue;
                }
                while self.credits[i].is_left() && self.serve(i) > 0 {
                    moved = true;
                    between(self, i);
                    for j in 0..self.ports.len() {
                        if j != i && self.credits[j].is_left() {
                            self.serve(j);
                        }
                    }
                }
            }
            if !moved {
                fast_forward(|each| self.credits.iter_mut().for_each(each));
            }
        }
    }

    proptest! {
        #[test]
        fn shares_hold_within_a_batch(
            ports in proptest::collection::vec((1u16..=1000, 60u64..100_000), 2..8),
        ) {
            let sent = round(&ports, 3_000);
            let parts: Vec<_> = ports.iter().zip(&sent).map(|(&(weight, batch), &bytes)| {
                let quanta = f64::from(weight) * 2.0 * QUANTUM as f64;
                (bytes as f64 / f64::from(weight), (batch as f64 + quanta) / f64::from(weight))
            }).collect();
            for (a, slack_a) in &parts {
                for (b, slack_b) in &parts {
                    prop_assert!((a - b).abs() <= slack_a + slack_b, "{sent:?} for {ports:?}");
                }
            }
        }

        /// However many flood, and with whatever shares.
        #[test]
        fn a_rare_frame_waits_for_one_portion_and_a_frame(
            floods in proptest::collection::vec((1u16..=1000, 60u64..=1514), 1..8),
            rare in (1u16..=1000, 60u64..=1514),
        ) {
            let all = || floods.iter().chain([&rare]);
            let mut round = Round {
                credits: all().map(|&(weight, _)| Credit::new(share(weight))).collect(),
                ports: all().map(|&(_, frame)| (u64::MAX, frame)).collect(),
                sent: vec![0; floods.len() + 1],
            };
            let one = floods.len();
            round.ports[one].0 = 0;
            let (mut since, mut frames) = (None, 0u64);
            // None that floods has credit for nothing after its first turn.
            round.go(|_, _| {});
            for _ in 0..200 {
                // It has a frame rarely enough to be within its share: once for each ten times
                // that its share comes round with a frame's length.
                let mut worst = 0;
                round.go(|round, _| {
                    let all: u64 = round.sent[..one].iter().sum();
                    let weights: u64 = floods.iter().map(|&(weight, _)| u64::from(weight)).sum();
                    let fair = all * u64::from(rare.0) / weights;
                    if let Some(since) = since.take() {
                        worst = worst.max(all - since);
                    }
                    if round.ports[one].0 == 0 && (frames + 1) * rare.1 * 10 < fair {
                        round.ports[one].0 = rare.1;
                        frames += 1;
                        since = Some(all);
                    }
                });
                prop_assert!(worst <= PORTION + 1514, "{worst} bytes before it");
            }
            prop_assert!(round.sent[one] + rare.1 >= frames * rare.1);
        }

        /// One that always seems to be new, by having a little at a time, gets its share and one
        /// quantum.
        #[test]
        fn who_pretends_to_be_rare_gets_no_more_than_its_share(
            floods in proptest::collection::vec((1u16..=1000, 60u64..=1514), 1..8),
            weight in 1u16..=1000,
            frame in 60u64..=1514,
            burst in 1u64..=16,
        ) {
            let mut round = Round {
                credits: floods.iter().map(|&(weight, _)| weight).chain([weight])
                    .map(|weight| Credit::new(share(weight))).collect(),
                ports: floods.iter().map(|&(_, frame)| (u64::MAX, frame)).chain([(0, frame)]).collect(),
                sent: vec![0; floods.len() + 1],
            };
            let one = floods.len();
            for _ in 0..500 {
                round.go(|round, _| round.ports[one].0 = round.ports[one].0.max(burst * frame));
            }
            let per_share = |bytes: u64, weight: u16| bytes as f64 / f64::from(weight);
            let own = per_share(round.sent[one], weight);
            let slack = |weight: u16| 3.0 * QUANTUM as f64 + 2.0 * (PORTION + 1514) as f64 / f64::from(weight);
            for (&(other, _), &bytes) in floods.iter().zip(&round.sent) {
                let most = per_share(bytes, other) + slack(weight) + slack(other);
                prop_assert!(own <= most, "{own} a share against {most}: {:?}", round.sent);
            }
        }

        #[test]
        fn those_who_wait_share_a_rate_within_a_frame(
            ports in proptest::collection::vec((1u16..=1000, 60u64..66_000), 2..8),
        ) {
            let mut waiters = Waiters::default();
            let mut sent = vec![0u64; ports.len()];
            for i in 0..ports.len() {
                waiters.push(i as WaiterIndex, Priority::Medium);
            }
            for _ in 0..1_000 {
                let port = waiters.pop().unwrap();
                let (weight, frame) = ports[port as usize];
                sent[port as usize] += frame;
                waiters.served(port, frame, share(weight));
                waiters.push(port, Priority::Medium);
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

        /// Whoever goes first whenever it may, as often as it likes, gets its share and a grant.
        #[test]
        fn who_goes_first_gets_no_more_than_its_share(
            ports in proptest::collection::vec((1u16..=1000, 60u64..66_000), 2..8),
            tries in 1usize..5,
        ) {
            let mut waiters = Waiters::default();
            let mut sent = vec![0u64; ports.len()];
            for i in 1..ports.len() {
                waiters.push(i as WaiterIndex, Priority::Medium);
            }
            for _ in 0..1_000 {
                let port = waiters.pop().unwrap();
                let (weight, frame) = ports[port as usize];
                sent[port as usize] += frame;
                waiters.served(port, frame, share(weight));
                waiters.push(port, Priority::Medium);
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
        let mut waiters = Waiters::default();
        waiters.push(0, Priority::Low);
        waiters.push(1, Priority::Medium);
        for _ in 0..100 {
            assert_eq!(waiters.pop(), Some(1));
            waiters.served(1, 1500, Share::default());
            waiters.push(1, Priority::Medium);
        }
        waiters.push(2, Priority::Medium);
        let order: Vec<_> = (0..4)
            .map(|_| {
                let port = waiters.pop().unwrap();
                waiters.served(port, 1500, Share::default());
                waiters.push(port, Priority::Medium);
                port
            })
            .collect();
        assert!(order.contains(&1) && order.contains(&2), "{order:?}");
        waiters.remove(1);
        waiters.remove(2);
        assert_eq!(waiters.drain().collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn whoever_has_had_less_goes_first_but_for_those_of_a_higher_level() {
        let mut waiters = Waiters::default();
        assert!(waiters.goes_first(2, Priority::Low), "nobody waits");
        waiters.push(1, Priority::Medium);
        waiters.pop();
        waiters.served(1, 16_000, Share::default());
        assert!(!waiters.goes_first(1, Priority::High), "it had the rate");
        waiters.push(1, Priority::Medium);
        assert!(waiters.goes_first(2, Priority::Medium));
        assert!(waiters.goes_first(2, Priority::High));
        assert!(!waiters.goes_first(2, Priority::Low));
        waiters.served(2, 8_000, Share::default());
        assert!(waiters.goes_first(2, Priority::Medium), "not as much yet");
        waiters.served(2, 8_000, Share::default());
        assert!(!waiters.goes_first(2, Priority::Medium));
    }

    #[test]
    fn what_the_clock_has_passed_is_forgotten() {
        let mut waiters = Waiters::default();
        for queue in 0..10_000 {
            waiters.push(queue, Priority::Medium);
            assert_eq!(waiters.pop(), Some(queue));
            waiters.served(queue, 1500, Share::default());
            waiters.push(queue, Priority::Medium);
            assert_eq!(waiters.pop(), Some(queue));
        }
        assert!(waiters.tags.len() <= TAGS + 1, "{}", waiters.tags.len());
    }
}
