//! Limits of guests' processes: a cgroup (version 2) for each guest with a limit. Its parent is a cgroup of the node at
//! the root of the hierarchy; inner cgroups must hold no process.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::model::Limits;

/// Microseconds in which a guest has its part of a processor: short, since it stands still for the rest of them.
const PERIOD: u64 = 10_000;
/// The kernel's least part of a period.
const QUOTA_MIN: u64 = 1_000;

/// The cgroups of guests.
pub(super) struct Cgroups {
    /// The node's, beneath the root of the hierarchy.
    name: String,
    /// Cgroups of ended guests, not removed yet.
    left: Vec<PathBuf>,
}

impl Cgroups {
    /// Of the node with this folder for what runs.
    pub fn new(run: &Path) -> Cgroups {
        let hash = crc32fast::hash(run.as_os_str().as_encoded_bytes());
        Cgroups {
            name: format!("weir-{hash:08x}"),
            left: Vec::new(),
        }
    }

    /// Puts a process into the cgroup of a guest, which is made if there is none, with these limits.
    pub fn enter(&self, id: u64, pid: u32, limits: &Limits) -> Result<PathBuf> {
        let folder = self.folder(limits)?.join(id.to_string());
        make(&folder)?;
        let set = set(&folder, limits).and_then(|()| put(&folder, "cgroup.procs", pid));
        set.inspect_err(|_| {
            let _ = fs::remove_dir(&folder);
        })?;
        Ok(folder)
    }

    /// The node's cgroup, whose children have the controllers that limits need.
    fn folder(&self, limits: &Limits) -> Result<PathBuf> {
        let root = usable(limits)?;
        let folder = root.join(&self.name);
        make(&folder)?;
        for controller in controllers(limits) {
            for parent in [&root, &folder] {
                put(parent, "cgroup.subtree_control", format!("+{controller}"))?;
            }
        }
        Ok(folder)
    }

    /// Removes the cgroup of a guest whose process has ended.
    pub fn remove(&mut self, folder: PathBuf) {
        self.left.push(folder);
        self.clear();
    }

    /// Removes what could not be removed before: the kernel may take a moment.
    pub fn clear(&mut self) {
        self.left.retain(|folder| {
            let removed = fs::remove_dir(folder);
            removed.is_err_and(|error| error.kind() != ErrorKind::NotFound)
        });
    }

    /// Removes the node's, if no guest has one.
    pub fn remove_own(&mut self) {
        self.clear();
        if let Some(root) = root() {
            let _ = fs::remove_dir(root.join(&self.name));
        }
    }
}

/// Sets the limits of the cgroup at `folder`.
pub(super) fn set(folder: &Path, limits: &Limits) -> Result<()> {
    let cpu = limits.cpu_max.map(|cpus| {
        let quota = (cpus * PERIOD as f64).round() as u64;
        format!("{} {PERIOD}", quota.max(QUOTA_MIN))
    });
    let memory = limits.memory_max.map(|most| most.0.to_string());
    for (file, value) in [("cpu.max", cpu), ("memory.max", memory)] {
        if let Some(value) = value {
            put(folder, file, value)?;
        } else if folder.join(file).exists() {
            put(folder, file, "max")?;
        }
    }
    Ok(())
}

/// The cgroup that a process is in, if it is that of a guest.
pub(super) fn of_guest(id: u64, pid: u32) -> Option<PathBuf> {
    let told = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = told.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folder = root()?.join(path);
    (folder.file_name()?.to_str()? == id.to_string()).then_some(folder)
}

/// Whether guests can have these limits, or why not.
pub fn check_limits(limits: &Limits) -> Result<()> {
    let root = usable(limits)?;
    let file = root.join("cgroup.subtree_control");
    let access = rustix::fs::access(&file, rustix::fs::Access::WRITE_OK);
    access.map_err(|error| Error::refused(format_args!("{}: {error}", file.display())))
}

/// The root of the hierarchy, which has the controllers that limits need; or why there is none.
fn usable(limits: &Limits) -> Result<PathBuf> {
    let root = root().ok_or_else(|| {
        Error::refused("limits need cgroups of version 2, and none are mounted: `mount -t cgroup2 none /sys/fs/cgroup`")
    })?;
    let shown = root.display();
    let file = root.join("cgroup.controllers");
    let there = fs::read_to_string(&file)
        .map_err(|error| Error::refused(format_args!("limits need {}: {error}", file.display())))?;
    let lacks = |controller: &&str| !there.split_whitespace().any(|it| it == *controller);
    if let Some(controller) = controllers(limits).find(lacks) {
        return Err(Error::refused(format_args!(
            "the limit needs the controller ‘{controller}’ of cgroup version 2, which {shown} lacks: version 1 may have it (boot with systemd.unified_cgroup_hierarchy=1)"
        )));
    }
    Ok(root)
}

fn controllers(limits: &Limits) -> impl Iterator<Item = &'static str> {
    let cpu = limits.cpu_max.map(|_| "cpu");
    cpu.into_iter().chain(limits.memory_max.map(|_| "memory"))
}

/// Where the hierarchy is mounted.
fn root() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(mounted).map(PathBuf::from)
}

/// The place that a line of mountinfo says the hierarchy is mounted at (proc_pid_mountinfo(5)).
fn mounted(line: &str) -> Option<&str> {
    let (before, after) = line.split_once(" - ")?;
    let place = before.split(' ').nth(4)?;
    after.starts_with("cgroup2 ").then_some(place)
}

fn make(folder: &Path) -> Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(Error::refused(
            format_args!("{}: {error}", folder.display()),
        )),
        _ => Ok(()),
    }
}

fn put(folder: &Path, file: &str, value: impl ToString) -> Result<()> {
    let file = folder.join(file);
    let value = value.to_string();
    fs::write(&file, &value).map_err(|error| {
        Error::refused(format_args!(
            "writing ‘{value}’ to {}: {error}",
            file.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_of_version_2_is_found_among_mounts() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        let found = mounts.lines().find_map(mounted);
        assert_eq!(found, Some("/sys/fs/cgroup/unified"));
        assert_eq!(mounted("32 31 0:29 / /cgroup2 rw - ext4 /dev/vda rw"), None);
    }
}
