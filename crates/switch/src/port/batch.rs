//! Frames, and the batch that a port receives at a time, with the storage that the frames and their
//! delivery need.

use std::os::fd::BorrowedFd;

use abi::SharedBytes;
use abi::settle;
use rustix::io::Errno;

use super::offload::{self, ETHERNET, Segmenter, VLAN, VnetHeader};
use crate::counters::{PortCounters, Reason};
use crate::sys::packet::ReceiveMany;

/// Most frames taken from a port at a time.
pub const BATCH: usize = 64;
/// Bytes in the stage with which a batch is full, however few frames they are.
pub(crate) const STAGED_MAX: usize = 512 << 10;
/// The most frames and bytes taken from a port at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portion {
    /// Work, in bytes ([`FRAME_WORK`]), as far as a link can tell before; and bytes into the stage.
    pub bytes: u32,
    /// Frames out of rings.
    pub frames: u32,
}

impl Portion {
    /// A full batch, which fits the nearest cache. Frames beyond that are better left in the ring,
    /// since their destinations have no room for them either.
    pub const WHOLE: Portion = Portion {
        bytes: STAGED_MAX as u32,
        frames: BATCH as u32,
    };
}

/// What a frame takes besides its bytes, in bytes that would take as long to copy, about.
pub(crate) const FRAME_WORK: usize = 300;
/// How much of each frame is taken out of shared memory before anything is decided about it: a
/// cache line, enough for Ethernet, IP and transport addresses. Shorter frames are followed by
/// zeros.
pub const HEAD: usize = 64;

/// One frame of a batch.
#[repr(align(64))]
pub struct Frame {
    /// Its first bytes, no longer shared: the bytes that are inspected are the bytes that are
    /// delivered.
    pub(super) head: [u8; HEAD],
    pub(super) len: u32,
    pub(super) body: Body,
    /// Its first slot, counted from the first of the batch, where the link has slots.
    pub(super) slot: u16,
    /// The VLAN that it belongs to, where its tag does not say; 0 if it does.
    pub(super) vlan: u16,
}

/// Where the rest of a frame is.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    /// In a guest's buffer, that the guest may be writing. The first [`HEAD`] bytes in there count
    /// for nothing any more.
    Guest(SharedBytes),
    /// In the stage, in this cell.
    Staged(u16),
}

impl Frame {
    #[inline(always)]
    pub(crate) fn new(head: [u8; HEAD], len: usize, body: Body) -> Frame {
        Frame {
            head,
            len: len as u32,
            body,
            slot: 0,
            vlan: 0,
        }
    }

    /// The first bytes, and zeros behind the end of a shorter frame.
    #[inline(always)]
    pub fn head(&self) -> &[u8; HEAD] {
        &self.head
    }

    /// Length, in bytes from the Ethernet header on.
    #[inline(always)]
    #[expect(clippy::len_without_is_empty, reason = "no frame is without a header")]
    pub fn len(&self) -> usize {
        self.len as usize
    }
}

/// Storage for the frames of host links, and for guests' frames with a partial checksum or several
/// segments: one cell each, long enough for 64 KB of payload. One stage serves all ports of a
/// worker, since a batch is dealt with before the next is taken.
pub struct Stage {
    pub(super) memory: Box<[u8]>,
    /// Bytes from one cell to the next.
    pub(super) stride: usize,
    pub(super) cells: [Cell; BATCH],
    pub(super) many: ReceiveMany,
    /// Frames taken in that stand for several, since [`Batch::clear`].
    pub(super) segmented: u64,
    /// Bytes taken in since then.
    pub(super) bytes: usize,
}

/// What a cell of the stage holds.
#[derive(Clone, Copy, Default)]
pub(super) struct Cell {
    /// Where the frame starts, in bytes from the cell's start.
    pub(super) start: u32,
    pub(super) len: u32,
    pub(super) vnet: VnetHeader,
}

impl Stage {
    /// Where a frame with its virtio-net header is put in a cell: behind room for a VLAN tag, and
    /// so that the frame itself is aligned to a cache line.
    const FRONT: usize = 64 - VnetHeader::LEN;
    /// Bytes from one cell to the next: an odd number of cache lines, so that the cells' first
    /// lines fall in different sets of the caches. Untouched pages take no memory.
    const STRIDE: usize = 64 * 1033;

    fn new() -> Stage {
        Stage {
            memory: vec![0; BATCH * Self::STRIDE].into(),
            stride: Self::STRIDE,
            cells: [Cell::default(); BATCH],
            many: ReceiveMany::new(BATCH),
            segmented: 0,
            bytes: 0,
        }
    }

