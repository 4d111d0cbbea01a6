//! What a port's properties come to: shared by all lanes ([`Shape`]), and what each lane keeps for
//! it ([`Shaped`]). Likewise for flows ([`Flow`], [`Flows`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::bucket::{Limit, Nanos, Rate};
use super::classifier::Classifier;
use super::line::{Chance, Line};
use super::protect::{Guard, NoAddress};
use super::schedule::Waiters;
use crate::lookup::{Mac, PortIndex};
use crate::properties::{
    Bandwidth, FlowAttributes, FlowProperties, PortProperties, Priority, Share,
};

/// How much of a limit's time what is too much may wait in a line before it is dropped.
const BACKLOG: Nanos = 20_000_000;
/// The rate that a line without a limit is made for, in bytes a nanosecond: 10 Gb/s.
const WIRE_BYTES: f64 = 1.25;
/// Longest wait between two looks at a limit, so that what has come together goes at once: a
/// compromise between the delay that it adds and the wake-ups that it takes.
const PORTION: Nanos = 50_000;
/// What is not waited for: a batch or so of it goes at once anyway.
const PORTION_BYTES: u64 = 16 << 10;

/// What all lanes keep to for one port.
#[derive(Debug)]
pub struct Shape {
    /// Its level.
    pub priority: Priority,
    /// Its weight.
    pub share: Share,
    /// The VLAN that it gives access to; 0 if it bears all.
    pub vlan: u16,
    /// What it must not send.
    pub guard: Option<Guard>,
    /// Its rate as a sender.
    pub sent: Option<Limit>,
    /// Its rate as a receiver.
    pub received: Option<Limit>,
    /// How many frames it may send that are flooded.
    pub flood: Option<Limit>,
    delay: Nanos,
    jitter: u32,
    loss: u32,
}

impl Shape {
    /// What the properties of a port come to; `None` if it is a port like any other. `speed` is
    /// its domain's.
    pub fn new(
        properties: &PortProperties,
        speed: Option<Bandwidth>,
        mac: Option<Mac>,
        now: Nanos,
    ) -> Result<Option<Arc<Shape>>, NoAddress> {
        let plain = PortProperties {
            mtu: properties.mtu,
            cpus: properties.cpus.clone(),
            lanes: properties.lanes,
            allowed_ips: properties.allowed_ips.clone(),
            ..PortProperties::default()
        };
        let rate = properties.maxbw.or(speed).map(Rate::of_bytes);
        if *properties == plain && rate.is_none() {
            return Ok(None);
        }
        let flood = properties.flood_limit.map(Rate::of_frames);
        Ok(Some(Arc::new(Shape {
            priority: properties.priority,
            share: properties.share,
            vlan: properties.vlan.map_or(0, |vlan| vlan.id()),
            guard: Guard::new(properties, mac)?,
            sent: rate.map(|rate| Limit::new(rate, now)),
            received: rate.map(|rate| Limit::new(rate, now)),
            flood: flood.map(|rate| Limit::new(rate, now)),
            delay: u64::from(properties.delay.get()) * 1000,
            jitter: properties.jitter.get(),
            loss: properties.loss.of_a_billion(),
        })))
    }

    /// Whether frames to the port are delayed or lost.
    fn is_wire(&self) -> bool {
        self.delay > 0 || self.loss > 0
    }
}

/// When to look again at a limit that is used up.
pub fn next_look(limit: &Limit, now: Nanos) -> Nanos {
    limit.ready_at().max(now) + portion(limit)
}

/// As [`next_look`], for those who leave what is kept for others.
pub fn next_spare(limit: &Limit, now: Nanos) -> Nanos {
    limit.spare_at().max(now) + portion(limit)
}

fn portion(limit: &Limit) -> Nanos {
    limit.rate().time_of(PORTION_BYTES).min(PORTION)
}

/// A line for what a limit holds back.
pub fn backlog(rate: Rate) -> Line {
    let bytes = BACKLOG / rate.time_of(1024).max(1) * 1024;
    Line::new(bytes)
}

/// What a lane keeps for a port.
pub struct Shaped {
    /// What all lanes keep to.
    pub shape: Arc<Shape>,
    /// Queues whose next frame goes to the port, for when its rate allows.
    pub waiters: Waiters,
    /// Whether a timer is set for them.
    pub grants: bool,
    /// Frames to the port whose senders cannot be held back.
    pub backlog: Option<Line>,
    /// How frames to the port are delayed and lost.
    pub wire: Option<Wire>,
}

