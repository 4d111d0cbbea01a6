//! What links and VNICs count.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use super::{Application, FlowStats, Guest, NodeStatus, Nsm, Object};

/// Declares which fields of statistics are counters, each once, with another name for metrics if the field's has no unit.
macro_rules! counters {
    (@name $counter:ident) => { stringify!($counter) };
    (@name $counter:ident $name:literal) => { $name };
    ($type:ident: $($counter:ident $(= $name:literal)?),* $(,)?) => {
        impl $type {
            /// Its counters by name.
            pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($crate::model::stats::counters!(@name $counter $($name)?), self.$counter)),*].into_iter()
            }

            /// What each of its counters counts, by name.
            pub fn counted() -> Vec<(&'static str, String)> {
                let schema = <$type as utoipa::PartialSchema>::schema();
                let of = |field: &str| $crate::model::stats::description(&schema, field);
                vec![$(($crate::model::stats::counters!(@name $counter $($name)?), of(stringify!($counter)))),*]
            }

            /// What was counted since `before`, for the same name.
            pub fn since(&self, before: &$type) -> $type {
                let mut counted = self.clone();
                $(counted.$counter = $crate::model::stats::less(self.$counter, before.$counter);)*
                $crate::model::stats::ByReason::since_by_reason(&mut counted, before);
                counted
            }
        }
    };
}
pub(super) use counters;

/// The description of a field of an object.
pub(super) fn description(schema: &RefOr<Schema>, field: &str) -> String {
    let RefOr::T(Schema::Object(object)) = schema else {
        return String::new();
    };
    match object.properties.get(&field.replace('_', "-")) {
        Some(RefOr::T(Schema::Object(field))) => field.description.clone().unwrap_or_default(),
        _ => String::new(),
    }
}

/// Counters by reason, which only some statistics have.
pub(super) trait ByReason {
    /// Takes from them what was counted before.
    fn since_by_reason(&mut self, _before: &Self) {}
}

impl ByReason for super::FlowStats {}
impl ByReason for LaneStats {}
impl ByReason for super::ApplicationStatus {}
impl ByReason for super::NsmStatus {}

impl ByReason for PortStats {
    fn since_by_reason(&mut self, before: &PortStats) {
        for (reason, frames) in &mut self.drops {
            *frames = less(*frames, before.drops.get(reason).copied().unwrap_or(0));
        }
        self.drops.retain(|_, frames| *frames > 0);
    }
}

/// Counters of a link's interface, of a VNIC or of an end of a wire's patch, since it was attached
/// to the switch that runs.
///
/// "Received" is from its own point of view: from the wire for an interface, from the switch for a
/// VNIC or a patch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PortStats {
    /// The interface or VNIC; for a patch WIRE/PATCH:a or b, as ‘between’ names its ends.
    pub name: String,
    /// The link.
    pub link: String,
    /// The lane that counted it, if it is one's counters alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<u32>,
    /// Frames received.
    pub rx_frames: u64,
    /// Bytes received, from the Ethernet header on.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Bytes sent, from the Ethernet header on.
    pub tx_bytes: u64,
    /// Frames that the switch took from the port while polling it.
    pub by_poll: u64,
    /// Frames that the switch took from the port first thing after a wake-up.
    pub by_wakeup: u64,
    /// Times that the port went from sleeping to being polled.
    pub wakeups: u64,
    /// Chains of fewer than 10 frames that the switch took from the port at once.
    pub chains_under_10: u64,
    /// Chains of 10 to 50 frames that the switch took from the port at once.
    pub chains_10_to_50: u64,
    /// Chains of more than 50 frames that the switch took from the port at once.
    pub chains_over_50: u64,
    /// Frames dropped, by reason; none that never happened.
    pub drops: BTreeMap<String, u64>,
}

