//! The VNICs of user NSMs: rings in a data region, as a guest's, which the switch and the NSM's process share.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command};

use ::switch::client::Guest;
use ::switch::memory::SharedRegion;
use ::switch::protocol::PortKind;
use abi::region::Geometry;
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use super::doorbells::eventfd;
use super::launch::{LaunchPort, interface};
use super::{Host, Port};
use crate::error::{Error, Result};

/// Slots of each ring.
const SLOTS: u32 = 1024;
/// The descriptors by which an NSM's process has its files.
const REGION: i32 = 0;
const DOORBELL: i32 = 1;

/// What the switch and an NSM's process share.
pub(super) struct Files {
    region: OwnedFd,
    doorbell: OwnedFd,
}

/// The files of an NSM's process that runs, for another switch.
pub(super) fn of(pidfd: &OwnedFd) -> Result<Files> {
    let file = |number| pidfd_getfd(pidfd, number, PidfdGetfdFlags::empty());
    let files = file(REGION).and_then(|region| {
        let doorbell = file(DOORBELL)?;
        Ok(Files { region, doorbell })
    });
    files.map_err(|error| Error::failed(format_args!("the rings of an NSM's process: {error}")))
}

impl Host {
    /// Starts a user NSM's process with its VNIC, whose port is attached before.
    pub(super) fn start_with_rings(
        &mut self,
        program: &mut Command,
        port: &LaunchPort,
    ) -> Result<io::Result<Child>> {
        let failed = |error: io::Error| Error::failed(format_args!("the rings of an NSM: {error}"));
        let geometry = Geometry::new(SLOTS, 1)?;
        let (_, region) = SharedRegion::create(geometry, &[interface(port)?])?;
        let doorbell = eventfd()?;
        let (stdin, stdout) = (region.try_clone(), doorbell.try_clone());
        program
            .stdin(stdin.map_err(failed)?)
            .stdout(stdout.map_err(failed)?);
        // A port that is left is of a process that has ended.
        self.detach(&port.name);
        self.attach_nsm(port, &Files { region, doorbell })?;
        let child = program.spawn();
        if child.is_err() {
            self.detach(&port.name);
        }
        Ok(child)
    }

    /// Attaches the port of a user NSM's VNIC, if it is not: the switch goes on where the last one stood.
    pub(super) fn attach_nsm(&mut self, port: &LaunchPort, files: &Files) -> Result<()> {
        if self.has_port(&port.name) {
            return Ok(());
        }
        let ports = self.client()?.attach_guest(Guest {
            region: files.region.as_fd(),
            doorbell: files.doorbell.as_fd(),
            shared: None,
            waits: None,
            slots: SLOTS,
            interfaces: vec![port.for_switch()],
        })?;
        let (kind, domain) = (PortKind::Guest, port.domain);
        for id in ports {
            self.ports
                .insert(port.name.clone(), Port { id, kind, domain });
        }
        Ok(())
    }
}
