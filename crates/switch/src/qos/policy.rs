//! The policy that follows from a port's properties, which all lanes share ([`PortPolicy`]), and
//! each lane's state for it ([`PortShaping`]).

use std::sync::Arc;

use super::delay_line::DelayLine;
use super::spoof_guard::{NoAddress, SpoofGuard};
use super::token_bucket::{Nanos, Rate, RateLimiter};
use super::waiters::Waiters;
use super::wire::{Wire, WireModel};
use crate::ids::PortIndex;
use crate::mac::Mac;
use crate::properties::{Bandwidth, PortProperties, Priority, Share};

/// How much of a rate's time waits in a backlog before frames are dropped.
const BACKLOG: Nanos = 20_000_000;
/// Longest wait between two looks at a rate limiter, so that the tokens of this time go at once: a
/// compromise between the delay that it adds and the wake-ups that it takes.
const PORTION: Nanos = 50_000;
/// Tokens in bytes that are not waited for: a batch or so of them goes at once anyway.
const PORTION_BYTES: u64 = 16 << 10;

/// The limits, the protection and the wire of one port, on all lanes.
#[derive(Debug)]
pub struct PortPolicy {
    /// Its level.
    pub priority: Priority,
    /// Its weight.
    pub share: Share,
    /// The VLAN that it gives access to; 0 if it bears all.
    pub vlan: u16,
    /// The addresses under which it must not send.
    pub guard: Option<SpoofGuard>,
    /// Its rate as a sender.
    pub sent: Option<RateLimiter>,
    /// Its rate as a receiver.
    pub received: Option<RateLimiter>,
    /// How many frames it may send that are flooded.
    pub flood: Option<RateLimiter>,
    /// How frames to it are delayed and lost.
    pub wire: WireModel,
}

impl PortPolicy {
    /// The policy of a port with these properties; `None` for a port without limits and the like.
    /// `speed` is its domain's.
    pub fn new(
        properties: &PortProperties,
        speed: Option<Bandwidth>,
        mac: Option<Mac>,
        now: Nanos,
    ) -> Result<Option<Arc<PortPolicy>>, NoAddress> {
        let plain = PortProperties {
            mtu: properties.mtu,
            cpus: properties.cpus.clone(),
            lanes: properties.lanes,
            allowed_ips: properties.allowed_ips.clone(),
            settle: properties.settle,
            ..PortProperties::default()
        };
        let rate = properties.maxbw.or(speed).map(Rate::of_bytes);
        if *properties == plain && rate.is_none() {
            return Ok(None);
        }
        let flood = properties.flood_limit.map(Rate::of_frames);
        Ok(Some(Arc::new(PortPolicy {
            priority: properties.priority,
            share: properties.share,
            vlan: properties.vlan.map_or(0, |vlan| vlan.id()),
            guard: SpoofGuard::new(properties, mac)?,
            sent: rate.map(|rate| RateLimiter::new(rate, now)),
            received: rate.map(|rate| RateLimiter::new(rate, now)),
            flood: flood.map(|rate| RateLimiter::new(rate, now)),
            wire: WireModel {
                delay: u64::from(properties.delay.get()) * 1000,
                jitter: properties.jitter.get(),
                loss: properties.loss.of_a_billion(),
            },
        })))
    }
}

/// When to look again at a rate limiter without tokens.
pub fn next_look(limiter: &RateLimiter, now: Nanos) -> Nanos {
    limiter.ready_at().max(now) + portion(limiter)
}

/// As [`next_look`], for senders that leave the reserve alone.
pub fn next_look_above_reserve(limiter: &RateLimiter, now: Nanos) -> Nanos {
    limiter.above_reserve_at().max(now) + portion(limiter)
}

fn portion(limiter: &RateLimiter) -> Nanos {
    limiter.rate().time_of(PORTION_BYTES).min(PORTION)
}

/// A delay line for the frames that a rate holds back.
pub(super) fn backlog(rate: Rate) -> DelayLine {
    let bytes = BACKLOG / rate.time_of(1024).max(1) * 1024;
    DelayLine::new(bytes)
}

/// A lane's state for a port with a policy.
pub struct PortShaping {
    /// The policy, which all lanes share.
    pub policy: Arc<PortPolicy>,
    /// Queues whose next frame goes to the port, for when its rate allows.
    pub waiters: Waiters,
    /// Whether a timer is set for them.
    pub timed: bool,
    /// Frames to the port whose senders cannot be held back, where it has a rate.
    pub backlog: Option<DelayLine>,
    /// How frames to the port are delayed and lost, if they are.
    pub wire: Option<Wire>,
}

impl PortShaping {
    /// Of a port that was not sent to yet.
    pub fn new(policy: Arc<PortPolicy>, port: PortIndex) -> PortShaping {
        let limiter = policy.received.as_ref();
        PortShaping {
            waiters: limiter.map_or_else(Waiters::default, |_| Waiters::new()),
            timed: false,
            backlog: limiter.map(|limiter| backlog(limiter.rate())),
            wire: Wire::new(policy.wire, limiter, port),
            policy,
        }
    }

    /// The frames on their way to the port: delayed, and over its rate.
    pub fn into_lines(self) -> (Option<DelayLine>, Option<DelayLine>) {
        (self.wire.and_then(|wire| wire.line), self.backlog)
    }
}