impl PortStats {
    /// Of a port: `from_outside` for a link's interface, else a VNIC.
    pub fn new(
        name: &str,
        link: &str,
        stats: &switch::counters::PortStats,
        from_outside: bool,
    ) -> PortStats {
        let into_switch = (stats.frames_in, stats.bytes_in);
        let out_of_switch = (stats.frames_out, stats.bytes_out);
        let (rx, tx) = if from_outside {
            (into_switch, out_of_switch)
        } else {
            (out_of_switch, into_switch)
        };
        PortStats {
            name: name.into(),
            link: link.into(),
            lane: None,
            rx_frames: rx.0,
            rx_bytes: rx.1,
            tx_frames: tx.0,
            tx_bytes: tx.1,
            by_poll: stats.by_poll,
            by_wakeup: stats.by_wakeup,
            wakeups: stats.wakeups,
            chains_under_10: stats.chains_under_10,
            chains_10_to_50: stats.chains_10_to_50,
            chains_over_50: stats.chains_over_50,
            drops: stats
                .drops()
                .map(|(reason, frames)| (reason.name().to_string(), frames))
                .collect(),
        }
    }

    /// All frames dropped.
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }
}

counters!(
    PortStats: rx_frames, rx_bytes, tx_frames, tx_bytes, by_poll = "polled_frames", by_wakeup = "woken_frames",
    wakeups,
    chains_under_10, chains_10_to_50, chains_over_50,
);

/// Counters of one lane of the switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LaneStats {
    /// Its number.
    pub lane: u32,
    /// CPU that it keeps to, if it does.
    pub cpu: Option<u32>,
    /// Queues that it serves.
    pub queues: u32,
    /// Frames that the lane picked up.
    pub frames: u64,
    /// Frames picked up while their queue was polled.
    pub by_poll: u64,
    /// Frames picked up first thing after a wake-up.
    pub by_wakeup: u64,
    /// Chains of fewer than 10 frames picked up at once.
    pub chains_under_10: u64,
    /// Chains of 10 to 50 frames picked up at once.
    pub chains_10_to_50: u64,
    /// Chains of more than 50 frames picked up at once.
    pub chains_over_50: u64,
    /// Times that the lane slept until something woke it.
    pub wakeups: u64,
    /// Frames that came from other lanes.
    pub handoffs: u64,
    /// Frames from other lanes whose port was gone or had moved meanwhile.
    pub handoff_drops: u64,
    /// Nanoseconds of rounds that moved frames.
    pub busy: u64,
    /// Nanoseconds of rounds that found none.
    pub idle: u64,
    /// Nanoseconds asleep.
    pub asleep: u64,
}

counters!(
    LaneStats: frames, by_poll = "polled_frames", by_wakeup = "woken_frames", chains_under_10, chains_10_to_50, chains_over_50,
    wakeups, handoffs = "handoff_frames", handoff_drops = "handoff_dropped_frames", busy, idle, asleep,
);

impl From<switch::lane::LaneStats> for LaneStats {
    fn from(stats: switch::lane::LaneStats) -> LaneStats {
        LaneStats {
            lane: stats.lane.into(),
            cpu: stats.cpu.and_then(|cpu| u32::try_from(cpu).ok()),
            queues: stats.queues,
            frames: stats.frames,
            by_poll: stats.by_poll,
            by_wakeup: stats.by_wakeup,
            chains_under_10: stats.chains_under_10,
            chains_10_to_50: stats.chains_10_to_50,
            chains_over_50: stats.chains_over_50,
            wakeups: stats.wakeups,
            handoffs: stats.handoffs,
            handoff_drops: stats.handoff_drops,
            busy: stats.busy,
            idle: stats.idle,
            asleep: stats.asleep,
        }
    }
}

/// All that is counted at one moment.
pub struct Scrape {
    /// The node itself.
    pub node: NodeStatus,
    /// All ports, with the guest that has each.
    pub ports: Vec<(PortStats, Option<String>)>,
    /// The same of each lane apart, where there are several.
    pub port_lanes: Vec<PortStats>,
    /// Lanes.
    pub lanes: Vec<LaneStats>,
    /// Flows.
    pub flows: Vec<FlowStats>,
    /// Guests.
    pub guests: Vec<Object<Guest>>,
    /// Network stack modules.
    pub nsms: Vec<Object<Nsm>>,
    /// Applications.
    pub applications: Vec<Object<Application>>,
}

/// What a counter counted since it stood at `then`. A switch that was restarted counts from 0.
pub(super) fn less(now: u64, then: u64) -> u64 {
    now.checked_sub(then).unwrap_or(now)
}
