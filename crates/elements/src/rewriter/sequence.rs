//! Changes of TCP sequence numbers.
//!
//! Where data of a connection is made longer or shorter on its way, the sequence numbers behind
//! change by as much, and so do the acknowledgments that come back, selective ones (RFC 2018)
//! included.

use super::checksums::update_sum;
use super::flow::Direction;
use crate::prelude::*;

/// Most changes that are remembered for one direction of a connection. With one more, the oldest is
/// taken to hold from the start.
const MOST: usize = 16;

/// Once the numbers are this far past the last change, no packet of before is expected any more.
const FAR: u32 = 1 << 30;

/// Numbers from `from` on differ by `by` from what they were.
#[derive(Clone, Copy, Debug)]
struct Change {
    from: u32,
    by: u32,
}

/// The changes of one direction.
#[derive(Clone, Debug, Default)]
struct Side {
    /// How much numbers before all changes differ.
    start: u32,
    /// In order.
    changes: Vec<Change>,
}

/// Whether `a` is at or after `b`, in the circle of sequence numbers.
fn reaches(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 >= 0
}

impl Side {
    fn is_none(&self) -> bool {
        self.start == 0 && self.changes.is_empty()
    }

    /// How much the latest numbers differ.
    fn latest(&self) -> u32 {
        self.changes.last().map_or(self.start, |change| change.by)
    }

    /// What the sender's number `number` becomes.
    fn forward(&self, number: u32) -> u32 {
        let mut changes = self.changes.iter().rev();
        let change = changes.find(|change| reaches(number, change.from));
        number.wrapping_add(change.map_or(self.start, |change| change.by))
    }

    /// Which of the sender's numbers the receiver means by `number`.
    fn back(&self, number: u32) -> u32 {
        let mut changes = self.changes.iter().rev();
        let change = changes.find(|change| reaches(number.wrapping_sub(change.by), change.from));
        number.wrapping_sub(change.map_or(self.start, |change| change.by))
    }

    /// Forgets changes that no packet is before any more, now that `number` was sent.
    fn forget(&mut self, number: u32) {
        if let Some(last) = self.changes.last().copied()
            && reaches(number, last.from.wrapping_add(FAR))
        {
            self.start = last.by;
            self.changes.clear();
        }
    }

    /// Adds a change by `by` from number `from` on, and says whether that was possible. Sent again,
    /// the same change replaces itself.
    fn add(&mut self, from: u32, by: u32) -> bool {
        match self.changes.last() {
            Some(last) if last.from == from => {
                self.changes.pop();
            }
            Some(last) if !reaches(from, last.from) => return false,
            _ => {}
        }
        if self.changes.len() == MOST {
            self.start = self.changes.remove(0).by;
        }
        let by = self.latest().wrapping_add(by);
        if self.changes.try_reserve(1).is_err() {
            return false;
        }
        self.changes.push(Change { from, by });
        true
    }
}

/// The changes of all flows. Flows hold the number of theirs, plus one; 0 stands for none.
#[derive(Default)]
pub struct Sequences {
    flows: Vec<[Side; 2]>,
    free: Vec<u32>,
}

impl Sequences {
    /// Lets numbers of the direction, from `from` on, differ by `by` from now on. `extra` is the
    /// flow's number here. Says whether that was possible: changes come in order.
    pub fn change(&mut self, extra: &mut u32, direction: Direction, from: u32, by: u32) -> bool {
        if *extra == 0 {
            *extra = match self.free.pop() {
                Some(number) => number + 1,
                None if self.flows.try_reserve(1).is_err() => return false,
                None => {
                    self.flows.push(Default::default());
                    self.flows.len() as u32
                }
            };
        }
        let sides = self.flows.get_mut(*extra as usize - 1);
        sides.is_some_and(|sides| sides[direction as usize].add(from, by))
    }

    /// Forgets the changes of a flow that ended.
    pub fn end(&mut self, extra: u32) {
        let Some(number) = extra.checked_sub(1) else {
            return;
        };
        if let Some(sides) = self.flows.get_mut(number as usize) {
            *sides = Default::default();
            // Without memory for the note, the place is lost, and nothing else.
            if self.free.try_reserve(1).is_ok() {
                self.free.push(number);
            }
        }
    }

    /// How much the latest numbers of a direction differ.
    pub fn latest(&self, extra: u32, direction: Direction) -> i32 {
        let sides = self.flows.get((extra as usize).wrapping_sub(1));
        sides.map_or(0, |sides| sides[direction as usize].latest() as i32)
    }

