//! Pulling at a rate at most: what Shaper and BandwidthShaper share.

use super::rate_bucket::{LONGEST, Throughput};
use crate::prelude::*;
use crate::pulls::gathered::Gathered;
use crate::rates::gaps::GapRate;

/// A rate, and when its events are due. Events are packets, or bytes if `BYTES`.
#[derive(Component)]
#[component(handlers)]
pub(super) struct RateShape<const BYTES: bool> {
    /// Packets a second; or bytes a second, also with a unit as in `10Mbps`.
    #[arg(mandatory, read, write, config, then = set_rate)]
    rate: Throughput<BYTES>,
    /// The unused time that can be caught up.
    #[arg(default_text = "1s")]
    burst_duration: Option<Milliseconds>,
    gaps: GapRate,
    gathered: Gathered,
    /// Bytes that may still be pulled.
    allowed: u64,
}

#[handlers]
impl<const BYTES: bool> RateShape<BYTES> {
    /// The argument RATE.
    #[read]
    fn config(&self, cx: &mut Cx<'_>) -> String {
        match self.burst_duration {
            None => self.rate.shown(),
            Some(_) => cx.config(cx.id()).to_string(),
        }
    }

    /// Discards the unused time.
    #[write]
    fn reset(&mut self) {
        self.gaps.reset();
    }
}

impl<const BYTES: bool> RateShape<BYTES> {
    /// Takes the rate that was configured.
    fn set_rate(&mut self, cx: &mut Cx<'_>) {
        let rate = self.rate.0;
        self.gaps.set_rate(rate, cx.steady());
        let burst = |Milliseconds(of)| rate.saturating_mul(of.into()) / 1000;
        self.gaps
            .set_most(self.burst_duration.map(|of| burst(of).max(1)));
    }

    /// Events allowed now. A recent reading of the clock suffices where it allows `most`.
    #[inline]
    fn allowed(&mut self, cx: &mut Cx<'_>, most: usize) -> u64 {
        let allowed = self.gaps.allowed(cx.recent());
        if allowed >= most as u64 {
            return allowed;
        }
        self.gaps.allowed(cx.steady())
    }

    /// Asks for packets while bytes are allowed; then gives what came.
    fn pull_bytes(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if self.allowed > 0 && self.gathered.left() > 0 {
            // The last of them may take more bytes than are allowed, as a packet by itself may.
            let most = (self.allowed - 1) / LONGEST + 1;
            return cx.pull_through(0, most.min(self.gathered.left() as u64) as usize);
        }
        self.gathered.give(batch);
    }
}

impl<const BYTES: bool> Element for RateShape<BYTES> {
    fn configured(&mut self, cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.set_rate(cx);
        Ok(())
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch, most: usize) {
        let allowed = self.allowed(cx, most);
        if port == 1 {
            if allowed == 0 {
                cx.pull_through(0, most);
            }
        } else if !BYTES {
            if allowed > 0 {
                cx.pull_through(0, (most as u64).min(allowed) as usize);
            }
        } else {
            self.gathered.begin(most);
            self.allowed = allowed;
            self.pull_bytes(cx, batch);
        }
    }

    #[inline]
    fn pulled(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        if port == 1 {
            return;
        }
        if !BYTES {
            return self.gaps.count(batch.len() as u64);
        }
        if batch.is_empty() {
            return self.gathered.give(batch);
        }
        let bytes = batch.iter().map(|packet| packet.wire_len() as u64).sum();
        self.gaps.count(bytes);
        self.allowed = self.allowed.saturating_sub(bytes);
        self.gathered.take(batch, packet::BATCH);
        self.pull_bytes(cx, batch);
    }
}
