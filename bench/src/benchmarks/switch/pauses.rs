//! The host's pauses: gaps in a program that only reads the clock.
//!
//! While another program or the hypervisor has a processor, frames that need it wait. A bare loop on
//! each of the processors of a measurement, right before it, shows the number and length of these
//! pauses. The delay by pauses alone follows from them. The loops cannot run during the measurement:
//! they would pause it.

use std::time::{Duration, Instant};

use super::Failure;
use super::guests::move_to;

/// Least length of a pause: longer than the kernel's work for a timer tick.
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
    /// Measures them on all of `cpus` at the same time.
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

    /// A processor's share of time in pauses, in percent.
    pub fn percent(&self) -> f64 {
        self.lengths.iter().sum::<f64>() / self.time * 100.0 / self.processors as f64
    }

    /// The share of frames that are delayed by more than `delay` microseconds, on a path through all of
    /// the processors that adds no delay but pauses, at a `load` that is a share of the path's rate.
    /// Frames that come in a pause wait for its end, and for earlier frames. A pause delays frames
    /// during its length divided by the free share of the rate: the first by its whole length, the last
    /// by nothing.
    pub fn delayed(&self, delay: f64, load: f64) -> f64 {
        let over = self.lengths.iter().map(|length| (length - delay).max(0.0));
        (over.sum::<f64>() / (1.0 - load) / self.time).min(1.0)
    }

    /// The delay in microseconds that a `part` of these frames stays below.
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
        // At a load of nine tenths, catching up with a pause takes nine times its length.
        assert!((pauses.delay(0.99, 0.9) - 900.0).abs() < 1e-6);
        let none = Pauses {
            lengths: Vec::new(),
            ..pauses
        };
        assert_eq!(none.delay(0.99, 0.9), 0.0);
    }
}
