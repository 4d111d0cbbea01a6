//! An eventfd that the kernel writes to when a connection ends.
//!
//! A thread that waits for an NSM sleeps in one read of the process's waker, which a signal handler with
//! SA_RESTART does not end: no call that waits for two descriptors can be restarted. So the end of
//! CoreEngine writes to that eventfd, too: an asynchronous poll (io_submit(2), IOCB_CMD_POLL) of its
//! connection, completed on the eventfd. It takes no thread and no signal of the application's.

use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::sys::{Errno, Result, syscall};

const IOCB_CMD_POLL: u16 = 5;
const IOCB_FLAG_RESFD: u32 = 1;

/// `struct iocb` of the kernel (linux/aio_abi.h), little-endian.
#[repr(C)]
#[derive(Default)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    events: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}

const _: () = assert!(size_of::<Iocb>() == 64);

/// The head of the ring in which the kernel tells which calls are done (fs/aio.c, `struct aio_ring`). A
/// context of asynchronous calls is named by its address.
#[repr(C)]
struct Ring {
    id: AtomicU32,
    slots: AtomicU32,
    head: AtomicU32,
    tail: AtomicU32,
    magic: AtomicU32,
}

const RING_MAGIC: u32 = 0xa10a_10a1;

/// It is never unmapped: other threads look at it.
static RING: AtomicPtr<Ring> = AtomicPtr::new(null_mut());

fn ring() -> Option<&'static Ring> {
    // SAFETY: null, or a mapping for the life of the process with a ring at its start; only atomics.
    unsafe { RING.load(Ordering::Acquire).as_ref() }
}

fn begin() -> Result<()> {
    let mut context: *mut Ring = null_mut();
    // SAFETY: room for the context.
    syscall!(libc::SYS_io_setup, 1, &raw mut context)?;
    // SAFETY: a mapping of the kernel's, of a page at least.
    let magic = unsafe { context.as_ref() }.map(|ring| ring.magic.load(Ordering::Relaxed));
    if magic != Some(RING_MAGIC) {
        return Err(Errno(libc::ENOSYS));
    }
    RING.store(context, Ordering::Release);
    Ok(())
}

/// Has an eventfd written to when a connection ends, instead of that which was watched before.
pub fn watch(connection: c_int, waker: c_int) -> Result<()> {
    match ring() {
        None => begin()?,
        Some(ring) => ring
            .head
            .store(ring.tail.load(Ordering::Acquire), Ordering::Release),
    }
    let poll = Iocb {
        opcode: IOCB_CMD_POLL,
        fd: connection as u32,
        events: libc::POLLHUP as u64,
        flags: IOCB_FLAG_RESFD,
        eventfd: waker as u32,
        ..Iocb::default()
    };
    let all = [&raw const poll];
    let context = RING.load(Ordering::Relaxed);
    // SAFETY: one call, which the kernel has read when this returns.
    let submitted = syscall!(libc::SYS_io_submit, context, all.len(), all.as_ptr());
    if submitted.is_err() {
        RING.store(null_mut(), Ordering::Release);
    }
    submitted.map(drop)
}

/// Whether [`watch`] has worked.
pub fn is_watched() -> bool {
    ring().is_some()
}

/// Whether the connection that is watched has ended. The eventfd is written to after this says so.
#[inline]
pub fn has_ended() -> bool {
    ring()
        .is_some_and(|ring| ring.head.load(Ordering::Relaxed) != ring.tail.load(Ordering::Acquire))
}

/// In the child of a fork: the context is the parent's.
pub fn in_child() {
    RING.store(null_mut(), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    #[test]
    fn the_end_of_a_connection_rings_the_waker() {
        let waker = sys::eventfd().unwrap();
        // Each watch takes the place of the one before.
        for _ in 0..1000 {
            let [ours, theirs] = sys::pair(libc::SOCK_SEQPACKET).unwrap();
            watch(ours, waker).unwrap();
            assert!(is_watched() && !has_ended());
            let mut polled = [libc::pollfd {
                fd: waker,
                events: libc::POLLIN,
                revents: 0,
            }];
            assert_eq!(sys::ppoll(&mut polled, Some(0), None), Ok(0));
            sys::close(theirs);
            let soon = Some(sys::now() + 5_000_000_000);
            assert_eq!(sys::ppoll(&mut polled, soon, None), Ok(1));
            assert!(has_ended());
            sys::read_eventfd(waker).unwrap();
            sys::close(ours);
        }
        sys::close(waker);
    }
}
