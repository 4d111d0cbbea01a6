//! Packets that are worked on soon, whose memory is asked for meanwhile.

use crate::{BATCH, Packet};

/// Lines of a packet that are asked for: its metadata, and its data at the usual headroom.
const LINES: usize = 2;
/// How many announcements are asked for at once after one for which nobody took a step.
const PAUSE: u8 = u8::MAX;

/// The lines of packets that come next, to be asked for a few at a time.
///
/// A core has a dozen misses under way, and stops at the next one until one of them is back: a
/// batch's lines asked for in a row take as long as they would one after the other, a dozen at a
/// time, while nothing is done. So whoever knows which packets come next
/// [announces](Self::announce) them, and whoever works on a batch [steps](Self::step).
pub struct Ahead {
    /// Where the lines are. Nothing is read there.
    lines: [usize; LINES * BATCH],
    next: usize,
    end: usize,
    /// Announcements that are asked for at once.
    pause: u8,
}

impl Default for Ahead {
    fn default() -> Self {
        Ahead {
            lines: [0; LINES * BATCH],
            next: 0,
            end: 0,
            pause: 0,
        }
    }
}

impl Ahead {
    /// Packets that come next, a batch at most. What is left of those announced before is asked for
    /// now: it is they who are worked on next.
    pub fn announce<'p>(&mut self, packets: impl Iterator<Item = &'p Packet>) {
        let packets = packets.take(BATCH);
        if self.end > 0 && self.next == 0 {
            self.pause = PAUSE;
        }
        self.step(self.end - self.next);
        (self.next, self.end) = (0, 0);
        if self.pause > 0 {
            self.pause -= 1;
            return packets.for_each(Packet::prefetch);
        }
        let lines = packets.flat_map(Packet::lines);
        for (place, line) in self.lines.iter_mut().zip(lines) {
            *place = line.addr();
            self.end += 1;
        }
    }

    /// Asks for the next `count` lines, if there are so many.
    #[inline(always)]
    pub fn step(&mut self, count: usize) {
        if self.next < self.end {
            self.ask(count);
        }
    }

    #[inline(never)]
    fn ask(&mut self, count: usize) {
        let count = count.min(self.end - self.next);
        for line in self.lines.iter().skip(self.next).take(count) {
            crate::buffer::prefetch_at(core::ptr::without_provenance(*line));
        }
        self.next += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    #[test]
    fn lines_are_asked_for_in_steps_or_at_once() {
        let mut pool = Pool::heap(100);
        let packets: std::vec::Vec<Packet> = (0..70).filter_map(|_| pool.copy(&[1])).collect();
        let mut ahead = Ahead::default();
        ahead.step(8);
        ahead.announce(packets.iter());
        assert_eq!((ahead.next, ahead.end), (0, LINES * BATCH));
        ahead.step(8);
        assert_eq!(ahead.next, 8);
        ahead.announce(packets.iter().take(3));
        assert_eq!((ahead.next, ahead.end), (0, 6));
        // More than there are.
        ahead.step(8);
        assert_eq!((ahead.next, ahead.end), (6, 6));
        ahead.announce(packets.iter());
        // Nobody takes steps.
        ahead.announce(packets.iter());
        assert_eq!((ahead.pause, ahead.end), (PAUSE - 1, 0));
        for _ in 1..PAUSE {
            ahead.announce(packets.iter());
            assert_eq!(ahead.end, 0);
        }
        ahead.announce(packets.iter());
        assert_eq!(ahead.end, LINES * BATCH);
    }
}
