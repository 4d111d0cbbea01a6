//! One round over the busy queues: in what order, and how much of each.
//!
//! As long as at most one queue has frames, they simply take turns. Where more have, the lane is
//! what is short, and is shared by weight in bytes among the queues of the highest level that has
//! frames ([`crate::qos::schedule`]).
//!
//! Either way, whoever had nothing before and has something now goes first, as far as its credit
//! goes. Between two batches, and between two pieces of one that goes to a guest, the other rings in
//! the round are looked at: a batch of long frames may take 8 µs, a look some nanoseconds. The
//! batch under way is laid aside meanwhile.

use std::time::Duration;

use super::{QueueIndex, Worker, slot, slot_mut};
use crate::counters::Reason;
use crate::lookup::PortIndex;
use crate::port::{FRAME_WORK, Link, Portion};
use crate::qos::schedule::{LEVELS, fast_forward};

/// What is taken from a queue at a time where other rings are in the round.
const BESIDE_OTHERS: Portion = Portion {
    bytes: 128 << 10,
    ..Portion::WHOLE
};
/// The same where one of them may go first: to take frames out of a ring, and to ask where they go,
/// is not interrupted.
const BESIDE_NEWCOMERS: Portion = Portion {
    frames: 32,
    ..BESIDE_OTHERS
};
/// Work after which others are looked at, in bytes ([`FRAME_WORK`]): about a tenth of a microsecond's.
const PIECE: usize = 2 << 10;
/// Work taken from one that goes first, in bytes: theirs is not interrupted.
const NEWCOMERS: u32 = 16 << 10;
/// How long a round may take before it is left for an order. A batch for all of a hundred TAP
/// devices takes 10 ms, and somebody waits for the order to be carried out.
const BEFORE_ORDERS: Duration = Duration::from_millis(1);
/// Most queues that are looked at then: the others' turn comes at the next look.
const LOOKED_AT: usize = 16;

/// Where the lane stands in its round.
#[derive(Default)]
pub(super) struct Round {
    /// Place in the round of the queue whose turn it is.
    at: usize,
    /// That queue, and its level.
    turn: QueueIndex,
    level: u8,
    /// Place in the round of the one that was looked at last.
    looked: usize,
    /// Work done since others were looked at.
    work: usize,
    /// How many times a queue had frames in this round.
    moved: u32,
}

impl Worker {
    /// Serves the queues in the round.
    #[inline]
    pub(super) fn go_round(&mut self) {
        let several = self.has_rings();
        self.watched = several;
        self.order.moved = 0;
        self.order.work = 0;
        if self.contended || self.leveled > 0 {
            self.go_weighed_round();
        } else {
            self.go_plain_round();
        }
        self.watched = false;
    }

    #[inline]
    fn go_plain_round(&mut self) {
        self.order.at = 0;
        self.order.level = LEVELS as u8;
        while let Some(&queue) = self.active.get(self.order.at) {
            if self.is_called_away() {
                break;
            }
            self.picked = 0;
            self.begin_turn(queue);
            if self.serve(queue) {
                self.order.at += 1;
            } else {
                self.active.swap_remove(self.order.at);
            }
            self.order.moved += u32::from(self.picked > 0);
        }
        self.contended = self.order.moved > 1;
    }

    /// Whether the round is to be left since there are orders. The next one begins where it was.
    #[inline]
    fn is_called_away(&mut self) -> bool {
        let away = self.bell.has_orders() && self.now.elapsed() > BEFORE_ORDERS;
        if away {
            self.active.rotate_left(self.order.at);
        }
        away
    }

    /// Begins a queue's turn: says how much is taken from it at a time.
    #[inline]
    fn begin_turn(&mut self, place: QueueIndex) {
        self.order.turn = place;
        self.portion = match self.watched {
            true if self.may_be_newcomers() => BESIDE_NEWCOMERS,
            true => BESIDE_OTHERS,
            false => Portion::WHOLE,
        };
    }

    /// Whether there are others to be looked at while one is served. Those that have to be asked by
    /// system calls are not.
    #[inline]
    fn has_rings(&self) -> bool {
        let is_ring = |&&place: &&QueueIndex| {
            slot(&self.queues, place).is_some_and(|queue| queue.link.is_in_memory())
        };
        let mut rings = self.active.iter().take(LOOKED_AT).filter(is_ring);
        self.active.len() > 1 && rings.nth(1).is_some()
    }

