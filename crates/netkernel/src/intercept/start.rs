//! Starting the supervisor, and becoming a program that it serves.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Resource, Rlimit};

use super::filter;
use super::guest;
use super::listener::Listener;
use super::supervisor::Supervisor;
use crate::sys::{self, last};

/// Longest message between the two.
const MESSAGE_MAX: usize = 1024;

/// Why a program cannot be started with its calls intercepted.
#[derive(Debug, thiserror::Error)]
pub enum InterceptError {
    /// The supervisor did not start.
    #[error("the supervisor of the program's socket calls did not start: {0}")]
    Start(io::Error),
    /// The supervisor says why.
    #[error("{0}")]
    Said(String),
    /// The program is one of an intercepted program.
    #[error(
        "the socket calls of this process are intercepted already: run the program without weir sock run"
    )]
    Nested,
    /// The kernel does not let calls be intercepted.
    #[error("the kernel does not let socket calls be intercepted: {0}")]
    Filter(io::Error),
}

/// Has the calls of this process, which has one thread and is about to become a program, be intercepted.
/// `supervisor` is the command that calls [`serve`], with GuestLib preloaded. It is no child of this
/// process, and ends after the program and its children.
pub fn enter(mut supervisor: Command) -> Result<(), InterceptError> {
    let start = InterceptError::Start;
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|error| start(error.into()))?;
    supervisor
        .stdin(theirs)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    detach(&mut supervisor).map_err(start)?;
    // Its descriptor of the supervisor's end goes with it.
    drop(supervisor);
    said(&ours)?;
    let listener = filter::install().map_err(|error| match error {
        Errno::BUSY => InterceptError::Nested,
        error => InterceptError::Filter(error.into()),
    })?;
    // From here on, a call that the filter knows waits for the supervisor to have the listener.
    let number = std::os::fd::AsRawFd::as_raw_fd(&listener).to_ne_bytes();
    rustix::io::write(&ours, &number).map_err(|error| start(error.into()))?;
    said(&ours)
}

/// Waits for the supervisor to say that it is ready, or why not.
fn said(from: &OwnedFd) -> Result<(), InterceptError> {
    let mut why = [0; MESSAGE_MAX];
    let n = rustix::io::retry_on_intr(|| rustix::io::read(from, &mut why));
    match n.map_err(|error| InterceptError::Start(error.into()))? {
        0 => Err(InterceptError::Start(io::Error::other(
            "it ended before it was ready",
        ))),
        n if why[..n] == *READY => Ok(()),
        n => Err(InterceptError::Said(
            String::from_utf8_lossy(&why[..n]).into_owned(),
        )),
    }
}

const READY: &[u8] = b"\0";

/// Is the supervisor of the process that [`enter`]s and whose end of a socket pair is this process's
/// standard input. Returns after that program, its children and their sockets have ended.
pub fn serve() -> io::Result<()> {
    let program = rustix::stdio::stdin();
    let supervisor = match prepare(program) {
        Ok(supervisor) => supervisor,
        Err(why) => {
            // A program that has ended needs no reason.
            let _ = rustix::io::write(program, &why.as_bytes()[..why.len().min(MESSAGE_MAX)]);
            return Err(io::Error::other(why));
        }
    };
    rustix::io::write(program, READY)?;
    // The other end is to see the end of this process, not of the descriptor.
    rustix::stdio::dup2_stdin(fs::File::open("/dev/null")?)?;
    Ok(supervisor.run()?)
}

fn prepare(program: BorrowedFd<'_>) -> Result<Supervisor, String> {
    let failed = |what: &str, error: Errno| format!("{what}: {error}");
    more_descriptors().map_err(|error| failed("the limit of descriptors", error))?;
    is_guest().map_err(|error| match error {
        Errno::AFNOSUPPORT => "GuestLib is not loaded into the supervisor".to_owned(),
        error => failed("CoreEngine does not serve the supervisor", error),
    })?;
    // The folder that the program was started in may go.
    std::env::set_current_dir("/").map_err(|error| format!("/: {error}"))?;
    rustix::io::write(program, READY).map_err(|error| failed("the program", error))?;
    let mut number = [0; 4];
    let n = rustix::io::retry_on_intr(|| rustix::io::read(program, &mut number));
    if n != Ok(number.len()) {
        return Err("the program ended before it was ready".to_owned());
    }
    let listener = sys::peer(program)
        .and_then(|pid| Pid::from_raw(pid as i32).ok_or(Errno::SRCH))
        .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()))
        .and_then(|process| {
            let flags = PidfdGetfdFlags::empty();
            rustix::process::pidfd_getfd(process, i32::from_ne_bytes(number), flags)
        });
    let listener = listener.map_err(|error| match error {
        Errno::PERM => "the kernel does not let the supervisor see the program's descriptors: \
            run as root, or with kernel.yama.ptrace_scope=0"
            .to_owned(),
        error => failed("the program's descriptors", error),
    })?;
    Supervisor::new(Listener::new(listener)).map_err(|error| failed("the supervisor", error))
}

/// Lets this process have as many descriptors as it may: it has two for a socket.
fn more_descriptors() -> Result<(), Errno> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    rustix::process::setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    )
}

/// Whether the C library's sockets are an NSM's here. What the kernel knows of one is what stands for it.
fn is_guest() -> Result<(), Errno> {
    let socket = guest::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    match rustix::net::sockopt::socket_domain(socket.as_fd())? {
        AddressFamily::UNIX => Ok(()),
        _ => Err(Errno::AFNOSUPPORT),
    }
}

/// Has a child of this process start a command and end at once, so that the command is nobody's child
/// here. The command has a session of its own.
fn detach(command: &mut Command) -> io::Result<()> {
    // SAFETY: this process has one thread (`enter`), so the child has all of it.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let started = rustix::process::setsid()
                .map_err(io::Error::from)
                .and_then(|_| command.spawn());
            let code = started.map_or_else(|error| error.raw_os_error().unwrap_or(1), |_| 0);
            // SAFETY: ends this process only, without what its parent does at its end.
            unsafe { libc::_exit(code) }
        }
        child => {
            let mut status = 0;
            // SAFETY: our child, and room for its status.
            while unsafe { libc::waitpid(child, &mut status, 0) } < 0 {
                if last() != Errno::INTR {
                    return Err(last().into());
                }
            }
            match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
                (true, 0) => Ok(()),
                (true, error) => Err(io::Error::from_raw_os_error(error)),
                _ => Err(io::Error::other("it was killed")),
            }
        }
    }
}
