//! Mappings of memory files.

use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};

use abi::PAGE;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::{MemoryError, system};

/// Bytes of a huge page.
pub(super) const HUGE_PAGE: usize = 2 << 20;

/// A mapping of a file that can be mapped, or of a part of it; unmapped when dropped.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a Mapping is an address and a length; what lies there is shared with other processes
// anyway and only reached through atomics and `abi`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` bytes of a file.
    pub(super) fn new(
        file: BorrowedFd<'_>,
        bytes: usize,
        protection: ProtFlags,
    ) -> Result<Self, MemoryError> {
        Mapping::part(file, 0, bytes, protection).map_err(|e| system("map", bytes, e))
    }

    /// Maps `bytes` bytes of a file from `offset` on.
    pub(crate) fn part(
        file: BorrowedFd<'_>,
        offset: u64,
        bytes: usize,
        protection: ProtFlags,
    ) -> Result<Self, Errno> {
        // SAFETY: a fresh mapping at an address of the kernel's choosing.
        let base = unsafe { map_at(null_mut(), file, offset, bytes, protection) };
        Ok(Mapping::at(base?, bytes))
    }

    /// As [`Self::new`], at an address where the kernel can use huge pages.
    pub(super) fn aligned(
        file: BorrowedFd<'_>,
        bytes: usize,
        protection: ProtFlags,
    ) -> Result<Self, MemoryError> {
        if bytes < HUGE_PAGE {
            return Mapping::new(file, bytes, protection);
        }
        let whole = (bytes + HUGE_PAGE).next_multiple_of(PAGE);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: reserves fresh addresses, maps over a part of them, and gives the rest back.
        let base = unsafe {
            rustix::mm::mmap_anonymous(null_mut(), whole, ProtFlags::empty(), flags).and_then(
                |room| {
                    let front = room.align_offset(HUGE_PAGE);
                    let base = room.byte_add(front);
                    let end = front + bytes.next_multiple_of(PAGE);
                    if front > 0 {
                        rustix::mm::munmap(room, front)?;
                    }
                    rustix::mm::munmap(room.byte_add(end), whole - end)?;
                    map_at(base, file, 0, bytes, protection)
                },
            )
        };
        let base = base.map_err(|e| system("map", bytes, e))?;
        Ok(Mapping::at(base, bytes))
    }

    fn at(base: *mut c_void, bytes: usize) -> Self {
        Mapping {
            base: NonNull::new(base.cast()).expect("a mapping is never at address 0"),
            bytes,
        }
    }

    /// Provides memory for a part ahead, so that the guest's first packets find it there.
    pub(super) fn provide(&self, part: Range<usize>) {
        // KVM maps so much at a time, if all of it is there.
        const CLUSTER: usize = 8 * PAGE;
        if part.is_empty() {
            return;
        }
        let start = part.start / CLUSTER * CLUSTER;
        self.populate(start, part.end.min(self.bytes).saturating_sub(start));
    }

    fn populate(&self, start: usize, bytes: usize) {
        if start + bytes <= self.bytes {
            // SAFETY: inside the mapping; the content stays as it is. If it fails, faults do it.
            let _ = unsafe {
                let at = self.base.as_ptr().add(start);
                rustix::mm::madvise(at.cast(), bytes, Advice::LinuxPopulateWrite)
            };
        }
    }

    /// Collapses the file's pages into huge ones, as far as the mapping fills them; content and
    /// other mappings stay as they are. A process that touches a page under collapse waits about a
    /// third of a millisecond. Returns how many huge pages there are then.
    pub(super) fn collapse(&self) -> usize {
        let mut collapsed = 0;
        for start in (0..self.bytes / HUGE_PAGE).map(|page| page * HUGE_PAGE) {
            // The kernel refuses where there is nothing at all.
            self.populate(start, 1);
            // SAFETY: inside the mapping; the content stays as it is.
            let done = unsafe {
                let at = self.base.as_ptr().add(start);
                libc::madvise(at.cast(), HUGE_PAGE, libc::MADV_COLLAPSE)
            };
            collapsed += usize::from(done == 0);
        }
        collapsed
    }

    /// Where it starts.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its length.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; no reference into it outlives it (see
        // `SharedRegion` and `CounterFile`).
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Maps `bytes` bytes of a file from `offset` on at `address`, or anywhere if that is null.
///
/// # Safety
/// The caller may replace the mapping at the address.
unsafe fn map_at(
    address: *mut c_void,
    file: BorrowedFd<'_>,
    offset: u64,
    bytes: usize,
    protection: ProtFlags,
) -> Result<*mut c_void, Errno> {
    let fixed = if address.is_null() {
        MapFlags::empty()
    } else {
        MapFlags::FIXED
    };
    // SAFETY: promised by the caller.
    unsafe {
        rustix::mm::mmap(
            address,
            bytes,
            protection,
            MapFlags::SHARED | fixed,
            file,
            offset,
        )
    }
}
