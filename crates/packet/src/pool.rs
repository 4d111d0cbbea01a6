//! The pool that packets' buffers come from and go back to.
//!
//! A pool is used by one thread. It hands out the buffer that came back last, so that a steady
//! load works in a few cache lines of memory. Buffers come from the heap, in chunks up to a limit,
//! or from a region shared with the switch, whose number is fixed; threads that use one region have
//! pools that share its buffers. A packet dropped outside the
//! pool's thread, or with no pool at hand, goes onto the pool's remote list, which the pool takes
//! over as a whole when its own is empty.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, copy_nonoverlapping, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use simd::{Kernel, Level, Simd};

use crate::Batch;
use crate::buffer::{HEADROOM, META, Meta, Packet};
use crate::depot::Depot;

/// Bytes of a pool buffer: 2 KiB and a cache line, so that the first lines of neighbouring
/// buffers fall in different sets of the caches.
pub const BUFFER: usize = 2048 + 64;
/// Longest packet that fits a pool buffer with the usual headroom.
pub const DATA_MAX: usize = BUFFER - META - HEADROOM;
/// Buffers that a heap pool takes at first.
const CHUNK: usize = 256;
/// Bytes that it takes at a time from then on, which a large page of the processor's covers: with
/// many packets under way, each would else cost a walk through the page tables.
const LARGE: usize = 2 << 20;

const _: () = assert!((META + HEADROOM).is_multiple_of(64) && DATA_MAX.is_multiple_of(64));

/// Where buffers of a pool come back to from elsewhere.
pub(crate) struct Home {
    /// A stack of bundles, linked through their first buffers: pushed one by one, taken whole.
    remote: AtomicPtr<Meta>,
}

/// Most buffers of another pool that are sent back to it together.
const BUNDLE: usize = 64;

/// Buffers of a pool that go back to it together: the first says where the others are. So whoever
/// takes them over reads a few lines, and not one of each, one after the other, out of another
/// core's cache.
///
/// The first buffer has the next bundle's in its first annotation word, the number of others in its
/// second, and where they are in place of data.
struct Bundle {
    home: *const Home,
    first: NonNull<Meta>,
    others: usize,
}

impl Bundle {
    /// # Safety
    /// The caller owns the buffer, a pool's whose home is `home`, and does not use it again.
    unsafe fn new(home: *const Home, first: NonNull<Meta>) -> Bundle {
        Bundle {
            home,
            first,
            others: 0,
        }
    }

    /// Where it is written where the others are.
    fn list(first: NonNull<Meta>) -> NonNull<NonNull<Meta>> {
        const { assert!(META + BUNDLE * size_of::<NonNull<Meta>>() <= BUFFER) };
        // SAFETY: metadata is followed by more of the buffer.
        unsafe { first.add(1) }.cast()
    }

    /// Adds a buffer; returns whether the bundle is full.
    ///
    /// # Safety
    /// It is not full. The caller owns the buffer, which belongs to the same home, and does not use
    /// it again.
    unsafe fn add(&mut self, buffer: NonNull<Meta>) -> bool {
        // SAFETY: the first buffer is the bundle's, and has room for so many.
        unsafe { Bundle::list(self.first).add(self.others).write(buffer) };
        self.others += 1;
        self.others + 1 >= BUNDLE
    }

