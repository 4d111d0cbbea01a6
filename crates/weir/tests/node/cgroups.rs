//! Limits of guests: each guest that has any has a cgroup, where the host has the controllers.

use std::path::{Path, PathBuf};

use crate::common::{Host, alive, assert_contains, until};

/// A guest that is always busy.
const BUSY: &str = "InfiniteSource -> Discard;";

/// The root of the hierarchy of version 2, and its controllers.
fn hierarchy() -> Option<(PathBuf, String)> {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    let mut fields = mounts.lines().map(|line| line.split(' '));
    let root = fields.find_map(|mut it| {
        let place = it.nth(1)?;
        (it.next()? == "cgroup2").then_some(PathBuf::from(place))
    })?;
    let controllers = std::fs::read_to_string(root.join("cgroup.controllers")).ok()?;
    Some((root, controllers))
}

fn of_guest(host: &Host, root: &Path, guest: &str) -> PathBuf {
    let pid = host.ok(&format!("ls {guest} -p -o pid"));
    let told = std::fs::read_to_string(format!("/proc/{}/cgroup", pid.trim())).unwrap();
    let path = told.lines().find_map(|line| line.strip_prefix("0::/"));
    root.join(path.unwrap())
}

fn read(folder: &Path, file: &str) -> String {
    std::fs::read_to_string(folder.join(file)).unwrap()
}

/// The limit that a host without its controller refuses, or none if it has it.
fn refused(host: &Host, config: &str, controller: &str, limit: &str) -> bool {
    let found = hierarchy();
    if found.is_some_and(|(_, all)| all.split_whitespace().any(|it| it == controller)) {
        return false;
    }
    println!(
        "cgroup version 2 has no controller ‘{controller}’ here: that {limit} holds is not tested"
    );
    host.refuses(&format!("create fw {config} {limit}"), "limit");
    host.ok(&format!("create fw {config}"));
    host.refuses(&format!("set fw {limit}"), "cgroup");
    assert_eq!(host.ok("ls fw -p -o cpu-max,memory-max"), ":\n");
    host.ok("destroy fw");
    true
}

#[test]
fn a_limit_of_processors_holds_for_one_guest_or_is_refused_with_a_reason() {
    let mut host = Host::new();
    let config = host.config("busy.click", BUSY);
    if refused(&host, &config, "cpu", "--cpu-max 20%") {
        return;
    }
    let (root, _) = hierarchy().unwrap();
    host.ok(&format!("create other {config}"));
    for wall in ["vm", "process"] {
        host.ok(&format!(
            "create fw {config} --cpu-max 20% --isolation {wall}"
        ));
        let folder = of_guest(&host, &root, "fw");
        assert_eq!(read(&folder, "cpu.max"), "2000 10000\n");
        assert_ne!(folder, of_guest(&host, &root, "other"));
        until("it is not throttled", || {
            let stat = read(&folder, "cpu.stat");
            !stat.contains("nr_throttled 0\n")
        });
        // At once, also by the next node.
        host.end("-KILL");
        host.start();
        host.ok("set fw --cpu-max 0.5");
        assert_eq!(read(&folder, "cpu.max"), "5000 10000\n");
        host.ok("set fw --cpu-max max");
        assert_eq!(read(&folder, "cpu.max"), "max 10000\n");
        host.ok("set fw --cpu-max 1.5");
        host.ok("restart fw");
        assert_eq!(
            read(&of_guest(&host, &root, "fw"), "cpu.max"),
            "15000 10000\n"
        );
        host.ok("destroy fw");
        until("its cgroup is left", || !folder.exists());
    }
    host.ok("set other --cpu-max 2");
    let folder = of_guest(&host, &root, "other");
    assert_eq!(read(&folder, "cpu.max"), "20000 10000\n");
    host.ok("node --purge");
    until("its cgroup is left", || !folder.parent().unwrap().exists());
}

#[test]
fn a_limit_of_memory_holds_for_one_guest_or_is_refused_with_a_reason() {
    let host = Host::new();
    let config = host.config("busy.click", BUSY);
    if refused(&host, &config, "memory", "--memory-max 16M") {
        return;
    }
    let (root, _) = hierarchy().unwrap();
    host.ok(&format!("create fw {config} --memory-max 16M"));
    let folder = of_guest(&host, &root, "fw");
    assert_eq!(read(&folder, "memory.max"), "16777216\n");
    let pid = host.ok("ls fw -p -o pid");
    host.ok("set fw --memory-max max");
    assert_eq!(read(&folder, "memory.max"), "max\n");
    assert!(alive(pid.trim().parse().unwrap()));
}

#[test]
fn a_limit_that_cannot_be_is_told() {
    let host = Host::new();
    let config = host.config("busy.click", BUSY);
    let create = format!("create fw {config}");
    host.refuses(&format!("{create} --cpu-max 0"), "0.01 to 1024");
    host.refuses(&format!("{create} --cpu-max much"), "0.5 or 50%");
    let least = "its process needs 2M beside that";
    host.refuses(&format!("{create} --memory-max 4M"), least);
    let doctor = host.weir(&["doctor"]).output().unwrap();
    assert_contains(&String::from_utf8_lossy(&doctor.stdout), "cgroups");
}
