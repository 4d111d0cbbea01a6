//! Starting a process that shares nothing with this one.

use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;

use super::{check, last_error};

/// Signals that programs are wont to handle. A handler of the parent's would run in the child with
/// a copy of the parent's state and none of its descriptors.
const HANDLED: [libc::c_int; 8] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGPIPE,
    libc::SIGCHLD,
];

/// Starts a process that runs `body` with the descriptors `keep`, as 3, 4, …, standard error, and
/// no others (standard input and output are /dev/null), and exits with the status that `body`
/// returns. Signals have their default actions there, and none is blocked. Returns its id.
///
/// Refused (`EDEADLK`) while this process has more than one thread: the child would have only this
/// one, and what the others had locked would stay locked. `body` must not have captured any
/// descriptor, since all but `keep` are closed.
pub fn fork_with<const N: usize>(
    keep: [OwnedFd; N],
    body: impl FnOnce([OwnedFd; N]) -> i32,
) -> Result<Pid, Errno> {
    let tasks = std::fs::read_dir("/proc/self/task").map_err(|_| Errno::NOSYS)?;
    if tasks.count() != 1 {
        return Err(Errno::DEADLK);
    }
    // SAFETY: this is the only thread, so the child is a whole process.
    let child = check(unsafe { libc::fork() })?;
    if let Some(child) = Pid::from_raw(child) {
        return Ok(child);
    }
    // The child neither returns nor unwinds into its caller's frames: what they own is the
    // parent's.
    let run =
        std::panic::AssertUnwindSafe(|| match reset_signals().and_then(|()| keep_only(keep)) {
            Ok(keep) => body(keep),
            Err(_) => 1,
        });
    let status = std::panic::catch_unwind(run).unwrap_or(101);
    // SAFETY: ends the process without running the parent's exit handlers.
    unsafe { libc::_exit(status) }
}

/// Ends the process with all its threads, without running exit handlers.
pub fn exit(status: i32) -> ! {
    // SAFETY: nothing of this process goes on.
    unsafe { libc::_exit(status) }
}

/// Resets the parent's signal handlers and its signal mask.
fn reset_signals() -> Result<(), Errno> {
    for signal in HANDLED {
        // SAFETY: the default action runs no code of this process.
        if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
            return Err(last_error());
        }
    }
    let mut none = MaybeUninit::uninit();
    // SAFETY: the set is filled in before it is read; the old mask is not asked for.
    check(unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
    })
    .map(drop)
}

/// Moves `keep` to descriptors 3, 4, …, puts /dev/null in the place of standard input and output,
/// and closes every other but standard error.
fn keep_only<const N: usize>(keep: [OwnedFd; N]) -> Result<[OwnedFd; N], Errno> {
    const FIRST: libc::c_int = 3;
    // First to high numbers, so that no move overwrites a descriptor that has not moved yet.
    let above = FIRST + N as libc::c_int;
    let mut high = [0; N];
    for (to, from) in high.iter_mut().zip(keep) {
        // SAFETY: a plain system call on a descriptor of ours.
        *to = check(unsafe { libc::fcntl(from.into_raw_fd(), libc::F_DUPFD_CLOEXEC, above) })?;
    }
    // This gets any free number. It is overwritten or closed below, unless it is standard input or
    // output.
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let null = null.into_raw_fd();
    for to in [libc::STDIN_FILENO, libc::STDOUT_FILENO] {
        // SAFETY: as above; the kept descriptors have been moved away from these numbers.
        check(unsafe { libc::dup2(null, to) })?;
    }
    for (to, from) in (FIRST..).zip(high) {
        // SAFETY: as above; the target's former descriptor has no user, see `fork_with`.
        check(unsafe { libc::dup3(from, to, libc::O_CLOEXEC) })?;
    }
    // SAFETY: as above.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, above, libc::c_uint::MAX, 0) };
    check(closed as libc::c_int)?;
    // SAFETY: these were just made and have no other owner.
    Ok(std::array::from_fn(|i| unsafe {
        OwnedFd::from_raw_fd(FIRST + i as libc::c_int)
    }))
}
