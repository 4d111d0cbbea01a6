//! The guest's memory, mapped in its process.

use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;

use abi::PAGE;
use abi::boot::{BootPage, Span};
use abi::control::Region;
use abi::tenant::{NSM_FILE_BYTES, PAYLOAD_FILE_BYTES};
use rustix::fs::{SeekFrom, seek};
use rustix::io::pread;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous};
use rustix::time::{ClockId, clock_gettime};

use crate::control::FILE_BYTES;
use crate::error::{Context, Error, Result};
use crate::image::{Access, IMAGE_BASE, Image};
use crate::launch::Launch;
use crate::layout::{CLUSTER, Layout, STACK_AHEAD};
use crate::report::Reporter;
use crate::snapshot::data_ranges;

pub(super) fn map_control(launch: &Launch) -> Result<(Region<'static>, Reporter)> {
    let span = Span {
        address: launch.parameters.layout.control.address,
        length: FILE_BYTES as u64,
    };
    let file = launch.control.as_fd();
    let at = map_file(span, Access::Write, MapFlags::SHARED, file, 0)?;
    // SAFETY: just mapped, and never unmapped; both parts lie inside and are page aligned.
    unsafe {
        let report = at.add(launch.parameters.layout.control.length as usize);
        Ok((Region::new(at), Reporter::new(report.cast())))
    }
}

pub(super) fn map_image(image: &Image) -> Result<()> {
    for segment in &image.segments {
        let span = Span {
            address: segment.address,
            length: segment.length,
        };
        let offset = segment.address - IMAGE_BASE;
        // Private: pages that are not written are the file's own, shared by all guests.
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        map_file(span, segment.access, flags, image.file.as_fd(), offset)?;
        if segment.access == Access::Write {
            populate(span, 0, 2);
        }
    }
    Ok(())
}

/// Maps everything but the image and the control region.
///
/// The pages that every guest touches when it starts are provided in advance: the first pages of the control
/// region, of the console and of the heap, the end of the stack, and the present pages of the data region. That
/// is cheaper than a fault for each inside the guest, and KVM maps present neighbours along with a page that
/// faults (see [`crate::layout`]).
pub(super) fn map_memory(image: &Image, launch: &Launch) -> Result<()> {
    let layout = &launch.parameters.layout;
    let spans = [layout.boot, layout.heap, layout.private].into_iter();
    for span in spans.chain(layout.stacks()) {
        map_anonymous(span)?;
    }
    if let Some(file) = &launch.data {
        let file = file.as_fd();
        map_file(layout.data, Access::Write, MapFlags::SHARED, file, 0)?;
        populate_present(layout.data, file);
    }
    if let Some(sockets) = &launch.sockets {
        let queues = Span {
            address: layout.sockets.address + PAYLOAD_FILE_BYTES as u64,
            length: NSM_FILE_BYTES as u64,
        };
        let payload = Span {
            length: PAYLOAD_FILE_BYTES as u64,
            ..layout.sockets
        };
        for (span, file) in [(payload, &sockets.payload), (queues, &sockets.queues)] {
            map_file(span, Access::Write, MapFlags::SHARED, file.as_fd(), 0)?;
        }
    }
    if let Some(snapshot) = &launch.snapshot {
        map_snapshot(image, layout, snapshot.as_fd())?;
    }
    // SAFETY: just mapped, writable, and long enough.
    unsafe {
        let to = layout.boot.address as *mut u8;
        std::ptr::copy_nonoverlapping(launch.boot_area.as_ptr(), to, launch.boot_area.len());
    }
    populate(layout.control, 0, 2);
    populate(layout.heap, 0, CLUSTER / PAGE as u64);
    for stack in layout.stacks() {
        let ahead = STACK_AHEAD / PAGE as u64;
        populate(stack, stack.length / PAGE as u64 - ahead, ahead);
    }
    Ok(())
}

/// Tells the guest the time, as late as can be: its clock starts from there when it runs, and guests compare their clocks.
pub(super) fn set_clock(layout: &Layout) {
    let now = clock_gettime(ClockId::Realtime);
    let page = layout.boot.address as *mut BootPage;
    // SAFETY: the boot area begins with the page, is mapped, and writable until a wall protects it. The guest does not
    // run yet.
    unsafe { (*page).wall_clock_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64 };
}

