//! The switch as a process of its own.
//!
//! A detached switch outlives the process that started it, and serves one client after the other. It
//! gives copies of its links' descriptors to its client ([`SwitchClient::files`]), so a TAP device
//! outlives a switch that is killed, and the next switch goes on with it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

use crate::client::{ClientError, SwitchClient};
use crate::{serve, sys};

pub use crate::lanes::Options;
pub use crate::sys::process::fork_with;

/// Why a switch could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// This process has threads.
    #[error("the switch must be started before this process starts threads")]
    Threads,
    /// The kernel refused.
    #[error("cannot start the switch's process: {0}")]
    System(Errno),
    /// It started and did not answer.
    #[error("the switch started, but: {0}")]
    Greeting(#[from] ClientError),
}

impl From<Errno> for SpawnError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::DEADLK => SpawnError::Threads,
            error => SpawnError::System(error),
        }
    }
}

/// A running switch, as its parent holds it. Dropping it ends the switch.
///
/// The switch ends by itself when this process does. When the switch ends, [`ended`](Self::ended)
/// becomes readable.
pub struct Switch {
    client: SwitchClient,
    pidfd: OwnedFd,
    pid: Pid,
    /// Whose child it is.
    parent: Pid,
}

/// A switch that goes on when the process that started it ends. Dropping this leaves it running.
pub struct Detached {
    pidfd: OwnedFd,
    pid: Pid,
}

impl Detached {
    /// A descriptor that becomes readable when the switch has ended.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Its process id.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether it has ended; if so, nothing of it is left.
    pub fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        match rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), options) {
            Ok(status) => status.is_some(),
            // Waited for before.
            Err(_) => true,
        }
    }
}

impl Switch {
    /// Sets a function that every switch of this program calls first, for example to set its
    /// command line.
    pub fn at_start(begin: fn()) {
        // The first one stays: there is one program.
        let _ = serve::BEGIN.set(begin);
    }

    /// Starts a switch with one lane; see [`spawn_with`](Self::spawn_with).
    pub fn spawn() -> Result<Switch, SpawnError> {
        Switch::spawn_with(&Options::default())
    }

    /// Starts a switch that outlives this process, confined as by [`spawn_with`](Self::spawn_with).
    /// It listens on `listener`, a bound and listening `SOCK_SEQPACKET` Unix socket, and serves
    /// one client after the other ([`SwitchClient::connect`]) until one of them tells it to stop.
    pub fn spawn_detached(options: &Options, listener: OwnedFd) -> Result<Detached, SpawnError> {
        let pid = sys::process::fork_with([listener], |[listener]| {
            serve::serve(serve::ControlSocket::Listener(listener), options)
        })?;
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Detached { pidfd, pid })
    }

    /// Starts a switch in a child process that keeps nothing of this one: no descriptor but its
    /// control socket, a pidfd of this process and standard error, no signal handler, no
    /// privilege, few system calls. This process must have one thread only.
    pub fn spawn_with(options: &Options) -> Result<Switch, SpawnError> {
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let parent = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
        // `theirs` and `parent` are closed here as soon as the child has them.
        let pid = sys::process::fork_with([theirs, parent], |[control, parent]| {
            serve::serve(serve::ControlSocket::Pair { control, parent }, options)
        })?;
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        let client = SwitchClient::new(ours)?;
        Ok(Switch {
            client,
            pidfd,
            pid,
            parent: rustix::process::getpid(),
        })
    }

    /// Where to ask it things.
    pub fn client(&self) -> &SwitchClient {
        &self.client
    }

    /// A descriptor that becomes readable when the switch has ended.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Its process id.
    pub fn pid(&self) -> Pid {
        self.pid
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // A process forked from the switch's parent has a copy of this and no say over it.
        if rustix::process::getpid() != self.parent {
            return;
        }
        // It holds nothing that has to be put in order: links go with their descriptors.
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
        let id = WaitId::PidFd(self.pidfd.as_fd());
        let _ = rustix::process::waitid(id, WaitIdOptions::EXITED);
    }
}
