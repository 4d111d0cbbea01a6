//! A copy of a guest: all parts of a suspended guest, from which other guests continue.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use ::switch::lookup::Mac;
use ::switch::memory::SharedRegion;
use ::switch::properties::PortProperties;
use abi::region::{Geometry, Interface};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::pwrite;
use vmm::{Content, Control, Part, Snapshot, Template};

use crate::error::{Error, Result};

/// A suspended guest, from which others go on.
pub struct Copy {
    pub(super) snapshot: Snapshot,
    /// Its rings and buffers.
    pub(super) data: OwnedFd,
    /// Whether that is the data region of the one guest that goes on from here, and need not be copied.
    single: bool,
    /// Whether the frames in its rings are the copy's. Otherwise they stay with the original.
    pub(super) carries: bool,
    /// Its interfaces' ports, by their names.
    pub(super) ports: BTreeMap<String, CopiedPort>,
    /// Slots of each interface's receive ring that are the copy's, if frames came while it was made.
    received: OnceLock<Vec<u32>>,
}

/// The port of a copied guest's interface.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CopiedPort {
    /// Its address, which a copy gets if it is free.
    pub mac: Option<Mac>,
    /// Its properties, which a copy's port gets.
    pub properties: PortProperties,
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

impl Stored {
    /// All.
    pub const ALL: [Stored; 3] = [Stored::Memory, Stored::Control, Stored::Data];

    /// Its number where it is stored or sent.
    pub fn tag(self) -> u8 {
        match self {
            Stored::Memory => 1,
            Stored::Control => 2,
            Stored::Data => 3,
        }
    }
}

/// The tag of a record of pages of the guest's memory that are zeros; its bytes are their length (u64).
const ZEROS: u8 = 4;
/// Bytes in front of a record's bytes: tag (u8), length (u32), offset (u64), little-endian.
const RECORD: usize = 13;

/// Appends a record: bytes of a part, or, of the guest's memory, zeros.
pub(super) fn put_record(to: &mut Vec<u8>, part: Stored, offset: u64, content: Content<'_>) {
    let length;
    let (tag, bytes) = match content {
        Content::Bytes(bytes) => (part.tag(), bytes),
        Content::Zeros(zeros) => {
            length = zeros.to_le_bytes();
            (ZEROS, &length[..])
        }
    };
    to.push(tag);
    to.extend((bytes.len() as u32).to_le_bytes());
    to.extend(offset.to_le_bytes());
    to.extend_from_slice(bytes);
}

/// The content of a record.
#[derive(Debug, PartialEq)]
enum Record<'a> {
    Bytes(Stored, u64, &'a [u8]),
    Zeros(u64, u64),
}

impl<'a> Record<'a> {
    /// Takes the first record; `None` if it is none.
    fn take(records: &mut &'a [u8]) -> Option<Record<'a>> {
        let (head, rest) = records.split_first_chunk::<RECORD>()?;
        let [tag, a, b, c, d, offset @ ..] = *head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let offset = u64::from_le_bytes(offset);
        let (bytes, rest) = rest.split_at_checked(length)?;
        *records = rest;
        if tag == ZEROS {
            let length = u64::from_le_bytes(bytes.try_into().ok()?);
            return Some(Record::Zeros(offset, length));
        }
        let part = Stored::ALL.into_iter().find(|part| part.tag() == tag)?;
        Some(Record::Bytes(part, offset, bytes))
    }
}

impl Copy {
    /// An empty one that a description fits, to be filled part by part.
    pub(super) fn new(
        template: &Template,
        description: &[u8],
        data: u64,
        ports: BTreeMap<String, CopiedPort>,
        carries: bool,
    ) -> Result<Copy> {
        Ok(Copy {
            snapshot: Snapshot::new(template, description)?,
            data: data_file(data)?,
            single: false,
            carries,
            ports,
            received: OnceLock::new(),
        })
    }

