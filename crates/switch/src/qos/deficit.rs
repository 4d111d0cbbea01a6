//! The polling round's order: strict levels, and within a level deficit round robin by share in
//! bytes (Shreedhar and Varghese 1995). Queues without frames cost nothing.
//!
//! A queue that sends less than its share does not wait for queues that send more. A queue that was
//! found empty keeps the bytes of one visit, and may use them as soon as it has frames, out of turn
//! (the DRR++ of MacGregor and Shi 2000, and the list of new flows of RFC 8290, section 4.2). More
//! bytes come only with the next visit, so a queue gains nothing by seeming empty.

use crate::properties::{Priority, Share};

/// Levels of priority.
pub const LEVELS: u8 = 3;

/// The level of ports without a priority of their own.
pub const LEVEL_DEFAULT: u8 = 1;

/// The level of a priority: 0 is the highest.
pub fn level(priority: Priority) -> u8 {
    match priority {
        Priority::High => 0,
        Priority::Medium => 1,
        Priority::Low => 2,
    }
}

/// Bytes that a visit brings a queue with a share of 1. With the default share it may send about as
/// much as is taken from a queue at a time.
const QUANTUM: i64 = 160;

/// A queue's deficit counter, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Deficit {
    left: i64,
    quantum: i64,
}

impl Deficit {
    /// Of a queue with this share.
    pub fn new(share: Share) -> Deficit {
        let quantum = i64::from(share.get()) * QUANTUM;
        Deficit {
            left: quantum,
            quantum,
        }
    }

    /// The round comes to the queue: whether it may send. Bytes that it had nothing to send for do not
    /// add up.
    #[inline]
    pub fn visit(&mut self) -> bool {
        self.skip(1);
        self.left > 0
    }

    /// Whether it may send, or send more on the same visit.
    #[inline]
    pub fn may_send(&self) -> bool {
        self.left > 0
    }

    /// How many bytes it may send before its counter is used up; 0 if it is.
    pub fn bytes_left(&self) -> u64 {
        self.left.max(0) as u64
    }

    /// Counts bytes that it sent.
    #[inline]
    pub fn spend(&mut self, bytes: u64) {
        self.left -= bytes as i64;
    }

    /// After how many more visits it may send.
    fn visits(&self) -> i64 {
        ((1 - self.left).max(0) + self.quantum - 1) / self.quantum
    }

    /// As if the round had come this often and the queue had not sent.
    #[inline]
    fn skip(&mut self, visits: i64) {
        self.left = (self.left + visits * self.quantum).min(self.quantum);
    }
}

/// Where all queues of a round wait for their counters, going round helps none: this brings the next
/// visit at which one of them may send.
pub fn fast_forward(mut deficits: impl FnMut(&mut dyn FnMut(&mut Deficit))) {
    let mut fewest = i64::MAX;
    deficits(&mut |deficit| fewest = fewest.min(deficit.visits()));
    // The visit itself brings one.
    let skipped = fewest.saturating_sub(1);
    if fewest != i64::MAX && skipped > 0 {
        deficits(&mut |deficit| deficit.skip(skipped));
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
        let mut deficits: Vec<_> = ports
            .iter()
            .map(|&(weight, _)| Deficit::new(share(weight)))
            .collect();
        let mut sent = vec![0; ports.len()];
        for _ in 0..rounds {
            let mut moved = false;
            for (i, deficit) in deficits.iter_mut().enumerate() {
                if deficit.visit() {
                    while deficit.may_send() {
                        deficit.spend(ports[i].1);
                        sent[i] += ports[i].1;
                        moved = true;
                    }
                }
            }
            if !moved {
                fast_forward(|each| deficits.iter_mut().for_each(each));
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

    /// A worker's rounds over ports with bytes to send, in slices of a portion at most.
    struct DeficitRound {
        deficits: Vec<Deficit>,
        /// Bytes that each has to send, and the length of its frames.
        ports: Vec<(u64, u64)>,
        sent: Vec<u64>,
    }

    const PORTION: u64 = 16 << 10;

    impl DeficitRound {
        /// Serves a port once. Returns the bytes.
        fn serve(&mut self, i: usize) -> u64 {
            let (left, frame) = &mut self.ports[i];
            let bytes = (PORTION.div_ceil(*frame) * *frame).min(*left);
            *left -= bytes;
            self.deficits[i].spend(bytes);
            self.sent[i] += bytes;
            bytes
        }

        /// Goes round once. `between` gets the port that had a portion, and may give other ports
        /// bytes to send; they are visited then.
        fn go(&mut self, mut between: impl FnMut(&mut DeficitRound, usize)) {
            let mut moved = false;
            for i in 0..self.ports.len() {
                if !self.deficits[i].visit() {
                    continue;
                }
                while self.deficits[i].may_send() && self.serve(i) > 0 {
                    moved = true;
                    between(self, i);
                    for j in 0..self.ports.len() {
                        if j != i && self.deficits[j].may_send() {
                            self.serve(j);
                        }
                    }
                }
            }
            if !moved {
                fast_forward(|each| self.deficits.iter_mut().for_each(each));
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

        /// With any number of flooding ports, and any shares.
        #[test]
        fn a_rare_frame_waits_for_one_portion_and_a_frame(
            floods in proptest::collection::vec((1u16..=1000, 60u64..=1514), 1..8),
            rare in (1u16..=1000, 60u64..=1514),
        ) {
            let all = || floods.iter().chain([&rare]);
            let mut round = DeficitRound {
                deficits: all().map(|&(weight, _)| Deficit::new(share(weight))).collect(),
                ports: all().map(|&(_, frame)| (u64::MAX, frame)).collect(),
                sent: vec![0; floods.len() + 1],
            };
            let one = floods.len();
            round.ports[one].0 = 0;
            let (mut since, mut frames) = (None, 0u64);
            // None that floods has deficit for nothing after its first turn.
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

        /// A queue that always seems new, by sending a little at a time, gets its share and one
        /// quantum.
        #[test]
        fn who_pretends_to_be_rare_gets_no_more_than_its_share(
            floods in proptest::collection::vec((1u16..=1000, 60u64..=1514), 1..8),
            weight in 1u16..=1000,
            frame in 60u64..=1514,
            burst in 1u64..=16,
        ) {
            let mut round = DeficitRound {
                deficits: floods.iter().map(|&(weight, _)| weight).chain([weight])
                    .map(|weight| Deficit::new(share(weight))).collect(),
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
    }
}
