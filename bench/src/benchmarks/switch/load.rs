//! The load of the machine's processors.

use std::time::Duration;

use super::Failure;

/// Busy time of all processors since the machine's boot.
pub struct Processors(Duration);

impl Processors {
    /// Read from the kernel, in hundredths of a second for each processor.
    pub fn read() -> Result<Processors, Failure> {
        let text = std::fs::read_to_string("/proc/stat")?;
        let line = text.lines().next().unwrap_or_default();
        let ticks = line
            .split_whitespace()
            .skip(1)
            .map(str::parse)
            .collect::<Result<Vec<u64>, _>>()?;
        // User, nice, system, idle, iowait, irq, softirq; later fields are other machines' time or
        // already counted.
        let busy = [0, 1, 2, 5, 6].map(|i| ticks.get(i).copied().unwrap_or(0));
        Ok(Processors(Duration::from_millis(
            busy.iter().sum::<u64>() * 10,
        )))
    }

    /// Time spent since `earlier`.
    pub fn since(&self, earlier: &Processors) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}