/// Maps a snapshot's data over stacks and heap, page by page its own until the guest writes to it, and copies what
/// was written of the image.
fn map_snapshot(image: &Image, layout: &Layout, file: BorrowedFd<'_>) -> Result<()> {
    let range = |span: Span| {
        let at = span.address - layout.start();
        at..at + span.length
    };
    for span in layout.stacks().chain([layout.heap]) {
        for part in data_ranges(file, range(span)) {
            let at = (layout.start() + part.start) as *mut c_void;
            let length = (part.end - part.start) as usize;
            let flags = MapFlags::PRIVATE | MapFlags::FIXED;
            let access = protection(Access::Write);
            // SAFETY: replaces anonymous memory of the guest, which was just mapped.
            unsafe { mmap(at, length, access, flags, file, part.start) }
                .context("mapping the saved guest's memory")?;
        }
    }
    for segment in image
        .segments
        .iter()
        .filter(|it| it.access == Access::Write)
    {
        let span = Span {
            address: segment.address,
            length: segment.length,
        };
        for part in data_ranges(file, range(span)) {
            let at = (layout.start() + part.start) as *mut u8;
            let length = (part.end - part.start) as usize;
            // SAFETY: inside the segment, which is mapped writable; nothing else refers to it.
            let to = unsafe { std::slice::from_raw_parts_mut(at, length) };
            let mut read = 0;
            while read < length {
                let some = pread(file, &mut to[read..], part.start + read as u64);
                read += match some.context("reading the saved guest's memory")? {
                    0 => break,
                    some => some,
                };
            }
        }
    }
    Ok(())
}

/// Maps the parts of a memory file that have memory already, without giving any to the rest: the maker of the
/// file decides which pages the guest finds mapped. Of long parts, only the first pages are mapped.
fn populate_present(span: Span, file: BorrowedFd<'_>) {
    const PARTS: usize = 4;
    const PAGES: u64 = 64;
    let mut end = 0;
    for _ in 0..PARTS {
        // It fails at the last part, or on a kernel without SEEK_DATA.
        let Ok(start) = seek(file, SeekFrom::Data(end)) else {
            return;
        };
        end = seek(file, SeekFrom::Hole(start)).unwrap_or(start);
        if start >= end || start >= span.length {
            return;
        }
        let pages = (end.min(span.length) - start) / PAGE as u64;
        populate(span, start / PAGE as u64, pages.min(PAGES));
    }
}

/// Provides some pages of a span in advance.
pub(crate) fn populate(span: Span, first: u64, pages: u64) {
    let page = PAGE as u64;
    let length = (pages * page).min(span.length);
    // SAFETY: inside the guest's memory, mapped writable. If it fails, the guest's faults do it.
    let _ = unsafe {
        let at = (span.address + first * page) as *mut c_void;
        madvise(at, length as usize, Advice::LinuxPopulateWrite)
    };
}

fn protection(access: Access) -> ProtFlags {
    match access {
        // For the process wall, which runs the image where it is mapped.
        Access::Execute => ProtFlags::READ | ProtFlags::EXEC,
        Access::Read => ProtFlags::READ,
        Access::Write => ProtFlags::READ | ProtFlags::WRITE,
    }
}

fn map_file(
    span: Span,
    access: Access,
    flags: MapFlags,
    file: BorrowedFd<'_>,
    offset: u64,
) -> Result<NonNull<u8>> {
    let flags = flags | MapFlags::FIXED_NOREPLACE;
    let (at, length) = (span.address as *mut c_void, span.length as usize);
    // SAFETY: replaces nothing.
    let at = unsafe { mmap(at, length, protection(access), flags, file, offset) }
        .context("mapping the guest's memory at its address")?;
    check_address(at, span)
}

fn map_anonymous(span: Span) -> Result<NonNull<u8>> {
    let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE | MapFlags::NORESERVE;
    let (at, length) = (span.address as *mut c_void, span.length as usize);
    // SAFETY: replaces nothing.
    let at = unsafe { mmap_anonymous(at, length, protection(Access::Write), flags) }
        .context("mapping the guest's memory at its address")?;
    check_address(at, span)
}

/// Kernels before 4.17 take the address as a hint.
fn check_address(at: *mut c_void, span: Span) -> Result<NonNull<u8>> {
    let at = NonNull::new(at.cast::<u8>()).filter(|at| at.as_ptr() as u64 == span.address);
    at.ok_or(Error::Image("its addresses are taken in this program"))
}
