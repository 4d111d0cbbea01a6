//! Processes of this host that outlive the node: finding them again, waiting for them, reaching
//! them.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, pidfd_open, pidfd_send_signal,
    waitid,
};

use super::TIMEOUT;
use crate::error::{Error, Result};
use crate::paths::clear_socket;

/// Most clients that wait to be accepted.
const WAITING: i32 = 128;

/// A process that runs.
pub(super) struct Process {
    pub pid: u32,
    pub pidfd: OwnedFd,
}

impl Process {
    pub fn of(pid: u32) -> Result<Process> {
        let number = number(pid).ok_or_else(|| Error::failed("a process without a number"))?;
        let pidfd = pidfd_open(number, PidfdFlags::empty()).map_err(Error::failed)?;
        Ok(Process { pid, pidfd })
    }

    pub fn number(&self) -> Option<Pid> {
        number(self.pid)
    }

    pub fn kill(&self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    pub fn end(&self) {
        self.kill();
        await_end(&self.pidfd);
        reap(&self.pidfd);
    }
}

fn number(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// The process with this number, start time and boot, if it still runs.
pub fn find(number: u32, started: u64, of_boot: &str) -> Option<OwnedFd> {
    let pidfd = pidfd_open(self::number(number)?, PidfdFlags::empty()).ok()?;
    let same = of_boot == boot() && vmm::started(number) == Some(started);
    (same && !has_ended(&pidfd)).then_some(pidfd)
}

/// A listening socket at `path`; replaces an existing file.
pub fn listen(path: &Path, kind: SocketType) -> Result<OwnedFd> {
    let failed =
        |error: &dyn std::fmt::Display| Error::failed(format_args!("{}: {error}", path.display()));
    clear_socket(path).map_err(|error| failed(&error))?;
    let make = || {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(0o600))?;
        rustix::net::listen(&socket, WAITING)?;
        Ok(socket)
    };
    make().map_err(|error: rustix::io::Errno| {
        let wanted = match error {
            rustix::io::Errno::NAMETOOLONG => "a folder with a shorter path",
            _ => "a writable folder",
        };
        failed(&format_args!("{error}: set WEIR_RUN to {wanted}"))
    })
}

/// Which boot of the machine this is.
pub fn boot() -> &'static str {
    static BOOT: LazyLock<String> = LazyLock::new(|| {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.trim().to_string()
    });
    &BOOT
}

/// Waits until a descriptor is readable, for a while; says whether it is.
pub fn poll(descriptor: &OwnedFd, limit: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let limit = Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos().into(),
    };
    let mut ready = [PollFd::new(descriptor, PollFlags::IN)];
    matches!(poll(&mut ready, Some(&limit)), Ok(1))
}

/// Whether a process has ended.
pub fn has_ended(pidfd: &OwnedFd) -> bool {
    poll(pidfd, Duration::ZERO)
}

/// Waits for a process's end, for a while; says whether it came.
pub fn await_end(pidfd: &OwnedFd) -> bool {
    poll(pidfd, TIMEOUT)
}

/// Lets a child that has ended go; one of an earlier node has another parent.
pub fn reap(pidfd: &OwnedFd) -> Option<WaitIdStatus> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    waitid(WaitId::PidFd(pidfd.as_fd()), options).ok()?
}

/// How a process ended, in words.
pub fn told_end(pid: u32, status: Option<WaitIdStatus>) -> String {
    let how = match status.map(|status| (status.terminating_signal(), status.exit_status())) {
        Some((Some(signal), _)) => format!("was killed by signal {signal}"),
        Some((None, Some(code))) => format!("ended with code {code}"),
        // Its parent was another node.
        _ => "ended".into(),
    };
    format!("its process {pid} {how}")
}
