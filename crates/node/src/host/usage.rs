//! A process's use of memory and processor time, from `/proc/PID/stat` (proc_pid_stat(5)).

use std::fs;
use std::time::Duration;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::time::{ClockId, clock_gettime};

/// A process's use of resources.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// Whether it was stopped by a signal.
    pub stopped: bool,
    /// Processor time.
    pub cpu: Duration,
    /// Processor time of its children that have ended, if it waited for them.
    pub children: Duration,
    /// Time since it was started.
    pub age: Duration,
    /// Bytes of memory in use.
    pub resident: u64,
}

impl Usage {
    /// Of a process; none if there is none.
    pub fn of(pid: u32) -> Option<Usage> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        parse(&stat, up()?)
    }
}

/// How long ago a process was started, by the clock ticks since this boot of the machine.
pub fn age(started: u64) -> Option<Duration> {
    Some(up()?.saturating_sub(ticks(started)))
}

/// Time since the boot of the machine.
fn up() -> Option<Duration> {
    let up = clock_gettime(ClockId::Boottime);
    Some(Duration::new(
        up.tv_sec.try_into().ok()?,
        up.tv_nsec.try_into().ok()?,
    ))
}

fn ticks(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64)
}

/// Parses a line of `stat`, on a machine with this uptime.
fn parse(stat: &str, up: Duration) -> Option<Usage> {
    // The name, in brackets, may have any characters; nothing behind it has a bracket.
    let (_, fields) = stat.rsplit_once(')')?;
    // The first one is field 3.
    let fields: Vec<_> = fields.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Usage {
        stopped: fields.first() == Some(&"T"),
        cpu: ticks(number(14)?.checked_add(number(15)?)?),
        children: ticks(number(16)?.checked_add(number(17)?)?),
        age: up.saturating_sub(ticks(number(22)?)),
        resident: number(24)?.saturating_mul(page_size() as u64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_any_name_is_read() {
        let own = Usage::of(std::process::id()).unwrap();
        assert!(!own.stopped && own.resident > 1 << 16, "{own:?}");
        assert_eq!(Usage::of(u32::MAX), None);
        let ticks = clock_ticks_per_second();
        let stat = format!(
            "7 (a) R b) T 1 2 3 4 5 6 7 8 9 10 {ticks} {} {ticks} 0 15 16 1 18 {} 20 3 22",
            2 * ticks,
            5 * ticks
        );
        let usage = parse(&stat, Duration::from_secs(9)).unwrap();
        assert!(usage.stopped);
        assert_eq!(usage.cpu, Duration::from_secs(3));
        assert_eq!(usage.children, Duration::from_secs(1));
        assert_eq!(usage.age, Duration::from_secs(4));
        assert_eq!(usage.resident, 3 * page_size() as u64);
        assert_eq!(parse("7 (a) T 1", Duration::ZERO), None);
    }
}
