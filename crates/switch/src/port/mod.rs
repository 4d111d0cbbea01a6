//! Ports: where frames come from and go to.
//!
//! A port is a [`Link`] of one kind (a guest's rings, a TAP device, a host interface) with what
//! all kinds have in common: a place in a domain, an MTU, counters, a pace of polling, and a
//! number of violations after which it is closed. The worker takes a batch of frames from one port
//! ([`Link::receive`]), asks the lookup function about them, gives each destination its share
//! ([`Link::send`]) and then hands the batch back ([`Link::release`]).

mod carry;
pub mod flow_hash;
pub mod guest;
pub(crate) mod hold;
pub mod offload;
pub mod packet;
pub mod tap;
#[cfg(feature = "testing")]
pub mod testing;
pub mod vhost;
pub mod vxlan;
mod whole;
pub mod xdp;

use std::os::fd::BorrowedFd;
use std::time::Instant;

use abi::region::SharedBytes;
use rustix::io::Errno;

use crate::counters::{PortCounters, Reason};
use crate::sys::packet::ReceiveMany;
use offload::{ETHERNET, Segmenter, VLAN, VnetHeader};

/// Most frames taken from a port at a time.
pub const BATCH: usize = 64;
/// Bytes in the stage with which a batch is full, however few frames they are.
pub(crate) const STAGED_MAX: usize = 512 << 10;
/// Violations after which a guest's port is closed.
pub const VIOLATIONS_MAX: u32 = 64;

/// How much of what waits is taken from a port at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portion {
    /// Work, in bytes ([`FRAME_WORK`]), as far as a link can tell before; and bytes into the stage.
    pub bytes: u32,
    /// Frames out of rings.
    pub frames: u32,
}

impl Portion {
    /// All that a batch has room for. A nearest cache holds as much; what waits beyond that is
    /// better left where it is, since its destinations have no room for it either.
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
    /// Its first bytes, no longer shared with anyone: what is looked at is what is delivered.
    head: [u8; HEAD],
    len: u32,
    body: Body,
    /// Its first slot, counted from the first of the batch, where the link has slots.
    slot: u16,
    /// The VLAN that it belongs to, where its tag does not say; 0 if it does.
    vlan: u16,
}

/// Where the rest of a frame is.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    /// In a guest's buffer, that the guest may be writing. The first [`HEAD`] bytes in there count
    /// for nothing any more.
    Guest(SharedBytes),
    /// In the stage, at this place.
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

/// Room for the frames that host links give out, and for those of guests on which something is left
/// to do: one cell each, long enough for 64 KB of payload.
/// One stage serves all ports of a worker, since a batch is dealt with before the next is taken.
pub struct Stage {
    memory: Box<[u8]>,
    /// Bytes from one cell to the next.
    stride: usize,
    cells: [Cell; BATCH],
    many: ReceiveMany,
    /// Frames taken in that stand for several, since [`Batch::clear`].
    segmented: u64,
    /// Bytes taken in since then.
    bytes: usize,
}

/// What a cell of the stage holds.
#[derive(Clone, Copy, Default)]
struct Cell {
    /// Where the frame starts, in bytes from the cell's start.
    start: u32,
    len: u32,
    vnet: VnetHeader,
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

    /// The frame in cell `i` and what is left to do on it.
    pub(crate) fn frame(&self, i: u16) -> (&[u8], VnetHeader) {
        let Cell { start, len, vnet } = self.cells[usize::from(i)];
        let from = usize::from(i) * self.stride + start as usize;
        (&self.memory[from..from + len as usize], vnet)
    }

    /// The room of cell `i` for a frame with its virtio-net header.
    fn room(&mut self, i: usize) -> &mut [u8] {
        &mut self.memory[i * Self::STRIDE..][Self::FRONT..Self::STRIDE]
    }

    /// Fills as many cells as the socket has frames, `most` at most; returns how many.
    fn receive_many(&mut self, socket: BorrowedFd<'_>, most: usize) -> Result<usize, Errno> {
        let (memory, many) = (&mut self.memory, &mut self.many);
        many.receive(socket, memory, Self::STRIDE, Self::FRONT, most)
    }