    /// The frame in cell `i` and its offload header.
    pub(crate) fn frame(&self, i: u16) -> (&[u8], VnetHeader) {
        let Cell { start, len, vnet } = self.cells[usize::from(i)];
        let from = usize::from(i) * self.stride + start as usize;
        (&self.memory[from..from + len as usize], vnet)
    }

    /// The room of cell `i` for a frame with its virtio-net header.
    pub(super) fn room(&mut self, i: usize) -> &mut [u8] {
        &mut self.memory[i * Self::STRIDE..][Self::FRONT..Self::STRIDE]
    }

    /// Fills as many cells as the socket has frames, `most` at most; returns how many.
    pub(super) fn receive_many(
        &mut self,
        socket: BorrowedFd<'_>,
        most: usize,
    ) -> Result<usize, Errno> {
        let (memory, many) = (&mut self.memory, &mut self.many);
        many.receive(socket, memory, Self::STRIDE, Self::FRONT, most)
    }

    /// Takes in what arrived in the room of cell `i`: `len` bytes with the virtio-net header, and
    /// a VLAN tag that came beside.
    pub(super) fn take_in(
        &mut self,
        i: usize,
        len: usize,
        tag: Option<(u16, u16)>,
    ) -> Result<Frame, Reason> {
        if len < VnetHeader::LEN + ETHERNET {
            return Err(Reason::Runt);
        }
        let cell = &mut self.memory[i * Self::STRIDE..(i + 1) * Self::STRIDE];
        let mut start = Self::FRONT + VnetHeader::LEN;
        let mut len = len - VnetHeader::LEN;
        let mut vnet = [0; VnetHeader::LEN];
        vnet.copy_from_slice(&cell[Self::FRONT..start]);
        let mut vnet = VnetHeader::parse(&vnet);
        if let Some((protocol, control)) = tag {
            let addresses = ETHERNET - 2;
            cell.copy_within(start..start + addresses, start - VLAN);
            start -= VLAN;
            len += VLAN;
            let at = start + addresses;
            cell[at..at + 2].copy_from_slice(&protocol.to_be_bytes());
            cell[at + 2..at + 4].copy_from_slice(&control.to_be_bytes());
            vnet = vnet.with_tag();
        }
        self.keep(i, start, len, vnet)
    }

    /// The room of cell `i` for a frame that is put together there, to be [kept](Self::take_whole)
    /// then.
    pub(super) fn room_for_frame(&mut self, i: usize) -> &mut [u8] {
        &mut self.room(i)[VnetHeader::LEN..]
    }

    /// Takes in a frame of `len` bytes that was put together in cell `i`.
    pub(super) fn take_whole(
        &mut self,
        i: usize,
        len: usize,
        vnet: VnetHeader,
    ) -> Result<Frame, Reason> {
        self.keep(i, Self::FRONT + VnetHeader::LEN, len, vnet)
    }

    /// Takes in the frame that starts at `start` in cell `i`, if what its header says can be done.
    fn keep(
        &mut self,
        i: usize,
        start: usize,
        len: usize,
        mut vnet: VnetHeader,
    ) -> Result<Frame, Reason> {
        let frame = &self.memory[i * Self::STRIDE..(i + 1) * Self::STRIDE][start..start + len];
        if vnet.is_segmented() {
            let segments = Segmenter::new(frame, vnet).map_err(|_| Reason::Offload)?;
            vnet = vnet.with_header_len(segments.header_len());
            self.segmented += 1;
        }
        self.bytes += len;
        let mut head = [0; HEAD];
        let known = len.min(HEAD);
        head[..known].copy_from_slice(&frame[..known]);
        self.cells[i] = Cell {
            start: start as u32,
            len: len as u32,
            vnet,
        };
        Ok(Frame::new(head, len, Body::Staged(i as u16)))
    }
}

/// A frame of a batch under way to a guest, and what the guest is told with it.
pub(crate) struct PassedFrame {
    /// Its number in the batch.
    pub frame: u16,
    pub passed: settle::Passed,
    /// Whether the guest was told.
    pub told: bool,
}

/// The frames taken from one port, and the room that they and their delivery need.
pub struct Batch {
    /// The frames, and behind them the room of those to come.
    pub(super) frames: Box<[Frame]>,
    pub(super) len: usize,
    pub(super) portion: Portion,
    /// Whether any frame may have been said to belong to a VLAN that its bytes do not tell.
    pub(super) says_vlans: bool,
    pub(crate) stage: Stage,
    /// Where frames out of guests' memory are put together for a system call.
    pub(super) outbox: Box<[u8]>,
    /// What a guest said between its frames.
    pub(crate) messages: Vec<[u8; settle::BYTES]>,
    /// What the guest to which frames are under way is told with some of them.
    pub(crate) passed: Vec<PassedFrame>,
}

