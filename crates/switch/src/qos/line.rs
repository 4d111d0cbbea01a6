//! Lines: frames on their way, in order, with room for so many.
//!
//! Where a frame must wait and its sender's ring is not the place (a wire's delay, a flow or a port
//! over its limit with frames out of the kernel's queues), its bytes are copied into a line. A line
//! is made with all its room when its port or flow is given the property, and takes nothing more
//! than that: a full line refuses.

use std::collections::VecDeque;

use super::bucket::Nanos;
use crate::lookup::PortIndex;
use crate::port::offload::VnetHeader;

/// Most frames of a line.
const FRAMES_MAX: usize = 1 << 17;
/// Smallest frame that room for the number of frames is reckoned with, in bytes.
const FRAME_BYTES: usize = 128;
/// Room that every line has: two frames of 64 KB and a few more.
pub const BYTES_MIN: usize = 256 << 10;
/// Most room of a line, in bytes.
pub const BYTES_MAX: usize = 64 << 20;

/// Where a frame in a line is going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The port that it came from.
    pub from: PortIndex,
    /// The port that it goes to; `None` to every other of the domain.
    pub to: Option<PortIndex>,
    /// Which turn of that port's place, or of its domain's, it is.
    pub turn: u32,
    /// How many patches it has gone through.
    pub patches: u8,
    /// Its VLAN, if it is not as it stands in the frame's tag.
    pub vlan: u16,
}

/// A frame in a line, without its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// When it may leave.
    pub release: Nanos,
    /// Where it is going.
    pub way: Way,
    /// What is left to do on it.
    pub vnet: VnetHeader,
    at: usize,
    /// Its length, in bytes.
    pub len: usize,
}

/// Frames on their way.
pub struct Line {
    bytes: Box<[u8]>,
    frames: VecDeque<Waiting>,
    /// Where the next frame's bytes go.
    end: usize,
    most: usize,
}

