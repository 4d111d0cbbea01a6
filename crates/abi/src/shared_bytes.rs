//! Bytes in memory that another process writes.

use core::ptr::NonNull;
use core::sync::atomic::{Ordering, compiler_fence};

use crate::CACHE_LINE;

/// Bytes in shared memory that the other side may be writing at the same time. They can only be
/// copied; checks apply to the copy.
#[derive(Clone, Copy)]
pub struct SharedBytes {
    pub(crate) start: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes are accessed through raw copies only, and stay mapped (see `new`).
unsafe impl Send for SharedBytes {}

/// Ends a read of shared memory. Without it, a compiler may serve a later use of the copy from the
/// shared original, which the other side may have changed since.
#[inline(always)]
fn keep_snapshot() {
    compiler_fence(Ordering::SeqCst);
}

impl SharedBytes {
    /// The `len` bytes from `start` on.
    ///
    /// # Safety
    /// `start` begins `len` bytes that stay mapped, readable and writable, while this or a copy
    /// of it is used.
    #[inline]
    pub const unsafe fn new(start: NonNull<u8>, len: usize) -> SharedBytes {
        SharedBytes { start, len }
    }

    /// The first byte, for a system call to read or write.
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes from `at` on; none if that is past the end.
    #[inline]
    pub fn skip(self, at: usize) -> SharedBytes {
        let at = at.min(self.len);
        SharedBytes {
            // SAFETY: at most one past the end of the same bytes.
            start: unsafe { self.start.add(at) },
            len: self.len - at,
        }
    }

    /// Copies as many bytes as both have; returns how many.
    #[inline]
    pub fn read(&self, into: &mut [u8]) -> usize {
        let n = self.len.min(into.len());
        // SAFETY: n bytes are inside both; `into` is exclusively ours, so they do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(self.start.as_ptr(), into.as_mut_ptr(), n) };
        keep_snapshot();
        n
    }

    /// Copies as many bytes as both have; returns how many.
    #[inline]
    pub fn write(&self, from: &[u8]) -> usize {
        let n = self.len.min(from.len());
        // SAFETY: n bytes are inside both; a shared slice of ours lies outside the region.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), self.start.as_ptr(), n) };
        n
    }

    /// Copies out the `N` bytes from `at` on; `None` if there are fewer. The length is constant, so
    /// this compiles to a few wide loads.
    #[inline(always)]
    pub fn read_array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        if N > self.len || at > self.len - N {
            return None;
        }
        // SAFETY: `at + N` bytes are inside; an array of bytes has no alignment.
        let bytes = unsafe { self.start.add(at).cast::<[u8; N]>().read() };
        keep_snapshot();
        Some(bytes)
    }

    /// Writes all of `from` at `at`, in a few wide stores. False, and no change, if it does not fit.
    #[inline(always)]
    pub fn write_array<const N: usize>(&self, at: usize, from: &[u8; N]) -> bool {
        if N > self.len || at > self.len - N {
            return false;
        }
        // SAFETY: `at + N` bytes are inside; an array of bytes has no alignment.
        unsafe { self.start.add(at).cast::<[u8; N]>().write(*from) };
        true
    }

    /// Copies as many bytes as both have from `self` to `into`; returns how many.
    #[inline]
    pub fn copy_to(&self, into: &SharedBytes) -> usize {
        let n = self.len.min(into.len);
        // SAFETY: n bytes are inside both; `copy` allows overlap (a guest's two ports may name
        // the same buffer).
        unsafe { core::ptr::copy(self.start.as_ptr(), into.start.as_ptr(), n) };
        n
    }

    /// As [`copy_to`](Self::copy_to). Line by line, it prefetches the source and target of a later
    /// copy. (A core has few misses in flight: prefetching a long frame at once would stall this
    /// copy.)
    #[inline]
    pub fn copy_to_before(
        &self,
        into: &SharedBytes,
        (from, to): (SharedBytes, SharedBytes),
    ) -> usize {
        let n = self.len.min(into.len);
        let later = from.len.min(to.len);
        let mut at = 0;
        while n - at >= CACHE_LINE {
            if at < later {
                crate::prefetch_read(from.start.as_ptr().wrapping_add(at));
                crate::prefetch_write(to.start.as_ptr().wrapping_add(at));
            }
            // SAFETY: a line from `at` on is inside both; `copy` allows overlap.
            unsafe {
                let (from, to) = (self.start.add(at), into.start.add(at));
                core::ptr::copy(from.as_ptr(), to.as_ptr(), CACHE_LINE);
            }
            at += CACHE_LINE;
        }
        at + self.skip(at).copy_to(&into.skip(at))
    }

    /// Prefetches the first cache line.
    #[inline]
    pub fn prefetch(&self) {
        crate::prefetch_read(self.start.as_ptr());
    }

    /// Prefetches the first cache line for writing.
    #[inline]
    pub fn prefetch_write(&self) {
        crate::prefetch_write(self.start.as_ptr());
    }
}
