//! The token bucket of elements that let RATE packets or bytes a second pass.

use crate::prelude::*;
use crate::rates::token_bucket::TokenBucket;

/// Bytes that the bucket of a bandwidth has to hold before a packet is pulled, whatever the
/// packet's length: more than any packet has.
pub(super) const LONGEST: u64 = 131_072;

/// Packets a second, or bytes a second if `BYTES`.
#[derive(Clone, Copy, Default)]
pub(super) struct Throughput<const BYTES: bool>(pub u64);

impl<const BYTES: bool> Argument for Throughput<BYTES> {
    const KIND: &'static str = if BYTES { Bandwidth::KIND } else { u32::KIND };

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        if BYTES {
            Bandwidth::parse(text, context).map(|bandwidth| Throughput(bandwidth.0))
        } else {
            u32::parse(text, context).map(|rate| Throughput(rate.into()))
        }
    }
}

impl<const BYTES: bool> Shown for Throughput<BYTES> {
    fn shown(&self) -> String {
        if BYTES {
            unparse::bandwidth(Bandwidth(self.0))
        } else {
            self.0.to_string()
        }
    }
}

/// A token bucket as arguments set it up. Tokens are packets, or bytes if `BYTES`.
#[derive(Component)]
#[component(handlers)]
pub(super) struct RateBucket<const BYTES: bool> {
    /// Packets a second; or bytes a second, also with a unit as in `10Mbps`.
    #[arg(mandatory, read, write, config, then = set_rate)]
    rate: Throughput<BYTES>,
    /// The bucket holds the tokens of that time.
    #[arg(default_text = "20ms")]
    burst_duration: Option<Milliseconds>,
    /// Tokens it holds, if that is given.
    size: Option<u32>,
    tokens: TokenBucket,
    /// It is in use: a new rate keeps its tokens.
    pub started: bool,
    /// The task that a new rate schedules.
    pub task: Option<TaskId>,
}

#[handlers]
impl<const BYTES: bool> RateBucket<BYTES> {
    /// RATE as it is now, and the other arguments, if there are any.
    #[read]
    fn config(&self, cx: &mut Cx<'_>) -> String {
        match (self.size, &self.burst_duration) {
            (None, None) => self.rate.shown(),
            _ => cx.config(cx.id()).to_string(),
        }
    }
}

impl<const BYTES: bool> RateBucket<BYTES> {
    /// Tokens that must be there for a packet to pass.
    const NEEDED: u64 = if BYTES { LONGEST } else { 1 };

    /// Sets up what was configured. `size` is the argument BURST_SIZE, or BURST_BYTES.
    pub fn set_burst(&mut self, args: &Args<'_>, size: Option<u32>) -> Result<(), Failed> {
        if self.burst_duration.is_some() && size.is_some() {
            let keyword = if BYTES { "BURST_BYTES" } else { "BURST_SIZE" };
            let both = format_args!("cannot specify both BURST_DURATION and {keyword}");
            return Err(args.fail(both));
        }
        self.size = size;
        self.fit();
        Ok(())
    }

    fn set_rate(&mut self, cx: &mut Cx<'_>) {
        self.fit();
        if let Some(task) = self.task {
            cx.schedule(task);
        }
    }

    fn fit(&mut self) {
        let rate = self.rate.0;
        let usual = self.burst_duration.is_none() && self.size.is_none();
        let tokens = match (self.size, self.burst_duration) {
            (Some(size), _) => size.into(),
            (None, Some(Milliseconds(within))) => rate.saturating_mul(within.into()) / 1000,
            (None, None) => rate.saturating_mul(20) / 1000,
        };
        let least = if BYTES { LONGEST } else { 0 };
        let tokens = tokens.saturating_add(least).max(1);
        // The usual bucket has room for a token more than it starts with, so that a late turn
        // loses nothing.
        let capacity = tokens.saturating_add(usual.into());
        if self.started {
            return self.tokens.reassign(rate, capacity);
        }
        self.tokens.assign(rate, capacity);
        if usual {
            self.tokens.set(tokens);
        }
    }

    /// Adds the tokens that came in until `now`.
    #[inline]
    pub fn fill(&mut self, now: Steady) {
        self.tokens.fill(now);
    }

    /// Whether a packet may pass.
    #[inline]
    pub fn allows(&self) -> bool {
        self.tokens.tokens() >= Self::NEEDED
    }

    /// Packets that may pass whatever their length.
    #[inline]
    pub fn packets(&self) -> u64 {
        self.tokens.tokens() / Self::NEEDED
    }

    /// A packet passes.
    #[inline]
    pub fn take(&mut self, packet: &Packet) {
        self.tokens
            .take(if BYTES { packet.len() as u64 } else { 1 });
    }

    /// When the next packet may pass, if ever.
    pub fn ready(&self) -> Option<Steady> {
        self.tokens.ready(Self::NEEDED)
    }
}

/// Splits what is pushed by the rate.
impl<const BYTES: bool> Element for RateBucket<BYTES> {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.started = true;
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.fill(cx.steady());
        // No tokens come in meanwhile: behind the first packet that does not pass, none does.
        let mut passing = 0;
        for packet in batch.iter() {
            if !self.allows() {
                break;
            }
            self.take(packet);
            passing += 1;
        }
        if passing == batch.len() {
            return 0;
        }
        let pass = packet::first(passing);
        let over = packet::first(batch.len()) & !pass;
        cx.dispatch(batch, &[(0, pass), (1, over)])
    }
}
