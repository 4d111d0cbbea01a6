//! Lane statistics and lane status.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{add, chain_class};
use crate::ids::{LaneIndex, PORTS_MAX, PortIndex};

/// Which ports are closed: written by the lanes, read by the control thread.
pub(crate) struct LaneStatus {
    closed: Box<[AtomicBool]>,
}

impl LaneStatus {
    pub fn new() -> LaneStatus {
        LaneStatus {
            closed: (0..PORTS_MAX).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Says whether a port is closed.
    pub fn set_closed(&self, port: PortIndex, closed: bool) {
        if let Some(state) = self.closed.get(usize::from(port)) {
            state.store(closed, Ordering::Relaxed);
        }
    }

    /// Whether a port is closed.
    pub fn is_closed(&self, port: PortIndex) -> bool {
        let state = self.closed.get(usize::from(port));
        state.is_some_and(|state| state.load(Ordering::Relaxed))
    }
}

/// A reading of a lane's counters, since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneStats {
    /// The lane's index.
    pub lane: LaneIndex,
    /// The CPU that it runs on, if it is bound to one.
    pub cpu: Option<usize>,
    /// Queues that it serves.
    pub queues: u32,
    /// Frames that it picked up.
    pub frames: u64,
    /// Of these, frames picked up while their queue was polled.
    pub by_poll: u64,
    /// Of these, frames picked up first thing after a wake-up.
    pub by_wakeup: u64,
    /// Chains of fewer than 10 frames picked up at once.
    pub chains_under_10: u64,
    /// Chains of 10 to 50 frames.
    pub chains_10_to_50: u64,
    /// Chains of more than 50 frames.
    pub chains_over_50: u64,
    /// Polling rounds over the busy queues.
    pub polls: u64,
    /// Times that it slept until something woke it.
    pub wakeups: u64,
    /// Frames that came from other lanes.
    pub handoffs: u64,
    /// Frames from other lanes whose port was gone or had moved meanwhile.
    pub handoff_drops: u64,
    /// Times that a queue was left alone because a handoff ring was full.
    pub held_back: u64,
    /// Nanoseconds of polling rounds that moved frames.
    pub busy: u64,
    /// Nanoseconds of polling rounds that found none.
    pub idle: u64,
    /// Nanoseconds asleep.
    pub asleep: u64,
}

/// The counters of a lane. The lane is their only writer.
#[derive(Default)]
pub(crate) struct LaneCounters {
    by_poll: AtomicU64,
    by_wakeup: AtomicU64,
    chains: [AtomicU64; 3],
    polls: AtomicU64,
    wakeups: AtomicU64,
    handed_in: AtomicU64,
    handed_in_drops: AtomicU64,
    held_back: AtomicU64,
    busy: AtomicU64,
    idle: AtomicU64,
    asleep: AtomicU64,
}

impl LaneCounters {
    /// Counts a polling round that took `time` and moved frames or not.
    #[inline]
    pub fn round(&self, time: Duration, moved: bool) {
        add(&self.polls, 1);
        let nanoseconds = u64::from(time.subsec_nanos()) + time.as_secs() * 1_000_000_000;
        add(if moved { &self.busy } else { &self.idle }, nanoseconds);
    }

    /// Counts time asleep, and a wake-up if the lane slept without a timeout.
    pub fn slept(&self, time: Duration, woken: bool) {
        add(&self.asleep, time.as_nanos() as u64);
        add(&self.wakeups, woken.into());
    }

    /// Counts frames picked up from a queue at once.
    #[inline]
    pub fn chain(&self, frames: usize, by_wakeup: bool) {
        let by = if by_wakeup {
            &self.by_wakeup
        } else {
            &self.by_poll
        };
        add(by, frames as u64);
        add(&self.chains[chain_class(frames as u64)], 1);
    }

    /// Counts a queue that was left alone because a ring ahead of it is full.
    pub fn held_back(&self) {
        add(&self.held_back, 1);
    }

    /// Counts frames that came from another lane.
    pub fn handed_in(&self, frames: usize) {
        add(&self.handed_in, frames as u64);
    }

    /// Counts frames from another lane that had nowhere to go.
    pub fn handed_in_dropped(&self, frames: usize) {
        add(&self.handed_in_drops, frames as u64);
    }

    /// Nanoseconds of polling rounds that moved frames.
    pub fn busy(&self) -> u64 {
        self.busy.load(Ordering::Relaxed)
    }

    /// The counters now, of the lane with this index, on this CPU and with so many queues.
    pub fn read(&self, lane: LaneIndex, cpu: Option<usize>, queues: u32) -> LaneStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (by_poll, by_wakeup) = (get(&self.by_poll), get(&self.by_wakeup));
        LaneStats {
            lane,
            cpu,
            queues,
            frames: by_poll + by_wakeup,
            by_poll,
            by_wakeup,
            chains_under_10: get(&self.chains[0]),
            chains_10_to_50: get(&self.chains[1]),
            chains_over_50: get(&self.chains[2]),
            polls: get(&self.polls),
            wakeups: get(&self.wakeups),
            handoffs: get(&self.handed_in),
            handoff_drops: get(&self.handed_in_drops),
            held_back: get(&self.held_back),
            busy: get(&self.busy),
            idle: get(&self.idle),
            asleep: get(&self.asleep),
        }
    }
}