    /// Takes in what arrived in the room of cell `i`: `len` bytes with the virtio-net header, and
    /// a VLAN tag that came beside.
    fn take_in(&mut self, i: usize, len: usize, tag: Option<(u16, u16)>) -> Result<Frame, Reason> {
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
    fn room_for_frame(&mut self, i: usize) -> &mut [u8] {
        &mut self.room(i)[VnetHeader::LEN..]
    }

    /// Takes in a frame of `len` bytes that was put together in cell `i`.
    fn take_whole(&mut self, i: usize, len: usize, vnet: VnetHeader) -> Result<Frame, Reason> {
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

/// The frames taken from one port, and the room that they and their delivery need.
pub struct Batch {
    /// The frames, and behind them the room of those to come.
    frames: Box<[Frame]>,
    len: usize,
    portion: Portion,
    /// Whether any frame may have been said to belong to a VLAN that its bytes do not tell.
    says_vlans: bool,
    pub(crate) stage: Stage,
    /// Where frames out of guests' memory are put together for a system call.
    outbox: Box<[u8]>,
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
    fn is_enough(&self) -> bool {
        self.stage.bytes >= self.portion.bytes as usize
    }

    /// Adds a frame, if there are not [`BATCH`] already.
    fn push(&mut self, frame: Frame) {
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
    fn fill_outbox(&mut self, which: &[u16]) {
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

    /// The bytes of frame `which[place]` and their virtio-net header, after
    /// [`fill_outbox`](Self::fill_outbox) of the same `which`.
    fn outgoing(&self, which: &[u16], place: usize) -> (&[u8], [u8; VnetHeader::LEN]) {
        let frame = &self.frames[usize::from(which[place])];
        match frame.body {
            Body::Guest(_) => {
                let from = place * Self::OUTBOX_STRIDE;
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
    fn fits(&self, frame: &Frame, mtu: u16) -> bool {
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

/// What became of a call on a link, besides what it counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Violations seen.
    pub violations: u32,
    /// The link is there no more.
    pub gone: bool,
    /// Something was taken from the link, even if none of it became a frame: there may be more.
    /// Or something is left to be sent, and has to be offered again by polling.
    pub busy: bool,
    /// What was delivered may not have been noticed: the link is to be [called](Link::call) soon.
    pub owes: bool,
}

impl Outcome {
    const NOTHING: Outcome = Outcome {
        violations: 0,
        gone: false,
        busy: false,
        owes: false,
    };
    const BUSY: Outcome = Outcome {
        busy: true,
        ..Outcome::NOTHING
    };
    pub(crate) const GONE: Outcome = Outcome {
        gone: true,
        ..Outcome::NOTHING
    };
}

/// Where a port leads.
pub enum Link {
    /// To a guest's rings.
    Guest(guest::GuestLink),
    /// To a TAP device.
    Tap(tap::TapLink),
    /// To a host interface, by AF_PACKET.
    Packet(packet::PacketLink),
    /// To a virtual machine, by vhost-user.
    Vhost(Box<vhost::VhostLink>),
    /// To a host interface, by AF_XDP.
    Xdp(xdp::XdpLink),
    /// To other hosts, by VXLAN.
    Vxlan(Box<vxlan::VxlanLink>),
}

impl Link {
    /// Takes up to [`BATCH`] frames into the empty `batch`.
    #[inline]
    pub(crate) fn receive(&mut self, batch: &mut Batch, counters: &PortCounters) -> Outcome {
        match self {
            Link::Guest(link) => link.receive(batch, counters),
            Link::Tap(link) => link.receive(batch, counters),
            Link::Packet(link) => link.receive(batch, counters),
            Link::Vhost(link) => link.receive(batch, counters),
            Link::Xdp(link) => link.receive(batch, counters),
            Link::Vxlan(link) => link.receive(batch, counters),
        }
    }

    /// Whether whoever sends here only is to wait a moment rather than have its frames dropped.
    #[inline]
    pub(crate) fn holds_back(&mut self, now: Instant) -> bool {
        match self {
            Link::Guest(link) => link.holds_back(now),
            _ => false,
        }
    }

    /// Ends a batch: its frames are wanted no more.
    #[inline]
    pub(crate) fn release(&mut self) {
        match self {
            Link::Guest(link) => link.release(),
            Link::Vhost(link) => link.release(),
            Link::Tap(_) | Link::Packet(_) | Link::Xdp(_) | Link::Vxlan(_) => {}
        }
    }

    /// Largest IP packet that the link takes, in bytes.
    pub(crate) fn mtu(&self) -> u16 {
        match self {
            Link::Guest(link) => link.mtu(),
            Link::Tap(link) => link.mtu(),
            Link::Packet(link) => link.mtu(),
            Link::Vhost(link) => link.mtu(),
            Link::Xdp(link) => link.mtu(),
            Link::Vxlan(link) => link.mtu(),
        }
    }

    /// Has the link take IP packets of up to `mtu` bytes.
    pub(crate) fn set_mtu(&mut self, mtu: u16) {
        match self {
            Link::Guest(link) => link.set_mtu(mtu),
            Link::Tap(link) => link.set_mtu(mtu),
            Link::Packet(link) => link.set_mtu(mtu),
            Link::Vhost(link) => link.set_mtu(mtu),
            Link::Xdp(link) => link.set_mtu(mtu),
            Link::Vxlan(link) => link.set_mtu(mtu),
        }
    }

    /// Has the end of a batch give back only the frames before `first`: those from there on are
    /// received again. Returns whether the link can do that.
    pub(crate) fn release_before(&mut self, batch: &Batch, first: usize) -> bool {
        match self {
            Link::Guest(link) => link.release_before(batch, first),
            Link::Vhost(link) => link.release_before(batch, first),
            _ => false,
        }
    }

    /// Whether it is a look into memory to see if the link has frames, and not a system call.
    #[inline]
    pub(crate) fn is_in_memory(&self) -> bool {
        matches!(self, Link::Guest(_) | Link::Vhost(_) | Link::Xdp(_))
    }

    /// Whether it is one of the host's interfaces, or a tunnel: what comes by it may be from many.
    pub(crate) fn is_interface(&self) -> bool {
        match self {
            Link::Packet(_) | Link::Xdp(_) | Link::Vxlan(_) => true,
            Link::Guest(_) | Link::Tap(_) | Link::Vhost(_) => false,
        }
    }

    /// Whether the link has frames, as far as a look into memory tells.
    #[inline]
    pub(crate) fn has_frames(&mut self) -> bool {
        match self {
            Link::Guest(link) => link.has_frames(),
            _ => false,
        }
    }

    /// How many slots its receiver's ring has, if so many frames leave few of them free.
    #[inline]
    pub(crate) fn crowded(&mut self, frames: usize) -> Option<u32> {
        match self {
            Link::Guest(link) => link.crowded(frames as u32),
            _ => None,
        }
    }

    /// Has the next frames that are sent leave so many slots free.
    pub(crate) fn leave(&mut self, slots: u32) {
        if let Link::Guest(link) = self {
            link.leave(slots);
        }
    }

    /// Whether whoever sends by the link is held back by what is not taken from it: a ring or a
    /// queue of its own.
    pub(crate) fn holds(&self) -> bool {
        !self.is_interface()
    }

    /// Delivers the frames `which` of a batch, as many as fit; counts the others with a reason.
    #[inline]
    pub(crate) fn send(
        &mut self,
        batch: &mut Batch,
        which: &[u16],
        counters: &PortCounters,
    ) -> Outcome {
        match self {
            Link::Guest(link) => link.send(batch, which, counters),
            Link::Tap(link) => link.send(batch, which, counters),
            Link::Packet(link) => link.send(batch, which, counters),
            Link::Vhost(link) => link.send(batch, which, counters),
            Link::Xdp(link) => link.send(batch, which, counters),
            Link::Vxlan(link) => link.send(batch, which, counters),
        }
    }

    /// As [`send`](Self::send), from the `from`-th of `which` on, and as much as so much `work` is
    /// ([`FRAME_WORK`]), or all of them. `from` becomes the next. Before all are sent, the other side
    /// may not see the last ones yet.
    pub(crate) fn send_some(
        &mut self,
        batch: &mut Batch,
        which: &[u16],
        from: &mut usize,
        work: usize,
        counters: &PortCounters,
    ) -> Outcome {
        if let Link::Guest(link) = self {
            return link.send_some(batch, which, from, work, counters);
        }
        let rest = &which[(*from).min(which.len())..];
        *from = which.len();
        self.send(batch, rest, counters)
    }

    /// Shows the other side what [`send_some`](Self::send_some) has not yet.
    pub(crate) fn flush(&mut self) {
        if let Link::Guest(link) = self {
            link.flush();
        }
    }

    /// Makes sure that the other side notices what was delivered.
    #[inline]
    pub(crate) fn call(&mut self, counters: &PortCounters) -> Outcome {
        match self {
            Link::Guest(link) => {
                link.wake_for_news();
                Outcome::NOTHING
            }
            Link::Xdp(link) => link.call(counters),
            Link::Tap(_) | Link::Packet(_) | Link::Vhost(_) | Link::Vxlan(_) => Outcome::NOTHING,
        }
    }

    /// Asks for a wake-up when frames come. Returns whether it is now safe to sleep: if not,
    /// frames are there already.
    pub(crate) fn sleep(&mut self) -> bool {
        match self {
            Link::Guest(link) => link.sleep(),
            Link::Vhost(link) => link.sleep(),
            Link::Xdp(link) => link.sleep(),
            // Their descriptors are edge-triggered: after a receive that found nothing, the next
            // frame is an event.
            Link::Tap(_) | Link::Packet(_) | Link::Vxlan(_) => true,
        }
    }

    /// Takes back what [`sleep`](Self::sleep) asked for.
    pub(crate) fn wake(&mut self) {
        match self {
            Link::Guest(link) => link.wake(),
            Link::Vhost(link) => link.wake(),
            Link::Xdp(link) => link.wake(),
            Link::Tap(_) | Link::Packet(_) | Link::Vxlan(_) => {}
        }
    }

    /// Its descriptor told of something while it was polled.
    pub(crate) fn notice(&mut self) {
        if let Link::Vhost(link) = self {
            link.notice();
        }
    }

    /// The port is closed.
    pub(crate) fn close(&mut self) {
        if let Link::Vhost(link) = self {
            link.close();
        }
    }

    /// Whether the link's interface went down, so that it may go away without a word.
    pub(crate) fn is_down(&self) -> bool {
        match self {
            Link::Packet(link) => link.is_down(),
            Link::Xdp(link) => link.is_down(),
            Link::Guest(_) | Link::Tap(_) | Link::Vhost(_) | Link::Vxlan(_) => false,
        }
    }

    /// Whether the link's interface is there no more.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Link::Packet(link) => link.is_gone(),
            Link::Xdp(link) => link.is_gone(),
            Link::Guest(_) | Link::Tap(_) | Link::Vhost(_) | Link::Vxlan(_) => false,
        }
    }

    /// Another way out by the same link, for another lane to send by; none if the link has only
    /// one.
    pub(crate) fn another_way(&self) -> Option<Link> {
        match self {
            Link::Tap(link) => link.another_way().map(Link::Tap),
            Link::Packet(link) => link.another_way().map(Link::Packet),
            Link::Guest(_) | Link::Vhost(_) | Link::Xdp(_) | Link::Vxlan(_) => None,
        }
    }

    /// Brings counters up to date that the kernel keeps.
    pub(crate) fn catch_up(&mut self, counters: &PortCounters) {
        match self {
            Link::Packet(link) => link.catch_up(counters),
            Link::Xdp(link) => link.catch_up(counters),
            Link::Vxlan(link) => link.catch_up(counters),
            Link::Guest(_) | Link::Tap(_) | Link::Vhost(_) => {}
        }
    }

    /// The descriptors that another switch can go on with; none of AF_XDP sockets and of
    /// tunnels, which are opened anew.
    pub(crate) fn files(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Link::Guest(_) | Link::Xdp(_) | Link::Vxlan(_) => Vec::new(),
            Link::Tap(link) => vec![link.as_fd()],
            Link::Packet(link) => vec![link.as_fd()],
            Link::Vhost(link) => link.listener().into_iter().collect(),
        }
    }

    /// The descriptors that tell of frames to receive; none for a guest, whose doorbell does.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Link::Guest(_) => Vec::new(),
            Link::Tap(link) => vec![link.as_fd()],
            Link::Packet(link) => vec![link.as_fd()],
            Link::Vhost(link) => vec![link.as_fd()],
            Link::Xdp(link) => link.descriptors().collect(),
            Link::Vxlan(link) => vec![link.as_fd()],
        }
    }
}

/// Why the kernel would not take a frame; `None` if the link is gone.
fn refusal(error: Errno) -> Option<Reason> {
    match error {
        Errno::MSGSIZE => Some(Reason::TooLong),
        Errno::INVAL => Some(Reason::Offload),
        Errno::NETDOWN | Errno::IO => Some(Reason::LinkDown),
        Errno::NXIO | Errno::NODEV | Errno::BADFD | Errno::BADF => None,
        _ => Some(Reason::NoBuffer),
    }
}