    #[inline(never)]
    fn go_weighed_round(&mut self) {
        self.contended = false;
        for level in 0..LEVELS as u8 {
            self.order.moved = 0;
            let waiting = self.go_round_level(level);
            let moved = self.order.moved;
            self.contended |= moved > 1 || waiting > 0;
            if self.bell.has_orders() {
                return;
            }
            if waiting > 0 && moved == 0 {
                let (active, queues) = (&self.active, &mut self.queues);
                fast_forward(|each| {
                    for &place in active {
                        if let Some(queue) = slot_mut(queues, place)
                            && queue.level == level
                        {
                            each(&mut queue.credit);
                        }
                    }
                });
            }
            // Levels are strict: the next one has its turn when this one has nothing.
            if moved > 0 || waiting > 0 {
                return;
            }
        }
    }

    /// Serves the queues of one level. Returns how many must wait for credit.
    fn go_round_level(&mut self, level: u8) -> u32 {
        let mut waiting = 0;
        self.order.at = 0;
        self.order.level = level;
        while let Some(&place) = self.active.get(self.order.at) {
            if self.is_called_away() {
                break;
            }
            let queue = slot_mut(&mut self.queues, place);
            let Some(queue) = queue.filter(|queue| queue.level == level) else {
                // A queue that is no more is found to be so by serving it.
                let is_gone = slot(&self.queues, place).is_none();
                if is_gone {
                    self.active.swap_remove(self.order.at);
                } else {
                    self.order.at += 1;
                }
                continue;
            };
            if !queue.credit.visit() {
                waiting += 1;
                self.order.at += 1;
                continue;
            }
            self.begin_turn(place);
            if self.serve_within_credit(place) {
                self.order.at += 1;
            } else {
                self.active.swap_remove(self.order.at);
            }
        }
        waiting
    }

    /// Serves a queue as long as it has frames and credit. Returns whether it stays in the round.
    fn serve_within_credit(&mut self, place: QueueIndex) -> bool {
        let mut had_frames = false;
        loop {
            let stays = self.serve_on_credit(place);
            let picked = self.picked;
            if picked > 0 {
                self.order.moved += u32::from(!std::mem::replace(&mut had_frames, true));
                if self.order.work >= PIECE {
                    self.serve_newcomers();
                }
            }
            let queue = slot(&self.queues, place);
            let has_credit = queue.is_some_and(|queue| queue.credit.is_left());
            if !stays || picked == 0 || !has_credit {
                return stays;
            }
        }
    }

    /// Takes one portion of a queue's frames. Returns whether the queue stays in the round.
    fn serve_on_credit(&mut self, place: QueueIndex) -> bool {
        self.picked = 0;
        let stays = self.serve(place);
        if self.picked > 0 {
            let frames = self.batch.frames().len();
            self.order.work += self.picked as usize + frames * FRAME_WORK;
        }
        let Some(queue) = slot_mut(&mut self.queues, place) else {
            return false;
        };
        queue.credit.spend(self.picked);
        stays
    }

    /// Whether there is anyone who would be a newcomer if it had frames.
    fn may_be_newcomers(&self) -> bool {
        self.active.iter().take(LOOKED_AT).any(|&place| {
            let queue = slot(&self.queues, place);
            place != self.order.turn
                && queue.is_some_and(|queue| {
                    queue.level <= self.order.level
                        && queue.credit.is_left()
                        && queue.link.is_in_memory()
                })
        })
    }

    /// A newcomer, if there is one: a queue that has frames and credit left, since it had nothing to
    /// send when its turn came, or less than its share; other than the one whose turn it is, and of
    /// no lower level.
    fn newcomer(&mut self) -> Option<QueueIndex> {
        let active = self.active.len();
        for _ in 0..active.min(LOOKED_AT) {
            self.order.looked += 1;
            if self.order.looked >= active {
                self.order.looked = 0;
            }
            let place = *self.active.get(self.order.looked)?;
            if place != self.order.turn
                && let Some(queue) = slot_mut(&mut self.queues, place)
                && queue.level <= self.order.level
                && queue.credit.is_left()
                // Last, since the line that tells may be another processor's.
                && queue.link.has_frames()
            {
                return Some(place);
            }
        }
        None
    }

