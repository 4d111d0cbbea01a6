//! Confinement of a switch's process, or of another process of the host's control plane. Before its
//! first request, the process drops its identity, its capabilities, and every system call that its
//! work does not need. Every file and socket that it works on is opened by its parent and passed to
//! it.

use std::collections::BTreeMap;

use rustix::io::Errno;
use rustix::process::{Gid, Resource, Uid};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// Why the process could not be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The kernel refused to let something go.
    #[error("cannot drop {what}: {source}")]
    GiveUp {
        /// The step that failed.
        what: &'static str,
        /// Why not.
        source: Errno,
    },
    /// The filter could not be made or set.
    #[error("cannot filter system calls: {0}")]
    Filter(String),
}

/// A switch's system calls without a condition on their arguments.
pub const SWITCH: &[i64] = &[
    // Moving frames.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvmmsg,
    libc::SYS_sendmmsg,
    libc::SYS_futex,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_epoll_ctl,
    libc::SYS_clock_gettime,
    libc::SYS_sched_yield,
    // Requests and their descriptors.
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_accept4,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    // Frontends: connections, pending messages, and the kind of memory that came.
    libc::SYS_epoll_create1,
    libc::SYS_recvfrom,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_shutdown,
    libc::SYS_fstatfs,
    // Ringing eventfds of others without waiting.
    libc::SYS_io_setup,
    libc::SYS_io_submit,
    libc::SYS_io_getevents,
    libc::SYS_io_destroy,
    // Memory; the allocator asks for the number of processors where there are many threads.
    libc::SYS_sched_getaffinity,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_brk,
    libc::SYS_madvise,
    // Seeds of hash tables.
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
];

/// System calls that fail as if nothing could be reached. The C library's allocator opens files of
/// /proc and /sys to find out how memory may be given back and how many processors there are, where
/// a thread frees much or meets another; it does without.
const REFUSED: &[i64] = &[libc::SYS_openat, libc::SYS_open];

/// How much sooner than guests the lanes are served by the kernel's scheduler, as a nice value.
const NICE: i32 = -10;

/// Gives the switch priority over the guests where both want a processor: a busy guest slows itself
/// first. Without the privilege, all have the same priority.
pub fn take_priority() {
    let _ = rustix::process::setpriority_process(None, NICE);
    // Each session is scheduled as a group on kernels that have that (sched(7)), with a nice value of its own.
    let _ = std::fs::write("/proc/self/autogroup", NICE.to_string());
}

/// Changes from root, if this thread is root, to user and group `nobody`, which own nothing.
/// Threads that start later inherit it.
pub fn drop_privileges() -> Result<(), ConfineError> {
    let give_up = |what| move |source| ConfineError::GiveUp { what, source };
    if let Some(most) = rustix::process::getrlimit(Resource::Nofile).maximum {
        let limit = rustix::process::Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        rustix::process::setrlimit(Resource::Nofile, limit).map_err(give_up("the soft limit"))?;
    }
    if rustix::process::geteuid().is_root() {
        const NOBODY: u32 = 65_534;
        let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        rustix::thread::set_thread_groups(&[]).map_err(give_up("groups"))?;
        rustix::thread::set_thread_res_gid(group, group, group).map_err(give_up("the group"))?;
        // Giving up the user gives up every capability (capabilities(7)).
        rustix::thread::set_thread_res_uid(user, user, user).map_err(give_up("the user"))?;
    }
    rustix::thread::set_no_new_privs(true).map_err(give_up("new privileges"))
}

/// A system call that is allowed if an argument, counted from 0, has one of these values.
pub type Conditional = (i64, u8, &'static [u64]);

/// Those of a switch: it changes maps that it was given (`BPF_MAP_UPDATE_ELEM`, `BPF_MAP_DELETE_ELEM`), and gives a socket
/// a program as its filter.
pub const SWITCH_CONDITIONAL: &[Conditional] = &[
    (libc::SYS_bpf, 0, &[2, 3]),
    (libc::SYS_setsockopt, 2, &[libc::SO_ATTACH_BPF as u64]),
];

/// Allows this process's threads the system calls `allowed` and `conditional`, and memory that cannot be executed; any
/// other call ends the process.
pub fn filter_system_calls(
    allowed: &[i64],
    conditional: &[Conditional],
) -> Result<(), ConfineError> {
    let failed = |e: &dyn std::fmt::Display| ConfineError::Filter(e.to_string());
    let unconditional = |calls: &[i64]| calls.iter().map(|&call| (call, Vec::new())).collect();
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = unconditional(allowed);
    // Let through here, to be refused by the other filter: the stricter one of both has its way.
    rules.extend::<BTreeMap<_, _>>(unconditional(REFUSED));
    // Memory, but none that can be executed.
    let not_executable = || {
        let executable = SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64);
        let condition = SeccompCondition::new(2, SeccompCmpArgLen::Dword, executable, 0)?;
        SeccompRule::new(vec![condition])
    };
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![not_executable().map_err(|e| failed(&e))?]);
    }
    // How much has arrived on a socket.
    let arrived =
        SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, libc::FIONREAD);
    let arrived = arrived.and_then(|condition| SeccompRule::new(vec![condition]));
    rules.insert(libc::SYS_ioctl, vec![arrived.map_err(|e| failed(&e))?]);
    for &(call, argument, values) in conditional {
        let rules_of = values.iter().map(|&value| {
            let size = SeccompCmpArgLen::Dword;
            let is = SeccompCondition::new(argument, size, SeccompCmpOp::Eq, value)?;
            SeccompRule::new(vec![is])
        });
        let rules_of: Result<Vec<_>, _> = rules_of.collect();
        rules.insert(call, rules_of.map_err(|e| failed(&e))?);
    }
    // First, since the other filter refuses further filters.
    let refuse = SeccompAction::Errno(libc::EACCES as u32);
    apply(unconditional(REFUSED), SeccompAction::Allow, refuse)?;
    apply(rules, SeccompAction::KillProcess, SeccompAction::Allow)
}

/// Installs a filter in all threads: calls that `rules` match get the action `matched`, others
/// `other`.
fn apply(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    other: SeccompAction,
    matched: SeccompAction,
) -> Result<(), ConfineError> {
    let failed = |e: &dyn std::fmt::Display| ConfineError::Filter(e.to_string());
    let arch = std::env::consts::ARCH.try_into().map_err(|e| failed(&e))?;
    let filter = SeccompFilter::new(rules, other, matched, arch);
    let program: BpfProgram = filter
        .map_err(|e| failed(&e))?
        .try_into()
        .map_err(|e: seccompiler::BackendError| failed(&e))?;
    seccompiler::apply_filter_all_threads(&program).map_err(|e| failed(&e))
}
