//! Limits of the host that bound the number of guests. This process raises its own limits where it can.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::Result;
use crate::host;
use crate::model::{Limits, Memory};

/// Guests that a host should have room for, or it is told what to raise.
pub const GUESTS: u64 = 10_000;

/// A limit of the host.
struct Limit {
    /// As the command to raise it has it.
    name: &'static str,
    value: u64,
    /// What so many `guests` take of it.
    each: u64,
    of: u64,
    /// The number taken without guests.
    own: u64,
}

impl Limit {
    fn guests(&self) -> u64 {
        self.value.saturating_sub(self.own) * self.of / self.each
    }

    /// The command that gives it room for so many guests.
    fn raised(&self, guests: u64) -> String {
        let value = self.own + (self.each * guests).div_ceil(self.of);
        match self.name {
            NOFILE => format!("`ulimit -Hn {value}` (LimitNOFILE={value} in a service)"),
            name => format!("`sysctl -w {name}={value}`"),
        }
    }
}

const NOFILE: &str = "nofile";

/// Raises the soft limit of descriptors to the hard one; returns it.
pub fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // It is within the hard limit.
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Whether guests can have limits.
pub fn cgroups() -> Result<()> {
    let all = Limits {
        cpu_max: Some(1.0),
        memory_max: Some(Memory(1)),
    };
    host::check_limits(&all)
}

/// What to raise, in a sentence, if the host has room for fewer guests than it should.
pub fn advice(descriptors: u64) -> Option<String> {
    told(limits(descriptors))
}

/// For how many guests the host has room, and what bounds them.
pub fn room(descriptors: u64) -> String {
    let mut limits = limits(descriptors);
    limits.sort_by_key(Limit::guests);
    let least = limits.first();
    least.map_or(String::new(), |least| {
        format!(
            "room for about {} guests ({}={})",
            least.guests(),
            least.name,
            least.value
        )
    })
}

fn limits(descriptors: u64) -> Vec<Limit> {
    let kernel = |name: &'static str, each, own| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let value = fs::read_to_string(path).ok()?.trim().parse().ok()?;
        Some(Limit {
            name,
            value,
            each,
            of: 1,
            own,
        })
    };
    // A guest is a process with a thread for each CPU, and behind KVM one of the kernel's. The switch and the node
    // have one mapping of it each, and the node a watch. The switch has a descriptor for each doorbell: guests share
    // them when they are many (`host::doorbells`), but not behind the process wall.
    let limits = [
        kernel("kernel.pid_max", 2, 1000),
        kernel("kernel.threads-max", 2, 1000),
        kernel("vm.max_map_count", 1, 2000),
        kernel("fs.inotify.max_user_watches", 1, 0),
        Some(Limit {
            name: NOFILE,
            value: descriptors,
            each: 1,
            of: 3,
            own: 1500,
        }),
    ];
    limits.into_iter().flatten().collect()
}

fn told(mut limits: Vec<Limit>) -> Option<String> {
    limits.sort_by_key(Limit::guests);
    let least = limits.first()?.guests();
    if least >= GUESTS {
        return None;
    }
    let low: Vec<_> = limits
        .iter()
        .filter(|limit| limit.guests() < GUESTS)
        .collect();
    let values = low
        .iter()
        .map(|limit| format!("{}={}", limit.name, limit.value));
    let raised = low.iter().map(|limit| limit.raised(GUESTS));
    Some(format!(
        "this host has room for about {least} guests ({}); for {GUESTS}: {}",
        values.collect::<Vec<_>>().join(", "),
        raised.collect::<Vec<_>>().join(", "),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_low_is_told_with_what_would_do() {
        let limit = |name, value| Limit {
            name,
            value,
            each: 2,
            of: if name == NOFILE { 3 } else { 1 },
            own: 100,
        };
        assert_eq!(told(vec![limit("kernel.pid_max", 4_194_304)]), None);
        let said = told(vec![
            limit(NOFILE, 1024),
            limit("kernel.pid_max", 10_100),
            limit("vm.max_map_count", 65_530),
        ]);
        assert_eq!(
            said.unwrap(),
            "this host has room for about 1386 guests (nofile=1024, kernel.pid_max=10100); for 10000: \
             `ulimit -Hn 6767` (LimitNOFILE=6767 in a service), `sysctl -w kernel.pid_max=20100`"
        );
        // The proposed limits are then enough.
        assert_eq!(
            told(vec![limit(NOFILE, 6767), limit("kernel.pid_max", 20_100)]),
            None
        );
        assert!(raise_descriptors() >= 1);
    }
}
