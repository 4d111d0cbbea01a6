//! Copying guests.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use abi::control::State;
use abi::message::kind;
use abi::region::Geometry;

use super::Host;
use super::copy::{CopiedPort, Copy, data_file, write};
use super::launch::{Launch, LaunchPort};
use crate::error::{Error, Result};

impl Host {
    /// Whether a guest stands still, suspended.
    pub fn is_suspended(&self, id: u64) -> bool {
        let running = self.guests.get(&id);
        running.is_some_and(|running| running.control.state() == Some(State::Suspended))
    }

    /// Resumes a suspended guest.
    pub fn go_on(&mut self, id: u64) -> Result<()> {
        self.ask(id, kind::RESUME, "").map(drop)
    }

    /// Copies a suspended guest. If the copy is to have the frames in its rings, the guest loses its ports: it does
    /// not go on.
    pub fn copy(&mut self, id: u64, carries: bool) -> Result<Copy> {
        let missing = || Error::refused("the guest does not run");
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
        Ok(Copy::of(snapshot, data, ports(&launch), carries))
    }

    /// An empty copy that a stored description fits, to be filled part by part.
    pub fn stored_copy(
        &self,
        description: &[u8],
        data: u64,
        ports: BTreeMap<String, CopiedPort>,
        carries: bool,
    ) -> Result<Copy> {
        Copy::new(self.template, description, data, ports, carries)
    }

    /// An empty copy for a single guest that comes from another host, to be filled.
    pub fn expected_copy(
        &self,
        description: &[u8],
        slots: u32,
        ports: BTreeMap<String, CopiedPort>,
    ) -> Result<Copy> {
        let geometry = Geometry::new(slots, ports.len())?;
        Copy::single(self.template, description, geometry, ports)
    }
}

/// The ports of a guest.
pub(super) fn ports(launch: &Launch) -> BTreeMap<String, CopiedPort> {
    let port = |port: &LaunchPort| CopiedPort {
        mac: Some(port.mac),
        properties: port.properties.clone(),
    };
    let ports = launch.ports.iter();
    ports.map(|it| (it.interface.clone(), port(it))).collect()
}
