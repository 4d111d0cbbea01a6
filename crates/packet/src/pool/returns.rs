//! Buffers on their way back to the pool that owns them.

use alloc::alloc::dealloc;
use alloc::vec::Vec;
use core::alloc::Layout;
use core::ops::Range;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use super::{BUFFER, Pool};
use crate::Batch;
use crate::buffer::{META, Meta, Packet};
use crate::prefetch::prefetch_buffer;

/// What buffers name as their pool: the list on which other threads return them.
#[derive(Default)]
pub(crate) struct Owner {
    /// A stack of return lists, linked through their first buffers: pushed one by one, taken whole.
    remote: AtomicPtr<Meta>,
}

/// Most buffers of another pool that are returned to it together.
const RETURN_MAX: usize = 64;

/// How many packets ahead returned buffers are asked for, where packets are made one by one.
const AHEAD: usize = 16;

/// Buffers that return to their pool together. The first buffer holds the addresses of the others,
/// so that the pool reads a few cache lines of another core, not one line of each buffer in turn.
///
/// The first annotation word of the first buffer is the next list's first buffer. The second is
/// the number of others. Their addresses stand behind the metadata.
pub(super) struct ReturnList {
    owner: *const Owner,
    first: NonNull<Meta>,
    others: usize,
}

impl ReturnList {
    /// # Safety
    /// The caller owns the buffer, which belongs to `owner`, and does not use it again.
    unsafe fn new(owner: *const Owner, first: NonNull<Meta>) -> ReturnList {
        ReturnList {
            owner,
            first,
            others: 0,
        }
    }

    /// The addresses of the others, in the first buffer.
    fn others(first: NonNull<Meta>) -> NonNull<NonNull<Meta>> {
        const { assert!(META + RETURN_MAX * size_of::<NonNull<Meta>>() <= BUFFER) };
        // SAFETY: metadata is followed by more of the buffer.
        unsafe { first.add(1) }.cast()
    }

    /// Adds a buffer; returns whether the list is full.
    ///
    /// # Safety
    /// The list is not full. The caller owns the buffer, which belongs to the same owner, and does
    /// not use it again.
    unsafe fn add(&mut self, buffer: NonNull<Meta>) -> bool {
        // SAFETY: the first buffer is the list's, and has space for so many addresses.
        unsafe {
            ReturnList::others(self.first)
                .add(self.others)
                .write(buffer)
        };
        self.others += 1;
        self.others + 1 >= RETURN_MAX
    }

    /// Pushes the list onto its owner's remote stack.
    fn send(self) {
        // SAFETY: an owner outlives its buffers (see `Pool::drop`), and the first buffer is ours.
        let (remote, anno) = unsafe { (&(*self.owner).remote, &mut (*self.first.as_ptr()).anno) };
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

    /// Adds the buffers of the list that starts with `first` to `free`; returns the next list's
    /// first.
    ///
    /// # Safety
    /// `first` was taken off a remote stack.
    unsafe fn open(first: NonNull<Meta>, free: &mut Vec<NonNull<Meta>>) -> *mut Meta {
        // SAFETY: the stack owned the buffers, and now we do; `send` wrote both words, and `add` as
        // many addresses.
        unsafe {
            let [next, others, ..] = (*first.as_ptr()).anno;
            let list = ReturnList::others(first).as_ptr();
            free.extend_from_slice(core::slice::from_raw_parts(list, others as usize));
            free.push(first);
            next as *mut Meta
        }
    }
}

/// Returns a buffer to its pool, or to the heap.
///
/// # Safety
/// The caller owned the buffer and does not use it again.
pub(crate) unsafe fn give_back(buffer: NonNull<Meta>) {
    // SAFETY: the caller owns the buffer.
    let meta = unsafe { &mut *buffer.as_ptr() };
    if meta.is_extended() {
        meta.drop_extension();
    }
    if meta.owner.is_null() {
        let layout = Layout::from_size_align(meta.capacity as usize, 64);
        if let Ok(layout) = layout {
            // SAFETY: `Packet::large` allocated it with this layout.
            unsafe { dealloc(buffer.as_ptr().cast(), layout) };
        }
        return;
    }
    // SAFETY: the caller owns the buffer, which is a pool's.
    unsafe { ReturnList::new(meta.owner, buffer) }.send();
}

impl Pool {
    /// Adds the buffers on the remote stack to the free list.
    pub(super) fn collect(&mut self) {
        // SAFETY: the owner lives until the pool is dropped.
        let owner = unsafe { self.owner.as_ref() };
        let mut next = owner.remote.swap(null_mut(), Ordering::Acquire);
        let before = self.free.len();
        while let Some(first) = NonNull::new(next) {
            // SAFETY: from the stack.
            next = unsafe { ReturnList::open(first, &mut self.free) };
        }
        self.returned = self.free.len() - before;
    }

