//! Rings of both layouts, compared with plain models of their drivers, and with arbitrary content.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use proptest::prelude::*;
use rustix::fs::MemfdFlags;

use super::packed::START;
use super::{Addresses, Head, Rings, flags};
use crate::port::vhost::memory::{Extent, Memory, Region};

const AVAILABLE: u64 = 1024;
const USED: u64 = 2048;
const BYTES: u64 = 4096;

/// A ring's memory, as the driver has it.
struct GuestMemory {
    file: File,
    memory: Memory,
}

impl GuestMemory {
    fn new() -> GuestMemory {
        let file = rustix::fs::memfd_create("rings", MemfdFlags::CLOEXEC).expect("a memfd");
        let file = File::from(file);
        file.set_len(BYTES).expect("a length");
        let extent = Extent {
            bytes: BYTES,
            ..Extent::default()
        };
        let mut memory = Memory::default();
        let region = Region::map(file.as_fd(), extent).expect("mapped");
        memory.add(region).expect("added");
        GuestMemory { file, memory }
    }

    fn rings(&self, size: u16, packed: bool) -> Option<Rings> {
        let at = Addresses {
            descriptors: 0,
            available: AVAILABLE,
            used: USED,
        };
        Rings::open(&self.memory, size, at, packed)
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, at).expect("written");
    }

    fn read<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.file.read_exact_at(&mut bytes, at).expect("read");
        bytes
    }

    /// Writes a descriptor: what is in it, and its last two words.
    fn describe(&self, i: u16, address: u64, words: [u16; 2]) {
        let mut bytes = address.to_le_bytes().to_vec();
        bytes.extend([7, 0, 0, 0]);
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        self.write(16 * u64::from(i), &bytes);
    }
}

/// A driver that keeps the rules of one layout or the other.
struct Driver<'a> {
    memory: &'a GuestMemory,
    size: u16,
    packed: bool,
    /// Buffers that were made available, modulo 2¹⁶, and the position of the next in a packed ring.
    offered: u16,
    next: u16,
}

impl Driver<'_> {
    /// The position so many descriptors further on in a packed ring.
    fn after(&self, at: u16, n: u16) -> u16 {
        let (slot, wrap) = (at & !START, at & START);
        match slot + n {
            slot if slot < self.size => slot | wrap,
            slot => (slot - self.size) | (wrap ^ START),
        }
    }

    /// Makes a buffer of so many pieces available.
    fn offer(&mut self, id: u16, pieces: u16) {
        let address = |i: u16| u64::from(id) << 8 | u64::from(i);
        if !self.packed {
            // One descriptor is enough: the table is not what this tries.
            self.memory.describe(id, address(0), [0, 0]);
            let at = AVAILABLE + 4 + 2 * u64::from(self.offered % self.size);
            self.memory.write(at, &id.to_le_bytes());
            self.offered = self.offered.wrapping_add(1);
            self.memory
                .write(AVAILABLE + 2, &self.offered.to_le_bytes());
            return;
        }
        for i in (0..pieces).rev() {
            let at = self.after(self.next, i);
            let lap = if at & START != 0 { 1 << 7 } else { 1 << 15 };
            let (id, on) = match i + 1 == pieces {
                true => (id, 0),
                false => (0xdead, flags::NEXT),
            };
            self.memory
                .describe(at & !START, address(i), [id, lap | on]);
        }
        self.next = self.after(self.next, pieces);
    }
}

