//! Flows: the state that all lanes share ([`SharedFlow`]), and a lane's own ([`LaneFlow`],
//! [`LaneFlows`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::classifier::Classifier;
use super::delay_line::DelayLine;
use super::policy::backlog;
use super::token_bucket::{Nanos, Rate, RateLimiter};
use crate::ids::PortIndex;
use crate::properties::{FlowAttributes, FlowProperties, Priority};

/// A flow's counters, on all lanes.
#[derive(Debug, Default)]
pub struct FlowCounters {
    frames: AtomicU64,
    bytes: AtomicU64,
    held: AtomicU64,
    dropped: AtomicU64,
}

impl FlowCounters {
    /// Counts a frame of the flow.
    #[inline]
    pub fn came(&self, bytes: u64) {
        self.frames.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a frame that has to wait.
    pub fn held(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a frame that is dropped.
    pub fn dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters now.
    pub fn read(&self) -> FlowStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FlowStats {
            frames: get(&self.frames),
            bytes: get(&self.bytes),
            held: get(&self.held),
            dropped: get(&self.dropped),
        }
    }
}

/// A reading of a flow's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FlowStats {
    /// Frames of the flow that came in, both ways.
    pub frames: u64,
    /// Their bytes, from the Ethernet header on.
    pub bytes: u64,
    /// Of these, frames that had to wait for the flow's rate.
    pub held: u64,
    /// Of these, frames that were dropped since too many waited.
    pub dropped: u64,
}

/// A flow, as all lanes share it.
#[derive(Debug)]
pub struct SharedFlow {
    /// Its priority, if it has one of its own.
    pub priority: Option<Priority>,
    /// Its rate.
    pub limiter: Option<RateLimiter>,
    /// Its counters.
    pub counters: FlowCounters,
}

impl SharedFlow {
    /// With these properties.
    pub fn new(properties: &FlowProperties, now: Nanos) -> SharedFlow {
        let rate = properties.maxbw.map(Rate::of_bytes);
        SharedFlow {
            priority: properties.priority,
            limiter: rate.map(|rate| RateLimiter::new(rate, now)),
            counters: FlowCounters::default(),
        }
    }
}

/// A flow, as a lane has it.
pub struct LaneFlow {
    /// The part that all lanes share.
    pub shared: Arc<SharedFlow>,
    /// Frames that wait for its rate, if it has one.
    pub backlog: Option<DelayLine>,
    /// Whether a timer is set for them.
    pub timed: bool,
}

/// The flows of a domain, as a lane has them.
#[derive(Default)]
pub struct LaneFlows {
    /// Which flow a frame belongs to.
    pub classifier: Classifier,
    flows: Vec<Option<LaneFlow>>,
}

#[expect(clippy::len_without_is_empty, reason = "the classifier tells")]
impl LaneFlows {
    /// Adds a flow at a number that none has. It overlaps no other: that was found out before.
    pub fn add(
        &mut self,
        number: u32,
        attributes: &FlowAttributes,
        port: Option<PortIndex>,
        shared: Arc<SharedFlow>,
    ) {
        if self.classifier.add(attributes, port, number).is_err() {
            return;
        }
        let index = number as usize;
        if self.flows.len() <= index {
            self.flows.resize_with(index + 1, || None);
        }
        let limiter = shared.limiter.as_ref();
        self.flows[index] = Some(LaneFlow {
            backlog: limiter.map(|limiter| backlog(limiter.rate())),
            shared,
            timed: false,
        });
    }

    /// Removes a flow, if there is one.
    pub fn remove(&mut self, number: u32) -> Option<LaneFlow> {
        self.classifier.remove(number);
        self.flows.get_mut(number as usize)?.take()
    }

    /// The flow with a number.
    pub fn get(&mut self, number: u32) -> Option<&mut LaneFlow> {
        self.flows.get_mut(number as usize)?.as_mut()
    }

    /// Number of flows.
    pub fn len(&self) -> usize {
        self.flows.iter().flatten().count()
    }
}