    /// Serves newcomers, each as far as its credit goes, and each but once or so: then it is the
    /// turn of the next in the round.
    fn serve_newcomers(&mut self) {
        // Theirs are dealt with as a whole: else one of them might come to be served twice at once.
        let watched = std::mem::replace(&mut self.watched, false);
        let portion = self.portion;
        self.order.work = 0;
        for _ in 0..self.active.len().min(LOOKED_AT) {
            let Some(place) = self.newcomer() else {
                break;
            };
            self.serve_newcomer(place);
            if self.picked == 0 {
                // It is held back.
                break;
            }
        }
        self.order.work = 0;
        self.watched = watched;
        self.portion = portion;
    }

    fn serve_newcomer(&mut self, place: QueueIndex) {
        let credit = slot(&self.queues, place).map_or(0, |queue| queue.credit.left());
        self.portion = Portion {
            bytes: credit.min(NEWCOMERS.into()) as u32,
            ..BESIDE_NEWCOMERS
        };
        let stays = self.serve_on_credit(place);
        self.order.moved += u32::from(self.picked > 0);
        if !stays {
            self.drop_out(place);
        }
    }

    /// Takes a queue out of the round, out of turn.
    #[cold]
    fn drop_out(&mut self, place: QueueIndex) {
        if let Some(at) = self.active.iter().position(|&other| other == place) {
            self.active.remove(at);
            if at < self.order.at {
                self.order.at -= 1;
            }
        }
    }

    /// Sends a port its share of the batch, piece by piece, and serves newcomers between two of
    /// them. Nothing else of the batch is left to be sent.
    #[inline(never)]
    pub(super) fn send_watching(&mut self, place: PortIndex) {
        let Some(port) = slot_mut(&mut self.ports, place.into()) else {
            return;
        };
        let mut which = std::mem::take(&mut port.queue);
        let sends = port.sends;
        let leaves = self.leaves(place, which.len());
        let is_one_piece = self.batch.piece(&which, 0, PIECE) == which.len();
        let watches = !is_one_piece && self.can_lay_aside() && self.may_be_newcomers();
        let work = if watches { PIECE } else { usize::MAX };
        let mut from = 0;
        while from < which.len() {
            if watches && let Some(newcomer) = self.newcomer() {
                if let Some(queue) = sends.and_then(|queue| slot_mut(&mut self.queues, queue)) {
                    queue.link.flush();
                }
                self.let_pass(newcomer);
            }
            let counters = self.counters.port(place);
            let closed = slot(&self.ports, place.into()).is_none_or(|port| port.closed);
            let queue = sends.and_then(|queue| Some((queue, slot_mut(&mut self.queues, queue)?)));
            let Some((index, queue)) = queue.filter(|_| !closed) else {
                counters.dropped(Reason::Closed, (which.len() - from) as u64);
                break;
            };
            let link = &mut queue.link;
            link.leave(leaves);
            let outcome = link.send_some(&mut self.batch, &which, &mut from, work, counters);
            if outcome.owes {
                self.owe(index);
            }
            if self.settle(index, outcome) && outcome.busy {
                self.wake(index);
            }
        }
        which.clear();
        if let Some(port) = slot_mut(&mut self.ports, place.into()) {
            port.queue = which;
        }
    }

    /// Whether the link whose batch is under way does not mind others' being dealt with meanwhile,
    /// some of which may go to it.
    fn can_lay_aside(&self) -> bool {
        let queue = slot(&self.queues, self.order.turn);
        queue.is_some_and(|queue| matches!(queue.link, Link::Guest(_)))
    }

    /// Lays the batch that is under way aside and serves a newcomer, and others there may be.
    #[inline(never)]
    fn let_pass(&mut self, newcomer: QueueIndex) {
        self.watched = false;
        std::mem::swap(&mut self.batch, &mut self.aside);
        let (source, picked) = (self.source, self.picked);
        let crossed = std::mem::take(&mut self.crossed);
        let portion = self.portion;
        let grant = self.shaping.lay_aside();

        self.serve_newcomer(newcomer);
        self.serve_newcomers();

        self.shaping.go_on(grant);
        self.portion = portion;
        self.crossed = crossed;
        (self.source, self.picked) = (source, picked);
        std::mem::swap(&mut self.batch, &mut self.aside);
        self.watched = true;
    }
}

#[cfg(test)]
mod tests;
