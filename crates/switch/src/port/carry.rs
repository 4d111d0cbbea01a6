//! Batches of copies, which carry frames from one lane to another.

use super::batch::{Cell, STAGED_MAX};
use super::offload::VnetHeader;
use super::{BATCH, Batch, Body, Frame, HEAD, Portion, Stage};
use crate::sys::packet::ReceiveMany;

/// Bytes of copies that a batch has room for: any batch that a port receives fits.
const ROOM: usize = STAGED_MAX + (128 << 10);
/// Each copy starts a cache line.
const LINE: usize = 64;

impl Batch {
    /// A batch that takes copies of others' frames ([`adopt`](Self::adopt)). Untouched pages take
    /// no memory.
    pub(crate) fn to_carry() -> Batch {
        Batch {
            frames: (0..BATCH)
                .map(|_| Frame::new([0; HEAD], 0, Body::Staged(0)))
                .collect(),
            len: 0,
            portion: Portion::WHOLE,
            says_vlans: false,
            stage: Stage {
                memory: vec![0; ROOM].into(),
                stride: 0,
                cells: [Cell::default(); BATCH],
                many: ReceiveMany::new(0),
                segmented: 0,
                bytes: 0,
            },
            outbox: Box::default(),
            messages: Vec::new(),
            passed: Vec::new(),
        }
    }

    /// Adds a copy of frame `i` of another batch. Returns whether there was room.
    pub(crate) fn adopt(&mut self, from: &Batch, i: u16) -> bool {
        let frame = &from.frames[usize::from(i)];
        let cell = self.len;
        let start = self.stage.bytes;
        let room = self.stage.memory.get_mut(start..start + frame.len());
        let (Some(room), true) = (room, cell < BATCH) else {
            return false;
        };
        let vnet = match frame.body {
            Body::Guest(shared) => {
                let (head, rest) = room.split_at_mut(frame.len().min(HEAD));
                head.copy_from_slice(&frame.head[..head.len()]);
                shared.skip(HEAD).read(rest);
                VnetHeader::default()
            }
            Body::Staged(cell) => {
                let (bytes, vnet) = from.stage.frame(cell);
                room.copy_from_slice(bytes);
                vnet
            }
        };
        self.stage.bytes = (start + frame.len()).next_multiple_of(LINE);
        self.stage.cells[cell] = Cell {
            start: start as u32,
            len: frame.len,
            vnet,
        };
        let mut copy = Frame::new(frame.head, frame.len(), Body::Staged(cell as u16));
        copy.vlan = frame.vlan;
        self.says_vlans |= frame.vlan != 0;
        self.push(copy);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn staged(frames: &[&[u8]]) -> Batch {
        let mut batch = Batch::new();
        for (i, frame) in frames.iter().enumerate() {
            batch.stage.room_for_frame(i)[..frame.len()].copy_from_slice(frame);
            let frame = batch
                .stage
                .take_whole(i, frame.len(), VnetHeader::default());
            batch.push(frame.unwrap());
        }
        batch
    }

    #[test]
    fn copies_are_what_they_were_and_a_full_batch_takes_no_more() {
        let (short, long) = ([1; 60], [2; 1514]);
        let from = staged(&[&short, &long]);
        let mut to = Batch::to_carry();
        for round in 0..2 {
            for n in 0..BATCH {
                assert!(to.adopt(&from, (n % 2) as u16), "round {round}, frame {n}");
            }
            assert!(!to.adopt(&from, 0));
            for (n, frame) in to.frames().iter().enumerate() {
                let expected: &[u8] = if n % 2 == 0 { &short } else { &long };
                let Body::Staged(cell) = frame.body else {
                    panic!("a copy is staged");
                };
                assert_eq!(to.stage.frame(cell), (expected, VnetHeader::default()));
                let head = expected.len().min(HEAD);
                assert_eq!(frame.head[..head], expected[..head]);
            }
            to.clear();
        }
    }

    #[test]
    fn as_much_as_a_port_gives_out_has_room() {
        let long = vec![3; 65_000];
        let from = staged(&[&long]);
        let mut to = Batch::to_carry();
        let mut bytes = 0;
        while bytes < STAGED_MAX {
            assert!(to.adopt(&from, 0));
            bytes += long.len();
        }
        while to.adopt(&from, 0) {}
        assert!(to.frames().len() < BATCH);
    }
}
