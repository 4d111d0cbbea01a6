//! A started guest.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, pidfd_send_signal, waitid,
};

use crate::error::{Context, Result};
use crate::image::Image;
use crate::layout::Layout;
use crate::{Control, Exit, Wall, report};

/// A guest's process. Dropping it kills the process if it still runs, unless it is to outlive this one.
pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
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

impl Process {
    /// A child.
    pub(crate) fn child(pid: Pid, pidfd: OwnedFd) -> Process {
        Process {
            pid,
            pidfd,
            ended: None,
            outlives: false,
        }
    }

    /// A child of another process, which has ended.
    pub(crate) fn adopted(pid: Pid, pidfd: OwnedFd) -> Process {
        let mut process = Process::child(pid, pidfd);
        process.outlives = true;
        process
    }

    /// Whether the process has ended, without waiting.
    pub(crate) fn has_ended(&self) -> bool {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut polled = [PollFd::new(&self.pidfd, PollFlags::IN)];
        matches!(poll(&mut polled, Some(&now)), Ok(1))
    }

    pub(crate) fn kill(&self) {
        // It fails if the process has ended already.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    fn reap(&mut self, options: WaitIdOptions) -> Result<bool> {
        if self.ended.is_none() {
            let id = WaitId::PidFd(self.pidfd.as_fd());
            self.ended = match waitid(id, options) {
                Ok(status) => status.map(Ended::Seen),
                Err(rustix::io::Errno::CHILD) => self.has_ended().then_some(Ended::Unseen),
                Err(error) => return Err(error).context("waiting for a guest"),
            };
        }
        Ok(self.ended.is_some())
    }
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
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.process.pidfd.as_fd()
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
            let mut polled = [PollFd::new(&self.process.pidfd, PollFlags::IN)];
            match poll(&mut polled, limit.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
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
