//! Pulling at a rate at most: what Shaper and BandwidthShaper share.

use super::rate_bucket::Throughput;
use crate::prelude::*;
use crate::rates::gaps::GapRate;

/// A rate, and when its events are due. Events are packets, or bytes if `BYTES`.
#[derive(Component)]
#[component(handlers)]
pub(super) struct RateShape<const BYTES: bool> {
    /// Packets a second; or bytes a second, also with a unit as in `10Mbps`.
    #[arg(mandatory, read, write, config, then = set_rate)]
    rate: Throughput<BYTES>,
    gaps: GapRate,
}

#[handlers]
impl<const BYTES: bool> RateShape<BYTES> {
    /// The argument RATE.
    #[read(calm)]
    fn config(&self) -> alloc::string::String {
        self.rate.shown()
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
        self.gaps.set_rate(self.rate.0, cx.steady());
    }

    /// Pulls one packet after the other while less than `allowed` bytes were pulled.
    fn pull_bytes(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, most: usize, allowed: u64) {
        let mut bytes = 0;
        while bytes < allowed && batch.len() < most {
            let Some(packet) = cx.pull_one(0) else {
                break;
            };
            bytes += packet.wire_len() as u64;
            if let Err(packet) = batch.push(packet) {
                cx.kill(packet);
                break;
            }
        }
        self.gaps.count(bytes);
    }
}

impl<const BYTES: bool> Element for RateShape<BYTES> {
    fn configured(&mut self, cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.set_rate(cx);
        Ok(())
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch, most: usize) {
        let allowed = self.gaps.allowed(cx.steady());
        if port == 1 {
            if allowed == 0 {
                cx.pull(0, batch, most);
            }
        } else if !BYTES {
            if allowed > 0 {
                cx.pull(0, batch, (most as u64).min(allowed) as usize);
                self.gaps.count(batch.len() as u64);
            }
        } else {
            self.pull_bytes(cx, batch, most, allowed);
        }
    }
}
