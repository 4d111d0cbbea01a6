//! Taking over a guest that another process started.
//!
//! A guest whose parent has ended goes on. Whoever takes its parent's place finds it by process id and start
//! time, which no other process of this boot has together, and gets hold of what the parent had: its memory
//! files through `/proc/PID/map_files`, its doorbells by pidfd_getfd(2). Both need root, or the capabilities
//! CAP_SYS_PTRACE and CAP_CHECKPOINT_RESTORE. So a parent need not keep these descriptors itself: one that runs
//! thousands of guests gets them back when they are needed.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::control::CONTROL_FILE;
use crate::error::{Context, Error, Result};
use crate::guest::Process;
use crate::layout::Layout;
use crate::{Control, Guest, GuestSpec, Template, Wall};

/// How long a process is waited for that had just been given its guest.
const PATIENCE: Duration = Duration::from_secs(1);
/// The pause between two looks at it.
const PAUSE: Duration = Duration::from_millis(1);
/// Name of the data region's memory file, as whoever makes it calls it.
const DATA_FILE: &str = "weir-data";

/// By what a guest is found again. Good as long as the machine is not booted anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Its process.
    pub pid: u32,
    /// When that was started, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub started: u64,
    /// Which wall it is behind.
    pub wall: Wall,
    /// Number that its process has the switch's doorbell by.
    pub switch_doorbell: Option<RawFd>,
}

/// A guest that was found again and is yet to be taken over.
pub struct Found {
    process: Process,
    trace: Trace,
    control: Control,
}

impl Found {
    /// Looks for a guest. `None` if it has ended; or if it never became one, and then its process is ended: whoever
    /// was to give it its guest did not live to do it.
    pub fn look(trace: Trace) -> Result<Option<Found>> {
        let pid = i32::try_from(trace.pid).ok().and_then(Pid::from_raw);
        let Some(pid) = pid else {
            return Ok(None);
        };
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error).context("a descriptor for the guest's process"),
        };
        // The pidfd's process is the one looked at, if that is there still and as old.
        if started(trace.pid) != Some(trace.started) {
            return Ok(None);
        }
        let process = Process::taken_over(pid, pidfd);
        if process.has_ended() {
            return Ok(None);
        }
        match memory_file(&process, CONTROL_FILE) {
            Ok(file) => Ok(Some(Found {
                control: Control::adopt(file)?,
                process,
                trace,
            })),
            Err(_) if process.has_ended() => Ok(None),
            Err(error) if is_not_mapped(&error) => {
                process.kill();
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Ends it, whatever it does.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Its control region.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Takes the guest over. `spec` is the one that it was started by; files, doorbells and the control region in
    /// it do not matter, the data region's length does.
    pub fn adopt(self, template: &Template, spec: &GuestSpec<'_>) -> Result<(Guest, Control)> {
        let layout = Layout::new(template.image(), spec, self.trace.wall)?;
        let guest = Guest {
            process: self.process,
            wall: self.trace.wall,
            image: std::rc::Rc::clone(template.image()),
            layout,
            switch_doorbell: self.trace.switch_doorbell,
        };
        Ok((guest, self.control))
    }
}

impl Guest {
    /// By what whoever takes the guest over finds it.
    pub fn trace(&self) -> Result<Trace> {
        let started = started(self.pid());
        Ok(Trace {
            pid: self.pid(),
            started: started.ok_or(Error::Ended)?,
            wall: self.wall,
            switch_doorbell: self.switch_doorbell,
        })
    }

    /// The file of its data region, to attach it to a switch anew.
    pub fn data_file(&self) -> Result<OwnedFd> {
        memory_file(&self.process, DATA_FILE)
    }

    /// The eventfd by which it rings the switch.
    pub fn switch_doorbell(&self) -> Result<OwnedFd> {
        let number = self.switch_doorbell.ok_or_else(|| Error::System {
            what: "the switch's doorbell of a guest",
            source: io::ErrorKind::NotFound.into(),
        })?;
        pidfd_getfd(&self.process.pidfd, number, PidfdGetfdFlags::empty())
            .context("getting the switch's doorbell from the guest's process")
    }
}

/// When a process was started, in clock ticks since boot.
pub fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may have any characters; nothing behind it has a bracket.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

const OPENING: &str = "opening a memory file of the guest's process";

/// Opens a memory file that a process has mapped, by its name. One that has its guest since a moment ago may not
/// have mapped it yet, and is waited for.
fn memory_file(process: &Process, name: &str) -> Result<OwnedFd> {
    let start = Instant::now();
    loop {
        match mapped_file(process, name) {
            Err(error)
                if is_not_mapped(&error) && !process.has_ended() && start.elapsed() < PATIENCE =>
            {
                std::thread::sleep(PAUSE);
            }
            found => return found,
        }
    }
}

/// Whether a process has mapped no file of a name, and not something worse.
fn is_not_mapped(error: &Error) -> bool {
    matches!(error, Error::System { what: OPENING, source } if source.kind() == io::ErrorKind::NotFound)
}

fn mapped_file(process: &Process, name: &str) -> Result<OwnedFd> {
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
    // Had the process ended meanwhile, another one could have its number.
    match process.has_ended() {
        true => Err(Error::Ended),
        false => Ok(file.into()),
    }
}

impl AsFd for Found {
    /// Readable when the guest has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.process.pidfd.as_fd()
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
        let trace = Trace {
            pid: std::process::id(),
            started: own + 1,
            wall: Wall::Vm,
            switch_doorbell: None,
        };
        assert!(Found::look(trace).unwrap().is_none());
    }
}