impl Shaped {
    /// Of the port at a place, which has not been used yet.
    pub fn new(shape: Arc<Shape>, place: PortIndex) -> Shaped {
        let wire = shape.is_wire().then(|| Wire::new(&shape, place));
        Shaped {
            shape,
            waiters: Waiters::default(),
            grants: false,
            backlog: None,
            wire,
        }
    }

    /// What is under way to the port: delayed, and over its limit.
    pub fn into_lines(self) -> (Option<Line>, Option<Line>) {
        (self.wire.and_then(|wire| wire.line), self.backlog)
    }
}

/// Delay and loss on the way to a port.
pub struct Wire {
    /// Frames on their way; none where there is no delay.
    pub line: Option<Line>,
    /// Whether a timer is set for the next to leave.
    pub leaves: bool,
    delay: Nanos,
    jitter: u32,
    loss: u32,
    chance: Chance,
}

impl Wire {
    fn new(shape: &Shape, place: PortIndex) -> Wire {
        let longest = shape.delay + u64::from(shape.jitter) * 1000;
        let bytes = match &shape.received {
            Some(limit) => longest / limit.rate().time_of(1024).max(1) * 1024,
            None => (longest as f64 * WIRE_BYTES) as u64,
        };
        Wire {
            line: (shape.delay > 0).then(|| Line::new(bytes + bytes / 4)),
            leaves: false,
            delay: shape.delay,
            jitter: shape.jitter,
            loss: shape.loss,
            chance: Chance::new(place.into()),
        }
    }

    /// Whether the next frame is lost.
    pub fn loses(&mut self) -> bool {
        self.loss > 0 && self.chance.below(1_000_000_000) < self.loss
    }

    /// When a frame that comes now arrives.
    pub fn arrival(&mut self, now: Nanos) -> Nanos {
        if self.jitter == 0 {
            return now + self.delay;
        }
        let off = self.chance.below(2 * self.jitter + 1);
        now + self.delay + u64::from(off) * 1000 - u64::from(self.jitter) * 1000
    }
}

/// What a flow has counted.
#[derive(Debug, Default)]
pub struct FlowCounters {
    frames: AtomicU64,
    bytes: AtomicU64,
    held: AtomicU64,
    dropped: AtomicU64,
}

impl FlowCounters {
    /// A frame of the flow came.
    #[inline]
    pub fn came(&self, bytes: u64) {
        self.frames.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// It had to wait.
    pub fn held(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    /// It was dropped.
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
    /// Of these, frames that had to wait for the flow's limit.
    pub held: u64,
    /// Of these, frames that were dropped since too many waited.
    pub dropped: u64,
}

/// A flow, as all lanes share it.
#[derive(Debug)]
pub struct Flow {
    /// Its priority, if it has one of its own.
    pub priority: Option<Priority>,
    /// Its rate.
    pub limit: Option<Limit>,
    /// What it has counted.
    pub counters: FlowCounters,
}

impl Flow {
    /// With these properties.
    pub fn new(properties: &FlowProperties, now: Nanos) -> Flow {
        let rate = properties.maxbw.map(Rate::of_bytes);
        Flow {
            priority: properties.priority,
            limit: rate.map(|rate| Limit::new(rate, now)),
            counters: FlowCounters::default(),
        }
    }
}

/// A flow, as a lane has it.
pub struct LaneFlow {
    /// What all lanes share.
    pub flow: Arc<Flow>,
    /// Frames that wait for its limit.
    pub line: Option<Line>,
    /// Whether a timer is set for them.
    pub timed: bool,
}

/// The flows of a domain, as a lane has them.
#[derive(Default)]
pub struct Flows {
    /// Which flow a frame belongs to.
    pub classifier: Classifier,
    flows: Vec<Option<LaneFlow>>,
}

impl Flows {
    /// Adds a flow at a number that none has. That it overlaps no other was found out before.
    pub fn add(
        &mut self,
        number: u32,
        attributes: &FlowAttributes,
        port: Option<PortIndex>,
        flow: Arc<Flow>,
    ) {
        if self.classifier.add(attributes, port, number).is_err() {
            return;
        }
        let place = number as usize;
        if self.flows.len() <= place {
            self.flows.resize_with(place + 1, || None);
        }
        self.flows[place] = Some(LaneFlow {
            flow,
            line: None,
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
}
