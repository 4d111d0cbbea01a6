//! Adoption of a guest that another process started.
//!
//! A guest may outlive its parent. Another process finds the guest by process id and start time, which identify a
//! process of this boot. It gets the guest's memory files through `/proc/PID/map_files`, and its doorbells by
//! pidfd_getfd(2). Both need root, or the capabilities CAP_SYS_PTRACE and CAP_CHECKPOINT_RESTORE. So a parent of
//! thousands of guests need not keep these descriptors: it gets them when it needs them.

use std::fs::{self, File};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::child::CONTROL_DOORBELL;
use crate::control::CONTROL_FILE;
use crate::error::{Context, Error, Result};
use crate::guest::{Process, started};
use crate::layout::Layout;
use crate::{Control, Guest, GuestSpec, Template, Wall};

/// How long a process that has just received its guest may take to map it.
const MAP_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two checks for that.
const PAUSE: Duration = Duration::from_millis(1);
/// Name of the data region's memory file, given by its maker.
const DATA_FILE: &str = "weir-data";

/// A guest's identity, valid until the next boot of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its process.
    pub pid: u32,
    /// The process's start time, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub started: u64,
    /// Its wall.
    pub wall: Wall,
    /// Number of the switch's doorbell in its process.
    pub switch_doorbell: Option<RawFd>,
}

/// A guest without a parent, not yet adopted.
pub struct Orphan {
    process: Process,
    identity: Identity,
    control: Control,
}

impl Orphan {
    /// Finds a guest. `None` if it has ended. A pre-forked process whose parent ended before it had a guest is
    /// killed, and `None` too.
    pub fn find(identity: Identity) -> Result<Option<Orphan>> {
        let pid = i32::try_from(identity.pid).ok().and_then(Pid::from_raw);
        let Some(pid) = pid else {
            return Ok(None);
        };
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error).context("a descriptor for the guest's process"),
        };
        // The pidfd refers to the wanted process if that still exists with the same start time.
        if started(identity.pid) != Some(identity.started) {
            return Ok(None);
        }
        let process = Process::adopted(pid, pidfd, identity.started);
        if process.has_ended() {
            return Ok(None);
        }
        match memory_file(&process, CONTROL_FILE) {
            Ok(file) => Ok(Some(Orphan {
                control: Control::adopt(file)?,
                process,
                identity,
            })),
            Err(_) if process.has_ended() => Ok(None),
            Err(error) if is_not_mapped(&error) => {
                process.kill();
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Kills it.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Its control region.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Adopts the guest. `spec` must equal the one of its start. Files, doorbells and control region of `spec` are not
    /// used; the data region's length is.
    pub fn adopt(self, template: &Template, spec: &GuestSpec<'_>) -> Result<(Guest, Control)> {
        let layout = Layout::new(template.image(), spec, self.identity.wall)?;
        let guest = Guest {
            process: self.process,
            wall: self.identity.wall,
            image: std::rc::Rc::clone(template.image()),
            layout,
            switch_doorbell: self.identity.switch_doorbell,
        };
        Ok((guest, self.control))
    }
}

impl Guest {
    /// Its identity, by which another process adopts it.
    pub fn identity(&self) -> Result<Identity> {
        let started = started(self.pid());
        Ok(Identity {
            pid: self.pid(),
            started: started.ok_or(Error::Ended)?,
            wall: self.wall,
            switch_doorbell: self.switch_doorbell,
        })
    }

    /// The file of its data region, to attach it to a switch again.
    pub fn data_file(&self) -> Result<OwnedFd> {
        memory_file(&self.process, DATA_FILE)
    }

    /// The file of its control region, for the control store.
    pub fn control_file(&self) -> Result<OwnedFd> {
        memory_file(&self.process, CONTROL_FILE)
    }

    /// The eventfd by which it rings the control plane.
    pub fn control_doorbell(&self) -> Result<OwnedFd> {
        let flags = PidfdGetfdFlags::empty();
        pidfd_getfd(self.process.pidfd()?, CONTROL_DOORBELL, flags)
            .context("getting the control plane's doorbell from the guest's process")
    }

    /// The eventfd by which it rings the switch.
    pub fn switch_doorbell(&self) -> Result<OwnedFd> {
        let number = self.switch_doorbell.ok_or_else(|| Error::System {
            what: "the switch's doorbell of a guest",
            source: io::ErrorKind::NotFound.into(),
        })?;
        pidfd_getfd(self.process.pidfd()?, number, PidfdGetfdFlags::empty())
            .context("getting the switch's doorbell from the guest's process")
    }
}

const OPENING: &str = "opening a memory file of the guest's process";

/// Opens a memory file that a process has mapped, by its name. Waits for a process that has just received its guest
/// and has not mapped it yet.
fn memory_file(process: &Process, name: &str) -> Result<OwnedFd> {
    let start = Instant::now();
    loop {
        match mapped_file(process, name) {
            Err(error)
                if is_not_mapped(&error)
                    && !process.has_ended()
                    && start.elapsed() < MAP_TIMEOUT =>
            {
                std::thread::sleep(PAUSE);
            }
            orphan => return orphan,
        }
    }
}

/// Whether a process has mapped no file of a name, and not something worse.
fn is_not_mapped(error: &Error) -> bool {
    matches!(error, Error::System { what: OPENING, source } if source.kind() == io::ErrorKind::NotFound)
}

pub(crate) fn mapped_file(process: &Process, name: &str) -> Result<OwnedFd> {
    let pid = process.pid.as_raw_nonzero();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).context(OPENING)?;
    let wanted = format!("/memfd:{name} ");
    let line = maps.lines().find(|line| line.contains(&wanted));
    let range = line.and_then(|line| line.split_once(' ')?.0.split_once('-'));
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let range = range.and_then(|(start, end)| Some((number(start)?, number(end)?)));
    let Some((start, end)) = range else {
        let source = io::Error::new(io::ErrorKind::NotFound, format!("no {name} is mapped"));
        return Err(Error::System {
            what: OPENING,
            source,
        });
    };
    let path = format!("/proc/{pid}/map_files/{start:x}-{end:x}");
    let file = File::options().read(true).write(true).open(path);
    let file = file.context(OPENING)?;
    // If the process has ended meanwhile, another one may have its number.
    match process.has_ended() {
        true => Err(Error::Ended),
        false => Ok(file.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start_time() {
        let own = started(std::process::id()).unwrap();
        assert!(own > 0);
        assert_eq!(started(u32::MAX), None);
        let identity = Identity {
            pid: std::process::id(),
            started: own + 1,
            wall: Wall::Vm,
            switch_doorbell: None,
        };
        assert!(Orphan::find(identity).unwrap().is_none());
    }
}