    /// The `count` free buffers before the `at`-th, if other threads returned them: their lines are in those threads'
    /// caches. They are taken into account as asked for.
    #[inline]
    pub(super) fn returned_before(&mut self, at: usize, count: usize) -> Range<usize> {
        if self.returned == 0 {
            return 0..0;
        }
        self.returned = self.returned.saturating_sub(count);
        at.saturating_sub(count)..at
    }

    /// Asks for the buffer that is needed some packets later, if another thread returned it.
    #[cold]
    pub(super) fn prefetch_returned(&mut self) {
        let next = self.returned_before(self.free.len().saturating_sub(AHEAD), 1);
        self.free[next]
            .iter()
            .for_each(|next| prefetch_buffer(*next));
    }

    /// Frees an extended packet, or a packet of another pool.
    #[cold]
    pub(super) fn kill_other(&mut self, mut packet: Packet) {
        if packet.is_extended() {
            self.strip_extension(&mut packet);
            self.kill(packet);
        } else {
            // SAFETY: the packet owns its buffer.
            let owner = unsafe { (*packet.raw().as_ptr()).owner };
            if !owner.is_null() {
                self.keep_foreign(packet, owner);
            }
        }
    }

    /// Keeps a buffer of another pool, to return it together with others: threads that pass packets
    /// to each other would otherwise contend for the remote stack at every packet.
    #[inline]
    fn keep_foreign(&mut self, packet: Packet, owner: *const Owner) {
        if self.foreign.as_ref().is_some_and(|s| s.owner != owner) {
            self.return_foreign();
        }
        let buffer = packet.into_raw();
        // SAFETY: the buffer is ours alone, and belongs to `owner`, as do those in the list. A full
        // list is sent.
        unsafe {
            match &mut self.foreign {
                None => self.foreign = Some(ReturnList::new(owner, buffer)),
                Some(list) => {
                    if list.add(buffer) {
                        self.return_foreign();
                    }
                }
            }
        }
    }

    /// Keeps the buffers of a batch that all belong to one other pool, which packets on their way from thread to thread
    /// do; else it leaves the batch as it is. Returns how many packets it stood for.
    #[inline(never)]
    pub(super) fn keep_all_foreign(&mut self, batch: &mut Batch) -> u64 {
        // SAFETY: packets own their buffers.
        let owner = |packet: &Packet| unsafe { (*packet.raw().as_ptr()).owner };
        let Some(first) = batch.iter().next().filter(|first| !first.is_extended()) else {
            return 0;
        };
        let first = owner(first);
        if first.is_null() || batch.iter().any(|packet| owner(packet) != first) {
            return 0;
        }
        let count = batch.len() as u64;
        while let Some(packet) = batch.pop() {
            self.keep_foreign(packet, first);
        }
        count
    }

    /// Returns kept buffers of other pools to them. A thread that drops packets of other pools calls
    /// this now and then.
    #[inline]
    pub fn return_foreign(&mut self) {
        if let Some(list) = self.foreign.take() {
            list.send();
        }
    }
}
