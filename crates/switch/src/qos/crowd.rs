//! Who gets the last slots of a receiver that does not keep up.
//!
//! Its ring is full of frames of whoever sends most, who fills every slot that comes free before
//! anyone else has a frame. So a part of the ring is left to others: those who send much more than
//! the rest must stop short of it (as with a switch chip's shared buffer: Choudhury and Hahne,
//! "Dynamic queue length thresholds", 1998). What a frame waits for that found a slot is up to the
//! receiver.

use hashbrown::HashMap;

use crate::lane::LaneIndex;
use crate::lookup::PortIndex;

/// Whose frames they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A port's of this lane.
    Port(PortIndex),
    /// Any of another lane's.
    Lane(LaneIndex),
    /// What waited in lines.
    Lines,
}

/// Part of a ring that is left to those who send little: one in so many slots.
pub const LEFT: u32 = 8;
/// Frames in a ring's length that are little in any case: one in so many slots.
const LITTLE: u32 = 64;

/// What was offered to a receiver while its ring was nearly full: in the last ring's length or so,
/// by source.
#[derive(Debug, Default)]
pub struct Crowd {
    offered: HashMap<Source, u32>,
    total: u32,
}

impl Crowd {
    /// `source` offers frames for a ring of `slots` that is nearly full: how many slots it is to
    /// leave free.
    pub fn offer(&mut self, source: Source, frames: u32, slots: u32) -> u32 {
        if self.total >= slots {
            self.offered.retain(|_, offered| {
                *offered /= 2;
                *offered > 0
            });
            self.total = self.offered.values().sum();
        }
        let offered = self.offered.entry(source).or_default();
        *offered += frames;
        self.total += frames;
        let offered = *offered;
        // Half of what each would have if all had the same.
        let fair = self.total / (2 * self.offered.len() as u32);
        match offered <= fair.max(slots / LITTLE) {
            true => 0,
            false => slots / LEFT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What gets into a ring of 256 slots that moves on by one frame at a time, of frames that are
    /// offered as often as `every` says: one of each port in so many turns.
    fn arrived(every: &[u32], turns: u32) -> Vec<f64> {
        const SLOTS: u32 = 256;
        let mut crowd = Crowd::default();
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
                let leaves = match free < SLOTS / LEFT + frames && frames > 0 {
                    true => crowd.offer(Source::Port(port as u16), frames, SLOTS),
                    false => 0,
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
        let mut crowd = Crowd::default();
        for port in 0..10_000 {
            crowd.offer(Source::Port(port), 1, 64);
        }
        assert!(crowd.offered.len() <= 64, "{}", crowd.offered.len());
    }
}