thread_local! {
    /// How often a device may still write to a descriptor of a packed ring before it is killed.
    static STORES: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Whether a device lives that is about to write to a descriptor of a packed ring.
pub(super) fn lives() -> bool {
    STORES.with(|stores| {
        let left = stores.get();
        stores.set(left.saturating_sub(1));
        left > 0
    })
}

/// What happens to a ring: so many buffers, of so many pieces, are made available, taken, and
/// given back; and meanwhile the device is killed after it has written so often, and another comes, or not.
fn steps() -> impl Strategy<Value = Vec<(Vec<u16>, usize, usize, Option<usize>)>> {
    let step = (
        prop::collection::vec(1..4u16, 0..6),
        0..8usize,
        0..8usize,
        prop::option::of(0..24usize),
    );
    prop::collection::vec(step, 1..60)
}

proptest! {
    #[test]
    fn buffers_come_in_order_and_go_back_so(packed: bool, size in 0..5u32, odd in 1..20u16, steps in steps()) {
        let size = if packed { odd } else { 1 << size };
        let memory = GuestMemory::new();
        let mut rings = memory.rings(size, packed).expect("rings");
        let start = if packed { START } else { 0 };
        let mut driver = Driver { memory: &memory, size, packed, offered: 0, next: start };
        let (mut given, mut next) = (start, start);
        // Available and not taken; taken and not given back; pieces of both.
        let (mut waiting, mut taken) = (VecDeque::new(), VecDeque::<(Head, u16)>::new());
        let (mut room, mut id) = (size, 0);
        for (offers, takes, gives, ends) in steps {
            for pieces in offers {
                let pieces = if packed { pieces } else { 1 };
                if pieces <= room {
                    driver.offer(id, pieces);
                    waiting.push_back((id, pieces));
                    id = (id + 1) % size;
                    room -= pieces;
                }
            }
            let mut heads = vec![Head::default(); takes];
            let found = rings.peek(given, next, &mut heads).expect("an honest driver");
            prop_assert_eq!(found, takes.min(waiting.len()));
            for head in &heads[..found] {
                let (id, pieces) = waiting.pop_front().expect("so many");
                prop_assert_eq!(head.id, id);
                prop_assert_eq!(head.at, next);
                prop_assert_eq!(head.first.address, u64::from(id) << 8);
                prop_assert_eq!(head.first.flags, if pieces > 1 { flags::NEXT } else { 0 });
                let mut last = head.first;
                for i in 1..pieces {
                    last = rings.entry(last.next).expect("an entry");
                    prop_assert_eq!(last.address, u64::from(id) << 8 | u64::from(i));
                }
                next = head.after;
                taken.push_back((*head, pieces));
            }
            let old = given;
            let mut back: Vec<_> = taken.drain(..gives.min(taken.len())).collect();
            STORES.set(ends.unwrap_or(usize::MAX));
            for (head, _) in &back {
                rings.note(head, 5);
                given = head.after;
            }
            // Of a split ring nothing is to be seen before that.
            if packed || ends.is_none() {
                rings.publish(given);
            }
            STORES.set(usize::MAX);
            if ends.is_some() {
                rings = memory.rings(size, packed).expect("rings");
                given = rings.resume().expect("a position");
                let kept = back.iter().position(|(head, _)| head.after == given);
                let kept = kept.map_or(0, |last| last + 1);
                prop_assert!(kept > 0 || given == old, "{given:x} is no buffer's end");
                taken = back.drain(kept..).chain(taken).collect();
                for (head, pieces) in taken.drain(..).rev() {
                    waiting.push_front((head.id, pieces));
                }
                next = given;
            }
            room += back.iter().map(|(_, pieces)| pieces).sum::<u16>();
            let mut again = memory.rings(size, packed).expect("rings");
            prop_assert_eq!(again.resume(), Some(given));
            prop_assert_eq!(rings.wants_interrupt(old, given, false), true);
            for (head, _) in back {
                if packed {
                    let [words @ .., low, high] = memory.read::<8>(16 * u64::from(head.at & !START) + 8);
                    prop_assert_eq!(words, [5, 0, 0, 0, head.id as u8, 0]);
                    let lap = if head.at & START != 0 { 1 << 7 | 1 << 15 } else { 0 };
                    prop_assert_eq!(u16::from_le_bytes([low, high]), lap | flags::WRITE);
                } else {
                    let at = USED + 4 + 8 * u64::from(head.at % size);
                    prop_assert_eq!(memory.read::<8>(at), [head.id as u8, 0, 0, 0, 5, 0, 0, 0]);
                    prop_assert_eq!(memory.read::<2>(USED + 2), given.to_le_bytes());
                }
            }
        }
    }

    /// The driver of a packed ring gets an interrupt when a buffer at its position, or one that
    /// goes over it, is given back, and for no other buffer.
    #[test]
    fn a_position_is_heard_of_when_it_is_passed(
        size in 1..20u16, from in 0..20u16, n in 1..20u16, event in 0..40u16, lap: bool,
    ) {
        let memory = GuestMemory::new();
        let rings = memory.rings(size, true).expect("a ring");
        let driver = Driver { memory: &memory, size, packed: true, offered: 0, next: 0 };
        let (from, n, event) = (from % size, n.min(size), event % (2 * size));
        let start = if lap { START } else { 0 };
        let position = |i: u16| {
            let at = driver.after(start, i.min(size));
            driver.after(at, i.saturating_sub(size))
        };
        let [low, high] = position(event).to_le_bytes();
        memory.write(AVAILABLE, &[low, high, 2, 0]);
        let (old, new) = (position(from), position(from + n));
        let passed = (from..from + n).any(|i| i % (2 * size) == event);
        prop_assert_eq!(rings.wants_interrupt(old, new, true), passed);
        // Without the event index, the driver gets every interrupt.
        prop_assert!(rings.wants_interrupt(old, new, false));
    }

    #[test]
    fn anything_in_a_ring_is_bounded(
        packed: bool,
        bytes in prop::collection::vec(any::<u8>(), 3072),
        laps in prop::collection::vec(0..8u8, 32),
        given in 0..8u16, lap: bool, ahead in 0..8u16,
    ) {
        let size = 8u16;
        let memory = GuestMemory::new();
        memory.write(0, &bytes);
        if packed {
            // Mostly what is available in this lap or the next.
            for (i, what) in (0..).zip(laps) {
                let high = [0, 0x80, 0x80, 0, 0, 0, 0x80, 0x80][usize::from(what)];
                let low = [0x80, 0, 1, 0x81, 0x81, 0x80, 0x80, 0][usize::from(what)];
                memory.write(16 * i + 14, &[low, high]);
            }
        } else {
            memory.write(AVAILABLE + 2, &[laps[0] + laps[1], 0]);
        }
        let mut rings = memory.rings(size, packed).expect("rings");
        if let Some(at) = rings.resume() {
            prop_assert!(rings.has(at));
            let again = rings.resume();
            prop_assert!(!packed || again == Some(at), "{at} {again:?}");
        }
        let driver = Driver { memory: &memory, size, packed, offered: 0, next: 0 };
        let (given, next) = match packed {
            true => {
                let given = given | if lap { START } else { 0 };
                (given, driver.after(given, ahead))
            }
            false => (0, ahead),
        };
        let mut heads = [Head::default(); 64];
        if let Ok(found) = rings.peek(given, next, &mut heads) {
            prop_assert!(found <= usize::from(size));
            for head in &heads[..found] {
                prop_assert!(packed || head.id < size);
                prop_assert!(rings.has(head.after));
                prop_assert!(!packed || head.first.next < size);
            }
        }
    }
}

#[test]
fn a_ring_has_to_be_where_it_can_be() {
    let memory = GuestMemory::new();
    let open = |size, packed, descriptors, available, used| {
        let at = Addresses {
            descriptors,
            available,
            used,
        };
        Rings::open(&memory.memory, size, at, packed).is_some()
    };
    assert!(open(8, true, 0, 1024, 2048) && open(8, false, 0, 1024, 2048));
    assert!(open(7, true, 0, 1024, 2048) && !open(7, false, 0, 1024, 2048));
    assert!(!open(0, true, 0, 1024, 2048) && !open(0, false, 0, 1024, 2048));
    for packed in [true, false] {
        assert!(!open(8, packed, 8, 1024, 2048), "descriptors unaligned");
        assert!(!open(8, packed, BYTES - 64, 1024, 2048), "descriptors out");
        assert!(!open(8, packed, 0, 1025, 2048), "driver unaligned");
        assert!(!open(8, packed, 0, 1024, 2050), "device unaligned");
        assert!(!open(8, packed, 0, BYTES, 2048), "driver out");
        assert!(!open(8, packed, 0, 1024, BYTES - 2), "device out");
        assert!(!open(32_769, packed, 0, 1024, 2048), "too many");
    }
    assert!(open(8, true, 0, BYTES - 4, 2048), "a wish is 4 bytes");
}