    /// Changes the numbers of a segment, and its checksum if that covers them.
    pub fn apply(&mut self, extra: u32, direction: Direction, segment: &mut [u8], covered: bool) {
        let Some(sides) = self.flows.get_mut((extra as usize).wrapping_sub(1)) else {
            return;
        };
        let [forward, reply] = sides;
        let (ours, theirs) = match direction {
            Direction::Forward => (forward, reply),
            Direction::Reply => (reply, forward),
        };
        let Some(offset) = segment.get(12) else {
            return;
        };
        let length = usize::from(offset >> 4) * 4;
        let Some(header) = segment
            .get_mut(..length)
            .filter(|header| header.len() >= 20)
        else {
            return;
        };
        let before = Sum::of(header);
        let number = number_at(header, 4);
        ours.forget(number);
        if !ours.is_none() {
            set_number(header, 4, ours.forward(number));
        }
        if !theirs.is_none() {
            let acknowledged = theirs.back(number_at(header, 8));
            set_number(header, 8, acknowledged);
            selective(theirs, &mut header[20..]);
        }
        if covered {
            let delta = Delta::of_sums(before, Sum::of(header));
            update_sum(delta, header, 16);
        }
    }
}

fn number_at(header: &[u8], at: usize) -> u32 {
    let bytes = header.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn set_number(header: &mut [u8], at: usize, number: u32) {
    if let Some(bytes) = header.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *bytes = number.to_be_bytes();
    }
}

/// Brings the edges of selective acknowledgments among TCP options back.
fn selective(side: &Side, options: &mut [u8]) {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    const SELECTIVE: u8 = 5;
    let mut rest = options;
    while let Some(&kind) = rest.first() {
        let length = match (kind, rest.get(1)) {
            (END, _) => return,
            (NOTHING, _) => 1,
            (_, Some(&length)) if length >= 2 => usize::from(length),
            _ => return,
        };
        let Some((option, behind)) = rest.split_at_mut_checked(length) else {
            return;
        };
        if kind == SELECTIVE && length % 8 == 2 {
            for at in (2..length).step_by(4) {
                set_number(option, at, side.back(number_at(option, at)));
            }
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORWARD: Direction = Direction::Forward;
    const REPLY: Direction = Direction::Reply;

    /// A connection whose data forward became 12 bytes shorter at 30, and again at 65.
    fn shortened() -> (Sequences, u32) {
        let (mut sequences, mut extra) = (Sequences::default(), 0);
        for from in [30, 65, 65] {
            assert!(sequences.change(&mut extra, FORWARD, from, -12i32 as u32));
        }
        assert!(!sequences.change(&mut extra, FORWARD, 64, 1));
        assert_eq!(sequences.latest(extra, FORWARD), -24);
        assert_eq!(sequences.latest(extra, REPLY), 0);
        (sequences, extra)
    }

    #[test]
    fn numbers_change_from_where_the_data_did() {
        let (sequences, extra) = shortened();
        let side = &sequences.flows[extra as usize - 1][0];
        let numbers = [0, 29, 30, 64, 65, 71];
        assert_eq!(numbers.map(|n| side.forward(n)), [0, 29, 18, 52, 41, 47]);
        assert_eq!([0, 1, 18, 45, 47].map(|n| side.back(n)), [0, 1, 30, 69, 71]);
    }

    #[test]
    fn far_behind_a_change_all_numbers_have_it() {
        let (mut sequences, mut extra) = shortened();
        let side = &mut sequences.flows[extra as usize - 1][0];
        side.forget(1_100_000_000);
        assert_eq!(side.forward(0), 0u32.wrapping_sub(24));
        for from in 0..40 {
            let from = 2_000_000_000 + 10 * from;
            assert!(sequences.change(&mut extra, FORWARD, from, 1));
        }
        let side = &sequences.flows[extra as usize - 1][0];
        assert_eq!(side.changes.len(), MOST);
        assert_eq!(side.forward(1_999_999_999), 1_999_999_999);
        assert_eq!(sequences.latest(extra, FORWARD), 16);
        sequences.end(extra);
        let mut other = 0;
        assert!(sequences.change(&mut other, REPLY, 5, 6));
        assert_eq!(other, extra);
        assert_eq!(sequences.latest(other, FORWARD), 0);
    }

    #[test]
    fn selective_acknowledgments_come_back() {
        let (sequences, extra) = shortened();
        let side = &sequences.flows[extra as usize - 1][0];
        let mut options = std::vec![1, 5, 18];
        for edge in [1u32, 18, 18, 45] {
            options.extend(edge.to_be_bytes());
        }
        options.extend([0, 5, 10]);
        selective(side, &mut options);
        let edges: Vec<u32> = (3..19)
            .step_by(4)
            .map(|at| number_at(&options, at))
            .collect();
        assert_eq!(edges, [1, 30, 30, 69]);
        // What is cut short is left alone.
        selective(side, &mut [5, 10, 0, 0, 0]);
        selective(side, &mut [5, 1, 0]);
        selective(side, &mut [5]);
    }
}
