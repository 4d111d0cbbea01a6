//! Streams of the C library on sockets. Its own streams read and write by system calls that can't be
//! interposed, so a stream on an NSM's socket is one with functions of this library.

use core::ffi::{c_char, c_int, c_void};

use super::{descriptors, io};
use crate::sys::real;
use crate::table;

#[repr(C)]
struct Functions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> isize,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> isize,
    seek: *const c_void,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    /// fopencookie(3).
    fn fopencookie(
        cookie: *mut c_void,
        mode: *const c_char,
        functions: Functions,
    ) -> *mut libc::FILE;
}

unsafe extern "C" fn read(cookie: *mut c_void, at: *mut c_char, len: usize) -> isize {
    // SAFETY: the stream's memory.
    unsafe { io::read(cookie as usize as c_int, at.cast(), len) }
}

/// 0 is a failure, unlike write(2)'s.
unsafe extern "C" fn write(cookie: *mut c_void, at: *const c_char, len: usize) -> isize {
    // SAFETY: the stream's memory.
    unsafe { io::write(cookie as usize as c_int, at.cast(), len) }.max(0)
}

unsafe extern "C" fn close(cookie: *mut c_void) -> c_int {
    // SAFETY: the stream's descriptor.
    unsafe { descriptors::close(cookie as usize as c_int) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn fdopen(fd: c_int, mode: *const c_char) -> *mut libc::FILE {
    if table::socket(fd).is_none() {
        return real!(fdopen(fd => c_int, mode => *const c_char) -> *mut libc::FILE);
    }
    let functions = Functions {
        read,
        write,
        seek: core::ptr::null(),
        close,
    };
    // SAFETY: the functions take a descriptor for their cookie.
    unsafe { fopencookie(fd as usize as *mut c_void, mode, functions) }
}