impl Batch {
    /// Bytes from one frame to the next in the outbox.
    const OUTBOX_STRIDE: usize = abi::region::BUFFER_STRIDE;

    /// An empty batch with all its room.
    pub(crate) fn new() -> Batch {
        Batch {
            frames: (0..BATCH)
                .map(|_| Frame::new([0; HEAD], 0, Body::Staged(0)))
                .collect(),
            len: 0,
            portion: Portion::WHOLE,
            says_vlans: false,
            stage: Stage::new(),
            outbox: vec![0; BATCH * Self::OUTBOX_STRIDE].into(),
            messages: Vec::with_capacity(BATCH),
            passed: Vec::with_capacity(BATCH),
        }
    }

    /// The frames.
    #[inline(always)]
    pub(crate) fn frames(&self) -> &[Frame] {
        &self.frames[..self.len.min(BATCH)]
    }

    /// Forgets all frames.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.messages.clear();
        self.passed.clear();
        self.says_vlans = false;
        self.stage.segmented = 0;
        self.stage.bytes = 0;
    }

    /// Says how much to take.
    #[inline]
    pub(crate) fn set_portion(&mut self, portion: Portion) {
        self.portion = portion;
    }

    /// The end of the piece of `which` that begins at `first` and takes so much work
    /// ([`FRAME_WORK`]), about.
    #[inline(always)]
    pub(crate) fn piece(&self, which: &[u16], first: usize, work: usize) -> usize {
        if work == usize::MAX {
            return which.len();
        }
        let mut done = 0;
        let frames = which.iter().skip(first).take_while(|&&i| {
            let goes = done < work;
            done += self.frames[usize::from(i)].len() + FRAME_WORK;
            goes
        });
        first + frames.count()
    }

    /// Whether as much is staged.
    #[inline]
    pub(super) fn is_enough(&self) -> bool {
        self.stage.bytes >= self.portion.bytes as usize
    }

    /// Adds a frame, if there are not [`BATCH`] already.
    pub(super) fn push(&mut self, frame: Frame) {
        if let Some(room) = self.frames.get_mut(self.len) {
            *room = frame;
            self.len += 1;
        }
    }

    /// Counts the first `n` frames as taken in by a port. Returns their bytes.
    pub(crate) fn count(&self, n: usize, counters: &PortCounters, by_wakeup: bool) -> u64 {
        let bytes = self.bytes_of(n);
        counters.came_in(n as u64, bytes);
        if self.stage.segmented > 0 {
            let segmented = (0..n).filter(|&i| self.vnet(i as u16).is_segmented());
            counters.segmented_in(segmented.count() as u64);
        }
        if n > 0 {
            counters.chain(n as u64, by_wakeup);
        }
        bytes
    }

    /// Copies the frames of `which` that come from guests into the outbox, so that a system call
    /// can have them.
    pub(super) fn fill_outbox(&mut self, which: &[u16]) {
        let rooms = self.outbox.chunks_exact_mut(Self::OUTBOX_STRIDE);
        for (room, &i) in rooms.zip(which) {
            let frame = &self.frames[usize::from(i)];
            if let Body::Guest(shared) = frame.body {
                let (head, rest) = room.split_at_mut(HEAD);
                head.copy_from_slice(&frame.head);
                shared.skip(HEAD).read(rest);
            }
        }
    }

    /// The bytes of frame `which[index]` and their virtio-net header, after
    /// [`fill_outbox`](Self::fill_outbox) of the same `which`.
    pub(super) fn outgoing(&self, which: &[u16], index: usize) -> (&[u8], [u8; VnetHeader::LEN]) {
        let frame = &self.frames[usize::from(which[index])];
        match frame.body {
            Body::Guest(_) => {
                let from = index * Self::OUTBOX_STRIDE;
                (&self.outbox[from..from + frame.len()], VnetHeader::NONE)
            }
            Body::Staged(cell) => {
                let (bytes, vnet) = self.stage.frame(cell);
                (bytes, vnet.to_bytes())
            }
        }
    }

    /// Whether a host link with this MTU can take the frame: its segments, if it stands for
    /// several, else the frame itself.
    pub(super) fn fits(&self, frame: &Frame, mtu: u16) -> bool {
        let limit = usize::from(mtu) + ETHERNET + offload::tags_len(&frame.head);
        if frame.len() <= limit {
            return true;
        }
        let Body::Staged(cell) = frame.body else {
            return false;
        };
        let (bytes, vnet) = self.stage.frame(cell);
        vnet.is_segmented()
            && Segmenter::new(bytes, vnet).is_ok_and(|segments| segments.longest() <= limit)
    }
}
