//! A started guest.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, pidfd_open, pidfd_send_signal,
    waitid,
};

use crate::error::{Context, Error, Result};
use crate::image::Image;
use crate::layout::Layout;
use crate::{Control, Exit, Wall, report};

/// A guest's process. Dropping it kills the process if it still runs, unless it is to outlive this one.
pub(crate) struct Process {
    pub(crate) pid: Pid,
    /// `None` once closed: it is opened again where it is needed.
    pidfd: Option<OwnedFd>,
    /// When it was started, if it is a child of another process: tells it from a later process of its number. The
    /// number of a child is its own until it is waited for.
    started: Option<u64>,
    ended: Option<Ended>,
    /// Whether it keeps running when this value is dropped.
    pub(crate) outlives: bool,
}

/// How a process ended.
enum Ended {
    /// A child, with its wait status.
    Seen(WaitIdStatus),
    /// A child of another process, whose wait status is unknown.
    Unseen,
}

/// A pidfd: a kept one, or a temporary one.
pub(crate) enum Pidfd<'a> {
    Kept(BorrowedFd<'a>),
    Opened(OwnedFd),
}

impl AsFd for Pidfd<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Pidfd::Kept(pidfd) => *pidfd,
            Pidfd::Opened(pidfd) => pidfd.as_fd(),
        }
    }
}

impl Process {
    /// A child.
    pub(crate) fn child(pid: Pid, pidfd: OwnedFd) -> Process {
        Process {
            pid,
            pidfd: Some(pidfd),
            started: None,
            ended: None,
            outlives: false,
        }
    }

    /// A child of another process, which has ended.
    pub(crate) fn adopted(pid: Pid, pidfd: OwnedFd, started: u64) -> Process {
        let mut process = Process::child(pid, pidfd);
        process.started = Some(started);
        process.outlives = true;
        process
    }

    /// Its pidfd; [`Error::Ended`] if nothing of it is left.
    pub(crate) fn pidfd(&self) -> Result<Pidfd<'_>> {
        if let Some(pidfd) = &self.pidfd {
            return Ok(Pidfd::Kept(pidfd.as_fd()));
        }
        if self.ended.is_some() {
            return Err(Error::Ended);
        }
        let pidfd = match pidfd_open(self.pid, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Err(Error::Ended),
            pidfd => pidfd.context("a descriptor for the guest's process")?,
        };
        let pid = self.pid.as_raw_nonzero().get() as u32;
        if self.started.is_some() && started(pid) != self.started {
            return Err(Error::Ended);
        }
        Ok(Pidfd::Opened(pidfd))
    }

    /// Whether the process has ended, without waiting.
    pub(crate) fn has_ended(&self) -> bool {
        match self.pidfd() {
            Ok(pidfd) => is_readable(&pidfd),
            Err(error) => matches!(error, Error::Ended),
        }
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        pidfd_send_signal(self.pidfd()?, signal).context("a signal to the guest's process")
    }

    pub(crate) fn kill(&self) {
        // It fails if the process has ended already.
        let _ = self.signal(Signal::KILL);
    }

    fn reap(&mut self, options: WaitIdOptions) -> Result<bool> {
        if self.ended.is_none() {
            self.ended = match self.pidfd() {
                Ok(pidfd) => match waitid(WaitId::PidFd(pidfd.as_fd()), options) {
                    Ok(status) => status.map(Ended::Seen),
                    Err(Errno::CHILD) => is_readable(&pidfd).then_some(Ended::Unseen),
                    Err(error) => return Err(error).context("waiting for a guest"),
                },
                Err(Error::Ended) => Some(Ended::Unseen),
                Err(error) => return Err(error),
            };
        }
        Ok(self.ended.is_some())
    }
}

/// Whether the process of a pidfd has ended.
fn is_readable(pidfd: &impl AsFd) -> bool {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut polled = [PollFd::new(pidfd, PollFlags::IN)];
    matches!(poll(&mut polled, Some(&now)), Ok(1))
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended.is_none() && !self.outlives {
            self.kill();
            let _ = self.reap(WaitIdOptions::EXITED);
        }
    }
}

/// A guest's process. Dropping it kills the guest if it still runs, unless it was started to outlive this
/// process ([`crate::GuestSpec::end_with_parent`]).
pub struct Guest {
    pub(crate) process: Process,
    pub(crate) wall: Wall,
    pub(crate) image: Rc<Image>,
    pub(crate) layout: Layout,
    /// Number of the switch's doorbell in its process.
    pub(crate) switch_doorbell: Option<RawFd>,
}

impl Guest {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.pid.as_raw_nonzero().get() as u32
    }

    /// Its wall.
    pub fn wall(&self) -> Wall {
        self.wall
    }

    /// Its one descriptor: readable when the guest has ended.
    ///
    /// # Panics
    /// If it was closed.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        let pidfd = self.process.pidfd.as_ref();
        pidfd
            .expect("a process that closes guests' descriptors waits for their ends by another way")
            .as_fd()
    }

    /// Closes its descriptor. For a process with many guests, which learns of their ends by [`crate::Ends`].
    pub fn close_pidfd(&mut self) {
        self.process.pidfd = None;
    }

    /// Whether its process ends, or has ended: its memory is released.
    pub fn is_ending(&self) -> bool {
        let memory = fs::read_to_string(format!("/proc/{}/statm", self.pid()));
        memory.map_or(true, |memory| memory.starts_with("0 "))
    }

    /// Sends a signal to its process.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// Kills the guest, with the loss of its state. [`abi::message::kind::STOP`] ends it cleanly.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// How the guest ended, if it has. `control` is the region it was started with.
    pub fn try_wait(&mut self, control: &Control) -> Result<Option<Exit>> {
        if !self
            .process
            .reap(WaitIdOptions::EXITED | WaitIdOptions::NOHANG)?
        {
            return Ok(None);
        }
        Ok(Some(self.exit(control)))
    }

    /// Waits until the guest has ended, at most for `limit`; `None` if it still runs.
    pub fn wait(&mut self, control: &Control, limit: Option<Duration>) -> Result<Option<Exit>> {
        if self.process.ended.is_none() {
            let limit = limit.map(|limit| Timespec {
                tv_sec: limit.as_secs() as i64,
                tv_nsec: limit.subsec_nanos().into(),
            });
            let polled = match self.process.pidfd() {
                Ok(pidfd) => {
                    let mut polled = [PollFd::new(&pidfd, PollFlags::IN)];
                    poll(&mut polled, limit.as_ref())
                }
                Err(Error::Ended) => Ok(0),
                Err(error) => return Err(error),
            };
            match polled {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("waiting for a guest"),
            }
        }
        self.try_wait(control)
    }

    fn exit(&self, control: &Control) -> Exit {
        let signal = match &self.process.ended {
            Some(Ended::Seen(status)) => status.terminating_signal(),
            Some(Ended::Unseen) | None => None,
        };
        if let Some(signal) = signal {
            return Exit::Killed(signal);
        }
        let seen = !matches!(self.process.ended, Some(Ended::Unseen));
        report::read(
            control.report(),
            control.region(),
            &self.image,
            &self.layout,
            seen,
        )
    }
}

/// When a process was started, in clock ticks since boot.
pub fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may have any characters; nothing behind it has a bracket.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}