    /// As [`new`](Self::new), for a single guest, which has these rings and takes the frames in them.
    pub(super) fn single(
        template: &Template,
        description: &[u8],
        geometry: Geometry,
        ports: BTreeMap<String, CopiedPort>,
    ) -> Result<Copy> {
        Ok(Copy {
            snapshot: Snapshot::new(template, description)?,
            data: SharedRegion::blank(geometry)?,
            single: true,
            carries: true,
            ports,
            received: OnceLock::new(),
        })
    }

    /// Of a guest that stands still.
    pub(super) fn of(
        snapshot: Snapshot,
        data: OwnedFd,
        ports: BTreeMap<String, CopiedPort>,
        carries: bool,
    ) -> Copy {
        Copy {
            snapshot,
            data,
            single: false,
            carries,
            ports,
            received: OnceLock::new(),
        }
    }

    /// The description needed to recreate it, beside its parts.
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

    /// The port that an interface had.
    pub fn port(&self, interface: &str) -> CopiedPort {
        self.ports.get(interface).cloned().unwrap_or_default()
    }

    /// The ports of its interfaces.
    pub fn ports(&self) -> &BTreeMap<String, CopiedPort> {
        &self.ports
    }

    /// Notes how many slots of each interface's receive ring are the copy's, once.
    pub fn set_received(&self, slots: Vec<u32>) {
        let _ = self.received.set(slots);
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

    /// Applies [records](put_record); an error says what is wrong with them.
    pub fn apply(&self, mut records: &[u8]) -> std::io::Result<()> {
        while !records.is_empty() {
            match Record::take(&mut records).ok_or(std::io::ErrorKind::InvalidData)? {
                Record::Bytes(part, offset, bytes) => self.fill(part, offset, bytes)?,
                Record::Zeros(offset, length) => self
                    .snapshot
                    .forget(offset, length)
                    .map_err(std::io::Error::other)?,
            }
        }
        Ok(())
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
        let failed = |error| Error::failed(format_args!("a guest's rings: {error}"));
        let (region, file) = if self.single {
            let file = self.data.try_clone().map_err(failed)?;
            (SharedRegion::map(file.as_fd(), geometry)?, file)
        } else {
            let (region, file) = SharedRegion::create(geometry, interfaces)?;
            let copied = self.each(Stored::Data, |offset, bytes| write(&file, offset, bytes));
            copied.map_err(failed)?;
            (region, file)
        };
        region.become_copy(interfaces, self.carries);
        if let Some(received) = self.received.get() {
            region.keep_received(received);
        }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part() -> impl Strategy<Value = Stored> {
        prop::sample::select(&Stored::ALL[..])
    }

    proptest! {
        #[test]
        fn records_are_read_as_they_were_put_and_none_of_a_part_of_them(
            all in prop::collection::vec(
                (part(), any::<u64>(), prop::option::of(prop::collection::vec(any::<u8>(), 0..60))),
                1..8,
            ),
            cut in any::<prop::sample::Index>(),
            noise in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let mut records = Vec::new();
            let mut ends = vec![0];
            for (part, offset, bytes) in &all {
                let content = bytes.as_deref().map_or(Content::Zeros(*offset), Content::Bytes);
                put_record(&mut records, *part, *offset, content);
                ends.push(records.len());
            }
            let mut rest = &records[..];
            for (part, offset, bytes) in &all {
                let expected = match bytes {
                    Some(bytes) => Record::Bytes(*part, *offset, bytes),
                    None => Record::Zeros(*offset, *offset),
                };
                prop_assert_eq!(Record::take(&mut rest), Some(expected));
            }
            prop_assert!(rest.is_empty());

            let cut = cut.index(records.len());
            let mut rest = &records[..cut];
            while Record::take(&mut rest).is_some() {}
            prop_assert_eq!(rest.is_empty(), ends.contains(&cut));
            let mut rest = &noise[..];
            while Record::take(&mut rest).is_some() {}
        }
    }
}
