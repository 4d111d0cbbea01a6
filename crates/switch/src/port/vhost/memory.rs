//! A frontend's memory: the regions of its address space that it shared, mapped here.
//!
//! Addresses in messages are the frontend's own ("user" addresses), addresses in rings are the
//! guest's ("guest-physical"). Both are looked up in the table of regions, and nothing outside of
//! it can be reached. The frontend may write there at any time, so callers get [`SharedBytes`] and
//! [`rings`](super::rings). It may truncate the memory, too: see [`sigbus`](super::sigbus).
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use abi::SharedBytes;
use rustix::mm::{MapFlags, ProtFlags};

use super::sigbus::{MemoryWatch, WATCHED_MAX};

/// Most regions of a frontend.
pub const REGIONS_MAX: usize = 32;

/// What a frontend says of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Its address in the guest.
    pub guest: u64,
    /// Its address in the frontend.
    pub user: u64,
    /// Its length, in bytes.
    pub bytes: u64,
    /// Where it begins in its file, in bytes.
    pub offset: u64,
}

/// Why a region is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegionError {
    /// There are enough.
    #[error("a frontend has {REGIONS_MAX} memory regions at most")]
    TooMany,
    /// Its numbers are none of a region's.
    #[error("a memory region's address, length or offset is out of bounds")]
    Extent,
    /// Its file is none that is memory: touching it might wait for a disk or for another process.
    #[error("a memory region's file is neither a memfd nor a file in /dev/shm or hugetlbfs")]
    File,
    /// Its file ends before it does.
    #[error("a memory region reaches past the end of its file")]
    Short,
    /// The kernel would not map it.
    #[error("cannot map a memory region: {0}")]
    Map(rustix::io::Errno),
}

/// A mapped region.
pub struct Region {
    extent: Extent,
    /// Where the mapping begins; the region may begin later.
    base: NonNull<u8>,
    mapped: usize,
    /// `None` only while the region is dropped.
    watch: Option<MemoryWatch>,
    start: NonNull<u8>,
}

// SAFETY: a Region is an address and a length; what lies there is shared with another process
// anyway and only reached through atomics and raw copies.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps what `extent` says of `file`.
    pub fn map(file: BorrowedFd<'_>, extent: Extent) -> Result<Region, RegionError> {
        let end = extent.offset.checked_add(extent.bytes);
        let ends = [
            end,
            extent.guest.checked_add(extent.bytes),
            extent.user.checked_add(extent.bytes),
        ];
        let (Some(end), true) = (end, ends.iter().all(Option::is_some) && extent.bytes > 0) else {
            return Err(RegionError::Extent);
        };
        let filesystem = rustix::fs::fstatfs(file).map_err(RegionError::Map)?;
        if !MEMORY_FILESYSTEMS.contains(&(filesystem.f_type as u64)) {
            return Err(RegionError::File);
        }
        let stat = rustix::fs::fstat(file).map_err(RegionError::Map)?;
        if u64::try_from(stat.st_size).is_ok_and(|found| found < end) {
            return Err(RegionError::Short);
        }
        // A huge page is mapped as a whole or not at all.
        let block = u64::try_from(filesystem.f_bsize).unwrap_or(0).max(4096);
        let from = extent.offset - extent.offset % block;
        let mapped = end
            .checked_next_multiple_of(block)
            .and_then(|to| usize::try_from(to - from).ok())
            .filter(|&mapped| mapped <= WATCHED_MAX)
            .ok_or(RegionError::Extent)?;
        // SAFETY: a fresh mapping at an address of the kernel's choosing.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                file,
                from,
            )
        };
        let base = NonNull::new(base.map_err(RegionError::Map)?.cast::<u8>());
        let base = base.expect("a mapping is never at address 0");
        Ok(Region {
            extent,
            base,
            mapped,
            // SAFETY: mapped just now, and until `drop` has ended the watch. Nothing relies on the
            // bytes read there.
            watch: Some(unsafe { MemoryWatch::new(base, mapped) }),
            // SAFETY: `offset - from` is less than the mapping's length.
            start: unsafe { base.add((extent.offset - from) as usize) },
        })
    }

    /// What the frontend said of it.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    fn has_failed(&self) -> bool {
        self.watch.as_ref().is_some_and(MemoryWatch::has_failed)
    }
}

/// `TMPFS_MAGIC` and `HUGETLBFS_MAGIC`.
const MEMORY_FILESYSTEMS: [u64; 2] = [0x0102_1994, 0x9584_58f6];

impl Drop for Region {
    fn drop(&mut self) {
        // The handler must release the range before another mapping gets it.
        self.watch = None;
        // SAFETY: mapped in `map` with this length; each pointer into it keeps the region.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

/// Where a region is, without a detour.
#[derive(Clone, Copy)]
struct Span {
    guest: u64,
    bytes: u64,
    start: NonNull<u8>,
}

/// A frontend's table of regions.
#[derive(Default)]
pub struct Memory {
    spans: Vec<Span>,
    regions: Vec<Arc<Region>>,
}

// SAFETY: as for `Region`.
unsafe impl Send for Memory {}

impl Memory {
    /// Adds a region.
    pub fn add(&mut self, region: Region) -> Result<(), RegionError> {
        if self.regions.len() >= REGIONS_MAX {
            return Err(RegionError::TooMany);
        }
        self.spans.push(Span {
            guest: region.extent.guest,
            bytes: region.extent.bytes,
            start: region.start,
        });
        self.regions.push(Arc::new(region));
        Ok(())
    }

    /// Removes the region that begins at this address of the guest's and is this long. Returns
    /// whether there was one.
    pub fn remove(&mut self, guest: u64, bytes: u64) -> bool {
        let is =
            |region: &Arc<Region>| region.extent.guest == guest && region.extent.bytes == bytes;
        let Some(i) = self.regions.iter().position(is) else {
            return false;
        };
        self.regions.remove(i);
        self.spans.remove(i);
        true
    }

    /// Whether there is no region.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// Whether the frontend took away memory that it had shared.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.regions.iter().any(|region| region.has_failed())
    }

    /// The `bytes` bytes at an address of the guest's, if one region has all of them. They are used
    /// no longer than this table.
    #[inline(always)]
    pub fn at(&self, guest: u64, bytes: usize) -> Option<SharedBytes> {
        for span in &self.spans {
            let offset = guest.wrapping_sub(span.guest);
            if offset < span.bytes && bytes as u64 <= span.bytes - offset {
                // SAFETY: inside the region, which is mapped as long as this table has it.
                return Some(unsafe { SharedBytes::new(span.start.add(offset as usize), bytes) });
            }
        }
        None
    }

    /// The `bytes` bytes at an address of the frontend's, if one region has all of them, and what
    /// keeps them mapped.
    pub(super) fn at_user(&self, user: u64, bytes: usize) -> Option<(NonNull<u8>, Arc<Region>)> {
        self.regions.iter().find_map(|region| {
            let offset = user.checked_sub(region.extent.user)?;
            let room = region.extent.bytes.checked_sub(offset)?;
            // SAFETY: inside the region.
            (bytes as u64 <= room && offset < region.extent.bytes).then(|| {
                (
                    unsafe { region.start.add(offset as usize) },
                    Arc::clone(region),
                )
            })
        })
    }
}
