//! Notification of an untrusted process's eventfd, without blocking.
//!
//! A write to a full eventfd blocks, unless the file is non-blocking. Another process that has it open
//! can make it full and blocking at any time. The kernel itself notifies without blocking: here at the
//! end of an asynchronous read of nothing (io_submit(2), `IOCB_FLAG_RESFD`), which is refused before
//! the call returns.

use std::cell::OnceCell;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use super::last_error;

/// `struct iocb` of linux/aio_abi.h.
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event([u64; 4]);

const _: () = assert!(size_of::<Request>() == 64 && size_of::<Event>() == 32);

const READ: u16 = 0;
const NOTIFY_EVENTFD: u32 = 1;
/// Most completed requests whose events are not yet read.
const DEPTH: usize = 128;

/// A thread's asynchronous I/O context.
struct Notifier {
    context: libc::c_ulong,
}

impl Notifier {
    fn new() -> Result<Notifier, Errno> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context's name into a word of ours.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, DEPTH, &raw mut context) };
        match made {
            0 => Ok(Notifier { context }),
            _ => Err(last_error()),
        }
    }

    fn ring(&self, eventfd: BorrowedFd<'_>) -> Result<(), Errno> {
        let request = Request {
            opcode: READ,
            // A read from the eventfd itself, which returns eight bytes or nothing.
            file: eventfd.as_raw_fd() as u32,
            flags: NOTIFY_EVENTFD,
            event_file: eventfd.as_raw_fd() as u32,
            ..Request::default()
        };
        match self.submit(&request) {
            Err(Errno::AGAIN) => {
                self.drain();
                self.submit(&request)
            }
            other => other,
        }
    }

    fn submit(&self, request: &Request) -> Result<(), Errno> {
        let list = [&raw const *request];
        // SAFETY: one request, which the kernel has read, and which is over, when the call
        // returns; it writes nowhere but into the context's own ring.
        let n = unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, list.as_ptr()) };
        match n {
            1 => Ok(()),
            _ => Err(last_error()),
        }
    }

    /// Reads the events of completed requests, to make room for others.
    fn drain(&self) {
        let mut events = [Event::default(); DEPTH];
        let now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: room for as many events as are asked for, and a timeout.
        let _ = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                0,
                DEPTH,
                events.as_mut_ptr(),
                &raw const now,
            )
        };
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        // SAFETY: made in `new`; nothing of it is under way.
        let _ = unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

/// Adds 1 to an eventfd's counter, if that is not full, without waiting. Where the kernel has no
/// asynchronous I/O, by a plain write: the eventfd should be non-blocking.
pub fn ring(eventfd: BorrowedFd<'_>) -> Result<(), Errno> {
    thread_local! {
        static NOTIFIER: OnceCell<Option<Notifier>> = const { OnceCell::new() };
    }
    NOTIFIER.with(
        |notifier| match notifier.get_or_init(|| Notifier::new().ok()) {
            Some(notifier) => notifier.ring(eventfd),
            None => rustix::io::write(eventfd, &1u64.to_ne_bytes()).map(drop),
        },
    )
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    #[test]
    fn an_eventfd_is_notified_each_time_without_blocking() {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        for _ in 0..10 * DEPTH {
            ring(eventfd.as_fd()).unwrap();
        }
        let mut count = [0; 8];
        rustix::io::read(&eventfd, &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 10 * DEPTH as u64);
        // A full one, which would block a writer.
        rustix::io::write(&eventfd, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        ring(eventfd.as_fd()).unwrap();
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let none = rustix::fs::memfd_create("none", flags).unwrap();
        assert_eq!(ring(none.as_fd()), Err(Errno::INVAL));
    }
}
