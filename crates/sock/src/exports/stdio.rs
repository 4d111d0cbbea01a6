//! Streams of the C library on sockets. Its own streams read and write by system calls that can't be
//! interposed, so a stream on an NSM's socket is one with functions of this library.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

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
    static mut stdin: *mut libc::FILE;
    static mut stdout: *mut libc::FILE;
    static mut stderr: *mut libc::FILE;

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
    remember(cookie as usize as c_int, core::ptr::null_mut());
    // SAFETY: the stream's descriptor.
    unsafe { descriptors::close(cookie as usize as c_int) }
}

/// Descriptors with a number below this are told by fileno.
const TOLD: usize = 1024;

/// The streams of this library, by descriptor.
static STREAMS: [AtomicPtr<libc::FILE>; TOLD] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; TOLD];
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn remember(fd: c_int, stream: *mut libc::FILE) {
    if let Some(slot) = STREAMS.get(fd as usize) {
        let before = slot.swap(stream, Ordering::AcqRel);
        match (before.is_null(), stream.is_null()) {
            (true, false) => COUNT.fetch_add(1, Ordering::AcqRel),
            (false, true) => COUNT.fetch_sub(1, Ordering::AcqRel),
            _ => 0,
        };
    }
}

fn stream(fd: c_int, mode: *const c_char) -> *mut libc::FILE {
    let functions = Functions {
        read,
        write,
        seek: core::ptr::null(),
        close,
    };
    // SAFETY: the functions take a descriptor for their cookie; the mode is the application's or a
    // constant.
    let stream = unsafe { fopencookie(fd as usize as *mut c_void, mode, functions) };
    if !stream.is_null() {
        remember(fd, stream);
    }
    stream
}

/// A program that was started with a socket for its standard input or output gets streams for it.
pub fn standard_streams() {
    // SAFETY: the program has not started, so nobody uses the streams; the C library's variables
    // are there to be assigned.
    unsafe {
        if table::socket(0).is_some() {
            stdin = stream(0, c"r".as_ptr());
        }
        if table::socket(1).is_some() {
            stdout = stream(1, c"w".as_ptr());
        }
        if table::socket(2).is_some() {
            stderr = stream(2, c"w".as_ptr());
            libc::setvbuf(stderr, core::ptr::null_mut(), libc::_IONBF, 0);
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn fdopen(fd: c_int, mode: *const c_char) -> *mut libc::FILE {
    if table::socket(fd).is_none() {
        return real!(fdopen(fd => c_int, mode => *const c_char) -> *mut libc::FILE);
    }
    stream(fd, mode)
}

fn told(stream: *mut libc::FILE) -> Option<c_int> {
    if COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    let at = STREAMS
        .iter()
        .position(|slot| slot.load(Ordering::Acquire) == stream);
    at.map(|fd| fd as c_int)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn fileno(stream: *mut libc::FILE) -> c_int {
    told(stream).unwrap_or_else(|| real!(fileno(stream => *mut libc::FILE) -> c_int))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn fileno_unlocked(stream: *mut libc::FILE) -> c_int {
    told(stream).unwrap_or_else(|| real!(fileno_unlocked(stream => *mut libc::FILE) -> c_int))
}
