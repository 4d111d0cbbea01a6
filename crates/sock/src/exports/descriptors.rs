//! Descriptors: closing, duplicating, flags.

use core::ffi::{c_int, c_uint, c_ulong};
use core::sync::atomic::Ordering;

use super::messages::keeping_errno;
use super::{failed, stdio};
use crate::cell::{Cell, flag};
use crate::process;
use crate::socket;
use crate::sys::{Errno, real, syscall};
use crate::table::{self, Entry};

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    if !keeping_errno(|| socket::forget(fd)) {
        return failed(Errno(libc::EBADF)) as c_int;
    }
    real!(close(fd => c_int) -> c_int)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dup(fd: c_int) -> c_int {
    let new = real!(dup(fd => c_int) -> c_int);
    if new >= 0 {
        socket::duplicate(fd, new);
    }
    new
}

/// Prepares for `to` being replaced by `fd`. False: it is the library's own.
fn replace(fd: c_int, to: c_int) -> bool {
    if fd == to || table::lookup(to).is_none() {
        return true;
    }
    // An invalid `fd` leaves `to` as it is.
    let valid = crate::sys::fcntl(fd, libc::F_GETFD, 0).is_ok();
    !valid || socket::forget(to)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    if !replace(fd, to) {
        return failed(Errno(libc::EBADF)) as c_int;
    }
    let new = real!(dup2(fd => c_int, to => c_int) -> c_int);
    if new >= 0 && fd != to {
        socket::duplicate(fd, new);
        stdio::replaced(new);
    }
    new
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    if fd != to && flags & !libc::O_CLOEXEC == 0 && !replace(fd, to) {
        return failed(Errno(libc::EBADF)) as c_int;
    }
    let new = real!(dup3(fd => c_int, to => c_int, flags => c_int) -> c_int);
    if new >= 0 {
        socket::duplicate(fd, new);
        stdio::replaced(new);
    }
    new
}

/// The cell of the socket that a descriptor stands for.
fn cell(fd: c_int) -> Option<&'static Cell> {
    let socket = table::socket(fd)?;
    let (shared, _) = process::joined().ok()?;
    shared.private.cell(socket)
}

fn set_nonblocking(fd: c_int, to: bool) {
    if let Some(cell) = cell(fd) {
        if to {
            cell.set(flag::NONBLOCK);
        } else {
            cell.unset(flag::NONBLOCK);
        }
    }
}

/// The C library's function takes its third argument by `...`; on the architectures that Linux runs on,
/// an integer or a pointer is passed in the same way.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    let result = real!(fcntl(fd => c_int, command => c_int, argument => usize) -> c_int);
    after_fcntl(fd, command, argument, result);
    result
}

/// As [`fcntl`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    let result = real!(fcntl64(fd => c_int, command => c_int, argument => usize) -> c_int);
    after_fcntl(fd, command, argument, result);
    result
}

fn after_fcntl(fd: c_int, command: c_int, argument: usize, result: c_int) {
    if result < 0 || table::lookup(fd).is_none() {
        return;
    }
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => socket::duplicate(fd, result),
        libc::F_SETFL => set_nonblocking(fd, argument as c_int & libc::O_NONBLOCK != 0),
        _ => {}
    }
}

/// Requests about interfaces go to the Unix socket that stands for the NSM's: the kernel answers them on
/// any socket. As for `...`, see [`fcntl`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    let number = match request {
        libc::FIONREAD | libc::TIOCOUTQ if table::socket(fd).is_some() => {
            let Some(Ok(socket)) = socket::of(fd) else {
                return failed(Errno(libc::ENETDOWN)) as c_int;
            };
            socket.drain();
            if request == libc::FIONREAD {
                socket.readable_bytes()
            } else {
                socket.cell.in_flight.load(Ordering::Relaxed) * abi::tenant::CHUNK_BYTES as u32
            }
        }
        _ => {
            let result = real!(ioctl(fd => c_int, request => c_ulong, argument => usize) -> c_int);
            if result >= 0 && request == libc::FIONBIO && table::socket(fd).is_some() {
                // SAFETY: the application's integer, which the kernel has read.
                set_nonblocking(fd, unsafe { *(argument as *const c_int) } != 0);
            }
            return result;
        }
    };
    // SAFETY: the application's integer.
    unsafe { *(argument as *mut c_int) = number as c_int };
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    const CLOEXEC: c_int = 1 << 2;
    if first > last || flags & CLOEXEC != 0 || !process::redirects() {
        return real!(close_range(first => c_uint, last => c_uint, flags => c_int) -> c_int);
    }
    // The library's own descriptors stay: the range is closed in the pieces between them.
    let mut from = first;
    let mut result = Ok(0);
    table::each(|fd, entry| {
        let fd = fd as c_uint;
        if fd < first || fd > last {
            return;
        }
        if entry != Entry::Owned {
            keeping_errno(|| socket::forget(fd as c_int));
            return;
        }
        if fd > from {
            // SAFETY: the application's descriptors.
            result = syscall!(libc::SYS_close_range, from, fd - 1, flags);
        }
        from = fd + 1;
    });
    if from <= last {
        // SAFETY: the application's descriptors.
        result = syscall!(libc::SYS_close_range, from, last, flags);
    }
    crate::sys::returned(result) as c_int
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn closefrom(first: c_int) {
    // SAFETY: descriptors of the application.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}
