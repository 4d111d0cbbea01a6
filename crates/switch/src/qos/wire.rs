//! Delay, jitter and loss on the way to a port, which emulate a wire.
//!
//! When a port's properties change, frames under way keep their time, or arrive at once if the port
//! has no delay any more.

use super::delay_line::DelayLine;
use super::token_bucket::{Nanos, RateLimiter};
use crate::ids::PortIndex;

/// The rate that a delay line without a rate limiter is made for, in bytes a nanosecond: 10 Gb/s.
const WIRE_BYTES: f64 = 1.25;

/// Losses and jitter from a seed: the same seed loses the same frames.
#[derive(Clone, Copy, Debug)]
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        // Zero would stay zero; the multiplication spreads small seeds.
        Random((seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1)
    }

    /// xorshift64* (Vigna 2016).
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// A number below `end`, each as likely; 0 if `end` is.
    fn below(&mut self, end: u32) -> u32 {
        ((u64::from(self.next()) * u64::from(end)) >> 32) as u32
    }
}

/// The delay, the jitter and the loss model of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireModel {
    /// Delay, in nanoseconds.
    pub delay: Nanos,
    /// Jitter of that, in microseconds, either way.
    pub jitter: u32,
    /// Frames that are lost, of a billion.
    pub loss: u32,
}

/// The wire to a port, on one lane.
pub struct Wire {
    /// Frames on their way; none where there is no delay.
    pub line: Option<DelayLine>,
    /// Whether a timer is set for the next frame to leave.
    pub timed: bool,
    model: WireModel,
    random: Random,
}

impl Wire {
    /// The wire to a port with this rate; `None` where frames are neither delayed nor lost.
    pub fn new(model: WireModel, limiter: Option<&RateLimiter>, port: PortIndex) -> Option<Wire> {
        if model.delay == 0 && model.loss == 0 {
            return None;
        }
        let longest = model.delay + u64::from(model.jitter) * 1000;
        let bytes = match limiter {
            Some(limiter) => longest / limiter.rate().time_of(1024).max(1) * 1024,
            None => (longest as f64 * WIRE_BYTES) as u64,
        };
        Some(Wire {
            line: (model.delay > 0).then(|| DelayLine::new(bytes + bytes / 4)),
            timed: false,
            model,
            random: Random::new(port.into()),
        })
    }

    /// Whether the next frame is lost.
    pub fn loses(&mut self) -> bool {
        self.model.loss > 0 && self.random.below(1_000_000_000) < self.model.loss
    }

    /// When a frame that comes now arrives.
    pub fn arrival(&mut self, now: Nanos) -> Nanos {
        let WireModel { delay, jitter, .. } = self.model;
        if jitter == 0 {
            return now + delay;
        }
        let off = self.random.below(2 * jitter + 1);
        now + delay + u64::from(off) * 1000 - u64::from(jitter) * 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_repeat_themselves_and_are_fair() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..10_000).map(|_| random.below(100)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let low = draw(7).iter().filter(|&&n| n < 10).count();
        assert!((900..1100).contains(&low), "{low}");
        assert_eq!(Random::new(0).below(0), 0);
    }
}
