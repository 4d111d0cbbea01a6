//! Delay lines: frames that wait, in order, in storage of a fixed size.
//!
//! Where a frame must wait and its sender's ring is not the place (a wire's delay; the backlog of a
//! flow or a port over its rate, with frames out of the kernel's queues), its bytes are copied into
//! a delay line. The line has its full size when its port or flow gets the property. A full line
//! refuses frames.

use std::collections::VecDeque;

use super::token_bucket::Nanos;
use crate::ids::{Generation, PortIndex};
use crate::port::Batch;
use crate::port::hold::Form;
use crate::port::offload::VnetHeader;

/// Most frames of a line.
const FRAMES_MAX: usize = 1 << 17;
/// Frame length by which the number of frames is reckoned, in bytes.
const FRAME_BYTES: usize = 128;
/// Least capacity of a line, in bytes: two frames of 64 KB and a few more.
pub const BYTES_MIN: usize = 256 << 10;
/// Greatest capacity of a line, in bytes.
pub const BYTES_MAX: usize = 64 << 20;

/// The ports that a waiting frame comes from and goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The port that it came from.
    pub from: PortIndex,
    /// The port that it goes to; `None` for every other of the domain.
    pub to: Option<PortIndex>,
    /// The generation of that port's slot, or of its domain's.
    pub generation: Generation,
    /// How many patches it has gone through.
    pub patches: u8,
    /// Its VLAN, if the frame's tag does not say; else 0.
    pub vlan: u16,
}

/// A frame in a line, without its bytes.
#[derive(Clone, Copy, Debug)]
pub struct DelayedFrame {
    /// When it may leave.
    pub release: Nanos,
    /// Where it comes from and goes to.
    pub endpoints: Endpoints,
    /// Its unfinished offloads.
    pub vnet: VnetHeader,
    at: usize,
    /// Its length, in bytes.
    pub len: usize,
}

/// A bounded queue of frames with their times.
pub struct DelayLine {
    bytes: Box<[u8]>,
    frames: VecDeque<DelayedFrame>,
    /// Where the next frame's bytes go.
    end: usize,
    frames_max: usize,
}

impl DelayLine {
    /// An empty line of a capacity in bytes, within [`BYTES_MIN`] and [`BYTES_MAX`]. Pages that are
    /// never used take no memory.
    pub fn new(capacity: u64) -> DelayLine {
        let capacity = usize::try_from(capacity).unwrap_or(BYTES_MAX);
        let capacity = capacity.clamp(BYTES_MIN, BYTES_MAX);
        let frames_max = (capacity / FRAME_BYTES).min(FRAMES_MAX);
        DelayLine {
            bytes: vec![0; capacity].into(),
            frames: VecDeque::with_capacity(frames_max),
            end: 0,
            frames_max,
        }
    }

    /// Whether no frame waits.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The next one to leave.
    pub fn first(&self) -> Option<&DelayedFrame> {
        self.frames.front()
    }

    /// Adds a frame of `len` bytes, which `write` puts into the storage. It leaves at `release`, or
    /// when the frames before it have left if that is later. Returns whether it fitted.
    pub fn push(
        &mut self,
        release: Nanos,
        endpoints: Endpoints,
        vnet: VnetHeader,
        len: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> bool {
        let Some(at) = self.free(len) else {
            return false;
        };
        write(&mut self.bytes[at..at + len]);
        self.end = at + len;
        let release = self
            .frames
            .back()
            .map_or(release, |last| release.max(last.release));
        self.frames.push_back(DelayedFrame {
            release,
            endpoints,
            vnet,
            at,
            len,
        });
        true
    }

    /// As [`push`](Self::push), of frame `i` of a batch, in a form.
    pub(crate) fn push_frame(
        &mut self,
        release: Nanos,
        endpoints: Endpoints,
        batch: &Batch,
        i: u16,
        form: Form,
    ) -> bool {
        let len = form.len(&batch.frames()[usize::from(i)]);
        let vnet = batch.vnet_as(i, form);
        self.push(release, endpoints, vnet, len, |storage| {
            batch.write_as(i, form, storage);
        })
    }

    /// Moves the next frame to leave into a batch. Returns whether the batch took it.
    pub(crate) fn pop_into(&mut self, batch: &mut Batch) -> bool {
        let Some(&first) = self.first() else {
            return false;
        };
        let bytes = self.first_bytes();
        let taken = batch.put(first.len, first.vnet, first.endpoints.vlan, |room| {
            room.copy_from_slice(bytes);
        });
        self.pop();
        taken
    }

    /// Where `len` bytes in a row are free.
    fn free(&self, len: usize) -> Option<usize> {
        if self.frames.len() == self.frames_max {
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

    /// Takes all frames out, in a line of their own.
    pub fn take(&mut self) -> DelayLine {
        let capacity = self.bytes.len() as u64;
        std::mem::replace(self, DelayLine::new(capacity))
    }

    /// Moves the frames of another line here, each with its time. Returns how many did not fit.
    pub fn append(&mut self, mut other: DelayLine) -> usize {
        if self.is_empty() && self.bytes.len() == other.bytes.len() {
            *self = other;
            return 0;
        }
        let mut lost = 0;
        while let Some(&first) = other.first() {
            let bytes = other.first_bytes();
            let write = |storage: &mut [u8]| storage.copy_from_slice(bytes);
            if !self.push(first.release, first.endpoints, first.vnet, first.len, write) {
                lost += 1;
            }
            other.pop();
        }
        lost
    }

    /// How many frames wait.
    pub fn len(&self) -> usize {
        self.frames.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    const ENDPOINTS: Endpoints = Endpoints {
        from: 1,
        to: Some(2),
        generation: 0,
        patches: 0,
        vlan: 0,
    };

    #[derive(Clone, Debug)]
    enum LineStep {
        Push(usize, u64),
        Pop,
    }

    fn step() -> impl Strategy<Value = LineStep> {
        prop_oneof![
            3 => (prop_oneof![14usize..2000, 60_000usize..66_000], 0u64..1000)
                .prop_map(|(len, release)| LineStep::Push(len, release)),
            2 => Just(LineStep::Pop),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_delay_line_is_a_queue_that_refuses_when_full(
            steps in proptest::collection::vec(step(), 1..400),
        ) {
            let mut line = DelayLine::new(0);
            let mut model: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
            let (mut number, mut last) = (0u64, 0);
            for step in steps {
                match step {
                    LineStep::Push(len, release) => {
                        number += 1;
                        let bytes = vec![number as u8; len];
                        let fits = line.push(release, ENDPOINTS, VnetHeader::default(), len, |room| {
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
                    LineStep::Pop => {
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
}
