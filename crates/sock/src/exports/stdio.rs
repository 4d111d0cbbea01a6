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

/// A standard stream: the C library's variable, its first value, and this library's stream.
struct Standard {
    variable: *mut *mut libc::FILE,
    mode: *const c_char,
    first: AtomicPtr<libc::FILE>,
    ours: AtomicPtr<libc::FILE>,
}

// SAFETY: addresses of variables that stay, and constants.
unsafe impl Sync for Standard {}

const fn standard(variable: *mut *mut libc::FILE, mode: *const c_char) -> Standard {
    Standard {
        variable,
        mode,
        first: AtomicPtr::new(core::ptr::null_mut()),
        ours: AtomicPtr::new(core::ptr::null_mut()),
    }
}

static STANDARD: [Standard; 3] = [
    standard(&raw mut stdin, c"r".as_ptr()),
    standard(&raw mut stdout, c"w".as_ptr()),
    standard(&raw mut stderr, c"w".as_ptr()),
];

/// A program that was started with a socket for its standard input or output gets streams for it.
pub fn standard_streams() {
    (0..STANDARD.len() as c_int).for_each(replaced);
}

/// Another file stands behind a descriptor. If it is a standard one's, its stream is one of this library
/// while that is a socket, as of a shell's command with `>&3`, and the C library's else.
pub fn replaced(fd: c_int) {
    let Some(standard) = STANDARD.get(fd as usize) else {
        return;
    };
    let ours = standard.ours.load(Ordering::Acquire);
    if table::socket(fd).is_none() {
        let first = standard.first.swap(core::ptr::null_mut(), Ordering::AcqRel);
        if !first.is_null() {
            remember(fd, core::ptr::null_mut());
            // SAFETY: the C library's variable is there to be assigned; code that changes the file
            // behind a stream that others use has them wait.
            unsafe { *standard.variable = first };
        }
        return;
    }
    let ours = if ours.is_null() {
        let ours = stream(fd, standard.mode);
        if ours.is_null() {
            return;
        }
        standard.ours.store(ours, Ordering::Release);
        if fd == 2 {
            // SAFETY: a stream that nobody has used yet.
            unsafe { libc::setvbuf(ours, core::ptr::null_mut(), libc::_IONBF, 0) };
        }
        ours
    } else {
        remember(fd, ours);
        ours
    };
    // SAFETY: as above.
    let now = unsafe { *standard.variable };
    if now != ours {
        standard.first.store(now, Ordering::Release);
        // SAFETY: as above.
        unsafe { *standard.variable = ours };
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
