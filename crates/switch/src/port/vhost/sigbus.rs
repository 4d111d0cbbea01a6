//! Survives a memory file that its owner truncates, or that cannot get another page.
//!
//! An access to such a page raises SIGBUS, which would end the process. A caller that maps a file
//! that it does not trust watches the mapping ([`MemoryWatch::new`]): a fault inside replaces the
//! whole mapping by anonymous memory, notes that ([`MemoryWatch::has_failed`]) and goes on, so that
//! the access reads zeros. (A seal against shrinking, as data regions have, would prevent
//! truncation; but DPDK does not seal, and not every QEMU does.) A fault anywhere else ends the
//! process as usual.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

const PAGE_BITS: u32 = 12;
/// Bits of a range word that hold its number of pages; the others hold its first page's number.
const PAGES_BITS: u32 = 28;
/// Longest mapping that can be watched, in bytes: 1 TiB less a page.
pub const WATCHED_MAX: usize = ((1 << PAGES_BITS) - 1) << PAGE_BITS;

/// One watched mapping. Entries are never freed but used again, so that the handler may walk the
/// list at any time.
struct WatchedRange {
    /// First page and number of pages in one word, so that a reader sees both or neither; 0 while
    /// the entry is free.
    range: AtomicU64,
    failed: AtomicBool,
    next: Option<&'static WatchedRange>,
}

static ENTRIES: AtomicPtr<WatchedRange> = AtomicPtr::new(std::ptr::null_mut());

fn first() -> Option<&'static WatchedRange> {
    // SAFETY: null, or an entry that was leaked in `take`.
    unsafe { ENTRIES.load(Ordering::Acquire).as_ref() }
}

fn entries() -> impl Iterator<Item = &'static WatchedRange> {
    std::iter::successors(first(), |entry| entry.next)
}

impl WatchedRange {
    /// An entry for this range: a free one, or a new one at the head of the list.
    fn take(range: u64) -> &'static WatchedRange {
        for entry in entries() {
            let free = &entry.range;
            let (taken, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
            if free.compare_exchange(0, range, taken, relaxed).is_ok() {
                entry.failed.store(false, Ordering::Release);
                return entry;
            }
        }
        let entry = Box::leak(Box::new(WatchedRange {
            range: AtomicU64::new(range),
            failed: AtomicBool::new(false),
            next: None,
        }));
        loop {
            let head = ENTRIES.load(Ordering::Acquire);
            // SAFETY: as in `first`.
            entry.next = unsafe { head.as_ref() };
            let new = &raw mut *entry;
            let (set, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
            if ENTRIES.compare_exchange(head, new, set, relaxed).is_ok() {
                return entry;
            }
        }
    }

    /// Address and length of the mapping, in bytes.
    fn range(&self) -> (usize, usize) {
        let word = self.range.load(Ordering::Acquire);
        let pages = word & ((1 << PAGES_BITS) - 1);
        let at = (word >> PAGES_BITS) << PAGE_BITS;
        (at as usize, (pages << PAGE_BITS) as usize)
    }
}

/// Keeps faults inside a mapping from ending the process, as long as it lives.
pub struct MemoryWatch(&'static WatchedRange);

impl MemoryWatch {
    /// Watches the mapping of `bytes` bytes at `base`: whole pages, [`WATCHED_MAX`] at most.
    ///
    /// # Safety
    /// The range is one mapping of the caller's that stays mapped while the watch lives. The caller
    /// puts up with its content turning to zeros at any time.
    pub unsafe fn new(base: NonNull<u8>, bytes: usize) -> MemoryWatch {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(install);
        assert!(bytes <= WATCHED_MAX && bytes.is_multiple_of(1 << PAGE_BITS));
        let page = base.as_ptr() as u64 >> PAGE_BITS;
        MemoryWatch(WatchedRange::take(
            page << PAGES_BITS | (bytes as u64) >> PAGE_BITS,
        ))
    }

    /// Whether the mapping's memory was lost and is anonymous memory since.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.0.failed.load(Ordering::Relaxed)
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        self.0.range.store(0, Ordering::Release);
    }
}

fn install() {
    let mut action: MaybeUninit<libc::sigaction> = MaybeUninit::zeroed();
    // SAFETY: a sigaction of zeros is valid; the handler calls nothing that a signal handler may
    // not, and is never taken away.
    unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = handle as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(libc::SIGBUS, &raw const *action, std::ptr::null_mut());
    }
}

extern "C" fn handle(
    _signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel gives a siginfo with the address of the fault.
    let fault = unsafe { (*info).si_addr() } as usize;
    for entry in entries() {
        let (base, bytes) = entry.range();
        if fault.wrapping_sub(base) >= bytes {
            continue;
        }
        // The kernel's number is kept for the interrupted code.
        // SAFETY: this thread's own errno; the range is one mapping that stays mapped while it is
        // watched, and its owner accepts zeros.
        let replaced = unsafe {
            let errno = *libc::__errno_location();
            let replaced = libc::mmap(
                base as *mut libc::c_void,
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
                -1,
                0,
            );
            *libc::__errno_location() = errno;
            replaced
        };
        if replaced != libc::MAP_FAILED {
            entry.failed.store(true, Ordering::Release);
            return;
        }
    }
    // Not ours: the fault comes again, and has its usual end.
    // SAFETY: the default action runs no code.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::MemfdFlags;
    use rustix::mm::{MapFlags, ProtFlags};

    use super::*;

    const BYTES: usize = 4 << PAGE_BITS;

    #[test]
    fn a_file_that_shrinks_reads_as_zeros_and_is_reported() {
        let file = rustix::fs::memfd_create("shrinks", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, BYTES as u64).unwrap();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping, read and written through raw pointers inside it, and unmapped
        // when it has no more watchers.
        unsafe {
            let base = rustix::mm::mmap(
                std::ptr::null_mut(),
                BYTES,
                protection,
                MapFlags::SHARED,
                file.as_fd(),
                0,
            )
            .unwrap();
            let base = NonNull::new(base.cast::<u8>()).unwrap();
            let watch = MemoryWatch::new(base, BYTES);
            base.add(BYTES - 1).write_volatile(7);
            assert!(!watch.has_failed());
            rustix::fs::ftruncate(&file, 0).unwrap();
            assert_eq!(base.add(BYTES - 1).read_volatile(), 0);
            assert!(watch.has_failed());
            base.write_volatile(1);
            drop(watch);
            rustix::mm::munmap(base.as_ptr().cast(), BYTES).unwrap();
        }
    }
}
