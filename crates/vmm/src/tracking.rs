//! A guest's private memory, page by page, as it is copied while the guest runs or stands still.
//!
//! The kernel lifts a page's write protection by itself when the guest writes the page (userfaultfd(2) in its
//! asynchronous mode). A scan for unprotected pages finds the written ones (PAGEMAP_SCAN, Linux 6.7). This works behind
//! both walls: KVM drops its mappings of a page when the page is protected. The guest's process makes the userfaultfd
//! before it is jailed, and cannot use it; the process that copies the guest gets it by pidfd_getfd(2). No page is
//! protected before the copy, so a guest that is never copied pays nothing. On an older kernel, every scan returns all
//! pages.

use std::ffi::c_void;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

use abi::PAGE;
use abi::boot::Span;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mm::{UserfaultfdFlags, userfaultfd};
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use crate::Guest;
use crate::adopt::mapped_file;
use crate::error::{Context, Error, Result};
use crate::image::Access;
use crate::snapshot::{SNAPSHOT_FILE, data_ranges, each_data};

const READING: &str = "reading a guest's memory";
/// Pages whose entries are read at a time.
const ENTRIES: u64 = 1 << 12;
/// Most bytes of a piece.
const PIECE: u64 = 256 << 10;
const PAGE_BYTES: u64 = PAGE as u64;

/// Bits of an entry of `/proc/PID/pagemap`.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_A_FILE: u64 = 1 << 61;

/// Whether pages are looked at once, or again and again while the guest runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracking {
    /// Once: the guest stands still.
    Once,
    /// Each later look finds the pages written since the last one.
    Repeated,
}

/// A guest's private memory. Tracking ends when this is dropped.
pub struct Tracker {
    spans: Vec<Tracked>,
    /// The address at offset 0.
    start: u64,
    pages: File,
    memory: File,
    /// The snapshot of which the guest is a copy: it holds the pages that the guest has not written.
    base: Option<OwnedFd>,
    userfault: Option<Userfault>,
    looked: bool,
}

/// A part of the memory.
#[derive(Clone, Copy)]
struct Tracked {
    span: Span,
    /// Whether it is part of the image: only pages that the guest wrote differ from the image, also by zeros.
    of_the_image: bool,
}

/// A part of a guest's memory that a look found.
#[derive(Clone, Debug)]
pub struct Piece {
    /// By offsets.
    range: Range<u64>,
    from: From,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// The snapshot of which it is a copy.
    Base,
    /// The guest's own pages.
    Own {
        /// Whether a page of zeros is told as one.
        zeros: bool,
        /// Whether this is the first report of it, in which missing pages are zeros.
        first: bool,
    },
}

/// What there is at some offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// Pages of zeros, so many bytes, in private memory.
    Zeros(u64),
}

impl Piece {
    /// Its length, in bytes.
    pub fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

impl Guest {
    /// Begins to look at this guest's memory.
    pub fn track(&self, tracking: Tracking) -> Result<Tracker> {
        let layout = self.layout;
        let tracked = |of_the_image| move |span| Tracked { span, of_the_image };
        let segments = self.image.segments.iter();
        let written = segments.filter(|segment| segment.access == Access::Write);
        let written = written.map(|segment| Span {
            address: segment.address,
            length: segment.length,
        });
        let own = layout.stacks().chain([layout.heap]);
        let spans: Vec<_> = own
            .map(tracked(false))
            .chain(written.map(tracked(true)))
            .collect();
        let pid = self.pid();
        let open = |name: &str| File::open(format!("/proc/{pid}/{name}")).context(READING);
        let userfault = match tracking {
            Tracking::Once => None,
            Tracking::Repeated => self.userfault()?,
        };
        let tracker = Tracker {
            start: layout.start(),
            pages: open("pagemap")?,
            memory: open("mem")?,
            base: mapped_file(&self.process, SNAPSHOT_FILE).ok(),
            userfault,
            looked: false,
            spans,
        };
        if let Some(userfault) = &tracker.userfault {
            for tracked in &tracker.spans {
                userfault.protect(tracked.span)?;
            }
        }
        Ok(tracker)
    }

