//! A vhost-user frontend with a virtio-net driver's rings, which keeps the rules or breaks them.
//! Its memory is a file that is read and written by system calls.
#![allow(dead_code)]

#[path = "packed.rs"]
pub mod packed;

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use packed::{AT_POSITION, PACKED_SIZE, PackedRing, Position};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::MemfdFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

/// Messages, by their numbers.
pub mod ask {
    pub const GET_FEATURES: u32 = 1;
    pub const SET_FEATURES: u32 = 2;
    pub const SET_OWNER: u32 = 3;
    pub const SET_MEM_TABLE: u32 = 5;
    pub const SET_VRING_NUM: u32 = 8;
    pub const SET_VRING_ADDR: u32 = 9;
    pub const SET_VRING_BASE: u32 = 10;
    pub const GET_VRING_BASE: u32 = 11;
    pub const SET_VRING_KICK: u32 = 12;
    pub const SET_VRING_CALL: u32 = 13;
    pub const GET_PROTOCOL_FEATURES: u32 = 15;
    pub const SET_PROTOCOL_FEATURES: u32 = 16;
    pub const SET_VRING_ENABLE: u32 = 18;
}

/// Features, by their bits.
pub mod feature {
    pub const GUEST_CSUM: u64 = 1 << 1;
    pub const GUEST_TSO4: u64 = 1 << 7;
    pub const MRG_RXBUF: u64 = 1 << 15;
    pub const INDIRECT: u64 = 1 << 28;
    pub const EVENT_IDX: u64 = 1 << 29;
    pub const PROTOCOL: u64 = 1 << 30;
    pub const VERSION_1: u64 = 1 << 32;
    pub const PACKED: u64 = 1 << 34;
}

pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const INDIRECT: u16 = 4;

/// Entries of each split ring.
pub const SIZE: u16 = 64;
/// Where the memory is in the guest.
pub const GUEST: u64 = 0x1000_0000;
/// Where it is in the frontend.
pub const USER: u64 = 0x7fff_0000_0000;
/// Its length.
pub const BYTES: u64 = 8 << 20;
/// Where buffers begin.
pub const BUFFERS: u64 = 1 << 20;
/// Bytes of one buffer.
pub const BUFFER: u64 = 16 << 10;
/// Length of the header in front of each frame.
pub const HEADER: usize = 12;

pub struct Frontend {
    pub stream: UnixStream,
    pub memory: File,
    /// For each queue: what the driver rings, and what it is rung with.
    pub kicks: Vec<OwnedFd>,
    pub calls: Vec<OwnedFd>,
    /// Whether the rings are packed.
    packed: Cell<bool>,
}

/// Places of a queue's parts in the memory.
pub fn descriptors_at(queue: u32) -> u64 {
    u64::from(queue) * 0x1_0000
}
pub fn available_at(queue: u32) -> u64 {
    descriptors_at(queue) + 0x8000
}
pub fn used_at(queue: u32) -> u64 {
    descriptors_at(queue) + 0xa000
}
/// Position of a queue's indirect descriptors.
pub fn table_at(queue: u32) -> u64 {
    0x8_0000 + u64::from(queue) * 0x8000
}

impl Frontend {
    pub fn connect(path: &Path) -> Frontend {
        Frontend::on(UnixStream::connect(path).expect("connected"))
    }

    pub fn on(stream: UnixStream) -> Frontend {
        let timeout = Some(Duration::from_secs(5));
        stream.set_read_timeout(timeout).expect("a timeout");
        let memory = rustix::fs::memfd_create("frontend", MemfdFlags::CLOEXEC).expect("a memfd");
        let memory = File::from(memory);
        memory.set_len(BYTES).expect("a length");
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bells = || {
            (0..4)
                .map(|_| eventfd(0, flags).expect("an eventfd"))
                .collect()
        };
        Frontend {
            stream,
            memory,
            kicks: bells(),
            calls: bells(),
            packed: Cell::new(false),
        }
    }

