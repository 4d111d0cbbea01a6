//! What the sources that are benchmark tools share: pace, limit, counts, handlers.

use alloc::format;
use alloc::string::{String, ToString};

use router::args::{Args, Failed};
use router::{Cx, HandlerError, HandlerFlags, HandlerList, Steady};

use crate::gap_rate::GapRate;

/// Most packets a second (Click's limit).
const RATE_MAX: u32 = 1_000_000_000;

/// When packets are due, and how many there were.
#[derive(Default)]
pub struct Pace {
    gaps: GapRate,
    /// Rather than as fast as they are pulled.
    limited: bool,
    /// Packets after which it stops.
    limit: Option<u32>,
    active: bool,
    count: u64,
    first: Option<Steady>,
    last: Option<Steady>,
}

impl Pace {
    /// Takes RATE (0: as fast as can be), LIMIT (negative: none) and ACTIVE.
    pub fn configure(
        &mut self,
        args: &Args<'_>,
        rate: u32,
        limit: i32,
        active: bool,
    ) -> Result<(), Failed> {
        if rate > RATE_MAX {
            return Err(args.fail(format_args!("RATE too large; max is {RATE_MAX}")));
        }
        self.set_rate(rate, Steady(0));
        self.limit = u32::try_from(limit).ok();
        self.active = active;
        Ok(())
    }

    fn set_rate(&mut self, rate: u32, now: Steady) {
        self.limited = rate > 0;
        self.gaps.set_rate(rate.into(), now);
    }

    /// Packets so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether as many were made as there are to be.
    pub fn is_spent(&self) -> bool {
        self.limit.is_some_and(|limit| self.count >= limit.into())
    }

    /// How many packets may be made now, `most` at most; beyond the limit too, for sources that
    /// have something to send after it.
    pub fn due(&mut self, cx: &Cx<'_>, most: usize) -> usize {
        match (self.active, self.limited) {
            (false, _) => 0,
            (true, false) => most,
            (true, true) => self.gaps.allowed(cx.steady()).min(most as u64) as usize,
        }
    }

    /// How many packets the limit has left, `most` at most.
    pub fn left(&self, most: usize) -> usize {
        let left = self.limit.map_or(u64::MAX, |limit| {
            u64::from(limit).saturating_sub(self.count)
        });
        left.min(most as u64) as usize
    }

    /// Counts packets that were made.
    pub fn made(&mut self, cx: &Cx<'_>, packets: usize) {
        if packets == 0 {
            return;
        }
        if self.limited {
            self.gaps.count(packets as u64);
        }
        self.count += packets as u64;
        let now = cx.steady();
        self.first.get_or_insert(now);
        if self.is_spent() {
            self.last = Some(now);
        }
    }

    fn reset(&mut self) {
        (self.count, self.first, self.last) = (0, None, None);
    }

    pub fn handlers(list: &mut HandlerList) {
        list.read("count").read_write("rate").button("reset");
        list.write("active").add("active", HandlerFlags::CHECKBOX);
        list.write("limit");
    }

    pub fn read(&self, name: &str) -> Result<String, HandlerError> {
        match name {
            "count" => Ok(self.count.to_string()),
            "rate" => Ok(self.average().to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    /// Packets a second between the first and the last, once the last was sent.
    fn average(&self) -> u64 {
        let (Some(first), Some(last)) = (self.first, self.last) else {
            return 0;
        };
        let milliseconds = (last.since(first) / 1_000_000).max(1);
        self.count.saturating_mul(1000) / milliseconds
    }

    /// Takes a handler's value; returns whether the counts were set to 0.
    pub fn write(&mut self, cx: &Cx<'_>, name: &str, value: &str) -> Result<bool, HandlerError> {
        let names = cx.names();
        match name {
            "rate" => {
                let rate: u32 = names
                    .parse(value)
                    .map_err(|_| "rate parameter must be integer >= 0")?;
                if rate > RATE_MAX {
                    return Err(format!("rate too large; max is {RATE_MAX}").into());
                }
                self.set_rate(rate, cx.steady());
                return Ok(false);
            }
            "limit" => {
                let limit: i32 = names
                    .parse(value)
                    .map_err(|_| "limit parameter must be integer >= 0")?;
                self.limit = u32::try_from(limit).ok();
                return Ok(false);
            }
            "active" => {
                self.active = names
                    .parse(value)
                    .map_err(|_| "active parameter must be boolean")?;
                if !self.active {
                    return Ok(false);
                }
            }
            "reset" => {}
            _ => return Err(HandlerError::Unknown),
        }
        self.reset();
        Ok(true)
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
