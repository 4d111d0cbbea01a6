//! The limits of a table of addresses, and its times.

use crate::prelude::*;

/// A moment or span in milliseconds of the steady clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(pub i64);

impl Millis {
    pub const SECOND: Millis = Millis(1000);

    /// The moment `steady`.
    #[inline]
    pub fn at(steady: Steady) -> Millis {
        Millis((steady.0 / 1_000_000) as i64)
    }

    /// The span `time`; 0 if it is more than 49 days.
    pub fn span(time: Timestamp) -> Millis {
        let span = time.0 / 1_000_000;
        Millis(if span < i64::from(u32::MAX) { span } else { 0 })
    }
}

impl Argument for Millis {
    const KIND: &'static str = "time";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        Timestamp::parse(text, context).map(Millis::span)
    }
}

impl core::ops::Add for Millis {
    type Output = Millis;

    #[inline]
    fn add(self, other: Millis) -> Millis {
        Millis(self.0.saturating_add(other.0))
    }
}

impl core::ops::Sub for Millis {
    type Output = Millis;

    #[inline]
    fn sub(self, other: Millis) -> Millis {
        Millis(self.0.saturating_sub(other.0))
    }
}

/// How much a table may hold.
#[derive(Clone, Debug, Component)]
pub struct Limits {
    /// Most packets that wait; 0: no separate limit. Never more than a quarter of the packet
    /// buffers wait.
    #[arg(name = "CAPACITY", default = 2048)]
    pub packets: u32,
    /// Most addresses; 0: 4096. The oldest goes first.
    #[arg(name = "ENTRY_CAPACITY", default = 0)]
    pub entries: u32,
    /// Most packets that wait for one address; 0: no separate limit. More are dropped.
    #[arg(name = "ENTRY_PACKET_CAPACITY", default = 0)]
    pub entry_packets: u32,
    /// If CAPACITY is exceeded, one part in this many of it is dropped, the packets for the oldest
    /// addresses first.
    #[arg(name = "CAPACITY_SLIM_FACTOR", default = 2)]
    pub slim_factor: u32,
    /// How long an address is kept; 0: forever.
    #[arg(default = Millis(300_000), default_text = "5 minutes")]
    pub timeout: Millis,
}

impl Limits {
    /// Checks the arguments.
    pub fn check(&self, args: &Args<'_>) -> Result<(), Failed> {
        if self.slim_factor == 0 {
            return Err(args.fail("CAPACITY_SLIM_FACTOR cannot be zero"));
        }
        Ok(())
    }
}
