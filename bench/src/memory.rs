//! Memory of the machine.

use std::fs;

/// Memory that is available, in bytes.
pub fn available() -> Result<u64, String> {
    let info = fs::read_to_string("/proc/meminfo").map_err(|error| error.to_string())?;
    let line = info.lines().find(|line| line.starts_with("MemAvailable:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    let kib: Option<u64> = number.and_then(|number| number.parse().ok());
    kib.map(|kib| kib * 1024)
        .ok_or_else(|| "/proc/meminfo does not tell what is available".into())
}
