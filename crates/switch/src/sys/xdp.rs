//! AF_XDP sockets: opening them, and their rings.
//!
//! One process opens a socket, another moves frames by it. The first is privileged: it makes the
//! socket, registers a memory file as its UMEM, binds it to a queue, and passes socket and file to
//! the second ([`open`]). The second maps the rings and the file and needs no privilege for that
//! ([`XdpQueue::map`]; Linux 6.4 or later lets it). The crates for AF_XDP know only sockets that
//! they made themselves, in one process, so the rings are worked here; rustix has the rest.
//!
//! The UMEM is cut into chunks. Half of them go round between fill ring, receive ring and the
//! switch, the other half between transmit ring, completion ring and the switch. Each ring has
//! room for all chunks that can be in it, so filling one never fails. A queue's UMEM has 8 MB, or
//! 16 MB above an MTU of 1774 bytes; the largest MTU is 3822. Only the process that works the rings
//! knows which chunks the kernel has, so a switch that replaces another gets newly opened sockets.

use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::mm::ProtFlags;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpDescOptions,
    XdpOptionsFlags, XdpRingFlags, XdpRingOffset, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags,
    SocketType, sockopt,
};

use super::set_option;
use crate::memory::Mapping;

/// Entries of each of a queue's rings.
pub const RING: u32 = 2048;
/// Chunks of a queue's UMEM: half for each direction.
pub const CHUNKS: u32 = 2 * RING;
/// What the kernel keeps free in front of a received frame (`XDP_PACKET_HEADROOM`), in bytes.
const HEADROOM: usize = 256;
/// Sizes that a chunk can have, in bytes.
const CHUNK_SIZES: [usize; 2] = [2048, 4096];
/// Bytes of frames that the kernel may have in hand for a socket before it must be told again.
const SEND_BUFFER: i32 = 16 << 20;

/// The size of chunk that frames of up to `frame` bytes need, if there is one.
pub fn chunk_for(frame: usize) -> Option<usize> {
    CHUNK_SIZES
        .into_iter()
        .find(|chunk| frame <= chunk - HEADROOM)
}

/// Bytes of a UMEM of chunks of `chunk` bytes.
pub const fn umem_bytes(chunk: usize) -> usize {
    CHUNKS as usize * chunk
}

/// Whether the interface's driver moves frames without copying them. Found out by binding a
/// socket with room for two frames.
pub fn has_zero_copy(interface: u32) -> bool {
    let probe = || {
        let file = crate::memory::sealed_file("weir-probe", 2 * CHUNK_SIZES[1]).ok()?;
        let socket = socket(&file, 0, CHUNK_SIZES[1], 2).ok()?;
        bind(&socket, interface, 0, SocketAddrXdpFlags::XDP_ZEROCOPY).ok()
    };
    probe().is_some()
}

/// Opens a socket on one queue of an interface, its UMEM the `index`-th share of `file`.
/// It moves frames without copying them if the driver can.
pub fn open(
    interface: u32,
    queue: u32,
    file: &OwnedFd,
    index: usize,
    chunk: usize,
) -> Result<OwnedFd, Errno> {
    let socket = socket(file, index, chunk, RING)?;
    let fd = socket.as_fd();
    set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER)?;
    // All that is in the ring in one call. Came with Linux 6.17; before, it is 32 frames a call.
    const MAX_TX_SKB_BUDGET: libc::c_int = 9;
    let _ = set_option(fd, libc::SOL_XDP, MAX_TX_SKB_BUDGET, &RING);
    bind(&socket, interface, queue, SocketAddrXdpFlags::empty())?;
    Ok(socket)
}

/// An unbound socket with rings of `ring` entries and a UMEM of twice as many chunks.
fn socket(file: &OwnedFd, index: usize, chunk: usize, ring: u32) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)?;
    let chunks = match ring {
        RING => CHUNKS,
        // A probe never has frames to move.
        ring => ring,
    };
    let bytes = chunks as usize * chunk;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let offset = (index * bytes) as u64;
    // The kernel holds on to the file's pages; the mapping is only to name them.
    let mapping = Mapping::part(file.as_fd(), offset, bytes, protection)?;
    sockopt::set_xdp_umem_reg(
        &socket,
        XdpUmemReg {
            addr: mapping.base().as_ptr() as u64,
            len: bytes as u64,
            chunk_size: chunk as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        },
    )?;
    sockopt::set_xdp_umem_fill_ring_size(&socket, ring)?;
    sockopt::set_xdp_umem_completion_ring_size(&socket, ring)?;
    sockopt::set_xdp_rx_ring_size(&socket, ring)?;
    sockopt::set_xdp_tx_ring_size(&socket, ring)?;
    Ok(socket)
}

