//! System calls that the library makes for itself, past its own functions, and the C library's
//! functions behind the ones that it interposes.

use core::ffi::{CStr, c_int, c_long, c_void};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// An error number of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub c_int);

pub type Result<T> = core::result::Result<T, Errno>;

/// The thread's `errno`.
pub fn errno() -> c_int {
    // SAFETY: the C library keeps one for each thread.
    unsafe { *libc::__errno_location() }
}

/// Sets the thread's `errno`.
pub fn set_errno(error: Errno) {
    // SAFETY: as for `errno`.
    unsafe { *libc::__errno_location() = error.0 };
}

/// The value of a C function that returns −1 with `errno` at a failure.
pub fn returned(result: Result<usize>) -> isize {
    match result {
        Ok(n) => n as isize,
        Err(error) => {
            set_errno(error);
            -1
        }
    }
}

/// As [`returned`], of a function that returns an `int`.
pub fn returned_int(result: Result<c_int>) -> c_int {
    returned(result.map(|n| n as usize)) as c_int
}

pub fn check(result: c_long) -> Result<usize> {
    if result < 0 {
        return Err(Errno(errno()));
    }
    Ok(result as usize)
}

/// A system call, with arguments that are integers or pointers.
macro_rules! syscall {
    ($number:expr $(, $argument:expr)* $(,)?) => {
        $crate::sys::check(unsafe { libc::syscall($number $(, $argument)*) })
    };
}
pub(crate) use syscall;

/// Keeps signal handlers from running in this thread until it is dropped, but for those of faults.
pub struct Undisturbed(u64);

impl Undisturbed {
    pub fn begin() -> Undisturbed {
        let faults = [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGILL,
            libc::SIGTRAP,
        ];
        let blocked = faults
            .iter()
            .fold(u64::MAX, |mask, signal| mask & !(1 << (signal - 1)));
        Undisturbed(set_mask(blocked))
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        set_mask(self.0);
    }
}

/// Sets the thread's mask of signals; returns the one before.
fn set_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    // SAFETY: the kernel's mask has eight bytes, as both have.
    let _ = syscall!(
        libc::SYS_rt_sigprocmask,
        libc::SIG_SETMASK,
        &raw const mask,
        &raw mut before,
        size_of::<u64>(),
    );
    before
}

pub fn close(fd: c_int) {
    // SAFETY: the caller owns the descriptor.
    let _ = syscall!(libc::SYS_close, fd);
}

pub fn write_eventfd(fd: c_int) {
    let one = 1u64;
    // SAFETY: eight bytes of ours.
    let _ = syscall!(libc::SYS_write, fd, &raw const one, 8usize);
}

pub fn read_eventfd(fd: c_int) -> Result<()> {
    let mut count = 0u64;
    // SAFETY: eight bytes of ours.
    syscall!(libc::SYS_read, fd, &raw mut count, 8usize).map(drop)
}

pub fn eventfd() -> Result<c_int> {
    // SAFETY: no memory is passed.
    syscall!(libc::SYS_eventfd2, 0, libc::EFD_CLOEXEC).map(|fd| fd as c_int)
}

/// An unconnected Unix socket: the descriptor that stands for a socket of an NSM.
pub fn stand_in(kind: c_int) -> Result<c_int> {
    // SAFETY: no memory is passed.
    syscall!(libc::SYS_socket, libc::AF_UNIX, kind, 0).map(|fd| fd as c_int)
}

/// A pair of Unix sockets, closed at exec.
pub fn pair(kind: c_int) -> Result<[c_int; 2]> {
    let mut pair = [-1; 2];
    let kind = kind | libc::SOCK_CLOEXEC;
    // SAFETY: two descriptors of room.
    syscall!(
        libc::SYS_socketpair,
        libc::AF_UNIX,
        kind,
        0,
        pair.as_mut_ptr()
    )?;
    Ok(pair)
}

pub fn fcntl(fd: c_int, command: c_int, argument: usize) -> Result<c_int> {
    // SAFETY: callers pass commands whose argument is an integer, or the application's own.
    syscall!(libc::SYS_fcntl, fd, command, argument).map(|value| value as c_int)
}

