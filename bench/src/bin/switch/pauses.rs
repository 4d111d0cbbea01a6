//! What the host takes away: pauses of a program that does nothing but read the clock.
//!
//! A processor that others have for a while, be it another program of this machine or whoever runs
//! the machine, stops all frames that need it. A bare loop on each of the processors that a
//! measurement uses, right before it, shows how often and for how long that is; from this follows
//! what delay frames would have if they took no time themselves. The loops cannot run meanwhile:
//! they would be such pauses.

use std::time::{Duration, Instant};

use crate::Failure;
use crate::guests::move_to;

/// What counts as a pause: longer than any work of the kernel's own for a timer's tick.
const PAUSE: Duration = Duration::from_micros(20);
/// How long the loops run.
const TIME: Duration = Duration::from_millis(1_000);

/// The pauses of some processors, in microseconds, and the time in which they were.
#[derive(Clone, Debug)]
pub struct Pauses {
    lengths: Vec<f64>,
    time: f64,
    processors: usize,
}

impl Pauses {
    /// Looks for them on all of `cpus` at the same time.
    pub fn on(cpus: &[usize]) -> Result<Pauses, Failure> {
        let found = std::thread::scope(|scope| {
            let loops: Vec<_> = cpus
                .iter()
                .map(|&cpu| scope.spawn(move || bare_loop(cpu).map_err(|error| error.to_string())))
                .collect();
            let found = loops.into_iter().map(|found| found.join());
            found
                .map(|found| found.expect("it does not panic"))
                .collect::<Result<Vec<_>, _>>()
        })?;
        Ok(Pauses {
            lengths: found.concat(),
            time: TIME.as_secs_f64() * 1e6,
            processors: cpus.len(),
        })
    }

    /// Pauses a second of one processor.
    pub fn each_second(&self) -> f64 {
        self.lengths.len() as f64 / self.time * 1e6 / self.processors as f64
    }

    /// The part of its time that a processor lacks, in percent.
    pub fn percent(&self) -> f64 {
        self.lengths.iter().sum::<f64>() / self.time * 100.0 / self.processors as f64
    }

    /// The part of the frames that are delayed by more than `delay` microseconds, on a path through
    /// all of the processors that takes no time but for the pauses, at a load that is so large a
    /// part of what the path can do. Frames that came in a pause wait for its end, and for those
    /// before them: a pause delays frames for its own length over what of the path's rate is left,
    /// the first by all of it, the last by nothing.
    pub fn delayed(&self, delay: f64, load: f64) -> f64 {
        let over = self.lengths.iter().map(|length| (length - delay).max(0.0));
        (over.sum::<f64>() / (1.0 - load) / self.time).min(1.0)
    }

    /// The delay in microseconds that `part` of these frames keep below.
    pub fn delay(&self, part: f64, load: f64) -> f64 {
        let (mut low, mut high) = (0.0, self.lengths.iter().copied().fold(0.0, f64::max));
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            if self.delayed(middle, load) > 1.0 - part {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}

fn bare_loop(cpu: usize) -> Result<Vec<f64>, Failure> {
    move_to(cpu)?;
    let mut lengths = Vec::with_capacity(1 << 16);
    let begun = Instant::now();
    let mut last = begun;
    while last - begun < TIME {
        let now = Instant::now();
        if now - last > PAUSE {
            lengths.push((now - last).as_secs_f64() * 1e6);
        }
        last = now;
    }
    Ok(lengths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_delay_what_comes_in_them_and_before_they_are_made_up_for() {
        // Ten pauses of a millisecond in a second: a hundredth of the time.
        let pauses = Pauses {
            lengths: vec![1000.0; 10],
            time: 1e6,
            processors: 1,
        };
        assert_eq!((pauses.each_second(), pauses.percent()), (10.0, 1.0));
        assert!(pauses.delay(0.99, 0.0) < 1e-6);
        assert!((pauses.delay(0.995, 0.0) - 500.0).abs() < 1e-6);
        assert!((pauses.delayed(500.0, 0.0) - 0.005).abs() < 1e-9);
        // At nine tenths it takes nine times as long again to make up for one.
        assert!((pauses.delay(0.99, 0.9) - 900.0).abs() < 1e-6);
        let none = Pauses {
            lengths: Vec::new(),
            ..pauses
        };
        assert_eq!(none.delay(0.99, 0.9), 0.0);
    }
}