    /// Sends a message; says whether it could be sent.
    pub fn send(&self, request: u32, flags: u32, body: &[u8], files: &[BorrowedFd<'_>]) -> bool {
        let mut message = Vec::new();
        for word in [request, flags, body.len() as u32] {
            message.extend(word.to_le_bytes());
        }
        message.extend(body);
        self.send_raw(&message, files)
    }

    pub fn send_raw(&self, message: &[u8], files: &[BorrowedFd<'_>]) -> bool {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(files)));
        }
        let parts = [IoSlice::new(message)];
        rustix::net::sendmsg(&self.stream, &parts, &mut ancillary, SendFlags::NOSIGNAL).is_ok()
    }

    pub fn tell(&self, request: u32, words: &[u64], files: &[BorrowedFd<'_>]) -> bool {
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.send(request, 1, &body, files)
    }

    /// What the switch answers with one number; none if it hangs up.
    pub fn answer(&self) -> Option<u64> {
        let mut message = [0; 20];
        (&self.stream).read_exact(&mut message).ok()?;
        Some(u64::from_le_bytes(*message.last_chunk()?))
    }

    pub fn ask(&self, request: u32) -> Option<u64> {
        self.tell(request, &[], &[]);
        self.answer()
    }

    /// Asks for an index and gets one: that a queue stops.
    pub fn stop(&self, queue: u32) -> Option<u32> {
        self.tell(ask::GET_VRING_BASE, &[u64::from(queue)], &[]);
        self.answer().map(|answer| (answer >> 32) as u32)
    }

    /// Whether the switch still answers.
    pub fn is_served(&self) -> bool {
        self.ask(ask::GET_FEATURES).is_some()
    }

    pub fn share(&self) {
        self.share_as(&[(GUEST, BYTES, USER, 0)], &[self.memory.as_fd()]);
    }

    /// Hands memory over: address in the guest, length, address here, offset in its file.
    pub fn share_as(&self, regions: &[(u64, u64, u64, u64)], files: &[BorrowedFd<'_>]) {
        let mut words = vec![regions.len() as u64];
        for &(guest, bytes, user, offset) in regions {
            words.extend([guest, bytes, user, offset]);
        }
        self.tell(ask::SET_MEM_TABLE, &words, files);
    }

    pub fn set_addresses(&self, queue: u32, descriptors: u64, available: u64, used: u64) {
        let words = [u64::from(queue), descriptors, used, available, 0];
        self.tell(ask::SET_VRING_ADDR, &words, &[]);
    }

    /// Sets a queue up and starts it.
    pub fn start(&self, queue: u32) {
        let of = |n: u64| u64::from(queue) | n << 32;
        let (size, base) = match self.packed.get() {
            true => (PACKED_SIZE, Position::START.number()),
            false => (SIZE, 0),
        };
        self.tell(ask::SET_VRING_NUM, &[of(size.into())], &[]);
        self.tell(ask::SET_VRING_BASE, &[of(base.into())], &[]);
        let [d, a, u] = [descriptors_at, available_at, used_at].map(|at| USER + at(queue));
        self.set_addresses(queue, d, a, u);
        let i = queue as usize;
        let index = [u64::from(queue)];
        self.tell(ask::SET_VRING_CALL, &index, &[self.calls[i].as_fd()]);
        self.tell(ask::SET_VRING_KICK, &index, &[self.kicks[i].as_fd()]);
    }

    /// Connects to another switch, with everything as it is. Like QEMU, it does not know how far
    /// packed rings were worked on.
    pub fn reconnect(&mut self, path: &Path, features: u64) {
        let timeout = Some(Duration::from_secs(5));
        self.stream = UnixStream::connect(path).expect("connected");
        self.stream.set_read_timeout(timeout).expect("a timeout");
        self.announce(features);
    }

    /// Stops a queue and starts it again, without waiting for the answer.
    pub fn restart(&self, queue: u32) {
        self.tell(ask::GET_VRING_BASE, &[u64::from(queue)], &[]);
        self.start(queue);
    }

    /// Tells everything that a driver by the book tells, without waiting for anything: features,
    /// memory, the first pair of queues.
    pub fn announce(&self, features: u64) {
        self.packed.set(features & feature::PACKED != 0);
        self.tell(ask::SET_OWNER, &[], &[]);
        self.tell(ask::SET_FEATURES, &[features], &[]);
        self.share();
        self.start(0);
        self.start(1);
    }

    /// The driver's sides of the first pair of queues.
    pub fn drivers(&self) -> [Driver; 2] {
        self.drivers_of(0)
    }

    /// The driver's sides of a pair of queues.
    pub fn drivers_of(&self, pair: usize) -> [Driver; 2] {
        let memory = || self.memory.try_clone().expect("a copy");
        [2 * pair, 2 * pair + 1].map(|queue| Driver {
            memory: memory(),
            kick: self.kicks[queue].try_clone().expect("a copy"),
            queue: queue as u32,
            given: 0,
            seen: 0,
            packed: (self.packed.get())
                .then(|| RefCell::new(PackedRing::new(memory(), queue as u32))),
            by_table: false,
        })
    }

    /// A driver that has done everything by the book, and knows that it was done.
    pub fn set_up(&self, features: u64) -> [Driver; 2] {
        let offered = self.ask(ask::GET_FEATURES).expect("an answer");
        assert_eq!(features & !offered, 0);
        self.announce(features);
        assert!(self.is_served());
        self.drivers()
    }
}

/// The driver's side of one queue.
pub struct Driver {
    memory: File,
    kick: OwnedFd,
    pub queue: u32,
    given: u16,
    seen: u16,
    packed: Option<RefCell<PackedRing>>,
    /// Frames are sent by indirect descriptors.
    pub by_table: bool,
}

impl Driver {
    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).expect("written");
    }

    pub fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read_exact_at(&mut bytes, at).expect("read");
        bytes
    }

