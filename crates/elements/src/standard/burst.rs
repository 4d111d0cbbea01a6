//! Pulling in bursts: what tasks that pull share.

use crate::prelude::*;

/// A burst of packets that a task pulls from input 0, a batch at a time.
#[derive(Default)]
pub struct Burst {
    /// Packets left of it; 0 between bursts.
    left: u64,
    /// Packets asked for last.
    asked: u16,
    /// Whether the burst that was asked for begins only now: until its packets come, its size may change.
    begins: bool,
}

impl Burst {
    /// Asks for the next batch. `size` is how many packets the burst may have, if it begins or if it
    /// was to have more.
    #[inline]
    pub fn pull(&mut self, cx: &Cx<'_>, size: u64) -> Ran {
        self.left = match self.left {
            left if left == 0 || self.begins => size,
            left => left.min(size),
        };
        self.begins = false;
        self.asked = self.left.min(cx.limit() as u64) as u16;
        match self.asked {
            0 => Ran::Nothing,
            most => Ran::Pull(Pull { port: 0, most }),
        }
    }

    /// Takes note of how many packets came; returns whether all came that were asked for. If not,
    /// the burst is over.
    #[inline]
    pub fn came(&mut self, packets: usize) -> bool {
        self.begins = false;
        let all = packets == usize::from(self.asked);
        self.left = match all {
            true => self.left.saturating_sub(packets as u64),
            false => 0,
        };
        all
    }

    /// What a task that pulls as fast as it can does next, `packets` having come: it goes on with
    /// the burst, or is scheduled again if there may be more.
    #[inline]
    pub fn goes_on(
        &mut self,
        cx: &mut Cx<'_>,
        packets: usize,
        task: TaskId,
        signal: &Signal,
    ) -> Ran {
        let all = self.came(packets);
        if self.is_under_way() {
            return Ran::More;
        }
        if all || cx.is_active(signal) {
            cx.schedule(task);
        }
        Ran::worked(packets > 0)
    }

    /// As [`goes_on`](Self::goes_on), if the next burst's `size` is known: it is asked for at once.
    #[inline]
    pub fn repeats(
        &mut self,
        cx: &mut Cx<'_>,
        packets: usize,
        task: TaskId,
        signal: &Signal,
        size: u64,
    ) -> Ran {
        if packets != usize::from(self.asked) || u64::from(self.asked) != self.left {
            return self.goes_on(cx, packets, task, signal);
        }
        self.left = 0;
        match self.pull(cx, size) {
            Ran::Pull(pull) => {
                self.begins = true;
                Ran::Again(pull)
            }
            _ => {
                cx.schedule(task);
                Ran::Worked
            }
        }
    }

    /// Whether a burst is under way.
    #[inline]
    pub fn is_under_way(&self) -> bool {
        self.left > 0
    }
}
