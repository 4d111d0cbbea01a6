//! Late frames: they came to a guest's rings after the guest was copied for a migration, and follow it.
//!
//! ```text
//! length (u32)  virtio-net header (10 bytes)  the frame      …
//! ```
//!
//! The length, little-endian, is the frame's alone.

use std::os::fd::{AsFd, OwnedFd};

use abi::chain::{self, follow};

use crate::memory::SharedRegion;
use crate::port::offload::VnetHeader;

/// Longest text of frames, in bytes.
pub const BYTES_MAX: usize = 64 << 20;
/// Bytes in front of a frame.
const HEAD: usize = 4 + VnetHeader::LEN;

impl SharedRegion {
    /// The frames in the receive ring of interface `i`, those in its first `skip` filled slots left out, and how many
    /// slots are filled. Its guest stands still.
    pub fn late_frames(&self, i: usize, skip: u32) -> (Vec<u8>, u32) {
        let mut frames = Vec::new();
        let Some((region, mut ring)) = self.receive_ring(i) else {
            return (frames, skip);
        };
        let filled = ring.filled(u32::MAX).unwrap_or(0);
        let mut at = skip;
        while at < filled {
            let first = ring.peek(at);
            let start = frames.len();
            frames.extend([0; 4]);
            frames.extend(VnetHeader::of_slot(first).to_bytes());
            let mut whole = true;
            let mut add = |slot| match region.frame(slot) {
                Ok(bytes) => {
                    let from = frames.len();
                    frames.resize(from + bytes.len(), 0);
                    bytes.read(&mut frames[from..]);
                }
                Err(_) => whole = false,
            };
            add(first);
            at += match follow(&ring, at, filled, first, &mut add) {
                Ok(slots) => slots,
                Err(broken) => {
                    whole = false;
                    broken.slots
                }
            };
            let length = frames.len() - start - HEAD;
            if whole && length > 0 {
                frames[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
            } else {
                frames.truncate(start);
            }
        }
        (frames, filled.max(skip))
    }
}

/// The frames of a text, each with its pending work.
pub(crate) struct Frames<'a>(pub &'a [u8]);

impl<'a> Iterator for Frames<'a> {
    type Item = (VnetHeader, &'a [u8]);

    /// What cannot be a frame ends the text.
    fn next(&mut self) -> Option<Self::Item> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let (vnet, rest) = rest.split_first_chunk::<{ VnetHeader::LEN }>()?;
        let length = u32::from_le_bytes(*length) as usize;
        if length > chain::BYTES {
            return None;
        }
        let (frame, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((VnetHeader::parse(vnet), frame))
    }
}

/// How many frames there are in a text.
pub fn count(text: &[u8]) -> usize {
    Frames(text).count()
}

/// How many frames there are in a text, and their bytes.
pub(crate) fn size(text: &[u8]) -> (u64, u64) {
    Frames(text).fold((0, 0), |(count, bytes), (_, frame)| {
        (count + 1, bytes + frame.len() as u64)
    })
}

/// The text in a file, from where the file stands.
pub(crate) fn read(file: &OwnedFd) -> rustix::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut some = vec![0; 1 << 16];
    // `Read::read_to_end` would ask for the file's length by a system call that a switch does not make.
    while text.len() < BYTES_MAX {
        match rustix::io::read(file.as_fd(), &mut some)? {
            0 => break,
            read => text.extend_from_slice(&some[..read]),
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use abi::region::{Geometry, Interface};
    use abi::ring::{Slot, flags};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn late_frames_are_those_behind_the_others() {
        let geometry = Geometry::new(64, 1).unwrap();
        let interface = Interface::new("eth0", [2, 0, 0, 0, 0, 1], 1500).unwrap();
        let (region, _) = SharedRegion::create(geometry, &[interface]).unwrap();
        let region = Arc::new(region);
        let mut switch = region.switch_side(0).unwrap();
        // Four frames, the third one over two slots.
        let slots = [(60, 0), (61, 0), (1800, flags::MORE), (100, 0), (64, 0)];
        for (i, (len, flags)) in (0..).zip(slots) {
            let slot = Slot {
                len,
                flags,
                ..switch.receive.peek(i)
            };
            let bytes = switch.region.frame(slot).unwrap();
            bytes.write(&vec![i as u8; usize::from(len)]);
            switch.receive.fill(i, slot);
        }
        switch.receive.publish(5);
        let (text, filled) = region.late_frames(0, 1);
        assert_eq!(filled, 5);
        let lengths: Vec<_> = Frames(&text).map(|(_, frame)| frame.len()).collect();
        assert_eq!(lengths, [61, 1900, 64]);
        let last = Frames(&text).last().unwrap().1;
        assert_eq!(last, [4; 64]);
        assert_eq!(count(&region.late_frames(0, 0).0), 4);
        assert!(region.late_frames(0, 5).0.is_empty());
        assert!(region.late_frames(1, 0).0.is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_frames_up_to_some_point(
            text in prop::collection::vec(any::<u8>(), 0..300),
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..5),
        ) {
            let mut written = Vec::new();
            for frame in &frames {
                written.extend((frame.len() as u32).to_le_bytes());
                written.extend([0; VnetHeader::LEN]);
                written.extend(frame);
            }
            let read: Vec<_> = Frames(&written).map(|(_, frame)| frame.to_vec()).collect();
            prop_assert_eq!(read, frames);
            let bytes: usize = Frames(&text).map(|(_, frame)| HEAD + frame.len()).sum();
            prop_assert!(bytes <= text.len());
        }
    }
}