fn bind(
    socket: &OwnedFd,
    interface: u32,
    queue: u32,
    flags: SocketAddrXdpFlags,
) -> Result<(), Errno> {
    let flags = flags | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
    rustix::net::bind(socket, &SocketAddrXdp::new(flags, interface, queue))
}

/// Whether the frames of a bound socket are not copied.
pub fn is_zero_copy(socket: BorrowedFd<'_>) -> bool {
    sockopt::xdp_options(socket)
        .is_ok_and(|options| options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
}

/// One ring, shared with the kernel: entries and the two cursors, which only grow.
struct Ring<T> {
    _mapping: Mapping,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    /// The cursor of our own side.
    ours: u32,
    /// The other side's cursor, when it was last looked at.
    theirs: u32,
    _entries: PhantomData<T>,
}

// SAFETY: a ring is used by its owner and by the kernel, which keeps to the cursors.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    fn map(
        socket: BorrowedFd<'_>,
        offset: u64,
        offsets: XdpRingOffset,
        produces: bool,
    ) -> Result<Ring<T>, Errno> {
        let desc = offsets.desc as usize;
        let bytes = desc + RING as usize * size_of::<T>();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let mapping = Mapping::part(socket, offset, bytes, protection)?;
        // Kernels without flags (before 5.4) need no wake-ups. The producer's offset is a
        // placeholder: on such a kernel, binding fails before.
        let flags = offsets.flags.unwrap_or(offsets.producer);
        // SAFETY: the kernel told these offsets of the mapping, which it made as long as this.
        let (producer, consumer, flags, entries) = unsafe {
            let base = mapping.base();
            (
                base.add(offsets.producer as usize).cast::<AtomicU32>(),
                base.add(offsets.consumer as usize).cast::<AtomicU32>(),
                base.add(flags as usize).cast::<AtomicU32>(),
                base.add(desc).cast::<T>(),
            )
        };
        let mut ring = Ring {
            _mapping: mapping,
            producer,
            consumer,
            flags,
            entries,
            ours: 0,
            theirs: 0,
            _entries: PhantomData,
        };
        let (made, used) = (ring.cursor(true), ring.cursor(false));
        (ring.ours, ring.theirs) = if produces { (made, used) } else { (used, made) };
        Ok(ring)
    }

    fn cursor(&self, producer: bool) -> u32 {
        let cursor = if producer {
            self.producer
        } else {
            self.consumer
        };
        // SAFETY: inside the mapping, which lives as long as `self`; only atomic accesses.
        unsafe { cursor.as_ref() }.load(Ordering::Acquire)
    }

    /// Shows the kernel our cursor.
    fn publish(&self, producer: bool) {
        let cursor = if producer {
            self.producer
        } else {
            self.consumer
        };
        // SAFETY: as above.
        unsafe { cursor.as_ref() }.store(self.ours, Ordering::Release);
    }

    /// Whether the kernel must be woken for new entries in this ring.
    fn needs_wakeup(&self) -> bool {
        // SAFETY: as above.
        let flags = unsafe { self.flags.as_ref() }.load(Ordering::Relaxed);
        XdpRingFlags::from_bits_retain(flags).contains(XdpRingFlags::XDP_RING_NEED_WAKEUP)
    }

    fn entry(&self, cursor: u32) -> *mut T {
        // SAFETY: the index is below RING, as many entries as the mapping has.
        unsafe { self.entries.as_ptr().add((cursor % RING) as usize) }
    }

    /// Consumer: entries that are there, `enough` being enough to know of.
    fn filled(&mut self, enough: u32) -> u32 {
        if self.theirs.wrapping_sub(self.ours) < enough {
            self.theirs = self.cursor(true);
        }
        self.theirs.wrapping_sub(self.ours).min(RING)
    }

    /// Consumer: the `i`-th entry that is there.
    fn peek(&self, i: u32) -> T {
        // SAFETY: written by the kernel before it moved its cursor past it, and ours until we
        // move ours.
        unsafe { self.entry(self.ours.wrapping_add(i)).read() }
    }

    /// Consumer: hands `n` entries back.
    fn consume(&mut self, n: u32) {
        self.ours = self.ours.wrapping_add(n);
        self.publish(false);
    }

    /// Producer: writes the next entry, to be published.
    fn produce(&mut self, entry: T) {
        // SAFETY: there is room for every chunk of this direction, so the place is not in use.
        unsafe { self.entry(self.ours).write(entry) };
        self.ours = self.ours.wrapping_add(1);
    }

    /// Producer: how many entries the kernel has not taken.
    fn pending(&mut self) -> u32 {
        self.theirs = self.cursor(false);
        self.ours.wrapping_sub(self.theirs)
    }
}

