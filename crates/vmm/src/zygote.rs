//! The zygote: a small process that forks guests' processes for a program with many guests.
//!
//! A fork copies the page tables and mappings of the forking process. A program that has started thousands of
//! guests has mapped something of each, so its forks become slower with every guest, and each guest's process
//! keeps copies of its pages. The zygote is forked once, before the first guest, and maps nothing of any.
//!
//! ```text
//! program ──request: size, doorbells, launch socket──> zygote ──clone──> guest's process
//!    <──────────── its number, on the launch socket ─────┘
//! ```
//!
//! A guest's process is a child of the program, not of the zygote (`CLONE_PARENT`): the program waits for it as
//! for its own. The zygote keeps nothing of a guest. It ends when the program closes its socket, or ends.

use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use abi::boot::Span;
// rustix has no fork.
use nix::unistd::{ForkResult, fork};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getppid, pidfd_open, pidfd_send_signal, waitid,
};
use rustix::thread::set_name;
use serde::{Deserialize, Serialize};

use crate::child::{self, detach, keep_only};
use crate::error::{Context, Error, Result};
use crate::template::{Parts, check_threads};
use crate::{Shape, Wall};

const STARTING: &str = "starting the process that starts guests";
const ASKING: &str = "asking for a process for the guest";
/// Longest request, in bytes.
const REQUEST_MAX: usize = 128;
/// Descriptors with a request: the launch socket, and up to two doorbells.
const FILES: usize = 3;

/// The process that a guest of a shape needs.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) vm: bool,
    /// All of the guest's addresses.
    pub(crate) range: Span,
    pub(crate) cpus: u64,
    /// Whether it rings the switch, and the control plane.
    pub(crate) doorbells: [bool; 2],
}

/// The zygote, as its program holds it. Dropping it ends it.
pub(crate) struct Zygote {
    socket: OwnedFd,
    pidfd: OwnedFd,
}

impl Zygote {
    /// Forks it. The calling program has one thread.
    pub(crate) fn start(parts: &Parts) -> Result<Zygote> {
        check_threads()?;
        let (socket, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .context(STARTING)?;
        // SAFETY: one thread, so the child finds no lock taken.
        match unsafe { fork() }.context(STARTING)? {
            ForkResult::Child => child::run_to_end(|| serve(parts, theirs.as_fd())),
            ForkResult::Parent { child } => {
                let pid = Pid::from_raw(child.as_raw()).expect("a child's number is not 0");
                let pidfd = pidfd_open(pid, PidfdFlags::empty()).context(STARTING)?;
                Ok(Zygote { socket, pidfd })
            }
        }
    }

    /// Asks for a process, whose number comes by the other end of the launch socket ([`receive_pid`]).
    pub(crate) fn request(
        &self,
        request: Request,
        shape: &Shape<'_>,
        launches: BorrowedFd<'_>,
    ) -> Result<()> {
        let mut files = vec![launches];
        files.extend(shape.switch_doorbell);
        files.extend(shape.control_doorbell);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&files));
        let message = postcard::to_allocvec(&request)
            .map_err(std::io::Error::other)
            .context(ASKING)?;
        let message = [std::io::IoSlice::new(&message)];
        sendmsg(&self.socket, &message, &mut ancillary, SendFlags::NOSIGNAL).context(ASKING)?;
        Ok(())
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        let _ = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED);
    }
}

/// The number of the process that the zygote was asked for, or why there is none.
pub(crate) fn receive_pid(mut launches: &UnixStream) -> Result<Pid> {
    let mut answer = [0; 4];
    launches.read_exact(&mut answer).context(ASKING)?;
    let answer = i32::from_ne_bytes(answer);
    match Pid::from_raw(answer.max(0)) {
        Some(pid) => Ok(pid),
        None => Err(Errno::from_raw_os_error(-answer)).context("starting a process for the guest"),
    }
}

/// The zygote's main function: answers requests until its program is gone.
fn serve(parts: &Parts, socket: BorrowedFd<'_>) -> Result<()> {
    detach()?;
    set_name(c"weir-zygote").context(STARTING)?;
    crate::title::show_title(c"weir-zygote");
    // What the program had freed would be mapped in each guest's process, to be unmapped there.
    // SAFETY: gives memory that is free back to the kernel.
    unsafe { libc::malloc_trim(0) };
    let kept: Vec<_> = parts.descriptors().chain([Some(socket)]).collect();
    keep_only(0, &kept);
    let parent = getppid().ok_or(Error::Ended)?;
    while let Some((request, files)) = receive(socket)? {
        let mut files = files.iter().map(AsFd::as_fd);
        let Some(launches) = files.next() else {
            continue;
        };
        let [switch_doorbell, control_doorbell] = request
            .doorbells
            .map(|wanted| wanted.then(|| files.next()).flatten());
        let answer = match clone_sibling() {
            Ok(None) => {
                let setup = parts.child_setup(
                    &request,
                    [switch_doorbell, control_doorbell],
                    launches,
                    parent,
                );
                child::run(&setup)
            }
            Ok(Some(pid)) => pid,
            Err(error) => -error.raw_os_error(),
        };
        // The program may have dropped its end.
        let _ = write_answer(launches, answer);
    }
    Ok(())
}

fn write_answer(launches: BorrowedFd<'_>, answer: i32) -> std::io::Result<()> {
    let mut socket = UnixStream::from(launches.try_clone_to_owned()?);
    socket.write_all(&answer.to_ne_bytes())
}

/// The next request, with its descriptors. `None` if the program is gone.
fn receive(socket: BorrowedFd<'_>) -> Result<Option<(Request, Vec<OwnedFd>)>> {
    let mut message = [0; REQUEST_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let into = &mut [std::io::IoSliceMut::new(&mut message)];
    let received = loop {
        match recvmsg(socket, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            received => break received.context(ASKING)?,
        }
    };
    let files = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => files.collect(),
        _ => Vec::new(),
    });
    let files = files.collect();
    if received.bytes == 0 {
        return Ok(None);
    }
    let request = postcard::from_bytes(&message[..received.bytes])
        .map_err(std::io::Error::other)
        .context(ASKING)?;
    Ok(Some((request, files)))
}

/// Forks a sibling: a child of this process's parent. Returns its number; `None` in the sibling.
fn clone_sibling() -> Result<Option<i32>, Errno> {
    let flags = libc::CLONE_PARENT | libc::SIGCHLD;
    // SAFETY: as fork: the sibling has its own copy of this process's memory, which has one thread.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    match pid {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::NOSYS)),
        0 => Ok(None),
        pid => Ok(Some(pid as i32)),
    }
}

impl Request {
    /// For a guest of a shape behind a wall.
    pub(crate) fn new(shape: &Shape<'_>, wall: Wall, range: Span) -> Request {
        Request {
            vm: wall == Wall::Vm,
            range,
            cpus: shape.cpus.clamp(1, abi::CPUS_MAX) as u64,
            doorbells: [shape.switch_doorbell, shape.control_doorbell].map(|it| it.is_some()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_number_or_a_reason() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        write_answer(theirs.as_fd(), 4711).unwrap();
        assert_eq!(receive_pid(&ours).unwrap().as_raw_nonzero().get(), 4711);
        write_answer(theirs.as_fd(), -libc::EAGAIN).unwrap();
        let error = receive_pid(&ours).unwrap_err().to_string();
        assert!(error.contains("starting a process"), "{error}");
        drop(theirs);
        assert!(receive_pid(&ours).is_err());
    }
}