/// Nanoseconds of the monotonic clock.
pub fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: room for the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Waits in the kernel as ppoll(2), until the deadline by [`now`].
pub fn ppoll(
    fds: &mut [libc::pollfd],
    deadline: Option<u64>,
    mask: Option<*const libc::sigset_t>,
) -> Result<usize> {
    let mut time = deadline.map(|at| {
        let left = at.saturating_sub(now());
        libc::timespec {
            tv_sec: (left / 1_000_000_000) as _,
            tv_nsec: (left % 1_000_000_000) as _,
        }
    });
    let time = time
        .as_mut()
        .map_or(core::ptr::null_mut(), |time| time as *mut _);
    let mask = mask.unwrap_or(core::ptr::null());
    // SAFETY: the slice and the time are ours; the mask is the application's or none.
    syscall!(
        libc::SYS_ppoll,
        fds.as_mut_ptr(),
        fds.len(),
        time,
        mask,
        SIGNAL_SET
    )
}

/// Lets a hundred microseconds pass.
pub fn pause() {
    let _ = ppoll(&mut [], Some(now() + 100_000), None);
}

/// Whether the other end of a connection is closed.
pub fn has_hung_up(fd: c_int) -> bool {
    let mut polled = [libc::pollfd {
        fd,
        events: 0,
        revents: 0,
    }];
    let _ = ppoll(&mut polled, Some(0), None);
    polled[0].revents & libc::POLLHUP != 0
}

/// Length of the kernel's signal set, in bytes.
pub const SIGNAL_SET: usize = 8;

/// Sleeps until the word differs, it is woken, or the time has passed; shared between processes.
/// Err(ETIMEDOUT): the time has passed.
pub fn futex_wait(word: &AtomicU32, expected: u32, milliseconds: u32) -> Result<()> {
    let time = libc::timespec {
        tv_sec: (milliseconds / 1000) as _,
        tv_nsec: (milliseconds % 1000 * 1_000_000) as _,
    };
    // SAFETY: the word is borrowed, the time ours.
    syscall!(
        libc::SYS_futex,
        word.as_ptr(),
        libc::FUTEX_WAIT,
        expected,
        &raw const time,
        core::ptr::null::<c_void>(),
        0
    )
    .map(drop)
}

pub fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word is borrowed.
    let _ = syscall!(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1);
}

pub fn gettid() -> u32 {
    // SAFETY: no memory is passed.
    syscall!(libc::SYS_gettid).unwrap_or(0) as u32
}

/// Whether a thread of this number runs: not gone, and not a zombie.
pub fn thread_runs(tid: u32) -> bool {
    // SAFETY: signal 0 is not sent.
    if syscall!(libc::SYS_tkill, tid, 0) == Err(Errno(libc::ESRCH)) {
        return false;
    }
    let mut path = *b"/proc/0000000000/stat\0";
    let mut rest = tid;
    for digit in path[6..16].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    // procfs wants the number without leading zeros.
    let skip = path[6..16]
        .iter()
        .take_while(|&&digit| digit == b'0')
        .count()
        .min(9);
    path.copy_within(6 + skip.., 6);
    // SAFETY: a string with an end.
    let Ok(fd) = syscall!(
        libc::SYS_openat,
        libc::AT_FDCWD,
        path.as_ptr(),
        libc::O_RDONLY | libc::O_CLOEXEC
    ) else {
        return true;
    };
    let mut text = [0u8; 128];
    // SAFETY: our bytes.
    let n = syscall!(libc::SYS_read, fd as c_int, text.as_mut_ptr(), text.len()).unwrap_or(0);
    close(fd as c_int);
    let state = text[..n]
        .iter()
        .rposition(|&byte| byte == b')')
        .and_then(|at| text.get(at + 2));
    !matches!(state, Some(b'Z' | b'X'))
}

/// Sends SIGPIPE to the calling thread, as the kernel does at a write that no one can read.
pub fn raise_sigpipe() {
    // SAFETY: no memory is passed.
    let _ = syscall!(libc::SYS_tkill, gettid(), libc::SIGPIPE);
}

/// The next definition of a function after this library's: the C library's.
pub fn next(cache: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = cache.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: a name with an end.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    assert!(!found.is_null(), "the C library has the function");
    cache.store(found, Ordering::Relaxed);
    found
}

/// Calls the C library's function of this name and type.
macro_rules! real {
    ($name:ident($($argument:expr => $type:ty),*) -> $result:ty) => {{
        static CACHE: core::sync::atomic::AtomicPtr<core::ffi::c_void> =
            core::sync::atomic::AtomicPtr::new(core::ptr::null_mut());
        const NAME: &core::ffi::CStr =
            match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!(),
            };
        let function = $crate::sys::next(&CACHE, NAME);
        // SAFETY: the C library's function of this name has this type; what it is passed is what
        // the application passed to ours.
        #[allow(clippy::missing_transmute_annotations)]
        unsafe {
            let function: unsafe extern "C" fn($($type),*) -> $result =
                core::mem::transmute(function);
            function($($argument),*)
        }
    }};
}
pub(crate) use real;
