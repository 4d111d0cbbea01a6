//! The last slots of a receiver that does not keep up.
//!
//! Its ring is full of frames of the port that sends most, which fills every free slot before
//! another port has a frame. So a part of the ring is reserved: sources that send much more than the
//! others must stop short of it (as with a switch chip's shared buffer: Choudhury and Hahne,
//! "Dynamic queue length thresholds", 1998). How long a frame waits in the ring is up to the
//! receiver.

use crate::ids::{LaneIndex, PortIndex};
use crate::port::guest::RING_RESERVE;

/// Where frames come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSource {
    /// A port of this lane.
    Port(PortIndex),
    /// Another lane.
    Lane(LaneIndex),
    /// Delay lines.
    DelayLines,
}

/// Frames of a ring's length that are few in any case: one in so many slots.
const FEW: u32 = 64;
/// Most sources that are told apart.
const SOURCES_MAX: usize = 64;

/// Frames offered to a receiver while its ring was nearly full, in about the last ring's length, by
/// source. Of more than [`SOURCES_MAX`] sources, the table has the ones that offer most.
#[derive(Debug)]
pub struct RingThreshold {
    offered: [(FrameSource, u32); SOURCES_MAX],
    sources: usize,
    total: u32,
}

impl Default for RingThreshold {
    /// Nothing was offered yet.
    fn default() -> RingThreshold {
        RingThreshold {
            offered: [(FrameSource::DelayLines, 0); SOURCES_MAX],
            sources: 0,
            total: 0,
        }
    }
}

impl RingThreshold {
    /// `source` offers frames for a ring of `slots` that is nearly full. Returns how many slots it
    /// is to leave free.
    pub fn offer(&mut self, source: FrameSource, frames: u32, slots: u32) -> u32 {
        if self.total >= slots {
            self.halve();
        }
        let offered = self.entry(source);
        *offered += frames;
        let offered = *offered;
        self.total += frames;
        // Half of each source's part if all offered the same.
        let fair = self.total / (2 * self.sources as u32);
        if offered <= fair.max(slots / FEW) {
            0
        } else {
            slots / RING_RESERVE
        }
    }

    fn halve(&mut self) {
        let mut kept = 0;
        self.total = 0;
        for i in 0..self.sources {
            let (source, offered) = self.offered[i];
            if offered / 2 > 0 {
                self.offered[kept] = (source, offered / 2);
                self.total += offered / 2;
                kept += 1;
            }
        }
        self.sources = kept;
    }

    /// How much a source has offered. A new one takes the entry of the source that offered least, if
    /// there is no other.
    fn entry(&mut self, source: FrameSource) -> &mut u32 {
        let known = &self.offered[..self.sources];
        let found = known.iter().position(|(other, _)| *other == source);
        let at = match found {
            Some(at) => at,
            None if self.sources < SOURCES_MAX => {
                self.sources += 1;
                self.offered[self.sources - 1] = (source, 0);
                self.sources - 1
            }
            None => {
                let least = (0..SOURCES_MAX).min_by_key(|&i| self.offered[i].1);
                let at = least.unwrap_or(0);
                self.total -= self.offered[at].1;
                self.offered[at] = (source, 0);
                at
            }
        };
        &mut self.offered[at].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What gets into a ring of 256 slots that moves on by one frame at a time, of frames that are
    /// offered as often as `every` says: one of each port in so many turns.
    fn arrived(every: &[u32], turns: u32) -> Vec<f64> {
        const SLOTS: u32 = 256;
        let mut threshold = RingThreshold::default();
        let mut ring = std::collections::VecDeque::new();
        let (mut offered, mut taken) = (vec![0.0; every.len()], vec![0.0; every.len()]);
        for turn in 0..turns {
            ring.pop_front();
            for (port, &every) in every.iter().enumerate() {
                let frames = if every == 0 {
                    64
                } else {
                    u32::from(turn % every == 0)
                };
                let free = SLOTS - ring.len() as u32;
                let leaves = if free < SLOTS / RING_RESERVE + frames && frames > 0 {
                    threshold.offer(FrameSource::Port(port as u16), frames, SLOTS)
                } else {
                    0
                };
                let fit = free.saturating_sub(leaves).min(frames);
                ring.extend(std::iter::repeat_n(port, fit as usize));
                offered[port] += f64::from(frames);
                taken[port] += f64::from(fit);
            }
        }
        taken
            .iter()
            .zip(offered)
            .map(|(taken, offered)| taken / offered)
            .collect()
    }

    #[test]
    fn who_sends_little_gets_in_beside_those_who_flood() {
        for every in [
            &[0, 50][..],
            &[0, 0, 0, 50],
            &[0, 0, 50, 100, 200],
            &[0, 4000],
            &[0, 7],
        ] {
            let arrived = arrived(every, 40_000);
            for (part, &every) in arrived.iter().zip(every) {
                assert!(every == 0 || *part == 1.0, "{arrived:?} for {every:?}");
            }
        }
    }

    #[test]
    fn those_who_flood_share_what_is_left_and_nothing_is_wasted() {
        let all = arrived(&[0, 0], 40_000);
        let taken = (all[0] + all[1]) * 64.0;
        assert!((0.99..=1.01).contains(&taken), "{all:?}");
    }

    #[test]
    fn sources_that_are_gone_are_forgotten() {
        let mut threshold = RingThreshold::default();
        for port in 0..10_000 {
            threshold.offer(FrameSource::Port(port), 1, 64);
        }
        assert!(threshold.sources <= 64, "{}", threshold.sources);
        assert!(threshold.total <= 65, "{}", threshold.total);
    }

    #[test]
    fn a_source_that_floods_is_known_among_more_than_can_be_told_apart() {
        let mut threshold = RingThreshold::default();
        let mut free = Vec::new();
        for turn in 0..1_000 {
            for port in 0..200 {
                let few = threshold.offer(FrameSource::Port(port), 1, 2048);
                assert_eq!(few, 0, "turn {turn}");
            }
            free.push(threshold.offer(FrameSource::Lane(1), 64, 2048));
        }
        let reserved = free.iter().filter(|&&slots| slots > 0).count();
        assert!(reserved > 900, "{reserved}");
    }
}