    /// The userfaultfd that its process made, if the kernel has that.
    fn userfault(&self) -> Result<Option<Userfault>> {
        let folder = format!("/proc/{}/fd", self.pid());
        for entry in fs::read_dir(&folder)
            .map_err(untracked("the list of its descriptors"))?
            .flatten()
        {
            let link = fs::read_link(entry.path());
            if link.is_ok_and(|link| link.as_os_str() == "anon_inode:[userfaultfd]")
                && let Some(number) = entry.file_name().to_str().and_then(|it| it.parse().ok())
            {
                let number: RawFd = number;
                let file = pidfd_getfd(self.process.pidfd()?, number, PidfdGetfdFlags::empty());
                return Ok(Some(Userfault(
                    file.map_err(untracked("pidfd_getfd of its userfaultfd"))?,
                )));
            }
        }
        Ok(None)
    }
}

impl Tracker {
    /// The pages written since the last look; at the first look, all of the guest's pages.
    pub fn look(&mut self) -> Result<Vec<Piece>> {
        let mut found = Vec::new();
        let first = !std::mem::replace(&mut self.looked, true);
        for Tracked { span, of_the_image } in &self.spans {
            let offset = |address: u64| address - self.start;
            let mut add = |addresses: Range<u64>| {
                let range = offset(addresses.start)..offset(addresses.end);
                let from = From::Own {
                    zeros: !of_the_image,
                    first: first && self.base.is_none(),
                };
                add_pieces(&mut found, &range, from);
            };
            match &self.userfault {
                Some(userfault) if !first => {
                    userfault.written(self.pages.as_fd(), *span, &mut add)?
                }
                _ => self.held(*span, *of_the_image, &mut add)?,
            }
        }
        if first && let Some(base) = &self.base {
            let mut all = Vec::new();
            for tracked in self.spans.iter().filter(|it| !it.of_the_image) {
                let start = tracked.span.address - self.start;
                for range in data_ranges(base.as_fd(), start..start + tracked.span.length) {
                    add_pieces(&mut all, &range, From::Base);
                }
            }
            all.append(&mut found);
            found = all;
        }
        Ok(found)
    }

    /// Tells the pages that a guest has: those present or swapped, and of the image only its own.
    fn held(&self, span: Span, of_the_image: bool, told: &mut dyn FnMut(Range<u64>)) -> Result<()> {
        let (first, end) = (span.address / PAGE_BYTES, span.end() / PAGE_BYTES);
        let mut entries = vec![0; 8 * ENTRIES.min(end - first) as usize];
        let mut run: Option<Range<u64>> = None;
        for some in (first..end).step_by(ENTRIES as usize) {
            let count = ENTRIES.min(end - some) as usize;
            let entries = &mut entries[..8 * count];
            self.pages
                .read_exact_at(entries, some * 8)
                .context(READING)?;
            for (number, entry) in (some..).zip(entries.chunks_exact(8)) {
                let entry = u64::from_ne_bytes(entry.try_into().expect("chunks of 8"));
                if entry & (PRESENT | SWAPPED) == 0 || of_the_image && entry & OF_A_FILE != 0 {
                    continue;
                }
                let page = number * PAGE_BYTES..(number + 1) * PAGE_BYTES;
                match &mut run {
                    Some(run) if run.end == page.start => run.end = page.end,
                    _ => run.replace(page).into_iter().for_each(&mut *told),
                }
            }
        }
        run.into_iter().for_each(told);
        Ok(())
    }

