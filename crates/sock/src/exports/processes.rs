//! New programs and processes. fork itself is caught by handlers that the C library runs for it (see
//! [`process`](crate::process)).

use core::ffi::{c_char, c_int, c_void};

use crate::process::share_inherited;
use crate::sys::real;

type Strings = *const *const c_char;

/// A vfork is a fork: the child of a real one would run in this library's memory.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn vfork() -> libc::pid_t {
    real!(fork() -> libc::pid_t)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn execve(path: *const c_char, argv: Strings, envp: Strings) -> c_int {
    share_inherited(false);
    real!(execve(path => *const c_char, argv => Strings, envp => Strings) -> c_int)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn execv(path: *const c_char, argv: Strings) -> c_int {
    share_inherited(false);
    real!(execv(path => *const c_char, argv => Strings) -> c_int)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn execvp(file: *const c_char, argv: Strings) -> c_int {
    share_inherited(false);
    real!(execvp(file => *const c_char, argv => Strings) -> c_int)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn execvpe(file: *const c_char, argv: Strings, envp: Strings) -> c_int {
    share_inherited(false);
    real!(execvpe(file => *const c_char, argv => Strings, envp => Strings) -> c_int)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn fexecve(fd: c_int, argv: Strings, envp: Strings) -> c_int {
    share_inherited(false);
    real!(fexecve(fd => c_int, argv => Strings, envp => Strings) -> c_int)
}

/// File actions may give a descriptor that is closed at exec to the program under another number.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut libc::pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    argv: Strings,
    envp: Strings,
) -> c_int {
    share_inherited(!actions.is_null());
    real!(posix_spawn(pid => *mut libc::pid_t, path => *const c_char, actions => *const c_void,
        attributes => *const c_void, argv => Strings, envp => Strings) -> c_int)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut libc::pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    argv: Strings,
    envp: Strings,
) -> c_int {
    share_inherited(!actions.is_null());
    real!(posix_spawnp(pid => *mut libc::pid_t, file => *const c_char, actions => *const c_void,
        attributes => *const c_void, argv => Strings, envp => Strings) -> c_int)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn system(command: *const c_char) -> c_int {
    share_inherited(false);
    real!(system(command => *const c_char) -> c_int)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    share_inherited(false);
    real!(popen(command => *const c_char, mode => *const c_char) -> *mut libc::FILE)
}
