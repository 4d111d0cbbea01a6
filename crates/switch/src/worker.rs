//! The worker: the loop of one lane.
//!
//! It visits the queues that have frames in turn. It takes a batch from a queue, asks the domain's
//! lookup function where each frame goes, gives each destination its frames, and gives the batch
//! back. When no queue has frames for a while, the worker sleeps. Its parts:
//!
//! - the [table](table) of ports, domains and queues;
//! - [polling]: which queues are polled, which sleep, which need a notification;
//! - the [polling round](round): the order in which queues are served;
//! - [forwarding]: the batch under way, where its frames go, and the other lanes;
//! - [connections]: ports whose TCP connections each go to a port of their own;
//! - [shaping]: limits, protection, delay and loss.
//!
//! A worker knows all ports and domains of the switch, and has lookup functions of its own; but it
//! serves only the queues that were given to it. Frames for a port that another lane sends for go
//! there by a [handoff ring](crate::handoff). Workers share nothing else.

#[cfg(test)]
pub(crate) mod alone;
mod arrival;
mod connections;
mod control;
mod delivery;
mod due;
mod forwarding;
mod frame;
mod polling;
#[cfg(test)]
mod ring_guest;
mod round;
mod serve;
mod settling;
mod shaping;
mod slots;
mod table;
mod wake_sets;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::counters::{LaneCounters, LaneStatus};
use crate::handoff::LaneWaker;
use crate::ids::LaneIndex;
use crate::lookup::Seconds;
use crate::memory::LanePorts;
use crate::qos::token_bucket::{Nanos, clock};

use forwarding::{BURSTS_PER_ROUND, Forwarding};
use polling::Polling;
use round::Round;
use shaping::Shaping;
use table::Table;
use wake_sets::{Token, WakeSet};

pub(crate) use arrival::rarp;
pub(crate) use forwarding::Handoff;
pub use forwarding::PATCHES_MAX;
pub(crate) use table::Passage;
pub(crate) use table::QueueSetup;
pub use table::{Egress, PortSetup};

/// The parts of a worker.
pub(crate) struct Parts {
    pub lane: LaneIndex,
    pub ports: LanePorts,
    pub counters: Arc<LaneCounters>,
    pub status: Arc<LaneStatus>,
    pub waker: Arc<LaneWaker>,
    pub handoff: Handoff,
}

/// The time, as of the beginning of the round.
struct Clock {
    started: Instant,
    now: Instant,
}

impl Clock {
    /// Seconds since the worker began.
    fn seconds(&self) -> Seconds {
        self.now.saturating_duration_since(self.started).as_secs() as Seconds
    }

    /// The time on the clock that all lanes share.
    fn nanos(&self) -> Nanos {
        clock(self.now)
    }
}

/// One lane's part of a switch.
pub struct Worker {
    table: Table,
    polling: Polling,
    round: Round,
    forwarding: Forwarding,
    shaping: Shaping,
    clock: Clock,
    counters: Arc<LaneCounters>,
    waker: Arc<LaneWaker>,
}

impl Worker {
    /// A worker without ports.
    pub(crate) fn new(parts: Parts) -> Result<Worker, Errno> {
        let now = Instant::now();
        let clock = Clock { started: now, now };
        Ok(Worker {
            table: Table::new(parts.lane, parts.ports),
            polling: Polling::new(&*parts.waker, parts.status, now)?,
            round: Round::new(),
            forwarding: Forwarding::new(parts.handoff, &clock),
            shaping: Shaping::default(),
            clock,
            counters: parts.counters,
            waker: parts.waker,
        })
    }

