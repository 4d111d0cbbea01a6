//! Ringing an eventfd of someone else's without ever waiting.
//!
//! A write to an eventfd whose counter is full waits, unless the file is non-blocking, and a
//! process that else has it open can make it full and blocking between any two looks at it. The
//! kernel itself rings without waiting: here as the end of an asynchronous read of nothing
//! (io_submit(2), `IOCB_FLAG_RESFD`), which is over, refused, before the call returns.

use std::cell::OnceCell;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use super::last_error;

/// `struct iocb` of linux/aio_abi.h.
#[repr(C)]
#[derive(Default)]
struct RingRequest {
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

const _: () = assert!(size_of::<RingRequest>() == 64 && size_of::<Event>() == 32);

const READ: u16 = 0;
const RING_AT_THE_END: u32 = 1;
/// Requests that are ended and not yet taken note of, at most.
const DEPTH: usize = 128;

/// One thread's means to ring.
struct Ringer {
    context: libc::c_ulong,
}

impl Ringer {
    fn new() -> Result<Ringer, Errno> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context's name into a word of ours.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, DEPTH, &raw mut context) };
        match made {
            0 => Ok(Ringer { context }),
            _ => Err(last_error()),
        }
    }

    fn ring(&self, bell: BorrowedFd<'_>) -> Result<(), Errno> {
        let request = RingRequest {
            opcode: READ,
            // Of the bell itself, which gives out eight bytes or nothing.
            file: bell.as_raw_fd() as u32,
            flags: RING_AT_THE_END,
            event_file: bell.as_raw_fd() as u32,
            ..RingRequest::default()
        };
        match self.submit(&request) {
            Err(Errno::AGAIN) => {
                self.forget();
                self.submit(&request)
            }
            other => other,
        }
    }

    fn submit(&self, request: &RingRequest) -> Result<(), Errno> {
        let list = [&raw const *request];
        // SAFETY: one request, which the kernel has read, and which is over, when the call
        // returns; it writes nowhere but into the context's own ring.
        let n = unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, list.as_ptr()) };
        match n {
            1 => Ok(()),
            _ => Err(last_error()),
        }
    }

    /// Takes note of the requests that are over, to make room for others.
    fn forget(&self) {
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

impl Drop for Ringer {
    fn drop(&mut self) {
        // SAFETY: made in `new`; nothing of it is under way.
        let _ = unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

/// Adds 1 to an eventfd's counter, if that is not full, without waiting. Where the kernel has no
/// asynchronous I/O, by a plain write: the eventfd should be non-blocking.
pub fn ring(bell: BorrowedFd<'_>) -> Result<(), Errno> {
    thread_local! {
        static RINGER: OnceCell<Option<Ringer>> = const { OnceCell::new() };
    }
    RINGER.with(|ringer| match ringer.get_or_init(|| Ringer::new().ok()) {
        Some(ringer) => ringer.ring(bell),
        None => rustix::io::write(bell, &1u64.to_ne_bytes()).map(drop),
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    #[test]
    fn a_bell_is_rung_as_often_as_asked_and_never_waited_for() {
        let bell = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        for _ in 0..10 * DEPTH {
            ring(bell.as_fd()).unwrap();
        }
        let mut count = [0; 8];
        rustix::io::read(&bell, &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 10 * DEPTH as u64);
        // A full one that would have a writer wait.
        rustix::io::write(&bell, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        ring(bell.as_fd()).unwrap();
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let none = rustix::fs::memfd_create("none", flags).unwrap();
        assert_eq!(ring(none.as_fd()), Err(Errno::INVAL));
    }
}
