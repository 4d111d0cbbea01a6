//! One polling round: the order in which busy queues are served, and the number of bytes taken from
//! each.
//!
//! As long as at most one queue has frames, queues are served in turn. If several have frames, the
//! lane is the bottleneck. It is shared in bytes, by weight, among the queues of the highest level
//! that has frames ([`crate::qos::deficit`]).
//!
//! Either way, a *newcomer* goes first: a queue that was empty before and has frames now, as far as
//! its deficit counter allows. Between two batches, and between two pieces of one that goes to a
//! guest, the other rings in the round are looked at: a batch of long frames may take 8 µs, a look
//! some nanoseconds. A newcomer interrupts the batch under way.

use std::time::Duration;

use super::table::{QueueEntry, Table};
use super::{Worker, polling};
use crate::counters::Reason;
use crate::ids::{PortIndex, QueueIndex};
use crate::port::{Batch, FRAME_WORK, Link, Portion};
use crate::qos::deficit::{LEVEL_DEFAULT, LEVELS, fast_forward};

/// Portion of a queue where other rings are in the round.
const BESIDE_OTHERS: Portion = Portion {
    bytes: 128 << 10,
    ..Portion::WHOLE
};
/// The same where one of them may be a newcomer: to take frames out of a ring, and to look up where
/// they go, is not interrupted.
const BESIDE_NEWCOMERS: Portion = Portion {
    frames: 32,
    ..BESIDE_OTHERS
};
/// Work after which newcomers are looked for, in bytes ([`FRAME_WORK`]): about a tenth of a
/// microsecond's.
const PIECE: usize = 2 << 10;
/// Work taken from a newcomer, in bytes: that is not interrupted.
const NEWCOMER_BYTES: u32 = 16 << 10;
/// How long a round may take before it is left for a job. A batch for all of a hundred TAP devices
/// takes 10 ms, and the control thread waits for the job.
const BEFORE_JOBS: Duration = Duration::from_millis(1);
/// Most queues that are looked at for newcomers; the others come at the next look.
const LOOKED_AT: usize = 16;

/// The order of the polling round, and the lane's position in it.
pub(super) struct Round {
    /// Position in the round of the queue that is served.
    at: usize,
    /// That queue, and its level.
    serving: QueueIndex,
    level: u8,
    /// Position of the queue that was looked at last.
    looked_at: usize,
    /// Work done since newcomers were looked for.
    work: usize,
    /// How many times a queue had frames in this round.
    served: u32,
    /// Bytes of the batch that was picked up last.
    pub picked: u64,
    /// How much is taken from a queue at a time.
    pub portion: Portion,
    /// Whether newcomers are looked for while a batch is delivered.
    pub lets_pass: bool,
    /// Whether several queues had frames in the last round.
    contended: bool,
    /// Queues that are not of the default level.
    leveled: u32,
    /// A batch for newcomers.
    newcomers: Box<Batch>,
}

impl Round {
    pub fn new() -> Round {
        Round {
            at: 0,
            serving: 0,
            level: 0,
            looked_at: 0,
            work: 0,
            served: 0,
            picked: 0,
            portion: Portion::WHOLE,
            lets_pass: false,
            contended: false,
            leveled: 0,
            newcomers: Box::new(Batch::new()),
        }
    }

    /// Counts a queue's change of level.
    pub fn change_level(&mut self, old: u8, new: u8) {
        self.leveled += u32::from(new != LEVEL_DEFAULT);
        self.leveled -= u32::from(old != LEVEL_DEFAULT);
    }

    /// Begins to serve a queue: says how much is taken from it at a time.
    #[inline]
    fn begin(&mut self, index: QueueIndex, active: &[QueueIndex], table: &Table) {
        self.serving = index;
        self.portion = if !self.lets_pass {
            Portion::WHOLE
        } else if self.may_have_newcomers(active, table) {
            BESIDE_NEWCOMERS
        } else {
            BESIDE_OTHERS
        };
    }

    /// Whether a queue may send before the one that is served.
    #[inline]
    fn may_precede(&self, index: QueueIndex, queue: &QueueEntry) -> bool {
        index != self.serving && queue.level <= self.level && queue.deficit.may_send()
    }

    /// Whether any queue would be a newcomer if it had frames.
    fn may_have_newcomers(&self, active: &[QueueIndex], table: &Table) -> bool {
        active.iter().take(LOOKED_AT).any(|&index| {
            let queue = table.queues.get(index);
            queue.is_some_and(|queue| self.may_precede(index, queue) && queue.link.is_in_memory())
        })
    }