    fn word(&self, at: u64) -> u16 {
        let bytes = self.read(at, 2);
        u16::from_le_bytes([bytes[0], bytes[1]])
    }

    /// The packed ring, if it is one.
    pub fn packed(&self) -> std::cell::RefMut<'_, PackedRing> {
        self.packed.as_ref().expect("a packed ring").borrow_mut()
    }

    pub fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// Entries of the ring.
    pub fn size(&self) -> u16 {
        match self.packed {
            Some(_) => PACKED_SIZE,
            None => SIZE,
        }
    }

    pub fn set_descriptor(&self, i: u16, address: u64, len: u32, flags: u16, next: u16) {
        match &self.packed {
            Some(ring) => ring
                .borrow_mut()
                .set_descriptor(i, (address, len, flags, next)),
            None => {
                let at = descriptors_at(self.queue) + 16 * u64::from(i);
                self.write_entry(at, address, len, [flags, next]);
            }
        }
    }

    fn write_entry(&self, at: u64, address: u64, len: u32, rest: [u16; 2]) {
        let mut bytes = address.to_le_bytes().to_vec();
        bytes.extend(len.to_le_bytes());
        bytes.extend(rest.iter().flat_map(|word| word.to_le_bytes()));
        self.write(at, &bytes);
    }

    /// Writes entry `i` of the queue's indirect table, in the ring's layout.
    pub fn set_entry(&self, i: u16, address: u64, len: u32, flags: u16, next: u16) {
        let rest = match self.packed {
            Some(_) => [0xdead, flags],
            None => [flags, next],
        };
        let at = table_at(self.queue) + 16 * u64::from(i);
        self.write_entry(at, address, len, rest);
    }

    /// Makes the queue's indirect table of so many bytes available as descriptor `i`.
    pub fn offer_table(&mut self, i: u16, bytes: u32, flags: u16) {
        let table = GUEST + table_at(self.queue);
        self.set_descriptor(i, table, bytes, flags | INDIRECT, 0);
        self.offer(i);
    }

    /// Sets the driver to want an interrupt for the `n`-th buffer of the first lap only.
    pub fn hear_of(&self, n: u16) {
        match self.packed {
            Some(_) => {
                let [low, high] = Position::START.after(n).number().to_le_bytes();
                self.write(available_at(self.queue), &[low, high, AT_POSITION as u8, 0]);
            }
            None => {
                let used_event = available_at(self.queue) + 4 + 2 * u64::from(SIZE);
                self.write(used_event, &n.to_le_bytes());
            }
        }
    }

    /// Whether the device wants a notification for the `n`-th buffer of the first lap.
    pub fn is_heard_of(&self, n: u16) -> bool {
        match self.packed {
            Some(_) => {
                let [low, high] = Position::START.after(n).number().to_le_bytes();
                self.read(used_at(self.queue), 4) == [low, high, AT_POSITION as u8, 0]
            }
            None => {
                let avail_event = used_at(self.queue) + 4 + 8 * u64::from(SIZE);
                self.read(avail_event, 2) == n.to_le_bytes()
            }
        }
    }

    /// Makes the buffer that begins at descriptor `head` available.
    pub fn offer(&mut self, head: u16) {
        if let Some(ring) = &self.packed {
            return ring.borrow_mut().offer(head);
        }
        let at = available_at(self.queue);
        let i = u64::from(self.given % SIZE);
        self.write(at + 4 + 2 * i, &head.to_le_bytes());
        self.given = self.given.wrapping_add(1);
        self.write(at + 2, &self.given.to_le_bytes());
    }

    pub fn set_index(&self, index: u16) {
        self.write(available_at(self.queue) + 2, &index.to_le_bytes());
    }

    pub fn ring(&self) {
        rustix::io::write(&self.kick, &1u64.to_ne_bytes()).expect("rung");
    }

    /// Where the frames of this queue's `i`-th buffer are.
    pub fn buffer(&self, i: u16) -> u64 {
        BUFFERS + (u64::from(self.queue) * u64::from(SIZE) + u64::from(i)) * BUFFER
    }

    /// How many buffers are out; of a packed ring, how many descriptors.
    pub fn taken(&self) -> u16 {
        match &self.packed {
            Some(ring) => ring.borrow_mut().taken(),
            None => (self.given).wrapping_sub(self.word(used_at(self.queue) + 2)),
        }
    }

    /// Sends a header and a frame in pieces of the given lengths, from descriptor 0 on, when the
    /// ring has room.
    pub fn send(&mut self, header: [u8; HEADER], frame: &[u8], pieces: &[usize]) {
        let started = Instant::now();
        while self.taken() >= SIZE / 2 {
            assert!(
                started.elapsed() < Duration::from_secs(10),
                "nothing is taken"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        let bytes: Vec<u8> = header.iter().chain(frame).copied().collect();
        let mut left = bytes.as_slice();
        for i in 0..pieces.len() {
            let last = i + 1 == pieces.len();
            let n = if last {
                left.len()
            } else {
                pieces[i].min(left.len())
            };
            let at = self.buffer(i as u16);
            self.write(at, &left[..n]);
            left = &left[n..];
            let flags = if last { 0 } else { NEXT };
            let (i, address) = (i as u16, GUEST + at);
            match self.by_table {
                true => self.set_entry(i, address, n as u32, flags, i + 1),
                false => self.set_descriptor(i, address, n as u32, flags, i + 1),
            }
        }
        match self.by_table {
            true => self.offer_table(0, 16 * pieces.len() as u32, 0),
            false => self.offer(0),
        }
        self.ring();
    }

    /// Makes descriptor `i` available as a buffer of `len` bytes to be filled.
    pub fn give_room(&mut self, i: u16, len: u32) {
        let at = self.buffer(i);
        self.set_descriptor(i, GUEST + at, len, WRITE, 0);
        self.offer(i);
    }

    /// How many buffers have come back that were not taken yet.
    pub fn back(&self) -> u16 {
        if let Some(ring) = &self.packed {
            return ring.borrow_mut().back();
        }
        self.word(used_at(self.queue) + 2).wrapping_sub(self.seen)
    }

    /// The next buffer that came back: its head and how much was written into it.
    pub fn take_back(&mut self) -> Option<(u16, u32)> {
        if let Some(ring) = &self.packed {
            return ring.borrow_mut().take_back();
        }
        if self.back() == 0 {
            return None;
        }
        let at = used_at(self.queue) + 4 + 8 * u64::from(self.seen % SIZE);
        let entry = self.read(at, 8);
        self.seen = self.seen.wrapping_add(1);
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| entry[at + i]));
        Some((word(0) as u16, word(4)))
    }

    /// The next frame that was received, with its header, put together from its buffers.
    pub fn receive(&mut self) -> Option<([u8; HEADER], Vec<u8>)> {
        let (head, len) = self.take_back()?;
        let mut bytes = self.read(self.buffer(head), len as usize);
        let header: [u8; HEADER] = *bytes.first_chunk().expect("a header");
        for _ in 1..u16::from_le_bytes([header[10], header[11]]) {
            let (head, len) = self
                .take_back()
                .expect("as many buffers as the header says");
            bytes.extend(self.read(self.buffer(head), len as usize));
        }
        Some((header, bytes.split_off(HEADER)))
    }
}
