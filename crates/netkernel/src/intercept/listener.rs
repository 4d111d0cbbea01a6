//! Notifications of the kernel: hearing of a call, and answering it (seccomp_unotify(2)).
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::sys::last;

/// When a call that waits is answered with EAGAIN; `None`: never.
pub(super) type Deadline = Option<Instant>;

/// Wakes the supervisor on the processor of the thread that makes the call (Linux 6.6).
const SYNCHRONOUS: u64 = 1;

/// A call that a thread has made and that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// Names it to the kernel.
    pub id: u64,
    /// The thread.
    pub thread: i32,
    /// The system call's number.
    pub number: i64,
    pub arguments: [u64; 6],
    /// Set once it has been found to wait: until when.
    pub waits: Option<Deadline>,
}

/// The descriptor that hears the calls.
pub(super) struct Listener(OwnedFd);

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Listener {
    pub fn new(listener: OwnedFd) -> Listener {
        let it = Listener(listener);
        // An older kernel wakes it elsewhere.
        // SAFETY: the argument is a number.
        let _ = unsafe { it.control_word(libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNCHRONOUS) };
        it
    }

    /// Whether a call waits, and whether no process is left that could make one.
    pub fn look(&self) -> Result<(bool, bool), Errno> {
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        rustix::event::poll(&mut polled, Some(&now))?;
        let events = polled[0].revents();
        Ok((
            events.contains(PollFlags::IN),
            events.contains(PollFlags::HUP),
        ))
    }

    /// The next call. `None`: the thread has gone on meanwhile, by a signal or its end.
    pub fn receive(&self) -> Result<Option<Call>, Errno> {
        // SAFETY: zeros are a notification of nothing, and what the kernel wants to be passed.
        let mut notice: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: room for the notification.
        match unsafe { self.control(libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut notice) } {
            Ok(_) => Ok(Some(Call {
                id: notice.id,
                thread: notice.pid as i32,
                number: i64::from(notice.data.nr),
                arguments: notice.data.args,
                waits: None,
            })),
            Err(Errno::NOENT | Errno::INTR) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the thread still waits for the answer. What was found by its number until now, is its own.
    pub fn is_valid(&self, call: &Call) -> bool {
        let mut id = call.id;
        // SAFETY: the kernel reads the number.
        unsafe { self.control(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw mut id) }.is_ok()
    }

    /// Answers with the call's result. `false`: the thread has gone on meanwhile.
    pub fn answer(&self, call: &Call, result: Result<i64, Errno>) -> bool {
        self.send(libc::seccomp_notif_resp {
            id: call.id,
            val: result.unwrap_or(0),
            error: -result.err().map_or(0, Errno::raw_os_error),
            flags: 0,
        })
    }

    /// Has the kernel do the call itself.
    pub fn pass(&self, call: &Call) -> bool {
        self.send(libc::seccomp_notif_resp {
            id: call.id,
            val: 0,
            error: 0,
            flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        })
    }

    fn send(&self, mut answer: libc::seccomp_notif_resp) -> bool {
        // SAFETY: the kernel reads the answer.
        unsafe { self.control(libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) }.is_ok()
    }

    /// Gives the process a new descriptor, and answers with its number, both or none; the number.
    pub fn give(&self, call: &Call, fd: BorrowedFd<'_>, on_exec: bool) -> Result<i32, Errno> {
        let mut given = libc::seccomp_notif_addfd {
            id: call.id,
            flags: libc::SECCOMP_ADDFD_FLAG_SEND as u32,
            srcfd: fd.as_raw_fd() as u32,
            newfd: 0,
            newfd_flags: if on_exec { 0 } else { libc::O_CLOEXEC as u32 },
        };
        // SAFETY: the kernel reads what is given.
        unsafe { self.control(libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw mut given) }
    }

    /// # Safety
    /// `argument` is what the request reads and writes.
    unsafe fn control<T>(&self, request: libc::Ioctl, argument: *mut T) -> Result<i32, Errno> {
        // SAFETY: the caller's promise.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) };
        if done < 0 { Err(last()) } else { Ok(done) }
    }

    /// # Safety
    /// The request takes a number.
    unsafe fn control_word(&self, request: libc::Ioctl, argument: u64) -> Result<i32, Errno> {
        // SAFETY: the caller's promise.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) };
        if done < 0 { Err(last()) } else { Ok(done) }
    }
}