    /// A newcomer, if there is one: a queue that has frames and may send, since it had nothing to
    /// send when the round came to it, or less than its share; other than the queue that is served,
    /// and of no lower level.
    fn newcomer(&mut self, active: &[QueueIndex], table: &mut Table) -> Option<QueueIndex> {
        for _ in 0..active.len().min(LOOKED_AT) {
            self.looked_at += 1;
            if self.looked_at >= active.len() {
                self.looked_at = 0;
            }
            let index = *active.get(self.looked_at)?;
            if let Some(queue) = table.queues.get_mut(index)
                && self.may_precede(index, queue)
                // Last, since the line that tells may be another processor's.
                && queue.link.has_frames()
            {
                return Some(index);
            }
        }
        None
    }
}

/// Whether several queues in the round are rings. Links that are asked by system calls are not
/// looked at while another queue is served.
#[inline]
fn has_rings(active: &[QueueIndex], table: &Table) -> bool {
    let is_ring = |&&index: &&QueueIndex| {
        let queue = table.queues.get(index);
        queue.is_some_and(|queue| queue.link.is_in_memory())
    };
    let mut rings = active.iter().take(LOOKED_AT).filter(is_ring);
    active.len() > 1 && rings.nth(1).is_some()
}

impl Worker {
    /// Serves the queues in the round.
    #[inline]
    pub(super) fn go_round(&mut self) {
        self.round.lets_pass = has_rings(&self.polling.active, &self.table);
        self.round.served = 0;
        self.round.work = 0;
        if self.round.contended || self.round.leveled > 0 {
            self.go_weighed_round();
        } else {
            self.go_plain_round();
        }
        self.round.lets_pass = false;
    }

    #[inline]
    fn go_plain_round(&mut self) {
        self.round.at = 0;
        self.round.level = LEVELS;
        while let Some(&index) = self.polling.active.get(self.round.at) {
            if self.is_called_away() {
                break;
            }
            self.round.picked = 0;
            self.round.begin(index, &self.polling.active, &self.table);
            let stays = self.serve(index);
            self.step(stays);
            self.round.served += u32::from(self.round.picked > 0);
        }
        self.round.contended = self.round.served > 1;
    }

    /// Goes on to the next queue of the round, from one that stays in it or not.
    #[inline]
    fn step(&mut self, stays: bool) {
        if stays {
            self.round.at += 1;
        } else {
            self.polling.active.swap_remove(self.round.at);
        }
    }

    /// Whether to leave the round because jobs wait. The next round begins where this one stopped.
    #[inline]
    fn is_called_away(&mut self) -> bool {
        let away = self.waker.has_jobs() && self.clock.now.elapsed() > BEFORE_JOBS;
        if away {
            self.polling.active.rotate_left(self.round.at);
        }
        away
    }

    #[inline(never)]
    fn go_weighed_round(&mut self) {
        self.round.contended = false;
        for level in 0..LEVELS {
            self.round.served = 0;
            let waiting = self.go_round_level(level);
            let served = self.round.served;
            self.round.contended |= served > 1 || waiting > 0;
            if self.waker.has_jobs() {
                return;
            }
            if waiting > 0 && served == 0 {
                let (active, queues) = (&self.polling.active, &mut self.table.queues);
                fast_forward(|each| {
                    for &index in active {
                        let queue = queues.get_mut(index);
                        if let Some(queue) = queue.filter(|queue| queue.level == level) {
                            each(&mut queue.deficit);
                        }
                    }
                });
            }
            // Levels are strict: the next one is served when this one has nothing.
            if served > 0 || waiting > 0 {
                return;
            }
        }
    }

    /// Serves the queues of one level. Returns how many must wait for their deficit counters.
    fn go_round_level(&mut self, level: u8) -> u32 {
        let mut waiting = 0;
        self.round.at = 0;
        self.round.level = level;
        while let Some(&index) = self.polling.active.get(self.round.at) {
            if self.is_called_away() {
                break;
            }
            let stays = match self.table.queues.get_mut(index) {
                None => false,
                Some(queue) if queue.level != level => true,
                Some(queue) => {
                    let may_send = queue.deficit.visit();
                    waiting += u32::from(!may_send);
                    !may_send || self.serve_visit(index)
                }
            };
            self.step(stays);
        }
        waiting
    }

    /// Serves a queue as long as it has frames and its deficit counter allows. Returns whether it
    /// stays in the round.
    fn serve_visit(&mut self, index: QueueIndex) -> bool {
        let mut had_frames = false;
        self.round.begin(index, &self.polling.active, &self.table);
        loop {
            let stays = self.serve_portion(index);
            let picked = self.round.picked;
            if picked > 0 {
                let is_first = !std::mem::replace(&mut had_frames, true);
                self.round.served += u32::from(is_first);
                if self.round.work >= PIECE {
                    self.serve_newcomers();
                }
            }
            let queue = self.table.queues.get(index);
            let may_send = queue.is_some_and(|queue| queue.deficit.may_send());
            if !stays || picked == 0 || !may_send {
                return stays;
            }
        }
    }

