//! Turns of tasks, of which one may stand for several.
//!
//! A task that moves a packet each turn would cost more than what it does. So it takes as many turns as make a batch at
//! once, if nobody can tell: no packet may stop the driver or write a handler, and no queue becomes full. The scheduler
//! charges it for each.

use alloc::collections::{BTreeMap, BTreeSet};

use super::Cx;
use crate::prelude::*;
use crate::{Link, Storage};

/// The queues that packets of an element come to.
#[derive(Default)]
pub struct Queues(Vec<Queue>);

struct Queue {
    storage: Link<dyn Storage>,
    /// Ways that lead there: a packet may come by each.
    ways: usize,
}

/// A quarter of its room may be taken without a look at a queue: elements on the way may make several packets of one.
const PARTS: usize = 4;

impl Queues {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Packets that may be sent without a look at them.
    #[inline]
    fn room(&self, cx: &Cx<'_>) -> usize {
        let rooms = self.0.iter().map(|queue| {
            let room = cx.view(queue.storage).map_or(Some(0), Storage::room);
            room.map_or(usize::MAX, |room| room / queue.ways)
        });
        rooms.min().unwrap_or(usize::MAX)
    }
}

impl Cx<'_> {
    /// The queues that packets pushed by an output come to first. To be called when the element is initialized.
    pub fn queues_behind(&self, port: usize) -> Queues {
        let graph = &self.engine.graph;
        let next = |id: ElementId| {
            let outputs = &graph.info(id).outputs;
            let pushed = (0..outputs.len()).filter(|port| outputs[*port]);
            pushed.flat_map(move |port| graph.downstream(id, port).map(|(to, _)| to))
        };
        let storage = |id: ElementId| self.link::<dyn Storage>(id);
        let first = || graph.downstream(self.id, port).map(|(to, _)| to);
        // Each element behind all that lead to it, but for those in circles.
        let mut order = Vec::new();
        let mut seen = BTreeSet::new();
        let mut pending: Vec<_> = first().map(|id| (id, false)).collect();
        while let Some((id, are_next_done)) = pending.pop() {
            if are_next_done {
                order.push(id);
            } else if seen.insert(id) {
                pending.push((id, true));
                if storage(id).is_none() {
                    pending.extend(next(id).map(|id| (id, false)));
                }
            }
        }
        let mut ways: BTreeMap<ElementId, usize> = BTreeMap::new();
        first().for_each(|id| *ways.entry(id).or_default() += 1);
        let mut queues = Vec::new();
        for id in order.into_iter().rev() {
            let own = ways.get(&id).copied().unwrap_or(0);
            if let Some(storage) = storage(id) {
                let ways = own.saturating_mul(PARTS).max(1);
                queues.push(Queue { storage, ways });
                continue;
            }
            for to in next(id) {
                let ways = ways.entry(to).or_default();
                *ways = ways.saturating_add(own);
            }
        }
        Queues(queues)
    }

    /// How many turns, in which it moves `size` packets each, a task that runs may take as one: as many as are left, make
    /// a batch, and fill none of the queues that the packets come to. It is to be [charged](Self::charge_turns) for them.
    #[inline]
    pub fn turns(&self, size: u64, queues: &Queues) -> u64 {
        let left = self.engine.scheduler.turns as u64;
        self.most_turns(size, queues).min(1 + left)
    }

    /// The same, if many are left.
    #[inline]
    pub fn most_turns(&self, size: u64, queues: &Queues) -> u64 {
        let scheduler = &self.engine.scheduler;
        if self.engine.threads.partition.is_some() || scheduler.goes_turn_by_turn() {
            return 1;
        }
        let most = self.engine.walk.limit;
        if most as u64 <= size {
            return 1;
        }
        let most = most.min(queues.room(self));
        let turns = (most as u64).checked_div(size).unwrap_or(1);
        turns.max(1)
    }

    /// Charges the task that runs for turns that it took, or will have taken at its end.
    #[inline]
    pub fn charge_turns(&mut self, turns: u64) {
        if turns > 1 {
            self.engine.scheduler.charge(turns - 1);
        }
    }

    /// Announces that a packet which comes to the element may make it stop the driver or write a handler, or that the
    /// element looks at how full a queue is. Tasks then take their turns one by one.
    pub fn may_interrupt(&mut self) {
        self.engine.scheduler.may_be_interrupted = true;
    }

    /// Says that the element will stop the driver or write a handler soon, or no longer: until then, tasks take their
    /// turns one by one, so that all have had theirs.
    pub fn interrupts_soon(&mut self, is_soon: bool) {
        self.engine.scheduler.set_interrupts_soon(is_soon);
    }
}
