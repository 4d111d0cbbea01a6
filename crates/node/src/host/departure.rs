//! Reads a guest's memory, rings and buffers while it runs, for a copy on another host that replaces it.
//!
//! What the guest writes to its private memory is tracked ([`vmm::Tracker`]). The switch writes the data region as
//! well, so each of its pages is compared with the page that was read before.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use ::switch::memory::SharedRegion;
use rustix::io::pread;
use vmm::{Content, Piece, Tracker, Tracking};

use super::Host;
use super::copy::{Stored, data_file, put_record, write};
use crate::error::{Error, Result};

const PAGE: usize = 4096;

/// A guest that is read while it runs.
pub struct Departure {
    /// The guest's number.
    pub guest: u64,
    tracker: Tracker,
    region: SharedRegion,
    data: OwnedFd,
    /// The data region as it was read last.
    read: Vec<u8>,
    /// The description needed to recreate a snapshot from the guest's memory.
    pub description: Vec<u8>,
}

/// A part of a guest that a [look](Departure::look) found.
pub enum Found {
    /// Private memory that was written.
    Memory(Piece),
    /// Rings and buffers that may have been.
    Data(Range<u64>),
}

impl Host {
    /// Begins to read a guest.
    pub fn depart(&self, id: u64) -> Result<Departure> {
        let missing = || Error::refused("the guest does not run");
        let running = self.guests.get(&id).ok_or_else(missing)?;
        let geometry = running.launch.geometry()?;
        let data = running.guest.data_file()?;
        Ok(Departure {
            guest: id,
            tracker: running.guest.track(Tracking::Repeated)?,
            region: SharedRegion::map(data.as_fd(), geometry)?,
            data,
            read: vec![0; geometry.bytes()],
            description: running.guest.description(),
        })
    }

    /// Records of a guest's control region.
    pub fn control_records(&self, id: u64) -> Vec<u8> {
        let mut records = Vec::new();
        if let Some(running) = self.guests.get(&id) {
            let control = running.control.contents();
            put_record(&mut records, Stored::Control, 0, Content::Bytes(&control));
        }
        records
    }

    /// Detaches a guest's ports: the guest does not go on here.
    pub fn leave_switch(&mut self, id: u64) {
        if let Some(running) = self.guests.get(&id) {
            let launch = running.launch.clone();
            self.detach_guests(&[&launch]);
        }
    }

    /// Announces the addresses of a guest that came from another host.
    pub fn announce(&self, id: u64) -> Result<()> {
        let Some(running) = self.guests.get(&id) else {
            return Ok(());
        };
        let ports = running.launch.ports.iter();
        let ports = ports.filter_map(|port| Some(self.ports.get(&port.name)?.id));
        let ports: Vec<_> = ports.collect();
        Ok(self.client()?.announce(&ports)?)
    }

    /// Delivers frames to an interface of a guest that came from another host.
    pub fn deliver_late(&self, id: u64, interface: usize, frames: &[u8]) -> Result<()> {
        let running = self.guests.get(&id);
        let port = running.and_then(|running| running.launch.ports.get(interface));
        let port = port.and_then(|port| self.ports.get(&port.name));
        let missing = || Error::refused("the guest has no such port");
        let file = data_file(frames.len() as u64)?;
        write(&file, 0, frames)
            .map_err(|error| Error::failed(format_args!("late frames: {error}")))?;
        Ok(self
            .client()?
            .deliver(port.ok_or_else(missing)?.id, file.as_fd())?)
    }
}

impl Departure {
    /// What may have been written since the last look; at the first one, all that there is.
    pub fn look(&mut self) -> Result<Vec<Found>> {
        let memory = self.tracker.look()?.into_iter().map(Found::Memory);
        let data = vmm::data_ranges(self.data.as_fd(), 0..self.read.len() as u64);
        Ok(memory.chain(data.map(Found::Data)).collect())
    }

    /// Appends records of the found pages that have changed since they were read.
    pub fn read(&mut self, found: &Found, to: &mut Vec<u8>) -> Result<()> {
        match found {
            Found::Memory(piece) => {
                self.tracker.read(piece, |offset, content| {
                    put_record(to, Stored::Memory, offset, content);
                    Ok(())
                })?;
            }
            Found::Data(range) => self.read_data(range, to)?,
        }
        Ok(())
    }

    fn read_data(&mut self, range: &Range<u64>, to: &mut Vec<u8>) -> Result<()> {
        let failed = |error| Error::failed(format_args!("a guest's rings: {error}"));
        let mut now = [0; 16 * PAGE];
        let mut at = range.start;
        while at < range.end {
            let length = now.len().min((range.end - at) as usize);
            let length = pread(&self.data, &mut now[..length], at).map_err(failed)?;
            if length == 0 {
                break;
            }
            let before = &mut self.read[at as usize..at as usize + length];
            let pages = now[..length].chunks(PAGE).zip(before.chunks_mut(PAGE));
            for ((now, before), offset) in pages.zip((at..).step_by(PAGE)) {
                if now != before {
                    before.copy_from_slice(now);
                    put_record(to, Stored::Data, offset, Content::Bytes(now));
                }
            }
            at += length as u64;
        }
        Ok(())
    }

    /// Number of filled slots of each interface's receive ring: the copy gets these frames, and later ones follow it.
    pub fn received(&self) -> Vec<u32> {
        self.region.received()
    }

    /// Whether the switch has taken all that the guest has sent.
    pub fn is_drained(&self) -> bool {
        self.region.is_drained()
    }

    /// The frames that came behind so many slots of each interface's receive ring, and how many there are with them.
    /// The guest stands still.
    pub fn late_frames(&self, received: &[u32]) -> (Vec<Vec<u8>>, Vec<u32>) {
        let late = |(i, slots): (usize, &u32)| self.region.late_frames(i, *slots);
        received.iter().enumerate().map(late).unzip()
    }
}