/// What a kick came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kick {
    /// Nothing is left to be sent, or the driver goes on by itself.
    Done,
    /// The interface takes no more now: the other frames stay in the ring.
    Full,
    /// The interface is down: the other frames stay in the ring.
    Down,
    /// The interface no longer exists.
    Gone,
}

/// A frame to send, by its position in the UMEM.
#[derive(Clone, Copy, Debug)]
pub struct Chunk(u64);

/// A bound socket's rings and its share of the UMEM.
pub struct XdpQueue {
    socket: OwnedFd,
    umem: Mapping,
    chunk: usize,
    fill: Ring<u64>,
    receive: Ring<XdpDesc>,
    transmit: Ring<XdpDesc>,
    completion: Ring<u64>,
    /// Chunks to send with, the one used last on top.
    free: Vec<u64>,
    /// Transmit entries written and not published.
    written: u32,
    /// Frames that the kernel had dropped when it was last asked.
    lost: u64,
}

impl XdpQueue {
    /// Maps the rings of a socket that [`open`] made and its share of the UMEM, and gives the
    /// kernel chunks to receive into.
    pub fn map(
        socket: OwnedFd,
        file: BorrowedFd<'_>,
        index: usize,
        chunk: usize,
    ) -> Result<XdpQueue, Errno> {
        if !CHUNK_SIZES.contains(&chunk) {
            return Err(Errno::INVAL);
        }
        let offsets = sockopt::xdp_mmap_offsets(&socket)?;
        let fd = socket.as_fd();
        let bytes = umem_bytes(chunk);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let umem = Mapping::part(file, (index * bytes) as u64, bytes, protection)?;
        let mut fill = Ring::map(fd, XDP_UMEM_PGOFF_FILL_RING, offsets.fr, true)?;
        let receive = Ring::map(fd, XDP_PGOFF_RX_RING, offsets.rx, false)?;
        let transmit = Ring::map(fd, XDP_PGOFF_TX_RING, offsets.tx, true)?;
        let completion = Ring::map(fd, XDP_UMEM_PGOFF_COMPLETION_RING, offsets.cr, false)?;
        if [fill.ours, receive.ours, transmit.ours, completion.ours] != [0; 4] {
            // Which chunks are where, only its user knew.
            return Err(Errno::BUSY);
        }
        let address = |i: u32| u64::from(i) * chunk as u64;
        for i in 0..RING {
            fill.produce(address(i));
        }
        fill.publish(true);
        Ok(XdpQueue {
            socket,
            umem,
            chunk,
            fill,
            receive,
            transmit,
            completion,
            free: (RING..CHUNKS).rev().map(address).collect(),
            written: 0,
            lost: 0,
        })
    }

    /// The descriptor that is readable when there are frames to receive.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Longest frame that can be sent, in bytes.
    pub fn room(&self) -> usize {
        self.chunk
    }

    /// How many received frames are there, `enough` being enough to know of.
    pub fn received(&mut self, enough: u32) -> u32 {
        self.receive.filled(enough)
    }