    /// Moves frames until the lane is woken, or has jobs.
    pub(crate) fn run(&mut self) -> Result<(), Errno> {
        // A job may have sent frames.
        self.forwarding.flush();
        loop {
            self.polling.next_round();
            let mut rests = self.polling.active.is_empty()
                && self.may_rest()
                && !self.shaping.is_due_soon(self.clock.nanos());
            if rests && self.polling.has_pending() {
                self.polling.notify(&mut self.table, &self.clock);
                rests = self.polling.active.is_empty();
            }
            let set = if rests {
                Some(WakeSet::All)
            } else {
                self.polling.due()
            };
            let woken = match set {
                Some(set) => self.look(set, rests)?,
                None => false,
            };
            if self.waker.take_jobs() || woken {
                self.polling.notify(&mut self.table, &self.clock);
                return Ok(());
            }
            self.tick();
            self.take_bursts();
            if self.shaping.is_due(self.clock.nanos()) {
                self.do_due();
            }
            self.go_round();
            self.forwarding.flush();
            // A lane that slept has no stream of frames for which a wake-up would be worth waiting.
            if rests || self.polling.is_time_to_notify() {
                self.polling.notify(&mut self.table, &self.clock);
            }
        }
    }

    /// Begins a round, and counts the one before.
    fn tick(&mut self) {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.clock.now);
        self.clock.now = now;
        let moved = self.polling.end_round(took);
        self.counters.round(took, moved);
    }

    /// Whether no frames have come from other lanes for long enough to sleep.
    fn may_rest(&self) -> bool {
        let forwarding = &self.forwarding;
        forwarding.other_lanes() == 0
            || (forwarding.is_idle() && forwarding.pace.may_sleep(self.clock.now))
    }

    /// Wakes the queues whose descriptors have events. If the lane `rests`, it sleeps until there is
    /// one. Returns whether the lane itself was woken.
    fn look(&mut self, set: WakeSet, rests: bool) -> Result<bool, Errno> {
        let mut wait = Some(Duration::ZERO);
        if rests {
            let due = self.shaping.until_due(self.clock.nanos());
            wait = match (self.polling.rest_max(), due) {
                (Some(wait), Some(due)) => Some(wait.min(due)),
                (wait, due) => wait.or(due),
            };
            self.waker.set_sleeps(true);
            if !self.forwarding.is_idle() {
                wait = Some(Duration::ZERO);
            }
            self.forwarding.pace.sleeps(self.clock.now);
        }
        let mut events = wake_sets::no_events();
        let told = self.polling.wait(set, wait, &mut events);
        if rests {
            self.waker.set_sleeps(false);
            let now = Instant::now();
            let slept = now.saturating_duration_since(self.clock.now);
            self.counters.slept(slept, wait.is_none());
            self.clock.now = now;
        }
        let told = match told {
            Ok(told) => told,
            Err(Errno::INTR) => return Ok(false),
            Err(error) => return Err(error),
        };
        self.polling.check_down(&mut self.table, &self.clock);
        let mut woken = false;
        for token in told {
            match token {
                Token::Queue(queue) => self.polling.wake(&mut self.table, &self.clock, queue),
                Token::Doorbell(doorbell) => {
                    self.polling
                        .wake_by_doorbell(&mut self.table, &self.clock, doorbell);
                }
                Token::Waker => {
                    self.forwarding.pace.wakes(self.clock.now);
                    woken = true;
                }
                Token::Guests => woken |= self.look(WakeSet::Guests, false)?,
            }
        }
        Ok(woken)
    }

    /// Takes the bursts from other lanes.
    fn take_bursts(&mut self) {
        for i in 0..self.forwarding.other_lanes() {
            for _ in 0..BURSTS_PER_ROUND {
                let Some((mut burst, from)) = self.forwarding.take_burst(i) else {
                    break;
                };
                for report in burst.reports.drain(..) {
                    self.table.hear(report, self.clock.seconds());
                }
                std::mem::swap(&mut self.forwarding.batch, &mut burst.batch);
                self.deliver_burst(&burst.targets, from);
                std::mem::swap(&mut self.forwarding.batch, &mut burst.batch);
                self.counters.handed_in(burst.targets.len());
                self.forwarding.give_back(i, burst);
                self.forwarding.pace.busy(self.clock.now);
                self.polling.moved = true;
            }
        }
    }
}