    /// Takes one portion of a queue's frames. Returns whether the queue stays in the round.
    fn serve_portion(&mut self, index: QueueIndex) -> bool {
        self.round.picked = 0;
        let stays = self.serve(index);
        let picked = self.round.picked;
        if picked > 0 {
            let frames = self.forwarding.batch.frames().len();
            self.round.work += picked as usize + frames * FRAME_WORK;
        }
        let Some(queue) = self.table.queues.get_mut(index) else {
            return false;
        };
        queue.deficit.spend(picked);
        stays
    }

    /// Serves newcomers, each as far as its deficit counter allows, and each but once or so: then
    /// the next in the round is served.
    fn serve_newcomers(&mut self) {
        // Their batches are not interrupted: else a queue might be served within its own batch.
        let lets_pass = std::mem::replace(&mut self.round.lets_pass, false);
        let portion = self.round.portion;
        self.round.work = 0;
        for _ in 0..self.polling.active.len().min(LOOKED_AT) {
            let active = &self.polling.active;
            let Some(index) = self.round.newcomer(active, &mut self.table) else {
                break;
            };
            self.serve_newcomer(index);
            if self.round.picked == 0 {
                // It is held back.
                break;
            }
        }
        self.round.work = 0;
        self.round.lets_pass = lets_pass;
        self.round.portion = portion;
    }

    fn serve_newcomer(&mut self, index: QueueIndex) {
        let queue = self.table.queues.get(index);
        let bytes = queue.map_or(0, |queue| queue.deficit.bytes_left());
        self.round.portion = Portion {
            bytes: bytes.min(NEWCOMER_BYTES.into()) as u32,
            ..BESIDE_NEWCOMERS
        };
        let stays = self.serve_portion(index);
        self.round.served += u32::from(self.round.picked > 0);
        if !stays {
            self.drop_out(index);
        }
    }

    /// Takes a queue out of the round that was served out of turn.
    #[cold]
    fn drop_out(&mut self, index: QueueIndex) {
        let active = &mut self.polling.active;
        if let Some(at) = active.iter().position(|&other| other == index) {
            active.remove(at);
            if at < self.round.at {
                self.round.at -= 1;
            }
        }
    }

    /// Sends a port frames of the batch piece by piece, and serves newcomers between two pieces.
    /// Nothing else of the batch is left to be sent.
    #[inline(never)]
    pub(super) fn send_in_pieces(&mut self, to: PortIndex, frames: &[u16], reserve: u32) {
        let is_one_piece = self.forwarding.batch.piece(frames, 0, PIECE) == frames.len();
        let lets_pass = !is_one_piece
            && self.can_interrupt()
            && self
                .round
                .may_have_newcomers(&self.polling.active, &self.table);
        let work = if lets_pass { PIECE } else { usize::MAX };
        let mut sent = 0;
        while sent < frames.len() {
            if lets_pass {
                self.let_newcomer_pass(to);
            }
            let counters = self.table.counters.port(to);
            let (ports, queues) = (&self.table.ports, &mut self.table.queues);
            let Some((index, link)) = polling::open_link(ports, queues, to) else {
                counters.dropped(Reason::Closed, (frames.len() - sent) as u64);
                return;
            };
            link.leave(reserve);
            let batch = &mut self.forwarding.batch;
            let outcome = link.send_some(batch, frames, &mut sent, work, counters);
            self.polling
                .after_send(&mut self.table, &self.clock, index, outcome);
        }
    }

    /// Whether the batch under way may be interrupted: its link allows that other queues, which may
    /// send to it, are served meanwhile.
    fn can_interrupt(&self) -> bool {
        let queue = self.table.queues.get(self.round.serving);
        queue.is_some_and(|queue| matches!(queue.link, Link::Guest(_)))
    }

    /// Interrupts the batch under way to a port for a newcomer, and others there may be, if there
    /// is one.
    fn let_newcomer_pass(&mut self, to: PortIndex) {
        let active = &self.polling.active;
        let Some(newcomer) = self.round.newcomer(active, &mut self.table) else {
            return;
        };
        let (ports, queues) = (&self.table.ports, &mut self.table.queues);
        if let Some((_, link)) = polling::open_link(ports, queues, to) {
            link.flush();
        }
        self.round.lets_pass = false;
        std::mem::swap(&mut self.forwarding.batch, &mut self.round.newcomers);
        let (source, picked) = (self.forwarding.source, self.round.picked);
        let reached = std::mem::take(&mut self.forwarding.reached);
        let portion = self.round.portion;
        let quantum = self.shaping.suspend_quantum();

        self.serve_newcomer(newcomer);
        self.serve_newcomers();

        self.shaping.resume_quantum(quantum);
        self.round.portion = portion;
        self.forwarding.reached = reached;
        (self.forwarding.source, self.round.picked) = (source, picked);
        std::mem::swap(&mut self.forwarding.batch, &mut self.round.newcomers);
        self.round.lets_pass = true;
    }
}

#[cfg(test)]
mod tests;