    /// Tells what a piece holds, and at which offsets.
    pub fn read(
        &self,
        piece: &Piece,
        mut told: impl FnMut(u64, Content<'_>) -> Result<()>,
    ) -> Result<()> {
        let (zeros, first) = match (piece.from, &self.base) {
            (From::Own { zeros, first }, _) => (zeros, first),
            (From::Base, Some(base)) => {
                let mut failed = Ok(());
                each_data(base.as_fd(), piece.range.clone(), &mut |offset, bytes| {
                    failed = told(offset, Content::Bytes(bytes));
                    match failed {
                        Ok(()) => Ok(()),
                        Err(_) => Err(io::ErrorKind::Other.into()),
                    }
                })
                .or_else(|error| failed.and(Err(error).context(READING)))?;
                return Ok(());
            }
            (From::Base, None) => return Ok(()),
        };
        let mut bytes = vec![0; piece.bytes() as usize];
        let address = self.start + piece.range.start;
        self.memory
            .read_exact_at(&mut bytes, address)
            .context(READING)?;
        let is_zero = |page: &[u8]| zeros && page == [0; PAGE];
        let mut at = 0;
        while at < bytes.len() {
            let offset = piece.range.start + at as u64;
            let zero = is_zero(&bytes[at..at + PAGE]);
            let alike = bytes[at..].chunks_exact(PAGE);
            let length = PAGE * alike.take_while(|page| is_zero(page) == zero).count();
            if !zero {
                told(offset, Content::Bytes(&bytes[at..at + length]))?;
            } else if !first {
                told(offset, Content::Zeros(length as u64))?;
            }
            at += length;
        }
        Ok(())
    }
}

impl Drop for Tracker {
    fn drop(&mut self) {
        if let Some(userfault) = &self.userfault {
            for tracked in &self.spans {
                userfault.release(tracked.span);
            }
        }
    }
}

/// Adds a range in pieces.
fn add_pieces(to: &mut Vec<Piece>, range: &Range<u64>, from: From) {
    let mut start = range.start;
    while start < range.end {
        let end = range.end.min(start + PIECE);
        to.push(Piece {
            range: start..end,
            from,
        });
        start = end;
    }
}

/// The error of what was tried, a noun, to track what a guest writes.
fn untracked<E: Into<io::Error>>(what: &'static str) -> impl Fn(E) -> Error {
    move |error| Error::Tracking {
        what,
        source: error.into(),
    }
}

/// A userfaultfd of a guest's process.
struct Userfault(OwnedFd);

/// Whether the kernel can tell what a guest writes while it is copied.
pub fn can_track() -> bool {
    userfault().is_some()
}

/// Opens a userfaultfd in this process, which will run a guest, for the process that copies the guest.
pub(crate) fn offer() {
    // It stays open as long as the process lives.
    let _ = userfault().map(IntoRawFd::into_raw_fd);
}

/// A userfaultfd of this process.
fn userfault() -> Option<OwnedFd> {
    /// Without the kernel's own accesses to wait for, it needs no privilege.
    const USER_MODE_ONLY: u32 = 1;
    const API: u64 = 0xaa;
    /// Write protection; also of shared memory, and of pages that are not there; lifted by the kernel itself.
    const FEATURES: u64 = 1 << 0 | 1 << 12 | 1 << 13 | 1 << 15;
    #[repr(C)]
    struct Handshake {
        api: u64,
        features: u64,
        ioctls: u64,
    }
    let flags = UserfaultfdFlags::CLOEXEC
        | UserfaultfdFlags::NONBLOCK
        | UserfaultfdFlags::from_bits_retain(USER_MODE_ONLY);
    // SAFETY: it does nothing to memory before a range is registered.
    let file = unsafe { userfaultfd(flags) }.ok()?;
    let mut handshake = Handshake {
        api: API,
        features: FEATURES,
        ioctls: 0,
    };
    const HANDSHAKE: Opcode = opcode::read_write::<Handshake>(0xaa, 0x3f);
    // SAFETY: the request's argument is of this form.
    unsafe { order::<HANDSHAKE, _>(file.as_fd(), &mut handshake) }.ok()?;
    Some(file)
}

/// Makes a request of the kernel.
///
/// # Safety
/// The request reads and writes a `T`.
unsafe fn order<const OPCODE: Opcode, T>(
    file: BorrowedFd<'_>,
    argument: &mut T,
) -> rustix::io::Result<()> {
    // SAFETY: the caller's promise.
    unsafe { ioctl(file, Updater::<OPCODE, T>::new(argument)) }
}

#[repr(C)]
struct Registered {
    start: u64,
    length: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct Protected {
    start: u64,
    length: u64,
    mode: u64,
}

#[repr(C)]
struct Bytes {
    start: u64,
    length: u64,
}

/// A scan of `/proc/PID/pagemap`.
#[repr(C)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    /// Where it ended.
    walk_end: u64,
    regions: *mut c_void,
    regions_length: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_any: u64,
    return_mask: u64,
}

/// Pages in a row that a scan found.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Found {
    start: u64,
    end: u64,
    categories: u64,
}

impl Userfault {
    /// Protects the pages of a range, so that [`written`](Self::written) finds the first write to each.
    fn protect(&self, span: Span) -> Result<()> {
        const REGISTER: Opcode = opcode::read_write::<Registered>(0xaa, 0x00);
        const PROTECT: Opcode = opcode::read_write::<Protected>(0xaa, 0x06);
        let (start, length) = (span.address, span.length);
        let mut registered = Registered {
            start,
            length,
            mode: 1 << 1,
            ioctls: 0,
        };
        // SAFETY: the request's argument is of this form.
        unsafe { order::<REGISTER, _>(self.0.as_fd(), &mut registered) }
            .map_err(untracked("UFFDIO_REGISTER"))?;
        let mut protected = Protected {
            start,
            length,
            mode: 1 << 0,
        };
        // SAFETY: the request's argument is of this form.
        unsafe { order::<PROTECT, _>(self.0.as_fd(), &mut protected) }
            .map_err(untracked("UFFDIO_WRITEPROTECT"))
    }

