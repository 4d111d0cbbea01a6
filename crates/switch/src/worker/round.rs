//! One round over the busy queues: in what order, and how much of each.
//!
//! As long as at most one queue has frames, they simply take turns. Where more have, the lane is
//! what is short, and is shared by weight in bytes among the queues of the highest level that has
//! frames ([`crate::qos::schedule`]).

use super::{QueueIndex, Worker, slot, slot_mut};
use crate::qos::schedule::{LEVELS, fast_forward};

impl Worker {
    /// Serves the queues in the round.
    #[inline]
    pub(super) fn go_round(&mut self) {
        if self.contended || self.leveled > 0 {
            return self.go_weighed_round();
        }
        let (mut i, mut moved) = (0, 0);
        while let Some(&queue) = self.active.get(i) {
            self.picked = 0;
            if self.serve(queue) {
                i += 1;
            } else {
                self.active.swap_remove(i);
            }
            moved += u32::from(self.picked > 0);
        }
        self.contended = moved > 1;
    }

    #[inline(never)]
    fn go_weighed_round(&mut self) {
        self.contended = false;
        for level in 0..LEVELS as u8 {
            let (moved, waiting) = self.go_round_level(level);
            self.contended |= moved > 1 || waiting > 0;
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

    /// Serves the queues of one level. Returns how many had frames, and how many must wait for
    /// credit.
    fn go_round_level(&mut self, level: u8) -> (u32, u32) {
        let (mut i, mut moved, mut waiting) = (0, 0, 0);
        while let Some(&place) = self.active.get(i) {
            let queue = slot_mut(&mut self.queues, place);
            let Some(queue) = queue.filter(|queue| queue.level == level) else {
                // A queue that is no more is found to be so by serving it.
                let is_gone = slot(&self.queues, place).is_none();
                if is_gone {
                    self.active.swap_remove(i);
                } else {
                    i += 1;
                }
                continue;
            };
            if !queue.credit.visit() {
                waiting += 1;
                i += 1;
                continue;
            }
            let (stays, had_frames) = self.serve_within_credit(place);
            moved += u32::from(had_frames);
            if stays {
                i += 1;
            } else {
                self.active.swap_remove(i);
            }
        }
        (moved, waiting)
    }

    /// Serves a queue as long as it has frames and credit. Returns whether it stays in the round,
    /// and whether it had any frames.
    fn serve_within_credit(&mut self, place: QueueIndex) -> (bool, bool) {
        let mut had_frames = false;
        loop {
            self.picked = 0;
            let stays = self.serve(place);
            let Some(queue) = slot_mut(&mut self.queues, place) else {
                return (false, had_frames);
            };
            if self.picked == 0 {
                queue.credit.lapse();
                return (stays, had_frames);
            }
            had_frames = true;
            queue.credit.spend(self.picked);
            if !stays || !queue.credit.is_left() {
                return (stays, had_frames);
            }
        }
    }
}
