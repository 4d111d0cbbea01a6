//! Pools of packet buffers.
//!
//! One thread uses a pool. The pool hands out the buffer that was freed last, so that a steady load
//! works in a few cache lines. A heap pool allocates buffers in chunks, up to a limit. A region pool
//! has a fixed number of buffers in memory shared with the switch; the pools of threads that use one
//! region [share](Pool::share) its buffers. A packet dropped on another thread returns its buffer to
//! the owner's remote list, which the pool collects when its own list is empty.

mod cloning;
mod free_list;
mod returns;
mod rings;
mod template;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::alloc::Layout;
use core::ptr::{NonNull, copy_nonoverlapping};

use free_list::FreeList;
use returns::ReturnList;
pub(crate) use returns::{Owner, give_back};
pub use template::PacketTemplate;

use crate::Batch;
use crate::buffer::{HEADROOM, META, Meta, Packet};

/// Bytes of a pool buffer: 2 KiB and a cache line, so that the first lines of neighbouring
/// buffers fall in different sets of the caches.
pub const BUFFER: usize = 2048 + 64;
/// Longest packet that fits a pool buffer with [`HEADROOM`] bytes of headroom.
pub const DATA_MAX: usize = BUFFER - META - HEADROOM;
/// Buffers that a heap pool allocates first.
const CHUNK: usize = 256;
/// Bytes of each further allocation: one huge page, since many packets in small pages would each
/// cost a page walk.
const LARGE: usize = 2 << 20;

const _: () = assert!((META + HEADROOM).is_multiple_of(64) && DATA_MAX.is_multiple_of(64));

/// Asks the kernel for a huge page under a chunk. The kernel may refuse.
fn advise_large(chunk: NonNull<u8>) {
    #[cfg(feature = "host")]
    // SAFETY: the chunk is a whole huge page of ours; its content stays the same.
    let _ = unsafe {
        use rustix::mm::{Advice, madvise};
        madvise(chunk.as_ptr().cast(), LARGE, Advice::LinuxHugepage)
    };
    #[cfg(not(feature = "host"))]
    let _ = chunk;
}

/// A pool of equal buffers, of [`BUFFER`] bytes each.
pub struct Pool {
    free: Vec<NonNull<Meta>>,
    owner: NonNull<Owner>,
    chunks: Vec<(NonNull<u8>, Layout)>,
    /// Buffers that belong to this pool, free or in use.
    total: usize,
    /// Most buffers the pool may have.
    limit: usize,
    /// Buffers that stood in rings from the start.
    in_rings: usize,
    region: Option<NonNull<u8>>,
    /// The free list shared with the other pools over the region.
    shared: Option<FreeList>,
    exhausted: u64,
    /// Buffers of another pool, to be returned to it.
    foreign: Option<ReturnList>,
    /// Free buffers that other threads returned and that have not been asked for.
    returned: usize,
}

// SAFETY: the pool's buffers are owned by the pool or by packets, which are Send.
unsafe impl Send for Pool {}

impl Pool {
    /// A pool on the heap with at most `limit` buffers, allocated as they are needed.
    pub fn heap(limit: usize) -> Pool {
        Pool {
            free: Vec::new(),
            owner: NonNull::from(Box::leak(Box::default())),
            chunks: Vec::new(),
            total: 0,
            limit,
            in_rings: 0,
            region: None,
            shared: None,
            exhausted: 0,
            foreign: None,
            returned: 0,
        }
    }

    /// A pool over `count` buffers of [`BUFFER`] bytes at `base`. The buffers from `first` on are
    /// free; the ones before stand in rings.
    ///
    /// # Safety
    /// `base` is 64-byte aligned and starts `count * BUFFER` bytes that stay mapped, readable and
    /// writable forever. Others write them only through rings.
    pub unsafe fn region(base: NonNull<u8>, count: usize, first: usize) -> Pool {
        let mut pool = Pool::heap(count);
        pool.region = Some(base);
        pool.total = count;
        pool.in_rings = first.min(count);
        // A ring slot always holds a buffer, so no more than these are ever free.
        pool.free.reserve_exact(pool.own());
        for i in 0..count {
            // SAFETY: inside the region.
            let buffer = unsafe { base.add(i * BUFFER) }.cast::<Meta>();
            if i >= first {
                pool.free.push(buffer);
            }
        }
        pool.free.reverse();
        pool
    }

