//! Which queues are polled, which sleep, and which need a notification.
//!
//! A queue that was quiet for a while sleeps and leaves the polling round; its descriptor (a guest's
//! doorbell, the TAP, the socket) brings it back. A link's other side is notified of deliveries for
//! several batches together.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use rustix::event::Timespec;
use rustix::io::Errno;

use super::Clock;
use super::connections::{Connections, Way};
use super::slots::Slots;
use super::table::{PortEntry, QueueEntry, QueueState, Table};
use super::wake_sets::{self, Token, WakeSet, WakeSets};
use crate::counters::{LaneStatus, Reason};
use crate::doorbell::Doorbell;
use crate::ids::{PortIndex, QueueIndex};
use crate::port::{Batch, Link, Outcome, VIOLATIONS_MAX};

/// How often interfaces that are down are asked whether they still exist.
const DOWN_CHECK: Duration = Duration::from_millis(200);
/// Rounds after which pending wake-ups are done, at the latest.
const ROUNDS_PER_NOTIFY: u32 = 4;
/// Rounds without frames after which the lane yields its processor for a moment: a guest that it
/// waits for may have no other.
const ROUNDS_ALONE: u32 = 16;

/// The polled queues of a lane, and what wakes the others.
pub(super) struct Polling {
    /// The queues in the polling round.
    pub active: Vec<QueueIndex>,
    sets: WakeSets,
    /// The queues that each doorbell wakes, by its number.
    doorbells: HashMap<u32, Vec<QueueIndex>>,
    /// Queues whose interfaces were down when they went to sleep.
    down: Vec<QueueIndex>,
    down_checked: Instant,
    /// Pending wake-ups: queues whose other side may not have noticed delivered frames.
    pending: Vec<QueueIndex>,
    /// The round in which the first of these was added.
    pending_since: u32,
    round: u32,
    /// Whether this round has moved frames.
    pub moved: bool,
    /// Whether it left a queue alone because a ring ahead of it was full.
    held_back: bool,
    /// Rounds in a row that moved none.
    still: u32,
    status: Arc<LaneStatus>,
}

impl Polling {
    /// Without queues; `waker` wakes the lane.
    pub fn new(waker: impl AsFd, status: Arc<LaneStatus>, now: Instant) -> Result<Polling, Errno> {
        Ok(Polling {
            active: Vec::new(),
            sets: WakeSets::new(waker)?,
            doorbells: HashMap::new(),
            down: Vec::new(),
            down_checked: now,
            pending: Vec::new(),
            pending_since: 0,
            round: 0,
            moved: false,
            held_back: false,
            still: 0,
            status,
        })
    }

    /// Begins another round.
    pub fn next_round(&mut self) {
        self.round = self.round.wrapping_add(1);
    }

    /// Ends the round before, which took so long. Returns whether it moved frames.
    pub fn end_round(&mut self, took: Duration) -> bool {
        let moved = std::mem::take(&mut self.moved);
        let held_back = std::mem::take(&mut self.held_back);
        self.still = if moved {
            0
        } else {
            self.still.saturating_add(1)
        };
        if !moved && (held_back || self.still > ROUNDS_ALONE) {
            // The receiver that does not keep up, or the sender of the next frames, may be waiting
            // for this CPU.
            std::thread::yield_now();
        }
        self.sets.tick(took);
        moved
    }

    /// Notes that a queue was left alone because a ring ahead of it is full.
    pub fn hold_back(&mut self) {
        self.held_back = true;
    }

    /// The set of descriptors that it is time for a busy lane to look into.
    #[inline]
    pub fn due(&self) -> Option<WakeSet> {
        self.sets.due()
    }

    /// How long a sleeping lane may sleep, as far as interfaces go that are down.
    pub fn rest_max(&self) -> Option<Duration> {
        (!self.down.is_empty()).then_some(DOWN_CHECK)
    }