    /// Ends that.
    fn release(&self, span: Span) {
        const UNREGISTER: Opcode = opcode::read::<Bytes>(0xaa, 0x01);
        let mut bytes = Bytes {
            start: span.address,
            length: span.length,
        };
        // SAFETY: the request's argument is of this form. A process that has ended has nothing to release.
        let _ = unsafe { order::<UNREGISTER, _>(self.0.as_fd(), &mut bytes) };
    }

    /// Tells the pages of a range that were written since they were protected, and protects them again.
    fn written(
        &self,
        pages: BorrowedFd<'_>,
        span: Span,
        told: &mut dyn FnMut(Range<u64>),
    ) -> Result<()> {
        const SCAN: Opcode = opcode::read_write::<Scan>(b'f', 16);
        /// Protect what is told, and fail where nothing is tracked.
        const FLAGS: u64 = 1 << 0 | 1 << 1;
        const WRITTEN: u64 = 1 << 1;
        let mut found = [Found::default(); 256];
        let mut start = span.address;
        while start < span.end() {
            let mut scan = Scan {
                size: size_of::<Scan>() as u64,
                flags: FLAGS,
                start,
                end: span.end(),
                walk_end: 0,
                regions: found.as_mut_ptr().cast(),
                regions_length: found.len() as u64,
                max_pages: 0,
                category_inverted: 0,
                category_mask: WRITTEN,
                category_any: 0,
                return_mask: WRITTEN,
            };
            // The number of regions is the request's result, which the library's form of a request has no place for.
            // SAFETY: the request's argument is of this form, and names memory that outlives it.
            let count = unsafe {
                libc::ioctl(
                    pages.as_raw_fd(),
                    libc::Ioctl::from(SCAN),
                    std::ptr::from_mut(&mut scan),
                )
            };
            let Ok(count) = usize::try_from(count) else {
                return Err(untracked("PAGEMAP_SCAN")(io::Error::last_os_error()));
            };
            for found in found.iter().take(count) {
                told(found.start..found.end);
            }
            if scan.walk_end <= start {
                break;
            }
            start = scan.walk_end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_tracked_is_told_with_the_kernels_answer_and_a_remedy() {
        let none = Userfault(File::open("/dev/null").unwrap().into());
        let span = Span {
            address: 0x1000,
            length: 0x1000,
        };
        let error = none.protect(span).unwrap_err().to_string();
        assert!(error.contains("UFFDIO_REGISTER failed: ") && error.contains("(os error 25)"));
        assert!(
            error.contains("Linux 6.7") && error.contains("`weir save`"),
            "{error}"
        );
        let zero = File::open("/dev/zero").unwrap();
        let error = none.written(zero.as_fd(), span, &mut drop).unwrap_err();
        assert!(
            error.to_string().contains("PAGEMAP_SCAN failed: "),
            "{error}"
        );
        let error =
            untracked("pidfd_getfd of its userfaultfd")(io::Error::from_raw_os_error(libc::EPERM));
        assert!(error.to_string().ends_with("CAP_SYS_PTRACE"), "{error}");
    }
}
