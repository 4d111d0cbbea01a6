//! The kernel's figures on memory and processes.

use std::fs;
use std::time::Duration;

use bench::memory::available;

/// Checks that the host's limits suffice for a number of guests; an error names the limit.
pub fn check(guests: usize) -> Result<(), String> {
    // A process for each, and a thread of KVM's.
    let (limit, wanted) = ("/proc/sys/kernel/pid_max", 2 * guests + 2000);
    let told = fs::read_to_string(limit).map_err(|error| format!("{limit}: {error}"))?;
    match told.trim().parse::<usize>() {
        Ok(most) if most < wanted => Err(format!(
            "kernel.pid_max is {most}, too low for {guests} guests: `sysctl -w kernel.pid_max={wanted}`"
        )),
        _ => Ok(()),
    }
}

/// Writes to so much memory, as far as there is any, and gives it back.
pub fn touch(bytes: usize) -> Result<(), String> {
    let most = available()? as usize / 10 * 9;
    let mut memory = vec![0u8; bytes.min(most)];
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    std::hint::black_box(&memory);
    Ok(())
}

/// Processes whose parent is the node.
fn children(node: u32) -> Result<Vec<(u32, String)>, String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").map_err(|error| error.to_string())? {
        let name = entry.map_err(|error| error.to_string())?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // It may have ended meanwhile.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        let Some((before, after)) = stat.rsplit_once(')') else {
            continue;
        };
        let parent = after.split_whitespace().nth(1);
        if parent.and_then(|parent| parent.parse().ok()) == Some(node) {
            let name = before.split_once('(').map_or("", |(_, name)| name);
            found.push((pid, name.to_string()));
        }
    }
    Ok(found)
}

/// CPU time of a node and its processes: guests, switch, zygote.
pub fn cpu_time(node: u32) -> Result<Duration, String> {
    let mut all = 0;
    let children = children(node)?;
    for pid in children.iter().map(|(pid, _)| *pid).chain([node]) {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        for task in tasks.flatten() {
            let told = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let time = told.split_whitespace().next();
            all += time.and_then(|time| time.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    Ok(Duration::from_nanos(all))
}

/// Guests' processes that a node has, but for the one that waits for the next guest.
pub fn guests_of(node: u32) -> Result<usize, String> {
    let children = children(node)?;
    let named = |(_, name): &&(u32, String)| name.starts_with("echo-");
    Ok(children.iter().filter(named).count())
}