    /// Another pool over the same region, with no buffer yet.
    fn sibling(&self, shared: FreeList) -> Pool {
        Pool {
            free: Vec::with_capacity(self.own()),
            owner: self.owner,
            chunks: Vec::new(),
            total: self.total,
            limit: self.limit,
            in_rings: self.in_rings,
            region: self.region,
            shared: Some(shared),
            exhausted: 0,
            foreign: None,
            returned: 0,
        }
    }

    /// Buffers that belong to the pool, or to the region it shares.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Most buffers that the pool may have.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Number of buffers that packets can hold for long: the buffers that are not in rings. An
    /// element that stores packets takes only a share of them, so that buffers remain to receive
    /// into.
    pub fn own(&self) -> usize {
        self.limit - self.in_rings
    }

    /// Buffers in use: in packets or in rings.
    pub fn outstanding(&mut self) -> usize {
        self.collect();
        self.total - self.free.len()
    }

    /// Packets that could not be made for lack of a buffer.
    pub fn exhausted(&self) -> u64 {
        self.exhausted
    }

    #[cold]
    fn refill(&mut self) -> Option<NonNull<Meta>> {
        self.collect();
        self.take_shared(1);
        if self.free.is_empty() && self.region.is_none() {
            self.grow();
        }
        let buffer = self.free.pop();
        if buffer.is_none() {
            self.exhausted += 1;
        }
        buffer
    }

    fn grow(&mut self) {
        let left = self.limit - self.total;
        let (count, layout) = match self.total {
            0 => (
                CHUNK.min(left),
                Layout::from_size_align(CHUNK.min(left) * BUFFER, 4096),
            ),
            _ => (
                (LARGE / BUFFER).min(left),
                Layout::from_size_align(LARGE, LARGE),
            ),
        };
        let Ok(layout) = layout else {
            return;
        };
        if count == 0 {
            return;
        }
        // SAFETY: the size is not zero.
        let Some(chunk) = NonNull::new(unsafe { alloc::alloc::alloc(layout) }) else {
            return;
        };
        if layout.align() == LARGE {
            advise_large(chunk);
        }
        // SAFETY: the chunk has that length and is ours.
        unsafe { chunk.write_bytes(0, count * BUFFER) };
        self.chunks.push((chunk, layout));
        self.total += count;
        self.free.reserve(self.total);
        for i in (0..count).rev() {
            // SAFETY: inside the chunk.
            self.free.push(unsafe { chunk.add(i * BUFFER) }.cast());
        }
    }

    /// The owner in the metadata of this pool's buffers.
    pub(crate) fn owner(&self) -> *const Owner {
        self.owner.as_ptr().cast_const()
    }

    /// Takes back a buffer of this pool that is no longer used.
    pub(crate) fn put_free(&mut self, buffer: NonNull<Meta>) {
        self.free.push(buffer);
    }

    #[inline]
    pub(crate) fn buffer(&mut self) -> Option<NonNull<Meta>> {
        let buffer = match self.free.pop() {
            Some(buffer) => buffer,
            None => self.refill()?,
        };
        if self.returned > 0 {
            self.prefetch_returned();
        }
        // SAFETY: a free buffer is ours; both fields are plain values.
        unsafe {
            (*buffer.as_ptr()).owner = self.owner.as_ptr().cast_const();
            (*buffer.as_ptr()).capacity = BUFFER as u32;
        }
        Some(buffer)
    }

    /// An empty packet with [`HEADROOM`] bytes of headroom. `None` if there is no buffer.
    #[inline]
    pub fn empty(&mut self) -> Option<Packet> {
        let buffer = self.buffer()?;
        // SAFETY: ours, owner and capacity are set, the headroom fits.
        Some(unsafe { Packet::start(buffer, HEADROOM) })
    }

