//! A copy of a guest: what a suspended guest consists of, from which others go on.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ::switch::lookup::Mac;
use ::switch::memory::SharedRegion;
use abi::region::{Geometry, Interface};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::pwrite;
use vmm::{Control, Part, Snapshot, Template};

use crate::error::{Error, Result};

/// A suspended guest, from which others go on.
pub struct Copy {
    pub(super) snapshot: Snapshot,
    /// Its rings and buffers.
    pub(super) data: OwnedFd,
    /// Whether the frames in its rings are the copy's. Otherwise they stay with the original.
    pub(super) carries: bool,
    /// The addresses of its interfaces, which a copy gets if they are free.
    pub(super) macs: BTreeMap<String, Mac>,
}

impl fmt::Debug for Copy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copy").finish_non_exhaustive()
    }
}

/// A part of a stored copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The guest's memory.
    Memory,
    /// Its control region.
    Control,
    /// Its rings and buffers.
    Data,
}

impl Copy {
    /// An empty one that a description fits, to be filled part by part.
    pub(super) fn new(
        template: &Template,
        description: &[u8],
        data: u64,
        macs: BTreeMap<String, Mac>,
        carries: bool,
    ) -> Result<Copy> {
        Ok(Copy {
            snapshot: Snapshot::new(template, description)?,
            data: data_file(data)?,
            carries,
            macs,
        })
    }

    /// What is needed to make it again, beside its parts.
    pub fn description(&self) -> Vec<u8> {
        self.snapshot.description()
    }

    /// Bytes of the data region.
    pub fn data_bytes(&self) -> u64 {
        rustix::fs::fstat(&self.data).map_or(0, |stat| stat.st_size as u64)
    }

    /// Whether the frames in its rings are the copy's.
    pub fn carries(&self) -> bool {
        self.carries
    }

    /// The address that an interface had.
    pub fn mac(&self, interface: &str) -> Option<Mac> {
        self.macs.get(interface).copied()
    }

    /// The addresses of its interfaces.
    pub fn macs(&self) -> &BTreeMap<String, Mac> {
        &self.macs
    }

    fn file(&self, part: Stored) -> BorrowedFd<'_> {
        match part {
            Stored::Memory => self.snapshot.file(Part::Memory),
            Stored::Control => self.snapshot.file(Part::Control),
            Stored::Data => self.data.as_fd(),
        }
    }

    /// Tells the bytes of a part, and where they are.
    pub fn each(
        &self,
        part: Stored,
        told: impl FnMut(u64, &[u8]) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        vmm::data(self.file(part), told)
    }

    /// Writes bytes of a part.
    pub fn fill(&self, part: Stored, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        let file = self.file(part);
        let size = rustix::fs::fstat(file)?.st_size as u64;
        let fits = offset.checked_add(bytes.len() as u64);
        if fits.is_none_or(|end| end > size) {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        write(&file, offset, bytes)
    }

    /// Bytes of a configuration that puts everything where it is in the copy, for a guest with a name of so many.
    pub fn config_length(&self, name: usize) -> usize {
        self.snapshot.config_length(name)
    }

    /// The data region of a guest that goes on from here.
    pub(super) fn region(
        &self,
        geometry: Geometry,
        interfaces: &[Interface],
    ) -> Result<(SharedRegion, OwnedFd)> {
        let (region, file) = SharedRegion::create(geometry, interfaces)?;
        let copied = self.each(Stored::Data, |offset, bytes| write(&file, offset, bytes));
        copied.map_err(|error| Error::failed(format_args!("a guest's rings: {error}")))?;
        region.become_copy(interfaces, self.carries);
        Ok((region, file))
    }

    /// The control region of a guest that goes on from here.
    pub(super) fn control(&self) -> Result<Control> {
        Ok(self.snapshot.control()?)
    }
}

pub(super) fn data_file(bytes: u64) -> Result<OwnedFd> {
    let made = memfd_create("weir-copy", MemfdFlags::CLOEXEC).and_then(|file| {
        ftruncate(&file, bytes)?;
        Ok(file)
    });
    made.map_err(|error| Error::failed(format_args!("memory for a copy: {error}")))
}

pub(super) fn write(to: &impl AsFd, mut offset: u64, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let written = pwrite(to, bytes, offset)?;
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}
