//! Copying guests.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use ::switch::lookup::Mac;
use abi::control::State;
use abi::message::kind;

use super::Host;
use super::copy::{Copy, data_file, write};
use super::launch::Launch;
use crate::error::{Error, Kind, Result};

impl Host {
    /// Whether a guest stands still, suspended.
    pub fn is_suspended(&self, id: u64) -> bool {
        let running = self.guests.get(&id);
        running.is_some_and(|running| running.control.state() == Some(State::Suspended))
    }

    /// Has a suspended guest go on.
    pub fn go_on(&mut self, id: u64) -> Result<()> {
        self.ask(id, kind::RESUME, "").map(drop)
    }

    /// Copies a suspended guest. If the copy is to have the frames in its rings, the guest loses its ports: it does
    /// not go on.
    pub fn copy(&mut self, id: u64, carries: bool) -> Result<Copy> {
        let missing = || Error::new(Kind::Unavailable, "the guest does not run");
        let running = self.guests.get(&id).ok_or_else(missing)?;
        let launch: Launch = running.launch.clone();
        if carries {
            // The switch takes no more frames out of its rings, and puts none into them.
            self.detach_guests(&[&launch]);
        }
        let running = self.guests.get(&id).ok_or_else(missing)?;
        let snapshot = running.guest.snapshot(&running.control)?;
        let from = running.guest.data_file()?;
        let data = data_file(launch.geometry()?.bytes() as u64)?;
        vmm::data(from.as_fd(), |offset, bytes| write(&data, offset, bytes))
            .map_err(|error| Error::failed(format_args!("a guest's rings: {error}")))?;
        let macs = launch.ports.iter();
        Ok(Copy {
            snapshot,
            data,
            carries,
            macs: macs.map(|it| (it.interface.clone(), it.mac)).collect(),
        })
    }

    /// An empty copy that a stored description fits, to be filled part by part.
    pub fn stored_copy(
        &self,
        description: &[u8],
        data: u64,
        macs: BTreeMap<String, Mac>,
        carries: bool,
    ) -> Result<Copy> {
        Copy::new(self.template, description, data, macs, carries)
    }
}