impl Line {
    /// A line with room for `bytes`, within [`BYTES_MIN`] and [`BYTES_MAX`]. Room that was never
    /// used takes no memory.
    pub fn new(bytes: u64) -> Line {
        let bytes = usize::try_from(bytes).unwrap_or(BYTES_MAX);
        let bytes = bytes.clamp(BYTES_MIN, BYTES_MAX);
        let most = (bytes / FRAME_BYTES).min(FRAMES_MAX);
        Line {
            bytes: vec![0; bytes].into(),
            frames: VecDeque::with_capacity(most),
            end: 0,
            most,
        }
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The next one to leave.
    pub fn first(&self) -> Option<&Waiting> {
        self.frames.front()
    }

    /// Adds a frame of `len` bytes that `write` puts into its room. It leaves at `release` or when
    /// those before it have left, whichever is later. Returns whether there was room.
    pub fn push(
        &mut self,
        release: Nanos,
        way: Way,
        vnet: VnetHeader,
        len: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> bool {
        let Some(at) = self.room(len) else {
            return false;
        };
        write(&mut self.bytes[at..at + len]);
        self.end = at + len;
        let release = self
            .frames
            .back()
            .map_or(release, |last| release.max(last.release));
        self.frames.push_back(Waiting {
            release,
            way,
            vnet,
            at,
            len,
        });
        true
    }

    /// Where `len` bytes in a row are free.
    fn room(&self, len: usize) -> Option<usize> {
        if self.frames.len() == self.most {
            return None;
        }
        let Some(first) = self.frames.front() else {
            return (len <= self.bytes.len()).then_some(0);
        };
        // The bytes in use are from the first frame to `end`, going round. One byte stays free, so
        // that full and empty differ.
        if first.at < self.end {
            if self.end + len <= self.bytes.len() {
                Some(self.end)
            } else {
                (len < first.at).then_some(0)
            }
        } else {
            (self.end + len < first.at).then_some(self.end)
        }
    }

    /// The bytes of the next one to leave.
    pub fn first_bytes(&self) -> &[u8] {
        match self.frames.front() {
            Some(first) => &self.bytes[first.at..first.at + first.len],
            None => &[],
        }
    }

    /// The next one has left.
    pub fn pop(&mut self) {
        self.frames.pop_front();
    }

    /// The frames under way, in a line of their own.
    pub fn take(&mut self) -> Line {
        let room = self.bytes.len() as u64;
        std::mem::replace(self, Line::new(room))
    }

    /// Has frames that were under way in another line go on here, each at the time that it had.
    /// Returns how many found no room.
    pub fn take_over(&mut self, mut other: Line) -> usize {
        if self.is_empty() && self.bytes.len() == other.bytes.len() {
            *self = other;
            return 0;
        }
        let mut lost = 0;
        while let Some(&first) = other.first() {
            let bytes = other.first_bytes();
            let write = |room: &mut [u8]| room.copy_from_slice(bytes);
            if !self.push(first.release, first.way, first.vnet, first.len, write) {
                lost += 1;
            }
            other.pop();
        }
        lost
    }

    /// How many frames are under way.
    pub fn len(&self) -> usize {
        self.frames.len()
    }
}

/// Loss, jitter and what else is left to chance, from a seed: the same seed loses the same frames.
/// (xorshift64*, Vigna 2016.)
#[derive(Clone, Copy, Debug)]
pub struct Chance(u64);

impl Chance {
    /// From this seed.
    pub fn new(seed: u64) -> Chance {
        // Zero would stay zero; the multiplication spreads small seeds.
        Chance((seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1)
    }

    fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// A number below `end`, each as likely; 0 if `end` is.
    pub fn below(&mut self, end: u32) -> u32 {
        ((u64::from(self.next()) * u64::from(end)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    const WAY: Way = Way {
        from: 1,
        to: Some(2),
        turn: 0,
        patches: 0,
        vlan: 0,
    };

    #[derive(Clone, Debug)]
    enum Step {
        Push(usize, u64),
        Pop,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (prop_oneof![14usize..2000, 60_000usize..66_000], 0u64..1000)
                .prop_map(|(len, release)| Step::Push(len, release)),
            2 => Just(Step::Pop),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_line_is_a_queue_that_refuses_when_full(
            steps in proptest::collection::vec(step(), 1..400),
        ) {
            let mut line = Line::new(0);
            let mut model: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
            let (mut number, mut last) = (0u64, 0);
            for step in steps {
                match step {
                    Step::Push(len, release) => {
                        number += 1;
                        let bytes = vec![number as u8; len];
                        let fits = line.push(release, WAY, VnetHeader::default(), len, |room| {
                            room.copy_from_slice(&bytes);
                        });
                        let used: usize = model.iter().map(|(_, bytes)| bytes.len()).sum();
                        // Fewer than two of the longest frames are lost to the seam.
                        prop_assert!(fits || used + len + 2 * 66_000 > BYTES_MIN);
                        if fits {
                            last = if model.is_empty() { release } else { release.max(last) };
                            model.push_back((last, bytes));
                        }
                    }
                    Step::Pop => {
                        let expected = model.pop_front();
                        prop_assert_eq!(line.first().map(|first| first.release), expected.as_ref().map(|e| e.0));
                        prop_assert_eq!(line.first_bytes(), expected.map(|e| e.1).unwrap_or_default());
                        line.pop();
                    }
                }
                prop_assert_eq!(line.len(), model.len());
            }
        }
    }

    #[test]
    fn chance_repeats_itself_and_is_fair() {
        let draw = |seed| {
            let mut chance = Chance::new(seed);
            (0..10_000).map(|_| chance.below(100)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let low = draw(7).iter().filter(|&&n| n < 10).count();
        assert!((900..1100).contains(&low), "{low}");
        assert_eq!(Chance::new(0).below(0), 0);
    }
}