    /// A packet of `len` bytes of unspecified content, with at least `headroom` bytes in front:
    /// from the pool if it fits there, else from the heap. `None` if there is no memory.
    #[inline]
    pub fn packet(&mut self, headroom: usize, len: usize) -> Option<Packet> {
        if headroom <= HEADROOM && len <= DATA_MAX {
            let mut packet = self.empty()?;
            let fits = packet.put(len);
            debug_assert!(fits);
            return Some(packet);
        }
        Packet::large(headroom.max(HEADROOM), len, HEADROOM)
    }

    /// A packet that holds a copy of `data`.
    #[inline]
    pub fn copy(&mut self, data: &[u8]) -> Option<Packet> {
        let mut packet = self.packet(HEADROOM, data.len())?;
        packet.data_mut().copy_from_slice(data);
        Some(packet)
    }

    /// Makes up to `count` free buffers, within the limit and the available memory.
    #[cold]
    fn stock(&mut self, count: usize) {
        self.collect();
        self.take_shared(count);
        while self.free.len() < count && self.region.is_none() && self.total < self.limit {
            let before = self.total;
            self.grow();
            if self.total == before {
                break;
            }
        }
        if self.free.len() < count {
            self.exhausted += (count - self.free.len()) as u64;
        }
    }

    /// Frees a packet's buffer: the fast way, on the pool's own thread.
    #[inline]
    pub fn kill(&mut self, packet: Packet) {
        let raw = packet.raw();
        // SAFETY: the packet owns the buffer.
        if unsafe { (*raw.as_ptr()).owner } == self.owner.as_ptr().cast_const() {
            self.free.push(packet.into_raw());
        } else {
            self.kill_other(packet);
        }
    }

    /// Frees a batch's buffers and leaves it empty. Returns how many packets the batch stood for,
    /// which this pass over the buffers counts at no cost.
    #[inline]
    pub fn recycle(&mut self, batch: &mut Batch) -> u64 {
        if batch.is_empty() {
            return 0;
        }
        if let [packet] = batch.as_slice() {
            let packets = packet.stands_for() as u64;
            if let Some(packet) = batch.pop() {
                self.kill(packet);
            }
            self.rebalance();
            return packets;
        }
        let (own, count) = (self.owner.as_ptr().cast_const(), batch.len());
        self.free.reserve(count);
        // SAFETY: packets own their buffers.
        let owner = |packet: &Packet| unsafe { (*packet.raw().as_ptr()).owner };
        // Gathering the differences of all is faster than branching after each, or than gathering what comes out
        // of comparisons.
        let others = batch.iter().fold(0, |others, packet| {
            others | (owner(packet).addr() ^ own.addr())
        });
        let mut packets = 0;
        if others == 0 {
            // The owner of a packet that stands for several is marked, so there is none here.
            packets = count as u64;
            let free = self.free.len();
            batch.take_front(count, |packets| {
                // SAFETY: the packets, which are their buffers' addresses, are ours from now on, and
                // space for them was reserved.
                unsafe {
                    let room = self.free.as_mut_ptr().add(free);
                    copy_nonoverlapping(packets.cast(), room, count);
                    self.free.set_len(free + count);
                }
            });
        }
        if others != 0 {
            packets += self.keep_all_foreign(batch);
        }
        while let Some(packet) = batch.pop() {
            packets += packet.stands_for() as u64;
            self.kill(packet);
        }
        self.rebalance();
        packets
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.return_foreign();
        if self.shared.is_some() || self.outstanding() != 0 {
            // Packets or other pools live on: so must their buffers and the owner.
            return;
        }
        // SAFETY: `heap` made it from a Box, and no packet points to it any more.
        drop(unsafe { Box::from_raw(self.owner.as_ptr()) });
        for (chunk, layout) in self.chunks.drain(..) {
            // SAFETY: `grow` allocated it so, and no packet points into it any more.
            unsafe { alloc::alloc::dealloc(chunk.as_ptr(), layout) };
        }
    }
}