    /// The descriptors of a set that have events. Waits for one, `wait` at most or for ever.
    pub fn wait<'events>(
        &mut self,
        set: WakeSet,
        wait: Option<Duration>,
        events: &'events mut wake_sets::Events,
    ) -> Result<impl Iterator<Item = Token> + use<'events>, Errno> {
        let timeout = wait.map(|wait| Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: wait.subsec_nanos().into(),
        });
        self.sets.wait(set, timeout.as_ref(), events)
    }

    /// Brings a sleeping queue back into the polling round.
    pub fn wake(&mut self, table: &mut Table, clock: &Clock, index: QueueIndex) {
        let Some(queue) = table.queues.get_mut(index) else {
            return;
        };
        if queue.state == QueueState::Asleep {
            queue.link.wake();
            queue.pace.wakes(clock.now);
            queue.state = QueueState::Polled { woken: true };
            table.counters.port(queue.port).woke();
            self.active.push(index);
        } else {
            queue.link.notice();
        }
    }

    /// Brings the queues of a doorbell back into the polling round that have frames. Others sleep on.
    pub fn wake_by_doorbell(&mut self, table: &mut Table, clock: &Clock, doorbell: u32) {
        let Some(queues) = self.doorbells.get_mut(&doorbell) else {
            return;
        };
        let queues = std::mem::take(queues);
        for &index in &queues {
            let queue = table.queues.get_mut(index);
            if queue.is_some_and(|it| it.state == QueueState::Asleep && !it.link.sleep()) {
                self.wake(table, clock, index);
            }
        }
        if let Some(list) = self.doorbells.get_mut(&doorbell) {
            *list = queues;
        }
    }

    /// Brings a queue back into the polling round that had to wait.
    pub fn resume(&mut self, table: &mut Table, index: QueueIndex) {
        if let Some(queue) = table.queues.get_mut(index)
            && queue.state == QueueState::Held
        {
            queue.state = QueueState::Polled { woken: false };
            self.active.push(index);
        }
    }

    /// Puts a queue without frames to sleep if it was quiet for long enough. Returns whether it
    /// stays in the round.
    pub fn rest(&mut self, table: &mut Table, clock: &Clock, index: QueueIndex) -> bool {
        let moves = self.moved || self.still == 0;
        let Some(queue) = table.queues.get_mut(index) else {
            return false;
        };
        // A look that is a system call costs too much to be taken often.
        let at_work = moves && queue.link.is_in_memory();
        if !queue.pace.finds_nothing(clock.now, at_work) {
            std::hint::spin_loop();
            return true;
        }
        if !queue.link.sleep() {
            queue.link.wake();
            return true;
        }
        queue.link.catch_up(table.counters.port(queue.port));
        if queue.link.is_down() && !self.down.contains(&index) {
            self.down.push(index);
        }
        queue.pace.sleeps(clock.now);
        queue.state = QueueState::Asleep;
        false
    }

    /// Closes the queues of interfaces that were down and are gone by now.
    pub fn check_down(&mut self, table: &mut Table, clock: &Clock) {
        let since = clock.now.saturating_duration_since(self.down_checked);
        if self.down.is_empty() || since < DOWN_CHECK {
            return;
        }
        self.down_checked = clock.now;
        for i in (0..self.down.len()).rev() {
            let index = self.down[i];
            let link = table.queues.get(index).map(|queue| &queue.link);
            if link.is_some_and(Link::is_gone) {
                self.settle(table, index, Outcome::GONE);
                self.down.swap_remove(i);
            } else if !link.is_some_and(Link::is_down) {
                self.down.swap_remove(i);
            }
        }
    }

    /// Sends frames `which` of a batch by a port's queue of this lane, leaving `reserve` slots of
    /// its ring free; or by those of the ports behind it. Frames for a closed port are dropped.
    #[inline]
    pub fn send(
        &mut self,
        table: &mut Table,
        clock: &Clock,
        batch: &mut Batch,
        to: PortIndex,
        which: &[u16],
        reserve: u32,
    ) {
        let port = table.ports.get_mut(to);
        match port.and_then(|port| port.connections.take()) {
            None => self.send_by(table, clock, batch, to, which, reserve),
            Some(mut connections) => {
                self.send_behind(&mut connections, table, clock, batch, to, which);
                if let Some(port) = table.ports.get_mut(to) {
                    port.connections = Some(connections);
                }
            }
        }
    }

    /// Sends frames to a port, or to those behind it.
    fn send_behind(
        &mut self,
        connections: &mut Connections,
        table: &mut Table,
        clock: &Clock,
        batch: &mut Batch,
        to: PortIndex,
        which: &[u16],
    ) {
        let now = clock.nanos();
        let mac = table.ports.get(to).and_then(|port| port.mac);
        for i in which.chunks(1) {
            let Some(frame) = i.first().and_then(|&i| batch.frames().get(usize::from(i))) else {
                continue;
            };
            match connections.way(frame, mac, now) {
                Way::Front => self.send_by(table, clock, batch, to, i, 0),
                Way::Behind(port) => self.send_by(table, clock, batch, port, i, 0),
                Way::Several => {
                    for &port in connections.takers() {
                        self.send_by(table, clock, batch, port, i, 0);
                    }
                    self.send_by(table, clock, batch, to, i, 0);
                }
                Way::Nowhere(reason) => table.counters.port(to).dropped(reason, 1),
            }
        }
    }

    /// Sends frames by a port's queue of this lane.
    #[inline]
    fn send_by(
        &mut self,
        table: &mut Table,
        clock: &Clock,
        batch: &mut Batch,
        to: PortIndex,
        which: &[u16],
        reserve: u32,
    ) {
        let counters = table.counters.port(to);
        let Some((index, link)) = open_link(&table.ports, &mut table.queues, to) else {
            return counters.dropped(Reason::Closed, which.len() as u64);
        };
        link.leave(reserve);
        let outcome = link.send(batch, which, counters);
        self.after_send(table, clock, index, outcome);
    }

    /// Does what a delivery leaves to do on the queue by which it went.
    #[inline]
    pub fn after_send(
        &mut self,
        table: &mut Table,
        clock: &Clock,
        index: QueueIndex,
        outcome: Outcome,
    ) {
        if outcome.notify {
            self.notify_later(table, index);
        }
        if self.settle(table, index, outcome) && outcome.busy {
            self.wake(table, clock, index);
        }
    }

    /// Adds a queue to the pending wake-ups.
    #[inline]
    fn notify_later(&mut self, table: &mut Table, index: QueueIndex) {
        let queue = table.queues.get_mut(index);
        if queue.is_some_and(|queue| !std::mem::replace(&mut queue.notify, true)) {
            if self.pending.is_empty() {
                self.pending_since = self.round;
            }
            self.pending.push(index);
        }
    }

    /// Whether there are pending wake-ups.
    #[inline]
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether pending wake-ups are due. While frames come, they wait for several batches: a
    /// sleeping guest is woken less often, and an awake guest's word is read less often.
    #[inline]
    pub fn is_time_to_notify(&self) -> bool {
        let waited = self.round.wrapping_sub(self.pending_since);
        self.has_pending() && (!self.moved || waited >= ROUNDS_PER_NOTIFY)
    }

    /// Does the pending wake-ups.
    pub fn notify(&mut self, table: &mut Table, clock: &Clock) {
        while let Some(index) = self.pending.pop() {
            if let Some(queue) = table.queues.get_mut(index) {
                queue.notify = false;
                let outcome = queue.link.notify(table.counters.port(queue.port));
                if self.settle(table, index, outcome) && outcome.busy {
                    self.wake(table, clock, index);
                }
            }
        }
    }

    /// Closes a port whose link is gone or whose guest has violated the ring's rules too often.
    /// Returns whether it is open.
    #[inline]
    pub fn settle(&mut self, table: &mut Table, index: QueueIndex, outcome: Outcome) -> bool {
        (outcome.violations == 0 && !outcome.gone) || self.blame(table, index, outcome)
    }

    #[cold]
    fn blame(&mut self, table: &mut Table, index: QueueIndex, outcome: Outcome) -> bool {
        let Some(queue) = table.queues.get_mut(index) else {
            return false;
        };
        let Some(port) = table.ports.get_mut(queue.port) else {
            return false;
        };
        port.violations = port.violations.saturating_add(outcome.violations);
        if !outcome.gone && port.violations < VIOLATIONS_MAX {
            return true;
        }
        queue.state = QueueState::Closed;
        // A link that is gone would report that for ever.
        self.sets.remove_link(&queue.link);
        queue.link.close();
        let port = queue.port;
        self.status.set_closed(port, true);
        table.close_port(port);
        false
    }

    /// Watches the descriptors of a queue that is about to be added, all or none.
    pub fn watch(
        &mut self,
        index: QueueIndex,
        link: &Link,
        doorbell: Option<&Arc<Doorbell>>,
    ) -> Result<(), Errno> {
        let watched = self
            .sets
            .add_link(index, link)
            .and_then(|()| match doorbell {
                Some(doorbell) => self.watch_doorbell(index, doorbell),
                None => Ok(()),
            });
        if watched.is_err() {
            self.sets.remove_link(link);
        }
        watched
    }

    fn watch_doorbell(&mut self, index: QueueIndex, doorbell: &Doorbell) -> Result<(), Errno> {
        if let Some(queues) = self.doorbells.get_mut(&doorbell.number) {
            queues.push(index);
            return Ok(());
        }
        self.sets.add_doorbell(doorbell)?;
        self.doorbells.insert(doorbell.number, vec![index]);
        Ok(())
    }

    /// Takes in a queue that was added in one of so many slots.
    pub fn add(&mut self, index: QueueIndex, polled: bool, slots: usize) {
        if polled {
            self.active.push(index);
        }
        // So that no list grows while frames flow.
        for list in [&mut self.active, &mut self.down, &mut self.pending] {
            list.reserve(slots - list.len().min(slots));
        }
    }

    /// Stops polling and watching a queue that was taken out. Returns its doorbell.
    pub fn remove(&mut self, index: QueueIndex, queue: &mut QueueEntry) -> Option<Arc<Doorbell>> {
        match queue.state {
            QueueState::Polled { .. } => self.active.retain(|&active| active != index),
            QueueState::Asleep => queue.link.wake(),
            QueueState::Held | QueueState::SendsOnly | QueueState::Closed => {}
        }
        self.down.retain(|&down| down != index);
        self.pending.retain(|&pending| pending != index);
        self.sets.remove_link(&queue.link);
        let doorbell = queue.doorbell.take()?;
        let queues = self.doorbells.get_mut(&doorbell.number)?;
        queues.retain(|&other| other != index);
        if queues.is_empty() {
            // Closing the doorbell here would not do: the guest's VMM holds it, too.
            self.sets.remove_doorbell(&doorbell);
            self.doorbells.remove(&doorbell.number);
        }
        Some(doorbell)
    }
}

/// The queue of this lane by which frames leave a port, and its link; `None` if it is closed.
#[inline]
pub(super) fn open_link<'queues>(
    ports: &Slots<PortEntry>,
    queues: &'queues mut Slots<QueueEntry>,
    port: PortIndex,
) -> Option<(QueueIndex, &'queues mut Link)> {
    let port = ports.get(port)?;
    let index = port.sends_by.filter(|_| !port.closed)?;
    let queue = queues.get_mut(index)?;
    (queue.state != QueueState::Closed).then_some((index, &mut queue.link))
}
