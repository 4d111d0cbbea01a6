//! A virtio-net driver's side of a packed ring.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;

use super::{NEXT, descriptors_at};

/// Entries of each ring: no power of two, which a packed ring need not be.
pub const PACKED_SIZE: u16 = 61;
/// Flags: the lap in which a buffer was made available, and in which it was given back.
pub const AVAIL: u16 = 1 << 7;
pub const USED: u16 = 1 << 15;
/// An event suppression structure's flags: no notifications, or one for a position.
pub const DISABLE: u16 = 1;
pub const AT_POSITION: u16 = 2;

/// A position in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub slot: u16,
    pub wrap: bool,
}

impl Position {
    pub const START: Position = Position {
        slot: 0,
        wrap: true,
    };

    /// The position `n` descriptors further on, at most a lap.
    pub fn after(self, n: u16) -> Position {
        match self.slot + n {
            slot if slot < PACKED_SIZE => Position { slot, ..self },
            slot => Position {
                slot: slot - PACKED_SIZE,
                wrap: !self.wrap,
            },
        }
    }

    /// As the protocol and event suppression structures have it.
    pub fn number(self) -> u16 {
        self.slot | u16::from(self.wrap) << 15
    }

    /// The flags of what is available in this lap.
    pub fn available(self) -> u16 {
        if self.wrap { AVAIL } else { USED }
    }

    /// The flags of what was given back in this lap.
    fn used(self) -> u16 {
        if self.wrap { AVAIL | USED } else { 0 }
    }
}

/// What a descriptor is to say: address, length, flags, and the next of the buffer's.
type Described = (u64, u32, u16, u16);

/// A packed ring and what its driver knows of it.
pub struct PackedRing {
    memory: File,
    at: u64,
    /// Descriptors from which buffers are made.
    table: Vec<Described>,
    /// Where the next buffer is made available.
    pub next: Position,
    /// Where the next buffer is given back.
    used: Position,
    /// Buffers that are out: ids, and of how many descriptors they are.
    out: VecDeque<(u16, u16)>,
    /// Buffers that came back and were not asked for yet: ids, and how much was written.
    back: VecDeque<(u16, u32)>,
}

impl PackedRing {
    pub fn new(memory: File, queue: u32) -> PackedRing {
        PackedRing {
            memory,
            at: descriptors_at(queue),
            table: vec![(0, 0, 0, 0); PACKED_SIZE.into()],
            next: Position::START,
            used: Position::START,
            out: VecDeque::new(),
            back: VecDeque::new(),
        }
    }

    pub fn set_descriptor(&mut self, i: u16, described: Described) {
        self.table[usize::from(i)] = described;
    }

    /// Writes one descriptor of the ring.
    pub fn write(&self, slot: u16, address: u64, len: u32, id: u16, flags: u16) {
        let mut bytes = address.to_le_bytes().to_vec();
        bytes.extend(len.to_le_bytes());
        bytes.extend(id.to_le_bytes());
        let at = self.at + 16 * u64::from(slot);
        // What it says first, that it says something then.
        self.memory.write_all_at(&bytes, at).expect("written");
        let flags = flags.to_le_bytes();
        self.memory.write_all_at(&flags, at + 14).expect("written");
    }

    /// Makes the buffer that begins at descriptor `id` of the table available: the first
    /// descriptor last. Of one without an end, as much as the ring has room for.
    pub fn offer(&mut self, id: u16) {
        let room = usize::from(PACKED_SIZE - self.taken());
        assert!(room > 0, "the ring is full");
        let mut chain = vec![self.table[usize::from(id)]];
        while let Some(&(_, _, flags, next)) = chain.last() {
            if flags & NEXT == 0 || chain.len() == room {
                break;
            }
            chain.push(self.table[usize::from(next)]);
        }
        let len = chain.len() as u16;
        for (i, (address, bytes, flags, _)) in (0..len).zip(chain).rev() {
            let position = self.next.after(i);
            // Only the last one's id counts.
            let id = if i + 1 == len { id } else { 0xdead };
            self.write(
                position.slot,
                address,
                bytes,
                id,
                flags | position.available(),
            );
        }
        self.next = self.next.after(len);
        self.out.push_back((id, len));
    }

    /// How many descriptors are out.
    pub fn taken(&mut self) -> u16 {
        self.collect();
        self.out.iter().map(|(_, len)| len).sum()
    }

    /// Takes what came back out of the ring.
    fn collect(&mut self) {
        while let Some(&(expected, len)) = self.out.front() {
            let mut entry = [0; 16];
            let at = self.at + 16 * u64::from(self.used.slot);
            self.memory.read_exact_at(&mut entry, at).expect("read");
            let word = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
            if word(14) & (AVAIL | USED) != self.used.used() {
                return;
            }
            let id = word(12);
            assert_eq!(id, expected, "buffers come back in order");
            let written = u32::from(word(8)) | u32::from(word(10)) << 16;
            self.back.push_back((id, written));
            self.used = self.used.after(len);
            self.out.pop_front();
        }
    }

    pub fn back(&mut self) -> u16 {
        self.collect();
        self.back.len() as u16
    }

    pub fn take_back(&mut self) -> Option<(u16, u32)> {
        self.collect();
        self.back.pop_front()
    }
}
