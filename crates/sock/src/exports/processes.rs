//! New programs and processes. fork itself is caught by handlers that the C library runs for it (see
//! [`process`](crate::process)).

use core::ffi::{CStr, c_char, c_int, c_ulong, c_void};

use super::messages::keeping_errno;
use crate::process;
use crate::share::share_inherited;
use crate::socket;
use crate::sys::real;

type Strings = *const *const c_char;

unsafe extern "C" {
    static environ: Strings;
}

/// The environment of a new program. One that lacks the variables of this library has them added: the
/// program gets the sockets that this one has, and without the library they are dead to it.
struct Environment {
    given: Strings,
    /// The strings and the null behind them, if any was added.
    ours: Vec<*const c_char>,
}

impl Environment {
    /// # Safety
    /// `given` is null, or strings with a null behind them.
    unsafe fn of(given: Strings) -> Environment {
        let mut ours = Vec::new();
        let Some(variables) = process::variables().filter(|_| !given.is_null()) else {
            return Environment { given, ours };
        };
        // SAFETY: the caller's promise.
        let all = unsafe {
            let count = (0..).take_while(|&i| !(*given.add(i)).is_null()).count();
            core::slice::from_raw_parts(given, count)
        };
        for variable in variables {
            let bytes = variable.as_bytes();
            let name = bytes.iter().position(|&byte| byte == b'=').unwrap_or(0) + 1;
            let named = |&text: &*const c_char| {
                // SAFETY: a string, by the caller's promise.
                unsafe { CStr::from_ptr(text) }
                    .to_bytes()
                    .starts_with(&bytes[..name])
            };
            if !all.iter().any(named) {
                if ours.is_empty() {
                    ours.extend_from_slice(all);
                }
                ours.push(variable.as_ptr());
            }
        }
        if !ours.is_empty() {
            ours.push(core::ptr::null());
        }
        Environment { given, ours }
    }

    fn strings(&self) -> Strings {
        if self.ours.is_empty() {
            self.given
        } else {
            self.ours.as_ptr()
        }
    }
}

/// A vfork is a fork: the child of a real one would run in this library's memory.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn vfork() -> libc::pid_t {
    real!(fork() -> libc::pid_t)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn execve(path: *const c_char, argv: Strings, envp: Strings) -> c_int {
    share_inherited(false);
    // SAFETY: the application's environment.
    let environment = unsafe { Environment::of(envp) };
    let envp = environment.strings();
    real!(execve(path => *const c_char, argv => Strings, envp => Strings) -> c_int)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn execv(path: *const c_char, argv: Strings) -> c_int {
    // SAFETY: the application's arguments, and the C library's environment.
    unsafe { execve(path, argv, environ) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn execvp(file: *const c_char, argv: Strings) -> c_int {
    // SAFETY: the application's arguments, and the C library's environment.
    unsafe { execvpe(file, argv, environ) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn execvpe(file: *const c_char, argv: Strings, envp: Strings) -> c_int {
    share_inherited(false);
    // SAFETY: the application's environment.
    let environment = unsafe { Environment::of(envp) };
    let envp = environment.strings();
    real!(execvpe(file => *const c_char, argv => Strings, envp => Strings) -> c_int)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn fexecve(fd: c_int, argv: Strings, envp: Strings) -> c_int {
    share_inherited(false);
    // SAFETY: the application's environment.
    let environment = unsafe { Environment::of(envp) };
    let envp = environment.strings();
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
    // SAFETY: the application's environment.
    let environment = unsafe { Environment::of(envp) };
    let envp = environment.strings();
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
    // SAFETY: the application's environment.
    let environment = unsafe { Environment::of(envp) };
    let envp = environment.strings();
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
