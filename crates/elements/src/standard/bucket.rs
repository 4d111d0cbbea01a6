//! The token bucket of elements that let RATE packets or bytes a second pass.

use alloc::string::{String, ToString};

use packet::Packet;
use router::args::{Args, Argument, Bandwidth, Context, Failed, Invalid, SecondsArg, unparse};
use router::{Cx, HandlerError, Steady};

use crate::token_bucket::TokenBucket;
use crate::values;

/// Bytes that the bucket of a bandwidth has to hold before a packet is pulled, whatever the
/// packet's length: more than any packet has.
const LONGEST: u64 = 131_072;

/// How many tokens a bucket holds.
#[derive(Clone, Copy, Default)]
enum Burst {
    /// What comes in within 20 milliseconds.
    #[default]
    Usual,
    /// What comes in within so many milliseconds.
    Duration(u32),
    Size(u32),
}

/// A token bucket as arguments set it up. Tokens are packets, or bytes if `BYTES`.
#[derive(Default)]
pub(super) struct Bucket<const BYTES: bool> {
    tokens: TokenBucket,
    burst: Burst,
    /// It is in use: a new rate keeps its tokens.
    pub started: bool,
}

impl<const BYTES: bool> Bucket<BYTES> {
    /// Tokens that must be there for a packet to pass.
    const NEEDED: u64 = if BYTES { LONGEST } else { 1 };

    /// Takes RATE, BURST_DURATION and BURST_SIZE (or BURST_BYTES).
    pub fn configure(&mut self, args: &mut Args<'_>) -> Result<(), Failed> {
        let burst_size = if BYTES { "BURST_BYTES" } else { "BURST_SIZE" };
        let (mut rate, mut milliseconds, mut size) = (0, 0, 0);
        let (mut has_duration, mut has_size) = (false, false);
        args.mandatory_positional_with("RATE", Self::parse_rate, &mut rate)
            .keyword_with("BURST_DURATION", SecondsArg(3), &mut milliseconds)
            .given(&mut has_duration)
            .keyword(burst_size, &mut size)
            .given(&mut has_size)
            .complete()?;
        self.burst = match (has_duration, has_size) {
            (false, false) => Burst::Usual,
            (true, false) => Burst::Duration(milliseconds),
            (false, true) => Burst::Size(size),
            (true, true) => {
                return Err(args.fail(format_args!(
                    "cannot specify both BURST_DURATION and {burst_size}"
                )));
            }
        };
        self.set_rate(rate);
        Ok(())
    }

    fn parse_rate(text: &str, context: &Context<'_>) -> Result<u64, Invalid> {
        match BYTES {
            true => Bandwidth::parse(text, context).map(|bandwidth| bandwidth.0),
            false => u32::parse(text, context).map(u64::from),
        }
    }

    fn set_rate(&mut self, rate: u64) {
        let within = |milliseconds: u32| rate.saturating_mul(milliseconds.into()) / 1000;
        let tokens = match self.burst {
            Burst::Usual => within(20),
            Burst::Duration(milliseconds) => within(milliseconds),
            Burst::Size(size) => size.into(),
        };
        let least = if BYTES { LONGEST } else { 0 };
        let tokens = tokens.saturating_add(least).max(1);
        // The usual bucket has room for a token more than it starts with, so that a late turn
        // loses nothing.
        let capacity = match self.burst {
            Burst::Usual => tokens.saturating_add(1),
            _ => tokens,
        };
        if self.started {
            return self.tokens.reassign(rate, capacity);
        }
        self.tokens.assign(rate, capacity);
        if let Burst::Usual = self.burst {
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
        match BYTES {
            true => self.allows().into(),
            false => self.tokens.tokens(),
        }
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

    /// What the `rate` handler says.
    pub fn rate(&self) -> String {
        match BYTES {
            true => unparse::bandwidth(Bandwidth(self.tokens.rate())),
            false => self.tokens.rate().to_string(),
        }
    }

    /// What the `rate` handler is written.
    pub fn write_rate(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        let mut rate = 0;
        values::argument_with(cx, 0, "RATE", value, Self::parse_rate, &mut rate)?;
        self.set_rate(rate);
        Ok(())
    }
}
