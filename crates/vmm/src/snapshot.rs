//! The memory of a suspended guest, from which copies of it are started.
//!
//! A suspended guest's state is its memory alone: what it wrote of its image, its stacks, its heap, its control region.
//! A copy starts like any guest, at the image's entry, and continues where the original was suspended. It has the
//! original's addresses, so it needs the same image, memory size, number of CPUs and data region; its wall may be
//! another. Its pages are the snapshot's own until it writes to them.
//!
//! A guest wrote all of it. Only the sizes are used, and they are checked when a copy is started.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use abi::PAGE;
use abi::control::{REGION_BYTES, State};
use rustix::fs::{MemfdFlags, SealFlags, SeekFrom, fcntl_add_seals, ftruncate, memfd_create, seek};
use rustix::io::{pread, pwrite};
use serde::{Deserialize, Serialize};

use crate::error::{Context, Error, Result};
use crate::layout::Layout;
use crate::tracking::{Content, Tracking};
use crate::{Control, Guest, Template};

/// Name of its memory file.
pub(crate) const SNAPSHOT_FILE: &str = "weir-snapshot";
const MAKING: &str = "copying a guest's memory";
/// Most bytes copied at a time.
const CHUNK: usize = 1 << 16;

/// A suspended guest's memory.
pub struct Snapshot {
    description: Description,
    /// The memory; offset 0 is the layout's first address.
    memory: OwnedFd,
    control: OwnedFd,
}

#[derive(Clone, Serialize, Deserialize)]
struct Description {
    layout: Layout,
    image: u64,
}

/// A part of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The guest's private memory.
    Memory,
    /// Its control region.
    Control,
}

impl Guest {
    /// Copies the memory of this guest, which is suspended. `control` is its control region.
    pub fn snapshot(&self, control: &Control) -> Result<Snapshot> {
        if control.state() != Some(State::Suspended) {
            return Err(Error::NotSuspended);
        }
        let memory = memory_file(bytes(&self.layout))?;
        let mut pages = self.track(Tracking::Once)?;
        for piece in pages.look()? {
            pages.read(&piece, |offset, content| match content {
                Content::Bytes(bytes) => write_all(memory.as_fd(), bytes, offset),
                Content::Zeros(length) => forget(memory.as_fd(), offset, length),
            })?;
        }
        let copy = Control::blank()?;
        write_all(copy.as_fd(), &control.contents(), 0)?;
        Ok(Snapshot {
            description: Description::of(self),
            memory,
            control: copy,
        })
    }

    /// What a program needs to make a snapshot of this guest of its [parts](Part): see [`Snapshot::new`].
    pub fn description(&self) -> Vec<u8> {
        Description::of(self).bytes()
    }
}

impl Description {
    fn of(guest: &Guest) -> Description {
        Description {
            layout: guest.layout.of_the_guest(),
            image: guest.image.fingerprint(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        // It has nothing that cannot be written.
        postcard::to_allocvec(self).unwrap_or_default()
    }
}

/// Bytes from a layout's first address to the end of the guest's part.
fn bytes(layout: &Layout) -> u64 {
    layout.doorbells.end() - layout.start()
}

/// Makes pages of a snapshot pages of zeros.
fn forget(file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(file, flags, offset, length).context(MAKING)
}

fn memory_file(bytes: u64) -> Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create(SNAPSHOT_FILE, flags).context(MAKING)?;
    ftruncate(&file, bytes).context(MAKING)?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW;
    fcntl_add_seals(&file, seals).context(MAKING)?;
    Ok(file)
}

impl Snapshot {
    /// What a program needs, beside the [parts](Self::file), to make the snapshot [again](Self::new).
    pub fn description(&self) -> Vec<u8> {
        self.description.bytes()
    }

    /// A snapshot that was described, with parts that are empty: write their [data](data) to them.
    pub fn new(template: &Template, description: &[u8]) -> Result<Snapshot> {
        let description: Description =
            postcard::from_bytes(description).map_err(|_| Error::Snapshot("it has no layout"))?;
        if description.image != template.image().fingerprint() {
            return Err(Error::Snapshot(
                "it was saved by another build of this program, whose guests have other code",
            ));
        }
        let layout = &description.layout;
        if !layout.is_sound() {
            return Err(Error::Snapshot("its layout is impossible"));
        }
        Ok(Snapshot {
            memory: memory_file(bytes(layout))?,
            control: Control::blank()?,
            description,
        })
    }

    /// The file of a part.
    pub fn file(&self, part: Part) -> BorrowedFd<'_> {
        match part {
            Part::Memory => self.memory.as_fd(),
            Part::Control => self.control.as_fd(),
        }
    }

    /// Makes so many bytes of the guest's memory, whole pages, zeros.
    pub fn forget(&self, offset: u64, length: u64) -> Result<()> {
        let page = PAGE as u64;
        let whole = offset.is_multiple_of(page) && length.is_multiple_of(page) && length > 0;
        let end = offset.checked_add(length);
        if !whole || end.is_none_or(|end| end > bytes(self.layout())) {
            return Err(Error::Snapshot("a page of it lies outside its memory"));
        }
        forget(self.memory.as_fd(), offset, length)
    }

    /// The control region for a copy.
    pub fn control(&self) -> Result<Control> {
        let file = Control::blank()?;
        copy_data(self.control.as_fd(), file.as_fd(), 0..REGION_BYTES as u64)?;
        Control::adopt_suspended(file)
    }

    /// Bytes of a configuration with which a guest's memory is laid out as in this snapshot, if its name has so many.
    pub fn config_length(&self, name: usize) -> usize {
        let least = abi::boot::area_length(name, 0);
        (self.description.layout.boot.length as usize).saturating_sub(least)
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.description.layout
    }
}

/// The data of a sparse file, without the holes: offsets and bytes, in order.
pub fn data(
    file: BorrowedFd<'_>,
    mut told: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    each_data(file, 0..u64::MAX, &mut told)
}

pub(crate) fn each_data(
    file: BorrowedFd<'_>,
    range: std::ops::Range<u64>,
    told: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut bytes = vec![0; CHUNK];
    for part in data_ranges(file, range) {
        let mut at = part.start;
        while at < part.end {
            let length = ((part.end - at) as usize).min(CHUNK);
            let read = pread(file, &mut bytes[..length], at)?;
            if read == 0 {
                break;
            }
            told(at, &bytes[..read])?;
            at += read as u64;
        }
    }
    Ok(())
}

/// The parts of a file's range that have data.
pub fn data_ranges(
    file: BorrowedFd<'_>,
    range: std::ops::Range<u64>,
) -> impl Iterator<Item = std::ops::Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        // It fails behind the last data.
        let start = seek(file, SeekFrom::Data(at)).ok()?;
        let end = seek(file, SeekFrom::Hole(start)).ok()?.min(range.end);
        at = end;
        (start < end).then_some(start..end)
    })
}

fn copy_data(from: BorrowedFd<'_>, to: BorrowedFd<'_>, range: std::ops::Range<u64>) -> Result<()> {
    let mut write = |offset, bytes: &[u8]| {
        write_all(to, bytes, offset).map_err(|error| io::Error::other(error.to_string()))
    };
    each_data(from, range, &mut write).context(MAKING)
}

fn write_all(file: BorrowedFd<'_>, mut bytes: &[u8], mut offset: u64) -> Result<()> {
    while !bytes.is_empty() {
        let written = pwrite(file, bytes, offset).context(MAKING)?;
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}