    /// The `i`-th received frame that was not released.
    pub fn frame(&self, i: u32) -> &[u8] {
        let entry = self.receive.peek(i);
        let (at, len) = (entry.addr as usize, entry.len as usize);
        if at
            .checked_add(len)
            .is_none_or(|end| end > self.umem.bytes())
        {
            return &[];
        }
        // SAFETY: inside the UMEM, as just seen; the kernel writes no chunk that is not in the
        // fill ring, where this one comes by `release`, which needs `self` exclusively.
        unsafe { std::slice::from_raw_parts(self.umem.base().as_ptr().add(at), len) }
    }

    /// Gives the first `n` received frames' chunks back to the kernel.
    pub fn release(&mut self, n: u32) {
        let mask = !(self.chunk as u64 - 1);
        for i in 0..n {
            self.fill.produce(self.receive.peek(i).addr & mask);
        }
        self.fill.publish(true);
        self.receive.consume(n);
    }

    /// Drives a driver that asked for it after its fill ring ran empty.
    pub fn refill(&self) {
        if self.fill.needs_wakeup() {
            let mut control = RecvAncillaryBuffer::default();
            // That nothing is read is the expected answer.
            let _ = rustix::net::recvmsg(&self.socket, &mut [], &mut control, RecvFlags::DONTWAIT);
        }
    }

    /// Takes back the chunks of frames that were sent.
    pub fn collect(&mut self) {
        let n = self.completion.filled(RING);
        for i in 0..n {
            self.free
                .push(self.completion.peek(i) & !(self.chunk as u64 - 1));
        }
        if n > 0 {
            self.completion.consume(n);
        }
    }

    /// A free chunk for a frame to send, if there is one.
    pub fn take(&mut self) -> Option<(Chunk, &mut [u8])> {
        let at = self.free.pop()?;
        // SAFETY: one of the UMEM's chunks, without another user until it is sent.
        let room = unsafe {
            let start = self.umem.base().as_ptr().add(at as usize);
            std::slice::from_raw_parts_mut(start, self.chunk)
        };
        Some((Chunk(at), room))
    }

    /// Whether there is a chunk to take.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Queues the first `len` bytes of a chunk to be sent.
    pub fn push(&mut self, chunk: Chunk, len: usize) {
        self.transmit.produce(XdpDesc {
            addr: chunk.0,
            len: len as u32,
            options: XdpDescOptions::empty(),
        });
        self.written += 1;
    }

    /// Frames queued that the kernel was not shown yet.
    pub fn written(&self) -> u32 {
        self.written
    }

    /// Whether the kernel has to be told again of frames that it was shown and has not taken.
    pub fn is_behind(&mut self) -> bool {
        self.transmit.needs_wakeup() && self.transmit.pending() > self.written
    }

    /// Makes the kernel send the queued frames. Returns also how many frames it dropped on the way.
    pub fn flush(&mut self) -> (Kick, u64) {
        if self.written > 0 {
            self.transmit.publish(true);
            self.written = 0;
        }
        let (mut dropped, mut left) = (0, self.transmit.pending());
        while left > 0 && self.transmit.needs_wakeup() {
            let mut control = SendAncillaryBuffer::default();
            let flags = SendFlags::DONTWAIT;
            let kick = match rustix::net::sendmsg(&self.socket, &[], &mut control, flags) {
                Ok(_) => Kick::Done,
                // Sent, and then dropped by the driver.
                Err(Errno::BUSY) => {
                    dropped += 1;
                    Kick::Done
                }
                // The driver is full, or this was enough for one call: then there was progress.
                Err(Errno::AGAIN | Errno::NOBUFS) => Kick::Full,
                Err(Errno::NETDOWN) => return (Kick::Down, dropped),
                Err(_) => return (Kick::Gone, dropped),
            };
            let now = self.transmit.pending();
            if now >= left {
                return (kick, dropped);
            }
            left = now;
        }
        (Kick::Done, dropped)
    }

    /// Frames that the kernel dropped on their way here since this was last asked.
    pub fn lost(&mut self) -> u64 {
        let Ok(statistics) = sockopt::xdp_statistics(&self.socket) else {
            return 0;
        };
        let lost = statistics.rx_dropped + statistics.rx_ring_full.unwrap_or(0);
        let news = lost.wrapping_sub(self.lost);
        self.lost = lost;
        news
    }
}