    /// Puts it onto its home's remote list.
    fn send(self) {
        // SAFETY: a home outlives its buffers (see `Pool::drop`), and the first buffer is ours.
        let (remote, anno) = unsafe { (&(*self.home).remote, &mut (*self.first.as_ptr()).anno) };
        anno[1] = self.others as u64;
        let mut head = remote.load(Ordering::Relaxed);
        loop {
            anno[0] = head as u64;
            match remote.compare_exchange_weak(
                head,
                self.first.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Adds the buffers of the bundle that starts with `first` to `free`; returns the next bundle's
    /// first.
    ///
    /// # Safety
    /// It was taken off a remote list.
    unsafe fn open(first: NonNull<Meta>, free: &mut Vec<NonNull<Meta>>) -> *mut Meta {
        // SAFETY: on the list, so owned by it, and now by us; `send` wrote both words, and `add` as
        // many places.
        unsafe {
            let [next, others, ..] = (*first.as_ptr()).anno;
            let list = Bundle::list(first).as_ptr();
            free.extend_from_slice(core::slice::from_raw_parts(list, others as usize));
            free.push(first);
            next as *mut Meta
        }
    }
}

/// Gives a buffer back.
///
/// # Safety
/// The caller owned the buffer and does not use it again.
pub(crate) unsafe fn give_back(buffer: NonNull<Meta>) {
    // SAFETY: the caller owns the buffer.
    let meta = unsafe { &mut *buffer.as_ptr() };
    if meta.is_extended() {
        meta.drop_extension();
    }
    if meta.home.is_null() {
        let layout = Layout::from_size_align(meta.capacity as usize, 64);
        if let Ok(layout) = layout {
            // SAFETY: `Packet::large` allocated it with this layout.
            unsafe { alloc::alloc::dealloc(buffer.as_ptr().cast(), layout) };
        }
        return;
    }
    // SAFETY: the caller owns the buffer, which is a pool's.
    unsafe { Bundle::new(meta.home, buffer) }.send();
}

/// Asks the host for a large page under a chunk, which it may refuse.
fn advise_large(chunk: NonNull<u8>) {
    #[cfg(feature = "host")]
    // SAFETY: the chunk is a whole large page of ours; what it holds stays the same.
    let _ = unsafe {
        use rustix::mm::{Advice, madvise};
        madvise(chunk.as_ptr().cast(), LARGE, Advice::LinuxHugepage)
    };
    #[cfg(not(feature = "host"))]
    let _ = chunk;
}

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Data to make many packets of, in whole cache lines.
#[derive(Default)]
pub struct Mold {
    lines: Vec<Line>,
    len: usize,
}

impl Mold {
    /// A mold for packets that hold `data`.
    pub fn new(data: &[u8]) -> Mold {
        let line = |chunk: &[u8]| {
            let mut line = Line([0; 64]);
            line.0[..chunk.len()].copy_from_slice(chunk);
            line
        };
        Mold {
            lines: data.chunks(64).map(line).collect(),
            len: data.len(),
        }
    }

    /// The data.
    pub fn data(&self) -> &[u8] {
        // SAFETY: lines are arrays of bytes without gaps, and hold at least `len`.
        unsafe { core::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

/// Fills buffers with lines: with instructions that write a whole one, or half of it, if there are
/// such.
struct Casting<'a> {
    /// Free buffers of the pool that casts.
    buffers: &'a [NonNull<Meta>],
    meta: &'a [MaybeUninit<Line>; META / 64],
    /// [`DATA_MAX`] bytes at most.
    lines: &'a [Line],
}

impl Kernel for Casting<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        for buffer in self.buffers {
            // SAFETY: a free buffer is its pool's alone. The data starts on a cache line and a
            // mold's lines end within the buffer, as DATA_MAX is a whole number of them.
            unsafe {
                buffer.cast().write(*self.meta);
                let data = buffer.cast::<Line>().add((META + HEADROOM) / 64);
                for (i, line) in self.lines.iter().enumerate() {
                    data.add(i).write(*line);
                }
            }
        }
    }
}

/// A pool of equal buffers, of [`BUFFER`] bytes each.
pub struct Pool {
    pub(crate) free: Vec<NonNull<Meta>>,
    home: NonNull<Home>,
    chunks: Vec<(NonNull<u8>, Layout)>,
    /// Buffers that belong to this pool, out or in.
    total: usize,
    /// Most buffers the pool may have.
    limit: usize,
    /// Buffers that stood in rings from the start.
    in_rings: usize,
    pub(crate) region: Option<NonNull<u8>>,
    /// What the pool has in common with others over its region.
    pub(crate) depot: Option<Depot>,
    exhausted: u64,
    /// Buffers of another pool that are to be sent back to it.
    strangers: Option<Bundle>,
}

// SAFETY: the pool's buffers are owned by the pool or by packets, which are Send.
unsafe impl Send for Pool {}

impl Pool {
    /// A pool on the heap with at most `limit` buffers, taken as they are needed.
    pub fn heap(limit: usize) -> Pool {
        Pool {
            free: Vec::new(),
            home: NonNull::from(Box::leak(Box::new(Home {
                remote: AtomicPtr::new(null_mut()),
            }))),
            chunks: Vec::new(),
            total: 0,
            limit,
            in_rings: 0,
            region: None,
            depot: None,
            exhausted: 0,
            strangers: None,
        }
    }

    /// A pool over `count` buffers of [`BUFFER`] bytes at `base`; the buffers from `first` on are
    /// free, the ones before stand in rings.
    ///
    /// # Safety
    /// `base` is 64-byte aligned and starts `count * BUFFER` bytes that stay mapped, readable and
    /// writable for ever, and that nobody else writes but through rings.
    pub unsafe fn region(base: NonNull<u8>, count: usize, first: usize) -> Pool {
        let mut pool = Pool::heap(count);
        pool.region = Some(base);
        pool.total = count;
        pool.in_rings = first.min(count);
        // A slot of a ring holds a buffer at any time, so that no more are ever free.
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
    pub(crate) fn sibling(&self, depot: Depot) -> Pool {
        Pool {
            free: Vec::with_capacity(self.own()),
            home: self.home,
            chunks: Vec::new(),
            total: self.total,
            limit: self.limit,
            in_rings: self.in_rings,
            region: self.region,
            depot: Some(depot),
            exhausted: 0,
            strangers: None,
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

    /// Most buffers that packets can have for long: those that do not stand in rings. What keeps
    /// packets bounds itself by a part of them, so that others are left to receive into.
    pub fn own(&self) -> usize {
        self.limit - self.in_rings
    }

    /// Buffers that are out: in packets, or in rings.
    pub fn outstanding(&mut self) -> usize {
        self.collect();
        self.total - self.free.len()
    }

    /// How often a packet was wanted and there was no buffer.
    pub fn exhausted(&self) -> u64 {
        self.exhausted
    }

    /// Takes over what came back on the remote list.
    pub(crate) fn collect(&mut self) {
        // SAFETY: the home lives until the pool is dropped.
        let home = unsafe { self.home.as_ref() };
        let mut next = home.remote.swap(null_mut(), Ordering::Acquire);
        while let Some(first) = NonNull::new(next) {
            // SAFETY: from the list.
            next = unsafe { Bundle::open(first, &mut self.free) };
        }
    }

    #[cold]
    fn refill(&mut self) -> Option<NonNull<Meta>> {
        self.collect();
        self.take_over(1);
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
        // SAFETY: it is so long, and ours.
        unsafe { chunk.write_bytes(0, count * BUFFER) };
        self.chunks.push((chunk, layout));
        self.total += count;
        self.free.reserve(self.total);
        for i in (0..count).rev() {
            // SAFETY: inside the chunk.
            self.free.push(unsafe { chunk.add(i * BUFFER) }.cast());
        }
    }

    /// What the metadata of this pool's buffers names as their home.
    pub(crate) fn home(&self) -> *const Home {
        self.home.as_ptr().cast_const()
    }

    /// Takes a buffer back that is the pool's and nobody's any more.
    pub(crate) fn put_free(&mut self, buffer: NonNull<Meta>) {
        self.free.push(buffer);
    }

    /// Buffer `index` of the region, if there is such a one.
    pub(crate) fn in_region(&self, index: u32) -> Option<NonNull<Meta>> {
        let base = self.region.filter(|_| (index as usize) < self.total)?;
        // SAFETY: inside the region.
        Some(unsafe { base.add(index as usize * BUFFER) }.cast())
    }

    /// The index of one of the region's buffers.
    pub(crate) fn index_of(&self, buffer: NonNull<Meta>) -> Option<u32> {
        let at = buffer.addr().get() - self.region?.addr().get();
        Some((at / BUFFER) as u32)
    }

    #[inline]
    pub(crate) fn buffer(&mut self) -> Option<NonNull<Meta>> {
        let buffer = match self.free.pop() {
            Some(buffer) => buffer,
            None => self.refill()?,
        };
        // SAFETY: a free buffer is ours; both fields are plain values.
        unsafe {
            (*buffer.as_ptr()).home = self.home.as_ptr().cast_const();
            (*buffer.as_ptr()).capacity = BUFFER as u32;
        }
        Some(buffer)
    }

    /// An empty packet with the usual headroom. `None` if there is no buffer.
    #[inline]
    pub fn empty(&mut self) -> Option<Packet> {
        let buffer = self.buffer()?;
        // SAFETY: ours, home and capacity are set, the headroom fits.
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

    /// Adds at most `most` packets with the data of `mold` and the timestamp to a batch, as far as
    /// there is room and memory; returns how many.
    pub fn cast(&mut self, mold: &Mold, timestamp: i64, batch: &mut Batch, most: usize) -> usize {
        let most = most.min(batch.room());
        if mold.len > DATA_MAX {
            return self.cast_large(mold, timestamp, batch, most);
        }
        if self.free.len() < most {
            self.stock(most);
        }
        let made = most.min(self.free.len());
        let rest = self.free.len() - made;
        let meta = Meta::new(self.home.as_ptr(), BUFFER, HEADROOM, mold.len).at(timestamp);
        let casting = Casting {
            buffers: &self.free[rest..],
            // SAFETY: of the same size, and lines need no value.
            meta: &unsafe { core::mem::transmute::<Meta, [MaybeUninit<Line>; META / 64]>(meta) },
            lines: &mold.lines,
        };
        simd::run(Level::detected(), casting);
        batch.put_behind(made, |room| {
            // SAFETY: there is room for so many. A packet is its buffer's address, and the buffers,
            // which are packets now, are no longer free.
            unsafe {
                copy_nonoverlapping(self.free.as_ptr().add(rest), room.cast(), made);
                self.free.set_len(rest);
            }
        });
        made
    }

    #[cold]
    fn cast_large(&mut self, mold: &Mold, timestamp: i64, batch: &mut Batch, most: usize) -> usize {
        for made in 0..most {
            let Some(mut packet) = self.copy(mold.data()) else {
                return made;
            };
            packet.set_timestamp(timestamp);
            let _ = batch.push(packet);
        }
        most
    }

    /// Sees to it that `count` buffers are free, if it can be.
    #[cold]
    fn stock(&mut self, count: usize) {
        self.collect();
        self.take_over(count);
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

    /// A copy of `packet`: data, annotations and header places, and the bytes in front back to
    /// the first header, so that what was stripped can be unstripped.
    pub fn clone(&mut self, packet: &Packet) -> Option<Packet> {
        let front = [
            packet.mac_offset(),
            packet.network_offset(),
            packet.transport_offset(),
        ]
        .into_iter()
        .flatten()
        .min()
        .map_or(0, |at| (-at).max(0) as usize);
        // What was stripped without a header having been marked is kept too, up to the headroom
        // that every packet starts with.
        let front = front
            .max(packet.headroom().saturating_sub(HEADROOM))
            .min(packet.headroom());
        let whole = packet.data_from(front);
        let mut copy = self.packet(HEADROOM, whole.len())?;
        copy.data_mut().copy_from_slice(whole);
        copy.pull(front);
        copy.copy_meta(packet);
        if packet.is_extended() && !self.clone_extension(packet, &mut copy) {
            self.kill(copy);
            return None;
        }
        Some(copy)
    }

    /// Gives a packet's buffer back: the fast way, for the pool's own thread.
    #[inline]
    pub fn kill(&mut self, packet: Packet) {
        let raw = packet.raw();
        // SAFETY: the packet owns the buffer.
        if unsafe { (*raw.as_ptr()).home } == self.home.as_ptr().cast_const() {
            self.free.push(packet.into_raw());
        } else {
            self.kill_other(packet);
        }
    }

    /// Gives a packet back that goes on behind its data, or that is from elsewhere.
    #[cold]
    fn kill_other(&mut self, mut packet: Packet) {
        if packet.is_extended() {
            self.strip_extension(&mut packet);
            self.kill(packet);
        } else {
            self.keep_stranger(packet);
        }
    }

    /// Keeps a buffer of another pool, to send it back together with others: threads that hand
    /// packets to each other would otherwise contend for the remote list at every packet.
    #[cold]
    fn keep_stranger(&mut self, packet: Packet) {
        // SAFETY: the packet owns its buffer.
        let home = unsafe { (*packet.raw().as_ptr()).home };
        if home.is_null() {
            return;
        }
        if self.strangers.as_ref().is_some_and(|s| s.home != home) {
            self.send_strangers();
        }
        let buffer = packet.into_raw();
        // SAFETY: the buffer is ours alone, and belongs to `home`, as do those in the bundle; one
        // that is full is sent.
        unsafe {
            match &mut self.strangers {
                None => self.strangers = Some(Bundle::new(home, buffer)),
                Some(bundle) => {
                    if bundle.add(buffer) {
                        self.send_strangers();
                    }
                }
            }
        }
    }

    /// Sends buffers of other pools that were kept back to them. To be called now and then by
    /// whoever drops packets from elsewhere.
    #[inline]
    pub fn send_strangers(&mut self) {
        if let Some(bundle) = self.strangers.take() {
            bundle.send();
        }
    }

    /// Frees a batch's buffers and leaves it empty. Returns how many packets the batch stood for:
    /// this pass over the buffers knows it at no cost.
    #[inline]
    pub fn recycle(&mut self, batch: &mut Batch) -> u64 {
        if batch.is_empty() {
            return 0;
        }
        let (own, count) = (self.home.as_ptr().cast_const(), batch.len());
        self.free.reserve(count);
        // SAFETY: packets own their buffers.
        let home = |packet: &Packet| unsafe { (*packet.raw().as_ptr()).home };
        // All are asked, as that is quicker than to ask whether to go on.
        let all_own = batch
            .iter()
            .fold(true, |all, packet| all & (home(packet) == own));
        let mut packets = 0;
        if all_own {
            // The pool of a packet that stands for several is marked, so here are none.
            packets = count as u64;
            let free = self.free.len();
            batch.take_front(count, |packets| {
                // SAFETY: the packets, which are their buffers' addresses, are ours from now on, and
                // room for them was made.
                unsafe {
                    let room = self.free.as_mut_ptr().add(free);
                    copy_nonoverlapping(packets.cast(), room, count);
                    self.free.set_len(free + count);
                }
            });
        }
        while let Some(packet) = batch.pop() {
            packets += packet.stands_for() as u64;
            self.kill(packet);
        }
        self.even_out();
        packets
    }

    /// Takes buffer `index` of the region out of a ring, as a packet of `len` bytes whose data
    /// starts `offset` bytes into the buffer. `None` if there is no such place.
    ///
    /// # Safety
    /// The pool is over a region; the caller took `index` out of a ring slot that it replaces
    /// before it hands the slot back, so that nobody else has the buffer.
    #[inline]
    pub unsafe fn adopt(&mut self, index: u32, offset: usize, len: usize) -> Option<Packet> {
        let base = self.region?;
        if index as usize >= self.total || offset < META || offset + len > BUFFER {
            return None;
        }
        // SAFETY: inside the region, and ours by the caller's promise.
        let buffer = unsafe { base.add(index as usize * BUFFER) }.cast::<Meta>();
        // SAFETY: as above; `start` sets the rest.
        let mut packet = unsafe {
            (*buffer.as_ptr()).home = self.home.as_ptr().cast_const();
            (*buffer.as_ptr()).capacity = BUFFER as u32;
            Packet::start(buffer, offset - META)
        };
        packet.set_len(len);
        Some(packet)
    }

    /// Puts a packet's buffer into a ring: its index, the data's offset in it and length. A packet
    /// from elsewhere is copied into a buffer of this pool first, and given back as it came if
    /// that cannot be, as is one that is [extended](Packet::is_extended).
    #[inline]
    pub fn surrender(&mut self, packet: Packet) -> Result<(u32, u16, u16), Packet> {
        let Some(base) = self.region else {
            return Err(packet);
        };
        // SAFETY: the packet owns its buffer.
        if unsafe { (*packet.raw().as_ptr()).home } != self.home.as_ptr().cast_const() {
            if packet.len() > DATA_MAX || packet.is_extended() {
                return Err(packet);
            }
            return match self.copy(packet.data()) {
                Some(copy) => self.surrender(copy),
                None => Err(packet),
            };
        }
        let (offset, len) = (META + packet.headroom(), packet.len());
        let at = packet.into_raw().as_ptr() as usize - base.as_ptr() as usize;
        Ok(((at / BUFFER) as u32, offset as u16, len as u16))
    }

    /// Takes a spent buffer back from a ring.
    ///
    /// # Safety
    /// As for [`adopt`](Self::adopt).
    #[inline]
    pub unsafe fn reclaim(&mut self, index: u32) {
        if let Some(base) = self.region
            && (index as usize) < self.total
        {
            // SAFETY: inside the region.
            self.free
                .push(unsafe { base.add(index as usize * BUFFER) }.cast());
        }
    }

    /// Takes a free buffer's index for a ring slot.
    #[inline]
    pub fn spare(&mut self) -> Option<u32> {
        let base = self.region?;
        let buffer = self.buffer()?;
        Some(((buffer.as_ptr() as usize - base.as_ptr() as usize) / BUFFER) as u32)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.send_strangers();
        if self.depot.is_some() || self.outstanding() != 0 {
            // Packets live on, or other pools: so must their buffers and the home they go back to.
            return;
        }
        // SAFETY: `heap` made it from a Box, and no packet points to it any more.
        drop(unsafe { Box::from_raw(self.home.as_ptr()) });
        for (chunk, layout) in self.chunks.drain(..) {
            // SAFETY: `grow` allocated it so, and no packet points into it any more.
            unsafe { alloc::alloc::dealloc(chunk.as_ptr(), layout) };
        }
    }
}
