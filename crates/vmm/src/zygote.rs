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
//!
//! Each page of the zygote that is its own costs each guest's process three times: it is mapped there, copied when it is
//! written to, and unmapped before the guest runs. So the zygote gives back memory that was freed, serves on a thread with
//! a new stack and a new heap, and has the program's relocated constants in a file.

use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use abi::boot::Span;
// rustix has no fork.
use nix::unistd::{ForkResult, fork};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};
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
    file_constants()?;
    set_name(c"weir-zygote").context(STARTING)?;
    crate::title::show_title(c"weir-zygote");
    give_back();
    let kept: Vec<_> = parts.descriptors().chain([Some(socket)]).collect();
    keep_only(0, &kept);
    let parent = getppid().ok_or(Error::Ended)?;
    let parts = Alone(parts);
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK);
        let serving = thread.spawn_scoped(scope, move || answer_all(parts, socket, parent));
        let served = serving.context(STARTING)?.join();
        served.unwrap_or(Err(Error::Panicked))
    })
}

/// Gives the kernel what the program had freed of its heap, and used of its stack for what it did before.
fn give_back() {
    /// Bytes of the stack below this function's frame that are kept, and most that are given back. Nothing else is
    /// mapped there: the kernel keeps 128 MiB free for the stack.
    const KEPT: usize = 16 << 10;
    const GIVEN: usize = 1 << 20;
    let here = 0_u8;
    let end = ((&raw const here) as usize - KEPT) & !(abi::PAGE - 1);
    // SAFETY: nobody uses what is free, nor what is below the stack's end. The kernel skips what is not mapped.
    unsafe {
        libc::malloc_trim(0);
        let start = (end - GIVEN) as *mut libc::c_void;
        libc::madvise(start, GIVEN, libc::MADV_DONTNEED);
    }
}

/// Bytes of the stack of the zygote's thread, and of the guests' processes until the guest runs.
const STACK: usize = 1 << 20;

/// What one thread uses, while the other one waits for its end.
struct Alone<'p>(&'p Parts);

// SAFETY: made for the thread that serves. The one that made it waits.
unsafe impl Send for Alone<'_> {}

/// Answers requests until the program is gone.
fn answer_all(Alone(parts): Alone<'_>, socket: BorrowedFd<'_>, parent: Pid) -> Result<()> {
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

/// Replaces the program's relocated constants, which are memory of this process's own, by a file with the same bytes: a
/// fork does not copy the mapping of a file that nobody wrote to.
fn file_constants() -> Result<()> {
    let range = constants();
    let (at, length) = (range.address as *mut libc::c_void, range.length as usize);
    if length == 0 {
        return Ok(());
    }
    let file = memfd_create(c"weir-constants", MemfdFlags::CLOEXEC).context(STARTING)?;
    // SAFETY: the range is mapped, and constant from the program's start on.
    let bytes = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), length) };
    let mut file = std::fs::File::from(file);
    file.write_all(bytes).context(STARTING)?;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    // SAFETY: the same bytes at the same place, as unwritable as before.
    unsafe { mmap(at, length, ProtFlags::READ, flags, &file, 0) }.context(STARTING)?;
    Ok(())
}

/// Where the program's relocated constants lie: whole pages, none if it has no such part.
fn constants() -> Span {
    unsafe extern "C" fn visit(
        object: *mut libc::dl_phdr_info,
        _: usize,
        found: *mut libc::c_void,
    ) -> i32 {
        // SAFETY: the caller passes an object of the process, and the span below.
        let (object, found) = unsafe { (&*object, &mut *found.cast::<Span>()) };
        // SAFETY: the object's table has so many entries.
        let parts =
            unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
        let page = abi::PAGE as u64;
        if let Some(part) = parts.iter().find(|part| part.p_type == libc::PT_GNU_RELRO) {
            let start = object.dlpi_addr + part.p_vaddr;
            let end = (start + part.p_memsz) / page * page;
            let start = start / page * page;
            (found.address, found.length) = (start, end - start);
        }
        // The first object is the program; no others are visited.
        1
    }
    let mut found = Span {
        address: 0,
        length: 0,
    };
    // SAFETY: `visit` takes what it is called with.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
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
