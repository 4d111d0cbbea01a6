//! New programs and processes. fork itself is caught by handlers that the C library runs for it (see
//! [`process`](crate::process)).

use core::ffi::{c_char, c_int, c_ulong, c_void};

use super::messages::keeping_errno;
use crate::share::share_inherited;
use crate::socket;
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

/// Before a process gives up rights (descriptors, system calls), as a sandboxed child does: what it would
/// do at the first use of its sockets is done now.
fn settle() {
    keeping_errno(socket::use_all);
}

/// As for `...`, see [`fcntl`](super::descriptors::fcntl).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn prctl(
    option: c_int,
    a: c_ulong,
    b: c_ulong,
    c: c_ulong,
    d: c_ulong,
) -> c_int {
    if matches!(option, libc::PR_SET_SECCOMP | libc::PR_SET_NO_NEW_PRIVS) {
        settle();
    }
    real!(prctl(option => c_int, a => c_ulong, b => c_ulong, c => c_ulong, d => c_ulong) -> c_int)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn setrlimit(resource: c_int, limit: *const libc::rlimit) -> c_int {
    if resource == libc::RLIMIT_NOFILE as c_int {
        settle();
    }
    real!(setrlimit(resource => c_int, limit => *const libc::rlimit) -> c_int)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn setrlimit64(resource: c_int, limit: *const libc::rlimit64) -> c_int {
    if resource == libc::RLIMIT_NOFILE as c_int {
        settle();
    }
    real!(setrlimit64(resource => c_int, limit => *const libc::rlimit64) -> c_int)
}

/// execl(3) and its kind take as many arguments as are passed. They are jumped to with the arguments
/// untouched, once the sockets are shared.
#[cfg(all(target_arch = "x86_64", not(test)))]
mod lists {
    use core::ffi::{CStr, c_void};
    use core::sync::atomic::AtomicPtr;

    use crate::share::share_inherited;
    use crate::sys;

    /// Shares the sockets; returns the C library's function.
    fn before(name: &CStr) -> *mut c_void {
        share_inherited(false);
        sys::next(&AtomicPtr::new(core::ptr::null_mut()), name)
    }

    macro_rules! list {
        ($name:ident, $before:ident, $text:literal) => {
            extern "C" fn $before() -> *mut c_void {
                before($text)
            }

            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() {
                core::arch::naked_asm!(
                    "push rdi",
                    "push rsi",
                    "push rdx",
                    "push rcx",
                    "push r8",
                    "push r9",
                    "sub rsp, 8",
                    "call {before}",
                    "mov r11, rax",
                    "add rsp, 8",
                    "pop r9",
                    "pop r8",
                    "pop rcx",
                    "pop rdx",
                    "pop rsi",
                    "pop rdi",
                    "jmp r11",
                    before = sym $before,
                )
            }
        };
    }

    list!(execl, before_execl, c"execl");
    list!(execlp, before_execlp, c"execlp");
    list!(execle, before_execle, c"execle");
}
