//! The system calls that CoreEngine and the NSMs make once they serve, besides those for memory that is mapped:
//! what their processes are to be confined to.

/// What all need.
macro_rules! with_common {
    ($($call:ident),* $(,)?) => {
        &[
            $(libc::$call,)*
            // Messages, with memory files and eventfds.
            libc::SYS_recvmsg,
            libc::SYS_sendmsg,
            libc::SYS_close,
            libc::SYS_fstat,
            libc::SYS_fcntl,
            // Waking and waiting.
            libc::SYS_read,
            libc::SYS_write,
            libc::SYS_epoll_wait,
            libc::SYS_epoll_pwait,
            libc::SYS_epoll_pwait2,
            libc::SYS_epoll_ctl,
            libc::SYS_poll,
            libc::SYS_ppoll,
            libc::SYS_futex,
            libc::SYS_sched_yield,
            libc::SYS_nanosleep,
            libc::SYS_clock_nanosleep,
            libc::SYS_clock_gettime,
            // Memory.
            libc::SYS_munmap,
            libc::SYS_mremap,
            libc::SYS_brk,
            libc::SYS_madvise,
            libc::SYS_getrandom,
            // Ending, in order or not.
            libc::SYS_exit,
            libc::SYS_exit_group,
            libc::SYS_sigaltstack,
            libc::SYS_rt_sigprocmask,
            libc::SYS_rt_sigaction,
            libc::SYS_rt_sigreturn,
            libc::SYS_restart_syscall,
            libc::SYS_getpid,
            libc::SYS_gettid,
            libc::SYS_tgkill,
        ]
    };
}

/// CoreEngine's: it makes no socket.
pub const CORE_ENGINE: &[i64] = with_common![
    SYS_accept4,
    SYS_getsockopt,
    SYS_memfd_create,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_eventfd2,
];

/// A kernel NSM's.
pub const KERNEL_NSM: &[i64] = with_common![
    SYS_socket,
    SYS_bind,
    SYS_listen,
    SYS_accept4,
    SYS_connect,
    SYS_shutdown,
    SYS_sendto,
    SYS_recvfrom,
    SYS_getsockname,
    SYS_getpeername,
    SYS_setsockopt,
    SYS_getsockopt,
];

/// A user NSM's, and an shm NSM's: they make no socket, and packets take no system call.
pub const USER_NSM: &[i64] = with_common![];
