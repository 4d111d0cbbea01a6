//! When packets are due.

use crate::prelude::*;

/// Time that may be caught up on.
const ARREARS: u64 = 10_000_000;
const NANOSECONDS: u64 = 1_000_000_000;

/// A rate in packets or in bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speed {
    /// As fast as packets are pulled.
    #[default]
    Unlimited,
    /// Packets a second.
    Packets(u64),
    /// Bytes a second.
    Bytes(u64),
}

impl Argument for Speed {
    const KIND: &'static str = "packets a second, or bandwidth with a unit";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        let number = text.strip_suffix("pps").unwrap_or(text).trim_end();
        let (number, factor) = match number.as_bytes().last() {
            Some(b'k' | b'K') => (&number[..number.len() - 1], 1_000),
            Some(b'M') => (&number[..number.len() - 1], 1_000_000),
            _ => (number, 1),
        };
        if let Ok(rate) = number.trim_end().parse::<u32>() {
            return Ok(match u64::from(rate) * factor {
                0 => Speed::Unlimited,
                rate => Speed::Packets(rate),
            });
        }
        match Bandwidth::parse(text, context) {
            Ok(Bandwidth(0)) | Err(_) => Err(Invalid::because(
                "expected packets a second, or bits a second with a unit, as in 10000 or 100Mbps",
            )),
            Ok(Bandwidth(bytes)) => Ok(Speed::Bytes(bytes)),
        }
    }
}

/// A schedule of packets at a rate.
#[derive(Default)]
pub struct Pace {
    rate: Speed,
    /// When the next packet is due; none before the first.
    next: Option<u64>,
    /// The part of a nanosecond after that, in parts of the rate.
    rest: u64,
}

impl Pace {
    /// Sets the rate; the next packet is due at once.
    pub fn set(&mut self, rate: Speed) {
        (self.rate, self.next, self.rest) = (rate, None, 0);
    }

    /// When the next packet is due, if that is after `now`.
    #[inline]
    pub fn wait(&self, now: Steady) -> Option<Steady> {
        let next = self.next.filter(|next| *next > now.0)?;
        Some(Steady(next))
    }

    /// A packet of so many bytes was made.
    #[inline]
    pub fn made(&mut self, now: Steady, bytes: usize) {
        let (rate, units) = match self.rate {
            Speed::Unlimited => return,
            Speed::Packets(rate) => (rate, 1),
            Speed::Bytes(rate) => (rate, bytes as u64),
        };
        let cost = units * NANOSECONDS + self.rest;
        let due = match self.next {
            Some(next) => next.max(now.0.saturating_sub(ARREARS)),
            None => now.0,
        };
        self.next = Some(due + cost / rate);
        self.rest = cost % rate;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    #[test]
    fn rates_have_units() {
        for (text, rate) in [
            ("0", Speed::Unlimited),
            ("1000", Speed::Packets(1000)),
            ("2k", Speed::Packets(2000)),
            ("3 Mpps", Speed::Packets(3_000_000)),
            ("8kbps", Speed::Bytes(1000)),
            ("10Gbps", Speed::Bytes(1_250_000_000)),
        ] {
            assert_eq!(
                Context::blank().parse::<Speed>(text).unwrap(),
                rate,
                "{text}"
            );
        }
        for text in ["", "fast", "-1", "0bps", "k"] {
            assert!(Context::blank().parse::<Speed>(text).is_err(), "{text}");
        }
    }

    proptest! {
        /// Packets of any lengths, asked for at any times, come at the rate.
        #[test]
        fn the_rate_is_held(
            rate in 1u64..20_000_000,
            bytes: bool,
            lengths in prop::collection::vec(60usize..1600, 1..8),
            steps in prop::collection::vec(1u64..ARREARS, 1..8),
        ) {
            let mut pace = Pace::default();
            pace.set(if bytes { Speed::Bytes(rate) } else { Speed::Packets(rate) });
            let (mut now, mut made, mut sum) = (5, 0usize, 0u64);
            for step in steps.iter().cycle().take(50) {
                while pace.wait(Steady(now)).is_none() && made < 100_000 {
                    let length = lengths[made % lengths.len()];
                    pace.made(Steady(now), length);
                    made += 1;
                    sum += if bytes { length as u64 } else { 1 };
                }
                let due = u128::from(now - 5) * u128::from(rate) / u128::from(NANOSECONDS);
                // A packet may be due up to a nanosecond early.
                let slack = if bytes { 1601 } else { 2 };
                let short = u128::from(sum) < due && made < 100_000;
                prop_assert!(!short && u128::from(sum) <= due + slack, "{sum} {due}");
                now += step;
            }
        }
    }
}
