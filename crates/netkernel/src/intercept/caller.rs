//! The thread that made a call: its descriptors and its memory.

use std::fs::OpenOptions;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};

use super::listener::{Call, Listener};
use super::memory::Memory;

/// A pidfd of a thread that does not lead its process (Linux 6.9).
const THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);

/// A descriptor of a thread's process, if the thread still waits for the answer to the call.
///
/// ESRCH: it has gone on.
pub(super) fn descriptor(listener: &Listener, call: &Call, fd: i32) -> Result<OwnedFd, Errno> {
    let process = open(call.thread)?;
    if !listener.is_valid(call) {
        return Err(Errno::SRCH);
    }
    get(process, fd)
}

/// A descriptor that a thread's process had. The caller looks whether it is the one that is meant.
pub(super) fn descriptor_of(thread: i32, fd: i32) -> Result<OwnedFd, Errno> {
    get(open(thread)?, fd)
}

fn get(process: OwnedFd, fd: i32) -> Result<OwnedFd, Errno> {
    // rustix takes no negative one.
    if fd < 0 {
        return Err(Errno::BADF);
    }
    rustix::process::pidfd_getfd(process, fd, PidfdGetfdFlags::empty())
}

fn open(thread: i32) -> Result<OwnedFd, Errno> {
    let pid = Pid::from_raw(thread).ok_or(Errno::SRCH)?;
    match rustix::process::pidfd_open(pid, THREAD) {
        Err(Errno::INVAL) => {
            // An older kernel opens the process, whose threads share its descriptors.
            let leader = leader(thread).and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
            rustix::process::pidfd_open(leader, PidfdFlags::empty())
        }
        opened => opened,
    }
}

fn leader(thread: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}

/// Opens its memory, if the thread still waits for the answer to the call. The file stays that of the
/// program which the thread ran then. ESRCH: it has gone on.
pub(super) fn memory(listener: &Listener, call: &Call) -> Result<Memory, Errno> {
    let path = format!("/proc/{}/mem", call.thread);
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::PERM))?;
    if !listener.is_valid(call) {
        return Err(Errno::SRCH);
    }
    Ok(Memory::new(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_as_a_descriptor_is_one_or_an_error() {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        for fd in [-1, i32::MIN, i32::MAX] {
            assert_eq!(descriptor_of(own, fd).err(), Some(Errno::BADF));
        }
        assert!(descriptor_of(own, 0).is_ok());
    }
}
