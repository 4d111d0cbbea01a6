//! The jail of a plugin's process.
//!
//! | step | what it takes away |
//! | --- | --- |
//! | a network namespace of its own, unless the network is allowed | the network |
//! | process and IPC namespaces of its own | other processes; its own end with it |
//! | a user and a group of its own | all capabilities, files of others |
//! | no_new_privs | a way back through set-user-id programs |
//! | resource limits | memory beyond the limit, files that grow, core dumps, descriptors, processes |
//! | a system call filter | tracing, mounting, namespaces, io_uring and the like; files that are written, made, renamed or removed; sockets, unless the network is allowed |
//!
//! A caller that is not root can take only the last three steps: there, a plugin has the caller's own rights.

use std::collections::BTreeMap;
use std::io;
use std::process::{Child, Command};
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{Gid, Uid};
use rustix::process::geteuid;
use rustix::thread::{
    gettid, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};

/// The first of the users and groups of plugins, which own nothing: beyond those of guests.
const FIRST_USER: u32 = 0x7080_0000;
/// Process numbers are below this (PID_MAX_LIMIT of Linux).
const PIDS: u32 = 1 << 22;
/// Descriptors of a plugin.
const DESCRIPTORS: u64 = 64;
/// Threads and processes of a plugin.
const THREADS: u64 = 32;

/// What a plugin may take.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Address space, in bytes.
    pub memory: u64,
    /// Time of a call.
    pub time: Duration,
    /// Whether it may use the network.
    pub network: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory: 256 << 20,
            time: Duration::from_secs(2),
            network: false,
        }
    }
}

/// System calls that no plugin needs.
const REFUSED: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_personality,
    // Files and folders, which may be writable for all. What is opened to be written is refused beside (`opens`).
    libc::SYS_openat2,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_truncate,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
];

/// The same by older calls.
#[cfg(target_arch = "x86_64")]
const REFUSED_OLD: &[i64] = &[
    libc::SYS_creat,
    libc::SYS_mkdir,
    libc::SYS_mknod,
    libc::SYS_unlink,
    libc::SYS_rmdir,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_OLD: &[i64] = &[libc::SYS_renameat];

/// The calls that open a file, each with the position of its flags.
#[cfg(target_arch = "x86_64")]
const OPENS: &[(i64, u8)] = &[(libc::SYS_open, 1), (libc::SYS_openat, 2)];
#[cfg(not(target_arch = "x86_64"))]
const OPENS: &[(i64, u8)] = &[(libc::SYS_openat, 2)];

/// Starts a program in the jail.
pub(super) fn spawn(mut command: Command, limits: &Limits) -> io::Result<Child> {
    let network = limits.network;
    let entered = std::thread::Builder::new().spawn(move || {
        // What this thread gives up, its child has not; the thread ends here.
        enter(network)?;
        command.spawn()
    })?;
    entered
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("the thread that enters the jail ended")))
}

fn enter(network: bool) -> io::Result<()> {
    if geteuid().is_root() {
        let mut own = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC;
        if !network {
            own |= CloneFlags::CLONE_NEWNET;
        }
        unshare(own)?;
        let number = FIRST_USER + gettid().as_raw_nonzero().get() as u32 % PIDS;
        let (user, group) = (Uid::from_raw(number), Gid::from_raw(number));
        set_thread_groups(&[])?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
    }
    set_no_new_privs(true)?;
    seccompiler::apply_filter(&filter(network)?).map_err(io::Error::other)
}

fn filter(network: bool) -> io::Result<BpfProgram> {
    let sockets: &[i64] = if network { &[] } else { &[libc::SYS_socket] };
    let refused = REFUSED.iter().chain(REFUSED_OLD).chain(sockets);
    let mut rules: BTreeMap<_, _> = refused.map(|call| (*call, Vec::new())).collect();
    for (call, flags) in OPENS {
        let written = writing(*flags).map_err(io::Error::other)?;
        rules.insert(*call, written);
    }
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let arch = std::env::consts::ARCH
        .try_into()
        .map_err(io::Error::other)?;
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)
        .and_then(TryInto::try_into)
        .map_err(io::Error::other)
}

/// The flags of a file that is opened to be written, made or emptied.
fn writing(position: u8) -> Result<Vec<SeccompRule>, BackendError> {
    let flags = [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT, libc::O_TRUNC];
    let rule = |flag: i32| {
        let (flag, length) = (flag as u64, SeccompCmpArgLen::Dword);
        let has = SeccompCondition::new(position, length, SeccompCmpOp::MaskedEq(flag), flag)?;
        SeccompRule::new(vec![has])
    };
    flags.into_iter().map(rule).collect()
}

/// Resource limits, by Python's names, which the runner sets before it loads a plugin: another user's may be set
/// from here only with a capability that containers lack.
pub(super) fn resources(limits: &Limits) -> String {
    let mut bounds = vec![
        ("RLIMIT_AS", limits.memory),
        ("RLIMIT_CORE", 0),
        ("RLIMIT_FSIZE", 0),
        ("RLIMIT_NOFILE", DESCRIPTORS),
    ];
    if geteuid().is_root() {
        // Else it would count the processes of the caller.
        bounds.push(("RLIMIT_NPROC", THREADS));
    }
    let bounds = bounds.iter().map(|(name, limit)| format!("{name}={limit}"));
    bounds.collect::<Vec<_>>().join(",")
}
