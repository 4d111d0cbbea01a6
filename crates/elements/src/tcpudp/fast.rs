//! What the sources that are benchmark tools share: rate, limit, counts.

use crate::prelude::*;
use crate::rates::gaps::GapRate;

/// Most packets a second (Click's limit).
const RATE_MAX: u32 = 1_000_000_000;

/// When packets are due, and how many there were.
#[derive(Component)]
#[component(handlers)]
pub struct Pace {
    /// Packets a second; no limit if 0.
    #[arg(mandatory)]
    rate: u32,
    /// Packets after which it stops; no limit if negative.
    #[arg(mandatory, write, error = "limit parameter must be integer >= 0")]
    limit: i32,
    gaps: GapRate,
    /// Packets made.
    #[handler(read)]
    count: u64,
    first: Option<Steady>,
    last: Option<Steady>,
}

#[handlers]
impl Pace {
    /// Packets a second from the first to the last, after LIMIT packets; 0 before.
    #[read]
    fn read_rate(&self) -> u128 {
        let (Some(first), Some(last)) = (self.first, self.last) else {
            return 0;
        };
        let nanoseconds = last.since(first).max(1_000_000);
        u128::from(self.count) * 1_000_000_000 / u128::from(nanoseconds)
    }

    /// The argument RATE.
    #[write(error = "rate parameter must be integer >= 0")]
    fn write_rate(&mut self, cx: &mut Cx<'_>, rate: u32) -> Result<(), String> {
        if rate > RATE_MAX {
            return Err(format!("rate too large; max is {RATE_MAX}"));
        }
        self.rate = rate;
        self.gaps.set_rate(rate.into(), cx.steady());
        Ok(())
    }
}

impl Pace {
    /// Checks the arguments.
    pub fn configured(&mut self, args: &Args<'_>) -> Result<(), Failed> {
        if self.rate > RATE_MAX {
            return Err(args.fail(format_args!("RATE too large; max is {RATE_MAX}")));
        }
        self.gaps.set_rate(self.rate.into(), Steady(0));
        Ok(())
    }

    /// Packets so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether as many were made as there are to be.
    pub fn is_spent(&self) -> bool {
        u64::try_from(self.limit).is_ok_and(|limit| self.count >= limit)
    }

    /// How many packets may be made now, `most` at most; beyond the limit too, for sources that
    /// have something to send after it.
    pub fn due(&mut self, now: Steady, most: usize) -> usize {
        if self.rate == 0 {
            return most;
        }
        self.gaps.allowed(now).min(most as u64) as usize
    }

    /// How many packets the limit has left, `most` at most.
    pub fn left(&self, most: usize) -> usize {
        let limit = u64::try_from(self.limit).unwrap_or(u64::MAX);
        let left = limit.saturating_sub(self.count);
        left.min(most as u64) as usize
    }

    /// Counts packets that were made.
    pub fn made(&mut self, now: Steady, packets: usize) {
        if packets == 0 {
            return;
        }
        if self.rate > 0 {
            self.gaps.count(packets as u64);
        }
        self.count += packets as u64;
        self.first.get_or_insert(now);
        if self.is_spent() {
            self.last = Some(now);
        }
    }

    /// Sets the counts to 0.
    pub fn reset(&mut self) {
        (self.count, self.first, self.last) = (0, None, None);
    }
}

/// The least length of a frame that is made.
pub fn at_least(cx: &mut Cx<'_>, length: u32, least: u32) -> u32 {
    if length < least {
        cx.chatter(format_args!(
            "warning: packet length < {least}, defaulting to {least}"
        ));
    }
    length.max(least)
}

/// Longest frame that is made: what an IPv4 packet can hold, with an Ethernet header.
pub const LENGTH_MAX: u32 = 65535 + 14;
/// Most flows at a time.
pub const FLOWS_MAX: u32 = 1 << 20;

/// Whether a source can be made like this; else what is wrong.
pub fn check(length: u32, flows: u32) -> Result<(), String> {
    if length > LENGTH_MAX {
        return Err(format!("LENGTH too large; max {LENGTH_MAX}"));
    }
    if !(1..=FLOWS_MAX).contains(&flows) {
        return Err(format!("FLOWS must be between 1 and {FLOWS_MAX}"));
    }
    Ok(())
}
