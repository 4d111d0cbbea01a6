//! The jail of a guest's process: the steps that take away its rights before the guest runs in it.
//!
//! | step | what it takes away |
//! | --- | --- |
//! | root in an empty, removed folder | the file system: nothing to open, and nothing can be made there |
//! | descriptors closed | everything inherited |
//! | a user and a group of its own | all capabilities (they go with user 0), the rights of the caller |
//! | no_new_privs | a way back through set-user-id programs |
//! | resource limits | new descriptors, larger files, core dumps |
//! | seccomp filter | every system call but the few that a running guest needs |
//!
//! There are no namespaces: a network namespace alone costs milliseconds to make, and the filter leaves neither a
//! socket, nor an open, nor a mount, nor a signal to another process for a namespace to confine. The order leaves each
//! step possible after the earlier ones. A caller that isn't root can't take the first and the third; its guests run
//! with its own rights behind the filter.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::fs::{Gid, Uid};
use rustix::process::{Resource, Rlimit, chroot, fchdir, geteuid, getpid, setrlimit};
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::thread::{set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use rustix::time::{ClockId, clock_gettime};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use crate::error::{Context, Error, Result};
use crate::kvm;

/// The first of the users and groups of guests, which own nothing: a guest's is this plus the number of its
/// process, so that no two guests have the same. systemd leaves these numbers unused.
const FIRST_USER: u32 = 0x7000_0000;
/// Process numbers are below this (PID_MAX_LIMIT of Linux).
const PIDS: u32 = 1 << 22;

/// The jail's prepared parts.
pub(crate) struct Jail {
    /// An empty folder that has no name any more; `None` if the caller isn't root.
    root: Option<OwnedFd>,
    filter: BpfProgram,
}

impl Jail {
    pub(crate) fn prepare() -> Result<Self> {
        // The first read of a clock finds the vDSO, by calls that the filter forbids.
        let _ = clock_gettime(ClockId::Monotonic);
        let root = geteuid().is_root().then(nameless_folder).transpose()?;
        let ioctls = kvm::IOCTLS
            .iter()
            .map(|&request| vec![argument(1, request)]);
        let filter = compile(
            &[
                (libc::SYS_ioctl, ioctls.collect()),
                (libc::SYS_futex_waitv, vec![]),
                // One of a guest's processors wakes another.
                (
                    libc::SYS_futex,
                    vec![vec![argument(1, libc::FUTEX_WAKE as u32)]],
                ),
                // The vDSO answers this one, except where its clock is not usable.
                (libc::SYS_clock_gettime, vec![]),
                (libc::SYS_rt_sigreturn, vec![]),
                (libc::SYS_exit_group, vec![]),
            ],
            SeccompAction::KillProcess,
        )?;
        Ok(Self { root, filter })
    }

    /// The empty folder; `None` if the caller isn't root.
    pub(crate) fn root(&self) -> Option<BorrowedFd<'_>> {
        self.root.as_ref().map(AsFd::as_fd)
    }

    /// Leaves the file system.
    pub(crate) fn leave_files(&self) -> Result<()> {
        if let Some(root) = &self.root {
            fchdir(root)
                .and_then(|()| chroot("."))
                .context("leaving the file system")?;
        }
        Ok(())
    }

    /// Drops user, capabilities and resources, in this thread and the threads that it starts later.
    pub(crate) fn enter(&self) -> Result<()> {
        if self.root.is_some() {
            let number = FIRST_USER + getpid().as_raw_nonzero().get() as u32 % PIDS;
            let (user, group) = (Uid::from_raw(number), Gid::from_raw(number));
            set_thread_groups(&[]).context("leaving all groups")?;
            set_thread_res_gid(group, group, group).context("taking a group of its own")?;
            set_thread_res_uid(user, user, user).context("taking a user of its own")?;
        }
        set_no_new_privs(true).context("renouncing privileges")?;
        // Not the number of processes: KVM starts a kernel thread for a machine when it first runs, which counts
        // for the user. The filter forbids new processes anyway.
        for limit in [Resource::Core, Resource::Fsize, Resource::Nofile] {
            let none = Rlimit {
                current: Some(0),
                maximum: Some(0),
            };
            setrlimit(limit, none).context("lowering a resource limit")?;
        }
        Ok(())
    }

    /// Forbids all system calls that a VMM doesn't need, in this thread.
    pub(crate) fn filter(&self) -> Result<()> {
        seccompiler::apply_filter(&self.filter).map_err(|error| Error::System {
            what: "installing the system call filter",
            source: std::io::Error::other(error),
        })
    }
}

/// Makes a folder, opens it, and removes its name.
fn nameless_folder() -> Result<OwnedFd> {
    let name = fresh_folder()?;
    let folder = openat(
        CWD,
        &name,
        OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::PATH,
        Mode::empty(),
    );
    std::fs::remove_dir(&name).context("removing the jail's folder")?;
    folder.context("opening the jail's folder")
}

/// Makes a folder with an unpredictable name, so that no other user can create it first: every user may write to the
/// temporary folder.
fn fresh_folder() -> Result<PathBuf> {
    const TRIES: usize = 8;
    let mut tries = 0;
    loop {
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty()).context("a name for the jail's folder")?;
        let random = u64::from_ne_bytes(random);
        let name = std::env::temp_dir().join(format!("weir-jail-{random:016x}"));
        tries += 1;
        match std::fs::create_dir(&name) {
            Ok(()) => return Ok(name),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && tries < TRIES => {}
            Err(error) => return Err(error).context("making a folder for the jail"),
        }
    }
}

/// A rule's condition: the low half of an argument has this value.
pub(crate) fn argument(index: u8, value: u32) -> SeccompCondition {
    SeccompCondition::new(
        index,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Eq,
        value.into(),
    )
    .expect("system calls have six arguments")
}

/// A filter that allows these calls, each if one of its condition lists holds or it has none, and applies
/// `otherwise` to all others.
pub(crate) fn compile(
    calls: &[(i64, Vec<Vec<SeccompCondition>>)],
    otherwise: SeccompAction,
) -> Result<BpfProgram> {
    let broken = |error: seccompiler::BackendError| Error::System {
        what: "compiling the system call filter",
        source: std::io::Error::other(error),
    };
    let mut rules = BTreeMap::new();
    for (call, conditions) in calls {
        let conditions: Result<Vec<_>, _> =
            conditions.iter().cloned().map(SeccompRule::new).collect();
        rules.insert(*call, conditions.map_err(broken)?);
    }
    SeccompFilter::new(rules, otherwise, SeccompAction::Allow, TargetArch::x86_64)
        .and_then(TryInto::try_into)
        .map_err(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_fresh() {
        let (one, other) = (fresh_folder().unwrap(), fresh_folder().unwrap());
        assert_ne!(one, other);
        std::fs::remove_dir(one).unwrap();
        std::fs::remove_dir(other).unwrap();
        nameless_folder().unwrap();
    }
}
